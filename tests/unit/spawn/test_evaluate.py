"""Where a manifest comes from: a file, an agent that has read the task, the default."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from typing import Any, TypeAlias

import pytest
import trio
from trio.testing import MockClock

from cuggino.agents.agent import AgentOptions, AgentResult
from cuggino.commands import allows
from cuggino.config import Config, SpawnSettings
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
REQUEST = "Add a /feature, see @file"


class FakeAgent:
    """Answers each run with the next text; it raises an exception, and sleeps for a number of seconds."""

    name = "fake"
    lacks = ""
    login_environment: tuple[str, ...] = ()

    def __init__(self, *answers: str | float | Exception | tuple[str, ...]) -> None:
        self.answers = list(answers)
        self.runs: list[AgentOptions] = []
        self.request = ""

    async def spawn(self, options: AgentOptions, send: Send) -> AgentResult:
        self.runs.append(options)
        options.output.write_text("raw")
        self.request = next(options.cwd.glob(".cuggino/spawns/*/request.md")).read_text()
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        if isinstance(answer, float):
            await trio.sleep(answer)
            return AgentResult(exit_status=0)
        for part in (answer,) if isinstance(answer, str) else answer:
            await send(ToolCall(id="1", name="Read") if part == "(tool)" else AgentMessage(text=part))
        return AgentResult(exit_status=0, session_id="own-name", final_text="the last block")

    def own_name(self, conversation: str) -> str:
        return conversation

    def delete_conversation(self, *_: Any, **__: Any) -> None:
        """It stores none."""

    async def interactive(self, options: AgentOptions) -> int:
        raise NotImplementedError


class Evaluated:
    """What an evaluation returned, and the messages that it sent."""

    def __init__(self) -> None:
        self.manifest = SandboxManifest()
        self.source = self.prompt = ""
        self.messages: list[str] = []

    async def send(self, event: Event) -> None:
        if isinstance(event, SystemMessage):
            self.messages.append(event.text)


Run: TypeAlias = Callable[..., Awaitable[Evaluated]]


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """`await run(agent, config=…, aisp=…)`."""

    async def run(agent: FakeAgent, config: Config = Config(), *, aisp: bool = False) -> Evaluated:  # noqa: B008
        project = Project(tmp_path)
        files = SpawnFiles(project, "0")
        files.folder.mkdir(parents=True, exist_ok=True)
        sandboxes = SandboxContext(
            project=project,
            config=config,
            agent=lambda _: agent,
            children=Children(marker="x", force_kill=trio.Event()),
            environment={"HOME": str(tmp_path / "home"), "PATH": "/bin", "GH_TOKEN": "x"},
        )
        now = datetime.now(UTC)
        context = SpawnContext(sandboxes=sandboxes, now=lambda: now, random=Random(0), sleep=trio.sleep)
        task = Task(prompt=REQUEST, agent="claude", aisp=aisp)
        evaluated = Evaluated()
        evaluated.manifest, evaluated.source, evaluated.prompt = await evaluate(context, task, files, evaluated.send)
        assert [path.name for path in files.folder.iterdir()] == ["request.md"], "no raw output stays"
        return evaluated

    return run


# ---- a read-only agent ------------------------------------------------------------------------


async def test_a_read_only_agent_answers_with_the_manifest(run: Run) -> None:
    agent = FakeAgent(GOOD)
    evaluated = await run(agent)
    assert (evaluated.source, evaluated.prompt) == ("evaluation", REQUEST)
    assert (evaluated.manifest.writable_paths, evaluated.manifest.complexity) == (("src/**",), "high")
    assert evaluated.manifest.allowed_commands[0] == "make *"
    [options] = agent.runs
    assert options.role is Role.EVALUATOR
    assert options.permits is not None
    assert options.permits.manifest.writable_paths == ()
    assert set(options.permits.manifest.allowed_tools) == {"Read", "Glob", "Grep", "Bash"}
    assert all(command.startswith("git ") for command in options.permits.manifest.allowed_commands)
    assert agent.request == REQUEST
    assert "@file" not in options.prompt + options.system_prompt
    assert "request.md" in options.prompt
    assert options.environment is not None
    assert "GH_TOKEN" not in options.environment


async def test_only_the_text_after_the_last_tool_is_the_answer(run: Run) -> None:
    evaluated = await run(FakeAgent(("I look.", "(tool)", GOOD[:20], GOOD[20:])))
    assert evaluated.manifest.complexity == "high"


async def test_an_invalid_answer_is_asked_for_once_more_in_the_same_conversation(run: Run) -> None:
    agent = FakeAgent("@/etc/passwd: {}", GOOD)
    evaluated = await run(agent)
    assert evaluated.source == "evaluation"
    first, second = agent.runs
    assert first.session_id is not None
    assert (second.session_id, second.resume_session_id) == (None, "own-name")
    assert "not JSON" in second.prompt
    assert "@" not in second.prompt, "it would be replaced by the file"
    assert first.output != second.output
    assert not evaluated.messages


@pytest.mark.parametrize(
    "answers",
    [
        ("no", "no again"),
        (LlmSessionError("the model is gone", LlmSessionErrorKind.OVERLOADED),),
        ("no", LlmSessionError("it crashed", LlmSessionErrorKind.CRASHED)),
        (1e9,),
    ],
)
async def test_a_failed_evaluation_is_reported_and_the_default_manifest_is_used(
    run: Run, tmp_path: Path, answers: Any, autojump_clock: MockClock
) -> None:
    agent = FakeAgent(*answers)
    began = trio.current_time()
    evaluated = await run(agent)
    assert (evaluated.source, evaluated.manifest) == ("default", default_manifest(tmp_path, Config()))
    assert evaluated.prompt == REQUEST
    assert "default" in evaluated.messages[-1]
    assert len(agent.runs) == len(answers)
    assert trio.current_time() - began == (TIMEOUT if answers == (1e9,) else 0)


async def test_an_agent_that_is_not_installed_is_an_error(run: Run) -> None:
    with pytest.raises(LlmSessionError, match="not found"):
        await run(FakeAgent(LlmSessionError("not found", LlmSessionErrorKind.SETUP)))


async def test_a_request_for_a_secret_that_nobody_listed_has_no_effect(run: Run) -> None:
    wanted = json.dumps({"secrets": ["env:MINE", "env:OTHER"], "allowedTools": ["Task", "Read"]})
    evaluated = await run(FakeAgent(wanted), Config(spawn=SpawnSettings(secrets=("env:MINE",))))
    assert evaluated.manifest.secrets == ("env:MINE",)
    assert "env:OTHER" in evaluated.messages[-1]


async def test_the_configured_commands_are_allowed_whatever_the_agent_answers(run: Run) -> None:
    evaluated = await run(FakeAgent("{}"), Config(check_command="./check *.py", setup_command="npm ci"))
    assert allows(evaluated.manifest.allowed_commands, "./check *.py")
    assert not allows(evaluated.manifest.allowed_commands, "./check a.py")
    assert allows(evaluated.manifest.allowed_commands, "npm ci")
    assert set(READING_COMMANDS) <= set(evaluated.manifest.allowed_commands)


async def test_only_with_aisp_the_agent_is_asked_to_rewrite_the_prompt(run: Run) -> None:
    agent = FakeAgent('{"prompt": "⟦Ω⟧"}')
    assert (await run(agent, aisp=True)).prompt == "⟦Ω⟧"
    assert "AISP" in agent.runs[0].system_prompt
    plain = FakeAgent('{"prompt": "x"}', GOOD)
    assert (await run(plain)).prompt == REQUEST
    assert "AISP" not in plain.runs[0].system_prompt
    assert len(plain.runs) == 2, "a key that was not asked for makes an answer invalid"


# ---- decoding ---------------------------------------------------------------------------------


@pytest.mark.parametrize("text", [GOOD, f"  {GOOD}\n", f"```json\n{GOOD}\n```", f"```\n{GOOD}\n```\n"])
def test_an_answer_may_be_in_a_code_block(text: str) -> None:
    manifest = SandboxManifest(writable_paths=("src/**",), allowed_commands=("make *",), complexity="high")
    assert parse_answer(text) == Evaluation(manifest)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "is empty"),
        ("Sure! {}", "not JSON"),
        ("{} {}", "not JSON"),
        ("[]", "expected an object"),
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
def test_an_invalid_manifest_is_explained(text: str, words: str) -> None:
    problem = parse_answer(text)
    assert isinstance(problem, str)
    assert words in problem
    with pytest.raises(ConfigError) as caught:
        read_manifest(text.encode(), "m.json")
    assert "m.json" in str(caught.value)


def test_an_answer_without_the_rewritten_prompt_is_invalid() -> None:
    for text in (GOOD, '{"prompt": ""}', '{"prompt": 1}'):
        assert isinstance(parse_answer(text, aisp=True), str)


def test_all_keys_of_a_manifest_file_are_optional() -> None:
    assert read_manifest(b"{}", "m.json") == SandboxManifest()
    assert read_manifest(b'{"environment": {"CI": "1"}}', "m.json").environment == {"CI": "1"}


# ---- the default ------------------------------------------------------------------------------


def test_the_default_allows_the_whole_repository_and_gits_reading_commands(tmp_path: Path) -> None:
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
        *(
            ("pyproject.toml", "uv run pytest -q"),
            ("pyproject.toml", "pytest tests"),
            ("setup.cfg", "python -m pytest"),
        ),
        *(("package.json", "npm test"), ("package.json", "npm run build"), ("pnpm-lock.yaml", "pnpm test")),
        *(("Makefile", "make check"), ("GNUmakefile", "make"), ("justfile", "just test")),
        *(("Cargo.toml", "cargo test --all"), ("go.mod", "go test ./..."), ("build.gradle.kts", "./gradlew test")),
    ],
)
def test_the_default_allows_the_usual_commands_of_the_projects_files(tmp_path: Path, file: str, command: str) -> None:
    assert not allows(default_manifest(tmp_path, Config()).allowed_commands, command)
    (tmp_path / file).write_text("")
    assert allows(default_manifest(tmp_path, Config()).allowed_commands, command)
    assert not allows(default_manifest(tmp_path, Config()).allowed_commands, "npm publish")


def test_the_default_allows_exactly_the_configured_commands(tmp_path: Path) -> None:
    config = Config(setup_command="uv sync", check_command="just check && ls *.py", validate_command="./v")
    manifest = default_manifest(tmp_path, config)
    for command in ("uv sync", "just check && ls *.py", "./v"):
        assert allows(manifest.allowed_commands, command)
        assert not allows(manifest.allowed_commands, f"{command} x")
