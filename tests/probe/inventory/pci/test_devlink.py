"""Devlink: messages of netdevsim on a real kernel (Linux 6.12), refusals, arbitrary bytes."""

from __future__ import annotations

import errno
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nictop.probe.inventory.pci import devlink
from nictop.probe.inventory.pci.devlink import (
    handle,
    parse_parameter,
    parse_port,
    parse_reporter,
    read_devlink,
    with_rate,
    with_switch,
)
from nictop.probe.kernel.netlink import (
    NetlinkError,
    iter_attributes,
    pack_attribute,
    pack_text,
    pack_u32,
)
from nictop.probe.records import (
    DevlinkDevice,
    DevlinkParameter,
    DevlinkPort,
    HealthReporter,
    Unreadable,
)

# a device with two ports, in switchdev mode with two virtual functions; its reporter "dummy" could
# not recover
PORTS = (
    (
        "0e0001006e657464657673696d000000100002006e657464657673696d3731000800030000000000060004000"
        "200000008000600"
        "02000000090007006574683000000000050094000000000006004d000000000008004e0001000000"
    ),
    (
        "0e0001006e657464657673696d000000100002006e657464657673696d3731000800030001000000060004000"
        "200000008000600"
        "03000000090007006574683100000000050094000000000006004d000000000008004e0002000000"
    ),
    (
        "0e0001006e657464657673696d000000100002006e657464657673696d3731000800030080000000060004000"
        "200000008000600"
        "04000000090007006574683200000000050094000000000006004d0004000000080096000000000006007f000"
        "000000006008000"
        "000000000500950000000000"
    ),
    (
        "0e0001006e657464657673696d000000100002006e657464657673696d3731000800030081000000060004000"
        "200000008000600"
        "05000000090007006574683300000000050094000000000006004d0004000000080096000000000006007f000"
        "000000006008000"
        "010000000500950000000000"
    ),
)
REPORTERS = (
    (
        "0e0001006e657464657673696d000000100002006e657464657673696d373100380072000a007300656d70747"
        "900000005007400"
        "000000000c00750000000000000000000c007600000000000000000005008d0001000000"
    ),
    (
        "0e0001006e657464657673696d000000100002006e657464657673696d373100640072000a00730064756d6d7"
        "900000005007400"
        "010000000c00750003000000000000000c00760002000000000000000c0078000000000000000000050079000"
        "10000000c007700"
        "dc932100000000000c008900572c4bef98b8ea1805008d0001000000"
    ),
)
SWITCH = (("0e0001006e657464657673696d000000100002006e657464657673696d3731000600190001000000"),)
DEVICE = SWITCH[0][: 2 * 32]
"""Only bus and device."""


# of a group, of VF 0 with limits, and of VF 1 in the group; device number as above
RATES = (
    (
        "0e0001006e657464657673696d000000100002006e657464657673696d3731000600a500010000000b00a8006"
        "775657374730000"
        "0c00a60000000000000000000c00a70000000000000000000800b100000000000800b20000000000"
    ),
    (
        "0e0001006e657464657673696d000000100002006e657464657673696d3731000600a50000000000080003008"
        "00000000c00a600"
        "20bcbe00000000000c00a70040597307000000000800b100000000000800b20000000000"
    ),
    (
        "0e0001006e657464657673696d000000100002006e657464657673696d3731000600a50000000000080003008"
        "10000000c00a600"
        "00000000000000000c00a70000000000000000000800b100000000000800b200000000000b00a900677565737"
        "4730000"
    ),
)
PARAMETERS = (
    (
        "0e0001006e657464657673696d000000100002006e657464657673696d373100380050000d0051006d61785f6"
        "d61637300000000"
        "040052000500530003000000180054001400550005005700010000000800560010000000"
    ),
    (
        "0e0001006e657464657673696d000000100002006e657464657673696d3731002c0050000a005100746573743"
        "100000005005300"
        "060000001400540010005500050057000100000004005600"
    ),
)


class Kernel:
    """Replies with the captured messages."""

    switch: tuple[str, ...] | OSError = SWITCH
    devices: tuple[str, ...] = (DEVICE,)

    def __init__(self, _: int) -> None:
        self.requests: list[int] = []

    def __enter__(self) -> Kernel:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def generic(
        self, family: str, command: int, attributes: bytes = b"", *, dump: bool = False
    ) -> list[bytes]:
        assert family == "devlink" and dump is (command != devlink.DEVLINK_CMD_ESWITCH_GET)
        if command == devlink.DEVLINK_CMD_ESWITCH_GET:
            if isinstance(self.switch, OSError):
                raise self.switch
            assert attributes == bytes.fromhex(DEVICE)
            return list(map(bytes.fromhex, self.switch))
        replies: dict[int, tuple[str, ...]] = {
            devlink.DEVLINK_CMD_GET: self.devices,
            devlink.DEVLINK_CMD_PORT_GET: PORTS,
            devlink.DEVLINK_CMD_HEALTH_REPORTER_GET: REPORTERS,
            devlink.DEVLINK_CMD_RATE_GET: RATES,
            devlink.DEVLINK_CMD_PARAM_GET: PARAMETERS,
        }
        return list(map(bytes.fromhex, replies[command]))


def test_a_device_in_switchdev_mode(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(devlink, "NetlinkSocket", Kernel)
    assert read_devlink() == (
        (
            DevlinkDevice(
                "netdevsim",
                "netdevsim71",
                mode="switchdev",
                ports=(
                    DevlinkPort(0, "physical", 2),
                    DevlinkPort(1, "physical", 3),
                    DevlinkPort(
                        128, "pcivf", 4, 0, 0, max_tx_rate=125_000_000, min_tx_rate=12_500_000
                    ),
                    DevlinkPort(
                        129, "pcivf", 5, 0, 1, max_tx_rate=0, min_tx_rate=0, rate_node="guests"
                    ),
                ),
                parameters=(DevlinkParameter("max_macs", driverinit="16"),),
                reporters=(
                    HealthReporter("empty", has_error=False, errors=0, recoveries=0),
                    HealthReporter(
                        "dummy", has_error=True, errors=3, recoveries=2, auto_recover=True
                    ),
                ),
            ),
        ),
        None,
    )


@pytest.mark.parametrize(
    ("number", "unreadable"),
    [(errno.EPERM, {"mode": Unreadable("needs_root", "eswitch: EPERM")}), (errno.EOPNOTSUPP, {})],
)
def test_the_switch_of_a_device_cannot_be_read(
    monkeypatch: pytest.MonkeyPatch, number: int, unreadable: dict[str, Unreadable]
) -> None:
    monkeypatch.setattr(devlink, "NetlinkSocket", Kernel)
    monkeypatch.setattr(Kernel, "switch", NetlinkError(number, "refused"))
    (device,), trouble = read_devlink()
    assert trouble is None
    assert (device.mode, device.unreadable, len(device.ports)) == (None, unreadable, 4)


def test_a_host_without_devices_gets_one_request(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(devlink, "NetlinkSocket", Kernel)
    monkeypatch.setattr(Kernel, "devices", ())
    monkeypatch.setattr(Kernel, "switch", NetlinkError(errno.EIO, "never asked"))
    assert read_devlink() == ((), None)


@pytest.mark.parametrize(
    ("number", "trouble"),
    [(errno.ENOENT, None), (errno.ETIMEDOUT, Unreadable("failed", "devlink: ETIMEDOUT"))],
)
def test_a_kernel_without_devlink(
    monkeypatch: pytest.MonkeyPatch, number: int, trouble: Unreadable | None
) -> None:
    def refused(_: int) -> None:
        raise NetlinkError(number, "refused")

    monkeypatch.setattr(devlink, "NetlinkSocket", refused)
    assert read_devlink() == ((), trouble)


def test_this_kernel() -> None:
    _, trouble = read_devlink()
    assert trouble is None


def function(*attributes: bytes) -> dict[int, bytes]:
    """Attributes of a port with a function."""
    port = (
        pack_u32(3, 7)
        + pack_attribute(77, struct.pack("=H", 7))
        + pack_attribute(145, b"".join(attributes))
    )
    return dict(iter_attributes(port))


def test_the_function_of_a_port() -> None:
    """Of a subfunction of mlx5, which netdevsim does not have."""
    found = function(
        pack_attribute(1, bytes.fromhex("0200000000aa")),
        pack_attribute(2, b"\1"),
        pack_attribute(3, b"\0"),
        pack_attribute(4, struct.pack("=II", 1, 3)),
        pack_u32(6, 24),
    )
    assert parse_port(found) == DevlinkPort(
        7,
        "pcisf",
        address="02:00:00:00:00:aa",
        is_active=True,
        is_attached=False,
        roce=True,
        migratable=False,
        max_io_eqs=24,
    )
    port = parse_port(
        function(pack_attribute(4, struct.pack("=II", 3, 1)), pack_attribute(2, b"\0"))
    )
    assert port is not None
    assert (port.is_active, port.roce, port.migratable, port.address) == (False, True, None, None)


def parameter(name: str, kind: int, *values: tuple[int, bytes | None]) -> dict[int, bytes]:
    """Attributes of a parameter; `values`: configuration mode and value."""
    each = (
        pack_attribute(
            85,
            (pack_attribute(86, data) if data is not None else b"")
            + pack_attribute(87, bytes([mode])),
        )
        for mode, data in values
    )
    inner = (
        pack_text(81, name) + pack_attribute(83, bytes([kind])) + pack_attribute(84, b"".join(each))
    )
    return {devlink.DEVLINK_ATTR_PARAM: inner}


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (
            parameter("enable_sriov", 6, (2, None)),
            DevlinkParameter("enable_sriov", permanent="false"),
        ),
        (
            parameter("enable_sriov", 6, (2, b"")),
            DevlinkParameter("enable_sriov", permanent="true"),
        ),
        (
            parameter("max_macs", 3, (0, struct.pack("=I", 128)), (1, struct.pack("=I", 256))),
            DevlinkParameter("max_macs", runtime="128", driverinit="256"),
        ),
        (
            parameter("flow_steering_mode", 5, (0, b"smfs\0")),
            DevlinkParameter("flow_steering_mode", runtime="smfs"),
        ),
        (
            parameter("fw_load_policy", 1, (2, b"\1")),
            DevlinkParameter("fw_load_policy", permanent="flash"),
        ),
        (parameter("total_vfs", 3, (2, None), (9, b"\1\0\0\0")), DevlinkParameter("total_vfs")),
        (parameter("", 6, (2, b"")), None),
        ({}, None),
    ],
)
def test_parameters(found: dict[int, bytes], expected: DevlinkParameter | None) -> None:
    assert parse_parameter(found) == expected


@given(st.binary(max_size=200))
def test_any_bytes(value: bytes) -> None:
    for kind in range(8):
        parse_parameter(parameter("max_macs", kind, (0, value), (1, value)))
    parse_parameter(
        {devlink.DEVLINK_ATTR_PARAM: pack_text(81, "max_macs") + pack_attribute(84, value)}
    )
    parse_port(function(value))
    with_rate(DevlinkPort(7, "pcisf"), dict(iter_attributes(value)))
    for found in (dict(iter_attributes(value)), {devlink.DEVLINK_ATTR_HEALTH_REPORTER: value}):
        handle(found)
        parse_port(found)
        parse_reporter(found)
        with_switch(DevlinkDevice("pci", "0000:3b:00.0"), found)
    parse_reporter({devlink.DEVLINK_ATTR_HEALTH_REPORTER: pack_attribute(115, b"tx\0") + value})
