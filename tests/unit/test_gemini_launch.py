"""How gemini is started, and what its policy says that it may do."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cuggino.agents.gemini import GeminiBackend
from cuggino.agents.gemini.policy import policy
from cuggino.manifest import Bounds, Permits, SandboxManifest
from cuggino.roles import Role
from tests.unit.launching import changed, flag

BASE = ("gemini", "--output-format", "stream-json", "--skip-trust")


def launch(**changes: object) -> tuple[str, ...]:
    return GeminiBackend().launch(changed(**changes)).argv


def stdin(**changes: object) -> str:
    return GeminiBackend().launch(changed(**changes)).stdin.decode()


# ---- the command line -------------------------------------------------------------------------


def test_a_writing_role_may_do_everything_when_asked() -> None:
    assert launch() == (*BASE, "--approval-mode", "yolo")
    assert launch(skip_permissions=False) == BASE


def test_a_new_conversation_has_an_id_and_the_system_prompt_before_the_prompt() -> None:
    assert flag(launch(session_id="an-id"), "--session-id") == "an-id"
    assert "--session-id" not in launch(session_id="other", resume_session_id="an-id")
    assert stdin(system_prompt="You implement.", prompt="Go.").startswith("You implement.\n\n")
    assert stdin(system_prompt="/help", prompt="Go.").startswith("Your task:\n/help\n\n")
    assert stdin(system_prompt="You implement.", prompt="Go.").endswith("\n\nGo.")


def test_a_resumed_conversation_does_not_get_its_instructions_again() -> None:
    assert stdin(resume_session_id="an-id", system_prompt="You implement.", prompt="Go on.") == "Go on."


def test_a_folder_outside_is_added_to_those_in_which_it_works() -> None:
    argv = launch(writable=(Path("/elsewhere/wip/a.md"), Path("/elsewhere/wip/b.md"), Path("notes.md")))
    assert [argv[n + 1] for n, word in enumerate(argv) if word == "--include-directories"] == ["/elsewhere/wip"]


def test_interactive_has_the_persons_own_permissions() -> None:
    options = changed(prompt="--go", system_prompt="You plan.", model="m", session_id="an-id")
    started = GeminiBackend().launch_interactive(options)
    assert started.argv == (
        *("gemini", "--model", "m", "--session-id", "an-id"),
        "--prompt-interactive=You plan.\n\n--go",
    )
    assert GeminiBackend().launch_interactive(changed(prompt="")).argv == ("gemini",)


def test_interactive_with_folders_asks_about_every_change() -> None:
    argv = GeminiBackend().launch_interactive(changed(prompt="", writable=(Path("specs"),))).argv
    assert argv == ("gemini", "--approval-mode", "default")


def test_a_foreign_project_is_not_trusted_and_says_nothing_about_the_provider(tmp_path: Path) -> None:
    (tmp_path / ".gemini").mkdir()
    (tmp_path / ".gemini" / ".env").write_text("GOOGLE_GEMINI_BASE_URL=http://evil\nGEMINI_API_KEY=theirs\n")
    (tmp_path / ".env").write_text("# DB\nDATABASE_URL=x\nexport https_proxy = http://evil\n")
    options = changed(cwd=tmp_path, foreign=True, environment={"GEMINI_API_KEY": "mine"})
    assert GeminiBackend().launch(options).environment == {
        "GEMINI_CLI_TRUST_WORKSPACE": "false",
        "GOOGLE_GEMINI_BASE_URL": "",
        "https_proxy": "",
    }
    assert GeminiBackend().launch(changed(cwd=tmp_path)).environment == {}


# ---- the policy -------------------------------------------------------------------------------


class Rules:
    """A policy, asked as gemini asks it: the matching rule of the highest priority decides."""

    def __init__(self, **changes: object) -> None:
        text = policy(changed(**changes))
        assert text is not None
        self._rules: list[dict[str, Any]] = tomllib.loads(text)["rule"]
        self.patterns = [rule["argsPattern"] for rule in self._rules if "argsPattern" in rule]

    def allow(self, tool: str, *, writes: bool = False, **arguments: str) -> bool:
        """`writes`: gemini has seen that the command is redirected."""
        pairs = (f"\0{msgspec.json.encode(k).decode()}:{_json(v)}\0" for k, v in sorted(arguments.items()))
        stringified = "{" + ",".join(pairs) + "}"
        for rule in sorted(self._rules, key=lambda rule: -rule["priority"]):
            if rule["toolName"] not in ([tool], ["*"]) and tool not in rule["toolName"]:
                continue
            if "argsPattern" in rule and not re.search(rule["argsPattern"], stringified):
                continue
            if "argsPattern" in rule and tool == "run_shell_command" and rule["decision"] == "allow":
                return bool(rule.get("allowRedirection")) or not writes
            return bool(rule["decision"] == "allow")
        raise AssertionError("no rule is for all")


def _json(text: str) -> str:
    return msgspec.json.encode(text).decode()


@pytest.mark.parametrize("role", [Role.REVIEWER, Role.AUDIT])
def test_a_read_only_role_reads_and_runs_commands(role: Role) -> None:
    rules = Rules(role=role)
    assert rules.allow("read_file", file_path="/far/away")
    assert rules.allow("run_shell_command", command="rm -rf build > log", description="x")
    assert not rules.allow("write_file", file_path="review.md", content="x")
    assert not rules.allow("replace", file_path="review.md")
    assert not rules.allow("a_tool_of_the_next_version")
    assert not rules.allow("invoke_agent", agent_name="generalist")


def test_a_read_only_role_may_write_exactly_what_it_is_given() -> None:
    rules = Rules(role=Role.REVIEWER, writable=(Path("/project/.cuggino/wip/u (1).review.md"),))
    for name in (
        "/project/.cuggino/wip/u (1).review.md",
        ".cuggino/wip/u (1).review.md",
        "./.cuggino/wip/u (1).review.md",
    ):
        assert rules.allow("write_file", file_path=name, content="x")
        assert rules.allow("replace", file_path=name, new_string="x")
    for name in (
        "x.cuggino/wip/u (1).review.md",
        ".cuggino/wip/u (1).review.md2",
        ".cuggino/wip/u (1)_review.md",
        "a.py",
    ):
        assert not rules.allow("write_file", file_path=name, content="x")


def test_what_is_written_cannot_look_like_a_path() -> None:
    rules = Rules(role=Role.REVIEWER, writable=(Path("r.md"),))
    assert not rules.allow("write_file", file_path="a.py", content='\0"file_path":"r.md"\0')


def test_the_policy_is_a_private_file_beside_the_output(tmp_path: Path) -> None:
    options = changed(cwd=tmp_path, output=tmp_path / "1.out", role=Role.REVIEWER)
    launch = GeminiBackend().launch(options)
    assert launch.argv == (*BASE, "--approval-mode", "default", "--policy", str(tmp_path / "1.out.toml"))
    assert launch.files == {tmp_path / "1.out.toml": policy(options)}


def permitted(**manifest: Any) -> Rules:
    bounds = Bounds(commands=("sudo", "git push"))
    return Rules(permits=Permits(manifest=SandboxManifest(**manifest), bounds=bounds))


def test_a_manifest_says_which_tools_exist() -> None:
    rules = permitted(allowed_tools=("Read", "Task", "WebFetch", "own_tool"))
    assert rules.allow("read_file", file_path="a")
    assert rules.allow("web_fetch", prompt="x")
    assert rules.allow("own_tool")
    assert not rules.allow("invoke_agent")
    assert not rules.allow("write_file", file_path="a")
    assert not rules.allow("run_shell_command", command="ls")


def test_a_manifest_says_which_commands_may_be_run() -> None:
    rules = permitted(allowed_commands=("git status *", r'echo "a\*b"', "make", "sudo *", "git *", "x * y"))
    for command in ("git status", "git status -s", 'echo "a*b"', "make", "git pushed", "git --version", "x 1 y"):
        assert rules.allow("run_shell_command", command=command, description="d")
    denied = (
        "make all",
        "xmake",
        'echo "axb"',
        "sudo ls",
        "/usr/bin/sudo",
        "git push",
        "git push -f",
        "git -C . push",
        "ls",
    )
    for command in denied:
        assert not rules.allow("run_shell_command", command=command, description="make")


def test_a_command_writes_to_a_file_only_if_just_that_is_allowed() -> None:
    rules = permitted(allowed_commands=("echo *", "sort > sorted.txt", "a | b 2> log"))
    for command in ("echo x 2>&1", "echo x >/dev/null", "sort > sorted.txt", "sort", "a", "a | b 2> log"):
        assert rules.allow("run_shell_command", command=command, writes=">" in command)
    assert rules.allow("run_shell_command", command='echo "a -> b"')
    for command in ("echo x > leak", "echo x >>leak", "echo x >& leak", "echo x > /dev/nullx", "sort > other.txt"):
        assert not rules.allow("run_shell_command", command=command, writes=True)


def test_a_manifest_says_what_may_be_written() -> None:
    rules = permitted(writable_paths=("src/**", "docs/*.md", "**/notes.txt"))
    for name in ("src/a.py", "/project/src/x/y.py", "./docs/a.md", "notes.txt", "a/b/notes.txt"):
        assert rules.allow("write_file", file_path=name, content="x")
    for name in ("a.py", "docs/x/a.md", "src/../a.py", "/elsewhere/src/a.py", "/notes.txt", "src/x/..", "xsrc/a"):
        assert not rules.allow("write_file", file_path=name, content="x")


def test_a_role_in_a_sandbox_writes_its_result() -> None:
    options = {"permits": Permits(manifest=SandboxManifest(allowed_tools=())), "writable": (Path("/wip/r.md"),)}
    assert Rules(**options).allow("write_file", file_path="/wip/r.md")


def test_no_manifest_opens_what_is_never_allowed() -> None:
    rules = permitted(writable_paths=("**",))
    assert rules.allow("replace", file_path="deep/in/it.py")
    for name in (".git/config", "/project/.git/hooks/x", ".cuggino.json", "./.cuggino/wip/a.md", "/etc/passwd"):
        assert not rules.allow("replace", file_path=name)


def test_where_not_all_may_be_read_nothing_is_searched() -> None:
    rules = permitted(readable_paths=("src/**",))
    assert rules.allow("read_file", file_path="src/a.py")
    assert not rules.allow("read_file", file_path="secret.txt")
    assert not rules.allow("grep_search", pattern="x", dir_path="src")


@given(st.text(max_size=30), st.text(max_size=30))
def test_gemini_takes_every_pattern(path: str, command: str) -> None:
    """It refuses what could be slow: a group that is repeated. NUL is in no path and no command."""
    path, command = (text.replace("\0", "").encode(errors="replace").decode() for text in (path, command))
    rules = permitted(writable_paths=(path, f"**/{path}"), allowed_commands=(command,))
    for pattern in rules.patterns:
        re.compile(pattern)
        assert not re.search(r"\([^)]*[*+?{].*\)[*+?{]", pattern)
    if "*" not in command:
        assert rules.allow("run_shell_command", command=command.strip()) or command.strip().startswith(("sudo", "git"))


# ---- what it remembers ------------------------------------------------------------------------


def test_the_history_of_a_conversation_is_found_by_its_id(tmp_path: Path) -> None:
    session = "11111111-2222-4333-8444-555555555555"
    folder = tmp_path / ".gemini" / "tmp" / "project"
    own = [
        folder / "chats" / "session-2026-11-22T01-22-11111111.jsonl",
        folder / "chats" / session,
        folder / session,
        folder / "tool-outputs" / f"session-{session}",
    ]
    other = folder / "chats" / "session-2026-11-22T01-22-22222222.jsonl"
    for path in (*own, other):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    backend = GeminiBackend()
    assert set(backend.history({"HOME": str(tmp_path)}, Path("/project"), session)) == set(own)
    assert set(backend.history({"GEMINI_CLI_HOME": str(tmp_path), "HOME": "/x"}, Path("/p"), session)) == set(own)
    assert backend.history({"HOME": str(tmp_path)}, Path("/project"), "*") == ()
