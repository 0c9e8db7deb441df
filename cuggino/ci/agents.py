"""The agents that triage and mend, each in a sandbox of its own at the pull request's head.

They read what others wrote: so none of the branch's own agent settings is used, logs and comments reach them as files,
and nothing in their environment lets them push, or ask GitHub. What they wrote becomes one commit with our words.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Literal
from uuid import uuid4

import trio

from cuggino.agents import prompts
from cuggino.agents.agent import Agent, AgentOptions, AgentResult, Backend
from cuggino.agents.exit_report import delete_output
from cuggino.agents.prompts import Prompt
from cuggino.ci.branch import GitBranch
from cuggino.ci.decide import Failure
from cuggino.ci.ports import FixResult, Triage
from cuggino.ci.pull_request import Comment, Thread
from cuggino.ci.triage import VERDICT, triage_of
from cuggino.config import Config
from cuggino.errors import GitError, LlmSessionError, LlmSessionErrorKind, SandboxError
from cuggino.events import AgentMessage, Event, Send, SystemMessage
from cuggino.git.run import SAFE, git_output
from cuggino.integrate.merge import Check, Merged, MergeRequest, merge
from cuggino.integrate.repair import Repairer
from cuggino.agents.activity_timeout import ActivityTimeout
from cuggino.loop.command import ShellCommands
from cuggino.manifest import Bounds, Permits, SandboxManifest
from cuggino.process.children import Children
from cuggino.project import STATE_NAME, Project
from cuggino.roles import Role
from cuggino.sandbox import records
from cuggino.sandbox.default_manifest import default_manifest
from cuggino.sandbox.environment import built, git_variables, launcher
from cuggino.sandbox.leaks import leaks
from cuggino.sandbox.provision import provision
from cuggino.sandbox.removal import remove
from cuggino.sandbox.sandbox import Sandbox
from cuggino.sandbox.secrets import Redaction
from cuggino.sandbox.settle import commit_tree, settle

TITLE = "ci watch"
"""The beginning of the titles of our sandboxes, by which the next watch finds those of one that was killed."""

_CLEANUP = 20.0
_SECRETIVE = ("*KEY*", "*TOKEN*", "*SECRET*", "*PASSWORD*")
_SHORTEST_SECRET = 8
_READING = SandboxManifest(allowed_tools=("Read", "Glob", "Grep"), writable_paths=(), complexity="low")
_HARMLESS = str.maketrans({"[": "(", "]": ")", "@": None, "\0": None})


class SandboxedFixers:
    """The real `Fixers`. `base_remote` is where the pull request's base is."""

    def __init__(
        self,
        project: Project,
        config: Config,
        agent: Callable[[Role], Agent],
        backend: Callable[[Role], Backend],
        children: Children,
        branch: GitBranch,
        base_remote: str,
        number: int,
    ) -> None:
        self._project = project
        self._config = config
        self._agent = agent
        self._backend = backend
        self._children = children
        self._branch = branch
        self._base_remote = base_remote
        self._title = f"{TITLE} #{number}"
        self._bounds = Bounds.of(config.spawn.never_allow, config.specs_path)

    async def sweep(self) -> None:
        """Remove the sandboxes of a watch over this pull request that was killed: nothing in them was pushed."""
        for record in records.every(self._project):
            if record.sandbox.title == self._title and record.sandbox.branch is None:
                await remove(self._project, record.sandbox, force=True)
                shutil.rmtree(self._project.spawns / record.sandbox.id, ignore_errors=True)

    # ---- what is asked for

    async def triage(self, failure: Failure, log: str, head: str, send: Send, /) -> Triage:
        try:
            async with self._sandbox(head) as place:
                path = place.note("failure.md", _failure(failure, log))
                prompt = prompts.fill(Role.TRIAGE, {"root": str(place.sandbox.root), "failure": str(path)})
                result, words = await self._run(place, Role.TRIAGE, prompt, _READING, send, schema=VERDICT)
        except (SandboxError, GitError) as error:
            return Triage(verdict="real", cause=f"(no triage: {error.message})")
        if result is None:
            return Triage(verdict="real", cause=f"(no triage: {words})")
        return triage_of(result.structured, words)

    async def fix_check(self, failure: Failure, log: str, cause: str, head: str, send: Send, /) -> FixResult:
        note = _failure(failure, log, cause)
        return await self._fix("fixer", "failure", note, f"Fix {failure.name}", head, send)

    async def fix_thread(self, thread: Thread, comments: tuple[Comment, ...], head: str, send: Send, /) -> FixResult:
        return await self._fix("thread", "thread", _thread(thread, comments), f"Review: {thread.path}", head, send)

    async def fix_conflict(self, base: str, head: str, send: Send, /) -> FixResult:
        try:
            commit = await self._branch.fetch_from(self._base_remote, base)
            async with self._sandbox(head) as place:
                return await self._merge(place, base, commit, send)
        except (SandboxError, GitError) as error:
            return FixResult(summary=error.message, failed=True)

    # ---- how it is done

    async def _fix(
        self, role: Literal["fixer", "thread"], key: str, note: str, title: str, head: str, send: Send
    ) -> FixResult:
        try:
            async with self._sandbox(head) as place:
                manifest = default_manifest(place.sandbox.root, self._config)
                await self._set_up(place, manifest, send)
                path = place.note(f"{key}.md", note)
                command = self._config.check_command
                check = f"- The project's check command: `{command}`\n" if command else ""
                prompt = prompts.fixing(role, {"root": str(place.sandbox.root), key: str(path), "check": check})
                result, words = await self._run(place, Role.WORKER, prompt, manifest, send)
                if result is None:
                    return FixResult(summary=words, failed=True)
                return await self._settle(place, manifest, title, words)
        except (SandboxError, GitError) as error:
            return FixResult(summary=error.message, failed=True)

    async def _settle(self, place: _Place, manifest: SandboxManifest, title: str, words: str) -> FixResult:
        """One commit on the head, whatever commits the agent has made: their messages could keep CI from running."""
        sandbox = place.sandbox
        place.take_notes_back()
        settled = await settle(sandbox, Permits(manifest=manifest, bounds=self._bounds), title)
        left_out = f" (not pushed: {', '.join(settled.left_out)})" if settled.left_out else ""
        if settled.tip is None:
            return FixResult(summary=f"{words}{left_out}")
        tree = (await git_output(sandbox.repository, *SAFE, "rev-parse", f"{settled.tip}^{{tree}}")).decode().strip()
        tip = await commit_tree(sandbox, tree, (sandbox.base,), _subject(title))
        return await self._checked(place, tip, f"{words}{left_out}")

    async def _checked(self, place: _Place, tip: str, words: str) -> FixResult:
        """Nothing that the agent's own login consists of leaves this machine."""
        sandbox = place.sandbox
        if found := await leaks(sandbox.repository, sandbox.base, tip, place.secrets):
            where = ", ".join(leak.path or "a commit's message" for leak in found[:5])
            return FixResult(summary=f"a secret is in what was written, so it is not pushed: {where}", failed=True)
        names = await git_output(
            sandbox.repository, *SAFE, "diff-tree", "-r", "-z", "--name-only", "--no-renames", sandbox.base, tip
        )
        files = tuple(name.decode(errors="backslashreplace") for name in names.split(b"\0")[:-1])
        return FixResult(tip=tip, files=files, summary=words)

    async def _merge(self, place: _Place, base: str, commit: str, send: Send) -> FixResult:
        sandbox, config = place.sandbox, self._config
        manifest = default_manifest(sandbox.root, config)
        permits = Permits(manifest=manifest, bounds=self._bounds)
        await self._set_up(place, manifest, send)
        repairer = Repairer(
            agent=self._agent(Role.WORKER),
            backend=self._backend(Role.WORKER),
            task=f"Bring {base} into the branch of a pull request: {self._branch.name}",
            specs_path=config.specs_path,
            check=config.check_command,
            permits=permits,
            environment=self._environment(place, Role.WORKER, manifest),
            launcher=launcher(config.spawn.launcher, sandbox),
            model=config.model,
            limits=config.limits,
            attempts=1,
            outputs=place.folder,
            send=send,
            foreign=True,
        )
        merge_request = MergeRequest(
            sandbox=sandbox,
            permits=permits,
            message=_subject(f"Merge {base} into {self._branch.name}"),
            check=self._check(place, manifest) if config.check_command else None,
            repair=repairer,
            repair_attempts=1,
            onto_branch=True,
        )
        merged = await merge(merge_request, commit, sandbox.base, send)
        if not isinstance(merged, Merged):
            return FixResult(summary=merged.reason)
        paths = ", ".join(conflict.path for conflict in merged.conflicts)
        return await self._checked(place, merged.commit, f"merged {base}: {merged.how}{f' ({paths})' if paths else ''}")

    @asynccontextmanager
    async def _sandbox(self, head: str) -> AsyncIterator[_Place]:
        await self._branch.fetch(head)
        sandbox = await provision(self._project, self._config, base=head, detached=True, title=self._title, target=None)
        folder = self._project.spawns / sandbox.id
        try:
            yield _Place(sandbox, folder, await git_variables(sandbox))
        finally:
            with trio.move_on_after(_CLEANUP, shield=True):
                await remove(self._project, sandbox, force=True)
                shutil.rmtree(folder, ignore_errors=True)

    def _environment(self, place: _Place, role: Role, manifest: SandboxManifest) -> Mapping[str, str]:
        backend = self._backend(role)
        environment = built(backend, manifest, {}, os.environ, place.git)
        login = backend.login_environment
        place.secrets = tuple(
            value
            for name, value in environment.items()
            if any(fnmatchcase(name, pattern) for pattern in login)
            and any(fnmatchcase(name.upper(), pattern) for pattern in _SECRETIVE)
            and len(value) >= _SHORTEST_SECRET
        )
        return environment

    async def _set_up(self, place: _Place, manifest: SandboxManifest, send: Send) -> None:
        if (command := self._config.setup_command) is None:
            return
        commands = self._commands(place, manifest)
        result = await commands.run(command, place.folder / "setup.txt", timeout=self._config.limits.command_timeout)
        if result.exit_code != 0:
            end = result.output[-500:].strip()
            await send(SystemMessage(text=f"The setup command exited with {result.exit_code} in the sandbox: {end}"))

    def _check(self, place: _Place, manifest: SandboxManifest) -> Check:
        commands = self._commands(place, manifest)

        async def check(_root: Path) -> bool:
            assert self._config.check_command is not None
            output = place.folder / "check.txt"
            timeout = self._config.limits.command_timeout
            return (await commands.run(self._config.check_command, output, timeout=timeout)).exit_code == 0

        return check

    def _commands(self, place: _Place, manifest: SandboxManifest) -> ShellCommands:
        return ShellCommands(
            self._children,
            place.sandbox.root,
            launcher=launcher(self._config.spawn.launcher, place.sandbox),
            environment=self._environment(place, Role.WORKER, manifest),
        )

    async def _run(
        self,
        place: _Place,
        role: Role,
        prompt: Prompt,
        manifest: SandboxManifest,
        send: Send,
        *,
        schema: Mapping[str, object] | None = None,
    ) -> tuple[AgentResult | None, str]:
        """Its result and its last words, without secrets; no result: it came to no end, and why."""
        words = ""

        async def see(event: Event) -> None:
            nonlocal words
            event = redaction.event(event)
            if isinstance(event, AgentMessage):
                words = event.text
            await activity.pass_on(event)

        environment = self._environment(place, role, manifest)
        redaction = Redaction(place.secrets)
        activity = ActivityTimeout(self._config.limits, send)
        options = AgentOptions(
            role=role,
            cwd=place.sandbox.root,
            prompt=prompt.task,
            output=place.folder / f".{role.value}.out",
            system_prompt=prompt.standing,
            session_id=str(uuid4()),
            model=self._config.model,
            schema=schema,
            budget_usd=self._config.limits.max_cost_usd,
            environment=environment,
            permits=Permits(manifest=manifest, bounds=self._bounds),
            foreign=True,
            launcher=launcher(self._config.spawn.launcher, place.sandbox),
        )
        activity.begin()
        try:
            with activity.scope:
                result = await self._agent(role).spawn(options, see)
                return result, redaction.text(result.final_text) or words
        except LlmSessionError as error:
            if error.kind not in (LlmSessionErrorKind.REFUSED, LlmSessionErrorKind.CRASHED):
                raise
            return None, redaction.text(error.message)
        finally:
            delete_output(options.output)
        return None, str(activity.verdict() or "it was stopped")


class _Place:
    """A sandbox, and a folder of ours for what is not the agent's business."""

    def __init__(self, sandbox: Sandbox, folder: Path, git: Mapping[str, str]) -> None:
        self.sandbox = sandbox
        self.folder = folder
        self.git = git
        self.secrets: Sequence[str] = ()

    @property
    def _notes(self) -> Path:
        return self.sandbox.root / STATE_NAME / "ci"

    def note(self, name: str, text: str) -> Path:
        """A file for the agent to read, where nothing is brought home from."""
        self._notes.mkdir(0o700, parents=True, exist_ok=True)
        path = self._notes / name
        path.write_text(text, encoding="utf-8", errors="backslashreplace")
        return path

    def take_notes_back(self) -> None:
        """They are none of the changes. Where the agent has put a link, nothing is followed."""
        if not self._notes.is_symlink() and not self._notes.parent.is_symlink():
            shutil.rmtree(self._notes, ignore_errors=True)


# ---- what they read ---------------------------------------------------------------------------


def _failure(failure: Failure, log: str, cause: str = "") -> str:
    found = f"\n## What was found to be the cause\n\n{cause}\n" if cause else ""
    return f"# {failure.name}\n{found}\n## Its log\n\n{log}\n"


def _thread(thread: Thread, comments: Sequence[Comment]) -> str:
    where = thread.path if thread.line is None else f"{thread.path}, line {thread.line}"
    parts = [f"# A review thread: {where}"]
    if thread.left_out:
        parts.append(f"({thread.left_out} comments in its middle are left out.)")
    parts += [f"## {comment.author}{' (a bot)' if comment.bot else ''}\n\n{comment.body}" for comment in comments]
    return "\n\n".join(parts) + "\n"


def _subject(text: str) -> str:
    """A commit's message in which no words of others keep CI from running, or close an issue."""
    return " ".join(text.translate(_HARMLESS).replace("#", "").split())[:200]
