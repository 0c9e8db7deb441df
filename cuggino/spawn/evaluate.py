"""What a task's agent may do: from a person's file, from an agent that has looked at the task, or the default.

The agent that looks has only its eyes: a manifest of its own lets it read and nothing else. Its answer is a wish list;
what it wishes beyond the bounds has no effect.
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

LONGEST = 300.0
"""Seconds until the default manifest is taken."""

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
_Variables = Annotated[dict[str, str], Meta(description="an object of names and texts")]


class _Written(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """A manifest as it is written by others, checked piece by piece."""

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


class _WithPrompt(_Written, frozen=True, kw_only=True):
    prompt: Annotated[str, Meta(description="the task in AISP notation")] = ""


class Evaluation(msgspec.Struct, frozen=True):
    """`prompt` is None where none was asked for."""

    manifest: SandboxManifest
    prompt: str | None = None


def read_manifest(data: bytes, where: str) -> SandboxManifest:
    """A person's file; ConfigError if it cannot be taken."""
    return strict_json.decode(data, _Written, where).manifest


def parse_answer(text: str, *, aisp: bool = False) -> Evaluation | str:
    """An evaluator's answer, alone or in a code block; or what is wrong with it."""
    fenced = re.fullmatch(r"```(?:json)?\s*\n(.*?)\n\s*```", text.strip(), re.DOTALL)
    data = (fenced[1] if fenced else text).encode(errors="replace")
    try:
        if not aisp:
            return Evaluation(strict_json.decode(data, _Written, "your answer").manifest)
        decoded = strict_json.decode(data, _WithPrompt, "your answer")
    except ConfigError as error:
        return str(error)
    if not decoded.prompt.strip():
        return "your answer: has no `prompt`."
    return Evaluation(decoded.manifest, decoded.prompt)


async def evaluate(
    context: SpawnContext, task: Task, files: SpawnFiles, send: Send
) -> tuple[SandboxManifest, Source, str]:
    """Ask an agent what the task needs: once more if its answer is no manifest, and then the default is taken.

    Also returned: where the manifest is from, and what the worker is to be told, which is the person's own words but
    for AISP. Raises LlmSessionError if there is no such agent here, or no login.
    """
    config, root = context.config, context.project.root
    write_atomic(files.request, task.prompt.encode(errors="replace"))
    answer: Evaluation | str = f"it took longer than {LONGEST:.0f} s"
    with trio.move_on_after(LONGEST):
        try:
            answer = await _ask(context, task, files, send)
        except LlmSessionError as error:
            if error.kind is LlmSessionErrorKind.SETUP:
                raise
            answer = error.message
    if isinstance(answer, str):
        await send(SystemMessage(text=f"The evaluation gave no manifest, so the default one is used: {answer}"))
        return default_manifest(root, config), "default", task.prompt
    manifest, left_out = _possible(answer.manifest, config)
    if left_out:
        await send(SystemMessage(text=f"The evaluation asked for what is not granted: {', '.join(left_out)}"))
    return manifest, "evaluation", answer.prompt or task.prompt


async def _ask(context: SpawnContext, task: Task, files: SpawnFiles, send: Send) -> Evaluation | str:
    words = _prompt(context.config, files.request, aisp=task.aisp)
    bounds = context.sandboxes.bounds
    inspecting = SandboxManifest(
        writable_paths=(), allowed_tools=("Read", "Glob", "Grep", "Bash"), allowed_commands=READING_COMMANDS
    )
    conversation = str(uuid4())
    options = AgentOptions(
        role=Role.EVALUATOR,
        cwd=context.project.root,
        prompt=words.task,
        output=files.output("evaluator"),
        system_prompt=words.standing,
        session_id=conversation,
        model=task.model,
        environment=build_environment(context.agent.login_environment, inspecting, {}, context.sandboxes.environment),
        permits=Permits(manifest=inspecting, bounds=bounds),
    )
    try:
        said, conversation = await _said(context.agent, options, send)
        answer = parse_answer(said, aisp=task.aisp)
        if not isinstance(answer, str):
            return answer
        shown = answer.replace("@", "(at)")  # with an `@` claude would put a file in its place
        again = msgspec.structs.replace(
            options,
            prompt=f"That cannot be used: {shown}\nAnswer with the JSON object, and with nothing else.",
            output=files.output("evaluator.again"),
            session_id=None,
            resume_session_id=conversation,
        )
        said, conversation = await _said(context.agent, again, send)
        return parse_answer(said, aisp=task.aisp)
    finally:
        for output in (files.output("evaluator"), files.output("evaluator.again")):
            delete_output(output)
        context.agent.delete_conversation(conversation, cwd=options.cwd, environment=options.environment or {})


async def _said(agent: Agent, options: AgentOptions, send: Send) -> tuple[str, str]:
    """What the agent says after its last tool, and its own name of the conversation."""
    said: list[str] = []

    async def listen(event: Event) -> None:
        if isinstance(event, AgentMessage):
            said.append(event.text)
        elif isinstance(event, ToolCall):
            said.clear()
        await send(event)

    result = await agent.spawn(options, listen)
    name = result.session_id or options.session_id or options.resume_session_id or ""
    return "".join(said) or result.final_text, name


def _prompt(config: Config, request: Path, *, aisp: bool) -> Prompt:
    rewriting = (
        "One more key, `prompt`: the task, rewritten in AISP notation (a formal notation with blocks for meta, types, "
        "rules and goals), without adding or leaving out any requirement.\n"
    )
    values = {
        "request": str(request),
        "secrets": ", ".join(config.spawn.secrets) or "(it is empty: there are none)",
        "extra": ', "prompt": "…"' if aisp else "",
        "aisp": rewriting if aisp else "",
    }
    return fill(Role.EVALUATOR, values)


def _possible(wish: SandboxManifest, config: Config) -> tuple[SandboxManifest, tuple[str, ...]]:
    """The wish with what every task may, and without the secrets that nobody grants; and which those are."""
    secrets = tuple(secret for secret in wish.secrets if secret in config.spawn.secrets)
    left_out = tuple(secret for secret in wish.secrets if secret not in secrets)
    commands = (*wish.allowed_commands, *READING_COMMANDS, *configured(config))
    manifest = msgspec.structs.replace(wish, secrets=secrets, allowed_commands=tuple(dict.fromkeys(commands)))
    return manifest, left_out
