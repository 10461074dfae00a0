"""Devlink instances: generic netlink, family devlink (linux/devlink.h) → `DevlinkDevice` records.

Three dumps, and one request for the embedded switch of each instance, which needs CAP_NET_ADMIN. Kernels and hosts
without devlink have none.
"""

from __future__ import annotations

import errno
from collections.abc import Mapping
from dataclasses import replace

from nictop.probe.inventory.links.messages import number
from nictop.probe.kernel.netlink import (
    NETLINK_GENERIC,
    DumpInterrupted,
    NetlinkSocket,
    iter_attributes,
    pack_text,
    text,
)
from nictop.probe.kernel.sysfs import unreadable_from_error
from nictop.probe.records import DevlinkDevice, DevlinkPort, HealthReporter, Unreadable

FAMILY = "devlink"
DEVLINK_CMD_GET, DEVLINK_CMD_PORT_GET, DEVLINK_CMD_ESWITCH_GET, DEVLINK_CMD_HEALTH_REPORTER_GET = 1, 5, 29, 52
DEVLINK_ATTR_BUS_NAME, DEVLINK_ATTR_DEV_NAME, DEVLINK_ATTR_PORT_INDEX, DEVLINK_ATTR_PORT_NETDEV_IFINDEX = 1, 2, 3, 6
DEVLINK_ATTR_ESWITCH_MODE, DEVLINK_ATTR_ESWITCH_INLINE_MODE, DEVLINK_ATTR_ESWITCH_ENCAP_MODE = 25, 26, 62
DEVLINK_ATTR_PORT_FLAVOUR, DEVLINK_ATTR_PORT_PCI_PF_NUMBER, DEVLINK_ATTR_PORT_PCI_VF_NUMBER = 77, 127, 128
DEVLINK_ATTR_HEALTH_REPORTER, DEVLINK_ATTR_HEALTH_REPORTER_NAME, DEVLINK_ATTR_HEALTH_REPORTER_STATE = 114, 115, 116
DEVLINK_ATTR_HEALTH_REPORTER_ERR_COUNT, DEVLINK_ATTR_HEALTH_REPORTER_RECOVER_COUNT = 117, 118
DEVLINK_ATTR_HEALTH_REPORTER_AUTO_RECOVER = 121

MODES = {0: "legacy", 1: "switchdev", 2: "switchdev_inactive"}
INLINE_MODES = {0: "none", 1: "link", 2: "network", 3: "transport"}
FLAVOURS = dict(enumerate(("physical", "cpu", "dsa", "pcipf", "pcivf", "virtual", "unused", "pcisf")))
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
                ports=tuple(ports.get(key, ())[:MAX_PORTS]),
                reporters=tuple(reporters.get(key, ())[:MAX_REPORTERS]),
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
    return DevlinkPort(
        index=index,
        flavour="unknown" if flavour is None else FLAVOURS.get(flavour, f"unknown {flavour}"),
        ifindex=number(found, DEVLINK_ATTR_PORT_NETDEV_IFINDEX) or None,
        physical_function=number(found, DEVLINK_ATTR_PORT_PCI_PF_NUMBER),
        virtual_function=number(found, DEVLINK_ATTR_PORT_PCI_VF_NUMBER),
    )


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
