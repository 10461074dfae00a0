"""Why a host is not reached, in a few words: for a column of a table, beside the whole sentence
elsewhere.

Pure. `SourceState.message` is the sentence; the ends of its texts are those of the host or the
system.
"""

from __future__ import annotations

from nictop.model.text.terminal import clean, fit, width

BRIEF_TEXTS = (
    ("jump host cannot reach", "jump host cannot reach it"),
    ("no answer from the resolver", "no answer from DNS"),
    ("cannot resolve the host name", "not resolved"),
    ("connection refused", "refused"),
    ("connection timed out", "no answer"),
    ("no answer from", "no answer"),
    ("is unreachable", "unreachable"),
    ("SSH handshake not completed", "handshake not completed"),
    ("SSH login not completed", "login not completed"),
    ("permission denied", "permission denied"),
    ("host key of", "host key not trusted"),
    ("closed the connection", "connection closed"),
    ("no more data from", "no more data"),
    ("on the host is too old", "Python too old"),
)
"""A part of the sentence → what it says; the first one that is in it."""
MAX_CELLS = 24
"""Of other sentences; they end with whole words."""


def brief_reason(reason: str) -> str:
    """``refused`` of ``vm1: connection refused; check that sshd listens on this port``; "" of
    ""."""
    sentence = clean(reason.partition("; ")[0])
    for part, brief in BRIEF_TEXTS:
        if part in sentence:
            return brief
    return _first_words(sentence)


def _first_words(sentence: str) -> str:
    """The words that fit into `MAX_CELLS`, behind the name of the host."""
    name, colon, rest = sentence.partition(": ")
    words = (rest if colon and " " not in name else sentence).split(" ")
    shown = fit(words[0], min(width(words[0]), MAX_CELLS - 1))
    for word in words[1:]:
        if width(f"{shown} {word}…") > MAX_CELLS:
            return f"{shown}…"
        shown = f"{shown} {word}"
    return shown
