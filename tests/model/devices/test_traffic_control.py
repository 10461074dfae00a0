"""Queueing disciplines in the syntax of tc, and whether they impair traffic."""

from __future__ import annotations

import pytest

from nictop.model.devices.traffic_control import effect_text, impairs, qdisc_text
from nictop.probe.records import Qdisc


@pytest.mark.parametrize(
    ("qdisc", "text", "effect"),
    [
        (
            Qdisc("netem", "1:", delay=0.02, jitter=0.0005, loss=0.01, rate=10_000_000),
            "netem delay 20ms 500us loss 1% rate 10Mbit",
            "delays and drops packets",
        ),
        (Qdisc("netem", "1:", loss=None), "netem loss state", "drops packets"),
        (
            Qdisc("netem", "1:", delay=1.5, duplicate=0.001, corrupt=0.5, reorder=0.25),
            "netem delay 1.5s duplicate 0.1% corrupt 50% reorder 25%",
            "delays, duplicates, reorders and corrupts packets",
        ),
        (Qdisc("netem", "1:", rate=800), "netem rate 800bit", "sends at most 800 b/s"),
        (Qdisc("tbf", "1:", rate=2_500_000_000), "tbf rate 2.5Gbit", "sends at most 2.50 Gb/s"),
        (
            Qdisc("fq", "1:", rate=64_000, per_flow=True),
            "fq maxrate 64Kbit",
            "each connection sends at most 64.0 kb/s",
        ),
    ],
)
def test_qdisc_and_effect_text(qdisc: Qdisc, text: str, effect: str) -> None:
    assert (qdisc_text(qdisc), effect_text(qdisc)) == (text, effect)


def test_a_limit_above_the_link_speed_does_not_impair() -> None:
    limit = Qdisc("tbf", "1:", rate=1_000_000_000)
    assert [impairs(limit, speed) for speed in (None, 10_000, 1000, 100)] == [
        True,
        True,
        False,
        False,
    ]
    assert impairs(Qdisc("netem", "1:", delay=0.001, rate=1_000_000_000), 100)
