"""One loop's files in `.cuggino/wip/`: what agents read and write, and what is needed to go on after a crash.

| file | |
|---|---|
| `<id>.plan.md` | the planner's draft |
| `<id>.md` | the plan, `# Progress Log`, every marker as it is emitted: what implementers and reviewers read |
| `<id>.review.md` | the review that the next planner reads |
| `<id>.check.txt` | the output of the check command |
| `<id>.<n>.<role>.out`, `.err` | what the nth agent printed |
| `<id>.json` | the state: written whole before each step |
"""

from __future__ import annotations

from pathlib import Path

import msgspec

from cuggino import records
from cuggino.backlog import Item, Removal, archive
from cuggino.clock import uuid7
from cuggino.errors import NotFound
from cuggino.events import LlmMarkerEvent
from cuggino.files import append, write_atomic
from cuggino.loop.course import Course, Ended
from cuggino.markers import tag_name
from cuggino.project import Project
from cuggino.roles import Role

PROGRESS_LOG = "# Progress Log"


class SessionState(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """What a session needs to remember. `elapsed` and `cost_usd` are the whole session's, over all its runs."""

    id: str
    focus: str
    course: Course = Course()
    baseline: str | None = None
    has_review: bool = False
    """`<id>.review.md` is the next planner's input."""
    check_exit: int | None = None
    """The exit code that belongs to `<id>.check.txt`."""
    backlog_file: str | None = None
    backlog_hash: str | None = None
    agents: int = 0
    cost_usd: float = 0.0
    elapsed: float = 0.0
    ended: Ended | None = None
    """Set when the session is over for good; a failure is not: it can be gone on with."""
    issue_file: str | None = None
    """The name that a spec issue's file has or will have."""


class Session:
    """A session's state and files. Every change of the state is on disk before `update` returns."""

    def __init__(self, project: Project, state: SessionState) -> None:
        self._wip = project.wip
        self._spec_issues = project.spec_issues
        self.state = state

    @classmethod
    def create(
        cls,
        project: Project,
        focus: str,
        *,
        review: str | None = None,
        backlog_file: str | None = None,
        backlog_hash: str | None = None,
    ) -> Session:
        """A new session; `review` is a person's code review for the first planner."""
        state = SessionState(
            id=uuid7(),
            focus=focus,
            has_review=review is not None,
            backlog_file=backlog_file,
            backlog_hash=backlog_hash,
        )
        session = cls(project, state)
        if review is not None:
            write_atomic(session.review, review)
        session.update()
        return session

    # ---- paths

    @property
    def id(self) -> str:
        return self.state.id

    @property
    def draft(self) -> Path:
        return self._wip / f"{self.id}.plan.md"

    @property
    def file(self) -> Path:
        return self._wip / f"{self.id}.md"

    @property
    def review(self) -> Path:
        return self._wip / f"{self.id}.review.md"

    @property
    def check(self) -> Path:
        return self._wip / f"{self.id}.check.txt"

    @property
    def setup(self) -> Path:
        return self._wip / f"{self.id}.setup.txt"

    def next_output(self, role: Role) -> Path:
        """Where the next agent's output goes; each agent of a session gets a file of its own."""
        self.update(agents=self.state.agents + 1)
        return self._wip / f"{self.id}.{self.state.agents}.{role}.out"

    # ---- state

    def update(self, **changes: object) -> None:
        """Change the state and write it, whole."""
        self.state = msgspec.structs.replace(self.state, **changes)
        records.save(self._wip / f"{self.id}.json", self.state)

    # ---- the plan and the review

    def forget_draft(self) -> None:
        self.draft.unlink(missing_ok=True)

    def adopt_plan(self, otherwise: str) -> bool:
        """The planner has ended: its draft becomes the head of a new session file.

        A planner that wrote no draft may have said the plan in its marker: `otherwise`. False: there is no plan.
        """
        plan = _read(self.draft).strip() or otherwise.strip()
        if not plan:
            return False
        write_atomic(self.file, f"{plan}\n\n{PROGRESS_LOG}\n\n")
        self.forget_draft()
        return True

    def record(self, marker: LlmMarkerEvent) -> None:
        """Append a marker to the progress log, if there is one yet."""
        if self.file.exists():
            name = tag_name(type(marker))
            append(self.file, f"<{name}>{marker.content}</{name}>\n\n")

    def forget_review(self) -> None:
        """Before a reviewer starts: an earlier review is never taken for a new one."""
        self.update(has_review=False)
        self.review.unlink(missing_ok=True)

    def adopt_review(self, otherwise: str) -> None:
        """The reviewer asked for changes: its file, or else what its marker said, is the next planner's input."""
        if not _read(self.review).strip():
            write_atomic(self.review, f"{otherwise}\n")
        self.update(has_review=True)

    # ---- the end

    def persist_issue(self) -> None:
        """Write the spec issue that the session ended by. May be done again after a crash."""
        assert self.state.ended is not None
        assert self.state.issue_file is not None
        path = self._spec_issues / self.state.issue_file
        if not path.exists():
            write_atomic(path, f"{self.state.ended.content}\n")

    def delete(self) -> None:
        """Remove every file of the session, the state last: a crash in between is finished by doing it again."""
        paths = sorted(self._wip.glob(f"{self.id}.*"), key=lambda path: path.name == f"{self.id}.json")
        for path in paths:
            path.unlink(missing_ok=True)


def find(project: Project, prefix: str | None = None) -> Session:
    """Return the unfinished session whose ID starts with `prefix`; None means the latest. Raise NotFound."""
    unfinished = {session.id: session for session in stored(project) if session.state.ended is None}
    if prefix is not None:
        return records.find(prefix, unfinished, "unfinished session", list_command="cuggino status")
    if not unfinished:
        raise NotFound(f"{project.root} has no unfinished session.", advice='Start one: cuggino run --focus "…"')
    return unfinished[max(unfinished)]


def state_files(project: Project) -> list[Path]:
    """Return the files that hold sessions' states, oldest first."""
    return sorted(path for path in project.wip.glob("*.json") if not path.name.startswith("."))


def stored(project: Project) -> list[Session]:
    """Return the stored sessions, oldest first, without those whose state cannot be read."""
    return [Session(project, state) for state in records.load_all(state_files(project), SessionState)]


def finish(project: Project, session: Session) -> str | None:
    """What is left to do for a session that is over, done again after a crash without harm: its spec issue is
    written or its backlog item archived, then its files go. Returns the item that this has archived.
    """
    state = session.state
    archived = None
    if state.issue_file is not None:
        session.persist_issue()
    elif state.backlog_file is not None:
        removal = archive(project, Item(state.backlog_file, state.backlog_hash or ""))
        archived = state.backlog_file if removal is Removal.REMOVED else None
    session.delete()
    return archived


def _read(path: Path) -> str:
    try:
        return path.read_text(errors="replace")
    except FileNotFoundError:
        return ""
