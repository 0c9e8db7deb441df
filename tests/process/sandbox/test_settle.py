"""Settling puts an agent's permitted changes onto the branch and nothing else, and runs nothing of the agent's."""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from cuggino.errors import SandboxError
from cuggino.sandbox.provision import provision
from cuggino.sandbox.removal import remove, uncommitted
from cuggino.sandbox.sandbox import Sandbox
from cuggino.sandbox.settle import Settled, settle
from tests.process.sandbox.person import LAUNCHER, Person, commit, git, has, permits, write


@pytest.fixture(params=[(), LAUNCHER], ids=["worktree", "clone"])
async def sandbox(person: Person, request: pytest.FixtureRequest) -> Sandbox:
    write(person.root / ".specs" / "app.md", "be better\n")
    return await provision(person.project, person.config(launcher=request.param, include=(".env",)))


@pytest.fixture
async def worktree(person: Person) -> Sandbox:
    return await provision(person.project, person.config())


@pytest.fixture
async def clone(person: Person) -> Sandbox:
    return await provision(person.project, person.config(launcher=LAUNCHER))


async def work(sandbox: Sandbox, *writable: str, message: str = "Work") -> Settled:
    return await settle(sandbox, permits(*writable), message)


def tip(person: Person, sandbox: Sandbox) -> str:
    return git(person.top, "rev-parse", f"{sandbox.branch}").strip()


async def test_without_changes_the_branch_stays_at_the_base(person: Person, sandbox: Sandbox) -> None:
    assert await work(sandbox) == Settled(None, ())
    assert tip(person, sandbox) == sandbox.base


async def test_uncommitted_changes_are_committed_as_the_person(person: Person, sandbox: Sandbox) -> None:
    before = person.belongings()
    write(sandbox.folder / "kept", "changed\n")
    write(sandbox.folder / "new" / "one", "new\n").chmod(0o755)
    (sandbox.folder / "new" / "link").symlink_to("/etc/passwd")
    (sandbox.folder / "folder" / "file").unlink()
    write(sandbox.folder / "build" / "output", "ignored\n")
    assert await work(sandbox, message="Work\n\nand why") == Settled(tip(person, sandbox), ())
    assert person.changed(sandbox) == ["A new/link", "A new/one", "D folder/file", "M kept"]
    assert person.log(f"main..{sandbox.branch}") == ["Work"]
    shown = git(person.top, "log", "-1", "--format=%an <%ae>%n%b", f"{sandbox.branch}")
    assert shown == "Ada <ada@example.org>\nand why\n\n"
    assert git(person.top, "ls-tree", f"{sandbox.branch}", "new/one").startswith("100755")
    assert person.belongings() == before


async def test_the_agent_s_own_commits_are_kept(person: Person, sandbox: Sandbox) -> None:
    write(sandbox.folder / "kept", "once\n")
    first = commit(sandbox, "once", "kept")
    write(sandbox.folder / "kept", "twice\n")
    second = commit(sandbox, "twice", "kept")
    assert await work(sandbox) == Settled(second, ())
    write(sandbox.folder / "kept", "and more\n")
    await work(sandbox)
    assert person.log(f"main..{sandbox.branch}") == ["Work", "twice", "once"]
    assert has(person.top, first)


async def test_settling_again_only_adds_to_the_branch(person: Person, sandbox: Sandbox) -> None:
    write(sandbox.folder / "one", "1\n")
    one = await work(sandbox)
    assert await work(sandbox) == one
    write(sandbox.folder / "two", "2\n")
    commit(sandbox, "the agent's", "two")
    two = await work(sandbox)
    git(person.top, "merge-base", "--is-ancestor", f"{one.tip}", f"{two.tip}")
    assert person.changed(sandbox) == ["A one", "A two"]
    # even if the agent rewrites commits that were settled, and pushed perhaps
    git(sandbox.folder, "reset", "-q", "--soft", sandbox.base)
    write(sandbox.folder / "three", "3\n")
    commit(sandbox, "all in one", "one", "two", "three")
    three = await work(sandbox)
    git(person.top, "merge-base", "--is-ancestor", f"{two.tip}", f"{three.tip}")
    assert person.changed(sandbox) == ["A one", "A three", "A two"]


async def test_refused_changes_stay_in_the_tree_and_are_reported(person: Person, sandbox: Sandbox) -> None:
    write(sandbox.folder / "folder" / "file", "allowed\n")
    write(sandbox.folder / "kept", "not allowed\n")
    write(sandbox.folder / ".cuggino.json", "{}")
    write(sandbox.folder / ".specs" / "app.md", "be evil\n")
    write(sandbox.folder / ".specs" / "mine.md", "new\n")
    write(sandbox.folder / ".env", "PASSWORD=mine\n")
    settled = await work(sandbox, "folder/**", ".cuggino.json")
    assert settled.left_out == (".cuggino.json", ".env", ".specs/app.md", ".specs/mine.md", "kept")
    assert person.changed(sandbox) == ["M folder/file"]
    assert (sandbox.folder / "kept").read_text() == "not allowed\n"
    assert (sandbox.folder / ".specs" / "app.md").read_text() == "be evil\n"


@pytest.mark.parametrize("taken_back", [False, True])
async def test_refused_changes_in_the_agent_s_commits_do_not_reach_the_branch(
    person: Person, sandbox: Sandbox, taken_back: bool
) -> None:
    """Not even its history, which would be pushed."""
    write(sandbox.folder / ".specs" / "app.md", "be evil\n")
    write(sandbox.folder / ".env", "PASSWORD=swordfish\n")
    write(sandbox.folder / "kept", "work\n")
    git(sandbox.folder, "update-index", "--no-skip-worktree", ".specs/app.md")
    evil = commit(sandbox, "everything", "--force", ".env", ".specs/app.md", "kept")
    if taken_back:
        git(sandbox.folder, "rm", "-q", "--cached", ".env")
        git(sandbox.folder, "checkout", sandbox.base, "--", ".specs")
        write(sandbox.folder / ".specs" / "app.md", "be better\n")
        git(sandbox.folder, "commit", "-qm", "taken back")
    assert (await work(sandbox)).left_out == (() if taken_back else (".specs/app.md",))
    assert person.log(f"main..{sandbox.branch}") == ["Work"]
    assert person.changed(sandbox) == ["M kept"]
    assert evil not in git(person.top, "rev-list", "--all")
    assert (sandbox.folder / ".env").exists()


async def test_with_only_refused_changes_the_branch_stays_at_the_base(person: Person, sandbox: Sandbox) -> None:
    write(sandbox.folder / "kept", "not allowed\n")
    commit(sandbox, "not allowed", "kept")
    assert await work(sandbox, "folder/**") == Settled(None, ("kept",))
    assert tip(person, sandbox) == sandbox.base
    assert (sandbox.folder / "kept").read_text() == "not allowed\n"


async def test_permits_are_relative_to_the_project_s_root(tmp_path: Path) -> None:
    person = Person(tmp_path / "all", "part")
    write(person.root / ".cuggino.json", "{}")
    write(person.top / "beside", "of others\n")
    git(person.top, "add", ".")
    git(person.top, "commit", "-qm", "second")
    sandbox = await provision(person.project, person.config())
    for name in ("kept", "folder/file", ".specs/app.md", "../beside"):
        write(sandbox.root / name, "changed\n")
    assert (await work(sandbox, "kept")).left_out == ("beside", "part/.specs/app.md", "part/folder/file")
    assert person.changed(sandbox) == ["M part/kept"]


def leave_the_branch(sandbox: Sandbox) -> None:
    git(sandbox.folder, "checkout", "-qb", "elsewhere")
    write(sandbox.folder / "kept", "there\n")
    commit(sandbox, "there", "kept")


def start_over(sandbox: Sandbox) -> None:
    git(sandbox.folder, "checkout", "-q", "--orphan", "over")
    write(sandbox.folder / "kept", "over\n")
    git(sandbox.folder, "commit", "-qam", "over")


def stop_in_a_merge(sandbox: Sandbox) -> None:
    for name in ("ours", "theirs"):
        git(sandbox.folder, "checkout", "-qb", name, sandbox.base)
        write(sandbox.folder / "kept", f"{name}\n")
        commit(sandbox, name, "kept")
    with pytest.raises(AssertionError):
        git(sandbox.folder, "merge", "ours")
    assert "<<<<<<<" in (sandbox.folder / "kept").read_text()


@pytest.mark.parametrize(
    ("agent", "expected"),
    [(leave_the_branch, ["there"]), (start_over, ["Work"]), (stop_in_a_merge, ["Work", "theirs"])],
)
async def test_the_tree_reaches_the_branch_in_whatever_state_the_agent_leaves_git(
    person: Person, sandbox: Sandbox, agent: Callable[[Sandbox], None], expected: list[str]
) -> None:
    """A history that does not come from the base is replaced by one commit on the base."""
    agent(sandbox)
    last = git(sandbox.folder, "rev-parse", "HEAD").strip()
    settled = await work(sandbox)
    assert settled.tip == tip(person, sandbox)
    assert person.log(f"{sandbox.branch}") == [*expected, "first"]
    assert (settled.tip == last) == ("Work" not in expected)
    assert person.changed(sandbox) == ["M kept"]
    assert git(person.top, "show", f"{sandbox.branch}:kept") == (sandbox.folder / "kept").read_text()


async def test_ignored_files_that_were_staged_by_force_are_committed(person: Person, sandbox: Sandbox) -> None:
    write(sandbox.folder / "build" / "result", "wanted\n")
    write(sandbox.folder / "build" / "rest", "not wanted\n")
    git(sandbox.folder, "add", "--force", "build/result")
    await work(sandbox)
    assert person.changed(sandbox) == ["A build/result"]


@pytest.mark.parametrize("launcher", [(), LAUNCHER], ids=["worktree", "clone"])
async def test_work_in_a_detached_sandbox_is_on_no_branch(person: Person, launcher: tuple[str, ...]) -> None:
    sandbox = await provision(person.project, person.config(launcher=launcher), detached=True)
    assert (sandbox.branch, git(sandbox.folder, "branch", "--show-current")) == (None, "")
    write(sandbox.folder / "kept", "fixed\n")
    last = commit(sandbox, "fixed", "kept") if launcher else None
    settled = await work(sandbox)
    assert settled == Settled(git(sandbox.folder, "rev-parse", "HEAD").strip(), ())
    assert last in (None, settled.tip)
    assert git(sandbox.folder, "status", "--short") == ""
    assert has(person.top, f"{settled.tip}")
    assert person.branches == ["main"]


async def test_files_may_have_any_name(person: Person, sandbox: Sandbox) -> None:
    names = [b"new\nline", b"\xff\xfe no text", "日本 ü".encode(), b":(exclude)kept", b"*", b"-n", b" ", b'"quoted"']
    for name in names:
        (sandbox.folder / os.fsdecode(name)).write_text("x")
    assert (await work(sandbox)).left_out == ()
    assert len(person.changed(sandbox)) == len(names)


async def test_a_file_can_replace_a_directory_and_the_other_way_round(person: Person, sandbox: Sandbox) -> None:
    shutil.rmtree(sandbox.folder / "folder")
    write(sandbox.folder / "folder", "a file now\n")
    (sandbox.folder / "kept").unlink()
    write(sandbox.folder / "kept" / "deep", "a directory now\n")
    assert (await work(sandbox)).left_out == ()
    assert person.changed(sandbox) == ["A folder", "A kept/deep", "D folder/file", "D kept"]


async def test_a_file_cannot_replace_a_directory_with_protected_files(person: Person, sandbox: Sandbox) -> None:
    shutil.rmtree(sandbox.folder / "folder")
    write(sandbox.folder / "folder", "a file now\n")
    write(sandbox.folder / "kept", "work\n")
    assert (await work(sandbox, "folder", "kept")).left_out == ("folder", "folder/file")
    assert person.changed(sandbox) == ["M kept"]


# ---- tricks -----------------------------------------------------------------------------------


async def test_a_directory_that_became_a_link_lets_nothing_in(person: Person, sandbox: Sandbox, tmp_path: Path) -> None:
    write(tmp_path / "outside" / "file", "a secret\n")
    write(tmp_path / "outside" / "other", "a secret\n")
    shutil.rmtree(sandbox.folder / "folder")
    (sandbox.folder / "folder").symlink_to(tmp_path / "outside")
    await work(sandbox)
    assert person.changed(sandbox) == ["A folder", "D folder/file"]
    assert git(person.top, "ls-tree", f"{sandbox.branch}", "folder").startswith("120000")
    shutil.rmtree(sandbox.folder / ".specs")
    (sandbox.folder / ".specs").symlink_to(tmp_path / "outside")
    assert ".specs" in (await work(sandbox)).left_out


def _trap(folder: Path) -> Path:
    """Create a program that leaves a trace when it runs."""
    program = write(folder / "trap", f"#!/bin/sh\necho \"$0 $*\" >> '{folder / 'trace'}'\ncat\n")
    program.chmod(0o755)
    return program


def _set_trap(repository: Path, program: Path) -> None:
    """Set every git setting that is a command to this program."""
    keys = """core.fsmonitor core.sshCommand core.pager core.editor core.alternateRefsCommand diff.external
        diff.x.textconv filter.x.clean filter.x.smudge filter.x.process gpg.program uploadpack.packObjectsHook
        merge.x.driver credential.helper sequence.editor core.gitProxy"""
    for key in keys.split():
        git(repository, "config", key, str(program))
    git(repository, "config", "core.hooksPath", str(program.parent))


async def test_no_setting_or_hook_in_a_clone_runs_outside(person: Person, tmp_path: Path) -> None:
    """In the clone, in its submodule, in a nested repository."""
    library = Person(tmp_path / "library")
    git(person.top, "-c", "protocol.file.allow=always", "submodule", "add", "-q", str(library.top), "library")
    git(person.top, "commit", "-qm", "with a submodule")
    sandbox = await provision(person.project, person.config(launcher=LAUNCHER))
    program = _trap(tmp_path)
    nested = sandbox.folder / "nested"
    nested.mkdir()
    git(nested, "init", "-q")
    for place in (sandbox.folder, sandbox.folder / "library", nested):
        write(place / "kept", "work\n")
        if place == sandbox.folder:
            git(
                place, *("-c", "user.name=Agent", "-c", "user.email=agent@example.org"), "commit", "-qam", "the agent's"
            )
        # of the same length as the committed file: git can only notice the change by its content
        write(place / "kept", "WORK\n" if place == sandbox.folder else "AS IT WAS\n")
        write(place / ".gitattributes", "* filter=x diff=x merge=x\n")
        _set_trap(place, program)
        for hook in ("pre-commit", "post-commit", "reference-transaction", "post-index-change", "post-checkout"):
            write(place / ".git" / "hooks" / hook, program.read_text()).chmod(0o755)
    write(sandbox.folder / "new", "new\n")
    git(sandbox.folder, "-c", "core.fsmonitor=false", "config", "commit.gpgSign", "true")
    (tmp_path / "trace").unlink(missing_ok=True)
    assert (await work(sandbox)).left_out == ("library", "nested/")
    assert person.changed(sandbox) == ["A .gitattributes", "A new", "M kept"]
    assert person.log(f"main..{sandbox.branch}") == ["Work", "the agent's"]
    assert await uncommitted(sandbox) == ["library", "nested/"]
    with pytest.raises(SandboxError, match="not committed: library, nested/"):
        await remove(person.project, sandbox, force=False)
    await remove(person.project, sandbox, force=True)
    assert not (tmp_path / "trace").exists(), (tmp_path / "trace").read_text()


async def test_a_git_directory_in_place_of_the_worktree_s_file_is_not_trusted(
    person: Person, worktree: Sandbox, tmp_path: Path
) -> None:
    (worktree.folder / ".git").unlink()
    git(worktree.folder, "init", "-q")
    _set_trap(worktree.folder, _trap(tmp_path))
    write(worktree.folder / ".gitattributes", "* filter=x\n")
    write(worktree.folder / "kept", "work\n")
    assert (await work(worktree)).tip is not None
    assert person.log(f"{worktree.branch}") == ["Work", "first"]
    assert not (tmp_path / "trace").exists()


@pytest.mark.parametrize("damage", ["gone", "a link", "no objects", "alternates", "a wrong head"])
async def test_the_tree_of_a_clone_counts_when_its_repository_is_damaged(
    person: Person, clone: Sandbox, damage: str
) -> None:
    write(clone.folder / "kept", "work\n")
    commit(clone, "the agent's", "kept")
    repository = clone.folder / ".git"
    if damage == "gone":
        shutil.rmtree(repository)
    elif damage == "a link":
        moved = clone.folder.parent / f"{clone.id}.git"
        repository.rename(moved)
        repository.symlink_to(moved)
    elif damage == "no objects":
        shutil.rmtree(repository / "objects")
    elif damage == "alternates":
        write(repository / "objects" / "info" / "alternates", "/nowhere\n")
    else:
        write(repository / "HEAD", "ref: refs/heads/../../../../etc/passwd\n")
    assert (await work(clone)).tip is not None
    assert person.log(f"{clone.branch}") == ["Work", "first"]
    assert git(person.top, "show", f"{clone.branch}:kept") == "work\n"


async def test_objects_with_forged_names_are_not_fetched(person: Person, clone: Sandbox) -> None:
    write(clone.folder / "kept", "good\n")
    last = commit(clone, "the agent's", "kept")
    good = git(clone.folder, "rev-parse", "HEAD:kept").strip()
    write(clone.folder / "kept", "evil\n")
    evil = git(clone.folder, "hash-object", "-w", "kept").strip()
    objects = clone.folder / ".git" / "objects"
    forged = objects / good[:2] / good[2:]
    forged.chmod(stat.S_IRWXU)
    shutil.copyfile(objects / evil[:2] / evil[2:], forged)
    assert (await work(clone)).tip != last
    assert git(person.top, "show", f"{clone.branch}:kept") == "evil\n"
    assert person.log(f"{clone.branch}") == ["Work", "first"]


async def test_replacing_a_commit_does_not_hide_refused_changes(person: Person, worktree: Sandbox) -> None:
    write(worktree.folder / ".cuggino.json", "{}")
    write(worktree.folder / "kept", "work\n")
    evil = commit(worktree, "evil")
    git(worktree.folder, "reset", "-q", "--hard", worktree.base)
    write(worktree.folder / "kept", "work\n")
    good = commit(worktree, "good", "kept")
    git(worktree.folder, "reset", "-q", "--hard", evil)
    git(worktree.folder, "replace", evil, good)
    assert (await work(worktree)).left_out == (".cuggino.json",)
    assert person.log(f"main..{worktree.branch}") == ["Work"]


async def test_a_file_that_requires_a_filter_is_left_out(person: Person) -> None:
    """As with git-crypt: the plain text would be committed."""
    write(person.root / ".gitattributes", "*.key filter=crypt\n")
    git(person.top, "add", ".")
    git(person.top, "commit", "-qm", "attributes")
    for setting, value in (("clean", "encrypt"), ("smudge", "decrypt"), ("required", "true")):
        git(person.top, "config", f"filter.crypt.{setting}", value)
    sandbox = await provision(person.project, person.config())
    write(sandbox.folder / "new.key", "plain\n")
    write(sandbox.folder / "kept", "work\n")
    assert (await work(sandbox)).left_out == ("new.key",)
    assert person.changed(sandbox) == ["M kept"]


@pytest.mark.parametrize("changed_filter", [False, True])
async def test_git_lfs_is_the_only_filter_that_runs(
    person: Person, worktree: Sandbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, changed_filter: bool
) -> None:
    write(tmp_path / "bin" / "git-lfs", f"#!/bin/sh\ncat > {tmp_path}/stored\necho pointer\n").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    more = f"; touch {tmp_path}/trace" if changed_filter else ""
    git(person.top, "config", "filter.lfs.clean", f"git-lfs clean -- %f{more}")
    git(person.top, "config", "filter.lfs.required", "true")
    write(worktree.folder / ".gitattributes", "*.bin filter=lfs\n")
    write(worktree.folder / "large.bin", "large\n")
    settled = await work(worktree)
    if changed_filter:
        assert settled.left_out == ("large.bin",)
        assert not (tmp_path / "trace").exists()
    else:
        assert git(person.top, "show", f"{worktree.branch}:large.bin") == "pointer\n"
        assert (tmp_path / "stored").read_text() == "large\n"


async def test_line_endings_follow_the_repository_s_settings(person: Person) -> None:
    git(person.top, "config", "core.autocrlf", "true")
    sandbox = await provision(person.project, person.config(launcher=LAUNCHER))
    assert (sandbox.folder / "kept").read_bytes() == b"as it was\r\n"
    assert git(sandbox.folder, "status", "--short") == ""
    (sandbox.folder / "folder" / "file").write_bytes(b"in a folder\r\nmore\r\n")
    await work(sandbox)
    assert person.changed(sandbox) == ["M folder/file"]
    assert git(person.top, "show", f"{sandbox.branch}:folder/file") == "in a folder\nmore\n"


@pytest.mark.parametrize("launcher", [(), LAUNCHER], ids=["worktree", "clone"])
async def test_a_submodule_can_only_move_to_commits_that_the_person_has(
    person: Person, tmp_path: Path, launcher: tuple[str, ...]
) -> None:
    library = Person(tmp_path / "library")
    old = git(library.top, "rev-parse", "HEAD").strip()
    write(library.top / "kept", "newer\n")
    git(library.top, "commit", "-qam", "newer")
    git(person.top, "-c", "protocol.file.allow=always", "submodule", "add", "-q", str(library.top), "library")
    git(person.top, "commit", "-qm", "with a submodule")
    sandbox = await provision(person.project, person.config(launcher=launcher))
    inner = sandbox.folder / "library"
    write(inner / "untracked", "")
    assert await work(sandbox) == Settled(None, ("library",))
    (inner / "untracked").unlink()
    git(inner, "checkout", "-q", old)
    assert (await work(sandbox)).left_out == ()
    assert person.changed(sandbox) == ["M library"]
    write(inner / "kept", "the agent's\n")
    git(inner, "commit", "-qam", "the agent's")
    known = tip(person, sandbox)
    assert await work(sandbox) == Settled(known, ("library",))


async def test_a_deleted_sandbox_cannot_be_settled(worktree: Sandbox) -> None:
    shutil.rmtree(worktree.folder)
    with pytest.raises(SandboxError, match="no longer exists"):
        await work(worktree)


async def test_a_person_without_a_name_gets_a_default_identity(person: Person, worktree: Sandbox) -> None:
    Path(os.environ["HOME"], ".gitconfig").write_text("[user]\nuseConfigOnly = true\n")
    write(worktree.folder / "kept", "work\n")
    await work(worktree, message=" \n")
    assert git(person.top, "log", "-1", "--format=%an %ae %s", f"{worktree.branch}").strip() == (
        "cuggino cuggino@localhost Work done with cuggino"
    )


@pytest.mark.parametrize("lock", ["index.lock", "HEAD.lock", "refs/worktree/cuggino/settled.lock", "branch"])
async def test_locks_that_a_killed_git_left_do_not_prevent_settling(person: Person, lock: str) -> None:
    """Nobody works there any more. A lock of the whole repository stays: it may be somebody else's."""
    sandbox = await provision(person.project, person.config())
    write(sandbox.folder / "kept", "work\n")
    shared = sandbox.common_dir / "config.lock"
    own = sandbox.common_dir / f"refs/heads/{sandbox.branch}.lock" if lock == "branch" else sandbox.git_dir / lock
    for path in (own, shared):
        write(path, "")
    settled = await settle(sandbox, permits(), "Work")
    assert settled.tip == git(person.top, "rev-parse", str(sandbox.branch)).strip()
    assert person.changed(sandbox) == ["M kept"]
    assert (own.exists(), shared.exists()) == (False, True)


@pytest.mark.parametrize("how", ["staged", "committed", "a submodule", "committed and removed"])
async def test_all_but_the_link_to_a_nested_repository_is_settled(
    person: Person, sandbox: Sandbox, tmp_path: Path, how: str
) -> None:
    library = Person(tmp_path / "library")
    nested = sandbox.folder / "vendor" / "lib"
    write(sandbox.folder / "kept", "work\n")
    if how == "a submodule":
        allowed = ("-c", "protocol.file.allow=always")
        git(sandbox.folder, *allowed, "submodule", "add", "-q", str(library.top), "vendor/lib")
    else:
        git(sandbox.folder, "clone", "-q", str(library.top), str(nested))
        git(sandbox.folder, "-c", "advice.addEmbeddedRepo=false", "add", "vendor")
    if how.startswith("committed"):
        commit(sandbox, "with a link", "kept", "vendor")
    if how == "committed and removed":
        shutil.rmtree(sandbox.folder / "vendor")
    settled = await work(sandbox)
    assert [path.rstrip("/") for path in settled.left_out] == ([] if how.endswith("removed") else ["vendor/lib"])
    assert person.changed(sandbox) == [*(["A .gitmodules"] if how == "a submodule" else []), "M kept"]
    assert "160000" not in git(person.top, "log", "-p", "--raw", f"main..{sandbox.branch}")
    assert (await work(sandbox)).tip == settled.tip
