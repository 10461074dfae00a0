"""Facts about one watched host for the rules: its newest snapshot, the rates of the last minute, and what both imply.

Reads nothing. What several rules need (queue maps, CPU counts, mean rates) is derived once per diagnosis.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property, wraps
from typing import Any, TypeVar

from nictop.model.devices.driver_losses import Meaning, loss_positions
from nictop.model.devices.virtual_functions import virtual_functions_in_use
from nictop.model.managers.configuration import LinkConfiguration
from nictop.model.managers.profile_match import ProfileMatches
from nictop.model.queues.cpu_lists import parse_cpu_list
from nictop.model.queues.map import QueueMap, queue_map
from nictop.model.rates.links import LinkRates, Rates
from nictop.model.snapshot import Snapshot
from nictop.probe.records import Interrupt, Inventory, Link, PciFunction, Unreadable, VirtualFunction

MIN_SAMPLES = 3
"""Consecutive samples in which a condition must hold before a rule reports it."""

SATURATED_CPU_SHARE = 0.85
"""Share of a CPU's time in interrupts and softirqs at which it is the bottleneck."""


@dataclass(frozen=True)
class DriverCounter:
    """One driver counter of a watched link."""

    name: str
    total: int
    """Since the driver was loaded."""
    rate: float | None
    """Per second over the window; None: this link's driver counters are not watched, or were reset."""


@dataclass(frozen=True, eq=False)
class HostFacts:
    """A host under diagnosis. `snapshot.inventory` is not None: hosts without one are not diagnosed."""

    snapshot: Snapshot
    window: tuple[Rates, ...] = ()
    """Oldest first, at most `RATES_WINDOW_SECONDS` seconds together, at most one part per second
    (`nictop.model.window`)."""

    @property
    def name(self) -> str:
        return self.snapshot.host

    @cached_property
    def inventory(self) -> Inventory:
        if self.snapshot.inventory is None:
            raise ValueError("a host without an inventory cannot be diagnosed")
        return self.snapshot.inventory

    @cached_property
    def links(self) -> tuple[Link, ...]:
        """By ifindex, as they are now."""
        return tuple(self.snapshot.links[ifindex] for ifindex in sorted(self.snapshot.links))

    @cached_property
    def links_by_name(self) -> dict[str, Link]:
        """By name and altname; names take precedence over altnames."""
        names = {altname: link for link in self.links for altname in link.altnames}
        names.update({link.name: link for link in self.links})
        return names

    @cached_property
    def links_by_driver(self) -> dict[str | None, tuple[Link, ...]]:
        """Driver → its links, by ifindex; None: links whose driver is not known."""
        found: dict[str | None, list[Link]] = {}
        for link in self.links:
            found.setdefault(link_driver(link), []).append(link)
        return {driver: tuple(links) for driver, links in found.items()}

    @cached_property
    def links_by_kind(self) -> dict[str | None, tuple[Link, ...]]:
        """Kind → its links, by ifindex; None: hardware."""
        found: dict[str | None, list[Link]] = {}
        for link in self.links:
            found.setdefault(link.kind, []).append(link)
        return {kind: tuple(links) for kind, links in found.items()}

    @cached_property
    def unreadable_of_devices(self) -> dict[str, tuple[tuple[Link, Unreadable], ...]]:
        """Field, or ``ethtool.FIELD`` → links with a device for which it could not be read, by ifindex."""
        found: dict[str, list[tuple[Link, Unreadable]]] = {}
        for link in self.links:
            if link.kind is None:
                for field, why in link.unreadable.items():
                    found.setdefault(field, []).append((link, why))
                for field, why in link.ethtool.unreadable.items():
                    found.setdefault(f"ethtool.{field}", []).append((link, why))
        return {field: tuple(links) for field, links in found.items()}

    @cached_property
    def functions(self) -> dict[str, PciFunction]:
        """By PCI address."""
        return {function.address: function for function in self.snapshot.pci}

    @cached_property
    def links_of_function(self) -> dict[str, tuple[Link, ...]]:
        """PCI address → netdevs that it carries."""
        found: dict[str, tuple[Link, ...]] = {}
        for link in self.links:
            if link.pci_address is not None:
                found[link.pci_address] = (*found.get(link.pci_address, ()), link)
        return found

    @cached_property
    def ports(self) -> dict[int, tuple[Link, ...]]:
        """ifindex of a bridge, bond or other master → its ports."""
        found: dict[int, list[Link]] = {}
        for link in self.links:
            if link.master is not None:
                found.setdefault(link.master, []).append(link)
        return {master: tuple(ports) for master, ports in found.items()}

    @cached_property
    def used_virtual_functions(self) -> tuple[tuple[Link, VirtualFunction], ...]:
        """(netdev of the physical function, what it enforces) of each virtual function in use."""
        return virtual_functions_in_use(self.links, self.functions, self.links_of_function)

    @cached_property
    def online_cpus(self) -> int:
        """Number of online CPUs; 0: not known."""
        return len(parse_cpu_list(self.inventory.platform.online_cpus) or ())

    @cached_property
    def is_guest(self) -> bool:
        return self.inventory.platform.hypervisor is not None

    @cached_property
    def profiles(self) -> ProfileMatches:
        """NetworkManager's profiles, by the links that they fit."""
        return ProfileMatches(self.snapshot)

    @cached_property
    def configuration(self) -> LinkConfiguration:
        """Stanzas of configuration files, by the links that they apply to."""
        return LinkConfiguration(self.inventory)

    @cached_property
    def newest_rates(self) -> dict[int, LinkRates]:
        """Newest rates of the links, by ifindex; {}: not known, or fewer than `MIN_SAMPLES` samples."""
        rates = self.snapshot.rates
        return rates.links if rates is not None and len(self.window) >= MIN_SAMPLES else {}

    @cached_property
    def elapsed(self) -> float:
        """Seconds that the window spans."""
        return sum(one.elapsed for one in self.window)

    @cached_property
    def derived(self) -> dict[Callable[[HostFacts], Any], Any]:
        """Results of `once_per_host`."""
        return {}

    @cached_property
    def _queue_maps(self) -> dict[int, QueueMap]:
        return {}

    def queue_map(self, link: Link) -> QueueMap:
        """Queue, NAPI, interrupt and CPU of a link, computed once."""
        found = self._queue_maps.get(link.ifindex)
        if found is None:
            found = self._queue_maps[link.ifindex] = queue_map(link, self.snapshot)
        return found

    def mean(self, value: Callable[[Rates], float | None]) -> float | None:
        """Mean of a rate over the window, weighted by time; None when no part of it has one."""
        total = seconds = 0.0
        for rates in self.window:
            one = value(rates)
            if one is not None:
                total += one * rates.elapsed
                seconds += rates.elapsed
        return total / seconds if seconds > 0 else None

    def link_rate(self, link: Link, value: Callable[[LinkRates], float | None]) -> float | None:
        """Mean per second of one number of a link over the window."""

        def of_link(rates: Rates) -> float | None:
            found = rates.links.get(link.ifindex)
            return value(found) if found is not None else None

        return self.mean(of_link)

    @cached_property
    def saturated_cpus(self) -> dict[int, float]:
        """CPU → share of its time in interrupts and softirqs, where that was nearly all in each of the last samples."""
        recent = self.window[-MIN_SAMPLES:]
        if len(recent) < MIN_SAMPLES:
            return {}
        found = {}
        for cpu in recent[-1].cpus:
            shares = [one.cpus[cpu].softirq + one.cpus[cpu].irq for one in recent if cpu in one.cpus]
            if len(shares) == MIN_SAMPLES and min(shares) >= SATURATED_CPU_SHARE:
                found[cpu] = sum(shares) / MIN_SAMPLES
        return found

    @cached_property
    def interrupts_of_function(self) -> dict[str, tuple[Interrupt, ...]]:
        """PCI address → its interrupts, by number."""
        found: dict[str, list[Interrupt]] = {}
        for one in self.inventory.interrupts:
            if one.pci_address is not None:
                found.setdefault(one.pci_address, []).append(one)
        return {address: tuple(interrupts) for address, interrupts in found.items()}

    def interrupts_by_cpu(self, numbers: Iterable[int]) -> dict[int, float]:
        """CPU → interrupts per second of these numbers together, mean of the last samples."""
        wanted = tuple(numbers)
        recent = self.window[-MIN_SAMPLES:]
        found: dict[int, float] = {}
        for rates in recent:
            for number in wanted:
                for cpu, rate in rates.interrupts.get(number, {}).items():
                    found[cpu] = found.get(cpu, 0.0) + rate / len(recent)
        return found

    def driver_sum(self, link: Link, names: Iterable[str]) -> DriverCounter | None:
        """All driver counters of these names together, of every queue; blanks around a name do not count. None: the
        driver has none of them."""
        wanted = frozenset(names)
        known = link.ethtool.driver_counter_names or ()
        return self._sum_of(link, [position for position, name in enumerate(known) if name.strip() in wanted])

    def driver_losses(self, link: Link, meaning: Meaning) -> DriverCounter | None:
        """All driver counters with this meaning together (`nictop.model.devices.driver_losses`); `name`: the one that
        rises fastest, or is largest. None: the driver has none of them."""
        positions = loss_positions(link_driver(link), meaning, link.ethtool.driver_counter_names or ())
        return self._sum_of(link, positions)

    def _sum_of(self, link: Link, positions: Sequence[int]) -> DriverCounter | None:
        known = link.ethtool.driver_counter_names or ()
        if not positions:
            return None
        totals, is_watched = self._driver_totals(link)
        if not totals:
            return None
        if not any(totals[position] for position in positions):
            # Nothing has been counted: no rate to compute, for most links of most hosts.
            return DriverCounter(known[positions[0]].strip(), 0, 0.0 if is_watched and self.window else None)
        rates: dict[int, float] = {}
        for position in positions if is_watched else ():
            rate = self._driver_rate(link, position)
            if rate is not None:
                rates[position] = rate
        # the one that rises fastest, else the largest, of equal ones the first
        most = max(positions, key=lambda position: (rates.get(position, 0.0), totals[position], -position))
        total = sum(totals[position] for position in positions)
        return DriverCounter(known[most].strip(), total, sum(rates.values()) if rates else None)

    def driver_counters(self, link: Link) -> dict[str, DriverCounter]:
        """Driver counters by name (the first of equal names); {}: the driver has none, or they were not readable."""
        names = link.ethtool.driver_counter_names or ()
        totals, is_watched = self._driver_totals(link)
        found: dict[str, DriverCounter] = {}
        for position, (name, total) in enumerate(zip(names, totals, strict=False)):
            if name not in found:
                rate = self._driver_rate(link, position) if is_watched else None
                found[name] = DriverCounter(name, total, rate)
        return found

    def _driver_totals(self, link: Link) -> tuple[Sequence[int], bool]:
        """(Values of the driver's counters in the order of their names, True: of the newest reading, False: of the
        inventory); the values are empty if neither has one for each name."""
        number_of_names = len(link.ethtool.driver_counter_names or ())
        counters = self.snapshot.counters
        newest = counters.driver.get(link.ifindex) if counters is not None else None
        if newest is not None and len(newest) == number_of_names:
            return newest, True
        of_inventory = link.ethtool.driver_counters
        if of_inventory is not None and len(of_inventory) == number_of_names:
            return of_inventory, False
        return (), False

    def _driver_rate(self, link: Link, position: int) -> float | None:
        def of_counter(rates: Rates) -> float | None:
            values = rates.driver.get(link.ifindex, ())
            return values[position] if position < len(values) else None

        return self.mean(of_counter)

    def links_where(self, *, drivers: Iterable[str]) -> tuple[Link, ...]:
        """Links whose driver is one of these."""
        found = [link for driver in frozenset(drivers) for link in self.links_by_driver.get(driver, ())]
        return tuple(sorted(found, key=lambda link: link.ifindex))


T = TypeVar("T")


def once_per_host(function: Callable[[HostFacts], T]) -> Callable[[HostFacts], T]:
    """Decorator for what several rules derive from a host: computed once per diagnosis."""

    @wraps(function)
    def derived(host: HostFacts) -> T:
        if function not in host.derived:
            host.derived[function] = function(host)
        found: T = host.derived[function]
        return found

    return derived


def link_driver(link: Link) -> str | None:
    """Name of the driver of a netdev, None when it has none that is known."""
    return link.ethtool.driver.driver if link.ethtool.driver is not None else None
