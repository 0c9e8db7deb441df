"""What a watch over a pull request came to, in lines for people."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from cuggino.ci.pull import Thread
from cuggino.ci.state import one_line

_SHOWN = 200


@dataclass
class Report:
    """Gathered while it goes on."""

    threads: list[tuple[str, str | None, str]] = field(default_factory=list)
    """Path, commit or None, the agent's words."""
    fixed: list[tuple[str, str]] = field(default_factory=list)
    """Name and cause."""
    commits: list[str] = field(default_factory=list)
    left: list[tuple[str, str]] = field(default_factory=list)
    """What, and why."""
    open: Sequence[Thread] = ()
    status: str = ""
    errors: list[str] = field(default_factory=list)

    def lines(self) -> tuple[str, ...]:
        told = [*self.errors]
        for path, commit, words in self.threads:
            told.append(f"thread {path}: {commit[:7] if commit else 'not changed'}: {_short(words)}")
        told += [f"mended {name}: {_short(cause)}" for name, cause in self.fixed]
        told += [f"pushed {commit}" for commit in self.commits]
        told += [f"for you: {what}: {_short(reason)}" for what, reason in self.left]
        told += [f"open thread: {thread.path}: {_short(thread.comments[-1].body)}" for thread in self.open]
        return (*told, *([f"now: {self.status}"] if self.status else ()))


def _short(text: str) -> str:
    line = one_line(text)
    return f"{line[:_SHOWN]}…" if len(line) > _SHOWN else line
