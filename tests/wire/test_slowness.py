"""Time limits of a host follow what it took, bounded, and one that is usual keeps the usual ones."""

from __future__ import annotations

import pytest

from nictop.wire.slowness import MAX_TIME_FACTOR, Slowness, time_factor


@pytest.mark.parametrize(
    ("seconds", "factor"),
    [(0.0, 1.0), (2.5, 1.0), (5.0, 2.0), (9.0, 3.6), (10.0, 4.0), (1e9, MAX_TIME_FACTOR)],
)
def test_factor_of_what_a_host_took(seconds: float, factor: float) -> None:
    assert time_factor(seconds, 10.0) == pytest.approx(factor)


def test_limits_that_follow_are_short_in_a_message() -> None:
    factor = time_factor(3.8974, 10.0)
    assert factor == 1.6 and f"{15.0 * factor:g} s" == "24 s"


def test_the_slowest_thing_counts() -> None:
    slowness = Slowness()
    slowness.note(0.1, 10.0)
    assert slowness.factor == 1.0
    slowness.note(5.0, 10.0)
    slowness.note(0.1, 10.0)
    assert slowness.factor == 2.0
