"""VFs of which both sides are watched: settings of the guest's link compared with those of its PF.

Reads nothing; rules about pairs (`nictop.rules.vf.facts.pairs`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from nictop.model.text.words import mtu_of
from nictop.probe.records import Link
from nictop.rules.finding import Evidence, Fix, on_peer
from nictop.rules.fixes.commands import command
from nictop.rules.fixes.persistence import can_have_mtu, mtu_fixes
from nictop.rules.host import HostFacts
from nictop.rules.registry import Outcomes, pair_rule
from nictop.rules.subjects import link_finding
from nictop.rules.vf.facts import Pair, is_up, pairs, set_vf_fix

FAMILY: Final = "VF attributes and path"
FOREIGN_KINDS = ("macvlan", "macvtap")
"""Links stacked on another one that send with their own MAC addresses."""


@pair_rule(FAMILY, "critical")
def vf_filter_stops_a_bridge(hosts: Sequence[HostFacts]) -> Outcomes:
    """A guest connects other machines or containers through a VF, but the PF accepts only the VF's own MAC address.

    nictop finds the VF's netdev as a port of a bridge with further ports, or below macvlan links, and on the PF spoof
    check on (frames with other source addresses are dropped), or trust off (the VF may not receive frames for other
    addresses).

    Both sides must be watched: the guest cannot read either setting.

    Sources: openshift/dpu-operator#564, lxc/incus#2021, nokia/danm#246, ip-link(8) spoofchk and trust.
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
            "PF filters MAC addresses of the bridge or macvlan on the VF",
            evidence=(
                Evidence("links behind the VF", ", ".join(one.name for one in behind[:6]), "ip -d link"),
                Evidence("spoof check", "on" if checked else "off", f"ip link show {pair.port.name}: {pair.port_text}"),
                Evidence("trust", "on" if trusted else "off", f"ip link show {pair.port.name}: {pair.port_text}"),
            ),
            why="Their frames are dropped in the NIC, or no reply reaches them. The guest itself is connected, and its "
            "counters show no drops.",
            fixes=on_peer(pair.physical.name, _allow_fixes(pair)),
        )


def _allow_fixes(pair: Pair) -> tuple[Fix, ...]:
    place, port, number = pair.place, pair.port, pair.function.number
    fixes = []
    if pair.function.spoof_check is True:
        title, note = "Allow other source MAC addresses", "Some NICs do not support this (Operation not supported)."
        undo = ("spoofchk", "on")
        fixes.append(set_vf_fix(place, title, port, number, "spoofchk", "off", undo=undo, note=note))
    if pair.function.trust is False:
        title, note = "Allow receiving for other MAC addresses", "Only for guests that you trust."
        fixes.append(set_vf_fix(place, title, port, number, "trust", "on", undo=("trust", "off"), note=note))
    return tuple(fixes)


def is_filtered(pair: Pair) -> bool:
    """Other MAC addresses are used behind the VF, and the PF filters them."""
    closed = pair.function.spoof_check is True or pair.function.trust is False
    return closed and bool(_foreign_links(pair))


def _foreign_links(pair: Pair) -> list[Link]:
    """Links of the guest that send through the VF with other MAC addresses."""
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
    """A guest uses a VLAN on its VF while the PF already assigns the VF to a VLAN (port VLAN).

    nictop finds a VLAN link on the VF's netdev and a port VLAN (IFLA_VF_VLAN) on the PF. The NIC then rejects the
    guest's tag, or adds its own outside of it: no traffic passes.

    Both sides must be watched. Not reported for an 802.1ad port VLAN, which is intended for stacked tags.

    Sources: kernel iavf.rst ("VLAN"), ip-link(8) vf vlan.
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
        remove = command("ip", "link", "del", "dev", inside[0].name)
        yield link_finding(
            "warning",
            pair.guest,
            pair.link,
            f"VLAN link {inside[0].name} conflicts with port VLAN {vlan}",
            evidence=(
                Evidence("VLANs in the guest", ", ".join(_vlan_text(one) for one in inside[:6]), "ip -d link"),
                Evidence("port VLAN", str(vlan), f"ip link show {pair.port.name}: {pair.port_text}"),
            ),
            why="With a port VLAN the guest sends untagged frames and does not receive the tag; frames that it tags "
            "are dropped.",
            fixes=(
                _without_port_vlan(pair, vlan),
                Fix(
                    "here",
                    f"Use {pair.link.name} without a VLAN link",
                    (remove,),
                    False,
                    (),
                    "Removes its addresses, too: add them to the link below, and remove the VLAN from the "
                    "configuration.",
                ),
            ),
        )


def _without_port_vlan(pair: Pair, vlan: int) -> Fix:
    title = "Remove the port VLAN: the guest tags frames itself"
    fix = set_vf_fix(pair.place, title, pair.port, pair.function.number, "vlan", "0", undo=("vlan", str(vlan)))
    return on_peer(pair.physical.name, (fix,))[0]


def _vlan_text(link: Link) -> str:
    number = link.details.get("vlan_id")
    return f"{link.name} (VLAN {number})" if number is not None else link.name


@pair_rule(FAMILY, "warning")
def vf_mtu_exceeds_the_port(hosts: Sequence[HostFacts]) -> Outcomes:
    """A VF has a larger MTU than its PF: frames larger than the MTU of the PF are dropped.

    nictop compares the MTU of the VF's netdev with that of the PF. Most drivers let the guest set any MTU, but the NIC
    drops frames for which the PF is not configured.

    Both sides must be watched and both links up.

    Sources: Intel's iavf README ("MTU"), ip-link(8).
    """
    for pair in pairs(hosts):
        if mtu_of(pair.port) is None or pair.link.mtu <= pair.port.mtu or not is_up(pair.link) or not is_up(pair.port):
            continue
        larger = command("ip", "link", "set", "dev", pair.port.name, "mtu", str(pair.link.mtu))
        undo = command("ip", "link", "set", "dev", pair.port.name, "mtu", str(pair.port.mtu))
        note = "The switch port of the PF must also support it."
        yield link_finding(
            "warning",
            pair.guest,
            pair.link,
            f"MTU {pair.link.mtu} exceeds MTU {pair.port.mtu} of its PF",
            evidence=(
                Evidence("MTU of the VF", str(pair.link.mtu), f"ip link show {pair.link.name}"),
                Evidence("MTU of the PF", str(pair.port.mtu), f"ip link show {pair.port.name}: {pair.port_text}"),
            ),
            why="Small packets pass, large ones are dropped: connections are established and then hang.",
            fixes=(
                *(
                    on_peer(
                        pair.physical.name,
                        (Fix(pair.place, "Raise the MTU of the PF", (larger,), False, (undo,), note),),
                    )
                    if can_have_mtu(pair.port, pair.link.mtu)
                    else ()
                ),
                *mtu_fixes(pair.guest, pair.link, pair.port.mtu),
            ),
        )
