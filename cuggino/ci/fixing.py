"""Act on a poll: answer threads, and triage, rerun and fix failures."""

from __future__ import annotations

from functools import partial
from typing import Literal

from cuggino.ci import decide
from cuggino.ci.decide import ATTEMPTS, Failure, Trust, View
from cuggino.ci.journal import Journal
from cuggino.ci.ports import (
    Branch,
    Fixers,
    FixResult,
    NonFastForward,
    OperationFailed,
    PullRequestApi,
    RateLimited,
    Triage,
)
from cuggino.ci.pull_request import PullRequestSnapshot, Thread
from cuggino.ci.state import CiState, Push, Reply, Rerun, one_line, replace
from cuggino.errors import LlmSessionError, LlmSessionErrorKind
from cuggino.events import CiCheckTriaged, CiFixFinished, CiFixStarted, CiThreadAnswered, SystemMessage

_SHOWN = 4000
"""Characters of an agent's summary in an answer to a thread."""

_GIVEN_UP = f"it still fails after {ATTEMPTS} attempts to fix it"
_PASSING = (LlmSessionErrorKind.OVERLOADED, LlmSessionErrorKind.USAGE_LIMIT, LlmSessionErrorKind.NETWORK)


class PullRequestFixer:
    """Handles what polls of one pull request show. Its methods may raise RateLimited, PollFailed and NonFastForward."""

    def __init__(self, journal: Journal, api: PullRequestApi, branch: Branch, fixers: Fixers, trust: Trust) -> None:
        self._journal = journal
        self._api = api
        self._branch = branch
        self._fixers = fixers
        self._trust = trust
        self._send = journal.send
        self._triaged: dict[str, tuple[str, Triage]] = {}
        """Runs of checks → log and triage: a run that cannot be rerun yet is not triaged twice."""
        self._unsent: dict[Reply, tuple[Thread, FixResult]] = {}
        """Answers that a rate limit has kept from being posted."""

    async def recover(self, pull: PullRequestSnapshot) -> None:
        """Find out about everything in flight, which a kill or a rate limit left open, whether it happened."""
        for operation in self._journal.read().in_flight:
            if isinstance(operation, Push):
                if await self._branch.head() == operation.commit:
                    await self._journal.finish_push(operation, pull.branch)
                else:
                    self._journal.finish(operation, f"was not pushed: {operation.what}", tried=False)
                continue
            thread = next((thread for thread in pull.threads if thread.id == operation.thread), None)
            unsent = self._unsent.pop(operation, None)
            if thread is not None and decide.has_answer(thread, operation.comment):
                self._journal.finish(operation, f"was answered: {thread.path}")
            elif unsent is not None:
                await self._answer(operation, *unsent)
            else:
                self._journal.finish(operation, f"was not answered: {operation.thread}", tried=False)

    # ---- threads

    async def fix_threads(self, pull: PullRequestSnapshot, seen: View) -> None:
        for thread in seen.threads:
            await self._fix_thread(pull, thread)
        for thread in seen.open_threads:
            last = thread.comments[-1]
            if self._journal.read().handled_threads.get(thread.id) == last.id:
                continue
            reason = f"an open thread; last comment by {last.author or 'a deleted account'}"
            await self._journal.leave(f"thread {thread.id} {last.id}", thread.place, reason)

    async def _fix_thread(self, pull: PullRequestSnapshot, thread: Thread) -> None:
        last = thread.comments[-1].id
        comments = self._trust.visible(thread)
        await self._send(CiFixStarted(what=thread.path, kind="thread", attempt=1))
        try:
            result = await self._fixers.fix_thread(thread, comments, self._journal.read().head, self._send)
        except LlmSessionError as error:
            await self._postpone(thread.path, error)
            return
        await self._send(CiFixFinished(what=thread.path, kind="thread", files=result.files, summary=result.summary))
        if result.failed:
            self._journal.record(lambda state: state.with_thread_handled(thread.id, last))
            reason = f"the agent did not finish: {result.summary}"
            await self._journal.leave(f"thread {thread.id} {last}", thread.path, reason)
            return
        if result.tip is not None and not await self._push(
            pull, Push(self._journal.read().head, result.tip, "thread", one_line(f"{thread.path} {thread.id}"))
        ):
            self._journal.record(lambda state: state.with_thread_handled(thread.id, last))
            return
        operation = Reply(thread.id, last)
        self._journal.start(operation)
        await self._answer(operation, thread, result)

    async def _answer(self, operation: Reply, thread: Thread, result: FixResult) -> None:
        try:
            await self._api.reply(thread.comments[0].id, answer(result, operation.comment))
        except RateLimited:
            self._unsent[operation] = thread, result
            raise
        except OperationFailed as failure:
            self._journal.finish(operation, f"could not answer {thread.path}: {failure}")
            key = f"thread {thread.id} {operation.comment}"
            await self._journal.leave(key, thread.path, f"the answer could not be posted: {failure}")
            return
        how = f"with {result.tip[:7]}" if result.tip else "without a change"
        self._journal.finish(operation, f"answered {thread.path} {how}")
        self._journal.report.threads.append((thread.path, result.tip, result.summary))
        await self._send(CiThreadAnswered(thread=thread.id, path=thread.path, fixed=result.tip is not None))

    # ---- failures

    async def fix_failures(self, pull: PullRequestSnapshot, seen: View) -> None:
        """Fix real failures first: a push makes all checks run again, so that no run of the old head is rerun."""
        if self._journal.head_moved and seen.new_failures:
            names = ", ".join(failure.name for failure in seen.failures)
            self._journal.log(f"superseded by a push: {names or 'the conflict'}")
            return
        if seen.conflict:
            await self._fix(pull, Failure(name=decide.conflict_name(pull.base), checks=()), "", "")
        flakes: list[tuple[Failure, Triage]] = []
        for failure in seen.failures:
            if self._journal.head_moved:
                self._journal.log(f"superseded by a push: {failure.name}")
                continue
            found = await self._triage(failure)
            if found is None:
                continue
            log, triage = found
            if triage.verdict == "real":
                await self._fix(pull, failure, log, triage.cause)
            else:
                flakes.append((failure, triage))
        if not self._journal.head_moved:
            await self._rerun(flakes)
        if seen.cancelled and not seen.pending:
            head = self._journal.read().head
            for name in seen.cancelled:
                reason = "its latest run was cancelled; run it again"
                await self._journal.leave(f"cancelled {name} {head[:12]}", name, reason)

    async def _triage(self, failure: Failure) -> tuple[str, Triage] | None:
        """Return its log and why it failed; None if that is left for the next poll, or to a person."""
        state = self._journal.read()
        if state.attempts.get(failure.name, 0) >= ATTEMPTS:
            await self._leave_check(failure.name, _GIVEN_UP)
            return None
        if all(check.word == "ACTION_REQUIRED" for check in failure.checks):
            await self._leave_check(failure.name, "a person has to act on it")
            return None
        if any(check.is_action and check.run is None for check in failure.checks):
            self._journal.log(f"left for the next poll, its run is still starting: {failure.name}")
            return None
        key = " ".join((*(f"{check.id} {check.started}" for check in failure.checks), failure.name))
        if key not in self._triaged:
            found = await self._ask_for_triage(failure)
            if found is None:
                return None
            self._triaged[key] = found
        return self._triaged[key]

    async def _ask_for_triage(self, failure: Failure) -> tuple[str, Triage] | None:
        state = self._journal.read()
        try:
            log = "\n\n".join([await self._api.log(check) for check in failure.checks])
        except OperationFailed as reason:
            self._journal.log(f"left for the next poll: {failure.name}: {reason}")
            return None
        if not all(check.is_action and check.id is not None for check in failure.checks):  # no job's log to read
            return log, Triage(verdict="real", cause="")
        try:
            triage = await self._fixers.triage(failure, log, state.head, self._send)
        except LlmSessionError as error:
            await self._postpone(failure.name, error)
            return None
        if decide.was_rerun(failure, state):  # it failed twice
            triage = replace(triage, verdict="real")
        self._journal.busy = True
        self._journal.log(f"{triage.verdict}: {failure.name}: {triage.cause}")
        await self._send(CiCheckTriaged(check=failure.name, verdict=triage.verdict, cause=triage.cause))
        return log, triage

    async def _rerun(self, flakes: list[tuple[Failure, Triage]]) -> None:
        """Run each run again once, however many of its jobs failed."""
        requested: dict[int, str | None] = {}
        """Run → why it could not be run again."""
        for failure, triage in flakes:
            for check in failure.checks:
                if not check.run_over:
                    self._journal.log(f"left for the next poll, its run has not ended: {failure.name}")
                    break
                if check.run is not None and check.run not in requested:
                    requested[check.run] = await self._request_rerun(check.run)
                if reason := requested.get(check.run or 0):
                    await self._leave_check(failure.name, f"its jobs could not be run again: {reason}")
                    break
                rerun = Rerun(self._journal.read().head, str(check.id), failure.name)
                self._journal.record(partial(CiState.with_rerun, rerun=rerun))
                self._journal.log(f"run again: {failure.name}: {triage.verdict}: {triage.cause}")

    async def _request_rerun(self, run: int) -> str | None:
        try:
            await self._api.rerun(run)
        except OperationFailed as failure:
            return str(failure)
        return None

    async def _fix(self, pull: PullRequestSnapshot, failure: Failure, log: str, cause: str) -> None:
        name = failure.name
        state = self._journal.read()
        attempt = state.attempts.get(name, 0) + 1
        if attempt > ATTEMPTS:
            await self._leave_check(name, _GIVEN_UP)
            return
        kind: Literal["check", "conflict"] = "check" if failure.checks else "conflict"
        await self._send(CiFixStarted(what=name, kind=kind, attempt=attempt))
        try:
            if failure.checks:
                result = await self._fixers.fix_check(failure, log, cause, state.head, self._send)
            else:
                result = await self._fixers.fix_conflict(pull.base, state.head, self._send)
        except LlmSessionError as error:
            await self._postpone(name, error)
            return
        await self._send(CiFixFinished(what=name, kind=kind, files=result.files, summary=result.summary))
        if result.tip is not None:
            if await self._push(pull, Push(state.head, result.tip, "check", name)):
                self._journal.report.fixed.append((name, cause or result.summary))
            return
        self._journal.record(lambda state: state.with_attempt(name))
        self._journal.log(f"not fixed (attempt {attempt}): {name}: {result.summary}")
        key = name if attempt >= ATTEMPTS else f"{name} at {state.head[:12]}"
        await self._journal.leave(key, name, f"attempt {attempt} to fix it changed nothing: {result.summary}")

    async def _leave_check(self, name: str, reason: str) -> None:
        self._journal.record(lambda state: state.with_check_handled(name))
        await self._journal.leave(name, name, reason)

    # ---- for both

    async def _push(self, pull: PullRequestSnapshot, operation: Push) -> bool:
        """Return whether it is the branch's head now; if not, it is kept and left to the person."""
        if not await self._api.is_open():
            self._journal.log(f"not pushed, the pull request was merged or closed meanwhile: {operation.what}")
            raise NonFastForward
        self._journal.start(operation)
        try:
            await self._branch.push(operation.commit, operation.onto)
        except NonFastForward:
            self._journal.finish(operation, f"not pushed, somebody else pushed first: {operation.what}")
            raise
        except OperationFailed as failure:
            kept = await self._branch.keep(operation.commit)
            self._journal.finish(operation, f"could not push {operation.what}: {failure}")
            reason = f"the push failed; the commit is kept in the branch {kept}: {failure}"
            await self._journal.leave(f"push {operation.commit}", operation.what, reason)
            return False
        await self._journal.finish_push(operation, pull.branch)
        return True

    async def _postpone(self, what: str, error: LlmSessionError) -> None:
        """Wait for a provider that is down. Raise the error of an agent that cannot be set up: it ends the watch."""
        if error.kind not in _PASSING:
            raise error
        self._journal.log(f"left for the next poll: {what}: {error.message}")
        await self._send(SystemMessage(text=f"{what} is left for the next poll: {error.message}"))


def answer(result: FixResult, comment: str) -> str:
    """Return the reply to post. The agent's summary is quoted and mentions nobody: bots obey what a member writes."""
    words = result.summary.strip()
    words = f"{words[:_SHOWN]} […]" if len(words) > _SHOWN else words
    quoted = "\n".join(f"> {line}".rstrip() for line in words.replace("@", "@\u200b").replace("<!--", "").splitlines())
    first = f"Changed in {result.tip}." if result.tip is not None else "Nothing was changed."
    return "\n\n".join(part for part in (first, quoted, decide.answer_mark(comment)) if part)
