"""Agents in sandboxes at a pull request's head, with real git; the agent is a function that writes into the tree."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import trio

from cuggino.agents.agent import AgentOptions, AgentResult
from cuggino.ci.agents import SandboxedFixers
from cuggino.ci.branch import GitBranch
from cuggino.ci.decide import Failure
from cuggino.ci.ports import NonFastForward, OperationFailed
from cuggino.ci.state_file import StateFile, exclude_from_git
from cuggino.clock import uuid7
from cuggino.config import Config
from cuggino.errors import LlmSessionError, LlmSessionErrorKind, StorageError
from cuggino.events import AgentMessage, Event, Send
from cuggino.git.remotes import Remotes, Slug
from cuggino.process.children import Children
from cuggino.project import Project
from cuggino.roles import Role
from cuggino.sandbox import records
from cuggino.sandbox.confine import SandboxContext
from cuggino.sandbox.provision import provision
from tests.unit.ci.world import check, comment, thread

Does = Callable[[Path, AgentOptions], str | Awaitable[str]]
KEY = "sk-login-of-the-agent"
FAILURE = Failure(name="test [skip ci] (3.11)", checks=(check("test", "FAILURE", id=1),))


class Scene:
    """A clone with the branch `change`, which is at `head`."""

    def __init__(self, folder: Path, **config: Any) -> None:
        self.bare, self.root = folder / "origin.git", folder / "a project ü"
        self.root.mkdir()
        git(folder, "init", "-q", "--bare", "-b", "main", str(self.bare))
        git(self.root, "init", "-q", "-b", "main")
        (self.root / "a.py").write_text("one\n")
        (self.root / ".specs").mkdir()
        (self.root / ".specs" / "app.md").write_text("# App\n")
        git(self.root, "add", ".")
        git(self.root, "commit", "-qm", "start")
        git(self.root, "remote", "add", "origin", str(self.bare))
        git(self.root, "switch", "-qc", "change")
        git(self.root, "commit", "-q", "--allow-empty", "-m", "a change")
        git(self.root, "push", "-q", "origin", "main", "change")
        self.head = git(self.root, "rev-parse", "HEAD")
        self.project = Project.find(self.root)
        self.project.prepare()
        self.config = Config(**config)
        self.does: Does = lambda _root, _options: "nothing"
        self.ran: list[AgentOptions] = []
        self.events: list[Event] = []
        self.forgotten: list[str] = []
        self.branch = GitBranch(self.root, self.root / ".git", "origin", "change", host="github.com", number=12)
        children = Children(marker=uuid7().replace("-", ""), force_kill=trio.Event())
        self.agents = SandboxedFixers(
            SandboxContext(
                project=self.project,
                config=self.config,
                agent=lambda _: self,
                children=children,
                environment=os.environ,
            ),
            self.branch,
            "origin",
            12,
        )

    name = "fake"

    async def spawn(self, options: AgentOptions, send: Send) -> AgentResult:
        self.ran.append(options)
        said = self.does(options.cwd, options)
        error_message = said if isinstance(said, str) else await said
        await send(AgentMessage(text=error_message))
        return AgentResult(exit_status=0, final_text=error_message)

    async def interactive(self, options: AgentOptions) -> int:
        raise NotImplementedError

    def own_name(self, conversation: str) -> str:
        return conversation

    lacks = ""
    login_environment: tuple[str, ...] = ("FAKE_*",)

    def delete_conversation(self, conversation: str, *, cwd: Path, environment: Mapping[str, str]) -> None:
        assert cwd.is_dir()
        assert environment["FAKE_KEY"] == KEY
        self.forgotten.append(conversation)

    async def send(self, event: Event) -> None:
        self.events.append(event)

    async def fix(self) -> Any:
        return await self.agents.fix_check(FAILURE, "the log", "the cause", self.head, self.send)

    @property
    def left(self) -> list[str]:
        """What is left of sandboxes."""
        worktrees = git(self.root, "worktree", "list", "--porcelain").count("worktree ") - 1
        return [path.name for path in self.project.spawns.iterdir()] + ["a worktree"] * worktrees


@pytest.fixture
def scene(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Scene:
    environment(tmp_path, monkeypatch)
    return Scene(tmp_path)


def environment(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "home").mkdir()
    known = {"HOME": str(folder / "home"), "GIT_CONFIG_NOSYSTEM": "1", "FAKE_KEY": KEY, "GH_TOKEN": "dummy"}
    for who in ("AUTHOR", "COMMITTER"):
        known |= {f"GIT_{who}_NAME": "tester", f"GIT_{who}_EMAIL": "tester@localhost"}
    monkeypatch.delenv("XDG_STATE_HOME", raising=False)
    for name, value in known.items():
        monkeypatch.setenv(name, value)


def git(root: Path, *arguments: str) -> str:
    return subprocess.run(["git", *arguments], cwd=root, check=True, capture_output=True, text=True).stdout.strip()


async def test_what_an_agent_did_is_one_commit_with_our_words(scene: Scene) -> None:
    def does(root: Path, _: AgentOptions) -> str:
        for number in (1, 2):
            (root / "a.py").write_text(f"{number}\n")
            git(root, "commit", "-qam", f"[skip ci] commit {number}")
        (root / "new ü.txt").write_text("new\n")
        (root / ".specs" / "app.md").write_text("other specs\n")
        (root / ".cuggino" / "mine").write_text("x")
        return f"Done with {KEY}."

    scene.does = does
    work = await scene.fix()
    assert not work.failed
    assert work.files == ("a.py", "new ü.txt")
    assert work.summary.startswith("Done with ***.")
    assert ".specs/app.md" in work.summary
    assert git(scene.root, "log", "--format=%s", f"{scene.head}..{work.tip}") == "Fix test (skip ci) (3.11)"
    assert git(scene.root, "rev-parse", "HEAD") == scene.head
    assert scene.left == []
    (options,) = scene.ran
    assert (options.role, options.foreign, options.skip_permissions) == (Role.WORKER, True, False)
    assert options.permits is not None
    assert not options.permits.may_write(".specs/app.md")
    assert options.environment is not None
    assert options.environment["FAKE_KEY"] == KEY
    assert "GH_TOKEN" not in options.environment
    assert "test [skip ci]" not in options.prompt + options.system_prompt


async def test_nothing_changed(scene: Scene) -> None:
    work = await scene.fix()
    assert (work.tip, work.files, work.summary, work.failed) == (None, (), "nothing", False)
    assert scene.left == []


async def test_the_agents_login_in_what_it_wrote_stops_the_push(scene: Scene) -> None:
    def does(root: Path, _: AgentOptions) -> str:
        (root / "notes.txt").write_text(f"key: {KEY}\n")
        return "ok"

    scene.does = does
    work = await scene.fix()
    assert work.failed
    assert work.tip is None
    assert "notes.txt" in work.summary
    assert KEY not in work.summary


async def test_what_it_reads_are_files_that_are_not_brought_home(scene: Scene) -> None:
    seen: dict[str, str] = {}

    def does(root: Path, options: AgentOptions) -> str:
        for path in (root / ".cuggino" / "ci").iterdir():
            assert str(path) in options.prompt
            seen[path.name] = path.read_text()
        return '{"verdict": "flake", "cause": "chance"}'

    scene.does = does
    triage = await scene.agents.triage(FAILURE, "the log", scene.head, scene.send)
    assert (triage.verdict, triage.cause) == ("flake", "chance")
    await scene.fix()
    comments = (comment(1, body="Why?"), comment(2, "bot", "NONE", bot=True, body="Because."))
    work = await scene.agents.fix_thread(thread("t", *comments, left_out=3), comments, scene.head, scene.send)
    assert work.tip is None
    assert seen["failure.md"] == (
        "# test [skip ci] (3.11)\n\n## What was found to be the cause\n\nthe cause\n\n## Its log\n\nthe log\n"
    )
    assert seen["thread.md"] == (
        "# A review thread: t.py, line 3\n\n(3 comments in its middle are left out.)\n\n"
        "## mia\n\nWhy?\n\n## bot (a bot)\n\nBecause.\n"
    )
    triaging = scene.ran[0]
    assert triaging.role is Role.TRIAGE
    assert triaging.permits is not None
    assert triaging.permits.manifest.allowed_tools == ("Read", "Glob", "Grep")
    assert triaging.schema is not None


@pytest.mark.parametrize(
    ("kind", "raised"),
    [
        (LlmSessionErrorKind.SETUP, True),
        (LlmSessionErrorKind.OVERLOADED, True),
        (LlmSessionErrorKind.CRASHED, False),
        (LlmSessionErrorKind.REFUSED, False),
    ],
)
async def test_an_agent_that_fails(scene: Scene, kind: LlmSessionErrorKind, raised: bool) -> None:
    def does(_root: Path, _: AgentOptions) -> str:
        raise LlmSessionError("why", kind)

    scene.does = does
    if raised:
        with pytest.raises(LlmSessionError):
            await scene.fix()
    else:
        work = await scene.fix()
        assert (work.failed, work.summary) == (True, "why")
    assert scene.left == []


async def test_the_setup_command_runs_without_the_persons_login(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    environment(tmp_path, monkeypatch)
    scene = Scene(tmp_path, setup_command="env | grep -v FAKE > environment.txt")
    scene.does = lambda root, _: (root / "environment.txt").read_text()
    work = await scene.fix()
    assert f"PATH={os.environ['PATH']}" in work.summary
    assert "GH_TOKEN" not in work.summary
    assert "environment.txt" in work.files


async def test_what_the_setup_command_leaves_running_lives_while_the_agent_works(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    environment(tmp_path, monkeypatch)
    scene = Scene(tmp_path, setup_command="sleep 600 & echo $! > pid")
    seen: list[Path] = []

    def does(root: Path, _: AgentOptions) -> str:
        seen.append(Path("/proc", (root / "pid").read_text().strip()))
        return str(seen[0].exists())

    scene.does = does
    assert (await scene.fix()).summary == "True"
    assert not seen[0].exists()
    assert scene.forgotten == [options.session_id for options in scene.ran], "its conversation is deleted"


async def test_a_watch_that_was_killed_leaves_sandboxes_that_the_next_one_removes(scene: Scene) -> None:
    await provision(scene.project, scene.config, base=scene.head, detached=True, title="ci watch #12")
    other = await provision(scene.project, scene.config, title="ci watch #12")
    await scene.agents.prune()
    assert [record.sandbox.id for record in records.load_all(scene.project)] == [other.id]


async def test_a_head_that_is_not_here_is_fetched_and_one_that_is_gone_is_reported(scene: Scene) -> None:
    clone = scene.root.parent / "clone"
    git(scene.root.parent, "clone", "-q", "-b", "change", str(scene.bare), str(clone))
    git(clone, "commit", "-q", "--allow-empty", "-m", "others")
    git(clone, "push", "-q")
    refs = git(scene.root, "for-each-ref")
    scene.head = git(clone, "rev-parse", "HEAD")
    assert (await scene.fix()).failed is False
    assert git(scene.root, "for-each-ref") == refs
    scene.head = "1" * 40
    work = await scene.fix()
    assert work.failed
    assert "no longer has the commit" in work.summary


async def test_a_conflict_that_the_agent_leaves_is_not_committed(scene: Scene) -> None:
    for name, text in (("change", "ours\n"), ("main", "theirs\n")):
        git(scene.root, "switch", "-q", name)
        (scene.root / "a.py").write_text(text)
        git(scene.root, "commit", "-qam", name)
        git(scene.root, "push", "-q", "origin", name)
    scene.head = git(scene.root, "rev-parse", "change")
    work = await scene.agents.fix_conflict("main", scene.head, scene.send)
    assert work.tip is None
    assert "a.py" in work.summary

    def does(root: Path, _: AgentOptions) -> str:
        assert "<<<<<<<" in (root / "a.py").read_text()
        (root / "a.py").write_text("both\n")
        return "ok"

    scene.does = does
    work = await scene.agents.fix_conflict("main", scene.head, scene.send)
    assert git(scene.root, "show", f"{work.tip}:a.py") == "both"
    assert git(scene.root, "rev-parse", f"{work.tip}^1", f"{work.tip}^2").split() == [
        scene.head,
        git(scene.root, "rev-parse", "main"),
    ]
    assert all(options.foreign for options in scene.ran)
    assert scene.left == []


# ---- the branch -------------------------------------------------------------------------------


async def test_pushing(scene: Scene) -> None:
    def commit(parent: str, error_message: str) -> str:
        return git(scene.root, "commit-tree", "-p", parent, "-m", error_message, f"{parent}^{{tree}}")

    first = commit(scene.head, "first")
    await scene.branch.push(first, scene.head)
    assert await scene.branch.head() == first
    await scene.branch.push(first, scene.head)  # done again after a crash
    with pytest.raises(NonFastForward):
        await scene.branch.push(commit(scene.head, "beside"), scene.head)
    hook = scene.bare / "hooks" / "pre-receive"
    hook.write_text("#!/bin/sh\necho protected >&2; exit 1\n")
    hook.chmod(0o755)
    with pytest.raises(OperationFailed, match="protected"):
        await scene.branch.push(commit(first, "second"), first)
    hook.unlink()
    with pytest.raises(OperationFailed, match="is not on top of"):
        await scene.branch.push(commit(scene.head, "beside"), first)
    assert await scene.branch.head() == first
    git(scene.bare, "update-ref", "refs/heads/change", scene.head)  # somebody dropped a commit
    with pytest.raises(NonFastForward):
        await scene.branch.push(commit(first, "second"), first)
    assert await scene.branch.head() == scene.head
    git(scene.bare, "update-ref", "-d", "refs/heads/change")
    with pytest.raises(OperationFailed):
        await scene.branch.push(commit(first, "second"), first)
    assert await scene.branch.head() is None


async def test_where_a_repository_is(scene: Scene) -> None:
    remotes = Remotes(scene.root)
    ours, fork = Slug("o", "r"), Slug("eve", "r")
    for url, address in (
        ("https://github.com/o/r.git", "https://github.com/eve/r.git"),
        ("git@github.com:O/R.git", "git@github.com:eve/r.git"),
        ("ssh://git@github.com/o/r", "ssh://git@github.com/eve/r.git"),
    ):
        git(scene.root, "remote", "set-url", "origin", url)
        assert await remotes.find(ours) == "origin"
        assert await remotes.address(ours, ours) == "origin"
        assert await remotes.address(fork, ours) == address
    git(scene.root, "remote", "add", "eve", "https://github.com/eve/r")
    assert await remotes.address(fork, ours) == "eve"


# ---- the state file ---------------------------------------------------------------------------


@pytest.mark.parametrize("below", ["", "packages/an [app] *"])
async def test_the_state_file_is_in_no_status_and_no_commit(scene: Scene, below: str) -> None:
    root = scene.root / below
    root.mkdir(parents=True, exist_ok=True)
    (root / ".cuggino.json").write_text("{}")
    git(scene.root, "add", ".")
    git(scene.root, "commit", "-qm", "config")
    project = Project.find(root)
    for _ in range(2):
        await exclude_from_git(project, scene.root / ".git")
    file = StateFile(project, 12)
    file.path.parent.mkdir()
    file.path.write_text("x")
    (file.path.parent / ".0190.tmp").write_text("torn")
    assert "tmp" not in git(scene.root, "status", "--porcelain", "--untracked-files=all")
    git(scene.root, "add", "--all")
    assert "tmp" not in git(scene.root, "ls-files")
    assert (scene.root / ".git" / "info" / "exclude").read_text().count("ci-watch") == 1
    (file.path.parent / "mine.txt").write_text("the person's")
    assert "mine.txt" in git(scene.root, "status", "--porcelain", "--untracked-files=all")


def test_a_state_file_that_is_not_valid_utf_8_is_reported_with_its_line(tmp_path: Path) -> None:
    file = StateFile(Project.find(tmp_path), 12)
    file.path.parent.mkdir()
    file.path.write_bytes(b"# CI Watch State: PR #12\n\n\xff\n")
    with pytest.raises(StorageError, match="line 3: not valid UTF-8"):
        file.load()
