"""A backend's program as an Agent: started, followed, decoded, stopped; or handed to a person with their terminal.

This is the one place where an agent's bytes become events. A line crosses no channel here: one task feeds the decoder
and the marker parser, which are pure, and passes what they find to `send`.
"""

from __future__ import annotations

import math
import os
import shutil
from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import msgspec
import trio

from cuggino.agents.agent import (
    AgentOptions,
    AgentResult,
    Backend,
    Decoded,
    Decoder,
    Launch,
    MessageEnd,
    SignOfLife,
    Text,
)
from cuggino.agents.exit_report import stderr_beside
from cuggino.errors import LlmSessionError, LlmSessionErrorKind
from cuggino.events import Event, PingEvent, Send, ToolCall, ToolResult
from cuggino.files import write_atomic
from cuggino.markers import MarkerParser
from cuggino.process.children import Child, Children, Command
from cuggino.process.follow import Follower, LineSplitter

LAST_WORDS = 1.0
"""Maximum seconds for reading and sending what a stopped agent printed last."""

PING_INTERVAL = 0.1
"""Minimum seconds between two PingEvents."""

STDERR_SHOWN = 2000
"""Bytes at the end of an agent's stderr that an error may quote."""


class HeadlessAgent:
    """An Agent made of a backend and the Children that own its processes."""

    def __init__(self, backend: Backend, children: Children) -> None:
        self._backend = backend
        self._children = children
        self._conversations: dict[str, str] = {}
        """The caller's names of conversations → the program's own: not every program accepts the caller's."""

    @property
    def name(self) -> str:
        return self._backend.name

    async def spawn(self, options: AgentOptions, send: Send) -> AgentResult:
        """See `Agent.spawn`."""
        if (resumed := options.resume_session_id) is not None:
            options = msgspec.structs.replace(options, resume_session_id=self._conversations.get(resumed, resumed))
        launch = self._backend.launch(options)
        environment = _environment(launch, options.environment)
        errors = stderr_beside(options.output)
        command = Command(
            argv=_command_line(self._backend, launch, environment, options.launcher),
            cwd=options.cwd,
            environment=environment,
            stdin=launch.stdin,
            stdout=options.output,
            stderr=errors,
        )
        decoder = self._backend.decoder(options)
        stream = _Stream(decoder, MarkerParser(options.role.markers), send)
        output = Follower(options.output)
        child: Child | None = None
        try:
            try:
                for path, text in launch.files.items():
                    write_atomic(path, text)
                async with self._children.start(command) as child:
                    await output.until(child.gone, stream.read)
                    status = await child.wait()
            except OSError as error:
                if child is not None:
                    raise
                raise self._not_started(error) from error
            await stream.end()
        finally:
            for path in launch.files:
                path.unlink(missing_ok=True)
            if child is not None and trio.current_effective_deadline() == -math.inf:  # stopped before its end
                with trio.move_on_after(LAST_WORDS, shield=True), suppress(LlmSessionError):
                    await output.until(child.gone, stream.read)
                    await stream.end(torn=True)
            if decoder.session_id is not None and options.session_id is not None:
                self._conversations[options.session_id] = decoder.session_id
            if decoder.usage is not None:
                with trio.move_on_after(LAST_WORDS, shield=True):
                    await send(decoder.usage)
        return decoder.finish(status, _tail(errors))

    async def interactive(self, options: AgentOptions) -> int:
        """See `Agent.interactive`. If a signal ended the program, its exit code is 128 plus the signal's number."""
        launch = self._backend.launch_interactive(options)
        environment = _environment(launch, options.environment)
        argv = (_find(self._backend, launch, environment), *launch.argv[1:])
        try:
            status = await self._children.in_terminal(argv, cwd=options.cwd, environment=environment)
        except OSError as error:
            raise self._not_started(error) from error
        return status if status >= 0 else 128 - status

    def own_name(self, conversation: str) -> str:
        """See `Agent.own_name`."""
        return self._conversations.get(conversation, conversation)

    @property
    def lacks(self) -> str:
        """See `Agent.lacks`."""
        return self._backend.lacks

    @property
    def login_environment(self) -> tuple[str, ...]:
        """See `Agent.login_environment`."""
        return self._backend.login_environment

    def delete_conversation(self, conversation: str, *, cwd: Path, environment: Mapping[str, str]) -> None:
        """See `Agent.delete_conversation`."""
        for path in self._backend.history(environment, cwd, self.own_name(conversation)):
            shutil.rmtree(path, ignore_errors=True) if path.is_dir() else path.unlink(missing_ok=True)

    def _not_started(self, error: OSError) -> LlmSessionError:
        return LlmSessionError(
            f"{self.name} could not be started: {error}",
            LlmSessionErrorKind.SETUP,
            advice=self._backend.install_advice,
        )


class _Stream:
    """An agent's bytes → events, sent in order. Signs of life are thinned.

    The meaning of a message's text is certain only when the message is complete. Tools that it uses after some text are
    reported after that text, though some have run by then. After a cancellation, reading can continue: no line is
    decoded twice, and an event whose sending was cancelled is not sent again.
    """

    def __init__(self, decoder: Decoder, parser: MarkerParser, send: Send) -> None:
        self._decoder = decoder
        self._parser = parser
        self._send = send
        self._lines = LineSplitter()
        self._undecoded: deque[bytes] = deque()
        self._unsent: deque[Event] = deque()
        self._next_ping = 0.0
        self._in_text = False
        self._tools_after_text: list[Event] = []

    async def read(self, chunk: bytes) -> None:
        """Raise the decoder's failure as soon as there is one."""
        self._undecoded += self._lines.feed(chunk)
        await self._send_all()
        while self._undecoded:
            for item in self._decoder.feed(self._undecoded.popleft()):
                self._take(item)
            await self._send_all()
            if self._decoder.failure is not None:
                raise self._decoder.failure

    async def end(self, *, torn: bool = False) -> None:
        """Take the end of the output. `torn`: the program was stopped, so an incomplete last line is ignored."""
        await self.read(b"\n" if self._lines.rest() and not torn else b"")
        self._end_message()
        await self._send_all()

    def _take(self, item: Decoded) -> None:
        if isinstance(item, ToolCall | ToolResult) and self._in_text:
            self._tools_after_text.append(item)
        elif isinstance(item, Event):
            self._unsent.append(item)
        elif isinstance(item, Text):
            self._in_text = True
            self._unsent += self._parser.feed(item.text)
        elif isinstance(item, MessageEnd):
            self._end_message()
        elif isinstance(item, SignOfLife):
            now = trio.current_time()
            if now >= self._next_ping:
                self._next_ping = now + PING_INTERVAL
                self._unsent.append(PingEvent())

    def _end_message(self) -> None:
        self._unsent += self._parser.end()
        self._unsent += self._tools_after_text
        self._tools_after_text, self._in_text = [], False

    async def _send_all(self) -> None:
        while self._unsent:
            await self._send(self._unsent.popleft())


def _environment(launch: Launch, inherited: Mapping[str, str] | None) -> dict[str, str]:
    environment = dict(os.environ if inherited is None else inherited)
    for name, value in launch.environment.items():
        if value is None:
            environment.pop(name, None)
        else:
            environment[name] = value
    return environment


def _command_line(
    backend: Backend, launch: Launch, environment: Mapping[str, str], launcher: Sequence[str]
) -> tuple[str, ...]:
    """Return the arguments to start. A launcher looks the program up itself, perhaps on another machine."""
    if launcher:
        return (*launcher, *launch.argv)
    return (_find(backend, launch, environment), *launch.argv[1:])


def _find(backend: Backend, launch: Launch, environment: Mapping[str, str]) -> str:
    """Return the program's path in the PATH that the agent will have."""
    program = launch.argv[0]
    found = shutil.which(program, path=environment.get("PATH"))
    if found is None:
        raise LlmSessionError(
            f"{backend.name}: the program `{program}` was not found in PATH.",
            LlmSessionErrorKind.SETUP,
            advice=backend.install_advice,
        )
    return found


def _tail(path: Path) -> str:
    """Return the end of a file as text; empty if it cannot be read."""
    try:
        with path.open("rb") as file:
            file.seek(max(0, path.stat().st_size - STDERR_SHOWN))
            return file.read().decode(errors="replace").strip()
    except OSError:
        return ""
