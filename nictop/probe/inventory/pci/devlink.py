"""Devlink instances: generic netlink, family devlink (linux/devlink.h) → `DevlinkDevice` records.

Five dumps, and one request for the embedded switch of each instance, which needs CAP_NET_ADMIN. Kernels and hosts
without devlink have none.
"""

from __future__ import annotations

import errno
from collections.abc import Mapping
from dataclasses import replace

from nictop.probe.inventory.links.messages import hardware_address, number
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
from nictop.probe.records import DevlinkDevice, DevlinkParameter, DevlinkPort, HealthReporter, Unreadable

FAMILY = "devlink"
DEVLINK_CMD_GET, DEVLINK_CMD_PORT_GET, DEVLINK_CMD_ESWITCH_GET, DEVLINK_CMD_HEALTH_REPORTER_GET = 1, 5, 29, 52
DEVLINK_CMD_PARAM_GET, DEVLINK_CMD_RATE_GET = 38, 74
DEVLINK_ATTR_BUS_NAME, DEVLINK_ATTR_DEV_NAME, DEVLINK_ATTR_PORT_INDEX, DEVLINK_ATTR_PORT_NETDEV_IFINDEX = 1, 2, 3, 6
DEVLINK_ATTR_ESWITCH_MODE, DEVLINK_ATTR_ESWITCH_INLINE_MODE, DEVLINK_ATTR_ESWITCH_ENCAP_MODE = 25, 26, 62
DEVLINK_ATTR_PORT_FLAVOUR, DEVLINK_ATTR_PORT_PCI_PF_NUMBER, DEVLINK_ATTR_PORT_PCI_VF_NUMBER = 77, 127, 128
DEVLINK_ATTR_HEALTH_REPORTER, DEVLINK_ATTR_HEALTH_REPORTER_NAME, DEVLINK_ATTR_HEALTH_REPORTER_STATE = 114, 115, 116
DEVLINK_ATTR_HEALTH_REPORTER_ERR_COUNT, DEVLINK_ATTR_HEALTH_REPORTER_RECOVER_COUNT = 117, 118
DEVLINK_ATTR_HEALTH_REPORTER_AUTO_RECOVER = 121
DEVLINK_ATTR_PARAM, DEVLINK_ATTR_PARAM_NAME, DEVLINK_ATTR_PARAM_TYPE = 80, 81, 83
DEVLINK_ATTR_PARAM_VALUES_LIST, DEVLINK_ATTR_PARAM_VALUE_DATA, DEVLINK_ATTR_PARAM_VALUE_CMODE = 84, 86, 87
DEVLINK_ATTR_PORT_FUNCTION, DEVLINK_ATTR_PORT_PCI_SF_NUMBER = 145, 164
DEVLINK_PORT_FUNCTION_ATTR_HW_ADDR, DEVLINK_PORT_FN_ATTR_STATE, DEVLINK_PORT_FN_ATTR_OPSTATE = 1, 2, 3
DEVLINK_PORT_FN_ATTR_CAPS, DEVLINK_PORT_FN_ATTR_MAX_IO_EQS = 4, 6
DEVLINK_PORT_FN_CAP_ROCE, DEVLINK_PORT_FN_CAP_MIGRATABLE = 1, 2
DEVLINK_ATTR_RATE_TX_SHARE, DEVLINK_ATTR_RATE_TX_MAX, DEVLINK_ATTR_RATE_PARENT_NODE_NAME = 166, 167, 169
NLA_STRING, NLA_FLAG = 5, 6
"""DEVLINK_ATTR_PARAM_TYPE; 1 to 4: unsigned integers."""

MODES = {0: "legacy", 1: "switchdev", 2: "switchdev_inactive"}
INLINE_MODES = {0: "none", 1: "link", 2: "network", 3: "transport"}
FLAVOURS = dict(enumerate(("physical", "cpu", "dsa", "pcipf", "pcivf", "virtual", "unused", "pcisf")))
PARAMETER_MODES = ("runtime", "driverinit", "permanent")
"""DEVLINK_PARAM_CMODE_*"""
FIRMWARE_POLICIES = {"0": "driver", "1": "flash", "2": "disk"}
"""DEVLINK_PARAM_FW_LOAD_POLICY_VALUE_*"""
PARAMETERS = frozenset(
    (
        *("enable_sriov", "total_vfs", "ignore_ari", "msix_vec_per_pf_max", "msix_vec_per_pf_min", "max_macs"),
        *("max_mac_per_vf", "enable_roce", "enable_rdma", "enable_iwarp", "enable_eth", "enable_vnet"),
        *("fw_load_policy", "enable_remote_dev_reset", "internal_err_reset", "io_eq_size", "event_eq_size"),
        *("flow_steering_mode", "esw_multiport", "esw_port_metadata", "fdb_large_groups", "hairpin_num_queues"),
        *("tx_scheduling_layers", "local_forwarding", "link_state_mode"),
    )
)
"""Parameters that matter for virtual functions and the embedded switch; kernel
Documentation/networking/devlink/devlink-params.rst, and those of mlx5, ice, i40e and bnxt there."""
MAX_DEVICES = 256
MAX_PORTS, MAX_REPORTERS = 1024, 64
"""Of one device."""

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
        return (), None if error.errno == errno.ENOENT or trouble.reason == "not_offered" else trouble


def read_devices(netlink: NetlinkSocket) -> tuple[DevlinkDevice, ...]:
    """Raises OSError."""
    handles = [one for one in map(handle, dumped(netlink, DEVLINK_CMD_GET)) if one is not None][:MAX_DEVICES]
    if not handles:
        return ()
    ports: dict[Handle, list[DevlinkPort]] = {}
    for found in dumped(netlink, DEVLINK_CMD_PORT_GET):
        key, port = handle(found), parse_port(found)
        if key is not None and port is not None:
            ports.setdefault(key, []).append(port)
    rates = {}
    for found in dumped(netlink, DEVLINK_CMD_RATE_GET):
        key, index = handle(found), number(found, DEVLINK_ATTR_PORT_INDEX)
        if key is not None and index is not None:
            rates[key, index] = found
    parameters: dict[Handle, list[DevlinkParameter]] = {}
    for found in dumped(netlink, DEVLINK_CMD_PARAM_GET):
        key, parameter = handle(found), parse_parameter(found)
        if key is not None and parameter is not None and parameter.name in PARAMETERS:
            parameters.setdefault(key, []).append(parameter)
    reporters: dict[Handle, list[HealthReporter]] = {}
    for found in dumped(netlink, DEVLINK_CMD_HEALTH_REPORTER_GET):
        key, reporter = handle(found), parse_reporter(found)
        if key is not None and reporter is not None:
            reporters.setdefault(key, []).append(reporter)
    return tuple(
        read_switch(
            netlink,
            DevlinkDevice(
                *key,
                ports=tuple(
                    with_rate(port, rates.get((key, port.index), {})) for port in ports.get(key, ())[:MAX_PORTS]
                ),
                reporters=tuple(reporters.get(key, ())[:MAX_REPORTERS]),
                parameters=tuple(parameters.get(key, ())),
            ),
        )
        for key in handles
    )


def dumped(netlink: NetlinkSocket, command: int) -> list[Attributes]:
    """Attributes of each message of a dump; none if the kernel does not know the command. Of an interrupted dump, those
    that were received."""
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
    which = pack_text(DEVLINK_ATTR_BUS_NAME, device.bus) + pack_text(DEVLINK_ATTR_DEV_NAME, device.device)
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
    bus, device = text(found.get(DEVLINK_ATTR_BUS_NAME, b"")), text(found.get(DEVLINK_ATTR_DEV_NAME, b""))
    return (bus, device) if bus and device else None


def with_switch(device: DevlinkDevice, found: Attributes) -> DevlinkDevice:
    mode, inline = number(found, DEVLINK_ATTR_ESWITCH_MODE), number(found, DEVLINK_ATTR_ESWITCH_INLINE_MODE)
    encap = number(found, DEVLINK_ATTR_ESWITCH_ENCAP_MODE)
    return replace(
        device,
        mode=None if mode is None else MODES.get(mode, f"unknown {mode}"),
        inline_mode=None if inline is None else INLINE_MODES.get(inline, f"unknown {inline}"),
        encap=None if encap is None else encap != 0,
    )


def parse_port(found: Attributes) -> DevlinkPort | None:
    """None without an index."""
    index, flavour = number(found, DEVLINK_ATTR_PORT_INDEX), number(found, DEVLINK_ATTR_PORT_FLAVOUR)
    if index is None:
        return None
    function = dict(iter_attributes(found.get(DEVLINK_ATTR_PORT_FUNCTION, b"")))
    state, attached = number(function, DEVLINK_PORT_FN_ATTR_STATE), number(function, DEVLINK_PORT_FN_ATTR_OPSTATE)
    return DevlinkPort(
        index=index,
        flavour="unknown" if flavour is None else FLAVOURS.get(flavour, f"unknown {flavour}"),
        ifindex=number(found, DEVLINK_ATTR_PORT_NETDEV_IFINDEX) or None,
        physical_function=number(found, DEVLINK_ATTR_PORT_PCI_PF_NUMBER),
        virtual_function=number(found, DEVLINK_ATTR_PORT_PCI_VF_NUMBER),
        subfunction=number(found, DEVLINK_ATTR_PORT_PCI_SF_NUMBER),
        address=hardware_address(function.get(DEVLINK_PORT_FUNCTION_ATTR_HW_ADDR)),
        is_active=None if state is None else state == 1,
        is_attached=None if attached is None else attached == 1,
        roce=capability(function, DEVLINK_PORT_FN_CAP_ROCE),
        migratable=capability(function, DEVLINK_PORT_FN_CAP_MIGRATABLE),
        max_io_eqs=number(function, DEVLINK_PORT_FN_ATTR_MAX_IO_EQS),
    )


def capability(function: Attributes, bit: int) -> bool | None:
    """A bit of DEVLINK_PORT_FN_ATTR_CAPS (struct nla_bitfield32: value, selector); None: not in its selector."""
    value = function.get(DEVLINK_PORT_FN_ATTR_CAPS, b"")
    if len(value) != 8:
        return None
    return bool(unsigned(value[:4]) & bit) if unsigned(value[4:]) & bit else None


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
    name, kind = text(inner.get(DEVLINK_ATTR_PARAM_NAME, b"")), number(inner, DEVLINK_ATTR_PARAM_TYPE)
    if not name:
        return None
    values = {}
    for _, one in iter_attributes(inner.get(DEVLINK_ATTR_PARAM_VALUES_LIST, b"")):
        value = dict(iter_attributes(one))
        mode = number(value, DEVLINK_ATTR_PARAM_VALUE_CMODE)
        if mode is not None and mode < len(PARAMETER_MODES):
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
    return str(unsigned(data)) if len(data) in (1, 2, 4, 8) else None


def parse_reporter(found: Attributes) -> HealthReporter | None:
    """None without a name."""
    inner = dict(iter_attributes(found.get(DEVLINK_ATTR_HEALTH_REPORTER, b"")))
    name = text(inner.get(DEVLINK_ATTR_HEALTH_REPORTER_NAME, b""))
    if not name:
        return None
    recovers = number(inner, DEVLINK_ATTR_HEALTH_REPORTER_AUTO_RECOVER)
    return HealthReporter(
        name=name,
        has_error=number(inner, DEVLINK_ATTR_HEALTH_REPORTER_STATE) == 1,
        errors=number(inner, DEVLINK_ATTR_HEALTH_REPORTER_ERR_COUNT) or 0,
        recoveries=number(inner, DEVLINK_ATTR_HEALTH_REPORTER_RECOVER_COUNT) or 0,
        auto_recover=None if recovers is None else recovers != 0,
        port=number(found, DEVLINK_ATTR_PORT_INDEX),
    )
