"""Untrusted VFs to which their port delivers no multicast: IPv6 does not work there.

Reads nothing; VF counters of the PF, and the settings of both sides.
"""

from __future__ import annotations

from collections.abc import Sequence

from nictop.model.devices.links import global_addresses
from nictop.model.text import units
from nictop.probe.records import LINK_COUNTERS, VF_COUNTERS, Link
from nictop.rules.finding import Evidence, Fix, on_peer
from nictop.rules.host import HostFacts, link_driver
from nictop.rules.registry import Outcomes, pair_rule
from nictop.rules.subjects import is_up, link_finding
from nictop.rules.vf.facts import Pair, pairs, set_vf_fix

DRIVERS = ("i40e", "ice")
"""Their VFs get only the multicast addresses that they ask for; all of them only if they are
trusted."""
MIN_BROADCAST, MIN_MULTICAST = 20, 100
"""Frames that VF and PF got, before the lack of multicast means anything."""
RECEIVED, BROADCAST, MULTICAST = (
    VF_COUNTERS.index(name) for name in ("rx_packets", "broadcast", "multicast")
)
PORT_MULTICAST = LINK_COUNTERS.index("multicast")


@pair_rule(
    "warning",
    yields_to=("vf_has_no_room_for_more_addresses", "vf_filter_stops_a_bridge"),
    uses=("addresses", "counters.links", "counters.vfs", "ethtool.driver"),
)
def untrusted_vf_receives_no_multicast(hosts: Sequence[HostFacts]) -> Outcomes:
    """No multicast has ever arrived at an untrusted VF, although its port receives some: IPv6
    needs it.

    Neighbour discovery of IPv6 is multicast (solicited-node addresses). A driver or program in the
    guest that asks for all multicast instead of single addresses, such as DPDK, gets none while the
    VF is not trusted. IPv4 works, and nothing is logged.

    nictop compares the VF's counters on the PF (i40e, ice): multicast 0 with 20 broadcast frames or
    more, while the PF counts 100 multicast frames or more and has an IPv6 address from a router
    advertisement, which is sent to all nodes. Both sides must be watched and the guest's link must
    have an IPv6 address. Not reported: VFs in a port VLAN, which the frames of the PF may not be
    in, and trusted VFs.

    Sources: DPDK/grout#404; kernel drivers/net/ethernet/intel/ice/ice_sriov.c (ice_get_vf_stats),
    i40e/i40e_virtchnl_pf.c; ip-link(8) vf trust.
    """
    for pair in pairs(hosts):
        if not _could_have_multicast(pair):
            continue
        counted, port_counted = _received_by_both(pair)
        if len(counted) <= MULTICAST or len(port_counted) <= PORT_MULTICAST:
            continue
        packets, broadcast = counted[RECEIVED], counted[BROADCAST]
        has_traffic = broadcast >= MIN_BROADCAST and port_counted[PORT_MULTICAST] >= MIN_MULTICAST
        if counted[MULTICAST] or not has_traffic:
            continue
        source = f"ip -s link show {pair.port.name}"
        of_vf = f"{units.count(packets)} packets, {units.count(broadcast)} broadcast, no multicast"
        of_port = f"{units.count(port_counted[PORT_MULTICAST])} multicast"
        yield link_finding(
            "warning",
            pair.guest,
            pair.link,
            "untrusted VF: no multicast has arrived, which IPv6 needs",
            evidence=(
                Evidence("trust", "off", f"ip link show {pair.port.name}: {pair.port_text}"),
                Evidence("received by the VF", of_vf, source),
                Evidence(f"received by {pair.port.name}", of_port, source),
            ),
            why="Neighbours of IPv6 are found by multicast. An untrusted VF does not get all "
            "multicast frames, which some drivers and programs ask for.",
            fixes=_fixes(pair),
        )


def _received_by_both(pair: Pair) -> tuple[Sequence[int], Sequence[int]]:
    """(counters of the VF, of the port); (): not known."""
    base = pair.physical.snapshot.vf_base
    if base is None:
        return (), ()
    functions = base.vfs.get(pair.port.ifindex, {})
    return functions.get(pair.function.number, ()), base.links.get(pair.port.ifindex, ())


def _fixes(pair: Pair) -> tuple[Fix, ...]:
    number, note = pair.function.number, "Only for guests that you trust."
    fix = set_vf_fix(
        pair.place,
        "Trust the VF",
        pair.port,
        number,
        "trust",
        "on",
        undo=("trust", "off"),
        note=note,
    )
    return on_peer(pair.physical.name, (fix,))


def _could_have_multicast(pair: Pair) -> bool:
    """The VF is untrusted, in no port VLAN, its link uses IPv6, and routers announce themselves in
    its network."""
    if pair.function.trust is not False or pair.function.vlan:
        return False
    if link_driver(pair.port) not in DRIVERS or not is_up(pair.link):
        return False
    uses_ipv6 = any(address.family == "ipv6" for address in pair.link.addresses)
    return uses_ipv6 and _hears_routers(pair)


def _hears_routers(pair: Pair) -> bool:
    """The PF, or the bridge or bond that it is a port of, has an address with a lifetime."""
    if _has_lifetime(pair.port):
        return True
    above = pair.physical.master_of(pair.port)
    return above is not None and _has_lifetime(above)


def _has_lifetime(link: Link) -> bool:
    """Of an IPv6 address."""
    for address in global_addresses(link, "ipv6"):
        if "permanent" not in address.flags:
            return True
    return False
