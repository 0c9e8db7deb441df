"""`watch --jobs`, `spawn` and `ci watch` confine their agents in the same way. git is real; agents are functions."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from random import Random

import msgspec
import pytest
import trio

from cuggino.agents.activity_timeout import ActivityLimits
from cuggino.agents.agent import AgentOptions, AgentResult
from cuggino.agents.prompts import fill
from cuggino.backlog import Item, read_item
from cuggino.clock import uuid7
from cuggino.config import Config
from cuggino.errors import LoopError
from cuggino.events import AgentMessage, Approved, Done, Event, PlanComplete, Send, SpawnCompleted, SystemMessage
from cuggino.loop.context import LoopContext
from cuggino.manifest import SandboxManifest
from cuggino.process.children import Children
from cuggino.roles import Role
from cuggino.sandbox.confine import SandboxContext, confine
from cuggino.sandbox.provision import provision
from cuggino.spawn.context import SpawnContext
from cuggino.spawn.spawn import Spawn
from cuggino.spawn.task import SpawnFiles, SpawnRecord, Task
from cuggino.watch.intervals import WatchIntervals
from cuggino.watch.places.sandbox import InSandbox
from tests.process.sandbox.person import Person, git
from tests.unit.stage import PromptCommands, StillRepository, Troupe

KEY = "sk-login-of-the-agent"
WorkIn = Callable[[Path], Awaitable[None]]


class Agent:
    """An agent for all roles: it prints its login, calls `work`, and stores its conversations."""

    name = "fake"
    lacks = ""
    login_environment = ("FAKE_*",)

    def __init__(self, work: WorkIn) -> None:
        self.work = work
        self.conversations: set[str] = set()
        self.ran: list[AgentOptions] = []

    async def spawn(self, options: AgentOptions, send: Send) -> AgentResult:
        self.ran.append(options)
        if options.session_id is not None:
            self.conversations.add(f"own-{options.session_id}")
        await send(AgentMessage(text=f"My login is {KEY}."))
        if options.role in (Role.IMPLEMENTER, Role.WORKER):
            await self.work(options.cwd)
        if options.role is Role.PLANNER:
            options.writable[0].write_text("# Plan\n")
        markers = {Role.PLANNER: PlanComplete, Role.IMPLEMENTER: Done, Role.REVIEWER: Approved}
        if options.role in markers:
            await send(markers[options.role](content="yes"))
        return AgentResult(exit_status=0, final_text=f"It is done with {KEY}.")

    def own_name(self, conversation: str) -> str:
        return f"own-{conversation}"

    def delete_conversation(self, conversation: str, *, cwd: Path, environment: Mapping[str, str]) -> None:
        assert cwd.is_absolute()
        assert environment["FAKE_KEY"] == KEY
        self.conversations.discard(conversation if conversation.startswith("own-") else f"own-{conversation}")

    async def interactive(self, options: AgentOptions) -> int:
        raise NotImplementedError


def sandboxes(person: Person, agent: Agent, config: Config | None = None) -> SandboxContext:
    return SandboxContext(
        project=person.project,
        config=msgspec.structs.replace(config or Config(), spawn=person.config().spawn),
        agent=lambda _: agent,
        children=Children(marker=uuid7().replace("-", ""), force_kill=trio.Event()),
        environment={"PATH": "/usr/bin:/bin", "HOME": str(person.top), "FAKE_KEY": KEY, "FAKE_URL": "http://x"},
    )


async def writes_the_login(root: Path) -> None:
    (root / "kept").write_text(f"{KEY}\n")


async def writes(root: Path) -> None:
    (root / "kept").write_text("better\n")


class Sent(list[Event]):
    async def __call__(self, event: Event) -> None:
        self.append(event)


async def work_on_an_item(person: Person, agent: Agent, sent: Sent) -> None:
    """Work on an item as `watch --jobs` does."""
    person.project.prepare()
    (person.project.backlog / "a.md").write_text("Make it better.")
    item = read_item(person.project, "a.md")
    assert isinstance(item, Item)
    context = sandboxes(person, agent)
    place = InSandbox(context, WatchIntervals())
    loop = LoopContext(
        project=person.project,
        config=context.config,
        agent=context.agent,
        commands=PromptCommands(),
        git=StillRepository(Troupe()),
        now=lambda: datetime.now(UTC),
        random=Random(0),
    )
    await (await place.work(loop, item, lambda _: sent)).clean_up()


async def spawn(person: Person, agent: Agent, sent: Sent, config: Config | None = None, **task: float) -> int:
    """Work on a task as `spawn --integrate merge` does, with a manifest."""
    person.project.prepare()
    record = SpawnRecord(
        id=uuid7(),
        task=Task(prompt="Make it better", agent="scripted", integrate="merge", **task),  # type: ignore[arg-type]
        started_at=datetime.now(UTC),
        prompt="Make it better",
    )
    SpawnFiles(person.project, record.id).create()
    context = SpawnContext(
        sandboxes=sandboxes(person, agent, config),
        now=lambda: datetime.now(UTC),
        random=Random(0),
        sleep=trio.sleep,
    )
    return await Spawn(context, record, sent, lambda: 130).run(SandboxManifest())


def shown(sent: Sent, person: Person) -> str:
    kept = [path.read_text(errors="replace") for path in person.project.spawns.rglob("*") if path.is_file()]
    return "\n".join([*map(repr, sent), *kept])


@pytest.mark.parametrize("command", ["jobs", "spawn"])
async def test_the_agents_login_is_redacted_and_must_not_be_in_a_commit(person: Person, command: str) -> None:
    agent, sent = Agent(writes_the_login), Sent()
    if command == "jobs":
        with pytest.raises(LoopError, match="A secret is in its commits"):
            await work_on_an_item(person, agent, sent)
    else:
        assert await spawn(person, agent, sent) == 1
        assert isinstance(sent[-1], SpawnCompleted)
        assert "A secret is in its commits" in shown(sent, person)
    assert "My login is ***" in shown(sent, person)
    assert KEY not in shown(sent, person)
    assert (person.root / "kept").read_text() == "as it was\n"


async def test_jobs_and_spawn_leave_no_conversation(person: Person) -> None:
    agent = Agent(writes)
    await work_on_an_item(person, agent, Sent())
    assert {options.role for options in agent.ran} == {Role.PLANNER, Role.IMPLEMENTER, Role.REVIEWER}
    assert agent.conversations == set()
    assert (person.root / "kept").read_text() == "better\n"
    (person.root / "kept").write_text("as it was\n")
    git(person.top, "commit", "-qam", "back")
    assert await spawn(person, agent, Sent()) == 0
    assert agent.conversations == set()


async def test_a_watched_run_leaves_no_conversation_and_no_output(person: Person) -> None:
    agent = Agent(writes)
    context = sandboxes(person, agent)
    sandbox = await provision(person.project, context.config)
    confinement = await confine(context, sandbox, SandboxManifest(), foreign=True)
    prompt = fill(Role.WORKER, {"task": "Do it", "specs": "", "check": ""})
    run = await confinement.run(Role.WORKER, prompt, ActivityLimits(idle=60, total=60), Sent())
    assert run.words == "It is done with ***."
    assert (agent.ran[0].foreign, agent.conversations) == (True, set())
    assert list(confinement.outputs.glob(".*")) == []


async def test_a_stopped_repair_of_a_spawn_names_the_option_of_spawn(person: Person) -> None:
    async def conflicts(root: Path) -> None:
        if len(agent.ran) > 1:
            await trio.sleep_forever()
        (root / "kept").write_text("theirs\n")
        (person.root / "kept").write_text("mine\n")
        git(person.top, "commit", "-qam", "mine")

    agent, sent = Agent(conflicts), Sent()
    assert await spawn(person, agent, sent, idle_timeout=0.5) == 1
    texts = [event.text for event in sent if isinstance(event, SystemMessage)]
    assert "The repair was stopped: it was silent for 0.5 s (--idle-timeout)" in texts


async def test_a_setup_commands_process_lives_as_long_as_the_task(person: Person) -> None:
    """The same in `ci`: tests/process/ci/test_agents.py."""

    async def looks(root: Path) -> None:
        assert Path(f"/proc/{(root / 'pid').read_text().strip()}").exists()
        (root / "kept").write_text("better\n")

    config = Config(setup_command="sleep 600 & echo $! > pid")
    assert await spawn(person, Agent(looks), Sent(), config) == 0
    pid = (person.root / "pid").read_text().strip()
    assert not Path(f"/proc/{pid}").exists()
