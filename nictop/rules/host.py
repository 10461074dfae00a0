"""Facts about one watched host for the rules: its newest snapshot, the rates of the last minute,
and what both imply.

Reads nothing. What several rules need (queue maps, CPU counts, mean rates) is derived once per
diagnosis.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import _lru_cache_wrapper, cached_property, lru_cache, wraps
from typing import Any, TypeVar

from nictop.model.devices.driver_losses import Meaning, loss_positions
from nictop.model.devices.link_history import LinkHistory, history_key
from nictop.model.devices.virtual_functions import virtual_functions_in_use
from nictop.model.managers.configuration import LinkConfiguration
from nictop.model.managers.link_managers import is_only_described
from nictop.model.managers.profile_match import ProfileMatches, profile_matches
from nictop.model.queues.cpu_lists import parse_cpu_list
from nictop.model.queues.map import QueueMap, queue_map
from nictop.model.rates.cpus import CpuShares
from nictop.model.rates.links import LinkRates, Rates
from nictop.model.snapshot import Snapshot, is_unread_link
from nictop.probe.light_dataclasses import dataclass
from nictop.probe.records import (
    Interrupt,
    Inventory,
    Link,
    PciFunction,
    Profile,
    Unreadable,
    VirtualFunction,
)

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
    """Per second over the window; None: this link's driver counters are not watched, or were
    reset."""


@dataclass(frozen=True, eq=False)
class HostFacts:
    """A host under diagnosis. `snapshot.inventory` is not None: hosts without one are not
    diagnosed."""

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
        return _as_tuples(found)

    @cached_property
    def links_by_kind(self) -> dict[str | None, tuple[Link, ...]]:
        """Kind → its links, by ifindex; None: hardware."""
        found: dict[str | None, list[Link]] = {}
        for link in self.links:
            found.setdefault(link.kind, []).append(link)
        return _as_tuples(found)

    @cached_property
    def unreadable_of_devices(self) -> dict[str, tuple[tuple[Link, Unreadable], ...]]:
        """Field, or ``ethtool.FIELD`` → links with a device for which it could not be read, by
        ifindex. Without links that are not read yet: no rule has a finding about one, and what it
        says of the others does not rest on it."""
        found: dict[str, list[tuple[Link, Unreadable]]] = {}
        for link in self.links:
            if link.kind is None and not is_unread_link(link):
                for field, why in link.unreadable.items():
                    found.setdefault(field, []).append((link, why))
                for field, why in link.ethtool.unreadable.items():
                    found.setdefault(f"ethtool.{field}", []).append((link, why))
        return _as_tuples(found)

    @cached_property
    def unreadable_of_functions(self) -> dict[str, tuple[tuple[PciFunction, Unreadable], ...]]:
        """Field → PCI functions for which it could not be read."""
        found: dict[str, list[tuple[PciFunction, Unreadable]]] = {}
        for function in self.snapshot.pci:
            for field, why in function.unreadable.items():
                found.setdefault(field, []).append((function, why))
        return _as_tuples(found)

    @cached_property
    def functions(self) -> dict[str, PciFunction]:
        """By PCI address."""
        return {function.address: function for function in self.snapshot.pci}

    @cached_property
    def links_of_function(self) -> dict[str, tuple[Link, ...]]:
        """PCI address → netdevs that it carries."""
        found: dict[str, list[Link]] = {}
        for link in self.links:
            if link.pci_address is not None:
                found.setdefault(link.pci_address, []).append(link)
        return _as_tuples(found)

    @cached_property
    def ports(self) -> dict[int, tuple[Link, ...]]:
        """ifindex of a bridge, bond or other master → its ports."""
        found: dict[int, list[Link]] = {}
        for link in self.links:
            if link.master is not None:
                found.setdefault(link.master, []).append(link)
        return _as_tuples(found)

    def ports_of(self, link: Link) -> tuple[Link, ...]:
        """Ports of a bridge, bond or other master."""
        return self.ports.get(link.ifindex, ())

    def history_of(self, link: Link) -> LinkHistory | None:
        """What happened to it while the host was watched; None: it is new."""
        return self.snapshot.histories.get(history_key(link))

    def link_at(self, ifindex: int | None) -> Link | None:
        """The link with this index; None: no index is given, or it is not one of a link here."""
        if ifindex is None:
            return None
        return self.snapshot.links.get(ifindex)

    def master_of(self, link: Link) -> Link | None:
        """The bridge, bond or other master that the link is a port of."""
        return self.link_at(link.master)

    def lower_link(self, link: Link) -> Link | None:
        """The link of this host that it is stacked on, as a VLAN link is on a NIC."""
        if link.lower_namespace is not None:
            return None
        return self.link_at(link.lower)

    def function_of(self, link: Link) -> PciFunction | None:
        """The PCI function that carries the link."""
        if link.pci_address is None:
            return None
        return self.functions.get(link.pci_address)

    def newest_totals(self, link: Link) -> tuple[int, ...] | None:
        """Counters of the link in the order of `LINK_COUNTERS`, as they were read last; None: no
        counters were read yet, or not of this link."""
        counters = self.snapshot.counters
        if counters is None:
            return None
        return counters.links.get(link.ifindex)

    def totals(self, link: Link) -> tuple[int, ...] | None:
        """Counters of the link as they were read last; before counters are read, those of the
        inventory."""
        if self.snapshot.counters is None:
            return link.counters
        return self.newest_totals(link)

    @cached_property
    def used_virtual_functions(self) -> tuple[tuple[Link, VirtualFunction], ...]:
        """(netdev of the physical function, what it enforces) of each virtual function in use."""
        return virtual_functions_in_use(self.links, self.functions, self.links_of_function)

    @cached_property
    def cpu_numbers(self) -> tuple[int, ...]:
        """The online CPUs, in ascending order; (): not known."""
        return parse_cpu_list(self.inventory.platform.online_cpus) or ()

    @cached_property
    def online_cpus(self) -> int:
        """Number of online CPUs; 0: not known."""
        return len(self.cpu_numbers)

    @cached_property
    def kernel_parameters(self) -> tuple[str, ...]:
        """Words of the kernel's command line; (): not known."""
        return tuple((self.inventory.settings.command_line or "").split())

    @cached_property
    def distribution_family(self) -> frozenset[str]:
        """The distribution, and those that it is made from (os-release(5): ID and ID_LIKE)."""
        platform = self.inventory.platform
        bases = (platform.distribution_like or "").split()
        return frozenset((platform.distribution_id or "", *bases))

    @cached_property
    def is_guest(self) -> bool:
        return self.inventory.platform.hypervisor is not None

    @property
    def is_container(self) -> bool:
        """The rules about the kernel's devices are for the host of the container."""
        return "container" in self.inventory.platform.roles

    @cached_property
    def profiles(self) -> ProfileMatches:
        """NetworkManager's profiles, by the links that they fit."""
        return profile_matches(self.snapshot)

    def own_profile(self, link: Link) -> Profile | None:
        """The active NetworkManager profile that configures the link; None: there is none, or it
        only describes what was configured otherwise."""
        device, profile = self.profiles.device(link), self.profiles.active(link)
        if device is None or profile is None or profile.external:
            return None
        return None if is_only_described(device, profile) else profile

    @cached_property
    def configuration(self) -> LinkConfiguration:
        """Stanzas of configuration files, by the links that they apply to."""
        return LinkConfiguration(self.inventory)

    @cached_property
    def newest_rates(self) -> dict[int, LinkRates]:
        """Newest rates of the links, by ifindex; {}: not known, or fewer than `MIN_SAMPLES`
        samples."""
        rates = self.snapshot.rates
        if rates is None or not self.last_samples:
            return {}
        return rates.links

    @cached_property
    def elapsed(self) -> float:
        """Seconds that the window spans."""
        return sum(rates.elapsed for rates in self.window)

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

    @property
    def last_samples(self) -> tuple[Rates, ...]:
        """The newest `MIN_SAMPLES` rates, oldest first; (): there are fewer."""
        recent = self.window[-MIN_SAMPLES:]
        return recent if len(recent) == MIN_SAMPLES else ()

    def mean(self, value: Callable[[Rates], float | None]) -> float | None:
        """Mean of a rate over the window, weighted by time; None when no part of it has one."""
        total = seconds = 0.0
        for rates in self.window:
            rate = value(rates)
            if rate is not None:
                total += rate * rates.elapsed
                seconds += rates.elapsed
        return total / seconds if seconds > 0 else None

    def link_rate(self, link: Link, value: Callable[[LinkRates], float | None]) -> float | None:
        """Mean per second of one number of a link over the window."""

        def of_link(rates: Rates) -> float | None:
            found = rates.links.get(link.ifindex)
            return value(found) if found is not None else None

        return self.mean(of_link)

    def known_link_rate(self, link: Link, value: Callable[[LinkRates], float | None]) -> float:
        """As `link_rate`; 0 if it is not known."""
        return self.link_rate(link, value) or 0.0

    @cached_property
    def saturated_cpus(self) -> dict[int, float]:
        """CPU → share of its time in interrupts and softirqs, where that was nearly all in each of
        the last samples."""
        found = {}
        for cpu, shares in self.lasting_cpu_shares(_interrupt_share).items():
            if min(shares) >= SATURATED_CPU_SHARE:
                found[cpu] = sum(shares) / MIN_SAMPLES
        return found

    def lasting_cpu_shares(self, value: Callable[[CpuShares], float]) -> dict[int, list[float]]:
        """CPU → a share of its time in each of the last samples, for the CPUs that all of them
        have; {}: there are fewer than `MIN_SAMPLES`."""
        recent = self.last_samples
        if not recent:
            return {}
        found = {}
        for cpu in recent[-1].cpus:
            shares = [value(rates.cpus[cpu]) for rates in recent if cpu in rates.cpus]
            if len(shares) == MIN_SAMPLES:
                found[cpu] = shares
        return found

    @cached_property
    def interrupts_of_function(self) -> dict[str, tuple[Interrupt, ...]]:
        """PCI address → its interrupts, by number."""
        found: dict[str, list[Interrupt]] = {}
        for interrupt in self.inventory.interrupts:
            if interrupt.pci_address is not None:
                found.setdefault(interrupt.pci_address, []).append(interrupt)
        return _as_tuples(found)

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

    def interrupts_of(self, link: Link) -> tuple[Interrupt, ...]:
        """Those of its PCI function, by number."""
        if link.pci_address is None:
            return ()
        return self.interrupts_of_function.get(link.pci_address, ())

    def interrupt_rates(self, link: Link) -> dict[int, float]:
        """CPU → interrupts per second of the link, mean of the last samples."""
        return self.interrupts_by_cpu(interrupt.number for interrupt in self.interrupts_of(link))

    def driver_sum(self, link: Link, names: Iterable[str]) -> DriverCounter | None:
        """All driver counters of these names together, of every queue; blanks around a name do not
        count. None: the driver has none of them."""
        wanted = frozenset(names)
        known = driver_counter_names(link)
        return self._sum_of(
            link, [position for position, name in enumerate(known) if name.strip() in wanted]
        )

    def driver_losses(self, link: Link, meaning: Meaning) -> DriverCounter | None:
        """All driver counters with this meaning together (`nictop.model.devices.driver_losses`);
        `name`: the one that rises fastest, or is largest. None: the driver has none of them."""
        names = driver_counter_names(link)
        if not names:
            return None
        return self._sum_of(link, loss_positions(link_driver(link), meaning, names))

    def _sum_of(self, link: Link, positions: Sequence[int]) -> DriverCounter | None:
        if not positions:
            return None
        totals, is_watched = self._driver_totals(link)
        if not totals:
            return None
        known = driver_counter_names(link)
        if not any(totals[position] for position in positions):
            # Nothing has been counted: no rate to compute, for most links of most hosts.
            rate = 0.0 if is_watched and self.window else None
            return DriverCounter(known[positions[0]].strip(), 0, rate)
        rates = self._driver_rates(link, positions) if is_watched else {}
        # the one that rises fastest, else the largest, of equal ones the first
        most = max(
            positions, key=lambda position: (rates.get(position, 0.0), totals[position], -position)
        )
        total = sum(totals[position] for position in positions)
        return DriverCounter(known[most].strip(), total, sum(rates.values()) if rates else None)

    def _driver_rates(self, link: Link, positions: Sequence[int]) -> dict[int, float]:
        found = {}
        for position in positions:
            rate = self._driver_rate(link, position)
            if rate is not None:
                found[position] = rate
        return found

    def driver_counters(self, link: Link) -> dict[str, DriverCounter]:
        """Driver counters by name (the first of equal names); {}: the driver has none, or they were
        not readable."""
        names = driver_counter_names(link)
        totals, is_watched = self._driver_totals(link)
        found: dict[str, DriverCounter] = {}
        for position, (name, total) in enumerate(zip(names, totals, strict=False)):
            if name not in found:
                rate = self._driver_rate(link, position) if is_watched else None
                found[name] = DriverCounter(name, total, rate)
        return found

    def _driver_totals(self, link: Link) -> tuple[Sequence[int], bool]:
        """(Values of the driver's counters in the order of their names, True: of the newest
        reading, False: of the inventory); the values are empty if neither has one for each name."""
        number_of_names = len(driver_counter_names(link))
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
        found: list[Link] = []
        for driver in frozenset(drivers):
            found += self.links_by_driver.get(driver, ())
        return tuple(sorted(found, key=lambda link: link.ifindex))


Key = TypeVar("Key")
T = TypeVar("T")


def _as_tuples(groups: dict[Key, list[T]]) -> dict[Key, tuple[T, ...]]:
    return {key: tuple(members) for key, members in groups.items()}


def once_per_host(function: Callable[[HostFacts], T]) -> Callable[[HostFacts], T]:
    """Decorator for what several rules derive from a host: computed once per diagnosis."""

    @wraps(function)
    def derived(host: HostFacts) -> T:
        known = host.derived
        if function not in known:
            known[function] = function(host)
        found: T = known[function]
        return found

    return derived


_indexes: list[_lru_cache_wrapper[Any]] = []


def once_per_diagnosis(
    function: Callable[[tuple[HostFacts, ...]], T],
) -> Callable[[tuple[HostFacts, ...]], T]:
    """A function of all hosts, compared by identity, that several rules call: computed once, and
    forgotten at the end of the diagnosis (`forget_indexes`) together with its hosts. Up to three
    times, if rules that need readings or rates call it, too (`rules.without_readings`)."""
    index = lru_cache(maxsize=3)(function)
    _indexes.append(index)
    return index


def forget_indexes() -> None:
    """They would keep inventories of large hosts in memory that have a newer one."""
    for index in _indexes:
        index.cache_clear()


def link_driver(link: Link) -> str | None:
    """Name of the driver of a netdev, None when it has none that is known."""
    driver = link.ethtool.driver
    return driver.driver if driver is not None else None


def driver_counter_names(link: Link) -> tuple[str, ...]:
    """Of the driver's own counters, in its order; (): it has none, or they could not be read."""
    return link.ethtool.driver_counter_names or ()


def lasting_address(link: Link) -> str | None:
    """The MAC address that the NIC has at each boot, else the present one."""
    return link.permanent_address or link.address


def _interrupt_share(shares: CpuShares) -> float:
    """Of the time of a CPU, in interrupts and softirqs."""
    return shares.softirq + shares.irq
