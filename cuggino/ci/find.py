"""Which pull request is meant, which CI system checks it, and where its branch is."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import msgspec

from cuggino.ci.branch import GitBranch
from cuggino.ci.checks import System
from cuggino.ci.pull_request import PullRequestSnapshot
from cuggino.ci.pull_request_api import GitHubPullRequest
from cuggino.errors import GitHubError, UsageError
from cuggino.git.remotes import Remotes, Slug, find_origin, parse_remote_url
from cuggino.git.run import SAFE, git_output, run_git
from cuggino.github import GitHub, error_message, is_logged_in

LOOKUP = """\
query($owner: String!, $name: String!, $branch: String!) {
  repository(owner: $owner, name: $name) {
    ref(qualifiedName: $branch) {
      associatedPullRequests(states: OPEN, first: 10) { nodes { number repository { name owner { login } } } }
    }
  }
}
"""
"""The open pull requests of a branch."""


@dataclass(frozen=True)
class PullRequestAddress:
    """The pull request `number` of `slug`, seen from the clone at `root`."""

    root: Path
    github: GitHub
    slug: Slug
    number: int

    def api(self) -> GitHubPullRequest:
        return GitHubPullRequest(self.github, self.slug, self.number)

    async def base_remote(self) -> str:
        """Return the remote, or the URL, of the base repository."""
        return await Remotes(self.root).address(self.slug, self.slug)

    async def branch(self, pull: PullRequestSnapshot) -> GitBranch:
        """Return the pull request's branch, which may be in another repository."""
        owner, _, name = (pull.head_repository or str(self.slug)).partition("/")
        remote = await Remotes(self.root).address(Slug(owner, name, self.slug.host), self.slug)
        return GitBranch(
            self.root, await common_dir(self.root), remote, pull.branch, host=self.slug.host, number=self.number
        )


async def find_pull_request(root: Path, pr: str | None) -> PullRequestAddress:
    """Return the pull request of a number or an address, or of the current branch.

    Raise GitHubError if GitHub cannot be asked or does not have it, UsageError if `pr` does not name one.
    """
    here = await find_origin(root)
    if here is None:
        raise GitHubError(
            f"{root} has no origin on GitHub.", advice="Add one: git remote add origin https://github.com/…"
        )
    if not await is_logged_in(here, root):
        raise GitHubError(f"gh is not logged in to {here.host}.", advice=f"Log in: gh auth login -h {here.host}")
    github = GitHub(root, host=here.host)
    if pr is None:
        slug, number = await _pull_request_of(github, here, await _current_branch(root))
        return PullRequestAddress(root, github, slug, number)
    if found := re.fullmatch(r"#?([1-9]\d{0,8})", pr):
        return PullRequestAddress(root, github, here, int(found[1]))
    found = re.fullmatch(r"(https?://.+/.+/.+)/pull/([1-9]\d{0,8})(?:[/?#].*)?", pr)
    slug_in_url = parse_remote_url(found[1]) if found else None
    if found is None or slug_in_url is None:
        raise UsageError(f"expected the number or the URL of a pull request, got {pr!r}.")
    if await Remotes(root).find(slug_in_url) is None:
        raise UsageError(
            f"No remote of {root} leads to {slug_in_url}.", advice=f"Run the command in a clone of {slug_in_url}."
        )
    return PullRequestAddress(root, GitHub(root, host=slug_in_url.host), slug_in_url, int(found[2]))


async def _current_branch(root: Path) -> str:
    """Return the current branch's name on the remote."""
    current = await run_git(root, *SAFE, "symbolic-ref", "--quiet", "--short", "HEAD")
    if current.returncode != 0:
        raise UsageError("No branch is checked out.", advice="Name the pull request: cuggino ci watch NUMBER")
    name = current.stdout.decode(errors="surrogateescape").strip()
    upstream = await run_git(root, *SAFE, "config", "--get", f"branch.{name}.merge")
    return upstream.stdout.decode(errors="surrogateescape").strip().removeprefix("refs/heads/") or name


async def common_dir(root: Path) -> Path:
    """Return the git directory that all worktrees of the repository at `root` share."""
    output = await git_output(root, *SAFE, "rev-parse", "--path-format=absolute", "--git-common-dir")
    return Path(output.decode(errors="surrogateescape").removesuffix("\n"))


def detect_system(root: Path) -> System:
    """Return which system runs the checks, judging by the files at the top of the repository."""
    top = next((folder for folder in (root, *root.parents) if (folder / ".git").exists()), root)
    if any((top / ".github" / "workflows").glob("*.y*ml")):
        return "github-actions"
    return "buildkite" if (top / ".buildkite").is_dir() else "unknown"


async def _pull_request_of(github: GitHub, slug: Slug, branch: str) -> tuple[Slug, int]:
    """Return the only open pull request of a branch, which may be for another repository, or raise GitHubError."""
    answer = await github.graphql(LOOKUP, {"owner": slug.owner, "name": slug.name, "branch": f"refs/heads/{branch}"})
    try:
        ref = msgspec.json.decode(answer.body)["data"]["repository"]["ref"]
        nodes = ref["associatedPullRequests"]["nodes"] if ref is not None else []
        found = [(node["repository"]["owner"]["login"], node["repository"]["name"], node["number"]) for node in nodes]
    except (msgspec.DecodeError, LookupError, TypeError, ValueError, RecursionError):
        raise GitHubError(f"GitHub does not list the pull requests of {branch}: {error_message(answer)}") from None
    if len(found) != 1:
        numbers = ", ".join(f"#{number}" for *_, number in found)
        raise GitHubError(
            f"The branch {branch} of {slug} has {f'several pull requests: {numbers}' if found else 'no pull request'}.",
            advice="Name one: cuggino ci watch NUMBER",
        )
    owner, name, number = found[0]
    return Slug(owner, name, slug.host), number
