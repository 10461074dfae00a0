"""Findings of a path test that are hard to produce with real links; the others are in
`test_real_paths`."""

from __future__ import annotations

from dataclasses import replace

import pytest

from nictop.probe.records import (
    DropFlow,
    DropGroup,
    DropReport,
    IcmpError,
    LossCount,
    PathListener,
    PathReplies,
    PathSize,
    PathTest,
    ReceivedPackets,
    TrafficPath,
)
from nictop.rules.finding import Finding
from nictop.rules.host import HostFacts
from nictop.rules.wording import place_text
from nictop.traffic.path.findings.findings import path_findings
from nictop.traffic.path.result import PathDirection, PathEnd, PathResult
from tests.support.rule_cases import host_facts

NIC, MAC = "enp1s0", {"a": "52:54:00:00:00:01", "b": "52:54:00:00:00:02"}
ADDRESS = {"a": "192.0.2.10", "b": "192.0.2.11"}


def facts_of(name: str) -> HostFacts:
    """A host with one NIC."""
    snapshot = host_facts({"base": "kvm-guest"}).snapshot
    links = {2: replace(snapshot.links[2], address=MAC[name])}
    return HostFacts(replace(snapshot, host=name, links=links))


FACTS = {name: facts_of(name) for name in "ab"}
ENDS = {
    name: PathEnd(name, NIC, 2, ADDRESS[name], MAC[name], 1500, root=True, nics={2: NIC})
    for name in "ab"
}


def healthy(sender: str, receiver: str, **changed: object) -> PathDirection:
    """A direction in which everything is answered, but for what is changed in its test."""
    there = ADDRESS[receiver]
    test = PathTest(
        address=there,
        source=ADDRESS[sender],
        port=40000,
        mtu=1500,
        resolved=there,
        macs=(MAC[receiver],),
        path=TrafficPath(there, ADDRESS[sender], "unicast", 2, None, "reachable", MAC[receiver]),
        replies=(
            PathReplies("icmp", "raw", 100, (0.001,) * 100),
            PathReplies("udp", "", 20, (0.001,) * 20),
            PathReplies("tcp", "", 1, (0.001,)),
        ),
        sizes=(PathSize("icmp", 1500, 1500), PathSize("udp", 1500, 1500)),
    )
    arrived = tuple(ReceivedPackets(one, 2, 20, 1500, 64) for one in ("icmp", "udp", "tcp"))
    listener = PathListener(
        40000, ended=True, delivered=arrived[1:2], arrived=arrived, rp_filter_drops=0
    )
    return PathDirection(ENDS[sender], ENDS[receiver], replace(test, **changed), listener)  # type: ignore[arg-type]


def found(there: PathDirection, *, port: int = 0) -> tuple[Finding, ...]:
    return path_findings(PathResult(1.0, "", port, (there, healthy("b", "a"))), FACTS)


def test_healthy_path_has_none() -> None:
    assert found(healthy("a", "b")) == ()


def test_loss() -> None:
    replies = (
        PathReplies("icmp", "raw", 100, (0.001,) * 93),
        PathReplies("udp", "", 20, (0.001,) * 20),
    )
    (one,) = found(healthy("a", "b", replies=replies))
    assert (one.rule, one.severity, one.host) == ("path_loss", "warning", "a")
    assert one.title == "packet loss to b or back: 7 of 100 ICMP echo packets unanswered"
    assert found(healthy("a", "b", replies=(replace(replies[0], rtts=(0.001,) * 99),))) == (), (
        "one may be chance"
    )


def test_another_host_answers() -> None:
    """The only MAC address is that of the sender's own NIC, by proxy ARP: not of the receiver."""
    (one,) = found(healthy("a", "b", macs=(MAC["a"],)))
    assert (one.rule, one.severity) == ("path_duplicate_address", "critical")
    assert one.title == "this host itself answers for 192.0.2.11 of b"
    assert found(healthy("a", "b", macs=("02:00:00:00:00:99",))) == (), (
        "a network that answers for all, as in clouds"
    )


def test_two_answers_for_the_gateway() -> None:
    path = TrafficPath(
        ADDRESS["b"], ADDRESS["a"], "unicast", 2, "192.0.2.1", "reachable", "02:00:00:00:00:01"
    )
    macs = ("02:00:00:00:00:01", "02:00:00:00:00:02")
    (one,) = found(healthy("a", "b", path=path, resolved="192.0.2.1", macs=macs))
    assert one.title == "2 MAC addresses answer for 192.0.2.1: duplicate address, or proxy ARP"
    assert str(one.fixes[1].commands[0]) == "ip neighbour show to 192.0.2.1"


def test_several_answers_are_two_machines_or_one() -> None:
    macs = (MAC["b"], "02:00:00:00:00:99")
    (one,) = found(healthy("a", "b", macs=macs))
    assert one.title.startswith("2 MAC addresses answer for 192.0.2.11")
    assert "or one answers by several NICs" in one.why and "random" not in one.why


def answered_by(mac: str, *macs: str, outcome: str = "ECONNREFUSED") -> PathDirection:
    """From a to b: packets go to this MAC address, and nothing is seen at b."""
    healthy_test = healthy("a", "b").test
    assert healthy_test is not None and healthy_test.path is not None
    path = replace(healthy_test.path, neighbour_address=mac)
    icmp, udp, tcp = healthy_test.replies
    replies = (icmp, replace(udp, rtts=()), replace(tcp, rtts=(), error=outcome))
    direction = healthy("a", "b", path=path, macs=(mac, *macs), replies=replies)
    return replace(direction, listener=PathListener(40000, ended=True, arrived=()))


def with_third() -> dict[str, HostFacts]:
    """A third host is watched, which is no end of the test."""
    third = FACTS["b"].snapshot
    links = {2: replace(third.links[2], address=OTHER)}
    return {**FACTS, "c": HostFacts(replace(third, host="c", links=links))}


OTHER = "52:54:00:00:00:03"


def test_other_host_that_answers_is_named_if_it_is_watched() -> None:
    there = answered_by(OTHER, MAC["b"])
    result = PathResult(1.0, "", 0, (there, healthy("b", "a")))
    (one,) = path_findings(result, with_third())
    assert one.rule == "path_duplicate_address"
    shown = [(evidence.what, evidence.value) for evidence in one.evidence]
    assert ("192.0.2.11 answered by", f"{OTHER} (c {NIC})") in shown
    assert ("in use", f"{OTHER} (c {NIC})") in shown
    assert one.fixes[0].note == f"They are c {NIC} and b {NIC}."
    (only,) = path_findings(
        PathResult(1.0, "", 0, (answered_by(OTHER), healthy("b", "a"))), with_third()
    )
    assert only.title == "c answers for 192.0.2.11 of b"


def test_answers_of_another_host_say_nothing_of_the_path() -> None:
    """Neither that it works, nor of a firewall; also for the way back, which leads there too."""
    stranger = "02:00:00:00:00:99"
    (one,) = found(answered_by(stranger, MAC["b"]))
    assert one.rule == "path_duplicate_address"
    assert one.why.endswith(
        "The one in use is not that of b: what was answered in this test was answered by another "
        "machine."
    )
    silent = tuple(
        replace(replies, rtts=(), error="ETIMEDOUT" if replies.protocol == "tcp" else "")
        for replies in healthy("b", "a").test.replies  # type: ignore[union-attr]
    )
    back = healthy("b", "a", replies=silent, sizes=())
    result = PathResult(1.0, "", 0, (answered_by(stranger, MAC["b"]), back))
    assert [one.rule for one in path_findings(result, FACTS)] == ["path_duplicate_address"]
    in_use = answered_by(MAC["b"], stranger)
    result = PathResult(1.0, "", 0, (in_use, back))
    assert "path_no_answer" in [one.rule for one in path_findings(result, FACTS)]


@pytest.mark.parametrize(
    ("arrived", "begins"),
    [
        (
            (ReceivedPackets("icmp", 2, 20, 84, 64),),
            "Packets pass in both directions: ICMP echo is answered. Possible",
        ),
        (None, "ICMP echo is answered. Possible"),
        ((), "ICMP echo is answered, but none of the packets is seen at b: another host"),
    ],
)
def test_path_works_if_what_was_answered_is_seen_at_the_other_end(
    arrived: tuple[ReceivedPackets, ...] | None, begins: str
) -> None:
    there = replace(
        answered_by(MAC["b"]), listener=PathListener(40000, ended=True, arrived=arrived)
    )
    findings = [one for one in found(there) if one.rule == "path_firewall"]
    assert findings and all(one.why.startswith(begins) for one in findings)


def test_entry_that_nobody_confirms_may_be_made_by_the_other_end() -> None:
    (one,) = found(healthy("a", "b", macs=()))
    assert one.rule == "path_neighbour_unconfirmed"
    assert "until 192.0.2.11 itself asks" in one.why


def test_an_end_that_is_known_not_to_answer_is_named() -> None:
    settings = {"sysctl": {"net.ipv4.conf.all.arp_ignore": 0, f"net.ipv4.conf.{NIC}.arp_ignore": 8}}
    snapshot = host_facts({"base": "kvm-guest", "settings": settings}).snapshot
    links = {2: replace(snapshot.links[2], address=MAC["b"])}
    facts = {**FACTS, "b": HostFacts(replace(snapshot, host="b", links=links))}
    there, back = healthy("a", "b", macs=()), healthy("b", "a")
    (one,) = path_findings(PathResult(1.0, "", 0, (there, back)), facts)
    assert one.rule == "path_neighbour_unconfirmed"
    assert "b does not answer, by its arp_ignore." in one.why and "look so" not in one.why
    setting = f"net.ipv4.conf.{NIC}.arp_ignore"
    assert one.evidence[-1].what == f"on b: {setting}" and one.evidence[-1].value == "8"
    assert one.fixes[0].where == "peer" and f"{setting}=0" in str(one.fixes[0].commands[0])
    assert there.test is not None and there.test.path is not None
    failed = replace(there.test.path, neighbour="failed", neighbour_address=None)
    silent = tuple(replace(replies, rtts=()) for replies in there.test.replies)
    unknown = healthy("a", "b", macs=(), path=failed, replies=silent, sizes=())
    nobody = replace(unknown, listener=PathListener(40000, ended=True, arrived=()))
    found_then = path_findings(PathResult(1.0, "", 0, (nobody, back)), facts)
    (one,) = (finding for finding in found_then if finding.rule == "path_no_neighbour")
    assert one.title.endswith(": b does not answer ARP requests (arp_ignore 8)")


def test_a_smaller_mtu_of_a_watched_router_is_the_first_possible_cause() -> None:
    base = FACTS["b"].snapshot
    address = replace(base.links[2].addresses[0], address="192.0.2.1")
    near = replace(base.links[2], address=OTHER, mtu=1400, name="lab0", addresses=(address,))
    facts = {**FACTS, "router": HostFacts(replace(base, host="router", links={2: near}))}
    path = TrafficPath(ADDRESS["b"], ADDRESS["a"], "unicast", 2, "192.0.2.1", "reachable", OTHER)
    sizes = (PathSize("udp", 1500, 1404),)
    macs = (OTHER,)
    there = healthy("a", "b", path=path, resolved="192.0.2.1", macs=macs, sizes=sizes)
    result = PathResult(1.0, "", 0, (there, healthy("b", "a")))
    (one,) = path_findings(result, facts)
    assert one.rule == "path_mtu_black_hole"
    assert one.why.startswith("Possible: router lab0 has MTU 1400 and drops what is larger")
    assert [piece.value for piece in one.evidence if piece.what == "MTU of router lab0"] == ["1400"]
    assert (one.fixes[0].peer, one.fixes[0].title) == ("router", "Set MTU 1500 on lab0")
    (unknown,) = path_findings(result, FACTS)
    assert unknown.why.startswith("Possible: a router on the path does not send ICMP")


def test_path_mtu_is_learned_once_for_all_connections() -> None:
    size = PathSize("udp", 1500, 1400, IcmpError(3, 4, "192.0.2.1", 1400))
    (one,) = found(healthy("a", "b", sizes=(size,)))
    assert one.rule == "path_mtu_smaller"
    assert "for ten minutes" in one.why and "each connection" not in one.why


@pytest.mark.parametrize(
    ("rp_filter", "route", "why"),
    [
        (1, "unicast", "The path is asymmetric"),
        (2, "none", "There is no route back to the sender. With rp_filter 2 (loose)"),
        (0, "unicast", "The kernel counted packets that rp_filter dropped"),
    ],
)
def test_what_rp_filter_does_depends_on_its_value(rp_filter: int, route: str, why: str) -> None:
    silent = tuple(PathReplies(name, "", 20, ()) for name in ("icmp", "udp", "tcp"))
    there, back = healthy("a", "b", replies=silent), healthy("b", "a", replies=silent)
    assert there.listener is not None and back.test is not None
    path = TrafficPath(ADDRESS["a"], ADDRESS["b"], route, 3, None, "reachable", MAC["a"])
    there = replace(there, listener=replace(there.listener, rp_filter_drops=9, delivered=()))
    back = replace(back, test=replace(back.test, path=path))
    facts = {**FACTS, "b": facts_with_rp_filter(rp_filter)}
    findings = path_findings(PathResult(1.0, "", 0, (there, back)), facts)
    one = next(finding for finding in findings if finding.rule == "path_rp_filter")
    assert one.why.startswith(why)
    assert ("asymmetric" in one.why) == (rp_filter == 1)


def facts_with_rp_filter(value: int) -> HostFacts:
    """Host b."""
    sysctl = {f"net.ipv4.conf.{place}.rp_filter": value for place in ("all", NIC)}
    snapshot = host_facts({"base": "kvm-guest", "settings": {"sysctl": sysctl}}).snapshot
    links = {2: replace(snapshot.links[2], address=MAC["b"])}
    return HostFacts(replace(snapshot, host="b", links=links))


def test_router_reports_a_larger_mtu_than_passes() -> None:
    """A black hole behind it."""
    size = PathSize("udp", 1500, 1380, IcmpError(3, 4, "192.0.2.1", 1400))
    (one,) = found(healthy("a", "b", sizes=(size,)))
    assert one.rule == "path_mtu_black_hole"
    assert one.evidence[1].value == "from 192.0.2.1, MTU 1400"


def test_search_that_was_not_finished() -> None:
    """The full size vanishes; the largest one that passes is not known."""
    (one,) = found(healthy("a", "b", sizes=(PathSize("udp", 9000, 1380, complete=False),)))
    assert one.rule == "path_mtu_black_hole"
    assert one.title == "MTU black hole to b: packets of 9000 bytes are lost, 1380 bytes pass"


@pytest.mark.parametrize(
    "size",
    [
        PathSize("udp", 1500, 1380, IcmpError(3, 4, "192.0.2.1", 1400), complete=False),
        PathSize("udp", 1500, None, complete=False),
        PathSize("udp", 1500, None),
        PathSize("udp", 1500, 1500),
    ],
)
def test_size_that_is_not_known_is_no_finding(size: PathSize) -> None:
    assert found(healthy("a", "b", sizes=(size,))) == ()


def test_unanswered_without_root_on_the_receiver() -> None:
    """It is not known whether anything arrives, and that is said."""
    replies = (
        PathReplies("icmp", "raw", 5),
        PathReplies("udp", "", 5),
        PathReplies("tcp", "", 1, error="ETIMEDOUT"),
    )
    direction = healthy("a", "b", replies=replies, sizes=())
    (one,) = found(replace(direction, listener=PathListener(40000, ended=True)))
    assert (one.rule, one.severity, one.host) == ("path_no_answer", "critical", "a")
    assert (
        one.title
        == "no answer from 192.0.2.11 (b); needs root there to show whether packets arrive"
    )


@pytest.mark.parametrize(("largest", "shown"), [(1300, 0), (1500, 2)])
def test_sizes_that_the_test_lost_are_no_evidence_of_something_else(
    largest: int, shown: int
) -> None:
    """The counters of the sender count its packets above the MTU, of either direction, as well."""
    icmp, _, tcp = healthy("a", "b").test.replies  # type: ignore[union-attr]
    there = healthy("a", "b", replies=(icmp, SILENT[1], tcp), sizes=())
    there = replace(there, listener=PathListener(40000, ended=True, arrived=ECHOES))
    counted = (
        LossCount("protocol", "Ip OutDiscards", 8),
        LossCount("link", "tx_dropped", 8, 2),
    )
    back = healthy("b", "a", sizes=(PathSize("icmp", 1500, largest),))
    assert back.listener is not None
    back = replace(back, listener=replace(back.listener, losses=counted))
    findings = path_findings(PathResult(1.0, "", 0, (there, back)), FACTS)
    (one,) = (found for found in findings if found.rule == "path_firewall")
    counts = [evidence.value for evidence in one.evidence if evidence.what.startswith("counted")]
    assert len(counts) == shown
    assert not any("queue" in text for text in counts)


@pytest.mark.parametrize(("mtu", "largest"), [("1000", 1500), ("1500", 1500), ("1000", 1000)])
def test_route_with_a_smaller_mtu_than_its_nic(mtu: str, largest: int) -> None:
    path = healthy("a", "b").test.path  # type: ignore[union-attr]
    assert path is not None
    path = replace(path, options=("mtu", "lock", mtu))
    there = healthy("a", "b", path=path, sizes=(PathSize("icmp", 1500, largest),))
    findings = [one for one in found(there) if one.rule == "path_route_mtu"]
    if (mtu, largest) != ("1000", 1500):
        assert not findings
        return
    (one,) = findings
    assert (one.severity, one.host) == ("info", "a")
    assert one.title == "the route to b has MTU 1000 (of this NIC: 1500); 1500 bytes pass"
    assert one.evidence[0].value == "mtu lock 1000"


def test_route_by_another_nic_is_the_cause_of_no_mac_address() -> None:
    """Not another VLAN: what leaves by another NIC finds nobody there."""
    snapshot = FACTS["a"].snapshot
    links = {**snapshot.links, 3: replace(snapshot.links[2], ifindex=3, name="lab1")}
    facts = {**FACTS, "a": HostFacts(replace(snapshot, links=links))}
    path = TrafficPath(ADDRESS["b"], ADDRESS["a"], "unicast", 3, None, "failed")
    there = healthy("a", "b", path=path, replies=SILENT, sizes=(), macs=())
    there = replace(there, listener=PathListener(40000, ended=True, arrived=()))
    result = PathResult(1.0, "192.0.2.0/24", 0, (there, healthy("b", "a")))
    one, *_ = (one for one in path_findings(result, facts) if one.rule == "path_no_neighbour")
    assert (one.host, one.subject) == ("a", "lab1")
    assert one.title == f"no MAC address for 192.0.2.11: its route leaves by lab1, not by {NIC}"
    assert "VLAN" not in one.why


SILENT = (
    PathReplies("icmp", "raw", 5),
    PathReplies("udp", "", 5),
    PathReplies("tcp", "", 1, error="ETIMEDOUT"),
)


@pytest.mark.parametrize("state", ["permanent", "reachable"])
@pytest.mark.parametrize("is_seen", [True, False])
def test_wrong_neighbour_entry_is_one_finding_with_its_fix(state: str, is_seen: bool) -> None:
    """b sends to another MAC address than that of a: also its answers, so that what arrives there
    is not unanswered by a firewall."""
    wrong = "02:00:00:00:00:99"
    there = healthy("a", "b", replies=SILENT, sizes=())
    path = TrafficPath(ADDRESS["a"], ADDRESS["b"], "unicast", 2, None, state, wrong)
    back = healthy("b", "a", replies=SILENT, sizes=(), path=path)
    seen = (ReceivedPackets("icmp", 2, 5, 84, 64),)
    back = replace(
        back,
        listener=PathListener(40000, ended=True, arrived=(), misaddressed=seen if is_seen else ()),
    )
    (one,) = path_findings(PathResult(1.0, "", 0, (there, back)), FACTS)
    assert (one.rule, one.host) == ("path_lost", "b")
    (fix,) = one.fixes
    removed = f"ip neigh del 192.0.2.10 dev {NIC}"
    if state == "reachable":
        removed = f"ip neigh flush to 192.0.2.10 dev {NIC}"
    assert [str(step) for step in fix.commands] == [removed]
    assert ("static" in one.why) is (state == "permanent")


@pytest.mark.parametrize("in_use", [OTHER, MAC["b"]])
def test_what_another_host_with_the_address_gets_is_not_unanswered(in_use: str) -> None:
    """Two hosts have the address of b: the answers of a go to either of them, so that what b misses
    says nothing of a firewall."""
    icmp, udp, tcp = healthy("b", "a").test.replies  # type: ignore[union-attr]
    there = answered_by(in_use, OTHER, MAC["b"])
    assert there.test is not None
    there = replace(there, test=replace(there.test, macs=(OTHER, MAC["b"])))
    if in_use == MAC["b"]:
        assert there.test is not None
        there = replace(there, test=replace(there.test, replies=(icmp, udp, tcp)))
    back = healthy("b", "a", replies=(*SILENT[:2], tcp), sizes=())
    result = PathResult(1.0, "", 0, (there, back))
    assert [one.rule for one in path_findings(result, FACTS)] == ["path_duplicate_address"]


ECHOES = (ReceivedPackets("icmp", 2, 10, 84, 64),)


def of_icmp(
    echo_replies: int | None, answers: tuple[ReceivedPackets, ...] | None
) -> tuple[PathDirection, PathDirection]:
    """ICMP echo from a to b is not answered, all else is. `echo_replies`: that b made; `answers`:
    that came to a."""
    _, udp, tcp = healthy("a", "b").test.replies  # type: ignore[union-attr]
    there = healthy("a", "b", replies=(PathReplies("icmp", "raw", 10), udp, tcp), sizes=())
    back = healthy("b", "a")
    assert there.listener is not None and back.listener is not None
    listener = replace(there.listener, arrived=ECHOES, echo_replies=echo_replies)
    return (
        replace(there, listener=listener),
        replace(back, listener=replace(back.listener, answers=answers)),
    )


@pytest.mark.parametrize(
    ("replies", "answers", "host", "title"),
    [
        (10, ECHOES, "a", "the answers of b to ICMP echo arrive here and are dropped"),
        (None, ECHOES, "a", "the answers of b to ICMP echo arrive here and are dropped"),
        (10, (), "a", "the answers of b to ICMP echo are lost"),
        (10, None, "a", "the answers of b to ICMP echo are lost"),
        (9, (), "b", "ICMP echo from a arrives at b, and no answer comes back"),
        (0, (), "b", "ICMP echo from a arrives at b, and no answer comes back"),
        (None, None, "b", "ICMP echo from a arrives at b, and no answer comes back"),
    ],
)
def test_answers_that_are_lost_are_of_the_host_that_asks(
    replies: int | None, answers: tuple[ReceivedPackets, ...] | None, host: str, title: str
) -> None:
    """The counter of the receiver shows that it answers, the packet socket of the sender what came
    back."""
    result = PathResult(1.0, "", 0, of_icmp(replies, answers))
    (one,) = path_findings(result, FACTS)
    assert (one.rule, one.severity, one.host) == ("path_firewall_icmp", "info", host)
    assert one.title == title
    assert ("packet filter at the input of a" in one.why) is (answers == ECHOES)
    assert ("b makes no answer" in one.why) is (replies == 0)


@pytest.mark.parametrize("made", [5, 0])
def test_nothing_is_answered_although_the_other_end_answers(made: int) -> None:
    there = healthy("a", "b", replies=SILENT, sizes=())
    assert there.listener is not None
    there = replace(there, listener=replace(there.listener, udp_answers=made))
    (one,) = found(there)
    assert (one.rule, one.host) == ("path_no_answer", "a" if made else "b")
    assert one.title == "the answers of b over UDP are lost"
    assert ("accepts none of them" in one.why) is (made == 0)


def test_what_does_not_arrive_is_told_beside_a_silent_neighbour_of_the_other_direction() -> None:
    """b has no MAC address for a, which does not explain that nothing of a arrives there."""
    there = healthy("a", "b", replies=SILENT, sizes=())
    there = replace(there, listener=PathListener(40000, ended=True, arrived=()))
    path = TrafficPath(ADDRESS["a"], ADDRESS["b"], "unicast", 2, None, "failed")
    back = healthy("b", "a", replies=SILENT, sizes=(), macs=(), path=path)
    back = replace(back, listener=PathListener(40000, ended=True, arrived=()))
    findings = path_findings(PathResult(1.0, "", 0, (there, back)), FACTS)
    assert {(one.rule, one.host) for one in findings} == {
        ("path_lost", "a"),
        ("path_no_neighbour", "b"),
    }


def test_wrong_entry_of_the_gateway_is_named() -> None:
    wrong, right = "02:00:00:00:00:99", "02:00:00:00:00:01"
    path = TrafficPath(ADDRESS["b"], ADDRESS["a"], "unicast", 2, "192.0.2.1", "permanent", wrong)
    there = healthy(
        "a", "b", replies=SILENT, sizes=(), path=path, resolved="192.0.2.1", macs=(right,)
    )
    there = replace(there, listener=PathListener(40000, ended=True, arrived=()))
    back = healthy("b", "a", replies=SILENT, sizes=())
    (one,) = path_findings(PathResult(1.0, "", 0, (there, back)), FACTS)
    assert (one.rule, one.host) == ("path_lost", "a")
    assert one.title == (
        f"packets to 192.0.2.11 (b) are sent to {wrong}: gateway 192.0.2.1 answers with another"
    )
    assert [str(step) for step in one.fixes[0].commands] == [f"ip neigh del 192.0.2.1 dev {NIC}"]


@pytest.mark.parametrize(("port", "severity"), [(0, "info"), (40000, "warning")])
def test_firewall_between_the_hosts(port: int, severity: str) -> None:
    """UDP does not arrive, and nobody says so; or a router prohibits it."""
    icmp, _, tcp = healthy("a", "b").test.replies  # type: ignore[union-attr]
    direction = healthy("a", "b", replies=(icmp, PathReplies("udp", "", 5), tcp), sizes=())
    seen = (ReceivedPackets("icmp", 2, 20, 84, 64), ReceivedPackets("tcp", 2, 3, 60, 64))
    listener = PathListener(40000, ended=True, arrived=seen)
    (one,) = found(replace(direction, listener=listener), port=port)
    assert (one.rule, one.severity, one.host) == ("path_firewall", severity, "a")
    assert one.title == "UDP port 40000 from a is not seen at b"
    prohibited = PathReplies("udp", "", 5, (), (IcmpError(3, 13, "192.0.2.1"),))
    direction = healthy("a", "b", replies=(icmp, prohibited, tcp), sizes=())
    (one,) = found(replace(direction, listener=listener), port=port)
    assert one.title == "UDP port 40000 to b is prohibited by 192.0.2.1"


ARRIVALS = {"arrived": (ReceivedPackets("tcp", 2, 2, 60, 64),), "not seen": (), "not known": None}
TITLES = {
    ("arrived", "silent"): "TCP port 40000 from a arrives at b, and no answer comes back",
    ("arrived", "refused"): "TCP port 40000 from a arrives at b and is refused",
    ("not seen", "silent"): "TCP port 40000 from a is not seen at b",
    ("not seen", "refused"): "TCP port 40000 to b is refused",
    (
        "not known",
        "silent",
    ): "TCP port 40000 to b is not answered; needs root there to show whether it arrives",
    ("not known", "refused"): "TCP port 40000 to b is refused",
}


@pytest.mark.parametrize(("seen", "kind"), TITLES)
def test_title_says_what_was_seen_and_causes_are_possible(seen: str, kind: str) -> None:
    """An answer may be lost on the way back, and a device between the hosts may reject: no firewall
    is a fact."""
    icmp, udp, _ = healthy("a", "b").test.replies  # type: ignore[union-attr]
    tcp = PathReplies("tcp", "", 1, error={"silent": "ETIMEDOUT", "refused": "ECONNREFUSED"}[kind])
    listener = PathListener(40000, ended=True, arrived=ARRIVALS[seen])
    (one,) = found(
        replace(healthy("a", "b", replies=(icmp, udp, tcp)), listener=listener), port=40000
    )
    assert one.title == TITLES[seen, kind] and "firewall" not in one.title
    assert "Possible: a firewall" in one.why
    assert ("the answer is lost" in one.why) is (kind == "silent" and seen != "not seen")


def test_way_of_the_fix_and_its_duration_are_one_truth() -> None:
    """The command closes the port after two minutes; no reboot does."""
    icmp, udp, _ = healthy("a", "b").test.replies  # type: ignore[union-attr]
    tcp = PathReplies("tcp", "", 1, error="ETIMEDOUT")
    (one,) = found(replace(healthy("a", "b", replies=(icmp, udp, tcp)), listener=None), port=40000)
    assert one.fixes[0].title == "Open the port for about two minutes"
    assert place_text(one.host, one.fixes[0]) == "on b"


def test_direction_that_was_not_tested() -> None:
    direction = PathDirection(ENDS["a"], ENDS["b"], failure="b: no answer")
    assert path_findings(PathResult(1.0, "", 0, (direction, healthy("b", "a"))), FACTS) == ()


def losing(*losses: LossCount, lost: tuple[str, ...] = ("udp", "tcp")) -> PathDirection:
    """Some protocols get no answer, although their packets arrive; b has counted losses
    meanwhile."""
    direction = healthy("a", "b")
    assert direction.test is not None and direction.listener is not None
    silent = {"udp": PathReplies("udp", "", 5), "tcp": PathReplies("tcp", "", 1, error="ETIMEDOUT")}
    replies = tuple(
        silent[one.protocol] if one.protocol in lost else one for one in direction.test.replies
    )
    listener = replace(direction.listener, delivered=(), losses=losses)
    return replace(
        direction, test=replace(direction.test, replies=replies, sizes=()), listener=listener
    )


def test_counter_that_explains_what_is_lost() -> None:
    """The filters at ingress of the receiver's NIC count at least half of the lost packets: no
    firewall is guessed."""
    ingress = LossCount("qdisc", "ingress", 6, 2, "ffff:")
    (one,) = found(losing(ingress))
    assert (one.rule, one.severity, one.host, one.subject) == ("path_dropped", "critical", "b", NIC)
    assert (
        one.title == f"drops packets during the test: 6 packets dropped by the tc filters of {NIC}"
    )
    assert one.evidence[0].source == f"tc -s filter show dev {NIC} ingress"
    for other in (replace(ingress, count=2), replace(ingress, ifindex=77)):
        assert {one.rule for one in found(losing(other))} == {"path_firewall"}, (
            "too few, or by another NIC"
        )
    assert {one.rule for one in found(losing(LossCount("link", "rx_dropped", 900, 2)))} == {
        "path_firewall"
    }, "it counts what nobody misses, too"


def test_drop_reasons_of_the_kernel_are_evidence() -> None:
    """Of packets between the two addresses only, and no drops that lose nothing."""
    flows = (
        DropFlow("udp", ADDRESS["a"], ADDRESS["b"], 40000, 5),
        DropFlow("udp", "192.0.2.99", ADDRESS["b"], 53, 9),
    )
    groups = (
        DropGroup("NETFILTER_DROP", "nft_do_chain", 2, 14, 900, flows=flows),
        DropGroup("NETFILTER_DROP", "nft_do_chain", 2, 9, 900, flows=flows[1:]),
    )
    drops = {"b": DropReport("complete", "", 8.0, 23, groups)}
    result = PathResult(1.0, "", 0, (losing(), healthy("b", "a")))
    (one,) = path_findings(result, FACTS, drops=drops)
    texts = [each.value for each in one.evidence if each.what == "dropped by the kernel of b"]
    assert len(texts) == 1 and texts[0].startswith("5 packets: NETFILTER_DROP in nft_do_chain. "), (
        texts
    )
    (one,) = path_findings(result, FACTS)
    assert "dropped by the kernel of b" not in {each.what for each in one.evidence}


def test_wrong_checksums_of_few_packets_are_others() -> None:
    assert {one.rule for one in found(losing(LossCount("protocol", "Udp InCsumErrors", 1)))} == {
        "path_firewall"
    }
    assert {one.rule for one in found(losing(LossCount("protocol", "Udp InCsumErrors", 5)))} == {
        "path_checksums_wrong"
    }


def test_loss_is_attributed_or_said_to_be_unexplained() -> None:
    replies = (
        PathReplies("icmp", "raw", 100, (0.001,) * 60),
        PathReplies("udp", "", 20, (0.001,) * 20),
    )
    there = healthy("a", "b", replies=replies)
    assert there.listener is not None
    (one,) = found(there)
    assert "No counter of either host explains it" in one.why
    counted = replace(there.listener, losses=(LossCount("driver", "rx_xdp_drops", 40, 2),))
    (one,) = found(replace(there, listener=counted))
    assert f"b: rx_xdp_drops of {NIC} +40 (XDP)" in one.why
