"""Counters of the network stack: files of /proc, once a second, and arbitrary bytes. Real drops:
`test_sysctl`."""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nictop.probe.counters.network_stack import (
    CONNECTIONS,
    INTERVAL_SECONDS,
    REVERSE_PATH,
    STATISTICS,
    TCP_CHECKSUMS,
    UDP_CHECKSUMS,
    StackCounterReader,
    parse_statistic,
)
from nictop.probe.counters.targets import stack_counters
from nictop.probe.kernel.open_files import OpenFileCache
from nictop.probe.records import Inventory, Link, Settings

NETSTAT = b"""\
TcpExt: SyncookiesSent EmbryonicRsts IPReversePathFilter TCPTimeWait
TcpExt: 0 3 17 5
IpExt: InNoRoutes InOctets
IpExt: 0 5000
"""
SNMP = b"""\
Tcp: InSegs InErrs OutRsts InCsumErrors
Tcp: 1772412 0 13164 5
Udp: InDatagrams NoPorts InErrors InCsumErrors
Udp: 139623 13 8 12
UdpLite: InDatagrams NoPorts InErrors InCsumErrors
UdpLite: 0 0 0 7
"""


def reader_of(folder: Path, *names: str) -> StackCounterReader:
    reader = StackCounterReader(OpenFileCache(), proc=str(folder))
    reader.set_targets(names)
    return reader


def never(error: Exception, where: str) -> None:
    raise AssertionError(f"{where}: {error}")


def proc(folder: Path, connections: str = "42\n") -> Path:
    (folder / "net").mkdir()
    (folder / "net/netstat").write_bytes(NETSTAT)
    (folder / "net/snmp").write_bytes(SNMP)
    (folder / "sys/net/netfilter").mkdir(parents=True)
    (folder / "sys/net/netfilter/nf_conntrack_count").write_text(connections)
    return folder


def test_position_of_the_name_is_that_of_the_value() -> None:
    assert parse_statistic(NETSTAT, *STATISTICS[REVERSE_PATH]) == 17
    assert parse_statistic(SNMP, *STATISTICS[UDP_CHECKSUMS]) == 12
    assert parse_statistic(SNMP, *STATISTICS[TCP_CHECKSUMS]) == 5


def test_only_targets_are_read(tmp_path: Path) -> None:
    folder = proc(tmp_path)
    assert reader_of(folder, REVERSE_PATH, CONNECTIONS).read(1.0, never) == {
        REVERSE_PATH: 17,
        CONNECTIONS: 42,
    }
    assert reader_of(folder, CONNECTIONS, "of another version").read(1.0, never) == {
        CONNECTIONS: 42
    }
    assert reader_of(folder, UDP_CHECKSUMS, TCP_CHECKSUMS).read(1.0, never) == {
        UDP_CHECKSUMS: 12,
        TCP_CHECKSUMS: 5,
    }
    assert reader_of(folder).read(1.0, never) == {}


def test_files_are_read_once_a_second(tmp_path: Path) -> None:
    reader = reader_of(proc(tmp_path), CONNECTIONS)
    assert reader.read(10.0, never) == {CONNECTIONS: 42}
    (tmp_path / "sys/net/netfilter/nf_conntrack_count").write_text("43\n")
    assert reader.read(10.1, never) == {CONNECTIONS: 42}
    assert reader.read(10.0 + INTERVAL_SECONDS, never) == {CONNECTIONS: 43}


def test_failures(tmp_path: Path) -> None:
    """A module that was removed is no failure, other contents are."""
    failed: list[str] = []
    reader = reader_of(proc(tmp_path, "many\n"), CONNECTIONS)
    assert reader.read(1.0, lambda error, where: failed.append(where)) == {}
    assert failed == [f"{tmp_path}/sys/net/netfilter/nf_conntrack_count"]
    (tmp_path / "sys/net/netfilter/nf_conntrack_count").unlink()
    reader.set_targets((CONNECTIONS,))
    assert reader_of(tmp_path, CONNECTIONS).read(5.0, never) == {}


@given(st.binary(max_size=200))
def test_any_bytes_are_a_count_or_a_value_error(text: bytes) -> None:
    for content in (text, b"TcpExt: IPReversePathFilter\nTcpExt: " + text):
        with contextlib.suppress(ValueError):
            assert parse_statistic(content, *STATISTICS[REVERSE_PATH]) >= 0


@pytest.mark.parametrize(
    ("settings", "names"),
    [
        (Settings(), []),
        (
            Settings(sysctl={"net.ipv4.conf.all.rp_filter": 2, "net.ipv4.conf.eth0.rp_filter": 0}),
            [],
        ),
        (Settings(sysctl={"net.ipv4.conf.eth0.rp_filter": 1}), [REVERSE_PATH]),
        (Settings(tables={"connections": (1, 2), "ipv4": (1, 2)}), [CONNECTIONS]),
    ],
)
def test_hosts_that_need_them(settings: Settings, names: list[str]) -> None:
    inventory = Inventory(0.0, 0.0, 0.0, "start", None, (), (), settings=settings)  # type: ignore[arg-type]
    assert stack_counters(inventory) == names


@pytest.mark.parametrize(
    ("kind", "flags", "names"),
    [
        ("vxlan", 1, [UDP_CHECKSUMS, TCP_CHECKSUMS]),
        ("geneve", 1, [UDP_CHECKSUMS, TCP_CHECKSUMS]),
        ("vxlan", 0, []),
        ("vlan", 1, []),
    ],
)
def test_hosts_with_a_tunnel(kind: str, flags: int, names: list[str]) -> None:
    """The file is read once a second only where a NIC computes the checksums of a tunnel."""
    link = Link(2, "vx", 1, flags, "up", True, 1450, kind=kind)
    inventory = Inventory(0.0, 0.0, 0.0, "start", None, (), (link,))  # type: ignore[arg-type]
    assert stack_counters(inventory) == names
