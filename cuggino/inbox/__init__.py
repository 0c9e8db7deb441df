"""The directories between a person and cuggino: backlog, spec issues, findings. They hold plain files.

`folder` finds, reads and deletes entries, `adding` creates a backlog item, `listing` prints them.
"""
