"""A pull request on the virtual clock: GitHub, branch and agents answer as the test says; the state file is a real one.

world = World(tmp_path)
world.check("test", "FAILURE")
world.mends = ["fixed"]
assert await world.watch() == 0
"""

from __future__ import annotations

import signal
from collections import defaultdict
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path
from typing import Any

import msgspec
import trio

from cuggino.ci.decide import Failure, System, Trust
from cuggino.ci.file import StateFile
from cuggino.ci.ports import Triage, Work
from cuggino.ci.pull import Check, Comment, PullRequest, Thread
from cuggino.ci.query import OUTCOMES
from cuggino.ci.state import State
from cuggino.ci.watch import watch_pull
from cuggino.events import CiEvent, CiNeedsPerson, CiPolled, CiWatchEnded, Event, Send
from cuggino.project import Project
from cuggino.signals import Shutdown

START = datetime(2026, 1, 1, tzinfo=UTC)
HEAD = "a" * 40
replace = msgspec.structs.replace


def comment(number: int, author: str | None = "mia", association: str = "MEMBER", **more: Any) -> Comment:
    fields = {"bot": False, "own": False, "body": f"comment {number}", **more}
    return Comment(id=str(number), author=author, association=association, **fields)


def thread(name: str, *comments: Comment, **more: Any) -> Thread:
    return Thread(id=name, **{"path": f"{name}.py", "line": 3, "resolved": False, **more}, comments=comments)


def check(name: str, word: str, *, id: int | None = None, **more: Any) -> Check:  # noqa: A002
    """A finished run of GitHub Actions, or one that goes on."""
    outcome = OUTCOMES.get(word, "pending")
    fields: dict[str, Any] = {"app": "github-actions", "workflow": "ci", "event": "push", "run": 100, **more}
    return Check(name=name, outcome=outcome, word=word, id=id, **fields)


PULL = PullRequest(
    number=12,
    title="A change",
    url="https://github.com/o/r/pull/12",
    state="OPEN",
    mergeable="MERGEABLE",
    author="mia",
    author_is_bot=False,
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
    """`pull` is what the next poll tells. `script` runs before each poll, and may change it, or raise."""

    def __init__(self, root: Path, **pull: Any) -> None:
        self.project = Project.find(root)
        self.file = File(self.project, self)
        self.pull = replace(PULL, **pull)
        self.tip = HEAD
        """Where the branch really is."""
        self.system: System = "github-actions"
        self.trust = Trust(bots=("bot",))
        self.trust_author = False
        self.limit = 90
        self.shutdown = Shutdown()
        self.events: list[tuple[float, Event]] = []
        self.polls: list[float] = []
        self.requests = 0
        self.script: Callable[[int], None] = lambda _: None
        self.writers = {"mia"}
        self.triages: defaultdict[str, list[Triage]] = defaultdict(list)
        self.works: defaultdict[str, list[Work | Exception]] = defaultdict(list)
        self.after_push: Callable[[], None] = self.all_pending
        self.push_refused: Exception | None = None
        self.reply_refused: Exception | None = None
        self.rerun_refused: Exception | None = None
        self.log_refused: Exception | None = None
        self.agents: list[str] = []
        self.seen_comments: list[tuple[Comment, ...]] = []
        self.pushes: list[str] = []
        self.replies: list[tuple[str, str]] = []
        self.reruns: list[int] = []
        self.kept: list[str] = []
        self.dies_at = 0
        """At the so manieth step it dies, as by kill -9; 0: never. `steps` have been made."""
        self.steps: list[str] = []
        self._made: dict[str, str] = {}
        self._mended: dict[str, str] = {}
        """Commits that were pushed → what they mend."""
        self._ids = count(1000)
        self._commits = count(1)

    # ---- what happens on GitHub

    def checks(self, **words: str) -> None:
        """These are the checks of the head, and no others."""
        self.pull = replace(
            self.pull, checks=tuple(check(name, word, id=next(self._ids)) for name, word in words.items())
        )

    def threads(self, *threads: Thread) -> None:
        self.pull = replace(self.pull, threads=threads)

    def all_pending(self) -> None:
        self.checks(**{each.name: "IN_PROGRESS" for each in self.pull.checks})

    @property
    def mended(self) -> list[str]:
        """What each push has mended."""
        return list(self._mended.values())

    def push(self, *, lag: bool = False) -> str:
        """Somebody pushes."""
        self.tip = f"{next(self._commits):x}".rjust(40, "b")
        if not lag:
            self.shows_tip()
        return self.tip

    def shows_tip(self) -> None:
        self.pull = replace(self.pull, head=self.tip, last_head=self.tip)

    # ---- the ports

    async def poll(self) -> PullRequest:
        self.requests += 1
        self.polls.append(trio.current_time())
        self.script(len(self.polls))
        await trio.lowlevel.checkpoint()
        return self.pull

    async def may_write(self, login: str) -> bool:
        await trio.lowlevel.checkpoint()
        return login in self.writers

    async def log(self, check: Check) -> str:
        await trio.lowlevel.checkpoint()
        if self.log_refused is not None:
            raise self.log_refused
        return f"log of {check.name}"

    async def run_again(self, run: int) -> None:
        await trio.lowlevel.checkpoint()
        if self.rerun_refused is not None:
            raise self.rerun_refused
        self.reruns.append(run)

    async def reply(self, comment_id: str, body: str) -> None:
        self.die("before reply")
        await trio.lowlevel.checkpoint()
        if self.reply_refused is not None:
            raise self.reply_refused
        self.replies.append((comment_id, body))
        threads = tuple(
            replace(each, comments=(*each.comments, comment(next(self._ids), "me", "OWNER", own=True, body=body)))
            if each.comments[0].id == comment_id
            else each
            for each in self.pull.threads
        )
        self.pull = replace(self.pull, threads=threads)
        self.die("after reply")

    async def head(self) -> str | None:
        await trio.lowlevel.checkpoint()
        return self.tip

    def branch_push(self, commit: str) -> None:
        if self.push_refused is not None:
            raise self.push_refused
        self.die("before push")
        self.pushes.append(commit)
        self._mended[commit] = self._made[commit]
        self.tip = commit
        self.shows_tip()
        self.after_push()
        self.die("after push")

    def die(self, where: str) -> None:
        """Once dead, every step fails: cleaning up writes nothing more."""
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

    async def fix_check(self, failure: Failure, _log: str, _cause: str, head: str, _send: Send) -> Work:
        return await self._work(failure.name, head)

    async def fix_thread(self, thread: Thread, comments: tuple[Comment, ...], head: str, _send: Send) -> Work:
        self.seen_comments.append(comments)
        return await self._work(thread.id, head)

    async def fix_conflict(self, _base: str, head: str, _send: Send) -> Work:
        return await self._work("conflict", head)

    async def _work(self, name: str, head: str) -> Work:
        await trio.sleep(1)
        self.agents.append(f"mend {name} at {head[-4:]}")
        self.die("work")
        left = self.works[name]
        if name in self._mended.values() and not left and self.dies_at:
            return Work(summary="it is done")
        work = left.pop(0) if left else self.fixed()
        if isinstance(work, Exception):
            raise work
        if work.tip is not None:
            self._made[work.tip] = name
        return work

    def fixed(self) -> Work:
        return Work(tip=f"{next(self._commits):x}".rjust(40, "c"), files=("a.py",), summary="mended")

    # ---- the watch

    async def watch(self) -> int:
        world = self

        class Branch:
            async def head(self) -> str | None:
                return await world.head()

            async def push(self, commit: str) -> None:
                await trio.lowlevel.checkpoint()
                world.branch_push(commit)

            async def keep(self, commit: str) -> str:
                await trio.lowlevel.checkpoint()
                world.kept.append(commit)
                return "kept"

        async def context(_pull: PullRequest) -> tuple[Branch, World]:
            return Branch(), world

        self.shutdown = Shutdown()
        with self.shutdown.interrupted:
            return await watch_pull(
                file=self.file,
                hub=self,
                context=context,
                system=self.system,
                trust=self.trust,
                trust_author=self.trust_author,
                limit=self.limit,
                shutdown=self.shutdown,
                send=self.send,
                now=lambda: START + timedelta(seconds=trio.current_time()),
            )
        return 130

    async def send(self, event: Event) -> None:
        self.events.append((trio.current_time(), event))

    def escalate(self) -> None:
        self.shutdown.escalate(signal.SIGINT)

    # ---- what was seen

    @property
    def state(self) -> State:
        return self.file.read()

    def of(self, kind: type[Event]) -> list[Any]:
        return [event for _, event in self.events if isinstance(event, kind)]

    @property
    def names(self) -> list[str]:
        return [type(event).__name__ for _, event in self.events if isinstance(event, CiEvent)]

    @property
    def ended(self) -> CiWatchEnded:
        event = self.events[-1][1]
        assert isinstance(event, CiWatchEnded)
        return event

    @property
    def pauses(self) -> list[float]:
        """Between the end of an iteration and the next poll: what the file said before each."""
        return [later - before for before, later in zip(self.polls, self.polls[1:], strict=False)]

    @property
    def told(self) -> list[str]:
        return [event.actionable for event in self.of(CiPolled)]

    @property
    def left(self) -> list[str]:
        return [f"{event.what}: {event.reason}" for event in self.of(CiNeedsPerson)]


class File(StateFile):
    """The real one, of a watch that may die before or after it is written."""

    def __init__(self, project: Project, world: World) -> None:
        super().__init__(project, 12)
        self._world = world

    def save(self, state: State) -> State:
        self._world.die("before saving")
        super().save(state)
        self._world.die("after saving")
        return state


class Killed(BaseException):
    """kill -9: nothing more is done or written."""
