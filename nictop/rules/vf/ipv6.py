"""Virtual functions on which IPv6 fails and IPv4 works: multicast filters of a VF that is not
trusted.

Reads nothing. IPv6 asks for a MAC address with multicast (solicited-node, ff02::1:ff…), IPv4 with
broadcast, which each VF receives.
"""

from __future__ import annotations

from collections.abc import Sequence

from nictop.model.devices.virtual_functions import is_virtual_function
from nictop.probe.records import Link, Neighbour
from nictop.rules.finding import Evidence, Finding, Fix, Severity, on_peer
from nictop.rules.fixes.commands import with_undo
from nictop.rules.host import HostFacts
from nictop.rules.registry import Outcomes, pair_rule
from nictop.rules.routes.facts import (
    answering,
    entries_of,
    has_answered,
    is_unanswered_now,
    neighbour_evidence,
    resolves_neighbours,
    unanswered,
)
from nictop.rules.subjects import link_finding
from nictop.rules.vf.facts import Pair, has_virtual_functions, pairs, set_vf_fix

MIN_FAILED = 2
"""Where the port is not watched: a single address may not exist."""


@pair_rule(
    "warning",
    yields_to=(
        "address_is_a_duplicate",
        "multicast_is_off",
        "untrusted_vf_receives_no_multicast",
        "vf_filter_stops_a_bridge",
        "vf_has_no_room_for_more_addresses",
    ),
    needs=("addresses", "pci.physical_function", "routing.neighbours"),
    uses=("ethtool.driver", "pci.driver"),
)
def ipv6_fails_on_a_virtual_function(hosts: Sequence[HostFacts]) -> Outcomes:
    """On a VF no IPv6 neighbour answers, while IPv4 neighbours do.

    Neighbour discovery uses multicast addresses, which the PF passes on to a VF as far as its
    filters allow. Drivers of E810 and X710 lost them for VFs that are not trusted, without any
    message; with trust on, all multicast is passed.

    nictop reads the neighbour table of the guest: IPv6 addresses that were asked for in the last
    five minutes and did not answer, none that ever did, and IPv4 addresses that answer now.
    Warning: the PF is watched, and trust of the VF is off. Info: the PF is not watched, and two
    addresses or more did not answer.

    Not reported: VFs that are trusted, or on which any IPv6 neighbour has answered.

    Sources: DPDK/grout#404; ip-link(8) vf trust; kernel
    Documentation/networking/device_drivers/ethernet/intel/i40e.rst (trust and multicast promiscuous
    mode).
    """
    if not any(map(_has_failed_ipv6, hosts)):
        return
    ports = {(pair.guest.name, pair.link.ifindex): pair for pair in pairs(hosts)}
    for host in hosts:
        if host.inventory.routing is None or not has_virtual_functions(host):
            continue
        for link in host.links:
            pair = ports.get((host.name, link.ifindex))
            if pair is None and not is_virtual_function(link, host.functions):
                continue
            failed = _failed_ipv6(host, link)
            working = answering(host, link, "ipv4")
            if working and _proves_it(pair, failed):
                yield _finding(host, link, pair, failed, working[0])


def _has_failed_ipv6(host: HostFacts) -> bool:
    return any(":" in address for _, address in unanswered(host))


def _proves_it(pair: Pair | None, failed: list[Neighbour]) -> bool:
    """The VF is known not to be trusted, or several addresses have failed."""
    if pair is None:
        return len(failed) >= MIN_FAILED
    return pair.function.trust is False and bool(failed)


def _failed_ipv6(host: HostFacts, link: Link) -> list[Neighbour]:
    """IPv6 neighbours that did not answer; []: at least one has, or the link resolves none."""
    if not resolves_neighbours(link):
        return []
    entries = entries_of(host, link, "ipv6")
    if any(map(has_answered, entries)):
        return []
    return list(filter(is_unanswered_now, entries))


def _finding(
    host: HostFacts, link: Link, pair: Pair | None, failed: list[Neighbour], working: Neighbour
) -> Finding:
    evidence = [neighbour_evidence(host, link, entry) for entry in failed[:2]]
    works = f"{working.address} {working.nud_state}"
    evidence.append(Evidence("IPv4", works, f"ip neigh show dev {link.name}"))
    severity: Severity = "info"
    title = "IPv6 neighbours do not answer, IPv4 ones do: check trust of the VF"
    if pair is not None:
        severity = "warning"
        title = "IPv6 neighbours do not answer, IPv4 ones do; the VF is not trusted"
        source = f"ip link show {pair.port.name}: {pair.port_text}"
        evidence.append(Evidence("trust", "off", source))
    return link_finding(
        severity,
        host,
        link,
        title,
        evidence=tuple(evidence),
        why="IPv6 asks for MAC addresses by multicast, which the filters of a VF that is not "
        "trusted may drop. No counter shows it.",
        fixes=_fixes(link, pair),
    )


def _fixes(link: Link, pair: Pair | None) -> tuple[Fix, ...]:
    note = "Only for guests that you trust: it may then receive the frames of other guests."
    if pair is not None:
        title = "Trust the VF"
        fix = set_vf_fix(
            pair.place,
            title,
            pair.port,
            pair.function.number,
            "trust",
            "on",
            undo=("trust", "off"),
            note=note,
        )
        return on_peer(pair.physical.name, (fix, _all_multicast(link)))
    vf = Fix(
        "hypervisor",
        "Trust the VF at its PF",
        (),
        False,
        note=f"ip link set PF vf N trust on. {note}",
    )
    return vf, _all_multicast(link)


def _all_multicast(link: Link) -> Fix:
    """Asks the PF for all multicast; one that does not trust the VF may refuse it silently."""
    on, off = with_undo(("ip", "link", "set", "dev", link.name, "allmulticast"), "on", "off")
    return Fix(
        "here",
        "Or try to receive all multicast",
        (on,),
        False,
        (off,),
        "A PF may refuse it without trust.",
    )
