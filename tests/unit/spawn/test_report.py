"""The Markdown of a spawn's report."""

from __future__ import annotations

from itertools import pairwise
from typing import get_args

import pytest
from markdown_it import MarkdownIt

from cuggino.events import SpawnStatus
from cuggino.spawn.report import ChangedFile, SpawnReport, render_report

ID = "01a20036-613d-7871-98ae-4c8044faa5da"


def test_a_complete_report() -> None:
    report = SpawnReport(
        id=ID,
        title="Greet by name",
        status="success",
        seconds=222,
        folder=f".cuggino/spawns/{ID}/",
        pull_request=(7, "https://github.com/o/r/pull/7"),
        branch="spawn/x",
        changes=[
            ChangedFile(path="greet.py", added=12, removed=3, what="changed"),
            ChangedFile(path="logo.png", added=None, removed=None, what="new"),
        ],
        summary="It greets now.\n",
        recovery=["round 1: Bash(make test)"],
        cost="$0.42, 52,345 tokens in, 678 out",
    )
    assert render_report(report) == (
        f"## Spawn Complete: Greet by name (spawn-id: {ID})\n\n"
        "**Status:** Success (3m 42s)\n"
        "**PR:** #7 - https://github.com/o/r/pull/7\n\n"
        "### Changes\n"
        "- `greet.py` (+12, -3) - changed\n"
        "- `logo.png` (binary) - new\n\n"
        "### Summary\nIt greets now.\n\n"
        "### Recovery\n- round 1: Bash(make test)\n\n"
        "### Cost\n$0.42, 52,345 tokens in, 678 out\n\n"
        f"### Logs\nDebug logs: `.cuggino/spawns/{ID}/`\n"
    )


@pytest.mark.parametrize("status", get_args(SpawnStatus))
def test_empty_sections_are_left_out(status: SpawnStatus) -> None:
    report = render_report(SpawnReport(id=ID, title="t", status=status, seconds=0, folder="p", branch="spawn/x"))
    assert [line for line in report.splitlines() if line.startswith("#")] == [
        f"## Spawn Complete: t (spawn-id: {ID})",
        "### Logs",
    ]
    assert "**Branch:** spawn/x" in report


def test_an_agents_lines_cannot_end_their_fence_and_a_title_cannot_end_its_line() -> None:
    report = render_report(
        SpawnReport(
            id=ID,
            title="a\n### b",
            status="idle-timeout",
            seconds=120,
            folder="p",
            last_lines=["```", "### Not a heading", "`````", "~~~"],
        )
    )
    tokens = MarkdownIt().parse(report)
    headings = [after.content for before, after in pairwise(tokens) if before.type == "heading_open"]
    assert headings == [f"Spawn Complete: a ### b (spawn-id: {ID})", "The agent's last lines", "Logs"]
