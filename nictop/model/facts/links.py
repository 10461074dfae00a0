"""Properties of a netdev: state, addresses, relations to other links, driver.

Reads nothing; returns sections of unsanitized text.
"""

from __future__ import annotations

from nictop.model.devices.ingress_limits import ingress_limits, limit_text
from nictop.model.devices.ipv4_conf import ipv4_conf, ipv4_conf_text
from nictop.model.devices.offered_mtu import offered_mtu
from nictop.model.devices.traffic_control import impairs, qdisc_text
from nictop.model.facts.lldp import no_neighbour_facts
from nictop.model.facts.routing import expiry_text, neighbour_facts
from nictop.model.facts.sections import Fact, Section, section
from nictop.model.snapshot import ARPHRD_ETHER, ARPHRD_VOID, Snapshot
from nictop.model.text import units
from nictop.model.text.words import (
    IFF_MULTICAST,
    IFF_NOARP,
    IFF_PROMISC,
    absence_reason,
    count_noun,
    driver_name,
    is_virtual,
    mtu_of,
    on_off,
    state_text,
)
from nictop.probe.records import Address, DefaultRoute, Link, LinkSettings, PciFunction, Tunnel

KINDS_WITHOUT_ARP = ("dummy", "vrf", "ipvlan", "ipvtap")
"""Kinds of links of type Ethernet that never use ARP."""
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
    if link.type == ARPHRD_VOID:
        text, tone = state_text(link)
        pending = Fact("Details", "inventory pending (new interface)", "dim")
        return section("Link", [Fact("State", text, tone), pending, Fact("MTU", f"{link.mtu} bytes")])
    facts = _settings(link)
    changes = []
    if link.carrier_changes is not None:
        changes.append(count_noun(link.carrier_changes, "carrier change"))
    if link.ethtool.state is not None and link.ethtool.state.down_events is not None:
        changes.append(count_noun(link.ethtool.state.down_events, "link down event"))
    facts.append(Fact("Changes", " · ".join(changes) or absence_reason(link.unreadable.get("carrier_changes"), None)))
    bounds = f" ({link.min_mtu or '?'} to {link.max_mtu})" if link.max_mtu else ""
    facts.append(Fact("MTU", f"{link.mtu} bytes{bounds}" if mtu_of(link) is not None else "unknown"))
    offered = offered_mtu(snapshot.inventory, link.ifindex)[0] if snapshot.inventory is not None else None
    if offered is not None:
        facts.append(Fact("MTU by DHCP", f"{offered} bytes", "warn" if offered < link.mtu else "normal"))
    facts += _relations(link, snapshot)
    facts += no_neighbour_facts(link, snapshot)
    length = "" if link.tx_queue_length is None else f" · txqueuelen {link.tx_queue_length}"
    qdisc = link.qdisc or _source_failure(snapshot, "qdiscs") or "none"
    facts.append(Fact("Qdisc", f"{qdisc}{length}"))
    for one in link.traffic_control[:MAX_QDISC_LINES]:
        place = f" (class {one.parent})" if one.parent is not None else ""
        is_impaired = impairs(one, None) and not is_virtual(link)
        dropped = f" · dropped {units.count(one.dropped)}" if one.dropped else ""
        facts.append(Fact("Traffic control", qdisc_text(one) + place + dropped, "warn" if is_impaired else "normal"))
    facts += _filter_facts(link)
    if link.flags & IFF_PROMISC or link.promiscuity:
        facts.append(Fact("Promiscuous", f"on (promiscuity {link.promiscuity})"))
    if link.type == ARPHRD_ETHER:
        facts += _switched_off(link)
    return section("Link", facts)


def _filter_facts(link: Link) -> list[Fact]:
    """Filters of tc, and an XDP program."""
    facts = []
    limits = ingress_limits(link)
    for limit in limits[:MAX_QDISC_LINES]:
        counted = f" · dropped {units.count(limit.action.dropped)}" if limit.action.dropped else ""
        place = f"{limit.filter.hook}: {limit_text(limit)}{counted}"
        facts.append(Fact("tc filter", place, "warn" if limit.action.dropped and not is_virtual(link) else "normal"))
    others = [one for one in link.tc_filters if all(limit.filter is not one for limit in limits)]
    names = sorted({f"{one.hook} {one.name or one.kind}" for one in others})
    if names:
        facts.append(Fact("tc filters", ", ".join(names[:MAX_QDISC_LINES])))
    if link.xdp is not None:
        program = f" · id {link.xdp_program}" if link.xdp_program is not None else ""
        facts.append(Fact("XDP program", f"{link.xdp} mode{program}"))
    return facts


def _switched_off(link: Link) -> list[Fact]:
    """ARP and multicast, if disabled; both are normally on for Ethernet, except for some kinds of virtual links."""
    off = {"ARP": bool(link.flags & IFF_NOARP), "Multicast": not link.flags & IFF_MULTICAST}
    return [Fact(name, "off", "normal" if is_virtual(link) else "warn") for name, is_off in off.items() if is_off]


def _settings(link: Link) -> list[Fact]:
    settings = link.ethtool.settings
    if settings is None:
        why = link.ethtool.unreadable.get("settings")
        if is_virtual(link) and (why is None or why.reason == "not_offered"):
            return []  # listed with the other absent parts of a virtual link
        return [Fact("Speed", absence_reason(why, driver_name(link)), "dim")]
    return [_speed(settings), Fact("Port", _port(settings))]


def _speed(settings: LinkSettings) -> Fact:
    speed = f"{settings.speed} Mb/s" if settings.speed is not None else "speed unknown"
    duplex = f"{settings.duplex} duplex" if settings.duplex else "duplex unknown"
    negotiation = (
        "autonegotiation unknown"
        if settings.autonegotiation is None
        else f"autonegotiation {on_off(settings.autonegotiation)}"
    )
    lanes = (f"{settings.lanes} lane{'' if settings.lanes == 1 else 's'}",) if settings.lanes else ()
    return Fact(
        "Speed", " · ".join((speed, duplex, negotiation, *lanes)), "warn" if settings.duplex == "half" else "normal"
    )


def _port(settings: LinkSettings) -> str:
    port = PORT_TEXTS.get(settings.port, settings.port) if settings.port else "unknown"
    return f"{port}, {settings.transceiver} transceiver" if settings.transceiver else port


def link_name(ifindex: int, snapshot: Snapshot) -> str:
    """Name of a link, or its ifindex when no such link is in this namespace."""
    other = snapshot.links.get(ifindex)
    return other.name if other is not None else f"ifindex {ifindex}"


def _relations(link: Link, snapshot: Snapshot) -> list[Fact]:
    facts = []
    if link.kind:
        has_section = link.bond is not None or link.kind == "bridge"
        shown = () if has_section else link.details.items()
        details = ", ".join(f"{name} {value}" for name, value in shown)
        facts.append(Fact("Kind", f"{link.kind} ({details})" if details else link.kind))
    if link.tunnel is not None:
        facts += tunnel_facts(link.tunnel, snapshot)
    if link.master is not None:
        master = snapshot.links.get(link.master)
        kind = f" ({master.kind})" if master is not None and master.kind else ""
        facts.append(Fact("Master", link_name(link.master, snapshot) + kind))
    ports = sorted(other.name for other in snapshot.links.values() if other.master == link.ifindex)
    if ports:
        facts.append(Fact("Ports", ", ".join(ports)))
    if link.lower is not None and link.lower != link.ifindex:
        label = "Peer" if link.kind == "veth" else "Lower device"
        if link.lower_namespace is not None:
            other = f"{link.veth_peer.name}, MTU {link.veth_peer.mtu}, " if link.veth_peer is not None else ""
            place = f"ifindex {link.lower} in another network namespace, nsid {link.lower_namespace}"
            facts.append(Fact(label, other + place))
        else:
            facts.append(Fact(label, link_name(link.lower, snapshot)))
    if link.physical_port or link.switch_id:
        switch = f", switch {link.switch_id}" if link.switch_id else ""
        facts.append(Fact("Switch port", f"{link.physical_port or 'unnamed'}{switch}"))
    return facts


def tunnel_facts(tunnel: Tunnel, snapshot: Snapshot) -> list[Fact]:
    """Where the packets of a tunnel link go."""
    if tunnel.external:
        ends = ["set for each packet by a program"]
    else:
        ends = [f"from {tunnel.local}" if tunnel.local else "", f"to {tunnel.remote}" if tunnel.remote else ""]
    ends.append(f"UDP port {tunnel.port}" if tunnel.port else "")
    ends.append(f"on {link_name(tunnel.lower, snapshot)}" if tunnel.lower is not None else "")
    shown = " · ".join(filter(None, ends))
    return [Fact("Tunnel", shown)] if shown else []


def address_section(link: Link, snapshot: Snapshot) -> tuple[Section, ...]:
    if link.type == ARPHRD_VOID:
        return ()
    assignment = f" ({ADDRESS_ASSIGNMENT_TEXTS[link.address_assignment]})" if link.address_assignment else ""
    facts = [Fact("MAC", f"{link.address}{assignment}" if link.address else "none")]
    if link.permanent_address and link.permanent_address != link.address:
        facts.append(Fact("Permanent MAC", link.permanent_address, "warn"))
    elif link.permanent_address:
        facts.append(Fact("Permanent MAC", "same"))
    elif not is_virtual(link):
        facts.append(
            Fact("Permanent MAC", absence_reason(link.unreadable.get("permanent_address"), driver_name(link)), "dim")
        )
    if link.altnames:
        facts.append(Fact("Altnames", ", ".join(link.altnames)))
    if link.alias:
        facts.append(Fact("Alias", link.alias))
    failed = _source_failure(snapshot, "addresses")
    facts += [_address(one) for one in link.addresses] or [Fact("Address", failed or "none", "dim")]
    conf = _ipv4_conf(link, snapshot)
    if conf:
        facts.append(Fact("IPv4 sysctls", conf))
    failed = _source_failure(snapshot, "routes")
    expiry = expiry_text(link, snapshot)
    facts += [_route(one, expiry) for one in link.default_routes] or [Fact("Default route", failed or "none", "dim")]
    facts += neighbour_facts(link, snapshot)
    return section("Addresses", facts)


def _ipv4_conf(link: Link, snapshot: Snapshot) -> str:
    """Settings that differ from the kernel's defaults."""
    inventory = snapshot.inventory
    return ipv4_conf_text(ipv4_conf(link, inventory.settings)) if inventory is not None else ""


def _source_failure(snapshot: Snapshot, source: str) -> str:
    """Why the inventory has nothing from a source; "" when the source was read."""
    why = snapshot.inventory.unreadable.get(source) if snapshot.inventory is not None else None
    return absence_reason(why, None) if why is not None else ""


def _address(address: Address) -> Fact:
    notable = [flag for flag in address.flags if flag != "permanent"]
    text = f"{address.address}/{address.prefix_length} {address.scope}" + "".join(f", {flag}" for flag in notable)
    bad = "dadfailed" in notable
    return Fact(
        address.family.replace("ip", "IP"), text, "bad" if bad else "warn" if "tentative" in notable else "normal"
    )


def _route(route: DefaultRoute, expiry: str) -> Fact:
    gateway = f"via {route.gateway}" if route.gateway else "on-link"
    table = "" if route.table == 254 else f", table {route.table}"
    end = f", {expiry}" if expiry and route.family == "ipv6" else ""
    return Fact("Default route", f"{route.family.replace('ip', 'IP')} {gateway}, metric {route.metric}{table}{end}")


def driver_section(link: Link, pci: PciFunction | None) -> tuple[Section, ...]:
    if link.type == ARPHRD_VOID or (is_virtual(link) and link.ethtool.driver is None):
        return ()
    info = link.ethtool.driver
    if info is None:
        why = absence_reason(link.ethtool.unreadable.get("driver"), driver_name(link, pci))
        known = driver_name(link, pci)
        facts = [Fact("Driver", f"{known} (version {why})" if known else why)]
    else:
        facts = [
            Fact("Driver", f"{info.driver or 'unknown'} {info.version}".rstrip()),
            Fact("Firmware", info.firmware or "not reported by driver", "normal" if info.firmware else "dim"),
            Fact("Bus info", info.bus_info or "none", "normal" if info.bus_info else "dim"),
        ]
    if link.bus:
        facts.append(Fact("Device", f"{link.device or 'unnamed'} on {link.bus}"))
    return section("Driver", facts)
