"""A moment of a recording, as a person types it: ``14:03:20``, ``2026-11-21T14:03:20``, ``+90``, ``end``."""

from __future__ import annotations

import re
from datetime import datetime, timedelta

from nictop.recording.file.frames import RecordingError
from nictop.recording.reader import Recording
from nictop.wire.errors import plain

FORMS = "a time of day (14:03:20), a date and time (2026-11-21T14:03:20), seconds from the beginning (+90), or end"
_OF_DAY = re.compile(r"(\d{1,2}):(\d{2})(?::(\d{2}))?")
_AFTER = re.compile(r"\+(\d{1,9}(?:\.\d{1,9})?)")


def moment(text: str, recording: Recording) -> float:
    """Time in the recording, within its begin and end. Times of day are those of this machine's time zone; the first
    one after the recording began is meant. Raises RecordingError for what is no moment, or one that lies outside."""
    if text == "end":
        return recording.end
    found = _AFTER.fullmatch(text)
    if found is not None:
        return _inside(recording.begin + float(found[1]), text, recording)
    begin = _local(recording.wall(recording.begin))
    try:
        wall = datetime.fromisoformat(text) if _OF_DAY.fullmatch(text) is None else _of_day(text, begin or datetime.min)
        time = recording.at_wall(wall.timestamp()) if begin is not None else None
    except (ValueError, OverflowError, OSError):
        raise RecordingError(f"{plain(text)!r} is no moment", f"write {FORMS}") from None
    if time is None:
        raise RecordingError(
            "the time of day of this recording is not known: the clock of the machine that recorded was wrong",
            "write seconds from the beginning (+90), or end",
        )
    return _inside(time, text, recording)


def _of_day(text: str, begin: datetime) -> datetime:
    """The first such time of day from the second on in which the recording began. Raises ValueError: it is none."""
    found = _OF_DAY.fullmatch(text)
    assert found is not None
    hour, minute, second = (int(part or 0) for part in found.groups())
    wall = begin.replace(hour=hour, minute=minute, second=second, microsecond=0)
    return wall if wall >= begin.replace(microsecond=0) else wall + timedelta(days=1)


def _inside(time: float, text: str, recording: Recording) -> float:
    """A second before and after counts as the begin and the end: nobody types fractions."""
    if not recording.begin - 1 <= time <= recording.end + 1:
        first, last = (_local(recording.wall(edge)) for edge in (recording.begin, recording.end))
        span = f"from +0 to +{recording.end - recording.begin:.0f} seconds"
        if first is not None and last is not None:
            span = f"from {first.isoformat(' ', 'seconds')} to {last.isoformat(' ', 'seconds')}"
        raise RecordingError(f"{plain(text)} is not in the recording", f"it goes {span}")
    return min(max(time, recording.begin), recording.end)


def _local(wall: float) -> datetime | None:
    """By this machine's time zone; None: no date of the years 1 to 9999. The header of a recording may say anything."""
    try:
        return datetime.fromtimestamp(wall)
    except (ValueError, OverflowError, OSError):
        return None
