"""The window of rates: at most a minute, at most one part per second, and cleared when the numbers
change their meaning.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from nictop.model.snapshot import Snapshot, advance
from nictop.model.window import RATES_WINDOW_SECONDS, RatesWindow
from nictop.probe.records import Interrupt, Line
from tests.support.lines import counters, hello, inventory, link

NIC = link(2, "ens192")


def watched(*lines: Line) -> tuple[Snapshot, RatesWindow]:
    snapshot, window = Snapshot.empty("guest"), RatesWindow()
    for line in lines:
        snapshot = advance(snapshot, line)
        window.add(snapshot)
    return snapshot, window


def readings(interval: float, number: int, start: float = 0.0) -> list[Line]:
    """A host that sends 1000 bytes per second and receives nothing."""
    times = [start + interval * count for count in range(number)]
    return [counters(time, {2: (0, round(1000 * time))}) for time in times]


def test_a_sample_per_second_is_a_part() -> None:
    snapshot, window = watched(hello(), inventory(NIC), *readings(1.0, 4))
    assert [part.elapsed for part in window.parts] == [1.0, 1.0, 1.0]
    assert window.seconds == pytest.approx(3.0)
    assert window.parts[-1] is snapshot.rates


def test_ten_samples_per_second_are_one_part() -> None:
    _, window = watched(hello(), inventory(NIC), *readings(0.1, 31))
    assert [round(part.elapsed, 1) for part in window.parts] == [0.9, 0.9, 0.9]
    assert [part.links[2].tx_bits for part in window.parts] == pytest.approx(
        [8000, 8000, 8000], rel=0.01
    )


def test_a_sample_per_minute_is_a_part() -> None:
    _, window = watched(hello(), inventory(NIC), *readings(60.0, 3))
    assert [part.elapsed for part in window.parts] == [60.0]


def test_parts_older_than_a_minute_are_removed() -> None:
    _, window = watched(hello(), inventory(NIC), *readings(1.0, 200))
    assert len(window.parts) == RATES_WINDOW_SECONDS
    assert window.seconds == pytest.approx(RATES_WINDOW_SECONDS)


def test_the_same_counters_count_once() -> None:
    snapshot, window = watched(hello(), inventory(NIC), *readings(1.0, 2))
    window.add(snapshot)
    window.add(advance(snapshot, inventory(NIC, time=5.0)))
    assert len(window.parts) == 1


def test_a_reboot_clears_the_window() -> None:
    again = hello()
    assert again.hello is not None
    again = Line(hello=replace(again.hello, boot_id="c"))
    _, window = watched(
        hello(), inventory(NIC), *readings(1.0, 5), again, inventory(NIC), *readings(1.0, 2, 9.0)
    )
    assert len(window.parts) == 1


def test_a_restarted_probe_does_not_clear_the_window() -> None:
    _, window = watched(hello(), inventory(NIC), *readings(1.0, 3), hello(), *readings(1.0, 2, 3.0))
    assert len(window.parts) == 4


def test_numbers_with_another_meaning_clear_the_window() -> None:
    counted = replace(NIC, ethtool=replace(NIC.ethtool, driver_counter_names=("a", "b")))
    swapped = replace(NIC, ethtool=replace(NIC.ethtool, driver_counter_names=("b", "a")))
    _, window = watched(
        hello(), inventory(counted), *readings(1.0, 4), inventory(swapped, time=9.0)
    )
    assert window.parts == ()
    line = inventory(NIC)
    assert line.inventory is not None
    vectors = [
        Line(inventory=replace(line.inventory, interrupts=(Interrupt(40, (name,), None),)))
        for name in ("rx-0", "tx-0")
    ]
    _, window = watched(hello(), vectors[0], *readings(1.0, 4), vectors[1])
    assert window.parts == ()


def test_added_and_removed_links_do_not_clear_the_window() -> None:
    """A machine that starts containers all day must not lose its window each time."""
    lines = [
        *readings(1.0, 4),
        inventory(NIC, link(7, "veth0"), time=3.5),
        inventory(NIC, time=3.6),
    ]
    _, window = watched(hello(), inventory(NIC), *lines)
    assert len(window.parts) == 3


def test_the_window_of_many_numbers_is_shorter(monkeypatch: pytest.MonkeyPatch) -> None:
    """40 vectors that count on three CPUs each are 164 values per part, including the link."""
    monkeypatch.setattr("nictop.model.window.MAX_WINDOW_VALUES", 1000)
    lines = [
        Line(
            counters=replace(
                line.counters,
                interrupts={n: dict.fromkeys(range(3), 9 * second) for n in range(40)},
            )
        )
        for second, line in enumerate(readings(1.0, 30))
        if line.counters is not None
    ]
    _, window = watched(hello(), inventory(NIC), *lines)
    assert len(window.parts) == 6 and window.seconds == pytest.approx(6.0)
    assert window.parts[-1].interrupts[0] == {0: 9.0, 1: 9.0, 2: 9.0}
