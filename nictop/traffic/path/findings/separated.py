"""The two ends cannot reach each other by design: one is a macvlan, macvtap or ipvlan above the
other one. Pure."""

from __future__ import annotations

from nictop.model.devices.separated_links import MACVLAN_KINDS, Separation, separation
from nictop.probe.records import Link
from nictop.rules.finding import Evidence, Finding, Fix, WhereToType
from nictop.rules.fixes.commands import Command, command
from nictop.rules.host import HostFacts
from nictop.traffic.path.findings.tested_direction import TestedDirection, path_finding
from nictop.traffic.path.result import PathEnd

MAX_NAME = 15
"""IFNAMSIZ - 1"""
WHY_LOWER = (
    "By design: what the NIC below sends goes out to the wire, and what comes in for the link "
    "above is never given to "
    "the host of that NIC. No firewall, VLAN or cable is involved; other machines reach both."
)
WHY_SIBLINGS = (
    "By design: in mode vepa or private each of them sends to the wire only, and a switch does "
    "not send a frame back "
    "to the port where it came in."
)


def separation_of(tested: TestedDirection) -> Separation | None:
    """None: the ends are not separated by design, or a router is between them."""
    if tested.gateway is not None:
        return None
    here, there = tested.sender_link, tested.receiver_link
    return separation(tested.host.snapshot, here, tested.peer.snapshot, there)


def separated_finding(tested: TestedDirection, found: Separation) -> Finding:
    """Of the host of the NIC below; of two siblings, of the one whose mode is the cause."""
    upper = found.upper
    kind = f"{upper.kind}, mode {found.mode or 'unknown'}"
    upper_evidence = Evidence(f"{found.upper_host} {upper.name}", kind, "ip -d link")
    if found.kind == "siblings":
        return path_finding(
            "path_separated",
            "critical",
            _facts_of(tested, found.upper_host),
            upper,
            f"mode {found.mode}: no traffic to the {upper.kind} of {found.lower_host} on the same "
            f"NIC",
            evidence=(upper_evidence,),
            why=WHY_SIBLINGS,
            fixes=(
                Fix(
                    "here",
                    "Set mode bridge, which lets them reach each other",
                    (_mode(upper, "bridge"),),
                ),
            ),
        )
    lower = found.lower
    assert lower is not None
    what = f"{upper.kind} {upper.name} of {found.upper_host}"
    if found.guest:
        what = f"guest {found.guest}, on {upper.kind} {upper.name}"
    return path_finding(
        "path_separated",
        "critical",
        _facts_of(tested, found.lower_host),
        lower,
        f"cannot reach the {what} above it",
        evidence=(upper_evidence, Evidence("its lower device", lower.name, "IFLA_LINK")),
        why=WHY_LOWER,
        fixes=_ways_out(tested, found, lower),
    )


def _ways_out(tested: TestedDirection, found: Separation, lower: Link) -> tuple[Fix, ...]:
    """A second link of the same kind on the host, which leads to the first one."""
    fixes = []
    is_macvlan = found.upper.kind in MACVLAN_KINDS
    if is_macvlan and found.mode in ("vepa", "private"):
        fixes.append(_bridge_mode_fix(found))
    fixes.append(_second_link_fix(_address_of(tested, found), lower, is_macvlan=is_macvlan))
    if found.guest:
        title = "Or give the guest a second NIC, in a network between host and guests only"
        fixes.append(Fix("here", title, ()))
    return tuple(fixes)


def _bridge_mode_fix(found: Separation) -> Fix:
    """A link in mode vepa or private does not reach a second one either."""
    where: WhereToType = "here"
    peer = ""
    if found.upper_host != found.lower_host:
        where, peer = "peer", found.upper_host
    return Fix(
        where,
        f"Mode bridge for {found.upper.name}; with mode {found.mode} the next command is "
        f"not enough",
        (_mode(found.upper, "bridge"),),
        persistent=False,
        undo=(_mode(found.upper, found.mode),),
        note="libvirt and Docker store the mode in the definition of the guest or network.",
        peer=peer,
    )


def _second_link_fix(upper_address: str, lower: Link, *, is_macvlan: bool) -> Fix:
    """`upper_address`: of the end above, to which it gets a route."""
    name = f"{lower.name[: MAX_NAME - 5]}-host"
    kind, mode = ("macvlan", "bridge") if is_macvlan else ("ipvlan", "l2")
    version, bits = ("-6", 128) if ":" in upper_address else ("-4", 32)
    type_words = ("type", kind, "mode", mode)
    return Fix(
        "here",
        f"A second {kind} on the host, with a route to {upper_address}",
        (
            command("ip", "link", "add", name, "link", lower.name, *type_words),
            command("ip", "link", "set", "dev", name, "up"),
            command("ip", version, "route", "add", f"{upper_address}/{bits}", "dev", name),
        ),
        persistent=False,
        undo=(command("ip", "link", "del", name),),
        note="Not stored: repeat it at boot, or make the link in the network configuration of "
        "this host.",
    )


def _address_of(tested: TestedDirection, found: Separation) -> str:
    """Address of the end above."""
    upper = tested.sender if _is_above(tested.sender, found) else tested.receiver
    return upper.address.partition("%")[0]


def _is_above(end: PathEnd, found: Separation) -> bool:
    if found.guest:
        return end.host == found.guest
    return (end.host, end.ifindex) == (found.upper_host, found.upper.ifindex)


def _facts_of(tested: TestedDirection, name: str) -> HostFacts:
    return tested.host if tested.host.name == name else tested.peer


def _mode(link: Link, mode: str) -> Command:
    return command(
        "ip", "link", "set", "dev", link.name, "type", link.kind or "macvlan", "mode", mode
    )
