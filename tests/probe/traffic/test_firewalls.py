"""Firewalls of a host: real chains of nftables in a namespace, and files and messages of every kind."""

from __future__ import annotations

import json
import os
import shutil
import struct
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nictop.probe.kernel import netlink
from nictop.probe.records import FilterChain, Firewalls
from nictop.probe.traffic import firewalls
from nictop.probe.traffic.firewalls import parse_chains, parse_ufw, read_firewalls
from tests.support.namespaces import Namespace

RULES = """
table inet fence {
  chain in { type filter hook input priority 0; policy drop; }
  chain out { type filter hook output priority 0; policy drop; }
  chain on { type filter hook forward priority 0; }
  chain translated { type nat hook input priority 100; }
  chain called { counter; }
}
table ip6 filter {
  chain INPUT { type filter hook input priority 10; }
}
table arp other {
  chain in { type filter hook input priority 0; }
}
"""
CODE = "import json; from nictop.probe.traffic.firewalls import read_firewalls"
CODE += "; print(json.dumps(read_firewalls(), default=vars))"


@pytest.mark.skipif(shutil.which("nft") is None, reason="nft is not installed")
def test_chains_that_packets_for_this_host_pass(namespace: Namespace) -> None:
    def told() -> Firewalls:
        return msgspec.json.decode(namespace.python(CODE), type=Firewalls)

    assert told().chains == ()
    namespace.run(["nft", "-f", "-"], input=RULES)
    found = told()
    assert found.chains == (
        FilterChain("inet", "fence", "in", "drop"),
        FilterChain("ip6", "filter", "INPUT", "accept"),
        FilterChain("inet", "fence", "out", "drop", "output"),
    )
    assert "chains" not in found.unreadable
    # a daemon of another network namespace is none of this one's
    assert found.firewalld is None


@pytest.mark.skipif(os.geteuid() != 0, reason="becoming an ordinary user needs root")
def test_what_only_root_may_ask_is_said(namespace: Namespace) -> None:
    told = json.loads(namespace.python(CODE.replace("; print", "; import os; os.setuid(65534); print")))
    assert told["chains"] == [] and told["unreadable"]["chains"]["reason"] == "needs_root"


def process(proc: Path, pid: int, comm: str, network: str) -> None:
    (proc / str(pid) / "ns").mkdir(parents=True)
    (proc / str(pid) / "comm").write_text(comm + "\n")
    (proc / str(pid) / "ns" / "net").symlink_to(network)


def test_daemons_and_files(tmp_path: Path) -> None:
    proc, etc, sys = tmp_path / "proc", tmp_path / "etc", tmp_path / "sys"
    modules = tmp_path / "modules" / os.uname().release
    for place in (etc / "ufw", sys, modules):
        place.mkdir(parents=True)
    (modules / "modules.dep").write_text("kernel/net/netfilter/nf_tables.ko.xz: kernel/net/netfilter/nfnetlink.ko.xz\n")
    process(proc, 1, "systemd", "net:[1]")
    (proc / "self").symlink_to("1")
    process(proc, 7, "firewalld", "net:[2]")

    def told() -> Firewalls:
        return read_firewalls(str(proc), str(etc), str(sys), str(modules.parent))

    assert told() == Firewalls()  # nf_tables is a module that nobody has loaded
    process(proc, 9, "firewalld", "net:[1]")
    (etc / "ufw" / "ufw.conf").write_text("# ENABLED=no\nENABLED=yes\nLOGLEVEL=low\n")
    assert told() == Firewalls(firewalld=9, ufw=True)
    (etc / "ufw" / "ufw.conf").unlink()
    (etc / "ufw" / "ufw.conf").mkdir()
    assert set(told().unreadable) == {"ufw"} and not told().ufw


@pytest.mark.parametrize(
    ("text", "on"),
    [("ENABLED=yes", True), ('ENABLED="yes"', True), ("ENABLED=no", False), ("#ENABLED=yes", False), ("", False)],
)
def test_ufw_conf(text: str, on: bool) -> None:
    assert parse_ufw(text) is on


def chain(family: int, table: str, name: str, hook: int | None, policy: int = 1, *, kind: str = "filter") -> bytes:
    body = firewalls.ADDRESS_HEADER.pack(family, 0, 0)
    body += netlink.pack_text(firewalls.NFTA_CHAIN_TABLE, table) + netlink.pack_text(firewalls.NFTA_CHAIN_NAME, name)
    if hook is None:
        return body
    number = netlink.pack(firewalls.NFTA_HOOK_HOOKNUM, struct.pack(">I", hook))
    body += netlink.pack(firewalls.NFTA_CHAIN_HOOK, number) + netlink.pack_text(firewalls.NFTA_CHAIN_TYPE, kind)
    return body + netlink.pack(firewalls.NFTA_CHAIN_POLICY, struct.pack(">I", policy))


def test_messages() -> None:
    told = [chain(2, "t", "c", 1, 0), chain(2, "t", "d", 3), chain(7, "t", "e", 1), chain(1, "t", "f", None), b"\x01"]
    assert parse_chains([*told, chain(1, "t", "nat", 1, kind="nat"), told[0]]) == (
        FilterChain("ip", "t", "c", "drop"),
        FilterChain("ip", "t", "d", "accept", "output"),
    )
    assert len(parse_chains(chain(1, "t", f"c{number}", 1) for number in range(1000))) == firewalls.MOST


@given(st.lists(st.binary(max_size=200)), st.text())
def test_garbage_is_no_chain_and_no_error(bodies: list[bytes], text: str) -> None:
    for one in parse_chains(bodies):
        assert one.family in ("ip", "ip6", "inet") and one.table and one.name
    assert parse_ufw(text) in (True, False)
