"""The state file of a watch over a pull request: Markdown that a person may read and edit.

`parse` and `render` are inverse to each other. Sections that are not ours stay behind the section that they followed.
What cannot be understood is an error that names the line: nothing is guessed or dropped.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any, TypeVar

import msgspec

from cuggino.ci.state import CiState, ForeignSection, LogEntry, Push, Reply, Rerun
from cuggino.errors import StorageError

_TITLE = "# CI Watch State: PR #"
_METADATA = "Metadata"
_CHECKS, _THREADS, _ATTEMPTS = "Handled Checks", "Handled Threads", "Fix Attempts"
_LOG, _STATUS = "Actions Log", "Latest Status"
_RERUNS, _LEFT, _IN_FLIGHT = "Run Again", "Left to a Person", "In Flight"
_EXPECTED, ACCEPTED = "Expected Checks", "Accepted Missing Checks"
_ALWAYS = (_METADATA, _CHECKS, _THREADS, _ATTEMPTS, _LOG, _STATUS)
_WHEN_NEEDED = (_RERUNS, _LEFT, _EXPECTED, ACCEPTED, _IN_FLIGHT)
_NOTE = " — AIMD poll interval (30\N{EN DASH}300)"
_NEVER = "never"

T = TypeVar("T")


def render(state: CiState) -> str:
    """Return the file's content."""
    sections: dict[str, list[str]] = {
        _METADATA: [
            f"- head_sha: {state.head}",
            f"- last_push_time: {_NEVER if state.last_push is None else _iso(state.last_push)}",
            f"- iteration: {state.iteration}",
            f"- started_at: {_iso(state.started)}",
            f"- sleep_interval: {state.interval}{_NOTE}",
        ],
        _CHECKS: [f"- {name}" for name in state.handled_checks],
        _THREADS: [f"- {thread} {comment}" for thread, comment in state.handled_threads.items()],
        _ATTEMPTS: [f"- {name}: {count}" for name, count in state.attempts.items()],
        _LOG: [f"- [{_iso(entry.at)}] {entry.text}" for entry in state.log],
        _STATUS: [state.status] if state.status else [],
        _RERUNS: [f"- {rerun.head} {rerun.run} {rerun.check}" for rerun in state.reruns],
        _LEFT: [f"- {what}" for what in state.left],
        _EXPECTED: [f"- {label}" for label in state.expected],
        ACCEPTED: [f"- {label}" for label in state.accepted],
        _IN_FLIGHT: [_operation(each) for each in state.in_flight],
    }
    lines = [f"{_TITLE}{state.number}", ""]
    for heading, content in sections.items():
        if content or heading in _ALWAYS:
            lines += [f"## {heading}", *content, ""]
        for foreign in state.foreign:
            if foreign.behind == heading:
                lines += [*foreign.lines, ""]
    return "\n".join(lines[:-1]) + "\n"


def _operation(operation: Push | Reply) -> str:
    if isinstance(operation, Push):
        return f"- push {operation.onto} {operation.commit} {operation.kind} {operation.what}"
    return f"- answer {operation.thread} {operation.comment}"


def _iso(at: datetime) -> str:
    return at.astimezone(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


class _StateLine(msgspec.Struct, frozen=True):
    number: int
    text: str


class _BrokenLine(Exception):
    def __init__(self, line: _StateLine, reason: str) -> None:
        self.line = line.number
        self.reason = reason


def parse(text: str, number: int, where: str) -> CiState:
    """Return the state of the pull request `number`. Raise StorageError, which names `where` and the line."""
    try:
        return _parse(text, number)
    except _BrokenLine as broken:
        raise StorageError(
            f"{where}, line {broken.line}: {broken.reason}.",
            advice="Fix the line, or delete the file to start over with nothing handled.",
        ) from None


def _parse(text: str, number: int) -> CiState:
    lines = [_StateLine(place, line.removesuffix("\r")) for place, line in enumerate(text.split("\n"), 1)]
    title = next((line for line in lines if line.text.strip()), _StateLine(1, ""))
    if title.text.rstrip() != f"{_TITLE}{number}":
        raise _BrokenLine(title, f"expected the title `{_TITLE}{number}`")
    sections, foreign = _sections(lines[title.number :])
    if _METADATA not in sections:
        raise _BrokenLine(title, f"no section `## {_METADATA}` follows")

    def content(name: str) -> list[_StateLine]:
        return sections[name][1:] if name in sections else []

    def entries(name: str, meaning: Callable[[str], T]) -> Iterator[T]:
        return (_entry(line, meaning) for line in content(name))

    return CiState(
        number=number,
        **_metadata(*sections[_METADATA]),
        handled_checks=tuple(dict.fromkeys(entries(_CHECKS, str))),
        handled_threads=dict(entries(_THREADS, _thread)),
        attempts=dict(entries(_ATTEMPTS, _attempt)),
        log=tuple(entries(_LOG, _log_entry)),
        status=_status(content(_STATUS)),
        reruns=tuple(entries(_RERUNS, _rerun)),
        left=tuple(dict.fromkeys(entries(_LEFT, str))),
        expected=tuple(dict.fromkeys(entries(_EXPECTED, str))),
        accepted=tuple(dict.fromkeys(entries(ACCEPTED, str))),
        in_flight=tuple(entries(_IN_FLIGHT, _in_flight)),
        foreign=foreign,
    )


def _sections(lines: list[_StateLine]) -> tuple[dict[str, list[_StateLine]], tuple[ForeignSection, ...]]:
    """Return our sections by name, each as its heading and its lines that are not blank, and the others."""
    ours: dict[str, list[_StateLine]] = {}
    foreign: list[tuple[str, list[str]]] = []
    name, behind, known = "", "", False
    for line in lines:
        if line.text.startswith("## "):
            name = line.text[3:].strip()
            known = name in _ALWAYS or name in _WHEN_NEEDED
            if known and name in ours:
                raise _BrokenLine(line, f"a second section `## {name}`")
            if known:
                ours[name] = [line]
                behind = name if name in _ALWAYS else behind
            else:
                foreign.append((behind or _METADATA, [line.text]))
        elif known:
            if line.text.strip():
                ours[name].append(line)
        elif name:
            foreign[-1][1].append(line.text)
        elif line.text.strip():
            raise _BrokenLine(line, "expected a section, `## …`")
    return ours, tuple(ForeignSection(before, _without_blank_end(content)) for before, content in foreign)


def _without_blank_end(lines: list[str]) -> tuple[str, ...]:
    while not lines[-1].strip():
        lines.pop()
    return tuple(lines)


def _status(lines: list[_StateLine]) -> str:
    if len(lines) > 1:
        raise _BrokenLine(lines[1], "expected one line in this section")
    return lines[0].text.strip() if lines else ""


def _metadata(heading: _StateLine, *lines: _StateLine) -> dict[str, Any]:
    meanings: dict[str, tuple[str, Callable[[str], Any]]] = {
        "head_sha": ("head", _hash),
        "last_push_time": ("last_push", lambda value: None if value in ("", _NEVER) else _time(value)),
        "iteration": ("iteration", lambda value: _count(value, 0)),
        "started_at": ("started", _time),
        "sleep_interval": ("interval", lambda value: _count(value.partition(" ")[0], 1)),
    }
    found: dict[str, Any] = {}

    def read(entry: str) -> None:
        key, colon, value = entry.partition(":")
        if not colon or key not in meanings:
            raise ValueError(f"expected one of {', '.join(meanings)}")
        field, meaning = meanings[key]
        if field in found:
            raise ValueError(f"a second {key}")
        try:
            found[field] = meaning(value.strip())
        except ValueError as error:
            raise ValueError(f"{key}: {error}") from None

    for line in lines:
        _entry(line, read)
    for key, (field, _) in meanings.items():
        if field not in found:
            raise _BrokenLine(heading, f"no {key} follows")
    return found


# ---- entries, which raise ValueError


def _entry(line: _StateLine, meaning: Callable[[str], T]) -> T:
    """Return the meaning of the entry on this line."""
    if not line.text.startswith("- ") or not line.text[2:].strip():
        raise _BrokenLine(line, "expected an entry, `- …`")
    try:
        return meaning(line.text[2:].strip())
    except ValueError as error:
        raise _BrokenLine(line, str(error)) from None


def _words(entry: str, count: int, expected: str) -> list[str]:
    """Return the first words of an entry; the last one is all the rest."""
    words = entry.split(" ", count - 1)
    if len(words) != count or not all(word.strip() for word in words):
        raise ValueError(f"expected `- {expected}`")
    return [*words[:-1], words[-1].strip()]


def _hash(value: str) -> str:
    if not re.fullmatch(r"[0-9a-f]{7,64}", value):
        raise ValueError("expected a commit's hash")
    return value


def _time(value: str) -> datetime:
    try:
        at = datetime.fromisoformat(value)
    except ValueError:
        raise ValueError("expected a time such as 2026-01-31T12:00:00Z") from None
    return at.replace(tzinfo=UTC) if at.tzinfo is None else at.astimezone(UTC)


def _count(value: str, least: int) -> int:
    if not (value.isascii() and value.isdecimal()) or len(value) > 9 or int(value) < least:
        raise ValueError(f'expected an integer ≥ {least}, got "{value}"')
    return int(value)


def _thread(entry: str) -> tuple[str, str]:
    thread, comment = _words(entry, 2, "<thread id> <id of its last comment>")
    return thread, comment


def _attempt(entry: str) -> tuple[str, int]:
    name, colon, count = entry.rpartition(":")
    if not colon or not name.strip():
        raise ValueError("expected `- <check name>: <count>`")
    return name.strip(), _count(count.strip(), 0)


def _log_entry(entry: str) -> LogEntry:
    found = re.fullmatch(r"\[([^]]*)\] (.*)", entry)
    if found is None:
        raise ValueError("expected `- [<time>] <what was done>`")
    return LogEntry(_time(found[1].strip()), found[2].strip())


def _rerun(entry: str) -> Rerun:
    return Rerun(*_words(entry, 3, "<head> <run> <check name>"))


def _in_flight(entry: str) -> Push | Reply:
    kind = entry.partition(" ")[0]
    if kind == "push":
        _, onto, commit, fixes, what = _words(entry, 5, "push <head> <commit> <check or thread> <what it fixes>")
        if fixes in ("check", "thread"):
            return Push(onto, commit, "check" if fixes == "check" else "thread", what)
    if kind == "answer":
        return Reply(*_words(entry, 3, "answer <thread id> <id of its last comment>")[1:])
    raise ValueError("expected `- push …` or `- answer …`")
