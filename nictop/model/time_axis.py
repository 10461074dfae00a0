"""A common time axis for all watched hosts: CLOCK_MONOTONIC of this machine, and the offsets of the
others.

Reads nothing. A host's records have its own CLOCK_MONOTONIC; the offset measured by pings
(`records.Clock`) is in its snapshot. Clocks drift apart between two pings, so the uncertainty of an
estimate grows with its age.
"""

from __future__ import annotations

from nictop.model.parts import boot_id
from nictop.model.snapshot import Snapshot
from nictop.model.text import units
from nictop.probe.light_dataclasses import dataclass
from nictop.probe.records import Clock, Inventory
from nictop.probe.records.counters import MAX_CLOCK_DRIFT

MIN_LEAD_SECONDS = 0.01
"""Seconds: a host reads its two clocks one after the other, and may be interrupted between them."""


@dataclass(frozen=True)
class AxisTime:
    """A time on the common axis."""

    time: float
    """Seconds, CLOCK_MONOTONIC of the watching machine."""
    uncertainty: float
    """Seconds in both directions."""


@dataclass(frozen=True)
class LocalClock:
    """The watching machine's clocks, read together."""

    monotonic: float
    wall: float
    """Seconds since the epoch."""
    boot_id: str = ""
    """A host with the same boot ID has the same clock: this machine, or a container on it."""


def event_time_text(inventory: Inventory, time: float) -> str:
    """``2026-11-21 08:01:40 UTC``: time of day, by the clock of the host, of an event that it dates
    with CLOCK_MONOTONIC. The same at each reading, unlike an age."""
    return units.wall_time_text(_wall(inventory, time))


def short_event_time_text(inventory: Inventory, time: float) -> str:
    """At most 11 cells, UTC: ``08:01:40`` on the day of the inventory, ``11-20 08:01`` before, and
    ``2025-11-20`` in another year."""
    today = units.wall_time_text(inventory.wall)
    text = units.wall_time_text(_wall(inventory, time))
    if text[:10] == today[:10]:
        return text[11:19] or text
    if text[:4] == today[:4]:
        return text[5:16]
    return text[:10]


def _wall(inventory: Inventory, time: float) -> float:
    return inventory.wall - inventory.time + time


def clock_of(snapshot: Snapshot, here: LocalClock) -> Clock | None:
    """The newest estimate for a host; exact for this machine. None: not measured since the host's
    boot."""
    if snapshot.clock is not None:
        return snapshot.clock
    if here.boot_id and boot_id(snapshot) == here.boot_id:
        return Clock(time=here.monotonic, offset=0.0, uncertainty=0.0)
    return None


def axis_time(clock: Clock, time: float) -> AxisTime:
    """A time of the watched host (its CLOCK_MONOTONIC, seconds) on the common axis."""
    common = time - clock.offset
    if clock.offset == 0.0 and clock.uncertainty == 0.0:
        return AxisTime(common, 0.0)
    drift = MAX_CLOCK_DRIFT * abs(common - clock.time)
    return AxisTime(common, clock.uncertainty + drift)


def wall_clock_lead(snapshot: Snapshot, here: LocalClock) -> AxisTime | None:
    """Seconds by which the host's time of day is ahead of this machine's (negative: behind); None:
    not known yet.

    Its inventory and its hello each contain both clocks, read together.
    """
    clock, read = clock_of(snapshot, here), both_clocks(snapshot)
    if clock is None or read is None:
        return None
    if here.boot_id and boot_id(snapshot) == here.boot_id:
        # One kernel has one time of day, also when it was set since the host was read.
        return AxisTime(0.0, 0.0)
    at_reading = axis_time(clock, read[0])
    return AxisTime(
        read[1] - (here.wall + at_reading.time - here.monotonic), at_reading.uncertainty
    )


def both_clocks(snapshot: Snapshot) -> tuple[float, float] | None:
    """CLOCK_MONOTONIC and time of day of the host, read together, the latest known."""
    if snapshot.inventory is not None:
        return snapshot.inventory.time, snapshot.inventory.wall
    if snapshot.hello is not None:
        return snapshot.hello.monotonic, snapshot.hello.wall
    return None


def clock_text(snapshot: Snapshot, here: LocalClock) -> str:
    """Time of day of the host compared with that of this machine: ``clock offset +3.20 s ± 410
    µs``, ``clock offset 0 s ± 410 µs`` if the difference is below the uncertainty."""
    lead = wall_clock_lead(snapshot, here)
    if lead is None:
        return "clock offset not measured yet"
    if not lead.uncertainty and abs(lead.time) <= MIN_LEAD_SECONDS:
        return "clock offset 0 s (same clock)"
    uncertainty = lead.uncertainty
    if uncertainty < abs(lead.time) <= MIN_LEAD_SECONDS:
        uncertainty = MIN_LEAD_SECONDS
    offset = "0 s"
    if abs(lead.time) > uncertainty:
        sign = "+" if lead.time > 0 else "-"
        offset = sign + units.duration(abs(lead.time))
    if not uncertainty:
        return f"clock offset {offset}"
    return f"clock offset {offset} ± {units.duration(uncertainty)}"
