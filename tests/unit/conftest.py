"""Fixtures of all unit tests."""

from __future__ import annotations

import os

import pytest
from trio.testing import MockClock


@pytest.fixture
def clock(autojump_clock: MockClock) -> MockClock:
    """The virtual clock, which jumps when all tasks wait."""
    return autojump_clock


@pytest.fixture(autouse=True, scope="session")
def _skip_fsync() -> None:
    """Skip fsync: it takes most of the time of tests that write many small files, and no test sees its effect."""
    os.fsync = lambda fd: None  # noqa: ARG005 - its name is part of its type
