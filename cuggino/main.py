"""The only `trio.run`: from arguments to an exit code, and from errors to messages."""

from __future__ import annotations

import inspect
import os
import signal
import sys
import traceback
from collections.abc import Mapping, Sequence
from functools import partial

import trio
from cyclopts import CycloptsError

from cuggino.cli.app import app_for
from cuggino.cli.arguments import command_line
from cuggino.errors import CugginoError, leaves
from cuggino.signals import end_by

USAGE = 2
CLOSED_OUTPUT = 141


def run(arguments: Sequence[str], given: Mapping[str, object] | None = None) -> int:
    """Run a command and return its exit code. After SIGINT, SIGTERM or SIGHUP, end the process by that signal.

    `given` has values for parameters that the command line cannot set (`parse=False`), by name.
    """
    if sys.platform == "win32":
        print(
            "cuggino needs Linux or macOS: Windows lacks the process groups and signals that it uses.", file=sys.stderr
        )
        return 1
    verbose = "-v" in arguments
    try:
        code = trio.run(partial(_command, [word for word in arguments if word != "-v"], given or {}))
    except KeyboardInterrupt:
        code = 128 + signal.SIGINT
    except BrokenPipeError:
        code = CLOSED_OUTPUT
    except BaseExceptionGroup as group:
        code = _print_errors(group, verbose)
    except CugginoError as error:
        code = _print_errors(error, verbose)
    code = max(code, _flush())
    if code in (128 + signal.SIGINT, 128 + signal.SIGTERM, 128 + signal.SIGHUP):
        end_by(signal.Signals(code - 128))
    return code


async def _command(arguments: list[str], given: Mapping[str, object]) -> int:
    arguments = command_line(arguments)
    try:
        command, bound, unset = app_for(arguments).parse_args(arguments, exit_on_error=False, print_error=True)
    except CycloptsError:
        return USAGE
    result = command(*bound.args, **bound.kwargs, **{name: given[name] for name in unset if name in given})
    if inspect.isawaitable(result):
        result = await result
    return result if isinstance(result, int) else 0


def _print_errors(error: BaseException, verbose: bool) -> int:
    """Print each message once to stderr and return the exit code. Print other errors, which are bugs, whole."""
    errors = list(leaves(error))
    known = [leaf for leaf in errors if isinstance(leaf, CugginoError)]
    if verbose or len(known) < len(errors):
        traceback.print_exception(error)
    for message in dict.fromkeys(str(leaf) for leaf in known if leaf.exit_code != CLOSED_OUTPUT):
        print(f"cuggino: {message}", file=sys.stderr)
    return max((leaf.exit_code for leaf in known), default=1)


def _flush() -> int:
    """Flush stdout, without a traceback if it is closed."""
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return CLOSED_OUTPUT
    return 0
