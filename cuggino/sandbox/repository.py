"""A sandbox as the repository of a loop: what the loop asks of git, answered without believing the sandbox."""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import Sequence
from pathlib import Path

from cuggino.manifest import Permits
from cuggino.sandbox.git import filters_off, resolve
from cuggino.sandbox.inspect import inspecting
from cuggino.sandbox.removal import uncommitted
from cuggino.sandbox.sandbox import Sandbox
from cuggino.sandbox.settle import settle


class SandboxRepository:
    """`cuggino.loop.loop.Repository` for a worktree or a clone: no hook, filter or setting of the sandbox's runs.

    What a commit leaves out is decided by `permits`; the loop's own list names nothing that they allow.
    """

    def __init__(self, sandbox: Sandbox, permits: Permits) -> None:
        self._sandbox = sandbox
        self._permits = permits

    async def head(self) -> str | None:
        return await resolve(self._sandbox, "HEAD")

    async def is_dirty(self, exclude: Sequence[Path]) -> bool:  # noqa: ARG002
        return bool(await uncommitted(self._sandbox))

    async def commit(self, message: str, *, exclude: Sequence[Path]) -> str | None:  # noqa: ARG002
        """Also what the agent has committed itself counts as new. None: there is nothing new."""
        before = await resolve(self._sandbox, f"refs/heads/{self._sandbox.branch}")
        settled = await settle(self._sandbox, self._permits, message)
        return settled.tip if settled.tip != before else None

    async def tree_fingerprint(self, exclude: Sequence[Path]) -> str:  # noqa: ARG002
        """Of what differs from the commit that the sandbox began at: names, modes, sizes, times."""
        sandbox, digest = self._sandbox, hashlib.sha256()
        with inspecting(sandbox, await filters_off(sandbox)) as look:
            found = await look.differences(sandbox.base)
        for path in sorted({*found.changed, *found.new, *found.deleted, *found.nested}):
            told = "gone"
            with contextlib.suppress(OSError):
                status = os.lstat(sandbox.folder / path)
                told = f"{status.st_mode} {status.st_size} {status.st_mtime_ns}"
            digest.update(os.fsencode(f"{path}\0{told}\0"))
        return digest.hexdigest()
