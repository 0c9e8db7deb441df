"""Real git and real hooks, in a new repository for each test."""

from __future__ import annotations

import hashlib
import os
import subprocess
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
import trio

from cuggino.errors import GitError
from cuggino.git import DEFAULT_MESSAGE, Git
from cuggino.process.children import Children

OURS = [Path(".specs"), Path(".cuggino")]


@pytest.fixture(autouse=True)
def _no_personal_configuration(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith(("GIT_", "EMAIL"))]:
        monkeypatch.delenv(name)
    person = ("[user]", "name = Ada", "email = ada@example.org")
    habits = ("[init]", "defaultBranch = main", "[commit]", "cleanup = strip", "[i18n]", "commitEncoding = latin1")
    (tmp_path / "gitconfig").write_text("\n".join((*person, *habits, "")))
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(tmp_path / "gitconfig"))
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")
    monkeypatch.setenv("HOME", str(tmp_path))


def git(root: Path, *arguments: str | bytes) -> str:
    done = subprocess.run(["git", *arguments], cwd=root, capture_output=True, check=True)
    return done.stdout.decode(errors="surrogateescape")


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A repository with one commit, uncommitted specs and an ignored state folder."""
    root = tmp_path / "project"
    root.mkdir()
    git(root, "init")
    write(root / "kept", "as it was\n")
    git(root, "add", "kept")
    git(root, "commit", "-m", "first")
    write(root / ".specs" / "overview.md", "be good\n")
    write(root / ".cuggino" / ".gitignore", "/*\n")
    write(root / ".cuggino" / "wip" / "plan.md", "a plan\n")
    return root


def at(root: Path, children: Children | None = None) -> Git:
    return Git(root, children, root / ".cuggino" / "wip")


def scratch(root: Path) -> list[str]:
    return [path.name for path in (root / ".cuggino" / "wip").iterdir()]


def hook(root: Path, name: str, script: str) -> None:
    write(root / ".git" / "hooks" / name, f"#!/bin/sh\n{script}\n").chmod(0o755)


def alive(pid: str) -> bool:
    return Path("/proc", pid.strip()).exists()


def committed(root: Path) -> set[str]:
    """The changes of the last commit: status and name."""
    listed = git(root, "show", "--format=", "--name-status", "--no-renames", "-z", "HEAD").split("\0")[:-1]
    return {f"{status} {name}" for status, name in zip(listed[::2], listed[1::2], strict=True)}


def contents(root: Path) -> dict[str, str]:
    """Every file of `.git`, with a hash of its content."""
    files = (path for path in (root / ".git").rglob("*") if path.is_file())
    return {str(path): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


# ---- reading ----------------------------------------------------------------------------------


async def test_head_is_the_full_hash(root: Path) -> None:
    assert await at(root).head() == git(root, "rev-parse", "HEAD").strip()
    git(root, "checkout", "--detach")
    assert await at(root).head() == git(root, "rev-parse", "HEAD").strip()


async def test_a_repository_without_commits_has_no_head(tmp_path: Path) -> None:
    git(tmp_path, "init")
    assert await at(tmp_path).head() is None
    assert await at(tmp_path).is_repository()


async def test_a_folder_without_a_repository(tmp_path: Path) -> None:
    assert not await at(tmp_path).is_repository()
    assert not await at(tmp_path).is_dirty([])
    assert await at(tmp_path).head() is None
    with pytest.raises(GitError, match="not a git repository"):
        await at(tmp_path).commit("x", exclude=OURS)


async def test_without_git_everything_except_for_a_commit_works(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(root))
    assert not await at(root).is_repository()
    assert await at(root).head() is None
    assert await at(root).tree_fingerprint(OURS)
    with pytest.raises(GitError, match="git is not installed") as caught:
        await at(root).commit("x", exclude=OURS)
    assert "Install it" in caught.value.advice


async def test_a_missing_root_is_not_reported_as_a_missing_git(root: Path) -> None:
    with pytest.raises(GitError, match="no longer exists"):
        await Git(root / "gone", None, root / ".cuggino" / "wip").commit("x", exclude=OURS)


async def test_dirty_is_what_a_commit_would_include(root: Path) -> None:
    assert not await at(root).is_dirty(OURS)
    assert await at(root).is_dirty([])
    write(root / "new", "")
    assert await at(root).is_dirty(OURS)


async def test_the_environment_of_another_repositorys_hook_is_ignored(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = tmp_path / "other"
    other.mkdir()
    git(other, "init")
    monkeypatch.setenv("GIT_DIR", str(other / ".git"))
    monkeypatch.setenv("GIT_INDEX_FILE", str(other / "index"))
    monkeypatch.setenv("GIT_LITERAL_PATHSPECS", "1")
    write(root / "new", "")
    assert await at(root).commit("x", exclude=OURS)
    monkeypatch.undo()
    assert git(other, "rev-list", "--all") == ""


# ---- committing -------------------------------------------------------------------------------


@pytest.mark.parametrize("watched", [False, True], ids=["without children", "with children"])
async def test_new_changed_deleted_and_renamed_files_are_committed(root: Path, watched: bool) -> None:
    for name in ("changed", "deleted", "before"):
        write(root / name, f"{name}\n")
    git(root, "add", "changed", "deleted", "before")
    git(root, "commit", "-m", "second")
    write(root / "changed", "changed!\n")
    (root / "deleted").unlink()
    (root / "before").rename(root / "after")
    write(root / "new" / "file", "")
    children = Children(marker="test-git") if watched else None

    commit = await at(root, children).commit("All of it", exclude=OURS)

    assert commit == git(root, "rev-parse", "HEAD").strip()
    assert committed(root) == {"M changed", "D deleted", "D before", "A after", "A new/file"}
    assert git(root, "status", "--porcelain") == "?? .specs/\n"
    assert scratch(root) == ["plan.md"]


async def test_without_changes_nothing_is_committed(root: Path) -> None:
    before = contents(root)
    assert await at(root).commit("x", exclude=OURS) is None
    assert contents(root).keys() == before.keys()


async def test_staged_specs_stay_staged_and_are_not_committed(root: Path) -> None:
    git(root, "add", ".specs")
    assert await at(root).commit("x", exclude=OURS) is None
    write(root / "new", "")
    assert await at(root).commit("x", exclude=OURS)
    assert committed(root) == {"A new"}
    assert git(root, "status", "--porcelain") == "A  .specs/overview.md\n"


async def test_changed_and_deleted_specs_are_not_committed(root: Path) -> None:
    write(root / ".specs" / "gone.md", "")
    git(root, "add", ".specs")
    git(root, "commit", "-m", "specs")
    write(root / ".specs" / "overview.md", "be better\n")
    (root / ".specs" / "gone.md").unlink()
    write(root / "new", "")
    assert await at(root).commit("x", exclude=OURS)
    assert committed(root) == {"A new"}
    assert git(root, "status", "--porcelain") == " D .specs/gone.md\n M .specs/overview.md\n"


async def test_the_target_of_a_linked_specs_folder_is_left_out(root: Path) -> None:
    (root / "docs").mkdir()
    (root / ".specs").rename(root / "docs" / "specs")
    (root / ".specs").symlink_to("docs/specs")
    write(root / "docs" / "guide.md", "")
    assert await at(root).commit("x", exclude=OURS)
    assert committed(root) == {"A docs/guide.md"}


@pytest.mark.parametrize(
    "specs", ["a b", "*", "[x]", "sp?c\\s", "-x", ":(top)", "spécs", "é", "!x", "^", "]", "a/b/c", "'\"\n"]
)
async def test_a_specs_folder_may_have_any_name(root: Path, specs: str) -> None:
    write(root / specs / "deep" / "spec.md", "")
    write(root / "x" / "b" / "code", "")
    write(root / "a" / "code", "")
    assert await at(root).commit("x", exclude=[root / specs, Path(".specs"), Path(".cuggino")])
    assert committed(root) == {"A x/b/code", "A a/code"}


@pytest.mark.parametrize("ignored", ["/.cuggino", ".cuggino/\n.specs/", ".*"])
async def test_excluded_folders_may_be_ignored(root: Path, ignored: str) -> None:
    """`git add` refuses the plain name of an ignored file, even as an exclusion."""
    write(root / ".git" / "info" / "exclude", f"{ignored}\n")
    write(root / "new", "")
    assert await at(root).commit("x", exclude=OURS)
    assert committed(root) == {"A new"}


async def test_excluded_folders_may_be_missing_or_elsewhere(root: Path, tmp_path: Path) -> None:
    write(root / "new", "")
    assert await at(root).commit("x", exclude=[Path("none"), tmp_path / "specs", Path("../specs"), Path(".specs")])
    assert committed(root) == {"A new"}


@pytest.mark.parametrize("name", [b"line\nfeed", b'"quotes"', b"not \xff utf-8", b"-dash", b":(top)", b" ", b"*"])
async def test_files_may_have_any_name(root: Path, name: bytes) -> None:
    write(root / os.fsdecode(name), "x")
    assert await at(root).commit("x", exclude=OURS)
    assert committed(root) == {f"A {name.decode(errors='surrogateescape')}"}


@pytest.mark.parametrize(
    ("message", "committed_message"),
    [
        ("Short", "Short"),
        ("--amend", "--amend"),
        ("-", "-"),
        ("# a heading\n\n#1 is kept\n", "# a heading\n\n#1 is kept"),
        ("", DEFAULT_MESSAGE),
        (" \n\t \u00a0\n", DEFAULT_MESSAGE),
        ("\0", DEFAULT_MESSAGE),
        ("with\0 NUL", "with NUL"),
        ("Größe 🦊 \u202e", "Größe 🦊 \u202e"),
        ("half \ud83e a fox", "half \\ud83e a fox"),
        ("Signed-off-by: only", "Signed-off-by: only"),
        ("x" * 1_000_000, "x" * 1_000_000),
    ],
    ids=lambda value: value[:12].encode("ascii", "backslashreplace").decode(),
)
async def test_a_message_may_be_anything(root: Path, message: str, committed_message: str) -> None:
    write(root / "new", "")
    assert await at(root, Children(marker="test-git")).commit(message, exclude=OURS)
    assert git(root, "show", "--format=%B", "--no-patch").strip("\n") == committed_message


async def test_the_error_of_a_failing_hook_has_its_output(root: Path) -> None:
    hook(root, "pre-commit", "echo on stdout; echo no tabs, please >&2; exit 1")
    write(root / "new", "")
    for children in (None, Children(marker="test-git")):
        with trio.fail_after(30), pytest.raises(GitError, match=r"on stdout\nno tabs, please"):
            await at(root, children).commit("x", exclude=OURS)
    assert git(root, "log", "--format=%s") == "first\n"
    assert scratch(root) == ["plan.md"]


async def test_the_error_of_a_verbose_hook_has_the_end_of_its_output(root: Path) -> None:
    hook(root, "pre-commit", "seq 100000; echo the reason; exit 1")
    write(root / "new", "")
    with trio.fail_after(30), pytest.raises(GitError, match=r"the reason$") as caught:
        await at(root, Children(marker="test-git")).commit("x", exclude=OURS)
    assert len(caught.value.message) < 10_000


async def test_processes_that_a_hook_leaves_end_with_the_commit(root: Path) -> None:
    hook(root, "post-commit", "setsid sleep 300 </dev/null >/dev/null 2>&1 & echo $! > .git/pid")
    write(root / "new", "")
    with trio.fail_after(30):
        assert await at(root, Children(marker="test-git")).commit("x", exclude=OURS)
    assert not alive((root / ".git" / "pid").read_text())


async def test_a_cancelled_commit_leaves_no_hook_and_no_file(root: Path) -> None:
    hook(root, "pre-commit", "trap '' INT; echo $$ > .git/started; sleep 300")
    os.mkfifo(root / ".git" / "started")
    write(root / "new", "")
    children = Children(marker="test-git", grace=0.1)
    with trio.fail_after(30):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(lambda: at(root, children).commit("x", exclude=OURS))
            pid = await trio.to_thread.run_sync((root / ".git" / "started").read_text, abandon_on_cancel=True)
            assert alive(pid)
            nursery.cancel_scope.cancel()
    assert not alive(pid)
    assert scratch(root) == ["plan.md"]


async def test_the_first_commit_of_a_repository(tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    git(empty, "init")
    assert await at(empty).commit("x", exclude=OURS) is None
    write(empty / ".specs" / "s", "")
    git(empty, "add", ".specs")
    write(empty / "new", "")
    assert await at(empty).commit("x", exclude=OURS) == git(empty, "rev-parse", "HEAD").strip()
    assert committed(empty) == {"A new"}
    assert git(empty, "status", "--porcelain") == "A  .specs/s\n"


async def test_a_detached_head_moves(root: Path) -> None:
    git(root, "checkout", "--detach")
    write(root / "new", "")
    commit = await at(root).commit("x", exclude=OURS)
    assert commit == git(root, "rev-parse", "HEAD").strip() != git(root, "rev-parse", "main").strip()


async def test_a_nested_repository_is_committed_as_a_link_to_its_commit(root: Path) -> None:
    inner = root / "inner"
    inner.mkdir()
    git(inner, "init")
    write(inner / "file", "")
    git(inner, "add", ".")
    git(inner, "commit", "-m", "inner")
    assert await at(root).commit("x", exclude=OURS)
    assert committed(root) == {"A inner"}


async def test_in_a_subfolder_changes_outside_are_not_committed(root: Path) -> None:
    project = root / "packages" / "one"
    write(project / "new", "")
    write(project / ".specs" / "spec.md", "")
    write(project / ".cuggino" / "wip" / "plan.md", "")
    write(root / "outside", "")
    write(root / "kept", "staged elsewhere\n")
    git(root, "add", "kept")
    assert await at(project).is_dirty(OURS)
    assert await at(project).commit("x", exclude=OURS)
    assert committed(root) == {"A packages/one/new"}
    assert git(root, "status", "--porcelain", "kept", "outside") == "M  kept\n?? outside\n"
    assert not await at(project).is_dirty(OURS)


def _start_merge(root: Path, *, conflict: bool) -> None:
    git(root, "checkout", "-b", "side")
    write(root / ("kept" if conflict else "theirs"), "theirs\n")
    git(root, "add", "--all", "--", ".", ":!.specs")
    git(root, "commit", "-m", "theirs")
    git(root, "checkout", "main")
    write(root / "kept", "ours\n")
    git(root, "commit", "--all", "-m", "ours")
    subprocess.run(["git", "merge", "--no-commit", "side"], cwd=root, capture_output=True, check=False)


@pytest.mark.parametrize(
    ("prepare", "message"),
    [
        (lambda root: write(root.parent / "gitconfig", "[user]\nuseConfigOnly = true\n"), r"user\.email"),
        (lambda root: write(root / ".git" / "index.lock", ""), r"index\.lock"),
        (lambda root: git(root, "init", "inner"), "'inner/' does not have a commit checked out"),
        (partial(_start_merge, conflict=False), "cannot do a partial commit during a merge"),
    ],
    ids=["no identity", "a locked index", "a nested repository without a commit", "an unfinished merge"],
)
async def test_a_refused_commit_has_gits_own_message(
    root: Path, prepare: Callable[[Path], object], message: str
) -> None:
    write(root / "new", "")
    prepare(root)
    with pytest.raises(GitError, match=message):
        await at(root).commit("x", exclude=OURS)


async def test_a_conflict_is_not_marked_as_resolved(root: Path) -> None:
    _start_merge(root, conflict=True)
    with pytest.raises(GitError, match="unmerged files: kept"):
        await at(root).commit("x", exclude=OURS)
    assert git(root, "status", "--porcelain", "kept") == "UU kept\n"


# ---- fingerprints -----------------------------------------------------------------------------


async def test_a_fingerprint_shows_every_change_of_files_that_are_not_ignored(root: Path) -> None:
    write(root / ".gitignore", "*.pyc\n")
    steps: list[Callable[[], object]] = [
        lambda: write(root / "kept", "as it is\n"),
        lambda: write(root / "new", "1"),
        lambda: write(root / "new", "2"),
        lambda: (root / "new").chmod(0o755),
        lambda: (root / "new").rename(root / "newer"),
        lambda: (root / "link").symlink_to("newer"),
        lambda: (root / "kept").unlink(),
    ]
    seen = [await at(root).tree_fingerprint(OURS)]
    for step in steps:
        step()
        seen.append(await at(root).tree_fingerprint(OURS))
    assert len(set(seen)) == len(steps) + 1

    write(root / "x.pyc", "")
    write(root / ".specs" / "overview.md", "changed")
    write(root / ".cuggino" / "wip" / "plan.md", "changed")
    assert await at(root).tree_fingerprint(OURS) == seen[-1]


async def test_a_fingerprint_does_not_depend_on_staging_and_commits(root: Path) -> None:
    write(root / "new", "1")
    before = await at(root).tree_fingerprint(OURS)
    git(root, "add", "new")
    assert await at(root).tree_fingerprint(OURS) == before
    git(root, "commit", "-m", "by an agent")
    assert await at(root).tree_fingerprint(OURS) == before
    git(root, "add", ".specs")
    assert await at(root).tree_fingerprint(OURS) == before
    git(root, "rm", "--cached", "kept")
    assert await at(root).tree_fingerprint(OURS) == before


async def test_reading_leaves_the_repository_unchanged(root: Path) -> None:
    os.utime(root / "kept", ns=(1, 1))  # the same content, which git would record in the index
    write(root / "new", "new")
    before = contents(root)
    await at(root).tree_fingerprint(OURS)
    await at(root).is_dirty(OURS)
    assert contents(root) == before
    assert scratch(root) == ["plan.md"]


async def test_a_change_within_the_clock_tick_of_the_index_is_noticed(root: Path) -> None:
    """Same size, same times: git compares the content if the file is not older than the index."""
    git(root, "config", "core.trustctime", "false")
    tick = 1_700_000_000_000_000_000
    os.utime(root / "kept", ns=(tick, tick))
    git(root, "add", "kept")
    os.utime(root / ".git" / "index", ns=(tick, tick))
    before = await at(root).tree_fingerprint(OURS)
    write(root / "kept", "as it be!\n")
    os.utime(root / "kept", ns=(tick, tick))
    assert await at(root).tree_fingerprint(OURS) != before


async def test_a_fingerprint_in_a_subfolder_covers_that_folder_only(root: Path) -> None:
    project = root / "packages" / "one"
    write(project / "new", "")
    before = await at(project).tree_fingerprint(OURS)
    write(root / "kept", "changed\n")
    git(root, "add", "kept")
    assert await at(project).tree_fingerprint(OURS) == before
    write(project / "new", "changed")
    assert await at(project).tree_fingerprint(OURS) != before


async def test_a_fingerprint_in_a_linked_worktree(root: Path, tmp_path: Path) -> None:
    linked = tmp_path / "linked"
    git(root, "worktree", "add", str(linked))
    before = await at(linked).tree_fingerprint(OURS)
    assert before == await at(root).tree_fingerprint(OURS)
    write(linked / "new", "")
    assert await at(linked).tree_fingerprint(OURS) != before


async def test_git_finds_committed_content_at_any_path(root: Path, tmp_path: Path) -> None:
    """A committed file with CRLF keeps them under `text=auto`: git reads the old content to decide."""
    (root / "kept").write_bytes(b"1\r\n")
    git(root, "commit", "--all", "-m", "second")
    write(root / ".gitattributes", "* text=auto\n")
    (root / "kept").write_bytes(b"1\r\n2\r\n")
    before = await at(root).tree_fingerprint(OURS)
    os.rename(root, moved := tmp_path / 'a:b "c" \\d')  # noqa: PTH104
    assert await at(moved).tree_fingerprint(OURS) == before


async def test_a_nested_repository_without_a_commit_does_not_hide_other_changes(root: Path) -> None:
    (root / "inner").mkdir()
    git(root / "inner", "init")
    before = await at(root).tree_fingerprint(OURS)
    write(root / "new", "")
    after = await at(root).tree_fingerprint(OURS)
    assert after != before
    write(root / ".git" / "info" / "exclude", "*.pyc\n")
    write(root / "x.pyc", "")
    assert await at(root).tree_fingerprint(OURS) == after


async def test_without_a_repository_the_fingerprint_covers_names_sizes_and_times(tmp_path: Path) -> None:
    root = tmp_path / "plain"
    write(root / "a" / "file", "1")
    write(root / ".specs" / "s", "")
    seen = [await at(root).tree_fingerprint(OURS)]
    assert await at(root).tree_fingerprint(OURS) == seen[0]
    for change in (
        lambda: write(root / "a" / "file", "12"),
        lambda: write(root / "b", ""),
        lambda: Path(os.fsdecode(bytes(root) + b"/\xff")).touch(),
        lambda: os.utime(root / "b", ns=(1, 1)),
        lambda: (root / "link").symlink_to("nowhere"),
        lambda: (root / "a" / "file").unlink(),
    ):
        change()
        seen.append(await at(root).tree_fingerprint(OURS))
    assert len(set(seen)) == 7
    write(root / ".specs" / "s", "changed")
    write(root / ".cuggino" / "wip" / "plan.md", "changed")
    assert await at(root).tree_fingerprint(OURS) == seen[-1]
