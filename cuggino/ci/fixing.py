"""What a watch does about what it found: threads answered, failures triaged, run again, mended, pushed.

What is about to be done outside is in the state file before it is done, and what was done right after it: a watch that
is killed in between looks whether it happened, and does nothing twice.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Literal

import msgspec

from cuggino.ci.decide import (
    ATTEMPTS,
    Failure,
    Trust,
    View,
    answer_mark,
    answered,
    conflict_name,
    run_name,
    was_run_again,
)
from cuggino.ci.file import StateFile
from cuggino.ci.ports import Branch, Fixers, Hub, Limited, NonFastForward, Refused, Triage, Work
from cuggino.ci.pull import PullRequest, Thread
from cuggino.ci.report import Report
from cuggino.ci.state import LogEntry, Push, Reply, RunAgain, State, one_line
from cuggino.errors import LlmSessionError, LlmSessionErrorKind
from cuggino.events import (
    CiCheckTriaged,
    CiFixFinished,
    CiFixStarted,
    CiNeedsPerson,
    CiPushed,
    CiThreadAnswered,
    Send,
    SystemMessage,
)

_SHOWN = 4000
"""Characters of an agent's words in an answer to a thread."""

_PASSING = (LlmSessionErrorKind.OVERLOADED, LlmSessionErrorKind.USAGE_LIMIT, LlmSessionErrorKind.NETWORK)

replace = msgspec.structs.replace


class Fixing:
    """The hands of a watch. `busy` and `moved` are about the iteration: something was handled; the head is another."""

    def __init__(
        self,
        file: StateFile,
        hub: Hub,
        branch: Branch,
        menders: Fixers,
        trust: Trust,
        send: Send,
        now: Callable[[], datetime],
    ) -> None:
        self.report = Report()
        self.busy = self.moved = False
        self._file = file
        self._hub = hub
        self._branch = branch
        self._menders = menders
        self._trust = trust
        self._send = send
        self._now = now
        self._triaged: dict[str, tuple[str, Triage]] = {}
        """Runs of checks → their logs and why they failed: runs that cannot be run again yet are not triaged twice."""
        self._unsent: dict[Reply, tuple[Thread, Work]] = {}
        """Answers that GitHub's limits have kept from being posted."""

    def begin(self) -> None:
        """A new iteration."""
        self.busy = self.moved = False

    async def recover(self, pull: PullRequest) -> None:
        """What was about to be done when a watch was killed, or a limit of GitHub's came: whether it happened."""
        for flight in self._file.read().in_flight:
            if isinstance(flight, Push):
                if await self._branch.head() == flight.commit:
                    await self._pushed(flight, pull.branch)
                else:
                    self._landed(flight, f"was not pushed: {flight.what}", tried=False)
                continue
            thread = next((thread for thread in pull.threads if thread.id == flight.thread), None)
            unsent = self._unsent.pop(flight, None)
            if thread is not None and answered(thread, flight.comment):
                self._landed(flight, f"was answered: {thread.path}")
            elif unsent is not None:
                await self._answer(flight, *unsent)
            else:
                self._landed(flight, f"was not answered: {flight.thread}", tried=False)

    # ---- threads

    async def threads(self, pull: PullRequest, seen: View) -> None:
        for thread in seen.threads:
            await self._thread(pull, thread)
        for thread in seen.open:
            last = thread.comments[-1]
            if self._file.read().threads.get(thread.id) == last.id:
                continue
            who = last.author or "somebody whose account is gone"
            where = thread.path if thread.line is None else f"{thread.path}:{thread.line}"
            await self.leave(f"thread {thread.id} {last.id}", where, f"an open thread; its last comment is {who}'s")

    async def _thread(self, pull: PullRequest, thread: Thread) -> None:
        last = thread.comments[-1].id
        comments = self._trust.visible(thread)
        await self._send(CiFixStarted(what=thread.path, kind="thread", attempt=1))
        try:
            work = await self._menders.fix_thread(thread, comments, self._file.read().head, self._send)
        except LlmSessionError as error:
            await self._not_now(thread.path, error)
            return
        await self._send(CiFixFinished(what=thread.path, kind="thread", files=work.files, summary=work.summary))
        if work.failed:
            self._handled_thread(thread.id, last)
            await self.leave(f"thread {thread.id} {last}", thread.path, f"no agent could answer it: {work.summary}")
            return
        if work.tip is not None and not await self._push(
            pull, Push(self._file.read().head, work.tip, "thread", one_line(f"{thread.path} {thread.id}"))
        ):
            self._handled_thread(thread.id, last)
            return
        flight = Reply(thread.id, last)
        self._file.update(lambda state: replace(state, in_flight=(*state.in_flight, flight)))
        await self._answer(flight, thread, work)

    async def _answer(self, flight: Reply, thread: Thread, work: Work) -> None:
        try:
            await self._hub.reply(thread.comments[0].id, answer(work, flight.comment))
        except Limited:
            self._unsent[flight] = thread, work
            raise
        except Refused as refused:
            self._landed(flight, f"could not answer {thread.path}: {refused}")
            key = f"thread {thread.id} {flight.comment}"
            await self.leave(key, thread.path, f"it could not be answered: {refused}")
            return
        what = f"answered {thread.path} with {work.tip[:7]}" if work.tip else f"answered {thread.path}: not changed"
        self._landed(flight, what)
        self.report.threads.append((thread.path, work.tip, work.summary))
        await self._send(CiThreadAnswered(thread=thread.id, path=thread.path, fixed=work.tip is not None))

    def _handled_thread(self, thread: str, comment: str) -> None:
        self.busy = True
        self._file.update(lambda state: replace(state, threads={**state.threads, thread: comment}))

    # ---- failures

    async def failures(self, pull: PullRequest, seen: View) -> None:
        """Real ones first: a push has all checks run anew, and no run of the old head need be run again."""
        if self.moved and seen.new_failures:
            self.log(f"superseded by a push: {', '.join(failure.name for failure in seen.failures) or 'the conflict'}")
            return
        if seen.conflict:
            await self._fix(pull, Failure(name=conflict_name(pull.base), checks=()), "", "")
        again: list[tuple[Failure, Triage]] = []
        for failure in seen.failures:
            if self.moved:
                self.log(f"superseded by a push: {failure.name}")
                continue
            found = await self._look(failure)
            if found is None:
                continue
            log, triage = found
            if triage.verdict == "real":
                await self._fix(pull, failure, log, triage.cause)
            else:
                again.append((failure, triage))
        if not self.moved:
            await self._run_again(again)
        if seen.cancelled and not seen.pending:
            head = self._file.read().head
            for name in seen.cancelled:
                await self.leave(f"cancelled {name} {head[:12]}", name, "its newest run was cancelled: run it again")

    async def _look(self, failure: Failure) -> tuple[str, Triage] | None:
        """Its log, and why it failed; None: it is not for now, or not for us."""
        state = self._file.read()
        if state.attempts.get(failure.name, 0) >= ATTEMPTS:
            await self._give_up(failure.name)
            return None
        if all(check.word == "ACTION_REQUIRED" for check in failure.checks):
            self._handled_check(failure.name)
            await self.leave(failure.name, failure.name, "it asks for an action of a person")
            return None
        if any(check.is_action and check.run is None for check in failure.checks):
            self.log(f"left for the next poll, its run is still starting: {failure.name}")
            return None
        key = " ".join((*(f"{run_name(check)} {check.started}" for check in failure.checks), failure.name))
        if key in self._triaged:
            return self._triaged[key]
        try:
            log = "\n\n".join([await self._hub.log(check) for check in failure.checks])
        except Refused as refused:
            self.log(f"left for the next poll: {failure.name}: {refused}")
            return None
        triage = Triage(verdict="real", cause="")
        if all(check.is_action for check in failure.checks):
            try:
                triage = await self._menders.triage(failure, log, state.head, self._send)
            except LlmSessionError as error:
                await self._not_now(failure.name, error)
                return None
            if was_run_again(failure, state):  # it failed twice
                triage = replace(triage, verdict="real")
            self.busy = True
            self.log(f"{triage.verdict}: {failure.name}: {triage.cause}")
            await self._send(CiCheckTriaged(check=failure.name, verdict=triage.verdict, cause=triage.cause))
        self._triaged[key] = log, triage
        return log, triage

    async def _run_again(self, found: list[tuple[Failure, Triage]]) -> None:
        """Each run once, however many of its jobs have failed."""
        asked: dict[int, str | None] = {}
        for failure, triage in found:
            for check in failure.checks:
                if not check.run_over:
                    self.log(f"left for the next poll, its run is not over: {failure.name}")
                    break
                if check.run is not None and check.run not in asked:
                    try:
                        await self._hub.run_again(check.run)
                        asked[check.run] = None
                    except Refused as refused:
                        asked[check.run] = str(refused)
                if refusal := asked.get(check.run or 0):
                    self._handled_check(failure.name)
                    await self.leave(failure.name, failure.name, f"its jobs could not be run again: {refusal}")
                    break
                self._is_run_again(RunAgain(self._file.read().head, run_name(check), failure.name))
                self.log(f"run again: {failure.name}: {triage.verdict}: {triage.cause}")

    def _is_run_again(self, again: RunAgain) -> None:
        self.busy = True
        self._file.update(lambda state: replace(state, again=(*state.again, again)))

    async def _fix(self, pull: PullRequest, failure: Failure, log: str, cause: str) -> None:
        name = failure.name
        state = self._file.read()
        attempt = state.attempts.get(name, 0) + 1
        if attempt > ATTEMPTS:
            await self._give_up(name)
            return
        kind: Literal["check", "conflict"] = "check" if failure.checks else "conflict"
        await self._send(CiFixStarted(what=name, kind=kind, attempt=attempt))
        try:
            if failure.checks:
                work = await self._menders.fix_check(failure, log, cause, state.head, self._send)
            else:
                work = await self._menders.fix_conflict(pull.base, state.head, self._send)
        except LlmSessionError as error:
            await self._not_now(name, error)
            return
        await self._send(CiFixFinished(what=name, kind=kind, files=work.files, summary=work.summary))
        if work.tip is not None:
            if await self._push(pull, Push(state.head, work.tip, "check", name)):
                self.report.fixed.append((name, cause or work.summary))
            return
        self.busy = True
        self._file.update(lambda state: attempted(state, name))
        self.log(f"not mended (attempt {attempt}): {name}: {work.summary}")
        key = name if attempt >= ATTEMPTS else f"{name} at {state.head[:12]}"
        await self.leave(key, name, f"attempt {attempt} to mend it has changed nothing: {work.summary}")

    async def _give_up(self, name: str) -> None:
        self._handled_check(name)
        await self.leave(name, name, f"it fails after {ATTEMPTS} attempts to mend it")

    def _handled_check(self, name: str) -> None:
        self.busy = True
        self._file.update(lambda state: replace(state, checks=tuple(dict.fromkeys((*state.checks, name)))))

    # ---- what both need

    async def _push(self, pull: PullRequest, flight: Push) -> bool:
        """Whether it is the branch's head now; if not, the person was told. Raises Faster: there is nothing to do but
        to look again."""
        self._file.update(lambda state: replace(state, in_flight=(*state.in_flight, flight)))
        try:
            await self._branch.push(flight.commit)
        except NonFastForward:
            self._landed(flight, f"not pushed, somebody was faster: {flight.what}")
            raise
        except Refused as refused:
            kept = await self._branch.keep(flight.commit)
            self._landed(flight, f"could not push {flight.what}: {refused}")
            reason = f"the push was refused; the work is in the branch {kept}: {refused}"
            await self.leave(f"push {flight.commit}", flight.what, reason)
            return False
        await self._pushed(flight, pull.branch)
        return True

    async def _pushed(self, flight: Push, branch: str) -> None:
        self.busy = self.moved = True
        text = f"pushed {flight.commit[:7]}: {flight.what}"
        self._file.update(lambda state: at_head(self._after(state, flight, text), flight.commit, self._now()))
        self.report.commits.append(flight.commit)
        await self._send(CiPushed(branch=branch, commit=flight.commit))

    def _landed(self, flight: Push | Reply, text: str, *, tried: bool = True) -> None:
        """What was in flight is done, or will not be: all of that in one writing of the file."""
        self.busy = True
        self._file.update(lambda state: self._after(state, flight, text, tried=tried))

    def _after(self, state: State, flight: Push | Reply, text: str, *, tried: bool = True) -> State:
        state = replace(self._logged(state, text), in_flight=tuple(it for it in state.in_flight if it != flight))
        if isinstance(flight, Push) and flight.kind == "check" and tried:
            return attempted(state, flight.what)
        if isinstance(flight, Reply) and tried:
            return replace(state, threads={**state.threads, flight.thread: flight.comment})
        return state

    async def _not_now(self, what: str, error: LlmSessionError) -> None:
        """An agent that cannot be set up ends the watch; a provider that is down is waited for."""
        if error.kind not in _PASSING:
            raise error
        self.log(f"left for the next poll: {what}: {error.message}")
        await self._send(SystemMessage(text=f"{what} is left for the next poll: {error.message}"))

    async def leave(self, key: str, what: str, reason: str) -> None:
        """To the person, who is told once."""
        key = one_line(key)
        if key not in self._file.read().left:
            self._file.update(lambda state: replace(state, left=(*state.left, key)))
            self.log(f"left to a person: {what}: {reason}")
            self.report.left.append((what, reason))
            await self._send(CiNeedsPerson(what=what, reason=reason))

    def log(self, text: str) -> None:
        self._file.update(lambda state: self._logged(state, text))

    def _logged(self, state: State, text: str) -> State:
        entry = LogEntry(self._now().replace(microsecond=0), one_line(text) or "-")
        return replace(state, log=(*state.log, entry))


def attempted(state: State, name: str) -> State:
    """An agent has tried to mend the check, whatever came of it."""
    attempts = {**state.attempts, name: state.attempts.get(name, 0) + 1}
    return replace(state, attempts=attempts, checks=tuple(dict.fromkeys((*state.checks, name))))


def at_head(state: State, head: str, at: datetime) -> State:
    """The same with another head: a check that fails there is a new failure."""
    again = tuple(each for each in state.again if each.head == head)
    return replace(state, head=head, last_push=at.replace(microsecond=0), checks=(), again=again)


def answer(work: Work, comment: str) -> str:
    """What is posted. The agent's words are a quotation that names nobody: bots obey what a member says."""
    words = work.summary.strip()
    words = f"{words[:_SHOWN]} […]" if len(words) > _SHOWN else words
    quoted = "\n".join(f"> {line}".rstrip() for line in words.replace("@", "@\u200b").replace("<!--", "").splitlines())
    first = f"Changed in {work.tip}." if work.tip is not None else "Left as it is."
    return "\n\n".join(part for part in (first, quoted, answer_mark(comment)) if part)
