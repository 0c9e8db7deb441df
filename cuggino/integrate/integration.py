"""The way of a sandbox's work home: a pull request, a merge into the base branch, or its branch, kept.

Every step can be done again: what is pushed, merged or requested already is found. Whatever goes wrong, the branch has
all that it had, and the result says what is in the way.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Literal, TypeAlias

import msgspec

from cuggino.config import Integrate
from cuggino.errors import GitError, SandboxError
from cuggino.events import PRCreated, Send
from cuggino.git.locked import repository_lock
from cuggino.git.remotes import Slug, find_origin
from cuggino.github import GitHub, is_logged_in
from cuggino.integrate.advance import Advanced, advance, branch_tip
from cuggino.integrate.checkout import finish, undo
from cuggino.integrate.conflicts import Conflict
from cuggino.integrate.merge import Check, How, Merged, MergeRequest, Repair, merge
from cuggino.integrate.pull_request import PullRequest, fetch_base, push, remote_name, request
from cuggino.integrate.trees import merge_trees
from cuggino.manifest import Permits
from cuggino.sandbox.git import is_ancestor
from cuggino.sandbox.leaks import Leak
from cuggino.sandbox.sandbox import Sandbox

Leaks: TypeAlias = Callable[[Path, str, str], Awaitable[Sequence[Leak]]]
"""Where the commits of base..tip in this repository hold secrets."""

_ROUNDS = 5
"""How often a merge is made anew because somebody else has moved the base meanwhile."""


class IntegrationResult(msgspec.Struct, frozen=True, kw_only=True):
    """What came of it. "kept": it is not home; `reason` says why, and `branch` has it.

    `base` and `tip` are the commits between which all changes of the branch are.
    """

    how: Literal["pr", "merge", "branch", "nothing", "kept"]
    branch: str | None = None
    reason: str = ""
    pull_request: PullRequest | None = None
    base: str | None = None
    tip: str | None = None
    conflicts: tuple[Conflict, ...] = ()
    merged: How | None = None
    left_out: tuple[str, ...] = ()
    """What an agent has written in a repair, and may not."""
    in_the_way: bool = False
    """It was kept for what a person has in their tree: once that is committed, nothing hinders it."""


class Integration(msgspec.Struct, frozen=True, kw_only=True):
    """What is to be brought home, and with whose help. `chosen` None: what is possible, see `destination`.

    `tip` is the branch's commit, as the sandbox was settled; None: nothing has changed. `title` and `body` are the pull
    request's, and the title is what a merge is called; they hold no secrets.
    """

    sandbox: Sandbox
    tip: str | None
    permits: Permits
    title: str
    body: str = ""
    chosen: Integrate | None = None
    check: Check | None = None
    repair: Repair | None = None
    repair_attempts: int = 2
    leaks: Leaks | None = None

    def merge_request(self, message: str, *, onto_branch: bool) -> MergeRequest:
        return MergeRequest(
            sandbox=self.sandbox,
            permits=self.permits,
            message=message,
            check=self.check,
            repair=self.repair,
            repair_attempts=self.repair_attempts,
            onto_branch=onto_branch,
        )


async def integrate(integration: Integration, send: Send) -> IntegrationResult:
    """Bring it home. Nobody may work in the sandbox meanwhile. GitError, GitHubError, SandboxError: it is kept, too."""
    sandbox, tip = integration.sandbox, integration.tip
    await undo(sandbox)
    if tip is None:
        return IntegrationResult(how="nothing", reason="Nothing was changed.")
    if sandbox.branch is None:
        raise SandboxError(f"The sandbox {sandbox.id} has no branch.")
    way, reason, slug = await destination(sandbox, integration.chosen)
    home = IntegrationResult(how="branch", branch=sandbox.branch, reason=reason, base=sandbox.base, tip=tip)
    if way == "merge":
        async with _alone(sandbox):
            return await _merge(integration, home, tip, send)
    if way == "pr" and slug is not None:
        return await _pull_request(integration, home, tip, slug, send)
    return home if way == "branch" else _kept(home, reason)


async def destination(sandbox: Sandbox, chosen: Integrate | None) -> tuple[Integrate, str, Slug | None]:
    """Where it is to go, why there, and for a pull request the repository: None where there cannot be one.

    Unless it is chosen: a pull request where there is an origin, a login for its host, and a branch to request it for.
    """
    if chosen in ("merge", "branch"):
        return chosen, "", None
    slug = await find_origin(sandbox.repository)
    if slug is None:
        missing = "There is no origin on GitHub."
    elif sandbox.target is None:
        missing = "It began at no branch that a pull request could be for."
    elif not await is_logged_in(slug, sandbox.repository):
        missing = f"gh is not logged in to {slug.host}."
    else:
        return "pr", "", slug
    return ("branch", f"{missing} So the branch is kept.", None) if chosen is None else ("pr", missing, None)


# ---- merge ------------------------------------------------------------------------------------


async def _merge(integration: Integration, home: IntegrationResult, tip: str, send: Send) -> IntegrationResult:
    sandbox = integration.sandbox
    if sandbox.target is None:
        return _kept(home, "It began at no branch that it could be merged into.")
    for _ in range(_ROUNDS):
        base = await branch_tip(sandbox.repository, sandbox.target)
        if base is None:
            return _kept(home, f"The branch {sandbox.target} is not there any more.")
        home = msgspec.structs.replace(home, base=base)
        if await is_ancestor(sandbox, tip, base):
            return msgspec.structs.replace(home, how="merge", base=sandbox.base)  # before a crash, or by somebody else
        if await is_ancestor(sandbox, base, tip):
            if integration.check is not None and not await integration.check(sandbox.root):
                return _kept(home, "The check command fails.")
            merged = None
        else:
            merge_request = integration.merge_request(
                f"Merge {' '.join(integration.title.split())}\n\nBranch: {sandbox.branch}", onto_branch=False
            )
            result = await merge(merge_request, base, tip, send)
            home = msgspec.structs.replace(home, conflicts=result.conflicts)
            if not isinstance(result, Merged):
                return _kept(home, result.reason)
            merged = result
            home = msgspec.structs.replace(home, merged=merged.how, left_out=merged.left_out)
        new = tip if merged is None else merged.commit
        if leaked := await _leaked(integration, base, new):
            await undo(sandbox)
            return _kept(home, leaked)
        advanced = await advance(sandbox.repository, sandbox.target, base, new)
        if merged is not None and (advanced is Advanced.DONE or merged.how == "repair"):
            await finish(sandbox, new)  # a repair is worth keeping, whatever comes of it
            tip = new
            home = msgspec.structs.replace(home, tip=new)
        elif merged is not None:
            await undo(sandbox)
        if advanced is Advanced.DONE:
            return msgspec.structs.replace(home, how="merge")
        if isinstance(advanced, str):
            kept = _kept(home, f"{sandbox.target} cannot be moved forward: {advanced}")
            return msgspec.structs.replace(kept, in_the_way=True)
    return _kept(home, f"Others move {sandbox.target} faster than it can be merged.")


def _alone(sandbox: Sandbox) -> AbstractAsyncContextManager[None]:
    """Merges are made one after the other, in the order in which they are asked for; all else goes on meanwhile."""
    place = sandbox.common_dir / "cuggino"
    try:
        place.mkdir(exist_ok=True)
    except OSError as error:
        raise GitError(f"{place} cannot be made: {error.strerror}.") from error
    return repository_lock(place)


# ---- pull request -----------------------------------------------------------------------------


async def _pull_request(
    integration: Integration, home: IntegrationResult, tip: str, slug: Slug, send: Send
) -> IntegrationResult:
    sandbox = integration.sandbox
    branch = await remote_name(sandbox)
    base = await fetch_base(sandbox, slug, branch)
    if base is None:
        missing = f"origin has no branch {branch} that a pull request could be for."
        return _kept(home, missing) if integration.chosen else msgspec.structs.replace(home, reason=missing)
    home = msgspec.structs.replace(home, base=base)
    if (await merge_trees(sandbox.repository, base, tip)).conflicts:
        merge_request = integration.merge_request(f"Merge {branch} into {sandbox.branch}", onto_branch=True)
        merged = await merge(merge_request, base, tip, send)
        home = msgspec.structs.replace(home, conflicts=merged.conflicts)
        if not isinstance(merged, Merged):
            return _kept(home, merged.reason)
        await finish(sandbox, merged.commit)
        tip = merged.commit
        home = msgspec.structs.replace(home, tip=tip, merged=merged.how, left_out=merged.left_out)
    if leaked := await _leaked(integration, base, tip):
        return _kept(home, leaked)
    if refused := await push(sandbox, slug, tip):
        return _kept(home, f"It could not be pushed: {refused}")
    github = GitHub(sandbox.repository, host=slug.host)
    found = await request(
        github, slug, head=str(sandbox.branch), base=branch, title=integration.title, body=integration.body
    )
    if isinstance(found, str):
        return _kept(home, f"It is pushed, but there is no pull request: {found}")
    await send(PRCreated(url=found.url, number=found.number, found=found.found))
    return msgspec.structs.replace(home, how="pr", pull_request=found)


async def _leaked(integration: Integration, base: str, tip: str) -> str:
    """Why it must not leave this machine; nothing if it may."""
    leaks = await integration.leaks(integration.sandbox.repository, base, tip) if integration.leaks is not None else ()
    if not leaks:
        return ""
    places = ", ".join(f"{leak.commit[:12]} ({leak.path or 'its message'})" for leak in leaks[:5])
    return f"A secret is in its commits: {places}{' and more' if len(leaks) > 5 else ''}."


def _kept(home: IntegrationResult, reason: str) -> IntegrationResult:
    return msgspec.structs.replace(home, how="kept", reason=reason)
