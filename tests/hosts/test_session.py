"""Sessions: requests during a run, notifications of subscribers, and the state after a replacement
of the source."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from nictop.hosts.session import HELD_UP_REASON, LATE_REASON, HostSession, Item, running
from nictop.hosts.specification import LOCAL, RECORDED, Host
from nictop.model.snapshot import BEFORE_SILENCE, Snapshot, outdated_text, watchable_links
from nictop.probe.protocol.requests import MAX_WATCHED_LINKS
from nictop.probe.records import Clock, DriverInfo, Line, Request
from nictop.recording.playback import Playback
from nictop.recording.reader import Recording
from nictop.wire.source import SourceState
from tests.model.hosts import HELLO, PF, counters, inventory, link_counters
from tests.support.recordings import host_items, write_recording
from tests.support.sources import ScriptedSource, session_of

LIMIT = 60.0
INVENTORY = inventory()
LINES: tuple[Item, ...] = (SourceState("live"), Line(hello=HELLO), Line(inventory=INVENTORY))


def reading(second: int) -> Line:
    return Line(counters=counters(100.0 + second, {4: link_counters(rx_bytes=second)}))


async def test_interval_and_watched_links_are_sent_after_a_run() -> None:
    source = ScriptedSource()
    session = session_of(source, interval=1.0)
    await session.request(Request(interval=0.5, watch=(7,)))
    await session.join_run(0.2, 4)
    await session.request(Request(interval=5.0, watch=(8,)))
    await session.request(Request(interval=2.0, inventory=True))
    await session.leave_run()
    assert source.requests == [
        Request(interval=0.5, watch=(7,)),
        Request(interval=0.2, watch=(4, 7)),
        Request(inventory=True),
        Request(interval=2.0, watch=(8,)),
    ]


async def test_a_run_does_not_make_a_fast_probe_slower() -> None:
    source = ScriptedSource()
    session = session_of(source, interval=0.1)
    await session.join_run(0.2, None)
    await session.leave_run()
    assert source.requests == [Request(interval=0.1, watch=()), Request(interval=0.1, watch=())]


async def test_watched_devices_are_requested_again_of_a_new_source() -> None:
    first, second = ScriptedSource(), ScriptedSource()
    session = session_of(first, watch_devices=True)
    for source in (first, second):
        if source is second:
            session.replace_source(source)
        source.send(*LINES, Line(inventory=inventory()), reading(1))
        async with running(session):
            assert await session.until(lambda source=source: source.is_drained, LIMIT)  # type: ignore[misc]
        devices = watchable_links(session.snapshot.links.values())
        assert devices and source.requests == [Request(watch=devices)] and source.closed


async def test_counters_that_rules_need_are_watched_beside_the_chosen_nic() -> None:
    """Three rules about vmxnet3 were skipped for each NIC that was not the chosen one."""
    driver = replace(PF.ethtool, driver=DriverInfo("vmxnet3", "", "", ""))
    other = replace(PF, ifindex=9, name="ens256", ethtool=driver)
    first, second = ScriptedSource(), ScriptedSource()
    session = session_of(first, watch_rated=True)
    for source in (first, second):
        if source is second:
            session.replace_source(source)
        source.send(*LINES, Line(inventory=inventory(links=(PF, other))), reading(1))
        async with running(session):
            assert await session.until(lambda source=source: source.is_drained, LIMIT)  # type: ignore[misc]
        assert source.requests[0].watch is not None and 9 in source.requests[0].watch
    await session.request(Request(watch=(4,)))
    assert second.requests[-1] == Request(watch=(4, 9))


def test_as_many_links_are_watched_as_a_probe_accepts() -> None:
    links = [replace(PF, ifindex=number) for number in range(200, 0, -1)]
    assert watchable_links(links) == tuple(range(1, MAX_WATCHED_LINKS + 1))
    assert watchable_links([replace(PF, device=None)]) == ()


async def test_subscribers_receive_every_item_with_the_snapshot_after_it() -> None:
    session = session_of(ScriptedSource())
    received: list[tuple[object, Snapshot]] = []
    unsubscribe = session.subscribe(lambda item, snapshot: received.append((item, snapshot)))
    for item in LINES:
        assert session.process(item) is session.snapshot
    session.replace_source(ScriptedSource())
    assert [item for item, _ in received] == [*LINES, SourceState("lost", "reconnected")]
    assert received[2][1].inventory is INVENTORY and received[3][1].state == "lost"
    assert session.snapshot is received[2][1], (
        "what is known stays until the new source sends something"
    )
    unsubscribe()
    session.fail("watched no longer")
    assert len(received) == 4 and (session.snapshot.state, session.reason) == (
        "failed",
        "watched no longer",
    )


def test_history_and_rates_are_stored_only_if_the_constructor_says_so() -> None:
    full, lean = (
        session_of(ScriptedSource(), history=True),
        session_of(ScriptedSource(), window=False),
    )
    for session in (full, lean):
        for item in (*LINES, *map(reading, range(5))):
            session.process(item)
        assert session.snapshot.rates is not None
    assert full.window.seconds == 4.0 and len(full.history.times()) == 5
    assert lean.window.parts == () and len(lean.history.times()) == 0


async def test_an_internal_error_fails_only_one_host() -> None:
    class Broken(ScriptedSource):
        async def items(self) -> AsyncIterator[Line | SourceState]:
            for item in LINES:
                yield item
            raise RuntimeError("broken")

    session: HostSession = session_of(Broken())
    async with running(session):
        assert await session.until(lambda: session.is_unreachable, LIMIT)
    assert session.snapshot.message == "internal error: RuntimeError: broken"


async def test_a_condition_that_does_not_become_true_in_time() -> None:
    session = session_of(ScriptedSource())
    assert not await session.until(lambda: False, 0.0)
    assert session._subscribers == []


async def test_a_recording_that_is_read_up_to_a_position_connects_to_nothing(
    tmp_path: Path,
) -> None:
    """Neither "connecting" nor an age is true of it before the items up to there were read."""
    await asyncio.to_thread(write_recording, tmp_path / "r", host_items("a", 100))
    with Recording.open(str(tmp_path / "r")) as recording:
        playback = Playback(recording)
        playback.seek(recording.begin + 60.0)
        source = playback.source("a")
        session = session_of(source, clock=playback.now)
        items = source.items()
        for _ in range(20):
            assert session.is_catching_up and session.age(playback.now()) is None
            told = session.doing_text(playback.now())
            assert session.status_text(playback.now(), 1.0) == told
            assert told.startswith("reading the recording")
            session.process(await anext(items))
        share = int(told.removeprefix("reading the recording, ").removesuffix(" %"))
        assert 0 < share < 100, "how far it is read"
        async with running(session):
            await source.wait_until_caught_up()
        assert not session.is_catching_up
        assert session.status_text(playback.now(), 1.0) == "live"
        # nor is it without data after a jump, before the items up to there were read
        playback.seek(recording.end)
        assert session.age(playback.now()) is None
        assert session.status_text(playback.now(), 1.0) == "reading the recording"


def test_a_slow_start_makes_all_limits_of_the_host_longer() -> None:
    """A guest without hardware acceleration: the probe starts in 9 s and reads in 6 s."""
    now = 0.0
    session = session_of(ScriptedSource("vm1"), clock=lambda: now)
    steps: tuple[tuple[float, Item], ...] = (
        (0.0, SourceState("connecting")),
        (0.5, SourceState("connecting", stage="probe")),
        (9.5, SourceState("live")),
        (9.5, Line(hello=HELLO)),
        (15.5, Line(inventory=INVENTORY)),
    )
    for time, item in steps:
        assert session.slowness.factor == 1.0
        session.process(item, time)
    assert session.slowness.factor == 2.4


def test_only_a_silent_host_is_waited_for_again() -> None:
    session = session_of(ScriptedSource("vm1"))
    given_up: list[bool] = []
    for item in (
        *LINES,
        SourceState("lost", "no more data from vm1 for 10 s", 0.5, silent=True),
        SourceState("connecting"),
        SourceState("lost", "connection refused", 0.5),
        SourceState("failed", "no Python", silent=True),
    ):
        session.process(item)
        given_up.append(session.is_given_up)
    assert given_up == [False] * 5 + [True, True]


def test_what_was_read_of_a_silent_host_is_in_doubt() -> None:
    one = session_of(ScriptedSource("vm1"))
    assert not one.note_silence(100.0, 1.0), "nothing was read"
    for item in LINES:
        one.process(item, 100.0)
    assert not one.note_silence(104.0, 1.0)
    assert one.note_silence(106.0, 1.0) and not one.note_silence(107.0, 1.0)
    assert outdated_text(one.snapshot) == BEFORE_SILENCE
    one.process(Line(counters=counters(1080.0, {})), 108.0)
    assert outdated_text(one.snapshot) == ""
    one.process(SourceState("lost", "connection reset", 0.5), 108.5)
    assert one.note_silence(108.6, 1.0), "at once: nothing will come"
    one.process(SourceState("live"), 110.0)
    assert outdated_text(one.snapshot) == BEFORE_SILENCE, "nothing has come yet"


def test_a_reading_is_late_before_the_host_is_silent() -> None:
    one = session_of(ScriptedSource("vm1"))
    for item in LINES:
        one.process(item, 100.0)
    late = [one.late_seconds(100.0 + age, 1.0) for age in (1.5, 3.0, 4.9, 5.5)]
    assert late == [None, 3.0, pytest.approx(4.9), None]
    one.process(SourceState("lost", "connection reset", 0.5), 103.0)
    assert one.late_seconds(103.5, 1.0) is None, "it is not live"


def test_values_that_waited_in_a_slow_connection_are_old() -> None:
    """They come every second, and were read 24 s before: the clock of the host says so. As long as
    its clock is known less exactly than that, nothing is said."""
    one = HostSession(Host("vm1", "vm1.example"))
    for item in LINES:
        one.process(item, 100.0)
    one.process(Line(clock=Clock(100.0, 1000.0, 30.0)), 100.0)
    one.process(Line(counters=counters(1080.0, {})), 104.0)
    assert one.late_by == 0.0 and one.status(104.5, 1.0) == "live"
    one.process(Line(clock=Clock(104.0, 1000.0, 0.1)), 104.0)
    for second in range(3):
        one.process(Line(counters=counters(1081.0 + second, {})), 105.0 + second)
    assert one.late_by == pytest.approx(23.9, abs=0.01)
    assert one.is_overdue(107.5, 1.0) and one.status(107.5, 1.0) == "silent"
    assert one.status_text(107.5, 1.0) == "values are 24 s old"
    assert one.notice(107.5, 1.0) == f"values are 24 s old: {LATE_REASON}"
    one.process(Line(counters=counters(1107.4, {})), 107.5)
    assert one.status(107.5, 1.0) == "live"


@pytest.mark.parametrize("waiting", [1, 5])
def test_readings_that_a_pause_has_held_up_do_not_make_the_connection_slow(waiting: int) -> None:
    """A guest whose hypervisor stops it for some seconds sends what it had read when it continues;
    after a pause of the network all that waited comes at once."""
    one = HostSession(Host("vm1", "vm1.example"))
    for item in LINES:
        one.process(item, 100.0)
    one.process(Line(clock=Clock(100.0, 1000.0, 0.1)), 100.0)
    for second in range(3):
        one.process(Line(counters=counters(1101.0 + second, {})), 101.0 + second)
    for number in range(waiting):
        one.process(Line(counters=counters(1104.0 + number, {})), 114.0 + 0.01 * number)
    assert one.status(114.1, 1.0) == "silent"
    notice = one.notice(114.1, 1.0)
    assert notice.startswith("values are ") and notice.endswith(f"old: {HELD_UP_REASON}")


@pytest.mark.parametrize("address", [RECORDED, LOCAL])
def test_a_host_of_a_recording_is_one_until_its_end(address: str) -> None:
    """Also across a reboot, after which nothing else is known of it."""
    session = HostSession(Host("a", address))
    for line in (HELLO, replace(HELLO, boot_id="another")):
        session.process(Line(hello=line), 0.0)
        assert session.snapshot.is_replayed == (address == RECORDED)
