"""What waits of a probe is bounded, and a host that sends too much takes nothing from the others."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from types import SimpleNamespace

import pytest

from nictop.probe.protocol.hello import hello
from nictop.wire import budget
from nictop.wire.budget import BURST, OVERLOADED, HostBudget
from nictop.wire.codec import LineError
from nictop.wire.inbox import FULL, ROOM, Inbox
from nictop.wire.source import SourceState
from tests.support.items import LIMIT, has, is_state

HELLO = json.dumps({"hello": hello(1.0)}).encode() + b"\n"
TROUBLE = b'{"trouble": {"time": 1, "message": "m"}}\n'


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as found:
        yield found


def is_full(inbox: Inbox) -> bool:
    return inbox.is_full


def nothing() -> None:
    """There is room again, for nobody who waits for it."""


async def test_a_reader_is_told_to_stop_and_to_go_on_by_bytes(stack: ExitStack) -> None:
    rooms = []
    inbox = Inbox(stack.enter_context(HostBudget()), lambda: rooms.append(inbox.size))
    inbox.put(HELLO)
    line = b'{"trouble": {"time": 1, "message": "%s"}}\n' % (b"x" * 65_000)
    while not is_full(inbox):
        inbox.put(line)
    assert FULL <= inbox.size < FULL + len(line)
    taken = 0
    while not rooms:
        await inbox.next()
        taken += 1
    assert not is_full(inbox)
    assert len(rooms) == 1 and ROOM - len(line) < rooms[0] <= ROOM and taken > 5


async def test_many_small_parts_fill_it_as_well(stack: ExitStack) -> None:
    inbox = Inbox(stack.enter_context(HostBudget()), nothing)
    for _ in range(FULL // 256):
        assert not inbox.is_full
        inbox.put(b"x")
    assert inbox.is_full


async def test_what_comes_beside_the_stream_fills_it_and_is_no_line(stack: ExitStack) -> None:
    inbox = Inbox(stack.enter_context(HostBudget()), nothing)
    inbox.put(HELLO[:9])
    inbox.put(b"", beside=FULL)
    assert inbox.is_full
    inbox.put(HELLO[9:])
    inbox.close()
    assert is_state("live")(await inbox.next()) and has("hello")(await inbox.next())  # type: ignore[arg-type]
    assert await inbox.next() is None and not inbox.is_full


async def test_what_has_come_is_taken_before_the_end_unless_it_is_to_be_forgotten(stack: ExitStack) -> None:
    for forget in (False, True):
        inbox = Inbox(stack.enter_context(HostBudget()), nothing)
        inbox.put(HELLO + TROUBLE)
        await inbox.next()
        inbox.put(TROUBLE)
        inbox.close(forget=forget)
        heard = []
        while (item := await inbox.next()) is not None:
            heard.append(item)
        assert len(heard) == (0 if forget else 3)


async def test_nonsense_ends_it_when_it_is_taken(stack: ExitStack) -> None:
    inbox = Inbox(stack.enter_context(HostBudget()), nothing)
    inbox.put(HELLO + b"nonsense\n" * 5)
    with pytest.raises(LineError, match="talks nonsense"):
        for _ in range(9):
            await inbox.next()


async def test_the_work_of_the_consumer_counts_until_others_run(
    monkeypatch: pytest.MonkeyPatch, stack: ExitStack
) -> None:
    """What it does after that may be theirs."""
    spent: list[float] = []
    share = stack.enter_context(HostBudget())
    monkeypatch.setattr(share, "spend", spent.append)
    inbox = Inbox(share, nothing)
    inbox.put(HELLO + TROUBLE * 4)
    for others_run in (False, False, True):
        await inbox.next()
        spent.clear()
        if others_run:
            await asyncio.sleep(0)
        sum(range(300_000))
        await inbox.next()
        assert (max(spent) > 0.001) is not others_run


async def test_a_host_is_overloaded_from_its_share_on_and_until_it_is_quiet(
    monkeypatch: pytest.MonkeyPatch, stack: ExitStack
) -> None:
    now = 0.0
    monkeypatch.setattr(budget, "time", SimpleNamespace(monotonic=lambda: now))
    share = stack.enter_context(HostBudget())
    share.spend(BURST)
    overloaded = []
    for spent in (0.0, 0.011):  # that it is overloaded is said before it waits
        share.spend(spent)
        await asyncio.wait_for(share.turn(0), LIMIT)
        overloaded.append(share.overloaded)
    assert overloaded == [False, True]
    turn = asyncio.ensure_future(share.turn(0))
    await asyncio.sleep(0)
    assert not turn.done()
    turn.cancel()
    quiet = share.rest()
    now += 0.9 * quiet
    assert share.rest() == pytest.approx(0.1 * quiet)
    now += 0.2 * quiet
    assert share.rest() == 0.0


async def test_many_hosts_share_what_one_may_take(monkeypatch: pytest.MonkeyPatch, stack: ExitStack) -> None:
    now = 0.0
    monkeypatch.setattr(budget, "time", SimpleNamespace(monotonic=lambda: now))
    shares = [stack.enter_context(HostBudget()) for _ in range(10)]
    for number, share in enumerate(shares):
        share.spend(share._left + 0.05 + number / 10)
    now = 10.0  # 0.05 CPU seconds per second each
    turns = [asyncio.ensure_future(share.turn(0)) for share in shares]
    await asyncio.sleep(0)
    assert [share.overloaded for share in shares] == [False] * 5 + [True] * 5
    for turn in turns:
        turn.cancel()
    await asyncio.gather(*turns, return_exceptions=True)


async def test_overloaded_hosts_take_turns_and_do_not_delay_another(
    monkeypatch: pytest.MonkeyPatch, stack: ExitStack
) -> None:
    """Judged by what is delivered between the arrival of its line and the moment at which it is taken."""
    monkeypatch.setattr(budget, "BURSTS", 0.0)
    monkeypatch.setattr(budget, "LEAST_BURST", 0.0)
    floods = [Inbox(stack.enter_context(HostBudget()), nothing) for _ in range(64)]
    good = Inbox(stack.enter_context(HostBudget()), nothing)
    good.put(HELLO)
    await good.next()
    await good.next()
    taken: Counter[int] = Counter()
    said, all_said = set(), asyncio.Event()

    async def flood(number: int, inbox: Inbox) -> None:
        inbox.put(HELLO + TROUBLE * 20_000)
        while (item := await inbox.next()) is not None:
            taken[number] += 1
            if isinstance(item, SourceState) and item.overloaded:
                said.add((number, item.message))
                if len(said) == len(floods):
                    all_said.set()

    tasks = [asyncio.ensure_future(flood(number, inbox)) for number, inbox in enumerate(floods)]
    await asyncio.wait_for(all_said.wait(), LIMIT)
    assert said == {(number, OVERLOADED) for number in range(len(floods))}
    for _ in range(20):
        turn = asyncio.ensure_future(good.next())
        await asyncio.sleep(0)
        before = taken.copy()
        good.put(TROUBLE)
        item = await asyncio.wait_for(turn, LIMIT)
        assert item is not None and has("trouble")(item)
        assert (taken - before).total() < 5_000  # one slice of one of them, at most
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
