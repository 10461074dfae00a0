"""When to try again: ever later, and never all at the same moment."""

from __future__ import annotations

import random

SHORTEST_RETRY, LONGEST_RETRY = 0.5, 30.0
"""Seconds."""
HEALTHY = 30.0
"""Seconds of life after which the next failure counts as the first."""


def retry_delay(failures: int, shortest: float = SHORTEST_RETRY, longest: float = LONGEST_RETRY) -> float:
    """Seconds to wait after so many failures in a row (1 is the first): exponential, with jitter, so that many nictops
    on one host, and many hosts behind one broken switch, do not keep step."""
    ceiling: float = min(longest, shortest * 2.0 ** min(failures - 1, 30))
    return ceiling * random.uniform(0.75, 1.0)
