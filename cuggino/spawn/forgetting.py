"""Conversations that nobody will go on with: what the agent keeps of them in files of its own is removed."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path

from cuggino.agents.agent import Backend


def forget(backend: Backend, environment: Mapping[str, str], cwd: Path, conversation: str) -> None:
    """`environment` and `cwd` are those that the agent had, `conversation` is its own name of it."""
    for path in backend.history(environment, cwd, conversation):
        shutil.rmtree(path, ignore_errors=True) if path.is_dir() else path.unlink(missing_ok=True)
