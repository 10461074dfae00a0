"""When inventories are taken, and what becomes of them: events in, lines out.

Listens to the kernel (`hotplug`) and to NetworkManager (`bus_signals`), waits for quiet (`Debouncer`), has the
inventory taken by a child process (`inventory_child`), and hands its lines on. Nothing here waits.
"""

from __future__ import annotations

import select
import time

from nictop.probe.events.kernel import Debouncer, Events
from nictop.probe.events.networkmanager import BusSignals
from nictop.probe.inventory.child import InventoryChild
from nictop.probe.inventory.managers.state_files import StateFiles
from nictop.probe.kernel.dbus_wire import bus_address

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from nictop.probe.counters.targets import Targets

RESCAN = 300.0
RESCAN_WITHOUT_EVENTS = 10.0
"""Seconds between inventories that nothing asked for."""
AGAIN = 10.0
"""Seconds to the next attempt after one that has failed: nothing is shown of the host, or what is shown is old."""
SOON, LATEST = 5.0, 60.0
"""Seconds to the next one after one that lacked a source which failed: twice as long each time, up to `LATEST`."""
RECHECK = 3.0
"""Seconds between inventories while a finding may be cured without any event."""
RECHECK_REST = 25.0
"""At least so many times as long as one takes: at most four per cent of a CPU."""
LOOK = 1.0
"""Seconds between two looks at new kernel messages, and at files that change without an event."""


class InventoryScheduler:
    """Those of one probe. Registers its descriptors with `poll`; `now` is CLOCK_MONOTONIC.

    `say` takes kind and fields of a line, `trouble` a sentence, `learn` the line for the counters (`targets`), the one
    for the watching side, and the digest of the inventory that need not be said again, and returns what stood in the
    first; `ahead` is called before the child of a later inventory is made. `parts`: what is known of the first one is
    said before it is complete.
    """

    def __init__(
        self,
        poll: select.poll,
        *,
        say: Callable[[str, dict[str, object]], None],
        trouble: Callable[[str], None],
        learn: Callable[[bytes, bytes | bytearray, int | None], Targets | None],
        ahead: Callable[[], None],
        parts: bool = False,
        sys: str = "/sys",
        proc: str = "/proc",
    ) -> None:
        self._poll, self._say, self._trouble, self._learn, self._ahead = poll, say, trouble, learn, ahead
        self._child = InventoryChild(sys=sys, proc=proc)
        self._parts = parts
        self._calm = Debouncer()
        self._events: Events | None = None
        self._signals: BusSignals | None = None
        self._soon = SOON
        self._rechecking = False
        self._files = StateFiles()
        self._look_at = 0.0
        self._reason = ""
        self._digest: int | None = None
        """Of the newest inventory that was passed on."""
        self._passed_on = 0.0
        self.complete = False
        """One has been taken, or has failed."""

    def listen(self, now: float) -> None:
        """Hear events from now on."""
        self._events = Events()
        for descriptor in self._events.sockets:
            self._poll.register(descriptor, select.POLLIN)
        for source, error in self._events.missing.items():
            self._trouble(f"no events from {source}: {error.strerror or error}")
        self._signals = BusSignals(bus_address())
        self._connect(self._signals, now)

    def want(self, reason: str, now: float, *, at_once: bool = False, asked: bool = False) -> None:
        """See `events.kernel.Debouncer.want`."""
        self._calm.want(reason, now, at_once=at_once, asked=asked)

    def recheck(self, wanted: bool, now: float) -> None:
        """From now on take one every few seconds, as far as that is cheap, or no longer. Those that say the same as the
        last one are not passed on."""
        if wanted and not self._rechecking:
            self._hasten(now + RECHECK)
        self._rechecking = wanted

    def _hasten(self, moment: float) -> None:
        """The next one that nothing asks for comes at `moment` at the latest."""
        self._calm.rescan = moment if self._calm.rescan is None else min(self._calm.rescan, moment)

    def take(self, descriptor: int) -> None:
        """Something can be read from one of the descriptors."""
        if descriptor == self._child.descriptor:
            ended = self._child.read()
            while self._parts and (line := self._child.take_part()) is not None:
                self._learn(self._child.targets, line, None)
            if ended:
                self._finish()
        elif self._signals is not None and descriptor == self._signals.descriptor:
            self._take_signals(self._signals)
        elif self._events is not None and descriptor in self._events.sockets:
            self._take_events(self._events, descriptor)

    def advance(self, now: float) -> None:
        """Do what is due, but begin nothing new."""
        self._child.reap()
        if self._child.overdue(now):
            self._finish()
        if now >= self._look_at:
            self._look(now)
        if self._signals is not None and self._signals.retry_at is not None and now >= self._signals.retry_at:
            self._connect(self._signals, now)

    def next_moment(self, *, may_start: bool) -> float | None:
        """When `advance` has something to do, and, if it may, `start`."""
        moments = []
        if self._signals is not None and self._signals.retry_at is not None:
            moments.append(self._signals.retry_at)
        if self._rechecking:
            moments.append(self._look_at)
        if self._child.descriptor >= 0:
            moments.append(self._child.deadline())
        elif may_start and not self._child.running:
            due = self._calm.due()
            if due is not None:
                moments.append(due)
        return min(moments, default=None)

    def start(self, now: float) -> None:
        """Have one taken if it is time."""
        due = self._calm.due()
        if self._child.running or due is None or now < due:
            return
        self._calm.rescan = now + rescan_after(self._events.missing if self._events is not None else ())
        reason = self._reason = self._calm.started()
        self._files.begin()
        if reason != "start":
            self._ahead()
        try:
            self._child.start(reason, now, parts=self._parts)
        except OSError as error:
            self._calm.finished(now, 1.0)
            self._trouble(f"no inventory: {error.strerror}")
            self._calm.want(reason, now)
            return
        self._poll.register(self._child.descriptor, select.POLLIN)

    def kill(self) -> None:
        """End the child."""
        self._child.kill()

    def _finish(self) -> None:
        self._poll.unregister(self._child.descriptor)
        line, problem = self._child.collect()
        self._parts = self._parts and bool(problem)
        now = time.monotonic()
        self._calm.finished(now, now - self._child.started)
        if problem:
            self._trouble(problem)
            self._calm.rescan = now + AGAIN
        else:
            self._take_over(line, now)
        if self._rechecking and not problem:
            self._hasten(now + max(RECHECK, RECHECK_REST * (now - self._child.started)))
        self.complete = True

    def _take_over(self, line: bytes | bytearray, now: float) -> None:
        """One has been taken: learn from it, and pass it on, unless it is a re-scan that found nothing new."""
        quiet = self._reason == "re-scan" and now < self._passed_on + RESCAN
        found = self._learn(self._child.targets, line, self._digest if quiet else None)
        if found is None:
            self._digest = None
            return
        if not quiet or found["incomplete"] or found["digest"] != self._digest:
            self._digest, self._passed_on = found["digest"], now
        self._files.learn(found["files"])
        if found["incomplete"]:
            self._calm.rescan = now + self._soon
            self._soon = min(2 * self._soon, LATEST)
        else:
            self._soon = SOON

    def _look(self, now: float) -> None:
        """At what changes without an event: new kernel messages, and files while findings may stand on them."""
        self._look_at = now + LOOK
        if self._events is not None and self._events.kernel_complains():
            self._calm.want("event", now)
        if self._rechecking and not self._child.running and self._files.have_changed():
            self._calm.want("event", now)

    def _take_events(self, events: Events, descriptor: int) -> None:
        changes, stale = events.take(descriptor)
        for change in changes:
            self._say("link_change", change)
        if stale:
            self._calm.want("event", time.monotonic())

    def _connect(self, signals: BusSignals, now: float) -> None:
        signals.connect(now)
        if signals.descriptor >= 0:
            self._poll.register(signals.descriptor, select.POLLIN)

    def _take_signals(self, signals: BusSignals) -> None:
        descriptor, now = signals.descriptor, time.monotonic()
        if signals.take(now):
            self._calm.want("event", now)
        if signals.descriptor < 0:
            self._poll.unregister(descriptor)


def rescan_after(missing: Iterable[str]) -> float:
    """Seconds to an inventory that nothing asks for; `missing`: sources of events that are not there."""
    return RESCAN if {"rtnetlink", "uevents"}.isdisjoint(missing) else RESCAN_WITHOUT_EVENTS
