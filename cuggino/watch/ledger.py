"""What the watch knows about items that did not go well: `.cuggino/state.json`, for itself and for `status`."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from cuggino.backlog import digest_of
from cuggino.files import DECODE_ERRORS, write_atomic
from cuggino.project import Project


class Trouble(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """An item with this content failed `attempts` times; `blocked` says why it is set aside, if it is."""

    digest: str
    attempts: int = 0
    blocked: str | None = None


class State(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The file. `audited` is what the last audit that ended looked at."""

    items: dict[str, Trouble] = {}
    audited: str | None = None


class Ledger:
    """The state, on disk after each change. A watch that starts anew forgets its items' troubles, not its audit."""

    def __init__(self, project: Project) -> None:
        self._project = project
        try:
            former = msgspec.json.decode(project.state_file.read_bytes(), type=State)
        except (OSError, *DECODE_ERRORS):  # it holds nothing that could not be found out anew
            former = State()
        self._state = State(audited=former.audited)
        self._write()

    @property
    def audited(self) -> str | None:
        return self._state.audited

    def audit_ended(self, fingerprint: str) -> None:
        self._state = msgspec.structs.replace(self._state, audited=fingerprint)
        self._write()

    def failed(self, name: str, digest: str) -> int:
        """Another failure on this content; how many there were."""
        known = self._known(name)
        attempts = 1 if known is None or known.digest != digest else known.attempts + 1
        self._put(name, Trouble(digest=digest, attempts=attempts))
        return attempts

    def block(self, name: str, digest: str, reason: str) -> None:
        """Set the item aside until its content is another."""
        known = self._known(name)
        attempts = known.attempts if known is not None and known.digest == digest else 0
        self._put(name, Trouble(digest=digest, attempts=attempts, blocked=reason))

    def forget(self, name: str) -> None:
        """The item is done, or another one."""
        if self._known(name) is not None:
            items = {known: trouble for known, trouble in self._state.items.items() if known != _spelled_out(name)}
            self._state = msgspec.structs.replace(self._state, items=items)
            self._write()

    def ready(self, names: Sequence[str]) -> tuple[str, ...]:
        """Those that are not set aside, in order. One whose content has changed is ready again."""
        return tuple(name for name in names if not self._is_blocked(name))

    def _is_blocked(self, name: str) -> bool:
        trouble = self._known(name)
        return trouble is not None and trouble.blocked is not None and digest_of(self._project, name) == trouble.digest

    def _known(self, name: str) -> Trouble | None:
        return self._state.items.get(_spelled_out(name))

    def _put(self, name: str, trouble: Trouble) -> None:
        items = {**self._state.items, _spelled_out(name): trouble}
        self._state = msgspec.structs.replace(self._state, items=items)
        self._write()

    def _write(self) -> None:
        write_atomic(self._project.state_file, msgspec.json.format(msgspec.json.encode(self._state)))


def _spelled_out(name: str) -> str:
    """A name that is no UTF-8 cannot be written as JSON as it is."""
    return name.encode("utf-8", "backslashreplace").decode()
