"""Merges in sandboxes, with real git: clean, small, repaired, undone; nothing else of a folder is touched."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path

import msgspec
import pytest

from cuggino.errors import GitError
from cuggino.events import ConflictsFound
from cuggino.integrate.checkout import PLACED, finish, undo
from cuggino.integrate.merge import NOTES, MergeContext, Merged, MergeRequest, RepairRequest, Unmerged, merge
from cuggino.integrate.trees import merge_trees
from cuggino.sandbox.sandbox import Sandbox
from tests.process.sandbox.merge_house import (
    PERMITS,
    Sent,
    commit,
    git,
    lines,
    new_repository,
    new_sandbox,
    nobodys_configuration,
    tip,
    tree,
    write,
)

_BASE: dict[str, str | bytes | None] = {
    "list": lines(),
    "other": lines(),
    "picture": b"\0one",
    "d/f": "a\n",
    "gone": "x\n",
    "sp äce\n": "x\n",
    "secret/kept": "as it was\n",
}


@pytest.fixture(autouse=True)
def _nobodys_configuration(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    nobodys_configuration(tmp_path, monkeypatch)


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    return new_repository(tmp_path / "a project", _BASE)


@pytest.fixture
def sandbox(repository: Path, tmp_path: Path) -> Sandbox:
    return new_sandbox(repository, tmp_path / "sand boxes")


Files = Mapping[str, str | bytes | None]


def diverge(sandbox: Sandbox, base: Files, branch: Files) -> tuple[str, str]:
    """The base's and the branch's newest commits."""
    return commit(sandbox.repository, base, "in the base"), commit(sandbox.folder, branch, "on the branch")


def merge_request(
    sandbox: Sandbox,
    check: Callable[[Path], Awaitable[bool]] | None = None,
    repair: Callable[[RepairRequest], Awaitable[bool]] | None = None,
) -> MergeRequest:
    context = MergeContext(sandbox=sandbox, permits=PERMITS, check=check, repair=repair)
    return MergeRequest(context=context, message="Merge it")


class Checked:
    """A check command: it sees the files, and says what it was told to say."""

    def __init__(self, *says: bool) -> None:
        self.says = list(says)
        self.seen: list[dict[str, bytes | str]] = []

    async def __call__(self, root: Path) -> bool:
        self.seen.append(tree(root))
        return self.says.pop(0) if self.says else True


class Repairs:
    """An agent that writes these files, one set an attempt."""

    def __init__(self, *attempts: Files | bool) -> None:
        self.attempts = list(attempts)
        self.requests: list[RepairRequest] = []
        self.seen: list[dict[str, bytes | str]] = []

    async def __call__(self, request: RepairRequest) -> bool:
        self.requests.append(request)
        self.seen.append(tree(request.sandbox.root))
        attempt = self.attempts.pop(0)
        if isinstance(attempt, bool):
            return attempt
        write(request.sandbox.folder, attempt)
        return True


def at(sandbox: Sandbox, commit: str, path: str) -> str:
    return git(sandbox.repository, "cat-file", "blob", f"{commit}:{path}")


def untouched(sandbox: Sandbox, tip_before: str, files: dict[str, bytes | str]) -> None:
    assert tip(sandbox) == tip_before
    assert tree(sandbox.folder) == files
    assert git(sandbox.folder, "status", "--porcelain") == ""
    assert git(sandbox.folder, "for-each-ref", PLACED) == ""


async def test_a_clean_merge_is_checked_in_the_folder_before_the_branch_has_it(sandbox: Sandbox) -> None:
    base, ours = diverge(sandbox, {"other": lines(line_5="five")}, {"list": lines(line_9="nine")})
    check = Checked()
    sent = Sent()
    merged = await merge(merge_request(sandbox, check), base, ours, sent)
    assert isinstance(merged, Merged)
    assert merged.how == "clean"
    assert sent.events == []
    assert check.seen[0]["other"] == lines(line_5="five").encode()
    assert check.seen[0]["list"] == lines(line_9="nine").encode()
    assert tip(sandbox) == ours
    await finish(sandbox, merged.commit)
    assert tip(sandbox) == merged.commit
    assert git(sandbox.folder, "log", "-1", "--format=%P %an %s") == f"{base} {ours} Ada Merge it"
    assert git(sandbox.folder, "status", "--porcelain") == ""
    assert tree(sandbox.folder) == check.seen[0]


async def test_a_merge_onto_the_branch_has_the_branch_as_its_first_parent(sandbox: Sandbox) -> None:
    base, ours = diverge(sandbox, {"other": "other\n"}, {"list": "list\n"})
    merged = await merge(msgspec.structs.replace(merge_request(sandbox), onto_branch=True), base, ours, Sent())
    assert isinstance(merged, Merged)
    assert git(sandbox.repository, "log", "-1", "--format=%P", merged.commit) == f"{ours} {base}"


async def test_small_conflicts_keep_both_sides_the_bases_first(sandbox: Sandbox) -> None:
    base, ours = diverge(
        sandbox,
        {"list": lines(after_5="base one", after_20="base two\nbase three"), "sp äce\n": "x\ny\n"},
        {"list": lines(after_5="branch one\nbranch two", after_20="branch three"), "sp äce\n": "x\nz\n"},
    )
    check, sent = Checked(), Sent()
    merged = await merge(merge_request(sandbox, check), base, ours, sent)
    assert isinstance(merged, Merged)
    assert merged.how == "small"
    assert sent.events == [ConflictsFound(paths=("list", "sp äce\n"), small=True)]
    wanted = lines(after_5="base one\nbranch one\nbranch two", after_20="base two\nbase three\nbranch three")
    assert check.seen[0]["list"] == wanted.encode()
    assert check.seen[0]["sp äce\n"] == b"x\ny\nz\n"
    assert at(sandbox, merged.commit, "list") == wanted.strip()


@pytest.mark.parametrize(
    ("base", "branch", "kinds"),
    [
        ({"list": lines(line_5="base")}, {"list": lines(line_5="branch")}, {"list": ("contents",)}),
        ({"list": lines(after_5="base")}, {"list": lines(line_5="x")}, {"list": ("contents",)}),
        ({"picture": b"\0two"}, {"picture": b"\0three"}, {"picture": ("binary",)}),
        ({"gone": None}, {"gone": "y\n"}, {"gone": ("modify/delete",)}),
        ({"gone": "y\n"}, {"gone": None}, {"gone": ("modify/delete",)}),
        ({"new": "one\n"}, {"new": "two\n"}, {"new": ("contents",)}),
        (
            {"other": None, "base-name": lines()},
            {"other": None, "branch-name": lines()},
            {"other": ("rename/rename",), "base-name": ("rename/rename",), "branch-name": ("rename/rename",)},
        ),
        (
            {"list": lines(after_5="1", after_9="2", after_15="3", after_20="4")},
            {"list": lines(after_5="a", after_9="b", after_15="c", after_20="d")},
            {"list": ("contents",)},
        ),
        (
            {"list": lines(after_5="\n".join("x" * 11))},
            {"list": lines(after_5="\n".join("y" * 10))},
            {"list": ("contents",)},
        ),
        (
            {"d/f": None, "d": "a file\n"},
            {"d/f": "changed\n"},
            {"d/f": ("modify/delete",), "d~BASE": ("file/directory",), "d": ("file/directory",)},
        ),
    ],
)
async def test_what_is_no_small_conflict_is_left_as_it_was_without_an_agent(
    sandbox: Sandbox, base: Files, branch: Files, kinds: dict[str, tuple[str, ...]]
) -> None:
    if "d" in base:  # the file goes first, then another can take its folder's name
        git(sandbox.repository, "rm", "--quiet", "d/f")
        base = {"d": base["d"]}
    theirs, ours = diverge(sandbox, base, branch)
    files = tree(sandbox.folder)
    sent = Sent()
    result = await merge(merge_request(sandbox, Checked()), theirs, ours, sent)
    assert isinstance(result, Unmerged)
    found = {conflict.path.replace(theirs, "BASE"): conflict.kinds for conflict in result.conflicts}
    assert found == kinds
    assert [event.small for event in sent if isinstance(event, ConflictsFound)] == [False]
    untouched(sandbox, ours, files)


async def test_an_agent_repairs_what_is_large(sandbox: Sandbox) -> None:
    git(sandbox.repository, "config", "merge.conflictStyle", "diff3")
    base, ours = diverge(sandbox, {"list": lines(line_5="base")}, {"list": lines(line_5="branch"), "mine": "1\n"})
    repair = Repairs({"list": lines(line_5="both"), "also": "needed\n", "mine": None})
    check = Checked()
    merged = await merge(merge_request(sandbox, check, repair), base, ours, Sent())
    assert isinstance(merged, Merged)
    assert (merged.how, merged.left_out) == ("repair", ())
    request = repair.requests[0]
    assert (request.paths, request.unmarked, request.base, request.ours, request.attempt) == (
        ("list",),
        (),
        base,
        ours,
        1,
    )
    assert b"<<<<<<< " in bytes(repair.seen[0]["list"])  # type: ignore[arg-type]
    assert b"|||||||" not in bytes(repair.seen[0]["list"])  # type: ignore[arg-type]
    assert NOTES not in repair.seen[0]
    assert tip(sandbox) == ours
    await finish(sandbox, merged.commit)
    assert at(sandbox, merged.commit, "list") == lines(line_5="both").strip()
    assert git(sandbox.repository, "diff", "--name-status", base, merged.commit).split() == ["A", "also", "M", "list"]
    assert git(sandbox.folder, "status", "--porcelain") == ""


async def test_markers_and_a_failing_check_are_no_repair(sandbox: Sandbox) -> None:
    base, ours = diverge(sandbox, {"list": lines(line_5="base")}, {"list": lines(line_5="branch")})
    files = tree(sandbox.folder)
    half = lines(line_5="branch\n>>>>>>> of the branch")
    repair = Repairs({"list": half}, False, {"list": lines(line_5="both")})
    check = Checked(False)
    asked = merge_request(sandbox, check, repair)
    asked = msgspec.structs.replace(asked, context=msgspec.structs.replace(asked.context, repair_attempts=3))
    result = await merge(asked, base, ours, Sent())
    assert isinstance(result, Unmerged)
    assert [request.attempt for request in repair.requests] == [1, 2, 3]
    assert len(check.seen) == 1
    assert repair.seen[1]["list"] == half.encode()
    assert result.reason == "It conflicts with the base: list (contents). It could not be repaired."
    untouched(sandbox, ours, files)


async def test_a_file_with_lines_like_markers_can_be_repaired(sandbox: Sandbox) -> None:
    """A text about git: what both sides have is no conflict that was left."""
    text = "<<<<<<< HEAD\none\n=======\ntwo\n>>>>>>> theirs\n"
    commit(sandbox.repository, {"about": text + "end\n"})
    git(sandbox.folder, "reset", "--quiet", "--hard", "main")
    base, ours = diverge(sandbox, {"about": text + "base\n"}, {"about": text + "branch\n"})
    done = await merge(merge_request(sandbox, None, Repairs({"about": text + "both\n"})), base, ours, Sent())
    assert isinstance(done, Merged)
    assert at(sandbox, done.commit, "about") == (text + "both").strip()


@pytest.mark.parametrize(
    ("base", "branch", "decided"),
    [
        ({"picture": b"\0two"}, {"picture": b"\0three"}, {"picture": b"\0three"}),
        ({"gone": "y\n"}, {"gone": None}, {"gone": None}),
        ({"gone": None}, {"gone": "y\n"}, {}),
    ],
)
async def test_conflicts_without_markers_are_to_be_decided(
    sandbox: Sandbox, base: Files, branch: Files, decided: Files
) -> None:
    theirs, ours = diverge(sandbox, base, branch)
    repair = Repairs(decided, {NOTES: ""})
    merged = await merge(merge_request(sandbox, None, repair), theirs, ours, Sent())
    assert isinstance(merged, Merged)
    (path,) = repair.requests[0].unmarked
    assert f"<<<<<<< {path} (" in bytes(repair.seen[0][NOTES]).decode()  # type: ignore[arg-type]
    assert [request.attempt for request in repair.requests] == [1, 2]
    await finish(sandbox, merged.commit)
    assert NOTES not in git(sandbox.repository, "ls-tree", "--name-only", merged.commit)
    (sandbox.folder / NOTES).unlink()
    assert git(sandbox.folder, "status", "--porcelain") == ""
    after = tree(sandbox.folder)
    assert all(after.get(name) == text for name, text in decided.items())


async def test_a_merge_that_fails_the_check_is_for_an_agent_too(sandbox: Sandbox) -> None:
    base, ours = diverge(sandbox, {"other": "calls f\n"}, {"list": "renames f to g\n"})
    repair = Repairs({"other": "calls g\n"})
    merged = await merge(merge_request(sandbox, Checked(False, True), repair), base, ours, Sent())
    assert isinstance(merged, Merged)
    assert repair.requests[0].paths == ()
    assert at(sandbox, merged.commit, "other") == "calls g"


async def test_a_repair_keeps_within_the_permits(sandbox: Sandbox, tmp_path: Path) -> None:
    base, ours = diverge(sandbox, {"list": lines(line_5="base")}, {"list": lines(line_5="branch")})
    outside = tmp_path / "outside"
    write(outside, {"f": "stolen\n"})
    permits = msgspec.structs.replace(
        PERMITS, manifest=msgspec.structs.replace(PERMITS.manifest, writable_paths=("list", "d/**"))
    )
    repair = Repairs({"list": "both\n", ".cuggino.json": "{}\n", "secret/kept": "other\n", "secret/more": "x\n"})
    asked = merge_request(sandbox, None, repair)
    asked = msgspec.structs.replace(asked, context=msgspec.structs.replace(asked.context, permits=permits))
    merged = await merge(asked, base, ours, Sent())
    assert isinstance(merged, Merged)
    assert merged.left_out == (".cuggino.json", "secret/kept", "secret/more")
    assert git(sandbox.repository, "diff", "--name-only", base, merged.commit) == "list"


async def test_a_folder_that_became_a_link_brings_nothing_in(sandbox: Sandbox, tmp_path: Path) -> None:
    base, ours = diverge(sandbox, {"d/f": "base\n"}, {"d/f": "branch\n"})
    outside = tmp_path / "outside"
    write(outside, {"f": "stolen\n"})

    async def repair(request: RepairRequest) -> bool:
        if not (sandbox.folder / "d").is_symlink():
            (sandbox.folder / "d" / "f").unlink()
            (sandbox.folder / "d").rmdir()
            (sandbox.folder / "d").symlink_to(outside)
        return True

    files = tree(sandbox.folder)
    result = await merge(merge_request(sandbox, None, repair), base, ours, Sent())
    if isinstance(result, Merged):
        assert "stolen" not in git(sandbox.repository, "show", result.commit)
        await undo(sandbox)
    assert (outside / "f").read_text() == "stolen\n"
    untouched(sandbox, ours, files)


async def test_specs_and_what_was_left_out_stay_as_they_are(sandbox: Sandbox) -> None:
    """The base changes the same files: the sandbox's own copies of them stay, the merge has the base's."""
    git(sandbox.repository, "rm", "--quiet", "--cached", ".gitignore")
    old = commit(sandbox.repository, {".specs/a.md": "old\n", ".gitignore": "*.ignored\n"})
    git(sandbox.folder, "reset", "--quiet", "--hard", old)
    base, ours = diverge(
        sandbox,
        {".specs/a.md": "newer\n", "secret/kept": "newer\n", "new.ignored": "of the base\n", "list": lines(line_5="5")},
        {"other": "x\n"},
    )
    git(sandbox.repository, "add", "--force", "new.ignored")
    base = commit(sandbox.repository, {})
    write(sandbox.folder, {".specs/a.md": "the person's\n", "secret/kept": "left out\n", "new.ignored": "built\n"})
    git(sandbox.folder, "update-index", "--skip-worktree", ".specs/a.md")
    check = Checked()
    merged = await merge(merge_request(sandbox, check), base, ours, Sent())
    assert isinstance(merged, Merged)
    for seen in (check.seen[0], tree(sandbox.folder)):
        assert seen[".specs/a.md"] == b"the person's\n"
        assert seen["secret/kept"] == b"left out\n"
        assert seen["new.ignored"] == b"built\n"
        assert seen["list"] == lines(line_5="5").encode()
    assert git(sandbox.repository, "diff", "--name-only", base, merged.commit) == "other"
    before = tree(sandbox.folder) | {"list": lines().encode()}
    await undo(sandbox)
    assert tree(sandbox.folder) == before
    assert tip(sandbox) == ours


async def test_what_a_crash_leaves_is_undone(sandbox: Sandbox) -> None:
    """Killed while an agent repaired: the folder has markers, half of the agent's work, and the base's changes."""
    base, ours = diverge(
        sandbox,
        {"list": lines(line_5="base"), "gone": None, "new": "of the base\n", "d/f": "base\n"},
        {"list": lines(line_5="branch")},
    )
    files = tree(sandbox.folder)

    class Killed(Exception):
        pass

    async def repair(request: RepairRequest) -> bool:
        write(sandbox.folder, {"list": "half\n", "gone": "made again\n", "new": None, "d/f": "edited\n"})
        raise Killed

    with pytest.raises(Killed):
        await merge(merge_request(sandbox, None, repair), base, ours, Sent())
    assert tree(sandbox.folder) != files
    await undo(sandbox)
    untouched(sandbox, ours, files)
    await undo(sandbox)
    untouched(sandbox, ours, files)


async def test_nothing_of_the_sandboxes_is_run(sandbox: Sandbox, tmp_path: Path) -> None:
    """Hooks, filters and drivers that lie in the tree, and those of the `.git` that an agent has put there."""
    spy = f"#!/bin/sh\ntr '\\0' ' ' < /proc/$PPID/cmdline >> {tmp_path}/ran\ncat\n"
    hooks = {f".git/hooks/{name}": spy for name in ("post-checkout", "post-index-change", "reference-transaction")}
    write(sandbox.repository, {**hooks, "run-me": spy})
    for path in (*hooks, "run-me"):
        (sandbox.repository / path).chmod(0o755)
    git(sandbox.repository, "config", "filter.own.smudge", "./run-me")
    git(sandbox.repository, "config", "filter.own.clean", "./run-me")
    base, ours = diverge(
        sandbox, {".gitattributes": "* filter=own\n", "list": lines(line_5="base")}, {"list": lines(line_5="branch")}
    )
    (tmp_path / "ran").unlink(missing_ok=True)
    (sandbox.folder / ".git").unlink()
    git(sandbox.folder, "init", "--quiet")
    git(sandbox.folder, "config", "core.fsmonitor", "./run-me")
    merged = await merge(merge_request(sandbox, Checked(), Repairs({"list": "both\n"})), base, ours, Sent())
    assert isinstance(merged, Merged)
    await finish(sandbox, merged.commit)
    assert tip(sandbox) == merged.commit
    assert not (tmp_path / "ran").exists()


async def test_computing_a_merge_leaves_no_trace(sandbox: Sandbox) -> None:
    base, ours = diverge(sandbox, {"list": lines(line_5="base")}, {"list": lines(line_5="branch")})
    before = {path: path.read_bytes() for path in sandbox.repository.rglob("*") if path.is_file()}
    merged = await merge_trees(sandbox.repository, base, ours)
    assert [conflict.path for conflict in merged.conflicts] == ["list"]
    after = {path: path.read_bytes() for path in sandbox.repository.rglob("*") if path.is_file()}
    assert {path for path in after if "objects" not in path.parts} == {
        path for path in before if "objects" not in path.parts
    }
    assert all(after[path] == content for path, content in before.items())


async def test_a_commit_that_is_not_there_is_an_error(sandbox: Sandbox) -> None:
    with pytest.raises(GitError):
        await merge_trees(sandbox.repository, "0" * 40, tip(sandbox))
    assert PLACED not in git(sandbox.folder, "for-each-ref")
