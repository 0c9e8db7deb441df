"""A pull request on the GitHub of this machine: its checks look at what is really in the bare repository.

    pull = PullRequest(server, bare, branch="change")
    pull.job("test (3.11)", lambda run: "SUCCESS" if run.file("answer.txt") == "42\\n" else "FAILURE")
    pull.thread("app.py", 3, comment("mia", "MEMBER", "Why not 43?"))

A job returns the result of its run at each poll: one of GitHub's words, in capitals. A word that is not a conclusion
means that the run continues. `Run.age` counts the polls of its head, `Run.attempt` the runs.
"""

from __future__ import annotations

import subprocess
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

from tests.e2e.github_server import NOT_FOUND, GitHubServer, Reply, Request, tip_of

CONCLUSIONS = (
    *("SUCCESS", "FAILURE", "TIMED_OUT", "STARTUP_FAILURE", "ACTION_REQUIRED", "CANCELLED"),
    *("SKIPPED", "NEUTRAL", "STALE"),
)
_ids = count(41_000_000_000)
"""IDs of runs, comments and workflows: today's have more than 32 bits."""


@dataclass
class Run:
    """One run of a job on a commit."""

    bare: Path
    head: str
    attempt: int = 1
    age: int = 0
    id: int = field(default_factory=lambda: next(_ids))

    def file(self, path: str) -> str | None:
        """Return the file's content in the commit."""
        done = subprocess.run(["git", "cat-file", "blob", f"{self.head}:{path}"], cwd=self.bare, capture_output=True)
        return done.stdout.decode() if done.returncode == 0 else None


Outcome = Callable[[Run], str]


@dataclass
class Job:
    name: str
    outcome: Outcome
    app: str = "github-actions"
    workflow: str = "ci"
    event: str = "pull_request"
    is_status: bool = False
    log: str = "##[error]it failed"
    runs: dict[str, Run] = field(default_factory=dict)

    def words(self, run: Run) -> tuple[str, str | None]:
        """Return status and conclusion."""
        word = self.outcome(run)
        return ("COMPLETED", word) if word in CONCLUSIONS else (word, None)


def comment(author: str | None, association: str, body: str, *, bot: bool = False, own: bool = False) -> dict[str, Any]:
    number = next(_ids)
    typename = "Bot" if bot else "User"
    return {
        "fullDatabaseId": str(number),
        "databaseId": number,
        "author": None if author is None else {"__typename": typename, "login": author},
        "authorAssociation": association,
        "viewerDidAuthor": own,
        "state": "SUBMITTED",
        "body": body,
    }


def _only_page(nodes: list[Any]) -> dict[str, Any]:
    return {"pageInfo": {"hasNextPage": False, "endCursor": None}, "nodes": nodes}


class PullRequest:
    """Number 12 of o/r. `head` is the tip of the branch; for `lag` polls after a push it is the old one."""

    number = 12

    def __init__(self, server: GitHubServer, bare: Path, *, branch: str) -> None:
        self.server = server
        self.bare = bare
        self.branch = branch
        self.state = "OPEN"
        self.mergeable = "MERGEABLE"
        self.author: dict[str, Any] | None = {"__typename": "User", "login": "mia"}
        self.writers = {"mia": "write"}
        self.head_owner = "o"
        self.viewer_permission: str | None = "WRITE"
        self.maintainer_can_modify = False
        self.jobs: list[Job] = []
        self.threads: list[dict[str, Any]] = []
        self.lag = 0
        self.reruns: list[int] = []
        self.spoil: Callable[[Request], Reply | None] = lambda _: None
        """Return an answer to a poll that replaces the real one, or None."""
        self.before_poll: Callable[[int], None] = lambda _: None
        self.polls = 0
        self._heads: list[str] = []
        self._lagging = 0
        self._workflows: defaultdict[tuple[str, str], int] = defaultdict(lambda: next(_ids))
        base = "repos/o/r"
        server.on("POST", "graphql", self._graphql)
        server.on("GET", rf"{base}/pulls/12", lambda _: Reply(200, {"state": self._rest_state()}))
        server.on("GET", rf"{base}/collaborators/(?P<login>.+)/permission", self._permission)
        server.on("GET", rf"{base}/actions/jobs/(?P<id>\d+)/logs", self._log)
        server.on("GET", r"logs/(?P<id>\d+)", self._log_text)
        server.on("GET", rf"{base}/check-runs/(?P<id>\d+)", self._check_run)
        server.on("POST", rf"{base}/actions/runs/(?P<id>\d+)/rerun-failed-jobs", self._rerun)
        server.on("POST", rf"{base}/pulls/12/comments/(?P<id>\d+)/replies", self.reply)

    def job(self, name: str, outcome: Outcome, **more: Any) -> Job:
        self.jobs.append(Job(name, outcome, **more))
        return self.jobs[-1]

    def thread(self, path: str, line: int | None, *comments: dict[str, Any]) -> dict[str, Any]:
        number = len(self.threads) + 1
        self.threads.append(
            {"id": f"PRRT_{number}", "isResolved": False, "path": path, "line": line, "comments": list(comments)}
        )
        return self.threads[-1]

    @property
    def tip(self) -> str | None:
        return tip_of(self.bare, self.branch)

    @property
    def head(self) -> str | None:
        """The branch's commit according to GitHub."""
        tip = self.tip
        if tip is not None and (not self._heads or self._heads[-1] != tip):
            self._heads.append(tip)
            self._lagging = self.lag if len(self._heads) > 1 else 0
        if tip is None:
            return None
        return self._heads[-2] if self._lagging else tip

    # ---- GraphQL

    def _graphql(self, request: Request) -> Reply:
        query, variables = request.json["query"], request.json["variables"]
        if "associatedPullRequests" in query:
            node = {"number": self.number, "repository": {"name": "r", "owner": {"login": "o"}}}
            there = variables["branch"] == f"refs/heads/{self.branch}" and self.state == "OPEN"
            ref = {"associatedPullRequests": {"nodes": [node]}} if there else None
            return Reply(200, {"data": {"repository": {"ref": ref}}})
        if (variables["owner"], variables["name"], variables["number"]) != ("o", "r", self.number):
            errors = [{"type": "NOT_FOUND", "message": "Could not resolve to a PullRequest."}]
            return Reply(200, {"data": {"repository": {"pullRequest": None}}, "errors": errors})
        if (spoilt := self.spoil(request)) is not None:
            return spoilt
        self.polls += 1
        self.before_poll(self.polls)
        self._grow_older()
        return Reply(200, {"data": {"rateLimit": self._limit(), "repository": {"pullRequest": self._pull()}}})

    def _grow_older(self) -> None:
        head = self.head
        for job in self.jobs:
            if head is not None:
                job.runs.setdefault(head, Run(self.bare, head)).age += 1

    def _limit(self) -> dict[str, Any]:
        asked = len(self.server.requests)
        return {"limit": 5000, "remaining": 5000 - asked}

    def _pull(self) -> dict[str, Any]:
        head = self.head
        self._lagging = max(0, self._lagging - 1)
        pull: dict[str, Any] = {
            "number": self.number,
            "title": "A change",
            "url": "https://github.com/o/r/pull/12",
            "state": self.state,
            "mergeable": self.mergeable,
            "isCrossRepository": self.head_owner != "o",
            "maintainerCanModify": self.maintainer_can_modify,
            "author": self.author,
            "baseRefName": "main",
            "headRefName": self.branch,
            "headRefOid": head or (self._heads[-1] if self._heads else "0" * 40),
            "headRepository": {
                "nameWithOwner": f"{self.head_owner}/r",
                "viewerPermission": self.viewer_permission,
            },
            "headRef": None,
            "reviewThreads": _only_page([self._thread(one) for one in self.threads]),
        }
        if head is not None:
            nodes = [node for job in self.jobs if (node := self._context(job, head)) is not None]
            pull["headRef"] = {
                "target": {
                    "oid": head,
                    "checkSuites": _only_page([self._suite(job, head) for job in self.jobs if not job.is_status]),
                    "statusCheckRollup": {"contexts": _only_page(nodes)} if nodes else None,
                }
            }
        return pull

    def _context(self, job: Job, head: str) -> dict[str, Any] | None:
        run = job.runs[head]
        status, conclusion = job.words(run)
        if status == "MISSING":
            return None
        started = f"2026-01-01T00:{run.attempt:02}:00Z"
        if job.is_status:
            return {
                "__typename": "StatusContext",
                "context": job.name,
                "state": conclusion or status,
                "description": job.log,
                "targetUrl": "https://ci.example/1",
                "createdAt": started,
            }
        return {
            "__typename": "CheckRun",
            "databaseId": run.id,
            "name": job.name,
            "status": status,
            "conclusion": conclusion,
            "startedAt": None if status == "QUEUED" else started,
            "detailsUrl": f"https://github.com/o/r/actions/runs/1/job/{run.id}",
            "checkSuite": self._suite(job, head),
        }

    def _suite(self, job: Job, head: str) -> dict[str, Any]:
        """All jobs of a workflow form one suite, including those without a check yet."""
        suite: dict[str, Any] = {"id": f"CS_{job.app}_{job.name}", "status": "COMPLETED", "conclusion": None}
        suite |= {"app": {"slug": job.app}, "workflowRun": None}
        words = [job.words(job.runs[head])]
        if job.app == "github-actions":
            number = self._workflows[head, job.workflow]
            words = [one.words(one.runs[head]) for one in self.jobs if one.workflow == job.workflow]
            suite["id"] = f"CS_{number}"
            suite["workflowRun"] = {
                "databaseId": number,
                "runNumber": len(self._heads),
                "event": job.event,
                "workflow": {"databaseId": sum(job.workflow.encode()), "name": job.workflow},
            }
        if any(conclusion is None for _, conclusion in words):
            suite["status"] = "IN_PROGRESS"
        else:
            bad = [word for _, word in words if word not in ("SUCCESS", "SKIPPED", "NEUTRAL", "STALE")]
            suite["conclusion"] = (*bad, "SUCCESS")[0]
        return suite

    def _thread(self, thread: dict[str, Any]) -> dict[str, Any]:
        comments = thread["comments"]
        return {
            **{key: thread[key] for key in ("id", "isResolved", "path", "line")},
            "comments": {"totalCount": len(comments), "nodes": comments[:50]},
            "newest": {"nodes": comments[-50:]},
        }

    # ---- REST

    def _rest_state(self) -> str:
        return "open" if self.state == "OPEN" else "closed"

    def _permission(self, request: Request) -> Reply:
        login = request.named["login"]
        return Reply(200, {"permission": self.writers[login]}) if login in self.writers else NOT_FOUND

    def _by_id(self, number: str) -> tuple[Job, Run] | None:
        return next(((job, run) for job in self.jobs for run in job.runs.values() if run.id == int(number)), None)

    def _log(self, request: Request) -> Reply:
        """Redirect, as GitHub does."""
        if self._by_id(request.named["id"]) is None:
            return NOT_FOUND
        return Reply(302, b"", {"location": f"/logs/{request.named['id']}"})

    def _log_text(self, request: Request) -> Reply:
        found = self._by_id(request.named["id"])
        assert found is not None
        lines = [f"2026-01-01T00:00:00.0000000Z {line}" for line in found[0].log.splitlines()]
        return Reply(200, "\r\n".join(["\ufeff" + lines[0], *lines[1:]]).encode(), {"content-type": "text/plain"})

    def _check_run(self, request: Request) -> Reply:
        found = self._by_id(request.named["id"])
        if found is None:
            return NOT_FOUND
        return Reply(200, {"output": {"title": "It failed", "summary": found[0].log, "text": None}})

    def _rerun(self, request: Request) -> Reply:
        number = int(request.named["id"])
        keys = {found: key for key, found in self._workflows.items()}
        if number not in keys:
            return NOT_FOUND
        head, workflow = keys[number]
        jobs = [job for job in self.jobs if job.workflow == workflow]
        if any(job.words(job.runs[head])[1] is None for job in jobs):
            return Reply(403, {"message": "This workflow is already running"})
        self.reruns.append(number)
        for job in jobs:
            if job.words(job.runs[head])[1] not in ("SUCCESS", "SKIPPED"):
                job.runs[head] = Run(self.bare, head, attempt=job.runs[head].attempt + 1)
        return Reply(201, {})

    def reply(self, request: Request) -> Reply:
        for thread in self.threads:
            if str(thread["comments"][0]["databaseId"]) == request.named["id"]:
                thread["comments"].append(comment("me", "OWNER", request.json["body"], own=True))
                return Reply(201, {"id": thread["comments"][-1]["databaseId"]})
        return NOT_FOUND
