"""The pull request's branch, by the person's own git and its logins. Never forced, and no hook of the branch runs."""

from __future__ import annotations

import re
from pathlib import Path

from cuggino.ci.ports import NonFastForward, PollFailed, Refused
from cuggino.errors import GitError
from cuggino.git.locked import repository_lock
from cuggino.git.run import SAFE, git_output, refusal, run_git
from cuggino.github import Slug, slug_of

_QUIET = ("--quiet", "--no-tags", "--refmap=", "--no-write-fetch-head", "--no-recurse-submodules")


class Remotes:
    """What the repository at `root` calls the places that it knows."""

    def __init__(self, root: Path) -> None:
        self._root = root

    async def named(self, slug: Slug) -> str | None:
        """The remote that leads to this repository."""
        for name, url in (await self._all()).items():
            found = slug_of(url)
            if found is not None and _same(found, slug):
                return name
        return None

    async def address(self, slug: Slug, like: Slug) -> str:
        """The remote that leads there, else an address, of the kind that the remote to `like` has."""
        if (name := await self.named(slug)) is not None:
            return name
        model = (await self._all()).get(await self.named(like) or "origin", "")
        if model.startswith("ssh://"):
            return re.sub(r"(ssh://[^/]+/).*", rf"\g<1>{slug}.git", model)
        if "://" not in model and ":" in model:
            return f"{model.partition(':')[0]}:{slug}.git"
        return f"https://{slug.host}/{slug}.git"

    async def _all(self) -> dict[str, str]:
        listed = await run_git(self._root, *SAFE, "config", "-z", "--get-regexp", r"^remote\..*\.url$")
        entries = (entry.decode(errors="surrogateescape").partition("\n") for entry in listed.stdout.split(b"\0")[:-1])
        return {key.removeprefix("remote.").removesuffix(".url"): url for key, _, url in entries}


def _same(one: Slug, other: Slug) -> bool:
    return (one.host, one.owner.lower(), one.name.lower()) == (other.host, other.owner.lower(), other.name.lower())


class GitBranch:
    """The `Branch` of a pull request: `name` at `remote`, a remote's name or an address."""

    def __init__(self, root: Path, common_dir: Path, remote: str, name: str, host: str, number: int) -> None:
        self.name = name
        self._root = root
        self._common_dir = common_dir
        self._remote = remote
        self._number = number
        self._login = ("-c", f"credential.https://{host}.helper=!gh auth git-credential")

    async def head(self) -> str | None:
        asked = ("ls-remote", "--quiet", self._remote, f"refs/heads/{self.name}")
        done = await run_git(self._root, *SAFE, *self._login, *asked)
        if done.returncode != 0:
            raise PollFailed(f"git cannot look at {self._remote}: {refusal(done.returncode, done.stderr).message}")
        return done.stdout.decode().partition("\t")[0].strip() or None

    async def push(self, commit: str) -> None:
        plain = ("-c", "push.gpgSign=false", "-c", "push.followTags=false")
        how = ("push", "--quiet", "--no-verify", "--recurse-submodules=no")
        where = (self._remote, f"{commit}:refs/heads/{self.name}")
        done = await run_git(self._root, *SAFE, *plain, *self._login, *how, *where)
        if done.returncode == 0:
            return
        why = " ".join(refusal(done.returncode, done.stderr).message.split())
        try:
            now = await self.head()
        except PollFailed:
            now = None
        if now == commit:
            return
        if now is not None and not await self._is_behind(now, commit):
            raise NonFastForward
        raise Refused(why)

    async def _is_behind(self, old: str, new: str) -> bool:
        return (await run_git(self._root, *SAFE, "merge-base", "--is-ancestor", old, new)).returncode == 0

    async def keep(self, commit: str) -> str:
        name = f"ci/{self._number}-{commit[:12]}"
        await git_output(self._root, *SAFE, "update-ref", f"refs/heads/{name}", commit)
        return name

    async def fetch(self, commit: str) -> None:
        """Have this commit of the branch. GitError: it is not there."""
        if not await self._has(commit):
            await self._fetch(self._remote, self.name)
        if not await self._has(commit):
            raise GitError(f"{self.name} of {self._remote} does not have the commit {commit} any more.")

    async def _has(self, commit: str) -> bool:
        return (await run_git(self._root, *SAFE, "cat-file", "-e", f"{commit}^{{commit}}")).returncode == 0

    async def fetch_from(self, remote: str, branch: str) -> str:
        """The newest commit of another branch, there now. GitError."""
        return await self._fetch(remote, branch)

    async def _fetch(self, remote: str, branch: str) -> str:
        """No ref of the person's moves: what is fetched has one of ours for as long as it takes."""
        place = f"refs/cuggino/ci-{self._number}"
        async with repository_lock(self._common_dir):
            refspec = f"+refs/heads/{branch}:{place}"
            await git_output(self._root, *SAFE, *self._login, "fetch", *_QUIET, remote, refspec)
            commit = (await git_output(self._root, *SAFE, "rev-parse", place)).decode().strip()
            await git_output(self._root, *SAFE, "update-ref", "-d", place)
        return commit
