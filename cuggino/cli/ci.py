"""`cuggino ci`: a pull request, watched until it is green, or looked at once."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

from cyclopts import App, Parameter

from cuggino.ci.agents import SandboxedFixers
from cuggino.ci.branch import GitBranch
from cuggino.ci.decide import Known, System, Trust, view
from cuggino.ci.file import StateFile, hide
from cuggino.ci.hub import GitHubHub, pull_of_branch
from cuggino.ci.page import render_look
from cuggino.ci.ports import Limited, PollFailed
from cuggino.ci.pull import PullRequest
from cuggino.ci.state import State
from cuggino.ci.watch import watch_pull
from cuggino.config import load
from cuggino.errors import GitHubError, UsageError
from cuggino.foreground import in_foreground
from cuggino.git.remotes import Remotes, Slug, find_origin, parse_remote_url
from cuggino.git.run import SAFE, git_output, run_git
from cuggino.github import GitHub, is_logged_in
from cuggino.output.terminal import open_display
from cuggino.project import Project
from cuggino.runtime import Invocation, Runtime
from cuggino.signals import Shutdown

ci = App(
    name="ci",
    help="Watch a pull request: what fails is mended by agents in sandboxes and pushed, reviewers are answered.\n\n"
    "GitHub is asked through your own gh. Your working tree is not touched.\n\n"
    "Example: cuggino ci watch",
)

_PR = Annotated[
    str | None,
    Parameter(name="PR", help="Its number or its address; without one it is that of the current branch."),
]


@ci.command
async def watch(
    pr: _PR = None,
    /,
    *,
    max_iterations: int | None = None,
    trust_author: Annotated[bool, Parameter(negative="", show_default=False)] = False,
    json: Annotated[bool, Parameter(negative="", show_default=False)] = False,
) -> int:
    """Watch a pull request until it is green, merged or closed.

    Polls GitHub every 30 to 300 seconds. A failing check is triaged: what is a matter of chance is run again, what is
    not is mended by an agent in a sandbox and pushed, twice at most; what remains is left to you. Review comments of
    members and of the bots in `ci.trustedBots` are dealt with in the same way and answered. What it has done is in
    `tmp/ci-watch-<pr>.md`, and a watch that was stopped goes on from there.

    Exit codes: 0 green or merged, 1 closed or failed, 5 the iterations are used up, 130 interrupted.

    Example: cuggino ci watch 12 --max-iterations 30

    Parameters
    ----------
    max_iterations
        End after so many polls; else `ci.maxIterations`.
    trust_author
        Also when the pull request is from another repository, or its author cannot write to this one: agents then
        read, and run, a stranger's code.
    json
        One event a line on stdout, as in the log, and nothing else.
    """
    if max_iterations is not None and max_iterations < 1:
        raise UsageError(f"--max-iterations {max_iterations}: it must be 1 or more.")
    project = Project.find(Path.cwd())
    config = load(project.config_file)
    slug, number, github = await _named(project, pr)
    said = await git_output(project.root, *SAFE, "rev-parse", "--path-format=absolute", "--git-common-dir")
    common = Path(said.decode(errors="surrogateescape").removesuffix("\n"))
    await hide(project, common)
    remotes = Remotes(project.root)
    base_remote = await remotes.address(slug, slug)

    async def work(runtime: Runtime, shutdown: Shutdown) -> int:
        async def branch(pull: PullRequest) -> GitBranch:
            owner, _, name = (pull.head_repository or str(slug)).partition("/")
            remote = await remotes.address(Slug(owner, name, slug.host), slug)
            return GitBranch(project.root, common, remote, pull.branch, slug.host, number)

        async def context(pull: PullRequest) -> tuple[GitBranch, SandboxedFixers]:
            theirs = await branch(pull)
            agents = SandboxedFixers(runtime.sandboxes, theirs, base_remote, number)
            await agents.prune()
            return theirs, agents

        return await watch_pull(
            file=StateFile(project, number),
            hub=GitHubHub(github, slug, number),
            context=context,
            system=_system(project.root),
            trust=Trust(threads=config.ci.threads, bots=config.ci.trusted_bots),
            trust_author=trust_author,
            limit=max_iterations or config.ci.max_iterations,
            shutdown=shutdown,
            send=runtime.sender(None),
            now=runtime.context.now,
        )

    project.prepare()
    beside = project.state_dir / f"ci-{number}.lock"
    return await in_foreground(
        project, Invocation(name="cuggino ci watch", json=json, lock=beside), work, last_words=lambda _: ()
    )


@ci.command
async def status(pr: _PR = None, /) -> int:
    """Look at a pull request once: its checks, its threads, what a watch would do, what it costs to ask.

    Changes nothing: neither on GitHub nor here.

    Example: cuggino ci status 12
    """
    project = Project.find(Path.cwd())
    config = load(project.config_file)
    slug, number, github = await _named(project, pr)
    try:
        pull = await GitHubHub(github, slug, number).poll()
    except PollFailed as failure:
        raise GitHubError(f"The pull request cannot be looked at: {failure}") from failure
    except Limited as limited:
        raise GitHubError(
            f"GitHub takes no requests for {limited.seconds:.0f} s: {limited.message}", advice="Wait for that long."
        ) from limited
    file = StateFile(project, number)
    stored = file.load()
    trust = Trust(threads=config.ci.threads, bots=config.ci.trusted_bots)
    state = stored or State(number=number, head=pull.head or pull.last_head, started=datetime.now(UTC))
    seen = view(pull, state, Known(system=_system(project.root), trust=trust, empty=1))
    with open_display(as_json=False, live=False) as display:
        watched = None if stored is None else file.path
        await display.print(lambda page: render_look(pull, seen, github.requests, watched, page))
    return 0


async def _named(project: Project, pr: str | None) -> tuple[Slug, int, GitHub]:
    """Which pull request is meant, and who is asked about it. GitHubError, UsageError."""
    here = await find_origin(project.root)
    if here is None:
        raise GitHubError(
            f"{project.root} has no origin on GitHub.", advice="Add one: git remote add origin https://github.com/…"
        )
    if not await is_logged_in(here, project.root):
        raise GitHubError(f"gh is not logged in to {here.host}.", advice=f"Log in: gh auth login -h {here.host}")
    github = GitHub(project.root, host=here.host)
    if pr is None:
        slug, number = await pull_of_branch(github, here, await _branch(project.root))
        return slug, number, github
    if found := re.fullmatch(r"#?([1-9]\d{0,8})", pr):
        return here, int(found[1]), github
    found = re.fullmatch(r"(https?://.+/.+/.+)/pull/([1-9]\d{0,8})(?:[/?#].*)?", pr)
    named = parse_remote_url(found[1]) if found else None
    if found is None or named is None:
        raise UsageError(f"{pr!r} is no pull request.", advice="Give its number, or its address.")
    if await Remotes(project.root).find(named) is None:
        raise UsageError(f"No remote of {project.root} leads to {named}.", advice="Go to a clone of it.")
    return named, int(found[2]), GitHub(project.root, host=named.host)


async def _branch(root: Path) -> str:
    """The current branch, as the remote calls it."""
    current = await run_git(root, *SAFE, "symbolic-ref", "--quiet", "--short", "HEAD")
    if current.returncode != 0:
        raise UsageError("No branch is checked out.", advice="Name the pull request: cuggino ci watch NUMBER")
    name = current.stdout.decode(errors="surrogateescape").strip()
    followed = await run_git(root, *SAFE, "config", "--get", f"branch.{name}.merge")
    return followed.stdout.decode(errors="surrogateescape").strip().removeprefix("refs/heads/") or name


def _system(root: Path) -> System:
    """What runs the checks, as the files tell. They are at the top of the repository."""
    top = next((folder for folder in (root, *root.parents) if (folder / ".git").exists()), root)
    if any((top / ".github" / "workflows").glob("*.y*ml")):
        return "github-actions"
    return "buildkite" if (top / ".buildkite").is_dir() else "unknown"
