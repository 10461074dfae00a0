"""What dropped packets mean: reasons, NIC, findings that explain them, commands; and the session
that asks a probe."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from nictop.errors import HostUnreachable, NictopError
from nictop.hosts.session import running
from nictop.model.snapshot import Snapshot
from nictop.probe.records import DropFlow, DropGroup, DropReport, Line, TrafficLine
from nictop.rules import RULES
from nictop.traffic.drops.reasons import (
    ECHO_REPLY,
    HARDWARE,
    NOT_JOINED,
    PLACES,
    PREFIXES,
    REASONS,
    UNKNOWN,
    UNSPECIFIED,
    Reason,
    reason_of,
)
from nictop.traffic.drops.result import drop_rows
from nictop.traffic.drops.session import DropsSession
from nictop.wire.source import SourceState
from tests.support.findings import finding, step_texts
from tests.support.lines import counters, hello, inventory, link
from tests.support.sources import ScriptedSource, session_of

FLOW = DropFlow("udp", "192.0.2.9", "192.0.2.1", 5201, 3)
RP_FILTER = DropGroup(
    "IP_RPFILTER", "ip_rcv_finish_core", 3, 30, 2940, "52:54:00:00:00:03", flows=(FLOW,)
)
REPORT = DropReport("complete", "", 10.0, 30, (RP_FILTER,))
NICS = (
    link(2, "ens2", address="52:54:00:00:00:02"),
    link(3, "ens3", address="52:54:00:00:00:03"),
    link(4, "bond0", address="52:54:00:00:00:04", addresses=()),
    link(5, "ens5", address="52:54:00:00:00:04", master=4),
)
SNAPSHOT = Snapshot("vm1", "live", "", links={one.ifindex: one for one in NICS})


@pytest.mark.parametrize(
    ("group", "expected"),
    [
        (RP_FILTER, REASONS["IP_RPFILTER"]),
        (replace(RP_FILTER, reason="NOT_SPECIFIED"), UNSPECIFIED),
        (
            replace(RP_FILTER, reason="", place="__allowed_ingress [bridge]"),
            PLACES["__allowed_ingress"],
        ),
        (replace(RP_FILTER, reason="NOT_SPECIFIED", place="arp_rcv"), PLACES["arp_rcv"]),
        (
            replace(RP_FILTER, reason="NOT_SPECIFIED", place="vmxnet3_tq_tx_complete.isra.0"),
            PLACES["vmxnet3_tq_tx_complete"],
        ),
        (
            replace(RP_FILTER, reason="IP_INNOROUTES", place="ip6_pkt_discard"),
            REASONS["IP_INNOROUTES"],
        ),
        (
            replace(
                RP_FILTER,
                reason="IP_INNOROUTES",
                place="ip6_pkt_discard",
                flows=(replace(FLOW, destination="ff02::16"),),
            ),
            NOT_JOINED,
        ),
        # a ping with a raw socket, seen in 6.18; where ping_rcv returns the reason, in icmp_rcv
        (replace(RP_FILTER, reason="NO_SOCKET", place="ping_rcv"), ECHO_REPLY),
        (replace(RP_FILTER, reason="NO_SOCKET", place="icmp_rcv"), ECHO_REPLY),
        (replace(RP_FILTER, reason="NO_SOCKET", place="udp_queue_rcv"), REASONS["NO_SOCKET"]),
        (replace(RP_FILTER, reason="OVS_DROP_METER"), PREFIXES["OVS_"]),
        (replace(RP_FILTER, reason="A_NEW_REASON"), UNKNOWN),
        (replace(RP_FILTER, reason="", hardware=True), HARDWARE),
    ],
)
def test_reasons(group: DropGroup, expected: Reason) -> None:
    assert reason_of(group) is expected


def test_every_reason_is_complete() -> None:
    """Its sentence ends, the rules that it names exist, and its commands can be filled in."""
    values = {"nic": "ens3", "source": "192.0.2.9", "destination": "192.0.2.1", "port": "5201"}
    for name, reason in {**REASONS, **PLACES, **PREFIXES, "": UNSPECIFIED}.items():
        assert reason.meaning.endswith("."), name
        assert set(reason.rules) <= RULES.keys(), name
        for words in reason.commands:
            assert all("{" not in word.format(**values) for word in words), name


def test_what_is_usual_is_no_loss_and_no_fault_of_its_sender() -> None:
    """A keepalive probe, and a ping of a broadcast address (icmp_echo_ignore_broadcasts is 1)."""
    for name, word in (("TCP_OLD_SEQUENCE", "keepalive"), ("INVALID_PROTO", "broadcast")):
        reason = REASONS[name]
        assert reason.kind == "expected" and word in reason.meaning, name
        assert "malformed" not in reason.meaning


# --------------------------------------------------------------------------------------------- rows


def test_a_row_without_a_finding_has_commands() -> None:
    (row,) = drop_rows(REPORT, SNAPSHOT)
    assert (row.reason, row.kind, row.nic, row.direction, row.certain) == (
        "IP_RPFILTER",
        "loss",
        "ens3",
        "rx",
        True,
    )
    assert row.per_second == 3.0 and row.findings == ()
    assert step_texts(row.commands) == [
        "ip route get 192.0.2.9",
        "sysctl net.ipv4.conf.all.rp_filter net.ipv4.conf.ens3.rp_filter",
    ]


def test_a_sysctl_of_a_nic_with_a_dot_in_its_name_can_be_read() -> None:
    """sysctl(8) would take the dot for a separator."""
    vlan = replace(NICS[1], name="ens3.100")
    (row,) = drop_rows(REPORT, replace(SNAPSHOT, links={3: vlan}))
    sysctl = step_texts(row.commands)[-1]
    assert sysctl == "sysctl net.ipv4.conf.all.rp_filter net.ipv4.conf.ens3/100.rp_filter"


def test_commands_with_unknown_values_are_left_out() -> None:
    (row,) = drop_rows(
        replace(REPORT, groups=(replace(RP_FILTER, ifindex=99, flows=()),)), SNAPSHOT
    )
    assert (row.nic, row.certain, row.commands) == ("", False, ())


def test_the_findings_of_its_nic_explain_it() -> None:
    rule = "rp_filter_drops_an_asymmetric_path"
    here, elsewhere = (replace(finding(rule=rule), ifindex=number) for number in (3, 2))
    other = replace(finding(rule="traffic_control_holds_back"), ifindex=3)
    whole_host = finding(rule="two_links_in_one_subnet")
    (row,) = drop_rows(REPORT, SNAPSHOT, [here, elsewhere, other, whole_host])
    assert row.findings == (here, whole_host)


@pytest.mark.parametrize(
    ("namespaces", "mac", "certain"),
    [
        (0, None, True),
        (1, "52:54:00:00:00:03", True),
        (1, "52:54:00:00:00:99", False),
        (1, None, False),
    ],
)
def test_an_ifindex_may_be_one_of_another_namespace(
    namespaces: int, mac: str | None, certain: bool
) -> None:
    """Then neither a finding nor a command names it."""
    report = replace(REPORT, namespaces=namespaces, groups=(replace(RP_FILTER, mac=mac),))
    found = replace(finding(rule="rp_filter_drops_an_asymmetric_path"), ifindex=3)
    (row,) = drop_rows(report, SNAPSHOT, [found])
    assert (row.nic, row.certain, bool(row.findings)) == ("ens3", certain, certain)
    assert any("ens3" in step for step in step_texts(row.commands)) is certain


@pytest.mark.parametrize(
    ("mac", "nic", "direction"),
    [
        ("52:54:00:00:00:02", "ens2", "tx"),
        ("52:54:00:00:00:04", "bond0", "tx"),
        ("52:54:00:00:00:99", "", ""),
        (None, "", ""),
    ],
)
def test_the_nic_of_a_sent_packet_is_known_by_its_address(
    mac: str | None, nic: str, direction: str
) -> None:
    report = replace(
        REPORT, groups=(replace(RP_FILTER, reason="QDISC_DROP", ifindex=None, mac=mac),)
    )
    (row,) = drop_rows(report, SNAPSHOT)
    assert (row.nic, row.direction, row.certain) == (nic, direction, bool(nic))


def test_loss_comes_first() -> None:
    groups = [
        replace(RP_FILTER, reason=reason, packets=packets)
        for reason, packets in (
            ("OTHERHOST", 90),
            ("NOT_SPECIFIED", 80),
            ("NO_SOCKET", 2),
            ("IP_RPFILTER", 3),
        )
    ]
    rows = drop_rows(replace(REPORT, groups=tuple(groups)), SNAPSHOT)
    assert [(row.reason, row.kind) for row in rows] == [
        ("IP_RPFILTER", "loss"), ("NO_SOCKET", "loss"), ("", "unclear"), ("OTHERHOST", "expected"),
    ]  # fmt: skip


# ------------------------------------------------------------------------------------------ session

READINGS = (hello(), inventory(*NICS), counters(1.0, {3: (0, 0)}), counters(2.0, {3: (0, 0)}))


class Answering(ScriptedSource):
    """Answers the request for dropped packets with `answer`; None: the connection is lost."""

    answer: TrafficLine | None = TrafficLine(3.0, "", "drops", drops=REPORT)

    async def request(self, request: object) -> None:
        await super().request(request)  # type: ignore[arg-type]
        traffic = self.requests[-1].traffic
        if traffic is not None and traffic.action == "drops":
            answer = self.answer
            self.send(
                SourceState("lost", "connection lost")
                if answer is None
                else Line(traffic=replace(answer, id=traffic.id))
            )


async def test_a_report_from_a_probe() -> None:
    source = Answering("vm1")
    source.send(*READINGS)
    session, said = session_of(source), list[str]()
    async with running(session):
        result = await DropsSession(session, 10.0, timeout=5.0).run(said.append)
    assert (result.host, result.report, [row.nic for row in result.rows]) == (
        "vm1",
        REPORT,
        ["ens3"],
    )
    assert said[-1] == "vm1: monitoring dropped packets for 10 s"
    (request,) = [one.traffic for one in source.requests if one.traffic is not None]
    assert (request.action, request.deadline) == ("drops", 10.0)


async def test_a_probe_that_cannot_do_it() -> None:
    """Such as one of an older version."""
    source = Answering("vm1")
    source.answer = TrafficLine(3.0, "", "failed", text="action is not one of check, start\x1b")
    source.send(*READINGS)
    session = session_of(source)
    async with running(session):
        with pytest.raises(NictopError, match=r"vm1: action is not one of check, start\\x1b"):
            await DropsSession(session, 10.0, timeout=5.0).run()


async def test_a_host_that_is_lost() -> None:
    source = Answering("vm1")
    source.answer = None
    source.send(*READINGS)
    session = session_of(source)
    async with running(session):
        with pytest.raises(HostUnreachable, match="vm1: connection lost"):
            await DropsSession(session, 10.0, timeout=5.0).run()
    assert not [
        one for one in source.requests if one.traffic is not None and one.traffic.action == "stop"
    ]


async def test_a_session_that_is_cancelled_stops_the_probe() -> None:
    source = ScriptedSource("vm1")
    source.send(*READINGS)
    session = session_of(source)
    async with running(session):
        task = asyncio.ensure_future(DropsSession(session, 10.0, timeout=5.0).run())
        await session.until(lambda: any(one.traffic is not None for one in source.requests), 5.0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    actions = [one.traffic.action for one in source.requests if one.traffic is not None]
    assert actions == ["drops", "stop"]
