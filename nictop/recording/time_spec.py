"""A time in a recording, as typed by a user: ``14:03:20``, ``2026-11-21T14:03:20``, ``+90``, ``end``."""

from __future__ import annotations

import re
from datetime import datetime, timedelta

from nictop.recording.file.frames import RecordingError
from nictop.recording.reader import Recording
from nictop.wire.errors import sanitize

TIME_FORMS = "14:03:20, 2026-11-21T14:03:20, +90 (seconds from the start) or end"
_OF_DAY = re.compile(r"(\d{1,2}):(\d{2})(?::(\d{2}))?")
_AFTER = re.compile(r"\+(\d{1,9}(?:\.\d{1,9})?)")


def resolve_time(text: str, recording: Recording) -> float:
    """The time in the recording (seconds, CLOCK_MONOTONIC of the recording machine), between its begin and end. Times
    of day are in this machine's time zone, and mean the first one after the recording began. Raises RecordingError for
    an invalid text and for a time outside the recording."""
    if text == "end":
        return recording.end
    found = _AFTER.fullmatch(text)
    if found is not None:
        return _inside(recording.begin + float(found[1]), text, recording)
    begin = _local(recording.wall_time(recording.begin))
    try:
        wall = datetime.fromisoformat(text) if _OF_DAY.fullmatch(text) is None else _of_day(text, begin or datetime.min)
        time = recording.at_wall(wall.timestamp()) if begin is not None else None
    except (ValueError, OverflowError, OSError):
        raise RecordingError(f"invalid time {sanitize(text)!r}", f"use {TIME_FORMS}") from None
    if time is None:
        raise RecordingError(
            "this recording has no time of day: the clock of the recording machine was wrong",
            "use +90 (seconds from the start) or end",
        )
    return _inside(time, text, recording)


def _of_day(text: str, begin: datetime) -> datetime:
    """The first such time of day at or after the second in which the recording began. Raises ValueError when it is not
    valid."""
    found = _OF_DAY.fullmatch(text)
    assert found is not None
    hour, minute, second = (int(part or 0) for part in found.groups())
    wall = begin.replace(hour=hour, minute=minute, second=second, microsecond=0)
    return wall if wall >= begin.replace(microsecond=0) else wall + timedelta(days=1)


def _inside(time: float, text: str, recording: Recording) -> float:
    """`time` limited to the recording. Up to a second before its begin and after its end is accepted, because users
    type whole seconds."""
    if not recording.begin - 1 <= time <= recording.end + 1:
        first, last = (_local(recording.wall_time(edge)) for edge in (recording.begin, recording.end))
        span = f"+0 to +{recording.end - recording.begin:.0f} seconds"
        if first is not None and last is not None:
            span = f"{first.isoformat(' ', 'seconds')} to {last.isoformat(' ', 'seconds')}"
        raise RecordingError(f"{sanitize(text)} is outside the recording", f"range: {span}")
    return min(max(time, recording.begin), recording.end)


def _local(wall: float) -> datetime | None:
    """In this machine's time zone; None: outside the years 1 to 9999 (the header of a recording may contain any
    number)."""
    try:
        return datetime.fromtimestamp(wall)
    except (ValueError, OverflowError, OSError):
        return None
