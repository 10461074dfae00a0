"""Untrusted VFs to which their port delivers no multicast: IPv6 does not work there.

Reads nothing; VF counters of the PF, and the settings of both sides.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from nictop.model.text import units
from nictop.probe.records import LINK_COUNTERS, VF_COUNTERS
from nictop.rules.finding import Evidence, Fix, on_peer
from nictop.rules.host import HostFacts, link_driver
from nictop.rules.registry import Outcomes, pair_rule
from nictop.rules.subjects import link_finding
from nictop.rules.vf.facts import Pair, is_up, pairs, set_vf_fix

FAMILY: Final = "VF attributes and path"
DRIVERS = ("i40e", "ice")
"""Their VFs get only the multicast addresses that they ask for; all of them only if they are trusted."""
MIN_BROADCAST, MIN_MULTICAST = 20, 100
"""Frames that VF and PF got, before the lack of multicast means anything."""
RECEIVED, BROADCAST, MULTICAST = (VF_COUNTERS.index(one) for one in ("rx_packets", "broadcast", "multicast"))
PORT_MULTICAST = LINK_COUNTERS.index("multicast")


@pair_rule(
    FAMILY,
    "warning",
    yields_to=("vf_has_no_room_for_more_addresses", "vf_filter_stops_a_bridge"),
    uses=("addresses", "counters.links", "counters.vfs", "ethtool.driver"),
)
def untrusted_vf_receives_no_multicast(hosts: Sequence[HostFacts]) -> Outcomes:
    """No multicast has ever arrived at an untrusted VF, although its port receives some: IPv6 cannot work on it.

    Neighbour discovery of IPv6 is multicast (solicited-node addresses). A driver or program in the guest that asks for
    all multicast instead of single addresses, such as DPDK, gets none while the VF is not trusted. IPv4 works, and
    nothing is logged.

    nictop compares the VF's counters on the PF (i40e, ice): multicast 0 with 20 broadcast frames or more, while the PF
    counts 100 multicast frames or more and has an IPv6 address from a router advertisement, which is sent to all nodes.
    Both sides must be watched and the guest's link must have an IPv6 address. Not reported: VFs in a port VLAN, which
    the frames of the PF may not be in, and trusted VFs.

    Sources: DPDK/grout#404; kernel drivers/net/ethernet/intel/ice/ice_sriov.c (ice_get_vf_stats),
    i40e/i40e_virtchnl_pf.c; ip-link(8) vf trust.
    """
    for pair in pairs(hosts):
        if not _could_have_multicast(pair):
            continue
        base = pair.physical.snapshot.vf_base
        counted = base.vfs.get(pair.port.ifindex, {}).get(pair.function.number) if base is not None else None
        port = base.links.get(pair.port.ifindex, ()) if base is not None else ()
        if counted is None or len(counted) <= MULTICAST or len(port) <= PORT_MULTICAST:
            continue
        if counted[MULTICAST] or counted[BROADCAST] < MIN_BROADCAST or port[PORT_MULTICAST] < MIN_MULTICAST:
            continue
        yield link_finding(
            "warning",
            pair.guest,
            pair.link,
            "untrusted VF: no multicast has arrived, IPv6 cannot work",
            evidence=(
                Evidence("trust", "off", f"ip link show {pair.port.name}: {pair.port_text}"),
                Evidence(
                    "received by the VF",
                    f"{units.count(counted[RECEIVED])} packets, {units.count(counted[BROADCAST])} broadcast, "
                    "no multicast",
                    f"ip -s link show {pair.port.name}",
                ),
                Evidence(
                    f"received by {pair.port.name}",
                    f"{units.count(port[PORT_MULTICAST])} multicast",
                    f"ip -s link show {pair.port.name}",
                ),
            ),
            why="Neighbours of IPv6 are found by multicast. An untrusted VF does not get all multicast frames, which "
            "some drivers and programs ask for.",
            fixes=_fixes(pair),
        )


def _fixes(pair: Pair) -> tuple[Fix, ...]:
    number, note = pair.function.number, "Only for guests that you trust."
    fix = set_vf_fix(pair.place, "Trust the VF", pair.port, number, "trust", "on", undo=("trust", "off"), note=note)
    return on_peer(pair.physical.name, (fix,))


def _could_have_multicast(pair: Pair) -> bool:
    """The VF is untrusted, in no port VLAN, its link uses IPv6, and routers announce themselves in its network."""
    if not _hears_routers(pair):
        return False
    is_closed = pair.function.trust is False and not pair.function.vlan and link_driver(pair.port) in DRIVERS
    return is_closed and is_up(pair.link) and any(one.family == "ipv6" for one in pair.link.addresses)


def _hears_routers(pair: Pair) -> bool:
    """The PF, or the bridge or bond that it is a port of, has an address with a lifetime."""
    host, port = pair.physical, pair.port
    above = host.snapshot.links.get(port.master) if port.master is not None else None
    links = (port,) if above is None else (port, above)
    addresses = [one for link in links for one in link.addresses if one.family == "ipv6" and one.scope == "global"]
    return any("permanent" not in one.flags for one in addresses)
