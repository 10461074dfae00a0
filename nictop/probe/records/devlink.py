"""Devlink instances: the embedded switch, ports with their functions, parameters and health
reporters of a device."""

from __future__ import annotations

from nictop.probe.light_dataclasses import dataclass, field
from nictop.probe.records.unreadable import Unreadable


@dataclass(frozen=True, slots=True)
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


@dataclass(frozen=True, slots=True)
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
    subfunction: int | None = None
    """DEVLINK_ATTR_PORT_PCI_SF_NUMBER"""
    address: str | None = None
    """MAC address of the function, DEVLINK_PORT_FUNCTION_ATTR_HW_ADDR."""
    is_active: bool | None = None
    """DEVLINK_PORT_FN_ATTR_STATE of a subfunction: active or inactive."""
    is_attached: bool | None = None
    """DEVLINK_PORT_FN_ATTR_OPSTATE: a driver is attached to the function."""
    roce: bool | None = None
    migratable: bool | None = None
    """DEVLINK_PORT_FN_ATTR_CAPS; None: the driver has no such attribute."""
    max_io_eqs: int | None = None
    """Event queues of the function, DEVLINK_PORT_FN_ATTR_MAX_IO_EQS."""
    max_tx_rate: int | None = None
    """Bytes per second that the function may send, DEVLINK_ATTR_RATE_TX_MAX; 0: no limit."""
    min_tx_rate: int | None = None
    """Bytes per second, share of the function when the port is full, DEVLINK_ATTR_RATE_TX_SHARE; 0:
    none."""
    rate_node: str = ""
    """DEVLINK_ATTR_RATE_PARENT_NODE_NAME: group whose rate it shares."""


@dataclass(frozen=True, slots=True)
class DevlinkParameter:
    """A parameter of a driver. DEVLINK_CMD_PARAM_GET; values as devlink(8) prints them: ``true``,
    ``16``, ``smfs``."""

    name: str
    runtime: str | None = None
    """In effect, and changed at once."""
    driverinit: str | None = None
    """In effect after ``devlink dev reload``."""
    permanent: str | None = None
    """In the memory of the device, in effect after a reset. None: not in this configuration
    mode."""


@dataclass(frozen=True, slots=True)
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
    parameters: tuple[DevlinkParameter, ...] = ()
    """Those in `probe.inventory.pci.devlink.PARAMETERS`."""
