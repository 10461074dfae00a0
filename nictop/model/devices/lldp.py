"""The port of the switch that a netdev is connected to, as far as LLDP or CDP says, and why it is not known.

Reads nothing; takes links and the newest snapshot of their host.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Literal

from nictop.model.devices.virtual_functions import is_virtual_function
from nictop.model.snapshot import ARPHRD_ETHER, Snapshot
from nictop.model.text.words import IFF_UP, absence_reason
from nictop.probe.records import Link, LldpNeighbour, ManagedDevice, Profile, Unreadable
from nictop.probe.traffic.requests import MAX_LLDP_LINKS

FORWARDING_CAPABILITIES = frozenset(("bridge", "router", "repeater", "C-VLAN", "S-VLAN", "TPMR", "WLAN access point"))
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


def neighbours(link: Link, snapshot: Snapshot) -> tuple[LldpNeighbour, ...]:
    """Every neighbour of a netdev, once: of equal ones, that with most values."""
    inventory = snapshot.inventory
    known: list[LldpNeighbour] = []
    if inventory is not None:
        known += inventory.lldp.get(link.ifindex, ())
        device = _device(link, snapshot)
        known += device.lldp if device is not None else ()
    heard = snapshot.listened.get(link.ifindex)
    known += (heard,) if isinstance(heard, LldpNeighbour) else ()
    best: dict[tuple[str, str, str], LldpNeighbour] = {}
    for one in known:
        key = (one.protocol, one.chassis, one.port)
        if key not in best or _number_of_values(one) > _number_of_values(best[key]):
            best[key] = one
    return tuple(best.values())


def _number_of_values(neighbour: LldpNeighbour) -> int:
    return sum(getattr(neighbour, field.name) not in ("", (), None) for field in fields(neighbour))


def switch_port(link: Link, snapshot: Snapshot) -> LldpNeighbour | None:
    """The port that a netdev is connected to; None: not known, not that of a switch, or several (a hub, or a switch
    that forwards LLDP)."""
    found = neighbours(link, snapshot)
    if len({one.chassis for one in found if one.protocol == "LLDP"}) > 1:
        return None
    switches = [one for one in found if one.protocol == "CDP" or FORWARDING_CAPABILITIES.intersection(one.capabilities)]
    return next((one for one in switches if one.protocol == "LLDP"), next(iter(switches), None))


def switch_ports(snapshot: Snapshot) -> dict[int, LldpNeighbour]:
    """`switch_port` of every netdev that has one, by ifindex."""
    inventory = snapshot.inventory
    manager = inventory.networkmanager if inventory is not None else None
    known = set(inventory.lldp) if inventory is not None else set()
    known |= {ifindex for ifindex, device in (manager.devices if manager is not None else {}).items() if device.lldp}
    known |= {ifindex for ifindex, heard in snapshot.listened.items() if isinstance(heard, LldpNeighbour)}
    found = {}
    for ifindex in sorted(known):
        link = snapshot.links.get(ifindex)
        port = switch_port(link, snapshot) if link is not None else None
        if port is not None:
            found[ifindex] = port
    return found


def may_have_switch(link: Link) -> bool:
    """A netdev with a device, or a veth whose peer is in another network namespace: not a port of a bridge of this
    host, which leads to a container."""
    if link.type != ARPHRD_ETHER:
        return False
    leads_out = link.kind == "veth" and link.lower_namespace is not None
    return link.device is not None or (leads_out and (link.master is None or link.bond_port is not None))


def listening_links(snapshot: Snapshot) -> tuple[int, ...]:
    """ifindexes of the netdevs to listen on: those with a carrier that may have a switch."""
    links = (link for link in snapshot.links.values() if may_have_switch(link) and has_carrier(link))
    return tuple(sorted(link.ifindex for link in links))[:MAX_LLDP_LINKS]


def has_carrier(link: Link) -> bool:
    return bool(link.flags & IFF_UP) and link.carrier is not False


def firmware_flag(link: Link) -> tuple[str, bool] | None:
    """Private flag that makes the firmware keep LLDP frames, and the value with which it passes them on; None: it
    passes them on, or that is not known."""
    driver = link.ethtool.driver.driver if link.ethtool.driver is not None else ""
    flag, passes = FIRMWARE_FLAGS.get(driver, ("", False))
    value = (link.ethtool.private_flags or {}).get(flag)
    return None if value is None or value == passes else (flag, passes)


def is_virtual_nic(link: Link) -> bool:
    """A NIC of a guest that a hypervisor emulates, or a veth: connected to a virtual switch."""
    driver = link.ethtool.driver.driver if link.ethtool.driver is not None else ""
    return link.kind == "veth" or link.bus in VIRTUAL_BUSES or driver in VIRTUAL_DRIVERS


def lldp_profile(link: Link, snapshot: Snapshot) -> Profile | None:
    """Profile of NetworkManager that decides whether LLDP is received; None: it does not manage the netdev."""
    manager = snapshot.inventory.networkmanager if snapshot.inventory is not None else None
    device = _device(link, snapshot)
    if manager is None or device is None or not device.managed or not device.active_profile:
        return None
    profile = next((one for one in manager.profiles if one.uuid == device.active_profile), None)
    return None if profile is None or profile.external else profile


def receivers(link: Link, snapshot: Snapshot) -> tuple[str, ...]:
    """Services that receive LLDP on a netdev."""
    inventory = snapshot.inventory
    if inventory is None:
        return ()
    found = ["lldpd"] if inventory.services.lldpd is not None else []
    profile = lldp_profile(link, snapshot)
    if profile is not None and profile.lldp == 1:
        found.append("NetworkManager")
    network = inventory.networkd.get(link.ifindex) if inventory.services.networkd is not None else None
    if network is not None and network.setup_state not in ("unmanaged", ""):
        found.append("systemd-networkd")
    return tuple(found)


def why_no_neighbour(link: Link, snapshot: Snapshot) -> NoNeighbour:
    """For a netdev that `may_have_switch`, without neighbours."""
    functions = {function.address: function for function in snapshot.pci}
    inventory, heard = snapshot.inventory, snapshot.listened.get(link.ifindex)
    flag = firmware_flag(link)
    if not has_carrier(link):
        return NoNeighbour("down", "no link")
    if is_virtual_function(link, functions):
        return NoNeighbour("vf", "VF: LLDP frames reach the PF only")
    if flag is not None:
        return NoNeighbour("firmware", f"the firmware keeps LLDP frames (private flag {flag[0]})")
    if isinstance(heard, Unreadable):
        kind: ReasonKind = "rights" if heard.reason == "needs_root" else "off"
        return NoNeighbour(kind, f"cannot listen: {absence_reason(heard, None)}")
    is_silent = link.ifindex in snapshot.listened
    if is_virtual_nic(link):
        text = "virtual switches do not forward LLDP unless configured"
        return NoNeighbour("virtual", f"nothing received; {text}" if is_silent else text)
    services = receivers(link, snapshot)
    if is_silent or services:
        return NoNeighbour("silent", f"nothing received by {', '.join(services) or 'listening'}")
    why = inventory.unreadable.get("lldp") if inventory is not None else None
    if why is not None:
        return NoNeighbour("rights" if why.reason == "needs_root" else "off", absence_reason(why, None))
    return NoNeighbour("off", "no service receives LLDP; nictop show --lldp listens")


def _device(link: Link, snapshot: Snapshot) -> ManagedDevice | None:
    manager = snapshot.inventory.networkmanager if snapshot.inventory is not None else None
    return manager.devices.get(link.ifindex) if manager is not None else None
