"""Devlink instances: the embedded switch, ports and health reporters of a device."""

from __future__ import annotations

from dataclasses import dataclass, field

from nictop.probe.records.unreadable import Unreadable


@dataclass(frozen=True)
class HealthReporter:
    """A health reporter of a driver. DEVLINK_CMD_HEALTH_REPORTER_GET"""

    name: str
    """fw, fw_fatal, tx, rx, …"""
    has_error: bool
    """DEVLINK_ATTR_HEALTH_REPORTER_STATE: the driver has not recovered from the last error."""
    errors: int
    recoveries: int
    """Since the driver was loaded."""
    auto_recover: bool | None = None
    port: int | None = None
    """Index of the port; None: of the device."""


@dataclass(frozen=True)
class DevlinkPort:
    """A port of a devlink instance. DEVLINK_CMD_PORT_GET"""

    index: int
    flavour: str
    """physical, pcipf, pcivf, pcisf, cpu, dsa, virtual or unused."""
    ifindex: int | None = None
    """Of its netdev in this network namespace."""
    physical_function: int | None = None
    virtual_function: int | None = None
    """Number of the function that a representor stands for."""


@dataclass(frozen=True)
class DevlinkDevice:
    """A devlink instance. DEVLINK_CMD_GET, DEVLINK_CMD_ESWITCH_GET"""

    bus: str
    device: str
    """``pci``, ``0000:3b:00.0``"""
    mode: str | None = None
    """legacy or switchdev; None: no embedded switch, or the reason is in `unreadable`."""
    inline_mode: str | None = None
    """none, link, network or transport: headers that a VF must pass in its descriptors."""
    encap: bool | None = None
    """Encapsulation in the switch is enabled."""
    ports: tuple[DevlinkPort, ...] = ()
    reporters: tuple[HealthReporter, ...] = ()
    unreadable: dict[str, Unreadable] = field(default_factory=dict)
