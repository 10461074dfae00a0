"""The rates of the last minute of one host, for rules that must not depend on a single sample.

Reads nothing. However often a host is sampled, the window has at most one part per second: ten
samples per second are combined into one, at a tenth of the memory and work.
"""

from __future__ import annotations

from collections import deque

from nictop.model.parts import boot_id
from nictop.model.rates.links import Rates, rates
from nictop.model.snapshot import Snapshot
from nictop.probe.light_dataclasses import replace
from nictop.probe.records import Counters, Inventory

RATES_WINDOW_SECONDS = 60.0
"""Seconds of rates that a front end stores for the rules."""

MAX_WINDOW_VALUES = 250_000
"""Numbers in all parts together, some 20 MiB: 256 CPUs, 64 links and 600 interrupts are 4000 per
part. The window of a larger host is shorter."""

MIN_PART_SECONDS = 0.9
"""Seconds; a probe that samples every second is sometimes a little early."""

DEFAULT_CLOCK_TICKS = 100
"""USER_HZ before the hello was received: the value of all distributions."""

Meaning = dict[tuple[str, int], object]
"""("link", ifindex) → names of its driver counters; ("interrupt", number) → its vector."""


class RatesWindow:
    """Oldest part first, at most `RATES_WINDOW_SECONDS` seconds in total. Cleared when numbers
    change their meaning: reboot, other driver counters, other vectors with the same interrupt
    numbers. `memory_share`: of `MAX_WINDOW_VALUES`."""

    def __init__(self, memory_share: float = 1.0) -> None:
        self._max_values = memory_share * MAX_WINDOW_VALUES
        self._parts: deque[tuple[Rates, int]] = deque()
        """(rates, number of values in them)."""
        self._values = 0
        self._seconds = 0.0
        self._base: Counters | None = None
        self._newest: float | None = None
        """Time of the newest counters that were added."""
        self._boot: str | None = None
        self._inventory: Inventory | None = None

    @property
    def parts(self) -> tuple[Rates, ...]:
        return tuple(part for part, _ in self._parts)

    @property
    def seconds(self) -> float:
        """Time span of all parts together."""
        return self._seconds

    def add(self, snapshot: Snapshot) -> None:
        """Add the rates of the newest counters of `snapshot`; the same counters again add
        nothing."""
        self._clear_if_meaning_changed(snapshot)
        new = snapshot.counters
        if new is None or new.time == self._newest or snapshot.rates is None:
            return
        self._newest = new.time
        base, before = self._base, snapshot.before
        if base is None or new.time <= base.time:
            base = self._base = before
        if base is None or new.time - base.time < MIN_PART_SECONDS:
            return
        part = snapshot.rates if base is before else rates(base, new, clock_ticks(snapshot))
        self._base = new
        if part is not None:
            if part is not snapshot.rates:
                part = replace(part, vfs=snapshot.rates.vfs, ports=snapshot.rates.ports)
            self._add(part)

    def clear(self) -> None:
        """Remove every part; the counters that were taken last are not taken again."""
        self._parts.clear()
        self._values, self._seconds, self._base = 0, 0.0, None

    def _add(self, part: Rates) -> None:
        values = _values(part)
        self._parts.append((part, values))
        self._seconds += part.elapsed
        self._values += values
        while len(self._parts) > 1 and self._is_too_long:
            first, values = self._parts.popleft()
            self._seconds -= first.elapsed
            self._values -= values

    @property
    def _is_too_long(self) -> bool:
        return self._seconds > RATES_WINDOW_SECONDS or self._values > self._max_values

    def _clear_if_meaning_changed(self, snapshot: Snapshot) -> None:
        boot = boot_id(snapshot)
        if boot == self._boot and snapshot.inventory is self._inventory:
            return
        if boot != self._boot or _differs(self._inventory, snapshot.inventory):
            self.clear()
        self._boot, self._inventory = boot, snapshot.inventory


def _values(part: Rates) -> int:
    """Number of values in `part`, each record of rates counted with its fields."""
    values = 8 * len(part.cpus) + 4 * (len(part.links) + len(part.ports))
    values += 4 * sum(map(len, part.vfs.values()))
    values += 2 * (
        len(part.softirqs)
        + len(part.softnet)
        + len(part.threads)
        + sum(map(len, part.queues.values()))
    )
    values += sum(map(len, part.driver.values())) + 4 * sum(map(len, part.channels.values()))
    values += len(part.interrupts) + sum(map(len, part.interrupts.values()))
    return values + 2 * len(part.machine) + sum(len(line.cpus) for line in part.machine)


def clock_ticks(snapshot: Snapshot) -> int:
    """Ticks per second of its CPU times."""
    if snapshot.hello is None:
        return DEFAULT_CLOCK_TICKS
    return snapshot.hello.clock_ticks


def _meaning(inventory: Inventory) -> Meaning:
    meaning: Meaning = {}
    for link in inventory.links:
        meaning["link", link.ifindex] = link.ethtool.driver_counter_names
    for interrupt in inventory.interrupts:
        vector = (interrupt.actions, interrupt.pci_address)
        meaning["interrupt", interrupt.number] = vector
    return meaning


def _differs(before: Inventory | None, now: Inventory | None) -> bool:
    """Some counters have another meaning. Links and interrupts that appear or disappear do not
    affect the others. Equal parts are the same objects (`snapshot.with_shared_parts`)."""
    if before is None or now is None:
        return False
    if before.links is now.links and before.interrupts is now.interrupts:
        return False
    later = _meaning(now)
    return any(later.get(key, meaning) != meaning for key, meaning in _meaning(before).items())
