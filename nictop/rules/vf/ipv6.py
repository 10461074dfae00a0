"""Virtual functions on which IPv6 fails and IPv4 works: multicast filters of a VF that is not trusted.

Reads nothing. IPv6 asks for a MAC address with multicast (solicited-node, ff02::1:ff…), IPv4 with broadcast, which each
VF receives.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from nictop.model.devices.virtual_functions import is_virtual_function
from nictop.probe.records import Link, Neighbour
from nictop.rules.finding import Evidence, Finding, Fix, on_peer
from nictop.rules.fixes.commands import with_undo
from nictop.rules.host import HostFacts
from nictop.rules.registry import Outcomes, pair_rule
from nictop.rules.routing.facts import (
    answering,
    has_answered,
    is_recent,
    is_unanswered,
    neighbour_evidence,
    neighbours,
    resolves_neighbours,
    unanswered,
)
from nictop.rules.subjects import link_finding
from nictop.rules.vf.facts import Pair, has_virtual_functions, pairs, set_vf_fix

FAMILY: Final = "VF attributes and path"
MIN_FAILED = 2
"""Where the port is not watched: a single address may not exist."""


@pair_rule(
    FAMILY,
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

    Neighbour discovery uses multicast addresses, which the PF passes on to a VF as far as its filters allow. Drivers of
    E810 and X710 lost them for VFs that are not trusted, without any message; with trust on, all multicast is passed.

    nictop reads the neighbour table of the guest: IPv6 addresses that were asked for in the last five minutes and did
    not answer, none that ever did, and IPv4 addresses that answer now. Warning: the PF is watched, and trust of the VF
    is off. Info: the PF is not watched, and two addresses or more did not answer.

    Not reported: VFs that are trusted, or on which any IPv6 neighbour has answered.

    Sources: DPDK/grout#404; ip-link(8) vf trust; kernel Documentation/networking/device_drivers/ethernet/intel/i40e.rst
    (trust and multicast promiscuous mode).
    """
    if not any(":" in address for host in hosts for _, address in unanswered(host)):
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
            if failed and answering(host, link, "ipv4"):
                finding = _finding(host, link, pair, failed)
                if finding is not None:
                    yield finding


def _failed_ipv6(host: HostFacts, link: Link) -> list[Neighbour]:
    """IPv6 neighbours that did not answer; []: at least one has, or the link resolves none."""
    if not resolves_neighbours(link):
        return []
    entries = [one for address, one in neighbours(host).get(link.ifindex, {}).items() if ":" in address]
    if any(map(has_answered, entries)):
        return []
    return [one for one in entries if is_unanswered(one) and is_recent(one)]


def _finding(host: HostFacts, link: Link, pair: Pair | None, failed: list[Neighbour]) -> Finding | None:
    """None: the VF is trusted, or one failure alone proves nothing."""
    if pair is not None and pair.function.trust is not False:
        return None
    if pair is None and len(failed) < MIN_FAILED:
        return None
    works = answering(host, link, "ipv4")
    trust = (Evidence("trust", "off", f"ip link show {pair.port.name}: {pair.port_text}"),) if pair is not None else ()
    return link_finding(
        "warning" if pair is not None else "info",
        host,
        link,
        "IPv6 neighbours do not answer, IPv4 ones do; the VF is not trusted"
        if pair is not None
        else "IPv6 neighbours do not answer, IPv4 ones do: check trust of the VF",
        evidence=(
            *(neighbour_evidence(link, one) for one in failed[:2]),
            Evidence("IPv4", f"{works[0].address} {works[0].nud_state}", f"ip neigh show dev {link.name}"),
            *trust,
        ),
        why="IPv6 asks for MAC addresses by multicast, which the filters of a VF that is not trusted may drop. No "
        "counter shows it.",
        fixes=_fixes(link, pair),
    )


def _fixes(link: Link, pair: Pair | None) -> tuple[Fix, ...]:
    note = "Only for guests that you trust: it may then receive the frames of other guests."
    if pair is not None:
        title = "Trust the VF"
        fix = set_vf_fix(
            pair.place, title, pair.port, pair.function.number, "trust", "on", undo=("trust", "off"), note=note
        )
        return on_peer(pair.physical.name, (fix, _all_multicast(link)))
    vf = Fix("hypervisor", "Trust the VF at its PF", (), True, note=f"ip link set PF vf N trust on. {note}")
    return vf, _all_multicast(link)


def _all_multicast(link: Link) -> Fix:
    """Asks the PF for all multicast; one that does not trust the VF may refuse it silently."""
    on, off = with_undo(("ip", "link", "set", "dev", link.name, "allmulticast"), "on", "off")
    return Fix("here", "Or try to receive all multicast", (on,), False, (off,), "A PF may refuse it without trust.")
