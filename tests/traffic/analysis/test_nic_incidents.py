"""A NIC that was reset or lost its link during a run, by the kernel log of its host."""

from __future__ import annotations

from dataclasses import replace

import pytest

from nictop.model.snapshot import Snapshot
from nictop.probe.records import KernelMessage, LinkChange
from nictop.traffic.analysis.nic_incidents import ChosenNic, NicIncident, nic_incidents
from nictop.traffic.hosts.address_readings import AddressReading
from tests.traffic.machines import machine, nic

BEGIN = 1000.0
"""Of the run, on the clock of the host."""
NIC = ChosenNic(4, "ens4", BEGIN)
UP, DOWN_FLAGS = 0x1043, 0x1002
HANG = "ixgbe 0000:01:00.0 ens4: Detected Tx Unit Hang"
RESET = "ixgbe 0000:01:00.0 ens4: Reset adapter"
DOWN = "ixgbe 0000:01:00.0 ens4: NIC Link is Down"


def host(*messages: tuple[float, str]) -> Snapshot:
    link = nic(4, "ens4", device="0000:01:00.0", pci_address="0000:01:00.0")
    snapshot = machine("b", link)
    assert snapshot.inventory is not None
    logged = tuple(KernelMessage(time, 3, text) for time, text in messages)
    return replace(snapshot, inventory=replace(snapshot.inventory, messages=logged))


def incidents(*messages: tuple[float, str], seconds: float = 10.0) -> tuple[NicIncident, ...]:
    return nic_incidents({"b": host(*messages)}, {"b": NIC}, seconds)


def test_the_cause_precedes_its_consequences_of_the_same_second() -> None:
    found = incidents((BEGIN + 7.3, DOWN), (BEGIN + 7.2, RESET), (BEGIN + 7.1, HANG))
    assert [one.text for one in found] == [HANG, RESET, DOWN]
    assert found[0].sentence == (
        "b ens4 stopped sending (its transmit unit hung) at second 7 (kernel log: ixgbe "
        "0000:01:00.0 ens4: "
        "Detected Tx Unit Hang)"
    )


def test_only_messages_of_the_run_and_of_the_chosen_nic_count() -> None:
    other = "ixgbe 0000:02:00.0 ens5: Detected Tx Unit Hang"
    assert incidents((BEGIN - 1, HANG), (BEGIN + 11, HANG), (BEGIN + 5, other)) == ()
    assert [one.second for one in incidents((BEGIN + 11, HANG), seconds=12.0)] == [11.0]


def test_hosts_without_a_chosen_nic_or_a_clock_have_none() -> None:
    snapshot = host((BEGIN + 1, HANG))
    assert nic_incidents({"b": snapshot}, {"b": replace(NIC, ifindex=9)}, 10.0) == ()
    assert nic_incidents({"b": snapshot}, {}, 10.0) == ()
    assert nic_incidents({}, {"b": NIC}, 10.0) == ()


def test_the_text_of_a_host_is_cleaned_and_cut() -> None:
    (found,) = incidents((BEGIN + 2, HANG + "\x1b[31m" + "x" * 400))
    assert "\x1b" not in found.sentence and len(found.sentence) < 220


def change(
    second: float, *, gone: bool = False, name: str = "ens4", carrier: bool = True, flags: int = UP
) -> LinkChange:
    return LinkChange(
        BEGIN + second, 4, gone, name, "up" if carrier else "down", carrier, flags, 1500
    )


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ((change(3.2, gone=True),), "b ens4 disappeared at second 3"),
        ((change(2.0), change(4.1, name="wan0")), "b ens4 was renamed to wan0 at second 4"),
        ((change(5.4, carrier=False),), "b ens4 lost its carrier at second 5"),
        (
            (change(5.4, carrier=False), change(20.1)),
            "b ens4 lost its carrier at second 5, back at second 20",
        ),
        (
            (change(5.4, carrier=False), change(5.5, carrier=False), change(7.0)),
            "b ens4 lost its carrier at second 5, back at second 7",
        ),
        (
            (change(2.0, carrier=False), change(3.0), change(5.0, carrier=False)),
            "b ens4 lost its carrier 2 times, first at second 2",
        ),
        (
            (
                change(2.0, carrier=False),
                change(3.0),
                change(5.0, carrier=False),
                change(6.0, name="ens4"),
            ),
            "b ens4 lost its carrier 2 times, first at second 2, back at second 6",
        ),
        ((change(5.4, flags=DOWN_FLAGS),), "b ens4 was set down at second 5"),
        (
            (change(5.4, flags=DOWN_FLAGS), change(6.0, carrier=False), change(8.0)),
            "b ens4 was set down at second 5, back at second 8",
        ),
    ],
)
def test_what_rtnetlink_reports_needs_no_message(
    changes: tuple[LinkChange, ...], sentence: str
) -> None:
    found = nic_incidents({"b": host()}, {"b": replace(NIC, changes=changes)}, 10.0)
    assert found[0].sentence == sentence


def test_a_loss_in_the_kernel_log_and_by_rtnetlink_is_one() -> None:
    changes = (change(3.1, carrier=False), change(9.0))
    snapshot = host((BEGIN + 3.0, DOWN))
    (lost,) = nic_incidents({"b": snapshot}, {"b": replace(NIC, changes=changes)}, 10.0)
    assert lost.sentence == (
        f"b ens4 lost its carrier at second 3, back at second 9 (kernel log: {DOWN})"
    )
    assert lost.brief == "b ens4 lost its carrier for 6 s"


TWICE = (
    change(2.1, carrier=False),
    change(3.0),
    change(6.1, carrier=False),
    change(7.0),
)


@pytest.mark.parametrize(
    ("logged", "end"),
    [
        ((2.0,), f" (kernel log of the first: {DOWN})"),
        ((2.0, 6.0), f" (kernel log of the first: {DOWN})"),
        ((6.0,), ""),
        ((), ""),
        ((2.0, 2.3, 2.4), f" (kernel log of the first: {DOWN})"),
        ((5.0,), ""),
    ],
    ids=["first", "both", "second", "none", "repeated", "nearer to the second"],
)
def test_a_message_is_cited_once_for_the_nearest_loss(logged: tuple[float, ...], end: str) -> None:
    snapshot = host(*((BEGIN + second, DOWN) for second in logged))
    (lost,) = nic_incidents({"b": snapshot}, {"b": replace(NIC, changes=TWICE)}, 10.0)
    assert lost.sentence == (
        f"b ens4 lost its carrier 2 times, first at second 2, back at second 7{end}"
    )


def test_a_link_that_is_set_up_again_has_lost_nothing_more() -> None:
    changes = (change(3.0, flags=DOWN_FLAGS), change(5.0, carrier=False), change(8.0))
    snapshot = host((BEGIN + 3.2, DOWN))
    (lost,) = nic_incidents({"b": snapshot}, {"b": replace(NIC, changes=changes)}, 10.0)
    assert lost.sentence == (
        f"b ens4 was set down at second 3, back at second 8 (kernel log: {DOWN})"
    )


def test_a_loss_that_only_the_kernel_log_has_is_told() -> None:
    changes = (change(3.1, carrier=False), change(4.0))
    snapshot = host((BEGIN + 8.0, DOWN))
    found = nic_incidents({"b": snapshot}, {"b": replace(NIC, changes=changes)}, 10.0)
    assert [(one.meaning, one.text) for one in found] == [("no_carrier", ""), ("link_lost", DOWN)]


ADDRESS = "192.0.2.1"


def reading(second: float, *links: int, since: float | None = None) -> AddressReading:
    began = None if since is None else BEGIN + since
    return AddressReading(BEGIN + second, began, {ADDRESS: links} if links else {})


@pytest.mark.parametrize(
    ("readings", "sentence"),
    [
        ((reading(-5, 4), reading(6)), "b ens4 lost its address 192.0.2.1 by second 6"),
        (
            (reading(-5, 4), reading(6, since=3)),
            "b ens4 lost its address 192.0.2.1 between second 3 and 6",
        ),
        (
            (reading(-5, 4), reading(6, since=5.9)),
            "b ens4 lost its address 192.0.2.1 at second 6",
        ),
        (
            (reading(-5, 4), reading(6, 1, since=5.9)),
            "b ens4 lost its address 192.0.2.1 to lo at second 6",
        ),
        (
            (reading(-5, 4), reading(4, since=4), reading(8, 4)),
            "b ens4 lost its address 192.0.2.1 at second 4, back by second 8",
        ),
    ],
)
def test_an_address_that_is_gone_is_named(
    readings: tuple[AddressReading, ...], sentence: str
) -> None:
    chosen = replace(NIC, address=ADDRESS, addresses=readings)
    (lost,) = nic_incidents({"b": host()}, {"b": chosen}, 10.0)
    assert lost.sentence == sentence


@pytest.mark.parametrize(
    "readings",
    [
        (reading(-5, 4), reading(5, 4, 1)),
        (reading(-5), reading(5)),
        (reading(-5, 4), reading(-3)),
        (reading(-5, 4), reading(11)),
        (),
    ],
    ids=["also on another NIC", "not there before", "before the run", "after it", "not read"],
)
def test_no_other_address_is_lost(readings: tuple[AddressReading, ...]) -> None:
    chosen = replace(NIC, address=ADDRESS, addresses=readings)
    assert nic_incidents({"b": host()}, {"b": chosen}, 10.0) == ()


def test_changes_of_other_times_and_links_do_not_count() -> None:
    changes = (
        change(-1, gone=True),
        change(11, gone=True),
        replace(change(3, gone=True), ifindex=5),
        change(4),
    )
    assert nic_incidents({"b": host()}, {"b": replace(NIC, changes=changes)}, 10.0) == ()


@pytest.mark.parametrize(
    ("of_a", "of_b", "sentences"),
    [
        (
            (change(5.6, carrier=False), change(9.6)),
            (change(5.4, flags=DOWN_FLAGS), change(9.4)),
            [
                "b ens4 was set down at second 5, back at second 10",
                "a ens4 lost its carrier at second 5, back at second 10",
            ],
        ),
        (
            (change(6.4, carrier=False),),
            (change(5.6, gone=True),),
            ["b ens4 disappeared at second 6", "a ens4 lost its carrier at second 6"],
        ),
        (
            (change(7.6, carrier=False),),
            (change(5.4, flags=DOWN_FLAGS),),
            ["b ens4 was set down at second 5", "a ens4 lost its carrier at second 8"],
        ),
        (
            (change(5.6, flags=DOWN_FLAGS),),
            (change(5.4, flags=DOWN_FLAGS),),
            ["b ens4 was set down at second 5", "a ens4 was set down at second 6"],
        ),
    ],
    ids=["one loss", "unplugged", "another loss", "two acts"],
)
def test_one_loss_that_both_ends_report_has_one_time(
    of_a: tuple[LinkChange, ...], of_b: tuple[LinkChange, ...], sentences: list[str]
) -> None:
    """The kernel reports a lost carrier up to 1 s later."""
    nics = {"a": replace(NIC, changes=of_a), "b": replace(NIC, changes=of_b)}
    found = nic_incidents({"a": host(), "b": host()}, nics, 12.0)
    assert [one.sentence for one in found] == sentences
