"""Turn specs into reviewed commits, with coding agents as child processes."""

__version__ = "0.1.0"
