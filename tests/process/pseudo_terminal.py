"""Programs in a terminal of their own."""

from __future__ import annotations

import os
import pty
import termios
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import trio

from tests.process.house import House


class Shell:
    """A terminal with a running program, which leads the terminal's session."""

    def __init__(self, process: trio.Process, master: int, slave: int) -> None:
        self.process = process
        self.master = master
        self.slave = slave
        self.screen = b""
        self._news = trio.Event()

    async def read(self) -> None:
        while True:
            try:
                await trio.lowlevel.wait_readable(self.master)
                self.screen += os.read(self.master, 65536)
            except (OSError, trio.ClosedResourceError):
                return
            self._news.set()
            self._news = trio.Event()

    async def until(self, text: str) -> None:
        """Wait until this is on the screen."""
        with trio.move_on_after(15):
            while text.encode() not in self.screen:
                await self._news.wait()
        assert text.encode() in self.screen, self.screen.decode()

    def type(self, keys: bytes) -> None:
        os.write(self.master, keys)

    def settings(self) -> list[Any]:
        return termios.tcgetattr(self.slave)

    def hang_up(self) -> None:
        """Close the window."""
        trio.lowlevel.notify_closing(self.master)
        os.close(self.slave)
        os.close(self.master)
        self.slave = self.master = -1


@asynccontextmanager
async def terminal(
    house: House, *argv: str, size: tuple[int, int] | None = None, **environment: str
) -> AsyncIterator[Shell]:
    """Run a program in a terminal of its own, with lines and columns; kill it at the end of the block."""
    master, slave = pty.openpty()
    os.set_blocking(master, False)
    if size is not None:
        termios.tcsetwinsize(slave, size)
    process = await trio.lowlevel.open_process(
        ["setsid", "--ctty", *argv],
        cwd=house.root,
        env=house.environment | environment,
        stdin=slave,
        stdout=slave,
        stderr=slave,
    )
    shell = Shell(process, master, slave)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(shell.read)
        try:
            yield shell
        finally:
            with trio.CancelScope(shield=True):
                if process.returncode is None:
                    process.kill()
                await process.wait()
            nursery.cancel_scope.cancel()
            if shell.master >= 0:
                shell.hang_up()
