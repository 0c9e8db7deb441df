"""The findings of an examination, and how they are shown. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum

import msgspec

from cuggino.output.page import BOLD_GREEN, BOLD_RED, BOLD_YELLOW, DIM, Page
from cuggino.output.text import visible_name


class Level(StrEnum):
    OK = "ok"
    WARNING = "warning"
    """Work is possible, but only in part or not for long."""
    FAILURE = "failure"
    """Work would fail."""


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """The result of one check. `fix` is a command, or else a sentence, that says what to do about it."""

    name: str
    level: Level
    text: str
    fix: str = ""


class Diagnosis(msgspec.Struct, frozen=True, kw_only=True):
    """The output of `cuggino doctor --json`. `healthy` if nothing failed."""

    healthy: bool
    findings: tuple[Finding, ...]


def diagnose(findings: tuple[Finding, ...]) -> Diagnosis:
    return Diagnosis(healthy=all(it.level is not Level.FAILURE for it in findings), findings=findings)


def ok(name: str, text: str) -> Finding:
    return Finding(name=name, level=Level.OK, text=text)


def warning(name: str, text: str, fix: str = "") -> Finding:
    return Finding(name=name, level=Level.WARNING, text=text, fix=fix)


def failure(name: str, text: str, fix: str = "") -> Finding:
    return Finding(name=name, level=Level.FAILURE, text=text, fix=fix)


_STYLES = {Level.OK: BOLD_GREEN, Level.WARNING: BOLD_YELLOW, Level.FAILURE: BOLD_RED}
_LEVEL_COLUMNS = max(map(len, Level)) + 2


def render(diagnosis: Diagnosis, page: Page) -> list[str]:
    """Return a line for each finding with its fix below, and a verdict."""
    columns = max((len(it.name) for it in diagnosis.findings), default=0) + 2
    lines = [line for it in diagnosis.findings for line in _lines(it, columns, page)]
    failures, warnings = (_count(diagnosis, level) for level in (Level.FAILURE, Level.WARNING))
    if failures:
        verdict = page.paint(BOLD_RED, [f"{_plural(failures, 'failure')}, {_plural(warnings, 'warning')}."])
    elif warnings:
        verdict = page.paint(BOLD_YELLOW, [f"cuggino can work here, with {_plural(warnings, 'warning')}."])
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
    if finding.fix:
        yield from page.paint(DIM, [f"{margin}→ {visible_name(line)}" for line in finding.fix.splitlines()])


def _count(diagnosis: Diagnosis, level: Level) -> int:
    return sum(it.level is level for it in diagnosis.findings)


def _plural(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
