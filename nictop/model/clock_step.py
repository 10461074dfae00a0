"""Whether the time of day of a host jumped while it was watched. Pure."""

from __future__ import annotations

from nictop.model.parts import boot_id
from nictop.model.reboot import NOTICE_SECONDS, is_without_boot_id
from nictop.model.snapshot import Snapshot
from nictop.model.text.units import whole_seconds
from nictop.model.time_axis import both_clocks
from nictop.probe.light_dataclasses import dataclass

MIN_STEP_SECONDS = 1.0
MAX_SLEW = 0.11
"""Seconds per second: adjtimex(2) can make the time of day run that much faster or slower than
CLOCK_MONOTONIC_RAW (tick: 10 %, frequency: 500 ppm); that is no jump."""


@dataclass(frozen=True)
class ClockStep:
    """Times in seconds of the clock by which lines are received."""

    noticed: float
    seconds: float
    """Positive: forwards, compared with CLOCK_MONOTONIC of the host."""

    def text(self, now: float) -> str:
        """``time of day set back by 1 h, noticed 4 s ago``"""
        size = whole_seconds(abs(self.seconds))
        ago = whole_seconds(max(0.0, now - self.noticed))
        if self.seconds < 0:
            return f"time of day set back by {size}, noticed {ago} ago"
        return f"time of day jumped forwards by {size} (set, or suspended), noticed {ago} ago"

    def is_new(self, now: float) -> bool:
        """It is to be said without being asked for."""
        return now - self.noticed < NOTICE_SECONDS


def clock_step(before: Snapshot, after: Snapshot, now: float) -> ClockStep | None:
    """What the newest inventory or hello shows, received at `now`; None: no jump is known. While a
    machine is suspended its CLOCK_MONOTONIC stands still and its time of day does not
    (clock_gettime(2)): both look the same."""
    first, second = both_clocks(before), both_clocks(after)
    if first is None or second is None:
        return None
    if not boot_id(before) or boot_id(before) != boot_id(after):
        return None
    if after.hello is None or is_without_boot_id(after.hello):
        return None  # of an ESXi host the two clocks are not read together
    elapsed = second[0] - first[0]
    if elapsed <= 0:
        return None
    seconds = second[1] - first[1] - elapsed
    if abs(seconds) < MIN_STEP_SECONDS + MAX_SLEW * elapsed:
        return None
    return ClockStep(now, seconds)
