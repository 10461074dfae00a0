"""VFs of which both sides are watched: settings of the guest's link compared with those of its PF.

Reads nothing; rules about pairs (`nictop.rules.vf.facts.pairs`).
"""

from __future__ import annotations

from collections.abc import Sequence

from nictop.model.text.words import mtu_of
from nictop.probe.records import Link
from nictop.rules.finding import Evidence, Fix, on_peer
from nictop.rules.fixes.commands import command, with_undo
from nictop.rules.fixes.persistence import can_have_mtu, mtu_fixes
from nictop.rules.host import HostFacts, link_driver
from nictop.rules.registry import Outcomes, pair_rule
from nictop.rules.subjects import is_up, link_finding
from nictop.rules.vf.facts import Pair, may_have_any_address, pairs, set_vf_fix

MAX_SHOWN = 6
"""Links in the evidence."""
FOREIGN_KINDS = ("macvlan", "macvtap")
"""Links stacked on another one that send with their own MAC addresses."""


@pair_rule("critical")
def vf_filter_stops_a_bridge(hosts: Sequence[HostFacts]) -> Outcomes:
    """A guest connects other machines or containers through a VF, but the PF filters other MAC
    addresses than the VF's own.

    nictop finds the VF's netdev as a port of a bridge with further ports, or below macvlan links,
    and on the PF spoof check on (frames with other source addresses are dropped), or trust off (the
    VF may not receive frames for other addresses). Warning for macvlan: it asks the PF for its
    addresses, and some drivers allow a few of them to a VF that is not trusted.

    Both sides must be watched: the guest cannot read either setting. Not reported: macvlan on mlx5
    without spoof check, which allows them.

    Sources: openshift/dpu-operator#564, lxc/incus#2021, nokia/danm#246, ip-link(8) spoofchk and
    trust; kernel intel/i40e/i40e_virtchnl_pf.c (i40e_check_vf_permission),
    mellanox/mlx5/core/eswitch.c (esw_add_uc_addr).
    """
    for pair in filter(is_filtered, pairs(hosts)):
        foreign = _foreign_links(pair)
        behind = ", ".join(link.name for link in foreign[:MAX_SHOWN])
        is_certain = not _ask_for_their_addresses(foreign) or _is_mlx5(pair)
        spoof_check = "on" if pair.function.spoof_check is True else "off"
        trust = "off" if pair.function.trust is False else "on"
        there = f"ip link show {pair.port.name}: {pair.port_text}"
        yield link_finding(
            "critical" if is_certain else "warning",
            pair.guest,
            pair.link,
            "PF filters MAC addresses of the bridge or macvlan on the VF"
            if is_certain
            else "PF may filter MAC addresses of macvlan on the VF",
            evidence=(
                Evidence("links behind the VF", behind, "ip -d link"),
                Evidence("spoof check", spoof_check, there),
                Evidence("trust", trust, there),
            ),
            why=WHY_FILTERED if is_certain else WHY_MAY_BE_FILTERED,
            fixes=on_peer(pair.physical.name, _allow_fixes(pair)),
        )


WHY_FILTERED = (
    "Their frames are dropped in the NIC, or no reply reaches them. The guest itself is connected, "
    "and its counters show no drops."
)
WHY_MAY_BE_FILTERED = (
    "macvlan asks the PF for its addresses. Where the PF refuses them, because it has set the "
    "address of the VF or allows only a few, no reply reaches them."
)


def _ask_for_their_addresses(links: Sequence[Link]) -> bool:
    """macvlan adds its addresses to the filters of the NIC; a bridge has it receive all."""
    return all(link.kind in FOREIGN_KINDS for link in links)


def _is_mlx5(pair: Pair) -> bool:
    """Its spoof check compares with the address that the PF has set, and nothing else."""
    return link_driver(pair.port) == "mlx5_core"


def _allow_fixes(pair: Pair) -> tuple[Fix, ...]:
    place, port, number = pair.place, pair.port, pair.function.number
    fixes = []
    if pair.function.spoof_check is True:
        title, undo = "Allow other source MAC addresses", ("spoofchk", "on")
        note = "Some NICs do not support this (Operation not supported)."
        fixes.append(
            set_vf_fix(place, title, port, number, "spoofchk", "off", undo=undo, note=note)
        )
    if pair.function.trust is False:
        title, undo = "Allow receiving for other MAC addresses", ("trust", "off")
        note = "Only for guests that you trust."
        fixes.append(set_vf_fix(place, title, port, number, "trust", "on", undo=undo, note=note))
    return tuple(fixes)


def is_filtered(pair: Pair) -> bool:
    """Other MAC addresses are used behind the VF, and the PF filters them."""
    if pair.function.spoof_check is not True and pair.function.trust is not False:
        return False
    foreign = _foreign_links(pair)
    if may_have_any_address(pair.port, pair.function) and _ask_for_their_addresses(foreign):
        return False
    return bool(foreign)


def _foreign_links(pair: Pair) -> list[Link]:
    """Links of the guest that send through the VF with other MAC addresses, and are up."""
    host, link = pair.guest, pair.link
    bridge = host.master_of(link)
    if bridge is not None and bridge.kind == "bridge":
        ports = (port for port in host.ports_of(bridge) if port.ifindex != link.ifindex)
        return list(filter(is_up, ports))
    return [upper for upper in _links_on(pair) if upper.kind in FOREIGN_KINDS]


def _links_on(pair: Pair) -> list[Link]:
    """Links of the guest that are stacked on the VF, and are up."""
    found = []
    for link in pair.guest.links:
        is_on_it = link.lower == pair.link.ifindex and link.lower_namespace is None
        if is_on_it and is_up(link):
            found.append(link)
    return found


@pair_rule("warning")
def vlan_inside_a_port_vlan(hosts: Sequence[HostFacts]) -> Outcomes:
    """A guest uses a VLAN on its VF while the PF already assigns the VF to a VLAN (port VLAN).

    nictop finds a VLAN link on the VF's netdev and a port VLAN (IFLA_VF_VLAN) on the PF. The NIC
    then rejects the guest's tag, or adds its own outside of it: no traffic passes.

    Both sides must be watched. Not reported for an 802.1ad port VLAN, which is intended for stacked
    tags.

    Sources: kernel iavf.rst ("VLAN"), ip-link(8) vf vlan.
    """
    for pair in pairs(hosts):
        vlan = pair.function.vlan
        if not vlan or pair.function.vlan_protocol == "802.1ad":
            continue
        inside = [link for link in _links_on(pair) if link.kind == "vlan"]
        if not inside:
            continue
        first, shown = inside[0].name, ", ".join(map(_vlan_text, inside[:MAX_SHOWN]))
        there = f"ip link show {pair.port.name}: {pair.port_text}"
        remove = command("ip", "link", "del", "dev", first)
        note = (
            "Removes its addresses, too: add them to the link below, and remove the VLAN from the "
            "configuration."
        )
        without = f"Use {pair.link.name} without a VLAN link"
        yield link_finding(
            "warning",
            pair.guest,
            pair.link,
            f"VLAN link {first} conflicts with port VLAN {vlan}",
            evidence=(
                Evidence("VLANs in the guest", shown, "ip -d link"),
                Evidence("port VLAN", str(vlan), there),
            ),
            why="With a port VLAN the guest sends untagged frames and does not receive the tag; "
            "frames that it tags are dropped, or get a second tag.",
            fixes=(
                _without_port_vlan(pair, vlan),
                Fix("here", without, (remove,), False, (), note),
            ),
        )


def _without_port_vlan(pair: Pair, vlan: int) -> Fix:
    title = "Remove the port VLAN: the guest tags frames itself"
    fix = set_vf_fix(
        pair.place,
        title,
        pair.port,
        pair.function.number,
        "vlan",
        "0",
        undo=("vlan", str(vlan)),
        note="The guest can then use every VLAN of the switch port.",
    )
    return on_peer(pair.physical.name, (fix,))[0]


def _vlan_text(link: Link) -> str:
    number = link.details.get("vlan_id")
    return f"{link.name} (VLAN {number})" if number is not None else link.name


@pair_rule("warning")
def vf_mtu_exceeds_the_port(hosts: Sequence[HostFacts]) -> Outcomes:
    """A VF has a larger MTU than its PF: frames larger than the MTU of the PF may be dropped.

    nictop compares the MTU of the VF's netdev with that of the PF. Most drivers let the guest set
    any MTU, but many NICs drop frames for which the PF is not configured.

    Both sides must be watched and both links up.

    Sources: Intel's iavf README ("MTU"), ip-link(8).
    """
    for pair in pairs(hosts):
        link, port = pair.link, pair.port
        if mtu_of(port) is None or link.mtu <= port.mtu:
            continue
        if not is_up(link) or not is_up(port):
            continue
        there = f"ip link show {port.name}: {pair.port_text}"
        yield link_finding(
            "warning",
            pair.guest,
            link,
            f"MTU {link.mtu} exceeds MTU {port.mtu} of its PF",
            evidence=(
                Evidence("MTU of the VF", str(link.mtu), f"ip link show {link.name}"),
                Evidence("MTU of the PF", str(port.mtu), there),
            ),
            why="Many NICs drop frames for which the PF is not configured: small packets pass, "
            "connections are established and then hang.",
            fixes=(*_larger_port_mtu(pair), *mtu_fixes(pair.guest, link, port.mtu)),
        )


def _larger_port_mtu(pair: Pair) -> tuple[Fix, ...]:
    """() if the PF cannot have it."""
    port, size = pair.port, pair.link.mtu
    if not can_have_mtu(port, size):
        return ()
    set_mtu = ("ip", "link", "set", "dev", port.name, "mtu")
    larger, undo = with_undo(set_mtu, str(size), str(port.mtu))
    note = "The switch port of the PF must also support it."
    fix = Fix(pair.place, "Raise the MTU of the PF", (larger,), False, (undo,), note)
    return on_peer(pair.physical.name, (fix,))
