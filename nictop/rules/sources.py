"""Sources of the facts that rules evaluate, and which of them could not be read on a host.

A source is named as in the inventory's `unreadable` (``networkmanager``), or with the field that a
rule needs of it (``ethtool.channels``, ``settings.policy_rules``, ``counters.softnet``). Without a
source its fields are unknown, too. What a driver or a kernel does not have (EOPNOTSUPP, no such
file) is known to be absent; what was refused, timed out, failed or was malformed is unknown.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from nictop.model.facts import absence_reason
from nictop.model.text.words import UNKNOWN_REASONS
from nictop.probe.light_tuples import NamedTuple
from nictop.probe.records import NOT_OFFERED_BY_ESXI, Inventory, Unreadable
from nictop.probe.records.unreadable import NOT_READ_YET, NOT_RECORDED
from nictop.rules.host import HostFacts, link_driver, once_per_host

SOURCES: dict[str, str] = {
    "links": "links (rtnetlink)",
    "addresses": "IP addresses (rtnetlink)",
    "routes": "default routes (rtnetlink)",
    "ethtool": "ethtool",
    "queues": "queues and NAPI (sysfs, netdev netlink)",
    "qdiscs": "queueing disciplines (rtnetlink)",
    "bridge_vlans": "VLANs of bridge ports (rtnetlink)",
    "switch_ports": "bridges and VLANs of Open vSwitch (its database)",
    "bonds": "LACP partners of bond ports (/proc/net/bonding)",
    "teams": "teams (netlink)",
    "pci": "PCI devices (sysfs)",
    "interrupts": "interrupts (/proc/irq)",
    "threads": "processes and threads (/proc)",
    "services": "running daemons (/proc)",
    "stopped_managers": "unit files, and profiles on disk if NetworkManager is not running",
    "platform": "platform (DMI, CPUs, NUMA)",
    "settings": "kernel settings (sysctl, cpufreq, command line, routing rules)",
    "networkmanager": "NetworkManager (D-Bus)",
    "networkd": "systemd-networkd (/run/systemd/netif)",
    "configuration": "network configuration files",
    "iommu": "IOMMU groups (sysfs)",
    "forwarding": "forwarding tables (rtnetlink)",
    "devlink": "devlink (netlink)",
    "routing": "neighbours, routing tables and rules (rtnetlink), name servers (resolv.conf)",
    "filters": "packet filters (nf_tables, iptables)",
    "lldp": "LLDP neighbours (lldpd, systemd-networkd)",
    "messages": "kernel messages (/dev/kmsg)",
    "guests": "guests (processes, network namespaces, configurations)",
    "counters": "counters",
}
"""Name → text for the user."""

PART_OF = dict.fromkeys(
    ("addresses", "routes", "ethtool", "queues", "qdiscs", "bridge_vlans", "bonds", "teams"),
    "links",
)
"""Source → the source that it is a part of: unreadable if that one is."""

SOURCES_WITHOUT_ADDRESSES = frozenset(
    (
        "links", "ethtool", "queues", "qdiscs", "pci", "interrupts", "threads", "platform", "iommu",
        "devlink", "messages", "counters",
    )
)  # fmt: skip
"""Those that have other events than addresses, routes, managers and profiles, or none at all.
Others are about these, or are set by what manages them: policy rules, sysctls, bonds, filters."""

FAMILY_DRIVERS = {"vmxnet3": ("vmxnet3",), "Hyper-V": ("hv_netvsc",), "cloud NICs": ("ena",)}
"""Family → drivers of the links that its rules check, if these are the only ones."""


Missing = tuple[tuple[str, Unreadable], ...]


def missing(source: str, host: HostFacts, family: str) -> Missing:
    """(subject, why) for each place where `source` could not be read; subject "": on the whole
    host."""
    return dict(missing_sources((source,), host, family)).get(source, ())


def missing_sources(
    sources: tuple[str, ...], host: HostFacts, family: str
) -> Sequence[tuple[str, Missing]]:
    """Those of the sources that could not be read everywhere, each with its places."""
    drivers = FAMILY_DRIVERS.get(family, ())
    by_drivers = _missing_of_host(host)
    known = by_drivers.get(drivers)
    if known is None:
        known = by_drivers[drivers] = KnownSources(set(), {})
    if not known.read.issuperset(sources):
        for source in set(sources) - known.read:
            known.read.add(source)
            places = tuple(_missing(source, host, drivers))
            if places:
                known.missing[source] = places
    if not known.missing:
        return ()
    return [(source, known.missing[source]) for source in sources if source in known.missing]


class KnownSources(NamedTuple):
    """What rules have asked for of a host: most rules use sources that others use too."""

    read: set[str]
    missing: dict[str, Missing]
    """Those of them that could not be read everywhere."""


@once_per_host
def _missing_of_host(_: HostFacts) -> dict[tuple[str, ...], KnownSources]:
    """By the drivers of `FAMILY_DRIVERS`."""
    return {}


def _missing(
    source: str, host: HostFacts, drivers: tuple[str, ...]
) -> Iterator[tuple[str, Unreadable]]:
    area, _, field = source.partition(".")
    if area != "links" and not _may_have_device_of(host, drivers):
        return
    area_value = _of_host(area, host)
    if area_value is not None:
        yield "", area_value
        return
    for subject, why in _of_records(area, field, host, drivers):
        if why.reason in UNKNOWN_REASONS:
            yield subject, why


def _may_have_device_of(host: HostFacts, drivers: tuple[str, ...]) -> bool:
    """Also of a driver that is not known; always, if there are no `drivers`."""
    if not drivers:
        return True
    return any(driver in host.links_by_driver for driver in (None, *drivers))


def reason_text(source: str, why: Unreadable) -> str:
    """``NetworkManager (D-Bus): not readable (its process 812 is stopped)``"""
    return f"{SOURCES[source.partition('.')[0]]}: {absence_reason(why, None)}"


def is_retried(inventory: Inventory, why: Unreadable) -> bool:
    """The probe takes an inventory again soon because of this source
    (`probe.counters.targets.is_incomplete`)."""
    if why.reason != "failed" or why.detail in (NOT_READ_YET, NOT_RECORDED, NOT_OFFERED_BY_ESXI):
        return False
    if why in inventory.unreadable.values():
        return True
    manager = inventory.networkmanager
    return manager is not None and why in manager.unreadable.values()


def _of_host(area: str, host: HostFacts) -> Unreadable | None:
    unreadable = host.inventory.unreadable
    if area in unreadable:
        return unreadable[area]
    above = PART_OF.get(area)
    if above in unreadable:
        return unreadable[above]
    if area == "messages" and host.inventory.messages is None:
        return Unreadable("needs_root")
    return None


def _of_records(
    area: str, field: str, host: HostFacts, drivers: tuple[str, ...]
) -> Iterator[tuple[str, Unreadable]]:
    """Of the records that make up a source, those in which the field could not be read."""
    if area == "networkmanager":
        for why in _networkmanager(host.inventory, field):
            yield "", why
    elif area in ("links", "ethtool", "queues"):
        yield from _of_links(area, field or area, host, drivers)
    elif area == "pci":
        for function, why in host.unreadable_of_functions.get(field, ()):
            yield function.address, why
    elif area == "interrupts":
        for interrupt in host.inventory.interrupts:
            if field in interrupt.unreadable:
                yield f"interrupt {interrupt.number}", interrupt.unreadable[field]
    elif area != "configuration":
        unreadable = _unreadable_of(area, host)
        if field in unreadable:
            yield "", unreadable[field]


def _unreadable_of(area: str, host: HostFacts) -> Mapping[str, Unreadable]:
    """Fields of a record that could not be read; {}: it has no such fields, or there is none."""
    holder: Any = getattr(host.inventory, area, None)
    if area == "counters":
        holder = host.snapshot.counters
    found: Mapping[str, Unreadable] = getattr(holder, "unreadable", {})
    return found


def _networkmanager(inventory: Inventory, field: str) -> Iterator[Unreadable]:
    """Settings as they were applied are needed by those that ask for the field only."""
    manager = inventory.networkmanager
    if manager is None:
        return
    for name, why in manager.unreadable.items():
        if name in ("profiles", field):
            yield why
    yield from manager.configuration.unreadable.values()
    for profile in manager.profiles:
        if profile.unreadable:
            yield from profile.unreadable.values()


def _of_links(
    area: str, field: str, host: HostFacts, drivers: tuple[str, ...]
) -> Iterator[tuple[str, Unreadable]]:
    name = f"ethtool.{field}" if area == "ethtool" else field
    for link, why in host.unreadable_of_devices.get(name, ()):
        if not drivers or link_driver(link) in (None, *drivers):
            yield link.name, why
