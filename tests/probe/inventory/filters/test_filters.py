"""Packet filters: real chains of nftables and iptables in a namespace, constructed and damaged
messages."""

from __future__ import annotations

import os
import shutil
import struct
import subprocess
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nictop.probe.inventory.filters import iptables, nft_rules
from nictop.probe.inventory.filters.nft import MAX_RULES
from nictop.probe.inventory.filters.reader import read_filters
from nictop.probe.kernel import netlink, nftables
from nictop.probe.records import FilterCondition, FilterRule, PacketChain, PacketFilters, Unreadable
from tests.support.namespaces import Namespace

READ_PROGRAM = """
import json
from nictop.probe.inventory.filters.reader import read_filters
from nictop.probe.inventory.links.reader import read_links
from nictop.probe.light_dataclasses import field_mapping
print(json.dumps(read_filters(read_links()[0]), default=field_mapping))
"""
NFT_RULES = """
table ip filter {
  chain DOCKER-USER { counter return; }
  chain FORWARD {
    type filter hook forward priority 0; policy drop;
    counter jump DOCKER-USER
    ct state related,established accept
    ct state vmap { established : accept, invalid : drop }
    iifname "docker0" oifname != "docker0" accept
    iifname { "br0", "br1" } oifname "br-*" accept
    iif lo accept
    ip saddr 10.244.0.0/16 accept
    ip daddr != 10.0.0.0/9 accept
    ct status dnat accept
    meta mark and 0x4000 == 0x4000 accept
    tcp dport 22 accept
    ip protocol icmp accept
    iifname . oifname { "a" . "b" } accept
    ip saddr { 192.0.2.0-192.0.2.9 } accept
    fib saddr type local accept
    limit rate over 10/second drop
    reject
  }
  chain unused { counter; }
}
table inet other {
  chain local { type filter hook input priority 0; policy drop; }
  chain f {
    type filter hook forward priority 5
    meta nfproto ipv6 ip6 saddr 2001:db8::/32 drop
  }
}
table bridge b {
  chain f {
    type filter hook forward priority 0
    ether type ip iifname "tap*" drop
  }
}
table netdev n {
  chain i {
    type filter hook ingress device "lo" priority 0
    limit rate over 2 mbytes/second counter drop
  }
}
"""
IPTABLES_RULES = """
$T -P FORWARD DROP; $T -N DOCKER-USER; $T -A DOCKER-USER -j RETURN; $T -A FORWARD -j DOCKER-USER
$T -A FORWARD -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT
$T -A FORWARD -o docker0 -m conntrack ! --ctstate NEW -m comment --comment text -j ACCEPT
$T -A FORWARD -i docker0 ! -o docker0 -j ACCEPT
$T -A FORWARD -i vnet+ -j ACCEPT
$T -A FORWARD -m physdev --physdev-is-bridged --physdev-in tap+ -j ACCEPT
$T -A FORWARD -m conntrack --ctstate DNAT -j ACCEPT
$T -A FORWARD -m mark --mark 0x4000/0x4000 -j ACCEPT
$T -A FORWARD -m state --state NEW -j LOG
$T -A FORWARD -p tcp --dport 22 -j ACCEPT
$T -A FORWARD -g DOCKER-USER
$T -A FORWARD
$T -A FORWARD -j REJECT
"""


def read(namespace: Namespace) -> tuple[PacketFilters, Unreadable | None]:
    decoded: tuple[PacketFilters, Unreadable | None] = msgspec.json.decode(
        namespace.python(READ_PROGRAM), type=tuple[PacketFilters, Unreadable | None]
    )
    return decoded


def shown(chain: PacketChain) -> list[str]:
    """Rules as text: ``in=br0 out!=br1 accept``."""
    lines = []
    for rule in chain.rules:
        parts = [
            f"{one.what}{'!=' if one.negated else '='}{','.join(sorted(one.values))}"
            for one in rule.conditions
        ]
        lines.append(" ".join(filter(None, (*parts, rule.verdict, rule.target))))
    return lines


@pytest.mark.skipif(shutil.which("nft") is None, reason="nft is not installed")
def test_chains_of_nftables(namespace: Namespace) -> None:
    assert read(namespace) == (PacketFilters(), None)
    namespace.run(["nft", "-f", "-"], input=NFT_RULES)
    found, trouble = read(namespace)
    assert trouble is None and found.unreadable == {}
    forward = found.chains[0]
    places = [
        (one.family, one.table, one.name, one.hook, one.policy, one.links) for one in found.chains
    ]
    assert places == [
        ("ip", "filter", "FORWARD", "forward", "drop", ()),
        ("bridge", "b", "f", "forward", "accept", ()),
        ("inet", "other", "f", "forward", "accept", ()),
        ("ip", "filter", "DOCKER-USER", "", "", ()),
        ("netdev", "n", "i", "ingress", "accept", ("lo",)),
        ("inet", "other", "local", "input", "drop", ()),
    ]
    rules = shown(forward)
    assert set(rules[2:4]) == {"state=established accept", "state=invalid drop"}
    assert [*rules[:2], *rules[4:]] == [
        "jump DOCKER-USER",
        "state=established,related accept",
        "in=docker0 out!=docker0 accept",
        "in=br0,br1 out=br-* accept",
        "in=lo accept",
        "source=10.244.0.0/16 accept",
        "destination!=10.0.0.0/9 accept",
        "nat=dnat accept",
        "mark= accept",
        "protocol=tcp other=other accept",
        "protocol=icmp accept",
        "other=set accept",
        "other=source other=source accept",
        "other=fib other=other accept",
        "limit=10 packets/s drop",
        "reject",
    ]
    assert shown(found.chains[1]) == ["family=ipv4 in=tap* drop"]
    assert shown(found.chains[2]) == ["family=ipv6 source=2001:db8::/32 drop"]
    assert shown(found.chains[4]) == ["limit=2.09715e+06 bytes/s drop"]
    assert found.chains[4].rules[0].packets == 0
    assert forward.rules[0].packets == 0 and forward.rules[1].packets is None


@pytest.mark.parametrize("backend", ["legacy", "nft"])
@pytest.mark.parametrize("program", ["iptables", "ip6tables"])
def test_chains_of_iptables(namespace: Namespace, program: str, backend: str) -> None:
    tool = f"{program}-{backend}"
    if shutil.which(tool) is None:
        pytest.skip(f"{tool} is not installed")
    namespace.run(["bash", "-ec", IPTABLES_RULES.replace("$T", tool)])
    found, trouble = read(namespace)
    assert trouble is None and found.unreadable == {}
    forward, user = found.chains
    assert (forward.backend, forward.family) == (
        "iptables" if backend == "legacy" else "nft",
        "ip" if program == "iptables" else "ip6",
    )
    assert (forward.hook, forward.policy, forward.packets) == ("forward", "drop", 0)
    assert (user.name, user.hook, shown(user)) == ("DOCKER-USER", "", ["return"])
    rules = [line for line in shown(forward) if not line.startswith("protocol=tcp ")]
    assert rules == [
        "jump DOCKER-USER",
        "state=established,related accept",
        "out=docker0 state!=new accept",
        "in=docker0 out!=docker0 accept",
        "in=vnet* accept",
        "port_in=tap* bridged= accept",
        "nat=dnat accept",
        "mark= accept",
        "state=new",
        "goto DOCKER-USER",
        "",
        "reject",
    ]
    assert len(forward.rules) == 13 and forward.rules[9].verdict == "accept"


MSS_RULES = {
    "nft": "nft add table ip m; nft 'add chain ip m f { type filter hook forward priority -150; "
    "}'; "
    "nft add rule ip m f oifname eth0 tcp flags syn tcp option maxseg size set rt mtu",
    "iptables-nft": "iptables-nft -t mangle -A FORWARD -o eth0 -p tcp --tcp-flags SYN,RST SYN -j "
    "TCPMSS "
    "--clamp-mss-to-pmtu",
    "iptables-legacy": "iptables-legacy -A FORWARD -o eth0 -p tcp --tcp-flags SYN,RST SYN -j "
    "TCPMSS --set-mss 1360",
}


@pytest.mark.parametrize("program", MSS_RULES)
def test_rule_that_reduces_the_mss(namespace: Namespace, program: str) -> None:
    """It decides nothing; a comparison of the option is no such rule."""
    if shutil.which(program) is None:
        pytest.skip(f"{program} is not installed")
    try:
        namespace.run(["bash", "-ec", MSS_RULES[program]])
    except subprocess.CalledProcessError as error:
        pytest.skip(f"this kernel has no such rules: {error.stderr}")
    found, _ = read(namespace)
    (rule,) = (rule for chain in found.chains if chain.hook == "forward" for rule in chain.rules)
    assert (rule.verdict, rule.target) == ("", "TCPMSS")
    assert FilterCondition("out", ("eth0",)) in rule.conditions


@pytest.mark.skipif(shutil.which("nft") is None, reason="nft is not installed")
def test_comparison_of_the_mss_changes_nothing(namespace: Namespace) -> None:
    namespace.run(
        ["nft", "-f", "-"],
        input="table ip m {\nchain f {\ntype filter hook forward priority 0; tcp option maxseg "
        "size < 500 drop\n}\n}\n",
    )
    found, _ = read(namespace)
    (rule,) = found.chains[0].rules
    assert (rule.verdict, rule.target) == ("drop", "")
    assert any(one.what == "other" for one in rule.conditions)


@pytest.mark.skipif(shutil.which("nft") is None, reason="nft is not installed")
@pytest.mark.parametrize(("count", "is_read"), [(MAX_RULES, True), (MAX_RULES + 1, False)])
def test_so_many_rules(namespace: Namespace, count: int, is_read: bool) -> None:
    rules = "".join(
        f"ip saddr 10.0.{number // 256}.{number % 256} accept\n" for number in range(count)
    )
    chain = f"chain f {{\ntype filter hook forward priority 0; policy drop\n{rules}}}\n"
    namespace.run(["nft", "-f", "-"], input=f"table ip filter {{\n{chain}}}\n")
    found, trouble = read(namespace)
    if is_read:
        assert len(found.chains[0].rules) == count and found.unreadable == {}
    else:
        assert found == PacketFilters(
            (), {"nft": Unreadable("failed", f"more than {MAX_RULES} rules")}
        )
    assert trouble is None


@pytest.mark.skipif(shutil.which("nft") is None, reason="nft is not installed")
def test_a_table_that_is_switched_off(namespace: Namespace) -> None:
    chain = "chain f { type filter hook forward priority 0; policy drop; }"
    namespace.run(
        ["nft", "-f", "-"],
        input=f"table ip off {{\nflags dormant\n{chain}\n}}\ntable ip on {{\n{chain}\n}}\n",
    )
    found, _ = read(namespace)
    assert [one.table for one in found.chains] == ["on"]


def test_an_ordinary_user_may_not_read_them(namespace: Namespace) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can drop privileges")
    found, trouble = msgspec.json.decode(
        namespace.python(
            READ_PROGRAM.replace("print", "import os; os.setresuid(65534, 65534, 65534)\nprint")
        ),
        type=tuple[PacketFilters, Unreadable | None],
    )
    assert found.chains == () and trouble is not None and trouble.reason == "needs_root"


def test_nothing_is_requested_without_a_table(tmp_path: Path) -> None:
    """A request would create it, and load the module."""
    modules = tmp_path / os.uname().release
    modules.mkdir()
    (modules / "modules.dep").write_text("kernel/net/netfilter/nf_tables.ko: \n")
    (tmp_path / "net").mkdir()
    (tmp_path / "net" / "ip_tables_names").write_text("mangle\n")
    filters, trouble = read_filters(
        (), sys=str(tmp_path), proc=str(tmp_path), modules=str(tmp_path)
    )
    assert (filters, trouble) == (PacketFilters(), None)


# --------------------------------------------------------------------------------- damaged messages


def expression(name: str, attributes: bytes) -> bytes:
    parts = netlink.pack_text(nft_rules.NFTA_EXPR_NAME, name)
    parts += netlink.pack_attribute(nft_rules.NFTA_EXPR_DATA, attributes)
    return netlink.pack_attribute(nft_rules.NFTA_LIST_ELEM, parts)


def rule(*expressions: bytes) -> bytes:
    body = nftables.NFGENMSG.pack(2, 0, 0)
    return body + netlink.pack_attribute(nft_rules.NFTA_RULE_EXPRESSIONS, b"".join(expressions))


def test_an_unknown_expression_is_a_condition_that_is_not_known() -> None:
    """It may have loaded another value into the register that is compared next."""
    meta = struct.pack(">I", 6)
    loaded = netlink.pack_attribute(nft_rules.DREG, struct.pack(">I", 1)) + netlink.pack_attribute(
        nft_rules.KEY, meta
    )
    value = netlink.pack_attribute(nft_rules.NFTA_DATA_VALUE, b"br0\0")
    compared = netlink.pack_attribute(nft_rules.NFTA_CMP_SREG, struct.pack(">I", 1))
    compared += netlink.pack_attribute(nft_rules.NFTA_CMP_OP, struct.pack(">I", 0))
    compared += netlink.pack_attribute(nft_rules.NFTA_CMP_DATA, value)
    plain = rule(expression("meta", loaded), expression("cmp", compared))
    assert nft_rules.parse_rule(plain, {}, {}) == (
        FilterRule(conditions=(FilterCondition("in", ("br0",)),)),
    )
    doubtful = rule(
        expression("meta", loaded), expression("newer", b""), expression("cmp", compared)
    )
    (found,) = nft_rules.parse_rule(doubtful, {}, {})
    assert [one.what for one in found.conditions] == ["other", "other"]


@given(
    st.lists(
        st.tuples(st.sampled_from([*nft_rules.STEPS, "fib", "range"]), st.binary(max_size=60)),
        max_size=5,
    ),
    st.integers(0, 400),
)
def test_damaged_rules(expressions: list[tuple[str, bytes]], cut: int) -> None:
    body = rule(*(expression(name, data) for name, data in expressions))
    for one in nft_rules.parse_rule(
        body[:cut] if cut < len(body) else body, {1: "lo"}, {"": ((b"lo", "drop", ""),)}
    ):
        assert isinstance(one, FilterRule)


@given(st.sampled_from(["ip", "ip6"]), st.binary(max_size=400), st.binary(max_size=600))
def test_damaged_tables(family: str, info: bytes, entries: bytes) -> None:
    found = iptables.parse_table(family, "filter", info, entries)
    assert found is None or isinstance(found, (tuple, Unreadable))


@given(st.data())
def test_a_table_with_bytes_replaced(data: st.DataObject) -> None:
    """The conclusion may differ; the reader ends and raises nothing."""
    entries = bytearray(TABLE)
    for _ in range(data.draw(st.integers(1, 6))):
        entries[data.draw(st.integers(0, len(entries) - 1))] = data.draw(st.integers(0, 255))
    iptables.parse_table("ip", "filter", INFO, bytes(entries))


def entry(verdict: int) -> bytes:
    """A rule of iptables without conditions."""
    layout = iptables.IPV4
    head = bytearray(layout.size)
    struct.pack_into("=HH", head, layout.target_offset, layout.size, layout.size + 40)
    return bytes(head) + iptables.MATCH_HEADER.pack(40, b"", 0) + struct.pack("=i4x", verdict)


TABLE = entry(-2) + entry(-1) + entry(-2) + entry(-2)
SIZE = len(entry(-2))
INFO = iptables.INFO.pack(
    b"filter", 0b1110, 0, 0, SIZE, 3 * SIZE, 0, 0, 0, 2 * SIZE, 3 * SIZE, 0, 4, 4 * SIZE
)


def test_a_constructed_table() -> None:
    (chain,) = iptables.parse_table("ip", "filter", INFO, TABLE)  # type: ignore[misc]
    assert (chain.policy, chain.rules) == ("accept", (FilterRule("drop", packets=0),))
