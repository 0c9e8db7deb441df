"""What of an agent's work comes onto the branch, what never does, and that nothing of the agent's runs meanwhile."""

from __future__ import annotations

import os
import shutil
import stat
from pathlib import Path

import pytest

from cuggino.errors import SandboxError
from cuggino.sandbox.provision import provision
from cuggino.sandbox.sandbox import Sandbox
from cuggino.sandbox.settle import Settled, settle
from tests.process.sandbox.person import LAUNCHER, Person, commit, git, has, permits, write


@pytest.fixture(params=[(), LAUNCHER], ids=["worktree", "clone"])
async def sandbox(person: Person, request: pytest.FixtureRequest) -> Sandbox:
    config = person.config(launcher=request.param, include=(".env",))
    write(person.root / ".specs" / "app.md", "be better\n")
    return await provision(person.project, config)


def branch(sandbox: Sandbox) -> str:
    assert sandbox.branch is not None
    return sandbox.branch


async def test_nothing_done(person: Person, sandbox: Sandbox) -> None:
    assert await settle(sandbox, permits(), "Work") == Settled(None, ())
    assert git(person.top, "rev-parse", branch(sandbox)).strip() == sandbox.base


async def test_what_is_not_committed_is(person: Person, sandbox: Sandbox) -> None:
    before = person.belongings()
    write(sandbox.folder / "kept", "changed\n")
    write(sandbox.folder / "new" / "one", "new\n").chmod(0o755)
    (sandbox.folder / "new" / "link").symlink_to("/etc/passwd")
    (sandbox.folder / "folder" / "file").unlink()
    write(sandbox.folder / "build" / "output", "ignored\n")
    settled = await settle(sandbox, permits(), "Work\n\nand why")
    assert settled.left_out == ()
    assert settled.tip == git(person.top, "rev-parse", branch(sandbox)).strip()
    changed = ["A new/link", "A new/one", "D folder/file", "M kept"]
    assert person.changed(f"main..{branch(sandbox)}") == changed
    assert person.log(f"main..{branch(sandbox)}") == ["Work"]
    assert (
        git(person.top, "log", "-1", "--format=%an <%ae>%n%b", branch(sandbox)) == "Ada <ada@example.org>\nand why\n\n"
    )
    assert git(person.top, "ls-tree", branch(sandbox), "new/one").startswith("100755")
    assert person.belongings() == before


async def test_the_agent_s_own_commits_are_kept(person: Person, sandbox: Sandbox) -> None:
    write(sandbox.folder / "kept", "once\n")
    first = commit(sandbox, "once", "kept")
    write(sandbox.folder / "kept", "twice\n")
    second = commit(sandbox, "twice", "kept")
    settled = await settle(sandbox, permits(), "Work")
    assert settled == Settled(second, ())
    write(sandbox.folder / "kept", "and more\n")
    settled = await settle(sandbox, permits(), "Work")
    assert person.log(f"main..{branch(sandbox)}") == ["Work", "twice", "once"]
    assert has(person.top, first)


async def test_settling_again_and_after_more_work_only_adds(person: Person, sandbox: Sandbox) -> None:
    write(sandbox.folder / "one", "1\n")
    one = await settle(sandbox, permits(), "One")
    assert await settle(sandbox, permits(), "Nothing") == one
    write(sandbox.folder / "two", "2\n")
    commit(sandbox, "the agent's", "two")
    two = await settle(sandbox, permits(), "Two")
    assert one.tip is not None
    assert two.tip is not None
    git(person.top, "merge-base", "--is-ancestor", one.tip, two.tip)
    assert person.changed(f"main..{two.tip}") == ["A one", "A two"]
    # even if the agent rewrites what was settled, and pushed perhaps
    git(sandbox.folder, "reset", "-q", "--soft", sandbox.base)
    write(sandbox.folder / "three", "3\n")
    commit(sandbox, "all in one", "one", "two", "three")
    three = await settle(sandbox, permits(), "Three")
    assert three.tip is not None
    git(person.top, "merge-base", "--is-ancestor", two.tip, three.tip)
    assert person.changed(f"main..{three.tip}") == ["A one", "A three", "A two"]


async def test_what_must_not_come_home_stays_in_the_tree_and_is_told(person: Person, sandbox: Sandbox) -> None:
    write(sandbox.folder / "folder" / "file", "allowed\n")
    write(sandbox.folder / "kept", "not allowed\n")
    write(sandbox.folder / ".cuggino.json", "{}")
    write(sandbox.folder / ".specs" / "app.md", "be evil\n")
    write(sandbox.folder / ".specs" / "mine.md", "new\n")
    write(sandbox.folder / ".env", "PASSWORD=mine\n")
    settled = await settle(sandbox, permits("folder/**", ".cuggino.json"), "Work")
    assert settled.left_out == (".cuggino.json", ".env", ".specs/app.md", ".specs/mine.md", "kept")
    assert person.changed(f"main..{branch(sandbox)}") == ["M folder/file"]
    assert (sandbox.folder / "kept").read_text() == "not allowed\n"
    assert (sandbox.folder / ".specs" / "app.md").read_text() == "be evil\n"


@pytest.mark.parametrize("taken_back", [False, True])
async def test_nor_does_it_when_the_agent_has_committed_it(person: Person, sandbox: Sandbox, taken_back: bool) -> None:
    """Not even in the history, where a push would take it along."""
    write(sandbox.folder / ".specs" / "app.md", "be evil\n")
    write(sandbox.folder / ".env", "PASSWORD=swordfish\n")
    write(sandbox.folder / "kept", "work\n")
    git(sandbox.folder, "update-index", "--no-skip-worktree", ".specs/app.md")
    git(sandbox.folder, "add", "--force", ".env", ".specs/app.md", "kept")
    git(sandbox.folder, "commit", "-qm", "everything")
    evil = git(sandbox.folder, "rev-parse", "HEAD").strip()
    if taken_back:
        git(sandbox.folder, "rm", "-q", "--cached", ".env")
        write(sandbox.folder / ".specs" / "app.md", "be better\n")
        git(sandbox.folder, "checkout", sandbox.base, "--", ".specs")
        write(sandbox.folder / ".specs" / "app.md", "be better\n")
        git(sandbox.folder, "commit", "-qm", "taken back")
    settled = await settle(sandbox, permits(), "Work")
    assert settled.left_out == (() if taken_back else (".specs/app.md",))
    assert person.log(f"main..{branch(sandbox)}") == ["Work"]
    assert person.changed(f"main..{branch(sandbox)}") == ["M kept"]
    assert evil not in git(person.top, "rev-list", "--all")
    assert (sandbox.folder / ".env").exists()


async def test_only_what_must_not_come_home(person: Person, sandbox: Sandbox) -> None:
    write(sandbox.folder / "kept", "not allowed\n")
    commit(sandbox, "not allowed", "kept")
    assert await settle(sandbox, permits("folder/**"), "Work") == Settled(None, ("kept",))
    assert git(person.top, "rev-parse", branch(sandbox)).strip() == sandbox.base
    assert (sandbox.folder / "kept").read_text() == "not allowed\n"


async def test_paths_are_judged_from_the_project_s_root(tmp_path: Path) -> None:
    person = Person(tmp_path / "all", "part")
    write(person.root / ".cuggino.json", "{}")
    write(person.top / "beside", "of others\n")
    git(person.top, "add", ".")
    git(person.top, "commit", "-qm", "second")
    sandbox = await provision(person.project, person.config())
    write(sandbox.root / "kept", "changed\n")
    write(sandbox.root / "folder" / "file", "changed\n")
    write(sandbox.root / ".specs" / "app.md", "changed\n")
    write(sandbox.folder / "beside", "changed\n")
    settled = await settle(sandbox, permits("kept"), "Work")
    assert settled.left_out == ("beside", "part/.specs/app.md", "part/folder/file")
    assert person.changed(f"main..{branch(sandbox)}") == ["M part/kept"]


async def test_an_agent_that_leaves_the_branch(person: Person, sandbox: Sandbox) -> None:
    git(sandbox.folder, "checkout", "-qb", "elsewhere")
    write(sandbox.folder / "kept", "there\n")
    tip = commit(sandbox, "there", "kept")
    assert (await settle(sandbox, permits(), "Work")).tip == tip
    assert git(person.top, "rev-parse", branch(sandbox)).strip() == tip


async def test_an_agent_that_starts_over(person: Person, sandbox: Sandbox) -> None:
    """History that does not come from the base is replaced by one commit on the base."""
    git(sandbox.folder, "checkout", "-q", "--orphan", "over")
    write(sandbox.folder / "kept", "over\n")
    git(sandbox.folder, "commit", "-qam", "over")
    await settle(sandbox, permits(), "Work")
    assert person.log(branch(sandbox)) == ["Work", "first"]
    assert person.changed(f"main..{branch(sandbox)}") == ["M kept"]


async def test_an_agent_in_the_middle_of_a_merge(person: Person, sandbox: Sandbox) -> None:
    for name in ("ours", "theirs"):
        git(sandbox.folder, "checkout", "-qb", name, sandbox.base)
        write(sandbox.folder / "kept", f"{name}\n")
        commit(sandbox, name, "kept")
    with pytest.raises(AssertionError):
        git(sandbox.folder, "merge", "ours")
    await settle(sandbox, permits(), "Work")
    assert person.log(branch(sandbox)) == ["Work", "theirs", "first"]
    assert "<<<<<<<" in git(person.top, "show", f"{branch(sandbox)}:kept")


async def test_what_was_staged_by_force_is_committed(person: Person, sandbox: Sandbox) -> None:
    write(sandbox.folder / "build" / "result", "wanted\n")
    write(sandbox.folder / "build" / "rest", "not wanted\n")
    git(sandbox.folder, "add", "--force", "build/result")
    await settle(sandbox, permits(), "Work")
    assert person.changed(f"main..{branch(sandbox)}") == ["A build/result"]


async def test_a_detached_sandbox(person: Person) -> None:
    sandbox = await provision(person.project, person.config(), detached=True)
    write(sandbox.folder / "kept", "fixed\n")
    settled = await settle(sandbox, permits(), "Fix")
    assert settled.tip == git(sandbox.folder, "rev-parse", "HEAD").strip()
    assert git(sandbox.folder, "status", "--short") == ""
    assert person.branches == ["main"]


async def test_a_detached_clone(person: Person) -> None:
    sandbox = await provision(person.project, person.config(launcher=LAUNCHER), detached=True)
    write(sandbox.folder / "kept", "fixed\n")
    tip = commit(sandbox, "fixed", "kept")
    assert await settle(sandbox, permits(), "Fix") == Settled(tip, ())
    assert has(person.top, tip)


async def test_strange_names(person: Person, sandbox: Sandbox) -> None:
    names = [b"new\nline", b"\xff\xfe no text", "日本 ü".encode(), b":(exclude)kept", b"*", b"-n", b" ", b'"quoted"']
    for name in names:
        (sandbox.folder / os.fsdecode(name)).write_text("x")
    settled = await settle(sandbox, permits(), "Work")
    assert settled.left_out == ()
    assert len(person.changed(f"main..{branch(sandbox)}")) == len(names)


async def test_files_in_the_place_of_folders_and_the_other_way_round(person: Person, sandbox: Sandbox) -> None:
    shutil.rmtree(sandbox.folder / "folder")
    write(sandbox.folder / "folder", "a file now\n")
    (sandbox.folder / "kept").unlink()
    write(sandbox.folder / "kept" / "deep", "a folder now\n")
    assert (await settle(sandbox, permits(), "Work")).left_out == ()
    expected = ["A folder", "A kept/deep", "D folder/file", "D kept"]
    assert person.changed(f"main..{branch(sandbox)}") == expected


async def test_nor_where_what_they_replace_must_stay(person: Person, sandbox: Sandbox) -> None:
    shutil.rmtree(sandbox.folder / "folder")
    write(sandbox.folder / "folder", "a file now\n")
    write(sandbox.folder / "kept", "work\n")
    settled = await settle(sandbox, permits("folder", "kept"), "Work")
    assert settled.left_out == ("folder", "folder/file")
    assert person.changed(f"main..{branch(sandbox)}") == ["M kept"]


# ---- tricks -----------------------------------------------------------------------------------


async def test_a_folder_that_became_a_link_lets_nothing_in(person: Person, sandbox: Sandbox, tmp_path: Path) -> None:
    write(tmp_path / "outside" / "file", "a secret\n")
    write(tmp_path / "outside" / "other", "a secret\n")
    shutil.rmtree(sandbox.folder / "folder")
    (sandbox.folder / "folder").symlink_to(tmp_path / "outside")
    await settle(sandbox, permits(), "Work")
    assert person.changed(f"main..{branch(sandbox)}") == ["A folder", "D folder/file"]
    assert git(person.top, "ls-tree", branch(sandbox), "folder").startswith("120000")
    shutil.rmtree(sandbox.folder / ".specs")
    (sandbox.folder / ".specs").symlink_to(tmp_path / "outside")
    settled = await settle(sandbox, permits(), "Work")
    assert ".specs" in settled.left_out


def _trap(sandbox: Sandbox, folder: Path) -> Path:
    """A program that leaves a trace, and settings of the sandbox's own repository that would run it."""
    trace = folder / "trace"
    program = write(folder / "trap", f"#!/bin/sh\necho \"$0 $*\" >> '{trace}'\ncat\n")
    program.chmod(0o755)
    return program


def _settings(program: Path) -> list[tuple[str, str]]:
    keys = (
        "core.fsmonitor",
        "core.hooksPath",
        "core.sshCommand",
        "core.pager",
        "core.editor",
        "core.alternateRefsCommand",
    )
    more = ("diff.external", "diff.x.textconv", "filter.x.clean", "filter.x.smudge", "filter.x.process", "gpg.program")
    last = ("uploadpack.packObjectsHook", "merge.x.driver", "credential.helper", "sequence.editor", "core.gitProxy")
    program_or_folder = {"core.hooksPath": str(program.parent)}
    return [(key, program_or_folder.get(key, str(program))) for key in (*keys, *more, *last)]


async def test_nothing_that_the_agent_has_set_up_in_its_clone_runs_outside(person: Person, tmp_path: Path) -> None:
    """Hooks, filters, and every setting that is a command, in the clone, in its submodule, in a nested repository."""
    from cuggino.sandbox.removal import remove, uncommitted

    library = Person(tmp_path / "library")
    git(person.top, "-c", "protocol.file.allow=always", "submodule", "add", "-q", str(library.top), "library")
    git(person.top, "commit", "-qm", "with a submodule")
    sandbox = await provision(person.project, person.config(launcher=LAUNCHER))
    program = _trap(sandbox, tmp_path)
    nested = sandbox.folder / "nested"
    nested.mkdir()
    git(nested, "init", "-q")
    for place in (sandbox.folder, sandbox.folder / "library", nested):
        write(place / "kept", "work\n")
        commit_there = ("-c", "user.name=Agent", "-c", "user.email=agent@example.org", "commit", "-qam", "the agent's")
        if place == sandbox.folder:
            git(place, *commit_there)
        # of the same length as what is committed: only by its content git knows that it is another
        write(place / "kept", "WORK\n" if place == sandbox.folder else "AS IT WAS\n")
        write(place / ".gitattributes", "* filter=x diff=x merge=x\n")
        for key, value in _settings(program):
            git(place, "config", key, value)
        for hook in ("pre-commit", "post-commit", "reference-transaction", "post-index-change", "post-checkout"):
            write(place / ".git" / "hooks" / hook, program.read_text()).chmod(0o755)
    write(sandbox.folder / "new", "new\n")
    git(sandbox.folder, "-c", "core.fsmonitor=false", "config", "commit.gpgSign", "true")
    (tmp_path / "trace").unlink(missing_ok=True)
    settled = await settle(sandbox, permits(), "Work")
    assert settled.left_out == ("library", "nested/")
    assert person.changed(f"main..{branch(sandbox)}") == ["A .gitattributes", "A new", "M kept"]
    assert person.log(f"main..{branch(sandbox)}") == ["Work", "the agent's"]
    assert await uncommitted(sandbox) == ["library", "nested/"]
    with pytest.raises(SandboxError, match="not committed: library, nested/"):
        await remove(person.project, sandbox, force=False)
    await remove(person.project, sandbox, force=True)
    assert not (tmp_path / "trace").exists(), (tmp_path / "trace").read_text()


async def test_a_git_folder_in_the_place_of_the_worktree_s_file_is_not_believed(person: Person, tmp_path: Path) -> None:
    sandbox = await provision(person.project, person.config())
    program = _trap(sandbox, tmp_path)
    (sandbox.folder / ".git").unlink()
    git(sandbox.folder, "init", "-q")
    for key, value in _settings(program):
        git(sandbox.folder, "config", key, value)
    write(sandbox.folder / ".gitattributes", "* filter=x\n")
    write(sandbox.folder / "kept", "work\n")
    settled = await settle(sandbox, permits(), "Work")
    assert settled.tip is not None
    assert person.log(branch(sandbox)) == ["Work", "first"]
    assert not (tmp_path / "trace").exists()


async def test_a_clone_without_a_repository_has_a_tree_still(person: Person) -> None:
    for damage in ("gone", "a link", "no objects", "alternates", "a wrong head"):
        sandbox = await provision(person.project, person.config(launcher=LAUNCHER))
        write(sandbox.folder / "kept", f"{damage}\n")
        commit(sandbox, "the agent's", "kept")
        repository = sandbox.folder / ".git"
        if damage == "gone":
            shutil.rmtree(repository)
        elif damage == "a link":
            moved = sandbox.folder.parent / f"{sandbox.id}.git"
            repository.rename(moved)
            repository.symlink_to(moved)
        elif damage == "no objects":
            shutil.rmtree(repository / "objects")
        elif damage == "alternates":
            write(repository / "objects" / "info" / "alternates", "/nowhere\n")
        else:
            write(repository / "HEAD", "ref: refs/heads/../../../../etc/passwd\n")
        settled = await settle(sandbox, permits(), "Work")
        assert settled.tip is not None, damage
        assert person.log(branch(sandbox)) == ["Work", "first"], damage
        assert git(person.top, "show", f"{branch(sandbox)}:kept") == f"{damage}\n"


async def test_objects_that_are_not_what_their_names_say_do_not_come_in(person: Person) -> None:
    sandbox = await provision(person.project, person.config(launcher=LAUNCHER))
    write(sandbox.folder / "kept", "good\n")
    tip = commit(sandbox, "the agent's", "kept")
    good = git(sandbox.folder, "rev-parse", "HEAD:kept").strip()
    write(sandbox.folder / "kept", "evil\n")
    evil = git(sandbox.folder, "hash-object", "-w", "kept").strip()
    objects = sandbox.folder / ".git" / "objects"
    false = objects / good[:2] / good[2:]
    false.chmod(stat.S_IRWXU)
    shutil.copyfile(objects / evil[:2] / evil[2:], false)
    settled = await settle(sandbox, permits(), "Work")
    assert settled.tip != tip
    assert git(person.top, "show", f"{branch(sandbox)}:kept") == "evil\n"
    assert person.log(branch(sandbox)) == ["Work", "first"]


async def test_replaced_commits_do_not_hide_anything(person: Person) -> None:
    sandbox = await provision(person.project, person.config())
    write(sandbox.folder / ".cuggino.json", "{}")
    write(sandbox.folder / "kept", "work\n")
    evil = commit(sandbox, "evil")
    git(sandbox.folder, "reset", "-q", "--hard", sandbox.base)
    write(sandbox.folder / "kept", "work\n")
    good = commit(sandbox, "good", "kept")
    git(sandbox.folder, "reset", "-q", "--hard", evil)
    git(sandbox.folder, "replace", evil, good)
    settled = await settle(sandbox, permits(), "Work")
    assert settled.left_out == (".cuggino.json",)
    assert person.log(f"main..{branch(sandbox)}") == ["Work"]


async def test_a_file_whose_filter_is_not_run_does_not_come_home_without_it(person: Person) -> None:
    """As with git-crypt: the plain text would be committed."""
    write(person.root / ".gitattributes", "*.key filter=crypt\n")
    git(person.top, "add", ".")
    git(person.top, "commit", "-qm", "attributes")
    for setting, value in (("clean", "encrypt"), ("smudge", "decrypt"), ("required", "true")):
        git(person.top, "config", f"filter.crypt.{setting}", value)
    sandbox = await provision(person.project, person.config())
    write(sandbox.folder / "new.key", "plain\n")
    write(sandbox.folder / "kept", "work\n")
    settled = await settle(sandbox, permits(), "Work")
    assert settled.left_out == ("new.key",)
    assert person.changed(f"main..{branch(sandbox)}") == ["M kept"]


async def test_large_files_are_stored_as_the_person_stores_them(
    person: Person, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """git-lfs is the one filter that runs, and only when it is that."""
    write(tmp_path / "bin" / "git-lfs", f"#!/bin/sh\ncat > {tmp_path}/stored\necho pointer\n").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    git(person.top, "config", "filter.lfs.clean", "git-lfs clean -- %f")
    git(person.top, "config", "filter.lfs.required", "true")
    for number, expected in enumerate(("pointer\n", "")):
        sandbox = await provision(person.project, person.config())
        write(sandbox.folder / ".gitattributes", "*.bin filter=lfs\n")
        write(sandbox.folder / "large.bin", "large\n")
        settled = await settle(sandbox, permits(), "Work")
        if expected:
            assert git(person.top, "show", f"{branch(sandbox)}:large.bin") == expected
        else:
            assert settled.left_out == ("large.bin",)
        git(person.top, "config", "filter.lfs.clean", f"git-lfs clean -- %f; touch {tmp_path}/trace{number}")
    assert (tmp_path / "stored").read_text() == "large\n"
    assert not list(tmp_path.glob("trace*"))


async def test_line_ends_are_as_the_repository_wants_them(person: Person) -> None:
    git(person.top, "config", "core.autocrlf", "true")
    sandbox = await provision(person.project, person.config(launcher=LAUNCHER))
    assert (sandbox.folder / "kept").read_bytes() == b"as it was\r\n"
    assert git(sandbox.folder, "status", "--short") == ""
    (sandbox.folder / "folder" / "file").write_bytes(b"in a folder\r\nmore\r\n")
    await settle(sandbox, permits(), "Work")
    assert person.changed(f"main..{branch(sandbox)}") == ["M folder/file"]
    assert git(person.top, "show", f"{branch(sandbox)}:folder/file") == "in a folder\nmore\n"


async def test_submodules(person: Person, tmp_path: Path) -> None:
    """A commit that the person's submodule has comes home; one that only the sandbox has cannot."""
    library = Person(tmp_path / "library")
    old = git(library.top, "rev-parse", "HEAD").strip()
    write(library.top / "kept", "newer\n")
    git(library.top, "commit", "-qam", "newer")
    git(person.top, "-c", "protocol.file.allow=always", "submodule", "add", "-q", str(library.top), "library")
    git(person.top, "commit", "-qm", "with a submodule")
    for launcher in ((), LAUNCHER):
        sandbox = await provision(person.project, person.config(launcher=launcher))
        inner = sandbox.folder / "library"
        write(inner / "untracked", "")
        assert await settle(sandbox, permits(), "Work") == Settled(None, ("library",))
        (inner / "untracked").unlink()
        git(inner, "checkout", "-q", old)
        assert (await settle(sandbox, permits(), "Work")).left_out == ()
        assert person.changed(f"main..{branch(sandbox)}") == ["M library"]
        write(inner / "kept", "the agent's\n")
        git(inner, "commit", "-qam", "the agent's")
        known = git(person.top, "rev-parse", branch(sandbox)).strip()
        assert await settle(sandbox, permits(), "Work") == Settled(known, ("library",))


async def test_without_a_sandbox_there_is_nothing_to_settle(person: Person) -> None:
    sandbox = await provision(person.project, person.config())
    shutil.rmtree(sandbox.folder)
    with pytest.raises(SandboxError, match="no longer exists"):
        await settle(sandbox, permits(), "Work")


async def test_a_person_without_a_name(person: Person, monkeypatch: pytest.MonkeyPatch) -> None:
    sandbox = await provision(person.project, person.config())
    Path(os.environ["HOME"], ".gitconfig").write_text("[user]\nuseConfigOnly = true\n")
    write(sandbox.folder / "kept", "work\n")
    await settle(sandbox, permits(), " \n")
    assert git(person.top, "log", "-1", "--format=%an %ae %s", branch(sandbox)).strip() == (
        "cuggino cuggino@localhost Work done with cuggino"
    )
