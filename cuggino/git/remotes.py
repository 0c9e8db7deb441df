"""A repository's remotes: which GitHub repository each one leads to, and fetching and pushing without side effects.

The person's own git and logins are used; gh's login comes last, for hosts for which git has none.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from subprocess import CompletedProcess
from urllib.parse import urlsplit

from cuggino.git.locked import repository_lock
from cuggino.git.run import SAFE, git_output, refusal, run_git

_SCP_LIKE = re.compile(r"(?:[\w.+-]+@)?(?P<host>[\w.-]+):(?P<path>(?!//).+)")
_OWNER_AND_NAME = re.compile(r"/*([\w.-]+)/([\w.-]+?)(?:\.git)?/*")
_FETCH = ("fetch", "--quiet", "--no-tags", "--refmap=", "--no-write-fetch-head", "--no-recurse-submodules")
_PUSH = (
    *("-c", "push.gpgSign=false", "-c", "push.followTags=false"),
    *("push", "--quiet", "--no-verify", "--recurse-submodules=no"),
)


@dataclass(frozen=True)
class Slug:
    """A repository, as GitHub names it."""

    owner: str
    name: str
    host: str = "github.com"

    def __str__(self) -> str:
        return f"{self.owner}/{self.name}"

    @property
    def api(self) -> str:
        """The start of the paths of its API requests."""
        return f"repos/{self.owner}/{self.name}"

    def is_same(self, other: Slug) -> bool:
        """Compare as GitHub does: owner and name in any case."""
        return self.host == other.host and str(self).lower() == str(other).lower()


def parse_remote_url(url: str) -> Slug | None:
    """Return the repository of an https, ssh, git or scp-like URL on any host, or None if the URL names none."""
    if "://" in url:
        try:
            parts = urlsplit(url)
            host = parts.hostname
        except ValueError:
            return None
        if parts.scheme not in ("https", "http", "ssh", "git", "git+ssh"):
            return None
        path = parts.path
    elif found := _SCP_LIKE.fullmatch(url):
        host, path = found["host"], found["path"]
    else:
        return None
    named = _OWNER_AND_NAME.fullmatch(path)
    if not host or named is None or {named[1], named[2]} & {".", ".."}:
        return None
    host = host.lower()
    host = "github.com" if host in ("ssh.github.com", "www.github.com") else host
    return Slug(named[1], named[2], host)


async def find_origin(root: Path) -> Slug | None:
    """Return the repository that `origin` leads to, or, if its URL is rewritten to a directory, the one it is named."""
    for arguments in (("remote", "get-url", "origin"), ("config", "--get", "remote.origin.url")):
        found = await run_git(root, *arguments)
        slug = parse_remote_url(found.stdout.decode(errors="replace").strip()) if found.returncode == 0 else None
        if slug is not None:
            return slug
    return None


class Remotes:
    """The remotes that are configured in the repository at `root`."""

    def __init__(self, root: Path) -> None:
        self._root = root

    async def find(self, slug: Slug) -> str | None:
        """Return the name of a remote that leads to this repository."""
        for name, url in (await self._urls()).items():
            found = parse_remote_url(url)
            if found is not None and found.is_same(slug):
                return name
        return None

    async def address(self, slug: Slug, like: Slug) -> str:
        """Return the name of a remote that leads to `slug`, or else a URL of the kind that the remote to `like` has."""
        if (name := await self.find(slug)) is not None:
            return name
        model = (await self._urls()).get(await self.find(like) or "origin", "")
        if model.startswith("ssh://"):
            return re.sub(r"(ssh://[^/]+/).*", rf"\g<1>{slug}.git", model)
        if "://" not in model and ":" in model:
            return f"{model.partition(':')[0]}:{slug}.git"
        return f"https://{slug.host}/{slug}.git"

    async def _urls(self) -> dict[str, str]:
        listed = await run_git(self._root, *SAFE, "config", "-z", "--get-regexp", r"^remote\..*\.url$")
        entries = (entry.decode(errors="surrogateescape").partition("\n") for entry in listed.stdout.split(b"\0")[:-1])
        return {key.removeprefix("remote.").removesuffix(".url"): url for key, _, url in entries}


class Remote:
    """One remote of a repository: a remote's name or a URL, on `host`. No hooks run, and no other ref moves."""

    def __init__(self, repository: Path, common_dir: Path, address: str, host: str) -> None:
        self.address = address
        self._repository = repository
        self._common_dir = common_dir
        self._login = ("-c", f"credential.https://{host}.helper=!gh auth git-credential")

    async def tip(self, branch: str) -> str | None:
        """Ask for the commit of a branch; None if it does not exist. Raise GitError if the remote fails."""
        done = await self._run("ls-remote", "--quiet", self.address, f"refs/heads/{branch}")
        if done.returncode != 0:
            raise refusal(done.returncode, done.stderr)
        return done.stdout.decode().partition("\t")[0].strip() or None

    async def fetch(self, branch: str, ref: str) -> str | None:
        """Fetch the newest commit of a branch; None if it does not exist. Raise GitError if the remote fails.

        `ref` exists only meanwhile, under the repository's lock.
        """
        async with repository_lock(self._common_dir):
            done = await self._run(*_FETCH, self.address, f"+refs/heads/{branch}:{ref}")
            if done.returncode != 0:
                if b"couldn't find remote ref" in done.stderr:
                    return None
                raise refusal(done.returncode, done.stdout + done.stderr)
            commit = (await git_output(self._repository, *SAFE, "rev-parse", ref)).decode().strip()
            await git_output(self._repository, *SAFE, "update-ref", "-d", ref)
        return commit

    async def push(self, commit: str, branch: str, onto: str | None = None) -> str | None:
        """Push a commit to a branch, never forced. Return git's refusal in one line, or None if it worked.

        `onto`, an ancestor of the commit, must still be the branch's head: otherwise a commit that somebody else
        dropped from the branch would come back, or a deleted branch.
        """
        lease = () if onto is None else (f"--force-with-lease=refs/heads/{branch}:{onto}",)
        done = await self._run(*_PUSH, *lease, self.address, f"{commit}:refs/heads/{branch}")
        return None if done.returncode == 0 else " ".join(refusal(done.returncode, done.stderr).message.split())

    async def _run(self, *arguments: str) -> CompletedProcess[bytes]:
        # messages in English, for the one that is recognized
        return await run_git(self._repository, *SAFE, *self._login, *arguments, environment={"LC_ALL": "C"})
