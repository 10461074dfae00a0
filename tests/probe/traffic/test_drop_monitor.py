"""The drop monitor: its messages, the counts by reason, start and stop, other users, arbitrary
bytes."""

from __future__ import annotations

import errno
import os
import socket
import struct
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nictop.probe.kernel.netlink import (
    GENERIC_HEADER,
    HEADER,
    NetlinkError,
    iter_attributes,
    pack_attribute,
    pack_text,
    pack_u32,
)
from nictop.probe.records import DropFlow, DropGroup, DropReport
from nictop.probe.traffic.drops import monitor
from nictop.probe.traffic.drops.groups import MAX_FLOWS, MAX_GROUPS, MAX_REPORTED_FLOWS, DropCounter
from nictop.probe.traffic.drops.messages import (
    Drop,
    parse_drop,
    parse_flow,
    parse_macs,
    parse_symbol,
)
from nictop.probe.traffic.drops.monitor import (
    Monitor,
    keep_running,
    other_namespaces,
    parse_lost,
    read_drops,
    receive,
)
from nictop.probe.traffic.requests import TrafficCommand

FAMILY_ID = 29
HERE, THERE = bytes.fromhex("525400000001"), bytes.fromhex("525400000002")
IP4 = (
    bytes.fromhex("45000054000040004011") + bytes(2) + bytes([192, 0, 2, 9]) + bytes([192, 0, 2, 1])
)
UDP = struct.pack(">HHHH", 40000, 5201, 64, 0)
IP6 = (
    bytes.fromhex("60000000 0014 06 40")
    + socket.inet_pton(10, "fd00::9")
    + socket.inet_pton(10, "fd00::1")
)
TCP = struct.pack(">HHIIBB", 40000, 22, 0, 0, 0x50, 2)
ARP = (
    bytes.fromhex("0001080006040001")
    + THERE
    + bytes([192, 0, 2, 9])
    + bytes(6)
    + bytes([192, 0, 2, 1])
)


def ethernet(ethertype: int, body: bytes, *, tags: bytes = b"") -> bytes:
    return HERE + THERE + tags + ethertype.to_bytes(2, "big") + body


def alert(
    reason: str = "NO_SOCKET",
    symbol: str = "udp_rcv+0x1a/0x2b0",
    ifindex: int = 2,
    packet: bytes | None = None,
) -> bytes:
    """Attributes of a message about a packet that was dropped by software."""
    packet = ethernet(0x800, IP4 + UDP) if packet is None else packet
    return b"".join(
        (
            pack_attribute(14, struct.pack("=H", 0)),
            pack_attribute(2, bytes(8)),
            pack_text(23, reason),
            pack_text(3, symbol),
            pack_attribute(4, pack_u32(0, ifindex) if ifindex else b""),
            pack_attribute(5, bytes(8)),
            pack_u32(10, 98),
            pack_attribute(6, struct.pack("=H", 0x800)),
            pack_attribute(7, packet),
        )
    )


# from Linux 6.12: UDP that a rule of nftables drops, and a multicast listener report that nobody
# has joined
NETFILTER_DROP = (
    "06000e00000000000c000200fe04d7c0ffffffff130017004e455446494c5445525f44524f500000290003006e667"
    "45f646f5f63"
    "6861696e2b30783430652f3078363330205b6e665f7461626c65735d000000000c00048008000000020000000c000"
    "50011e58f8d"
    "54c4ea1808000a008e0000000600060000080000640007001e8f7e4e33158a5c1f659f510800450000804b6540004"
    "011d8f30a09"
    "01010a090102a6a41b58006c169278787878787878787878787878787878787878787878787878787878787878787"
    "87878787878"
    "78787878787878787878787878787878"
)
NOT_JOINED = (
    "06000e00000000000c0002004831dba9ffffffff120017004e4f545f5350454349464945440000001d00030069703"
    "65f6d635f69"
    "6e7075742b30783161382f3078326530000000000c00048008000000020000000c0005008210d7aa54c4ea1808000"
    "a005a000000"
    "06000600dd8600005e0007003333000000161e8f7e4e331586dd60000000002400010000000000000000000000000"
    "0000000ff02"
    "00000000000000000000000000163a000502000001008f003c270000000104000000ff0200000000000000000001f"
    "f4e33150000"
)
STATS = "10000c800c0000009a0700000000000010000d800c0000000000000000000000"


# ----------------------------------------------------------------------------------------- messages


def test_messages_of_a_kernel() -> None:
    drop = parse_drop(bytes.fromhex(NETFILTER_DROP))
    assert drop[:6] == (False, "NETFILTER_DROP", "nft_do_chain [nf_tables]", "", 2, 142)
    assert parse_flow(drop.packet, drop.protocol) == ("udp", "10.9.1.1", "10.9.1.2", 7000)
    assert parse_macs(drop.packet, drop.protocol) == ("8a:5c:1f:65:9f:51", "1e:8f:7e:4e:33:15")
    drop = parse_drop(bytes.fromhex(NOT_JOINED))
    assert drop[:6] == (False, "NOT_SPECIFIED", "ip6_mc_input", "", 2, 90)
    assert parse_flow(drop.packet, drop.protocol) == ("0", "::", "ff02::16", None)
    assert parse_lost(bytes.fromhex(STATS)) == 1946


def test_a_packet_dropped_by_software() -> None:
    drop = parse_drop(alert())
    assert drop[:6] == (False, "NO_SOCKET", "udp_rcv", "", 2, 98)
    assert parse_flow(drop.packet, drop.protocol) == ("udp", "192.0.2.9", "192.0.2.1", 5201)
    assert parse_macs(drop.packet, drop.protocol) == ("52:54:00:00:00:02", "52:54:00:00:00:01")
    assert parse_drop(alert(ifindex=0)).ifindex is None


def test_a_packet_dropped_by_a_device() -> None:
    attributes = b"".join(
        (
            pack_attribute(14, struct.pack("=H", 1)),
            pack_text(15, "l2_drops"),
            pack_text(16, "ingress_vlan_filter"),
            pack_attribute(4, pack_u32(0, 7) + pack_text(1, "eth0")),
            pack_u32(10, 98),
        )
    )
    assert parse_drop(attributes) == Drop(
        True, "", "ingress_vlan_filter", "l2_drops", 7, 98, 0, b""
    )


@pytest.mark.parametrize(
    ("symbol", "expected"),
    [
        ("udp_rcv+0x1a/0x2b0", "udp_rcv"),
        ("tbf_enqueue+0x1a6/0x2b0 [sch_tbf]", "tbf_enqueue [sch_tbf]"),
        ("a_long_name_of_a_function+0x1a6/0x2b0 [sc", "a_long_name_of_a_function"),
        ("0xffffffffc0a00001", "0xffffffffc0a00001"),
        ("", ""),
    ],
)
def test_symbols(symbol: str, expected: str) -> None:
    assert parse_symbol(symbol) == expected


@pytest.mark.parametrize(
    ("packet", "protocol", "expected"),
    [
        (ethernet(0x800, IP4), 0x800, ("udp", "192.0.2.9", "192.0.2.1", None)),
        (ethernet(0x86DD, IP6 + TCP), 0x86DD, ("tcp", "fd00::9", "fd00::1", 22)),
        (ethernet(0x806, ARP), 0x806, ("arp", "192.0.2.9", "192.0.2.1", None)),
        (
            ethernet(0x800, IP4 + UDP, tags=bytes.fromhex("81000064")),
            0x800,
            ("udp", "192.0.2.9", "192.0.2.1", 5201),
        ),
        (
            ethernet(0x800, IP4 + UDP, tags=bytes.fromhex("81000064")),
            0x8100,
            ("udp", "192.0.2.9", "192.0.2.1", 5201),
        ),
        (IP4 + UDP, 0x800, ("udp", "192.0.2.9", "192.0.2.1", 5201)),
        (IP6 + TCP, 0x86DD, ("tcp", "fd00::9", "fd00::1", 22)),
        (
            ethernet(0x800, IP4[:6] + b"\x20\x10" + IP4[8:] + UDP),
            0x800,
            ("udp", "192.0.2.9", "192.0.2.1", None),
        ),
        (
            ethernet(0x800, IP4[:9] + b"\x2f" + IP4[10:]),
            0x800,
            ("47", "192.0.2.9", "192.0.2.1", None),
        ),
        (
            ethernet(0x88CC, b"\2\7"),
            0x88CC,
            ("0x88cc", "52:54:00:00:00:02", "52:54:00:00:00:01", None),
        ),
        (
            ethernet(0x800, IP4[:12]),
            0x800,
            ("0x0800", "52:54:00:00:00:02", "52:54:00:00:00:01", None),
        ),
        (b"", 0x800, ("0x0800", "", "", None)),
    ],
)
def test_flows(packet: bytes, protocol: int, expected: tuple[str, str, str, int | None]) -> None:
    assert parse_flow(packet, protocol) == expected


@given(st.binary(max_size=200), st.integers(0, 0xFFFF))
def test_any_bytes(data: bytes, protocol: int) -> None:
    counter = DropCounter()
    counter.add(parse_drop(data))
    counter.add(parse_drop(alert(packet=data)))
    parse_flow(data, protocol)
    parse_macs(data, protocol)
    parse_lost(data)
    assert sum(group.packets for group in counter.groups()) == 2


# ------------------------------------------------------------------------------------------- groups


def test_groups() -> None:
    counter = DropCounter()
    for reason, ifindex, number in (
        ("NO_SOCKET", 2, 3),
        ("IP_RPFILTER", 2, 5),
        ("NO_SOCKET", 0, 1),
    ):
        for _ in range(number):
            counter.add(parse_drop(alert(reason, ifindex=ifindex)))
    flow = ("udp", "192.0.2.9", "192.0.2.1", 5201)
    assert counter.groups() == (
        DropGroup(
            "IP_RPFILTER", "udp_rcv", 2, 5, 490, "52:54:00:00:00:01", flows=(DropFlow(*flow, 5),)
        ),
        DropGroup(
            "NO_SOCKET", "udp_rcv", 2, 3, 294, "52:54:00:00:00:01", flows=(DropFlow(*flow, 3),)
        ),
        DropGroup(
            "NO_SOCKET", "udp_rcv", None, 1, 98, "52:54:00:00:00:02", flows=(DropFlow(*flow, 1),)
        ),
    )


def test_a_group_with_several_addresses_has_none() -> None:
    counter = DropCounter()
    for packet in (ethernet(0x800, IP4 + UDP), THERE + HERE + b"\x08\x00" + IP4 + UDP):
        counter.add(parse_drop(alert(packet=packet)))
    (group,) = counter.groups()
    assert group.mac is None


def test_counts_are_limited() -> None:
    counter = DropCounter()
    for number in range(MAX_GROUPS + 9):
        counter.add(parse_drop(alert(f"REASON_{number}")))
    for number in range(MAX_FLOWS + 9):
        counter.add(
            parse_drop(
                alert(
                    "REASON_0", packet=ethernet(0x800, IP4 + struct.pack(">HHHH", 1, number, 8, 0))
                )
            )
        )
    groups = counter.groups()
    assert counter.packets == MAX_GROUPS + MAX_FLOWS + 18 and len(groups) == MAX_GROUPS
    assert groups[0].packets == MAX_FLOWS + 10 and len(groups[0].flows) == MAX_REPORTED_FLOWS


# ------------------------------------------------------------------------------------------ monitor


class Kernel:
    """The family NET_DM of a kernel, which has one state for all sockets."""

    def __init__(self) -> None:
        self.settings: dict[int, bytes] = {
            1: b"\0",
            9: struct.pack("=I", 0),
            11: struct.pack("=I", 1000),
        }
        self.flags: set[int] = set()
        """20: software, 21: hardware drops are monitored."""
        self.lost = 7
        self.has_devlink = True
        self.fails: dict[int, int] = {}
        """Command → errno."""

    def generic(
        self, family: str, command: int, attributes: bytes = b"", *, dump: bool = False
    ) -> list[bytes]:
        assert family == "NET_DM" and not dump
        given = dict(iter_attributes(attributes))
        if command in self.fails:
            raise NetlinkError(self.fails[command], "refused")
        if command == monitor.NET_DM_CMD_CONFIG:
            if self.flags:
                raise NetlinkError(errno.EBUSY, "Cannot configure drop monitor during monitoring")
            self.settings.update(given)
        elif command == monitor.NET_DM_CMD_START:
            if self.flags:
                raise NetlinkError(errno.EAGAIN, "Trace state already set to requested state")
            if 21 in given and not self.has_devlink:
                raise NetlinkError(
                    errno.EOPNOTSUPP, "Failed to connect probe to devlink_trap_probe() tracepoint"
                )
            self.flags = set(given)
        elif command == monitor.NET_DM_CMD_STOP:
            self.flags -= set(given)
        elif command == monitor.NET_DM_CMD_CONFIG_GET:
            return [b"".join(pack_attribute(kind, value) for kind, value in self.settings.items())]
        elif command == monitor.NET_DM_CMD_STATS_GET:
            software = pack_attribute(12, pack_attribute(0, struct.pack("=Q", self.lost)))
            return [software + pack_attribute(13, pack_attribute(0, struct.pack("=Q", 1)))]
        return []

    def __enter__(self) -> Kernel:
        return self

    def __exit__(self, *_: object) -> None:
        pass


@pytest.fixture
def kernel(monkeypatch: pytest.MonkeyPatch) -> Kernel:
    found = Kernel()
    monkeypatch.setattr(monitor, "NetlinkSocket", lambda _: found)
    return found


@pytest.mark.parametrize("has_devlink", [True, False])
def test_settings_are_restored(kernel: Any, has_devlink: bool) -> None:
    kernel.has_devlink = has_devlink
    before = dict(kernel.settings)
    used = Monitor(kernel)
    assert used.start() is has_devlink
    assert kernel.flags == ({20, 21} if has_devlink else {20})
    assert kernel.settings[1] == b"\1" and kernel.settings != before
    used.stop()
    assert (kernel.flags, kernel.settings) == (set(), before)


def test_the_monitor_of_another_program_is_left_alone(kernel: Any) -> None:
    kernel.flags, before = {20}, dict(kernel.settings)
    with pytest.raises(OSError) as raised:
        Monitor(kernel).start()
    assert raised.value.errno == errno.EBUSY and (kernel.flags, kernel.settings) == ({20}, before)


def test_another_program_starts_it_at_the_same_time(kernel: Any) -> None:
    """Its monitor is not stopped, and its settings are not changed back."""
    kernel.fails = {monitor.NET_DM_CMD_START: errno.EAGAIN}
    with pytest.raises(OSError) as raised:
        Monitor(kernel).start()
    assert raised.value.errno == errno.EBUSY


def test_settings_are_restored_after_a_failed_start(kernel: Any) -> None:
    kernel.fails, before = {monitor.NET_DM_CMD_START: errno.ENODEV}, dict(kernel.settings)
    with pytest.raises(OSError):
        Monitor(kernel).start()
    assert (kernel.flags, kernel.settings) == (set(), before)


@pytest.fixture
def pipes() -> Iterator[tuple[int, int, int, int]]:
    """Ends of two pipes: reports to read and to write, commands to read and to write."""
    reports, commands = os.pipe(), os.pipe()
    yield (*reports, *commands)
    for descriptor in (*reports, *commands):
        try:
            os.close(descriptor)
        except OSError:
            continue


def test_the_monitor_runs_until_the_other_end_is_closed(
    kernel: Kernel, pipes: tuple[int, int, int, int]
) -> None:
    readable, writable, commands, closed = pipes
    thread = threading.Thread(target=keep_running, args=(60.0, writable, commands))
    thread.start()
    assert os.read(readable, 99) == b"+\n" and kernel.flags == {20, 21}
    kernel.lost += 3
    os.close(closed)
    thread.join()
    assert os.read(readable, 99) == b"3\n" and kernel.flags == set()


def test_the_monitor_is_stopped_when_nobody_does(
    kernel: Kernel, pipes: tuple[int, int, int, int]
) -> None:
    readable, writable, commands, _ = pipes
    keep_running(0.01, writable, commands)
    assert os.read(readable, 99) == b"+\n0\n" and kernel.flags == set()


def test_a_monitor_that_cannot_be_started(kernel: Kernel, pipes: tuple[int, int, int, int]) -> None:
    readable, writable, commands, _ = pipes
    kernel.flags = {21}
    keep_running(1.0, writable, commands)
    assert os.read(readable, 999).startswith(f"{errno.EBUSY} ".encode()) and kernel.flags == {21}


def message(command: int, body: bytes, kind: int = FAMILY_ID) -> bytes:
    payload = GENERIC_HEADER.pack(command, 2) + body
    return HEADER.pack(HEADER.size + len(payload), kind, 0, 0, 0) + payload


def test_messages_are_received_until_the_deadline() -> None:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    with ours, theirs:
        theirs.send(message(monitor.NET_DM_CMD_PACKET_ALERT, alert()))
        theirs.send(message(monitor.NET_DM_CMD_CONFIG_GET, alert()))
        theirs.send(message(monitor.NET_DM_CMD_PACKET_ALERT, alert(), kind=FAMILY_ID + 1))
        theirs.send(b"\0" * 7)
        theirs.send(message(monitor.NET_DM_CMD_PACKET_ALERT, alert()))
        counter, overruns = receive(ours, FAMILY_ID, time.monotonic() + 0.05)
    assert (counter.packets, overruns, len(counter.groups())) == (2, 0, 1)


def test_reception_ends_at_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(monitor, "MAX_PACKETS", 2)
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    with ours, theirs:
        for _ in range(3):
            theirs.send(message(monitor.NET_DM_CMD_PACKET_ALERT, alert()))
        counter, _ = receive(ours, FAMILY_ID, time.monotonic() + 60)
    assert counter.packets == 2


@pytest.mark.parametrize(
    ("number", "state"),
    [
        (errno.ENOENT, "not_offered"),
        (errno.EOPNOTSUPP, "not_offered"),
        (errno.EPERM, "needs_root"),
        (errno.EBUSY, "busy"),
        (errno.EIO, "failed"),
    ],
)
def test_reasons_for_no_report(monkeypatch: pytest.MonkeyPatch, number: int, state: str) -> None:
    def refused(_: int) -> None:
        raise NetlinkError(number, "refused")

    monkeypatch.setattr(monitor, "NetlinkSocket", refused)
    monkeypatch.setattr(monitor, "is_first_namespace", lambda _: True)
    assert read_drops(1.0) == DropReport(state, "refused" if state == "failed" else "")  # type: ignore[arg-type]


def test_a_network_namespace_without_the_family(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(_: int) -> None:
        raise NetlinkError(errno.ENOENT, "no such family")

    monkeypatch.setattr(monitor, "NetlinkSocket", refused)
    monkeypatch.setattr(monitor, "is_first_namespace", lambda _: False)
    assert read_drops(1.0).state == "other_namespace"


def test_this_kernel() -> None:
    assert read_drops(0.1).state in (
        "complete",
        "needs_root",
        "not_offered",
        "other_namespace",
        "busy",
    )
    assert isinstance(other_namespaces(), set)


def test_requests() -> None:
    fields = {"id": "d", "action": "drops", "deadline": 60.0}
    assert TrafficCommand(fields).deadline == 60.0
    for wrong in (0, 60.1, None, True, "9"):
        with pytest.raises(
            ValueError, match="deadline is not a number of seconds above 0 and up to 60"
        ):
            TrafficCommand({**fields, "deadline": wrong})
