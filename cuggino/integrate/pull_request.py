"""A branch on GitHub: pushed, never forced, and the pull request for it, made or found.

Done again after a crash, each step finds what is there already.
"""

from __future__ import annotations

import time
from urllib.parse import quote

import msgspec
import trio

from cuggino.errors import GitHubError
from cuggino.git.locked import repository_lock
from cuggino.git.run import SAFE, git_output, refusal, run_git
from cuggino.github import Answer, GitHub, Slug, rate_limit, words
from cuggino.sandbox.sandbox import Sandbox

_PLAIN = ("-c", "push.gpgSign=false", "-c", "push.followTags=false")
_TRIES = 3
_LONGEST_TITLE, _LONGEST_BODY = 256, 65_536
"""Characters, as GitHub takes them."""
_LONGEST_LIMIT = 60.0
"""Seconds for which a rate limit is waited for."""


class OpenPullRequest(msgspec.Struct, frozen=True, kw_only=True):
    """`found`: it was there already."""

    number: int
    url: str
    found: bool = False


class _Pull(msgspec.Struct):
    number: int
    html_url: str
    state: str = "open"


async def remote_name(sandbox: Sandbox) -> str:
    """What origin calls the branch that the work comes home to."""
    assert sandbox.target is not None
    asked = ("for-each-ref", "--format=%(upstream:remotename)%00%(upstream:remoteref)", f"refs/heads/{sandbox.target}")
    listed = (await git_output(sandbox.repository, *SAFE, *asked)).decode(errors="surrogateescape").splitlines()
    remote, _, ref = (listed[0] if listed else "").partition("\0")
    return ref.removeprefix("refs/heads/") if remote == "origin" and ref else sandbox.target


async def fetch_base(sandbox: Sandbox, slug: Slug, branch: str) -> str | None:
    """The newest commit of origin's branch, fetched; no ref of the person's moves. None: origin has no such branch."""
    place = f"refs/cuggino/{sandbox.id}/base"
    quiet = ("--quiet", "--no-tags", "--refmap=", "--no-write-fetch-head", "--no-recurse-submodules")
    async with repository_lock(sandbox.common_dir):
        refspec = f"+refs/heads/{branch}:{place}"
        done = await run_git(
            sandbox.repository, *SAFE, *_login(slug), "fetch", *quiet, "origin", refspec, environment={"LC_ALL": "C"}
        )
        if done.returncode != 0:
            if b"couldn't find remote ref" in done.stderr:
                return None
            raise refusal(done.returncode, done.stdout + done.stderr)
        commit = (await git_output(sandbox.repository, *SAFE, "rev-parse", place)).decode().strip()
        await git_output(sandbox.repository, *SAFE, "update-ref", "-d", place)
    return commit


async def push(sandbox: Sandbox, slug: Slug, commit: str) -> str | None:
    """Let origin's branch be this commit. Why that was refused: somebody has pushed to it, say."""
    branch = f"refs/heads/{sandbox.branch}"
    how = ("push", "--quiet", "--no-verify", "--recurse-submodules=no", "origin", f"{commit}:{branch}")
    done = await run_git(sandbox.repository, *SAFE, *_PLAIN, *_login(slug), *how)
    if done.returncode != 0:
        return " ".join(done.stderr.decode(errors="backslashreplace").split()) or "git push failed."
    # where origin's branches are not all followed, nothing else would tell that it is there
    await run_git(sandbox.repository, *SAFE, "update-ref", f"refs/remotes/origin/{sandbox.branch}", commit)
    return None


def _login(slug: Slug) -> tuple[str, ...]:
    """gh's login, for who has told git no other: it comes after those of the person's."""
    return ("-c", f"credential.https://{slug.host}.helper=!gh auth git-credential")


async def open_pull_request(
    github: GitHub, slug: Slug, *, head: str, base: str, title: str, body: str
) -> OpenPullRequest | str:
    """The pull request of `head` against `base`. A text: why there is none."""
    wanted = {"title": title[:_LONGEST_TITLE], "head": head, "base": base, "body": body[:_LONGEST_BODY]}
    why = ""
    for attempt in range(_TRIES):
        if attempt:  # it may have been made all the same
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
        why = words(answer)
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
    """An open one before one that is closed or merged; the newest of these."""
    query = f"head={quote(f'{slug.owner}:{head}')}&base={quote(base, safe='')}&state={state}&per_page=20"
    try:
        answer: Answer = await github.ask("GET", f"{slug.api}/pulls?{query}")
    except GitHubError:
        return None
    if not answer.ok:
        return None
    pulls = sorted(
        msgspec.json.decode(answer.body, type=list[_Pull]), key=lambda pull: (pull.state != "open", -pull.number)
    )
    return OpenPullRequest(number=pulls[0].number, url=pulls[0].html_url, found=True) if pulls else None
