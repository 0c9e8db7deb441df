"""The agents that triage and fix, each in a sandbox of its own at the pull request's head.

They read what others wrote. So none of the branch's own agent settings is used, logs and comments reach them as files,
and nothing in their environment lets them push, or ask GitHub. Their work becomes one commit with a message of ours.
"""

from __future__ import annotations

import shutil
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Literal

import trio

from cuggino.agents import prompts
from cuggino.agents.activity_timeout import ActivityLimits
from cuggino.agents.prompts import Prompt
from cuggino.ci.branch import GitBranch
from cuggino.ci.decide import Failure
from cuggino.ci.ports import FixResult, Triage
from cuggino.ci.pull_request import Comment, Thread
from cuggino.ci.triage import VERDICT, triage_of
from cuggino.errors import GitError, LlmSessionError, LlmSessionErrorKind, SandboxError
from cuggino.events import Send
from cuggino.git.run import SAFE, git_output
from cuggino.integrate.merge import Merged, MergeRequest, merge
from cuggino.integrate.repair import merge_context
from cuggino.loop.command import background
from cuggino.manifest import SandboxManifest
from cuggino.project import STATE_NAME
from cuggino.roles import Role
from cuggino.sandbox import records
from cuggino.sandbox.confine import AgentRun, Confinement, SandboxContext, confine
from cuggino.sandbox.default_manifest import default_manifest
from cuggino.sandbox.provision import provision
from cuggino.sandbox.removal import remove
from cuggino.sandbox.settle import commit_tree, settle

TITLE = "ci watch"
"""The beginning of the titles of our sandboxes, by which the next watch finds those of one that was killed."""

_CLEANUP = 20.0
_READING = SandboxManifest(allowed_tools=("Read", "Glob", "Grep"), writable_paths=(), complexity="low")
_HARMLESS = str.maketrans({"[": "(", "]": ")", "@": None, "\0": None})


class SandboxedFixers:
    """The real `Fixers`. `base_remote` is where the pull request's base is."""

    def __init__(self, context: SandboxContext, branch: GitBranch, base_remote: str, number: int) -> None:
        self._context = context
        self._project = context.project
        self._config = context.config
        self._branch = branch
        self._base_remote = base_remote
        self._title = f"{TITLE} #{number}"
        self._limits = ActivityLimits.of(context.config.limits)

    async def prune(self) -> None:
        """Remove the sandboxes of a watch over this pull request that was killed: nothing in them was pushed."""
        for record in records.load_all(self._project):
            if record.sandbox.title == self._title and record.sandbox.branch is None:
                await remove(self._project, record.sandbox, force=True)
                shutil.rmtree(self._project.spawns / record.sandbox.id, ignore_errors=True)

    # ---- what is asked for

    async def triage(self, failure: Failure, log: str, head: str, send: Send, /) -> Triage:
        """Ask an agent why a check failed. Without an answer it counts as real."""
        try:
            async with self._sandbox(head, _READING) as confinement:
                path = _write_note(confinement, "failure.md", _failure(failure, log))
                root = str(confinement.sandbox.root)
                prompt = prompts.fill(Role.TRIAGE, {"root": root, "failure": str(path)})
                run = await self._run(confinement, Role.TRIAGE, prompt, send, schema=VERDICT)
        except (SandboxError, GitError) as error:
            return Triage(verdict="real", cause=f"(no triage: {error.message})")
        if run.result is None:
            return Triage(verdict="real", cause=f"(no triage: {run.words})")
        return triage_of(run.result.structured, run.words)

    async def fix_check(self, failure: Failure, log: str, cause: str, head: str, send: Send, /) -> FixResult:
        """Have an agent fix a failed check."""
        note = _failure(failure, log, cause)
        return await self._fix("fixer", note, f"Fix {failure.name}", head=head, send=send)

    async def fix_thread(self, thread: Thread, comments: tuple[Comment, ...], head: str, send: Send, /) -> FixResult:
        """Have an agent deal with a review thread."""
        return await self._fix("thread", _thread(thread, comments), f"Review: {thread.path}", head=head, send=send)

    async def fix_conflict(self, base: str, head: str, send: Send, /) -> FixResult:
        """Merge the base into the branch, with an agent where git cannot."""
        try:
            commit = await self._branch.fetch_from(self._base_remote, base)
            async with self._sandbox(head) as confinement, background() as left_running:
                await confinement.set_up(left_running, send)
                return await self._merge(confinement, base, commit, send)
        except (SandboxError, GitError) as error:
            return FixResult(summary=error.message, failed=True)

    # ---- how it is done

    async def _fix(
        self, role: Literal["fixer", "thread"], note: str, title: str, *, head: str, send: Send
    ) -> FixResult:
        try:
            async with self._sandbox(head) as confinement, background() as left_running:
                await confinement.set_up(left_running, send)
                key = "failure" if role == "fixer" else role
                path = _write_note(confinement, f"{key}.md", note)
                command = self._config.check_command
                check = f"- The project's check command: `{command}`\n" if command else ""
                root = str(confinement.sandbox.root)
                prompt = prompts.fixing(role, {"root": root, key: str(path), "check": check})
                run = await self._run(confinement, Role.WORKER, prompt, send)
                if run.result is None:
                    return FixResult(summary=run.words, failed=True)
                return await self._settle(confinement, title, run.words)
        except (SandboxError, GitError) as error:
            return FixResult(summary=error.message, failed=True)

    async def _run(
        self,
        confinement: Confinement,
        role: Role,
        prompt: Prompt,
        send: Send,
        *,
        schema: Mapping[str, object] | None = None,
    ) -> AgentRun:
        """Run an agent; one that fails by itself has no result. Raises LlmSessionError for any other failure."""
        try:
            return await confinement.run(role, prompt, self._limits, send, schema=schema)
        except LlmSessionError as error:
            if error.kind not in (LlmSessionErrorKind.REFUSED, LlmSessionErrorKind.CRASHED):
                raise
            return AgentRun(None, confinement.redaction.text(error.message))

    async def _settle(self, confinement: Confinement, title: str, words: str) -> FixResult:
        """One commit on the head, whatever commits the agent made: their messages could keep CI from running."""
        sandbox = confinement.sandbox
        _delete_notes(confinement)
        settled = await settle(sandbox, confinement.permits, title)
        left_out = f" (not pushed: {', '.join(settled.left_out)})" if settled.left_out else ""
        if settled.tip is None:
            return FixResult(summary=f"{words}{left_out}")
        tree = (await git_output(sandbox.repository, *SAFE, "rev-parse", f"{settled.tip}^{{tree}}")).decode().strip()
        tip = await commit_tree(sandbox, tree, (sandbox.base,), _subject(title))
        return await self._checked(confinement, tip, f"{words}{left_out}")

    async def _checked(self, confinement: Confinement, tip: str, words: str) -> FixResult:
        """No secret leaves this machine."""
        sandbox = confinement.sandbox
        if found := await confinement.leaks(sandbox.repository, sandbox.base, tip):
            where = ", ".join(leak.path or "a commit's message" for leak in found[:5])
            return FixResult(summary=f"a secret is in what was written, so it is not pushed: {where}", failed=True)
        names = await git_output(
            sandbox.repository, *SAFE, "diff-tree", "-r", "-z", "--name-only", "--no-renames", sandbox.base, tip
        )
        files = tuple(name.decode(errors="backslashreplace") for name in names.split(b"\0")[:-1])
        return FixResult(tip=tip, files=files, summary=words)

    async def _merge(self, confinement: Confinement, base: str, commit: str, send: Send) -> FixResult:
        task = f"Bring {base} into the branch of a pull request: {self._branch.name}"
        request = MergeRequest(
            context=merge_context(confinement, task, send, limits=self._limits, attempts=1),
            message=_subject(f"Merge {base} into {self._branch.name}"),
            onto_branch=True,
        )
        merged = await merge(request, commit, confinement.sandbox.base, send)
        if not isinstance(merged, Merged):
            return FixResult(summary=merged.reason)
        paths = ", ".join(conflict.path for conflict in merged.conflicts)
        words = f"merged {base}: {merged.how}{f' ({paths})' if paths else ''}"
        return await self._checked(confinement, merged.commit, words)

    @asynccontextmanager
    async def _sandbox(self, head: str, manifest: SandboxManifest | None = None) -> AsyncIterator[Confinement]:
        await self._branch.fetch(head)
        sandbox = await provision(self._project, self._config, base=head, detached=True, title=self._title)
        try:
            chosen = manifest or default_manifest(sandbox.root, self._config)
            yield await confine(self._context, sandbox, chosen, foreign=True)
        finally:
            with trio.move_on_after(_CLEANUP, shield=True):
                await remove(self._project, sandbox, force=True)
                shutil.rmtree(self._project.spawns / sandbox.id, ignore_errors=True)


# ---- files for the agent ----------------------------------------------------------------------


def _notes(confinement: Confinement) -> Path:
    return confinement.sandbox.root / STATE_NAME / "ci"


def _write_note(confinement: Confinement, name: str, text: str) -> Path:
    """Write a file for the agent to read, in a directory from which nothing is integrated."""
    notes = _notes(confinement)
    notes.mkdir(0o700, parents=True, exist_ok=True)
    path = notes / name
    path.write_text(text, encoding="utf-8", errors="backslashreplace")
    return path


def _delete_notes(confinement: Confinement) -> None:
    """They are not changes. Where the agent has put a link, nothing is followed."""
    notes = _notes(confinement)
    if not notes.is_symlink() and not notes.parent.is_symlink():
        shutil.rmtree(notes, ignore_errors=True)


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
