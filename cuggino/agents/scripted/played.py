"""Which turns of a script were played: a directory of empty files beside the script.

The agent is a new process each time, so this is its memory. A turn is claimed by creating a file that must not exist
yet: two agents that start at once never play the same turn. The directory has a `.gitignore` with `*`, so that git
never commits it. File names start with a digest of the script: a changed script starts over.
"""

from __future__ import annotations

import os
import zlib
from pathlib import Path

from cuggino.agents.scripted.script import ScriptError


class PlayedTurns:
    """The memory of one script. Nothing is created before the first claim."""

    def __init__(self, script: Path, content: bytes) -> None:
        self.folder = script.with_name(script.name + ".played")
        self._digest = f"{zlib.crc32(content):08x}"

    def claim(self, role: str, turn: int, times: int) -> bool:
        """Count the turn as played once more; return False if it was already played `times` times."""
        self._make_folder()
        for file in self._files(role, turn, times):
            try:
                os.close(os.open(file, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
            except FileExistsError:
                continue
            return True
        return False

    def is_left(self, role: str, turn: int, times: int) -> bool:
        """Return whether the turn could be claimed now."""
        return not all(file.exists() for file in self._files(role, turn, times))

    def _files(self, role: str, turn: int, times: int) -> list[Path]:
        return [self.folder / f"{self._digest}-{role}-{turn}-{n}" for n in range(times)]

    def _make_folder(self) -> None:
        try:
            self.folder.mkdir(mode=0o700, exist_ok=True)
            ignore = self.folder / ".gitignore"
            if not ignore.exists():
                ignore.write_text("*\n")
        except OSError as error:
            raise ScriptError(
                f"played turns cannot be remembered: {error}",
                advice="Move the script to a writable directory, or give every turn `times` 0.",
            ) from error
