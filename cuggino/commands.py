"""Which programs a shell command would run, according to its text; and patterns for commands.

No text reveals everything: scripts, variables and other languages can hide what they run. So this reads cautiously:
what cannot be distinguished counts as run, and a program whose name is known only at run time is reported as unknown.
It serves to deny, never to allow.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import PurePosixPath

import msgspec

_OPERATORS = ";&|()\n"
_REDIRECTIONS = "<>"

# Words before a command.
_KEYWORDS = frozenset(
    {"if", "then", "else", "elif", "do", "while", "until", "time", "!", "{", "}", "fi", "done", "esac"}
)

_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*\+?=")

# Programs whose arguments are only names and texts. The arguments of all others may be commands.
_PLAIN = frozenset(
    {"[", "cat", "cd", "chmod", "cmp", "cp", "cut", "diff", "echo", "egrep", "export", "false", "fgrep", "file", "git"}
    | {"grep", "head", "ln", "ls", "mkdir", "mv", "printf", "pwd", "rg", "rm", "rmdir", "sort", "stat", "tail", "tee"}
    | {"test", "touch", "tr", "true", "type", "uniq", "wc", "which"}
)
_RUNS_MORE = frozenset({"-c", "--exec", "-x", "--upload-pack", "--receive-pack", "bisect", "foreach", "filter-branch"})
"""Words with which git runs other programs."""


class SimpleCommand(msgspec.Struct, frozen=True):
    """A command without operators: its program and arguments without quotes, and the files that its output goes to
    (`written`) and its input comes from (`fed`)."""

    words: tuple[str, ...]
    written: tuple[str, ...] = ()
    fed: tuple[str, ...] = ()

    @property
    def program(self) -> str:
        return PurePosixPath(self.words[0]).name if self.words else ""


def exactly(command: str) -> str:
    """Return the pattern that matches only this command."""
    return command.replace("*", r"\*")


def literal(pattern: str) -> str | None:
    """Return the one command that a pattern matches; None if it matches several."""
    return None if re.search(r"(?<!\\)\*", pattern) else pattern.replace(r"\*", "*")


def allows(patterns: Iterable[str], command: str) -> bool:
    """Return whether a pattern matches the whole command. A final ` *` also matches no arguments."""
    return any(_compiled(pattern.strip()).fullmatch(command.strip()) for pattern in patterns)


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    parts = re.split(r"(\\\*|\*)", pattern)
    meaning = {r"\*": r"\*", "*": ".*"}
    whole = "".join(meaning.get(part, re.escape(part)) for part in parts)
    if pattern.endswith(" *") and literal(pattern[:-2]) is not None:
        whole = whole.removesuffix(r"\ .*") + r"(?:\ .*)?"
    return re.compile(whole, re.DOTALL)


def pieces(command: str) -> tuple[str, ...]:
    """Return the text between operators, except for operators in quotes and brackets."""
    found, start, quote, depth, index = [], 0, "", 0, 0
    while index < len(command):
        sign = command[index]
        if sign == "\\" and quote != "'":
            index += 2
            continue
        if quote:
            quote = "" if sign == quote else quote
        elif sign in "'\"`":
            quote = sign
        elif sign in "({":
            depth += 1
        elif sign in ")}":
            depth -= 1
        elif depth == 0 and (sign in ";|\n" or (sign == "&" and not _in_redirection(command, index))):
            found.append(command[start:index])
            start = index + 1
        index += 1
    found.append(command[start:])
    return tuple(piece.strip() for piece in found if piece.strip())


def _in_redirection(command: str, index: int) -> bool:
    """Return whether the `&` belongs to `2>&1` or `&>file`."""
    return command[index - 1 : index] in ("<", ">") or command[index + 1 : index + 2] == ">"


def simple_commands(command: str) -> tuple[SimpleCommand, ...] | None:
    """Return the commands in the text, even those in brackets; None if a quote is not closed."""
    lexer = shlex.shlex(command, posix=True, punctuation_chars=_OPERATORS + _REDIRECTIONS)
    lexer.whitespace, lexer.whitespace_split, lexer.commenters = " \t\r", True, ""
    try:
        tokens = list(lexer)
    except ValueError:
        return None
    found: list[SimpleCommand] = []
    words: list[str] = []
    redirected: dict[str, list[str]] = {"<": [], ">": []}
    redirecting = ""
    for token in (*tokens, ";"):
        if token and set(token) <= set(_OPERATORS + _REDIRECTIONS):
            arrow = token.rstrip("&|")[-1:]  # `>&1` and `>|file` too
            redirecting = arrow if arrow in ("<", ">") else ""
            if not redirecting:
                if words or any(redirected.values()):
                    found.append(SimpleCommand(_begun(words), tuple(redirected[">"]), tuple(redirected["<"])))
                words, redirected = [], {"<": [], ">": []}
        elif redirecting:
            redirected[redirecting].append(token)
            redirecting = ""
        else:
            words.append(token)
    return tuple(found)


def _begun(words: list[str]) -> tuple[str, ...]:
    """Remove keywords and assignments before the program's name."""
    index = 0
    while index < len(words) and (words[index] in _KEYWORDS or _ASSIGNMENT.match(words[index])):
        index += 1
    return tuple(words[index:])


def runs(command: str, bounds: Iterable[str]) -> str | None:
    """Return the first of the bounds (`sudo`, `git push`) that the command would or might run, or None."""
    return next((bound for bound in bounds if _runs(command, bound.split())), None)


def unknown_program(command: str) -> bool:
    """Return whether it runs a program whose name is not in the text, such as `$X`."""
    return any("$" in each.words[0] or "`" in each.words[0] for each in _all_commands(command) if each.words)


def _runs(command: str, bound: list[str]) -> bool:
    read = simple_commands(command)
    if read is None:
        return _mentions(command, bound)
    return any(_simple_runs(each, bound) for each in read) or any(_runs(inner, bound) for inner in _inner(read))


def _simple_runs(simple: SimpleCommand, bound: list[str]) -> bool:
    if not simple.words or not bound:
        return False
    if simple.program == bound[0] and _begins(simple.words[1:], bound[1:]):
        return True
    plain = simple.program in _PLAIN and not (simple.program == "git" and _RUNS_MORE.intersection(simple.words))
    return not plain and _mentions(" ".join((*simple.words[1:], *simple.written, *simple.fed)), bound)


def _begins(words: tuple[str, ...], expected: list[str]) -> bool:
    """Return whether the words begin with the expected ones, ignoring options and their values."""
    if not expected:
        return True
    before = ""
    for index, word in enumerate(words):
        if word == expected[0]:
            return _begins(words[index + 1 :], expected[1:])
        if not word.startswith("-") and not before.startswith("-"):
            return False
        before = word
    return False


def _mentions(text: str, bound: list[str]) -> bool:
    between = r"""[\s"',\[\]\\]+(?:-\S+\s+(?:[^-\s]\S*\s+)?)*"""
    words = between.join(map(re.escape, bound))
    return re.search(rf"(?:(?<![\w.\-/])|(?<=bin/)){words}(?![\w.\-/:=])", text) is not None


def _all_commands(command: str) -> Iterator[SimpleCommand]:
    read = simple_commands(command) or ()
    yield from read
    for inner in _inner(read):
        yield from _all_commands(inner)


def _inner(read: Iterable[SimpleCommand]) -> Iterator[str]:
    """Yield quoted texts that are commands: substitutions, and a whole command in place of a program."""
    for simple in read:
        text = " ".join((*simple.words, *simple.written, *simple.fed))
        for substitution in re.finditer(r"\$\(|<\(|>\(|`", text):  # up to its end, and the text after it
            if rest := text[substitution.end() :].strip("`) "):
                yield rest
        if simple.words and re.search(r"\s", simple.words[0]):
            yield simple.words[0]
