"""Push a branch to GitHub, never by force, and create or find its pull request.

Repeated after a crash, each step finds the results that are already there.
"""

from __future__ import annotations

import time
from urllib.parse import quote

import msgspec
import trio

from cuggino.errors import GitHubError
from cuggino.git.remotes import Remote, Slug
from cuggino.git.run import SAFE, git_output, run_git
from cuggino.github import GitHub, Response, error_message, rate_limit
from cuggino.sandbox.sandbox import Sandbox

_TRIES = 3
_LONGEST_TITLE, _LONGEST_BODY = 256, 65_536
"""Maximum characters that GitHub accepts."""
_LONGEST_LIMIT = 60.0
"""Maximum seconds to wait for a rate limit."""


class OpenPullRequest(msgspec.Struct, frozen=True, kw_only=True):
    """`found` if it existed before."""

    number: int
    url: str
    found: bool = False


class _Pull(msgspec.Struct):
    number: int
    html_url: str
    state: str = "open"


async def remote_name(sandbox: Sandbox) -> str:
    """Return origin's name for the target branch."""
    assert sandbox.target is not None
    asked = ("for-each-ref", "--format=%(upstream:remotename)%00%(upstream:remoteref)", f"refs/heads/{sandbox.target}")
    listed = (await git_output(sandbox.repository, *SAFE, *asked)).decode(errors="surrogateescape").splitlines()
    remote, _, ref = (listed[0] if listed else "").partition("\0")
    return ref.removeprefix("refs/heads/") if remote == "origin" and ref else sandbox.target


async def fetch_base(sandbox: Sandbox, slug: Slug, branch: str) -> str | None:
    """Fetch and return the newest commit of origin's branch; None if origin has no such branch."""
    return await _origin(sandbox, slug).fetch(branch, f"refs/cuggino/{sandbox.id}/base")


async def push(sandbox: Sandbox, slug: Slug, commit: str) -> str | None:
    """Push the commit to origin's branch of the sandbox. Return why that was refused, or None."""
    assert sandbox.branch is not None
    refusal = await _origin(sandbox, slug).push(commit, sandbox.branch)
    if refusal is None:
        # where origin's branches are not all followed, nothing else would show that it is there
        await run_git(sandbox.repository, *SAFE, "update-ref", f"refs/remotes/origin/{sandbox.branch}", commit)
    return refusal


def _origin(sandbox: Sandbox, slug: Slug) -> Remote:
    return Remote(sandbox.repository, sandbox.common_dir, "origin", slug.host)


async def open_pull_request(
    github: GitHub, slug: Slug, *, head: str, base: str, title: str, body: str
) -> OpenPullRequest | str:
    """Create or find the pull request of `head` against `base`. Return the reason if that fails."""
    wanted = {"title": title[:_LONGEST_TITLE], "head": head, "base": base, "body": body[:_LONGEST_BODY]}
    why = ""
    for attempt in range(_TRIES):
        if attempt:  # an earlier attempt may have created it
            await trio.sleep(2.0**attempt)
            if (there := await _find(github, slug, head, base, "open")) is not None:
                return there
        try:
            answer = await github.ask("POST", f"{slug.api}/pulls", wanted)
        except GitHubError as error:
            why = error.message
            continue
        if answer.status == 201:
            made = msgspec.json.decode(answer.body, type=_Pull)
            return OpenPullRequest(number=made.number, url=made.html_url)
        why = error_message(answer)
        if answer.status == 422:
            return await _find(github, slug, head, base, "all") or why
        if (wait := rate_limit(answer, time.time())) is not None:
            if wait > _LONGEST_LIMIT:
                return why
            await trio.sleep(wait)
        elif answer.status < 500:
            return why
    return why


async def _find(github: GitHub, slug: Slug, head: str, base: str, state: str) -> OpenPullRequest | None:
    """Find the latest pull request, an open one before closed or merged ones."""
    query = f"head={quote(f'{slug.owner}:{head}')}&base={quote(base, safe='')}&state={state}&per_page=20"
    try:
        answer: Response = await github.ask("GET", f"{slug.api}/pulls?{query}")
    except GitHubError:
        return None
    if not answer.ok:
        return None
    pulls = sorted(
        msgspec.json.decode(answer.body, type=list[_Pull]), key=lambda pull: (pull.state != "open", -pull.number)
    )
    return OpenPullRequest(number=pulls[0].number, url=pulls[0].html_url, found=True) if pulls else None
