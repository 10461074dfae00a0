"""NICs on which rp_filter drops packets from anywhere, because the route back uses another NIC.

Reads nothing; a rule about packets that rp_filter has dropped.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from nictop.model.devices.ipv4_conf import LOOSE, STRICT, ipv4_conf
from nictop.model.devices.links import global_addresses, has_global_address
from nictop.model.kernel_log import Logged
from nictop.model.text import units
from nictop.probe.light_dataclasses import replace
from nictop.probe.records import Link
from nictop.rules.finding import Evidence, Finding, Fix
from nictop.rules.fixes.commands import command, joined
from nictop.rules.fixes.persistence import sysctl_fixes
from nictop.rules.fixes.source_routing import source_routing_fixes
from nictop.rules.host import HostFacts
from nictop.rules.kernel_messages import link_messages
from nictop.rules.profiles.nics import nics
from nictop.rules.profiles.outward import has_neighbours_outside
from nictop.rules.profiles.rp_filter import DROP_COUNTER, dropped_routes, loose_fixes
from nictop.rules.registry import Outcomes, host_rule
from nictop.rules.subjects import has_default_route, host_finding, is_up, link_finding

MIN_DROPS_PER_SECOND = 0.5
"""A ping once a second is found, single packets are not."""
LOGGED_SECONDS = 60.0
"""Older messages may be about drops that have ended. The kernel logs at most ten in five
seconds."""
MAX_SHOWN_LINKS = 4
ASYMMETRIC_REASON = (
    "Whoever sends these packets gets no answer, not even an ICMP error, although they arrive. "
    "Broadcasts of another network on the same wire, and packets with a false sender, count as "
    "well."
)


@host_rule(
    "warning",
    needs=("settings.sysctl",),
    uses=("addresses", "counters.stack", "links.subnet_routes"),
)
def rp_filter_drops_an_asymmetric_path(host: HostFacts) -> Outcomes:
    """rp_filter is dropping packets: they are received by another NIC than the one to which the
    route back points.

    nictop reads IPReversePathFilter of /proc/net/netstat once a second: 0.5 packets per second or
    more over the window, while rp_filter is strict (1) on a link. Usual cause: requests arrive
    through a router at a NIC without a default route, and the answers would leave by the default
    route of another NIC. Broadcasts of another network on the same wire count as well.

    The kernel counts these drops for all links together. If rp_filter is strict on several, the
    finding is about the host, and names those whose drops were logged in the last minute
    (log_martians). Not reported: what the rule about the subnets of the NICs explains.

    Sources: kernel Documentation/networking/ip-sysctl.rst rp_filter, log_martians; RFC 3704;
    net/ipv4/fib_frontend.c fib_validate_source.
    """
    rate = host.mean(lambda rates: rates.reverse_path_drops)
    if rate is None or rate < MIN_DROPS_PER_SECOND or not host.last_samples:
        return
    if any(_has_dropped_routes(host, link) for link in nics(host)):
        return  # rp_filter_drops_its_subnet names the NIC
    strict = [link for link in host.links if _is_strict(host, link) and _receives(host, link)]
    if not strict:
        return
    logged = _logged_links(host, strict)
    shown = [link for link in strict if link.name in logged] or strict
    shown = shown[:MAX_SHOWN_LINKS]
    evidence = (
        _drop_rate_evidence(host, rate),
        *map(_rp_filter_evidence, shown),
        *_log_evidence(logged),
        *_default_route_evidence(host),
    )
    if len(strict) == 1:
        yield _asymmetric_on_one(host, strict[0], evidence, is_logged=bool(logged))
    else:
        yield _asymmetric_on_several(host, shown, evidence, is_logged=bool(logged))


def _has_dropped_routes(host: HostFacts, link: Link) -> bool:
    return bool(dropped_routes(host, link, ipv4_conf(link, host.inventory.settings).rp_filter))


def _is_strict(host: HostFacts, link: Link) -> bool:
    return ipv4_conf(link, host.inventory.settings).rp_filter == STRICT


def _asymmetric_on_one(
    host: HostFacts, link: Link, evidence: tuple[Evidence, ...], *, is_logged: bool
) -> Finding:
    fixes = list(loose_fixes(host, link))
    if any(route.family == "ipv4" and route.gateway for route in link.default_routes):
        fixes += source_routing_fixes(host, link, global_addresses(link, "ipv4"))
    if not is_logged:
        fixes.append(_log_fix(host))
    title = "rp_filter drops received packets (asymmetric path)"
    return link_finding(
        "warning", host, link, title, evidence=evidence, why=ASYMMETRIC_REASON, fixes=tuple(fixes)
    )


def _asymmetric_on_several(
    host: HostFacts, shown: Sequence[Link], evidence: tuple[Evidence, ...], *, is_logged: bool
) -> Finding:
    """`is_logged`: packets received by these were dropped; else it may be any of them."""
    names = " or ".join(link.name for link in shown)
    title = f"rp_filter drops packets received on {names}"
    if is_logged:
        fixes = [fix for link in shown for fix in loose_fixes(host, link)]
        why = ASYMMETRIC_REASON
    else:
        fixes = [*sysctl_fixes(host, "net.ipv4.conf.all.rp_filter", LOOSE), _log_fix(host)]
        why = f"{ASYMMETRIC_REASON} Usually a NIC without the default route."
    return host_finding("warning", host, "", title, evidence=evidence, why=why, fixes=tuple(fixes))


def _receives(host: HostFacts, link: Link) -> bool:
    """Up, with an address, and connected to other hosts or network namespaces."""
    if not is_up(link) or link.carrier is not True or not has_global_address(link):
        return False
    return has_neighbours_outside(host, link)


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
    total = None if counters is None else counters.stack.get("IPReversePathFilter")
    text = f"{units.per_second(rate)}, {units.count(total)} since boot"
    return Evidence("dropped", text, DROP_COUNTER)


def _log_evidence(logged: Mapping[str, Logged]) -> list[Evidence]:
    messages = list(logged.values())[:MAX_SHOWN_LINKS]
    return [Evidence("kernel message", message.text, "/dev/kmsg") for message in messages]


def _default_route_evidence(host: HostFacts) -> list[Evidence]:
    names = [link.name for link in host.links if has_default_route(link, "ipv4")]
    if not names:
        return []
    return [Evidence("default route", ", ".join(names[:MAX_SHOWN_LINKS]), "ip route show default")]


def _rp_filter_evidence(link: Link) -> Evidence:
    return Evidence(
        f"rp_filter of {link.name}",
        f"{STRICT} (strict)",
        f"sysctl net.ipv4.conf.{{all,{link.name}}}.rp_filter",
    )


def _log_fix(host: HostFacts) -> Fix:
    """Makes the kernel name link and sender of each dropped packet."""
    now = sysctl_fixes(host, "net.ipv4.conf.all.log_martians", 1, old=0)[0]
    return replace(
        now,
        title="Log dropped packets with their NIC and sender",
        commands=(*now.commands, joined("|", command("dmesg"), command("grep", "martian source"))),
        note="The kernel logs some of them. If they arrive on another NIC than named here, the "
        "log shows it. Undo: 0, the default.",
    )
