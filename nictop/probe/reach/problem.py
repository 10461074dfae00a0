"""Why a guest is not reached, in a sentence."""

from __future__ import annotations

import os

NEVER_STATUS, LATER_STATUS, WITHOUT_LIBVIRT_STATUS = 91, 92, 93
"""Exit status if another attempt would fail in the same way, if it may succeed, and if it may do so
when one of `LIBVIRT_SOCKETS` is there."""
LIBVIRT_SOCKETS = ("/run/libvirt/virtqemud-sock", "/run/libvirt/libvirt-sock")
"""Of the daemon of libvirt for QEMU, and of the one for all (libvirt.org/daemons.html)."""
WINDOWS_GUEST = "a Windows guest"
"""Begins the sentence about one: there is nothing to be reached by another way."""
STANDING_GUEST = "the guest does not run"
"""Begins the sentence about one that is paused or has crashed: nothing answers in it."""
SENTENCE = "nictop-{}: "
"""Before a sentence on stderr, with the mark of this start: what a guest or container prints cannot
have it."""
MARK = "none"
"""Set by `wire.guests.programs`."""
IN_GUEST = "guest"
"""Mark of the relay, whose sentences are those of the guest in which it runs."""
MAX_SENTENCE_CHARS = 2000


class GuestProblem(Exception):
    """A sentence for the user. `status`: the exit status."""

    def __init__(self, sentence: str, status: int = NEVER_STATUS) -> None:
        super().__init__(sentence)
        self.status = status


def say(sentence: str) -> None:
    """Print it on a line of its own: whatever a name or an answer in it contains."""
    line = one_line(sentence, MAX_SENTENCE_CHARS)
    os.write(2, f"\n{SENTENCE.format(MARK)}{line}\n".encode("utf-8", "replace"))


def one_line(text: str, limit: int) -> str:
    """Its printable characters, bounded."""
    shown = (char if char.isprintable() else " " for char in text[:limit])
    return "".join(shown).strip()
