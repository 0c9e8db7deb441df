"""One loop's files in `.cuggino/wip/`: what agents read and write, and the state needed to resume after a crash.

| file | |
|---|---|
| `<id>.plan.md` | the planner's draft |
| `<id>.md` | the plan, `# Progress Log`, every marker when it is emitted: implementers and reviewers read it |
| `<id>.review.md` | the review for the next planner |
| `<id>.check.txt` | the output of the check command |
| `<id>.<n>.<role>.out`, `.err` | what the nth agent printed |
| `<id>.json` | the state, replaced before each step |
"""

from __future__ import annotations

from pathlib import Path

import msgspec

from cuggino import records
from cuggino.backlog import Item, Removal, archive
from cuggino.clock import uuid7
from cuggino.errors import NotFound, StorageError
from cuggino.events import LlmMarkerEvent
from cuggino.files import append, write_atomic
from cuggino.loop.course import Course, Ended
from cuggino.markers import tag_name
from cuggino.project import Project
from cuggino.roles import Role

PROGRESS_LOG = "# Progress Log"


class SessionState(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """The state of a session. `elapsed` (seconds) and `cost_usd` add up over all its runs."""

    id: str
    focus: str
    course: Course = Course()
    baseline: str | None = None
    has_review: bool = False
    """Whether `<id>.review.md` is input for the next planner."""
    check_exit: int | None = None
    """The exit code of the command whose output is in `<id>.check.txt`."""
    backlog_file: str | None = None
    backlog_hash: str | None = None
    agents: int = 0
    cost_usd: float = 0.0
    elapsed: float = 0.0
    ended: Ended | None = None
    """Set when the session is over for good. A failed session can be resumed, so a failure does not set it."""
    issue_file: str | None = None
    """The name of the spec issue's file, which may not be written yet."""


class Session:
    """A session's state and files."""

    def __init__(self, project: Project, state: SessionState) -> None:
        self._wip = project.wip
        self._texts: dict[Path, str] = {}
        """What the session's file and the review hold, to write them again if an agent deletes them."""
        self._spec_issues = project.spec_issues
        self.state = state
        self.id = state.id
        self.draft = self._wip / f"{self.id}.plan.md"
        self.file = self._wip / f"{self.id}.md"
        self.review = self._wip / f"{self.id}.review.md"
        self.check = self._wip / f"{self.id}.check.txt"
        self.setup = self._wip / f"{self.id}.setup.txt"

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
        """Create a session. `review` is a person's code review for the first planner."""
        state = SessionState(
            id=uuid7(),
            focus=focus,
            has_review=review is not None,
            backlog_file=backlog_file,
            backlog_hash=backlog_hash,
        )
        session = cls(project, state)
        if review is not None:
            session._write(session.review, review)
        session.update()
        return session

    def next_output(self, role: Role) -> Path:
        """Return a new file for the next agent's output. Write again what an earlier agent deleted."""
        self.update(agents=self.state.agents + 1)
        for path, text in self._texts.items():
            if not path.exists():
                write_atomic(path, text)
        return self._wip / f"{self.id}.{self.state.agents}.{role}.out"

    # ---- state

    def update(self, **changes: object) -> None:
        """Change the state. It is on disk when this returns; if StorageError is raised, in memory only.

        Make the directory again if it was deleted.
        """
        self.state = msgspec.structs.replace(self.state, **changes)
        self._make_directory()
        records.save(self._wip / f"{self.id}.json", self.state)

    # ---- the plan and the review

    def delete_draft(self) -> None:
        self.draft.unlink(missing_ok=True)

    def adopt_plan(self, otherwise: str) -> bool:
        """Start a new session file with the planner's draft, or with `otherwise` (its marker) if it wrote none.

        Return False without either.
        """
        plan = _read(self.draft).strip() or otherwise.strip()
        if not plan:
            return False
        self._write(self.file, f"{plan}\n\n{PROGRESS_LOG}\n\n")
        self.delete_draft()
        return True

    def record(self, marker: LlmMarkerEvent) -> None:
        """Append a marker to the progress log, if the session has one yet."""
        name = tag_name(type(marker))
        entry = f"<{name}>{marker.content}</{name}>\n\n"
        if self.file.exists():
            before = self._texts.get(self.file) or _read(self.file)
            append(self.file, entry)
            self._texts[self.file] = before + entry
        elif self.file in self._texts:
            self._write(self.file, self._texts[self.file] + entry)

    def delete_review(self) -> None:
        """Delete an earlier review, so that it is never taken for that of the next reviewer."""
        self.update(has_review=False)
        self._texts.pop(self.review, None)
        self.review.unlink(missing_ok=True)

    def adopt_review(self, otherwise: str) -> None:
        """Make the reviewer's file, or else `otherwise` (its marker), the next planner's input."""
        self._write(self.review, review if (review := _read(self.review)).strip() else f"{otherwise}\n")
        self.update(has_review=True)

    def adopt_check(self, output: str) -> None:
        """Make the output of the failing check the next planner's review, instead of the reviewer's approval."""
        self._write(self.review, f"The check command failed (exit {self.state.check_exit}). Its output:\n\n{output}\n")
        self.update(has_review=True)

    def _write(self, path: Path, text: str) -> None:
        self._texts[path] = text
        self._make_directory()
        write_atomic(path, text)

    def _make_directory(self) -> None:
        try:
            self._wip.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise StorageError(f"{self._wip} cannot be created: {error.strerror}.") from error

    # ---- the end

    def persist_issue(self) -> None:
        """Write the spec issue that ended the session. May be repeated after a crash."""
        assert self.state.ended is not None
        assert self.state.issue_file is not None
        path = self._spec_issues / self.state.issue_file
        if not path.exists():
            write_atomic(path, f"{self.state.ended.content}\n")

    def delete(self) -> None:
        """Delete every file of the session, the state last, so that this can be repeated after a crash."""
        paths = sorted(self._wip.glob(f"{self.id}.*"), key=lambda path: path.name == f"{self.id}.json")
        for path in paths:
            path.unlink(missing_ok=True)


def find_session(project: Project, prefix: str | None = None) -> Session:
    """Return the unfinished session whose ID starts with `prefix`; None means the latest. Raise NotFound."""
    unfinished = {session.id: session for session in all_sessions(project) if session.state.ended is None}
    if prefix is not None:
        return records.find(prefix, unfinished, "unfinished session", list_command="cuggino status")
    if not unfinished:
        raise NotFound(f"{project.root} has no unfinished session.", advice='Start one: cuggino run --focus "…"')
    return unfinished[max(unfinished)]


def state_files(project: Project) -> list[Path]:
    """Return the files that hold sessions' states, oldest first."""
    return sorted(path for path in project.wip.glob("*.json") if not path.name.startswith("."))


def all_sessions(project: Project) -> list[Session]:
    """Return the stored sessions, oldest first, without those whose state cannot be read."""
    return [Session(project, state) for state in records.load_all(state_files(project), SessionState)]


def finish_session(project: Project, session: Session) -> str | None:
    """Write the spec issue or archive the backlog item of a session that is over, then delete its files.

    May be repeated after a crash. Return the name of the item if this call archived it.
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
