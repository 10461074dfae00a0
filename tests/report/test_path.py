"""Text and JSON of ``nictop path``."""

from __future__ import annotations

import json
import math
import sys
from dataclasses import replace

import msgspec
import pytest

from nictop.model.text.glyphs import ASCII
from nictop.probe.records import (
    IcmpError,
    PathListener,
    PathReplies,
    PathSize,
    PathTest,
    ReceivedPackets,
    RefusedSender,
    TrafficPath,
    Unreadable,
)
from nictop.report.path import PathDocument, path_json, path_schema, path_text
from nictop.traffic.path.result import PathDirection, PathEnd, PathReport, PathResult
from tests.cli.commands.test_report import check as matches_schema
from tests.support.findings import finding
from tests.support.hostile import NAME as HOSTILE

A = PathEnd("vm1", "ens3", 3, "192.0.2.1", "52:54:00:00:00:01", 1500, root=True, nics={3: "ens3"})
B = PathEnd(
    "vm2",
    "ens4",
    4,
    "192.0.2.2",
    "52:54:00:00:00:02",
    1500,
    root=False,
    nics={4: "ens4", 5: "ens5"},
)
ROUTE = TrafficPath("192.0.2.2", "192.0.2.1", "unicast", 3, None, "reachable", "52:54:00:00:00:02")
TEST = PathTest(
    address="192.0.2.2",
    source="192.0.2.1",
    port=5201,
    mtu=1500,
    resolved="192.0.2.2",
    macs=("52:54:00:00:00:02",),
    path=ROUTE,
    replies=(
        PathReplies("icmp", "raw", 100, (0.0002, 0.0003, 0.0009)),
        PathReplies("udp", "", 5, (), (IcmpError(3, 13, "192.0.2.254"),)),
        PathReplies("tcp", "", 1, (0.0004,)),
    ),
    sizes=(PathSize("icmp", 1500, 1400),),
)
LISTENER = PathListener(
    5201,
    ended=True,
    arrived=(ReceivedPackets("icmp", 4, 110, 1400, 63),),
    rp_filter_drops=3,
)
BACK = PathDirection(B, A, failure="vm2: no answer")
REPORT = PathReport(PathResult(1.0, "", 5201, (PathDirection(A, B, TEST, LISTENER), BACK)), ())


def test_text() -> None:
    assert path_text(REPORT, 80).splitlines() == [
        "vm1 ens3 192.0.2.1 ↔ vm2 ens4 192.0.2.2",
        "",
        "vm1 → vm2",
        "  route     on-link, by ens3, MTU 1500",
        "  neighbour 52:54:00:00:00:02 (reachable); no other MAC address answers ARP",
        "  received  by ens4, but not by its UDP socket, 1 router between, 3 packets",
        "            dropped by rp_filter",
        "  ICMP echo 3 of 100 answered, RTT min 200 µs, median 300 µs, p99 900 µs",
        "  UDP       port 5201: prohibited by 192.0.2.254 (ICMP administratively",
        "            prohibited)",
        "  TCP       port 5201: connected in 400 µs",
        '  largest   1400 bytes (ICMP, DF set); larger packets are lost, no ICMP',
        '            "fragmentation needed"',
        "",
        "vm2 → vm1",
        "  failed    vm2: no answer",
        "",
        "incomplete",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("changed", "line"),
    [
        (
            {"path": replace(ROUTE, gateway="192.0.2.254"), "mtu": None},
            "  route     via 192.0.2.254, by ens3",
        ),
        ({"path": replace(ROUTE, options=("mtu", "lock", "1000", "hoplimit", "64", "advmss", "900"))},
         "  route     on-link, by ens3, MTU 1500, the route has mtu lock 1000 advmss 900"),
        ({"path": replace(ROUTE, route="prohibit")}, "  route     of type prohibit: nothing is "
                                                     "sent"),
        ({"path": replace(ROUTE, neighbour="failed", neighbour_address=None), "macs": ()},
         "  neighbour no MAC address (failed); no host answers ARP"),
        ({"macs": ("52:54:00:00:00:02", "52:54:00:00:00:09")},
         "  neighbour 52:54:00:00:00:02 (reachable); 2 MAC addresses for ARP: 52:54:00:00:00:02, "
         "52:54:00:00:00:09"),
        ({"path": replace(ROUTE, neighbour_address="52:54:00:00:00:09"),
          "macs": ("52:54:00:00:00:02", "52:54:00:00:00:09")},
         "  neighbour 52:54:00:00:00:09 (reachable), not that of vm2 ens4; 2 MAC addresses for ARP: "
         "52:54:00:00:00:02, 52:54:00:00:00:09"),
        ({"macs": None, "unreadable": {"macs": Unreadable("needs_root", "packet socket: EPERM")}},
         "  neighbour 52:54:00:00:00:02 (reachable); who else answers: needs root (packet socket: "
         "EPERM)"),
        ({"unreadable": {"icmp": Unreadable("needs_root", "net.ipv4.ping_group_range is 1 0")}},
         "  ICMP echo not tested: needs root (net.ipv4.ping_group_range is 1 0); UDP is used"),
        ({"sizes": (PathSize("udp", 1500, 1400, IcmpError(3, 4, "192.0.2.254", 1400)),)},
         '  largest   1400 bytes (UDP, DF set); ICMP "fragmentation needed" from 192.0.2.254 (MTU '
         '1400)'),
        ({"sizes": (PathSize("udp", 9000, 4000, complete=False),)},
         '  largest   4000 bytes (UDP, DF set); larger packets are lost, no ICMP "fragmentation '
         'needed"; search not '
         "finished"),
        ({"sizes": (PathSize("udp", 1500, 1400, IcmpError(3, 4, "{0[x]}{", 1400)),)},
         '  largest   1400 bytes (UDP, DF set); ICMP "fragmentation needed" from {0[x]}{ (MTU '
         '1400)'),
        ({"sizes": (PathSize("udp", 1500),)}, "  largest   no size was answered (UDP, DF set)"),
        ({"sizes": (PathSize("udp", 1500, complete=False),)},
         "  largest   no size was answered (UDP, DF set); search not finished"),
        ({"sizes": ()}, "  largest   not tested: nothing is answered"),
    ],
)  # fmt: skip
def test_lines(changed: dict[str, object], line: str) -> None:
    direction = PathDirection(A, B, replace(TEST, **changed), LISTENER)  # type: ignore[arg-type]
    report = replace(REPORT, result=replace(REPORT.result, directions=(direction, BACK)))
    assert line in path_text(report, 160).splitlines()


def test_who_else_sent_to_the_listener() -> None:
    strangers = (RefusedSender("cookie", "192.0.2.7", 3), RefusedSender("silent", "\x1b[2J", 1))
    direction = PathDirection(A, B, TEST, replace(LISTENER, refused=strangers))
    lines = path_text(
        PathReport(PathResult(1.0, "", 5201, (direction, BACK)), ()), 200
    ).splitlines()
    first = lines.index("  refused   3 datagrams without the cookie of the test, from 192.0.2.7")
    assert lines[first + 1].startswith("            1 connection of another host, from ")
    assert "\x1b" not in "".join(lines)


def test_json_matches_its_schema() -> None:
    report = replace(REPORT, findings=(finding(host="vm1"),))
    text = path_json(report)
    schema = json.loads(path_schema())
    assert text.isascii()
    matches_schema(json.loads(text), schema, schema["$defs"])
    direction = json.loads(text)["directions"][0]
    assert [direction[key] for key in ("largest_packet", "mtu", "too_big_from", "routers")] == [
        1400,
        1500,
        "",
        1,
    ]
    assert direction["protocols"][1] == {
        "protocol": "udp",
        "outcome": "prohibited",
        "source": "192.0.2.254",
        "sent": 5,
        "answered": 0,
        "rtt_min": None,
        "rtt_median": None,
        "rtt_p99": None,
    }
    assert (
        msgspec.json.schema(PathDocument, schema_hook=lambda _: {"type": "string"})["$ref"]
        == schema["$ref"]
    )


def test_json_has_no_number_that_json_does_not_have() -> None:
    """A stored file may contain any float."""
    replies = (PathReplies("tcp", "", 3, (math.inf, math.nan, 0.5)),)
    direction = PathDirection(A, B, replace(TEST, replies=replies), LISTENER)
    report = replace(REPORT, result=replace(REPORT.result, directions=(direction, BACK)))
    numbers = json.loads(path_json(report), parse_constant=pytest.fail)
    (tcp,) = numbers["result"]["directions"][0]["test"]["replies"]
    assert tcp["rtts"] == [sys.float_info.max, 0.0, 0.5]


def test_hostile_texts() -> None:
    """Nothing that a host sent reaches the terminal as a control sequence."""
    test = replace(
        TEST,
        path=replace(ROUTE, gateway=HOSTILE, neighbour=HOSTILE, neighbour_address=HOSTILE),
        macs=(HOSTILE, HOSTILE),
        replies=(
            PathReplies("udp", HOSTILE, 1, (), (IcmpError(3, 3, HOSTILE),)),
            PathReplies("tcp", error=HOSTILE),
        ),
        sizes=(PathSize("udp", 1500, 1400, IcmpError(3, 4, HOSTILE, 1)),),
        unreadable={"icmp": Unreadable("needs_root", HOSTILE)},
    )
    end = replace(A, host=HOSTILE, nic=HOSTILE, nics={3: HOSTILE})
    direction = PathDirection(end, end, test, LISTENER)
    report = PathReport(
        replace(
            REPORT.result, directions=(direction, replace(direction, test=None, failure=HOSTILE))
        ),
        (),
    )
    for text in (path_text(report, 80), path_json(report), ASCII.encode(path_text(report, 80))):
        assert "\x1b" not in text and "\u202e" not in text
    assert ASCII.encode(path_text(report, 80)).isascii()


def test_different_mtus_are_no_plain_all_clear() -> None:
    """Each direction passes with the MTU of its sender, as the NICs take larger packets."""
    assert TEST.path is not None
    small = replace(A, mtu=1400)
    own = replace(TEST, path=replace(TEST.path, ifindex=B.ifindex))
    there = PathDirection(small, B, TEST, replace(LISTENER, ended=True))
    back = PathDirection(B, small, own, replace(LISTENER, ended=True))
    report = replace(REPORT, result=replace(REPORT.result, directions=(there, back)), findings=())
    told = f"{small.mtu} on {A.host}, {B.mtu} on {B.host}"
    verdict = path_text(report, 200).splitlines()[-1]
    assert verdict == f"· No problems found on the IPv4 path, but the MTUs differ: {told}"


def test_another_nic_than_the_chosen_one_is_no_plain_all_clear() -> None:
    assert TEST.path is not None and A.ifindex is not None
    other = replace(TEST, path=replace(TEST.path, ifindex=A.ifindex + 1))
    ended = replace(LISTENER, ended=True)
    there = PathDirection(replace(A, nics={A.ifindex + 1: "ens256"}), B, other, ended)
    own = replace(TEST, path=replace(TEST.path, ifindex=B.ifindex))
    back = PathDirection(B, A, own, ended)
    report = replace(REPORT, result=replace(REPORT.result, directions=(there, back)), findings=())
    verdict = path_text(report, 200).splitlines()[-1]
    told = f"{A.host} sends by ens256, not by {A.nic}"
    assert verdict == f"· No problems found on the IPv4 path, but {told}"


def test_no_all_clear_without_what_a_host_received() -> None:
    """Its listener did not report in time: that is said, with the reason."""
    there = PathDirection(A, B, TEST, replace(LISTENER, ended=False))
    back = PathDirection(B, A, TEST, replace(LISTENER, ended=True))
    report = replace(REPORT, result=replace(REPORT.result, directions=(there, back)))
    text = path_text(report, 80)
    assert "  received  not known: no report about what arrived of vm2 in time" in text
    assert (
        text.splitlines()[-1]
        == "· No problems found on the IPv4 path; not known: what vm2 received"
    )


@pytest.mark.parametrize(
    ("of_a", "of_b", "told"),
    [
        ((4, 6), (4, 6), "on the IPv4 path; IPv6 was not tested"),
        ((4, 6), (4,), "on the IPv4 path"),
        ((), (), "on the IPv4 path"),
    ],
)
def test_the_all_clear_names_the_tested_family(
    of_a: tuple[int, ...], of_b: tuple[int, ...], told: str
) -> None:
    ended = replace(LISTENER, ended=True)
    assert TEST.path is not None
    ends = replace(A, ip_versions=of_a), replace(B, ip_versions=of_b, mtu=A.mtu)
    own = replace(TEST, path=replace(TEST.path, ifindex=B.ifindex))
    there, back = PathDirection(*ends, TEST, ended), PathDirection(*ends[::-1], own, ended)
    report = replace(REPORT, result=replace(REPORT.result, directions=(there, back)), findings=())
    assert path_text(report, 200).splitlines()[-1] == f"✓ No problems found {told}"
