"""Interrupts, softirqs, softnet and threads per second: joined by id, divided by the elapsed time,
without spikes."""

from __future__ import annotations

from dataclasses import replace

import pytest

from nictop.model.rates.links import Rates, rates
from nictop.model.rates.load import MachineInterruptRate, counter_step
from nictop.probe.records import SOFTNET_COUNTERS, Counters, Interrupt, MachineInterrupt
from tests.model.hosts import HELLO, counters, inventory, snapshot_of

CPU = (0,) * 10


def between(before: Counters, after: Counters) -> Rates:
    result = rates(before, after, 100)
    assert result is not None
    return result


def interrupt_rates(
    old: dict[int, int], new: dict[int, int], elapsed: float = 1.0
) -> dict[int, float] | None:
    before = counters(10.0, interrupts={41: old})
    return between(before, counters(10.0 + elapsed, interrupts={41: new})).interrupts.get(41)


def test_interrupt_rates_use_the_elapsed_time() -> None:
    """A known wrong result: the difference shown as a rate whatever the elapsed time."""
    assert interrupt_rates({0: 5, 2: 1000}, {0: 5, 2: 1500, 3: 10}, elapsed=0.25) == {
        2: 2000.0,
        3: 40.0,
    }
    assert interrupt_rates({0: 5, 2: 1000}, {0: 5, 2: 1500, 3: 10}, elapsed=5.0) == {
        2: 100.0,
        3: 2.0,
    }


def test_an_idle_interrupt_has_no_cpus() -> None:
    assert interrupt_rates({0: 5}, {0: 5}) == {}


@pytest.mark.parametrize(
    ("old", "new"), [({0: 500}, {0: 3}), ({0: 500, 1: 5}, {0: 900, 1: 4}), ({0: 500}, {1: 2})]
)
def test_a_reset_interrupt_is_absent(old: dict[int, int], new: dict[int, int]) -> None:
    """``ethtool -L`` frees the vectors; the counts of the new ones begin at 0 on all CPUs."""
    assert interrupt_rates(old, new) is None


def test_a_32_bit_counter_wraps() -> None:
    assert interrupt_rates({0: (1 << 32) - 100}, {0: 50}) == {0: 150.0}
    assert counter_step((1 << 32) - 1, 1 << 31) is None
    assert counter_step(1 << 40, 5) is None


def test_an_interrupt_of_one_record_only_is_absent() -> None:
    before, after = counters(1.0, interrupts={1: {0: 5}}), counters(2.0, interrupts={2: {0: 5}})
    assert between(before, after).interrupts == {}


def test_cpus_that_went_online_or_offline_do_not_count() -> None:
    """Its counts since boot are not those of one interval; the other CPUs have a rate."""
    before = counters(1.0, cpus={0: CPU}, interrupts={41: {0: 5}})
    after = counters(2.0, cpus={0: CPU, 7: CPU}, interrupts={41: {0: 8, 7: 90_000}})
    assert between(before, after).interrupts[41] == {0: 3.0}
    assert between(replace(after, time=1.0), replace(before, time=2.0)).interrupts.get(41) is None
    gone = counters(2.0, cpus={0: CPU}, interrupts={41: {0: 9}})
    assert between(replace(after, time=1.0), gone).interrupts[41] == {0: 1.0}


def test_softirqs_join_by_cpu_id() -> None:
    before = counters(1.0, softirqs={0: (10, 100), 5: (0, 7)})
    after = counters(3.0, softirqs={0: (10, 300), 5: (4, 7), 9: (1, 1)})
    found = between(before, after).softirqs
    assert {cpu: (one.net_tx, one.net_rx) for cpu, one in found.items()} == {
        0: (0.0, 100.0),
        5: (2.0, 0.0),
    }


def test_softnet_columns() -> None:
    """Known wrong results: time_squeeze read from the second column, RPS and flow limit from the
    fourth and fifth."""
    assert SOFTNET_COUNTERS == (
        "processed",
        "dropped",
        "time_squeeze",
        "received_rps",
        "flow_limit_count",
    )
    found = between(
        counters(1.0, softnet={3: (100, 1, 2, 3, 4)}),
        counters(2.0, softnet={3: (200, 11, 22, 33, 44)}),
    )
    one = found.softnet[3]
    assert (one.processed, one.dropped, one.time_squeeze, one.received_rps, one.flow_limit) == (
        100,
        10,
        20,
        30,
        40,
    )


def test_missing_and_reset_softnet_columns_are_none() -> None:
    one = between(
        counters(1.0, softnet={0: (100, 9, 2)}), counters(2.0, softnet={0: (150, 3, 2)})
    ).softnet[0]
    assert (one.processed, one.dropped, one.time_squeeze, one.received_rps, one.flow_limit) == (
        50,
        None,
        0,
        None,
        None,
    )


def test_thread_shares() -> None:
    found = between(
        counters(1.0, threads={7: (100, 50, 0), 8: (0, 900, 1), 9: (0, 0, 1)}),
        counters(
            3.0, threads={7: (150, 150, 3), 8: (0, 100, 1), 9: (0, 100_000, 1), 10: (1, 1, 1)}
        ),
    ).threads
    assert found.keys() == {7}, (
        "8 ran backwards, 9 used more than there was, 10 is new: other threads"
    )
    assert (found[7].user, found[7].system, found[7].cpu, found[7].total) == (0.25, 0.5, 3, 0.75)


@pytest.mark.parametrize("clock_ticks", [0, -1, -(2**63)])
def test_a_host_that_reports_no_clock_tick_has_no_thread_shares(clock_ticks: int) -> None:
    """USER_HZ is reported by the host; without it there are no thread shares, but all other
    rates."""
    found = rates(
        counters(1.0, {4: (0, 0)}, threads={7: (0, 0, 0)}),
        counters(2.0, {4: (10, 10)}, threads={7: (0, 1, 0)}),
        clock_ticks,
    )
    assert found is not None and found.threads == {} and found.links.keys() == {4}


def test_vmbus_channels() -> None:
    before = counters(1.0, channels={6: {14: (10, 20, None), 21: (5, 5, 5)}})
    after = counters(2.0, channels={6: {14: (110, 30, None), 22: (5, 5, 5)}})
    found = between(before, after).channels[6]
    assert found.keys() == {14}
    assert (found[14].interrupts, found[14].events, found[14].out_full) == (100.0, 10.0, None)


def test_all_lines_of_proc_interrupts() -> None:
    def line(label: str, description: str, counts: dict[int, int]) -> MachineInterrupt:
        return MachineInterrupt(label, description, counts)

    before = counters(
        1.0, machine=(line("24", "a", {0: 5}), line("25", "b", {0: 5}), line("ERR", "", {-1: 1}))
    )
    after = counters(
        3.0,
        machine=(line("LOC", "timer", {0: 9}), line("ERR", "", {-1: 3}), line("24", "a", {0: 5,
            1: 8}),
                 line("25", "other", {0: 50})),
    )  # fmt: skip
    assert between(before, after).machine == (
        MachineInterruptRate("ERR", "", 1.0, {-1: 1.0}),
        MachineInterruptRate("24", "a", 4.0, {1: 4.0}),
    )
    assert between(replace(before, machine=None), after).machine == ()
    assert between(before, replace(after, machine=None)).machine == ()


# ----------------------------------------------------------------------------------------- snapshot


def test_counts_of_a_reassigned_interrupt_number_are_removed() -> None:
    """After ``ethtool -L`` number 42 is another vector with a higher count: only its name shows
    it."""
    old = replace(
        inventory(),
        interrupts=(Interrupt(41, ("a-TxRx-0",), "x"), Interrupt(42, ("a-TxRx-1",), "x")),
    )
    new = replace(
        inventory(102.5),
        interrupts=(Interrupt(41, ("a-TxRx-0",), "x"), Interrupt(42, ("b-TxRx-0",), "y")),
    )
    first = counters(101.0, interrupts={41: {0: 1}, 42: {0: 1}})
    second = counters(102.0, interrupts={41: {0: 2}, 42: {0: 2}})
    third = counters(103.0, interrupts={41: {0: 3}, 42: {0: 9_000_000}})
    snapshot = snapshot_of(HELLO, old, first, second, new)
    assert snapshot.rates is not None
    assert snapshot.rates.interrupts == {41: {0: 1.0}}
    snapshot = snapshot_of(HELLO, old, first, second, new, third)
    assert snapshot.rates is not None
    assert snapshot.rates.interrupts == {41: {0: 1.0}}
    same = snapshot_of(HELLO, old, first, second, replace(old, time=102.5), third)
    assert same.rates is not None
    assert same.rates.interrupts.keys() == {41, 42}
