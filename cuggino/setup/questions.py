"""The settings as questions, and what may be answered. Pure.

There is no second list of rules: the settings, their types, choices and defaults are read from the structs in
`cuggino.config`, and an answer is decoded as if it stood in the file, so it is refused for the same reasons and in
the same words.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Mapping
from enum import Enum
from typing import Any, TypeAlias

import msgspec
from msgspec import inspect

from cuggino.config import Config, decode
from cuggino.errors import ConfigError, UsageError
from cuggino.output.text import visible, visible_name
from cuggino.setup.explained import EXPLAINED

Path: TypeAlias = tuple[str, ...]
"""The keys that lead to a value in the file: `("limits", "retries")`."""

Values: TypeAlias = Mapping[Path, Any]
"""What is set, as JSON has it. Null is a value that was in the file: a setting that is absent is not in here."""

FLAGS = {"yes": True, "y": True, "no": False, "n": False}

_BACK = "-"
_AGAIN = "Try again"


class Form(Enum):
    """How an answer is written."""

    TEXT = "the text itself"
    FLAG = "yes or no, or as JSON"
    LIST = "words as in a shell, or as JSON"
    OTHER = "as JSON, or a word"


class Setting(msgspec.Struct, frozen=True):
    """Something that can be set by itself: no object, but what is in one."""

    path: Path
    form: Form
    choices: tuple[str, ...]
    """The only values that it can have, if it is one of a few."""
    default: Any

    @property
    def key(self) -> str:
        return ".".join(self.path)

    @property
    def explanation(self) -> str:
        choices = f" One of {', '.join(self.choices)}." if self.choices else ""
        return EXPLAINED[self.key] + choices

    def shown(self, values: Values) -> str:
        """Its value as one would type it, as one harmless line."""
        value = values.get(self.path, self.default)
        if value is None or value == []:
            return "none"
        if self.form is Form.LIST:
            return visible_name(shlex.join(value))
        return visible_name(value if isinstance(value, str) else json.dumps(value))


def _settings(kind: inspect.StructType, path: Path = ()) -> Iterator[Setting]:
    for field in kind.fields:
        place = (*path, field.encode_name)
        if isinstance(field.type, inspect.StructType):
            yield from _settings(field.type, place)
        else:
            yield Setting(place, *_form(field.type), msgspec.json.decode(msgspec.json.encode(field.default)))


def _form(kind: inspect.Type) -> tuple[Form, tuple[str, ...]]:
    """How a value of this type is written, and its choices."""
    match kind:
        case inspect.Metadata(type=inner):
            return _form(inner)
        case inspect.UnionType(types=types):  # with null, which is what `-` is for
            return next(_form(part) for part in types if not isinstance(part, inspect.NoneType))
        case inspect.StrType():
            return Form.TEXT, ()
        case inspect.BoolType():
            return Form.FLAG, ()
        case inspect.VarTupleType():
            return Form.LIST, ()
        case inspect.LiteralType(values=values):
            return Form.OTHER, tuple(map(str, values))
    return Form.OTHER, ()


_whole = inspect.type_info(Config)
assert isinstance(_whole, inspect.StructType)
SETTINGS = tuple(_settings(_whole))
"""In the order of the structs."""
SECTIONS = tuple(dict.fromkeys(setting.path[:-1] for setting in SETTINGS if setting.path[1:]))
"""The objects in the file: what belongs together."""
_BY_PATH = {setting.path: setting for setting in SETTINGS}


# ---- answers ----------------------------------------------------------------------------------


def answered(values: Values, setting: Setting, text: str) -> Values:
    """`values` with a person's answer: nothing keeps what is, `-` goes back to the default.

    A text is taken as it stands, without quotes. ConfigError tells what is wrong and what is allowed.
    """
    _refuse_tricks(text, _AGAIN)
    text = text.strip()
    if not text:
        return values
    if text == _BACK:
        return _without(values, setting.path)
    return _with(values, setting.path, text if setting.form is Form.TEXT else _read(setting.form, text), _AGAIN)


def assigned(values: Values, word: str) -> Values:
    """`values` with a `key=value` of the command line, dots in the key; the value is JSON, else a text.

    Null goes back to the default. UsageError or ConfigError tells what is wrong.
    """
    _refuse_tricks(word, "--set")
    key, equals, text = word.partition("=")
    path = tuple(key.split("."))
    if not equals:
        raise UsageError(f"--set {word}: there is no value.", advice="Write --set key=value, as in --set commit=true")
    if path in SECTIONS:
        example = next(setting.key for setting in SETTINGS if setting.path[:-1] == path)
        raise UsageError(f"--set {word}: {key} has settings of its own.", advice=f"Set one of them, as {example}.")
    return _with(values, path, _read(_BY_PATH[path].form if path in _BY_PATH else Form.OTHER, text), "--set")


def _read(form: Form, text: str) -> Any:
    """The value that `text` stands for. Whether it is allowed is another question."""
    value = _json(text)
    if form is Form.TEXT and not (value is None or isinstance(value, str)):
        return text  # the command `true`, the model `4`
    if form is Form.FLAG:
        return FLAGS.get(text.lower(), value)
    if form is Form.LIST and value is not None and not text.startswith(("[", "{")):
        try:
            return shlex.split(text)
        except ValueError:  # a quote without its other: the strict decoder tells what a list is
            return text
    return value


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def _with(values: Values, path: Path, value: Any, where: str) -> Values:
    """Null, and a default that was not in the file, need not be written."""
    check(path, value, where)
    if value is None or (path not in values and value == _BY_PATH[path].default):
        return _without(values, path)
    return {**values, path: value}


def _without(values: Values, path: Path) -> Values:
    return {place: value for place, value in values.items() if place != path}


def check(path: Path, value: Any, where: str) -> None:
    """Raise the ConfigError that a file with nothing but `value` at `path` would meet."""
    for key in reversed(path):
        value = {key: value}
    decode(json.dumps(value).encode(), where)


def _refuse_tricks(text: str, where: str) -> None:
    seen = visible(text)
    if seen != text:
        raise ConfigError(f"{where}: found {seen}, with characters that a terminal would obey; allowed is plain text.")


# ---- files ------------------------------------------------------------------------------------


def flat(plain: Any, path: Path = ()) -> Iterator[tuple[Path, Any]]:
    """The values in a file's JSON, each with its path; what is no object where one belongs is a value, too."""
    if isinstance(plain, dict) and (not path or path in SECTIONS):
        for key, value in plain.items():
            yield from flat(value, (*path, key))
    else:
        yield path, plain


def nested(values: Values) -> dict[str, Any]:
    """The file's JSON, in the order of the structs."""
    whole: dict[str, Any] = {}
    for setting in SETTINGS:
        if setting.path in values:
            place = whole
            for key in setting.path[:-1]:
                place = place.setdefault(key, {})
            place[setting.path[-1]] = values[setting.path]
    return whole


def salvaged(data: bytes, where: str) -> tuple[Values, list[str]]:
    """What of a broken file can be kept, and what is wrong with the rest: nothing and nothing, if it is no JSON."""
    try:
        plain = json.loads(data.decode("utf-8-sig"))
    except (ValueError, RecursionError):
        return {}, []
    values: dict[Path, Any] = {}
    problems = []
    for path, value in flat(plain):
        try:
            check(path, value, where)
        except ConfigError as error:
            problems.append(str(error))
        else:
            values[path] = value
    return values, problems
