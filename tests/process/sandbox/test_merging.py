"""Merges in sandboxes, with real git: clean, small, repaired, undone. Nothing else in the directory is touched."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, TypeAlias

import msgspec
import pytest

from cuggino.agents.activity_timeout import ActivityLimits
from cuggino.errors import GitError
from cuggino.events import ConflictsFound
from cuggino.integrate import repair as repairing
from cuggino.integrate.checkout import PLACED, finish, undo
from cuggino.integrate.merge import NOTES, MergeContext, Merged, MergeRequest, RepairRequest, Unmerged, merge
from cuggino.integrate.trees import merge_trees
from cuggino.sandbox.sandbox import Sandbox
from tests.process.sandbox.merge_house import PERMITS, Files, Killed, Sent, commit, git, lines, tip, tree, write

Check: TypeAlias = Callable[[Path], Awaitable[bool]]
Repair: TypeAlias = Callable[[RepairRequest], Awaitable[bool]]

LARGE: tuple[Files, Files] = {"list": lines(line_5="base")}, {"list": lines(line_5="branch")}
"""Changes in the base and on the branch that are a large conflict."""


class Merging:
    """A base and a branch with one more commit each, to be merged in a sandbox."""

    def __init__(self, sandbox: Sandbox, base: Files, branch: Files) -> None:
        self.sandbox = sandbox
        self.repository = sandbox.repository
        self.base = commit(sandbox.repository, base, "in the base")
        self.ours = commit(sandbox.folder, branch, "on the branch")
        self.files = tree(sandbox.folder)
        self.sent = Sent()

    async def merge(
        self, check: Check | None = None, repair: Repair | None = None, **options: Any
    ) -> Merged | Unmerged:
        onto_branch = options.pop("onto_branch", False)
        options = {"permits": PERMITS, "check": check, "repair": repair, **options}
        context = MergeContext(sandbox=self.sandbox, **options)
        request = MergeRequest(context=context, message="Merge it", onto_branch=onto_branch)
        return await merge(request, self.base, self.ours, self.sent)

    def show(self, merged: Merged, path: str) -> str:
        return git(self.repository, "cat-file", "blob", f"{merged.commit}:{path}")

    def changed(self, merged: Merged) -> list[str]:
        return git(self.repository, "diff", "--name-only", self.base, merged.commit).splitlines()

    def assert_untouched(self) -> None:
        assert tip(self.sandbox) == self.ours
        assert tree(self.sandbox.folder) == self.files
        assert git(self.sandbox.folder, "status", "--porcelain") == ""
        assert git(self.sandbox.folder, "for-each-ref", PLACED) == ""


def done(result: Merged | Unmerged) -> Merged:
    assert isinstance(result, Merged), result
    return result


class Checked:
    """A check command that records the files, and returns these results."""

    def __init__(self, *results: bool) -> None:
        self.results = list(results)
        self.seen: list[dict[str, bytes | str]] = []

    async def __call__(self, root: Path) -> bool:
        self.seen.append(tree(root))
        return self.results.pop(0) if self.results else True


class Repairs:
    """An agent that writes one set of files in each attempt, or gives up."""

    def __init__(self, *attempts: Files | bool) -> None:
        self.attempts = list(attempts)
        self.requests: list[RepairRequest] = []
        self.seen: list[dict[str, bytes]] = []

    async def __call__(self, request: RepairRequest) -> bool:
        self.requests.append(request)
        self.seen.append({name: text for name, text in tree(request.sandbox.root).items() if isinstance(text, bytes)})
        attempt = self.attempts.pop(0)
        if isinstance(attempt, bool):
            return attempt
        write(request.sandbox.folder, attempt)
        return True


@pytest.mark.parametrize("onto_branch", [False, True])
async def test_a_clean_merge_is_checked_in_the_directory_before_the_branch_has_it(
    sandbox: Sandbox, onto_branch: bool
) -> None:
    """Its first parent is the base or, onto the branch, the branch."""
    merging = Merging(sandbox, {"other": lines(line_5="five")}, {"list": lines(line_9="nine")})
    check = Checked()
    merged = done(await merging.merge(check, onto_branch=onto_branch))
    assert (merged.how, merging.sent.events) == ("clean", [])
    assert check.seen[0]["other"] == lines(line_5="five").encode()
    assert check.seen[0]["list"] == lines(line_9="nine").encode()
    assert tip(sandbox) == merging.ours
    await finish(sandbox, merged.commit)
    assert tip(sandbox) == merged.commit
    parents = (merging.ours, merging.base) if onto_branch else (merging.base, merging.ours)
    assert git(sandbox.folder, "log", "-1", "--format=%P %an %s") == " ".join((*parents, "Ada Merge it"))
    assert git(sandbox.folder, "status", "--porcelain") == ""
    assert tree(sandbox.folder) == check.seen[0]


async def test_small_conflicts_keep_both_sides_the_base_s_first(sandbox: Sandbox) -> None:
    merging = Merging(
        sandbox,
        {"list": lines(after_5="base one", after_20="base two\nbase three"), "sp äce\n": "x\ny\n"},
        {"list": lines(after_5="branch one\nbranch two", after_20="branch three"), "sp äce\n": "x\nz\n"},
    )
    check = Checked()
    merged = done(await merging.merge(check))
    assert merged.how == "small"
    assert merging.sent.events == [ConflictsFound(paths=("list", "sp äce\n"), small=True)]
    wanted = lines(after_5="base one\nbranch one\nbranch two", after_20="base two\nbase three\nbranch three")
    assert check.seen[0]["list"] == wanted.encode()
    assert check.seen[0]["sp äce\n"] == b"x\ny\nz\n"
    assert merging.show(merged, "list") == wanted.strip()


LIST_CONFLICT = {"list": ("contents",)}


@pytest.mark.parametrize(
    ("base", "branch", "kinds"),
    [
        (*LARGE, LIST_CONFLICT),
        ({"list": lines(after_5="base")}, {"list": lines(line_5="x")}, LIST_CONFLICT),
        ({"picture": b"\0two"}, {"picture": b"\0three"}, {"picture": ("binary",)}),
        ({"gone": None}, {"gone": "y\n"}, {"gone": ("modify/delete",)}),
        ({"gone": "y\n"}, {"gone": None}, {"gone": ("modify/delete",)}),
        ({"new": "one\n"}, {"new": "two\n"}, {"new": ("contents",)}),
        (
            {"other": None, "base-name": lines()},
            {"other": None, "branch-name": lines()},
            dict.fromkeys(["other", "base-name", "branch-name"], ("rename/rename",)),
        ),
        (
            {"list": lines(after_5="1", after_9="2", after_15="3", after_20="4")},
            {"list": lines(after_5="a", after_9="b", after_15="c", after_20="d")},
            LIST_CONFLICT,
        ),
        ({"list": lines(after_5="\n".join("x" * 11))}, {"list": lines(after_5="\n".join("y" * 10))}, LIST_CONFLICT),
        (
            {"d": "a file\n"},
            {"d/f": "changed\n"},
            {"d/f": ("modify/delete",), "d~BASE": ("file/directory",), "d": ("file/directory",)},
        ),
    ],
)
async def test_a_conflict_that_is_not_small_changes_nothing_without_an_agent(
    sandbox: Sandbox, base: Files, branch: Files, kinds: dict[str, tuple[str, ...]]
) -> None:
    if "d" in base:  # a file can only replace the directory when it is empty
        git(sandbox.repository, "rm", "--quiet", "d/f")
    merging = Merging(sandbox, base, branch)
    result = await merging.merge(Checked())
    assert isinstance(result, Unmerged)
    assert {conflict.path.replace(merging.base, "BASE"): conflict.kinds for conflict in result.conflicts} == kinds
    assert [event.small for event in merging.sent if isinstance(event, ConflictsFound)] == [False]
    merging.assert_untouched()


async def test_an_agent_repairs_a_large_conflict(sandbox: Sandbox) -> None:
    git(sandbox.repository, "config", "merge.conflictStyle", "diff3")
    base, branch = LARGE
    merging = Merging(sandbox, base, {**branch, "mine": "1\n"})
    repair = Repairs({"list": lines(line_5="both"), "also": "needed\n", "mine": None})
    merged = done(await merging.merge(Checked(), repair))
    assert (merged.how, merged.left_out) == ("repair", ())
    assert repair.requests == [
        RepairRequest(sandbox=sandbox, paths=("list",), unmarked=(), base=merging.base, ours=merging.ours, attempt=1)
    ]
    assert b"<<<<<<< " in repair.seen[0]["list"]
    assert b"|||||||" not in repair.seen[0]["list"]
    assert NOTES not in repair.seen[0]
    assert tip(sandbox) == merging.ours
    await finish(sandbox, merged.commit)
    assert merging.show(merged, "list") == lines(line_5="both").strip()
    assert merging.changed(merged) == ["also", "list"]
    assert git(sandbox.folder, "status", "--porcelain") == ""


async def test_a_repair_fails_while_markers_are_left_or_the_check_fails(sandbox: Sandbox) -> None:
    merging = Merging(sandbox, *LARGE)
    half = lines(line_5="branch\n>>>>>>> of the branch")
    repair = Repairs({"list": half}, False, {"list": lines(line_5="both")})
    check = Checked(False)
    result = await merging.merge(check, repair, repair_attempts=3)
    assert isinstance(result, Unmerged)
    assert [request.attempt for request in repair.requests] == [1, 2, 3]
    assert len(check.seen) == 1
    assert repair.seen[1]["list"] == half.encode()
    assert result.reason == "It conflicts with the base: list (contents). It could not be repaired."
    merging.assert_untouched()


async def test_a_file_with_lines_like_markers_can_be_repaired(sandbox: Sandbox) -> None:
    """In a text about git, lines that both sides have are not conflict markers."""
    text = "<<<<<<< HEAD\none\n=======\ntwo\n>>>>>>> theirs\n"
    commit(sandbox.repository, {"about": text + "end\n"})
    git(sandbox.folder, "reset", "--quiet", "--hard", "main")
    merging = Merging(sandbox, {"about": text + "base\n"}, {"about": text + "branch\n"})
    merged = done(await merging.merge(None, Repairs({"about": text + "both\n"})))
    assert merging.show(merged, "about") == (text + "both").strip()


@pytest.mark.parametrize(
    ("base", "branch", "decided"),
    [
        ({"picture": b"\0two"}, {"picture": b"\0three"}, {"picture": b"\0three"}),
        ({"gone": "y\n"}, {"gone": None}, {"gone": None}),
        ({"gone": None}, {"gone": "y\n"}, {}),
    ],
)
async def test_an_agent_decides_conflicts_without_markers_by_emptying_the_notes(
    sandbox: Sandbox, base: Files, branch: Files, decided: Files
) -> None:
    repair = Repairs(decided, {NOTES: ""})
    merged = done(await Merging(sandbox, base, branch).merge(None, repair))
    (path,) = repair.requests[0].unmarked
    assert f"<<<<<<< {path} (" in repair.seen[0][NOTES].decode()
    assert [request.attempt for request in repair.requests] == [1, 2]
    await finish(sandbox, merged.commit)
    assert NOTES not in git(sandbox.repository, "ls-tree", "--name-only", merged.commit)
    (sandbox.folder / NOTES).unlink()
    assert git(sandbox.folder, "status", "--porcelain") == ""
    after = tree(sandbox.folder)
    assert all(after.get(name) == text for name, text in decided.items())


async def test_an_agent_repairs_a_merge_that_fails_the_check(sandbox: Sandbox) -> None:
    merging = Merging(sandbox, {"other": "calls f\n"}, {"list": "renames f to g\n"})
    repair = Repairs({"other": "calls g\n"})
    merged = done(await merging.merge(Checked(False, True), repair))
    assert repair.requests[0].paths == ()
    assert merging.show(merged, "other") == "calls g"


async def test_a_repair_is_limited_by_the_permits(sandbox: Sandbox) -> None:
    merging = Merging(sandbox, *LARGE)
    manifest = msgspec.structs.replace(PERMITS.manifest, writable_paths=("list", "d/**"))
    repair = Repairs({"list": "both\n", ".cuggino.json": "{}\n", "secret/kept": "other\n", "secret/more": "x\n"})
    merged = done(await merging.merge(None, repair, permits=msgspec.structs.replace(PERMITS, manifest=manifest)))
    assert merged.left_out == (".cuggino.json", "secret/kept", "secret/more")
    assert merging.changed(merged) == ["list"]


async def test_a_directory_that_became_a_link_lets_nothing_in(sandbox: Sandbox, tmp_path: Path) -> None:
    merging = Merging(sandbox, {"d/f": "base\n"}, {"d/f": "branch\n"})
    outside = tmp_path / "outside"
    write(outside, {"f": "stolen\n"})

    async def repair(request: RepairRequest) -> bool:
        if not (sandbox.folder / "d").is_symlink():
            (sandbox.folder / "d" / "f").unlink()
            (sandbox.folder / "d").rmdir()
            (sandbox.folder / "d").symlink_to(outside)
        return True

    result = await merging.merge(None, repair)
    if isinstance(result, Merged):
        assert "stolen" not in git(sandbox.repository, "show", result.commit)
        await undo(sandbox)
    assert (outside / "f").read_text() == "stolen\n"
    merging.assert_untouched()


async def test_specs_and_refused_changes_stay_as_they_are(sandbox: Sandbox) -> None:
    """The base changes the same files: the sandbox's own copies of them stay, the merge has the base's."""
    git(sandbox.repository, "rm", "--quiet", "--cached", ".gitignore")
    old = commit(sandbox.repository, {".specs/a.md": "old\n", ".gitignore": "*.ignored\n"})
    git(sandbox.folder, "reset", "--quiet", "--hard", old)
    theirs: Files = {".specs/a.md": "newer\n", "secret/kept": "newer\n", "new.ignored": "of the base\n"}
    write(sandbox.repository, theirs)
    git(sandbox.repository, "add", "--force", "new.ignored")
    merging = Merging(sandbox, {"list": lines(line_5="5")}, {"other": "x\n"})
    own = {".specs/a.md": b"the person's\n", "secret/kept": b"left out\n", "new.ignored": b"built\n"}
    write(sandbox.folder, own)
    git(sandbox.folder, "update-index", "--skip-worktree", ".specs/a.md")
    check = Checked()
    merged = done(await merging.merge(check))
    for seen in (check.seen[0], tree(sandbox.folder)):
        assert own.items() <= seen.items()
        assert seen["list"] == lines(line_5="5").encode()
    assert merging.changed(merged) == ["other"]
    before = tree(sandbox.folder) | {"list": lines().encode()}
    await undo(sandbox)
    assert tree(sandbox.folder) == before
    assert tip(sandbox) == merging.ours


async def test_a_merge_that_was_killed_is_undone(sandbox: Sandbox) -> None:
    """Killed during a repair: the directory has markers, unfinished work of the agent's, and the base's changes."""
    base, branch = LARGE
    merging = Merging(sandbox, {**base, "gone": None, "new": "of the base\n", "d/f": "base\n"}, branch)

    async def repair(request: RepairRequest) -> bool:
        write(sandbox.folder, {"list": "half\n", "gone": "made again\n", "new": None, "d/f": "edited\n"})
        raise Killed

    with pytest.raises(Killed):
        await merging.merge(None, repair)
    assert tree(sandbox.folder) != merging.files
    for _ in range(2):
        await undo(sandbox)
        merging.assert_untouched()


async def test_no_hook_filter_or_driver_of_the_sandbox_runs(sandbox: Sandbox, tmp_path: Path) -> None:
    """Neither those in the tree, nor those of a `.git` that an agent has put there."""
    spy = f"#!/bin/sh\ntr '\\0' ' ' < /proc/$PPID/cmdline >> {tmp_path}/ran\ncat\n"
    hooks = [f".git/hooks/{name}" for name in ("post-checkout", "post-index-change", "reference-transaction")]
    write(sandbox.repository, dict.fromkeys([*hooks, "run-me"], spy))
    for path in (*hooks, "run-me"):
        (sandbox.repository / path).chmod(0o755)
    git(sandbox.repository, "config", "filter.own.smudge", "./run-me")
    git(sandbox.repository, "config", "filter.own.clean", "./run-me")
    base, branch = LARGE
    merging = Merging(sandbox, {".gitattributes": "* filter=own\n", **base}, branch)
    (tmp_path / "ran").unlink(missing_ok=True)
    (sandbox.folder / ".git").unlink()
    git(sandbox.folder, "init", "--quiet")
    git(sandbox.folder, "config", "core.fsmonitor", "./run-me")
    merged = done(await merging.merge(Checked(), Repairs({"list": "both\n"})))
    await finish(sandbox, merged.commit)
    assert tip(sandbox) == merged.commit
    assert not (tmp_path / "ran").exists()


async def test_computing_a_merge_only_adds_objects(sandbox: Sandbox) -> None:
    merging = Merging(sandbox, *LARGE)

    def contents() -> dict[Path, bytes]:
        return {path: path.read_bytes() for path in sandbox.repository.rglob("*") if path.is_file()}

    before = contents()
    merged = await merge_trees(sandbox.repository, merging.base, merging.ours)
    assert [conflict.path for conflict in merged.conflicts] == ["list"]
    after = contents()
    assert before.items() <= after.items()
    assert all("objects" in path.parts for path in after.keys() - before.keys())


async def test_an_unknown_commit_is_an_error(sandbox: Sandbox) -> None:
    with pytest.raises(GitError):
        await merge_trees(sandbox.repository, "0" * 40, tip(sandbox))
    assert PLACED not in git(sandbox.folder, "for-each-ref")


async def test_the_agent_is_asked_about_a_file_against_a_directory(sandbox: Sandbox) -> None:
    merging = Merging(sandbox, {"x": "a file\n"}, {"x/y": "in a directory\n"})
    listed = []

    async def run(*_: object) -> Any:
        listed.append((sandbox.root / ".cuggino" / "repair" / "conflicts.md").read_text())
        for path in sandbox.folder.glob("x~*"):
            path.unlink()
        write(sandbox.folder, {NOTES: ""})
        return SimpleNamespace(result=object())

    config = SimpleNamespace(check_command=None, specs_path=".specs")
    confinement: Any = SimpleNamespace(context=SimpleNamespace(config=config), run=run)
    limits = ActivityLimits(idle=60, total=60)
    repair = repairing.Repair(confinement=confinement, task="x", limits=limits, attempts=1, send=merging.sent)
    merged = done(await merging.merge(repair=repair))
    assert f"branch: a directory: git ls-tree -r {merging.ours}:x" in listed[0]
    assert merging.changed(merged) == ["x", "x/y"]
