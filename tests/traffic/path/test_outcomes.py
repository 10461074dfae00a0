"""What the answers to the packets of a path test mean."""

from __future__ import annotations

import pytest

from nictop.probe.records import IcmpError, PathReplies, PathTest
from nictop.traffic.path.outcomes import Outcome, outcome_of, percentile, round_trips

FOUR, SIX = "192.0.2.1", "fd00::1"


def one(
    *errors: IcmpError, error: str = "", rtts: tuple[float, ...] = (), source: str = FOUR
) -> PathTest:
    return PathTest("192.0.2.2", source, replies=(PathReplies("udp", "", 5, rtts, errors, error),))


@pytest.mark.parametrize(
    ("test", "expected"),
    [
        (one(rtts=(0.1,)), Outcome("answered")),
        (one(IcmpError(3, 3, "192.0.2.2"), rtts=(0.1,)), Outcome("answered")),
        (one(), Outcome("silent")),
        (one(error="ETIMEDOUT"), Outcome("silent")),
        (one(IcmpError(3, 3, "192.0.2.2")), Outcome("refused", "192.0.2.2", "ICMP port "
                                                                            "unreachable")),
        (one(IcmpError(3, 13, "10.0.0.1")), Outcome("prohibited", "10.0.0.1", "ICMP "
                                                                              "administratively "
                                                                              "prohibited")),
        (one(IcmpError(3, 10, "10.0.0.1")), Outcome("prohibited", "10.0.0.1", "ICMP host "
                                                                              "prohibited")),
        (one(IcmpError(3, 1, "10.0.0.1")), Outcome("unreachable", "10.0.0.1", "ICMP host "
                                                                              "unreachable")),
        (one(IcmpError(3, 1, FOUR)), Outcome("no_neighbour", FOUR, "ICMP host unreachable")),
        (one(IcmpError(11, 0, "10.0.0.1")), Outcome("expired", "10.0.0.1", "ICMP time exceeded")),
        (one(IcmpError(3, 14, "10.0.0.1")), Outcome("unreachable", "10.0.0.1", "ICMP type 3 code "
                                                                               "14")),
        (one(IcmpError(4, 0, "10.0.0.1")), Outcome("silent")),
        (one(IcmpError(1, 5, "fd00::9"), source=SIX), Outcome("prohibited", "fd00::9", "ICMP "
                                                                                       "failed "
                                                                                       "policy")),
        (one(IcmpError(1, 4, "fd00::2"), source=SIX), Outcome("refused", "fd00::2", "ICMP port "
                                                                                    "unreachable")),
        (one(IcmpError(1, 3, SIX), source=SIX), Outcome("no_neighbour", SIX, "ICMP address "
                                                                             "unreachable")),
        (one(error="EPERM"), Outcome("blocked", "", "EPERM")),
        (one(error="ENETUNREACH"), Outcome("no_route", "", "ENETUNREACH")),
        (one(error="ENOBUFS"), Outcome("failed", "", "ENOBUFS")),
    ],
)  # fmt: skip
def test_outcome(test: PathTest, expected: Outcome) -> None:
    assert outcome_of(test, "udp") == expected
    assert outcome_of(test, "icmp") == Outcome("not_tested")


def test_reset_connection() -> None:
    """The other probe listens, so a reset comes from a firewall."""
    test = PathTest("192.0.2.2", FOUR, replies=(PathReplies("tcp", "", 1, error="ECONNREFUSED"),))
    assert outcome_of(test, "tcp") == Outcome("refused", "", "TCP reset")


def test_round_trip_times() -> None:
    replies = PathReplies("icmp", "raw", 100, tuple(number / 1000 for number in range(100, 0, -1)))
    found = round_trips(replies)
    assert found is not None and (found.minimum, found.median, found.p99) == (0.001, 0.0505, 0.099)
    assert round_trips(PathReplies("icmp")) is None
    assert percentile([3.0], 0.99) == 3.0
    with pytest.raises(ValueError, match="no values"):
        percentile([], 0.5)
