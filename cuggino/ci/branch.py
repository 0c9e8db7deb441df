"""The pull request's branch, through the person's own git and its logins: never forced, and without hooks."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from cuggino.ci.ports import NonFastForward, OperationFailed, PollFailed
from cuggino.errors import GitError
from cuggino.git.locked import repository_lock
from cuggino.git.run import SAFE, git_output, refusal, run_git
from cuggino.github import Slug, slug_of

_QUIET = ("--quiet", "--no-tags", "--refmap=", "--no-write-fetch-head", "--no-recurse-submodules")


class Remotes:
    """The remotes of the repository at `root`."""

    def __init__(self, root: Path) -> None:
        self._root = root

    async def named(self, slug: Slug) -> str | None:
        """Return the name of the remote that leads to `slug`, or None."""
        for name, url in (await self._all()).items():
            found = slug_of(url)
            if found is not None and (found.host, str(found).lower()) == (slug.host, str(slug).lower()):
                return name
        return None

    async def address(self, slug: Slug, like: Slug) -> str:
        """Return the remote that leads to `slug`, or else a URL of the same form as that of the remote to `like`."""
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


@dataclass(frozen=True)
class GitBranch:
    """The real `Branch`: `name` at `remote`, which is a remote's name or a URL, of the pull request `number`."""

    root: Path
    common_dir: Path
    remote: str
    name: str
    host: str
    number: int

    @property
    def _login(self) -> tuple[str, str]:
        return "-c", f"credential.https://{self.host}.helper=!gh auth git-credential"

    async def head(self) -> str | None:
        command = ("ls-remote", "--quiet", self.remote, f"refs/heads/{self.name}")
        done = await run_git(self.root, *SAFE, *self._login, *command)
        if done.returncode != 0:
            raise PollFailed(f"git cannot read {self.remote}: {refusal(done.returncode, done.stderr).message}")
        return done.stdout.decode().partition("\t")[0].strip() or None

    async def push(self, commit: str) -> None:
        settings = ("-c", "push.gpgSign=false", "-c", "push.followTags=false")
        push = ("push", "--quiet", "--no-verify", "--recurse-submodules=no")
        refspec = f"{commit}:refs/heads/{self.name}"
        done = await run_git(self.root, *SAFE, *settings, *self._login, *push, self.remote, refspec)
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
        raise OperationFailed(why)

    async def _is_behind(self, old: str, new: str) -> bool:
        return (await run_git(self.root, *SAFE, "merge-base", "--is-ancestor", old, new)).returncode == 0

    async def keep(self, commit: str) -> str:
        name = f"ci/{self.number}-{commit[:12]}"
        await git_output(self.root, *SAFE, "update-ref", f"refs/heads/{name}", commit)
        return name

    async def fetch(self, commit: str) -> None:
        """Fetch this commit of the branch. Raise GitError if the branch does not have it."""
        if not await self._has(commit):
            await self.fetch_from(self.remote, self.name)
        if not await self._has(commit):
            raise GitError(f"{self.name} of {self.remote} no longer has the commit {commit}.")

    async def _has(self, commit: str) -> bool:
        return (await run_git(self.root, *SAFE, "cat-file", "-e", f"{commit}^{{commit}}")).returncode == 0

    async def fetch_from(self, remote: str, branch: str) -> str:
        """Fetch any branch and return its newest commit. Raise GitError.

        The person's refs stay as they are: a temporary ref of ours holds the commit.
        """
        ref = f"refs/cuggino/ci-{self.number}"
        async with repository_lock(self.common_dir):
            refspec = f"+refs/heads/{branch}:{ref}"
            await git_output(self.root, *SAFE, *self._login, "fetch", *_QUIET, remote, refspec)
            commit = (await git_output(self.root, *SAFE, "rev-parse", ref)).decode().strip()
            await git_output(self.root, *SAFE, "update-ref", "-d", ref)
        return commit
