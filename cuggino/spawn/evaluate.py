"""Find the manifest of a task: from a person's file, from an agent that has read the task, or the default.

The evaluating agent is read-only, by a manifest of its own. Its answer is a request: whatever exceeds the bounds has
no effect.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Literal, TypeAlias
from uuid import uuid4

import msgspec
import trio
from msgspec import Meta

from cuggino import strict_json
from cuggino.agents.agent import Agent, AgentOptions
from cuggino.agents.exit_report import delete_output
from cuggino.agents.prompts import Prompt, fill
from cuggino.config import Config
from cuggino.errors import ConfigError, LlmSessionError, LlmSessionErrorKind
from cuggino.events import AgentMessage, Event, Send, SystemMessage, ToolCall
from cuggino.files import write_atomic
from cuggino.manifest import DEFAULT_TOOLS, Permits, SandboxManifest
from cuggino.roles import Role
from cuggino.sandbox.default_manifest import READING_COMMANDS, configured, default_manifest
from cuggino.sandbox.environment import build_environment
from cuggino.spawn.context import SpawnContext
from cuggino.spawn.task import SpawnFiles, Task

Source: TypeAlias = Literal["file", "evaluation", "default"]

TIMEOUT = 300.0
"""Seconds for the evaluation; then the default manifest is used."""

_Pattern = Annotated[
    str,
    Meta(
        pattern=r"\A(?![/~!#])(?!(?:.*/)?\.\.(?:/|\Z))[^\0]*[^\s\0][^\0]*\Z",
        description='a path pattern, relative to the repository, such as "src/**"',
    ),
]
_Tool = Annotated[str, Meta(pattern=r"\A\w[\w-]*\Z", description='a tool\'s name, such as "Bash"')]
_Command = Annotated[str, Meta(pattern=r"\A[^\0]*[^\s\0][^\0]*\Z", description='a command, such as "npm run *"')]
_Secret = Annotated[
    str, Meta(pattern=r"\A(env:[A-Za-z_]\w*|file:[^\0]*[^\s\0][^\0]*)\Z", description='"env:NAME" or "file:PATH"')
]
_Variables = Annotated[dict[str, str], Meta(description="an object of names and values")]


class _ManifestFile(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """A manifest that a person or an agent wrote; every value is checked."""

    readable_paths: tuple[_Pattern, ...] = ("**",)
    writable_paths: tuple[_Pattern, ...] = ("**",)
    allowed_tools: tuple[_Tool, ...] = DEFAULT_TOOLS
    allowed_commands: tuple[_Command, ...] = ()
    environment: _Variables = {}
    secrets: tuple[_Secret, ...] = ()
    complexity: Literal["low", "medium", "high"] = "medium"

    @property
    def manifest(self) -> SandboxManifest:
        names = SandboxManifest.__struct_fields__
        return SandboxManifest(**{name: getattr(self, name) for name in names})


class _AnswerWithPrompt(_ManifestFile, frozen=True, kw_only=True):
    prompt: Annotated[str, Meta(description="the task in AISP notation")] = ""


class Evaluation(msgspec.Struct, frozen=True):
    """A valid answer. `prompt` is None if it was not asked for."""

    manifest: SandboxManifest
    prompt: str | None = None


def read_manifest(data: bytes, where: str) -> SandboxManifest:
    """Return the manifest in a person's file. Raise ConfigError if it is not valid."""
    return strict_json.decode(data, _ManifestFile, where).manifest


def parse_answer(text: str, *, aisp: bool = False) -> Evaluation | str:
    """Return an evaluator's answer, which may be in a code block, or the reason why it is not valid."""
    fenced = re.fullmatch(r"```(?:json)?\s*\n(.*?)\n\s*```", text.strip(), re.DOTALL)
    data = (fenced[1] if fenced else text).encode(errors="replace")
    try:
        if not aisp:
            return Evaluation(strict_json.decode(data, _ManifestFile, "your answer").manifest)
        decoded = strict_json.decode(data, _AnswerWithPrompt, "your answer")
    except ConfigError as error:
        return str(error)
    if not decoded.prompt.strip():
        return "your answer: `prompt` is missing."
    return Evaluation(decoded.manifest, decoded.prompt)


async def evaluate(
    context: SpawnContext, task: Task, files: SpawnFiles, send: Send
) -> tuple[SandboxManifest, Source, str]:
    """Ask an agent which manifest the task needs, and a second time if its answer is not valid.

    Return the manifest, or else the default one, where it is from, and the worker's prompt: the person's own words,
    unless AISP was requested. Raise LlmSessionError if the agent is not installed or not logged in.
    """
    config, root = context.config, context.project.root
    write_atomic(files.request, task.prompt.encode(errors="replace"))
    answer: Evaluation | str = f"it took longer than {TIMEOUT:.0f} s"
    with trio.move_on_after(TIMEOUT):
        try:
            answer = await _ask(context, task, files, send)
        except LlmSessionError as error:
            if error.kind is LlmSessionErrorKind.SETUP:
                raise
            answer = error.message
    if isinstance(answer, str):
        await send(SystemMessage(text=f"The evaluation failed, so the default manifest is used: {answer}"))
        return default_manifest(root, config), "default", task.prompt
    manifest, refused = _grant(answer.manifest, config)
    if refused:
        await send(
            SystemMessage(text=f"The evaluation asked for secrets that spawn.secrets lacks: {', '.join(refused)}")
        )
    return manifest, "evaluation", answer.prompt or task.prompt


async def _ask(context: SpawnContext, task: Task, files: SpawnFiles, send: Send) -> Evaluation | str:
    prompt = _prompt(context.config, files.request, aisp=task.aisp)
    inspecting = SandboxManifest(
        writable_paths=(), allowed_tools=("Read", "Glob", "Grep", "Bash"), allowed_commands=READING_COMMANDS
    )
    conversation = str(uuid4())
    options = AgentOptions(
        role=Role.EVALUATOR,
        cwd=context.project.root,
        prompt=prompt.task,
        output=files.output("evaluator"),
        system_prompt=prompt.standing,
        session_id=conversation,
        model=task.model,
        environment=build_environment(context.agent.login_environment, inspecting, {}, context.sandboxes.environment),
        permits=Permits(manifest=inspecting, bounds=context.sandboxes.bounds),
    )
    try:
        text, conversation = await _run(context.agent, options, send)
        answer = parse_answer(text, aisp=task.aisp)
        if not isinstance(answer, str):
            return answer
        problem = answer.replace("@", "(at)")  # claude would replace `@path` with that file
        second = msgspec.structs.replace(
            options,
            prompt=f"That answer is not valid: {problem}\nAnswer with the JSON object and nothing else.",
            output=files.output("evaluator.again"),
            session_id=None,
            resume_session_id=conversation,
        )
        text, conversation = await _run(context.agent, second, send)
        return parse_answer(text, aisp=task.aisp)
    finally:
        for output in (files.output("evaluator"), files.output("evaluator.again")):
            delete_output(output)
        context.agent.delete_conversation(conversation, cwd=options.cwd, environment=options.environment or {})


async def _run(agent: Agent, options: AgentOptions, send: Send) -> tuple[str, str]:
    """Return the agent's text after its last tool, and its own name of the conversation."""
    texts: list[str] = []

    async def listen(event: Event) -> None:
        if isinstance(event, AgentMessage):
            texts.append(event.text)
        elif isinstance(event, ToolCall):
            texts.clear()
        await send(event)

    result = await agent.spawn(options, listen)
    name = result.session_id or options.session_id or options.resume_session_id or ""
    return "".join(texts) or result.final_text, name


def _prompt(config: Config, request: Path, *, aisp: bool) -> Prompt:
    rewrite = (
        "One more key, `prompt`: the task, rewritten in AISP notation (a formal notation with blocks for meta, types, "
        "rules and goals), without adding or leaving out any requirement.\n"
    )
    values = {
        "request": str(request),
        "secrets": ", ".join(config.spawn.secrets) or "(the list is empty)",
        "extra": ', "prompt": "…"' if aisp else "",
        "aisp": rewrite if aisp else "",
    }
    return fill(Role.EVALUATOR, values)


def _grant(wanted: SandboxManifest, config: Config) -> tuple[SandboxManifest, tuple[str, ...]]:
    """Add the commands that every task may run, and remove the secrets that nobody listed; return those, too."""
    secrets = tuple(secret for secret in wanted.secrets if secret in config.spawn.secrets)
    refused = tuple(secret for secret in wanted.secrets if secret not in secrets)
    commands = (*wanted.allowed_commands, *READING_COMMANDS, *configured(config))
    manifest = msgspec.structs.replace(wanted, secrets=secrets, allowed_commands=tuple(dict.fromkeys(commands)))
    return manifest, refused
