"""What arguments mean before a command is called: `cuggino` alone, `cuggino help`, unknown options, integers."""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from cuggino.errors import UsageError

if TYPE_CHECKING:
    from cyclopts import Token

_OPTIONS = ("--help", "--version", "--install-completion")
_SHORT_OPTIONS = ("-h", "-V")


def command_line(arguments: Sequence[str]) -> list[str]:
    """Return the arguments that the application understands. Without any, and for `help`, those that print help.

    Raise UsageError if there is an unknown option in place of a command.
    """
    if not arguments:
        return ["--help"]
    first, *others = arguments
    if first == "help":
        return [*(word for word in others if not word.startswith("-")), "--help"]
    if first.startswith("-") and first not in (*_OPTIONS, *_SHORT_OPTIONS):
        raise unknown_option(first, _OPTIONS, "Options of a command come after it; to list the commands: cuggino help")
    return list(arguments)


def unknown_option(given: str, known: Sequence[str], advice: str = "") -> UsageError:
    """Return the error for an option that does not exist, with the one that is most like it."""
    near = nearest(given.partition("=")[0], known)
    return UsageError(f"Unknown option: {given}.{f' Did you mean {near}?' if near else ''}", advice=advice)


def nearest(word: str, known: Sequence[str], cutoff: float = 0.6) -> str | None:
    """Return the known word that is most like this one; None if none is."""
    return next(iter(difflib.get_close_matches(word, known, n=1, cutoff=cutoff)), None)


def integer(_type: Any, tokens: Sequence[Token]) -> int:
    """Convert an argument; unlike cyclopts' own converter, do not round. Raise ValueError, which cyclopts reports."""
    text = tokens[0].value
    if not re.fullmatch(r"[+-]?[0-9]{1,18}", text):
        raise ValueError(f"expected an integer, got {text}.")
    return int(text)
