"""A denial → the smallest change of the manifest, or the reason why there is none; and what follows from several."""

from __future__ import annotations

from pathlib import Path
from typing import Any, get_args

import msgspec
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from cuggino.agents.agent import Denial
from cuggino.commands import allows, exactly
from cuggino.config import Config
from cuggino.manifest import AGENT_TOOLS, Bounds, SandboxManifest, matches
from cuggino.spawn.recover import Ask, CannotFix, Fix, Refuse, Retry, Strategy, compute_fix, decide, with_fixes

BOUNDS = Bounds.of(Config().spawn.never_allow, ".specs")
NARROW = SandboxManifest(readable_paths=("src/**",), writable_paths=("src/**",), allowed_commands=("make *",))
STRATEGIES: tuple[Strategy, ...] = get_args(Strategy)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A sandbox, with links that lead out of it and within it."""
    box = tmp_path / "box"
    for name in ("src", "docs", ".git/hooks", ".specs"):
        (box / name).mkdir(parents=True)
    (tmp_path / "outside.txt").write_text("x")
    (box / "out").symlink_to(tmp_path)
    (box / "file-out").symlink_to(tmp_path / "outside.txt")
    (box / "within").symlink_to("docs")
    (box / "loop").symlink_to("loop")
    (box / "git-link").symlink_to(".git")
    return box


def bash(command: Any) -> Denial:
    return Denial(tool="Bash", input={"command": command})


def write(path: Path | str) -> Denial:
    return Denial(tool="Write", input={"file_path": str(path), "content": "x"})


def read(path: Path | str) -> Denial:
    return Denial(tool="Read", input={"file_path": str(path)})


def fixed(denial: Denial, folder: Path, manifest: SandboxManifest = NARROW, secrets: tuple[str, ...] = ()) -> Fix:
    fix = compute_fix(denial, manifest, BOUNDS, folder, secrets)
    assert isinstance(fix, Fix), fix
    return fix


def reason(denial: Denial, folder: Path, manifest: SandboxManifest = NARROW, secrets: tuple[str, ...] = ()) -> str:
    """That there is no fix, and for no strategy a next attempt."""
    cannot = compute_fix(denial, manifest, BOUNDS, folder, secrets)
    assert isinstance(cannot, CannotFix), cannot
    for strategy in STRATEGIES:
        decision = decide(strategy, [denial], manifest, 0, 99, bounds=BOUNDS, folder=folder, secrets_allowed=secrets)
        assert decision == Refuse(cannot.reason)
    return cannot.reason


# ---- the smallest change ----------------------------------------------------------------------


@pytest.mark.parametrize("command", ["echo a && mkdir made", "echo a | sh x", "echo a > made", "echo a; rm b"])
def test_a_pattern_allows_one_command_and_nothing_that_comes_with_it(folder: Path, command: str) -> None:
    manifest = SandboxManifest(allowed_commands=("echo *",))
    assert fixed(bash(command), folder, manifest).added == (("allowed_commands", exactly(command)),)


@pytest.mark.parametrize("name", ["run_shell_command", "shell", "bash"])
def test_a_program_s_own_name_for_a_tool_is_the_manifest_s(folder: Path, name: str) -> None:
    fix = fixed(Denial(tool=name, input={"command": "npm test"}), folder)
    assert fix.added == (("allowed_commands", "npm test"),)


@pytest.mark.parametrize(
    "command",
    ["npm test", "npm run build -- --fast", "rm *.tmp", "a && b | c", "python3 -c 'print(1)'", "X=1 make", "a \\* b"],
)
def test_a_command_is_allowed_exactly(folder: Path, command: str) -> None:
    fix = fixed(bash(command), folder)
    assert fix.manifest == msgspec.structs.replace(NARROW, allowed_commands=("make *", exactly(command)))
    assert allows(fix.manifest.allowed_commands, command)
    assert not allows(fix.manifest.allowed_commands, f"{command} more")
    assert command in fix.words


@pytest.mark.parametrize("path", ["docs/a.md", "new/deep/b.md", "within/a.md", "src/../docs/a.md", "./docs/[id].md"])
def test_a_path_is_allowed_exactly_where_it_really_is(folder: Path, path: str) -> None:
    for named in (path, folder / path):
        fix = fixed(write(named), folder)
        real = (folder / path).resolve().relative_to(folder.resolve()).as_posix()
        assert fix.manifest == msgspec.structs.replace(NARROW, writable_paths=("src/**", real))
        assert not matches(fix.manifest.writable_paths, "docs/other.md")


def test_reading_is_not_writing(folder: Path) -> None:
    assert fixed(read("docs/a.md"), folder).added == (("readable_paths", "docs/a.md"),)
    assert fixed(write("docs/a.md"), folder).added == (("writable_paths", "docs/a.md"),)
    assert fixed(read(".specs/a.md"), folder).added == (("readable_paths", ".specs/a.md"),)


def test_a_tool_that_is_not_there_is_added_with_what_it_was_for(folder: Path) -> None:
    manifest = msgspec.structs.replace(NARROW, allowed_tools=("Read",))
    assert fixed(write("docs/a.md"), folder, manifest).added == (
        ("allowed_tools", "Write"),
        ("writable_paths", "docs/a.md"),
    )
    assert fixed(write("src/a.md"), folder, manifest).added == (("allowed_tools", "Write"),)
    assert fixed(Denial(tool="WebFetch", input={"url": "x"}), folder).added == (("allowed_tools", "WebFetch"),)


def test_what_a_command_writes_is_allowed_with_it(folder: Path) -> None:
    assert fixed(bash("npm test > docs/log.txt 2>&1"), folder).added == (
        ("writable_paths", "docs/log.txt"),
        ("allowed_commands", "npm test > docs/log.txt 2>&1"),
    )
    assert ("writable_paths", "docs/a") in fixed(bash("cp src/a docs/a"), folder).added
    assert not any(field == "writable_paths" for field, _ in fixed(bash("cp docs/a src/a"), folder).added)
    assert not any(field == "writable_paths" for field, _ in fixed(bash("npm test > /dev/null 2>&1"), folder).added)


def test_a_secret_of_the_persons_list_comes_with_the_command_that_names_it(folder: Path) -> None:
    fix = fixed(bash("curl -H $API_TOKEN x"), folder, secrets=("env:API_TOKEN", "env:OTHER"))
    assert fix.manifest.secrets == ("env:API_TOKEN",)
    has = msgspec.structs.replace(NARROW, secrets=("env:API_TOKEN",))
    assert fixed(bash("curl -H $API_TOKEN x"), folder, has).manifest.secrets == ("env:API_TOKEN",)


# ---- what can never be allowed ----------------------------------------------------------------


@pytest.mark.parametrize("tool", [*AGENT_TOOLS, "task", "send_message"])
def test_a_denied_tool(folder: Path, tool: str) -> None:
    everything = msgspec.structs.replace(NARROW, allowed_tools=("Task", tool))
    for manifest in (NARROW, everything):
        assert "denied in every sandbox" in reason(Denial(tool=tool, input={"prompt": "x"}), folder, manifest)


@pytest.mark.parametrize(
    "path", ["../x", "/etc/passwd", "~/x", "out/x", "file-out", "src/../../x", "loop", "within/../../x", "a\0b"]
)
def test_a_path_outside(folder: Path, path: str) -> None:
    for denial in (read(path), write(path), Denial(tool="Grep", input={"pattern": "x", "path": path})):
        assert "outside of the sandbox" in reason(denial, folder)


@pytest.mark.parametrize(
    "path",
    [
        ".git/config",
        ".git",
        ".git/hooks/x",
        "git-link/config",
        ".cuggino.json",
        ".cuggino/x",
        ".specs/a.md",
        "src/../.git/x",
    ],
)
def test_a_path_of_the_bounds(folder: Path, path: str) -> None:
    assert "never be written" in reason(write(path), folder)
    assert "never be written" in reason(bash(f"echo x > {path}"), folder)


@pytest.mark.parametrize(
    "command", ["sudo ls", "npm test && sudo ls", "bash -c 'git push'", "echo $(gh auth token)", "env claude -p x"]
)
def test_a_command_of_the_bounds(folder: Path, command: str) -> None:
    assert "spawn.neverAllow" in reason(bash(command), folder)


@pytest.mark.parametrize(
    "command",
    [
        "cat ../x",
        "cat /etc/passwd",
        "npm test > /etc/x",
        "npm test >> ../x",
        "npm test > out/x",
        "mytool < ~/.ssh/id_rsa",
        "mytool ~/.ssh/id_rsa",
        "mytool --in=/etc/passwd",
        "mytool file-out",
        "cd .. && ls",
        "cd out && ls",
        "tee /etc/x",
        "X=1 cp a ../b",
        "sh -c 'cat x' > ../y",
    ],
)
def test_a_command_that_reaches_outside(folder: Path, command: str) -> None:
    assert "outside of the sandbox" in reason(bash(command), folder)


@pytest.mark.parametrize(
    "command", ["npm test -- --grep=/api/v1", "sed /^x/d src/a", "npm run a/b", "npm test 2>&1 >/dev/null"]
)
def test_what_is_no_path_is_none(folder: Path, command: str) -> None:
    assert isinstance(compute_fix(bash(command), NARROW, BOUNDS, folder), Fix)


def test_a_program_whose_name_is_not_known(folder: Path) -> None:
    assert "not written in it" in reason(bash("X=su; ${X}do ls"), folder)


@pytest.mark.parametrize(
    "command", ["curl -H $API_TOKEN x", 'curl -H "Bearer ${GITHUB_TOKEN}" x', "printenv AWS_SECRET_ACCESS_KEY"]
)
def test_a_secret_that_nobody_listed(folder: Path, command: str) -> None:
    assert "not in spawn.secrets" in reason(bash(command), folder, secrets=("env:OTHER_TOKEN",))


def test_a_variable_that_is_no_secret_is_no_matter(folder: Path) -> None:
    for command in (
        "npm run $HOME",
        "for TOKEN in a b; do echo x; done",
        "TOKEN=1; npm run $TOKEN",
        "npm run $KEYBOARD",
    ):
        assert isinstance(compute_fix(bash(command), NARROW, BOUNDS, folder), Fix), command


def test_a_change_that_would_change_nothing(folder: Path) -> None:
    for denial in (
        bash("make x"),
        write("src/a.py"),
        read("src/a.py"),
        Denial(tool="Read"),
        Denial(tool="Read", input=[1]),
    ):
        assert "allows it already" in reason(denial, folder)


def test_a_command_that_is_none(folder: Path) -> None:
    for command in (None, "", "  ", 7):
        assert "which command" in reason(bash(command), folder)


def test_a_path_that_would_be_a_pattern(folder: Path) -> None:
    assert "pattern" in reason(write("docs/*"), folder)


# ---- what a strategy makes of several ---------------------------------------------------------


def test_a_round_fixes_everything_that_was_denied(folder: Path) -> None:
    denials = [bash("npm test"), write("docs/a.md"), bash("npm test"), write("docs/b.md")]
    for strategy in ("moderate", "aggressive"):
        decision = decide(strategy, denials, NARROW, 0, 1, bounds=BOUNDS, folder=folder)
        assert isinstance(decision, Retry)
        assert decision.manifest.allowed_commands == ("make *", "npm test")
        assert decision.manifest.writable_paths == ("src/**", "docs/a.md", "docs/b.md")
        assert len(decision.fixes) == 3


@pytest.mark.parametrize(
    ("used", "limit", "more"), [(0, 1, True), (1, 1, False), (0, 0, False), (2, 3, True), (9, 3, False)]
)
def test_moderate_has_so_many_rounds(folder: Path, used: int, limit: int, more: bool) -> None:
    decision = decide("moderate", [bash("x")], NARROW, used, limit, bounds=BOUNDS, folder=folder)
    assert isinstance(decision, Retry) is more
    assert isinstance(decision, Refuse) is (not more)
    assert not isinstance(decision, Refuse) or decision.limit_reached


def test_aggressive_has_no_limit(folder: Path) -> None:
    assert isinstance(decide("aggressive", [bash("x")], NARROW, 1000, 1, bounds=BOUNDS, folder=folder), Retry)


def test_one_that_cannot_be_fixed_ends_it_and_is_not_the_limit(folder: Path) -> None:
    for strategy in STRATEGIES:
        decision = decide(strategy, [bash("x"), bash("sudo x")], NARROW, 5, 1, bounds=BOUNDS, folder=folder)
        assert isinstance(decision, Refuse)
        assert not decision.limit_reached


def test_interactive_asks_for_each_and_what_is_allowed_is_put_together(folder: Path) -> None:
    denials = [bash("a"), write("docs/a.md"), bash("a")]
    decision = decide("interactive", denials, NARROW, 7, 1, bounds=BOUNDS, folder=folder)
    assert isinstance(decision, Ask)
    assert [denial for denial, _ in decision.fixes] == denials[:2]
    fixes = [fix for _, fix in decision.fixes]
    assert fixes[1].manifest.allowed_commands == ("make *",), "each by itself"
    both = with_fixes(NARROW, fixes)
    assert (both.allowed_commands, both.writable_paths) == (("make *", "a"), ("src/**", "docs/a.md"))
    assert with_fixes(both, fixes) == both
    assert with_fixes(NARROW, []) == NARROW


# ---- for all denials --------------------------------------------------------------------------

_NAMES = st.text(alphabet="ab./*? -$'\"();|&<>\\~\n=", max_size=20)
_DENIALS = st.builds(
    lambda tool, text: Denial(tool=tool, input={"command": text, "file_path": text}),
    st.sampled_from(["Bash", "Read", "Write", "Edit", "Grep", "WebFetch", "Task", "run_shell_command", "write_file"]),
    _NAMES,
)
_COMMANDS = st.lists(st.sampled_from(["make *", "a", "b *", "*"]), max_size=2).map(tuple)
_PATHS = st.lists(st.sampled_from(["**", "a/**", "*.b", "a"]), max_size=2).map(tuple)
_MANIFESTS = st.builds(SandboxManifest, allowed_commands=_COMMANDS, readable_paths=_PATHS, writable_paths=_PATHS)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(_DENIALS, _MANIFESTS, _NAMES)
@example(Denial(tool="Bash", input={"command": ";< ", "file_path": ";< "}), SandboxManifest(), "")
def test_a_fix_adds_what_was_asked_for_and_nothing_else(
    folder: Path, denial: Denial, manifest: SandboxManifest, other: str
) -> None:
    fix = compute_fix(denial, manifest, BOUNDS, folder)
    assert fix == compute_fix(denial, manifest, BOUNDS, folder), "the same every time"
    if isinstance(fix, CannotFix):
        return
    asked = denial.input["command"].strip()
    assert fix.manifest != manifest
    assert with_fixes(fix.manifest, [fix]) == fix.manifest
    again = compute_fix(denial, fix.manifest, BOUNDS, folder)
    assert isinstance(again, CannotFix), "it is allowed now: to allow it again would change nothing"
    if other.strip() != asked:
        assert allows(fix.manifest.allowed_commands, other) == allows(manifest.allowed_commands, other)
    new = {value for field, value in fix.added if field.endswith("_paths")}
    for path in ("a/x", "b", "x.b", ".git/x", "docs/x", other):
        if path not in new:
            assert matches(fix.manifest.writable_paths, path) == matches(manifest.writable_paths, path)
            assert matches(fix.manifest.readable_paths, path) == matches(manifest.readable_paths, path)
    assert not any(matches(BOUNDS.paths, value) for field, value in fix.added if field == "writable_paths")
    assert set(fix.manifest.allowed_tools) <= {*manifest.allowed_tools, denial.tool}
    assert (fix.manifest.secrets, fix.manifest.environment) == (manifest.secrets, manifest.environment)
