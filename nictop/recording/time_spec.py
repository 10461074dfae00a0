"""A time in a recording, as typed by a user: ``14:03:20``, ``2026-11-21T14:03:20``, ``+90``,
``end``."""

from __future__ import annotations

import re
from datetime import datetime, timedelta

from nictop.recording.file.frames import RecordingError
from nictop.recording.reader import Recording
from nictop.wire.errors import sanitize

TIME_FORMS = "14:03:20, 2026-11-21T14:03:20, +90 (seconds since it began to connect) or end"
_OF_DAY = re.compile(r"(\d{1,2}):(\d{2})(?::(\d{2}))?")
_AFTER = re.compile(r"\+(\d{1,9}(?:\.\d{1,9})?)")


def resolve_time(text: str, recording: Recording) -> float:
    """The time in the recording (seconds, CLOCK_MONOTONIC of the recording machine), between its
    begin and end. Times of day are in this machine's time zone, and mean the last one in the
    recording. Raises RecordingError for an invalid text and for a time outside the
    recording."""
    if text == "end":
        return recording.end
    found = _AFTER.fullmatch(text)
    if found is not None:
        return _inside(recording.begin + float(found[1]), text, recording)
    begin, end = _edges(recording)
    time = None
    try:
        if _OF_DAY.fullmatch(text) is None:
            wall = datetime.fromisoformat(text)
        else:
            wall = _of_day(text, begin or datetime.min, end or datetime.min)
        if begin is not None:
            time = recording.at_wall(wall.timestamp())
    except (ValueError, OverflowError, OSError):
        raise RecordingError(f"invalid time {sanitize(text)!r}", f"use {TIME_FORMS}") from None
    if time is None:
        raise RecordingError(
            "this recording has no time of day: the clock of the recording machine was wrong",
            "use +90 (seconds since it began to connect) or end",
        )
    return _inside(time, text, recording)


def _of_day(text: str, begin: datetime, end: datetime) -> datetime:
    """The last such time of day in the recording, whose first and last second belong to it; else
    the first one after it began. Raises ValueError when it is not valid."""
    found = _OF_DAY.fullmatch(text)
    assert found is not None
    hour, minute, second = (int(part or 0) for part in found.groups())
    begin = begin.replace(microsecond=0)
    last = end.replace(hour=hour, minute=minute, second=second, microsecond=0)
    if last > end + timedelta(seconds=1):
        last -= timedelta(days=1)
    if last >= begin:
        return last
    first = begin.replace(hour=hour, minute=minute, second=second)
    if first < begin:
        first += timedelta(days=1)
    return first


def _inside(time: float, text: str, recording: Recording) -> float:
    """`time` limited to the recording. Up to a second before its begin and after its end is
    accepted, because users type whole seconds."""
    if not recording.begin - 1 <= time <= recording.end + 1:
        first, last = _edges(recording)
        span = f"+0 to +{recording.end - recording.begin:.0f} seconds"
        if first is not None and last is not None:
            span = f"{first.isoformat(' ', 'seconds')} to {last.isoformat(' ', 'seconds')}"
        raise RecordingError(f"{sanitize(text)} is outside the recording", f"range: {span}")
    return min(max(time, recording.begin), recording.end)


def local_text(wall: float) -> str:
    """``2026-11-21 14:03:20``; "": it is no date. `wall`: seconds since the epoch."""
    moment = _local(wall)
    return "" if moment is None else moment.isoformat(" ", "seconds")


def _edges(recording: Recording) -> tuple[datetime | None, datetime | None]:
    begin, end = recording.wall_time(recording.begin), recording.wall_time(recording.end)
    return _local(begin), _local(end)


def _local(wall: float) -> datetime | None:
    """In this machine's time zone; None: outside the years 1 to 9999 (the header of a recording may
    contain any number)."""
    try:
        return datetime.fromtimestamp(wall)
    except (ValueError, OverflowError, OSError):
        return None
