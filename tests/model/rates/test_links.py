"""Rates are exact or absent: wraps are handled, resets are gaps, and there are no spikes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nictop.model.rates.links import CpuShares, LinkRates, QueueRates, Rates, rates
from nictop.probe.records import LINK_COUNTERS, Counters
from tests.model.hosts import counters, link_counters

FIELDS = tuple(LinkRates.__dataclass_fields__)
EVENTS = {
    "rx_errors": "rx_errors",
    "tx_errors": "tx_errors",
    "rx_dropped": "rx_dropped",
    "tx_dropped": "tx_dropped",
    "rx_missed_errors": "rx_missed",
}
"""Counter → its rate."""
SHARES = ("user", "system", "irq", "softirq", "steal", "guest", "idle", "iowait")


def between(before: Counters, after: Counters) -> Rates:
    result = rates(before, after, 100)
    assert result is not None
    return result


def link_rates(old: dict[str, int], new: dict[str, int], elapsed: float = 1.0) -> LinkRates:
    before = counters(10.0, {4: link_counters(**old)})
    return between(before, counters(10.0 + elapsed, {4: link_counters(**new)})).links[4]


def test_rates_use_the_elapsed_time() -> None:
    old = {
        "rx_packets": 10,
        "rx_bytes": 1000,
        "tx_packets": 1,
        "tx_bytes": 60,
        "rx_errors": 1,
        "rx_missed_errors": 2,
    }
    new = {
        "rx_packets": 110,
        "rx_bytes": 151_000,
        "tx_packets": 1,
        "tx_bytes": 60,
        "rx_errors": 6,
        "rx_missed_errors": 12,
    }
    found = link_rates(old, new, elapsed=2.5)
    assert (found.rx_packets, found.rx_bits) == (40.0, 480_000.0)
    assert (found.tx_packets, found.tx_bits) == (0.0, 0.0)
    assert (
        found.rx_errors,
        found.rx_missed,
        found.rx_dropped,
        found.tx_errors,
        found.tx_dropped,
    ) == (2, 4, 0, 0, 0)


@pytest.mark.parametrize("elapsed", [0.0, 0.0009, -1.0, float("nan")])
def test_no_rate_without_time(elapsed: float) -> None:
    assert rates(counters(10.0), counters(10.0 + elapsed), 100) is None


@pytest.mark.parametrize("bits", [32, 64])
def test_byte_counter_wraps(bits: int) -> None:
    top = 1 << bits
    found = link_rates(
        {"rx_packets": 5_000_000, "rx_bytes": top - 1_000_000},
        {"rx_packets": 5_002_000, "rx_bytes": 2_000_000},
    )
    assert found.rx_bits == 8 * 3_000_000
    assert found.rx_packets == 2000


def test_packet_counter_wraps() -> None:
    found = link_rates(
        {"tx_packets": (1 << 32) - 500, "tx_bytes": 6_000_000_000_000},
        {"tx_packets": 500, "tx_bytes": 6_000_001_500_000},
    )
    assert (found.tx_packets, found.tx_bits) == (1000, 8 * 1_500_000)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        # driver reload: all counters are reset
        ({"rx_packets": 776_000, "rx_bytes": 1_176_000_000}, {"rx_packets": 10, "rx_bytes": 1000}),
        # the bytes could have wrapped at 2^32, but the packets are not consistent with that
        (
            {"rx_packets": 3_000_000, "rx_bytes": (1 << 32) - 9},
            {"rx_packets": 3_000_001, "rx_bytes": 900_000_000},
        ),
        # the packet counter increased, the bytes were in the middle of their range: no wrap
        ({"rx_packets": 10, "rx_bytes": 2_000_000_000}, {"rx_packets": 20, "rx_bytes": 500}),
        # both wrapped at once: nothing confirms it
        (
            {"rx_packets": (1 << 32) - 1, "rx_bytes": (1 << 32) - 1},
            {"rx_packets": 5, "rx_bytes": 500},
        ),
        # a step backwards in unsigned arithmetic
        ({"rx_packets": 5, "rx_bytes": 500}, {"rx_packets": 5, "rx_bytes": (1 << 64) - 3}),
    ],
)
def test_reset_gives_no_rates(old: dict[str, int], new: dict[str, int]) -> None:
    """A reset affects all counters: tx exceeds its old value again, and its difference would be
    wrong."""
    found = link_rates(
        {**old, "tx_packets": 5, "tx_bytes": 500}, {**new, "tx_packets": 50, "tx_bytes": 5000}
    )
    assert [getattr(found, name) for name in FIELDS] == [None] * len(FIELDS)


def test_a_decreasing_error_counter_does_not_affect_the_others() -> None:
    old = {"rx_packets": 10, "rx_bytes": 1000, "rx_dropped": 7}
    found = link_rates(old, {"rx_packets": 20, "rx_bytes": 2000, "rx_dropped": 5})
    assert found.rx_dropped is None
    assert found.rx_bits == 8000


def test_error_counter_wraps() -> None:
    old = {"rx_packets": 10, "rx_bytes": 1000, "rx_errors": (1 << 32) - 3}
    assert link_rates(old, {"rx_packets": 20, "rx_bytes": 2000, "rx_errors": 4}).rx_errors == 7
    assert (
        link_rates(old, {"rx_packets": 20, "rx_bytes": 2000, "rx_errors": 900_000_000}).rx_errors
        is None
    )


@given(st.lists(st.integers(0, 2), min_size=10, max_size=10))
def test_events_are_rated_one_by_one(values: list[int]) -> None:
    """Whether none of them has happened, some, or all; and whatever is behind them."""
    old, new = (dict(zip(EVENTS, part, strict=True)) for part in (values[:5], values[5:]))
    moved = {"rx_packets": 20, "rx_bytes": 2000}
    before = counters(1.0, {4: link_counters(**old)})
    found = between(before, counters(3.0, {4: link_counters(**new, **moved)})).links[4]
    for name, field in EVENTS.items():
        step = new[name] - old[name]
        assert getattr(found, field) == (step / 2 if step >= 0 else None)


def test_older_kernels_send_fewer_columns() -> None:
    short = LINK_COUNTERS.index("rx_missed_errors")
    before = counters(1.0, {4: link_counters(rx_bytes=0)[:short]})
    after = counters(2.0, {4: link_counters(rx_bytes=1000, rx_packets=10, rx_errors=3)})
    found = between(before, after).links[4]
    assert (found.rx_bits, found.rx_errors, found.rx_missed) == (8000, 3, None)
    empty = between(counters(1.0, {4: ()}), after).links[4]
    assert [getattr(empty, name) for name in FIELDS] == [None] * len(FIELDS)


def test_links_that_come_and_go_have_no_rate() -> None:
    some = link_counters(rx_bytes=1)
    found = between(counters(1.0, {1: some, 2: some}), counters(2.0, {2: some, 3: some}))
    assert set(found.links) == {2}


counter = st.integers(min_value=0, max_value=(1 << 64) - 1)


@given(
    st.lists(counter, min_size=0, max_size=len(LINK_COUNTERS)),
    st.lists(counter, min_size=0, max_size=len(LINK_COUNTERS)),
    st.floats(min_value=0.002, max_value=1000),
)
def test_any_pair_of_records(old: list[int], new: list[int], elapsed: float) -> None:
    before, after = counters(5.0, {4: tuple(old)}), counters(5.0 + elapsed, {4: tuple(new)})
    found = between(before, after).links[4]
    for name in FIELDS:
        value = getattr(found, name)
        assert value is None or value >= 0


@given(
    bits=st.sampled_from([32, 64]),
    start=st.integers(min_value=0),
    packets=st.integers(min_value=0, max_value=10_000),
    size=st.integers(min_value=60, max_value=9000),
    seconds=st.sampled_from([0.1, 1.0, 60.0]),
)
def test_a_rate_is_exact_or_absent(
    bits: int, start: int, packets: int, size: int, seconds: float
) -> None:
    """Whatever the width and value of the counter: the true step, or none; never another number."""
    top = 1 << bits
    old, moved = start % top, packets * size
    found = link_rates(
        {"rx_packets": 7, "rx_bytes": old},
        {"rx_packets": 7 + packets, "rx_bytes": (old + moved) % top},
        elapsed=seconds,
    )
    if found.rx_bits is None:
        assert old + moved >= top
    else:
        assert found.rx_bits == pytest.approx(moved * 8 / seconds, rel=1e-6)
    if top - old < top // 4:
        assert found.rx_bits is not None


@given(
    old=st.integers(min_value=1, max_value=1 << 40),
    grown=st.integers(min_value=0, max_value=1 << 40),
)
def test_a_reset_is_never_a_spike(old: int, grown: int) -> None:
    """After a reset the counters have what was counted since; a rate may exist only where they
    exceed the old values."""
    found = link_rates(
        {"rx_packets": old, "rx_bytes": old * 1000},
        {"rx_packets": grown, "rx_bytes": grown * 1000},
        elapsed=1.0,
    )
    if grown < old:
        assert found.rx_bits is None
    else:
        assert found.rx_bits == (grown - old) * 8000


# --------------------------------------------------------------------------------------------- CPUs


def shares(old: tuple[int, ...], new: tuple[int, ...], elapsed: float = 1.0) -> CpuShares | None:
    before, after = counters(1.0, cpus={0: old}), counters(1.0 + elapsed, cpus={0: new})
    return between(before, after).cpus.get(0)


def test_cpu_shares() -> None:
    old = (100, 10, 50, 800, 5, 1, 30, 14, 20, 2)
    new = (130, 20, 60, 820, 10, 2, 44, 24, 40, 5)
    found = shares(old, new)
    assert found is not None
    # user 30 + nice 10 - guest 20 - guest_nice 3 = 17; system 10, idle 20, iowait 5, irq 1, softirq
    # 14, steal 10
    assert [round(getattr(found, name) * 100) for name in SHARES] == [17, 10, 1, 14, 10, 23, 20, 5]
    assert found.busy == pytest.approx(0.75)


def test_idle_may_decrease() -> None:
    found = shares((0, 0, 0, 1000, 50, 0, 0, 0, 0, 0), (50, 0, 50, 990, 40, 0, 0, 0, 0, 0))
    assert found is not None
    assert (found.user, found.system, found.idle, found.iowait, found.busy) == (
        0.5,
        0.5,
        0.0,
        0.0,
        1.0,
    )


def test_old_kernels_have_fewer_columns() -> None:
    found = shares((10, 0, 10, 80), (20, 0, 20, 160))
    assert found is not None
    assert (found.user, found.system, found.idle, found.steal, found.guest) == (
        0.1,
        0.1,
        0.8,
        0.0,
        0.0,
    )


def test_no_shares_without_ticks() -> None:
    assert shares((10, 0, 10, 80, 0, 0, 0, 0, 0, 0), (10, 0, 10, 80, 0, 0, 0, 0, 0, 0)) is None
    assert shares((), ()) is None


def test_cpu_that_was_offline_has_no_shares() -> None:
    """A kernel that did not count while the CPU was offline reports all of that time at once."""
    assert shares((0,) * 10, (5000, 0, 0, 90_000, 0, 0, 0, 0, 0, 0)) is None


def test_cpus_that_go_online_or_offline() -> None:
    some, more = (1, 0, 1, 1, 0, 0, 0, 0, 0, 0), (2, 0, 2, 50, 0, 0, 0, 0, 0, 0)
    found = between(counters(1.0, cpus={0: some, 1: some}), counters(2.0, cpus={0: more, 2: more}))
    assert set(found.cpus) == {0}


ticks = st.lists(st.integers(min_value=0, max_value=1 << 40), min_size=0, max_size=12)


@given(ticks, ticks)
def test_shares_add_up_to_1(old: list[int], new: list[int]) -> None:
    found = shares(tuple(old), tuple(new), elapsed=1e12)
    if found is None:
        return
    values = [getattr(found, name) for name in SHARES]
    assert all(0 <= value <= 1 for value in values)
    assert sum(values) == pytest.approx(1)
    assert 0 <= found.busy <= 1


# ------------------------------------------------------------------------------ driver, queues, VFs


def test_driver_counters() -> None:
    found = between(
        counters(1.0, driver={4: (10, 500, 7), 5: (1, 2)}),
        counters(3.0, driver={4: (30, 400, 7), 5: (1, 2, 3), 6: (1,)}),
    )
    assert found.driver == {4: (10.0, None, 0.0)}


def test_queues_are_joined_by_number_not_by_position() -> None:
    old = (
        ("rx", 0, (10, 1000, None, None, 1, None)),
        ("rx", 1, (20, 2000, None, None, None, None)),
    )
    new = (
        ("rx", 1, (40, 4000, None, None, None, None)),
        ("rx", 0, (10, 1000, None, None, 5, None)),
        ("tx", 0, (None, None, 9, 9, None, None)),
    )
    found = between(counters(1.0, queues={4: old}), counters(2.0, queues={4: new})).queues[4]
    assert [(q.direction, q.queue, q.packets, q.bits, q.drops) for q in found] == [
        ("rx", 1, 20, 16_000, None),
        ("rx", 0, 0, 0, 4),
    ]
    assert isinstance(found[0], QueueRates)


def test_virtual_functions() -> None:
    old = {4: {0: (10, 20, 1000, 2000, 0, 0, 1, 0), 1: (5,) * 8}}
    new = {4: {0: (110, 220, 151_000, 302_000, 0, 0, 4, 0), 2: (5,) * 8}, 9: {0: (1,) * 8}}
    found = between(counters(1.0, vfs=old), counters(2.0, vfs=new)).vfs
    assert set(found) == {4}
    assert set(found[4]) == {0}
    vf = found[4][0]
    assert (vf.rx_packets, vf.tx_packets, vf.rx_bits, vf.tx_bits) == (
        100,
        200,
        1_200_000,
        2_400_000,
    )
    assert (vf.rx_dropped, vf.tx_dropped) == (3, 0)
