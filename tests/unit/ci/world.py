"""A pull request on the virtual clock: GitHub, branch and agents answer as the test says; the state file is real.

world = World(tmp_path)
world.checks(test="FAILURE")
world.at[4] = lambda: world.checks(test="SUCCESS")
assert await world.watch() == 0
"""

from __future__ import annotations

import signal
from collections import defaultdict
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path
from typing import Any, TypeAlias

import msgspec
import trio

from cuggino.ci.checks import System
from cuggino.ci.decide import Failure, Trust
from cuggino.ci.ports import FixResult, NonFastForward, Triage
from cuggino.ci.pull_request import Check, Comment, PullRequestSnapshot, Suite, Thread
from cuggino.ci.query import OUTCOMES
from cuggino.ci.state import CiState
from cuggino.ci.state_file import StateFile
from cuggino.ci.watch import CiWatchContext, watch_pull_request
from cuggino.events import CiEvent, CiNeedsPerson, CiPolled, CiWatchEnded, Event, Send
from cuggino.project import Project
from cuggino.signals import Shutdown

START = datetime(2026, 1, 1, tzinfo=UTC)
HEAD = "a" * 40
replace = msgspec.structs.replace
Happening: TypeAlias = Callable[[], object] | Exception


def comment(number: int, author: str | None = "mia", association: str = "MEMBER", **more: Any) -> Comment:
    fields = {"bot": False, "own": False, "body": f"comment {number}", **more}
    return Comment(id=str(number), author=author, association=association, **fields)


def thread(name: str, *comments: Comment, **more: Any) -> Thread:
    return Thread(id=name, **{"path": f"{name}.py", "line": 3, "resolved": False, **more}, comments=comments)


def check(name: str, word: str, *, id: int | None = None, **more: Any) -> Check:  # noqa: A002
    """A run of GitHub Actions, finished or not as `word` says."""
    outcome = OUTCOMES.get(word, "pending")
    fields: dict[str, Any] = {"app": "github-actions", "workflow": "ci", "event": "push", "run": 100, **more}
    return Check(name=name, outcome=outcome, word=word, id=id, **fields)


def suite(name: str, word: str, **more: Any) -> Suite:
    """A suite of a workflow of this name."""
    fields: dict[str, Any] = {"id": f"CS_{name}", "app": "github-actions", "workflow_id": len(name), "number": 1}
    fields |= {"workflow": name, "event": "push", "run": 100, **more}
    return Suite(outcome=OUTCOMES.get(word, "pending"), word=word, **fields)


PULL = PullRequestSnapshot(
    number=12,
    title="A change",
    url="https://github.com/o/r/pull/12",
    state="OPEN",
    mergeable="MERGEABLE",
    author="mia",
    base="main",
    branch="change",
    head=HEAD,
    last_head=HEAD,
    foreign=False,
    head_repository="o/r",
    may_push=True,
    checks=(),
    threads=(),
)


class World:
    """`pull` is what the next poll returns. `at[n]` runs before the n-th poll, or is raised by it."""

    def __init__(self, root: Path) -> None:
        self.project = Project.find(root)
        self.file = MortalFile(self.project, self)
        self.pull = PULL
        self.at: dict[int, Happening | Sequence[Happening]] = {}
        self.tip: str | None = HEAD
        """The branch's commit as git sees it."""
        self.system: System = "github-actions"
        self.trust = Trust(bots=("bot",))
        self.trust_author = False
        self.limit = 90
        self.shutdown = Shutdown()
        self.events: list[Event] = []
        self.polls: list[float] = []
        self.requests = 0
        self.triages: defaultdict[str, list[Triage]] = defaultdict(list)
        self.results: defaultdict[str, list[FixResult | Exception]] = defaultdict(list)
        self.after_push: Callable[[], object] = self.all_pending
        self.while_working: Callable[[], object] = lambda: None
        self.errors: dict[str, Exception] = {}
        """What `push`, `reply`, `rerun` and `log` raise."""
        self.agents: list[str] = []
        self.seen_comments: list[tuple[Comment, ...]] = []
        self.pushes: list[str] = []
        self.replies: list[tuple[str, str]] = []
        self.reruns: list[int] = []
        self.kept: list[str] = []
        self.dies_at = 0
        """The step at which the watch dies as by kill -9, or 0. `steps` are those so far."""
        self.steps: list[str] = []
        self._made: dict[str, str] = {}
        self._fixed: dict[str, str] = {}
        """Pushed commits → what they fix."""
        self._ids = count(1000)
        self._commits = count(1)

    # ---- what happens on GitHub

    def change(self, **fields: Any) -> None:
        self.pull = replace(self.pull, **fields)

    def checks(self, **words: str) -> None:
        """Replace the checks of the head."""
        self.change(checks=tuple(check(name, word, id=next(self._ids)) for name, word in words.items()))

    def threads(self, *threads: Thread) -> None:
        self.change(threads=threads)

    def all_pending(self) -> None:
        self.checks(**{each.name: "IN_PROGRESS" for each in self.pull.checks})

    def all_green(self) -> None:
        self.checks(**{each.name: "SUCCESS" for each in self.pull.checks})

    @property
    def fixed(self) -> list[str]:
        """What each push has fixed."""
        return list(self._fixed.values())

    def push(self) -> None:
        """Push as somebody else."""
        self.tip = f"{next(self._commits):x}".rjust(40, "b")
        self.show_tip()

    def show_tip(self) -> None:
        self.change(head=self.tip, last_head=self.tip)

    # ---- the ports

    async def poll(self) -> PullRequestSnapshot:
        self.requests += 1
        self.polls.append(trio.current_time())
        happenings = self.at.get(len(self.polls), ())
        for happening in happenings if isinstance(happenings, Sequence) else (happenings,):
            if isinstance(happening, Exception):
                raise happening
            happening()
        await trio.lowlevel.checkpoint()
        return self.pull

    async def may_write(self, login: str) -> bool:
        await trio.lowlevel.checkpoint()
        return login == "mia"

    async def log(self, check: Check) -> str:
        await self._checkpoint("log")
        return f"log of {check.name}"

    async def rerun(self, run: int) -> None:
        await self._checkpoint("rerun")
        self.reruns.append(run)

    async def reply(self, comment_id: str, body: str) -> None:
        self.die("before reply")
        await self._checkpoint("reply")
        self.replies.append((comment_id, body))
        ours = comment(next(self._ids), "me", "OWNER", own=True, body=body)
        self.threads(
            *(
                replace(each, comments=(*each.comments, ours)) if each.comments[0].id == comment_id else each
                for each in self.pull.threads
            )
        )
        self.die("after reply")

    async def head(self) -> str | None:
        await trio.lowlevel.checkpoint()
        return self.tip

    async def is_open(self) -> bool:
        await trio.lowlevel.checkpoint()
        return self.pull.state == "OPEN"

    async def push_commit(self, commit: str, onto: str) -> None:
        await self._checkpoint("push")
        self.die("before push")
        if self.tip != onto:
            raise NonFastForward
        self.pushes.append(commit)
        self._fixed[commit] = self._made[commit]
        self.tip = commit
        self.show_tip()
        self.after_push()
        self.die("after push")

    async def _checkpoint(self, operation: str) -> None:
        await trio.lowlevel.checkpoint()
        if operation in self.errors:
            raise self.errors[operation]

    def die(self, where: str) -> None:
        """Once dead, fail at every step: cleanup writes nothing more."""
        self.steps.append(where)
        if self.dies_at and len(self.steps) >= self.dies_at:
            raise Killed(where)

    async def triage(self, failure: Failure, log: str, head: str, _send: Send) -> Triage:
        assert log
        await trio.sleep(1)
        self.agents.append(f"triage {failure.name} at {head[-4:]}")
        self.die("triage")
        left = self.triages[failure.name]
        return left.pop(0) if left else Triage(verdict="real", cause=f"why {failure.name} fails")

    async def fix_check(self, failure: Failure, _log: str, _cause: str, head: str, _send: Send) -> FixResult:
        return await self._work(failure.name, head)

    async def fix_thread(self, thread: Thread, comments: tuple[Comment, ...], head: str, _send: Send) -> FixResult:
        self.seen_comments.append(comments)
        return await self._work(thread.id, head)

    async def fix_conflict(self, _base: str, head: str, _send: Send) -> FixResult:
        return await self._work("conflict", head)

    async def _work(self, name: str, head: str) -> FixResult:
        await trio.sleep(1)
        self.agents.append(f"fix {name} at {head[-4:]}")
        self.while_working()
        self.die("work")
        left = self.results[name]
        if name in self.fixed and not left and self.dies_at:
            return FixResult(summary="it is done")
        commit = f"{next(self._commits):x}".rjust(40, "c")
        result = left.pop(0) if left else FixResult(tip=commit, files=("a.py",), summary="fixed it")
        if isinstance(result, Exception):
            raise result
        if result.tip is not None:
            self._made[result.tip] = name
        return result

    # ---- the watch

    async def watch(self) -> int:
        async def open_branch(_pull: PullRequestSnapshot) -> tuple[WorldBranch, World]:
            return WorldBranch(self), self

        context = CiWatchContext(
            file=self.file,
            api=self,
            open_branch=open_branch,
            system=self.system,
            trust=self.trust,
            trust_author=self.trust_author,
            limit=self.limit,
            send=self.send,
            now=lambda: START + timedelta(seconds=trio.current_time()),
        )
        self.shutdown = Shutdown()
        with self.shutdown.interrupted:
            return await watch_pull_request(context, self.shutdown)
        return 130

    async def send(self, event: Event) -> None:
        self.events.append(event)

    def escalate(self) -> None:
        self.shutdown.escalate(signal.SIGINT)

    # ---- what was seen

    @property
    def state(self) -> CiState:
        return self.file.read()

    def of(self, kind: type[Event]) -> list[Any]:
        return [event for event in self.events if isinstance(event, kind)]

    @property
    def names(self) -> list[str]:
        return [type(event).__name__ for event in self.events if isinstance(event, CiEvent)]

    @property
    def ended(self) -> CiWatchEnded:
        event = self.events[-1]
        assert isinstance(event, CiWatchEnded)
        return event

    @property
    def pauses(self) -> list[float]:
        """Seconds between polls."""
        return [later - before for before, later in zip(self.polls, self.polls[1:], strict=False)]

    @property
    def polled(self) -> list[str]:
        """The `actionable` of each poll."""
        return [event.actionable for event in self.of(CiPolled)]

    @property
    def logged(self) -> list[str]:
        return [entry.text for entry in self.state.log]

    @property
    def left(self) -> list[str]:
        return [f"{event.what}: {event.reason}" for event in self.of(CiNeedsPerson)]


class WorldBranch:
    def __init__(self, world: World) -> None:
        self.head, self.push, self._kept = world.head, world.push_commit, world.kept

    async def keep(self, commit: str) -> str:
        await trio.lowlevel.checkpoint()
        self._kept.append(commit)
        return "kept"


class MortalFile(StateFile):
    """The real state file, of a watch that may die before or after it is written."""

    def __init__(self, project: Project, world: World) -> None:
        super().__init__(project, 12)
        self._world = world

    def save(self, state: CiState) -> CiState:
        self._world.die("before saving")
        super().save(state)
        self._world.die("after saving")
        return state


class Killed(BaseException):
    """kill -9: nothing more is done or written."""
