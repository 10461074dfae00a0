"""Position of the playback of a recording. Reads nothing."""

from __future__ import annotations

from nictop.model.text.units import local_time_text
from nictop.probe.light_dataclasses import dataclass


@dataclass(frozen=True)
class PlaybackPosition:
    """State of a playback at one time. Times are seconds as in `Recording`."""

    path: str
    playing: bool
    speed: float
    """Recorded seconds per second."""
    now: float
    begin: float
    end: float
    wall: float
    """Seconds since the epoch at time 0."""
    is_growing: bool
    """The file is still being written, or was truncated: it has no end mark."""
    runs: tuple[tuple[float, float], ...] = ()
    """Begin and end of each traffic run."""
    ago: float | None = None
    """Seconds before the present; None: a recording that has nothing to do with it."""

    @property
    def is_present(self) -> bool:
        """Of live hosts, now."""
        return self.ago == 0

    @property
    def at_end(self) -> bool:
        return self.now >= self.end

    @property
    def state(self) -> str:
        """``playing``, ``paused``, ``end``; ``newest`` at the end of a file that is still being
        written."""
        if not self.at_end:
            return "playing" if self.playing else "paused"
        if self.is_growing and self.playing:
            return "newest"
        return "end"


def wall_clock_text(wall: float, *, date: bool = False) -> str:
    """``14:03:20`` in the time zone of this machine; with `date` ``2026-11-21 14:03:20``. `wall`:
    seconds since the epoch; ``–`` if that is not in the years 1 to 9999, as the header of a
    recording may contain any number."""
    return local_time_text(wall, date=date)
