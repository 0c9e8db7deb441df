"""The steps of a script's turns: one strict struct for each, distinguished by `do`.

`WriteStep` is `{"do": "write", …}`, `IgnoreSignalsStep` is `{"do": "ignore-signals", …}`; fields are camelCase in the
script.
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
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "-", class_name.removesuffix("Step")).lower()


class ScriptStep(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="camel", tag_field="do", tag=_tag
):
    """One action of the agent."""


# ---- messages ---------------------------------------------------------------------------------


class SayStep(ScriptStep, frozen=True, kw_only=True):
    """Send one message. A list is several text blocks of that message; each streams in `deltas` pieces."""

    text: str | list[str]
    deltas: Count = 2


class MarkerStep(ScriptStep, frozen=True, kw_only=True):
    """Send one message with one marker: `<NAME>text</NAME>`."""

    name: MarkerName
    text: str = ""


class QuoteStep(ScriptStep, frozen=True, kw_only=True):
    """Send one message with a marker in a fenced block: a quotation, which must not count."""

    name: MarkerName
    text: str = ""


class ThinkStep(ScriptStep, frozen=True, kw_only=True):
    """Take `seconds`, with a sign of life every `every` seconds, or silently."""

    seconds: Seconds
    every: Annotated[float, msgspec.Meta(gt=0)] = 0.2
    silent: bool = False


class SubagentStep(ScriptStep, frozen=True, kw_only=True):
    """Have a sub-agent say something. Its text is not the agent's: markers in it must not count."""

    text: str
    description: str = "look around"


class BigStep(ScriptStep, frozen=True, kw_only=True):
    """Send one message whose line is exactly `size` bytes long, without its line feed."""

    size: Annotated[int, msgspec.Meta(ge=1000)]


class RawStep(ScriptStep, frozen=True, kw_only=True):
    """Print a line as it is."""

    line: str


class StderrStep(ScriptStep, frozen=True, kw_only=True):
    """Print a line on stderr."""

    text: str


# ---- work -------------------------------------------------------------------------------------


class WriteStep(ScriptStep, frozen=True, kw_only=True):
    """Write a file and its directories. A list is lines. The path is relative to the working directory."""

    path: str
    text: str | list[str]


class AppendStep(ScriptStep, frozen=True, kw_only=True):
    """Append to a file, which may be new."""

    path: str
    text: str | list[str]


class ReadStep(ScriptStep, frozen=True, kw_only=True):
    """Read a file; a missing one is a failed tool."""

    path: str


class RunStep(ScriptStep, frozen=True, kw_only=True):
    """Run a shell command, in a session of its own like claude, and wait for it."""

    command: str


class ToolStep(ScriptStep, frozen=True, kw_only=True):
    """Report the use of a tool without using one. `denied` also reports that the permissions denied it."""

    name: str
    input: dict[str, Any] = {}
    output: str = ""
    error: bool = False
    denied: bool = False


# ---- the end ----------------------------------------------------------------------------------


class UsageStep(ScriptStep, frozen=True, kw_only=True):
    """Add to the cost that the result reports, in US dollars and tokens."""

    cost: Annotated[float, msgspec.Meta(ge=0)] = 0.0
    input: Tokens = 0
    output: Tokens = 0
    cache_read: Tokens = 0
    cache_creation: Tokens = 0


class StructuredStep(ScriptStep, frozen=True, kw_only=True):
    """Set the structured output of the result."""

    value: Any


class ResultStep(ScriptStep, frozen=True, kw_only=True):
    """Print the result line now and continue: followed by `hang`, the agent finishes but never exits."""


class ExitStep(ScriptStep, frozen=True, kw_only=True):
    """Exit at once, without a result line."""

    code: Annotated[int, msgspec.Meta(ge=0, le=255)] = 0


class DieStep(ScriptStep, frozen=True, kw_only=True):
    """Kill the agent's own process."""

    signal: Literal["KILL", "SEGV", "ABRT", "TERM"] = "KILL"


class RetryStep(ScriptStep, frozen=True, kw_only=True):
    """Report `times` times, `pause` seconds apart, that the provider failed and that the agent retries."""

    times: Count = 1
    status: int | None = 529
    error: str = "overloaded"
    pause: Seconds = 0.0


class FailStep(ScriptStep, frozen=True, kw_only=True):
    """End like claude does when it fails. A usage limit reports when it resets, if one of the two is given."""

    kind: FailureName
    resets_in: Seconds | None = None
    resets_at: int | None = None


# ---- misbehaviour -----------------------------------------------------------------------------


class HangStep(ScriptStep, frozen=True, kw_only=True):
    """Do nothing forever, silently."""


class IgnoreSignalsStep(ScriptStep, frozen=True, kw_only=True):
    """Ignore these signals from here on."""

    signals: list[SignalName] = msgspec.field(default_factory=lambda: ["INT", "TERM", "HUP"])


class OnInterruptStep(ScriptStep, frozen=True, kw_only=True):
    """From here on, exit `after` seconds after SIGINT, with this exit code, with a result line or without."""

    after: Seconds = 0.0
    code: Annotated[int, msgspec.Meta(ge=0, le=255)] = 1
    result: bool = True


class LeaveStep(ScriptStep, frozen=True, kw_only=True):
    """Start a process that outlives the agent by up to `seconds`. Its ID is appended to the file `pids`."""

    setsid: bool = False
    double_fork: bool = False
    ignore_signals: bool = False
    empty_environment: bool = False
    keep_output: bool = False
    seconds: Seconds = 600.0
    pids: str | None = None


class ChainStep(ScriptStep, frozen=True, kw_only=True):
    """Start a process that forks and exits every `pause` seconds, each time in a session of its own."""

    pause: Annotated[float, msgspec.Meta(gt=0)] = 0.02
    seconds: Seconds = 60.0
    pids: str | None = None


class ReplayStep(ScriptStep, frozen=True, kw_only=True):
    """Play a recording, line by line, and end like it did. `timing` waits according to its time stamps."""

    file: str
    timing: bool = False
    code: Annotated[int, msgspec.Meta(ge=0, le=255)] | None = None


AnyStep: TypeAlias = (
    SayStep
    | MarkerStep
    | QuoteStep
    | ThinkStep
    | SubagentStep
    | BigStep
    | RawStep
    | StderrStep
    | WriteStep
    | AppendStep
    | ReadStep
    | RunStep
    | ToolStep
    | UsageStep
    | StructuredStep
    | ResultStep
    | ExitStep
    | DieStep
    | RetryStep
    | FailStep
    | HangStep
    | IgnoreSignalsStep
    | OnInterruptStep
    | LeaveStep
    | ChainStep
    | ReplayStep
)
