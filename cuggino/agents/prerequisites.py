"""What a backend can find out about its program on this machine without a conversation, a request or a change."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TypeVar

import msgspec

_T = TypeVar("_T")


class Prerequisite(msgspec.Struct, frozen=True, kw_only=True):
    """Something that a program needs: its name, whether it is there, a text about it, and how to fix it if it is not.

    That a login is there does not mean that the provider accepts it.
    """

    name: str
    met: bool
    text: str
    fix: str = ""


def login_found(text: str) -> Prerequisite:
    """Return a login that is there."""
    return Prerequisite(name="login", met=True, text=text)


def login_missing(text: str, fix: str) -> Prerequisite:
    """Return a login that is not there."""
    return Prerequisite(name="login", met=False, text=text, fix=fix)


def find_home(environment: Mapping[str, str]) -> Path:
    """Return the home directory that a program with this environment has."""
    return Path(environment.get("HOME") or Path.home())


def read_json(path: Path, kind: type[_T]) -> _T | None:
    """Return one of a program's own files, decoded; None if it is missing, unreadable or of another form."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=kind)
    except (OSError, msgspec.DecodeError, UnicodeDecodeError):
        return None
