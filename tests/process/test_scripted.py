"""The scripted agent's program, started and decoded by its backend."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from cuggino.agents.agent import AgentOptions, MessageEnd, SignOfLife, Text
from cuggino.agents.scripted import BAD_SCRIPT
from cuggino.agents.scripted.backend import ScriptedBackend
from cuggino.errors import LlmSessionErrorKind as Kind
from cuggino.events import (
    AgentMessage,
    Approved,
    Done,
    Event,
    Note,
    PlanComplete,
    SystemMessage,
    ToolCall,
    ToolResult,
    UsageReport,
)
from cuggino.markers import MarkerParser
from cuggino.roles import Role
from tests.unit.decoding import DecodedRun

ROOT = Path(__file__).parent.parent.parent
SECONDS = 20.0


class Stage:
    """A directory in which a script is played."""

    def __init__(self, cwd: Path, script: Path | None) -> None:
        self.cwd = cwd
        self.script = script

    def write(self, *turns: dict[str, Any], role: Role = Role.IMPLEMENTER) -> None:
        assert self.script is not None
        self.script.write_text(json.dumps({role.value: turns}))

    def options(self, role: Role = Role.IMPLEMENTER, **fields: Any) -> AgentOptions:
        fields = {"prompt": "go"} | fields
        return AgentOptions(role=role, cwd=self.cwd, output=self.cwd / "output", **fields)

    def start(self, options: AgentOptions) -> subprocess.Popen[bytes]:
        """Start the program with its prompt, as the leader of a process group."""
        launch = ScriptedBackend().launch(options)
        environment = os.environ | ({} if self.script is None else {"CUGGINO_SCRIPT": str(self.script)})
        process = subprocess.Popen(
            launch.argv,
            cwd=options.cwd,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        assert process.stdin is not None
        process.stdin.write(launch.stdin)
        process.stdin.close()
        process.stdin = None
        return process

    def run(self, role: Role = Role.IMPLEMENTER, **fields: Any) -> Run:
        options = self.options(role, **fields)
        with self.start(options) as process:
            try:
                output, errors = process.communicate(timeout=SECONDS)
            finally:
                process.kill()
        return Run(options, output, errors.decode(), process.returncode)

    def play(self, *steps: dict[str, Any], **fields: Any) -> Run:
        """Play a script of this one turn."""
        self.write({"steps": steps, "times": 0})
        return self.run(**fields)

    @contextmanager
    def playing(self, *steps: dict[str, Any], until: bytes) -> Iterator[subprocess.Popen[bytes]]:
        """Play a script of this one turn until a line contains `until`."""
        self.write({"steps": steps, "times": 0})
        with self.start(self.options()) as process:
            try:
                assert process.stdout is not None
                assert any(until in line for line in process.stdout)
                yield process
            finally:
                process.kill()


class Run(DecodedRun):
    """A run of the program, its markers found."""

    def __init__(self, options: AgentOptions, output: bytes, stderr: str, status: int) -> None:
        self.lines = output.splitlines()
        super().__init__(ScriptedBackend(), self.lines, status, stderr, options)
        self.stderr = stderr
        self.status = status
        events: list[Event] = []
        parser = MarkerParser(options.role.markers)
        for item in self.decoded:
            if isinstance(item, Text):
                events += parser.feed(item.text)
            elif isinstance(item, MessageEnd):
                events += parser.end()
            elif not isinstance(item, SignOfLife):
                events.append(item)
        events += parser.end()
        self.events = [it for it in events if not (isinstance(it, SystemMessage) and "no model" in it.text)]
        """All events except the greeting."""


@pytest.fixture
def stage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Stage:
    monkeypatch.delenv("CUGGINO_SCRIPT", raising=False)
    (tmp_path / "project").mkdir()
    return Stage(tmp_path / "project", tmp_path / "script.json")


def say(text: str | list[str], **fields: Any) -> dict[str, Any]:
    return {"do": "say", "text": text, **fields}


def eventually(condition: Callable[[], object]) -> None:
    """Wait until the condition holds; fail after some seconds."""
    end = time.monotonic() + SECONDS
    while not condition():
        assert time.monotonic() < end, "the condition never held"
        time.sleep(0.01)


def lives(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@contextmanager
def ended(pid: int) -> Iterator[None]:
    """Kill the process after the block."""
    try:
        yield
    finally:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


# ---- which script -----------------------------------------------------------------------------


def test_without_a_script_it_plays_a_tiny_loop(stage: Stage) -> None:
    stage.script = None
    plan = stage.cwd / "plan.md"
    planned = stage.run(Role.PLANNER, writable=(plan,))
    implemented = stage.run(Role.IMPLEMENTER)
    reviewed = stage.run(Role.REVIEWER)
    assert plan.read_text().startswith("# Plan")
    assert (stage.cwd / "scripted-agent.txt").exists()
    assert [type(run.events[-1]) for run in (planned, implemented, reviewed)] == [PlanComplete, Done, Approved]
    assert not [path for path in stage.cwd.rglob("*") if path.name.endswith(".played")]


def test_the_script_of_the_project_is_played_from_any_folder_below_it(stage: Stage) -> None:
    stage.script = None
    (stage.cwd / ".cuggino.json").write_text("{}")
    (stage.cwd / ".cuggino").mkdir()
    (stage.cwd / ".cuggino" / "script.json").write_text('{"implementer": [{"steps": [{"do": "say", "text": "mine"}]}]}')
    stage.cwd = stage.cwd / "below"
    stage.cwd.mkdir()
    assert stage.run().events == [AgentMessage(text="mine")]


def test_it_starts_without_the_libraries_of_the_loop() -> None:
    code = "import sys, cuggino.agents.scripted.program; print([n for n in ('trio', 'cyclopts') if n in sys.modules])"
    assert subprocess.check_output([sys.executable, "-c", code], text=True) == "[]\n"


def test_modules_of_the_project_are_not_taken_for_its_own(stage: Stage) -> None:
    for name in ("msgspec.py", "argparse.py", "cuggino.py"):
        (stage.cwd / name).write_text("raise SystemExit('wrong module')")
    assert stage.play(say("hello")).result.final_text == "hello"


# ---- messages ---------------------------------------------------------------------------------


def test_a_marker_that_is_cut_between_two_blocks_of_a_message_counts(stage: Stage) -> None:
    run = stage.play(say(["done <DO", "NE>a", "ll</DONE> bye"], deltas=3))
    assert run.events == [AgentMessage(text="done"), Done(content="all"), AgentMessage(text="bye")]


def test_a_marker_that_is_cut_between_two_messages_does_not(stage: Stage) -> None:
    run = stage.play(say("<DONE>all"), say("</DONE>"))
    assert run.events == [AgentMessage(text="<DONE>all"), AgentMessage(text="</DONE>")]


def test_a_text_is_streamed_in_pieces_before_it_is_there(stage: Stage) -> None:
    lines = [json.loads(line) for line in stage.play(say("abcdefg", deltas=3)).lines]
    pieces = [line["event"]["delta"]["text"] for line in lines if line.get("event", {}).get("delta", {}).get("text")]
    assert pieces == ["abc", "def", "g"]


def test_quotations_and_subagents_emit_no_markers(stage: Stage) -> None:
    run = stage.play(
        {"do": "quote", "name": "DONE", "text": "no"},
        {"do": "subagent", "text": "<DONE>no</DONE>"},
        {"do": "marker", "name": "NOTE", "text": "yes"},
    )
    assert [event for event in run.events if isinstance(event, (Note, Done))] == [Note(content="yes")]
    assert AgentMessage(text="```\n<DONE>no</DONE>\n```") in run.events


def test_a_line_can_be_of_any_size_and_any_content(stage: Stage) -> None:
    run = stage.play({"do": "big", "size": 2_000_000}, {"do": "raw", "line": "no JSON {writable"})
    assert 2_000_000 in map(len, run.lines)
    assert run.lines[-2] == b"no JSON {writable"
    assert [event for event in run.events if isinstance(event, SystemMessage) and "no JSON" in event.text]


def test_thinking_shows_signs_of_life_unless_it_is_silent(stage: Stage) -> None:
    loud = stage.play({"do": "think", "seconds": 0.1, "every": 0.02})
    silent = stage.play({"do": "think", "seconds": 0.1, "every": 0.02, "silent": True})
    assert len(loud.lines) >= 4
    assert len(silent.lines) == 2  # init and result


# ---- work -------------------------------------------------------------------------------------


def test_files_are_really_written_and_read(stage: Stage) -> None:
    run = stage.play(
        {"do": "write", "path": "new/file", "text": ["one", "two"]},
        {"do": "append", "path": "new/file", "text": "three"},
        {"do": "read", "path": "new/file"},
        {"do": "read", "path": "absent"},
        {"do": "write", "path": "new", "text": "a folder is there"},
    )
    assert (stage.cwd / "new" / "file").read_text() == "one\ntwo\nthree"
    assert [call.name for call in run.calls] == [*("Write", "Edit"), *("Read", "Read"), "Write"]
    assert run.results[2].output == "1\tone\n2\ttwo\n3\tthree"
    assert [result.is_error for result in run.results] == [False, False, False, True, True]


def test_a_command_is_really_run_in_a_session_of_its_own(stage: Stage) -> None:
    session = "'{python}' -c 'import os; print(os.getsid(0))'"
    run = stage.play({"do": "run", "command": f"echo out; echo err >&2; {session}; echo $$; exit 3"})
    call, result = run.events
    assert isinstance(call, ToolCall)
    assert isinstance(result, ToolResult)
    assert (call.name, call.id) == ("Bash", result.id)
    assert result.is_error
    *printed, session, pid = result.output.split("\n")
    assert printed == ["Exit code 3", "out", "err"]
    assert session == pid


def test_a_command_that_leaves_something_behind_is_not_waited_for(stage: Stage) -> None:
    run = stage.play({"do": "run", "command": "sleep 300 & echo $!"})
    result = run.events[1]
    assert isinstance(result, ToolResult)
    with ended(int(result.output)):
        assert lives(int(result.output))


def test_a_tool_can_be_reported_and_denied(stage: Stage) -> None:
    run = stage.play(
        {"do": "tool", "name": "Grep", "input": {"pattern": "x"}, "output": "found"},
        {"do": "tool", "name": "Write", "input": {"file_path": "/y"}, "output": "denied!", "denied": True},
    )
    assert isinstance(run.events[0], ToolCall)
    assert (run.events[0].name, run.events[0].input) == ("Grep", {"pattern": "x"})
    assert [result.is_error for result in run.results] == [False, True]
    assert [(denial.tool, denial.input) for denial in run.result.denials] == [("Write", {"file_path": "/y"})]


# ---- the end ----------------------------------------------------------------------------------


def test_the_result_has_what_the_script_says(stage: Stage) -> None:
    run = stage.play(
        {"do": "usage", "cost": 0.25, "input": 10, "output": 5},
        {"do": "usage", "cost": 0.5, "cacheRead": 7, "cacheCreation": 3},
        {"do": "structured", "value": {"ok": True}},
        say("last"),
        session_id="0199-a",
    )
    result = run.result
    assert result.usage == UsageReport(
        input_tokens=10, output_tokens=5, cache_read_tokens=7, cache_creation_tokens=3, cost_usd=0.75
    )
    assert (result.structured, result.final_text, result.session_id) == ({"ok": True}, "last", "0199-a")


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("overloaded", Kind.OVERLOADED),
        ("rate-limited", Kind.OVERLOADED),
        ("usage-limit", Kind.USAGE_LIMIT),
        ("network", Kind.NETWORK),
        ("no-key", Kind.SETUP),
        ("bad-key", Kind.SETUP),
        ("no-credit", Kind.SETUP),
        ("no-model", Kind.SETUP),
        ("refused", Kind.REFUSED),
        ("too-long", Kind.REFUSED),
        ("execution", Kind.CRASHED),
        ("max-turns", Kind.CRASHED),
        ("unknown-session", Kind.SETUP),
        ("session-in-use", Kind.SETUP),
        ("root", Kind.SETUP),
    ],
)
def test_it_fails_like_claude(stage: Stage, name: str, kind: Kind) -> None:
    run = stage.play(*([say("so far")] if name in ("execution", "max-turns") else []), {"do": "fail", "kind": name})
    assert run.status == 1
    assert run.error.kind is kind


def test_a_usage_limit_says_when_it_resets(stage: Stage) -> None:
    at = stage.play({"do": "fail", "kind": "usage-limit", "resetsAt": 1795296176}).error
    assert at.resets_at == datetime.fromtimestamp(1795296176, UTC)
    soon = stage.play({"do": "fail", "kind": "usage-limit", "resetsIn": 60}).error
    assert soon.resets_at is not None
    assert 0 < (soon.resets_at - datetime.now(UTC)).total_seconds() <= 60


def test_a_spent_budget_is_not_a_failure(stage: Stage) -> None:
    assert stage.play(say("so far"), {"do": "fail", "kind": "max-budget"}).result.exit_status == 1


def test_a_refused_key_is_known_before_it_gives_up(stage: Stage) -> None:
    run = stage.play({"do": "retry", "times": 3, "status": 401, "error": "authentication_failed"}, {"do": "exit"})
    assert run.decoder.failure is not None
    assert run.decoder.failure.kind is Kind.SETUP


@pytest.mark.parametrize(
    ("step", "status"),
    [({"do": "exit"}, 0), ({"do": "exit", "code": 7}, 7), ({"do": "die"}, -9), ({"do": "die", "signal": "ABRT"}, -6)],
)
def test_it_ends_without_a_result(stage: Stage, step: dict[str, Any], status: int) -> None:
    run = stage.play(say("hello"), {"do": "stderr", "text": "oh no"}, step, say("never"))
    assert run.status == status
    assert run.events == [AgentMessage(text="hello")]
    assert run.stderr == "oh no\n"
    assert run.error.kind is Kind.CRASHED


def test_it_may_stay_alive_after_its_result(stage: Stage) -> None:
    with stage.playing(say("bye"), {"do": "result"}, {"do": "hang"}, until=b'"result"') as process:
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(timeout=0.1)
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=SECONDS) == 143


# ---- turns ------------------------------------------------------------------------------------


def test_each_run_plays_the_next_turn_until_nothing_is_left(stage: Stage) -> None:
    stage.write({"steps": [say("one")]}, {"steps": [say("two")]})
    assert [stage.run().events for _ in range(2)] == [[AgentMessage(text="one")], [AgentMessage(text="two")]]
    nothing = stage.run()
    assert nothing.result.exit_status == 0
    assert "no turn left for the implementer" in nothing.result.final_text
    assert "script.json.played" in nothing.result.final_text


def test_a_resumed_conversation_keeps_its_id_and_is_a_condition(stage: Stage) -> None:
    stage.write({"steps": [say("again")], "when": {"resumed": True}}, {"steps": [say("first")]})
    first, again = stage.run(session_id="0199-a"), stage.run(resume_session_id="0199-a")
    assert (first.result.final_text, first.result.session_id) == ("first", "0199-a")
    assert (again.result.final_text, again.result.session_id) == ("again", "0199-a")


@pytest.mark.parametrize("fields", [{"prompt": "fix the bill"}, {"prompt": "go", "system_prompt": "fix the bill"}])
def test_the_content_of_the_prompt_is_a_condition(stage: Stage, fields: dict[str, Any]) -> None:
    stage.write({"steps": [say("bill")], "when": {"contains": "the bill"}, "times": 0}, {"steps": [say("else")]})
    assert stage.run(**fields).events == [AgentMessage(text="bill")]
    assert stage.run().events == [AgentMessage(text="else")]


def test_a_prompt_may_be_of_any_size(stage: Stage) -> None:
    stage.write({"steps": [say("read")], "when": {"contains": "end of it"}})
    assert stage.run(prompt="x" * 5_000_000 + "end of it").events == [AgentMessage(text="read")]


@pytest.mark.parametrize(("retake", "then"), [(False, "next"), (True, "first")])
def test_an_interrupted_turn_is_played_again_only_if_it_says_so(stage: Stage, retake: bool, then: str) -> None:
    first = [say("first"), {"do": "run", "command": "until test -e again; do sleep 0.01; done"}]
    stage.write({"steps": first, "retake": retake}, {"steps": [say("next")]})
    with stage.start(stage.options()) as process:
        assert process.stdout is not None
        assert any(b"until test" in line for line in process.stdout)
        process.kill()
    (stage.cwd / "again").touch()
    assert stage.run().events[0] == AgentMessage(text=then)
    assert stage.run().events[0] != AgentMessage(text="first")


def test_two_that_start_at_once_play_different_turns(stage: Stage) -> None:
    stage.write(*({"steps": [say(str(number))]} for number in range(4)))
    starts = [stage.start(stage.options()) for _ in range(4)]
    said = set()
    for process in starts:
        with process:
            output, _ = process.communicate(timeout=SECONDS)
        said.add(json.loads(output.splitlines()[-1])["result"])
    assert said == {"0", "1", "2", "3"}


def test_git_ignores_the_record_of_played_turns(stage: Stage) -> None:
    subprocess.run(["git", "init", "-q", "."], cwd=stage.cwd, check=True)
    stage.script = stage.cwd / "script.json"
    stage.write({"steps": [say("hello")]})
    stage.run()
    assert (stage.cwd / "script.json.played").is_dir()
    status = subprocess.check_output(
        ["git", "status", "--porcelain", "--untracked-files=all"], cwd=stage.cwd, text=True
    )
    assert status == "?? script.json\n"


@pytest.mark.parametrize(
    ("script", "words"),
    [
        ('{"implementer": [{"steps": [{"do": "sya"}]}]}', "$.implementer[0].steps[0].do"),
        ('{"implementer": [{"steps": [{"do": "write", "path": "{writable}", "text": ""}]}]}', "{writable}"),
        ('{"implementer": [{"steps": [{"do": "replay", "file": "absent.jsonl"}]}]}', "absent.jsonl"),
        (None, "script.json"),
    ],
)
def test_a_script_that_cannot_be_played_is_an_error_of_the_setup(stage: Stage, script: str | None, words: str) -> None:
    if script is not None:
        assert stage.script is not None
        stage.script.write_text(script)
    run = stage.run()
    assert run.status == BAD_SCRIPT
    assert run.error.kind is Kind.SETUP
    assert words in run.error.message


def test_the_example_of_the_documentation_plays(stage: Stage) -> None:
    assert stage.script is not None
    document = (ROOT / "docs" / "scripted-agent.md").read_text(encoding="utf-8")
    stage.script.write_text(document.partition("```jsonc\n")[2].partition("```")[0])
    plan = stage.cwd / "plan.md"
    assert PlanComplete(content="") in stage.run(Role.PLANNER, writable=(plan,)).events
    assert plan.read_text() == "# Plan\n1. Say hello.\n"
    assert [stage.run().error.kind for _ in range(2)] == [Kind.OVERLOADED] * 2
    assert [event for event in stage.run().events if isinstance(event, (Note, Done))] == [
        Note(content="In English."),
        Done(content="Say hello"),
    ]
    assert Approved(content="") in stage.run(Role.REVIEWER).events


# ---- signals ----------------------------------------------------------------------------------


def test_sigint_during_a_command_ends_it_like_claude(stage: Stage) -> None:
    """A rejected tool, an errored result, exit 1; the command continues."""
    run = {"do": "run", "command": "echo $$ > pid; exec sleep 300"}
    with stage.playing(run, until=b'"tool_use"') as process:
        eventually(lambda: (stage.cwd / "pid").exists() and (stage.cwd / "pid").read_text())
        pid = int((stage.cwd / "pid").read_text())
        with ended(pid):
            process.send_signal(signal.SIGINT)
            assert process.stdout is not None
            lines = [json.loads(line) for line in process.stdout]
            assert process.wait(timeout=SECONDS) == 1
            assert lives(pid)
    assert [line["message"]["content"][0].get("is_error") for line in lines if line["type"] == "user"] == [True, None]
    assert lines[-1]["subtype"] == "error_during_execution"


def test_sigint_may_end_it_later_with_another_code_and_without_a_result(stage: Stage) -> None:
    how = {"do": "on-interrupt", "after": 0.2, "code": 0, "result": False}
    with stage.playing(how, say("now"), {"do": "hang"}, until=b"message_stop") as process:
        begin = time.monotonic()
        process.send_signal(signal.SIGINT)
        assert process.stdout is not None
        assert process.stdout.read() == b""
        assert process.wait(timeout=SECONDS) == 0
        assert time.monotonic() - begin > 0.19


@pytest.mark.parametrize(("number", "status"), [(signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_other_signals_end_it_at_once_and_silently(stage: Stage, number: signal.Signals, status: int) -> None:
    with stage.playing(say("now"), {"do": "hang"}, until=b"message_stop") as process:
        process.send_signal(number)
        assert process.stdout is not None
        assert process.stdout.read() == b""
        assert process.wait(timeout=SECONDS) == status


def test_signals_can_be_ignored(stage: Stage) -> None:
    ignore = {"do": "ignore-signals"}
    with stage.playing(ignore, say("now"), {"do": "hang"}, until=b"message_stop") as process:
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            process.send_signal(number)
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(timeout=0.2)


def test_an_interruption_between_two_steps_is_not_lost(stage: Stage) -> None:
    """A signal that comes while a line is printed waits for the end of the line."""
    with stage.playing(*(say("x" * 1000, deltas=200) for _ in range(200)), until=b"message_start") as process:
        process.send_signal(signal.SIGINT)
        assert process.stdout is not None
        lines = [json.loads(line) for line in process.stdout]
        assert process.wait(timeout=SECONDS) == 1
    assert lines[-1]["subtype"] == "error_during_execution"


# ---- processes that it leaves behind ----------------------------------------------------------


STRAYS = [(), ("setsid",), ("doubleFork",), ("emptyEnvironment",), ("setsid", "doubleFork", "ignoreSignals")]


@pytest.mark.parametrize("flags", STRAYS)
def test_a_process_outlives_it(stage: Stage, flags: tuple[str, ...]) -> None:
    run = stage.play({"do": "leave", "pids": "pids"} | dict.fromkeys(flags, True))
    assert run.status == 0
    pid = int((stage.cwd / "pids").read_text())
    with ended(pid):
        assert lives(pid)
        if "ignoreSignals" in flags:
            os.kill(pid, signal.SIGTERM)
            ignored = re.search(r"SigIgn:\s*(\w+)", Path(f"/proc/{pid}/status").read_text())
            assert ignored is not None
            assert int(ignored[1], 16) & (1 << (signal.SIGTERM - 1))
            assert lives(pid)
        if flags == ("setsid",):
            assert os.getsid(pid) == pid
        if "emptyEnvironment" in flags:
            eventually(lambda: b"sleep" in Path(f"/proc/{pid}/cmdline").read_bytes())
            assert Path(f"/proc/{pid}/environ").read_bytes() == b""


def test_a_chain_keeps_forking_and_ends_by_itself(stage: Stage) -> None:
    stage.play({"do": "chain", "pids": "pid", "pause": 0.01, "seconds": 1.0})
    pid = stage.cwd / "pid"

    def link() -> int:
        return int(pid.read_text().strip() or 0) if pid.exists() else 0

    eventually(link)
    first = link()
    eventually(lambda: link() not in (0, first))

    def at_rest() -> bool:
        last = link()
        time.sleep(0.05)
        return last == link() and not lives(last)

    eventually(at_rest)


# ---- recordings and people --------------------------------------------------------------------


def test_a_recording_is_played_as_it_is(stage: Stage) -> None:
    recorded = stage.play(say("<NOTE>from a recording</NOTE>"))
    (stage.cwd / "recording.jsonl").write_bytes(b"\n".join(recorded.lines) + b"\n")
    replayed = stage.play({"do": "replay", "file": "recording.jsonl"}, say("never"))
    assert replayed.lines == recorded.lines
    assert replayed.events == [Note(content="from a recording")]
    assert replayed.status == 0


def test_a_recording_can_keep_its_time_and_fails_without_a_result(stage: Stage) -> None:
    lines = [{"type": "user", "timestamp": f"2026-01-01T00:00:00.{ms:03}Z"} for ms in (0, 300)]
    (stage.cwd / "recording.jsonl").write_text("\n".join(map(json.dumps, lines)))
    begin = time.monotonic()
    assert stage.play({"do": "replay", "file": "recording.jsonl", "timing": True}).status == 1
    assert time.monotonic() - begin > 0.3
    assert stage.play({"do": "replay", "file": "recording.jsonl", "code": 5}).status == 5


def test_with_a_person_it_prints_plain_text(stage: Stage) -> None:
    assert stage.script is not None
    stage.script.write_text(
        '{"interactive": [{"steps": [{"do": "say", "text": "hello"}, {"do": "run", "command": "true"}],'
        ' "when": {"contains": "me"}}]}'
    )
    launch = ScriptedBackend().launch_interactive(stage.options(Role.PLANNER, prompt="--it is me"))
    environment = os.environ | {"CUGGINO_SCRIPT": str(stage.script)}
    output = subprocess.check_output(launch.argv, cwd=stage.cwd, env=environment, stdin=subprocess.DEVNULL, text=True)
    assert output == "hello\n▶ Bash\n"
