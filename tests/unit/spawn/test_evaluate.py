"""Where a manifest comes from: a file, an agent that has looked, the default."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from cuggino.agents.agent import AgentOptions, AgentResult
from cuggino.commands import allows
from cuggino.config import Config, Spawn
from cuggino.errors import ConfigError, LlmSessionError, LlmSessionErrorKind
from cuggino.events import AgentMessage, Event, Send, SystemMessage, ToolCall
from cuggino.manifest import DEFAULT_TOOLS, SandboxManifest
from cuggino.process.children import Children
from cuggino.project import Project
from cuggino.roles import Role
from cuggino.sandbox.confine import SandboxContext
from cuggino.sandbox.default_manifest import READING_COMMANDS, default_manifest
from cuggino.spawn.context import SpawnContext
from cuggino.spawn.evaluate import TIMEOUT, Evaluation, evaluate, parse_answer, read_manifest
from cuggino.spawn.task import SpawnFiles, Task

GOOD = '{"writablePaths": ["src/**"], "allowedCommands": ["make *"], "complexity": "high"}'


class FakeAgent:
    """Says one thing after another, a run each; an exception is raised, a float is slept."""

    name = "fake"

    def __init__(self, *says: str | float | Exception | tuple[str, ...]) -> None:
        self.says = list(says)
        self.runs: list[AgentOptions] = []
        self.request = ""

    async def spawn(self, options: AgentOptions, send: Send) -> AgentResult:
        self.runs.append(options)
        options.output.write_text("raw")
        self.request = next(options.cwd.glob(".cuggino/spawns/*/request.md")).read_text()
        said = self.says.pop(0)
        if isinstance(said, Exception):
            raise said
        if isinstance(said, float):
            await trio.sleep(said)
            return AgentResult(exit_status=0)
        for part in (said,) if isinstance(said, str) else said:
            await send(ToolCall(id="1", name="Read") if part == "(tool)" else AgentMessage(text=part))
        return AgentResult(exit_status=0, session_id="own-name", final_text="the last block")

    def own_name(self, conversation: str) -> str:
        return conversation

    lacks = ""
    login_environment: tuple[str, ...] = ()

    def delete_conversation(self, conversation: str, *, cwd: Path, environment: Mapping[str, str]) -> None:
        """It remembers none."""

    async def interactive(self, options: AgentOptions) -> int:
        raise NotImplementedError


class Evaluated:
    def __init__(self, agent: FakeAgent) -> None:
        self.agent = agent
        self.events: list[Event] = []
        self.manifest = SandboxManifest()
        self.source = ""
        self.prompt = ""

    @property
    def told(self) -> list[str]:
        return [event.text for event in self.events if isinstance(event, SystemMessage)]


@pytest.fixture
def run(tmp_path: Path) -> Callable[..., Any]:
    """`await run(agent, config=…, aisp=…)`."""
    (tmp_path / "Makefile").write_text("")

    async def run(agent: FakeAgent, config: Config = Config(), *, aisp: bool = False) -> Evaluated:  # noqa: B008
        project = Project(tmp_path)
        files = SpawnFiles(project, "0")
        files.folder.mkdir(parents=True, exist_ok=True)
        context = SpawnContext(
            sandboxes=SandboxContext(
                project=project,
                config=config,
                agent=lambda _: agent,
                children=Children(marker="x", force_kill=trio.Event()),
                environment={"HOME": str(tmp_path / "home"), "PATH": "/bin", "GH_TOKEN": "x"},
            ),
            now=lambda: datetime.now(UTC),
            random=Random(0),
            sleep=trio.sleep,
        )
        found = Evaluated(agent)

        async def send(event: Event) -> None:
            found.events.append(event)

        task = Task(prompt="Add a /feature, see @file", agent="claude", aisp=aisp)
        found.manifest, found.source, found.prompt = await evaluate(context, task, files, send)
        assert [path.name for path in files.folder.iterdir()] == ["request.md"], "no raw output stays"
        return found

    return run


# ---- an agent that looks ----------------------------------------------------------------------


async def test_the_agents_answer_is_the_manifest(run: Callable[..., Any]) -> None:
    found = await run(FakeAgent(GOOD))
    assert found.source == "evaluation"
    assert (found.manifest.writable_paths, found.manifest.complexity) == (("src/**",), "high")
    assert found.manifest.allowed_commands[0] == "make *"
    assert found.prompt == "Add a /feature, see @file"


async def test_it_only_reads_and_gets_the_request_as_a_file(run: Callable[..., Any]) -> None:
    agent = FakeAgent(GOOD)
    await run(agent)
    [options] = agent.runs
    assert options.role is Role.EVALUATOR
    assert options.permits is not None
    assert options.permits.manifest.writable_paths == ()
    assert set(options.permits.manifest.allowed_tools) == {"Read", "Glob", "Grep", "Bash"}
    assert all(command.startswith("git ") for command in options.permits.manifest.allowed_commands)
    assert agent.request == "Add a /feature, see @file"
    assert "@file" not in options.prompt + options.system_prompt
    assert "request.md" in options.prompt
    assert options.environment is not None
    assert "GH_TOKEN" not in options.environment


async def test_what_it_says_after_its_last_tool_counts(run: Callable[..., Any]) -> None:
    found = await run(FakeAgent(("I look.", "(tool)", GOOD[:20], GOOD[20:])))
    assert found.manifest.complexity == "high"


async def test_a_bad_answer_is_asked_for_once_more_in_the_same_conversation(run: Callable[..., Any]) -> None:
    agent = FakeAgent("@/etc/passwd: {}", GOOD)
    found = await run(agent)
    assert found.source == "evaluation"
    first, second = agent.runs
    assert first.session_id is not None
    assert (second.session_id, second.resume_session_id) == (None, "own-name")
    assert "not JSON" in second.prompt
    assert "@" not in second.prompt, "it would be replaced by the file"
    assert first.output != second.output
    assert not found.told


@pytest.mark.parametrize(
    "says",
    [
        ("no", "no again"),
        (LlmSessionError("the model is gone", LlmSessionErrorKind.OVERLOADED),),
        ("no", LlmSessionError("it crashed", LlmSessionErrorKind.CRASHED)),
    ],
)
async def test_then_the_default_is_taken_and_it_is_said(run: Callable[..., Any], tmp_path: Path, says: Any) -> None:
    agent = FakeAgent(*says)
    found = await run(agent)
    assert (found.source, found.manifest) == ("default", default_manifest(tmp_path, Config()))
    assert found.prompt == "Add a /feature, see @file"
    assert "default" in found.told[-1]
    assert len(agent.runs) == len(says)


async def test_an_agent_that_is_not_there_is_an_error(run: Callable[..., Any]) -> None:
    with pytest.raises(LlmSessionError, match="not found"):
        await run(FakeAgent(LlmSessionError("not found", LlmSessionErrorKind.SETUP)))


async def test_an_evaluation_without_end_is_ended(run: Callable[..., Any], autojump_clock: MockClock) -> None:
    began = trio.current_time()
    found = await run(FakeAgent(1e9))
    assert trio.current_time() - began == TIMEOUT
    assert found.source == "default"


async def test_a_wish_for_what_nobody_grants_has_no_effect(run: Callable[..., Any]) -> None:
    wish = json.dumps({"secrets": ["env:MINE", "env:OTHER"], "allowedTools": ["Task", "Read"]})
    found = await run(FakeAgent(wish), Config(spawn=Spawn(secrets=("env:MINE",))))
    assert found.manifest.secrets == ("env:MINE",)
    assert "env:OTHER" in found.told[-1]


async def test_the_persons_own_commands_are_allowed_whatever_it_answers(run: Callable[..., Any]) -> None:
    found = await run(FakeAgent("{}"), Config(check_command="./check *.py", setup_command="npm ci"))
    assert allows(found.manifest.allowed_commands, "./check *.py")
    assert not allows(found.manifest.allowed_commands, "./check a.py")
    assert allows(found.manifest.allowed_commands, "npm ci")
    assert set(READING_COMMANDS) <= set(found.manifest.allowed_commands)


async def test_aisp_is_the_rewritten_prompt_and_asked_for_only_then(run: Callable[..., Any]) -> None:
    agent = FakeAgent('{"prompt": "⟦Ω⟧"}')
    found = await run(agent, aisp=True)
    assert found.prompt == "⟦Ω⟧"
    assert "AISP" in agent.runs[0].system_prompt
    plain = FakeAgent('{"prompt": "x"}', GOOD)
    assert (await run(plain)).prompt == "Add a /feature, see @file"
    assert "AISP" not in plain.runs[0].system_prompt
    assert len(plain.runs) == 2, "a key that was not asked for is a bad answer"


# ---- decoding ---------------------------------------------------------------------------------


@pytest.mark.parametrize("text", [GOOD, f"  {GOOD}\n", f"```json\n{GOOD}\n```", f"```\n{GOOD}\n```\n"])
def test_an_answer_may_stand_in_a_code_block(text: str) -> None:
    answer = parse_answer(text)
    assert isinstance(answer, Evaluation)
    assert answer.manifest == SandboxManifest(
        writable_paths=("src/**",), allowed_commands=("make *",), complexity="high"
    )


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "is empty"),
        ("Sure! {}", "not JSON"),
        ("{} {}", "not JSON"),
        ("[]", "allowed is an object"),
        ('{"a": 1}', "unknown key"),
        ('{"writablePaths": "src"}', "a list; each item: a path pattern"),
        ('{"writablePaths": [1]}', "a path pattern"),
        ('{"writablePaths": ["/etc"]}', "relative to the repository"),
        ('{"writablePaths": ["a/../../b"]}', "relative to the repository"),
        ('{"readablePaths": ["~/x"]}', "relative to the repository"),
        ('{"allowedTools": ["Bash(ls)"]}', "a tool's name"),
        ('{"allowedCommands": [" "]}', "a command"),
        ('{"environment": {"A": 1}}', "an object of names and values"),
        ('{"environment": []}', "an object of names and values"),
        ('{"secrets": ["sk-12345"]}', "env:NAME"),
        ('{"complexity": "huge"}', "low"),
    ],
)
def test_what_is_wrong_is_said(text: str, words: str) -> None:
    problem = parse_answer(text)
    assert isinstance(problem, str)
    assert words in problem
    with pytest.raises(ConfigError) as caught:
        read_manifest(text.encode(), "m.json")
    assert "m.json" in str(caught.value)


def test_an_answer_without_the_prompt_that_was_asked_for_is_a_bad_one() -> None:
    for text in (GOOD, '{"prompt": ""}', '{"prompt": 1}'):
        assert isinstance(parse_answer(text, aisp=True), str)


def test_a_persons_file_has_all_defaults_of_a_manifest() -> None:
    assert read_manifest(b"{}", "m.json") == SandboxManifest()
    assert read_manifest(b'{"environment": {"CI": "1"}}', "m.json").environment == {"CI": "1"}


# ---- the default ------------------------------------------------------------------------------


def test_the_default_has_everything_in_the_repository_and_git_to_read(tmp_path: Path) -> None:
    manifest = default_manifest(tmp_path, Config())
    assert manifest == SandboxManifest(allowed_commands=READING_COMMANDS)
    assert (manifest.readable_paths, manifest.writable_paths) == (("**",), ("**",))
    assert manifest.allowed_tools == DEFAULT_TOOLS
    for command in ("git status", "git log --oneline -5", "git diff HEAD~1 -- a"):
        assert allows(manifest.allowed_commands, command)
    for command in ("git commit -m x", "git push", "git branch -D x", "git checkout x", "git config a b", "rm x"):
        assert not allows(manifest.allowed_commands, command)


@pytest.mark.parametrize(
    ("file", "command"),
    [
        ("pyproject.toml", "uv run pytest -q"),
        ("pyproject.toml", "pytest tests"),
        ("setup.cfg", "python -m pytest"),
        ("package.json", "npm test"),
        ("package.json", "npm run build"),
        ("pnpm-lock.yaml", "pnpm test"),
        ("Makefile", "make check"),
        ("GNUmakefile", "make"),
        ("justfile", "just test"),
        ("Cargo.toml", "cargo test --all"),
        ("go.mod", "go test ./..."),
        ("build.gradle.kts", "./gradlew test"),
    ],
)
def test_the_usual_commands_of_the_files_that_are_there(tmp_path: Path, file: str, command: str) -> None:
    assert not allows(default_manifest(tmp_path, Config()).allowed_commands, command)
    (tmp_path / file).write_text("")
    assert allows(default_manifest(tmp_path, Config()).allowed_commands, command)
    assert not allows(default_manifest(tmp_path, Config()).allowed_commands, "npm publish")


def test_the_configured_commands_are_in_it_exactly(tmp_path: Path) -> None:
    config = Config(setup_command="uv sync", check_command="just check && ls *.py", validate_command="./v")
    manifest = default_manifest(tmp_path, config)
    for command in ("uv sync", "just check && ls *.py", "./v"):
        assert allows(manifest.allowed_commands, command)
        assert not allows(manifest.allowed_commands, f"{command} x")
