"""Making a sandbox: a separate tree, outside the person's.

It is a git worktree, and takes about as long to make. Files that the person has but the base has not are lent to it:
the specs in their current state, the ignored files that `spawn.include` names, the submodules that are there. The
person's tree, index, branches and stash are only read.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

import msgspec
import trio

from cuggino.clock import uuid7
from cuggino.config import Config
from cuggino.errors import CugginoError, GitError, SandboxError
from cuggino.git.locked import repository_lock
from cuggino.git.run import SAFE, git_output, run_git
from cuggino.project import STATE_NAME, Project
from cuggino.sandbox import copies
from cuggino.sandbox.clone import make_clone
from cuggino.sandbox.git import ask, filters_off
from cuggino.sandbox.records import SandboxStage, delete_record, save
from cuggino.sandbox.removal import remove_tree
from cuggino.sandbox.sandbox import Sandbox
from cuggino.sandbox.submodules import populate

_UNDO_SECONDS = 20.0


async def provision(
    project: Project,
    config: Config,
    *,
    base: str | None = None,
    detached: bool = False,
    title: str = "",
    id: str | None = None,  # noqa: A002 - it is the sandbox's
    item: str | None = None,
) -> Sandbox:
    """Make a sandbox at the commit `base` (or HEAD), on the new branch `spawn/<id>` or `detached`.

    Its work is integrated into `base` if that is a local or remote branch, else into the branch of HEAD; that of a
    detached one into none. If this fails or is cancelled, nothing is left behind. Raises SandboxError, GitError or
    StorageError.
    """
    sandbox = await planned(project, config, base, detached=detached, title=title, id=id or uuid7())
    sandbox = msgspec.structs.replace(sandbox, item=item)
    project.prepare()
    save(project, sandbox, SandboxStage.MAKING)
    try:
        await _add(sandbox)
        sandbox = await _fill(project, config, sandbox)
    except BaseException:
        with trio.move_on_after(_UNDO_SECONDS, shield=True), contextlib.suppress(CugginoError):  # the record stays then
            await remove_tree(sandbox, tip=sandbox.base)
            delete_record(project, sandbox)
        raise
    save(project, sandbox, SandboxStage.MADE)
    return sandbox


async def dirty(project: Project, specs: str = ".specs") -> tuple[str, ...]:
    """Return files that a sandbox at HEAD lacks: changed and new ones, relative to the project's root."""
    asked = ("status", "--porcelain", "-z", "--untracked-files=normal", "--ignore-submodules=dirty", "--no-renames")
    left_out = (os.path.normpath(specs), STATE_NAME)
    excluded = (f":(exclude,glob)[{path[0]}]{re.escape(path[1:])}{rest}" for path in left_out for rest in ("", "/**"))
    paths_asked = ("--", ".", *excluded)
    read_only = {"GIT_OPTIONAL_LOCKS": "0"}
    listed = await git_output(project.root, "-c", "core.fsmonitor=false", *asked, *paths_asked, environment=read_only)
    top = await _said(project.root, "rev-parse", "--show-toplevel")
    paths = (Path(top, os.fsdecode(entry[3:])) for entry in listed.split(b"\0")[:-1])
    return tuple(copies.printable(os.path.relpath(path, project.root)) for path in paths)


async def planned(
    project: Project,
    config: Config,
    base: str | None,
    *,
    detached: bool,
    title: str,
    id: str,  # noqa: A002
) -> Sandbox:
    """Return the sandbox that `provision` would make. Raise SandboxError without a repository or such a commit."""
    try:
        top = Path(await _said(project.root, "rev-parse", "--show-toplevel"))
        common = Path(await _said(project.root, "rev-parse", "--path-format=absolute", "--git-common-dir"))
    except GitError as error:
        raise SandboxError(
            f"{project.root} is not in a git repository: {error.message}", advice="A sandbox needs one: run `git init`."
        ) from error
    commit = await run_git(project.root, *SAFE, "rev-parse", "--verify", "--quiet", f"{base or 'HEAD'}^{{commit}}")
    if commit.returncode != 0:
        if base is None:
            raise SandboxError("The repository has no commit yet.", advice="Make one: a sandbox starts from a commit.")
        raise SandboxError(f"{base!r} does not name a commit.", advice="Give a branch, a tag or a commit's hash.")
    folder = _home(project, config, common) / id
    if folder.is_relative_to(top):
        raise SandboxError(f"spawn.root: {folder.parent} is in the repository.", advice="Choose one outside it.")
    return Sandbox(
        id=id,
        repository=top,
        common_dir=common,
        folder=folder,
        below="" if project.root == top else str(project.root.relative_to(top)),
        git_dir=common / "worktrees" / id,
        branch=None if detached else f"spawn/{id}",
        base=commit.stdout.decode().strip(),
        target=None if detached else await _target(project.root, base),
        cloned=bool(config.spawn.launcher),
        specs=config.specs_path,
        title=title,
        created_at=datetime.now(UTC).replace(microsecond=0),
    )


def _home(project: Project, config: Config, common: Path) -> Path:
    """Return the directory of this repository's sandboxes."""
    if config.spawn.root is not None:
        root = project.root / Path(config.spawn.root).expanduser()
    else:
        root = Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state") / "cuggino"
    name = common.parent.name if common.name == ".git" else common.name
    return Path(os.path.realpath(root)) / f"{name}-{hashlib.sha256(os.fsencode(common)).hexdigest()[:8]}"


async def _target(root: Path, base: str | None) -> str | None:
    name = await run_git(root, *SAFE, "rev-parse", "--symbolic-full-name", base or "HEAD")
    full = name.stdout.decode(errors="surrogateescape").strip()
    if full.startswith("refs/heads/"):
        return full.removeprefix("refs/heads/")
    if full.startswith("refs/remotes/"):
        return full.removeprefix("refs/remotes/").partition("/")[2]
    return await _target(root, None) if base is not None else None


async def _said(root: Path, *arguments: str) -> str:
    return os.fsdecode((await git_output(root, *SAFE, *arguments)).removesuffix(b"\n"))


async def _add(sandbox: Sandbox) -> None:
    """Add the worktree without its files, so that the repository is locked for a short time only."""
    try:
        sandbox.folder.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise SandboxError(f"Cannot create {sandbox.folder.parent}: {error.strerror}.") from error
    place = ("--detach",) if sandbox.branch is None else ("--no-track", "-b", sandbox.branch)
    reason = ("--lock", "--reason", f"a sandbox of cuggino: {sandbox.id}")
    async with repository_lock(sandbox.common_dir):
        await git_output(
            sandbox.repository,
            *(*SAFE, "-c", "core.filesRefLockTimeout=10000", "-c", "core.packedRefsTimeout=10000"),
            *("worktree", "add", "--quiet", "--no-checkout", *reason, *place, str(sandbox.folder), sandbox.base),
        )
    if not (sandbox.git_dir / "HEAD").is_file():
        raise SandboxError(f"git did not create {sandbox.git_dir}.")


async def _fill(project: Project, config: Config, sandbox: Sandbox) -> Sandbox:
    filters = await filters_off(sandbox)
    await ask(sandbox, "read-tree", "--reset", "-u", "--no-recurse-submodules", sandbox.base, more=filters.environment)
    try:
        await populate(sandbox)
        source, target = (top / copies.specs_path(sandbox) for top in (sandbox.repository, sandbox.folder))
        sandbox.root.mkdir(parents=True, exist_ok=True)
        if copies.mirror(source, target):
            await _hide(sandbox, filters.environment)
        included = copies.include(project.root, sandbox.root, config.spawn.include)
    except OSError as error:
        raise SandboxError(f"Cannot copy {error.filename or sandbox.folder}: {error.strerror}.") from error
    sandbox = msgspec.structs.replace(sandbox, copied=tuple(str(Path(sandbox.below, path)) for path in included))
    copies.remember(sandbox)
    sandbox.keep_index(sandbox.git_dir / "index")
    await _exclude(sandbox)
    if sandbox.cloned:
        await make_clone(sandbox, sandbox.exclude_file.read_bytes())
    return sandbox


async def _hide(sandbox: Sandbox, environment: Mapping[str, str]) -> None:
    """Make the agent's git take specs that differ from the base for unchanged, so that it does not commit them."""
    specs = copies.specs_path(sandbox)
    changed = await ask(sandbox, "diff-files", "-z", "--name-only", "--", specs, more=environment)
    if changed:
        await ask(sandbox, "update-index", "-z", "--skip-worktree", "--stdin", stdin=changed, more=environment)


async def _exclude(sandbox: Sandbox) -> None:
    """Write the agent's `core.excludesFile`: lent files, and those that the person's own git ignores everywhere."""
    asked = ("config", "--type=path", "--get", "core.excludesFile")
    named = await run_git(sandbox.repository, *SAFE, *asked)
    habit = Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config", "git", "ignore")
    everywhere = Path(os.fsdecode(named.stdout.removesuffix(b"\n"))) if named.returncode == 0 else habit
    own = everywhere.read_bytes() if everywhere.is_file() else b""
    state = os.path.normpath(Path(sandbox.below, STATE_NAME))
    lent = (*sandbox.copied, copies.specs_path(sandbox), state)
    lines = [re.sub(rb"([\\*?\[ ])", rb"\\\1", os.fsencode(f"/{path}")) + b"\n" for path in lent]
    sandbox.exclude_file.write_bytes(own + (b"" if own.endswith(b"\n") or not own else b"\n") + b"".join(lines))
