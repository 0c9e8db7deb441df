"""Conflicts that git cannot resolve: an agent in the sandbox, in the middle of the merge, with both sides before it."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from uuid import uuid4

import msgspec

from cuggino.agents.activity_timeout import ActivityTimeout
from cuggino.agents.agent import Agent, AgentOptions, Backend
from cuggino.agents.exit_report import delete_output
from cuggino.agents.prompts import repair as repair_prompt
from cuggino.clock import uuid7
from cuggino.config import Limits
from cuggino.errors import LlmSessionError
from cuggino.events import Send, SystemMessage
from cuggino.git.run import SAFE, git_output, run_git
from cuggino.integrate.merge import RepairRequest
from cuggino.manifest import Permits
from cuggino.project import STATE_NAME
from cuggino.roles import Role
from cuggino.spawn.forgetting import forget

_FOLDER = "repair"
_LARGEST = 1 << 20
"""Bytes of a version of a file that the agent is given; what is larger it finds in git."""


class Repairer(msgspec.Struct, frozen=True, kw_only=True):
    """Who repairs, and what it knows of the task."""

    agent: Agent
    task: str
    specs_path: str
    check: str | None
    permits: Permits
    environment: Mapping[str, str] | None
    launcher: tuple[str, ...]
    model: str | None
    limits: Limits
    attempts: int
    outputs: Path
    """A folder for the agent's raw output while it runs."""
    send: Send
    foreign: bool = False
    """The branch is other people's: see `AgentOptions`."""
    backend: Backend | None = None
    """Whose files of the conversation go when it is over; None: they stay."""

    async def __call__(self, request: RepairRequest) -> bool:
        """Whether the agent has come to its end. What it wrote with that is for others to judge."""
        root = request.sandbox.root
        folder = root / STATE_NAME / _FOLDER
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(0o700, parents=True)
        (folder / "task.md").write_text(self.task)
        await _write_versions(folder, request)
        specs = str(root / self.specs_path)
        prompt = repair_prompt(
            {
                "attempt": str(request.attempt),
                "attempts": str(self.attempts),
                "task": str(folder / "task.md"),
                "conflicts": str(folder),
                "specs": specs,
                "check": f"- The check command, which must pass: {self.check}\n" if self.check else "",
            }
        )
        output = self.outputs / f".repair.{uuid7()}.out"
        conversation = str(uuid4())
        activity = ActivityTimeout(self.limits, self.send)
        activity.begin()
        try:
            with activity.scope:
                await self.agent.spawn(
                    AgentOptions(
                        role=Role.WORKER,
                        cwd=root,
                        prompt=prompt.task,
                        system_prompt=prompt.standing,
                        output=output,
                        session_id=conversation,
                        model=self.model,
                        environment=self.environment,
                        permits=self.permits,
                        foreign=self.foreign,
                        launcher=self.launcher,
                    ),
                    activity.pass_on,
                )
        except LlmSessionError as error:
            await self.send(SystemMessage(text=f"The repair failed: {error.message}"))
            return False
        finally:
            shutil.rmtree(folder, ignore_errors=True)
            delete_output(output)
            if self.backend is not None:
                forget(self.backend, self.environment or os.environ, root, self.agent.own_name(conversation))
        if (verdict := activity.verdict()) is not None:
            await self.send(SystemMessage(text=f"The repair was stopped: {verdict}"))
            return False
        return True


async def _write_versions(folder: Path, request: RepairRequest) -> None:
    """For each path in conflict the version of both sides, and what they began with; and the list of all."""
    repository = request.sandbox.repository
    began = await run_git(repository, *SAFE, "merge-base", request.base, request.ours)
    commits = {"began-with": began.stdout.decode().strip(), "base": request.base, "branch": request.ours}
    lines = [f"The base is {request.base}, the branch {request.ours}.", ""]
    for path in request.paths:
        lines.append(f"- {path}{'  (see CONFLICTS.md)' if path in request.unmarked else ''}")
        for name, commit in commits.items():
            target = folder / name / path
            done = await run_git(repository, *SAFE, "cat-file", "-s", f"{commit}:{path}")
            if not commit or done.returncode != 0:
                lines.append(f"    {name}: there is no such file")
            elif int(done.stdout) > _LARGEST:
                lines.append(f"    {name}: git show {commit}:{path}")
            else:
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(await git_output(repository, *SAFE, "cat-file", "blob", f"{commit}:{path}"))
                lines.append(f"    {name}: {target}")
    if not request.paths:
        lines.append("git has merged all files; the check command fails on the result.")
    (folder / "conflicts.md").write_text("\n".join(lines) + "\n", errors="backslashreplace")
