"""Waiting with a time limit or until an event: results, time-outs, and that a cancellation is never
lost."""

from __future__ import annotations

import asyncio
import select
from asyncio.subprocess import PIPE

import pytest

from nictop.wire.timeout import EventSetError, run_until, with_timeout
from tests.support.probe import TEST_TIMEOUT


async def test_what_comes_is_given_and_what_fails_is_raised() -> None:
    async def answer() -> int:
        await asyncio.sleep(0)
        return 7

    async def fails() -> None:
        raise OSError("gone")

    assert await with_timeout(5.0, answer()) == 7
    with pytest.raises(OSError, match="gone"):
        await with_timeout(5.0, fails())


@pytest.mark.parametrize("seconds", [0.01, 0.0, -1.0])
async def test_what_does_not_come_is_cancelled_and_has_ended(seconds: float) -> None:
    ended = asyncio.Event()

    async def never() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)  # it may still have something to put away
            ended.set()

    with pytest.raises(asyncio.TimeoutError):
        await with_timeout(seconds, never())
    assert ended.is_set() or seconds <= 0  # without any time it had not begun


@pytest.mark.parametrize("order", ["the event first", "the cancellation first"])
async def test_a_cancellation_at_the_moment_of_the_event_is_not_lost(order: str) -> None:
    event = asyncio.Event()
    went_on = False

    async def waits() -> None:
        nonlocal went_on
        await with_timeout(5.0, event.wait())
        went_on = True

    for turns in range(6):  # as many turns of the loop as the event takes to get there, and more
        event.clear()
        task = asyncio.ensure_future(waits())
        for _ in range(3):
            await asyncio.sleep(0)
        if order == "the event first":
            event.set()
            for _ in range(turns):
                await asyncio.sleep(0)
        if task.done():
            break
        task.cancel()
        event.set()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert not went_on
    assert turns > 0


async def test_what_waited_ends_with_who_waited() -> None:
    started, ended = asyncio.Event(), asyncio.Event()

    async def long() -> None:
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    task = asyncio.ensure_future(with_timeout(60.0, long()))
    await started.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert ended.is_set()


async def test_what_came_while_this_process_stood_still_is_given() -> None:
    """As with a probe whose line waits in the pipe when a stopped program is resumed: it has not
    been silent."""
    loop = asyncio.get_running_loop()
    child = await asyncio.create_subprocess_exec(
        "sh", "-c", "read go; echo line; read end", stdin=PIPE, stdout=PIPE
    )
    assert child.stdin is not None and child.stdout is not None
    output = child._transport.get_pipe_transport(1).get_extra_info("pipe")  # type: ignore[attr-defined]
    child.stdin.write(b"go\n")

    def stand_still() -> None:
        over = loop.time() + 0.02
        assert select.select([output], [], [], TEST_TIMEOUT)[0]
        while loop.time() < over:
            pass

    loop.call_soon(stand_still)
    assert await with_timeout(0.01, child.stdout.read(100)) == b"line\n"
    child.stdin.close()
    await child.wait()


async def test_the_result_is_returned_unless_the_event_is_set() -> None:
    event = asyncio.Event()

    async def answer() -> int:
        await asyncio.sleep(0)
        return 7

    async def fails() -> None:
        raise OSError("gone")

    assert await run_until(event, answer()) == 7
    with pytest.raises(OSError, match="gone"):
        await run_until(event, fails())
    event.set()
    with pytest.raises(EventSetError):
        await run_until(event, answer())


@pytest.mark.parametrize("end", ["event", "cancellation"])
async def test_the_work_has_ended_when_the_event_is_set_or_the_caller_is_cancelled(
    end: str,
) -> None:
    event, started, ended = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def work() -> None:
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)  # it may have to clean up
            ended.set()

    task = asyncio.ensure_future(run_until(event, work()))
    await started.wait()
    if end == "event":
        event.set()
    else:
        task.cancel()
    with pytest.raises(EventSetError if end == "event" else asyncio.CancelledError):
        await task
    assert ended.is_set()
