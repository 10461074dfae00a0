"""How slow a host is, by what it took: its time limits follow that, all in the same way.

A guest without hardware acceleration needs ten times as long as others for whatever starts a
program. A limit that is right for others ends what would have come; one that is long enough for
such a guest makes all others wait.
"""

from __future__ import annotations

import math

MAX_TIME_FACTOR = 4.0
"""Silence of 40 s then, and 60 s for the start."""
USUAL_SHARE = 0.25
"""Of a time limit: what took no more of it is usual."""


def time_factor(seconds: float, limit: float) -> float:
    """How many times as long as usual a host may take that took so many `seconds` of a `limit`; in
    tenths, as messages have the limits that follow."""
    tenths = math.ceil(round(10 * seconds / (USUAL_SHARE * limit), 6))
    return min(MAX_TIME_FACTOR, max(1.0, tenths / 10))


class Slowness:
    """Of one host; `factor` is that of the slowest thing that it did."""

    def __init__(self, factor: float = 1.0) -> None:
        self.factor = factor

    def note(self, seconds: float, limit: float) -> None:
        """It took so many `seconds` for what has this `limit`, as it is for usual hosts."""
        self.factor = max(self.factor, time_factor(seconds, limit))
