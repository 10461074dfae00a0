"""Virtual functions of which both sides are watched: what the guest's link has, against what its port allows.

Reads nothing; rules about pairs (see `virtual_function_facts.pairs`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from nictop.probe.records import Link
from nictop.rules.finding import Evidence, Fix
from nictop.rules.fixes.commands import command
from nictop.rules.fixes.persistence import mtu_fixes
from nictop.rules.host import HostFacts
from nictop.rules.registry import Outcomes, pair_rule
from nictop.rules.subjects import link_finding
from nictop.rules.vf.facts import Pair, is_up, pairs, set_vf_fix

FAMILY: Final = "VF attributes and path"
FOREIGN_KINDS = ("macvlan", "macvtap")
"""Links on top of another one that send with MAC addresses of their own."""


@pair_rule(FAMILY, "critical")
def vf_filter_stops_a_bridge(hosts: Sequence[HostFacts]) -> Outcomes:
    """A guest bridges other machines or containers over a virtual function whose port lets only its own address pass.

    nictop finds the virtual function's netdev as a port of a bridge with further ports, or below macvlan links, and on
    the physical function spoof checking on (frames with other source addresses are dropped), or trust off (the virtual
    function may not listen to other addresses).

    Only when both sides are watched, because the guest cannot see either setting.

    Known from openshift/dpu-operator#564, lxc/incus#2021, nokia/danm#246, ip-link(8) spoofchk and trust.
    """
    for pair in pairs(hosts):
        behind = _foreign_links(pair)
        checked, trusted = pair.function.spoof_check is True, pair.function.trust is not False
        if not is_filtered(pair):
            continue
        yield link_finding(
            "critical",
            pair.guest,
            pair.link,
            "carries a bridge or macvlan, its port lets only its own address pass",
            evidence=(
                Evidence("behind it", ", ".join(one.name for one in behind[:6]), "ip -d link"),
                Evidence("spoof check", "on" if checked else "off", f"ip link show {pair.port.name}: {pair.port_text}"),
                Evidence("trust", "on" if trusted else "off", f"ip link show {pair.port.name}: {pair.port_text}"),
            ),
            why="What they send is dropped inside the NIC, or no answer reaches them; the guest itself is connected, "
            "and its counters show nothing.",
            fixes=_opening_fixes(pair),
        )


def _opening_fixes(pair: Pair) -> tuple[Fix, ...]:
    place, port, number = pair.place, pair.port, pair.function.number
    fixes = []
    if pair.function.spoof_check is True:
        title, note = "let other source addresses out", "Some NICs cannot (Operation not supported)."
        undo = ("spoofchk", "on")
        fixes.append(set_vf_fix(place, title, port, number, "spoofchk", "off", undo=undo, note=note))
    if pair.function.trust is False:
        title, note = "let it receive other addresses", "Only for a guest that you trust."
        fixes.append(set_vf_fix(place, title, port, number, "trust", "on", undo=("trust", "off"), note=note))
    return tuple(fixes)


def is_filtered(pair: Pair) -> bool:
    """Others send through the virtual function, and its port lets their addresses not pass."""
    closed = pair.function.spoof_check is True or pair.function.trust is False
    return closed and bool(_foreign_links(pair))


def _foreign_links(pair: Pair) -> list[Link]:
    """Links of the guest that send through the virtual function with other MAC addresses."""
    host, link = pair.guest, pair.link
    above = host.snapshot.links.get(link.master) if link.master is not None else None
    if above is not None and above.kind == "bridge":
        return [one for one in host.links if one.master == above.ifindex and one.ifindex != link.ifindex and is_up(one)]
    return [
        one
        for one in host.links
        if one.lower == link.ifindex and one.lower_namespace is None and one.kind in FOREIGN_KINDS and is_up(one)
    ]


@pair_rule(FAMILY, "warning")
def vlan_inside_a_port_vlan(hosts: Sequence[HostFacts]) -> Outcomes:
    """A guest has a VLAN on its virtual function, while the port puts the whole virtual function into one already.

    nictop finds a VLAN link on the virtual function's netdev and a port VLAN (IFLA_VF_VLAN) on the physical function.
    The NIC then refuses the guest's tag, or adds its own outside of it: nothing answers.

    Only when both sides are watched. Silent when the port VLAN is 802.1ad, which is meant for that.

    Known from the kernel's iavf.rst ("VLAN"), ip-link(8) vf vlan.
    """
    for pair in pairs(hosts):
        inside = [
            one
            for one in pair.guest.links
            if one.kind == "vlan" and one.lower == pair.link.ifindex and one.lower_namespace is None and is_up(one)
        ]
        vlan = pair.function.vlan
        if not inside or not vlan or pair.function.vlan_protocol == "802.1ad":
            continue
        remove = command("ip", "link", "del", inside[0].name)
        yield link_finding(
            "warning",
            pair.guest,
            pair.link,
            f"has {inside[0].name} on it, but its port already tags VLAN {vlan}",
            evidence=(
                Evidence("VLANs here", ", ".join(_vlan_text(one) for one in inside[:6]), "ip -d link"),
                Evidence("port VLAN", str(vlan), f"ip link show {pair.port.name}: {pair.port_text}"),
            ),
            why="With a port VLAN the guest sends untagged frames and never sees the tag; frames that it tags are "
            "lost.",
            fixes=(
                set_vf_fix(
                    pair.place,
                    "let the guest do the tagging",
                    pair.port,
                    pair.function.number,
                    "vlan",
                    "0",
                    undo=("vlan", str(vlan)),
                ),
                Fix(
                    "here",
                    f"or use {pair.link.name} itself, untagged",
                    (remove,),
                    False,
                    (),
                    "Its addresses go with it: put them on the link below, and take it out of the configuration.",
                ),
            ),
        )


def _vlan_text(link: Link) -> str:
    number = link.details.get("vlan_id")
    return f"{link.name} (VLAN {number})" if number is not None else link.name


@pair_rule(FAMILY, "warning")
def vf_mtu_exceeds_the_port(hosts: Sequence[HostFacts]) -> Outcomes:
    """A virtual function has a larger MTU than its port: frames that are larger than the port's are lost.

    nictop compares the MTU of the virtual function's netdev with that of the physical function. Most drivers let the
    guest set any MTU, and the NIC drops what the port was not prepared for.

    Only when both sides are watched and both links are up.

    Known from Intel's iavf README ("MTU"), ip-link(8).
    """
    for pair in pairs(hosts):
        if pair.link.mtu <= pair.port.mtu or not is_up(pair.link) or not is_up(pair.port):
            continue
        larger = command("ip", "link", "set", "dev", pair.port.name, "mtu", str(pair.link.mtu))
        undo = command("ip", "link", "set", "dev", pair.port.name, "mtu", str(pair.port.mtu))
        note = "The switch behind the port must take frames of that size, too."
        yield link_finding(
            "warning",
            pair.guest,
            pair.link,
            f"has MTU {pair.link.mtu}, its port only {pair.port.mtu}",
            evidence=(
                Evidence("MTU here", str(pair.link.mtu), f"ip link show {pair.link.name}"),
                Evidence("MTU of the port", str(pair.port.mtu), f"ip link show {pair.port.name}: {pair.port_text}"),
            ),
            why="Small packets pass and large ones vanish: connections are made and then hang.",
            fixes=(
                Fix(pair.place, "raise the port's MTU", (larger,), False, (undo,), note),
                *mtu_fixes(pair.guest, pair.link, pair.port.mtu),
            ),
        )
