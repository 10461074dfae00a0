"""The one shape of whatever yields the lines of a host: live, remote and replayed ones are told apart by nobody."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Literal, Protocol

from nictop.probe.records import Line, Request


@dataclass(frozen=True)
class SourceState:
    """How the connection to a host is, told between its lines whenever that changes."""

    state: Literal["connecting", "live", "lost", "failed"]
    """connecting: nothing heard yet. live: its hello has come. lost: ended, and tried again in `retry_in` seconds.
    failed: trying again cannot help; the source ends."""
    message: str = ""
    """Why, in a sentence; "" when there is nothing to say."""
    retry_in: float | None = None
    """Seconds until the next attempt; only for lost."""
    overloaded: bool | None = None
    """Whether it sends more than is processed from now on (`wire.budget`); None: as before."""


class Source(Protocol):
    """Lines of one host."""

    @property
    def name(self) -> str:
        """Name of the host, as the user calls it."""

    @property
    def pids(self) -> tuple[int, ...]:
        """Processes on this machine that belong to the source, for the cost that the status line shows."""

    def items(self) -> AsyncIterator[Line | SourceState]:
        """What is heard, until the source is closed or has failed. To be iterated once."""

    async def request(self, request: Request) -> None:
        """Ask the probe for something; what is still wanted after a reconnect (interval, watch) is asked for again."""

    async def close(self) -> None:
        """End the source and every process it has started; may be called more than once."""
