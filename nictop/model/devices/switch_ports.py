"""Ports of Open vSwitch: by which one a link or a guest is in its network.

Reads nothing. The kernel has all of them below one link (``ovs-system``); the bridge and the VLANs
are those of its database (`Inventory.switch_ports`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from nictop.model.devices.bridges import bridge_of, outer_port, veth_peer
from nictop.model.devices.links import link_at, ports_of
from nictop.probe.kernel.patterns import pattern
from nictop.probe.records import GuestNic, Link, SwitchPort

DATAPATH_KIND = "openvswitch"
"""Kind of the link of a datapath, and of ports that a bridge has for its host."""
REPRESENTOR = pattern(r"(?:c[0-9]{1,5})?pf[0-9]{1,5}vf([0-9]{1,5})")
MODES_WITH_TAG = ("native-tagged", "native-untagged")


class SwitchPorts:
    """Those of one host."""

    def __init__(self, ports: Iterable[SwitchPort], links: Mapping[int, Link]) -> None:
        self._links = links
        self._by_name: dict[str, SwitchPort] = {}
        self._by_path: dict[str, SwitchPort] = {}
        for port in ports:
            self._by_name.setdefault(port.name, port)
            if port.path:
                self._by_path.setdefault(_short(port.path), port)

    def of_link(self, link: Link) -> SwitchPort | None:
        """The port that a link itself is."""
        return self._by_name.get(link.name)

    def outer(self, link: Link) -> SwitchPort | None:
        """The port by which a link is in its network: itself, or the one behind inner bridges, as
        that of Proxmox's firewall (tap, fwbr101i0, fwln101o0) and of OpenStack's hybrid plug (tap,
        qbr…, qvb…, qvo…)."""
        own = self.of_link(link)
        if own is not None or not self._by_name:
            return own
        found = outer_port(link, self._links)
        return self._behind(*found) if found is not None else None

    def _behind(self, port: Link, bridge: Link) -> SwitchPort | None:
        """The only other port of an inner bridge, or the other end of its veth."""
        others = [one for one in ports_of(bridge, self._links) if one.ifindex != port.ifindex]
        if len(others) != 1:
            return None
        own = self.of_link(others[0])
        peer = veth_peer(others[0], self._links)
        return self.of_link(peer) if own is None and peer is not None else own

    def of_guest_nic(self, nic: GuestNic) -> SwitchPort | None:
        """By its link, or by the socket of vhost-user."""
        link = link_at(nic.link, self._links)
        if link is not None:
            return self.outer(link)
        return self._by_path.get(_short(nic.target)) if nic.backend == "vhost-user" else None


def _short(path: str) -> str:
    """/var/run is a link to /run."""
    return path[len("/var") :] if path.startswith("/var/run/") else path


def representor_of(port: Link, number: int, links: Mapping[int, Link]) -> Link | None:
    """The netdev that stands for VF `number` of a physical function on its host (switchdev mode):
    phys_port_name ``pf0vf3``, with the switch and the device of the PF. None: none, or several."""
    found = []
    for link in links.values():
        match = REPRESENTOR.fullmatch(link.physical_port or "")
        is_of_port = link.switch_id is not None and link.switch_id == port.switch_id
        if match is None or not is_of_port or int(match[1]) != number:
            continue
        if link.pci_address in (None, port.pci_address):
            found.append(link)
    return found[0] if len(found) == 1 else None


def is_on_datapath(link: Link, links: Mapping[int, Link]) -> bool:
    """It is a port of a bridge of Open vSwitch, by the kernel."""
    above = link_at(link.master, links)
    return above is not None and above.kind == DATAPATH_KIND


def leads_to_datapath(link: Link, links: Mapping[int, Link]) -> bool:
    """Itself, or a port of the bridge that it is on."""
    if is_on_datapath(link, links):
        return True
    bridge = bridge_of(link, links)
    others = ports_of(bridge, links) if bridge is not None else ()
    ends = [end for port in others for end in (port, veth_peer(port, links)) if end is not None]
    return any(end.kind == DATAPATH_KIND or is_on_datapath(end, links) for end in ends)


def switch_vlans(port: SwitchPort) -> str:
    """``30``, ``native 10 · tagged 20, 30-40``, ``tagged 20``; "": all pass."""
    tagged = f"tagged {port.trunks}" if port.trunks else ""
    if port.mode == "trunk" or port.tag is None:
        return tagged
    if port.mode in MODES_WITH_TAG:
        return " · ".join(filter(None, (f"native {port.tag}", tagged)))
    return f"tunnel {port.tag}" if port.mode == "dot1q-tunnel" else str(port.tag)


def switch_port_text(port: SwitchPort) -> str:
    """``OVS bridge br-int, VLAN 30``"""
    return ", ".join(filter(None, (f"OVS bridge {port.bridge}", named_vlans(port))))


def named_vlans(port: SwitchPort) -> str:
    """``VLAN 30``, else as `switch_vlans`."""
    vlans = switch_vlans(port)
    return f"VLAN {vlans}" if vlans.isdigit() else vlans
