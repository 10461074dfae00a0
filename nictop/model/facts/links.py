"""Properties of a netdev: state, addresses, relations to other links, driver.

Reads nothing; returns sections of unsanitized text.
"""

from __future__ import annotations

from nictop.model.devices.ingress_limits import TcLimit, ingress_limits, limit_text
from nictop.model.devices.ipv4_conf import ipv4_conf, ipv4_conf_text
from nictop.model.devices.links import ports_of
from nictop.model.devices.offered_mtu import offered_mtu
from nictop.model.devices.traffic_control import impairs, qdisc_text
from nictop.model.facts.lldp import no_neighbour_facts
from nictop.model.facts.routing import expiry_text, neighbour_facts
from nictop.model.facts.sections import Fact, Section, section
from nictop.model.parts import unreadable_sources
from nictop.model.snapshot import ARPHRD_ETHER, Snapshot, is_unread_link
from nictop.model.text import units
from nictop.model.text.words import (
    IFF_MULTICAST,
    IFF_NOARP,
    IFF_PROMISC,
    Tone,
    absence_reason,
    address_text,
    count_noun,
    dim_if,
    driver_name,
    is_virtual,
    mtu_of,
    on_off,
    state_text,
    warn_if,
)
from nictop.probe.records import (
    Address,
    DefaultRoute,
    DriverInfo,
    Link,
    LinkSettings,
    PciFunction,
    Tunnel,
)

KINDS_WITHOUT_ARP = ("dummy", "vrf", "ipvlan", "ipvtap")
"""Kinds of links of type Ethernet that never use ARP."""
MAIN_ROUTING_TABLE = 254
MAX_QDISC_LINES = 4
"""Number of listed queueing disciplines; a link with mq has one per queue."""

ADDRESS_ASSIGNMENT_TEXTS = {
    "permanent": "permanent",
    "random": "random",
    "stolen": "copied from another interface",
    "set": "set by software",
}

PORT_TEXTS = {
    "tp": "twisted pair",
    "aui": "AUI",
    "mii": "MII",
    "fibre": "fibre",
    "bnc": "BNC",
    "da": "direct attach copper",
    "none": "none",
    "other": "other",
}


def state_section(link: Link, snapshot: Snapshot) -> tuple[Section, ...]:
    if is_unread_link(link):
        return _pending_section(link, is_new=snapshot.inventory is not None)
    facts = [*_settings(link), _changes(link), *_mtu_facts(link, snapshot)]
    facts += _relations(link, snapshot)
    facts += no_neighbour_facts(link, snapshot)
    facts += _qdisc_facts(link, snapshot)
    facts += _filter_facts(link)
    if link.flags & IFF_PROMISC or link.promiscuity:
        facts.append(Fact("Promiscuous", f"on (promiscuity {link.promiscuity})"))
    if link.type == ARPHRD_ETHER:
        facts += _switched_off(link)
    return section("Link", facts)


def _pending_section(link: Link, *, is_new: bool) -> tuple[Section, ...]:
    """Of a link that the inventory does not have, or of a host without one: an event has named the
    link first."""
    text, tone = state_text(link)
    why = "new interface" if is_new else "the interfaces are being read"
    pending = Fact("Details", f"inventory pending ({why})", "dim")
    return section("Link", [Fact("State", text, tone), pending, Fact("MTU", f"{link.mtu} bytes")])


def _changes(link: Link) -> Fact:
    """How often the link was lost, as the kernel and the driver count it."""
    counts = []
    if link.carrier_changes is not None:
        counts.append(count_noun(link.carrier_changes, "carrier change"))
    state = link.ethtool.state
    if state is not None and state.down_events is not None:
        counts.append(count_noun(state.down_events, "link down event"))
    if not counts:
        counts = [absence_reason(link.unreadable.get("carrier_changes"), None)]
    return Fact("Changes", " · ".join(counts))


def _mtu_facts(link: Link, snapshot: Snapshot) -> list[Fact]:
    """The MTU with its bounds, and the one that DHCP has offered."""
    facts = [Fact("MTU", _mtu_text(link))]
    if snapshot.inventory is None:
        return facts
    offered, *_ = offered_mtu(snapshot.inventory, link.ifindex)
    if offered is not None:
        tone = warn_if(offered < link.mtu)
        facts.append(Fact("MTU by DHCP", f"{offered} bytes", tone))
    return facts


def _mtu_text(link: Link) -> str:
    if mtu_of(link) is None:
        return "unknown"
    text = f"{link.mtu} bytes"
    if link.max_mtu:
        text += f" ({link.min_mtu or '?'} to {link.max_mtu})"
    return text


def _qdisc_facts(link: Link, snapshot: Snapshot) -> list[Fact]:
    """The queueing discipline, and what is set in the first ones of tc."""
    text = link.qdisc or _source_failure(snapshot, "qdiscs") or "none"
    if link.tx_queue_length is not None:
        text += f" · txqueuelen {link.tx_queue_length}"
    facts = [Fact("Qdisc", text)]
    for qdisc in link.traffic_control[:MAX_QDISC_LINES]:
        text = qdisc_text(qdisc)
        if qdisc.parent is not None:
            text += f" (class {qdisc.parent})"
        if qdisc.dropped:
            text += f" · dropped {units.count(qdisc.dropped)} in total"
        is_impaired = impairs(qdisc, None) and not is_virtual(link)
        facts.append(Fact("Traffic control", text, warn_if(is_impaired)))
    return facts


def _filter_facts(link: Link) -> list[Fact]:
    """Filters of tc, and an XDP program."""
    limits = ingress_limits(link)
    facts = [_limit_fact(limit, link) for limit in limits[:MAX_QDISC_LINES]]
    limiting = [id(limit.filter) for limit in limits]
    others = [tc_filter for tc_filter in link.tc_filters if id(tc_filter) not in limiting]
    names = sorted({f"{tc_filter.hook} {tc_filter.name or tc_filter.kind}" for tc_filter in others})
    if names:
        facts.append(Fact("tc filters", ", ".join(names[:MAX_QDISC_LINES])))
    if link.xdp is not None:
        text = f"{link.xdp} mode"
        if link.xdp_program is not None:
            text += f" · id {link.xdp_program}"
        facts.append(Fact("XDP program", text))
    return facts


def _limit_fact(limit: TcLimit, link: Link) -> Fact:
    text = f"{limit.filter.hook}: {limit_text(limit)}"
    dropped = limit.action.dropped
    if not dropped:
        return Fact("tc filter", text)
    is_losing = not is_virtual(link)
    text += f" · dropped {units.count(dropped)} in total"
    return Fact("tc filter", text, warn_if(is_losing))


def _switched_off(link: Link) -> list[Fact]:
    """ARP and multicast, if disabled; both are normally on for Ethernet, except for some kinds of
    virtual links."""
    tone = warn_if(not is_virtual(link))
    facts = []
    if link.flags & IFF_NOARP:
        facts.append(Fact("ARP", "off", tone))
    if not link.flags & IFF_MULTICAST:
        facts.append(Fact("Multicast", "off", tone))
    return facts


def _settings(link: Link) -> list[Fact]:
    settings = link.ethtool.settings
    if settings is None:
        why = link.ethtool.unreadable.get("settings")
        is_absent = why is None or why.reason == "not_offered"
        if is_absent and is_virtual(link):
            return []  # listed with the other absent parts of a virtual link
        return [Fact("Speed", absence_reason(why, driver_name(link)), "dim")]
    return [_speed(settings), Fact("Port", _port(settings))]


def _speed(settings: LinkSettings) -> Fact:
    speed, duplex, autonegotiation = "speed unknown", "duplex unknown", "unknown"
    if settings.speed is not None:
        speed = f"{settings.speed} Mb/s"
    if settings.duplex:
        duplex = f"{settings.duplex} duplex"
    if settings.autonegotiation is not None:
        autonegotiation = on_off(settings.autonegotiation)
    parts = [speed, duplex, f"autonegotiation {autonegotiation}"]
    if settings.lanes:
        parts.append(count_noun(settings.lanes, "lane"))
    return Fact("Speed", " · ".join(parts), warn_if(settings.duplex == "half"))


def _port(settings: LinkSettings) -> str:
    port = "unknown"
    if settings.port:
        port = PORT_TEXTS.get(settings.port, settings.port)
    if settings.transceiver:
        return f"{port}, {settings.transceiver} transceiver"
    return port


def link_name(ifindex: int, snapshot: Snapshot) -> str:
    """Name of a link, or its ifindex when no such link is in this namespace."""
    link = snapshot.links.get(ifindex)
    if link is None:
        return f"ifindex {ifindex}"
    return link.name


def _relations(link: Link, snapshot: Snapshot) -> list[Fact]:
    """What the link is made of, belongs to, and stands on."""
    facts = []
    if link.kind:
        facts.append(Fact("Kind", _kind_text(link)))
    if link.tunnel is not None:
        facts += tunnel_facts(link.tunnel, snapshot)
    if link.master is not None:
        facts.append(Fact("Master", _master_text(link.master, snapshot)))
    ports = sorted(port.name for port in ports_of(link, snapshot.links))
    if ports:
        facts.append(Fact("Ports", ", ".join(ports)))
    if link.lower is not None and link.lower != link.ifindex:
        label = "Peer" if link.kind == "veth" else "Lower device"
        facts.append(Fact(label, _lower_text(link, link.lower, snapshot)))
    if link.physical_port or link.switch_id:
        facts.append(Fact("Switch port", _switch_port_text(link)))
    return facts


def _master_text(ifindex: int, snapshot: Snapshot) -> str:
    """``br0 (bridge)``"""
    name, master = link_name(ifindex, snapshot), snapshot.links.get(ifindex)
    if master is None or not master.kind:
        return name
    return f"{name} ({master.kind})"


def _switch_port_text(link: Link) -> str:
    """Of the embedded switch of a NIC: ``pf0vf3, switch 00000000``"""
    port = link.physical_port or "unnamed"
    if link.switch_id:
        return f"{port}, switch {link.switch_id}"
    return port


def _kind_text(link: Link) -> str:
    """``vlan (id 7)``; bonds and bridges have sections of their own."""
    has_section = link.bond is not None or link.kind == "bridge"
    if has_section or not link.details:
        return f"{link.kind}"
    details = ", ".join(f"{name} {value}" for name, value in link.details.items())
    return f"{link.kind} ({details})"


def _lower_text(link: Link, lower: int, snapshot: Snapshot) -> str:
    """The device below, or at the other end of a veth, perhaps in another network namespace."""
    if link.lower_namespace is None:
        return link_name(lower, snapshot)
    place = f"ifindex {lower} in another network namespace, nsid {link.lower_namespace}"
    peer = link.veth_peer
    if peer is None:
        return place
    return f"{peer.name}, MTU {peer.mtu}, {place}"


def tunnel_facts(tunnel: Tunnel, snapshot: Snapshot) -> list[Fact]:
    """Where the packets of a tunnel link go."""
    parts = []
    if tunnel.external:
        parts.append("set for each packet by a program")
    if tunnel.local and not tunnel.external:
        parts.append(f"from {tunnel.local}")
    if tunnel.remote and not tunnel.external:
        parts.append(f"to {tunnel.remote}")
    if tunnel.port:
        parts.append(f"UDP port {tunnel.port}")
    if tunnel.lower is not None:
        parts.append(f"on {link_name(tunnel.lower, snapshot)}")
    if not parts:
        return []
    return [Fact("Tunnel", " · ".join(parts))]


def address_section(link: Link, snapshot: Snapshot) -> tuple[Section, ...]:
    if is_unread_link(link):
        return ()
    facts = _mac_facts(link)
    named = " · ".join(filter(None, (link.name_property, link.link_file)))
    if named:
        facts.append(Fact("Name by udev", named))
    if link.altnames:
        facts.append(Fact("Altnames", ", ".join(link.altnames)))
    if link.alias:
        facts.append(Fact("Alias", link.alias))
    facts += [_address(address) for address in link.addresses]
    if not link.addresses:
        facts.append(Fact("Address", _source_failure(snapshot, "addresses") or "none", "dim"))
    conf = _ipv4_conf(link, snapshot)
    if conf:
        facts.append(Fact("IPv4 sysctls", conf))
    expiry = expiry_text(link, snapshot)
    facts += [_route(route, expiry) for route in link.default_routes]
    if not link.default_routes:
        facts.append(Fact("Default route", _source_failure(snapshot, "routes") or "none", "dim"))
    facts += neighbour_facts(link, snapshot)
    return section("Addresses", facts)


def _mac_facts(link: Link) -> list[Fact]:
    """The address in use, and that of the hardware."""
    facts = [Fact("MAC", _mac_text(link))]
    permanent = link.permanent_address
    if permanent and permanent != link.address:
        facts.append(Fact("Permanent MAC", permanent, "warn"))
    elif permanent:
        facts.append(Fact("Permanent MAC", "same"))
    elif not is_virtual(link):
        why = absence_reason(link.unreadable.get("permanent_address"), driver_name(link))
        facts.append(Fact("Permanent MAC", why, "dim"))
    return facts


def _mac_text(link: Link) -> str:
    if not link.address:
        return "none"
    if not link.address_assignment:
        return link.address
    return f"{link.address} ({ADDRESS_ASSIGNMENT_TEXTS[link.address_assignment]})"


def _ipv4_conf(link: Link, snapshot: Snapshot) -> str:
    """Settings that differ from the kernel's defaults."""
    if snapshot.inventory is None:
        return ""
    return ipv4_conf_text(ipv4_conf(link, snapshot.inventory.settings))


def _source_failure(snapshot: Snapshot, source: str) -> str:
    """Why the inventory has nothing from a source; "" when the source was read."""
    why = unreadable_sources(snapshot).get(source)
    if why is None:
        return ""
    return absence_reason(why, None)


def _address(address: Address) -> Fact:
    notable = [flag for flag in address.flags if flag != "permanent"]
    parts = [f"{address_text(address)} {address.scope}", *notable]
    tone: Tone = "normal"
    if "dadfailed" in notable:
        tone = "bad"
    elif "tentative" in notable:
        tone = "warn"
    return Fact(address.family.replace("ip", "IP"), ", ".join(parts), tone)


def _route(route: DefaultRoute, expiry: str) -> Fact:
    family = route.family.replace("ip", "IP")
    gateway = f"via {route.gateway}" if route.gateway else "on-link"
    parts = [f"{family} {gateway}", f"metric {route.metric}"]
    if route.table != MAIN_ROUTING_TABLE:
        parts.append(f"table {route.table}")
    if expiry and route.family == "ipv6":
        parts.append(expiry)
    return Fact("Default route", ", ".join(parts))


def driver_section(link: Link, pci: PciFunction | None) -> tuple[Section, ...]:
    info = link.ethtool.driver
    if is_unread_link(link):
        return ()
    if info is None and is_virtual(link):
        return ()
    if info is None:
        facts = [_unread_driver(link, pci)]
    else:
        facts = _driver_facts(info)
    if link.bus:
        facts.append(Fact("Device", f"{link.device or 'unnamed'} on {link.bus}"))
    return section("Driver", facts)


def _unread_driver(link: Link, pci: PciFunction | None) -> Fact:
    """Its name is known from elsewhere; the version is not."""
    known = driver_name(link, pci)
    why = absence_reason(link.ethtool.unreadable.get("driver"), known)
    if known:
        return Fact("Driver", f"{known} (version {why})")
    return Fact("Driver", why)


def _driver_facts(info: DriverInfo) -> list[Fact]:
    firmware, bus = info.firmware, info.bus_info
    return [
        Fact("Driver", f"{info.driver or 'unknown'} {info.version}".rstrip()),
        Fact("Firmware", firmware or "not reported by driver", dim_if(not firmware)),
        Fact("Bus info", bus or "none", dim_if(not bus)),
    ]
