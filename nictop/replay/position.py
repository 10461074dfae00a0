"""Where the playback of a recording is, as a value. Reads nothing."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from nictop.model.text.units import UNKNOWN


@dataclass(frozen=True)
class PlaybackPosition:
    """Times are seconds as in `Recording`."""

    path: str
    playing: bool
    speed: float
    """Recorded seconds per second."""
    now: float
    begin: float
    end: float
    wall: float
    """Seconds since the epoch at time 0."""
    grows: bool
    """It is being written, or was cut: nobody has ended it."""
    runs: tuple[tuple[float, float], ...] = ()
    """Begin and end of each traffic run."""
    says: str = ""
    """What is to be known of the recording, or what is looked for in it; "": nothing."""

    @property
    def at_end(self) -> bool:
        return self.now >= self.end

    @property
    def state(self) -> str:
        """In a word or two: ``playing``, ``paused``, ``end``; ``newest`` at the end of a file that grows."""
        if self.at_end:
            return "newest" if self.grows and self.playing else "end"
        return "playing" if self.playing else "paused"


def wall_words(wall: float, *, date: bool = False) -> str:
    """``14:03:20``, by this machine's time zone; with `date` ``2026-11-21 14:03:20``. ``–``: no date of the years 1 to
    9999; the header of a recording may say anything."""
    try:
        moment = datetime.fromtimestamp(wall)
    except (ValueError, OverflowError, OSError):
        return UNKNOWN
    return moment.strftime("%Y-%m-%d %H:%M:%S" if date else "%H:%M:%S")
