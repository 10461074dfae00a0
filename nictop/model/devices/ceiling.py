"""The goodput that no run can exceed: link speed, MTU, headers, MSS.

Reads nothing; takes the newest snapshots of both ends. What a frame costs on the wire: IEEE 802.3 (preamble 8 bytes,
header 14, FCS 4, gap 12, VLAN tag 4, at least 64 without preamble and gap), RFC 791, RFC 8200, RFC 9293, RFC 7323. A
speed that nobody knows, or that a driver makes up, gives no ceiling, and the reason why.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from nictop.model.devices.netdevs import End
from nictop.model.devices.pairs import Pairs
from nictop.model.devices.subnets import REAL_SPEED, vlan_id
from nictop.model.facts.hardware import pcie_capacity, pcie_words
from nictop.model.snapshot import Snapshot
from nictop.model.text import units
from nictop.model.text.terminal import clean
from nictop.probe.records import Link

TCP_HEADER, UDP_HEADER, TIMESTAMPS = 20, 8, 12
IP_HEADER = {4: 20, 6: 40}
FRAGMENT_HEADER = 8
"""Bytes of the extension header in every IPv6 fragment (RFC 8200, section 4.5)."""
ETHERNET_HEADER, VLAN_TAG, FCS, PREAMBLE, GAP = 14, 4, 4, 8, 12
SHORTEST_FRAME = 64

MADE_UP = ("vmxnet3",)
"""Drivers that name a speed nothing keeps to: packets between two guests of one host go faster."""
EMULATED = ("e1000", "8139cp", "pcnet32", "tulip")
"""Drivers of which the same holds in a guest, where the card is a program."""

PCIE_EFFICIENCY = 0.9
"""What the headers of PCIe packets of 256 bytes leave of the data rate (PCI Express Base Specification: 20 to 28 bytes
each)."""

Protocol = Literal["tcp", "udp"]


@dataclass(frozen=True)
class Framing:
    """How the payload of a run is packed."""

    mtu: int
    """Bytes, the smaller one of both ends."""
    ip_version: Literal[4, 6]
    protocol: Protocol = "tcp"
    timestamps: bool = True
    """TCP timestamps: 12 bytes of every segment."""
    vlan_tags: int = 0
    """Tags around every frame on the wire."""
    mss: int | None = None
    """Bytes, as TCP_MAXSEG is set: options are part of it. None: what the MTU allows."""
    length: int | None = None
    """Bytes of payload in a UDP datagram. None: what fits into one packet."""


@dataclass(frozen=True)
class Shaper:
    """How a queueing discipline counts a packet: its Ethernet header, but no VLAN tag, preamble, FCS and gap."""

    overhead: int = 0
    """Bytes that it adds to each one."""
    smallest: int = 0
    """Bytes that each one counts at least."""


@dataclass(frozen=True)
class Limit:
    """Something that lets only so much through."""

    bits_per_second: float
    """On the wire, preamble and gap included; of a shaper: as it counts."""
    words: str
    """``10 GbE``, ``VF 3 is held to 1.00 Gb/s``; clean."""
    end: End | None = None
    shaper: Shaper | None = None


@dataclass(frozen=True)
class Ceiling:
    """What the wire can carry, or why that is not known."""

    goodput: float | None
    """Payload bits per second; None: not known."""
    packets: float | None
    """Packets per second at that goodput."""
    sentence: str
    """``9.41 Gb/s: 10 GbE, MTU 1500, IPv4, TCP timestamps``, or why there is none."""
    limit: Limit | None = None
    """The lowest one."""


def payload_and_wire(framing: Framing, shaper: Shaper | None = None) -> tuple[int, int]:
    """Bytes of payload in one message that fills a packet (UDP: one datagram), and bytes that it takes on the wire, or
    that a shaper counts for it.

    (0, wire) when nothing fits: an MTU or MSS that leaves no room after the headers.
    """
    header = IP_HEADER[framing.ip_version]
    if framing.protocol == "udp":
        return _datagram(framing, header, shaper)
    options = TIMESTAMPS if framing.timestamps else 0
    room = framing.mtu - header - TCP_HEADER
    segment = room if framing.mss is None else min(room, framing.mss)
    payload = max(0, segment - options)
    return payload, _frame(payload + options + TCP_HEADER + header, framing.vlan_tags, shaper)


def _frame(packet: int, tags: int, shaper: Shaper | None) -> int:
    if shaper is not None:
        return max(shaper.smallest, packet + ETHERNET_HEADER + shaper.overhead)
    return max(SHORTEST_FRAME, packet + ETHERNET_HEADER + VLAN_TAG * tags + FCS) + PREAMBLE + GAP


def _datagram(framing: Framing, header: int, shaper: Shaper | None) -> tuple[int, int]:
    """One datagram; a longer one than fits is cut into fragments of a multiple of eight bytes."""
    room = framing.mtu - header
    payload = max(0, room - UDP_HEADER) if framing.length is None else framing.length
    rest = payload + UDP_HEADER
    if rest <= room:
        return payload, _frame(rest + header, framing.vlan_tags, shaper)
    header += FRAGMENT_HEADER if framing.ip_version == 6 else 0
    step = (framing.mtu - header) // 8 * 8
    if step <= 0:
        return 0, _frame(framing.mtu, framing.vlan_tags, shaper)
    full, last = divmod(rest, step)
    wire = full * _frame(step + header, framing.vlan_tags, shaper)
    return payload, wire + (_frame(last + header, framing.vlan_tags, shaper) if last else 0)


def goodput(bits_per_second: float, framing: Framing) -> float:
    """Payload bits per second of a wire that is full of such packets."""
    payload, wire = payload_and_wire(framing)
    return bits_per_second * payload / wire


def ceiling(limits: Sequence[Limit], framing: Framing, unknown: Sequence[str] = ()) -> Ceiling:
    """The ceiling that the lowest limit makes; `unknown`: why there is none, when no limit is known."""
    payload, _ = payload_and_wire(framing)
    if not payload:
        return Ceiling(None, None, f"no ceiling: an MTU of {framing.mtu} leaves no room for payload")
    if not limits:
        reasons = "; ".join(dict.fromkeys(unknown)) or "no link speed is known"
        return Ceiling(None, None, f"no ceiling: {reasons}")

    def messages(limit: Limit) -> float:
        """Per second."""
        return limit.bits_per_second / 8 / payload_and_wire(framing, limit.shaper)[1]

    lowest = min(limits, key=messages)
    reach = messages(lowest) * payload * 8
    words = (lowest.words, *framing_words(framing))
    return Ceiling(reach, messages(lowest), f"{units.bits_per_second(reach)}: {', '.join(words)}", lowest)


def framing_words(framing: Framing) -> tuple[str, ...]:
    """``MTU 1500``, ``VLAN``, ``IPv4``, ``TCP timestamps``"""
    words = [f"MTU {framing.mtu}"]
    if framing.vlan_tags:
        words.append("VLAN" if framing.vlan_tags == 1 else f"{framing.vlan_tags} VLAN tags")
    words.append(f"IPv{framing.ip_version}")
    if framing.protocol == "udp":
        words.append("UDP" if framing.length is None else f"UDP datagrams of {framing.length} B")
        return tuple(words)
    if framing.mss is not None:
        words.append(f"MSS {framing.mss}")
    words.append("TCP timestamps" if framing.timestamps else "no TCP timestamps")
    return tuple(words)


def ethernet_words(megabits: int) -> str:
    """``10 GbE``, ``2.5 GbE``, ``100 Mb/s Ethernet``"""
    if megabits < 1000:
        return f"{megabits} Mb/s Ethernet"
    return f"{megabits / 1000:g} GbE"


# ----------------------------------------------------------------------------------------------------- the two ends


def end_limits(
    snapshot: Snapshot, ifindex: int, rates: Mapping[End, int] | None = None, *, sends: bool = True
) -> tuple[tuple[Limit, ...], str]:
    """What a netdev, its queueing discipline and the function that carries it let through, and why nothing is known (""
    when something is).

    `rates`: Mb/s that physical functions hold their VFs to (see `transmit_rates`). They and queueing disciplines hold
    only what the end `sends`.
    """
    link = snapshot.links.get(ifindex)
    host = clean(snapshot.host)
    if link is None:
        return (), f"{host} has no such link any more"
    device = _device(link, snapshot.links)
    end = End(snapshot.host, device.ifindex)
    limits = []
    why = _why_no_speed(snapshot, device)
    settings = device.ethtool.settings
    if not why and settings is not None and settings.speed is not None:
        limits.append(Limit(settings.speed * 1e6, ethernet_words(settings.speed), end))
    held = (rates or {}).get(end)
    if held and sends:
        limits.append(Limit(held * 1e6, f"VF held to {units.bits_per_second(held * 1e6)} by its host", end))
    if sends:
        limits += _shapers(snapshot.host, link)
        limits += _shapers(snapshot.host, device) if device is not link else []
    limits += _pcie(snapshot, device, end)
    return tuple(limits), "" if limits else f"{host}: {why}"


def _shapers(host: str, link: Link) -> list[Limit]:
    """Queueing disciplines that limit all that a link sends."""
    return [
        Limit(
            one.rate,
            f"{clean(link.name)} of {clean(host)} limited to {units.bits_per_second(one.rate)} by {clean(one.kind)}",
            End(host, link.ifindex),
            Shaper(one.overhead, one.smallest),
        )
        for one in link.traffic_control
        if one.rate is not None and one.parent is None and one.limits_all and not one.per_flow
    ]


def framing_of(
    client: tuple[Snapshot, int], server: tuple[Snapshot, int], base: Framing, port_vlans: Mapping[End, int]
) -> Framing:
    """`base` with the MTU, the tags and the TCP timestamps of two ends (snapshot and ifindex): the smaller MTU, the
    most tags, timestamps only when neither side has them switched off (net.ipv4.tcp_timestamps)."""
    mtus, tags, stamped = [], [0], []
    for snapshot, ifindex in (client, server):
        link = snapshot.links.get(ifindex)
        if link is not None:
            mtus.append(link.mtu)
            device = _device(link, snapshot.links)
            tags.append((vlan_id(link) is not None) + bool(port_vlans.get(End(snapshot.host, device.ifindex))))
        sysctl = snapshot.inventory.settings.sysctl if snapshot.inventory is not None else {}
        stamped.append(sysctl.get("net.ipv4.tcp_timestamps", 1) != 0)
    return Framing(
        min(mtus, default=base.mtu),
        base.ip_version,
        base.protocol,
        all(stamped),
        max(tags),
        base.mss,
        base.length,
    )


def transmit_rates(snapshots: Iterable[Snapshot], found: Pairs) -> dict[End, int]:
    """Netdev of a VF → Mb/s that its physical function holds it to, here or on another watched host."""
    known = {snapshot.host: snapshot for snapshot in snapshots}
    result = {}
    for pair in found.virtual_functions:
        port = known[pair.physical.host].links.get(pair.physical.ifindex) if pair.physical.host in known else None
        for function in port.virtual_functions if port is not None else ():
            if function.number == pair.number and function.max_tx_rate:
                result[pair.guest] = function.max_tx_rate
    for snapshot in known.values():
        result.update(_own_rates(snapshot))
    return result


def _own_rates(snapshot: Snapshot) -> dict[End, int]:
    """The same for VFs that are used where their physical function is."""
    held = {
        (link.pci_address, function.number): function.max_tx_rate
        for link in snapshot.links.values()
        for function in link.virtual_functions
        if function.max_tx_rate
    }
    if not held:
        return {}
    places = {one.address: (one.physical_function, one.virtual_function) for one in snapshot.pci}
    result = {}
    for link in snapshot.links.values():
        physical, number = places.get(link.pci_address or "", (None, None))
        rate = held.get((physical, number)) if physical is not None and number is not None else None
        if rate:
            result[End(snapshot.host, link.ifindex)] = rate
    return result


def _device(link: Link, links: Mapping[int, Link]) -> Link:
    """The device below a VLAN and the like; the link itself when there is none."""
    seen = {link.ifindex}
    while link.kind in ("vlan", "macvlan", "ipvlan") and link.lower_namespace is None and link.lower is not None:
        below = links.get(link.lower)
        if below is None or below.ifindex in seen:
            break
        seen.add(below.ifindex)
        link = below
    return link


def _why_no_speed(snapshot: Snapshot, link: Link) -> str:
    name = clean(link.name)
    driver = link.ethtool.driver.driver if link.ethtool.driver is not None else ""
    guest = snapshot.inventory is not None and snapshot.inventory.platform.hypervisor is not None
    if link.bus is None and link.kind not in REAL_SPEED:
        return f"{name} is a {clean(link.kind or 'virtual')} link, which no wire limits"
    if driver in MADE_UP or (guest and driver in EMULATED):
        return f"{name} says a speed that {driver} makes up"
    settings = link.ethtool.settings
    if settings is None or not settings.speed:
        return f"{name} does not know its speed" + (f" ({clean(driver)})" if driver else "")
    return ""


def _pcie(snapshot: Snapshot, link: Link, end: End) -> list[Limit]:
    """The slot's link, for a function of this real machine: what a guest sees of it is made up."""
    if snapshot.inventory is None or snapshot.inventory.platform.hypervisor is not None:
        return []
    functions = {function.address: function for function in snapshot.pci}
    function = functions.get(link.pci_address or "")
    if function is not None and function.physical_function is not None:
        function = functions.get(function.physical_function)
    capacity = pcie_capacity(function.link) if function is not None and function.link is not None else None
    if function is None or capacity is None:
        return []
    usable = capacity * PCIE_EFFICIENCY * 1e9
    return [Limit(usable, f"PCIe {pcie_words(function.link)[0]}", end)]
