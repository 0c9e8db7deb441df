"""Run the agent on its task: execute, monitor, recover, until it is done, fails or may not continue."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from uuid import uuid4

import msgspec

from cuggino import events
from cuggino.agents.agent import AgentOptions, AgentResult, Denial
from cuggino.agents.exit_report import delete_output
from cuggino.agents.prompts import Prompt
from cuggino.agents.retry import Attempts, RetryAfter, WaitUntil, decide_retry
from cuggino.errors import LlmSessionError
from cuggino.events import (
    AgentMessage,
    Event,
    LLMStarted,
    RecoveryAttempt,
    Send,
    SpawnStatus,
    SystemMessage,
    ToolCall,
)
from cuggino.manifest import TIME_FACTOR
from cuggino.roles import Role
from cuggino.sandbox.confine import Confinement
from cuggino.spawn import recover
from cuggino.spawn.context import SpawnContext
from cuggino.spawn.monitor import Monitor
from cuggino.spawn.task import SpawnRecord

CONTINUE = (
    "What was denied to you before is allowed now, as far as possible; what is denied again stays denied. "
    "Retry what failed for that reason, and finish the task."
)
RESUME = "You were interrupted. Check what exists already, and finish the task."


class WorkResult(msgspec.Struct, frozen=True, kw_only=True):
    """How the agent's work ended."""

    status: SpawnStatus
    limit_reached: bool = False
    summary: str = ""
    problem: str = ""
    recovery: Sequence[str] = ()
    last_lines: Sequence[str] = ()


class Work:
    """The agent's work on the task, with more permissions in each round, as the strategy allows."""

    def __init__(
        self,
        context: SpawnContext,
        record: SpawnRecord,
        confinement: Confinement,
        *,
        prompt: Prompt,
        save: Callable[..., None],
        send: Send,
    ) -> None:
        """Resume `record.conversation`, if there is one. `save` stores changed fields of the record at once."""
        self._context = context
        self._task = record.task
        self._confinement = confinement
        self._prompt = prompt
        self._save = save
        self._send = send
        self._conversation = record.conversation
        self._agent = confinement.agent(Role.WORKER)
        self._instruction = prompt.task if record.conversation is None else RESUME
        self._message = ""
        self._recovery: list[str] = []
        total = self._task.total_timeout * TIME_FACTOR[confinement.manifest.complexity]
        self._monitor = Monitor(idle=self._task.idle_timeout, total=total, now=context.now, send=send)
        self._attempt = 0

    async def run(self) -> WorkResult:
        """Run the agent to its end. Raise LlmSessionError if it fails.

        Cancelled, it leaves no process behind. Its output files are deleted in every case.
        """
        rounds = 0
        while True:
            result = await self._until_it_ends()
            if result is None:
                return self._stopped_at_timeout()
            denials = _unique(result.denials)
            worked = WorkResult(
                status="success", summary=self._message or result.final_text, recovery=tuple(self._recovery)
            )
            decision = await self._decide(denials, rounds) if denials else None
            if decision is None:
                return worked
            if isinstance(decision, recover.Refuse):
                return msgspec.structs.replace(
                    worked,
                    status="permission-denied",
                    limit_reached=decision.limit_reached,
                    problem="\n".join((f"{decision.reason[:1].upper()}{decision.reason[1:]}.", *map(_bullet, denials))),
                )
            rounds += 1
            limit = self._task.max_escalations if self._task.recovery == "moderate" else None
            await self._send(RecoveryAttempt(attempt=rounds, max=limit))
            self._recovery += [f"round {rounds}: {words}" for words in decision.fixes]
            self._confinement = self._confinement.with_manifest(decision.manifest)
            self._agent = self._confinement.agent(Role.WORKER)
            self._save(manifest=decision.manifest)
            self._instruction = CONTINUE

    # ---- the agent

    async def _until_it_ends(self) -> AgentResult | None:
        """Return the result, or None after a timeout. Wait for an overloaded provider, within the same timeouts."""
        attempts = Attempts()
        while True:
            self._attempt += 1
            await self._send(LLMStarted(agent=self._agent.name, attempt=self._attempt))
            try:
                with self._monitor.begin():
                    return await self._spawn()
                return None
            except LlmSessionError as error:
                why = error.message
                limits, jitter = self._context.config.limits, self._context.random.random()
                match decide_retry(error, attempts, limits, now=self._context.now(), jitter=jitter):
                    case RetryAfter() as retry:
                        pause, attempts = retry.delay, retry.attempts
                    case WaitUntil() as wait:
                        pause = (wait.until - self._context.now()).total_seconds()
                    case _:
                        raise
            await self._send(SystemMessage(text=f"{why} Retrying in {pause:.0f} s."))
            if self._conversation is not None:
                self._instruction = RESUME
            with self._monitor.pause() as scope:
                await self._context.sleep(pause)
            if scope.cancelled_caught:
                return None

    async def _spawn(self) -> AgentResult:
        fresh = self._conversation is None
        name = self._conversation or str(uuid4())
        output = self._confinement.outputs / f".agent.{self._attempt}.out"
        options = AgentOptions(
            role=Role.WORKER,
            cwd=self._confinement.sandbox.root,
            prompt=self._instruction,
            output=output,
            system_prompt=self._prompt.standing,
            session_id=name if fresh else None,
            resume_session_id=None if fresh else name,
            model=self._task.model,
            permits=self._confinement.permits,
        )
        spoke = False

        async def see(event: Event) -> None:
            nonlocal spoke
            if isinstance(event, AgentMessage | ToolCall) and not spoke:
                spoke = True
                self._converse(name)
            if isinstance(event, AgentMessage):
                self._message = event.text
            await self._monitor.see(event)

        try:
            result = await self._agent.spawn(options, see)
        finally:
            if spoke:  # however it ended, another process may resume it
                self._converse(self._agent.own_name(name))
            delete_output(output)
        self._converse(result.session_id or self._agent.own_name(name))
        return result

    def _converse(self, name: str) -> None:
        if self._conversation != name:
            self._conversation = name
            self._save(conversation=name)

    # ---- what was denied

    async def _decide(self, denials: Sequence[Denial], rounds: int) -> recover.Escalate | recover.Refuse | None:
        """Return None if the person accepts all denials."""
        manifest = self._confinement.manifest
        rules = recover.FixRules(
            bounds=self._context.sandboxes.bounds,
            folder=self._confinement.sandbox.root,
            secrets=self._context.config.spawn.secrets,
        )
        for denial in denials:
            fix = recover.compute_fix(denial, manifest, rules)
            words = fix.words if isinstance(fix, recover.Fix) else None
            await self._monitor.report(events.PermissionError(error=summarize(denial), fix=words))
        strategy, limit = self._task.recovery, self._task.max_escalations
        decision = recover.decide(strategy, denials, manifest, rules, rounds=rounds, limit=limit)
        return await self._ask(decision) if isinstance(decision, recover.Ask) else decision

    async def _ask(self, question: recover.Ask) -> recover.Escalate | recover.Refuse | None:
        assert self._context.ask is not None
        allowed: list[recover.Fix] = []
        for number, (denial, fix) in enumerate(question.fixes):
            match await self._context.ask(f"{summarize(denial)}: {fix.words}?"):
                case "allow":
                    allowed.append(fix)
                case "allow all":
                    allowed += [fix for _, fix in question.fixes[number:]]
                    break
                case "stop":
                    return recover.Refuse("you stopped it")
        if not allowed:
            return None
        manifest = recover.with_fixes(self._confinement.manifest, allowed)
        return recover.Escalate(manifest, tuple(fix.words for fix in allowed))

    def _stopped_at_timeout(self) -> WorkResult:
        status = self._monitor.timeout
        why = (
            f"The agent was silent for {self._task.idle_timeout:g} s (--idle-timeout)."
            if status == "idle-timeout"
            else "The agent took longer than --total-timeout, multiplied for the complexity of the task."
        )
        return WorkResult(
            status=status,
            summary=self._message,
            problem=why,
            recovery=tuple(self._recovery),
            last_lines=self._monitor.last_lines,
        )


def summarize(denial: Denial) -> str:
    """Return what was denied in one line: the tool, with its command, path or pattern."""
    given = denial.input if isinstance(denial.input, Mapping) else {}
    what = next((str(given[name]) for name in ("command", "file_path", "path", "pattern") if given.get(name)), "")
    return f"{denial.tool}: {what}" if what else denial.tool


def _bullet(denial: Denial) -> str:
    return f"- denied: {' '.join(summarize(denial).split())}"


def _unique(denials: Sequence[Denial]) -> list[Denial]:
    return [denial for index, denial in enumerate(denials) if denial not in denials[:index]]
