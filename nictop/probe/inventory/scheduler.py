"""When an inventory is taken: at events, on request and at intervals; its lines are passed on.

Polls the kernel (`events.kernel`) and NetworkManager (`events.networkmanager`), waits until a burst
of events is over (`Debouncer`), and has the inventory taken by a child process (`child`). Nothing
here blocks.
"""

from __future__ import annotations

import select
import time

from nictop.probe.events.gateways import GatewayWatch
from nictop.probe.events.kernel import OTHER_NAMESPACES, Events
from nictop.probe.events.networkmanager import NetworkManagerSignals
from nictop.probe.events.reach import reach_of
from nictop.probe.inventory.child import InventoryChild
from nictop.probe.inventory.kept_modules import KeptModules
from nictop.probe.inventory.managers.state_files import StateFiles
from nictop.probe.kernel.dbus_wire import bus_address

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from nictop.probe.counters.targets import Targets
    from nictop.probe.records import EventSource

    Event = tuple[float, EventSource]

RESCAN_SECONDS = 300.0
RESCAN_SECONDS_WITHOUT_EVENTS = 10.0
"""Between inventories without event or request."""
FAILURE_RETRY_SECONDS = 10.0
"""From a failed inventory to the next attempt."""
FIRST_REPEAT_SECONDS, MAX_REPEAT_SECONDS = 5.0, 60.0
"""From an inventory with a failed source to the next one; doubled each time, up to the maximum. On
a slow host the pause after an inventory is longer: the first repeats do not wait for its end."""
RECHECK_SECONDS = 3.0
"""Between inventories while a finding may be resolved without any event."""
RECHECK_PAUSE_FACTOR = 25.0
"""Minimum of that interval, in seconds of CPU of an inventory: at most four per cent of a CPU."""
OUTDATED_AFTER_SECONDS = 2.0
"""From an event until it is reported that no inventory is from after it."""
SLOW_INVENTORY_SECONDS = 1.0
"""Duration of an inventory from which an event during it is reported at once: some of its sources
were read before the event and some after it, and the next inventory is seconds away."""
DEVICE_EVENTS: tuple[EventSource, ...] = ("device", "events were lost")
"""A NIC or its driver has come or gone: a slow inventory begins again, with that first."""
CHANGE_POLL_SECONDS = 1.0
"""Between checks for new kernel messages, and of files that change without an event."""
DAEMON_ROUTES_SECONDS = 60.0
"""Between inventories because a routing daemon has changed routes."""
CLOCK_STEP_SECONDS = 0.5
"""Jump of the time of day between two of those checks, after which it is read again."""


class InventoryScheduler:
    """The inventories of one probe. Registers its descriptors with `poll`; `now` is
    CLOCK_MONOTONIC.

    Callbacks: `send` writes a line (record name, fields); `send_trouble` a line with a sentence;
    `handle_inventory` takes the targets line, the inventory line and the digest of an inventory
    that must not be passed on again, and returns the targets; `write` takes an encoded
    line; `prepare` is called before the child of each inventory but the first is started. `parts`:
    pass on the parts of the first inventory as soon as they are read, and on a slow host the PCI
    functions after an event.
    """

    def __init__(
        self,
        poll: select.poll,
        *,
        send: Callable[[str, dict[str, object]], None],
        send_trouble: Callable[..., None],
        handle_inventory: Callable[[bytes, bytes | bytearray, int | None], Targets | None],
        write: Callable[[bytes | bytearray], object],
        prepare: Callable[[], None],
        parts: bool = False,
        sys: str = "/sys",
        proc: str = "/proc",
    ) -> None:
        self._poll, self._send, self._send_trouble = poll, send, send_trouble
        self._handle_inventory, self._prepare = handle_inventory, prepare
        self._write = write
        self._child = InventoryChild(sys=sys, proc=proc)
        self._parts = parts
        self._passes_on_devices = parts
        """The same of the PCI functions, in inventories after an event."""
        self._last_seconds = 0.0
        """Duration of the last complete inventory."""
        self._is_begun_again = False
        """The running one has replaced one that was ended by an event."""
        self._modules = KeptModules()
        self._debouncer = Debouncer()
        self._unread = UnreadEvents()
        self._event_delay = OUTDATED_AFTER_SECONDS
        self._events: Events | None = None
        self._signals: NetworkManagerSignals | None = None
        self._repeat_after = FIRST_REPEAT_SECONDS
        self._rechecking = False
        self._files, self._gateways = StateFiles(), GatewayWatch()
        self._next_poll = 0.0
        self._boot_time = wall_boot_time()
        self._routes = RouteLimit()
        self._route_due: float | None = None
        """When the next inventory for a route is taken, unless there is one before."""
        self._daemon_due = 0.0
        """The same for the routes of a routing daemon."""
        self._reason = ""
        self._digest: int | None = None
        """Of the latest inventory that was passed on."""
        self._passed_on = 0.0
        """When that was."""
        self.complete = False
        """The first inventory has been taken, or has failed."""

    def listen(self, now: float) -> None:
        """Open the event sockets."""
        self._events = Events()
        for descriptor in self._events.sockets:
            self._poll.register(descriptor, select.POLLIN)
        for source, error in self._events.missing.items():
            self._send_trouble(f"no events from {source}: {error.strerror or error}")
        self._signals = NetworkManagerSignals(bus_address())
        self._connect(self._signals, now)

    def request(
        self, reason: str, now: float, *, at_once: bool = False, forced: bool = False
    ) -> None:
        """Request an inventory, see `Debouncer.request`."""
        self._debouncer.request(reason, now, immediate=at_once, forced=forced)

    def set_recheck(self, wanted: bool, now: float) -> None:
        """Take an inventory every few seconds from now on, or stop doing so. Unchanged ones are not
        passed on."""
        if wanted and not self._rechecking:
            self._rescan_by(now + RECHECK_SECONDS)
        self._rechecking = wanted

    def set_events_at_once(self, wanted: bool) -> None:
        """Report an event that is not read yet at once from now on, or after some time again."""
        self._event_delay = 0.0 if wanted else OUTDATED_AFTER_SECONDS

    def _rescan_by(self, deadline: float) -> None:
        """Take the next inventory without event at `deadline` at the latest."""
        rescan = self._debouncer.rescan
        self._debouncer.rescan = deadline if rescan is None else min(rescan, deadline)

    def read(self, descriptor: int) -> None:
        """Read one of the registered descriptors."""
        if descriptor == self._child.descriptor:
            ended = self._child.read()
            self._pass_on_parts()
            if ended:
                self._finish()
        elif self._signals is not None and descriptor == self._signals.descriptor:
            self._read_signals(self._signals)
        elif self._events is not None and descriptor in self._events.sockets:
            self._read_events(self._events, descriptor)

    def _pass_on_parts(self) -> None:
        """The first part after an event has nothing that the counters need."""
        while self._has_parts:
            line = self._child.take_part()
            if line is None:
                return
            if self._reason == "event":
                self._write(line)
            else:
                self._handle_inventory(self._child.targets, line, None)

    @property
    def _has_parts(self) -> bool:
        """Of the running inventory. After an event only where it takes long."""
        if self._reason != "event":
            return self._parts
        return self._passes_on_devices and self._last_seconds >= SLOW_INVENTORY_SECONDS

    def advance(self, now: float) -> None:
        """Do everything that is due, except starting an inventory."""
        self._child.reap()
        if self._must_import():
            self._modules.import_next()
        if self._child.kill_if_overdue(now):
            self._finish()
        if now >= self._next_poll:
            self._poll_changes(now)
        if self._route_due is not None and now >= self._route_due:
            self._route_due = None
            self._routes.take(now)
            self._debouncer.request("event", now)
        self._report_unread_events(now, self._event_delay)
        if (
            self._signals is not None
            and self._signals.retry_at is not None
            and now >= self._signals.retry_at
        ):
            self._connect(self._signals, now)

    def next_time(self, *, may_start: bool) -> float | None:
        """Time of the next call of `advance` or, with `may_start`, of `start`; None: no time is
        set."""
        if self._must_import():
            return 0.0
        times = []
        if self._unread.first_untold is not None:
            times.append(self._unread.first_untold + self._event_delay)
        if self._signals is not None and self._signals.retry_at is not None:
            times.append(self._signals.retry_at)
        if self._route_due is not None:
            times.append(self._route_due)
        if self._rechecking:
            times.append(self._next_poll)
        if self._child.descriptor >= 0:
            times.append(self._child.deadline())
        elif may_start and not self._child.running:
            due = self._debouncer.due()
            if due is not None:
                times.append(due)
        return min(times, default=None)

    def _must_import(self) -> bool:
        return bool(self._modules.remaining) and not self._child.running

    def start(self, now: float) -> None:
        """Start an inventory if one is due and none is running."""
        due = self._debouncer.due()
        if self._child.running or due is None or now < due:
            return
        self._debouncer.rescan = now + rescan_interval(
            self._events.missing if self._events is not None else ()
        )
        reason = self._reason = self._debouncer.started()
        self._route_due = None
        self._unread.begin_reading()
        self._files.begin()
        if reason != "start":
            self._prepare()
        try:
            self._child.start(reason, now, parts=self._has_parts)
        except OSError as error:
            self._debouncer.finished(now, 1.0, 1.0)
            self._unread.end_reading(failed=True)
            self._send_trouble(f"no inventory: {error.strerror}", "inventory")
            self._debouncer.request(reason, now)
            return
        self._poll.register(self._child.descriptor, select.POLLIN)

    def kill(self) -> None:
        """Kill the child, if one is running."""
        self._child.kill()

    def _finish(self) -> None:
        self._poll.unregister(self._child.descriptor)
        line, problem = self._child.collect()
        self._parts = self._parts and bool(problem)
        now = time.monotonic()
        duration = now - self._child.started
        cpu_seconds = self._child.cpu_seconds
        self._debouncer.finished(now, duration, cpu_seconds)
        self._unread.end_reading(failed=bool(problem))
        self._is_begun_again = False
        is_told = self._unread.waiting is not None and self._unread.waiting.is_told
        if duration >= SLOW_INVENTORY_SECONDS or is_told:
            self._report_unread_events(now, 0.0)
        if problem:
            self._send_trouble(problem, "inventory")
            self._debouncer.rescan = now + FAILURE_RETRY_SECONDS
        else:
            self._last_seconds = duration
            targets = self._pass_on(line, now)
            if targets is not None and self._is_worth_keeping(duration):
                self._modules.begin(targets["modules"])
        if self._rechecking and not problem:
            pause = max(RECHECK_SECONDS, duration, RECHECK_PAUSE_FACTOR * cpu_seconds)
            self._rescan_by(now + pause)
        self.complete = True

    def _is_worth_keeping(self, duration: float) -> bool:
        """What the last inventory imported: others follow soon, or each takes long. A probe that
        does not listen takes one."""
        if self._events is None:
            return False
        is_repeated = self._rechecking or self._reason == "event"
        return is_repeated or duration >= SLOW_INVENTORY_SECONDS

    def _report_unread_events(self, now: float, delay: float) -> None:
        times = (self._unread.reading, self._child.started), (self._unread.waiting, self._due())
        for event, due in times:
            if event is not None and event.is_to_be_told(now, delay, due):
                told: dict[str, object] = {"time": event.time, "source": event.source, "due": due}
                self._send("outdated", told)

    def _due(self) -> float | None:
        """When the next inventory begins; None: not before the end of the running one, which is not
        known."""
        if self._child.running:
            return None
        times = [time for time in (self._debouncer.due(), self._route_due) if time is not None]
        return min(times, default=None)

    def _pass_on(self, line: bytes | bytearray, now: float) -> Targets | None:
        """Pass a new inventory on, unless it is a re-scan with the digest of the last one. What it
        has for this process; None: not understood."""
        may_skip = self._reason == "re-scan" and now < self._passed_on + RESCAN_SECONDS
        targets = self._handle_inventory(
            self._child.targets, line, self._digest if may_skip else None
        )
        if targets is None:
            self._digest = None
            return None
        if not may_skip or targets["incomplete"] or targets["digest"] != self._digest:
            self._digest, self._passed_on = targets["digest"], now
        self._files.set_files(targets["files"])
        self._gateways.set_gateways(targets["gateways"])
        if targets["incomplete"]:
            self._debouncer.rescan = now + self._repeat_after
            if self._repeat_after < MAX_REPEAT_SECONDS:
                self._debouncer.end_pause_by(now + self._repeat_after)
            self._repeat_after = min(2 * self._repeat_after, MAX_REPEAT_SECONDS)
        else:
            self._repeat_after = FIRST_REPEAT_SECONDS
        return targets

    def _poll_changes(self, now: float) -> None:
        """Check what changes without an event: the kernel log, gateways, and, while re-checking,
        the files of the inventory."""
        self._next_poll = now + CHANGE_POLL_SECONDS
        if self._events is not None and self._events.has_known_messages():
            self._request_after_event("kernel message", now)
        if self._events is not None and self._events.daemon_routes and now >= self._daemon_due:
            self._events.daemon_routes = False
            self._daemon_due = now + DAEMON_ROUTES_SECONDS
            self._debouncer.request("event", now)
        boot_time = wall_boot_time(self._boot_time)
        if abs(boot_time - self._boot_time) >= CLOCK_STEP_SECONDS:
            # Each inventory has the time of day; nothing else in it is older for that.
            self._debouncer.request("event", now)
        self._boot_time = boot_time
        if self._child.running:
            return
        if self._gateways.have_changed():
            self._request_after_event("gateway", now)
        elif self._rechecking:
            self._request_after_file(self._files.changed(), now)

    def _request_after_file(self, source: EventSource, now: float) -> None:
        """irqbalance moves interrupts every few seconds: that makes no finding doubtful that is not
        about them, and the views of queues tell how old their affinities are."""
        if source == "interrupt affinity":
            self._debouncer.request("event", now)
        elif source:
            self._request_after_event(source, now)

    def _request_after_route(self, now: float) -> None:
        """At once, as long as there are few; what is read anyway does not count."""
        if self._debouncer.reason:
            self._request_after_event("route", now)
            return
        due = self._routes.due(now)
        if due <= now:
            self._routes.take(now)
            self._route_due = None
            self._request_after_event("route", now)
        else:
            self._unread.add(now, "route")
            self._route_due = due

    def _request_after_event(self, source: EventSource, now: float) -> None:
        if source in DEVICE_EVENTS and self._is_worth_beginning_again(now):
            self._end_unfinished(now)
        self._debouncer.request("event", now)
        self._unread.add(now, source)

    def _is_worth_beginning_again(self, now: float) -> bool:
        """The running inventory has read the device before, and takes long yet. Not twice, so that
        one becomes complete."""
        if not self.complete or self._child.descriptor < 0 or self._is_begun_again:
            return False
        passed = now - self._child.started
        is_slow = self._last_seconds >= SLOW_INVENTORY_SECONDS
        return is_slow and passed < self._last_seconds / 2

    def _end_unfinished(self, now: float) -> None:
        """End the running inventory; what it was to read is read by the next one."""
        self._poll.unregister(self._child.descriptor)
        self._child.kill()
        self._debouncer.finished(now, now - self._child.started, self._child.cpu_seconds)
        self._unread.end_reading(failed=True)
        self._is_begun_again = True
        if self._reason == "request":
            self._debouncer.request(self._reason, now, forced=True)

    def _read_events(self, events: Events, descriptor: int) -> None:
        changes, source = events.read(descriptor)
        for change in changes:
            self._send("link_change", change)
        if source == "route":
            self._request_after_route(time.monotonic())
        elif source:
            self._request_after_event(source, time.monotonic())

    def _connect(self, signals: NetworkManagerSignals, now: float) -> None:
        signals.connect(now)
        if signals.descriptor >= 0:
            self._poll.register(signals.descriptor, select.POLLIN)

    def _read_signals(self, signals: NetworkManagerSignals) -> None:
        descriptor, now = signals.descriptor, time.monotonic()
        if signals.read(now):
            self._request_after_event("NetworkManager", now)
        if signals.descriptor < 0:
            self._poll.unregister(descriptor)


def wall_boot_time(known: float = 0.0) -> float:
    """Time of day at which CLOCK_MONOTONIC was 0: another one after the time of day was set, or
    after the machine was suspended. `known`: returned where the process was held up between the two
    clocks."""
    begin, wall, end = time.monotonic(), time.time(), time.monotonic()
    return wall - begin if end - begin < CLOCK_STEP_SECONDS / 2 else known


def rescan_interval(missing: Iterable[str]) -> float:
    """Seconds to the next inventory without event or request; `missing`: event sources that are not
    available."""
    if {"rtnetlink", "uevents", OTHER_NAMESPACES}.isdisjoint(missing):
        return RESCAN_SECONDS
    return RESCAN_SECONDS_WITHOUT_EVENTS


class RouteLimit:
    """When an inventory may be taken because a route has changed: `FREE` times at once, and then
    once in `SECONDS`. Programs add and remove routes by the thousand, for as long as they run."""

    FREE = 5
    SECONDS = 10.0

    def __init__(self) -> None:
        self._paid = 0.0
        """When the time of all inventories that were taken is over."""

    def due(self, now: float) -> float:
        return max(now, self._paid - (self.FREE - 1) * self.SECONDS)

    def take(self, now: float) -> None:
        self._paid = max(self._paid, now) + self.SECONDS


class UnreadEvent:
    """Events of one time between two inventories, as the first of them. Times are seconds on one
    clock."""

    def __init__(self, time: float, source: EventSource) -> None:
        self.time = time
        self.source = source
        """Of the first one, or of the first of those with the largest reach."""
        self.is_told = False
        """As it is."""
        self.due: float | None = None
        """When it was said to be read; None: was not known."""

    def add(self, source: EventSource) -> None:
        if reach_of(source) > reach_of(self.source):
            self.source, self.is_told = source, False

    def is_to_be_told(self, now: float, delay: float, due: float | None) -> bool:
        """Once, `delay` seconds after it, and again when it becomes known when it is `due` to be
        read."""
        if now < self.time + delay:
            return False
        if self.is_told and (due is None or self.due is not None):
            return False
        self.is_told, self.due = True, due
        return True


class UnreadEvents:
    """The events that no inventory is from after."""

    def __init__(self) -> None:
        self.waiting: UnreadEvent | None = None
        """Those since the last inventory was started."""
        self.reading: UnreadEvent | None = None
        """Those that the running inventory will have."""

    def add(self, now: float, source: EventSource) -> None:
        if self.waiting is None:
            self.waiting = UnreadEvent(now, source)
        else:
            self.waiting.add(source)

    def begin_reading(self) -> None:
        self.reading, self.waiting = self.waiting, None

    def end_reading(self, *, failed: bool) -> None:
        before, self.reading = self.reading, None
        if not failed or before is None:
            return
        if self.waiting is not None:
            before.add(self.waiting.source)
        self.waiting = before

    @property
    def first_untold(self) -> float | None:
        """Time of the first one that was not told; None: there is none."""
        known = (self.reading, self.waiting)
        untold = [event.time for event in known if event is not None and not event.is_told]
        return min(untold, default=None)


class Debouncer:
    """Computes when the next inventory is due. Times are seconds on one clock, passed in by the
    caller.

    A burst of events ends after `QUIET_SECONDS` without another event, but is not waited for longer
    than `MAX_DELAY_SECONDS` after its first one. With continuous events there is a pause after each
    inventory: `PAUSE_FACTOR` times its CPU time, so that they cost a fraction of a CPU, and at
    least as long as it took, which on a busy host is mostly waiting. `FREE_PAUSES` of them may be
    left out: a fault and its repair are two events, and on a slow host a pause is long. A forced
    request does not wait for a pause.
    """

    QUIET_SECONDS = 0.15
    MAX_DELAY_SECONDS = 1.0
    PAUSE_FACTOR = 4.0
    MIN_PAUSE_SECONDS = 0.25
    FREE_PAUSES = 2

    def __init__(self) -> None:
        self.reason = ""
        """Of the requested inventory; empty: none is requested."""
        self.rescan: float | None = None
        """When to take an inventory without a request."""
        self._first = self._last = 0.0
        """Times of the first and the last request of a burst."""
        self._pause_end = 0.0
        self._paid = 0.0
        """When the pauses of all inventories that were taken are over."""
        self._forced = False

    def request(
        self, reason: str, now: float, *, immediate: bool = False, forced: bool = False
    ) -> None:
        """Request an inventory. The first reason of a burst is kept. `immediate`: do not wait for
        the end of the burst, only for the pause; `forced`: wait for neither."""
        self._forced = self._forced or forced
        if not self.reason:
            self.reason = reason
            self._first = self._last = now
        else:
            self._last = now
        if immediate or forced:
            self._first = now - self.MAX_DELAY_SECONDS

    def due(self) -> float | None:
        """The time from which the inventory should be taken; None: none is requested."""
        times = [] if self.rescan is None else [self.rescan]
        if self.reason:
            times.append(min(self._last + self.QUIET_SECONDS, self._first + self.MAX_DELAY_SECONDS))
        if self._forced:
            return min(times)
        return max(self._pause_end, min(times)) if times else None

    def end_pause_by(self, deadline: float) -> None:
        """Do not wait longer than this for the end of the pause after the last inventory."""
        self._pause_end = min(self._pause_end, deadline)

    def started(self) -> str:
        """Record the start of an inventory; its reason. Later requests are for another one."""
        reason, self.reason = self.reason or "re-scan", ""
        self._forced = False
        return reason

    def finished(self, now: float, duration: float, cpu_seconds: float) -> None:
        """Record the end of an inventory, also of a failed one, after `duration` seconds."""
        pause = max(self.MIN_PAUSE_SECONDS, duration, self.PAUSE_FACTOR * cpu_seconds)
        free = self.FREE_PAUSES * pause
        paid = max(self._paid, now - duration) + duration + pause
        self._paid = min(paid, now + free + pause)
        self._pause_end = max(now + self.MIN_PAUSE_SECONDS, self._paid - free)
