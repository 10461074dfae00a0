"""What nictop says when it cannot do what was asked: one tree, caught once by the command line."""

from __future__ import annotations


class NictopError(Exception):
    """A sentence for the user, and what to do next."""

    exit_code = 2

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class HostUnreachable(NictopError):
    """A host gave no answer, or stopped giving one."""

    exit_code = 3
