"""`Agent`, which the rest of cuggino knows, and `Backend`, which describes one program to this package.

A backend is pure: it knows how its program is started, turns the lines that the program prints into events, and names
its errors. `cuggino.agents.headless` does the waiting. `cuggino.agents.backends` makes an Agent of a name.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol, TypeAlias

import msgspec

from cuggino.agents.prerequisites import Prerequisite
from cuggino.errors import LlmSessionError
from cuggino.events import LlmAgentEvent, Send, UsageReport
from cuggino.manifest import Permits
from cuggino.roles import Role


class AgentOptions(msgspec.Struct, frozen=True, kw_only=True):
    """One run of an agent.

    The program's stdout is appended to `output`, and its stderr to `output` with the suffix `.err`. Both files are
    0600 and stay until the caller deletes them. `writable` are the paths that even a read-only role may write, such as
    its review; for other roles they only show where the result is expected. `session_id` starts a new conversation,
    `resume_session_id` resumes one; both are UUIDs that the caller chose.
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
    """The complete environment; None inherits cuggino's own."""
    permits: Permits | None = None
    """The rules of a sandbox, which become the program's own permission settings; None outside of a sandbox."""
    foreign: bool = False
    """The project is other people's: agent settings, hooks and instructions in it are not used."""
    launcher: tuple[str, ...] = ()
    """A command that starts the program elsewhere (in a jail, on another machine) and looks it up there."""


class Denial(msgspec.Struct, frozen=True, kw_only=True):
    """A tool call that the agent's own permissions denied, in the program's own names."""

    tool: str
    input: Any = None


class AgentResult(msgspec.Struct, frozen=True, kw_only=True):
    """How a successful run ended. `exit_status` is negative for a signal."""

    exit_status: int
    session_id: str | None = None
    usage: UsageReport | None = None
    denials: tuple[Denial, ...] = ()
    final_text: str = ""
    structured: Any = None


class Agent(Protocol):
    """A program that plans, implements or reviews. This protocol is all that the rest of cuggino knows of agents."""

    @property
    def name(self) -> str: ...

    async def spawn(self, options: AgentOptions, send: Send) -> AgentResult:
        """Run without a person until the program ends. Events, markers among them, are sent as they happen.

        When cancelled, ask the program to stop in its own way, wait up to 5 s, and kill the rest of its process tree.
        No process of the tree is alive when this returns or raises. Raise LlmSessionError if the agent failed.
        """
        ...

    async def interactive(self, options: AgentOptions) -> int:
        """Run with the person's own terminal; return the exit code. Raise LlmSessionError if it cannot be started."""
        ...

    def own_name(self, conversation: str) -> str:
        """Return the program's own name of a conversation that started under this ID: another process resumes that."""
        ...

    @property
    def lacks(self) -> str:
        """What its own permissions cannot enforce in a sandbox, as a text for people; empty if there is nothing."""
        ...

    @property
    def login_environment(self) -> tuple[str, ...]:
        """Patterns (fnmatch) of the variables that its login and its provider's address may need."""
        ...

    def delete_conversation(self, conversation: str, *, cwd: Path, environment: Mapping[str, str]) -> None:
        """Delete the program's files of a conversation that nobody will resume.

        `conversation` is the caller's or the program's own name; the conversation ran with `cwd` and `environment`.
        """
        ...


# ---- backends ---------------------------------------------------------------------------------


class Text(msgspec.Struct, frozen=True):
    """A piece of the agent's own text, part of the current message."""

    text: str


class MessageEnd(msgspec.Struct, frozen=True):
    """The current message is complete: no marker reaches beyond it."""


class SignOfLife(msgspec.Struct, frozen=True):
    """The agent is alive; there is nothing to report."""


MESSAGE_END = MessageEnd()
SIGN_OF_LIFE = SignOfLife()

Decoded: TypeAlias = Text | MessageEnd | SignOfLife | LlmAgentEvent


class Launch(msgspec.Struct, frozen=True, kw_only=True):
    """How a program is started. `environment` changes the inherited one; None removes a variable.

    `files` exist during the run, 0600: settings that the program accepts only as files.
    """

    argv: tuple[str, ...]
    stdin: bytes = b""
    environment: Mapping[str, str | None] = {}
    files: Mapping[Path, str] = {}


class Decoder(Protocol):
    """The lines of one run → what they mean. Pure; takes lines in order; no line makes it raise."""

    @property
    def failure(self) -> LlmSessionError | None:
        """Set as soon as it is certain that this run will fail, even while the program still retries."""
        ...

    @property
    def usage(self) -> UsageReport | None:
        """What this run has used, as far as the program has reported it."""
        ...

    @property
    def session_id(self) -> str | None:
        """The program's own name of the conversation, as soon as it has reported it."""
        ...

    def feed(self, line: bytes) -> Sequence[Decoded]:
        """Decode one line, without its line feed. The first line that is not JSON is reported, others are ignored."""
        ...

    def finish(self, exit_status: int, stderr: str) -> AgentResult:
        """Return the result of a program that has ended. Raise LlmSessionError if it failed."""
        ...


class Backend(Protocol):
    """A program that can be an agent. `program` is looked up in PATH."""

    @property
    def name(self) -> str: ...

    @property
    def program(self) -> str: ...

    @property
    def install_advice(self) -> str:
        """How a person installs a missing program."""
        ...

    @property
    def lacks(self) -> str:
        """See `Agent.lacks`."""
        ...

    @property
    def login_environment(self) -> tuple[str, ...]:
        """See `Agent.login_environment`."""
        ...

    @property
    def version_arguments(self) -> tuple[str, ...]:
        """With these the program prints its version and exits within a second, leaving no trace; or empty."""
        ...

    def launch(self, options: AgentOptions) -> Launch: ...

    def launch_interactive(self, options: AgentOptions) -> Launch: ...

    def decoder(self, options: AgentOptions) -> Decoder: ...

    def history(self, environment: Mapping[str, str], cwd: Path, session_id: str) -> Sequence[Path]:
        """Return the files and directories that hold this conversation and nothing else. Only names are read."""
        ...

    def prerequisites(self, environment: Mapping[str, str], root: Path) -> Sequence[Prerequisite]:
        """Return what an agent that is started in `root` with this environment would find.

        Only files and the environment are read; nothing is raised.
        """
        ...
