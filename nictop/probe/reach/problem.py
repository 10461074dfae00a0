"""Why a guest is not reached, in a sentence."""

from __future__ import annotations

NEVER_STATUS, LATER_STATUS, WITHOUT_LIBVIRT_STATUS = 91, 92, 93
"""Exit status if another attempt would fail in the same way, if it may succeed, and if it may do so
when one of `LIBVIRT_SOCKETS` is there."""
LIBVIRT_SOCKETS = ("/run/libvirt/virtqemud-sock", "/run/libvirt/libvirt-sock")
"""Of the daemon of libvirt for QEMU, and of the one for all (libvirt.org/daemons.html)."""
WINDOWS_GUEST = "a Windows guest"
"""Begins the sentence about one: there is nothing to be reached by another way."""
STANDING_GUEST = "the guest does not run"
"""Begins the sentence about one that is paused or has crashed: nothing answers in it."""
SENTENCE = "nictop: "
"""Before a sentence on stderr."""


class GuestProblem(Exception):
    """A sentence for the user. `status`: the exit status."""

    def __init__(self, sentence: str, status: int = NEVER_STATUS) -> None:
        super().__init__(sentence)
        self.status = status
