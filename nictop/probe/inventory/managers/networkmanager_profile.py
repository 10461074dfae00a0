"""One connection profile of NetworkManager: D-Bus settings → `Profile`. Pure.

Input: the reply to GetSettings and the properties of
org.freedesktop.NetworkManager.Settings.Connection without D-Bus types (nm-settings-dbus(5)); a
value of another type than documented counts as not set.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from nictop.probe.records import IpSettings, Profile, Unreadable

UNSAVED, GENERATED, VOLATILE, EXTERNAL = 0x1, 0x2, 0x4, 0x8
"""NMSettingsConnectionFlags."""
MAC_BYTES = (6, 8, 20)
"""Length of an address: Ethernet, EUI-64, InfiniBand."""

Part = dict[str, Any]
Settings = dict[str, Part]
"""Setting → property → value."""


def parse_profile(
    path: str, properties: Part, settings: Settings, unreadable: dict[str, Unreadable]
) -> Profile:
    """`properties`: of the object at `path`. `unreadable`: why the settings could not be read, or
    {}."""
    connection = settings.get("connection", {})
    kind = text(connection, "type") or ""
    hardware = settings.get(kind, {})
    match, vlan, sriov = settings.get("match", {}), settings.get("vlan", {}), settings.get("sriov")
    flags = number(properties, "Flags")
    denylist = texts(hardware, "mac-address-denylist") or texts(hardware, "mac-address-blacklist")
    return Profile(
        path=path,
        uuid=text(connection, "uuid") or "",
        id=text(connection, "id") or "",
        type=kind,
        filename=text(properties, "Filename"),
        unsaved=properties.get("Unsaved") is True or bool(flags & UNSAVED),
        generated=bool(flags & GENERATED),
        volatile=bool(flags & VOLATILE),
        external=bool(flags & EXTERNAL),
        nm_generated_default=flags & (GENERATED | VOLATILE | EXTERNAL) == GENERATED,
        interface_name=text(connection, "interface-name"),
        mac_address=mac_address(hardware.get("mac-address")),
        mac_address_denylist=tuple(address.lower() for address in denylist),
        cloned_mac_address=text(hardware, "assigned-mac-address")
        or mac_address(hardware.get("cloned-mac-address")),
        mtu=number(hardware, "mtu") or None,
        match_interface_names=texts(match, "interface-name"),
        match_drivers=texts(match, "driver"),
        match_paths=texts(match, "path"),
        match_kernel_command_line=texts(match, "kernel-command-line"),
        autoconnect=connection.get("autoconnect") is not False,
        autoconnect_priority=number(connection, "autoconnect-priority"),
        autoconnect_retries=number(connection, "autoconnect-retries", -1),
        multi_connect=number(connection, "multi-connect"),
        timestamp=number(connection, "timestamp"),
        permissions=tuple(users(texts(connection, "permissions"))),
        controller=text(connection, "controller") or text(connection, "master"),
        port_type=text(connection, "port-type") or text(connection, "slave-type"),
        ipv4=parse_ip(settings.get("ipv4", {})),
        ipv6=parse_ip(settings.get("ipv6", {})),
        vlan_id=number(vlan, "id") if vlan or kind == "vlan" else None,
        vlan_parent=text(vlan, "parent"),
        sriov_total_vfs=None if sriov is None else number(sriov, "total-vfs"),
        ethtool=ethtool_settings(settings.get("ethtool", {})),
        unreadable=unreadable,
        lldp=number(connection, "lldp", -1),
    )


def ethtool_settings(part: Part) -> dict[str, int]:
    """Settings that are numbers or on/off."""
    return {name: int(value) for name, value in part.items() if isinstance(value, int)}


def parse_ip(part: Part) -> IpSettings:
    """The ``ipv4`` or ``ipv6`` setting; the profile of a port has none: method "disabled"."""
    metric = number(part, "route-metric", -1)
    return IpSettings(
        method=text(part, "method") or "disabled",
        addresses=tuple(with_prefix(entry, "address") for entry in entries(part, "address-data")),
        gateway=text(part, "gateway"),
        never_default=part.get("never-default") is True,
        route_metric=None if metric < 0 else metric,
        may_fail=part.get("may-fail") is not False,
        routes=tuple(route(entry) for entry in entries(part, "route-data")),
        has_routing_rules=bool(entries(part, "routing-rules")) or bool(number(part, "route-table")),
    )


def route(entry: Part) -> str:
    """``198.51.100.0/24 via 192.0.2.254``."""
    destination, hop = with_prefix(entry, "dest"), text(entry, "next-hop")
    if hop is None:
        return destination
    return f"{destination} via {hop}"


def with_prefix(entry: Part, key: str) -> str:
    return f"{text(entry, key) or '?'}/{number(entry, 'prefix')}"


def mac_address(value: object) -> str | None:
    """Bytes → ``00:50:56:aa:bb:cc``; older versions return a keyword such as ``stable`` as text."""
    if isinstance(value, str):
        return value.lower() or None
    if isinstance(value, (bytes, bytearray, list)) and len(value) in MAC_BYTES:
        try:
            return ":".join(f"{byte:02x}" for byte in bytes(value))
        except (TypeError, ValueError):
            return None
    return None


def users(permissions: Iterable[str]) -> list[str]:
    """``user:bob:`` → bob; any other form is returned unchanged, because it restricts the profile
    as well."""
    return [entry.split(":")[1] if entry.startswith("user:") else entry for entry in permissions]


def text(part: Part, key: str) -> str | None:
    """The value if it is a text that is not empty."""
    value = part.get(key)
    if not isinstance(value, str) or not value:
        return None
    return value


def number(part: Part, key: str, otherwise: int = 0) -> int:
    value = part.get(key)
    if not isinstance(value, int) or isinstance(value, bool):
        return otherwise
    return value


def texts(part: Part, key: str) -> tuple[str, ...]:
    return tuple(item for item in items(part, key) if isinstance(item, str))


def entries(part: Part, key: str) -> list[Part]:
    return [item for item in items(part, key) if isinstance(item, dict)]


def items(part: Part, key: str) -> list[Any]:
    value = part.get(key)
    if not isinstance(value, list):
        return []
    return value
