"""The memory of a watch over a pull request: a Markdown file that a person may read and edit.

Reading and writing are inverse to each other. Sections that are not ours stay, behind the section that they stood
behind. What cannot be understood is an error that names the line; nothing is ever guessed or dropped.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any, Literal, TypeVar

import msgspec

from cuggino.errors import StorageError

FIRST_INTERVAL = 60
"""Seconds between two polls, at first."""

_TITLE = "# CI Watch State: PR #"
_METADATA = "Metadata"
_CHECKS, _THREADS, _ATTEMPTS = "Handled Checks", "Handled Threads", "Fix Attempts"
_LOG, _STATUS = "Actions Log", "Latest Status"
_AGAIN, _LEFT, _FLIGHT = "Run Again", "Left to a Person", "In Flight"
_ALWAYS = (_METADATA, _CHECKS, _THREADS, _ATTEMPTS, _LOG, _STATUS)
_WHEN_NEEDED = (_AGAIN, _LEFT, _FLIGHT)
_NOTE = " — AIMD poll interval (30\N{EN DASH}300)"
_NEVER = "never"

T = TypeVar("T")


class LogEntry(msgspec.Struct, frozen=True):
    at: datetime
    text: str


class RunAgain(msgspec.Struct, frozen=True):
    """A failed run of a check that was, or is being, run again: its next failure on this head is a real one."""

    head: str
    run: str
    check: str


class Push(msgspec.Struct, frozen=True):
    """`commit` is about to become the branch's, whose head is `onto`. It mends `what`: a check, by its name, or what
    a thread is about."""

    onto: str
    commit: str
    kind: Literal["check", "thread"]
    what: str


class Reply(msgspec.Struct, frozen=True):
    """An answer to the thread is about to be posted, whose last comment is `comment`."""

    thread: str
    comment: str


class Foreign(msgspec.Struct, frozen=True):
    """A section that is not ours, with its heading, behind that one of ours which is always there."""

    behind: str
    lines: tuple[str, ...]


class State(msgspec.Struct, frozen=True, kw_only=True):
    """Texts are single lines, see `one_line`. `again`, `left` and `in_flight` have sections only while they hold
    something."""

    number: int
    head: str
    last_push: datetime | None = None
    iteration: int = 0
    started: datetime
    interval: int = FIRST_INTERVAL
    checks: tuple[str, ...] = ()
    """Names of handled checks."""
    threads: Mapping[str, str] = {}
    """Handled threads → the id of the last comment that each had then."""
    attempts: Mapping[str, int] = {}
    """Names of checks → how often an agent has tried to mend them."""
    log: tuple[LogEntry, ...] = ()
    status: str = ""
    again: tuple[RunAgain, ...] = ()
    left: tuple[str, ...] = ()
    """What the person was told of as left to them."""
    in_flight: tuple[Push | Reply, ...] = ()
    """What is about to be done outside."""
    foreign: tuple[Foreign, ...] = ()


def one_line(text: str) -> str:
    """Foreign text, as the file can hold it."""
    return " ".join(part for part in re.split(r"[\r\n]+", text) if part).strip()


# ---- writing ----------------------------------------------------------------------------------


def render(state: State) -> str:
    """The file's content."""
    sections: dict[str, list[str]] = {
        _METADATA: [
            f"- head_sha: {state.head}",
            f"- last_push_time: {_NEVER if state.last_push is None else _iso(state.last_push)}",
            f"- iteration: {state.iteration}",
            f"- started_at: {_iso(state.started)}",
            f"- sleep_interval: {state.interval}{_NOTE}",
        ],
        _CHECKS: [f"- {name}" for name in state.checks],
        _THREADS: [f"- {thread} {comment}" for thread, comment in state.threads.items()],
        _ATTEMPTS: [f"- {name}: {count}" for name, count in state.attempts.items()],
        _LOG: [f"- [{_iso(entry.at)}] {entry.text}" for entry in state.log],
        _STATUS: [state.status] if state.status else [],
        _AGAIN: [f"- {again.head} {again.run} {again.check}" for again in state.again],
        _LEFT: [f"- {what}" for what in state.left],
        _FLIGHT: [_flight(each) for each in state.in_flight],
    }
    lines = [f"{_TITLE}{state.number}", ""]
    for heading, content in sections.items():
        if content or heading in _ALWAYS:
            lines += [f"## {heading}", *content, ""]
        for foreign in state.foreign:
            if foreign.behind == heading:
                lines += [*foreign.lines, ""]
    return "\n".join(lines[:-1]) + "\n"


def _flight(flight: Push | Reply) -> str:
    if isinstance(flight, Push):
        return f"- push {flight.onto} {flight.commit} {flight.kind} {flight.what}"
    return f"- answer {flight.thread} {flight.comment}"


def _iso(at: datetime) -> str:
    return at.astimezone(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


# ---- reading ----------------------------------------------------------------------------------


class _Line(msgspec.Struct, frozen=True):
    number: int
    text: str


class _Broken(Exception):
    def __init__(self, line: int, reason: str) -> None:
        self.line = line
        self.reason = reason


def parse(text: str, number: int, where: str) -> State:
    """The state in `text`, of the pull request `number`. StorageError, with the line in the file `where`."""
    try:
        return _parse(text, number)
    except _Broken as broken:
        raise StorageError(
            f"{where}, line {broken.line}: {broken.reason}",
            advice="Mend the line. Or remove the file: the watch begins anew then, and nothing counts as handled.",
        ) from None


def _parse(text: str, number: int) -> State:
    lines = [_Line(place, line.removesuffix("\r")) for place, line in enumerate(text.split("\n"), 1)]
    title = next((line for line in lines if line.text.strip()), _Line(1, ""))
    if title.text.rstrip() != f"{_TITLE}{number}":
        raise _Broken(title.number, f"it does not begin with `{_TITLE}{number}`.")
    sections, foreign = _sections(lines[title.number :])
    if _METADATA not in sections:
        raise _Broken(title.number, f"there is no section `## {_METADATA}` below it.")
    heading, content = sections[_METADATA]
    metadata = _metadata(heading, content)

    def entries(name: str, meaning: Callable[[_Line], T]) -> Iterator[T]:
        for line in sections.get(name, (_Line(0, ""), []))[1]:
            yield meaning(line)

    return State(
        number=number,
        **metadata,
        checks=tuple(dict.fromkeys(entries(_CHECKS, _item))),
        threads=dict(entries(_THREADS, _thread)),
        attempts=dict(entries(_ATTEMPTS, _attempt)),
        log=tuple(entries(_LOG, _entry)),
        status=_status(sections.get(_STATUS, (_Line(0, ""), []))[1]),
        again=tuple(entries(_AGAIN, _again)),
        left=tuple(dict.fromkeys(entries(_LEFT, _item))),
        in_flight=tuple(entries(_FLIGHT, _in_flight)),
        foreign=foreign,
    )


def _sections(lines: list[_Line]) -> tuple[dict[str, tuple[_Line, list[_Line]]], tuple[Foreign, ...]]:
    """Ours by name, each with its heading and the lines that are not blank; and the others."""
    ours: dict[str, tuple[_Line, list[_Line]]] = {}
    foreign: list[tuple[str, list[str]]] = []
    name, behind, known = "", "", False
    for line in lines:
        if line.text.startswith("## "):
            name = line.text[3:].strip()
            known = name in _ALWAYS or name in _WHEN_NEEDED
            if known and name in ours:
                raise _Broken(line.number, f"there is a second section `## {name}`.")
            if known:
                ours[name] = (line, [])
                behind = name if name in _ALWAYS else behind
            else:
                foreign.append((behind or _METADATA, [line.text]))
        elif known:
            if line.text.strip():
                ours[name][1].append(line)
        elif name:
            foreign[-1][1].append(line.text)
        elif line.text.strip():
            raise _Broken(line.number, "a section was expected, `## …`.")
    return ours, tuple(Foreign(before, _without_blank_end(content)) for before, content in foreign)


def _without_blank_end(lines: list[str]) -> tuple[str, ...]:
    while not lines[-1].strip():
        lines.pop()
    return tuple(lines)


def _item(line: _Line) -> str:
    if not line.text.startswith("- ") or not line.text[2:].strip():
        raise _Broken(line.number, "an entry was expected, `- …`.")
    return line.text[2:].strip()


def _metadata(heading: _Line, lines: list[_Line]) -> dict[str, Any]:
    meanings: dict[str, tuple[str, Callable[[str], Any]]] = {
        "head_sha": ("head", _hash),
        "last_push_time": ("last_push", lambda value: None if value in ("", _NEVER) else _time(value)),
        "iteration": ("iteration", lambda value: _count(value, 0)),
        "started_at": ("started", _time),
        "sleep_interval": ("interval", lambda value: _count(value.partition(" ")[0], 1)),
    }
    found: dict[str, Any] = {}
    for line in lines:
        key, colon, value = _item(line).partition(":")
        if not colon or key not in meanings:
            raise _Broken(line.number, f"one of {', '.join(meanings)} was expected.")
        field, meaning = meanings[key]
        if field in found:
            raise _Broken(line.number, f"{key} is there twice.")
        try:
            found[field] = meaning(value.strip())
        except ValueError as error:
            raise _Broken(line.number, f"{key}: {error}") from None
    for key, (field, _) in meanings.items():
        if field not in found:
            raise _Broken(heading.number, f"there is no {key} below it.")
    return found


def _hash(value: str) -> str:
    if not re.fullmatch(r"[0-9a-f]{7,64}", value):
        raise ValueError("a commit's hash was expected.")
    return value


def _time(value: str) -> datetime:
    try:
        at = datetime.fromisoformat(value)
    except ValueError:
        raise ValueError("a time was expected, such as 2026-01-31T12:00:00Z.") from None
    return at.replace(tzinfo=UTC) if at.tzinfo is None else at.astimezone(UTC)


def _count(value: str, least: int) -> int:
    if not (value.isascii() and value.isdecimal()) or len(value) > 9 or int(value) < least:
        raise ValueError(f"a whole number was expected, {least} or more.")
    return int(value)


def _words(line: _Line, count: int, expected: str) -> list[str]:
    """The first words of an entry, and all the rest of it as the last one."""
    words = _item(line).split(" ", count - 1)
    if len(words) != count or not all(word.strip() for word in words):
        raise _Broken(line.number, f"`- {expected}` was expected.")
    return words


def _thread(line: _Line) -> tuple[str, str]:
    thread, comment = _words(line, 2, "<thread id> <id of its last comment>")
    return thread, comment.strip()


def _attempt(line: _Line) -> tuple[str, int]:
    name, colon, count = _item(line).rpartition(":")
    try:
        if not colon or not name.strip():
            raise ValueError("`- <check name>: <count>` was expected.")
        return name.strip(), _count(count.strip(), 0)
    except ValueError as error:
        raise _Broken(line.number, str(error)) from None


def _entry(line: _Line) -> LogEntry:
    found = re.fullmatch(r"\[([^]]*)\] (.*)", _item(line))
    if found is None:
        raise _Broken(line.number, "`- [<time>] <what was done>` was expected.")
    try:
        return LogEntry(_time(found[1].strip()), found[2].strip())
    except ValueError as error:
        raise _Broken(line.number, str(error)) from None


def _status(lines: list[_Line]) -> str:
    if len(lines) > 1:
        raise _Broken(lines[1].number, "one line was expected in this section.")
    return lines[0].text.strip() if lines else ""


def _again(line: _Line) -> RunAgain:
    head, run, check = _words(line, 3, "<head> <run> <check name>")
    return RunAgain(head, run, check.strip())


def _in_flight(line: _Line) -> Push | Reply:
    kind = _item(line).partition(" ")[0]
    if kind == "push":
        _, onto, commit, mends, what = _words(line, 5, "push <head> <commit> <check or thread> <what it mends>")
        if mends in ("check", "thread"):
            return Push(onto, commit, "check" if mends == "check" else "thread", what.strip())
    if kind == "answer":
        _, thread, comment = _words(line, 3, "answer <thread id> <id of its last comment>")
        return Reply(thread, comment.strip())
    raise _Broken(line.number, "`- push …` or `- answer …` was expected.")
