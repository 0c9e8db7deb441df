"""A sandbox: where it is, which commit it started from, where its work goes. Recorded on disk while it exists."""

from __future__ import annotations

import shutil
from datetime import datetime
from pathlib import Path

import msgspec


class Sandbox(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A separate tree for one task. All paths are absolute; `id` is a UUIDv7."""

    id: str
    repository: Path
    """The top of the person's working tree."""
    common_dir: Path
    """The git directory that all worktrees of the repository share."""
    folder: Path
    """The top of the sandbox's tree."""
    below: str
    """The project's root in both trees: "" for the top, else a relative path."""
    git_dir: Path
    """The git directory that cuggino uses for the sandbox: never one that the agent could have put there."""
    branch: str | None
    """`spawn/<id>`; None if detached, as for a pull request's fix."""
    base: str
    """The full hash of the commit that it started from."""
    target: str | None
    """The branch that its work is integrated into; None if HEAD was detached."""
    cloned: bool = False
    """A clone, for agents behind a launcher, instead of a worktree."""
    specs: str = ".specs"
    """The specs directory, relative to the project's root: copied in, never integrated."""
    copied: tuple[str, ...] = ()
    """Ignored files that the work needs, relative to `folder`: copied in, never integrated."""
    title: str = ""
    item: str | None = None
    """The backlog item that a watch works on here."""
    created_at: datetime

    @property
    def root(self) -> Path:
        """The project's root in the sandbox."""
        return self.folder / self.below

    @property
    def begin_index(self) -> Path:
        """The index as it was when the sandbox was made, with the times of its files."""
        return self.git_dir / "cuggino-index"

    def keep_index(self, index: Path) -> None:
        """Replace `begin_index` by this index, with its times, all or nothing: git refuses one that a kill cut off."""
        copy = self.begin_index.with_name(f"{self.begin_index.name}.new")
        shutil.copy2(index, copy)
        copy.replace(self.begin_index)

    @property
    def exclude_file(self) -> Path:
        """What the agent's git ignores, for `core.excludesFile`."""
        return self.git_dir / "cuggino-exclude"

    @property
    def jail_home(self) -> Path:
        """A directory next to a clone that a launcher can use as the agent's home.

        It is kept between attempts, and deleted with the sandbox.
        """
        return self.folder.with_name(f"{self.folder.name}.home")
