"""The program that every child of cuggino runs under, so that nothing the child started outlives it.

It runs as `python -I -S keeper.py CONTROL STATUS START` (numbers of file descriptors), in a session of its own,
and imports little. It makes itself a child subreaper (an orphan below it becomes its child, whatever session or group
it moved to), starts the command in yet another session, and waits.

CONTROL is a pipe of commands, one byte each:

    i   send SIGINT to the command's process group, as Ctrl+C in a terminal does
    t   send SIGTERM to everything that is left, wait 2 s, then do as with k
    k   kill everything; end of file, which means that cuggino died, does the same

STATUS is a pipe of lines back: `pid N`, or `error chdir|exec ERRNO` if the command could not be executed;
`exit STATUS` as soon as the command itself has exited (negative for a signal); `swept` at the end, when its tree is
gone. START is a file: see `KeeperStart`.

When the command has exited, what it left running is killed at once; with `linger` it lives until a command comes or the
last of it exits. Killing makes passes over /proc and kills every descendant and every process of this user that has the
command's marker in its environment, until two passes in a row found nothing, for at most 3 s. A process escapes only if
it emptied its environment *and* its keeper was killed first.

The keeper does not carry the marker itself, so that a sweep by marker never kills a keeper, which does the job better.
A keeper whose owner died is already killing its tree, and exits with it.

Waiting for any child is safe only here: in a Trio process it would steal Trio's children. PR_SET_PDEATHSIG does not
help: it fires when the thread that started the child ends. macOS has neither a subreaper nor /proc; there, only the
command's process group is killed.
"""

# without pathlib, contextlib, typing and dataclasses: each would take a good part of the start time
# ruff: noqa: PTH116, PTH118, PTH123, PTH208, SIM105
from __future__ import annotations

import errno
import os
import select
import signal
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

SWEEP_SECONDS = 3.0
"""Maximum seconds for killing."""
POLITE_SECONDS = 2.0
"""Seconds that lingering processes have to exit after SIGTERM."""

_PR_SET_CHILD_SUBREAPER = 36


# ---- processes of this machine -------------------------------------------------------------------


class ProcessEntry:
    """A process, from /proc/PID/stat. `started` is in clock ticks since boot."""

    __slots__ = ("ended", "group", "parent", "started")

    def __init__(self, stat: bytes) -> None:
        fields = stat[stat.rindex(b")") + 2 :].split()  # the name before it may contain spaces and parentheses
        self.ended = fields[0] in (b"Z", b"X")  # even if not reaped yet
        self.parent = int(fields[1])
        self.group = int(fields[2])
        self.started = int(fields[19])


def read_entry(pid: int) -> ProcessEntry | None:
    """Return None without such a process, or without /proc."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return ProcessEntry(file.read())
    except OSError:
        return None


def processes() -> dict[int, ProcessEntry]:
    """Return every visible process by PID. Empty without /proc."""
    try:
        pids = [int(name) for name in os.listdir("/proc") if name.isdigit()]
    except FileNotFoundError:
        return {}
    return {pid: found for pid in pids if (found := read_entry(pid)) is not None}


def carries(pid: int, mark: bytes) -> bool:
    """Check whether it is a process of this user with an environment item that starts with `mark`."""
    try:
        if os.stat(f"/proc/{pid}").st_uid != os.getuid():
            return False
        with open(f"/proc/{pid}/environ", "rb") as file:
            return b"\0" + mark in b"\0" + file.read()
    except OSError:
        return False


def ancestry(table: dict[int, ProcessEntry], pid: int) -> set[int]:
    """Return `pid`, its parent, and so on."""
    found = {pid}
    while (above := table.get(pid)) is not None and above.parent not in found:
        pid = above.parent
        found.add(pid)
    return found


def targets(table: dict[int, ProcessEntry], mark: bytes, root: int | None) -> set[int]:
    """Return the processes with the mark, and all descendants of these and of `root`, without our ancestors and us."""
    children: dict[int, list[int]] = {}
    for pid, process in table.items():
        children.setdefault(process.parent, []).append(pid)
    spared = ancestry(table, os.getpid())
    todo = [pid for pid in table if pid not in spared and carries(pid, mark)]
    todo += children.get(root, []) if root is not None else []
    found: set[int] = set()
    while todo:
        pid = todo.pop()
        if pid not in found and pid not in spared:
            found.add(pid)
            todo += children.get(pid, [])
    return found


def _send(kill: Callable[[int, int], None], number: int, sig: int) -> bool:
    """Return False if not permitted. A process that just exited counts as reached: it may have unseen children."""
    try:
        kill(number, sig)
    except ProcessLookupError:
        return True
    except PermissionError:
        return False
    return True


def kill_pass(mark: bytes, root: int | None) -> dict[int, int]:
    """SIGKILL all targets and their groups once. Return the PIDs that were reached, with their start times.

    A group is killed as a whole if its leader is a target or gone, so that a chain of forks in it cannot run ahead of
    us; never the group of this process or of its ancestors.
    """
    table = processes()
    found = targets(table, mark, root)
    spared = {table[pid].group for pid in ancestry(table, os.getpid()) if pid in table}
    groups = {table[pid].group for pid in found}
    for group in groups - spared:
        if group > 1 and (group in found or group not in table or table[group].ended):
            _send(os.killpg, group, signal.SIGKILL)
    return {pid: table[pid].started for pid in found if _send(os.kill, pid, signal.SIGKILL)}


def kill_orphans(root: int, reap: Callable[[], bool]) -> bool:
    """SIGKILL the children of `root`, which is this process, as they appear. Return whether there were any.

    A chain of forks, each in a session of its own, is faster than a pass over /proc. But each link becomes an orphan
    as soon as it has forked, and so a child of its reaper; the kernel lists these within microseconds.
    """
    for turn in range(100):
        try:
            with open(f"/proc/{root}/task/{root}/children", "rb") as file:
                children = file.read().split()
        except OSError:
            return False  # this kernel does not list them
        if not children:
            return turn > 0
        for pid in children:
            _send(os.kill, int(pid), signal.SIGKILL)
        reap()
    return True


def kill_all(mark: bytes, root: int | None, reap: Callable[[], bool], seconds: float = SWEEP_SECONDS) -> int:
    """Make kill passes until two in a row found no process to kill, to reap, or still dying. Return how many it killed.

    Descendants of `root` are killed besides the marked processes. `reap` collects the dead and returns whether there
    were any. Takes at most `seconds`.
    """
    killed: dict[int, int] = {}
    clean = 0
    deadline = time.monotonic() + seconds
    while clean < 2 and time.monotonic() < deadline:
        any_orphan = root is not None and kill_orphans(root, reap)
        reached = kill_pass(mark, root)
        killed |= reached
        if reap() or any_orphan or reached or any(map(_lives, killed, killed.values())):
            clean = 0
            time.sleep(0.002)  # dying takes a moment; a pass right now would only find the same processes
        else:
            clean += 1
    return len(killed)


def _lives(pid: int, started: int) -> bool:
    found = read_entry(pid)
    return found is not None and found.started == started and not found.ended


# ---- the program ---------------------------------------------------------------------------------


class KeeperStart:
    """The command to run. Encoded, it is these fields, each followed by a NUL, `environment` as NAME=VALUE.

    It is passed in a file. Arguments show in `ps`, so `pkill -f` would find the keeper too; and in the keeper's own
    environment the keeper would carry every marker around it.
    """

    def __init__(
        self, mark: bytes, linger: bool, cwd: bytes, argv: Sequence[bytes], environment: Sequence[bytes]
    ) -> None:
        self.mark = mark
        self.linger = linger
        self.cwd = cwd
        self.argv = argv
        self.environment = environment

    def encode(self) -> bytes:
        fields = [self.mark, b"1" if self.linger else b"0", self.cwd, b"%d" % len(self.argv)]
        return b"".join(field + b"\0" for field in (*fields, *self.argv, *self.environment))

    @classmethod
    def decode(cls, data: bytes) -> KeeperStart:
        mark, linger, cwd, count, *rest = data.split(b"\0")[:-1]
        argc = int(count)
        return cls(mark, linger == b"1", cwd, rest[:argc], rest[argc:])


def execute(start: KeeperStart) -> tuple[str, int]:
    """Become the command. Return only if that fails: the step, and its errno."""
    os.setsid()
    signal.set_wakeup_fd(-1)
    for number in range(1, signal.NSIG):
        try:
            signal.signal(number, signal.SIG_DFL)
        except (OSError, ValueError):
            pass  # KILL, STOP, and those of the C library
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    try:
        os.chdir(start.cwd)
    except OSError as error:
        return "chdir", error.errno or errno.EIO
    environment = dict(item.split(b"=", 1) for item in (*start.environment, start.mark))
    program = start.argv[0]
    path = environment.get(b"PATH", os.defpath.encode())
    tries = [program] if b"/" in program else [os.path.join(folder, program) for folder in path.split(b":")]
    failure = errno.ENOENT
    for file in tries:
        try:
            os.execve(file, list(start.argv), environment)
        except OSError as error:
            if error.errno not in (errno.ENOENT, errno.ENOTDIR):
                failure = error.errno or errno.EIO
    return "exec", failure


def become_subreaper() -> bool:
    """Make orphans below this process its children. Return False if the kernel cannot do that."""
    if sys.platform != "linux":
        return False
    import ctypes

    failed: int = ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    return not failed


class Keeper:
    """The command, its status, and the pipe to report it."""

    def __init__(self, command: KeeperStart, status: int) -> None:
        self.command = command
        self.reaping = become_subreaper()
        self.pid = 0
        self.status: int | None = None
        self._to = status

    def report(self, line: str) -> None:
        try:
            os.write(self._to, line.encode() + b"\n")
        except BrokenPipeError:
            pass  # cuggino is dead, which the control pipe shows too

    def start(self) -> bool:
        """Start the command. Return False if it could not be executed. Report either."""
        result, failure = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            step, number = "exec", errno.EIO
            try:
                step, number = execute(self.command)
            finally:
                os.write(failure, f"error {step} {number}".encode())
                os._exit(127)
        os.close(failure)
        error = os.read(result, 100)
        os.close(result)
        if error:
            os.waitpid(self.pid, 0)
        self.report(error.decode() or f"pid {self.pid}")
        return not error

    def reap(self) -> tuple[bool, bool]:
        """Reap dead children. Return whether there were any, and whether a child is left."""
        any_dead = False
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return any_dead, False
            if pid == 0:
                return any_dead, True
            any_dead = True
            if pid == self.pid:
                self.status = os.waitstatus_to_exitcode(status)
                self.report(f"exit {self.status}")

    def wait(self, control: int, wakeup: int) -> None:
        """Return when it is time to kill what is left."""
        poll = select.poll()
        poll.register(control, select.POLLIN)
        poll.register(wakeup, select.POLLIN)
        deadline: float | None = None
        while True:
            timeout = None if deadline is None else max(0.0, deadline - time.monotonic()) * 1000
            ready = [fd for fd, _ in poll.poll(timeout)]
            if wakeup in ready:
                os.read(wakeup, 4096)
            orders = os.read(control, 64) if control in ready else None
            _, any_left = self.reap()
            if orders == b"" or b"k" in (orders or b"") or (deadline is not None and time.monotonic() >= deadline):
                return
            if self.status is not None and not (self.command.linger and (any_left or not self.reaping)):
                return
            if b"i" in (orders or b"") and self.status is None:
                _send(os.killpg, self.pid, signal.SIGINT)
            if b"t" in (orders or b"") and deadline is None:
                self.terminate_all()
                deadline = time.monotonic() + POLITE_SECONDS

    def terminate_all(self) -> None:
        """Send SIGTERM to everything that is left."""
        if not self.reaping:
            _send(os.killpg, self.pid, signal.SIGTERM)
        for pid in targets(processes(), self.command.mark, os.getpid()):
            _send(os.kill, pid, signal.SIGTERM)

    def sweep(self) -> None:
        """Kill what is left of the command's tree."""
        if not self.reaping:
            _send(os.killpg, self.pid, signal.SIGKILL)
        kill_all(self.command.mark, os.getpid(), lambda: self.reap()[0])
        self.report("swept")


def main(control: int, status: int, file: int) -> int:
    for fd in (control, status, file):
        os.set_inheritable(fd, False)
    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGTSTP):
        signal.signal(number, signal.SIG_IGN)
    with open(file, "rb") as start_file:
        keeper = Keeper(KeeperStart.decode(start_file.read()), status)
    wakeup, wake = os.pipe()
    os.set_blocking(wake, False)
    signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    if not keeper.start():
        return 127
    try:
        os.dup2(os.open(os.devnull, os.O_RDWR), 0)  # release the input, which may be large and is only for the command
        keeper.wait(control, wakeup)
    finally:
        keeper.sweep()
    if keeper.status is None:
        return 1
    return keeper.status if keeper.status >= 0 else 128 - keeper.status


if __name__ == "__main__":
    os._exit(main(*map(int, sys.argv[1:])))
