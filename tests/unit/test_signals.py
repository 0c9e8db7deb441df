"""The stages of a shutdown: what each ends, and that each is reported once and in order."""

from __future__ import annotations

import signal
from signal import SIGHUP, SIGINT, SIGTERM

import pytest
import trio
import trio.lowlevel
from trio.testing import wait_all_tasks_blocked

from cuggino.signals import Shutdown, ShutdownStage

DRAIN, INTERRUPT, KILL = ShutdownStage.DRAIN, ShutdownStage.INTERRUPT, ShutdownStage.KILL


@pytest.mark.parametrize(
    ("drains", "numbers", "stages"),
    [
        (True, [SIGINT] * 4, [DRAIN, INTERRUPT, KILL]),
        (True, [SIGINT, SIGTERM, SIGINT], [DRAIN, INTERRUPT, KILL]),
        (True, [SIGTERM, SIGINT, SIGINT], [INTERRUPT, KILL]),
        (False, [SIGINT] * 3, [INTERRUPT, KILL]),
        (False, [SIGHUP, SIGTERM], [INTERRUPT, KILL]),
    ],
)
async def test_each_signal_enters_the_next_stage_and_each_stage_is_reported_once(
    drains: bool, numbers: list[signal.Signals], stages: list[ShutdownStage]
) -> None:
    shutdown = Shutdown(drains=drains)
    reported = []

    async def report(stage: ShutdownStage) -> None:
        await trio.lowlevel.checkpoint()
        reported.append(stage)

    with shutdown.reported_to(report):
        async with trio.open_nursery() as nursery:
            for number in numbers:
                shutdown.escalate(number)
                nursery.start_soon(shutdown.report)
                assert shutdown.interrupted.cancel_called == (shutdown.stage.value >= INTERRUPT)
                assert shutdown.force_kill.is_set() == (shutdown.stage.value is KILL)
    assert reported == stages
    assert shutdown.signal is numbers[0]


async def test_a_report_that_is_cancelled_is_made_again() -> None:
    shutdown = Shutdown()
    reported = []

    async def report(stage: ShutdownStage) -> None:
        await trio.lowlevel.checkpoint()
        reported.append(stage)

    shutdown.escalate(SIGINT)
    with shutdown.reported_to(report):
        with trio.CancelScope() as scope:
            scope.cancel()
            await shutdown.report()
        assert reported == []
        await shutdown.report()
    assert reported == [INTERRUPT]
    shutdown.escalate(SIGINT)
    await shutdown.report()  # to nobody
    assert reported == [INTERRUPT]


@pytest.mark.parametrize("before", [True, False])
async def test_a_wait_ends_as_soon_as_a_shutdown_is_requested(before: bool) -> None:
    shutdown = Shutdown(drains=True)
    if before:
        shutdown.escalate(SIGINT)
    async with trio.open_nursery() as nursery:

        async def wait() -> None:
            async with shutdown.until_requested():
                await trio.sleep_forever()

        nursery.start_soon(wait)
        await wait_all_tasks_blocked()
        assert shutdown.requested is before
        if not before:
            assert nursery.child_tasks
            shutdown.escalate(SIGINT)
