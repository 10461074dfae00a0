"""Why a host is not reached, in a few words: for a column of a table, beside the whole sentence
elsewhere.

Pure. `SourceState.message` is the sentence; the ends of its texts are those of the host or the
system.
"""

from __future__ import annotations

from nictop.model.text.terminal import clean, fit, width

BRIEF_TEXTS = (
    ("jump host cannot reach", "jump host cannot reach it", "jump host"),
    ("no answer from the resolver", "no answer from DNS", "no DNS"),
    ("cannot resolve the host name", "not resolved", "no name"),
    ("connection refused", "refused", "refused"),
    ("connection timed out", "no answer", "no answer"),
    ("no answer from", "no answer", "no answer"),
    ("is unreachable", "unreachable", "no route"),
    ("SSH handshake not completed", "handshake not completed", "handshake"),
    ("SSH login not completed", "login not completed", "login"),
    ("permission denied", "permission denied", "denied"),
    ("host key of", "host key not trusted", "host key"),
    ("closed the connection", "connection closed", "closed"),
    ("no more data from", "no more data", "no data"),
    ("on the host is too old", "Python too old", "Python"),
    ("connection to", "connection lost", "lost"),
    ("connection lost", "connection lost", "lost"),
    ("ProxyCommand has ended", "ProxyCommand ended", "proxy"),
    ("refuses to run commands", "commands refused", "refused"),
    ("no data from the probe", "no data from the probe", "no data"),
    ("Python did not start", "Python did not start", "Python"),
    ("login ended before", "login ended early", "login"),
    ("login shell did not run", "login shell hangs", "shell"),
    ("was not entered", "not entered", "entry"),
    ("is not running", "not running", "stopped"),
    ("is paused", "paused", "paused"),
    ("too much data", "too much data", "too much"),
    ("too many SSH messages", "too many messages", "too much"),
    ("internal error", "internal error", "error"),
)
"""A part of the sentence → what it says, and in at most `SHORTEST_CELLS`; the first one that is in
the sentence."""
MAX_CELLS, SHORTEST_CELLS = 24, 9
"""Of other sentences; they end with whole words."""


def brief_reasons(reason: str) -> tuple[str, str]:
    """``handshake not completed`` of ``vm1: SSH handshake not completed; …``, and in fewer words:
    ``handshake``; "" of ""."""
    sentence = clean(reason.partition("; ")[0])
    for part, brief, shortest in BRIEF_TEXTS:
        if part in sentence:
            return brief, shortest
    return _first_words(sentence, MAX_CELLS), _first_words(sentence, SHORTEST_CELLS)


def _first_words(sentence: str, cells: int) -> str:
    """The words that fit into `cells`, behind the name of the host."""
    name, colon, rest = sentence.partition(": ")
    words = (rest if colon and " " not in name else sentence).split(" ")
    shown = fit(words[0], min(width(words[0]), cells - 1))
    if shown != words[0]:
        return shown
    for word in words[1:]:
        if width(f"{shown} {word}…") > cells:
            return f"{shown}…"
        shown = f"{shown} {word}"
    return shown
