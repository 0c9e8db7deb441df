"""The steps that a turn of a script is made of: one strict struct each, told apart by `do`.

A struct's docstring is the step's documentation. `Write` is `{"do": "write", …}`, `IgnoreSignals` is
`{"do": "ignore-signals", …}`; fields are camelCase in the script.
"""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal, TypeAlias

import msgspec

Seconds: TypeAlias = Annotated[float, msgspec.Meta(ge=0)]
Count: TypeAlias = Annotated[int, msgspec.Meta(ge=1)]
Tokens: TypeAlias = Annotated[int, msgspec.Meta(ge=0)]

MarkerName: TypeAlias = Literal[
    "NOTE", "SPEC_ISSUE", "PLAN_COMPLETE", "PROGRESS", "DONE", "APPROVED", "REQUEST_CHANGES", "TO_BE_DISCUSSED"
]
FailureName: TypeAlias = Literal[
    "overloaded",
    "rate-limited",
    "usage-limit",
    "network",
    "no-key",
    "bad-key",
    "no-credit",
    "no-model",
    "refused",
    "too-long",
    "execution",
    "max-turns",
    "max-budget",
    "unknown-session",
    "session-in-use",
    "root",
]
SignalName: TypeAlias = Literal["INT", "TERM", "HUP"]


def _tag(class_name: str) -> str:
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "-", class_name).lower()


class Step(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="camel", tag_field="do", tag=_tag
):
    """Something that the agent does."""


# ---- what it says -----------------------------------------------------------------------------


class Say(Step, frozen=True, kw_only=True):
    """One message. A list is several text blocks of that one message; each streams in `deltas` pieces."""

    text: str | list[str]
    deltas: Count = 2


class Marker(Step, frozen=True, kw_only=True):
    """One message with one marker: `<NAME>text</NAME>`."""

    name: MarkerName
    text: str = ""


class Quote(Step, frozen=True, kw_only=True):
    """One message with a marker in a fenced block: a quotation, which must not count."""

    name: MarkerName
    text: str = ""


class Think(Step, frozen=True, kw_only=True):
    """Takes its time, with a sign of life `every` so many seconds, or silently."""

    seconds: Seconds
    every: Annotated[float, msgspec.Meta(gt=0)] = 0.2
    silent: bool = False


class Subagent(Step, frozen=True, kw_only=True):
    """A sub-agent says something. Its words are not the agent's: markers in them must not count."""

    text: str
    description: str = "look around"


class Big(Step, frozen=True, kw_only=True):
    """One message whose line is exactly `size` bytes long, its line feed not counted."""

    size: Annotated[int, msgspec.Meta(ge=1000)]


class Raw(Step, frozen=True, kw_only=True):
    """A line as it is, whatever it holds."""

    line: str


class Stderr(Step, frozen=True, kw_only=True):
    """A line on stderr."""

    text: str


# ---- what it does -----------------------------------------------------------------------------


class Write(Step, frozen=True, kw_only=True):
    """Writes a file, its folders too. A list is lines. Relative to the working directory."""

    path: str
    text: str | list[str]


class Append(Step, frozen=True, kw_only=True):
    """Adds to the end of a file, which may be new."""

    path: str
    text: str | list[str]


class Read(Step, frozen=True, kw_only=True):
    """Reads a file; a missing one is a failed tool."""

    path: str


class Run(Step, frozen=True, kw_only=True):
    """Runs a shell command, in a session of its own as claude does, and waits for it."""

    command: str


class Tool(Step, frozen=True, kw_only=True):
    """A tool that is only shown. `denied` also reports it as denied by the permissions."""

    name: str
    input: dict[str, Any] = {}
    output: str = ""
    error: bool = False
    denied: bool = False


# ---- how it ends ------------------------------------------------------------------------------


class Usage(Step, frozen=True, kw_only=True):
    """Adds to what the result says that it has cost, in US dollars and tokens."""

    cost: Annotated[float, msgspec.Meta(ge=0)] = 0.0
    input: Tokens = 0
    output: Tokens = 0
    cache_read: Tokens = 0
    cache_creation: Tokens = 0


class Structured(Step, frozen=True, kw_only=True):
    """What the result gives as its structured output."""

    value: Any


class Result(Step, frozen=True, kw_only=True):
    """Prints the result line now and goes on: with `hang` after it, an agent that ends but never exits."""


class Exit(Step, frozen=True, kw_only=True):
    """Exits at once, without a result line."""

    code: Annotated[int, msgspec.Meta(ge=0, le=255)] = 0


class Die(Step, frozen=True, kw_only=True):
    """Kills itself."""

    signal: Literal["KILL", "SEGV", "ABRT", "TERM"] = "KILL"


class Retry(Step, frozen=True, kw_only=True):
    """Says that the provider failed and that it tries again, `times` times, `pause` seconds apart."""

    times: Count = 1
    status: int | None = 529
    error: str = "overloaded"
    pause: Seconds = 0.0


class Fail(Step, frozen=True, kw_only=True):
    """Ends as claude does when it fails. A usage limit says when it resets, if one of the two is given."""

    kind: FailureName
    resets_in: Seconds | None = None
    resets_at: int | None = None


# ---- how it misbehaves ------------------------------------------------------------------------


class Hang(Step, frozen=True, kw_only=True):
    """Does nothing, for ever, silently."""


class IgnoreSignals(Step, frozen=True, kw_only=True):
    """From here on these signals do nothing."""

    signals: list[SignalName] = msgspec.field(default_factory=lambda: ["INT", "TERM", "HUP"])


class OnInterrupt(Step, frozen=True, kw_only=True):
    """From here on SIGINT ends it `after` so many seconds, with this exit code, with a result line or without."""

    after: Seconds = 0.0
    code: Annotated[int, msgspec.Meta(ge=0, le=255)] = 1
    result: bool = True


class Leave(Step, frozen=True, kw_only=True):
    """Starts a process that outlives the agent, for `seconds` at most. `pids` is a file that gets its id."""

    setsid: bool = False
    double_fork: bool = False
    ignore_signals: bool = False
    empty_environment: bool = False
    keep_output: bool = False
    seconds: Seconds = 600.0
    pids: str | None = None


class Chain(Step, frozen=True, kw_only=True):
    """Starts a process that forks and exits every `pause` seconds, each link in a session of its own."""

    pause: Annotated[float, msgspec.Meta(gt=0)] = 0.02
    seconds: Seconds = 60.0
    pids: str | None = None


class Replay(Step, frozen=True, kw_only=True):
    """Plays a recording, line by line, and ends as it ended. `timing` waits as its time stamps say."""

    file: str
    timing: bool = False
    code: Annotated[int, msgspec.Meta(ge=0, le=255)] | None = None


AnyStep: TypeAlias = (
    Say
    | Marker
    | Quote
    | Think
    | Subagent
    | Big
    | Raw
    | Stderr
    | Write
    | Append
    | Read
    | Run
    | Tool
    | Usage
    | Structured
    | Result
    | Exit
    | Die
    | Retry
    | Fail
    | Hang
    | IgnoreSignals
    | OnInterrupt
    | Leave
    | Chain
    | Replay
)
