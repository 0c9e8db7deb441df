"""The pull request's branch, through the person's own git and its logins: never forced, and without hooks."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from cuggino.ci.ports import NonFastForward, OperationFailed, PollFailed
from cuggino.errors import GitError
from cuggino.git.remotes import Remote
from cuggino.git.run import SAFE, git_output, run_git


class GitBranch:
    """The real `Branch`: `name` at `remote`, which is a remote's name or a URL, of the pull request `number`."""

    def __init__(self, root: Path, common_dir: Path, remote: str, name: str, *, host: str, number: int) -> None:
        self.name = name
        self._root = root
        self._number = number
        self._remote_at = partial(Remote, root, common_dir, host=host)
        self._remote = self._remote_at(remote)

    async def head(self) -> str | None:
        try:
            return await self._remote.tip(self.name)
        except GitError as error:
            raise PollFailed(f"git cannot look at {self._remote.address}: {error.message}") from error

    async def push(self, commit: str, onto: str) -> None:
        if not await self._is_behind(onto, commit):  # the lease would overwrite `onto`
            raise OperationFailed(f"{commit} is not on top of {onto}")
        refusal = await self._remote.push(commit, self.name, onto)
        if refusal is None:
            return
        try:
            now = await self.head()
        except PollFailed:
            now = None
        if now == commit:
            return
        if now is not None and now != onto:
            raise NonFastForward
        raise OperationFailed(refusal)

    async def _is_behind(self, old: str, new: str) -> bool:
        return (await run_git(self._root, *SAFE, "merge-base", "--is-ancestor", old, new)).returncode == 0

    async def keep(self, commit: str) -> str:
        name = f"ci/{self._number}-{commit[:12]}"
        await git_output(self._root, *SAFE, "update-ref", f"refs/heads/{name}", commit)
        return name

    async def fetch(self, commit: str) -> None:
        """Have this commit of the branch. Raise GitError if it is not there."""
        if not await self._has(commit):
            await self.fetch_from(self._remote.address, self.name)
        if not await self._has(commit):
            raise GitError(f"{self.name} of {self._remote.address} no longer has the commit {commit}.")

    async def _has(self, commit: str) -> bool:
        return (await run_git(self._root, *SAFE, "cat-file", "-e", f"{commit}^{{commit}}")).returncode == 0

    async def fetch_from(self, remote: str, branch: str) -> str:
        """Fetch and return the newest commit of another branch. Raise GitError if there is none."""
        commit = await self._remote_at(remote).fetch(branch, f"refs/cuggino/ci-{self._number}")
        if commit is None:
            raise GitError(f"{remote} has no branch {branch}.")
        return commit
