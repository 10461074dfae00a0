"""NICs on which rp_filter drops received packets, because the route back uses another NIC.

Reads nothing; rules about `Link.subnet_routes`, the sysctl value rp_filter, and packets that it has dropped.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from nictop.model.devices.ipv4_conf import LOOSE, RP_FILTER_TEXTS, STRICT, ipv4_conf
from nictop.model.kernel_log import Logged
from nictop.model.text import units
from nictop.model.text.words import IFF_UP
from nictop.probe.records import Link, SubnetRoute
from nictop.rules.finding import Evidence, Finding, Fix, Severity
from nictop.rules.fixes.commands import command, joined
from nictop.rules.fixes.persistence import sysctl_fixes
from nictop.rules.fixes.profiles import global_addresses, has_address
from nictop.rules.fixes.source_routing import source_routing_fixes
from nictop.rules.host import MIN_SAMPLES, HostFacts
from nictop.rules.kernel_messages import link_messages
from nictop.rules.profiles.nics import is_nic, nics
from nictop.rules.profiles.outward import is_outward
from nictop.rules.registry import Family, Outcomes, host_rule
from nictop.rules.subjects import host_finding, link_finding

FAMILY: Family = "profiles and names"
MIN_DROPS_PER_SECOND = 0.5
"""A ping once a second is found, single packets are not."""
LOGGED_SECONDS = 60.0
"""Older messages may be about drops that have ended. The kernel logs at most ten in five seconds."""
MAX_SHOWN_LINKS = 4
ASYMMETRIC_REASON = (
    "The sender gets no answer, not even an ICMP error, although packets arrive and addresses and routes are right."
)
WHOLE_SUBNET_REASON = (
    "No host in the subnet can reach this host through this NIC, not even with ARP. Nothing is logged."
)
PARTIAL_REASON = "These hosts cannot reach this host through this NIC, not even with ARP. Nothing is logged."
DROP_COUNTER = "/proc/net/netstat IPReversePathFilter"


@host_rule(
    FAMILY,
    "critical",
    yields_to=("address_on_a_lower_link", "watched_host_is_routed_by_another_nic"),
    needs=("settings.sysctl",),
    uses=("addresses", "links.subnet_routes"),
)
def rp_filter_drops_its_subnet(host: HostFacts) -> Outcomes:
    """A NIC drops IPv4 packets from its own subnet: rp_filter is strict, and the route back uses another NIC.

    rp_filter 1 (strict) requires that the route to the sender uses the link on which the packet was received; 2 (loose)
    accepts any route. The kernel does not answer ARP requests of such senders either. The larger value of
    net.ipv4.conf.all and of the link applies.

    nictop reads the kernel's route from each address to a peer in the subnet, where two links share one, and to the
    destination of a narrower route through another NIC. Critical: the whole subnet is dropped. Part of the subnet:
    warning if the kernel has counted such drops since boot, else info. Not reported: NICs without a carrier, ports of a
    bond, bridge or VRF, links whose policy rules route the answers through the right NIC, and parts of a subnet that
    are routed through a bridge, a VPN or a container's link.

    Sources: kernel Documentation/networking/ip-sysctl.rst rp_filter; RFC 3704; net/ipv4/fib_frontend.c
    fib_validate_source.
    """
    for link in nics(host):
        if not link.subnet_routes:
            continue
        rp_filter = ipv4_conf(link, host.inventory.settings).rp_filter
        dropped = _dropped_routes(host, link, rp_filter)
        if dropped and rp_filter is not None:
            yield _dropping(host, link, rp_filter, dropped)


def _dropped_routes(host: HostFacts, link: Link, rp_filter: int | None) -> list[SubnetRoute]:
    """Routes to its whole subnet by which rp_filter drops; without any, those to parts of it."""
    if link.carrier is not True or rp_filter not in (STRICT, LOOSE):
        return []
    dropped = [one for one in link.subnet_routes if ":" not in one.peer and _is_dropped(link, one, rp_filter)]
    whole = [one for one in dropped if not one.narrower]
    return whole or [one for one in dropped if one.narrower and _uses_nic(host, one)]


@host_rule(
    "link and path",
    "warning",
    needs=("settings.sysctl",),
    uses=("addresses", "counters.stack", "links.subnet_routes"),
)
def rp_filter_drops_an_asymmetric_path(host: HostFacts) -> Outcomes:
    """rp_filter is dropping packets: they are received by another NIC than the one to which the route back points.

    nictop reads IPReversePathFilter of /proc/net/netstat once a second: 0.5 packets per second or more over the window,
    while rp_filter is strict (1) on a link. Usual cause: requests arrive through a router at a NIC without a default
    route, and the answers would leave by the default route of another NIC.

    The kernel counts these drops for all links together. If rp_filter is strict on several, the finding is about the
    host, and names those whose drops were logged in the last minute (log_martians). Not reported: what the rule about
    the subnets of the NICs explains.

    Sources: kernel Documentation/networking/ip-sysctl.rst rp_filter, log_martians; RFC 3704; net/ipv4/fib_frontend.c
    fib_validate_source.
    """
    rate = host.mean(lambda rates: rates.reverse_path_drops)
    if rate is None or rate < MIN_DROPS_PER_SECOND or len(host.window) < MIN_SAMPLES:
        return
    settings = host.inventory.settings
    if any(_dropped_routes(host, link, ipv4_conf(link, settings).rp_filter) for link in nics(host)):
        return
    strict = [link for link in host.links if _receives(host, link) and ipv4_conf(link, settings).rp_filter == STRICT]
    if not strict:
        return
    logged = _logged_links(host, strict)
    shown = ([link for link in strict if link.name in logged] or strict)[:MAX_SHOWN_LINKS]
    evidence = (
        _drop_rate_evidence(host, rate),
        *(_rp_filter_evidence(link) for link in shown),
        *_log_evidence(logged),
        *_default_route_evidence(host),
    )
    if len(strict) == 1:
        yield _asymmetric_on_one(host, strict[0], evidence, is_logged=bool(logged))
    else:
        yield _asymmetric_on_several(host, shown, evidence, is_logged=bool(logged))


def _asymmetric_on_one(host: HostFacts, link: Link, evidence: tuple[Evidence, ...], *, is_logged: bool) -> Finding:
    fixes = list(_loose_fixes(host, link))
    if any(route.family == "ipv4" and route.gateway for route in link.default_routes):
        fixes += source_routing_fixes(host, link, global_addresses(link))
    if not is_logged:
        fixes.append(_log_fix(host))
    title = "rp_filter drops received packets (asymmetric path)"
    return link_finding("warning", host, link, title, evidence=evidence, why=ASYMMETRIC_REASON, fixes=tuple(fixes))


def _asymmetric_on_several(
    host: HostFacts, shown: Sequence[Link], evidence: tuple[Evidence, ...], *, is_logged: bool
) -> Finding:
    """`is_logged`: packets received by these were dropped; else it may be any of them."""
    names = " or ".join(link.name for link in shown)
    title = f"rp_filter drops packets received on {names}"
    if is_logged:
        fixes = [fix for link in shown for fix in _loose_fixes(host, link)]
        why = ASYMMETRIC_REASON
    else:
        fixes = [*sysctl_fixes(host, "net.ipv4.conf.all.rp_filter", LOOSE), _log_fix(host)]
        why = f"{ASYMMETRIC_REASON} Usually a NIC without the default route."
    return host_finding("warning", host, "", title, evidence=evidence, why=why, fixes=tuple(fixes))


def _receives(host: HostFacts, link: Link) -> bool:
    """Up, with an address, and connected to other hosts or network namespaces."""
    is_working = bool(link.flags & IFF_UP) and link.carrier is True
    leads_to_a_namespace = link.kind == "veth" and link.lower_namespace is not None
    return is_working and has_address(link) and (leads_to_a_namespace or is_outward(host, link))


def _logged_links(host: HostFacts, strict: list[Link]) -> dict[str, Logged]:
    """Names of strict links with drops in the kernel log → the newest message."""
    found: dict[str, Logged] = {}
    for link in strict:
        messages = link_messages(host, link, "martian", within=LOGGED_SECONDS)
        if messages is not None:
            found[link.name] = messages.newest
    return found


def _drop_rate_evidence(host: HostFacts, rate: float) -> Evidence:
    counters = host.snapshot.counters
    total = counters.stack.get("IPReversePathFilter") if counters is not None else None
    return Evidence("dropped", f"{units.per_second(rate)}, {units.count(total)} since boot", DROP_COUNTER)


def _log_evidence(logged: Mapping[str, Logged]) -> list[Evidence]:
    messages = list(logged.values())[:MAX_SHOWN_LINKS]
    return [Evidence("kernel message", message.text, "/dev/kmsg") for message in messages]


def _default_route_evidence(host: HostFacts) -> list[Evidence]:
    names = [link.name for link in host.links if any(route.family == "ipv4" for route in link.default_routes)]
    if not names:
        return []
    return [Evidence("default route", ", ".join(names[:MAX_SHOWN_LINKS]), "ip route show default")]


def _rp_filter_evidence(link: Link) -> Evidence:
    return Evidence(
        f"rp_filter of {link.name}", f"{STRICT} (strict)", f"sysctl net.ipv4.conf.{{all,{link.name}}}.rp_filter"
    )


def _log_fix(host: HostFacts) -> Fix:
    """Makes the kernel name link and sender of each dropped packet."""
    now = sysctl_fixes(host, "net.ipv4.conf.all.log_martians", 1, old=0)[0]
    return replace(
        now,
        title="Log dropped packets with their NIC and sender",
        commands=(*now.commands, joined("|", command("dmesg"), command("grep", "martian source"))),
        note="The kernel logs some of them. If they arrive on another NIC than named here, the log shows it.",
    )


def _dropping(host: HostFacts, link: Link, rp_filter: int, dropped: list[SubnetRoute]) -> Finding:
    """`dropped`: routes to the whole subnet, or each to a part of it."""
    first = dropped[0]
    count = host.inventory.settings.reverse_path_drops
    way_back = host.snapshot.links.get(first.ifindex) if first.ifindex is not None else None
    severity: Severity = "critical"
    if first.narrower:
        severity = "warning" if count else "info"
    place = f"route back: {way_back.name}" if way_back is not None else "no route back"
    sources = {route.source for route in dropped}
    fixes = list(source_routing_fixes(host, link, [one for one in link.addresses if one.address in sources]))
    if rp_filter == STRICT and way_back is not None:
        fixes += _loose_fixes(host, link)
    return link_finding(
        severity,
        host,
        link,
        f"rp_filter drops packets from {_senders_text(dropped)} ({place})",
        evidence=_dropping_evidence(link, rp_filter, first, way_back, count),
        why=WHOLE_SUBNET_REASON if not first.narrower else PARTIAL_REASON,
        fixes=tuple(fixes),
    )


def _senders_text(dropped: Sequence[SubnetRoute]) -> str:
    parts = list(dict.fromkeys(route.narrower for route in dropped))
    if not parts[0]:
        return "its subnet"
    return parts[0] if len(parts) == 1 else f"{parts[0]} and {len(parts) - 1} more"


def _dropping_evidence(
    link: Link, rp_filter: int, route: SubnetRoute, way_back: Link | None, count: int | None
) -> tuple[Evidence, ...]:
    setting = f"{rp_filter} ({RP_FILTER_TEXTS[rp_filter]})"
    evidence = [
        Evidence("rp_filter", setting, f"sysctl net.ipv4.conf.{{all,{link.name}}}.rp_filter"),
        Evidence(
            f"route back to {route.narrower or route.peer}",
            way_back.name if way_back is not None else "none",
            f"ip route get {route.peer} from {route.source}",
        ),
    ]
    if count:
        evidence.append(Evidence("dropped since boot", units.count(count), DROP_COUNTER))
    return tuple(evidence)


def _is_dropped(link: Link, route: SubnetRoute, rp_filter: int) -> bool:
    return route.ifindex is None or (rp_filter == STRICT and route.ifindex != link.ifindex)


def _uses_nic(host: HostFacts, route: SubnetRoute) -> bool:
    """The route back uses a NIC, or there is none."""
    if route.ifindex is None:
        return True
    way_back = host.snapshot.links.get(route.ifindex)
    return way_back is not None and is_nic(host, way_back)


def _loose_fixes(host: HostFacts, link: Link) -> tuple[Fix, ...]:
    """A dot in the name of a link is a slash for sysctl(8)."""
    old = host.inventory.settings.sysctl.get(f"net.ipv4.conf.{link.name}.rp_filter")
    return sysctl_fixes(host, f"net.ipv4.conf.{link.name.replace('.', '/')}.rp_filter", LOOSE, old=old)
