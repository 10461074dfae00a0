"""The maximum goodput of a run: link speed, MTU, headers, MSS.

Reads nothing; takes the newest snapshots of both ends. Size of a frame on the wire: IEEE 802.3
(preamble 8 bytes, header 14, FCS 4, gap 12, VLAN tag 4, at least 64 without preamble and gap), RFC
791, RFC 8200, RFC 9293, RFC 7323. If the speed is unknown, or reported by a driver that does not
know it, there is no ceiling, but the reason.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Literal

from nictop.model.devices.emulated import is_emulated_nic
from nictop.model.devices.links import (
    ethtool_driver,
    function_of,
    functions_by_address,
    link_at,
    reported_speed,
)
from nictop.model.devices.netdevs import End
from nictop.model.devices.pairs import Pairs, paired_functions
from nictop.model.devices.subnets import KINDS_WITH_SPEED, vlan_id
from nictop.model.facts.hardware import pcie_capacity, pcie_text
from nictop.model.parts import sysctl_values
from nictop.model.snapshot import Snapshot
from nictop.model.text import units
from nictop.model.text.terminal import clean
from nictop.probe.light_dataclasses import dataclass
from nictop.probe.records import Link, PciFunction

TCP_HEADER, UDP_HEADER, TIMESTAMPS = 20, 8, 12
IP_HEADER = {4: 20, 6: 40}
FRAGMENT_HEADER = 8
"""Bytes of the extension header in every IPv6 fragment (RFC 8200, section 4.5)."""
ETHERNET_HEADER, VLAN_TAG, FCS, PREAMBLE, INTERFRAME_GAP = 14, 4, 4, 8, 12
MIN_FRAME_BYTES = 64

FALSE_SPEED_DRIVERS = ("vmxnet3",)
"""Drivers that report a speed that does not limit anything: packets between two guests of one host
are faster."""
LEGACY_ADAPTER_DRIVER = "tulip"
"""Of Hyper-V's legacy network adapter; the speed that an emulated NIC reports does not limit
anything."""

PCIE_EFFICIENCY = 0.9
"""Part of the data rate that remains after the headers of PCIe packets of 256 bytes (PCI Express
Base Specification: 20 to 28 bytes each)."""

Protocol = Literal["tcp", "udp"]


@dataclass(frozen=True)
class Framing:
    """How the payload of a run is packed into frames."""

    mtu: int
    """Bytes, the smaller one of both ends."""
    ip_version: Literal[4, 6]
    protocol: Protocol = "tcp"
    timestamps: bool = True
    """TCP timestamps: 12 bytes in every segment."""
    vlan_tags: int = 0
    """Number of tags in every frame on the wire."""
    mss: int | None = None
    """Bytes, as set by TCP_MAXSEG, including options. None: as the MTU allows."""
    length: int | None = None
    """Payload bytes of a UDP datagram. None: what fits into one packet."""


@dataclass(frozen=True)
class Shaper:
    """How a queueing discipline counts a packet: with its Ethernet header, without VLAN tag,
    preamble, FCS and gap."""

    overhead: int = 0
    """Bytes added to each packet."""
    smallest: int = 0
    """Bytes that each packet counts at least."""


@dataclass(frozen=True)
class Limit:
    """A limit of the rate."""

    bits_per_second: float
    """On the wire, with preamble and gap; for a shaper: as it counts."""
    words: str
    """``10 GbE``, ``VF limited to 1.00 Gb/s by its PF``; sanitized."""
    end: End | None = None
    shaper: Shaper | None = None


@dataclass(frozen=True)
class Ceiling:
    """The maximum goodput, or why it is not known."""

    goodput: float | None
    """Payload bits per second; None: not known."""
    packets: float | None
    """Packets per second at that goodput."""
    sentence: str
    """``9.41 Gb/s: 10 GbE, MTU 1500, IPv4, TCP timestamps``, or why there is none."""
    limit: Limit | None = None
    """The lowest limit."""


def payload_and_wire(framing: Framing, shaper: Shaper | None = None) -> tuple[int, int]:
    """Payload bytes of one message that fills a packet (UDP: one datagram), and its bytes on the
    wire, or as counted by a shaper.

    (0, wire) when the MTU or MSS leaves no room after the headers.
    """
    header = IP_HEADER[framing.ip_version]
    if framing.protocol == "udp":
        return _datagram(framing, header, shaper)
    options = TIMESTAMPS if framing.timestamps else 0
    segment = framing.mtu - header - TCP_HEADER
    if framing.mss is not None:
        segment = min(segment, framing.mss)
    payload = max(0, segment - options)
    return payload, _frame(payload + options + TCP_HEADER + header, framing.vlan_tags, shaper)


def _frame(packet: int, tags: int, shaper: Shaper | None) -> int:
    if shaper is not None:
        return max(shaper.smallest, packet + ETHERNET_HEADER + shaper.overhead)
    return (
        max(MIN_FRAME_BYTES, packet + ETHERNET_HEADER + VLAN_TAG * tags + FCS)
        + PREAMBLE
        + INTERFRAME_GAP
    )


def _datagram(framing: Framing, header: int, shaper: Shaper | None) -> tuple[int, int]:
    """A datagram that does not fit is split into fragments of a multiple of eight bytes."""
    available = framing.mtu - header
    payload = framing.length
    if payload is None:
        payload = max(0, available - UDP_HEADER)
    remaining = payload + UDP_HEADER
    if remaining <= available:
        return payload, _frame(remaining + header, framing.vlan_tags, shaper)
    if framing.ip_version == 6:
        header += FRAGMENT_HEADER
    step = (framing.mtu - header) // 8 * 8
    if step <= 0:
        return 0, _frame(framing.mtu, framing.vlan_tags, shaper)
    full, last = divmod(remaining, step)
    wire = full * _frame(step + header, framing.vlan_tags, shaper)
    if last:
        wire += _frame(last + header, framing.vlan_tags, shaper)
    return payload, wire


def goodput(bits_per_second: float, framing: Framing) -> float:
    """Payload bits per second of a wire that is fully used by such packets."""
    payload, wire = payload_and_wire(framing)
    return bits_per_second * payload / wire


def ceiling(limits: Sequence[Limit], framing: Framing, unknown: Sequence[str] = ()) -> Ceiling:
    """The ceiling by the lowest limit; `unknown`: the reasons when no limit is known."""
    payload, _ = payload_and_wire(framing)
    if not payload:
        return Ceiling(None, None, f"none: MTU {framing.mtu} is too small for payload")
    if not limits:
        reasons = "; ".join(dict.fromkeys(unknown)) or "link speed unknown"
        return Ceiling(None, None, f"none: {reasons}")

    def messages(limit: Limit) -> float:
        """Messages per second."""
        return limit.bits_per_second / 8 / payload_and_wire(framing, limit.shaper)[1]

    lowest = min(limits, key=messages)
    max_goodput = messages(lowest) * payload * 8
    parts = (lowest.words, *framing_texts(framing))
    return Ceiling(
        max_goodput,
        messages(lowest),
        f"{units.bits_per_second(max_goodput)}: {', '.join(parts)}",
        lowest,
    )


def framing_texts(framing: Framing) -> tuple[str, ...]:
    """``MTU 1500``, ``VLAN``, ``IPv4``, ``TCP timestamps``"""
    parts = [f"MTU {framing.mtu}"]
    if framing.vlan_tags == 1:
        parts.append("VLAN")
    elif framing.vlan_tags:
        parts.append(f"{framing.vlan_tags} VLAN tags")
    parts.append(f"IPv{framing.ip_version}")
    if framing.protocol == "udp":
        parts.append(_datagrams_text(framing.length))
        return tuple(parts)
    if framing.mss is not None:
        parts.append(f"MSS {framing.mss}")
    parts.append("TCP timestamps" if framing.timestamps else "no TCP timestamps")
    return tuple(parts)


def _datagrams_text(length: int | None) -> str:
    if length is None:
        return "UDP"
    return f"UDP datagrams of {length} B"


def ethernet_text(megabits: int) -> str:
    """``10 GbE``, ``2.5 GbE``, ``100 Mb/s Ethernet``"""
    if megabits < 1000:
        return f"{megabits} Mb/s Ethernet"
    return f"{megabits / 1000:g} GbE"


# ------------------------------------------------------------------------------------- the two ends


def end_limits(
    snapshot: Snapshot, ifindex: int, rates: Mapping[End, int] | None = None, *, sends: bool = True
) -> tuple[tuple[Limit, ...], str]:
    """The limits of a netdev, its queueing discipline and its PCI function, and why none is known
    ("" when some are).

    `rates`: Mb/s to which physical functions limit their VFs (see `transmit_rates`). These and
    queueing disciplines limit only an end that `sends`.
    """
    link = snapshot.links.get(ifindex)
    host = clean(snapshot.host)
    if link is None:
        return (), f"{host}: interface removed"
    device = _device(link, snapshot.links)
    end = End(snapshot.host, device.ifindex)
    limits = []
    reason = _unknown_speed_reason(snapshot, device)
    speed = reported_speed(device)
    if speed is not None and not reason:
        limits.append(Limit(speed * 1e6, ethernet_text(speed), end))
    if sends:
        limits += _vf_limits(end, rates or {})
        limits += _shapers(snapshot.host, link)
        if device is not link:
            limits += _shapers(snapshot.host, device)
    limits += _pcie(snapshot, device, end)
    if not limits:
        return (), f"{host}: {reason}"
    return tuple(limits), ""


def _vf_limits(end: End, rates: Mapping[End, int]) -> list[Limit]:
    """That of its physical function."""
    megabits = rates.get(end)
    if not megabits:
        return []
    rate = megabits * 1e6
    return [Limit(rate, f"VF limited to {units.bits_per_second(rate)} by its PF", end)]


def _shapers(host: str, link: Link) -> list[Limit]:
    """Queueing disciplines that limit everything a link sends."""
    limits = []
    for qdisc in link.traffic_control:
        limits_link = qdisc.parent is None and qdisc.limits_all and not qdisc.per_flow
        if qdisc.rate is None or not limits_link:
            continue
        rate = units.bits_per_second(qdisc.rate)
        words = f"{clean(link.name)} of {clean(host)} limited to {rate} by {clean(qdisc.kind)}"
        shaper = Shaper(qdisc.overhead, qdisc.smallest)
        limits.append(Limit(qdisc.rate, words, End(host, link.ifindex), shaper))
    return limits


def combined_framing(
    client: tuple[Snapshot, int],
    server: tuple[Snapshot, int],
    base: Framing,
    port_vlans: Mapping[End, int],
) -> Framing:
    """`base` with the MTU, tags and TCP timestamps of two ends (snapshot and ifindex): the smaller
    MTU, the larger number of tags, and timestamps unless one side has disabled them
    (net.ipv4.tcp_timestamps)."""
    mtus, tags, has_timestamps = [], [0], []
    for snapshot, ifindex in (client, server):
        link = snapshot.links.get(ifindex)
        if link is not None:
            mtus.append(link.mtu)
            device = _device(link, snapshot.links)
            is_tagged_here = vlan_id(link) is not None
            is_tagged_by_port = bool(port_vlans.get(End(snapshot.host, device.ifindex)))
            tags.append(is_tagged_here + is_tagged_by_port)
        has_timestamps.append(sysctl_values(snapshot).get("net.ipv4.tcp_timestamps", 1) != 0)
    return Framing(
        min(mtus, default=base.mtu),
        base.ip_version,
        base.protocol,
        all(has_timestamps),
        max(tags),
        base.mss,
        base.length,
    )


def transmit_rates(snapshots: Iterable[Snapshot], found: Pairs) -> dict[End, int]:
    """Netdev of a VF → Mb/s to which its physical function limits it, on the same or another
    watched host."""
    by_host = {snapshot.host: snapshot for snapshot in snapshots}
    result = {}
    for pair in found.virtual_functions:
        for function in paired_functions(pair, by_host):
            if function.max_tx_rate:
                result[pair.guest] = function.max_tx_rate
    for snapshot in by_host.values():
        result.update(_own_rates(snapshot))
    return result


def _own_rates(snapshot: Snapshot) -> dict[End, int]:
    """The limits of VFs that are used on the host of their physical function."""
    limited = _limited_functions(snapshot.links.values())
    if not limited:
        return {}
    functions = functions_by_address(snapshot.pci)
    result = {}
    for link in snapshot.links.values():
        pci = function_of(link, functions)
        if pci is None or pci.physical_function is None:
            continue
        rate = limited.get((pci.physical_function, pci.virtual_function))
        if rate:
            result[End(snapshot.host, link.ifindex)] = rate
    return result


def _limited_functions(links: Iterable[Link]) -> dict[tuple[str | None, int | None], int]:
    """(PCI address of a physical function, number of its VF) → Mb/s."""
    limited: dict[tuple[str | None, int | None], int] = {}
    for link in links:
        for function in link.virtual_functions:
            if function.max_tx_rate:
                limited[link.pci_address, function.number] = function.max_tx_rate
    return limited


def _device(link: Link, links: Mapping[int, Link]) -> Link:
    """The device below a VLAN or similar link; the link itself when there is none."""
    seen = {link.ifindex}
    while link.kind in ("vlan", "macvlan", "ipvlan") and link.lower_namespace is None:
        below = link_at(link.lower, links)
        if below is None or below.ifindex in seen:
            break
        seen.add(below.ifindex)
        link = below
    return link


def _unknown_speed_reason(snapshot: Snapshot, link: Link) -> str:
    name = clean(link.name)
    if link.bus is None and link.kind not in KINDS_WITH_SPEED:
        return f"{name} is virtual ({clean(link.kind or 'no PCI device')})"
    driver = ethtool_driver(link) or ""
    if driver in FALSE_SPEED_DRIVERS or _is_emulated(snapshot, link):
        return f"{name} reports only a nominal speed ({driver})"
    if reported_speed(link):
        return ""
    reason = f"{name} reports no speed"
    if driver:
        reason += f" ({clean(driver)})"
    return reason


def _is_guest(snapshot: Snapshot) -> bool:
    """The host is known to be a virtual machine."""
    inventory = snapshot.inventory
    return inventory is not None and inventory.platform.hypervisor is not None


def _is_emulated(snapshot: Snapshot, link: Link) -> bool:
    if not _is_guest(snapshot):
        return False
    function = function_of(link, functions_by_address(snapshot.pci))
    return ethtool_driver(link) == LEGACY_ADAPTER_DRIVER or is_emulated_nic(link, function)


def _pcie(snapshot: Snapshot, link: Link, end: End) -> list[Limit]:
    """The limit of the PCIe link of a function on a physical machine; what a guest sees of it is
    emulated."""
    if snapshot.inventory is None or _is_guest(snapshot):
        return []
    function = _physical_function(link, snapshot)
    if function is None or function.link is None:
        return []
    capacity = pcie_capacity(function.link)
    if capacity is None:
        return []
    usable = capacity * PCIE_EFFICIENCY * 1e9
    return [Limit(usable, f"PCIe {pcie_text(function.link)[0]}", end)]


def _physical_function(link: Link, snapshot: Snapshot) -> PciFunction | None:
    """PCI function of a link; of a VF, that of its physical function."""
    functions = functions_by_address(snapshot.pci)
    function = function_of(link, functions)
    if function is None or function.physical_function is None:
        return function
    return functions.get(function.physical_function)
