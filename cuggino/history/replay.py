"""`cuggino log`: sessions in a list, or a session's events as they were shown live."""

from __future__ import annotations

from pathlib import Path

import msgspec
import trio

from cuggino.errors import NotFound
from cuggino.history.logs import decode, growing, head_of, logs, owner_of_lock
from cuggino.history.pages import render_sessions
from cuggino.history.sessions import choose, recall
from cuggino.output.hub import Display
from cuggino.output.terminal import open_display
from cuggino.process.follow import Follower, LineSplitter
from cuggino.project import Project
from cuggino.signals import Shutdown, handle_signals

LOOK = 0.25
"""Seconds between two checks of whether the command that writes a log is alive."""


async def list_sessions(project: Project, *, as_json: bool) -> int:
    """Print the sessions of all logs, latest first."""
    history = recall(logs(project))
    log = growing(project, owner_of_lock(project))
    sessions = history.sessions(None if log is None else log.stem)
    with open_display(as_json=as_json, live=False) as display:
        for problem in history.unreadable:
            await display.warn(problem)
        await display.print(lambda page: render_sessions(sessions, page))
        await display.show((), msgspec.json.Encoder().encode_lines(sessions))
    return 0


async def replay(project: Project, prefix: str | None, *, follow: bool, as_json: bool) -> int:
    """Replay the session, or else the log, whose ID starts with `prefix`; None means the latest log.

    With `follow`, continue until the command that writes the log has ended, or a signal arrives. Return the exit code.
    """
    session, paths = _chosen(project, prefix)
    shutdown = Shutdown()
    with open_display(as_json=as_json, live=False) as display:
        async with handle_signals(shutdown):
            with shutdown.interrupted:
                for path in paths[:-1]:
                    await _show(path, session, display)
                await _show(paths[-1], session, display, growing_in=project if follow else None)
                await display.finish()
    return 0 if shutdown.signal is None else 128 + shutdown.signal


def _chosen(project: Project, prefix: str | None) -> tuple[str | None, list[Path]]:
    """Return the session (None means all) and its logs, at least one. Raise NotFound."""
    all_logs = logs(project)
    if prefix is None:
        if not all_logs:
            raise NotFound(f"{project.logs} has no log yet.", advice="Run this again while another command runs.")
        return None, all_logs[-1:]
    logs_of = {session.id: session.logs for session in recall(all_logs).sessions()}
    session, log = choose(prefix, logs_of, [path.stem for path in all_logs])
    names = logs_of[session] if session is not None else (log,)
    return session, [path for path in all_logs if path.stem in names]


async def _show(path: Path, session: str | None, display: Display, *, growing_in: Project | None = None) -> None:
    """Print a log, or one session's part of it, as the hub did; with `growing_in`, as long as it grows.

    Programs get every line as it is; people do not see events that are unknown to this version.
    """
    lines = LineSplitter()
    gone = trio.Event()

    async def feed(chunk: bytes) -> None:
        kept = [raw for raw in lines.feed(chunk) if _belongs(raw, session)]
        if kept:
            known = [line for raw in kept if (line := decode(raw)) is not None]
            await display.show(known, b"".join(raw + b"\n" for raw in kept))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(Follower(path).until, gone, feed)
        while growing_in is not None and growing(growing_in, owner_of_lock(growing_in)) == path:  # noqa: ASYNC110
            await trio.sleep(LOOK)
        gone.set()


def _belongs(raw: bytes, session: str | None) -> bool:
    head = head_of(raw)
    return head is not None and (session is None or head.session == session)
