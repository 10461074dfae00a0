"""A NIC that was reset or lost its link during a run, by the kernel log of its host."""

from __future__ import annotations

from dataclasses import replace

from nictop.model.snapshot import Snapshot
from nictop.probe.records import KernelMessage
from nictop.traffic.analysis.nic_incidents import NicIncident, nic_incidents
from tests.traffic.machines import machine, nic

BEGIN = 1000.0
"""Of the run, on the clock of the host."""
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
    return nic_incidents({"b": host(*messages)}, {"b": 4}, {"b": BEGIN}, seconds)


def test_the_cause_precedes_its_consequences_of_the_same_second() -> None:
    found = incidents((BEGIN + 7.3, DOWN), (BEGIN + 7.2, RESET), (BEGIN + 7.1, HANG))
    assert [one.text for one in found] == [HANG, RESET, DOWN]
    assert found[0].sentence == (
        "b ens4 stopped sending (its transmit unit hung) at second 7 (kernel log: ixgbe 0000:01:00.0 ens4: "
        "Detected Tx Unit Hang)"
    )


def test_only_messages_of_the_run_and_of_the_chosen_nic_count() -> None:
    other = "ixgbe 0000:02:00.0 ens5: Detected Tx Unit Hang"
    assert incidents((BEGIN - 1, HANG), (BEGIN + 11, HANG), (BEGIN + 5, other)) == ()
    assert [one.second for one in incidents((BEGIN + 11, HANG), seconds=12.0)] == [11.0]


def test_hosts_without_a_chosen_nic_or_a_clock_have_none() -> None:
    snapshot = host((BEGIN + 1, HANG))
    assert nic_incidents({"b": snapshot}, {"b": 9}, {"b": BEGIN}, 10.0) == ()
    assert nic_incidents({"b": snapshot}, {"b": 4}, {}, 10.0) == ()
    assert nic_incidents({}, {"b": 4}, {"b": BEGIN}, 10.0) == ()


def test_the_text_of_a_host_is_cleaned_and_cut() -> None:
    (found,) = incidents((BEGIN + 2, HANG + "\x1b[31m" + "x" * 400))
    assert "\x1b" not in found.sentence and len(found.sentence) < 220
