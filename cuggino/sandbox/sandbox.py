"""What a sandbox is: where it stands, what it began at, where its work is to go. On disk as long as it exists."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

import msgspec


class Sandbox(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A tree of its own for one task. All paths are absolute; `id` is a UUIDv7."""

    id: str
    repository: Path
    """The top of the person's working tree."""
    common_dir: Path
    """The git directory that all worktrees of the repository share."""
    folder: Path
    """The top of the sandbox's tree."""
    below: str
    """Where in both trees the project's root is: "" for the top, else a relative path."""
    git_dir: Path
    """The git directory with which cuggino looks at the sandbox: never one that the agent could have put there."""
    branch: str | None
    """`spawn/<id>`; None: detached, as for a pull request's fix."""
    base: str
    """The commit that it began at, a full hash."""
    target: str | None
    """The branch that its work comes home to; None where HEAD was detached."""
    cloned: bool = False
    """A clone of its own, for agents behind a launcher, and no worktree."""
    specs: str = ".specs"
    """The specs folder, relative to the project's root: copied in, and never brought home."""
    copied: tuple[str, ...] = ()
    """Files that git does not know and the work needs, relative to `folder`: copied in, and never brought home."""
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

    @property
    def exclude_file(self) -> Path:
        """What the agent's git ignores, for `core.excludesFile`."""
        return self.git_dir / "cuggino-exclude"

    @property
    def jail_home(self) -> Path:
        """Beside the folder of a clone: what a launcher can show an agent as its home. What it remembers there is there
        at the next attempt, and goes with the sandbox."""
        return self.folder.with_name(f"{self.folder.name}.home")
