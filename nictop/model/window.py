"""The rates of the last minute of one host: what rules look at that must not judge by a single moment.

Reads nothing. However often a host is read, the window has at most one part per second: what ten readings a second say
is said by one over the same second, at a tenth of the memory and of the work.
"""

from __future__ import annotations

from collections import deque
from dataclasses import replace

from nictop.model.rates.links import Rates, rates
from nictop.model.snapshot import Snapshot
from nictop.probe.records import Counters, Inventory

WINDOW = 60.0
"""Seconds of rates that a front end keeps for the rules."""

MOST_VALUES = 250_000
"""Numbers that all parts hold together, some 20 MiB: 256 CPUs, 64 links and 600 interrupts are 4000 a part. Of a host
with more the window is shorter."""

SHORTEST_PART = 0.9
"""Seconds; a probe that reads every second is at times a little early."""

CLOCK_TICKS = 100
"""USER_HZ of a probe that has not greeted: that of every distribution."""


class RatesWindow:
    """Oldest first, at most `WINDOW` seconds together. Empties itself when numbers change their meaning: another boot,
    other driver counters, other vectors behind the same interrupt numbers."""

    def __init__(self) -> None:
        self._parts: deque[tuple[Rates, int]] = deque()
        """With the number of values in each."""
        self._values = 0
        self._seconds = 0.0
        self._base: Counters | None = None
        self._newest: float | None = None
        """Time of the newest counters that were taken."""
        self._boot: str | None = None
        self._inventory: Inventory | None = None
        self._meaning: dict[tuple[str, int], object] = {}

    @property
    def parts(self) -> tuple[Rates, ...]:
        return tuple(part for part, _ in self._parts)

    @property
    def seconds(self) -> float:
        """That the parts span together."""
        return self._seconds

    def take(self, snapshot: Snapshot) -> None:
        """Add what the newest counters of `snapshot` say; the same counters again add nothing."""
        self._forget_what_changed(snapshot)
        new = snapshot.counters
        if new is None or new.time == self._newest or snapshot.rates is None:
            return
        self._newest = new.time
        base, before = self._base, snapshot.before
        if base is None or new.time <= base.time:
            base = self._base = before
        if base is None or new.time - base.time < SHORTEST_PART:
            return
        part = snapshot.rates if base is before else rates(base, new, _clock_ticks(snapshot))
        self._base = new
        if part is not None:
            self._add(part if part is snapshot.rates else replace(part, vfs=snapshot.rates.vfs))

    def clear(self) -> None:
        """Remove every part; the counters that were taken last are not taken again."""
        self._parts.clear()
        self._values, self._seconds, self._base = 0, 0.0, None

    def _add(self, part: Rates) -> None:
        values = _values(part)
        self._parts.append((part, values))
        self._seconds += part.elapsed
        self._values += values
        while len(self._parts) > 1 and (self._seconds > WINDOW or self._values > MOST_VALUES):
            first, values = self._parts.popleft()
            self._seconds -= first.elapsed
            self._values -= values

    def _forget_what_changed(self, snapshot: Snapshot) -> None:
        boot = snapshot.hello.boot_id if snapshot.hello is not None else None
        if boot == self._boot and snapshot.inventory is self._inventory:
            return
        meaning = _meaning(snapshot.inventory) if snapshot.inventory is not None else {}
        if boot != self._boot or any(meaning.get(key, known) != known for key, known in self._meaning.items()):
            self.clear()
        self._boot, self._inventory, self._meaning = boot, snapshot.inventory, meaning


def _values(part: Rates) -> int:
    """How many numbers it holds, each record of rates by its size."""
    values = 8 * len(part.cpus) + 4 * (len(part.links) + sum(map(len, part.vfs.values())))
    values += 2 * (len(part.softirqs) + len(part.softnet) + len(part.threads) + sum(map(len, part.queues.values())))
    values += sum(map(len, part.driver.values())) + 4 * sum(map(len, part.channels.values()))
    values += len(part.interrupts) + sum(map(len, part.interrupts.values()))
    return values + 2 * len(part.machine) + sum(len(one.cpus) for one in part.machine)


def _clock_ticks(snapshot: Snapshot) -> int:
    return snapshot.hello.clock_ticks if snapshot.hello is not None else CLOCK_TICKS


def _meaning(inventory: Inventory) -> dict[tuple[str, int], object]:
    """What the numbers of the counters stand for: names of a link's driver counters, vector of an interrupt. What comes
    or goes changes nothing for the others."""
    meaning: dict[tuple[str, int], object] = {
        ("link", link.ifindex): link.ethtool.driver_counter_names for link in inventory.links
    }
    meaning.update((("interrupt", one.number), (one.actions, one.pci_address)) for one in inventory.interrupts)
    return meaning
