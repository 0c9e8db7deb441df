"""What a command's text runs, and what a pattern allows."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cuggino.commands import allows, exactly, literal, pieces, runs, simple_commands, unknown_program
from cuggino.config import Config
from cuggino.manifest import Bounds

BOUNDS = Bounds.of(Config().spawn.never_allow, ".specs").commands


@pytest.mark.parametrize(
    ("command", "bound"),
    [
        ("sudo ls", "sudo"),
        ("git push", "git push"),
        ("git  push", "git push"),
        ("git 'push'", "git push"),
        ("git -C . --no-pager push origin", "git push"),
        ("git -c alias.x='!sudo ls' x", "sudo"),
        ("git rebase --exec 'git push' main", "git push"),
        ("git submodule foreach git push", "git push"),
        ("bash -c 'sudo ls'", "sudo"),
        ('sh -c "cd x; git push"', "git push"),
        ("sh <<< 'git push'", "git push"),
        ("bash <<E\nsudo ls\nE", "sudo"),
        ("eval 'git' push", "git push"),
        ("echo $(sudo ls)", "sudo"),
        ('echo "$(sudo ls)"', "sudo"),
        ('echo "$(echo "`git push`")"', "git push"),
        ("echo `sudo ls`", "sudo"),
        ("cat <(sudo ls)", "sudo"),
        ("a && b | sudo x", "sudo"),
        ("a\nsudo x", "sudo"),
        ("a & sudo x", "sudo"),
        ("X=1 Y=2 sudo ls", "sudo"),
        ("env -u Y sudo x", "sudo"),
        ("xargs -n1 gh pr", "gh"),
        ("timeout 5 git push", "git push"),
        ("nohup nice -n 5 claude -p x", "claude"),
        ("python3 -c 'import os; os.system(\"sudo ls\")'", "sudo"),
        ('python3 -c \'subprocess.run(["git", "push"])\'', "git push"),
        ("python3 - <<'E'\nimport os\nos.system('sudo ls')\nE", "sudo"),
        ("find . -exec sudo rm {} +", "sudo"),
        ("/usr/bin/sudo x", "sudo"),
        ("strace /usr/bin/sudo x", "sudo"),
        ("'sudo' x", "sudo"),
        ("s\\udo x", "sudo"),
        ("su''do x", "sudo"),
        ("(sudo ls)", "sudo"),
        ("{ sudo ls; }", "sudo"),
        ("if true; then sudo ls; fi", "sudo"),
        ("while ! sudo ls; do :; done", "sudo"),
        ("case x in x) sudo ls;; esac", "sudo"),
        ("> out sudo ls", "sudo"),
        ("ls 2>&1 | sudo tee x", "sudo"),
        ("echo don't; sudo ls", "sudo"),
        ("cuggino spawn x", "cuggino"),
        ("npx codex exec", "codex"),
    ],
)
def test_a_command_that_is_never_allowed_is_found_wherever_it_stands(command: str, bound: str) -> None:
    assert runs(command, BOUNDS) == bound


@pytest.mark.parametrize(
    "command",
    [
        "ls",
        "git status && git log --oneline | head",
        "echo sudo",
        "grep -rn 'git push' src",
        "git commit -m 'Explain sudo, git push and claude'",
        "git log -n push",
        "pytest tests/gh",
        "cat docs/claude.md",
        "echo hi > sudo.txt 2>&1",
        "make claude-docs",
        "git pushx",
        "ghost run",
        "for i in 1 2; do echo $i; done",
    ],
)
def test_a_command_that_only_mentions_it_does_not_run_it(command: str) -> None:
    assert runs(command, BOUNDS) is None


@pytest.mark.parametrize(
    "command", ["X=sudo; $X ls", "$'sudo' x", "`which sudo` ls", '"$P" x', "a && ${X} ls", 'echo "$($X)"']
)
def test_a_program_without_a_name_is_unknown(command: str) -> None:
    assert unknown_program(command)


@pytest.mark.parametrize("command", ["echo $X", 'ls "$HOME"', "X=$Y ls", "echo $(ls)", "echo '$(x)'"])
def test_a_variable_among_the_arguments_is_not_a_program(command: str) -> None:
    assert not unknown_program(command)


def test_redirections_are_recognized() -> None:
    [first, second] = simple_commands("a x <in >out 2>&1 | b &>>both") or ()
    assert (first.words, first.fed) == (("a", "x", "2"), ("in",))
    assert first.written == ("out", "1")
    assert (second.words, second.written) == (("b",), ("both",))


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("a", ("a",)),
        ("a && b || c; d | e & f", ("a", "b", "c", "d", "e", "f")),
        ("a 'x | y' | b \"z; w\"", ("a 'x | y'", 'b "z; w"')),
        ("a \\| b | c", ("a \\| b", "c")),
        ("a 2>&1 | b &> c", ("a 2>&1", "b &> c")),
        ("echo $(a | b) | c", ("echo $(a | b)", "c")),
    ],
)
def test_the_parts_of_a_command(command: str, expected: tuple[str, ...]) -> None:
    assert pieces(command) == expected


@pytest.mark.parametrize(
    ("pattern", "command", "allowed"),
    [
        ("git status *", "git status", True),
        ("git status *", "git status -s", True),
        ("git status *", "git statusx", False),
        ("git *", "git", True),
        ("uv run *", "uv sync", False),
        ("make", "make", True),
        ("make", " make ", True),
        ("make", "make x", False),
        ("make", "cmake", False),
        ("*", "anything\nat all", True),
        ("a * b", "a x b", True),
        ("a * b *", "a x b", False),
        (r"rm \*.tmp", "rm *.tmp", True),
        (r"rm \*.tmp", "rm a.tmp", False),
        ("x.y", "xzy", False),
    ],
)
def test_what_a_pattern_allows(pattern: str, command: str, allowed: bool) -> None:
    assert allows([pattern], command) is allowed


@given(st.text(alphabet="a *\\.\n:(", min_size=1), st.text(alphabet="a *\\.\n:("))
def test_the_pattern_for_a_command_allows_it_and_no_other(command: str, other: str) -> None:
    pattern = exactly(command)
    assert literal(pattern) == command
    assert allows([pattern], command)
    assert allows([pattern], other) is (other.strip() == command.strip())


@given(st.text(alphabet="ab '\"$()`;|&<>\\\n#{}*=-/"))
def test_no_text_breaks_it(command: str) -> None:
    runs(command, BOUNDS)
    unknown_program(command)
    pieces(command)


@given(
    st.sampled_from(BOUNDS), st.text(alphabet="ab -=/.", max_size=8), st.sampled_from([";", "&&", "||", "|", "&", "\n"])
)
def test_behind_any_operator_it_is_found(bound: str, before: str, operator: str) -> None:
    assert runs(f"{before}{operator} {bound} x", BOUNDS) is not None
