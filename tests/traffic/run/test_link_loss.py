"""A link that was lost after the path test of a run and before its first byte."""

from __future__ import annotations

from dataclasses import replace

import pytest

from nictop.cli.traffic.progress import ProgressLines
from nictop.model.text.words import IFF_UP
from nictop.probe.records import KernelMessage, Line, LinkChange, Outdated, Unreadable
from nictop.report.runs.sentences import result_sentences
from nictop.traffic.analysis.assemble import result_of
from nictop.traffic.experiment.steps import Experiment, ExperimentStep
from nictop.traffic.failures import Failure
from nictop.traffic.generators.intervals import Interval, TransactionInterval
from nictop.traffic.generators.latency import EMPTY
from nictop.traffic.record.log import SocketSample
from nictop.traffic.results.selection import StoredRun
from nictop.traffic.results.store import encode_run, parse_run
from nictop.traffic.run.events import RunBegan
from nictop.traffic.run.failure_cause import timeout_failure
from nictop.traffic.run.link_loss import link_loss, with_early_loss
from tests.model.hosts import inventory
from tests.traffic.machines import machine, nic
from tests.traffic.plans import PLAN
from tests.traffic.watched import AXIS_START, Watched

TESTED = AXIS_START - 30.0
NO_ANSWER = Failure("timeout", "b does not answer at port 5201")


def change(second: float, *, carrier: bool, mtu: int = 1500) -> LinkChange:
    """So many seconds after the path test."""
    state = "up" if carrier else "down"
    return LinkChange(TESTED + second, 4, False, "ens4", state, carrier, IFF_UP, mtu)


def run_with(*changes: LinkChange, tested: float | None = TESTED) -> Watched:
    """A run without a byte; the links of both hosts are up now."""
    run = Watched(PLAN)
    for name, host in run.log.hosts.items():
        host.session.snapshot = machine(name, nic(PLAN.client.ifindex or 0, "ens4"))
    for one in changes:
        run.log.hosts["a"].session.process(Line(link_change=one))
    run.log.tested = tested
    return run


BACK = (change(2.0, carrier=False), change(9.0, carrier=True))
NAMED = "a ens4 lost its carrier 2 s after the path test, back 9 s after it"


def test_a_loss_before_the_first_byte_is_named() -> None:
    log = run_with(*BACK).log
    assert with_early_loss(log, NO_ANSWER).sentence == f"{NO_ANSWER.sentence}; {NAMED}"
    assert link_loss(log) == "", "the link is up again: it need not be the cause"


def with_addresses(run: Watched, second: float, *addresses: str) -> None:
    """An inventory of the host of the client, so many seconds after the path test."""
    link = nic(PLAN.client.ifindex or 0, "ens4", *addresses)
    read = inventory(time=TESTED + second, links=(link,))
    run.log.hosts["a"].session.process(Line(inventory=read))


def test_a_link_and_an_address_that_are_lost_are_named_in_order_of_time() -> None:
    run = Watched(PLAN)
    run.log.tested = TESTED
    with_addresses(run, -3.0, PLAN.client.address)
    run.report("server", Interval(0.0, 0.5, 1e9, False))
    run.log.hosts["a"].session.process(Line(link_change=change(33.0, carrier=False)))
    assert link_loss(run.log) == "a ens4 lost its carrier at second 3"
    run.log.hosts["a"].session.process(Line(outdated=Outdated(TESTED + 35.0, "address")))
    with_addresses(run, 38.0)
    found = timeout_failure(run.log, 1e6, 30.0, is_deadline=False)
    assert found.sentence == (
        "no more data between a and b: a ens4 lost its carrier at second 3; a ens4 lost its "
        "address 192.0.2.1 between second 5 and 8"
    )
    incidents = run.view(9.0).incidents
    assert [one.meaning for one in incidents] == ["no_carrier", "address_lost"]
    run.log.failure = found
    result = result_of(run.log)
    said = [one.text for one in result_sentences(result) if one.kind == "event"]
    assert said == [one.sentence for one in incidents], "the result says what was said live"
    assert parse_run(encode_run(StoredRun("x", "", result, 1.0, "0"))).result == result


def test_a_loss_is_told_once_also_if_its_message_is_read_later() -> None:
    run = Watched(PLAN)
    run.report("server", Interval(0.0, 0.5, 1e9, False))
    session = run.log.hosts["a"].session
    link = nic(4, "ens4", device="0000:01:00.0", pci_address="0000:01:00.0")
    session.process(Line(inventory=inventory(time=TESTED, links=(link,))))
    session.process(Line(link_change=change(33.0, carrier=False)))
    progress = ProgressLines(Experiment("x", (ExperimentStep(PLAN, ""),)))
    list(progress.lines(RunBegan(run.log)))
    sample = SocketSample("a", None, (), "client")
    told = "a ens4 lost its carrier at second 3"
    assert list(progress.lines(sample)) == [f"  {told}"]
    text = "ixgbe 0000:01:00.0 ens4: NIC Link is Down"
    read = inventory(time=TESTED + 34.0, links=(link,))
    logged = (KernelMessage(TESTED + 32.9, 3, text),)
    session.process(Line(inventory=replace(read, messages=logged)))
    (lost,) = run.view(5.0).incidents
    assert lost.sentence == f"{told} (kernel log: {text})"
    assert list(progress.lines(sample)) == []


def test_a_loss_beside_a_bulk_flow_has_the_second_of_the_whole_run() -> None:
    """As the event has, not that of the bulk flow, which begins later."""
    run = Watched(replace(PLAN, test="loaded"))
    run.report("client", TransactionInterval(0.0, 1.0, 0.0, False, latency=EMPTY))
    run.report("server", Interval(22.0, 23.0, 1e9, False), group=run.log.last)
    run.log.last.ends["client"].run_start = AXIS_START + 20.0
    run.log.hosts["a"].session.process(Line(link_change=change(55.0, carrier=False)))
    found = timeout_failure(run.log.of(run.log.last), 1e6, 30.0, is_deadline=False)
    assert "a ens4 lost its carrier at second 25" in found.sentence


def test_addresses_that_could_not_be_read_are_not_lost() -> None:
    run = Watched(PLAN)
    run.log.tested = TESTED
    with_addresses(run, -3.0, PLAN.client.address)
    run.report("server", Interval(0.0, 0.5, 1e9, False))
    link = nic(PLAN.client.ifindex or 0, "ens4")
    read = inventory(time=TESTED + 38.0, links=(link,))
    read = replace(read, unreadable={"addresses": Unreadable("failed", "EIO")})
    run.log.hosts["a"].session.process(Line(inventory=read))
    assert link_loss(run.log) == ""


def test_a_link_that_does_not_come_back_is_the_cause() -> None:
    log = run_with(BACK[0]).log
    found = timeout_failure(log, 0.0, 30.0, is_deadline=False)
    assert found.sentence == (
        "no data received between a and b: a ens4 lost its carrier 2 s after the path test"
    )
    assert with_early_loss(log, found) == found, "named once"


@pytest.mark.parametrize(
    "run",
    [
        run_with(change(-9.0, carrier=False), change(-2.0, carrier=True)),
        run_with(*BACK, tested=None),
        run_with(change(2.0, carrier=True, mtu=9000)),
    ],
    ids=["before the path test, which tells it", "no path test", "another change"],
)
def test_nothing_else_is_named(run: Watched) -> None:
    assert with_early_loss(run.log, NO_ANSWER) == NO_ANSWER


def test_it_is_told_while_the_first_byte_is_waited_for() -> None:
    run = run_with(*BACK)
    (told,) = run.view(-5.0).incidents
    assert told.sentence == NAMED
    assert told.return_sentence == "a ens4 has its link again 9 s after the path test"
    run.report("server", Interval(0.0, 0.5, 1e9, False))
    assert run.view(0.6).incidents == (), "data flows: it has not kept the test from its begin"
