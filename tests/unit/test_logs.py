"""Log files: how they are made, and which are deleted."""

from __future__ import annotations

import os
import stat
import time
from pathlib import Path

import pytest

from cuggino import logs
from cuggino.logs import open_log, prune_logs
from cuggino.project import Project

DAY = 86400


@pytest.fixture
def project(tmp_path: Path) -> Project:
    project = Project(tmp_path)
    project.prepare()
    return project


def names(project: Project) -> list[str]:
    return sorted(path.name for path in project.logs.iterdir())


def test_a_new_log_is_empty_and_private_and_sorts_last(project: Project) -> None:
    with open_log(project) as first, open_log(project) as second:
        assert names(project) == [first.name, second.name]
        for path in (first, second):
            assert (path.suffix, path.read_bytes(), stat.S_IMODE(path.stat().st_mode)) == (".jsonl", b"", 0o600)


def test_the_newest_100_logs_of_the_last_30_days_are_kept(project: Project) -> None:
    made = []
    for _ in range(logs.LOGS_KEPT + 3):
        with open_log(project) as path:
            made.append(path)
    os.utime(made[-2], (0, time.time() - 31 * DAY))
    os.utime(made[-1], (0, time.time() - 29 * DAY))
    prune_logs(project, time.time())
    assert names(project) == [path.name for path in (*made[3:-2], made[-1])]


def test_the_log_of_a_living_process_is_kept(project: Project) -> None:
    with open_log(project) as path:
        prune_logs(project, time.time() + 31 * DAY)
        assert names(project) == [path.name]
    prune_logs(project, time.time() + 31 * DAY)
    assert names(project) == []


def test_pruning_a_project_without_logs_does_nothing(tmp_path: Path) -> None:
    prune_logs(Project(tmp_path), time.time())
    assert list(tmp_path.iterdir()) == []
