"""`cuggino doctor`: looks at everything that must be there to work, and changes nothing. One subject a module."""
