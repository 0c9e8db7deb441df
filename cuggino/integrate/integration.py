"""Integrate a sandbox's work: merge it into its base branch, open a pull request, or keep its branch.

Every step can be repeated: what is already pushed, merged or requested is found. Whatever goes wrong, the branch keeps
everything it had, and the result says what is in the way.
"""

from __future__ import annotations

import os
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
from cuggino.integrate.merge import How, MergeContext, Merged, MergeRequest, Unmerged, merge
from cuggino.integrate.pull_request import OpenPullRequest, fetch_base, open_pull_request, push, remote_name
from cuggino.integrate.trees import merge_trees, unfinished
from cuggino.project import Project
from cuggino.sandbox.git import is_ancestor
from cuggino.sandbox.leaks import Leak
from cuggino.sandbox.records import SandboxStage, save
from cuggino.sandbox.removal import finish_removal
from cuggino.sandbox.sandbox import Sandbox

Leaks: TypeAlias = Callable[[Path, str, str], Awaitable[Sequence[Leak]]]
"""Returns where the commits of base..tip in this repository hold secrets."""

_ROUNDS = 5
"""Maximum attempts at a merge while others move the base."""


class IntegrationResult(msgspec.Struct, frozen=True, kw_only=True):
    """The outcome. "kept": not integrated; `reason` says why, and `branch` has the work.

    All changes of the branch are between the commits `base` and `tip`.
    """

    how: Literal["pr", "merge", "branch", "nothing", "kept"]
    branch: str | None = None
    reason: str = ""
    pull_request: OpenPullRequest | None = None
    base: str | None = None
    tip: str | None = None
    conflicts: tuple[Conflict, ...] = ()
    merged: How | None = None
    left_out: tuple[str, ...] = ()
    """Paths that an agent wrote during a repair without permission."""
    in_the_way: bool = False
    """Only uncommitted changes in the person's tree prevent the merge."""


class Integration(msgspec.Struct, frozen=True, kw_only=True):
    """What to integrate, and how. If `chosen` is None, `destination` chooses.

    `tip` is the commit that settling returned; None if nothing has changed. `title` and `body` are those of the pull
    request, the title also that of the merge; neither holds a secret.
    """

    context: MergeContext
    tip: str | None
    title: str
    body: str = ""
    chosen: Integrate | None = None
    leaks: Leaks | None = None
    unmerged: tuple[str, ...] = ()
    """Files in which the agent left a merge of its own unfinished."""

    @property
    def sandbox(self) -> Sandbox:
        return self.context.sandbox


async def integrate(integration: Integration, send: Send) -> IntegrationResult:
    """Integrate the work. Nothing else may use the sandbox meanwhile.

    Raise GitError, GitHubError or SandboxError; even then the branch keeps the work.
    """
    sandbox, tip = integration.sandbox, integration.tip
    await undo(sandbox)
    if tip is None:
        return IntegrationResult(how="nothing", reason="Nothing was changed.")
    if sandbox.branch is None:
        raise SandboxError(f"The sandbox {sandbox.id} has no branch.")
    how, reason, slug = await destination(sandbox, integration.chosen)
    result = IntegrationResult(how="branch", branch=sandbox.branch, reason=reason, base=sandbox.base, tip=tip)
    if problem := await _unfinished(integration, tip):
        return _kept(result, problem)
    if how == "merge":
        async with _merge_lock(sandbox):
            return await _merge(integration, result, tip, send)
    if how == "pr" and slug is not None:
        return await _pull_request(integration, result, tip, slug, send)
    return result if how == "branch" else _kept(result, reason)


async def destination(sandbox: Sandbox, chosen: Integrate | None) -> tuple[Integrate, str, Slug | None]:
    """Return how to integrate, why, and the repository for a pull request (None if none can be opened).

    If nothing is chosen, this is a pull request where there is an origin, a login for its host and a base branch.
    """
    if chosen in ("merge", "branch"):
        return chosen, "", None
    slug = await find_origin(sandbox.repository)
    if slug is None:
        missing = "There is no origin on GitHub."
    elif sandbox.target is None:
        missing = "It did not start from a branch, so a pull request would have no base."
    elif not await is_logged_in(slug, sandbox.repository):
        missing = f"gh is not logged in to {slug.host}."
    else:
        return "pr", "", slug
    return ("branch", f"{missing} The branch is kept.", None) if chosen is None else ("pr", missing, None)


async def remove_integrated(
    project: Project, sandbox: Sandbox, result: IntegrationResult, *, keeps_folder: bool
) -> None:
    """Remove a sandbox whose work is integrated, and its branch only if it was merged or is empty.

    A later command finishes a removal that was killed.
    """
    if keeps_folder:
        save(project, sandbox, SandboxStage.INTEGRATED)
        return
    merged = result.how in ("nothing", "merge")
    await finish_removal(project, sandbox, tip=(result.tip or sandbox.base) if merged else None)


async def _unfinished(integration: Integration, tip: str) -> str:
    """Return why the work is not finished: the agent stopped in the middle of a merge of its own."""
    sandbox = integration.sandbox
    target = None if sandbox.target is None else await branch_tip(sandbox.repository, sandbox.target)
    files = {*integration.unmerged, *await unfinished(sandbox.repository, sandbox.base, tip, target)}
    names = ", ".join(os.fsencode(path).decode(errors="backslashreplace") for path in sorted(files))
    return f"The agent left conflicts unresolved in {names}." if names else ""


# ---- merge ------------------------------------------------------------------------------------


async def _merge(integration: Integration, result: IntegrationResult, tip: str, send: Send) -> IntegrationResult:
    sandbox = integration.sandbox
    if sandbox.target is None:
        return _kept(result, "It did not start from a branch that it could be merged into.")
    for _ in range(_ROUNDS):
        base = await branch_tip(sandbox.repository, sandbox.target)
        if base is None:
            return _kept(result, f"The branch {sandbox.target} does not exist any more.")
        if await is_ancestor(sandbox, tip, base):  # merged before a crash, or by somebody else
            return msgspec.structs.replace(result, how="merge", base=sandbox.base)
        merged, result = await _merge_base(integration, msgspec.structs.replace(result, base=base), base, tip, send)
        if result.how == "kept":
            return result
        new = tip if merged is None else merged.commit
        if leaked := await _leaked(integration, base, new):
            await undo(sandbox)
            return _kept(result, leaked)
        advanced = await advance(sandbox.repository, sandbox.target, base, new)
        if merged is not None and (advanced is Advanced.DONE or merged.how == "repair"):
            await finish(sandbox, new)  # a repair is worth keeping in every case
            tip = new
            result = msgspec.structs.replace(result, tip=new)
        elif merged is not None:
            await undo(sandbox)
        if advanced is Advanced.DONE:
            return msgspec.structs.replace(result, how="merge")
        if isinstance(advanced, str):
            kept = _kept(result, f"{sandbox.target} cannot be moved forward: {advanced}")
            return msgspec.structs.replace(kept, in_the_way=True)
    return _kept(result, f"{sandbox.target} moved again during each of {_ROUNDS} merges.")


async def _merge_base(
    integration: Integration, result: IntegrationResult, base: str, tip: str, send: Send
) -> tuple[Merged | None, IntegrationResult]:
    """Return the merge with the base, None if none is needed, and the result so far: "kept" if this failed."""
    sandbox, check = integration.sandbox, integration.context.check
    if await is_ancestor(sandbox, base, tip):
        passes = check is None or await check(sandbox.root)
        return None, result if passes else _kept(result, "The check command fails.")
    message = f"Merge {' '.join(integration.title.split())}\n\nBranch: {sandbox.branch}"
    request = MergeRequest(context=integration.context, message=message)
    return _add_merge(result, await merge(request, base, tip, send))


def _add_merge(result: IntegrationResult, merged: Merged | Unmerged) -> tuple[Merged | None, IntegrationResult]:
    result = msgspec.structs.replace(result, conflicts=merged.conflicts)
    if isinstance(merged, Merged):
        return merged, msgspec.structs.replace(result, merged=merged.how, left_out=merged.left_out)
    return None, _kept(result, merged.reason)


def _merge_lock(sandbox: Sandbox) -> AbstractAsyncContextManager[None]:
    """Return a lock that serializes the merges in this repository, and nothing else."""
    directory = sandbox.common_dir / "cuggino"
    try:
        directory.mkdir(exist_ok=True)
    except OSError as error:
        raise GitError(f"{directory} cannot be created: {error.strerror}.") from error
    return repository_lock(directory)


# ---- pull request -----------------------------------------------------------------------------


async def _pull_request(
    integration: Integration, result: IntegrationResult, tip: str, slug: Slug, send: Send
) -> IntegrationResult:
    sandbox = integration.sandbox
    branch = await remote_name(sandbox)
    base = await fetch_base(sandbox, slug, branch)
    if base is None:
        missing = f"origin has no branch {branch} to open a pull request against."
        return _kept(result, missing) if integration.chosen else msgspec.structs.replace(result, reason=missing)
    result = msgspec.structs.replace(result, base=base)
    if (await merge_trees(sandbox.repository, base, tip)).conflicts:
        message = f"Merge {branch} into {sandbox.branch}"
        request = MergeRequest(context=integration.context, message=message, onto_branch=True)
        merged, result = _add_merge(result, await merge(request, base, tip, send))
        if merged is None:
            return result
        await finish(sandbox, merged.commit)
        tip = merged.commit
        result = msgspec.structs.replace(result, tip=tip)
    if leaked := await _leaked(integration, base, tip):
        return _kept(result, leaked)
    if refused := await push(sandbox, slug, tip):
        return _kept(result, f"It could not be pushed: {refused}")
    github = GitHub(sandbox.repository, host=slug.host)
    text = {"title": integration.title, "body": integration.body}
    opened = await open_pull_request(github, slug, head=str(sandbox.branch), base=branch, **text)
    if isinstance(opened, str):
        return _kept(result, f"It is pushed, but the pull request could not be opened: {opened}")
    await send(PRCreated(url=opened.url, number=opened.number, found=opened.found))
    return msgspec.structs.replace(result, how="pr", pull_request=opened)


async def _leaked(integration: Integration, base: str, tip: str) -> str:
    """Return why the commits must not leave the sandbox, or an empty string."""
    leaks = await integration.leaks(integration.sandbox.repository, base, tip) if integration.leaks is not None else ()
    if not leaks:
        return ""
    places = ", ".join(f"{leak.commit[:12]} ({leak.path or 'its message'})" for leak in leaks[:5])
    return f"A secret is in its commits: {places}{' and more' if len(leaks) > 5 else ''}."


def _kept(result: IntegrationResult, reason: str) -> IntegrationResult:
    return msgspec.structs.replace(result, how="kept", reason=reason)
