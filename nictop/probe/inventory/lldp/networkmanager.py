"""LLDP neighbours of a device of NetworkManager: property LldpNeighbors → `LldpNeighbour`. Pure.

The property is part of the reply to GetManagedObjects. NetworkManager receives only with ``connection.lldp``
enable-rx. Since 1.34 each neighbour has the frame itself ("raw"); before, some of its values by name.
"""

from __future__ import annotations

import socket
from typing import Any

from nictop.probe.inventory.lldp.frames import MAX_ADDRESSES, MAX_VLANS, parse_frame
from nictop.probe.records import LldpNeighbour

MAX_NEIGHBOURS = 8
"""Of one NIC; several mean a hub, or a switch that forwards LLDP."""


def parse_neighbours(value: object) -> tuple[LldpNeighbour, ...]:
    """`value`: the property without D-Bus types; what is malformed is left out."""
    parts = value if isinstance(value, list) else []
    found = [parse_neighbour(part) for part in parts[:MAX_NEIGHBOURS] if isinstance(part, dict)]
    return tuple(one for one in found if one is not None)


def parse_neighbour(part: dict[str, Any]) -> LldpNeighbour | None:
    """One neighbour; None without chassis and port."""
    raw = part.get("raw")
    neighbour = parse_frame(raw, "NetworkManager") if isinstance(raw, bytes) else None
    chassis, port = _text(part, "chassis-id"), _text(part, "port-id")
    if neighbour is not None or not chassis or not port:
        return neighbour
    return LldpNeighbour(
        "NetworkManager",
        chassis=chassis.lower() if part.get("chassis-id-type") == 4 else chassis,
        port=port.lower() if part.get("port-id-type") == 3 else port,
        port_description=_text(part, "port-description"),
        system_name=_text(part, "system-name"),
        system_description=_text(part, "system-description"),
        management_addresses=tuple(_addresses(part.get("management-addresses")))[:MAX_ADDRESSES],
        pvid=_vlan(part.get("ieee-802-1-pvid")),
        vlans=tuple(_vlans(part.get("ieee-802-1-vlans")))[:MAX_VLANS],
        max_frame=_number(part.get("ieee-802-3-max-frame-size")) or None,
    )


def _text(part: dict[str, Any], key: str) -> str:
    value = part.get(key)
    return value if isinstance(value, str) else ""


def _number(value: object) -> int:
    return value if type(value) is int else 0


def _vlan(value: object) -> int | None:
    return _number(value) if 0 < _number(value) < 4095 else None


def _addresses(value: object) -> list[str]:
    parts = [one.get("address") for one in value if isinstance(one, dict)] if isinstance(value, list) else []
    families = {4: socket.AF_INET, 16: socket.AF_INET6}
    return [
        socket.inet_ntop(families[len(one)], one) for one in parts if isinstance(one, bytes) and len(one) in families
    ]


def _vlans(value: object) -> list[int]:
    parts = [_vlan(one.get("vid")) for one in value if isinstance(one, dict)] if isinstance(value, list) else []
    return sorted({one for one in parts if one is not None})
