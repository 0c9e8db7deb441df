"""What unit tests have in common."""

from __future__ import annotations

import os

import pytest


@pytest.fixture(autouse=True, scope="session")
def _files_need_not_survive_a_power_cut() -> None:
    """fsync takes most of the time of tests that write many small files; what it promises no test can see."""
    os.fsync = lambda fd: None  # noqa: ARG005 - its name is part of its type
