"""A moment of a recording, as a person types it: ``14:03:20``, ``2026-11-21T14:03:20``, ``+90``, ``end``."""

from __future__ import annotations

import re
from datetime import datetime, timedelta

from nictop.wire.recording import Recording
from nictop.wire.recording_format import RecordingError
from nictop.wire.sentences import plain

FORMS = "a time of day (14:03:20), a date and time (2026-11-21T14:03:20), seconds from the beginning (+90), or end"
_OF_DAY = re.compile(r"(\d{1,2}):(\d{2})(?::(\d{2}))?")
_AFTER = re.compile(r"\+(\d{1,9}(?:\.\d{1,9})?)")


def moment(text: str, recording: Recording) -> float:
    """Time in the recording, within its begin and end. Times of day are those of this machine's time zone; the first
    one after the recording began is meant. Raises RecordingError for what is no moment, or one that lies outside."""
    if text == "end":
        return recording.end
    found = _AFTER.fullmatch(text)
    begin = datetime.fromtimestamp(recording.wall(recording.begin))
    if found is not None:
        return _inside(recording.begin + float(found[1]), text, recording)
    try:
        wall = _of_day(text, begin) or datetime.fromisoformat(text)
        return _inside(recording.at_wall(wall.timestamp()), text, recording)
    except (ValueError, OverflowError, OSError):
        raise RecordingError(f"{plain(text)!r} is no moment", f"write {FORMS}") from None


def _of_day(text: str, begin: datetime) -> datetime | None:
    """The first such time of day from the second on in which the recording began; None: it is none."""
    found = _OF_DAY.fullmatch(text)
    if found is None:
        return None
    hour, minute, second = (int(part or 0) for part in found.groups())
    wall = begin.replace(hour=hour, minute=minute, second=second, microsecond=0)
    return wall if wall >= begin.replace(microsecond=0) else wall + timedelta(days=1)


def _inside(time: float, text: str, recording: Recording) -> float:
    """A second before and after counts as the begin and the end: nobody types fractions."""
    if not recording.begin - 1 <= time <= recording.end + 1:
        first, last = (
            datetime.fromtimestamp(recording.wall(edge)).isoformat(" ", "seconds")
            for edge in (recording.begin, recording.end)
        )
        raise RecordingError(f"{plain(text)} is not in the recording", f"it goes from {first} to {last}")
    return min(max(time, recording.begin), recording.end)
