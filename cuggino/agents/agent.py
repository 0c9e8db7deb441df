"""What an agent is to the rest of the program, and what a backend has to tell about a program.

The loop knows `Agent` only. A backend is pure: it says how its program is started, turns the lines
that the program prints into events, and names its errors. `cuggino.agents.headless` does the waiting.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol, TypeAlias

import msgspec

from cuggino.errors import LlmSessionError
from cuggino.events import LlmAgentEvent, Send, UsageReport
from cuggino.manifest import Permits
from cuggino.roles import Role


class AgentOptions(msgspec.Struct, frozen=True, kw_only=True):
    """One run of an agent.

    `output` is the file that the program's stdout is appended to; its stderr goes beside it, to
    `output` with the suffix `.err`. Both are 0600, and stay until the caller removes them.
    `writable` are the paths that a read-only role may write all the same (its review, say); for other
    roles they only say where its result is expected. `session_id` names a new conversation,
    `resume_session_id` goes on with one; ids are UUIDs that the caller chose.
    """

    role: Role
    cwd: Path
    prompt: str
    output: Path
    system_prompt: str = ""
    skip_permissions: bool = False
    session_id: str | None = None
    resume_session_id: str | None = None
    model: str | None = None
    schema: Mapping[str, Any] | None = None
    writable: tuple[Path, ...] = ()
    budget_usd: float | None = None
    environment: Mapping[str, str] | None = None
    """The whole environment; None inherits cuggino's own."""
    permits: Permits | None = None
    """A sandbox's rules, which become the program's own permission settings; None: outside of a sandbox."""
    foreign: bool = False
    """The project is other people's: none of the agent settings, hooks or instructions that lie in it are used."""
    launcher: tuple[str, ...] = ()
    """A command in front of the program's own (a jail, another machine), in which the program is looked up."""


class Denial(msgspec.Struct, frozen=True, kw_only=True):
    """A use of a tool that the agent's own permissions denied, in the program's own names."""

    tool: str
    input: Any = None


class AgentResult(msgspec.Struct, frozen=True, kw_only=True):
    """How an agent ended, when it ended well. `exit_status` is negative for a signal."""

    exit_status: int
    session_id: str | None = None
    usage: UsageReport | None = None
    denials: tuple[Denial, ...] = ()
    final_text: str = ""
    structured: Any = None


class Agent(Protocol):
    """A program that plans, implements, reviews."""

    @property
    def name(self) -> str: ...

    async def spawn(self, options: AgentOptions, send: Send) -> AgentResult:
        """Run headless until it ends by itself, its events sent as they happen, markers found.

        Cancelled, it asks the program to stop in the program's own way, waits up to 5 s, and kills what
        is left of its process tree: when this returns or raises, nothing of it is alive.
        Raises LlmSessionError when the agent failed.
        """
        ...

    async def interactive(self, options: AgentOptions) -> int:
        """Run with the person's own terminal; returns the exit code."""
        ...

    def own_name(self, conversation: str) -> str:
        """What the program itself calls the conversation that was begun under this id: what another process resumes."""
        ...

    @property
    def lacks(self) -> str:
        """What its own permissions cannot enforce in a sandbox, for people; empty if there is nothing."""
        ...

    @property
    def login_environment(self) -> tuple[str, ...]:
        """Patterns (fnmatch) of the variables that its login and its provider's address may need."""
        ...

    def delete_conversation(self, conversation: str, *, cwd: Path, environment: Mapping[str, str]) -> None:
        """Delete the files in which the program remembers a conversation that nobody will resume.

        `conversation` is the caller's or the program's own name of it; `cwd` and `environment` are those it ran with.
        """
        ...


# ---- what a backend tells ---------------------------------------------------------------------


class Text(msgspec.Struct, frozen=True):
    """A piece of the agent's own text, of the message that is being written."""

    text: str


class MessageEnd(msgspec.Struct, frozen=True):
    """The message is over: no marker reaches beyond it."""


class SignOfLife(msgspec.Struct, frozen=True):
    """Something moved; nothing to tell."""


MESSAGE_END = MessageEnd()
SIGN_OF_LIFE = SignOfLife()

Decoded: TypeAlias = Text | MessageEnd | SignOfLife | LlmAgentEvent


class Launch(msgspec.Struct, frozen=True, kw_only=True):
    """How a program is started. `environment` is laid over the inherited one; None takes a name out.

    `files` are there for the length of the run, 0600: settings that the program takes from nowhere else.
    """

    argv: tuple[str, ...]
    stdin: bytes = b""
    environment: Mapping[str, str | None] = {}
    files: Mapping[Path, str] = {}


class Decoder(Protocol):
    """The lines of one run → what they mean. Pure; fed in order; never raises for a line."""

    @property
    def failure(self) -> LlmSessionError | None:
        """Set as soon as it is certain that this run is lost, though the program goes on trying."""
        ...

    @property
    def usage(self) -> UsageReport | None:
        """What this run has used, as far as the program has told."""
        ...

    @property
    def session_id(self) -> str | None:
        """The program's own name of the conversation, as soon as it has told it."""
        ...

    def feed(self, line: bytes) -> Sequence[Decoded]:
        """One line, without its line feed. A line that is no JSON is told once, then passed over."""
        ...

    def finish(self, exit_status: int, stderr: str) -> AgentResult:
        """The program has ended. Raises LlmSessionError if it failed."""
        ...


class Backend(Protocol):
    """A program that can be an agent. `program` is what is looked up in PATH."""

    @property
    def name(self) -> str: ...

    @property
    def program(self) -> str: ...

    @property
    def install_advice(self) -> str:
        """What a person does when the program is missing."""
        ...

    @property
    def lacks(self) -> str:
        """What its own permissions cannot do in a sandbox, told to people when a spawn begins. Or nothing."""
        ...

    @property
    def login_environment(self) -> tuple[str, ...]:
        """Patterns (fnmatch) of the variables that its login and its provider's address may need, for an environment
        that is built and not inherited."""
        ...

    def launch(self, options: AgentOptions) -> Launch: ...

    def launch_interactive(self, options: AgentOptions) -> Launch: ...

    def decoder(self, options: AgentOptions) -> Decoder: ...

    def history(self, environment: Mapping[str, str], cwd: Path, session_id: str) -> Sequence[Path]:
        """The files and folders in which the program remembers this conversation, to be removed when nobody will
        go on with it. Reads names only. Empty where the program keeps them together with others'."""
        ...
