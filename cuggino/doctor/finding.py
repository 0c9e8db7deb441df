"""What an examination found, and how it is shown. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum

import msgspec

from cuggino.output.page import BOLD_GREEN, BOLD_RED, BOLD_YELLOW, DIM, Page
from cuggino.output.text import visible_name


class Level(StrEnum):
    OK = "ok"
    WARNING = "warning"
    """Work can go on, in part or not for long."""
    FAILURE = "failure"
    """Work would fail."""


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that was looked at. `mend` is the command, or else the words, for what to do about it."""

    name: str
    level: Level
    text: str
    mend: str = ""


class Diagnosis(msgspec.Struct, frozen=True, kw_only=True):
    """What `cuggino doctor --json` prints. `healthy`: nothing failed."""

    healthy: bool
    findings: tuple[Finding, ...]


def report(findings: tuple[Finding, ...]) -> Diagnosis:
    return Diagnosis(healthy=all(it.level is not Level.FAILURE for it in findings), findings=findings)


def ok(name: str, text: str) -> Finding:
    return Finding(name=name, level=Level.OK, text=text)


def warning(name: str, text: str, mend: str = "") -> Finding:
    return Finding(name=name, level=Level.WARNING, text=text, mend=mend)


def failure(name: str, text: str, mend: str = "") -> Finding:
    return Finding(name=name, level=Level.FAILURE, text=text, mend=mend)


_STYLES = {Level.OK: BOLD_GREEN, Level.WARNING: BOLD_YELLOW, Level.FAILURE: BOLD_RED}
_LEVEL_COLUMNS = max(map(len, Level)) + 2


def render(report: Diagnosis, page: Page) -> list[str]:
    """A line for each finding, what mends it below; then how many warnings and failures there are."""
    columns = max((len(it.name) for it in report.findings), default=0) + 2
    lines = [line for it in report.findings for line in _lines(it, columns, page)]
    failures, warnings = (_count(report, level) for level in (Level.FAILURE, Level.WARNING))
    if failures:
        verdict = page.paint(BOLD_RED, [f"{_number(failures, 'failure')}, {_number(warnings, 'warning')}."])
    elif warnings:
        verdict = page.paint(BOLD_YELLOW, [f"cuggino can work here, with {_number(warnings, 'warning')}."])
    else:
        verdict = page.paint(BOLD_GREEN, ["cuggino can work here."])
    return [*lines, "", *verdict]


def _lines(finding: Finding, columns: int, page: Page) -> Iterator[str]:
    level = page.paint(_STYLES[finding.level], [str(finding.level)])[0]
    space = " " * (_LEVEL_COLUMNS - len(finding.level))
    first, *more = finding.text.strip().splitlines() or [""]
    yield f"{level}{space}{finding.name:{columns}}{visible_name(first)}"
    margin = " " * (_LEVEL_COLUMNS + columns)
    yield from (f"{margin}{visible_name(line)}" for line in more)
    if finding.mend:
        yield from page.paint(DIM, [f"{margin}→ {visible_name(line)}" for line in finding.mend.splitlines()])


def _count(report: Diagnosis, level: Level) -> int:
    return sum(it.level is level for it in report.findings)


def _number(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
