"""When an inventory is due: after bursts of events, on request, and at intervals."""

from __future__ import annotations

import select
import time

import pytest

from nictop.probe.inventory.scheduler import (
    RESCAN_SECONDS,
    RESCAN_SECONDS_WITHOUT_EVENTS,
    Debouncer,
    InventoryScheduler,
    RouteLimit,
    UnreadEvent,
    UnreadEvents,
    rescan_interval,
)
from nictop.probe.records import EventSource


@pytest.mark.parametrize(
    ("missing", "seconds"),
    [
        ("rtnetlink", RESCAN_SECONDS_WITHOUT_EVENTS),
        ("other namespaces", RESCAN_SECONDS_WITHOUT_EVENTS),
        ("uevents", RESCAN_SECONDS_WITHOUT_EVENTS),
        ("rtnetlink,uevents,ethtool", RESCAN_SECONDS_WITHOUT_EVENTS),
        ("ethtool", RESCAN_SECONDS),
        ("", RESCAN_SECONDS),
    ],
)
def test_rescan_interval(missing: str, seconds: float) -> None:
    """A sandbox may refuse one kind of socket only: then its events are replaced by frequent
    re-scans."""
    assert rescan_interval(missing.split(",")) == seconds


def without_free_pauses(now: float) -> Debouncer:
    """All that may be left out were left out at `now`."""
    debouncer = Debouncer()
    for _ in range(3):
        debouncer.finished(now, 9.0, 9.0)
    return debouncer


def test_a_burst_causes_one_inventory() -> None:
    debouncer = Debouncer()
    assert debouncer.due() is None
    for now in (10.0, 10.1, 10.2):
        debouncer.request("event", now)
    assert debouncer.due() == pytest.approx(10.35)
    assert debouncer.started() == "event"
    assert debouncer.due() is None


def test_an_endless_burst_is_waited_for_at_most_max_delay() -> None:
    debouncer = Debouncer()
    for tenth in range(100):
        debouncer.request("event", 10 + tenth / 10)
    assert debouncer.due() == pytest.approx(11.0)


def test_continuous_events_leave_a_pause_between_inventories() -> None:
    """With continuous events an inventory of 0.4 s uses a fifth of a CPU, not a whole one."""
    debouncer, now, spent = Debouncer(), 0.0, 0.0
    while now < 60.0:
        debouncer.request("event", now)
        due = debouncer.due()
        assert due is not None
        now = max(now, due)
        debouncer.started()
        now += 0.4
        spent += 0.4
        debouncer.finished(now, 0.4, 0.4)
    assert spent / now < 0.22


def test_the_pause_after_an_inventory_depends_on_its_cpu_time() -> None:
    """On a busy host it took 8 s, most of which it waited for a CPU: then as long again is
    sufficient for others."""
    debouncer = without_free_pauses(0.0)
    debouncer.finished(8.0, 8.0, 1.0)
    debouncer.request("event", 8.0)
    assert debouncer.due() == pytest.approx(16.0)


def test_some_events_after_an_idle_time_do_not_wait_for_the_pause() -> None:
    """A fault and its repair some seconds later, on a host where an inventory takes 3 s."""
    debouncer = Debouncer()
    debouncer.finished(0.0, 3.0, 3.0)
    times = []
    for event in (100.0, 104.0, 108.0, 112.0):
        debouncer.request("event", event)
        due = debouncer.due()
        assert due is not None
        times.append(due)
        debouncer.started()
        debouncer.finished(due + 3.0, 3.0, 3.0)
    assert times == pytest.approx([100.15, 104.15, 108.15, 100.15 + 3 * (3.0 + 12.0) - 24.0])


def test_an_event_during_an_inventory_requests_another_one() -> None:
    debouncer = Debouncer()
    debouncer.request("start", 1.0, immediate=True)
    assert debouncer.due() == pytest.approx(1.0)
    assert debouncer.started() == "start"
    debouncer.request("event", 1.1)
    debouncer.finished(1.2, 0.2, 0.2)
    assert debouncer.due() == pytest.approx(1.45)


def test_a_forced_request_does_not_wait_for_the_pause() -> None:
    """Nor for the end of a burst, nor for an earlier event that is waiting; later events wait
    again, and not longer because of it."""
    debouncer = without_free_pauses(0.0)
    debouncer.request("event", 8.9)
    debouncer.finished(9.0, 9.0, 9.0)  # pause until 45
    debouncer.request("request", 10.0, forced=True)
    due = debouncer.due()
    assert due is not None and due <= 10.0
    debouncer.started()
    debouncer.finished(19.0, 9.0, 9.0)
    debouncer.request("event", 20.0)
    assert debouncer.due() == pytest.approx(55.0)


def test_a_rescan_without_events_waits_for_the_pause() -> None:
    debouncer = without_free_pauses(0.0)
    debouncer.rescan = 10.0
    debouncer.finished(9.0, 9.0, 9.0)  # a slow host: pause until 45
    assert debouncer.due() == pytest.approx(45.0)
    assert debouncer.started() == "re-scan"
    debouncer.rescan = 345.0
    debouncer.finished(46.0, 0.1, 0.1)
    assert debouncer.due() == pytest.approx(345.0)
    debouncer.request("event", 100.0)
    assert debouncer.due() == pytest.approx(100.15)


def test_a_change_that_waits_is_told_once() -> None:
    event = UnreadEvent(10.0, "link")
    assert not event.is_to_be_told(11.99, 2.0, None)
    assert event.is_to_be_told(12.0, 2.0, None)
    assert not event.is_to_be_told(100.0, 2.0, None)


def test_a_change_is_told_again_when_it_is_known_when_it_is_read() -> None:
    event = UnreadEvent(10.0, "link")
    assert event.is_to_be_told(12.0, 2.0, None)
    assert not event.is_to_be_told(13.0, 0.0, None)
    assert event.is_to_be_told(14.0, 0.0, 20.0) and event.due == 20.0
    assert not event.is_to_be_told(15.0, 0.0, 21.0), "a few tenths of a second say nothing new"


def test_a_change_is_told_again_when_it_is_not_only_about_a_link() -> None:
    """The manager of networks follows the link: what rests on it may have changed, too."""
    event = UnreadEvent(10.0, "link")
    assert event.is_to_be_told(12.0, 2.0, 20.0)
    event.add("link")
    assert not event.is_to_be_told(13.0, 2.0, 20.0)
    event.add("NetworkManager")
    assert event.is_to_be_told(13.0, 2.0, 20.0) and event.source == "NetworkManager"
    event.add("address")
    assert not event.is_to_be_told(14.0, 2.0, 20.0) and event.source == "NetworkManager"
    event.add("device")
    assert event.is_to_be_told(15.0, 2.0, 20.0) and str(event.source) == "device"


def unread_after(*sources: EventSource) -> UnreadEvents:
    unread = UnreadEvents()
    for number, source in enumerate(sources):
        unread.add(10.0 + number, source)
    return unread


def known(event: UnreadEvent | None) -> tuple[float, str]:
    assert event is not None
    return event.time, event.source


def test_a_change_that_is_read_soon_is_not_told() -> None:
    unread = unread_after("link")
    unread.begin_reading()
    assert unread.first_untold == 10.0, "its inventory may take long"
    unread.end_reading(failed=False)
    assert unread.first_untold is None


def test_a_change_during_an_inventory_waits_for_the_next_one() -> None:
    unread = unread_after("link")
    unread.begin_reading()
    unread.add(11.0, "address")
    assert known(unread.reading) == (10.0, "link") and known(unread.waiting) == (11.0, "address")
    unread.end_reading(failed=False)
    assert unread.reading is None and known(unread.waiting) == (11.0, "address")


def test_a_change_stays_unread_after_an_inventory_that_failed() -> None:
    unread = unread_after("link")
    unread.begin_reading()
    unread.add(11.0, "NetworkManager")
    unread.end_reading(failed=True)
    assert known(unread.waiting) == (10.0, "NetworkManager")
    unread.begin_reading()
    unread.end_reading(failed=False)
    assert unread.first_untold is None


@pytest.mark.parametrize(("at_once", "expected"), [(True, [10.0, 11.0]), (False, [])])
def test_events_are_told_at_once_on_request(at_once: bool, expected: list[float]) -> None:
    """What `check` prints once is true then, also of the seconds in which a screen waits."""
    sent: list[dict[str, object]] = []
    scheduler = InventoryScheduler(
        select.poll(),
        send=lambda name, fields: sent.append(fields),
        send_trouble=lambda *_: None,
        handle_inventory=lambda *_: None,
        write=lambda _: None,
        prepare=lambda: None,
    )
    scheduler.set_events_at_once(at_once)
    scheduler._request_after_event("link", 10.0)
    scheduler._unread.begin_reading()
    scheduler._request_after_event("NetworkManager", 11.0)
    scheduler.advance(11.0)
    assert [fields["time"] for fields in sent] == expected


@pytest.mark.parametrize(
    ("source", "is_told"), [("interrupt affinity", False), ("sysctl", True), ("", False)]
)
def test_moved_interrupts_are_read_again_and_make_nothing_doubtful(
    source: EventSource, is_told: bool
) -> None:
    scheduler = new_scheduler()
    scheduler._request_after_file(source, 10.0)
    assert scheduler._debouncer.reason == ("event" if source else "")
    assert (scheduler._unread.first_untold is not None) == is_told


def new_scheduler() -> InventoryScheduler:
    return InventoryScheduler(
        select.poll(),
        send=lambda *_: None,
        send_trouble=lambda *_: None,
        handle_inventory=lambda *_: None,
        write=lambda _: None,
        prepare=lambda: None,
    )


def test_routes_that_change_all_the_time_are_read_every_ten_seconds() -> None:
    """Their first changes are read at once; a daemon must not have inventories taken for ever."""
    scheduler, now, taken = new_scheduler(), 1000.0, []
    while now < 1100.0:
        scheduler._request_after_route(now)
        scheduler.advance(now)
        if scheduler._debouncer.reason:
            scheduler._debouncer.started()
            scheduler._route_due = None
            taken.append(now)
        now += 0.5
    assert taken[:5] == [1000.0, 1000.5, 1001.0, 1001.5, 1002.0]
    assert taken[5:8] == [1010.0, 1020.0, 1030.0]
    assert len(taken) == 14


def test_a_route_that_waits_is_told_with_the_time_when_it_is_read() -> None:
    scheduler = new_scheduler()
    for _ in range(RouteLimit.FREE):
        scheduler._request_after_route(1000.0)
        scheduler._debouncer.started()
    scheduler._request_after_route(1000.0)
    assert scheduler._unread.first_untold == 1000.0 and scheduler._due() == 1010.0
    assert not scheduler._debouncer.reason
    scheduler._request_after_event("address", 1001.0)
    assert scheduler._due() == pytest.approx(1001.15), "it is read with that"


@pytest.mark.parametrize(("seconds", "reason"), [(3600.0, "event"), (-3600.0, "event"), (0.1, "")])
def test_the_time_of_day_is_read_again_when_it_was_set(
    seconds: float, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    scheduler = new_scheduler()
    begin = time.time() - time.monotonic()
    monkeypatch.setattr(
        "nictop.probe.inventory.scheduler.time.time", lambda: begin + time.monotonic() + seconds
    )
    scheduler.advance(time.monotonic())
    assert scheduler._debouncer.reason == reason
    assert scheduler._unread.first_untold is None, "nothing else is older for that"


def test_a_failed_source_is_read_again_soon_on_a_slow_host_too() -> None:
    """An inventory took 15 s: the pause of 60 s after it is for hosts of which all was read."""
    targets = {"incomplete": True, "digest": 1, "files": [], "gateways": []}
    scheduler = InventoryScheduler(
        select.poll(),
        send=lambda *_: None,
        send_trouble=lambda *_: None,
        handle_inventory=lambda *_: targets,  # type: ignore[arg-type]
        write=lambda _: None,
        prepare=lambda: None,
    )
    waited = []
    for _ in range(5):
        scheduler._debouncer.finished(100.0, 15.0, 15.0)
        scheduler._pass_on(b"", 100.0)
        due = scheduler._debouncer.due()
        assert due is not None
        waited.append(due - 100.0)
    assert waited == [5.0, 10.0, 20.0, 40.0, 60.0]
    targets["incomplete"] = False
    scheduler._debouncer.finished(100.0, 15.0, 15.0)
    scheduler._pass_on(b"", 100.0)
    scheduler.request("event", 100.0)
    assert scheduler._debouncer.due() == 160.0


class SlowChild:
    """An inventory of 20 s that was begun at 100."""

    descriptor, started, cpu_seconds, running = 5, 100.0, 0.5, True

    def kill(self) -> None:
        self.descriptor, self.running = -1, False


@pytest.mark.parametrize(
    ("source", "now", "begins_again"),
    [
        ("device", 104.0, True),
        ("events were lost", 104.0, True),
        ("device", 116.0, False),  # it is nearly complete
        ("address", 104.0, False),
    ],
)
def test_a_slow_inventory_begins_again_when_a_device_came_or_went(
    source: EventSource, now: float, begins_again: bool
) -> None:
    """An unbound driver was told 15 to 20 s later, after the rest of one inventory and another."""
    poll = select.poll()
    poll.register(5, select.POLLIN)
    scheduler = InventoryScheduler(
        poll,
        send=lambda *_: None,
        send_trouble=lambda *_: None,
        handle_inventory=lambda *_: None,
        write=lambda _: None,
        prepare=lambda: None,
        parts=True,
    )
    scheduler.complete, scheduler._last_seconds = True, 20.0
    scheduler._child = child = SlowChild()  # type: ignore[assignment]
    scheduler._request_after_event(source, now)
    assert child.running is not begins_again
    if not begins_again:
        return
    due = scheduler._debouncer.due()
    assert due is not None and due <= now + Debouncer.MAX_DELAY_SECONDS
    scheduler._debouncer.started()
    scheduler._child = again = SlowChild()  # type: ignore[assignment]
    again.started = now
    scheduler._request_after_event(source, now + 1.0)
    assert again.running, "it becomes complete"


def test_the_functions_are_passed_on_first_after_an_event_on_a_slow_host() -> None:
    written: list[bytes | bytearray] = []
    handled: list[bytes | bytearray] = []
    scheduler = InventoryScheduler(
        select.poll(),
        send=lambda *_: None,
        send_trouble=lambda *_: None,
        handle_inventory=lambda _, line, known: handled.append(line),
        write=written.append,
        prepare=lambda: None,
        parts=True,
    )
    scheduler._parts = False
    for seconds, reason, expected in ((0.3, "event", 0), (9.0, "re-scan", 0), (9.0, "event", 1)):
        scheduler._last_seconds, scheduler._reason = seconds, reason
        scheduler._child._output = bytearray(b"{}\n{part}\n\n")
        scheduler._pass_on_parts()
        assert len(written) == expected and not handled
