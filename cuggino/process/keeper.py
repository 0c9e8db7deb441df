"""The program that every child of cuggino runs under, so that nothing the child started outlives it.

It is run as `python -I -S keeper.py CONTROL STATUS LAUNCH` (numbers of file descriptors), in a session of
its own, and imports little. It makes itself a child subreaper (what loses its parent below it becomes its
own child, whatever session or group it went to), starts the command in yet another session, and waits.

CONTROL is a pipe of orders, one byte each:

    i   SIGINT to the command's process group: what Ctrl+C in a terminal would do
    t   the polite end: SIGTERM to all that is left, 2 s, then as k
    k   kill everything; end of file, which is cuggino's death however it came, says the same

STATUS is a pipe of lines back: `pid N`, or `error chdir|exec ERRNO` when the command could not be
executed; `exit STATUS` as soon as the command itself has ended (negative for a signal); `swept` as the
last thing, when its tree is gone. LAUNCH is a file: see `Launch`.

When the command has ended, what it left running is killed at once; with `linger` it is left alone until
an order comes or the last of it has ended by itself. Killing goes over /proc, pass after pass, to every
descendant and to every process of this user that carries the command's marker in its environment, until
two passes in a row found nothing, for at most 3 s. A process is lost only if it emptied its environment
*and* its keeper was killed first.

The keeper does not carry the marker itself: a sweep by marker never kills the one who is about to do the
job better. One whose owner died is ending its tree already, and ends with it.

Waitpid for any child is safe here only: in a Trio process it would steal Trio's children. PR_SET_PDEATHSIG
would be no way: it fires when the thread that started the child ends. There is no subreaper and no /proc
on macOS: there, only the command's process group is killed.
"""

# pathlib, contextlib, typing, dataclasses are not imported: each would cost a good part of the whole start
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
"""How long killing may take at most."""
POLITE_SECONDS = 2.0
"""How long what lingers may take to end by itself after SIGTERM."""

_PR_SET_CHILD_SUBREAPER = 36


# ---- what runs on this machine -------------------------------------------------------------------


class Entry:
    """A process, as /proc/PID/stat tells. `started` is in clock ticks since boot."""

    __slots__ = ("ended", "group", "parent", "started")

    def __init__(self, stat: bytes) -> None:
        fields = stat[stat.rindex(b")") + 2 :].split()  # the name before it may hold spaces and parentheses
        self.ended = fields[0] in (b"Z", b"X")  # though nobody has collected it yet
        self.parent = int(fields[1])
        self.group = int(fields[2])
        self.started = int(fields[19])


def entry(pid: int) -> Entry | None:
    """None: there is no such process, or no /proc."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return Entry(file.read())
    except OSError:
        return None


def processes() -> dict[int, Entry]:
    """Every process that can be seen, by pid. Empty where there is no /proc."""
    try:
        pids = [int(name) for name in os.listdir("/proc") if name.isdigit()]
    except FileNotFoundError:
        return {}
    return {pid: found for pid in pids if (found := entry(pid)) is not None}


def carries(pid: int, mark: bytes) -> bool:
    """Whether it is a process of this user whose environment has an item that begins with `mark`."""
    try:
        if os.stat(f"/proc/{pid}").st_uid != os.getuid():
            return False
        with open(f"/proc/{pid}/environ", "rb") as file:
            return b"\0" + mark in b"\0" + file.read()
    except OSError:
        return False


def ancestry(table: dict[int, Entry], pid: int) -> set[int]:
    """`pid`, its parent, and so on."""
    found = {pid}
    while (above := table.get(pid)) is not None and above.parent not in found:
        pid = above.parent
        found.add(pid)
    return found


def targets(table: dict[int, Entry], mark: bytes, root: int | None) -> set[int]:
    """Who carries the mark, and all descendants of these and of `root`; never this process or its ancestors."""
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
    """False: we may not. One that ended a moment ago counts as reached: its children may not have been seen."""
    try:
        kill(number, sig)
    except ProcessLookupError:
        return True
    except PermissionError:
        return False
    return True


def kill_pass(mark: bytes, root: int | None) -> dict[int, int]:
    """SIGKILL all targets once, and their groups; returns whom it reached, each with when it started.

    A group dies as a whole, so that a chain of forks in it cannot run ahead of us, when its leader is a
    target or gone: never the group of this process or of one above it.
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
    """SIGKILL the children of `root`, which is this process, as they come; whether there were any.

    A chain of forks, each in a session of its own, is faster than a pass over /proc. But each link is an
    orphan as soon as it has forked, so a child of its reaper, and these the kernel lists in some microseconds.
    """
    for turn in range(100):
        try:
            with open(f"/proc/{root}/task/{root}/children", "rb") as file:
                children = file.read().split()
        except OSError:
            return False  # a kernel that does not list them
        if not children:
            return turn > 0
        for pid in children:
            _send(os.kill, int(pid), signal.SIGKILL)
        reap()
    return True


def kill_all(mark: bytes, root: int | None, reap: Callable[[], bool], seconds: float = SWEEP_SECONDS) -> int:
    """Kill pass after pass until two in a row found nobody, nobody to reap, and nobody still dying.

    `root` is whose descendants are meant besides the marked; `reap` collects the dead, and says whether
    there were any. Takes `seconds` at most; returns how many were killed.
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
            time.sleep(0.002)  # dying takes a moment: a pass right now would only find the same ones
        else:
            clean += 1
    return len(killed)


def _lives(pid: int, started: int) -> bool:
    found = entry(pid)
    return found is not None and found.started == started and not found.ended


# ---- the program ---------------------------------------------------------------------------------


class Launch:
    """What to run. On its way it is these fields, each ended by a NUL, `environment` as NAME=VALUE.

    A file, not arguments: those show in `ps`, and there `pkill -f` would find the keeper too. Not the
    keeper's own environment either, which would make it a carrier of every marker around it.
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
    def decode(cls, data: bytes) -> Launch:
        mark, linger, cwd, count, *rest = data.split(b"\0")[:-1]
        argc = int(count)
        return cls(mark, linger == b"1", cwd, rest[:argc], rest[argc:])


def execute(launch: Launch) -> tuple[str, int]:
    """Become the command. Returns only when that fails: the step, and its errno."""
    os.setsid()
    signal.set_wakeup_fd(-1)
    for number in range(1, signal.NSIG):
        try:
            signal.signal(number, signal.SIG_DFL)
        except (OSError, ValueError):
            pass  # KILL, STOP, and the C library's own
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    try:
        os.chdir(launch.cwd)
    except OSError as error:
        return "chdir", error.errno or errno.EIO
    environment = dict(item.split(b"=", 1) for item in (*launch.environment, launch.mark))
    program = launch.argv[0]
    path = environment.get(b"PATH", os.defpath.encode())
    tries = [program] if b"/" in program else [os.path.join(folder, program) for folder in path.split(b":")]
    failure = errno.ENOENT
    for file in tries:
        try:
            os.execve(file, list(launch.argv), environment)
        except OSError as error:
            if error.errno not in (errno.ENOENT, errno.ENOTDIR):
                failure = error.errno or errno.EIO
    return "exec", failure


def become_subreaper() -> bool:
    """Orphans below this process become its children. False where the kernel has no such thing."""
    if sys.platform != "linux":
        return False
    import ctypes

    failed: int = ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    return not failed


class Keeper:
    """The command, what is known of its end, and the pipe to tell it."""

    def __init__(self, launch: Launch, status: int) -> None:
        self.launch = launch
        self.reaping = become_subreaper()
        self.pid = 0
        self.status: int | None = None
        self._to = status

    def tell(self, line: str) -> None:
        try:
            os.write(self._to, line.encode() + b"\n")
        except BrokenPipeError:
            pass  # cuggino is dead: the control pipe says so too

    def start(self) -> bool:
        """Returns when the command is being executed, or False when that failed; either is told."""
        result, failure = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            step, number = "exec", errno.EIO
            try:
                step, number = execute(self.launch)
            finally:
                os.write(failure, f"error {step} {number}".encode())
                os._exit(127)
        os.close(failure)
        error = os.read(result, 100)
        os.close(result)
        if error:
            os.waitpid(self.pid, 0)
        self.tell(error.decode() or f"pid {self.pid}")
        return not error

    def reap(self) -> tuple[bool, bool]:
        """Collect the dead. Returns whether there were any, and whether a child is left."""
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
                self.tell(f"exit {self.status}")

    def wait(self, control: int, wakeup: int) -> None:
        """Returns when it is time to kill what is left."""
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
            if self.status is not None and not (self.launch.linger and (any_left or not self.reaping)):
                return
            if b"i" in (orders or b"") and self.status is None:
                _send(os.killpg, self.pid, signal.SIGINT)
            if b"t" in (orders or b"") and deadline is None:
                self.ask_all()
                deadline = time.monotonic() + POLITE_SECONDS

    def ask_all(self) -> None:
        """SIGTERM to all that is left."""
        if not self.reaping:
            _send(os.killpg, self.pid, signal.SIGTERM)
        for pid in targets(processes(), self.launch.mark, os.getpid()):
            _send(os.kill, pid, signal.SIGTERM)

    def sweep(self) -> None:
        """Nothing of the command's tree is alive after this."""
        if not self.reaping:
            _send(os.killpg, self.pid, signal.SIGKILL)
        kill_all(self.launch.mark, os.getpid(), lambda: self.reap()[0])
        self.tell("swept")


def main(control: int, status: int, file: int) -> int:
    for fd in (control, status, file):
        os.set_inheritable(fd, False)
    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGTSTP):
        signal.signal(number, signal.SIG_IGN)
    with open(file, "rb") as launch_file:
        keeper = Keeper(Launch.decode(launch_file.read()), status)
    wakeup, wake = os.pipe()
    os.set_blocking(wake, False)
    signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    if not keeper.start():
        return 127
    try:
        os.dup2(os.open(os.devnull, os.O_RDWR), 0)  # the input may be large, and is the command's alone
        keeper.wait(control, wakeup)
    finally:
        keeper.sweep()
    if keeper.status is None:
        return 1
    return keeper.status if keeper.status >= 0 else 128 - keeper.status


if __name__ == "__main__":
    os._exit(main(*map(int, sys.argv[1:])))
