"""The other end of a link, usually a port of a switch, by its LLDP or CDP frames."""

from __future__ import annotations

from typing import Literal

from nictop.probe.light_dataclasses import dataclass, field
from nictop.probe.records.unreadable import Unreadable


@dataclass(frozen=True, slots=True)
class LldpNeighbour:
    """What a neighbour announces about itself (IEEE 802.1AB; CDP). Texts are "" if it does not
    announce them."""

    source: Literal["NetworkManager", "networkd", "lldpd", "listened"]
    """Who received it. listened: nictop did, on request."""
    protocol: Literal["LLDP", "CDP"] = "LLDP"
    chassis: str = ""
    """Chassis ID: a MAC address, an IP address or a text. CDP: device ID."""
    port: str = ""
    """Port ID, in the same forms."""
    port_description: str = ""
    system_name: str = ""
    system_description: str = ""
    management_addresses: tuple[str, ...] = ()
    """IPv4 and IPv6."""
    capabilities: tuple[str, ...] = ()
    """Enabled ones: bridge, router, station, … (IEEE 802.1AB table 8-4)."""
    pvid: int | None = None
    """VLAN of frames without a tag: 802.1 Port VLAN ID; CDP: native VLAN. None: not announced, or 0
    (not supported)."""
    vlans: tuple[int, ...] = ()
    """802.1 VLAN Name: VLANs of the port that it announces, maybe not all of them."""
    max_frame: int | None = None
    """Bytes, with Ethernet header and FCS: 802.3 Maximum Frame Size."""
    aggregation: Literal["enabled", "capable", "no"] | None = None
    """Link aggregation of the port: in an aggregation now, able to be, not able. None: not
    announced."""
    aggregation_port: int | None = None
    """ifIndex of the aggregation at the neighbour."""
    ttl: int | None = None
    """Seconds for which a frame is valid."""
    age: float | None = None
    """Seconds since its newest frame, at the time of the inventory or at the end of listening;
    None: not known."""


@dataclass(frozen=True, slots=True)
class LldpListening:
    """What was received while listening for LLDP and CDP on request: new frames only, or the
    end."""

    links: tuple[int, ...]
    """ifindexes on which it listens."""
    heard: dict[int, LldpNeighbour] = field(default_factory=dict)
    """By ifindex."""
    ended: bool = False
    """Every link has had a frame, or the time is over."""
    seconds: float = 0.0
    """Since the start."""
    unreadable: dict[str, Unreadable] = field(default_factory=dict)
    """ifindex as text → why it could not listen there."""
