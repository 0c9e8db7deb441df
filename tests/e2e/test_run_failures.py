"""Failures of the provider, the login and the installation: what is retried, and what a person learns."""

from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest
import trio

from cuggino.agents.retry import AFTER_RESET, BACKOFF_FIRST
from cuggino.events import AgentRetry, AgentWaiting, LoopFailed
from tests.e2e.house import bash, claude_house, issue
from tests.e2e.loopback import Fail, Say, Script, bad_key, overloaded, usage_limit

pytestmark = pytest.mark.e2e

RUN = ("run", "--focus", "the work")


# ---- what passes ------------------------------------------------------------------------------


async def test_claudes_own_retries_are_reported(tmp_path: Path, claude_path: Path) -> None:
    with claude_house(tmp_path, claude_path, planner=[[[overloaded(times=1), issue()]]]) as house:
        with trio.fail_after(30):
            finished = await house.run(*RUN, "--json")
        assert finished.code == 4, finished.err
        assert [text for text in house.system_messages if text.startswith("API error 529 (overloaded), attempt 1 of ")]
        assert "AgentRetry" not in finished.names


async def test_beyond_claudes_own_attempts_cuggino_waits_and_resumes_the_conversation(
    tmp_path: Path, claude_path: Path
) -> None:
    script: Script = [[bash("echo half > half.txt")], [overloaded()], [issue()]]  # claude counts the failure as a turn
    with claude_house(tmp_path, claude_path, planner=[script]) as house:
        house.add["CLAUDE_CODE_MAX_RETRIES"] = "0"
        with trio.fail_after(30):
            begun = trio.current_time()
            finished = await house.run(*RUN, "--json")
            assert trio.current_time() - begun > BACKOFF_FIRST
        assert finished.code == 4, finished.err
        [retry] = [event for event in finished.events if isinstance(event, AgentRetry)]
        assert retry.attempt == 1
        assert BACKOFF_FIRST <= retry.delay <= BACKOFF_FIRST * 1.25
        assert "overloaded (529)" in retry.reason
        assert len(house.agents) == 1
        assert "interrupted by a failure" in house.server.requests[-1].users[-1]
        assert finished.names.count("IterationStart") == 1


async def test_a_usage_limit_is_waited_for_until_shortly_after_its_reset(tmp_path: Path, claude_path: Path) -> None:
    resets_at = datetime.now(UTC).replace(microsecond=0) + timedelta(seconds=20)
    with claude_house(tmp_path, claude_path, planner=[[[usage_limit(resets_at)]]]) as house:
        house.add |= {"ANTHROPIC_API_KEY": "", "CLAUDE_CODE_OAUTH_TOKEN": "dummy-token"}
        with trio.fail_after(30):
            async with house.started(*RUN) as running:
                await running.until("AgentWaiting")
                running.process.terminate()
                code, seconds = await running.end()
        assert (code, seconds < 1) == (-15, True)
        [waiting] = [line.event for line in house.logged() if isinstance(line.event, AgentWaiting)]
        assert waiting.until == resets_at + AFTER_RESET
        assert "session limit" in waiting.reason
        assert len(house.server.requests) == 1


# ---- what a person must act on ----------------------------------------------------------------


class Trouble(msgspec.Struct, frozen=True, kw_only=True):
    """`words` are what the message must contain."""

    fail: Fail | None = None
    add: dict[str, str] = {}
    config: dict[str, Any] = {}
    words: tuple[str, ...]


KEY = ("not logged in", "/login", "ANTHROPIC_API_KEY")
LONG = "prompt is too long: 210000 tokens > 200000 maximum"
CREDIT = "Your credit balance is too low to access the Anthropic API. Please go to Plans & Billing to upgrade."

TROUBLES = {
    "a refused key": Trouble(fail=bad_key(), words=(*KEY, "401")),
    "no key": Trouble(add={"ANTHROPIC_API_KEY": ""}, words=(*KEY, "Not logged in")),
    "a key without rights": Trouble(fail=Fail(403, "permission_error", "no"), words=(*KEY, "403")),
    "an unknown model": Trouble(
        fail=Fail(404, "not_found_error", "model: nosuch"),
        config={"model": "nosuch"},
        words=("cannot use this model", "(nosuch)", "`model` in .cuggino.json"),
    ),
    "too much": Trouble(fail=Fail(400, "invalid_request_error", LONG), words=("too long", "smaller focus")),
    "far too much": Trouble(fail=Fail(413, "request_too_large", "large"), words=("too long (413)", "smaller focus")),
    "no credit": Trouble(fail=Fail(400, "invalid_request_error", CREDIT), words=("no credit", "Add credit")),
}


@pytest.mark.parametrize("name", TROUBLES)
async def test_what_a_person_must_fix_ends_the_run_in_seconds_with_advice(
    tmp_path: Path, claude_path: Path, name: str
) -> None:
    trouble = TROUBLES[name]
    script: Script = [[trouble.fail or Say("?")]]
    with claude_house(tmp_path, claude_path, planner=[script], **trouble.config) as house:
        house.add |= trouble.add
        with trio.fail_after(30):
            begun = trio.current_time()
            finished = await house.run(*RUN)
            assert trio.current_time() - begun < 15
        assert finished.code == 1
        assert [word for word in trouble.words if word not in finished.out] == []
        assert "Retry" not in finished.out
        assert "cuggino run --resume" in finished.err
        last = house.logged()[-1].event
        assert isinstance(last, LoopFailed)
        assert last.phase == "planner"
        assert house.left() == []


async def test_a_missing_claude(tmp_path: Path, claude_path: Path) -> None:
    with claude_house(tmp_path, claude_path) as house:
        house.add["PATH"] = "/usr/bin:/bin"
        with trio.fail_after(10):
            finished = await house.run(*RUN)
        assert finished.code == 1
        assert "`claude` was not found in PATH" in finished.out
        assert "npm install -g @anthropic-ai/claude-code" in finished.out


@pytest.mark.skipif(os.geteuid() != 0, reason="only root is refused")
async def test_root_outside_of_a_sandbox(tmp_path: Path, claude_path: Path) -> None:
    with claude_house(tmp_path, claude_path) as house:
        house.add["IS_SANDBOX"] = ""
        with trio.fail_after(10):
            finished = await house.run(*RUN)
        assert finished.code == 1
        assert "cannot be used with root/sudo privileges" in finished.out
        assert "another user" in finished.out
        assert "IS_SANDBOX=1" in finished.out


async def test_a_server_that_is_not_there(tmp_path: Path, claude_path: Path) -> None:
    """cuggino's own retries end, too."""
    with claude_house(tmp_path, claude_path, limits={"retries": 0}) as house:
        house.add |= {"CLAUDE_CODE_MAX_RETRIES": "0", "ANTHROPIC_BASE_URL": "http://127.0.0.1:9"}
        with trio.fail_after(20):
            finished = await house.run(*RUN)
        assert finished.code == 1
        assert "could not reach its provider" in finished.out
        assert "Check the network, and ANTHROPIC_BASE_URL" in finished.out
        assert "tried again" not in finished.out
