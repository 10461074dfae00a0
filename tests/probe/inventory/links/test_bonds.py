"""Bonds and teams: messages and /proc text of a real kernel (Linux 6.12), arbitrary bytes, and real
links where this kernel has them."""

from __future__ import annotations

import json
import struct
import subprocess
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nictop.probe.inventory.links.bond_messages import (
    parse_bond,
    parse_bond_port,
    parse_proc_bonding,
    with_bond,
    with_lacp_details,
)
from nictop.probe.inventory.links.bonds import with_bond_details
from nictop.probe.inventory.links.messages import parse_link
from nictop.probe.inventory.links.teams import make_team, parse_options, parse_ports, with_teams
from nictop.probe.kernel.if_link import IFLA_IFNAME, IFLA_LINKINFO, IFLA_MASTER, IFLA_MTU
from nictop.probe.kernel.netlink import pack_attribute, pack_text, pack_u32
from nictop.probe.kernel.rtnetlink import IFINFOMSG
from nictop.probe.records import Bond, BondPort, LacpEnd, Link, Team, TeamPort, Unreadable
from tests.support.namespaces import Namespace

# IFLA_LINKINFO of a bond and its two ports, which lead to two LACP systems; read as root
BOND = (
    "09000100626f6e6400000000100102000500010004000000080003006400000008000400000000000800050000000"
    "00008001c000000"
    "000005000600010000000800070000000000080009000000000008000a000000000005000c000000000005000d000"
    "000000005000e00"
    "0000000008000f0001000000050010000100000005001100000000000800120000000000080013000100000008001"
    "400010000000500"
    "1d00010000000500150000000000050016000000000005001b000100000005001e000200000005002000010000000"
    "6001800ffff0000"
    "06001900000000000a001a0000000000000000003000170006000100020000000600020001000000060003000f000"
    "000060004000f00"
    "00000a0005004a2d4347ea300000"
)
USED_PORT = (
    "09000100766574680000000009000400626f6e6400000000680005000500010000000000050002000000000008000"
    "300020000000a00"
    "04004aeb41efcad80000060005000000000008000900000000000600060002000000050007003d000000060008003"
    "f00000005000b00"
    "0200000005000c000200000006000a00ff000000"
)
UNUSED_PORT = (
    "09000100766574680000000009000400626f6e6400000000680005000500010001000000050002000000000008000"
    "300010000000a00"
    "040032d7f68399ae00000600050000000000080009000000000006000600010000000500070005000000060008000"
    "f00000005000b00"
    "0100000005000c000200000006000a00ff000000"
)
PROC = """Ethernet Channel Bonding Driver: v6.12.107+deb13-amd64

Bonding Mode: IEEE 802.3ad Dynamic link aggregation
Transmit Hash Policy: layer2 (0)
MII Status: up
MII Polling Interval (ms): 100
Up Delay (ms): 0
Down Delay (ms): 0
Peer Notification Delay (ms): 0

802.3ad info
LACP active: on
LACP rate: slow
Min links: 0
Aggregator selection policy (ad_select): stable
System priority: 65535
System MAC address: 4a:eb:41:ef:ca:d8
Active Aggregator Info:
	Aggregator ID: 2
	Number of ports: 1
	Actor Key: 15
	Partner Key: 15
	Partner Mac Address: 4a:2d:43:47:ea:30

Slave Interface: v1
MII Status: up
Speed: 10000 Mbps
Duplex: full
Link Failure Count: 2
Permanent HW addr: 4a:eb:41:ef:ca:d8
Slave queue ID: 0
Aggregator ID: 2
Actor Churn State: none
Partner Churn State: none
Actor Churned Count: 0
Partner Churned Count: 1
details actor lacp pdu:
    system priority: 65535
    system mac address: 4a:eb:41:ef:ca:d8
    port key: 15
    port priority: 255
    port number: 1
    port state: 61
details partner lacp pdu:
    system priority: 65535
    system mac address: 4a:2d:43:47:ea:30
    oper key: 15
    port priority: 255
    port number: 1
    port state: 63

Slave Interface: v2
MII Status: up
Speed: 10000 Mbps
Duplex: full
Link Failure Count: 1
Permanent HW addr: 32:d7:f6:83:99:ae
Slave queue ID: 0
Aggregator ID: 1
Actor Churn State: churned
Partner Churn State: none
Actor Churned Count: 2
Partner Churned Count: 1
details actor lacp pdu:
    system priority: 65535
    system mac address: 4a:eb:41:ef:ca:d8
    port key: 15
    port priority: 255
    port number: 2
    port state: 5
details partner lacp pdu:
    system priority: 65535
    system mac address: 1e:a9:9e:63:11:b0
    oper key: 15
    port priority: 255
    port number: 1
    port state: 15
"""
MAC, FIRST, SECOND = "4a:eb:41:ef:ca:d8", "4a:2d:43:47:ea:30", "1e:a9:9e:63:11:b0"
READ = """
import json
from nictop.probe.inventory.links.bonds import with_bond_details
from nictop.probe.inventory.links.reader import read_links
from nictop.probe.inventory.links.teams import with_teams
links, trouble = with_bond_details(read_links()[0])
links, team_trouble = with_teams(links)
assert trouble is None and team_trouble is None, (trouble, team_trouble)
from nictop.probe.light_dataclasses import field_mapping
print(json.dumps(links, default=field_mapping))
"""


def message(name: str, ifindex: int, information: str, master: int = 0) -> bytes:
    """An RTM_NEWLINK with this IFLA_LINKINFO."""
    return (
        IFINFOMSG.pack(0, 1, ifindex, 1, 0)
        + pack_text(IFLA_IFNAME, name)
        + pack_u32(IFLA_MTU, 1500)
        + (pack_u32(IFLA_MASTER, master) if master else b"")
        + pack_attribute(IFLA_LINKINFO, bytes.fromhex(information))
    )


def parsed(payload: bytes) -> Link:
    link = parse_link(payload)
    assert link is not None
    return with_bond(link, payload)


def captured_links() -> tuple[Link, ...]:
    ports = (("v1", 2, USED_PORT), ("v2", 3, UNUSED_PORT))
    return (*(parsed(message(*one, master=4)) for one in ports), parsed(message("bond0", 4, BOND)))


def proc_of(folder: Path, text: str) -> str:
    file = folder / "net/bonding/bond0"
    file.parent.mkdir(parents=True)
    file.write_text(text)
    return str(folder)


def test_a_bond_with_ports_in_two_aggregators(tmp_path: Path) -> None:
    (used, unused, bond), trouble = with_bond_details(captured_links(), proc_of(tmp_path, PROC))
    assert trouble is None
    assert bond.bond == Bond(
        mode="802.3ad",
        primary_reselect="always",
        fail_over_mac="none",
        miimon=100,
        up_delay=0,
        down_delay=0,
        arp_interval=0,
        hash_policy="layer2",
        min_links=0,
        lacp_rate="slow",
        lacp_active=True,
        aggregator=2,
        aggregator_ports=1,
        actor_key=15,
        partner_key=15,
        partner=FIRST,
    )
    assert used.bond_port == BondPort(
        active=True,
        mii_status="up",
        link_failures=2,
        aggregator=2,
        actor_state=61,
        partner_state=63,
        actor=LacpEnd(MAC, 15, 65535, 255, 1),
        partner=LacpEnd(FIRST, 15, 65535, 255, 1),
        actor_churn="none",
        partner_churn="none",
        actor_churns=0,
        partner_churns=1,
    )
    assert unused.bond_port == BondPort(
        active=False,
        mii_status="up",
        link_failures=1,
        aggregator=1,
        actor_state=5,
        partner_state=15,
        actor=LacpEnd(MAC, 15, 65535, 255, 2),
        partner=LacpEnd(SECOND, 15, 65535, 255, 1),
        actor_churn="churned",
        partner_churn="none",
        actor_churns=2,
        partner_churns=1,
    )


def test_netlink_and_proc_agree_about_churn() -> None:
    """This kernel has it in both; older ones only in /proc."""
    for link in captured_links()[:2]:
        port = link.bond_port
        assert port is not None
        lines = parse_proc_bonding(PROC.split("\n"))[link.name]
        assert (port.actor_churn, port.partner_churn) == (
            lines["actor churn state"],
            lines["partner churn state"],
        )


def test_without_root_the_partners_of_the_ports_are_unreadable(tmp_path: Path) -> None:
    shown = [line for line in PROC.split("\n") if not line.startswith(("    ", "details "))]
    (used, *_), trouble = with_bond_details(captured_links(), proc_of(tmp_path, "\n".join(shown)))
    assert trouble is not None and trouble.reason == "needs_root"
    assert used.bond_port is not None
    assert (used.bond_port.partner, used.bond_port.actor_churns) == (None, 0)
    assert {name: why.reason for name, why in used.bond_port.unreadable.items()} == {
        "actor": "needs_root",
        "partner": "needs_root",
    }


def test_a_kernel_without_the_file(tmp_path: Path) -> None:
    (used, *_), trouble = with_bond_details(captured_links(), str(tmp_path))
    assert trouble is not None and trouble.reason == "missing"
    assert used.bond_port is not None and used.bond_port.unreadable["partner"] == trouble
    assert used.bond_port.partner_state == 63


def test_no_file_is_read_without_lacp(tmp_path: Path) -> None:
    used, unused, bond = captured_links()
    assert bond.bond is not None
    links = (used, unused, replace(bond, bond=replace(bond.bond, mode="balance-xor")))
    assert with_bond_details(links, str(tmp_path)) == (links, None)


def test_the_file_may_be_longer_than_a_page(tmp_path: Path) -> None:
    padded = PROC.replace("\nSlave Interface: v2", "\n" * 9000 + "Slave Interface: v2")
    (_, unused, _), _ = with_bond_details(captured_links(), proc_of(tmp_path, padded))
    assert unused.bond_port is not None and unused.bond_port.partner is not None


def test_other_kinds_have_neither() -> None:
    veth = "09000100" + b"veth\0".hex() + "000000"
    link = parsed(message("v1", 2, veth))
    assert (link.bond, link.bond_port) == (None, None)
    named_bond = parsed(message("bond", 2, veth))
    assert (named_bond.bond, named_bond.bond_port) == (None, None)


@given(st.binary(max_size=200))
def test_any_bytes_are_a_bond_or_none(value: bytes) -> None:
    parse_bond(value)
    parse_bond_port(value)
    parse_bond(pack_attribute(1, b"\4") + pack_attribute(23, value))
    link = Link(2, "v1", 1, 1, "up", True, 1500)
    with_bond(link, b"bond\0" + value)
    with_bond(
        link,
        IFINFOMSG.pack(0, 1, 2, 1, 0) + pack_attribute(IFLA_LINKINFO, pack_text(4, "bond") + value),
    )


@given(
    st.text(max_size=400) | st.lists(st.sampled_from(PROC.split("\n")), max_size=60).map("\n".join)
)
def test_any_text_gives_ports_or_none(text: str) -> None:
    port = parse_bond_port(pack_attribute(1, b"\0") + pack_attribute(2, b"\0"))
    assert port is not None
    for lines in parse_proc_bonding(text.split("\n")).values():
        with_lacp_details(port, lines)


# -------------------------------------------------------------------------------------------- teams


def option(name: str, data: bytes | None, port: int = 0) -> bytes:
    parts = pack_text(1, name) + (pack_attribute(4, data) if data is not None else b"")
    return pack_attribute(1, parts + (pack_u32(6, port) if port else b""))


def test_a_team() -> None:
    options = parse_options(
        pack_u32(1, 4)
        + pack_attribute(
            2,
            option("mode", b"activebackup\0")
            + option("activeport", struct.pack("=I", 2))
            + option("enabled", b"", 2)
            + option("enabled", None, 3)
            + option("priority", struct.pack("=i", -5), 3),
        )
    )
    ports = parse_ports(
        pack_attribute(
            3,
            pack_attribute(1, pack_u32(1, 2) + pack_attribute(3, b""))
            + pack_attribute(1, pack_u32(1, 3)),
        )
    )
    assert make_team(options, ports) == Team(
        mode="activebackup",
        active_port=2,
        ports=(
            TeamPort(2, has_link=True, enabled=True),
            TeamPort(3, has_link=False, enabled=False, priority=-5),
        ),
    )
    assert make_team({("mode", 0): b"*NOMODE*\0"}, {}).mode is None


@given(st.binary(max_size=200))
def test_any_bytes_are_a_team(value: bytes) -> None:
    options = {**parse_options(value), **parse_options(pack_attribute(2, pack_attribute(1, value)))}
    ports = {**parse_ports(value), **parse_ports(pack_attribute(3, pack_attribute(1, value)))}
    make_team(options, ports)


def test_a_host_without_teams_sends_no_request(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nictop.probe.inventory.links.teams.NetlinkSocket", None)
    links = captured_links()
    assert with_teams(links) == (links, None)


def test_a_team_of_a_kernel_without_the_family(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(_: int) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr("nictop.probe.inventory.links.teams.NetlinkSocket", refused)
    (team,), trouble = with_teams([Link(4, "team0", 1, 1, "up", True, 1500, kind="team")])
    assert trouble == Unreadable("needs_root", "team: EPERM")
    assert team.team == Team(unreadable={"mode": trouble})


# --------------------------------------------------------------------------------------- real links


def read_inside(namespace: Namespace) -> dict[str, Link]:
    return {
        link.name: link for link in msgspec.json.decode(namespace.python(READ), type=list[Link])
    }


def test_a_real_bond(namespace: Namespace) -> None:
    if not namespace.try_link("bond0", "type", "bond", "mode", "802.3ad", "miimon", "100"):
        pytest.skip("this kernel has no bonding")
    for number in (1, 2):
        namespace.run(
            ["ip", "link", "add", f"v{number}", "type", "veth", "peer", "name", f"far{number}"]
        )
        namespace.run(["ip", "link", "set", "dev", f"far{number}", "up"])
        namespace.run(["ip", "link", "set", "dev", f"v{number}", "master", "bond0"])
    namespace.run(["ip", "link", "set", "dev", "bond0", "up"])
    links = read_inside(namespace)
    bond, port = links["bond0"].bond, links["v1"].bond_port
    assert bond is not None and port is not None
    assert (bond.mode, bond.miimon, bond.lacp_rate, bond.partner) == (
        "802.3ad",
        100,
        "slow",
        "00:00:00:00:00:00",
    )
    assert port.partner is not None and port.partner.system == "00:00:00:00:00:00"
    (shown,) = json.loads(namespace.run(["ip", "-d", "-j", "link", "show", "dev", "v1"]))
    assert port.actor_state == shown["linkinfo"]["info_slave_data"]["ad_actor_oper_port_state"]


def test_a_real_team(namespace: Namespace) -> None:
    try:
        made = namespace.try_link("team0", "type", "team")
    except subprocess.CalledProcessError:
        made = False
    if not made:
        pytest.skip("this kernel has no teams")
    team = read_inside(namespace)["team0"].team
    assert team == Team()
