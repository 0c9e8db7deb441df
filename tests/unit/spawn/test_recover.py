"""Recovery from a denial: the smallest change of the manifest, or the reason why there is none."""

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
from cuggino.spawn.recover import (
    Ask,
    CannotFix,
    Decision,
    Escalate,
    Fix,
    FixRules,
    Refuse,
    Strategy,
    compute_fix,
    decide,
    with_fixes,
)

BOUNDS = Bounds.of(Config().spawn.never_allow, ".specs")
NARROW = SandboxManifest(readable_paths=("src/**",), writable_paths=("src/**",), allowed_commands=("make *",))
STRATEGIES: tuple[Strategy, ...] = get_args(Strategy)


class Sandbox:
    """A folder with links that lead out of it and within it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "box"
        for name in ("src", "docs", ".git/hooks", ".specs"):
            (self.folder / name).mkdir(parents=True)
        (folder / "outside.txt").write_text("x")
        links: dict[str, Path | str] = {
            "out": folder,
            "file-out": folder / "outside.txt",
            "within": "docs",
            "loop": "loop",
            "git-link": ".git",
        }
        for name, target in links.items():
            (self.folder / name).symlink_to(target)

    def rules(self, secrets: tuple[str, ...] = ()) -> FixRules:
        return FixRules(bounds=BOUNDS, folder=self.folder, secrets=secrets)

    def decide(
        self, strategy: Strategy, *denials: Denial, manifest: SandboxManifest = NARROW, rounds: int = 0, limit: int = 1
    ) -> Decision:
        return decide(strategy, denials, manifest, self.rules(), rounds=rounds, limit=limit)

    def fix(self, denial: Denial, manifest: SandboxManifest = NARROW, secrets: tuple[str, ...] = ()) -> Fix:
        fix = compute_fix(denial, manifest, self.rules(secrets))
        assert isinstance(fix, Fix), fix
        return fix

    def refuse(self, denial: Denial, manifest: SandboxManifest = NARROW, secrets: tuple[str, ...] = ()) -> str:
        """Return why there is no fix; no strategy makes another attempt."""
        rules = self.rules(secrets)
        cannot = compute_fix(denial, manifest, rules)
        assert isinstance(cannot, CannotFix), cannot
        for strategy in STRATEGIES:
            assert decide(strategy, [denial], manifest, rules, rounds=0, limit=99) == Refuse(cannot.reason)
        return cannot.reason


@pytest.fixture
def box(tmp_path: Path) -> Sandbox:
    return Sandbox(tmp_path)


def bash(command: Any) -> Denial:
    return Denial(tool="Bash", input={"command": command})


def write(path: Path | str) -> Denial:
    return Denial(tool="Write", input={"file_path": str(path), "content": "x"})


def read(path: Path | str) -> Denial:
    return Denial(tool="Read", input={"file_path": str(path)})


# ---- the smallest change ----------------------------------------------------------------------


@pytest.mark.parametrize("command", ["echo a && mkdir made", "echo a | sh x", "echo a > made", "echo a; rm b"])
def test_a_pattern_allows_one_command_and_nothing_that_comes_with_it(box: Sandbox, command: str) -> None:
    manifest = SandboxManifest(allowed_commands=("echo *",))
    assert box.fix(bash(command), manifest).added == (("allowed_commands", exactly(command)),)


@pytest.mark.parametrize("name", ["run_shell_command", "shell", "bash"])
def test_a_programs_own_tool_name_is_translated(box: Sandbox, name: str) -> None:
    fix = box.fix(Denial(tool=name, input={"command": "npm test"}))
    assert fix.added == (("allowed_commands", "npm test"),)


@pytest.mark.parametrize(
    "command",
    ["npm test", "npm run build -- --fast", "rm *.tmp", "a && b | c", "python3 -c 'print(1)'", "X=1 make", "a \\* b"],
)
def test_a_command_is_allowed_exactly(box: Sandbox, command: str) -> None:
    fix = box.fix(bash(command))
    assert fix.manifest == msgspec.structs.replace(NARROW, allowed_commands=("make *", exactly(command)))
    assert allows(fix.manifest.allowed_commands, command)
    assert not allows(fix.manifest.allowed_commands, f"{command} more")
    assert command in fix.words


@pytest.mark.parametrize("path", ["docs/a.md", "new/deep/b.md", "within/a.md", "src/../docs/a.md", "./docs/[id].md"])
def test_a_path_is_allowed_exactly_with_its_links_resolved(box: Sandbox, path: str) -> None:
    for named in (path, box.folder / path):
        fix = box.fix(write(named))
        real = (box.folder / path).resolve().relative_to(box.folder.resolve()).as_posix()
        assert fix.manifest == msgspec.structs.replace(NARROW, writable_paths=("src/**", real))
        assert not matches(fix.manifest.writable_paths, "docs/other.md")


FEW_TOOLS = msgspec.structs.replace(NARROW, allowed_tools=("Read",))
WITH_SECRET = msgspec.structs.replace(NARROW, secrets=("env:API_TOKEN",))
CURL = "curl -H $API_TOKEN x"


@pytest.mark.parametrize(
    ("denial", "manifest", "added"),
    [
        (read("docs/a.md"), NARROW, [("readable_paths", "docs/a.md")]),
        (write("docs/a.md"), NARROW, [("writable_paths", "docs/a.md")]),
        (read(".specs/a.md"), NARROW, [("readable_paths", ".specs/a.md")]),
        (write("docs/a.md"), FEW_TOOLS, [("allowed_tools", "Write"), ("writable_paths", "docs/a.md")]),
        (write("src/a.md"), FEW_TOOLS, [("allowed_tools", "Write")]),
        (Denial(tool="WebFetch", input={"url": "x"}), NARROW, [("allowed_tools", "WebFetch")]),
        (
            bash("npm test > docs/log.txt 2>&1"),
            NARROW,
            [("writable_paths", "docs/log.txt"), ("allowed_commands", "npm test > docs/log.txt 2>&1")],
        ),
        (bash("cp src/a docs/a"), NARROW, [("writable_paths", "docs/a"), ("allowed_commands", "cp src/a docs/a")]),
        (bash("cp docs/a src/a"), NARROW, [("allowed_commands", "cp docs/a src/a")]),
        (bash("npm test > /dev/null 2>&1"), NARROW, [("allowed_commands", "npm test > /dev/null 2>&1")]),
        (bash(CURL), NARROW, [("secrets", "env:API_TOKEN"), ("allowed_commands", CURL)]),
        (bash(CURL), WITH_SECRET, [("allowed_commands", CURL)]),
    ],
)
def test_a_fix_adds_the_tool_the_path_and_the_listed_secret_that_are_missing(
    box: Sandbox, denial: Denial, manifest: SandboxManifest, added: list[tuple[str, str]]
) -> None:
    assert box.fix(denial, manifest, secrets=("env:API_TOKEN", "env:OTHER")).added == tuple(added)


@pytest.mark.parametrize(
    "command",
    [
        *("npm test -- --grep=/api/v1", "sed /^x/d src/a", "npm run a/b", "npm test 2>&1 >/dev/null"),
        *("npm run $HOME", "for TOKEN in a b; do echo x; done", "TOKEN=1; npm run $TOKEN", "npm run $KEYBOARD"),
    ],
)
def test_what_only_looks_like_an_outside_path_or_a_secret_is_allowed(box: Sandbox, command: str) -> None:
    assert box.fix(bash(command)).manifest.allowed_commands == ("make *", exactly(command))


# ---- what can never be allowed ----------------------------------------------------------------


@pytest.mark.parametrize("tool", [*AGENT_TOOLS, "task", "send_message"])
def test_tools_that_start_agents_are_never_allowed(box: Sandbox, tool: str) -> None:
    everything = msgspec.structs.replace(NARROW, allowed_tools=("Task", tool))
    for manifest in (NARROW, everything):
        assert "denied in every sandbox" in box.refuse(Denial(tool=tool, input={"prompt": "x"}), manifest)


@pytest.mark.parametrize(
    "path", ["../x", "/etc/passwd", "~/x", "out/x", "file-out", "src/../../x", "loop", "within/../../x", "a\0b"]
)
def test_a_path_outside_of_the_sandbox_is_never_allowed(box: Sandbox, path: str) -> None:
    for denial in (read(path), write(path), Denial(tool="Grep", input={"pattern": "x", "path": path})):
        assert "outside of the sandbox" in box.refuse(denial)


@pytest.mark.parametrize(
    "path",
    [
        *(".git/config", ".git", ".git/hooks/x", "git-link/config", "src/../.git/x"),
        *(".cuggino.json", ".cuggino/x", ".specs/a.md"),
    ],
)
def test_writing_to_a_path_of_the_bounds_is_never_allowed(box: Sandbox, path: str) -> None:
    assert "never be written" in box.refuse(write(path))
    assert "never be written" in box.refuse(bash(f"echo x > {path}"))


REFUSED: dict[str, tuple[Any, ...]] = {
    "spawn.neverAllow": (
        *("sudo ls", "npm test && sudo ls", "bash -c 'git push'", "echo $(gh auth token)", "env claude -p x"),
    ),
    "outside of the sandbox": (
        *("cat ../x", "cat /etc/passwd", "npm test > /etc/x", "npm test >> ../x", "npm test > out/x", "tee /etc/x"),
        *("mytool < ~/.ssh/id_rsa", "mytool ~/.ssh/id_rsa", "mytool --in=/etc/passwd", "mytool file-out"),
        *("cd .. && ls", "cd out && ls", "X=1 cp a ../b", "sh -c 'cat x' > ../y"),
    ),
    "not in spawn.secrets": (CURL, 'curl -H "Bearer ${GITHUB_TOKEN}" x', "printenv AWS_SECRET_ACCESS_KEY"),
    "a program whose name is computed": ("X=su; ${X}do ls",),
    "holds no command": (None, "", "  ", 7),
}


@pytest.mark.parametrize(("words", "command"), [(words, it) for words, commands in REFUSED.items() for it in commands])
def test_a_command_that_is_never_allowed(box: Sandbox, words: str, command: Any) -> None:
    assert words in box.refuse(bash(command), secrets=("env:OTHER_TOKEN",))


def test_what_the_manifest_allows_already_is_refused(box: Sandbox) -> None:
    nothing = (Denial(tool="Read"), Denial(tool="Read", input=[1]))
    for denial in (bash("make x"), write("src/a.py"), read("src/a.py"), *nothing):
        assert "allows it already" in box.refuse(denial)


def test_a_path_with_wildcards_is_refused(box: Sandbox) -> None:
    assert "contains wildcards" in box.refuse(write("docs/*"))


# ---- several denials --------------------------------------------------------------------------


@pytest.mark.parametrize("strategy", ["moderate", "aggressive"])
def test_a_round_fixes_everything_that_was_denied(box: Sandbox, strategy: Strategy) -> None:
    decision = box.decide(strategy, bash("npm test"), write("docs/a.md"), bash("npm test"), write("docs/b.md"))
    assert isinstance(decision, Escalate)
    assert decision.manifest.allowed_commands == ("make *", "npm test")
    assert decision.manifest.writable_paths == ("src/**", "docs/a.md", "docs/b.md")
    assert len(decision.fixes) == 3


@pytest.mark.parametrize(
    ("strategy", "rounds", "limit", "more"),
    [
        *(("moderate", 0, 1, True), ("moderate", 1, 1, False), ("moderate", 0, 0, False)),
        *(("moderate", 2, 3, True), ("moderate", 9, 3, False), ("aggressive", 1000, 1, True)),
    ],
)
def test_only_moderate_has_a_limit_of_rounds(
    box: Sandbox, strategy: Strategy, rounds: int, limit: int, more: bool
) -> None:
    decision = box.decide(strategy, bash("x"), rounds=rounds, limit=limit)
    assert isinstance(decision, Escalate) is more
    assert more or (isinstance(decision, Refuse) and decision.limit_reached)


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_one_denial_without_a_fix_ends_the_recovery_before_the_limit_does(box: Sandbox, strategy: Strategy) -> None:
    decision = box.decide(strategy, bash("x"), bash("sudo x"), rounds=5)
    assert isinstance(decision, Refuse)
    assert not decision.limit_reached


def test_interactive_asks_about_each_denial_and_combines_what_is_allowed(box: Sandbox) -> None:
    denials = [bash("a"), write("docs/a.md"), bash("a")]
    decision = box.decide("interactive", *denials, rounds=7)
    assert isinstance(decision, Ask)
    assert [denial for denial, _ in decision.fixes] == denials[:2]
    fixes = [fix for _, fix in decision.fixes]
    assert fixes[1].manifest.allowed_commands == ("make *",), "each by itself"
    both = with_fixes(NARROW, fixes)
    assert (both.allowed_commands, both.writable_paths) == (("make *", "a"), ("src/**", "docs/a.md"))
    assert with_fixes(both, fixes) == both
    assert with_fixes(NARROW, []) == NARROW


# ---- all denials ------------------------------------------------------------------------------

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
def test_a_fix_adds_what_was_denied_and_nothing_else(
    box: Sandbox, denial: Denial, manifest: SandboxManifest, other: str
) -> None:
    rules = box.rules()
    fix = compute_fix(denial, manifest, rules)
    assert fix == compute_fix(denial, manifest, rules), "the same every time"
    if isinstance(fix, CannotFix):
        return
    asked = denial.input["command"].strip()
    assert fix.manifest != manifest
    assert with_fixes(fix.manifest, [fix]) == fix.manifest
    again = compute_fix(denial, fix.manifest, rules)
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
