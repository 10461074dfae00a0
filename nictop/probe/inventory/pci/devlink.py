"""Devlink instances: generic netlink, family devlink (linux/devlink.h) → `DevlinkDevice` records.

Five dumps, and one request for the embedded switch of each instance, which needs CAP_NET_ADMIN.
Kernels and hosts without devlink have none.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterable, Mapping
from typing import TypeVar

from nictop.probe.inventory.links.messages import flag, hardware_address, named, number
from nictop.probe.kernel.netlink import (
    NETLINK_GENERIC,
    DumpInterrupted,
    NetlinkSocket,
    iter_attributes,
    pack_text,
    text,
    unsigned,
)
from nictop.probe.kernel.sysfs import unreadable_from_error
from nictop.probe.light_dataclasses import replace
from nictop.probe.records import (
    DevlinkDevice,
    DevlinkParameter,
    DevlinkPort,
    HealthReporter,
    Unreadable,
)

FAMILY = "devlink"
DEVLINK_CMD_GET, DEVLINK_CMD_PORT_GET, DEVLINK_CMD_ESWITCH_GET, DEVLINK_CMD_HEALTH_REPORTER_GET = (
    1,
    5,
    29,
    52,
)
DEVLINK_CMD_PARAM_GET, DEVLINK_CMD_RATE_GET = 38, 74
(
    DEVLINK_ATTR_BUS_NAME,
    DEVLINK_ATTR_DEV_NAME,
    DEVLINK_ATTR_PORT_INDEX,
    DEVLINK_ATTR_PORT_NETDEV_IFINDEX,
) = 1, 2, 3, 6
DEVLINK_ATTR_ESWITCH_MODE, DEVLINK_ATTR_ESWITCH_INLINE_MODE, DEVLINK_ATTR_ESWITCH_ENCAP_MODE = (
    25,
    26,
    62,
)
DEVLINK_ATTR_PORT_FLAVOUR, DEVLINK_ATTR_PORT_PCI_PF_NUMBER, DEVLINK_ATTR_PORT_PCI_VF_NUMBER = (
    77,
    127,
    128,
)
(
    DEVLINK_ATTR_HEALTH_REPORTER,
    DEVLINK_ATTR_HEALTH_REPORTER_NAME,
    DEVLINK_ATTR_HEALTH_REPORTER_STATE,
) = 114, 115, 116
DEVLINK_ATTR_HEALTH_REPORTER_ERR_COUNT, DEVLINK_ATTR_HEALTH_REPORTER_RECOVER_COUNT = 117, 118
DEVLINK_ATTR_HEALTH_REPORTER_AUTO_RECOVER = 121
DEVLINK_ATTR_PARAM, DEVLINK_ATTR_PARAM_NAME, DEVLINK_ATTR_PARAM_TYPE = 80, 81, 83
DEVLINK_ATTR_PARAM_VALUES_LIST, DEVLINK_ATTR_PARAM_VALUE_DATA, DEVLINK_ATTR_PARAM_VALUE_CMODE = (
    84,
    86,
    87,
)
DEVLINK_ATTR_PORT_FUNCTION, DEVLINK_ATTR_PORT_PCI_SF_NUMBER = 145, 164
DEVLINK_PORT_FUNCTION_ATTR_HW_ADDR, DEVLINK_PORT_FN_ATTR_STATE, DEVLINK_PORT_FN_ATTR_OPSTATE = (
    1,
    2,
    3,
)
DEVLINK_PORT_FN_ATTR_CAPS, DEVLINK_PORT_FN_ATTR_MAX_IO_EQS = 4, 6
DEVLINK_PORT_FN_CAP_ROCE, DEVLINK_PORT_FN_CAP_MIGRATABLE = 1, 2
DEVLINK_ATTR_RATE_TX_SHARE, DEVLINK_ATTR_RATE_TX_MAX, DEVLINK_ATTR_RATE_PARENT_NODE_NAME = (
    166,
    167,
    169,
)
NLA_STRING, NLA_FLAG = 5, 6
"""DEVLINK_ATTR_PARAM_TYPE; 1 to 4: unsigned integers."""

MODES = {0: "legacy", 1: "switchdev", 2: "switchdev_inactive"}
INLINE_MODES = {0: "none", 1: "link", 2: "network", 3: "transport"}
FLAVOURS = dict(
    enumerate(("physical", "cpu", "dsa", "pcipf", "pcivf", "virtual", "unused", "pcisf"))
)
PARAMETER_MODES = ("runtime", "driverinit", "permanent")
"""DEVLINK_PARAM_CMODE_*"""
FIRMWARE_POLICIES = {"0": "driver", "1": "flash", "2": "disk"}
"""DEVLINK_PARAM_FW_LOAD_POLICY_VALUE_*"""
PARAMETERS = frozenset(
    (
        *(
            "enable_sriov",
            "total_vfs",
            "ignore_ari",
            "msix_vec_per_pf_max",
            "msix_vec_per_pf_min",
            "max_macs",
        ),
        *(
            "max_mac_per_vf",
            "enable_roce",
            "enable_rdma",
            "enable_iwarp",
            "enable_eth",
            "enable_vnet",
        ),
        *(
            "fw_load_policy",
            "enable_remote_dev_reset",
            "internal_err_reset",
            "io_eq_size",
            "event_eq_size",
        ),
        *(
            "flow_steering_mode",
            "esw_multiport",
            "esw_port_metadata",
            "fdb_large_groups",
            "hairpin_num_queues",
        ),
        *("tx_scheduling_layers", "local_forwarding", "link_state_mode"),
    )
)
"""Parameters that matter for virtual functions and the embedded switch; kernel
Documentation/networking/devlink/devlink-params.rst, and those of mlx5, ice, i40e and bnxt there."""
MAX_DEVICES = 256
MAX_PORTS, MAX_REPORTERS = 1024, 64
"""Of one device."""

T = TypeVar("T")
Attributes = Mapping[int, bytes]
Handle = tuple[str, str]
"""(bus, device)"""


def read_devlink() -> tuple[tuple[DevlinkDevice, ...], Unreadable | None]:
    """The devices of this network namespace, and why some may be missing. Never raises OSError."""
    try:
        with NetlinkSocket(NETLINK_GENERIC) as netlink:
            return read_devices(netlink), None
    except OSError as error:
        trouble = unreadable_from_error(error, FAMILY)
        if error.errno == errno.ENOENT or trouble.reason == "not_offered":
            return (), None
        return (), trouble


def read_devices(netlink: NetlinkSocket) -> tuple[DevlinkDevice, ...]:
    """Raises OSError."""
    found = map(handle, dumped(netlink, DEVLINK_CMD_GET))
    handles = [key for key in found if key is not None][:MAX_DEVICES]
    if not handles:
        return ()
    ports = by_device(dumped(netlink, DEVLINK_CMD_PORT_GET), parse_port)
    rates = by_device(dumped(netlink, DEVLINK_CMD_RATE_GET), parse_rate)
    parameters = by_device(dumped(netlink, DEVLINK_CMD_PARAM_GET), parse_parameter)
    reporters = by_device(dumped(netlink, DEVLINK_CMD_HEALTH_REPORTER_GET), parse_reporter)
    devices = []
    for key in handles:
        rate_of_port = dict(rates.get(key, ()))
        own_ports = [
            with_rate(port, rate_of_port.get(port.index, {}))
            for port in ports.get(key, ())[:MAX_PORTS]
        ]
        device = DevlinkDevice(
            *key,
            ports=tuple(own_ports),
            reporters=tuple(reporters.get(key, ())[:MAX_REPORTERS]),
            parameters=tuple(one for one in parameters.get(key, ()) if one.name in PARAMETERS),
        )
        devices.append(read_switch(netlink, device))
    return tuple(devices)


def by_device(
    messages: Iterable[Attributes], parse: Callable[[Attributes], T | None]
) -> dict[Handle, list[T]]:
    """What messages say about each device; those of which `parse` makes None are left out."""
    found: dict[Handle, list[T]] = {}
    for message in messages:
        key, parsed = handle(message), parse(message)
        if key is not None and parsed is not None:
            found.setdefault(key, []).append(parsed)
    return found


def dumped(netlink: NetlinkSocket, command: int) -> list[Attributes]:
    """Attributes of each message of a dump; none if the kernel does not know the command. Of an
    interrupted dump, those that were received."""
    try:
        return [dict(iter_attributes(body)) for body in netlink.generic(FAMILY, command, dump=True)]
    except DumpInterrupted as error:
        return [dict(iter_attributes(body[4:])) for _, body in error.replies]
    except OSError as error:
        if error.errno in (errno.EOPNOTSUPP, errno.EINVAL):
            return []
        raise


def read_switch(netlink: NetlinkSocket, device: DevlinkDevice) -> DevlinkDevice:
    """The device with the settings of its embedded switch."""
    which = pack_text(DEVLINK_ATTR_BUS_NAME, device.bus) + pack_text(
        DEVLINK_ATTR_DEV_NAME, device.device
    )
    try:
        for body in netlink.generic(FAMILY, DEVLINK_CMD_ESWITCH_GET, which):
            return with_switch(device, dict(iter_attributes(body)))
    except OSError as error:
        trouble = unreadable_from_error(error, "eswitch")
        if trouble.reason not in ("not_offered", "missing", "vanished"):
            return replace(device, unreadable={"mode": trouble})
    return device


def handle(found: Attributes) -> Handle | None:
    """Bus and name of the device that a message is about."""
    bus = text(found.get(DEVLINK_ATTR_BUS_NAME, b""))
    device = text(found.get(DEVLINK_ATTR_DEV_NAME, b""))
    if not bus or not device:
        return None
    return bus, device


def with_switch(device: DevlinkDevice, found: Attributes) -> DevlinkDevice:
    return replace(
        device,
        mode=named(found, DEVLINK_ATTR_ESWITCH_MODE, MODES),
        inline_mode=named(found, DEVLINK_ATTR_ESWITCH_INLINE_MODE, INLINE_MODES),
        encap=flag(found, DEVLINK_ATTR_ESWITCH_ENCAP_MODE),
    )


def parse_port(found: Attributes) -> DevlinkPort | None:
    """None without an index."""
    index = number(found, DEVLINK_ATTR_PORT_INDEX)
    if index is None:
        return None
    function = dict(iter_attributes(found.get(DEVLINK_ATTR_PORT_FUNCTION, b"")))
    return DevlinkPort(
        index=index,
        flavour=named(found, DEVLINK_ATTR_PORT_FLAVOUR, FLAVOURS) or "unknown",
        ifindex=number(found, DEVLINK_ATTR_PORT_NETDEV_IFINDEX) or None,
        physical_function=number(found, DEVLINK_ATTR_PORT_PCI_PF_NUMBER),
        virtual_function=number(found, DEVLINK_ATTR_PORT_PCI_VF_NUMBER),
        subfunction=number(found, DEVLINK_ATTR_PORT_PCI_SF_NUMBER),
        address=hardware_address(function.get(DEVLINK_PORT_FUNCTION_ATTR_HW_ADDR)),
        is_active=is_one(function, DEVLINK_PORT_FN_ATTR_STATE),
        is_attached=is_one(function, DEVLINK_PORT_FN_ATTR_OPSTATE),
        roce=capability(function, DEVLINK_PORT_FN_CAP_ROCE),
        migratable=capability(function, DEVLINK_PORT_FN_CAP_MIGRATABLE),
        max_io_eqs=number(function, DEVLINK_PORT_FN_ATTR_MAX_IO_EQS),
    )


def is_one(function: Attributes, kind: int) -> bool | None:
    """A state, of which 1 is active or attached; None: it was not sent."""
    value = number(function, kind)
    if value is None:
        return None
    return value == 1


def parse_rate(found: Attributes) -> tuple[int, Attributes] | None:
    """(Index of a port, the message about its rate); None: it is about no port."""
    index = number(found, DEVLINK_ATTR_PORT_INDEX)
    if index is None:
        return None
    return index, found


def capability(function: Attributes, bit: int) -> bool | None:
    """A bit of DEVLINK_PORT_FN_ATTR_CAPS (struct nla_bitfield32: value, selector); None: not in its
    selector."""
    bits = function.get(DEVLINK_PORT_FN_ATTR_CAPS, b"")
    if len(bits) != 8 or not unsigned(bits[4:]) & bit:
        return None
    return bool(unsigned(bits[:4]) & bit)


def with_rate(port: DevlinkPort, found: Attributes) -> DevlinkPort:
    """`found`: message of DEVLINK_CMD_RATE_GET about the port."""
    if not found:
        return port
    return replace(
        port,
        max_tx_rate=number(found, DEVLINK_ATTR_RATE_TX_MAX),
        min_tx_rate=number(found, DEVLINK_ATTR_RATE_TX_SHARE),
        rate_node=text(found.get(DEVLINK_ATTR_RATE_PARENT_NODE_NAME, b"")),
    )


def parse_parameter(found: Attributes) -> DevlinkParameter | None:
    """None without a name."""
    inner = dict(iter_attributes(found.get(DEVLINK_ATTR_PARAM, b"")))
    name = text(inner.get(DEVLINK_ATTR_PARAM_NAME, b""))
    if not name:
        return None
    kind = number(inner, DEVLINK_ATTR_PARAM_TYPE)
    values = {}
    for _, content in iter_attributes(inner.get(DEVLINK_ATTR_PARAM_VALUES_LIST, b"")):
        value = dict(iter_attributes(content))
        mode = number(value, DEVLINK_ATTR_PARAM_VALUE_CMODE)
        if mode is None or mode >= len(PARAMETER_MODES):
            continue
        shown = parameter_value(kind, value.get(DEVLINK_ATTR_PARAM_VALUE_DATA))
        if shown is not None and name == "fw_load_policy":
            shown = FIRMWARE_POLICIES.get(shown, shown)
        values[PARAMETER_MODES[mode]] = shown
    return DevlinkParameter(name, **values)


def parameter_value(kind: int | None, data: bytes | None) -> str | None:
    """Of a parameter of a type (DEVLINK_ATTR_PARAM_TYPE); None: it has none."""
    if kind == NLA_FLAG:
        return "false" if data is None else "true"
    if data is None:
        return None
    if kind == NLA_STRING:
        return text(data)
    if len(data) not in (1, 2, 4, 8):
        return None
    return str(unsigned(data))


def parse_reporter(found: Attributes) -> HealthReporter | None:
    """None without a name."""
    inner = dict(iter_attributes(found.get(DEVLINK_ATTR_HEALTH_REPORTER, b"")))
    name = text(inner.get(DEVLINK_ATTR_HEALTH_REPORTER_NAME, b""))
    if not name:
        return None
    return HealthReporter(
        name=name,
        has_error=number(inner, DEVLINK_ATTR_HEALTH_REPORTER_STATE) == 1,
        errors=number(inner, DEVLINK_ATTR_HEALTH_REPORTER_ERR_COUNT) or 0,
        recoveries=number(inner, DEVLINK_ATTR_HEALTH_REPORTER_RECOVER_COUNT) or 0,
        auto_recover=flag(inner, DEVLINK_ATTR_HEALTH_REPORTER_AUTO_RECOVER),
        port=number(found, DEVLINK_ATTR_PORT_INDEX),
    )
