"""The watch's record of items that failed or are blocked: `.cuggino/state.json`, which `cuggino status` reads too."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from cuggino.backlog import digest_of
from cuggino.files import DECODE_ERRORS, write_atomic
from cuggino.project import Project

_REMEMBERED = 200
"""Finished items that are known again."""


class ItemRecord(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """An item that failed `attempts` times with this content. `blocked` is the reason if it is blocked."""

    digest: str
    attempts: int = 0
    blocked: str | None = None


class LedgerState(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The file's content. `audited` is the fingerprint of the last audit that ended."""

    items: dict[str, ItemRecord] = {}
    finished: dict[str, str] = {}
    """The digests of the items that this watch has archived: one may come back by an agent's `git checkout`."""
    audited: str | None = None


class Ledger:
    """The stored state, on disk after each change. A new watch keeps the last audit but drops the items' records."""

    def __init__(self, project: Project) -> None:
        self._project = project
        try:
            former = msgspec.json.decode(project.state_file.read_bytes(), type=LedgerState)
        except (OSError, *DECODE_ERRORS):  # everything in it can be found out again
            former = LedgerState()
        self._save(LedgerState(audited=former.audited))

    @property
    def audited(self) -> str | None:
        return self._state.audited

    def record_audit(self, fingerprint: str) -> None:
        self._save(msgspec.structs.replace(self._state, audited=fingerprint))

    def record_failure(self, name: str, digest: str) -> int:
        """Record a failure of an item with this content, and return how many there are now."""
        attempts = self._attempts(name, digest) + 1
        self._put(name, ItemRecord(digest=digest, attempts=attempts))
        return attempts

    def block(self, name: str, digest: str, reason: str) -> None:
        """Set an item aside until its content changes."""
        self._put(name, ItemRecord(digest=digest, attempts=self._attempts(name, digest), blocked=reason))

    def clear(self, name: str) -> None:
        """Drop an item's record: it is done, or its content is new."""
        if self._find(name) is not None:
            items = {known: record for known, record in self._state.items.items() if known != _escape(name)}
            self._save(msgspec.structs.replace(self._state, items=items))

    def record_finished(self, name: str, digest: str) -> None:
        finished = {
            known: known_digest for known, known_digest in self._state.finished.items() if known != _escape(name)
        }
        latest = dict([*finished.items(), (_escape(name), digest)][-_REMEMBERED:])
        self._save(msgspec.structs.replace(self._state, finished=latest))

    def is_finished(self, name: str, digest: str) -> bool:
        """Whether this watch has archived an item with this name and content."""
        return self._state.finished.get(_escape(name)) == digest

    def select_ready(self, names: Sequence[str]) -> tuple[str, ...]:
        """Return the items that are not blocked, in order. A blocked item is ready again once its content changes."""
        return tuple(name for name in names if not self._is_blocked(name))

    def _is_blocked(self, name: str) -> bool:
        record = self._find(name)
        return record is not None and record.blocked is not None and digest_of(self._project, name) == record.digest

    def _attempts(self, name: str, digest: str) -> int:
        record = self._find(name)
        return record.attempts if record is not None and record.digest == digest else 0

    def _find(self, name: str) -> ItemRecord | None:
        return self._state.items.get(_escape(name))

    def _put(self, name: str, record: ItemRecord) -> None:
        self._save(msgspec.structs.replace(self._state, items={**self._state.items, _escape(name): record}))

    def _save(self, state: LedgerState) -> None:
        self._state = state
        write_atomic(self._project.state_file, msgspec.json.format(msgspec.json.encode(state)))


def _escape(name: str) -> str:
    """Return a name that JSON can hold, also for one that is not valid UTF-8."""
    return name.encode("utf-8", "backslashreplace").decode()
