"""The two ends cannot reach each other by design: one is a macvlan, macvtap or ipvlan above the other one. Pure."""

from __future__ import annotations

from nictop.model.devices.separated_links import MACVLAN_KINDS, Separation, separation
from nictop.probe.records import Link
from nictop.rules.finding import Evidence, Finding, Fix
from nictop.rules.fixes.commands import Command, command
from nictop.rules.host import HostFacts
from nictop.traffic.path.findings.tested_direction import TestedDirection, path_finding

MAX_NAME = 15
"""IFNAMSIZ - 1"""
WHY_LOWER = (
    "By design: what the NIC below sends goes out to the wire, and what comes in for the link above is never given to "
    "the host of that NIC. No firewall, VLAN or cable is involved; other machines reach both."
)
WHY_SIBLINGS = (
    "By design: in mode vepa or private each of them sends to the wire only, and a switch does not send a frame back "
    "to the port where it came in."
)


def separation_of(tested: TestedDirection) -> Separation | None:
    """None: the ends are not separated by design, or a router is between them."""
    if tested.gateway is not None:
        return None
    there = tested.peer.snapshot.links.get(tested.receiver.ifindex or 0)
    here = tested.host.snapshot.links.get(tested.sender.ifindex or 0)
    return separation(tested.host.snapshot, here, tested.peer.snapshot, there)


def separated_finding(tested: TestedDirection, found: Separation) -> Finding:
    """Of the host of the NIC below; of two siblings, of the one whose mode is the cause."""
    name, where = found.upper.name, found.guest or found.upper_host
    kind = Evidence(f"{found.upper_host} {name}", f"{found.upper.kind}, mode {found.mode or 'unknown'}", "ip -d link")
    if found.kind == "siblings":
        return path_finding(
            "path_separated",
            "critical",
            _facts_of(tested, found.upper_host),
            found.upper,
            f"mode {found.mode}: no traffic to the {found.upper.kind} of {found.lower_host} on the same NIC",
            evidence=(kind,),
            why=WHY_SIBLINGS,
            fixes=(Fix("here", "Set mode bridge, which lets them reach each other", (_mode(found.upper, "bridge"),)),),
        )
    lower = found.lower
    assert lower is not None
    of = f"{found.upper.kind} {name} of {where}" if not found.guest else f"guest {where}, on {found.upper.kind} {name}"
    return path_finding(
        "path_separated",
        "critical",
        _facts_of(tested, found.lower_host),
        lower,
        f"cannot reach the {of} above it",
        evidence=(kind, Evidence("its lower device", lower.name, "IFLA_LINK")),
        why=WHY_LOWER,
        fixes=_ways_out(tested, found, lower),
    )


def _ways_out(tested: TestedDirection, found: Separation, lower: Link) -> tuple[Fix, ...]:
    """A second link of the same kind on the host, which leads to the first one."""
    name = f"{lower.name[: MAX_NAME - 5]}-host"
    is_macvlan = found.upper.kind in MACVLAN_KINDS
    upper_address = _address_of(tested, found)
    words = ("type", "macvlan", "mode", "bridge") if is_macvlan else ("type", "ipvlan", "mode", "l2")
    version, bits = ("-6", 128) if ":" in upper_address else ("-4", 32)
    second = Fix(
        "here",
        f"A second {'macvlan' if is_macvlan else 'ipvlan'} on the host, with a route to {upper_address}",
        (
            command("ip", "link", "add", name, "link", lower.name, *words),
            command("ip", "link", "set", "dev", name, "up"),
            command("ip", version, "route", "add", f"{upper_address}/{bits}", "dev", name),
        ),
        persistent=False,
        undo=(command("ip", "link", "del", name),),
        note="Not stored: repeat it at boot, or make the link in the network configuration of this host.",
    )
    fixes = [second]
    if is_macvlan and found.mode in ("vepa", "private"):
        fixes.insert(
            0,
            Fix(
                "here" if found.upper_host == found.lower_host else "peer",
                f"Mode bridge for {found.upper.name}; with mode {found.mode} the next command is not enough",
                (_mode(found.upper, "bridge"),),
                persistent=False,
                undo=(_mode(found.upper, found.mode),),
                note="libvirt and Docker store the mode in the definition of the guest or network.",
                peer="" if found.upper_host == found.lower_host else found.upper_host,
            ),
        )
    if found.guest:
        fixes.append(Fix("here", "Or give the guest a second NIC, in a network between host and guests only", ()))
    return tuple(fixes)


def _address_of(tested: TestedDirection, found: Separation) -> str:
    """Address of the end above."""
    ends = (tested.sender, tested.receiver)
    if found.guest:
        upper = next(one for one in ends if one.host == found.guest)
    else:
        upper = next(one for one in ends if (one.host, one.ifindex) == (found.upper_host, found.upper.ifindex))
    return upper.address.partition("%")[0]


def _facts_of(tested: TestedDirection, name: str) -> HostFacts:
    return tested.host if tested.host.name == name else tested.peer


def _mode(link: Link, mode: str) -> Command:
    return command("ip", "link", "set", "dev", link.name, "type", link.kind or "macvlan", "mode", mode)
