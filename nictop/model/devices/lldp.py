"""The port of the switch that a netdev is connected to, as far as LLDP or CDP says, and why it is
not known.

Reads nothing; takes links and the newest snapshot of their host.
"""

from __future__ import annotations

from dataclasses import fields
from typing import Literal

from nictop.model.devices.links import ethtool_driver, is_into_namespace
from nictop.model.devices.virtual_functions import is_virtual_function
from nictop.model.managers.link_managers import is_only_described
from nictop.model.parts import managed_devices, network_manager, unreadable_sources
from nictop.model.per_inventory import functions_of_inventory, profiles_of_inventory
from nictop.model.snapshot import ARPHRD_ETHER, Snapshot
from nictop.model.text.words import IFF_UP, absence_reason
from nictop.probe.light_dataclasses import dataclass
from nictop.probe.records import Link, LldpNeighbour, ManagedDevice, Profile, Unreadable
from nictop.probe.traffic.requests import MAX_LLDP_LINKS

FORWARDING_CAPABILITIES = frozenset(
    ("bridge", "router", "repeater", "C-VLAN", "S-VLAN", "TPMR", "WLAN access point")
)
"""Capabilities of what forwards frames; other neighbours are hosts."""
VIRTUAL_BUSES = ("virtio", "vmbus", "xen")
VIRTUAL_DRIVERS = ("vmxnet3", "ena", "gve", "mana")
FIRMWARE_FLAGS = {"i40e": ("disable-fw-lldp", True), "ice": ("fw-lldp-agent", False)}
"""Driver → private flag, and its value with which the firmware passes LLDP frames to the host."""
AGGREGATION_TEXTS = {"enabled": "enabled", "capable": "not enabled", "no": "not supported"}
LLDP_GROUP_BIT = 1 << 14
"""Of 01:80:c2:00:00:0e in group_fwd_mask of a bridge."""

ReasonKind = Literal["down", "vf", "firmware", "virtual", "rights", "silent", "off"]


@dataclass(frozen=True)
class NoNeighbour:
    """Why no neighbour of a netdev is known."""

    kind: ReasonKind
    """off: nobody receives. silent: somebody does, and nothing came."""
    text: str


NO_LINK = NoNeighbour("down", "no link")
IS_VF = NoNeighbour("vf", "VF: LLDP frames reach the PF only")
IS_VIRTUAL = NoNeighbour("virtual", "virtual switches do not forward LLDP unless configured")
NO_SERVICE = NoNeighbour("off", "no service receives LLDP; nictop show --lldp listens")


def neighbours(link: Link, snapshot: Snapshot) -> tuple[LldpNeighbour, ...]:
    """Every neighbour of a netdev, once: of equal ones, that with most values."""
    known: list[LldpNeighbour] = []
    if snapshot.inventory is not None:
        known += snapshot.inventory.lldp.get(link.ifindex, ())
    device = _device(link, snapshot)
    if device is not None:
        known += device.lldp
    heard = snapshot.listened.get(link.ifindex)
    if isinstance(heard, LldpNeighbour):
        known.append(heard)
    if not known:
        return ()
    best: dict[tuple[str, str, str], LldpNeighbour] = {}
    for neighbour in known:
        key = (neighbour.protocol, neighbour.chassis, neighbour.port)
        if key not in best or _number_of_values(neighbour) > _number_of_values(best[key]):
            best[key] = neighbour
    return tuple(best.values())


def _number_of_values(neighbour: LldpNeighbour) -> int:
    return sum(getattr(neighbour, field.name) not in ("", (), None) for field in fields(neighbour))


def switch_port(link: Link, snapshot: Snapshot) -> LldpNeighbour | None:
    """The port that a netdev is connected to; None: not known, not that of a switch, or several (a
    hub, or a switch that forwards LLDP)."""
    found = neighbours(link, snapshot)
    if not found:
        return None
    by_lldp = [neighbour for neighbour in found if neighbour.protocol == "LLDP"]
    if len({neighbour.chassis for neighbour in by_lldp}) > 1:
        return None
    for neighbour in (*by_lldp, *found):
        forwards = FORWARDING_CAPABILITIES.intersection(neighbour.capabilities)
        if forwards or neighbour.protocol == "CDP":
            return neighbour
    return None


def switch_ports(snapshot: Snapshot) -> dict[int, LldpNeighbour]:
    """`switch_port` of every netdev that has one, by ifindex."""
    found = {}
    for ifindex in sorted(_links_with_neighbours(snapshot)):
        link = snapshot.links.get(ifindex)
        if link is None:
            continue
        port = switch_port(link, snapshot)
        if port is not None:
            found[ifindex] = port
    return found


def _links_with_neighbours(snapshot: Snapshot) -> set[int]:
    """ifindexes, by all sources."""
    known = set[int]()
    if snapshot.inventory is not None:
        known.update(snapshot.inventory.lldp)
    for ifindex, device in managed_devices(network_manager(snapshot)).items():
        if device.lldp:
            known.add(ifindex)
    for ifindex, heard in snapshot.listened.items():
        if isinstance(heard, LldpNeighbour):
            known.add(ifindex)
    return known


def may_have_switch(link: Link) -> bool:
    """A netdev with a device, or a veth whose peer is in another network namespace: not a port of a
    bridge of this host, which leads to a container."""
    if link.type != ARPHRD_ETHER:
        return False
    if link.device is not None:
        return True
    is_port_of_bridge = link.master is not None and link.bond_port is None
    return is_into_namespace(link) and not is_port_of_bridge


def listening_links(snapshot: Snapshot) -> tuple[int, ...]:
    """ifindexes of the netdevs to listen on: those with a carrier that may have a switch."""
    found = []
    for link in snapshot.links.values():
        if may_have_switch(link) and has_carrier(link):
            found.append(link.ifindex)
    return tuple(sorted(found)[:MAX_LLDP_LINKS])


def has_carrier(link: Link) -> bool:
    return bool(link.flags & IFF_UP) and link.carrier is not False


def firmware_flag(link: Link) -> tuple[str, bool] | None:
    """Private flag that makes the firmware keep LLDP frames, and the value with which it passes
    them on; None: it passes them on, or that is not known."""
    flag, passes = FIRMWARE_FLAGS.get(_driver(link), ("", False))
    value = (link.ethtool.private_flags or {}).get(flag)
    if value is None or value == passes:
        return None
    return flag, passes


def _driver(link: Link) -> str:
    return ethtool_driver(link) or ""


def is_virtual_nic(link: Link) -> bool:
    """A NIC of a guest that a hypervisor emulates, or a veth: connected to a virtual switch."""
    if link.kind == "veth" or link.bus in VIRTUAL_BUSES:
        return True
    return _driver(link) in VIRTUAL_DRIVERS


def lldp_profile(link: Link, snapshot: Snapshot) -> Profile | None:
    """Profile of NetworkManager that decides whether LLDP is received; None: it does not manage the
    netdev."""
    inventory, device = snapshot.inventory, _device(link, snapshot)
    if inventory is None or device is None:
        return None
    if not device.managed or not device.active_profile:
        return None
    profile = profiles_of_inventory(inventory).get(device.active_profile)
    if is_only_described(device, profile):
        return None
    return profile


def receivers(link: Link, snapshot: Snapshot) -> tuple[str, ...]:
    """Services that receive LLDP on a netdev."""
    inventory = snapshot.inventory
    if inventory is None:
        return ()
    found = []
    if inventory.services.lldpd is not None:
        found.append("lldpd")
    profile = lldp_profile(link, snapshot)
    if profile is not None and profile.lldp == 1:
        found.append("NetworkManager")
    network = inventory.networkd.get(link.ifindex)
    is_by_networkd = network is not None and network.setup_state not in ("unmanaged", "")
    if is_by_networkd and inventory.services.networkd is not None:
        found.append("systemd-networkd")
    return tuple(found)


def why_no_neighbour(link: Link, snapshot: Snapshot) -> NoNeighbour:
    """For a netdev that `may_have_switch`, without neighbours."""
    obstacle = _obstacle(link, snapshot)
    if obstacle is not None:
        return obstacle
    heard = snapshot.listened.get(link.ifindex)
    if isinstance(heard, Unreadable):
        return _not_received(heard, f"cannot listen: {absence_reason(heard, None)}")
    is_silent = link.ifindex in snapshot.listened
    if is_virtual_nic(link):
        if is_silent:
            return NoNeighbour("virtual", f"nothing received; {IS_VIRTUAL.text}")
        return IS_VIRTUAL
    services = receivers(link, snapshot)
    if is_silent or services:
        return NoNeighbour("silent", f"nothing received by {', '.join(services) or 'listening'}")
    why = unreadable_sources(snapshot).get("lldp")
    if why is not None:
        return _not_received(why, absence_reason(why, None))
    return NO_SERVICE


def _obstacle(link: Link, snapshot: Snapshot) -> NoNeighbour | None:
    """Why no frame of a neighbour comes to the host, whoever receives; None: it may."""
    if not has_carrier(link):
        return NO_LINK
    if snapshot.inventory is not None and is_virtual_function(
        link, functions_of_inventory(snapshot.inventory)
    ):
        return IS_VF
    flag = firmware_flag(link)
    if flag is not None:
        return NoNeighbour("firmware", f"the firmware keeps LLDP frames (private flag {flag[0]})")
    return None


def _not_received(why: Unreadable, text: str) -> NoNeighbour:
    if why.reason == "needs_root":
        return NoNeighbour("rights", text)
    return NoNeighbour("off", text)


def _device(link: Link, snapshot: Snapshot) -> ManagedDevice | None:
    return managed_devices(network_manager(snapshot)).get(link.ifindex)
