"""Connections as rows: rates, what limits them, whose they are, and what remains of the NIC's
bytes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from nictop.model.columns.connections import (
    COLUMNS,
    endpoint,
    make_row_order,
    nic_texts,
    number_text,
    order_rows,
    row_lines,
)
from nictop.model.connections.filter import FIELDS
from nictop.model.connections.owners import machine_of, owner_name
from nictop.model.connections.table import (
    ConnectionTable,
    connection_table,
    limited_by,
    requested_links,
)
from nictop.model.queues.filters import number_filter
from nictop.model.snapshot import Snapshot, advance
from nictop.probe.protocol.requests import MAX_WATCHED_LINKS
from nictop.probe.records import Connections, Line, Unreadable
from tests.support.connections import busy_reading, connection, of_plain_user
from tests.support.lines import counters, hello, inventory, link

ID = "1a2b3c4d5e6f" + "0" * 52


def snapshot_with(found: Connections, *links: object, time: float = 2.0) -> Snapshot:
    snapshot = Snapshot.empty("vm")
    lines = (
        hello(),
        inventory(*(links or (link(2, "ens192"), link(3, "ens224")))),  # type: ignore[arg-type]
        counters(time, {2: (0, 0)}),
    )
    for one in (*lines, Line(connections=found)):
        snapshot = advance(snapshot, one)
    return snapshot


def table_of(found: Connections) -> ConnectionTable:
    table = connection_table(2, snapshot_with(found))
    assert table is not None
    return table


def test_rates_and_the_rest_of_the_nic() -> None:
    table = table_of(busy_reading())
    first = table.rows[0]
    assert (first.tx_bits, first.rx_bits) == (568e6, 0.0) and first.share == pytest.approx(
        71 / 124.8
    )
    assert (table.nic_tx_bits, table.nic_rx_bits) == (940e6, 58.4e6)
    assert table.share == pytest.approx((105_624_100 + 6_411_400) / 124_800_000)
    assert table.other_tx_bits == 940e6 - 8 * 105_624_100
    assert [(user.name, user.connections) for user in table.users[:3]] == [
        ("nginx", 15),
        ("restic", 1),
        ("kernel", 1),
    ]
    assert nic_texts(table) == ("RX 58.4 Mb/s", "TX 940 Mb/s", "TCP payload 90 %, other 10 %")
    assert number_text(table) == "18 TCP connections · 2 UDP sockets (rate unknown) · 4 ended"


def test_more_payload_than_the_nic_counted() -> None:
    """Two readings of the kernel are not at the same instant."""
    table = table_of(replace(busy_reading(), link_sent=1000, link_received=1000))
    assert (table.share, table.other_rx_bits, table.other_tx_bits) == (1.0, 0.0, 0.0)
    assert all(row.share is None or row.share <= 1 for row in table.rows)


def test_before_there_are_rates() -> None:
    rows = tuple(
        replace(one, sent=None, received=None, busy_time=None) for one in busy_reading().connections
    )
    first = replace(
        busy_reading(),
        seconds=None,
        sent=None,
        received=None,
        link_sent=None,
        link_received=None,
        connections=rows,
    )
    table = table_of(first)
    assert (table.share, table.rx_bits, table.other_rx_bits, table.rows[0].limited_by) == (
        None,
        None,
        None,
        None,
    )
    assert nic_texts(table) == ("rates follow with the next reading",)


def test_a_reading_of_another_nic_or_an_old_one_is_not_shown() -> None:
    found = busy_reading()
    assert connection_table(3, snapshot_with(found)) is None
    assert connection_table(2, snapshot_with(found, time=9.0)) is not None
    assert connection_table(2, snapshot_with(found, time=9.1)) is None
    assert connection_table(2, snapshot_with(replace(found, seconds=60.0), time=120.0)) is not None
    assert connection_table(2, advance(Snapshot.empty("vm"), Line(connections=found))) is None


@pytest.mark.parametrize(
    ("fields", "limit"),
    [
        ({"sent": 0, "received": 0, "busy_time": 0}, "idle"),
        ({"sent": 1000, "busy_time": 400_000}, "application"),
        ({"sent": 1000, "busy_time": 900_000, "window_limited": 300_000}, "recv window"),
        ({"sent": 1000, "busy_time": 900_000, "buffer_limited": 300_000}, "send buffer"),
        ({"sent": 1000, "busy_time": 900_000, "window_limited": 200_000}, "network"),
        ({"sent": 0, "busy_time": 900_000}, "network"),
        ({"sent": 10, "received": 1000}, "peer"),
        ({"sent": 10, "received": 1000, "receive_queue": 101}, "slow reader"),
        ({"sent": 1000, "busy_time": None}, None),
        ({"sent": None}, None),
    ],
)
def test_what_limits_a_connection(fields: dict[str, Any], limit: str | None) -> None:
    assert limited_by(connection(**fields), 1.0) == limit
    assert limited_by(connection(**fields), None) is None


def test_processes_that_are_not_known() -> None:
    """Pending, of other users, of the kernel, closed."""
    plain = table_of(of_plain_user(busy_reading()))
    assert [(row.process, row.who) for row in plain.rows[:4]] == [
        *[("needs root", "nginx.service")] * 3,
        ("needs root", "docker 1a2b3c4d5e6f"),
    ]
    assert plain.rows[4].who == "needs root"
    assert plain.notes == ("processes of other users: needs root",)
    nobody = tuple(replace(one, process=None, cgroup=None) for one in busy_reading().connections)
    pending = table_of(replace(busy_reading(), owners="pending", connections=nobody))
    assert pending.rows[0].process == "…" and not pending.is_complete
    closed = replace(busy_reading(), connections=(replace(nobody[0], inode=0),))
    assert table_of(closed).rows[0].process == "–"


@pytest.mark.parametrize(
    ("cgroup", "name"),
    [
        (f"/system.slice/docker-{ID}.scope", "docker 1a2b3c4d5e6f"),
        (f"/docker/{ID}", "docker 1a2b3c4d5e6f"),
        (f"/machine.slice/libpod-{ID}.scope/container", "podman 1a2b3c4d5e6f"),
        (
            f"/kubepods.slice/kubepods-pod1.slice/cri-containerd-{ID}.scope",
            "containerd 1a2b3c4d5e6f",
        ),
        (f"/kubepods/besteffort/pod1/{ID}", "container 1a2b3c4d5e6f"),
        ("/lxc.payload.web/system.slice/nginx.service", "lxc web"),
        ("/lxc/101/ns", "lxc 101"),
        ("/machine.slice/machine-qemu\\x2d3\\x2dweb\\x2d1.scope/libvirt/emulator", "qemu web-1"),
        ("/machine.slice/machine-debian.scope", "machine debian"),
        ("/qemu.slice/100.scope", "VM 100"),
        ("/system.slice/system-openvpn.slice/openvpn@a\\x2db.service", "openvpn@a-b.service"),
        ("/user.slice/user-1000.slice/session-3.scope", "session-3.scope"),
        (
            "/user.slice/user-1000.slice/user@1000.service/app.slice/app-firefox.scope",
            "user@1000.service",
        ),
        ("/init.scope", "init.scope"),
        ("/", ""),
        ("", ""),
        (None, ""),
    ],
)
def test_names_of_control_groups(cgroup: str | None, name: str) -> None:
    assert owner_name(cgroup) == name
    assert (machine_of(cgroup) is not None) == name.startswith(("lxc", "qemu", "machine"))


def test_links_above_a_nic() -> None:
    """Bond, bridge on it, VLANs; neither the peer of a veth link nor a VRF nor what is in another
    namespace."""
    links = {
        one.ifindex: one
        for one in (
            link(2, "ens1", master=10),
            link(3, "ens2", master=10),
            link(10, "bond0", kind="bond", master=20),
            link(11, "bond0.100", kind="vlan", lower=10, master=30),
            link(12, "macvlan0", kind="macvlan", lower=10, lower_namespace=1),
            link(20, "br0", kind="bridge"),
            link(30, "blue", kind="vrf"),
            link(40, "veth0", kind="veth", lower=2),
            link(41, "wan.5", kind="vlan", lower=3),
        )
    }
    assert set(requested_links(2, links)) == {2, 10, 11, 20} and requested_links(2, links)[0] == 2
    many = {number: link(number, f"v{number}", kind="vlan", lower=2) for number in range(3, 200)}
    assert len(requested_links(2, {2: link(2, "ens1"), **many})) == MAX_WATCHED_LINKS
    loop = {2: link(2, "a", kind="vlan", lower=3), 3: link(3, "b", kind="vlan", lower=2)}
    assert set(requested_links(2, loop)) == {2, 3}
    assert requested_links(77, {}) == (77,)


def test_notes_say_what_is_not_covered() -> None:
    links = (
        link(2, "ens192", master=5), link(3, "vnet0", master=5), link(5, "br0", kind="bridge"),
        link(6, "veth1", kind="veth", lower=2, lower_namespace=0),
    )  # fmt: skip
    found = replace(
        busy_reading(links=(2, 5)), unreadable={"udp": Unreadable("missing", "sock_diag: ENOENT")}
    )
    table = connection_table(2, snapshot_with(found, *links))
    assert table is not None and table.above == ("br0",)
    assert table.notes == (
        "UDP sockets not readable: sock_diag: ENOENT",
        "br0 has 2 ports: connections through the others are listed too",
        "sockets in other network namespaces (containers) are not listed",
    )
    assert nic_texts(table)[0] == "with br0"


def test_a_connection_that_sends_elsewhere() -> None:
    rows = (connection(1, sent=1000, received=5000, direction="rx", output=3),)
    table = table_of(replace(busy_reading(), connections=rows))
    assert table.rows[0].output == "ens224" and table.rows[0].share == pytest.approx(
        5000 / 124_800_000
    )
    assert "sends through ens224" in " ".join(row_lines(table.rows[0], table))


def test_texts_about_one_connection() -> None:
    table = table_of(busy_reading())
    assert row_lines(table.rows[1], table) == (
        "tcp 10.0.2.15:443 ↔ 198.51.100.2:50002 established",
        "nginx (pid 800) · nginx.service · uid 33",
        "limited by the peer's receive window: full in 87 % of the time with data to send",
        "rtt 24.1 ms (min 23.8 ms) · cwnd 42 × 1448 B · total RX 977 KiB, TX 6.52 GiB · 3 "
        "retransmits",
    )
    udp = table.rows[-1]
    assert row_lines(udp, table)[-1] == (
        "rate unknown: the kernel has no byte counters for UDP sockets · 208 KiB not read yet · "
        "81220 packets dropped (receive buffer full)"
    )
    assert endpoint("fe80::1", 22, "ens192") == "[fe80::1%ens192]:22"
    assert endpoint("2001:db8::1", 22, "ens192") == "[2001:db8::1]:22"


def test_columns_and_orders() -> None:
    table = table_of(busy_reading())
    texts = {column.key: [column.cell(row)[0].strip() for row in table.rows] for column in COLUMNS}
    assert texts["tx"][0] == "568 M" and texts["tx"][-1] == "–"
    assert texts["limited"][-1] == "drops 140/s" and texts["limited"][-2] == "–"
    assert texts["peer"][-1] == "udp, any peer" and texts["peer"][2] == "[2001:db8:12:5::9]:50003"
    assert texts["local"][-2:] == ["any", "10.0.2.15"]
    by_rtt = make_row_order(table.rows, "rtt", descending=True)
    assert [row.connection.rtt for row in order_rows(table.rows, by_rtt)][:2] == [81_000, 24_100]
    assert (
        order_rows(table.rows, make_row_order(table.rows, "", descending=True))[0] is table.rows[-1]
    )


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("nginx", 15), ("443", 15), ("port:8000", 1), ("198.51.100.", 15), ("tx>100M", 2),
        ("retr>0", 1), ("rtt>20", 2), ("udp", 2), ("!nginx", 5), ("docker", 1), ("drops>0", 1),
        ("pid:612", 1), ("window", 1), ("", 20),
    ],
)  # fmt: skip
def test_the_filter(text: str, number: int) -> None:
    wanted = number_filter(text, FIELDS)
    assert (sum(wanted.accepts(row) for row in table_of(busy_reading()).rows), wanted.errors) == (
        number,
        (),
    )


def test_errors_of_the_filter() -> None:
    assert number_filter("rx>fast", FIELDS).errors == ("rx> needs a number, e.g. rx>10",)
    assert "unknown key" in number_filter("speed>1", FIELDS).errors[0]
