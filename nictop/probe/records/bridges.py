"""Ports of bridges: settings and VLANs."""

from __future__ import annotations

from nictop.probe.light_dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class BridgePort:
    """Settings of a port of a bridge. RTM_GETLINK: IFLA_INFO_SLAVE_DATA (IFLA_BRPORT_*)."""

    state: str
    """disabled, listening, learning, forwarding or blocking (BR_STATE_*). In a `Snapshot` also "":
    the carrier of the port has changed since the inventory, or its bridge was set up or down."""
    cost: int | None = None
    """STP path cost."""
    designated_bridge: str | None = None
    """MAC address of the bridge that STP has chosen for the segment of this port; its own: this
    bridge."""
    hairpin: bool = False
    """Frames may leave by the port that they came from. IFLA_BRPORT_MODE"""
    guard: bool = False
    """BPDU guard: a BPDU disables the port."""
    learning: bool = True
    flood: bool = True
    """Frames to unknown unicast addresses leave by this port."""
    isolated: bool = False
    """No frames to and from other isolated ports."""
    neigh_suppress: bool = False
    """ARP and ND requests are answered by the bridge."""
    locked: bool = False
    """Only frames from known source addresses are accepted."""
    bcast_flood: bool = True
    """Broadcasts leave by this port. IFLA_BRPORT_BCAST_FLOOD"""


@dataclass(frozen=True, slots=True)
class SwitchPort:
    """A port of a bridge of Open vSwitch, as its database has it: tables Bridge, Port and Interface
    (vswitchd/vswitch.ovsschema)."""

    name: str
    """Of the interface: a link of this host, if it has one."""
    bridge: str
    tag: int | None = None
    """VLAN ID; None: none."""
    trunks: str = ""
    """VLAN IDs that pass with a tag: ``20, 30-40``, ``…`` after the first 64 ranges; "": all."""
    mode: str = ""
    """access, trunk, native-tagged, native-untagged, dot1q-tunnel; "": access with a tag, trunk
    without one."""
    path: str = ""
    """Socket of vhost-user; "": it has none."""


@dataclass(frozen=True, slots=True)
class BridgeVlan:
    """VLANs of a port or of the bridge itself. RTM_GETLINK with AF_BRIDGE: struct
    bridge_vlan_info"""

    first: int
    last: int
    """IDs from `first` to `last`; equal for a single VLAN."""
    pvid: bool = False
    """The VLAN of received frames without a tag."""
    untagged: bool = False
    """Frames leave without a tag."""
