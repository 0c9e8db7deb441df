"""The git operations of a loop, for a sandbox, without trusting it."""

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
    """`cuggino.loop.loop.Repository` for a worktree or a clone. Runs no hook, filter or setting from the sandbox.

    `permits` decides which changes a commit leaves out. `exclude` is ignored: `permits` never allows anything in it.
    """

    def __init__(self, sandbox: Sandbox, permits: Permits) -> None:
        self._sandbox = sandbox
        self._permits = permits

    async def head(self) -> str | None:
        return await resolve(self._sandbox, "HEAD")

    async def is_dirty(self, exclude: Sequence[Path]) -> bool:  # noqa: ARG002
        return bool(await uncommitted(self._sandbox))

    async def commit(self, message: str, *, exclude: Sequence[Path]) -> str | None:  # noqa: ARG002
        """Return the new commit, or None if nothing is new. The agent's own commits count as new."""
        before = await resolve(self._sandbox, f"refs/heads/{self._sandbox.branch}")
        settled = await settle(self._sandbox, self._permits, message)
        return settled.tip if settled.tip != before else None

    async def tree_fingerprint(self, exclude: Sequence[Path]) -> str:  # noqa: ARG002
        """Return a hash of names, modes, sizes and times of the files that differ from the sandbox's base."""
        sandbox, digest = self._sandbox, hashlib.sha256()
        with inspecting(sandbox, await filters_off(sandbox)) as look:
            found = await look.differences(sandbox.base)
        for path in sorted({*found.changed, *found.new, *found.deleted, *found.nested}):
            state = "gone"
            with contextlib.suppress(OSError):
                status = os.lstat(sandbox.folder / path)
                state = f"{status.st_mode} {status.st_size} {status.st_mtime_ns}"
            digest.update(os.fsencode(f"{path}\0{state}\0"))
        return digest.hexdigest()
