"""A path test in which a NIC was without link: what was not answered meanwhile is no finding about
the path."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

import pytest

from nictop.model.text.words import IFF_UP
from nictop.probe.records import Line, LinkChange, PathListener, PathReplies, PathSize, TrafficLine
from nictop.rules.finding import Finding
from nictop.rules.host import HostFacts
from nictop.traffic.hosts.host import RunHost
from nictop.traffic.path.findings.findings import (
    ALL_ANSWERED,
    NOTHING_KNOWN,
    PARTLY_ANSWERED,
    path_findings,
)
from nictop.traffic.path.link_losses import ReportedLoss, with_common_times
from nictop.traffic.path.run import PathRun
from nictop.traffic.plan.plan import Endpoint, EndpointPair
from tests.support.sources import ScriptedSource, session_of
from tests.traffic.path.test_findings import ADDRESS, FACTS, NIC, healthy

LISTENER = PathListener(40000, ended=True)


def change(time: float, carrier: bool, ifindex: int = 2, **more: object) -> LinkChange:
    state = "up" if carrier else "down"
    found = LinkChange(time, ifindex, False, NIC, state, carrier, IFF_UP, 1500)
    return replace(found, **more)  # type: ignore[arg-type]


def findings(
    changes: Iterable[LinkChange],
    tested: Mapping[str, object],
    *,
    listener: PathListener = LISTENER,
    without_carrier: bool = False,
) -> tuple[Finding, ...]:
    """Of a test from second 10 to 15 on both hosts. `changes`, `listener`, `without_carrier`: of
    host a; `tested`: what is changed in the test of host b; `NO_ANSWER` in both."""
    hosts = {name: RunHost(session_of(ScriptedSource(name))) for name in "ab"}
    for name, host in hosts.items():
        link = FACTS[name].snapshot.links[2]
        if name == "a" and without_carrier:
            link = replace(link, carrier=False)
        host.session.snapshot = replace(FACTS[name].snapshot, host=name, links={2: link})
    for reported in changes:
        hosts["a"].session.process(Line(link_change=reported))
    client, server = (Endpoint(name, 2, ADDRESS[name]) for name in "ab")
    run = PathRun(EndpointPair("", client, server), hosts, identity="x")
    reports = {"a": listener, "b": LISTENER}
    for side, name in enumerate("ab"):
        test = healthy(
            name, "ba"[side], **(tested if name == "b" or tested is NO_ANSWER else {})
        ).test
        names = f"x-path_listen-{side}", f"x-path_test-{side}"
        for one in (
            TrafficLine(10.0, names[0], "path_listener", path_listener=PathListener(40000)),
            TrafficLine(14.0, names[1], "path_test", path_test=test),
            TrafficLine(15.0, names[0], "path_listener", path_listener=reports[name]),
        ):
            run.record(one)
    facts = {name: HostFacts(host.snapshot) for name, host in hosts.items()}
    return path_findings(run.result(), facts)


BLACK_HOLE = {"sizes": (PathSize("udp", 1500, 84, complete=False),)}
NO_ANSWER = {"macs": (), "replies": (), "sizes": ()}
LOST = {"replies": (PathReplies("icmp", "raw", 100, (0.001,) * 93),)}
SILENCE = (BLACK_HOLE, NO_ANSWER, {"macs": ()})


@pytest.mark.parametrize("tested", SILENCE)
def test_a_cable_that_was_out_meanwhile_explains_silence(tested: dict[str, object]) -> None:
    assert findings([], tested), "without the loss it is one of the path"
    (one,) = findings([change(12.0, False), change(27.0, True)], tested)
    assert (one.rule, one.severity, one.host, one.subject) == (
        "path_link_lost",
        "warning",
        "a",
        NIC,
    )
    known = NOTHING_KNOWN if tested is NO_ANSWER else PARTLY_ANSWERED
    assert one.title == (
        f"lost its carrier at second 2 of the path test, back at second 17: {known}"
    )


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ([change(12.0, False)], "lost its carrier at second 2 of the path test"),
        (
            [change(8.0, False), change(12.0, True)],
            "lost its carrier before the path test, back at second 2 of it",
        ),
        (
            [change(12.0, False, flags=0), change(13.0, True)],
            "was set down at second 2 of the path test, back at second 3",
        ),
        ([change(12.0, False, gone=True)], "disappeared at second 2 of the path test"),
    ],
)
def test_what_is_said_of_it(changes: list[LinkChange], text: str) -> None:
    lost = [one for one in findings(changes, BLACK_HOLE) if one.rule == "path_link_lost"]
    assert [one.title for one in lost] == [f"{text}: {PARTLY_ANSWERED}"]


@pytest.mark.parametrize(
    ("tested", "known"),
    [({}, ALL_ANSWERED), (BLACK_HOLE, PARTLY_ANSWERED), (LOST, PARTLY_ANSWERED)],
)
def test_what_was_answered_before_a_loss_stays_known(tested: dict[str, object], known: str) -> None:
    """At the very end of the test everything had been answered."""
    (one,) = findings([change(14.0, False)], tested)
    assert one.title == f"lost its carrier at second 4 of the path test: {known}"


def test_a_loss_that_no_message_told_of_yet() -> None:
    """The kernel counts it at once, and tells of it up to a second later."""
    (one,) = findings([], BLACK_HOLE, listener=replace(LISTENER, carrier_changes=1))
    assert one.title.startswith("lost its carrier during the path test: what was answered")


def test_a_nic_that_has_no_carrier_all_the_time() -> None:
    (one,) = findings([change(2.0, False)], NO_ANSWER)
    assert one.title.startswith("lost its carrier before the path test: not known")
    (one,) = findings([], NO_ANSWER, without_carrier=True)
    assert (one.severity, one.title) == (
        "critical",
        "has no carrier: not known what the path passes",
    )


@pytest.mark.parametrize(
    "changes",
    [
        [change(2.0, False), change(9.0, True)],
        [change(16.0, False), change(17.0, True)],
        [change(12.0, False, ifindex=99, name="other")],
        [change(12.0, True, mtu=1400), change(13.0, True)],
    ],
    ids=["over before", "after", "another NIC", "no loss"],
)
def test_what_explains_nothing(changes: list[LinkChange]) -> None:
    (one,) = findings(changes, BLACK_HOLE, listener=replace(LISTENER, carrier_changes=0))
    assert one.rule == "path_mtu_black_hole"


def test_an_answer_stays_an_answer() -> None:
    """Two MAC addresses answered: that they did is no consequence of the loss."""
    macs = ("52:54:00:00:00:01", "02:00:00:00:00:99")
    rules = {one.rule for one in findings([change(12.0, False)], {"macs": macs})}
    assert rules == {"path_link_lost", "path_duplicate_address"}


def test_one_loss_that_both_ends_report_has_one_time() -> None:
    """The kernel reports a lost carrier up to 1 s later (net/core/link_watch.c)."""
    here = ReportedLoss("a", NIC, 2, "lost its carrier", 5.6, 9.4)
    there = ReportedLoss("b", NIC, 2, "was set down", 5.4, 9.6)
    other = replace(here, host="c", second=8.0)
    texts = [one.text for one in with_common_times((here, there, other))]
    assert texts == [
        "lost its carrier at second 5 of the path test, back at second 10",
        "was set down at second 5 of the path test, back at second 10",
        "lost its carrier at second 8 of the path test, back at second 9",
    ]
