"""A backend's program, run headless: started, followed, decoded, stopped. Or handed to a person, with their terminal.

The one place where an agent's bytes become events. A line crosses no channel here: the decoder and the
marker parser are pure machines that this task feeds, and what they find goes straight to `send`.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

import trio

from cuggino.agents.agent import AgentOptions, AgentResult, Backend, Decoded, Launch, MessageEnd, SignOfLife, Text
from cuggino.errors import LlmSessionError, LlmSessionErrorKind
from cuggino.events import Event, PingEvent, Send, ToolCall, ToolResult
from cuggino.markers import MarkerParser
from cuggino.process.children import Children, Command
from cuggino.process.follow import Lines, follow

PING_INTERVAL = 0.1
"""Seconds between two PingEvents at the least."""

STDERR_SHOWN = 2000
"""Bytes of the end of an agent's stderr that an error may quote."""


class HeadlessAgent:
    """The Agent made of a backend and of who owns its processes."""

    def __init__(self, backend: Backend, children: Children) -> None:
        self._backend = backend
        self._children = children

    @property
    def name(self) -> str:
        return self._backend.name

    async def spawn(self, options: AgentOptions, send: Send) -> AgentResult:
        """See `Agent.spawn`."""
        launch = self._backend.launch(options)
        environment = _environment(launch, options.environment)
        errors = options.output.with_name(options.output.name + ".err")
        command = Command(
            argv=(_find(self._backend, launch, environment), *launch.argv[1:]),
            cwd=options.cwd,
            environment=environment,
            stdin=launch.stdin,
            stdout=options.output,
            stderr=errors,
        )
        decoder = self._backend.decoder(options)
        stream = _Stream(MarkerParser(options.role.markers), send)

        async def feed(chunk: bytes) -> None:
            for line in lines.feed(chunk):
                await stream.take(decoder.feed(line))
                if decoder.failure is not None:
                    raise decoder.failure

        lines = Lines()
        started = False
        try:
            try:
                async with self._children.start(command) as child:
                    started = True
                    await follow(options.output, child.gone, feed)
                    status = await child.wait()
            except OSError as error:
                if started:
                    raise
                raise self._not_started(error) from error
            if rest := lines.rest():
                await stream.take(decoder.feed(rest))
            await stream.end()
        finally:
            if decoder.usage is not None:
                with trio.move_on_after(1, shield=True):
                    await send(decoder.usage)
        return decoder.finish(status, _tail(errors))

    async def interactive(self, options: AgentOptions) -> int:
        """See `Agent.interactive`. The status of one that was ended by a signal is 128 and the signal's number."""
        launch = self._backend.launch_interactive(options)
        environment = _environment(launch, options.environment)
        argv = (_find(self._backend, launch, environment), *launch.argv[1:])
        try:
            status = await self._children.in_terminal(argv, cwd=options.cwd, environment=environment)
        except OSError as error:
            raise self._not_started(error) from error
        return status if status >= 0 else 128 - status

    def _not_started(self, error: OSError) -> LlmSessionError:
        return LlmSessionError(
            f"{self.name} could not be started: {error}",
            LlmSessionErrorKind.SETUP,
            advice=self._backend.install_advice,
        )


class _Stream:
    """What a decoder says → events, sent in order, signs of life thinned.

    What a message's text says is certain only at the message's end. Tools that it uses after some text are
    told after that text all the same, though some have run by then.
    """

    def __init__(self, parser: MarkerParser, send: Send) -> None:
        self._parser = parser
        self._send = send
        self._next_ping = 0.0
        self._in_text = False
        self._behind_text: list[Event] = []

    async def take(self, decoded: Sequence[Decoded]) -> None:
        for item in decoded:
            if isinstance(item, ToolCall | ToolResult) and self._in_text:
                self._behind_text.append(item)
            elif isinstance(item, Event):
                await self._send(item)
            elif isinstance(item, Text):
                self._in_text = True
                await self._send_all(self._parser.feed(item.text))
            elif isinstance(item, MessageEnd):
                await self.end()
            elif isinstance(item, SignOfLife):
                now = trio.current_time()
                if now >= self._next_ping:
                    self._next_ping = now + PING_INTERVAL
                    await self._send(PingEvent())

    async def end(self) -> None:
        await self._send_all(self._parser.end())
        behind, self._behind_text, self._in_text = self._behind_text, [], False
        await self._send_all(behind)

    async def _send_all(self, events: Sequence[Event]) -> None:
        for event in events:
            await self._send(event)


def _environment(launch: Launch, inherited: Mapping[str, str] | None) -> dict[str, str]:
    environment = dict(os.environ if inherited is None else inherited)
    for name, value in launch.environment.items():
        if value is None:
            environment.pop(name, None)
        else:
            environment[name] = value
    return environment


def _find(backend: Backend, launch: Launch, environment: Mapping[str, str]) -> str:
    """The program's path: it is looked up where the agent itself would look."""
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
    """The end of a file, as text; empty when there is none."""
    try:
        with path.open("rb") as file:
            file.seek(max(0, path.stat().st_size - STDERR_SHOWN))
            return file.read().decode(errors="replace").strip()
    except OSError:
        return ""
