"""`cuggino setup`: a dialogue that writes the configuration of a project."""
