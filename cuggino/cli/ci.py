"""`cuggino ci`: watch a pull request until it is green, or look at it once."""

from __future__ import annotations

from typing import Annotated

from cyclopts import App, Parameter

from cuggino.ci.agents import SandboxedFixers
from cuggino.ci.branch import GitBranch
from cuggino.ci.decide import Trust
from cuggino.ci.find import common_dir, detect_system, find_pull_request
from cuggino.ci.pull_request import PullRequestSnapshot
from cuggino.ci.state_file import StateFile, exclude_from_git
from cuggino.ci.status import read_status
from cuggino.ci.watch import CiWatchContext, watch_pull_request
from cuggino.cli.arguments import integer
from cuggino.config import load
from cuggino.errors import UsageError
from cuggino.foreground import in_foreground
from cuggino.output.terminal import open_display
from cuggino.runtime import Invocation, Runtime
from cuggino.signals import Shutdown
from cuggino.trust import find_project, refuse_tracked

ci = App(
    name="ci",
    help="Watch a pull request: agents in sandboxes fix failing checks and answer reviewers.\n\n"
    "GitHub is accessed through your own gh. Your working tree is not touched.\n\n"
    "Example: cuggino ci watch",
)

_PR = Annotated[
    str | None, Parameter(name="PR", help="Number or URL of the pull request; by default that of the current branch.")
]


@ci.command
async def watch(
    pr: _PR = None,
    /,
    *,
    max_iterations: Annotated[int | None, Parameter(converter=integer)] = None,
    trust_author: Annotated[bool, Parameter(negative="", show_default=False)] = False,
    json: Annotated[bool, Parameter(negative="", show_default=False)] = False,
) -> int:
    """Watch a pull request until it is green, merged or closed.

    Polls GitHub every 30 to 300 seconds. An agent triages each failing check. Flaky and transient failures are run
    again; for real ones an agent in a sandbox writes a fix, which is pushed. After two attempts a check is left to
    you. Review comments by members, and by the bots in `ci.trustedBots`, are handled and answered in the same way.
    The state is kept in `tmp/ci-watch-<pr>.md`, from which a stopped watch resumes.

    Exit codes: 0 green or merged, 1 closed or failed, 5 iteration limit reached, 130 interrupted.

    Example: cuggino ci watch 12 --max-iterations 30

    Parameters
    ----------
    max_iterations
        Maximum number of polls; by default `ci.maxIterations`.
    trust_author
        Also watch a pull request from another repository, or by an author who cannot write to this one. Agents then
        read, and run, a stranger's code.
    json
        Print events as JSON lines on stdout, and nothing else.
    """
    if max_iterations is not None and max_iterations < 1:
        raise UsageError(f'--max-iterations: expected an integer ≥ 1, got "{max_iterations}".')
    project = find_project()
    config = load(project.config_file)
    await refuse_tracked(project)
    address = await find_pull_request(project.root, pr)
    await exclude_from_git(project, await common_dir(project.root))
    base_remote = await address.base_remote()

    async def work(runtime: Runtime, shutdown: Shutdown) -> int:
        async def open_branch(pull: PullRequestSnapshot) -> tuple[GitBranch, SandboxedFixers]:
            branch = await address.branch(pull)
            fixers = SandboxedFixers(runtime.sandboxes, branch, base_remote, address.number)
            await fixers.prune()
            return branch, fixers

        context = CiWatchContext(
            file=StateFile(project, address.number),
            api=address.api(),
            open_branch=open_branch,
            system=detect_system(project.root),
            trust=Trust(threads=config.ci.threads, bots=config.ci.trusted_bots),
            trust_author=trust_author,
            limit=max_iterations or config.ci.max_iterations,
            send=runtime.sender(None),
            now=runtime.context.now,
        )
        return await watch_pull_request(context, shutdown)

    project.prepare()
    lock = project.state_dir / f"ci-{address.number}.lock"
    invocation = Invocation(name="cuggino ci watch", json=json, lock=lock)
    return await in_foreground(project, invocation, work, last_words=lambda _: ())


@ci.command
async def status(pr: _PR = None, /) -> int:
    """Poll a pull request once; show its checks, its threads, what a watch would do, and GitHub's rate limit.

    Changes nothing, on GitHub or here.

    Example: cuggino ci status 12
    """
    project = find_project()
    config = load(project.config_file)
    address = await find_pull_request(project.root, pr)
    trust = Trust(threads=config.ci.threads, bots=config.ci.trusted_bots)
    state_file = StateFile(project, address.number)
    render = await read_status(address.api(), state_file, detect_system(project.root), trust)
    with open_display(as_json=False, live=False) as display:
        await display.print(render)
    return 0
