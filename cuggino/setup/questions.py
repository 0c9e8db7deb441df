"""The settings as questions, and their possible answers. Pure.

The settings, their types, choices and defaults are read from the structs in `cuggino.config`, and an answer is decoded
as if it were in the file. So it is refused for the same reasons and with the same messages.
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
from cuggino.strict_json import SCHEMA_KEY

Keys: TypeAlias = tuple[str, ...]
"""The keys of a value in the file: `("limits", "retries")`."""

Values: TypeAlias = Mapping[Keys, Any]
"""The settings in a file, as JSON values. None is a null in the file; absent settings have no entry."""

FLAGS = {"yes": True, "y": True, "no": False, "n": False}

_RESET = "-"
_AGAIN = "Try again"


class Form(Enum):
    """The syntax of an answer."""

    TEXT = "the text itself"
    FLAG = "yes or no, or as JSON"
    LIST = "words as in a shell, or as JSON"
    OTHER = "as JSON, or a word"


class Setting(msgspec.Struct, frozen=True):
    """A single value of the configuration, not an object."""

    path: Keys
    form: Form
    choices: tuple[str, ...]
    """Its possible values, if there are only a few."""
    default: Any

    @property
    def key(self) -> str:
        return ".".join(self.path)

    @property
    def explanation(self) -> str:
        choices = f" One of {', '.join(self.choices)}." if self.choices else ""
        return EXPLAINED[self.key] + choices

    def shown(self, values: Values) -> str:
        """Return its value as a person would type it, as one visible line."""
        value = values.get(self.path, self.default)
        if value is None or value == []:
            return "none"
        if self.form is Form.LIST:
            return visible_name(shlex.join(value))
        return visible_name(value if isinstance(value, str) else json.dumps(value))


def _settings(kind: inspect.StructType, path: Keys = ()) -> Iterator[Setting]:
    for field in kind.fields:
        place = (*path, field.encode_name)
        if isinstance(field.type, inspect.StructType):
            yield from _settings(field.type, place)
        else:
            yield Setting(place, *_form(field.type), msgspec.json.decode(msgspec.json.encode(field.default)))


def _form(kind: inspect.Type) -> tuple[Form, tuple[str, ...]]:
    """Return the syntax of this type's values, and its choices."""
    match kind:
        case inspect.Metadata(type=inner):
            return _form(inner)
        case inspect.UnionType(types=types):  # with null, for which a person types `-`
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
"""The objects in the file."""
_BY_PATH = {setting.path: setting for setting in SETTINGS}


# ---- answers ----------------------------------------------------------------------------------


def apply_answer(values: Values, setting: Setting, text: str) -> Values:
    """Return `values` with a person's answer: empty keeps the current value, `-` resets it to its default.

    Text is taken literally, without quotes. Raise ConfigError for a wrong answer.
    """
    _refuse_unsafe(text, _AGAIN)
    text = text.strip()
    if not text:
        return values
    if text == _RESET:
        return _without(values, setting.path)
    return _with(values, setting.path, text if setting.form is Form.TEXT else _read(setting.form, text), _AGAIN)


def apply_assignment(values: Values, word: str) -> Values:
    """Return `values` with a `key=value` of the command line; the key is dotted, the value JSON or else text.

    Null resets to the default. Raise UsageError or ConfigError for a wrong assignment.
    """
    _refuse_unsafe(word, "--set")
    key, equals, text = word.partition("=")
    path = tuple(key.split("."))
    if not equals:
        raise UsageError(
            f"--set {word}: the value is missing.", advice="Write --set key=value, such as --set commit=true"
        )
    if path in SECTIONS:
        example = next(setting.key for setting in SETTINGS if setting.path[:-1] == path)
        raise UsageError(f"--set {word}: {key} is a section.", advice=f"Set one of its settings, such as {example}.")
    return _with(values, path, _read(_BY_PATH[path].form if path in _BY_PATH else Form.OTHER, text), "--set")


def _read(form: Form, text: str) -> Any:
    """Return the value that `text` represents, without checking it."""
    value = _json(text)
    if form is Form.TEXT and not (value is None or isinstance(value, str)):
        return text  # the command `true`, the model `4`
    if form is Form.FLAG:
        return FLAGS.get(text.lower(), value)
    if form is Form.LIST and value is not None and not text.startswith(("[", "{")):
        try:
            return shlex.split(text)
        except ValueError:  # an unclosed quote: the strict decoder explains what a list is
            return text
    return value


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def _with(values: Values, path: Keys, value: Any, where: str) -> Values:
    """Set a value after checking it; omit null, and a default that was not in the file."""
    check(path, value, where)
    if value is None or (path not in values and value == _BY_PATH[path].default):
        return _without(values, path)
    return {**values, path: value}


def _without(values: Values, path: Keys) -> Values:
    return {place: value for place, value in values.items() if place != path}


def check(path: Keys, value: Any, where: str) -> None:
    """Raise the ConfigError of a file with only this value."""
    for key in reversed(path):
        value = {key: value}
    decode(json.dumps(value).encode(), where)


def _refuse_unsafe(text: str, where: str) -> None:
    seen = visible(text)
    if seen != text:
        raise ConfigError(f"{where}: expected plain text, got {seen} with control characters.")


# ---- files ------------------------------------------------------------------------------------


def flatten(plain: Any, path: Keys = ()) -> Iterator[tuple[Keys, Any]]:
    """Yield the values in a file's JSON with their paths; anything in place of an object is a value, too."""
    if isinstance(plain, dict) and (not path or path in SECTIONS):
        for key, value in plain.items():
            yield from flatten(value, (*path, key))
    else:
        yield path, plain


def nest(values: Values) -> dict[str, Any]:
    """Return the file's JSON, in the order of the structs."""
    schema = (SCHEMA_KEY,)
    whole: dict[str, Any] = {SCHEMA_KEY: values[schema]} if schema in values else {}
    for setting in SETTINGS:
        if setting.path in values:
            place = whole
            for key in setting.path[:-1]:
                place = place.setdefault(key, {})
            place[setting.path[-1]] = values[setting.path]
    return whole


def salvage(data: bytes, where: str) -> tuple[Values, list[str]]:
    """Return the valid settings in an invalid file, and the problems of the others; both empty if it is not JSON."""
    try:
        plain = json.loads(data.decode("utf-8-sig"))
    except (ValueError, RecursionError):
        return {}, []
    values: dict[Keys, Any] = {}
    problems = []
    for path, value in flatten(plain):
        try:
            check(path, value, where)
        except ConfigError as error:
            problems.append(str(error))
        else:
            values[path] = value
    return values, problems
