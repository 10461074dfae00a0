"""What nictop notes in a recording about a traffic test that it makes: the lines of its generators
do not contain it.

Stored as an entry of kind "request": an older nictop reads it as a request without content, and
ignores it.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from nictop.probe.light_dataclasses import dataclass

RunNoteKind = Literal["plan", "server", "stage", "result", "ended"]
MARKED_NOTES: tuple[RunNoteKind, ...] = ("plan", "server", "result", "ended")
"""Kinds that are marks in the index."""


@dataclass(frozen=True)
class RunNote:
    """One note. `nictop.traffic.run_notes` writes and reads the texts."""

    run: str
    """Identity of the test; the ids of its generators begin with it."""
    kind: RunNoteKind
    """plan: it begins, noted at the client; server: the same, at the server; stage: what it does
    now; result: its result; ended: it has none."""
    text: str = ""
    """The plan or the result as JSON, else a sentence."""
    began: float | None = None
    """plan: when its hosts began to be checked, before its plan was known (seconds, CLOCK_MONOTONIC
    of the recording machine); None: with this note."""


class _NoteEntry(msgspec.Struct):
    run_note: RunNote


_ENTRY_BEGIN = b'{"run_note":'
_decoder = msgspec.json.Decoder(_NoteEntry)


def encode_run_note(note: RunNote) -> bytes:
    """The text of its entry. Raises ValueError for text that cannot be encoded."""
    return msgspec.json.encode(_NoteEntry(note))


def decode_run_note(text: bytes) -> RunNote | None:
    """None: the entry is a request. Raises msgspec.DecodeError."""
    return _decoder.decode(text).run_note if text.startswith(_ENTRY_BEGIN) else None
