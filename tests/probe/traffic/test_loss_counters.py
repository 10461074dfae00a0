"""Counters of lost packets: what is parsed, and what two readings tell."""

from __future__ import annotations

import shutil
import socket
import struct
from pathlib import Path

import pytest

from nictop.probe.records import FilterRule, LossCount, PacketChain
from nictop.probe.traffic import loss_counters
from nictop.probe.traffic.loss_differences import increases
from tests.support.namespaces import Namespace, why_no_namespaces

REASON = why_no_namespaces()
SNMP = """Ip: Forwarding DefaultTTL InDiscards OutDiscards ReasmFails
Ip: 1 64 5 0 2
Udp: InDatagrams NoPorts RcvbufErrors InCsumErrors
Udp: 900 12 3 7
"""
OF_THIS_MACHINE = ("link", "qdisc", "filter")
"""Sources that are not read from files."""
CONNTRACK = """entries  clashres found new invalid ignore delete delete_list insert insert_failed drop early_drop
0000000a 00000000 00000000 00000000 00000001 00000000 00000000 00000000 00000000 00000002 00000010 00000000
0000000a 00000000 00000000 00000000 00000001 00000000 00000000 00000000 00000000 00000001 00000001 00000000
"""


def fake_root(folder: Path) -> tuple[str, str]:
    """(proc, cgroups) with a cgroup whose parent has a limit."""
    net = folder / "proc/net"
    (net / "stat").mkdir(parents=True)
    (net / "snmp").write_text(SNMP)
    (net / "snmp6").write_text("Udp6InCsumErrors   \t4\nUdp6InDatagrams 900\nIp6InDiscards x\n")
    (net / "netstat").write_text("TcpExt: SyncookiesSent ListenDrops\nTcpExt: 0 6\n")
    (net / "softnet_stat").write_text(
        "00000010 00000002 00000000\n00000010 0000000b 00000000\nzz\n"
    )
    (net / "stat/nf_conntrack").write_text(CONNTRACK)
    (folder / "proc/self").mkdir()
    (folder / "proc/self/cgroup").write_text("0::/system.slice/x.service\n")
    limited = folder / "cgroup/system.slice"
    (limited / "x.service").mkdir(parents=True)
    (limited / "cpu.stat").write_text(
        "usage_usec 9\nnr_periods 10\nnr_throttled 4\nthrottled_usec 3000\n"
    )
    (limited / "x.service/cpu.stat").write_text("usage_usec 9\nnr_throttled 0\nthrottled_usec 0\n")
    return str(folder / "proc"), str(folder / "cgroup")


def test_reading(tmp_path: Path) -> None:
    """Totals above 0, the largest first; unrelated counters and malformed lines are left out."""
    proc, cgroups = fake_root(tmp_path)
    found = [
        one
        for one in loss_counters.read_loss_counts(0, proc, cgroups)
        if one.source not in OF_THIS_MACHINE
    ]
    assert {(one.source, one.name, one.count, one.where) for one in found} == {
        ("protocol", "Ip InDiscards", 5, ""),
        ("protocol", "Ip ReasmFails", 2, ""),
        ("protocol", "Udp RcvbufErrors", 3, ""),
        ("protocol", "Udp InCsumErrors", 7, ""),
        ("protocol", "Udp6InCsumErrors", 4, ""),
        ("protocol", "TcpExt ListenDrops", 6, ""),
        ("conntrack", "drop", 17, ""),
        ("conntrack", "insert_failed", 3, ""),
        ("softnet", "dropped", 13, ""),
        ("cgroup", "nr_throttled", 4, "/system.slice"),
        ("cgroup", "throttled_usec", 3000, "/system.slice"),
    }
    assert [one.count for one in found] == sorted((one.count for one in found), reverse=True)


def test_nothing_to_read(tmp_path: Path) -> None:
    found = loss_counters.read_loss_counts(9999, str(tmp_path), str(tmp_path))
    assert {one.source for one in found} <= set(OF_THIS_MACHINE)


def test_differences() -> None:
    before = (
        LossCount("qdisc", "tbf", 5, 2, "1:"),
        LossCount("softnet", "dropped", 9),
        LossCount("link", "rx_errors", 4, 2),
    )
    after = (
        LossCount("qdisc", "tbf", 8, 2, "1:"),
        LossCount("qdisc", "tbf", 7, 2, "2:"),
        LossCount("softnet", "dropped", 9),
        LossCount("link", "rx_errors", 1, 2),
    )
    assert increases(before, after) == (
        LossCount("qdisc", "tbf", 7, 2, "2:"),
        LossCount("qdisc", "tbf", 3, 2, "1:"),
    )


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("0::/a/b\n", [(("", "unified"), "/a/b")]),
        (
            "3:cpuacct,cpu:/docker/x\n0::/\n",
            [(("cpu,cpuacct", "cpu"), "/docker/x"), (("", "unified"), "/")],
        ),
        ("9:name=systemd:/\n8:memory:/m\nmalformed\n", []),
        ("0::/a/../../etc\n", []),
    ],
)
def test_cgroup_paths(content: str, expected: list[tuple[tuple[str, ...], str]]) -> None:
    assert list(loss_counters.cgroup_paths(content)) == expected


def test_time_of_version_1_is_in_nanoseconds() -> None:
    found = list(
        loss_counters.parse_throttling(
            "nr_periods 5\nnr_throttled 2\nthrottled_time 5000000\n", "/x"
        )
    )
    assert [(one.name, one.count) for one in found] == [
        ("nr_throttled", 2),
        ("throttled_usec", 5000),
    ]


def test_malformed() -> None:
    assert loss_counters.parse_conntrack("") == tuple(
        LossCount("conntrack", name, 0) for name in loss_counters.CONNTRACK_COLUMNS
    )
    assert loss_counters.parse_qdisc_drops(b"") is None
    assert loss_counters.parse_qdisc_drops(struct.pack("=BxxxiIII", 0, 1, 1, 1, 1)) is None


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("rx_xdp_drops", True),
        ("rx0_xdp_drop", True),
        ("xdp_tx_errors", True),
        ("rx_drops", False),
        ("xdp_packets", False),
    ],
)
def test_counters_of_xdp(name: str, expected: bool) -> None:
    assert loss_counters.is_xdp_drop(name) == expected


@pytest.mark.skipif(REASON is not None, reason=REASON or "")
def test_drops_of_a_real_qdisc() -> None:
    namespace = Namespace()
    try:
        namespace.run(["ip", "link", "add", "v0", "type", "veth", "peer", "name", "v1"])
        for name in ("v1", "v0"):
            namespace.run(["ip", "link", "set", name, "up"])
        namespace.run(["ip", "address", "add", "192.0.2.1/24", "dev", "v0"])
        namespace.run(
            ["ip", "neighbour", "add", "192.0.2.2", "lladdr", "02:00:00:00:00:01", "dev", "v0"]
        )
        namespace.run(["tc", "qdisc", "add", "dev", "v0", "root", "blackhole"])

        def lose() -> tuple[LossCount, ...]:
            before = loss_counters.read_loss_counts()
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
                for _ in range(7):
                    sender.sendto(b"x", ("192.0.2.2", 9))
            return increases(before, loss_counters.read_loss_counts())

        (found,) = [one for one in namespace.call(lose) if one.source == "qdisc"]
        assert (found.name, found.count >= 7) == ("blackhole", True)
    finally:
        namespace.remove()


@pytest.mark.parametrize(
    ("rules", "policy", "undecided", "dropped"),
    [
        (
            (
                FilterRule("drop", packets=4),
                FilterRule("reject", packets=3),
                FilterRule("accept", packets=9),
            ),
            "",
            None,
            7,
        ),
        ((FilterRule("drop"),), "drop", 5, 5),
        ((), "accept", 5, 0),
        ((FilterRule(packets=6), FilterRule("jump", "x", packets=6)), "drop", None, 0),
    ],
)
def test_drops_of_a_chain(
    rules: tuple[FilterRule, ...], policy: str, undecided: int | None, dropped: int
) -> None:
    chain = PacketChain("nft", "inet", "f", "raw", "prerouting", 0, policy, undecided, rules=rules)
    assert loss_counters.filter_drops(chain) == LossCount(
        "filter", "nft", dropped, None, "inet f raw"
    )


@pytest.mark.skipif(REASON is not None, reason=REASON or "")
@pytest.mark.skipif(shutil.which("nft") is None, reason="nft is not installed")
@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        ("udp dport 9 counter drop", [("nft", 7, "inet f raw")]),
        ("counter udp dport 9 drop", []),  # counts also what is not dropped
    ],
)
def test_drops_of_a_real_filter(rule: str, expected: list[tuple[str, int, str]]) -> None:
    namespace = Namespace()
    try:
        namespace.run(["ip", "link", "set", "lo", "up"])
        chain = f"type filter hook prerouting priority -300; {rule};"
        namespace.run(["nft", "-f", "-"], input=f"table inet f {{\nchain raw {{ {chain} }}\n}}\n")

        def lose() -> tuple[LossCount, ...]:
            before = loss_counters.read_loss_counts()
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
                for _ in range(7):
                    sender.sendto(b"x", ("127.0.0.1", 9))
            return increases(before, loss_counters.read_loss_counts())

        lost = [one for one in namespace.call(lose) if one.source == "filter"]
        assert [(one.name, one.count, one.where) for one in lost] == expected
    finally:
        namespace.remove()
