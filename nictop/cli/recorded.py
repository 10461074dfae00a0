"""What a recording says of its hosts at one moment, for the commands that otherwise ask the hosts themselves.

Reads the file that stands in the place of a host on the command line; what is printed of it is made as for live hosts.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from nictop.errors import NictopError

if TYPE_CHECKING:
    from nictop.hosts.observe import Answer
    from nictop.recording.reader import Recording

NOTHING_KNOWN = "nothing was known of it at this moment of the recording"


def add_moment(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--at",
        metavar="TIME",
        help="HOST is a recording (see nictop record): the moment in it, as 14:03:20, 2026-11-21T14:03:20, "
        "+SECONDS from its beginning, or end (the default)",
    )


def recording_word(options: argparse.Namespace) -> str | None:
    """The file that the command line names instead of hosts; None: it names hosts. Raises NictopError when it names
    both, or a moment of none."""
    from nictop.recording.file.open import is_recording

    words: list[str] = options.hosts
    files = [word for word in words if "/" in word or is_recording(word)]
    if options.at is not None and not words:
        raise NictopError("--at wants a recording", "nictop show FILE --at TIME")
    if options.at is None and not files:
        return None
    if len(words) > 1:
        raise NictopError("a recording stands alone", "one recording, or hosts")
    return words[0]


def recorded_answers(path: str, moment_words: str | None) -> tuple[Answer, ...]:
    """What every host of a recording had said by then. Raises NictopError."""
    from nictop.recording.reader import Recording
    from nictop.recording.time_spec import moment

    with Recording.open(path) as recording:
        at = moment(moment_words or "end", recording)
        if not recording.hosts:
            raise NictopError(f"{path}: no host was heard in this recording yet")
        return tuple(_answer(recording, name, at) for name in recording.hosts)


def _answer(recording: Recording, name: str, at: float) -> Answer:
    from nictop.hosts.observe import Unreachable
    from nictop.model.snapshot import Snapshot, advance, with_state
    from nictop.model.window import WINDOW, RatesWindow
    from nictop.probe.records import Line
    from nictop.wire.source import SourceState

    snapshot, window = Snapshot.empty(name), RatesWindow()
    reader = recording.reader(name, recording.since(name, at, WINDOW))
    while (heard := reader.next()) is not None and heard.time <= at:
        if isinstance(heard.item, SourceState):
            snapshot = with_state(snapshot, heard.item.state, heard.item.message)
        elif isinstance(heard.item, Line):
            snapshot = advance(snapshot, heard.item)
        window.take(snapshot)
    if snapshot.inventory is None:
        return Unreachable(name, snapshot.message or NOTHING_KNOWN)
    return snapshot, window
