"""A watch on the virtual clock, with real files, scripted agents, and change notices sent by hand."""

from __future__ import annotations

import re
import signal
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import trio
from trio_util import AsyncValue

from cuggino import items
from cuggino.agents.agent import AgentOptions, AgentResult
from cuggino.config import Config
from cuggino.errors import LlmSessionError, LlmSessionErrorKind, StorageError
from cuggino.events import (
    Approved,
    Done,
    Event,
    PlanComplete,
    Send,
    SpecIssue,
    WatchLoopEvent,
)
from cuggino.roles import Role
from cuggino.signals import Shutdown
from cuggino.watch.counting import FolderListing, PollHistory, watch_file_counts
from cuggino.watch.places.here import Here
from cuggino.watch.watch import WatchOptions, run_watch
from tests.unit.stage import Stage, Troupe, plans, says

PLANNING = 10.0
"""Seconds that each planner takes; other agents take none."""

ENDINGS = {
    "fail": LlmSessionError("the request was refused", LlmSessionErrorKind.REFUSED),
    "overloaded": LlmSessionError("529", LlmSessionErrorKind.OVERLOADED),
    "setup": LlmSessionError("not logged in", LlmSessionErrorKind.SETUP),
}


class ManualNotices:
    """Notices of a folder, sent by hand."""

    watching = True

    async def renew(self) -> None:
        """The folder is the same one."""


class World(Stage):
    """A watched project. `endings[name]` lists how the planners of an item end, in order; afterwards they succeed."""

    def __init__(self, root: Path, config: Config | None = None) -> None:
        troupe = Troupe(
            planner=[self._plan],
            implementer=[says(Done(content="done"))],
            reviewer=[says(Approved(content="good"))],
            audit=[self._audit],
        )
        super().__init__(root, troupe, config)
        self.shutdown = Shutdown(drains=True)
        self.endings: defaultdict[str, list[str]] = defaultdict(list)
        self.audit: Callable[[Send], Awaitable[None]] = self._quiet_audit
        self.unreadable: Callable[[], bool] = lambda: False
        self.log: list[tuple[float, Event]] = []
        self._changed: dict[Path, Callable[[], None]] = {}

    # ---- people

    def put(self, name: str, text: str | bytes = "do it") -> None:
        path = self.project.backlog / name
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        self.notify(self.project.backlog)

    def remove(self, name: str) -> None:
        (self.project.backlog / name).unlink()
        self.notify(self.project.backlog)

    def raise_issue(self, name: str = "by-hand.md") -> None:
        (self.project.spec_issues / name).write_text("unclear")
        self.notify(self.project.spec_issues)

    def clear_issues(self) -> None:
        for path in self.project.spec_issues.iterdir():
            path.unlink()
        self.notify(self.project.spec_issues)

    def escalate(self) -> None:
        """Ctrl+C."""
        self.shutdown.escalate(signal.SIGINT)
        trio.lowlevel.spawn_system_task(self.shutdown.report)

    def notify(self, folder: Path) -> None:
        if folder in self._changed:
            self._changed[folder]()

    # ---- the watch

    async def watch(self, *, every: int = 10, until_idle: bool = False) -> int:
        with self.shutdown.interrupted:
            options = WatchOptions(every=every, until_idle=until_idle)
            return await self.run_watch(options)
        return 128 + (self.shutdown.signal or 0)

    async def run_watch(self, options: WatchOptions) -> int:
        place = Here(options.intervals)
        return await run_watch(self.context, self.shutdown, self.sender, place, options, count=self.count)

    def sender(self, _session: str | None) -> Send:
        async def send(event: Event) -> None:
            self.log.append((trio.current_time(), event))

        return send

    async def count(
        self,
        counts: AsyncValue[tuple[FolderListing, ...] | None],
        failed: Callable[[int, str], Awaitable[None]],
        polls: PollHistory,
    ) -> None:
        folders = (self.project.spec_issues, self.project.backlog)
        await watch_file_counts(folders, counts, failed, polls, open_notices=self._notices, list_items=self._list)

    def _list(self, folder: Path) -> tuple[str, ...]:
        if self.unreadable():
            raise StorageError("the disk is gone")
        return items.list_items(folder)

    @asynccontextmanager
    async def _notices(self, folder: Path, changed: Callable[[], None]) -> AsyncIterator[ManualNotices]:
        self._changed[folder] = changed
        try:
            yield ManualNotices()
        finally:
            del self._changed[folder]

    # ---- the agents

    async def _plan(self, options: AgentOptions, send: Send) -> AgentResult:
        found = re.search(r"@.*/(.+)$", options.prompt)
        await trio.sleep(PLANNING)
        endings = self.endings[found[1] if found else ""]
        ending = endings.pop(0) if endings else "well"
        if ending == "issue":
            await send(SpecIssue(content="unclear"))
        elif ending in ENDINGS:
            raise ENDINGS[ending]
        else:
            await plans(PlanComplete(content=""))(options, send)
        return AgentResult(exit_status=0)

    async def _audit(self, _options: AgentOptions, send: Send) -> AgentResult:
        await self.audit(send)
        return AgentResult(exit_status=0)

    async def _quiet_audit(self, _send: Send) -> None:
        await trio.sleep(100)

    # ---- results

    @property
    def story(self) -> list[str]:
        """The watch's own events with their times: `35 WatchProcessingItem a.md`."""
        return [f"{time:g} {describe(event)}" for time, event in self.log if isinstance(event, WatchLoopEvent)]

    @property
    def archived(self) -> list[str]:
        return [path.name[37:] for path in sorted(self.project.archive.iterdir())]

    def starts(self, role: Role) -> list[float]:
        return [played.at for played in self.troupe.played if played.role is role]


def describe(event: Event) -> str:
    """Describe an event in a few words."""
    shown = [type(event).__name__]
    for field in ("filename", "stage", "reason", "attempt", "wait_seconds", "blocked", "completed", "exit_code"):
        value = getattr(event, field, None)
        if value is not None and not (field == "filename" and "Tbd" in shown[0]):
            shown.append(str(value))
    return " ".join(shown)
