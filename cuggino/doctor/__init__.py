"""`cuggino doctor`: checks everything that cuggino needs, without changing anything; a module for each subject."""
