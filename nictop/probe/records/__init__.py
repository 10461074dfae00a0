"""The records that a probe sends and receives, field by field; all parts of the program use them.

Every record is a plain frozen dataclass. A JSON line has one record, ``{"counters": {...}}``, with
its name as the only key (see `Line`). Values are those of the kernel; rates, topology and findings
are derived by the reader of the line, so that an old recording profits from later improvements.

Under each field: its unit and its source in the kernel. ``None`` means "there is none"; a value
that exists but could not be read has a reason in the mapping `unreadable` of the same record, by
field name.

Annotations are never evaluated here. Records have slots, because a large host has 50,000: an empty
`__dict__` would take as much memory as the fields. `light_dataclasses.field_mapping` has the fields
as a mapping.
"""

from __future__ import annotations

from nictop.probe.light_dataclasses import dataclass, field
from nictop.probe.records.bonds import Bond, BondPort, LacpEnd, Team, TeamPort
from nictop.probe.records.bridges import BridgePort, BridgeVlan, SwitchPort
from nictop.probe.records.changes import (
    MAX_KEEP_WITHIN,
    MIN_KEEP_WITHIN,
    ChangeLine,
    ChangeRequest,
    PlannedAction,
)
from nictop.probe.records.connections import Connection, Connections
from nictop.probe.records.counters import (
    CHANNEL_COUNTERS,
    CPU_TIMES,
    LINK_COUNTERS,
    PORT_COUNTERS,
    PORT_ERRORS,
    QUEUE_COUNTERS,
    SOFTIRQS,
    SOFTNET_COUNTERS,
    THREAD_TIMES,
    VCPU_WAITS,
    VF_COUNTERS,
    Clock,
    Counters,
    EventSource,
    Hello,
    LinkChange,
    MachineInterrupt,
    Outdated,
    Pong,
    PortCounts,
    Trouble,
)
from nictop.probe.records.devlink import (
    DevlinkDevice,
    DevlinkParameter,
    DevlinkPort,
    HealthReporter,
)
from nictop.probe.records.drops import DropFlow, DropGroup, DropReport
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
from nictop.probe.records.filters import FilterCondition, FilterRule, PacketChain, PacketFilters
from nictop.probe.records.guests import DhcpLease, GuestNic, HostedGuest
from nictop.probe.records.links import (
    Address,
    Channel,
    DefaultRoute,
    Link,
    Napi,
    Qdisc,
    Queue,
    SubnetRoute,
    TcAction,
    TcFilter,
    VirtualFunction,
)
from nictop.probe.records.lldp import LldpListening, LldpNeighbour
from nictop.probe.records.losses import LossCount
from nictop.probe.records.machine import (
    ForwardingEntry,
    Interrupt,
    IommuGroup,
    KernelMessage,
    Platform,
    Restriction,
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
from nictop.probe.records.path import (
    IcmpError,
    PathListener,
    PathReplies,
    PathSize,
    PathTest,
    ReceivedPackets,
    RefusedSender,
    TrafficPath,
)
from nictop.probe.records.pci import (
    PcieErrors,
    PcieLink,
    PciFunction,
    Sriov,
    SriovCapability,
)
from nictop.probe.records.routing import Neighbour, PolicyRule, Routing, TableRoute
from nictop.probe.records.traffic import (
    BusyThread,
    FilterChain,
    Firewalls,
    GeneratorFloor,
    LatencyCounts,
    StorageActivity,
    TrafficLine,
    TrafficRequest,
    TrafficSocket,
    TrafficTools,
    WorkloadConnection,
    WorkloadReport,
)
from nictop.probe.records.tunnels import Tunnel, VethPeer
from nictop.probe.records.unreadable import NOT_OFFERED_BY_ESXI, NOT_READ_YET, Unreadable

__all__ = [
    "CHANNEL_COUNTERS",
    "CPU_TIMES",
    "LINK_COUNTERS",
    "MAX_KEEP_WITHIN",
    "MAX_LINE_BYTES",
    "MIN_KEEP_WITHIN",
    "NOT_OFFERED_BY_ESXI",
    "NOT_READ_YET",
    "PORT_COUNTERS",
    "PORT_ERRORS",
    "PROTOCOL",
    "QUEUE_COUNTERS",
    "SOFTIRQS",
    "SOFTNET_COUNTERS",
    "THREAD_TIMES",
    "VCPU_WAITS",
    "VF_COUNTERS",
    "Address",
    "Bond",
    "BondPort",
    "BridgePort",
    "BridgeVlan",
    "BusyThread",
    "ChangeLine",
    "ChangeRequest",
    "Channel",
    "Channels",
    "Clock",
    "ConfigurationEntry",
    "Connection",
    "Connections",
    "Counters",
    "DefaultRoute",
    "DevlinkDevice",
    "DevlinkParameter",
    "DevlinkPort",
    "DhcpLease",
    "DriverInfo",
    "DropFlow",
    "DropGroup",
    "DropReport",
    "Eee",
    "Ethtool",
    "EventSource",
    "Feature",
    "Fec",
    "FilterChain",
    "FilterCondition",
    "FilterRule",
    "Firewalls",
    "ForwardingEntry",
    "GeneratorFloor",
    "GuestNic",
    "HealthReporter",
    "Hello",
    "HostedGuest",
    "IcmpError",
    "Interrupt",
    "Inventory",
    "IommuGroup",
    "IpSettings",
    "KernelMessage",
    "LacpEnd",
    "LatencyCounts",
    "Line",
    "Link",
    "LinkChange",
    "LinkSettings",
    "LinkState",
    "LldpListening",
    "LldpNeighbour",
    "LossCount",
    "MachineInterrupt",
    "ManagedDevice",
    "Module",
    "Napi",
    "Neighbour",
    "NetworkManager",
    "NetworkManagerConfiguration",
    "NetworkdLink",
    "Optics",
    "Outdated",
    "PacketChain",
    "PacketFilters",
    "PathListener",
    "PathReplies",
    "PathSize",
    "PathTest",
    "Pause",
    "PciFunction",
    "PcieErrors",
    "PcieLink",
    "PlannedAction",
    "Platform",
    "PolicyRule",
    "Pong",
    "PortCounts",
    "Profile",
    "Qdisc",
    "Queue",
    "ReceivedPackets",
    "RefusedSender",
    "Request",
    "Restriction",
    "Rings",
    "Routing",
    "Rss",
    "Services",
    "Settings",
    "Sriov",
    "SriovCapability",
    "StoppedManager",
    "StorageActivity",
    "SubnetRoute",
    "SwitchPort",
    "TableRoute",
    "TcAction",
    "TcFilter",
    "Team",
    "TeamPort",
    "Thread",
    "TrafficLine",
    "TrafficPath",
    "TrafficRequest",
    "TrafficSocket",
    "TrafficTools",
    "Trouble",
    "Tunnel",
    "Unreadable",
    "VethPeer",
    "VirtualFunction",
    "WorkloadConnection",
    "WorkloadReport",
]

PROTOCOL = 1
"""Incremented when the meaning of a field changes, not for new fields (readers ignore unknown
ones)."""

MAX_LINE_BYTES = 8 * 1024 * 1024
"""Bytes. A longer line is rejected by the reader; 200 links with 64 queues each need less than 2
MiB."""


@dataclass(frozen=True)
class Inventory:
    """Everything that changes rarely, taken at events, on request and at intervals. Without slots,
    as it is referenced weakly."""

    time: float
    """Seconds, CLOCK_MONOTONIC at the start."""
    wall: float
    """Seconds since the epoch at the same time."""
    took: float
    """CPU time of the child in seconds."""
    reason: str
    """Reason for which it was taken: start, request, event, re-scan."""
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
    """None: it is not running, or the reason is in `unreadable`."""
    networkd: dict[int, NetworkdLink] = field(default_factory=dict)
    """By ifindex; empty: systemd-networkd does not run."""
    configuration: tuple[ConfigurationEntry, ...] = ()
    """Of configuration files that name links, by file and line."""
    stopped_managers: tuple[StoppedManager, ...] = ()
    services: Services = field(default_factory=Services)
    settings: Settings = field(default_factory=Settings)
    iommu: tuple[IommuGroup, ...] = ()
    """Groups with a network function, by number."""
    forwarding: tuple[ForwardingEntry, ...] = ()
    """Unicast entries of physical functions and of ports of bridges."""
    messages: tuple[KernelMessage, ...] | None = None
    """Oldest first; None: not readable, the reason is in `unreadable`."""
    unreadable: dict[str, Unreadable] = field(default_factory=dict)
    """Whole sources that failed: pci, links, addresses, routes, ethtool, udev, networkmanager,
    configuration, …"""
    pending: tuple[str, ...] = ()
    """Sources that have not been read yet, also in `unreadable`; another inventory with them
    follows."""
    devlink: tuple[DevlinkDevice, ...] = ()
    lldp: dict[int, tuple[LldpNeighbour, ...]] = field(default_factory=dict)
    """ifindex → neighbours that lldpd or systemd-networkd has received; those of NetworkManager are
    in its devices."""
    routing: Routing | None = None
    """None: not read, as in older recordings."""
    filters: PacketFilters = field(default_factory=PacketFilters)
    restriction: Restriction | None = None
    """None: the probe does not run as root, or in older recordings."""
    guests: tuple[HostedGuest, ...] | None = None
    """Running ones first, by name. None: not read, as in older recordings; ESXi has other
    records."""
    leases: tuple[DhcpLease, ...] = ()
    """Of DHCP servers of this host."""
    switch_ports: tuple[SwitchPort, ...] = ()
    """Of the bridges of Open vSwitch, by name."""


@dataclass(frozen=True, slots=True)
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
    """Not sent by a probe: added by the source of the lines, and stored in recordings."""
    connections: Connections | None = None
    outdated: Outdated | None = None


@dataclass(frozen=True, slots=True)
class Request:
    """One line to the probe. Several fields may be set; a field that is None changes nothing."""

    interval: float | None = None
    """Seconds between two `Counters`, 0.1 to 60."""
    watch: tuple[int, ...] | None = None
    """ifindexes whose queue and driver counters are read as well: the NICs on the screen."""
    inventory: bool | None = None
    """True: take one now."""
    machine: bool | None = None
    """True: from now on every `Counters` has the whole of /proc/interrupts; False: no longer."""
    recheck: bool | None = None
    """True: from now on check every few seconds for changes that cause no event, as far as that is
    cheap, because findings depend on them; False: no longer."""
    events: bool | None = None
    """True: from now on an event that no inventory has read is reported at once (`Outdated`), for
    an answer that is given once; False: after some seconds, as on a screen."""
    ping: int | None = None
    """Reply with a `Pong` of this number. For a probe with ``--heartbeat`` every request is a
    heartbeat."""
    traffic: TrafficRequest | None = None
    """Check, start or stop a traffic generator."""
    change: ChangeRequest | None = None
    """Prepare, apply, confirm or undo a change of the host. A probe without ``--allow-changes``
    only prepares."""
    connections: tuple[int, ...] | None = None
    """ifindexes of a NIC and of the links above it: from now on a `Connections` with the
    `Counters`, but at most once a second, and less often if that would use more than 5 % of a CPU.
    (): no longer."""
