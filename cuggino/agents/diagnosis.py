"""What a backend can tell about its program on this machine: without a conversation, a request or a change."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol, runtime_checkable

import msgspec


class Symptom(msgspec.Struct, frozen=True, kw_only=True):
    """Something that the program needs, `what` in a word, and whether it has it; if not, `mend` is what to do."""

    what: str
    fit: bool
    text: str
    mend: str = ""


@runtime_checkable
class Diagnosed(Protocol):
    """A backend that can be asked. One that is not is looked for in PATH, and that is all."""

    @property
    def version_arguments(self) -> tuple[str, ...]:
        """With these the program prints its version and ends, within a second, leaving no trace; empty: it does not."""
        ...

    def symptoms(self, environment: Mapping[str, str], root: Path) -> Sequence[Symptom]:
        """What an agent that is started in `root` with this environment would find. Reads files only; never raises."""
        ...
