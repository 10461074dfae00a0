"""LLDP neighbours of a device of NetworkManager: property LldpNeighbors → `LldpNeighbour`. Pure.

The property is part of the reply to GetManagedObjects. NetworkManager receives only with
``connection.lldp`` enable-rx. Since 1.34 each neighbour has the frame itself ("raw"); before, some
of its values by name.
"""

from __future__ import annotations

import socket
from typing import Any

from nictop.probe.inventory.lldp.frames import (
    CHASSIS_MAC,
    MAX_ADDRESSES,
    MAX_VLANS,
    PORT_MAC,
    parse_frame,
)
from nictop.probe.records import LldpNeighbour

MAX_NEIGHBOURS = 8
"""Of one NIC; several mean a hub, or a switch that forwards LLDP."""


def parse_neighbours(value: object) -> tuple[LldpNeighbour, ...]:
    """`value`: the property without D-Bus types; what is malformed is left out."""
    found = map(parse_neighbour, _parts(value)[:MAX_NEIGHBOURS])
    return tuple(neighbour for neighbour in found if neighbour is not None)


def _parts(value: object) -> list[dict[str, Any]]:
    if not isinstance(value, list):
        return []
    return [part for part in value if isinstance(part, dict)]


def parse_neighbour(part: dict[str, Any]) -> LldpNeighbour | None:
    """One neighbour; None without chassis and port."""
    raw = part.get("raw")
    if isinstance(raw, bytes):
        neighbour = parse_frame(raw, "NetworkManager")
        if neighbour is not None:
            return neighbour
    chassis, port = _text(part, "chassis-id"), _text(part, "port-id")
    if not chassis or not port:
        return None
    if part.get("chassis-id-type") == CHASSIS_MAC:
        chassis = chassis.lower()
    if part.get("port-id-type") == PORT_MAC:
        port = port.lower()
    return LldpNeighbour(
        "NetworkManager",
        chassis=chassis,
        port=port,
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
    if not isinstance(value, str):
        return ""
    return value


def _number(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        return 0
    return value


def _vlan(value: object) -> int | None:
    number = _number(value)
    if not 0 < number < 4095:
        return None
    return number


def _addresses(value: object) -> list[str]:
    families = {4: socket.AF_INET, 16: socket.AF_INET6}
    found = []
    for part in _parts(value):
        address = part.get("address")
        if isinstance(address, bytes) and len(address) in families:
            found.append(socket.inet_ntop(families[len(address)], address))
    return found


def _vlans(value: object) -> list[int]:
    found = {_vlan(part.get("vid")) for part in _parts(value)}
    return sorted(vlan for vlan in found if vlan is not None)
