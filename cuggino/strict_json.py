"""Strict decoding of a file that a person wrote, with errors that are easy to act on.

msgspec decodes: it converts nothing and accepts no unknown keys. Its messages are short, so the file, the key, the
value and what is expected are added here. What is expected comes from the struct, never from a second list; a field
whose type needs better words has them in `Meta(description=…)`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from functools import cache
from typing import Any, TypeVar

import msgspec

from cuggino.errors import ConfigError

T = TypeVar("T")


SCHEMA_KEY = "$schema"
"""Where editors look for the file's JSON Schema. Accepted in every object at the top, and ignored."""
_EXCERPT = 76
"""Maximum characters that are shown of a line."""


def decode(data: bytes, struct: type[T], where: str) -> T:
    """Return the `struct` in `data`. Raise ConfigError, which names the file by `where` and lists all errors.

    A byte order mark at the beginning, which some editors write, is skipped. A repeated key is an error.
    """
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line, byte = data.count(b"\n", 0, error.start) + 1, data[error.start]
        raise ConfigError(f"{where}: line {line}: not valid UTF-8: byte 0x{byte:02x}.") from error
    if not text.strip():
        raise ConfigError(f"{where}: is empty.", advice="Write {} for the defaults, or delete it.")
    plain = _plain(text, where)
    if isinstance(plain, dict) and isinstance(plain.get(SCHEMA_KEY), str):
        del plain[SCHEMA_KEY]
        text = json.dumps(plain)
    try:
        return msgspec.json.decode(text, type=struct)
    except msgspec.ValidationError as error:
        raise _all_errors(struct, plain, str(error), where) from error
    except msgspec.DecodeError as error:  # what Python's own decoder accepts: NaN, half a surrogate pair
        reason, _, position = str(error).removeprefix("JSON is malformed: ").rstrip(")").partition(" (byte ")
        if not position:
            raise ConfigError(f"{where}: not JSON: {reason}.") from error
        raise _malformed(text, len(text.encode()[: int(position)].decode()), reason, where) from error


def refusal(struct: type, path: Sequence[str | int], found: Any, where: str, reason: str = "") -> ConfigError:
    """Return the error for the value `found` at `path` (keys as in the file), with what `struct` expects there."""
    kind = _kind(struct, path)
    values = [str(value) for part in getattr(kind, "types", [kind]) for value in getattr(part, "values", ())]
    return ConfigError(
        f"{where}: {_key(path)}: got {_shown(found)}{reason and f', which {reason}'}; expected {_allowed(kind)}.",
        advice=_did_you_mean(found, values) if isinstance(found, str) and values else "",
    )


def _plain(text: str, where: str) -> Any:
    """Decode with Python's own decoder, which reports line and column, and lets us notice repeated keys."""

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        value: dict[str, Any] = {}
        for key, item in pairs:
            if key in value:
                raise ConfigError(f"{where}: the key {_shown(key)} appears twice in one object.", advice="Keep one.")
            value[key] = item
        return value

    try:
        return json.loads(text, object_pairs_hook=unique)
    except json.JSONDecodeError as error:
        raise _malformed(text, error.pos, error.msg, where) from error
    except ValueError as error:  # Python refuses numbers of thousands of digits
        raise ConfigError(f"{where}: a number has too many digits.") from error
    except RecursionError as error:
        raise ConfigError(f"{where}: nested too deeply.") from error


def _malformed(text: str, index: int, reason: str, where: str) -> ConfigError:
    index, reason = _cause(text, index, reason)
    line, column = text.count("\n", 0, index) + 1, index - text.rfind("\n", 0, index)
    found = text[index:].split("\n")[0].strip()[:40] or "the end of the line"
    whole = "".join(char if char.isprintable() else " " for char in text.split("\n")[line - 1])
    start = max(0, min(column - 1 - _EXCERPT // 2, len(whole) - _EXCERPT))
    excerpt = f"  {whole[start : start + _EXCERPT]}\n  {' ' * (column - 1 - start)}^"
    return ConfigError(f"{where}: line {line}, column {column}: not JSON: {reason}; found: {found}\n{excerpt}")


def _cause(text: str, index: int, reason: str) -> tuple[int, str]:
    """Return place and reason of what people write in other formats: comments, and a comma after the last entry."""
    if text.startswith(("//", "/*", "#"), index):
        return index, "a comment, which JSON does not have: delete it"
    before, rest = text[:index].rstrip(), text[index:]
    trailing = "a comma after the last entry, which JSON does not have: delete it"
    if rest[:1] in ("}", "]") and before.endswith(","):
        return len(before) - 1, trailing
    if rest[:1] == "," and rest[1:].lstrip()[:1] in ("}", "]"):  # where Python 3.13 points at
        return index, trailing
    return index, reason


def _all_errors(struct: type, plain: Any, problem: str, where: str) -> ConfigError:
    """Explain the first problem; leave out what is wrong, and see what msgspec says of the rest."""
    error, path = _explained(struct, plain, problem, where)
    errors = [str(error)]
    while _removed(plain, path):
        try:
            msgspec.json.decode(json.dumps(plain), type=struct)
        except msgspec.ValidationError as another:
            more, path = _explained(struct, plain, str(another), where)
            errors.append(str(more))
        except msgspec.DecodeError:
            break
        else:
            break
    return error if len(errors) == 1 else ConfigError("\n".join(errors))


def _removed(plain: Any, path: Sequence[str | int]) -> bool:
    """Delete the key at `path`, or the whole list that an item is in. Return False if there is no such key."""
    keys = list(path)
    while keys and isinstance(keys[-1], int):
        keys.pop()
    if not keys:
        return False
    for key in keys[:-1]:
        plain = plain[key]
    if keys[-1] not in plain:
        return False
    del plain[keys[-1]]
    return True


def _explained(struct: type, plain: Any, problem: str, where: str) -> tuple[ConfigError, Sequence[str | int]]:
    """msgspec says only where something is wrong; look up the value and what is expected. Return its place, too."""
    place = re.search(r" - at `\$(.*)`$", problem)
    parts = re.findall(r"\.(\w+)|\[(\d+)\]", place[1] if place else "")
    path: list[str | int] = [int(index) if index else key for key, index in parts]
    found = plain
    for part in path:
        found = found[part]
    known = _keys(_kind(struct, path))
    if not (known and isinstance(found, dict)):
        return refusal(struct, path, found, where), path
    unknown = next((key for key in found if key not in known), None)
    if unknown is None:
        missing = [*path, next(key for key in known if key not in found and f"`{key}`" in problem)]
        expected = _allowed(_kind(struct, missing))
        return ConfigError(f"{where}: {_key(missing)}: missing; expected {expected}."), missing
    path = [*path, unknown]
    error = ConfigError(
        f"{where}: {_key(path)}: unknown key with the value {_shown(found[unknown])}; known keys: {', '.join(known)}.",
        advice=_did_you_mean(unknown, known),
    )
    return error, path


def _key(path: Sequence[str | int]) -> str:
    return "$" + "".join(
        f".{part}" if isinstance(part, str) and re.fullmatch(r"\w+", part) else f"[{_shown(part)}]" for part in path
    )


def _shown(value: Any) -> str:
    """As in the file, but shortened."""
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 60 else f"{text[:57]}..."


def _did_you_mean(given: str, known: Sequence[str]) -> str:
    import difflib

    def plainly(name: str) -> str:
        return re.sub(r"[\W_]", "", name).lower()

    by_plain_name = {plainly(name): name for name in known}
    nearest = difflib.get_close_matches(plainly(given), by_plain_name, n=1, cutoff=0.4)
    return f"Did you mean {by_plain_name[nearest[0]]}?" if nearest else ""


def _kind(struct: type, path: Sequence[str | int]) -> Any:
    """Return msgspec's description of the type that `struct` has at `path`."""
    kind = _description(struct)
    for part in path:
        if isinstance(part, int):
            kind = kind.item_type
        else:
            kind = next(field.type for field in kind.fields if field.encode_name == part)
    return kind


@cache
def _description(struct: type) -> Any:
    from msgspec.inspect import type_info

    return type_info(struct)


def _keys(kind: Any) -> list[str]:
    return [field.encode_name for field in getattr(kind, "fields", ())]


def _allowed(kind: Any) -> str:
    """Put one of msgspec's descriptions of types into words."""
    from msgspec import inspect

    match kind:
        case inspect.Metadata(extra_json_schema={"description": str(words)}):
            return words
        case inspect.BoolType():
            return "true or false"
        case inspect.IntType(ge=int(least)):
            return f"an integer ≥ {least}"
        case inspect.LiteralType(values=values):
            return f"one of {', '.join(map(_shown, values))}"
        case inspect.VarTupleType(item_type=item):
            return f"a list; each item: {_allowed(item)}"
        case inspect.StructType():
            return f"an object with the keys {', '.join(_keys(kind))}"
        case inspect.UnionType(types=types):
            return ", or ".join(map(_allowed, types))
        case inspect.NoneType():
            return "null"
    raise NotImplementedError(f"words for {kind}: give the field a description")
