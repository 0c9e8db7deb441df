"""git: the operations that cuggino needs, how git is run, and remotes."""

from cuggino.git.repository import DEFAULT_MESSAGE, Git
from cuggino.git.run import git_environment, git_output, run_git

__all__ = ["DEFAULT_MESSAGE", "Git", "git_environment", "git_output", "run_git"]
