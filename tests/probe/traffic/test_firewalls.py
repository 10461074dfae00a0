"""Firewalls of a host: real nftables chains in a namespace, constructed files and messages."""

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

from nictop.probe.kernel import netlink, nftables
from nictop.probe.records import FilterChain, Firewalls
from nictop.probe.traffic import firewalls
from nictop.probe.traffic.firewalls import parse_chains, parse_ufw, read_firewalls
from tests.support.namespaces import Namespace

NFT_RULES = """
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
READ_PROGRAM = "import json; from nictop.probe.traffic.firewalls import read_firewalls"
READ_PROGRAM += "; from nictop.probe.light_dataclasses import field_mapping; print(json.dumps(read_firewalls(), default=field_mapping))"


@pytest.mark.skipif(shutil.which("nft") is None, reason="nft is not installed")
def test_chains_of_local_packets(namespace: Namespace) -> None:
    def read() -> Firewalls:
        return msgspec.json.decode(namespace.python(READ_PROGRAM), type=Firewalls)

    assert read().chains == ()
    namespace.run(["nft", "-f", "-"], input=NFT_RULES)
    found = read()
    assert found.chains == (
        FilterChain("inet", "fence", "in", "drop"),
        FilterChain("ip6", "filter", "INPUT", "accept"),
        FilterChain("inet", "fence", "out", "drop", "output"),
    )
    assert "chains" not in found.unreadable
    # daemons of other network namespaces do not count
    assert found.firewalld is None


@pytest.mark.skipif(os.geteuid() != 0, reason="becoming an ordinary user needs root")
def test_chains_need_root(namespace: Namespace) -> None:
    read = json.loads(
        namespace.python(READ_PROGRAM.replace("; print", "; import os; os.setuid(65534); print"))
    )
    assert read["chains"] == [] and read["unreadable"]["chains"]["reason"] == "needs_root"


def process(proc: Path, pid: int, comm: str, network: str) -> None:
    (proc / str(pid) / "ns").mkdir(parents=True)
    (proc / str(pid) / "comm").write_text(comm + "\n")
    (proc / str(pid) / "ns" / "net").symlink_to(network)


def test_daemons_and_files(tmp_path: Path) -> None:
    proc, etc, sys = tmp_path / "proc", tmp_path / "etc", tmp_path / "sys"
    modules = tmp_path / "modules" / os.uname().release
    for folder in (etc / "ufw", sys, modules):
        folder.mkdir(parents=True)
    (modules / "modules.dep").write_text(
        "kernel/net/netfilter/nf_tables.ko.xz: kernel/net/netfilter/nfnetlink.ko.xz\n"
    )
    process(proc, 1, "systemd", "net:[1]")
    (proc / "self").symlink_to("1")
    process(proc, 7, "firewalld", "net:[2]")

    def read() -> Firewalls:
        return read_firewalls(str(proc), str(etc), str(sys), str(modules.parent))

    assert read() == Firewalls()  # nf_tables is a module that is not loaded
    process(proc, 9, "firewalld", "net:[1]")
    (etc / "ufw" / "ufw.conf").write_text("# ENABLED=no\nENABLED=yes\nLOGLEVEL=low\n")
    assert read() == Firewalls(firewalld=9, ufw=True)
    (etc / "ufw" / "ufw.conf").unlink()
    (etc / "ufw" / "ufw.conf").mkdir()
    assert set(read().unreadable) == {"ufw"} and not read().ufw


@pytest.mark.parametrize(
    ("names", "is_unknown"),
    [("nat\n", False), ("nat\nfilter\n", True), ("raw\n", True), ("", False)],
)
@pytest.mark.parametrize("file", ["ip_tables_names", "ip6_tables_names"])
def test_tables_of_iptables_legacy_may_drop(
    tmp_path: Path, file: str, names: str, is_unknown: bool
) -> None:
    (tmp_path / "net").mkdir()
    (tmp_path / "net" / file).write_text(names)
    nowhere = str(tmp_path / "nowhere")
    found = read_firewalls(str(tmp_path), nowhere, nowhere, nowhere)
    assert ("iptables" in found.unreadable) is is_unknown


@pytest.mark.parametrize(
    ("text", "enabled"),
    [
        ("ENABLED=yes", True),
        ('ENABLED="yes"', True),
        ("ENABLED=no", False),
        ("#ENABLED=yes", False),
        ("", False),
    ],
)
def test_ufw_conf(text: str, enabled: bool) -> None:
    assert parse_ufw(text) is enabled


def chain(
    family: int, table: str, name: str, hook: int | None, policy: int = 1, *, kind: str = "filter"
) -> bytes:
    body = nftables.NFGENMSG.pack(family, 0, 0)
    body += netlink.pack_text(nftables.NFTA_CHAIN_TABLE, table) + netlink.pack_text(
        nftables.NFTA_CHAIN_NAME, name
    )
    if hook is None:
        return body
    number = netlink.pack_attribute(nftables.NFTA_HOOK_HOOKNUM, struct.pack(">I", hook))
    body += netlink.pack_attribute(nftables.NFTA_CHAIN_HOOK, number) + netlink.pack_text(
        nftables.NFTA_CHAIN_TYPE, kind
    )
    return body + netlink.pack_attribute(nftables.NFTA_CHAIN_POLICY, struct.pack(">I", policy))


def test_chain_messages() -> None:
    read = [
        chain(2, "t", "c", 1, 0),
        chain(2, "t", "d", 3),
        chain(7, "t", "e", 1),
        chain(1, "t", "f", None),
        b"\x01",
    ]
    assert parse_chains([*read, chain(1, "t", "nat", 1, kind="nat"), read[0]]) == (
        FilterChain("ip", "t", "c", "drop"),
        FilterChain("ip", "t", "d", "accept", "output"),
    )
    assert (
        len(parse_chains(chain(1, "t", f"c{number}", 1) for number in range(1000)))
        == firewalls.MAX_CHAINS
    )


@given(st.lists(st.binary(max_size=200)), st.text())
def test_arbitrary_messages(bodies: list[bytes], text: str) -> None:
    for found_chain in parse_chains(bodies):
        assert (
            found_chain.family in ("ip", "ip6", "inet") and found_chain.table and found_chain.name
        )
    assert not parse_ufw(text) or "enabled" in text.casefold()
    assert parse_ufw(f"{text}\nENABLED=yes\n")
