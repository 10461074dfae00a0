"""What Queues says about what to do: one sentence with its reason, and commands only where
something is to change."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from nictop.model.rates.links import QueueRates
from nictop.model.snapshot import Snapshot
from nictop.probe.records import Ethtool, Link, Queue, Rss
from nictop.rules import Finding, HostFacts, diagnose
from nictop.rules.queue_advice import QUEUE_FAMILY, QUEUE_RULES, SOURCES, QueueAdvice, queue_advice
from nictop.rules.registry import RULES
from tests.support.findings import finding, host_of_case, step_texts
from tests.support.rule_cases import host_facts
from tests.tui.widgets.cpu.guest import link_of, loaded_guest

ONE_FLOW = "one flow uses one queue; a test with several streams uses more"
RECEIVED_FLOW = ONE_FLOW.replace(";", ", RSS cannot split it;")


def with_link(guest: Snapshot, link: Link) -> Snapshot:
    """The guest with another link of the same ifindex."""
    assert guest.inventory is not None
    links = tuple(link if one.ifindex == link.ifindex else one for one in guest.inventory.links)
    inventory = replace(guest.inventory, links=links)
    return replace(guest, inventory=inventory, links={one.ifindex: one for one in links})


def with_loads(guest: Snapshot, link: Link, *packets: float) -> Snapshot:
    """Received packets per second of the queues."""
    assert guest.rates is not None
    found = tuple(
        QueueRates("rx", number, rate, rate * 1000, 0.0) for number, rate in enumerate(packets)
    )
    return replace(guest, rates=replace(guest.rates, queues={link.ifindex: found}, driver={}))


def with_ethtool(link: Link, **more: object) -> Link:
    return replace(link, ethtool=replace(link.ethtool, **more))  # type: ignore[arg-type]


def advice(
    snapshot: Snapshot, name: str = "ens256", findings: Sequence[Finding] | None = ()
) -> QueueAdvice:
    return queue_advice(HostFacts(snapshot), link_of(snapshot, name), findings)


@pytest.fixture
def guest() -> Snapshot:
    return loaded_guest()[0]


def test_a_spread_load_needs_nothing(guest: Snapshot) -> None:
    found = advice(guest)
    assert found.text.startswith(
        "nothing to change: the load is spread over 4 queues, their interrupts are on CPU "
    )
    assert found.fix is None


def test_all_cpus_that_take_interrupts_of_queues_are_named(guest: Snapshot) -> None:
    """Interrupts of its queues 0 and 2 are counted on CPU 0 and 2, most on 2; of 1 and 3 on 1 and
    3, most on 3."""
    assert advice(guest).text.endswith("their interrupts are on CPU 0-3")


@pytest.mark.parametrize(
    ("rss", "reason"),
    [
        ((), "the RSS table is not reported by virtio_net"),
        ((0, 1, 2, 3) * 32, "the RSS table has 4 of 4 queues"),
        ((*(0, 1, 2, 3) * 31, 0, 1), "the RSS table has 4 of 4 queues"),
    ],
)
def test_an_uneven_load_with_good_settings_is_one_flow(
    guest: Snapshot, rss: tuple[int, ...], reason: str
) -> None:
    link = with_ethtool(link_of(guest), rss=Rss(rss, "toeplitz", None))
    found = advice(with_loads(with_link(guest, link), link, 90_000.0, 10.0, 0.0, 5.0))
    assert found == QueueAdvice(f"nothing to change: {reason}; {RECEIVED_FLOW}")


def test_an_uneven_load_of_one_sender(guest: Snapshot) -> None:
    """Its CPU selects the queue: the RSS table is about what is received."""
    link = transmit_masks(link_of(guest), *"1248")
    sent = tuple(
        QueueRates("tx", number, rate, rate * 1000, 0.0)
        for number, rate in enumerate((90_000.0, 1.0, 0.0))
    )
    snapshot = with_loads(with_link(guest, link), link, 10.0, 10.0, 0.0, 5.0)
    assert snapshot.rates is not None
    queues = {link.ifindex: (*snapshot.rates.queues[link.ifindex], *sent)}
    snapshot = replace(snapshot, rates=replace(snapshot.rates, queues=queues))
    assert (
        advice(snapshot).text
        == f"nothing to change: the CPU that sends selects the queue (XPS); {ONE_FLOW}"
    )
    link = transmit_masks(link_of(guest), *"0000")
    assert (
        advice(with_link(snapshot, link)).text == "nothing to change: most packets are sent, and "
        f"the kernel or the driver selects the queue; {ONE_FLOW}"
    ), "nor is it about packets that XPS does not assign"


def test_little_traffic_is_not_judged(guest: Snapshot) -> None:
    link = link_of(guest)
    assert advice(with_loads(guest, link, 3.0, 0.0, 0.0, 0.0)).text == (
        "not judged: too little traffic"
    )
    few = with_loads(guest, link, 150.0, 10.0, 0.0, 5.0)
    assert advice(few).text == "not judged: too little traffic", "as of a ping or an SSH session"
    idle = with_loads(guest, link, 0.0, 0.0, 0.0, 0.0)
    assert advice(idle).text == "not judged: no traffic"


def test_a_table_with_unequal_shares(guest: Snapshot) -> None:
    link = with_ethtool(link_of(guest), rss=Rss((0,) * 96 + (1, 2, 3, 1) * 8, "toeplitz", None))
    found = advice(with_loads(with_link(guest, link), link, 90_000.0, 10.0, 0.0, 5.0))
    assert found.text == (
        "the RSS table gives 96 of 128 entries to queue 0: set equal shares, unless they are "
        "intended"
    )
    assert found.fix is not None and step_texts(found.fix.commands) == ["ethtool -X ens256 equal 4"]


def test_equal_shares_are_of_the_first_queues(guest: Snapshot) -> None:
    """ethtool -X … equal 2 takes queues 0 and 1, whichever the table has."""
    link = with_ethtool(link_of(guest), rss=Rss((2,) * 96 + (3,) * 32, "toeplitz", None))
    found = advice(with_loads(with_link(guest, link), link, 0.0, 10.0, 90_000.0, 5.0))
    assert "the RSS table gives 96 of 128 entries to queue 2" in found.text and found.fix is None


def transmit_masks(link: Link, *masks: str) -> Link:
    queues = (Queue("rx", number, rps_cpus="0") for number in range(4))
    return replace(
        link,
        queues=(
            *queues,
            *(Queue("tx", number, xps_cpus=mask) for number, mask in enumerate(masks)),
        ),
    )


def test_steering_that_assigns_all_cpus_to_one_queue(guest: Snapshot) -> None:
    link = transmit_masks(link_of(guest), "f", "0", "0", "0")
    found = advice(with_link(guest, link))
    assert found.text == (
        "transmit packet steering (XPS) assigns all CPUs to queue 0, so 1-3 are not selected "
        "by it: assign CPUs to each queue"
    )
    assert found.fix is not None and found.fix.persistent is False
    folder = "/sys/class/net/ens256/queues"
    assert step_texts(found.fix.commands) == [
        f"echo {mask} > {folder}/tx-{number}/xps_cpus" for number, mask in enumerate("1248")
    ]
    assert step_texts(found.fix.undo) == [
        f"echo {mask} > {folder}/tx-{number}/xps_cpus" for number, mask in enumerate("f000")
    ]


def test_steering_over_some_of_the_queues(guest: Snapshot) -> None:
    found = advice(with_link(guest, transmit_masks(link_of(guest), *"3c00")))
    assert found.fix is not None
    assert "assigns all CPUs to queue 0-1, so 2-3 are not selected by it" in found.text


@pytest.mark.parametrize("masks", ["1248", "0000", "1240"])
def test_other_steering_is_left_alone(guest: Snapshot, masks: str) -> None:
    """One CPU per queue; off; a CPU without a queue of its own, which uses all."""
    assert advice(with_link(guest, transmit_masks(link_of(guest), *masks))).fix is None


def test_a_finding_about_queues_comes_first() -> None:
    """The real one of a rule, with its fix."""
    host = host_facts(host_of_case("virtio", "multiqueue_is_not_used"))
    findings = diagnose([host]).findings
    (one,) = (found for found in findings if found.rule == "multiqueue_is_not_used")
    link = next(link for link in host.links if link.ifindex == one.ifindex)
    found = queue_advice(host, link, findings)
    assert found.finding == one and found.fix == one.fixes[0] and found.text == one.title
    assert queue_advice(host, replace(link, ifindex=99), findings).finding is None


def test_a_finding_about_something_else_is_none_of_it(guest: Snapshot) -> None:
    mtu = replace(
        finding(subject="ens256", host=guest.host),
        rule="mtu_mismatch",
        ifindex=link_of(guest).ifindex,
    )
    assert advice(guest, findings=(mtu,)).finding is None


@pytest.mark.parametrize("source", sorted(SOURCES))
def test_nothing_is_said_before_it_is_read(guest: Snapshot, source: str) -> None:
    assert guest.inventory is not None
    partial = replace(guest, inventory=replace(guest.inventory, pending=(source,)))
    assert advice(partial) == QueueAdvice("not known yet, because the inventory is not complete")
    assert advice(guest, findings=None) == QueueAdvice(
        "not known yet, because the inventory is not complete"
    )


def test_no_queues_are_reported(guest: Snapshot) -> None:
    bare = replace(link_of(guest), queues=(), ethtool=Ethtool(), pci_address=None, device=None)
    assert advice(with_link(guest, bare)).text == "not known, because no queues are reported"


def test_the_rules_about_queues_exist() -> None:
    assert RULES.keys() >= QUEUE_RULES
    assert any(rule.family == QUEUE_FAMILY for rule in RULES.values())


def test_the_maximum_of_queues_is_not_said_to_be_that_of_the_driver(guest: Snapshot) -> None:
    """A hypervisor may offer one queue only, whatever its guest's driver could use."""
    channels = link_of(guest).ethtool.channels
    assert channels is not None
    one = replace(channels, combined=1, max_combined=1)
    link = replace(
        with_ethtool(link_of(guest), channels=one),
        queues=(Queue("rx", 0, rps_cpus="0"), Queue("tx", 0, xps_cpus="f")),
    )
    found = advice(with_loads(with_link(guest, link), link, 90_000.0))
    assert found.text == (
        "nothing to change at this load: one queue is the maximum that virtio_net reports"
    )
