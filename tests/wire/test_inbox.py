"""The queue of a probe is bounded, and a host that sends too much does not slow down the others."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from itertools import pairwise
from types import SimpleNamespace

import pytest

from nictop.limits import MAX_SMALL_LINE_BYTES
from nictop.probe.protocol.hello import hello
from nictop.wire import budget
from nictop.wire.budget import (
    INPUT_SECONDS,
    MAX_BURST_SECONDS,
    MAX_INPUT_SECONDS,
    OVERLOADED_MESSAGE,
    HostBudget,
    input_received,
)
from nictop.wire.codec import LineError
from nictop.wire.inbox import MAX_QUEUED_BYTES, RESUME_QUEUED_BYTES, Inbox
from nictop.wire.source import SourceState
from tests.support.items import ITEM_TIMEOUT, has_record, is_state

HELLO = json.dumps({"hello": hello(1.0)}).encode() + b"\n"
TROUBLE = b'{"trouble": {"time": 1, "message": "m"}}\n'


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as found:
        yield found


def is_full(inbox: Inbox) -> bool:
    return inbox.is_full


def ignore() -> None:
    """`has_room` callback without effect."""


async def test_full_and_room_depend_on_queued_bytes(stack: ExitStack) -> None:
    rooms = []
    inbox = Inbox(stack.enter_context(HostBudget()), lambda: rooms.append(inbox.size))
    inbox.put(HELLO)
    line = b'{"trouble": {"time": 1, "message": "%s"}}\n' % (b"x" * 4_000)
    while not is_full(inbox):
        inbox.put(line)
    assert MAX_QUEUED_BYTES <= inbox.size < MAX_QUEUED_BYTES + len(line)
    taken = 0
    while not rooms:
        await inbox.next()
        taken += 1
    assert not is_full(inbox)
    assert (
        len(rooms) == 1
        and RESUME_QUEUED_BYTES - len(line) < rooms[0] <= RESUME_QUEUED_BYTES
        and taken > 5
    )


async def test_small_parts_count_a_minimum_size(stack: ExitStack) -> None:
    inbox = Inbox(stack.enter_context(HostBudget()), ignore)
    for _ in range(MAX_QUEUED_BYTES // 256):
        assert not inbox.is_full
        inbox.put(b"x")
    assert inbox.is_full


async def test_stderr_bytes_count_for_the_size_but_are_not_lines(stack: ExitStack) -> None:
    inbox = Inbox(stack.enter_context(HostBudget()), ignore)
    inbox.put(HELLO[:9])
    inbox.put(b"", other_bytes=MAX_QUEUED_BYTES)
    assert inbox.is_full
    inbox.put(HELLO[9:])
    inbox.close()
    assert is_state("live")(await inbox.next()) and has_record("hello")(await inbox.next())  # type: ignore[arg-type]
    assert await inbox.next() is None and not inbox.is_full


async def test_close_returns_queued_items_unless_discarded(stack: ExitStack) -> None:
    for forget in (False, True):
        inbox = Inbox(stack.enter_context(HostBudget()), ignore)
        inbox.put(HELLO + TROUBLE)
        await inbox.next()
        inbox.put(TROUBLE)
        inbox.close(forget=forget)
        received = []
        while (item := await inbox.next()) is not None:
            received.append(item)
        assert len(received) == (0 if forget else 3)


async def test_invalid_lines_raise_when_taken(stack: ExitStack) -> None:
    inbox = Inbox(stack.enter_context(HostBudget()), ignore)
    inbox.put(HELLO + b"nonsense\n" * 5)
    with pytest.raises(LineError, match="too many invalid lines"):
        for _ in range(9):
            await inbox.next()


async def test_cpu_time_of_the_consumer_counts_until_other_tasks_run(
    monkeypatch: pytest.MonkeyPatch, stack: ExitStack
) -> None:
    """CPU time after that may have been used by other tasks."""
    spent: list[float] = []
    share = stack.enter_context(HostBudget())
    monkeypatch.setattr(share, "charge", lambda seconds, elapsed=0.0: spent.append(seconds))
    inbox = Inbox(share, ignore)
    inbox.put(HELLO + TROUBLE * 4)
    for other_tasks_run in (False, False, True):
        await inbox.next()
        spent.clear()
        if other_tasks_run:
            await asyncio.sleep(0)
        sum(range(3_000_000))
        await inbox.next()
        assert (max(spent) > 0.01) is not other_tasks_run


async def test_a_host_above_its_share_is_overloaded_until_it_is_quiet(
    monkeypatch: pytest.MonkeyPatch, stack: ExitStack
) -> None:
    now = 0.0
    monkeypatch.setattr(budget, "time", SimpleNamespace(monotonic=lambda: now))
    share = stack.enter_context(HostBudget())
    share.charge(MAX_BURST_SECONDS)
    overloaded = []
    for spent in (0.0, 0.011):  # the state is reported before it waits
        share.charge(spent)
        await asyncio.wait_for(share.wait_for_turn(0), ITEM_TIMEOUT)
        overloaded.append(share.overloaded)
    assert overloaded == [False, True]
    turn = asyncio.ensure_future(share.wait_for_turn(0))
    await asyncio.sleep(0)
    assert not turn.done()
    turn.cancel()
    quiet = share.seconds_until_normal()
    now += 0.9 * quiet
    assert share.seconds_until_normal() == pytest.approx(0.1 * quiet)
    now += 0.2 * quiet
    assert share.seconds_until_normal() == 0.0


async def test_no_expensive_line_is_decoded_directly_after_input(
    monkeypatch: pytest.MonkeyPatch, stack: ExitStack
) -> None:
    clock = SimpleNamespace(now=10.0)
    pauses: list[float] = []

    async def sleep(seconds: float) -> None:
        pauses.append(seconds)
        clock.now += seconds

    monkeypatch.setattr(budget, "time", SimpleNamespace(monotonic=lambda: clock.now))
    monkeypatch.setattr(budget, "asyncio", SimpleNamespace(**{**vars(asyncio), "sleep": sleep}))
    monkeypatch.setattr(budget, "_seconds_without_cpu", lambda: 0.0)
    share = stack.enter_context(HostBudget())
    input_received()
    await share.wait_for_turn(MAX_SMALL_LINE_BYTES)
    assert not pauses
    await share.wait_for_turn(MAX_SMALL_LINE_BYTES + 1)
    assert sum(pauses) == INPUT_SECONDS
    share.charge(0.02)
    input_received()
    pauses.clear()
    await share.wait_for_turn(0)
    assert sum(pauses) == pytest.approx(INPUT_SECONDS)


async def test_the_pause_after_input_is_longer_on_a_busy_machine(
    monkeypatch: pytest.MonkeyPatch, stack: ExitStack
) -> None:
    """By the time for which this thread had no CPU: a fifth of each pause, here."""
    clock = SimpleNamespace(now=10.0)

    async def sleep(seconds: float) -> None:
        clock.now += seconds

    monkeypatch.setattr(budget, "time", SimpleNamespace(monotonic=lambda: clock.now))
    monkeypatch.setattr(budget, "asyncio", SimpleNamespace(**{**vars(asyncio), "sleep": sleep}))
    monkeypatch.setattr(budget, "_seconds_without_cpu", lambda: clock.now / 5)
    share = stack.enter_context(HostBudget())
    input_received()
    await share.wait_for_turn(MAX_SMALL_LINE_BYTES + 1)
    assert clock.now == pytest.approx(10.0 + INPUT_SECONDS * (1 + 1 / 5 + 1 / 25))


async def test_a_key_that_is_held_does_not_stop_a_host_from_being_read(
    monkeypatch: pytest.MonkeyPatch, stack: ExitStack
) -> None:
    """Each of its lines is large; what other hosts wait for in the same queue comes in between."""
    clock = SimpleNamespace(now=10.0)

    async def sleep(seconds: float) -> None:
        end = clock.now + seconds
        while clock.now < end:
            clock.now = min(end, clock.now + 0.03)
            input_received()

    monkeypatch.setattr(budget, "time", SimpleNamespace(monotonic=lambda: clock.now))
    monkeypatch.setattr(budget, "asyncio", SimpleNamespace(**{**vars(asyncio), "sleep": sleep}))
    monkeypatch.setattr(budget, "_seconds_without_cpu", lambda: 0.0)
    share = stack.enter_context(HostBudget())
    input_received()
    turns = [clock.now]
    while clock.now < 70.0:
        share.charge(0.0, 0.01)
        clock.now += 0.01
        await share.wait_for_turn(MAX_SMALL_LINE_BYTES + 1)
        turns.append(clock.now)
    assert max(after - before for before, after in pairwise(turns)) <= MAX_INPUT_SECONDS + 0.1
    assert len(turns) > 500, "ten hosts with a line per second"


async def test_the_pause_after_work_is_as_long_as_the_work_took(
    monkeypatch: pytest.MonkeyPatch, stack: ExitStack
) -> None:
    """On a busy machine that is longer than the CPU time."""
    monkeypatch.setattr(budget, "time", SimpleNamespace(monotonic=lambda: 10.0))
    share = stack.enter_context(HostBudget())
    share.charge(0.02, 0.2)
    share.seconds_until_normal()
    assert budget.host_scheduler().quiet_until == pytest.approx(10.2)


async def test_the_share_is_divided_among_hosts(
    monkeypatch: pytest.MonkeyPatch, stack: ExitStack
) -> None:
    now = 0.0
    monkeypatch.setattr(budget, "time", SimpleNamespace(monotonic=lambda: now))
    shares = [stack.enter_context(HostBudget()) for _ in range(10)]
    for number, share in enumerate(shares):
        share.charge(share._remaining + 0.05 + number / 10)
    now = 10.0  # 0.05 CPU seconds per second each
    turns = [asyncio.ensure_future(share.wait_for_turn(0)) for share in shares]
    await asyncio.sleep(0)
    assert [share.overloaded for share in shares] == [False] * 5 + [True] * 5
    for turn in turns:
        turn.cancel()
    await asyncio.gather(*turns, return_exceptions=True)


@pytest.mark.parametrize(("count", "most"), [(1, 0.011), (4, 0.042), (64, 0.05)])
async def test_all_hosts_together_work_shortly_before_a_key_is_handled(
    count: int, most: float, stack: ExitStack
) -> None:
    """CPU seconds of small lines that `count` hosts may use before each of them has to wait for its
    turn."""
    budgets = [stack.enter_context(HostBudget()) for _ in range(count)]
    used = 0.0
    for one in budgets:
        begun = used
        while used == begun or one._slice_used:
            one.charge(1e-4)
            used += 1e-4
            await one.wait_for_turn(100)
    assert 0.01 * min(count, 4) <= used <= most


async def test_overloaded_hosts_take_turns_and_do_not_delay_another(
    monkeypatch: pytest.MonkeyPatch, stack: ExitStack
) -> None:
    """Measured by the items delivered between the arrival of a line and the time at which it is
    taken."""
    monkeypatch.setattr(budget, "TOTAL_BURST_SECONDS", 0.0)
    monkeypatch.setattr(budget, "MIN_BURST_SECONDS", 0.0)
    floods = [Inbox(stack.enter_context(HostBudget()), ignore) for _ in range(64)]
    good = Inbox(stack.enter_context(HostBudget()), ignore)
    good.put(HELLO)
    await good.next()
    await good.next()
    taken: Counter[int] = Counter()
    reported, all_reported = set(), asyncio.Event()

    async def flood(number: int, inbox: Inbox) -> None:
        inbox.put(HELLO + TROUBLE * 20_000)
        while (item := await inbox.next()) is not None:
            taken[number] += 1
            if isinstance(item, SourceState) and item.overloaded:
                reported.add((number, item.message))
                if len(reported) == len(floods):
                    all_reported.set()

    tasks = [asyncio.ensure_future(flood(number, inbox)) for number, inbox in enumerate(floods)]
    await asyncio.wait_for(all_reported.wait(), ITEM_TIMEOUT)
    assert reported == {(number, OVERLOADED_MESSAGE) for number in range(len(floods))}
    for _ in range(20):
        turn = asyncio.ensure_future(good.next())
        await asyncio.sleep(0)
        before = taken.copy()
        good.put(TROUBLE)
        item = await asyncio.wait_for(turn, ITEM_TIMEOUT)
        assert item is not None and has_record("trouble")(item)
        assert (taken - before).total() < 5_000  # at most one slice of one host
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def test_a_state_is_returned_before_what_is_in_the_queue(stack: ExitStack) -> None:
    """Only the newest: how much of the probe has come."""
    inbox = Inbox(stack.enter_context(HostBudget()), ignore)
    inbox.put(HELLO)
    waiting = [SourceState("live", stage="probe", target=f"{part} of 9 kB") for part in (1, 2)]
    for state in waiting:
        inbox.announce(state)
    assert await inbox.next() is waiting[1]
    assert await inbox.next() == SourceState("live")


async def test_a_state_ends_the_wait_for_bytes(stack: ExitStack) -> None:
    inbox = Inbox(stack.enter_context(HostBudget()), ignore)
    state = SourceState("live", stage="probe", target="1 of 9 kB")
    waiting = asyncio.ensure_future(inbox.next())
    await asyncio.sleep(0)
    inbox.announce(state)
    assert await asyncio.wait_for(waiting, ITEM_TIMEOUT) is state
