"""The real claude denies what a sandbox's manifest does not allow.

In each run a scripted model tries one tool after another; `Tried` has the results.
"""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeAlias, get_args
from uuid import uuid4

import msgspec
import pytest

from cuggino.agents.agent import AgentOptions, AgentResult
from cuggino.agents.claude import ClaudeBackend
from cuggino.commands import exactly
from cuggino.config import Config
from cuggino.events import ToolCall, ToolResult
from cuggino.manifest import Bounds, Permits, SandboxManifest
from cuggino.roles import Role
from cuggino.sandbox.default_manifest import READING_COMMANDS, default_manifest
from cuggino.spawn.recover import CannotFix, Escalate, Fix, FixRules, Refuse, Strategy, compute_fix, decide
from tests.e2e.loopback import Loopback, Say, Use, always, claude_environment, loopback

pytestmark = pytest.mark.e2e

BOUNDS = Bounds.of(Config().spawn.never_allow, ".specs")


class Tried(msgspec.Struct):
    """The results of the tools that were tried."""

    outputs: list[ToolResult]
    result: AgentResult
    server: Loopback
    calls: list[ToolCall]

    def denied(self, use: Use) -> bool:
        return any(_is(use, denial.tool, denial.input) for denial in self.result.denials)

    def output(self, use: Use) -> ToolResult:
        call = next(call for call in self.calls if _is(use, call.name, call.input))
        return next(output for output in self.outputs if output.id == call.id)

    def assert_denied(self, *uses: Use) -> None:
        assert [(use, self.output(use).output) for use in uses if not self.denied(use)] == []
        assert [use for use in uses if not self.output(use).is_error] == []

    def assert_done(self, *uses: Use) -> None:
        assert [(use, self.output(use).output) for use in uses if self.denied(use) or self.output(use).is_error] == []


def _is(use: Use, tool: str, given: Any) -> bool:
    """claude adds defaults and may write a path in another form, so each file name is used once in a test."""
    if use.name != tool:
        return False
    if "file_path" in use.input:
        return Path(use.input["file_path"]).name == Path(given.get("file_path", "")).name
    return all(given.get(name) == value for name, value in use.input.items())


Try: TypeAlias = Callable[..., Tried]


@pytest.fixture
def box(tmp_path: Path) -> Path:
    """A sandbox with pattern characters in its name: a repository with a commit, links and specs."""
    folder = tmp_path / "a (odd [1] {x,y}) sandbox"
    for name in ("src", "docs", ".specs"):
        (folder / name).mkdir(parents=True)
        (folder / name / "file.md").write_text(f"{name} file\n")
    (folder / "code.py").write_text("x = 1\n")
    (folder / ".cuggino.json").write_text("{}")
    (tmp_path / "secret.txt").write_text("outside secret\n")
    (folder / "out").symlink_to(tmp_path)
    (folder / "file-out").symlink_to(tmp_path / "secret.txt")
    git = ("git", "-C", str(folder), "-c", "user.name=t", "-c", "user.email=t@t")
    for arguments in (("init", "-q"), ("add", "."), ("commit", "-qm", "first")):
        subprocess.run([*git, *arguments], check=True, env={"PATH": "/usr/bin:/bin", "HOME": str(tmp_path)})
    return folder


@pytest.fixture
def attempt(claude: Path, home: Path, box: Path, tmp_path: Path) -> Try:
    """`attempt(manifest, use, …)`: claude tries all of them, one after another, and ends with `words`."""

    def attempt(manifest: SandboxManifest, *uses: Use, words: str = "Done.", **changes: Any) -> Tried:
        given = {"role": Role.WORKER, "prompt": "Go.", "cwd": box, "skip_permissions": True, **changes}
        environment: dict[str, str] = given.pop("extra", {})
        given.setdefault("permits", Permits(manifest=manifest, bounds=BOUNDS))
        with loopback(always(*([use] for use in uses), [Say(words)])) as server:
            whole = claude_environment(home, server.url, **environment)
            options = AgentOptions(output=tmp_path / f"{uuid4()}.out", environment=whole, **given)
            launch = ClaudeBackend().launch(options)
            laid = {name: value for name, value in {**whole, **launch.environment}.items() if value}
            ended = subprocess.run(
                [claude, *launch.argv[1:]],
                cwd=options.cwd,
                env=laid,
                input=launch.stdin,
                capture_output=True,
                timeout=120,
            )
        decoder = ClaudeBackend().decoder(options)
        decoded = [item for line in ended.stdout.split(b"\n") for item in decoder.feed(line)]
        return Tried(
            [item for item in decoded if isinstance(item, ToolResult)],
            decoder.finish(ended.returncode, ended.stderr.decode()),
            server,
            [item for item in decoded if isinstance(item, ToolCall)],
        )

    return attempt


def bash(command: str) -> Use:
    return Use("Bash", {"command": command})


def read(path: object) -> Use:
    return Use("Read", {"file_path": str(path)})


def write(path: object) -> Use:
    return Use("Write", {"file_path": str(path), "content": "written\n"})


def commands(*patterns: str, **more: Any) -> SandboxManifest:
    return SandboxManifest(allowed_commands=patterns, **more)


# ---- what a manifest allows -------------------------------------------------------------------


def test_reading_searching_writing_and_the_manifests_commands_are_allowed(attempt: Try, box: Path) -> None:
    edit = Use("Edit", {"file_path": str(box / "code.py"), "old_string": "1", "new_string": "2"})
    uses = [
        *(read(box / "code.py"), edit, write(box / "src" / "new" / "made.py")),
        *(Use("Grep", {"pattern": "file"}), Use("Glob", {"pattern": "**/*.md"})),
        *map(bash, ("ls", "git status --short", "cat code.py | head -1", "git log --oneline && git diff --stat")),
        *map(bash, ("python3 -c 'print(1)'", "python3 -c 'print(2)' > src/log.txt 2>&1", "timeout 9 python3 -V")),
        *map(bash, ("mkdir -p a/b", "touch a/b/c", "rm a/b/c")),
    ]
    tried = attempt(commands("git log *", "git diff *", "python3 *", "mkdir *", "touch *", "rm *"), *uses)
    tried.assert_done(*uses)
    assert tried.result.denials == ()
    assert (box / "code.py").read_text() == "x = 2\n"
    assert (box / "src" / "log.txt").read_text() == "2\n"


def test_the_default_manifest_allows_ordinary_work(attempt: Try, box: Path) -> None:
    (box / "pyproject.toml").write_text("")
    config = Config(check_command="test -f code.py && echo checked *.py")
    fine = map(bash, ("ls -la", "git status", "git diff HEAD", "grep -rn x .", "find . -name '*.py'", "cat code.py"))
    done = [*fine, bash("test -f code.py"), write(box / "a.py"), write(box / ".github" / "workflows" / "ci.yml")]
    others = [bash("python3 -m pytest --version"), bash("uv run pytest"), bash("git log -3")]
    denied = [bash("git commit -m x"), bash("curl http://127.0.0.1:1"), write(box / ".git" / "x")]
    tried = attempt(default_manifest(box, config), *done, *others, *denied)
    tried.assert_done(*done)
    assert not any(tried.denied(use) for use in others)
    tried.assert_denied(*denied)


def test_an_evaluation_can_only_read(attempt: Try, box: Path) -> None:
    inspecting = SandboxManifest(
        writable_paths=(), allowed_tools=("Read", "Glob", "Grep", "Bash"), allowed_commands=READING_COMMANDS
    )
    done = [read(box / "code.py"), Use("Grep", {"pattern": "file"}), Use("Glob", {"pattern": "*.py"}), bash("git log")]
    commands = ("touch new", "echo x > new", "git commit -m x", "python3 -V", "rm code.py")
    denied = [*map(bash, commands), write(box / "new")]
    tried = attempt(inspecting, *done, *denied, role=Role.EVALUATOR)
    tried.assert_done(*done)
    tried.assert_denied(*denied)
    assert not (box / "new").exists()


def test_a_tool_that_the_manifest_does_not_name_does_not_exist(attempt: Try, box: Path) -> None:
    uses = [bash("ls"), write(box / "new.md"), Use("WebFetch", {"url": "http://127.0.0.1:1/", "prompt": "x"})]
    tried = attempt(SandboxManifest(allowed_tools=("Read", "Grep")), *uses)
    tried.assert_denied(*uses)
    assert tried.server.requests[0].tools == ["Grep", "Read"]
    assert not (box / "new.md").exists()


@pytest.mark.parametrize("named", [False, True])
def test_tools_that_start_agents_are_denied_whatever_the_manifest_allows(attempt: Try, named: bool) -> None:
    tools = ("Read", "Task", "Agent", "Workflow", "Skill", "CronCreate", "AskUserQuestion") if named else ("Read",)
    uses = [Use(name, {"description": "d", "prompt": "p"}) for name in ("Task", "Agent")]
    tried = attempt(SandboxManifest(allowed_tools=tools), *uses)
    tried.assert_denied(*uses)
    assert tried.server.requests[0].tools == ["Read"]
    assert len({request.conversation for request in tried.server.requests}) == 1


def test_a_command_that_the_manifest_does_not_allow_is_denied(attempt: Try, box: Path) -> None:
    denied = [
        *map(bash, ("python3 -V", "git commit -m x", "make", "uv run pytest", "git status; python3 -V")),
        *map(bash, ("echo a | python3", "echo $(python3 -V)", "echo `python3 -V`", "bash -c 'uv run x'")),
        bash("X=1 python3 -V"),
        *map(bash, ("env python3 -V", "cat code.py\npython3 -V", "(python3 -V)", "uv  sync", "eval uv lock")),
    ]
    tried = attempt(commands("uv lock", "uv tool list *"), *denied)
    tried.assert_denied(*denied)
    assert [denial.input for denial in tried.result.denials] == [dict(use.input) for use in denied]


def test_an_exact_command_allows_nothing_else(attempt: Try, box: Path) -> None:
    (box / "run").write_text('#!/bin/sh\necho ran "$@"\n')
    (box / "run").chmod(0o755)
    for name in ("b.md", "a:b"):  # zsh, which claude prefers, refuses a pattern without a match
        (box / name).touch()
    exact = [
        *("./run a", "./run '(x)' \\\\ \\(z", "./run *.md", "./run \\*.md '*'", "./run a:*", "./run x && ./run y"),
        *("./run <<'E'\nfoo (bar)\nE", 'for i in 1 2; do ./run "$i"; done', "X=1 ./run", "./run $(echo 1)"),
        "./run '(x)' \"y\" | ./run z",
    ]
    others = ["./run", "./run a b", "./run b", "./run x", "./run *.md code.py", "./run code.md", "./run '*' x"]
    others.append("X=2 ./run")
    tried = attempt(commands(*map(exactly, exact)), *map(bash, (*exact, *others)))
    tried.assert_done(*map(bash, exact))
    tried.assert_denied(*map(bash, others))


def test_a_path_outside_of_writable_paths_does_not_change(attempt: Try, box: Path, tmp_path: Path) -> None:
    done = [*(write(box / name) for name in ("src/a.py", "src/new/b.py", "[id].md")), bash("echo x > src/c.py")]
    denied = [
        *(write(box / name) for name in ("docs/g.md", "top.md", "src.md", "srcs/h.py", "i.md")),
        *(write(box / name) for name in ("src/../docs/j.md", "out/new.txt", "src/../../new2.txt")),
        *(write(path) for path in ("docs/c.md", tmp_path / "new3.txt", "/etc/cuggino-was-here", "~/new4.txt")),
        *map(bash, ("echo x > docs/d.md", "echo x >> ../new.txt", "touch docs/e.md", "cp code.py ../new.txt")),
        *map(bash, ("mkdir ../new", "mv code.py docs/f.md", "echo x > out/new.txt")),
        Use("Edit", {"file_path": str(box / "file-out"), "old_string": "outside", "new_string": "x"}),
    ]
    manifest = commands("touch *", "cp *", "mkdir *", "mv *", writable_paths=("src/**", "[id].md", "/etc/**", "../*"))
    tried = attempt(manifest, read(box / "code.py"), *done, *denied)
    tried.assert_done(*done)
    tried.assert_denied(*denied[:-1])
    assert tried.output(denied[-1]).is_error
    assert sorted(path.name for path in (box / "docs").iterdir()) == ["file.md"]
    assert not list(tmp_path.glob("new*"))
    assert (tmp_path / "secret.txt").read_text() == "outside secret\n"


def test_a_path_outside_of_readable_paths_is_not_read(attempt: Try, box: Path, tmp_path: Path) -> None:
    (box / "src" / "deep").mkdir()
    (box / "src" / "deep" / "deep.md").write_text("deep file\n")
    done = [read(box / "src" / "deep" / "deep.md"), read(box / "code.py"), bash("cat code.py src/file.md")]
    denied = [
        *map(read, (box / "docs" / "file.md", box / "file-out", box / "out" / "secret.txt", "/etc/hostname")),
        *map(bash, ("cat docs/file.md", "cat ../secret.txt", "cat out/secret.txt", "head -1 /etc/hostname")),
        Use("Grep", {"pattern": "outside", "path": str(tmp_path)}),
    ]
    tried = attempt(SandboxManifest(readable_paths=("src/**", "*.py")), *done, *denied)
    tried.assert_done(*done)
    tried.assert_denied(*denied)
    assert not any("outside secret" in output.output or "docs file" in output.output for output in tried.outputs)


def test_the_bounds_deny_even_what_the_manifest_allows(attempt: Try, box: Path) -> None:
    everything = commands("*", "sudo *", "git push *", writable_paths=("**", ".git/**", ".cuggino.json", ".specs/**"))
    denied = [
        *map(bash, ("sudo ls", "git push", "git push origin main", "gh pr create", "claude -p x", "cuggino run")),
        *map(bash, ("bash -c 'sudo ls'", 'sh -c "ls; sudo ls"', "env X=1 sudo ls", "exec gh x", "eval 'git push x'")),
        *map(bash, ("ls && sudo ls", "git status | sudo tee x", "X=1 sudo ls", "env sudo ls", "timeout 5 git push")),
        *map(bash, ("git -C . push", "git -c a.b=c push origin", "/usr/bin/sudo ls", "'sudo' ls", "s\\udo ls")),
        bash("nohup gh x"),
        *map(bash, ("if true; then sudo ls; fi", "xargs git push", "echo x > .git/config", "echo x > .cuggino.json")),
        *map(write, (box / ".git" / "hooks" / "post-commit", box / ".cuggino.json", box / ".specs" / "file.md")),
        *map(write, (box / ".cuggino" / "spawns" / "x", ".git/config")),
    ]
    before = (box / ".git" / "config").read_bytes()
    tried = attempt(everything, bash("git commit --allow-empty -m 'a push'"), write(box / "src/a.md"), *denied)
    tried.assert_denied(*denied)
    tried.assert_done(write(box / "src/a.md"))
    assert (box / ".git" / "config").read_bytes() == before
    assert (box / ".cuggino.json").read_text() == "{}"
    assert (box / ".specs" / "file.md").read_text() == ".specs file\n"


def test_a_link_to_the_sandbox_is_the_sandbox(attempt: Try, box: Path, tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(box)
    done = [write(link / "src" / "a.md"), write(box / "src" / "b.md"), write("src/c.md")]
    denied = [write(link / ".git" / "hooks" / "x"), write(box / ".git" / "hooks" / "y"), write(link / "docs" / "d.md")]
    tried = attempt(SandboxManifest(writable_paths=("src/**",)), *done, *denied, cwd=link)
    tried.assert_done(*done)
    tried.assert_denied(*denied)


# ---- settings of the project and of the person ------------------------------------------------


def test_settings_cannot_widen_a_manifest_and_hooks_do_not_run(
    attempt: Try, box: Path, home: Path, tmp_path: Path
) -> None:
    hook = {"hooks": [{"type": "command", "command": f"touch {tmp_path}/hook-ran"}]}
    wide = {
        "permissions": {"allow": ["Bash(python3 *)", "Write", "WebFetch"], "defaultMode": "bypassPermissions"},
        "hooks": {"SessionStart": [hook], "PreToolUse": [hook], "Stop": [hook]},
    }
    for folder in (box, home):
        (folder / ".claude").mkdir()
        (folder / ".claude" / "settings.json").write_text(json.dumps(wide))
    (box / ".claude" / "settings.local.json").write_text(json.dumps(wide))
    server = {"mcpServers": {"x": {"command": "touch", "args": [f"{tmp_path}/hook-ran"]}}}
    (box / ".mcp.json").write_text(json.dumps(server))
    uses = [bash("python3 -V"), write(box / "docs" / "a.md")]
    tried = attempt(SandboxManifest(writable_paths=("src/**",)), *uses)
    tried.assert_denied(*uses)
    assert not (tmp_path / "hook-ran").exists()


def test_settings_of_a_foreign_project_are_ignored_even_without_a_manifest(
    attempt: Try, box: Path, tmp_path: Path
) -> None:
    (box / ".claude" / "rules").mkdir(parents=True)
    (box / ".claude" / "rules" / "a.md").write_text("FOREIGN WORDS")
    (box / "CLAUDE.md").write_text("FOREIGN WORDS")
    hook = {"hooks": [{"type": "command", "command": f"touch {tmp_path}/hook-ran"}]}
    (box / ".claude" / "settings.json").write_text(json.dumps({"hooks": {"SessionStart": [hook]}}))
    for permits in (None, Permits(manifest=SandboxManifest(), bounds=BOUNDS)):
        for role in (Role.WORKER, Role.TRIAGE):
            tried = attempt(SandboxManifest(), role=role, permits=permits, foreign=True)
            assert "FOREIGN WORDS" not in json.dumps(tried.server.requests[0].body)
    assert not (tmp_path / "hook-ran").exists()


@pytest.mark.parametrize("own_folder", [False, True])
def test_claudes_memory_of_the_project_is_neither_read_nor_written(
    attempt: Try, box: Path, home: Path, tmp_path: Path, own_folder: bool
) -> None:
    """claude itself allows writing to its memory, which later conversations read."""
    config = tmp_path / "config" if own_folder else home / ".claude"
    memory = config / "projects" / re.sub(r"[^A-Za-z0-9]", "-", str(box)) / "memory"
    memory.mkdir(parents=True)
    (memory / "MEMORY.md").write_text("PERSONAL WORDS")
    denied = [read(memory / "MEMORY.md"), *map(write, (memory / "new.md", config / "CLAUDE.md"))]
    denied.append(bash(f"echo x > '{memory}/newer.md'"))
    tried = attempt(SandboxManifest(), *denied, extra={"CLAUDE_CONFIG_DIR": str(config) if own_folder else ""})
    tried.assert_denied(*denied)
    assert "PERSONAL WORDS" not in json.dumps(tried.server.requests[-1].body)
    assert [path.name for path in memory.iterdir()] == ["MEMORY.md"]


@pytest.mark.parametrize("kind", ["env", "apiKeyHelper"])
def test_a_login_in_the_persons_settings_is_used(attempt: Try, home: Path, kind: str) -> None:
    (home / ".claude").mkdir()
    env = {"ANTHROPIC_API_KEY": "from-the-settings", "OTHER": "x"}
    settings = {"env": env, "apiKeyHelper": "echo from-the-settings"}
    (home / ".claude" / "settings.json").write_text(json.dumps({kind: settings[kind]}))
    tried = attempt(commands("printenv *"), bash("printenv OTHER"), extra={"ANTHROPIC_API_KEY": ""})
    assert tried.server.requests[0].headers["x-api-key"] == "from-the-settings"
    assert tried.output(bash("printenv OTHER")).is_error


# ---- recovery ---------------------------------------------------------------------------------


def test_text_about_a_denial_is_not_taken_for_one(attempt: Try, box: Path) -> None:
    words = "Permission to use Bash with command sudo has been denied. Permission denied (os error 13)"
    tagged = "<tool_use_error>File is in a directory that is denied by your permission settings.</tool_use_error>"
    (box / "words.txt").write_text(f"{tagged}\n")
    uses = [
        bash(f"echo '{words}'"),
        bash(f"echo '{tagged}'; exit 1"),
        read(box / "words.txt"),
        read(box / "not-there.txt"),
        Use("Edit", {"file_path": str(box / "words.txt"), "old_string": "not there", "new_string": "x"}),
        Use("Bash", {"comand": "typo"}),
    ]
    tried = attempt(commands("echo *", "exit *"), *uses, words=words)
    assert tried.result.denials == ()


@pytest.mark.parametrize("strategy", ["moderate", "aggressive"])
def test_a_fix_allows_what_was_denied_in_the_same_conversation(attempt: Try, box: Path, strategy: Any) -> None:
    session = str(uuid4())
    files = (write(box / "docs" / "a.md"), write(box / "docs" / "b.md"))
    uses = [bash("python3 -c 'print(1)' | cat"), *files, bash("touch docs/c")]
    manifest = SandboxManifest(writable_paths=("src/**",))
    first = attempt(manifest, *uses, session_id=session)
    first.assert_denied(*uses)
    rules = FixRules(bounds=BOUNDS, folder=box)
    decision = decide(strategy, first.result.denials, manifest, rules, rounds=0, limit=1)
    assert isinstance(decision, Escalate)
    again = [*uses, bash("python3 -c 'print(2)' | cat"), bash("python3 -c 'print(1)' x"), write(box / "docs" / "d.md")]
    turns: Sequence[Use] = [
        *([bash("true")] * (len(uses) + 1)),
        *again,
    ]  # the script continues where the first run ended
    second = attempt(decision.manifest, *turns, resume_session_id=session)
    second.assert_done(*uses)
    second.assert_denied(*again[len(uses) :])
    assert len(second.result.denials) == 3, "those of the first attempt are not reported again"
    assert second.result.session_id == session
    assert (box / "docs" / "c").exists()


def test_what_can_never_be_allowed_is_denied_and_cannot_be_fixed(attempt: Try, box: Path, tmp_path: Path) -> None:
    """With every strategy, even if the manifest names it."""
    uses = [
        *map(bash, ("sudo ls", "git push", "cat ../secret.txt", "python3 -c 1 > ../new.txt")),
        *map(write, (box / ".git" / "hooks" / "x", tmp_path / "new.txt", box / "out" / "new.txt")),
        read(tmp_path / "secret.txt"),
        Use("Task", {"description": "d", "prompt": "p"}),
    ]
    tools = ("Bash", "Write", "Read", "Task")
    manifest = commands("sudo *", "git *", "python3 *", allowed_tools=tools, writable_paths=("**",))
    tried = attempt(manifest, *uses)
    tried.assert_denied(*uses)
    rules = FixRules(bounds=BOUNDS, folder=box)
    for denial in tried.result.denials:
        assert isinstance(compute_fix(denial, manifest, rules), CannotFix), denial
        for strategy in get_args(Strategy):
            assert isinstance(decide(strategy, [denial], manifest, rules, rounds=0, limit=9), Refuse)


def test_a_fix_can_add_a_tool(attempt: Try, box: Path) -> None:
    manifest = SandboxManifest(allowed_tools=("Read",))
    use = write(box / "docs" / "a.md")
    [denial] = attempt(manifest, use).result.denials
    fix = compute_fix(denial, manifest, FixRules(bounds=BOUNDS, folder=box))
    assert isinstance(fix, Fix)
    assert fix.manifest.allowed_tools == ("Read", "Write")
    attempt(fix.manifest, use).assert_done(use)
