"""Settings: this machine against sysctl and ip, names with dots, policy rules in a namespace,
removed secrets."""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nictop.probe.counters.network_stack import REVERSE_PATH
from nictop.probe.inventory.links.reader import read_links
from nictop.probe.inventory.links.routes import (
    FRA_PRIORITY,
    FRA_SUPPRESS_PREFIXLEN,
    FRA_TABLE,
    is_policy_rule,
)
from nictop.probe.inventory.machine.sysctl import (
    directory_of,
    parse_command_line,
    parse_cpus,
    parse_reassembly,
    parse_reverse_path_drops,
    parse_sizes,
    read_policy_rules,
    read_settings,
)
from nictop.probe.kernel.netlink import pack_text, pack_u32
from nictop.probe.kernel.route_lookup import RTMSG
from nictop.probe.records import Address, Link, Settings, Unreadable
from tests.support.namespaces import Namespace, join_by_veth
from tests.support.probe import wait_until

FRA_IIFNAME = 3
READ = """
import json
from nictop.probe.inventory.links.reader import read_links
from nictop.probe.inventory.machine.sysctl import read_settings
from nictop.probe.light_dataclasses import field_mapping
print(json.dumps(read_settings(read_links()[0]), default=field_mapping))
"""
READ_STACK = f"""
import json
from nictop.probe.counters.network_stack import StackCounterReader
from nictop.probe.kernel.open_files import OpenFileCache
reader = StackCounterReader(OpenFileCache())
reader.set_targets(["{REVERSE_PATH}"])
print(json.dumps(reader.read(0.0, print)))
"""


def link(ifindex: int, name: str, *families: str) -> Link:
    addresses = tuple(
        Address("ipv4", "192.0.2.1", 24, "global", ())
        if family == "ipv4"
        else Address("ipv6", "::1", 128, "host", ())
        for family in families
    )
    return Link(ifindex, name, 1, 0, "up", True, 1500, addresses=addresses)


def inside(namespace: Namespace) -> Settings:
    return Settings(**json.loads(namespace.python(READ)))


def output_of(*argv: str) -> str:
    return subprocess.run(argv, capture_output=True, text=True, check=True).stdout


def test_this_machine_agrees_with_sysctl_and_ip() -> None:
    if shutil.which("sysctl") is None or shutil.which("ip") is None:
        pytest.skip("no sysctl or ip")
    found = read_settings(read_links()[0])
    assert found.unreadable == {}
    for name, value in found.sysctl.items():
        done = subprocess.run(["sysctl", "-n", name], capture_output=True, text=True, check=False)
        if done.returncode == 0:  # sysctl reads another path for a link with a dot in its name
            assert str(value) == done.stdout.strip()
    assert (
        found.congestion_control
        == output_of("sysctl", "-n", "net.ipv4.tcp_congestion_control").strip()
    )
    for name, sizes in found.tcp_buffers.items():
        assert output_of("sysctl", "-n", name).split() == [str(size) for size in sizes]
    assert set(found.tcp_buffers) == {"net.ipv4.tcp_rmem", "net.ipv4.tcp_wmem"}
    rules = json.loads(output_of("ip", "-j", "-4", "rule"))
    assert found.policy_rules == len(
        [rule for rule in rules if rule["priority"] not in (0, 32766, 32767)]
    )
    assert set((found.command_line or "").split()) <= set(Path("/proc/cmdline").read_text().split())


def test_links_with_addresses_and_dots_in_a_namespace(namespace: Namespace) -> None:
    namespace.disable_ipv6()
    namespace.run(["ip", "link", "add", "a.b.c", "type", "veth", "peer", "name", "bare0"])
    namespace.run(["ip", "address", "add", "192.0.2.1/24", "dev", "a.b.c"])
    namespace.run(["sh", "-c", "echo 1 > /proc/sys/net/ipv4/conf/a.b.c/arp_filter"])
    namespace.run(["sh", "-c", "echo 2 > /proc/sys/net/ipv4/conf/a.b.c/rp_filter"])
    namespace.run(["sh", "-c", "echo 1 > /proc/sys/net/ipv4/ip_forward"])
    found = inside(namespace)
    assert found.unreadable == {}
    assert found.sysctl["net.ipv4.conf.a.b.c.arp_filter"] == 1
    assert found.sysctl["net.ipv4.conf.a.b.c.rp_filter"] == 2
    assert found.sysctl["net.ipv4.ip_forward"] == 1
    assert found.sysctl["net.ipv4.conf.a.b.c.forwarding"] == 1
    assert not any("bare0" in name for name in found.sysctl)


def test_packets_dropped_by_strict_rp_filter_are_counted(
    namespace: Namespace, other: Namespace
) -> None:
    for end in (namespace, other):
        end.disable_ipv6()
    for number, wire in enumerate(("one", "two")):
        join_by_veth(namespace, other, wire)
        namespace.run(["ip", "address", "add", f"198.51.{number}.1/24", "dev", wire])
        other.run(["ip", "address", "add", f"198.51.{number}.2/24", "dev", wire])
    namespace.run(["sh", "-c", "echo 1 > /proc/sys/net/ipv4/conf/two/rp_filter"])
    namespace.run(["ip", "route", "add", "198.51.1.2/32", "dev", "one"])
    assert inside(namespace).reverse_path_drops == 0
    # the kernel does not reply to ARP requests that rp_filter rejects either
    address = json.loads(namespace.run(["ip", "-j", "link", "show", "dev", "two"]))[0]["address"]
    other.run(["ip", "neighbour", "add", "198.51.1.1", "lladdr", address, "dev", "two"])
    send = (
        "import socket; socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b'', "
        "('198.51.1.1', 9))"
    )
    other.run([sys.executable, "-c", send])
    wait_until(lambda: inside(namespace).reverse_path_drops == 1)
    assert json.loads(namespace.python(READ_STACK)) == {REVERSE_PATH: 1}


def test_policy_rules_in_a_namespace(namespace: Namespace) -> None:
    assert inside(namespace).policy_rules == 0
    namespace.run(["ip", "rule", "add", "from", "192.0.2.1", "lookup", "100"])
    namespace.run(["ip", "rule", "add", "pref", "32766", "iif", "lo", "lookup", "main"])
    assert inside(namespace).policy_rules == 2
    namespace.run(["ip", "-6", "rule", "add", "from", "2001:db8::1", "lookup", "100"])
    assert inside(namespace).policy_rules == 2
    namespace.run(["ip", "rule", "flush"])
    assert inside(namespace).policy_rules == 0


def test_rules_that_differ_slightly_from_the_kernels() -> None:
    def rule(
        priority: int, table: int, *attributes: bytes, action: int = 1, source: int = 0
    ) -> bytes:
        named = pack_u32(FRA_TABLE, table) + (pack_u32(FRA_PRIORITY, priority) if priority else b"")
        return (
            RTMSG.pack(socket.AF_INET, 0, source, 0, table & 0xFF, 0, 0, action, 0)
            + named
            + b"".join(attributes)
        )

    no_suppression = pack_u32(FRA_SUPPRESS_PREFIXLEN, 0xFFFFFFFF)
    assert not is_policy_rule(rule(0, 255, no_suppression))
    assert not is_policy_rule(rule(32766, 254, no_suppression))
    assert not is_policy_rule(rule(32767, 253))
    assert is_policy_rule(rule(32766, 254, pack_u32(FRA_SUPPRESS_PREFIXLEN, 0)))
    assert is_policy_rule(rule(32766, 254, pack_text(FRA_IIFNAME, "eth0")))
    assert is_policy_rule(rule(32766, 254, source=32))
    assert is_policy_rule(rule(32766, 254, action=6))
    assert is_policy_rule(rule(32765, 254))
    assert is_policy_rule(rule(0, 254))


@given(st.binary(max_size=80))
def test_any_bytes_are_a_rule(payload: bytes) -> None:
    assert is_policy_rule(payload) is (len(payload) >= RTMSG.size and is_policy_rule(payload))


def test_sysctls_of_links_with_ipv4_and_names_with_dots(tmp_path: Path) -> None:
    for folder in ("all", "eth0.100", "eth0", "wan"):
        (tmp_path / "sys/net/ipv4/conf" / folder).mkdir(parents=True)
        (tmp_path / "sys/net/ipv4/conf" / folder / "arp_filter").write_text("1\n")
    (tmp_path / "sys/net/core").mkdir()
    (tmp_path / "sys/net/core/rmem_max").write_text("212992\n")
    links = [
        link(2, "eth0.100", "ipv4"),
        link(3, "eth0", "ipv6"),
        link(4, "wan", "ipv6", "ipv4"),
        link(5, "no", "ipv4"),
    ]
    found = read_settings(links, str(tmp_path), str(tmp_path))
    assert found.sysctl == {
        "net.core.rmem_max": 212992,
        "net.ipv4.conf.all.arp_filter": 1,
        "net.ipv4.conf.eth0.100.arp_filter": 1,
        "net.ipv4.conf.wan.arp_filter": 1,
    }
    assert (found.congestion_control, found.command_line, found.unreadable) == (None, None, {})


@pytest.mark.parametrize("name", ["..", ".", "", "a/b", "all", "default", "gone\ufffd"])
def test_names_that_are_no_directory_are_ignored(name: str) -> None:
    assert directory_of(link(2_000_000_000, name, "ipv4")) is None


def test_unreadable_files_are_reported(tmp_path: Path) -> None:
    (tmp_path / "sys/net/core/rmem_max").mkdir(parents=True)
    (tmp_path / "cmdline").mkdir()
    found = read_settings([], str(tmp_path), str(tmp_path))
    assert found.unreadable["sysctl"].detail.endswith("rmem_max: EISDIR")
    assert found.unreadable["command_line"].detail.endswith("cmdline: EISDIR")
    (tmp_path / "sys/net/core/rmem_max").rmdir()
    (tmp_path / "sys/net/core/rmem_max").write_text("many")
    assert (
        read_settings([], str(tmp_path), str(tmp_path)).unreadable["sysctl"].reason == "malformed"
    )


def test_frequencies_of_each_cpu(tmp_path: Path) -> None:
    """Policies of one and of two CPUs; one with EBUSY for the current frequency, and one without
    CPUs."""
    for policy, cpus, governor, current in (
        ("policy0", "0 1", "powersave", "1200000"),
        ("policy2", "2", "performance", "<unknown>"),
        ("policy3", "", "schedutil", "800000"),
        ("boost", "9", "x", "1"),
    ):
        folder = tmp_path / "devices/system/cpu/cpufreq" / policy
        folder.mkdir(parents=True)
        (folder / "affected_cpus").write_text(cpus + "\n")
        (folder / "scaling_governor").write_text(governor + "\n")
        (folder / "scaling_cur_freq").write_text(current + "\n")
        (folder / "cpuinfo_max_freq").write_text("3600000\n")
    found = read_settings([], str(tmp_path), str(tmp_path))
    assert found.governors == {0: "powersave", 1: "powersave", 2: "performance"}
    assert found.frequencies == {0: (1200000, 3600000), 1: (1200000, 3600000)}
    assert found.unreadable["frequencies"].reason == "malformed"


@pytest.mark.parametrize("driver", ["none", "intel_idle", None])
def test_driver_of_the_sleep_states(tmp_path: Path, driver: str | None) -> None:
    if driver is not None:
        folder = tmp_path / "devices/system/cpu/cpuidle"
        folder.mkdir(parents=True)
        (folder / "current_driver").write_text(f"{driver}\n")
    found = read_settings([], str(tmp_path), str(tmp_path))
    assert found.idle_driver == driver and "idle_driver" not in found.unreadable


def test_this_machine_has_frequencies_or_no_cpufreq() -> None:
    policies = list(Path("/sys/devices/system/cpu/cpufreq").glob("policy[0-9]*"))
    assert bool(read_settings([]).governors) is bool(policies)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("quiet intel_iommu=on iommu=pt\n", "quiet intel_iommu=on iommu=pt"),
        ("a  password=x b", "a b"),
        ('a rd.PASSWD="one two three" b', "a b"),
        ('"secret=one two" isolcpus=2-5', "isolcpus=2-5"),
        ("netroot=iscsi:user:pw@192.0.2.1::3260 ip=dhcp", "ip=dhcp"),
        ("ks=https://u:p@host/ks.cfg", ""),
        (
            "systemd.set_credential=a:b rd.luks.key=/x api_token=1 wpa_psk=2 systemd.setenv=A=b x",
            "x",
        ),
        ('note="a b', 'note="a b'),
        ("", ""),
    ],
)
def test_secrets_are_removed(text: str, expected: str) -> None:
    assert parse_command_line(text) == expected


@given(st.text(), st.text(alphabet=st.characters(exclude_characters='"')))
def test_a_quoted_secret_is_removed(before: str, secret: str) -> None:
    kept = parse_command_line(before.replace('"', "") + f' password="{secret}zebra5417"')
    assert "zebra5417" not in kept


@given(st.text())
def test_any_list_of_cpus_can_be_parsed(text: str) -> None:
    assert all(number >= 0 for number in parse_cpus(text))
    assert "password" not in parse_command_line(text).lower()


def test_policy_rules_report_missing_descriptors(monkeypatch: pytest.MonkeyPatch) -> None:
    def none_left(*_: object) -> None:
        raise OSError(24, "Too many open files")

    monkeypatch.setattr("nictop.probe.inventory.machine.sysctl.NetlinkSocket", none_left)
    assert read_policy_rules() == Unreadable("failed", "rules: EMFILE")
    found = read_settings([])
    assert (found.policy_rules, found.unreadable["policy_rules"].detail) == (None, "rules: EMFILE")


SNMP = """\
Ip: Forwarding DefaultTTL ReasmTimeout ReasmReqds ReasmOKs ReasmFails FragOKs
Ip: 2 64 3 50000 20000 4000 0
Icmp: InMsgs ReasmFails
Icmp: 1 7
"""


def test_reassembly() -> None:
    assert parse_reassembly(SNMP) == {"ReasmReqds": 50000, "ReasmOKs": 20000, "ReasmFails": 4000}
    assert parse_reassembly("Ip: ReasmFails\nIp: x\n") == {}
    assert parse_reassembly("Ip: ReasmFails ReasmOKs\nIp: 1\n") == {}
    with open("/proc/net/snmp") as file:
        assert set(parse_reassembly(file.read())) == {"ReasmReqds", "ReasmOKs", "ReasmFails"}


def test_drops_of_rp_filter() -> None:
    assert (
        parse_reverse_path_drops("TcpExt: A IPReversePathFilter\nTcpExt: 1 7\nIpExt: A\nIpExt: 1\n")
        == 7
    )
    assert parse_reverse_path_drops("TcpExt: A\nTcpExt: 1\n") is None
    with open("/proc/net/netstat") as file:
        assert parse_reverse_path_drops(file.read()) is not None


@given(st.text(max_size=200))
def test_any_counters_can_be_parsed(text: str) -> None:
    assert all(value >= 0 for value in parse_reassembly("Ip: ReasmFails\nIp:" + text).values())


@given(st.text(alphabet="0123456789 -\n\tx", max_size=40))
def test_any_text_is_three_sizes_or_none(text: str) -> None:
    found = parse_sizes(text)
    assert found is None or (len(found) == 3 and min(found) >= 0)


def test_sizes() -> None:
    assert parse_sizes("4096\t131072\t6291456") == (4096, 131072, 6291456)
    assert parse_sizes("4096 131072") is None
    assert parse_sizes("1 2 3 4") is None
