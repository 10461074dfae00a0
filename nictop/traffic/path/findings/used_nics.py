"""The selected NIC of an end is down, or carried neither direction of the test. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from nictop.model.text.words import IFF_LOOPBACK
from nictop.probe.records import Link
from nictop.rules.finding import Evidence, Finding, Fix
from nictop.rules.fixes.commands import command
from nictop.rules.fixes.source_routing import source_routing_fixes
from nictop.rules.subjects import is_up
from nictop.traffic.hosts.link_roles import roles_of
from nictop.traffic.path.findings.tested_direction import TestedDirection, path_finding

HOLDER_KINDS = ("dummy", "ifb", "vrf")
"""Kinds of links that only hold addresses: packets to them always come in by another link."""
RELATED_ROLES = (
    "chosen",
    "below",
    "above",
    "physical function",
    "virtual function",
    "accelerated",
    "peer",
)
"""Of one path: packets of the NIC may be counted there."""


def down_nic_findings(tested: TestedDirection) -> Iterator[Finding]:
    """Of both ends, as nothing was answered: another NIC of a host may receive packets to the
    address of one that is down."""
    for host, link in ((tested.host, tested.sender_link), (tested.peer, tested.receiver_link)):
        if link is None or is_up(link):
            continue
        change = ("ip", "link", "set", "dev", link.name)
        up, down = command(*change, "up"), command(*change, "down")
        bring_up = Fix("here", "Bring the link up", (up,), persistent=False, undo=(down,))
        yield path_finding(
            "path_nic_down",
            "critical",
            host,
            link,
            "administratively down",
            evidence=(Evidence("state", "administratively down", f"ip link show dev {link.name}"),),
            why="It neither sends nor receives, and routes by it are not used.",
            fixes=(bring_up,),
        )


def unused_nic_findings(tested: TestedDirection) -> Iterator[Finding]:
    """Of the sender: packets leave by another NIC, and those of the other end come in by another
    one."""
    chosen, used = tested.sender_link, _used_ifindexes(tested)
    if chosen is None or used is None or _only_holds_addresses(chosen):
        return
    roles = roles_of(tested.host.snapshot, chosen)
    if any(roles.get(ifindex) in RELATED_ROLES for ifindex in used):
        return
    out, into = (tested.host.link_at(ifindex) for ifindex in used)
    if out is None or into is None:
        return
    by = out.name if out is into else f"{out.name} sends, {into.name} receives"
    sender, receiver = tested.sender.address, tested.receiver.address
    route_command = f"ip route get {receiver} from {sender}"
    yield path_finding(
        "path_nic_not_used",
        "warning",
        tested.host,
        chosen,
        f"not used: traffic with {tested.receiver.host} goes by another NIC ({by})",
        evidence=(
            Evidence(f"route to {receiver}", f"by {out.name}", route_command),
            Evidence(f"packets of {tested.receiver.host} arrive on", into.name, "IP_PKTINFO"),
        ),
        why=f"{chosen.name} has the address, but was not tested: neither direction uses it. "
        f"Possible: two NICs in one "
        "subnet, a route to the other end, a rule of policy routing.",
        fixes=_route_fixes(tested, chosen),
    )


def _used_ifindexes(tested: TestedDirection) -> tuple[int, int] | None:
    """By which packets of the sender leave, and those of the other end come in; None: one is not
    known."""
    path, incoming = tested.test.path, _delivered_by(tested)
    if path is None or path.ifindex is None or incoming is None:
        return None
    return path.ifindex, incoming


def _route_fixes(tested: TestedDirection, chosen: Link) -> tuple[Fix, ...]:
    """So that packets from the address of the chosen NIC leave by it."""
    address = tested.sender.address.partition("%")[0]
    own = [candidate for candidate in chosen.addresses if candidate.address == address]
    if not own:
        return (Fix("here", "Change the route", ()),)
    return source_routing_fixes(tested.host, chosen, own)


def _only_holds_addresses(link: Link) -> bool:
    return bool(link.flags & IFF_LOOPBACK) or link.kind in HOLDER_KINDS


def _delivered_by(tested: TestedDirection) -> int | None:
    """ifindex by which the sender received packets of the other end, as its IP layer says; None:
    unknown."""
    listener = tested.back.listener
    if listener is None or not listener.ended or not listener.delivered:
        return None
    return max(listener.delivered, key=lambda packets: packets.packets).ifindex
