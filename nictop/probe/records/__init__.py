"""The vocabulary of the whole program: what the probe says, field by field.

Every record is a plain frozen dataclass. On the wire it is one JSON line, ``{"counters": {...}}``: the one key of the
object names the record (see `Line`). Values are what the kernel said; rates, topology and findings are derived by the
reader of the line, so that a recording can be read again with better eyes.

Under each field: its unit and its source in the kernel. ``None`` means "there is none"; what exists but could not be
read is named in the `unreadable` mapping of the same record, field name to reason.

Python 3.9: annotations are never evaluated here; no ``slots``, so that ``json.dumps(record, default=vars)`` works.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from nictop.probe.records.changes import LONGEST_KEPT, SHORTEST_KEPT, ChangeLine, ChangeRequest, PlannedAction
from nictop.probe.records.counters import (
    CHANNEL_COUNTERS,
    CPU_TIMES,
    LINK_COUNTERS,
    QUEUE_COUNTERS,
    SOFTIRQS,
    SOFTNET_COUNTERS,
    THREAD_TIMES,
    VF_COUNTERS,
    Clock,
    Counters,
    Hello,
    LinkChange,
    MachineInterrupt,
    Pong,
    Trouble,
)
from nictop.probe.records.ethtool import (
    Channels,
    DriverInfo,
    Eee,
    Ethtool,
    Feature,
    Fec,
    LinkSettings,
    LinkState,
    Module,
    Optics,
    Pause,
    Rings,
    Rss,
)
from nictop.probe.records.firewalls import FilterChain, Firewalls
from nictop.probe.records.links import (
    Address,
    Channel,
    DefaultRoute,
    Link,
    Napi,
    Qdisc,
    Queue,
    SubnetRoute,
    VirtualFunction,
)
from nictop.probe.records.machine import (
    ForwardingEntry,
    Interrupt,
    IommuGroup,
    KernelMessage,
    Platform,
    Services,
    Settings,
    Thread,
)
from nictop.probe.records.managers import (
    ConfigurationEntry,
    IpSettings,
    ManagedDevice,
    NetworkdLink,
    NetworkManager,
    NetworkManagerConfiguration,
    Profile,
    StoppedManager,
)
from nictop.probe.records.pci import PcieLink, PciFunction, Sriov
from nictop.probe.records.traffic import (
    BusyThread,
    TrafficLine,
    TrafficPath,
    TrafficRequest,
    TrafficSocket,
    TrafficTools,
)
from nictop.probe.records.unreadable import Unreadable

__all__ = [
    "CHANNEL_COUNTERS",
    "CPU_TIMES",
    "LINK_COUNTERS",
    "LONGEST_KEPT",
    "MAX_LINE",
    "PROTOCOL",
    "QUEUE_COUNTERS",
    "SHORTEST_KEPT",
    "SOFTIRQS",
    "SOFTNET_COUNTERS",
    "THREAD_TIMES",
    "VF_COUNTERS",
    "Address",
    "BusyThread",
    "ChangeLine",
    "ChangeRequest",
    "Channel",
    "Channels",
    "Clock",
    "ConfigurationEntry",
    "Counters",
    "DefaultRoute",
    "DriverInfo",
    "Eee",
    "Ethtool",
    "Feature",
    "Fec",
    "FilterChain",
    "Firewalls",
    "ForwardingEntry",
    "Hello",
    "Interrupt",
    "Inventory",
    "IommuGroup",
    "IpSettings",
    "KernelMessage",
    "Line",
    "Link",
    "LinkChange",
    "LinkSettings",
    "LinkState",
    "MachineInterrupt",
    "ManagedDevice",
    "Module",
    "Napi",
    "NetworkManager",
    "NetworkManagerConfiguration",
    "NetworkdLink",
    "Optics",
    "Pause",
    "PciFunction",
    "PcieLink",
    "PlannedAction",
    "Platform",
    "Pong",
    "Profile",
    "Qdisc",
    "Queue",
    "Request",
    "Rings",
    "Rss",
    "Services",
    "Settings",
    "Sriov",
    "StoppedManager",
    "SubnetRoute",
    "Thread",
    "TrafficLine",
    "TrafficPath",
    "TrafficRequest",
    "TrafficSocket",
    "TrafficTools",
    "Trouble",
    "Unreadable",
    "VirtualFunction",
]

PROTOCOL = 1
"""Raised when a field changes its meaning; new fields do not raise it (readers ignore what they do not know)."""

MAX_LINE = 8 * 1024 * 1024
"""Bytes. A longer line is refused by the reader; 200 links with 64 queues each stay below 2 MiB."""


@dataclass(frozen=True)
class Inventory:
    """Everything that changes rarely, taken when an event says so."""

    time: float
    """Seconds, CLOCK_MONOTONIC at the start."""
    wall: float
    """Seconds since the epoch at the same moment."""
    took: float
    """Seconds of CPU the child used for it."""
    reason: str
    """Why it was taken: start, request, event, re-scan."""
    platform: Platform
    pci: tuple[PciFunction, ...]
    """By address."""
    links: tuple[Link, ...]
    """By ifindex."""
    interrupts: tuple[Interrupt, ...] = ()
    """Of all network devices, by number."""
    threads: tuple[Thread, ...] = ()
    """By thread id."""
    networkmanager: NetworkManager | None = None
    """None: it does not run, or `unreadable` says why it did not answer."""
    networkd: dict[int, NetworkdLink] = field(default_factory=dict)
    """By ifindex; empty: systemd-networkd does not run."""
    configuration: tuple[ConfigurationEntry, ...] = ()
    """Of files that name links, by file and line."""
    stopped_managers: tuple[StoppedManager, ...] = ()
    services: Services = field(default_factory=Services)
    settings: Settings = field(default_factory=Settings)
    iommu: tuple[IommuGroup, ...] = ()
    """Groups with a network function in them, by number."""
    forwarding: tuple[ForwardingEntry, ...] = ()
    """Unicast entries of physical functions and of ports of bridges."""
    messages: tuple[KernelMessage, ...] | None = None
    """Oldest first; None: not readable, `unreadable` says why."""
    unreadable: dict[str, Unreadable] = field(default_factory=dict)
    """Whole sources that failed: pci, links, addresses, routes, ethtool, udev, networkmanager, configuration, …"""
    pending: tuple[str, ...] = ()
    """Sources that are still being read, and are in `unreadable` so long: another inventory follows, which has them."""


@dataclass(frozen=True)
class Line:
    """One line of the probe: exactly one of these is set."""

    hello: Hello | None = None
    inventory: Inventory | None = None
    counters: Counters | None = None
    link_change: LinkChange | None = None
    trouble: Trouble | None = None
    pong: Pong | None = None
    traffic: TrafficLine | None = None
    change: ChangeLine | None = None
    clock: Clock | None = None
    """Not said by a probe: the source puts it in, and a recording keeps it."""


@dataclass(frozen=True)
class Request:
    """One line to the probe. Several fields may be set; a field that is None changes nothing."""

    interval: float | None = None
    """Seconds between two `Counters`, 0.1 to 60."""
    watch: tuple[int, ...] | None = None
    """ifindexes that also get queue and driver counters: the NIC that somebody is looking at."""
    inventory: bool | None = None
    """True: take one now."""
    machine: bool | None = None
    """True: from now on every `Counters` carries the whole of /proc/interrupts; False: no more."""
    recheck: bool | None = None
    """True: from now on look every few seconds whether anything has changed that no event tells of, as far as that is
    cheap there, because findings stand on it; False: no more."""
    ping: int | None = None
    """Answer with a `Pong` of this number. To a probe with a heartbeat every request is also a sign of life."""
    traffic: TrafficRequest | None = None
    """Check for, start or stop a generator of traffic."""
    change: ChangeRequest | None = None
    """Prepare, apply, keep or undo a change of the host. Refused by a probe without ``--allow-changes``."""
