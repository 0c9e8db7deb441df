"""Scripts, and which of their turns comes next. Pure, except that conditions look whether paths exist.

A script is a JSON object: a role → the turns that the agent takes in that role. A turn is played from its first step to
its last, then the agent ends with success, unless a step says otherwise::

    {
      "planner": [
        {"steps": [{"do": "write", "path": "{writable}", "text": ["# Plan", "1. Say hello."]},
                   {"do": "marker", "name": "PLAN_COMPLETE"}]}
      ],
      "implementer": [
        {"steps": [{"do": "fail", "kind": "overloaded"}], "times": 2},
        {"steps": [{"do": "run", "command": "echo hello > hello.txt"},
                   {"do": "marker", "name": "DONE", "text": "says hello"}],
         "when": {"missing": "hello.txt"}}
      ],
      "reviewer": [
        {"steps": [{"do": "marker", "name": "APPROVED"}], "times": 0}
      ]
    }

Roles are those of cuggino, and `interactive` for the agent in a person's own terminal. The agent takes the first turn
whose conditions (`when`) hold and that was not yet played `times` times (default 1; 0 for any number). Conditions are
`exists` and `missing` (one or several paths), `contains` (one or several texts that the prompt, with the system prompt,
must contain) and `resumed` (whether the agent resumes a conversation).

A turn counts as played when it starts, so an agent that is interrupted, or fails, takes the next one when it is asked
again. With `"retake": true` it counts when it has ended, and an interrupted one is played again.

In all strings of a turn, `{writable}` (the first path that the agent may write), `{writable:1}` (another one, counted
from 0), `{cwd}`, `{role}` and `{python}` are filled in. Other braces stay as they are.

The steps are in `cuggino.agents.scripted.steps`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any, TypeAlias, TypeVar, get_args

import msgspec

from cuggino.agents.scripted.steps import AnyStep
from cuggino.errors import CugginoError

ROLES = ("planner", "implementer", "reviewer", "audit", "worker", "evaluator", "triage", "interactive")

OneOrMore: TypeAlias = str | list[str]


class ScriptError(CugginoError):
    """A script cannot be played; the message names the file and the place in it."""


class When(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The conditions of a turn; all of them must hold."""

    exists: OneOrMore = []
    missing: OneOrMore = []
    contains: OneOrMore = []
    resumed: bool | None = None


class Turn(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The agent's actions in one run of its program."""

    steps: list[AnyStep]
    when: When = When()
    times: Annotated[int, msgspec.Meta(ge=0)] = 1
    retake: bool = False


Script: TypeAlias = Mapping[str, Sequence[Turn]]


class Situation(msgspec.Struct, frozen=True, kw_only=True):
    """The run that a turn's conditions and placeholders refer to."""

    role: str
    cwd: Path
    python: str
    prompt: str = ""
    resumed: bool = False
    writable: tuple[Path, ...] = ()


# ---- loading ----------------------------------------------------------------------------------


def decode(data: bytes, where: str) -> Script:
    """Decode a script. Raise ScriptError, which names the file (`where`), the place and what is allowed."""
    try:
        roles = msgspec.json.decode(data, type=dict[str, list[msgspec.Raw]])
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ScriptError(f"{where}: {error}", advice="A script is a JSON object: a role → a list of turns.") from error
    for role in roles:
        if role not in ROLES:
            raise ScriptError(f"{where}: unknown role `{role}`", advice=_nearest(role, ROLES, "Roles"))
    return {
        role: [_turn(turn, f"{where}: $.{role}[{n}]") for n, turn in enumerate(turns)] for role, turns in roles.items()
    }


def _turn(data: msgspec.Raw, where: str) -> Turn:
    try:
        return msgspec.json.decode(data, type=Turn)
    except msgspec.ValidationError as error:
        message, _, path = str(error).partition(" - at `$")
        advice = ""
        if path.endswith(".do`") or "field `do`" in message:
            found = re.search(r"value '(.*)'", message)
            advice = _nearest(found[1] if found else "", STEP_NAMES, "Steps")
        raise ScriptError(f"{where}{path.removesuffix('`')}: {message}", advice=advice) from error


def _nearest(found: str, known: Sequence[str], what: str) -> str:
    near = get_close_matches(found, known, n=1)
    return (f"Did you mean `{near[0]}`? " if near else "") + f"{what} are: {', '.join(known)}."


STEP_NAMES: tuple[str, ...] = tuple(str(step.__struct_config__.tag) for step in get_args(AnyStep))


# ---- choosing ---------------------------------------------------------------------------------


def choose(script: Script, situation: Situation, take: Callable[[int, Turn], bool]) -> tuple[int, Turn] | None:
    """Return the turn to play now, filled in, and its index among the role's turns; None if none is left.

    `take` is called for each turn whose conditions hold, in order, until it returns True; False means that the turn was
    played as often as it may be.
    """
    for number, turn in enumerate(script.get(situation.role, ())):
        if _holds(_filled(turn.when, situation), situation) and take(number, turn):
            return number, _filled(turn, situation)
    return None


def _holds(when: When, situation: Situation) -> bool:
    return (
        all((situation.cwd / path).exists() for path in _each(when.exists))
        and not any((situation.cwd / path).exists() for path in _each(when.missing))
        and all(text in situation.prompt for text in _each(when.contains))
        and when.resumed in (None, situation.resumed)
    )


def _each(value: OneOrMore) -> Iterable[str]:
    return [value] if isinstance(value, str) else value


# ---- placeholders -----------------------------------------------------------------------------

_Struct = TypeVar("_Struct", When, Turn)
_PLACEHOLDER = re.compile(r"\{(?:(cwd|role|python)|writable(?::(\d+))?)\}")


def fill(text: str, situation: Situation) -> str:
    """Fill in placeholders. Raise ScriptError for a writable path that was not given."""

    def value(match: re.Match[str]) -> str:
        if match[1]:
            return str(getattr(situation, match[1]))
        number = int(match[2] or 0)
        if number >= len(situation.writable):
            given = f"only {len(situation.writable)} paths" if situation.writable else "no path"
            raise ScriptError(f"the script uses {match[0]}, but the {situation.role} was given {given} to write")
        return str(situation.writable[number])

    return _PLACEHOLDER.sub(value, text)


def _filled(struct: _Struct, situation: Situation) -> _Struct:
    return msgspec.convert(_fill_all(msgspec.to_builtins(struct), situation), type(struct))


def _fill_all(value: Any, situation: Situation) -> Any:
    if isinstance(value, str):
        return fill(value, situation)
    if isinstance(value, dict):
        return {key: _fill_all(item, situation) for key, item in value.items()}
    if isinstance(value, list):
        return [_fill_all(item, situation) for item in value]
    return value
