"""What a shell command would run, as far as that stands in its text; and how a pattern says "exactly this command".

Nobody can know this of every text: a script, a variable or another language hides what it likes. So the reading
is cautious: what cannot be told apart counts as run, and a name that is only known when the command runs is told
as such. It serves to refuse, never to allow.
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

# Words that stand in front of a command.
_KEYWORDS = frozenset(
    {"if", "then", "else", "elif", "do", "while", "until", "time", "!", "{", "}", "fi", "done", "esac"}
)

_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*\+?=")

# Programs whose arguments are names and texts: what they hold is not run. All others may be a way to run something.
_PLAIN = frozenset(
    {
        "echo",
        "printf",
        "cat",
        "ls",
        "head",
        "tail",
        "wc",
        "test",
        "[",
        "cd",
        "pwd",
        "mkdir",
        "rmdir",
        "touch",
        "cp",
        "mv",
    }
    | {"rm", "ln", "chmod", "stat", "file", "diff", "cmp", "sort", "uniq", "cut", "tr", "tee", "grep", "egrep", "fgrep"}
    | {"rg", "which", "type", "export", "true", "false", "git"}
)
_RUNS_MORE = frozenset({"-c", "--exec", "-x", "--upload-pack", "--receive-pack", "bisect", "foreach", "filter-branch"})
"""Words by which git runs other programs."""


class Simple(msgspec.Struct, frozen=True):
    """A command without operators: the program's name and its arguments, quotes taken off; what it is redirected to,
    and what is fed to it."""

    words: tuple[str, ...]
    written: tuple[str, ...] = ()
    fed: tuple[str, ...] = ()

    @property
    def program(self) -> str:
        return PurePosixPath(self.words[0]).name if self.words else ""


def exactly(command: str) -> str:
    """The pattern for this command and no other."""
    return command.replace("*", r"\*")


def literal(pattern: str) -> str | None:
    """The one command that a pattern stands for; None if it stands for many."""
    return None if re.search(r"(?<!\\)\*", pattern) else pattern.replace(r"\*", "*")


def allows(patterns: Iterable[str], command: str) -> bool:
    """Whether one of the patterns matches the command as a whole. With ` *` at its end, also without arguments."""
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
    """The text of each command between operators, those in quotes and brackets left alone."""
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
    """Whether the `&` there is of `2>&1` or `&>file`."""
    return command[index - 1 : index] in ("<", ">") or command[index + 1 : index + 2] == ">"


def simple_commands(command: str) -> tuple[Simple, ...] | None:
    """The commands that stand in the text, also those in brackets; None if its quotes do not close."""
    lexer = shlex.shlex(command, posix=True, punctuation_chars=_OPERATORS + _REDIRECTIONS)
    lexer.whitespace, lexer.whitespace_split, lexer.commenters = " \t\r", True, ""
    try:
        tokens = list(lexer)
    except ValueError:
        return None
    found: list[Simple] = []
    words: list[str] = []
    redirected: dict[str, list[str]] = {"<": [], ">": []}
    redirecting = ""
    for token in (*tokens, ";"):
        if token and set(token) <= set(_OPERATORS + _REDIRECTIONS):
            arrow = token.rstrip("&|")[-1:]  # `>&1` and `>|file` too
            redirecting = arrow if arrow in ("<", ">") else ""
            if not redirecting:
                if words or any(redirected.values()):
                    found.append(Simple(_begun(words), tuple(redirected[">"]), tuple(redirected["<"])))
                words, redirected = [], {"<": [], ">": []}
        elif redirecting:
            redirected[redirecting].append(token)
            redirecting = ""
        else:
            words.append(token)
    return tuple(found)


def _begun(words: list[str]) -> tuple[str, ...]:
    """Without what stands before the program's name."""
    index = 0
    while index < len(words) and (words[index] in _KEYWORDS or _ASSIGNMENT.match(words[index])):
        index += 1
    return tuple(words[index:])


def runs(command: str, bounds: Iterable[str]) -> str | None:
    """The first of the bounds (`sudo`, `git push`) that the command would run, or may run; None if there is none."""
    return next((bound for bound in bounds if _runs(command, bound.split())), None)


def unknown_program(command: str) -> bool:
    """Whether it runs something whose name does not stand in it, such as `$X`."""
    return any("$" in each.words[0] or "`" in each.words[0] for each in _everything(command) if each.words)


def _runs(command: str, bound: list[str]) -> bool:
    read = simple_commands(command)
    if read is None:
        return _mentions(command, bound)
    return any(_simple_runs(each, bound) for each in read) or any(_runs(inner, bound) for inner in _inner(read))


def _simple_runs(simple: Simple, bound: list[str]) -> bool:
    if not simple.words or not bound:
        return False
    if simple.program == bound[0] and _begins(simple.words[1:], bound[1:]):
        return True
    plain = simple.program in _PLAIN and not (simple.program == "git" and _RUNS_MORE.intersection(simple.words))
    return not plain and _mentions(" ".join((*simple.words[1:], *simple.written, *simple.fed)), bound)


def _begins(words: tuple[str, ...], expected: list[str]) -> bool:
    """Whether the words begin with the expected ones, options and their values passed over."""
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


def _everything(command: str) -> Iterator[Simple]:
    read = simple_commands(command) or ()
    yield from read
    for inner in _inner(read):
        yield from _everything(inner)


def _inner(read: Iterable[Simple]) -> Iterator[str]:
    """Texts in quotes that are commands themselves: substitutions, and a whole command in a program's place."""
    for simple in read:
        text = " ".join((*simple.words, *simple.written, *simple.fed))
        for substitution in re.finditer(r"\$\(|<\(|>\(|`", text):  # up to its end, and what is behind it
            if rest := text[substitution.end() :].strip("`) "):
                yield rest
        if simple.words and re.search(r"\s", simple.words[0]):
            yield simple.words[0]
