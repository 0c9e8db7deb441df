"""Repair conflicts that git cannot resolve: an agent works in the sandbox while the merge is unfinished."""

from __future__ import annotations

import shutil
from pathlib import Path

import msgspec

from cuggino.agents.activity_timeout import ActivityLimits
from cuggino.agents.prompts import repair as repair_prompt
from cuggino.errors import LlmSessionError
from cuggino.events import Send, SystemMessage
from cuggino.git.run import SAFE, git_output, run_git
from cuggino.integrate.merge import MergeContext, RepairRequest
from cuggino.project import STATE_NAME
from cuggino.roles import Role
from cuggino.sandbox.confine import Confinement

_FOLDER = "repair"
_LARGEST = 1 << 20
"""Maximum bytes of a file version that is written for the agent; larger ones it can read from git."""


def merge_context(
    confinement: Confinement, task: str, send: Send, *, limits: ActivityLimits, attempts: int
) -> MergeContext:
    """Return the check command and the repairing agent for merges in a confined sandbox.

    `task` describes the work; the agent gets it as a file.
    """
    return MergeContext(
        sandbox=confinement.sandbox,
        permits=confinement.permits,
        check=confinement.check,
        repair=Repair(confinement=confinement, task=task, limits=limits, attempts=attempts, send=send),
        repair_attempts=attempts,
    )


class Repair(msgspec.Struct, frozen=True, kw_only=True):
    """Runs an agent that repairs."""

    confinement: Confinement
    task: str
    limits: ActivityLimits
    attempts: int
    send: Send

    async def __call__(self, request: RepairRequest) -> bool:
        """Return whether the agent finished. The caller checks its work."""
        config = self.confinement.context.config
        root = request.sandbox.root
        folder = root / STATE_NAME / _FOLDER
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(0o700, parents=True)
        (folder / "task.md").write_text(self.task)
        await _write_versions(folder, request)
        check = f"- The check command, which must pass: {config.check_command}\n" if config.check_command else ""
        values = {
            "attempt": str(request.attempt),
            "attempts": str(self.attempts),
            "task": str(folder / "task.md"),
            "conflicts": str(folder),
            "specs": str(root / config.specs_path),
            "check": check,
        }
        try:
            run = await self.confinement.run(Role.WORKER, repair_prompt(values), self.limits, self.send)
        except LlmSessionError as error:
            await self.send(SystemMessage(text=f"The repair failed: {error.message}"))
            return False
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        if run.result is None:
            await self.send(SystemMessage(text=f"The repair was stopped: {run.words}"))
        return run.result is not None


async def _write_versions(folder: Path, request: RepairRequest) -> None:
    """Write each conflicted file as it is on both sides and in their common ancestor, and a list of these files."""
    repository = request.sandbox.repository
    ancestor = await run_git(repository, *SAFE, "merge-base", request.base, request.ours)
    commits = {"began-with": ancestor.stdout.decode().strip(), "base": request.base, "branch": request.ours}
    lines = [f"The base is {request.base}, the branch {request.ours}.", ""]
    for path in request.paths:
        lines.append(f"- {path}{'  (see CONFLICTS.md)' if path in request.unmarked else ''}")
        for name, commit in commits.items():
            target = folder / name / path
            kind = await run_git(repository, *SAFE, "cat-file", "-t", f"{commit}:{path}")
            done = await run_git(repository, *SAFE, "cat-file", "-s", f"{commit}:{path}")
            if not commit or done.returncode != 0:
                lines.append(f"    {name}: the file does not exist")
            elif kind.stdout.strip() != b"blob":
                lines.append(f"    {name}: a directory: git ls-tree -r {commit}:{path}")
            elif int(done.stdout) > _LARGEST:
                lines.append(f"    {name}: git show {commit}:{path}")
            else:
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(await git_output(repository, *SAFE, "cat-file", "blob", f"{commit}:{path}"))
                lines.append(f"    {name}: {target}")
    if not request.paths:
        lines.append("git has merged all files; the check command fails on the result.")
    (folder / "conflicts.md").write_text("\n".join(lines) + "\n", errors="backslashreplace")
