"""The folders between a person and cuggino: the backlog, spec issues, findings. They are plain files, and stay that.

`folder` finds, reads and removes what is in one, `adding` puts something into the backlog, `listing` shows it.
"""
