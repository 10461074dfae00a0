"""Helpers of many rules: whether a link is in use, its rates, and how to create a finding. Reads
nothing."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from nictop.model.devices.links import global_addresses
from nictop.model.rates.links import LinkRates
from nictop.model.text.words import IFF_UP, address_text
from nictop.model.virtual_chain import is_own_veth
from nictop.probe.kernel.patterns import pattern
from nictop.probe.records import Address, Link
from nictop.rules.finding import Evidence, Finding, Fix, Severity
from nictop.rules.fixes.commands import Command, command
from nictop.rules.host import HostFacts, driver_counter_names, once_per_host

BUSY_PACKETS_PER_SECOND = 10_000.0
"""Below this rate, it does not matter which CPU processes the packets of a NIC."""
MIN_WINDOW_PACKETS = 10_000
"""Packets in the window below which shares of them are not significant."""
PARAVIRTUAL_BUSES = ("virtio", "vmbus", "xen")
"""Buses of links without a cable."""
CLOUD_DRIVERS = ("ena", "gve", "mana")
"""Drivers of devices that only clouds offer."""
LOSSES_SLOW_TCP = (
    "A sender with cubic or reno slows down when packets are lost, one with BBR not while fewer "
    "than 2 % are."
)
"""The congestion control of a connection is known of those of nictop's own tests only; as
`traffic.analysis.path_limits.BBR_LOSS_SHARE`."""
VIRTUAL_ROUTER_PREFIX = "00:00:5e:"
"""Of MAC addresses that several machines have on purpose (RFC 9568)."""
MAC_ADDRESS = pattern(r"[0-9a-f]{2}(?::[0-9a-f]{2}){5}")


def is_up(link: Link) -> bool:
    """Administratively up."""
    return bool(link.flags & IFF_UP)


def link_state_text(link: Link) -> str:
    """``administratively down``, ``up, no carrier``, ``up, carrier``"""
    if not is_up(link):
        return "administratively down"
    return "up, carrier" if link.carrier else "up, no carrier"


def is_used(link: Link) -> bool:
    """The link is up and has a device: it is not lo, veth, tap, bridge or an unused port."""
    return is_up(link) and link.bus is not None


@once_per_host
def used_links(host: HostFacts) -> tuple[Link, ...]:
    return tuple(link for link in host.links if is_used(link))


@once_per_host
def busy_links(host: HostFacts) -> tuple[Link, ...]:
    """Links in use that carry so many packets that it matters which CPU processes them."""
    found = []
    for link in used_links(host):
        if current_packet_rate(host, link) >= BUSY_PACKETS_PER_SECOND:
            found.append(link)
    return tuple(found)


@once_per_host
def links_with_driver_counters(host: HostFacts) -> tuple[Link, ...]:
    """Links in use whose driver has counters of its own that could be read."""
    return tuple(link for link in used_links(host) if driver_counter_names(link))


def own_veths(host: HostFacts) -> Iterator[Link]:
    """Veths that are NICs of this host, as in a container, and up."""
    for link in host.links_by_kind.get("veth", ()):
        if is_up(link) and is_own_veth(link, host.snapshot):
            yield link


def newest_link_rates(host: HostFacts, link: Link) -> LinkRates | None:
    """The newest rates of a link; None: unknown, or fewer than `MIN_SAMPLES` samples."""
    return host.newest_rates.get(link.ifindex)


def mac_or_placeholder(link: Link) -> str:
    """The MAC address for commands, or the placeholder ``<MAC>``."""
    if link.address is None or not MAC_ADDRESS.fullmatch(link.address):
        return "<MAC>"
    return link.address


def packet_rate(rates: LinkRates | None) -> float:
    """Packets per second, both directions."""
    if rates is None:
        return 0.0
    return (rates.rx_packets or 0.0) + (rates.tx_packets or 0.0)


def current_packet_rate(host: HostFacts, link: Link) -> float:
    """Packets per second, both directions; 0: not known."""
    return packet_rate(newest_link_rates(host, link))


def busiest_cpu(rates: Mapping[int, float]) -> int:
    """The CPU with the highest rate; of equal ones the first. `rates` is not empty."""
    return max(rates, key=lambda cpu: (rates[cpu], -cpu))


def online_cpus_evidence(host: HostFacts) -> Evidence:
    return Evidence("online CPUs", str(host.online_cpus), "/sys/devices/system/cpu/online")


def ring_with_room(link: Link, direction: str) -> tuple[int, int] | None:
    """(size, maximum) of the ring, ``rx`` or ``tx``; None: it has its maximum, or both are not
    known."""
    rings = link.ethtool.rings
    if rings is None:
        return None
    now, most = (rings.rx, rings.max_rx) if direction == "rx" else (rings.tx, rings.max_tx)
    if not now or not most or now >= most:
        return None
    return now, most


ARPING_NOTE = "It needs arping (package iputils-arping or iputils)."


ADDRESS_WORDS: dict[str, tuple[str, ...]] = {
    "deprecated": ("preferred_lft", "0"),
    "nodad": ("nodad",),
    "homeaddress": ("home",),
    "mngtmpaddr": ("mngtmpaddr",),
    "noprefixroute": ("noprefixroute",),
    "autojoin": ("autojoin",),
}
"""Flag of a permanent address → words of ``ip address add`` that set it."""
UNREAD_OF_ADDRESS = {
    "ipv4": "label, broadcast address, peer address and route metric",
    "ipv6": "peer address and route metric",
}
"""What the inventory does not have of an address."""


def set_address(link: Link, address: Address, verb: str = "add") -> Command:
    """As it is on the link, with all that is known of it. `verb`: add, or replace, which also
    accepts one that is there. All commands that set a known address are made here."""
    options = _address_options(address)
    return command("ip", "address", verb, address_text(address), "dev", link.name, *options)


def _address_options(address: Address) -> tuple[str, ...]:
    """The words of ``ip address add`` for what a permanent address has beside itself. Temporary
    addresses are made of a /64 only (inet6_rtm_newaddr, net/ipv6/addrconf.c), where the kernel also
    derives the scope; of IPv4, ip-address(8) sets "host" for loopback addresses, else "global"."""
    words: list[str] = []
    if address.family == "ipv4" and address.scope not in ("global", "host"):
        words += ["scope", address.scope]
    for flag, options in ADDRESS_WORDS.items():
        is_possible = flag != "mngtmpaddr" or address.prefix_length == 64
        if flag in address.flags and is_possible:
            words += options
    return tuple(words)


def global_address_texts(link: Link, family: str | None = None) -> list[str]:
    """``192.0.2.10/24``, without link-local addresses; of one family, or of both."""
    return [address_text(address) for address in global_addresses(link, family)]


def has_default_route(link: Link, family: str) -> bool:
    """Family: ``ipv4`` or ``ipv6``."""
    return any(route.family == family for route in link.default_routes)


def names_text(names: Sequence[str], limit: int) -> str:
    """``ens1, ens2 and 3 more``: at most `limit` names, and how many there are besides."""
    shown = ", ".join(names[:limit])
    if len(names) <= limit:
        return shown
    return f"{shown} and {len(names) - limit} more"


def link_finding(
    severity: Severity,
    host: HostFacts,
    link: Link,
    title: str,
    *,
    evidence: tuple[Evidence, ...],
    why: str,
    fixes: tuple[Fix, ...] = (),
    item: str = "",
    also: Iterable[tuple[HostFacts, Link]] = (),
) -> Finding:
    """A finding with a link as its subject. Its `rule` is filled in by the registry. The guest that
    has the link is among the evidence. `also`: other links that have no finding of their own for
    it."""
    evidence += _guest_evidence(host, link, evidence)
    about = (host.name, link.name, title, evidence, why, fixes, link.ifindex)
    others = tuple(dict.fromkeys((one.name, other.ifindex) for one, other in also))
    return Finding("", severity, *about, item, also=others)


def _guest_evidence(
    host: HostFacts, link: Link, known: tuple[Evidence, ...]
) -> tuple[Evidence, ...]:
    """Unless a value says it already."""
    owner = host.snapshot.owners.of_link(link.ifindex)
    if owner is None or owner.guest is None:
        return ()
    if any(owner.name in one.value for one in known):
        return ()
    label = "other end" if owner.kind == "namespace" else "guest"
    return (Evidence(label, owner.text, owner.guest.source),)


def host_finding(
    severity: Severity,
    host: HostFacts,
    subject: str,
    title: str,
    *,
    evidence: tuple[Evidence, ...],
    why: str,
    fixes: tuple[Fix, ...] = (),
    item: str = "",
) -> Finding:
    """A finding with another subject. Its `rule` is filled in by the registry."""
    return Finding("", severity, host.name, subject, title, evidence, why, fixes, item=item)
