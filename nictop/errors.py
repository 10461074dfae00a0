"""The exceptions of nictop: one tree, caught in one place by the command line."""

from __future__ import annotations


class NictopError(Exception):
    """`message`: one sentence for the user. `hint`: what to do next."""

    exit_code = 2

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    @property
    def with_hint(self) -> str:
        return f"{self.message}; {self.hint}" if self.hint else self.message


class NetworkFault(NictopError):
    """What was asked for is valid, and a fault in the network of the hosts prevents it: as a test
    that failed."""

    exit_code = 4


class HostUnreachable(NictopError):
    """A host did not answer, or stopped answering."""

    exit_code = 3
