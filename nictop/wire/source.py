"""`Source`: what yields the lines of a host, in the same way for a live, remote or recorded one."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import Literal, Protocol, runtime_checkable

from nictop.probe.light_dataclasses import dataclass
from nictop.probe.records import Line, Request

ConnectionStage = Literal["resolve", "connect", "host_key", "login", "probe"]
WAITS_FOR_ANSWER = "waiting for your answer"
"""`SourceState.target` while the user is asked: a host key, a password."""
"""What is done to connect: the name is resolved; TCP; the host key is exchanged and checked;
authentication; the probe is started and sent, until its hello."""


@dataclass(frozen=True)
class SourceState:
    """State of the connection to a host; yielded between its lines whenever it changes."""

    state: Literal["connecting", "live", "lost", "failed"]
    """connecting: nothing was received yet. live: its hello was received. lost: ended; the next
    attempt is in `retry_in` seconds. failed: another attempt cannot help; the source ends."""
    message: str = ""
    """The reason, in a sentence; "" if there is none."""
    retry_in: float | None = None
    """Seconds until the next attempt; only for lost."""
    overloaded: bool | None = None
    """Whether it sends more than is processed from now on (`wire.budget`); None: as before."""
    stage: ConnectionStage | None = None
    """What is done from now on; only for connecting, and for a live host to which the rest of the
    probe is still being sent."""
    target: str = ""
    """What the stage is about: a name, an address, a user."""
    silent: bool = False
    """Only for lost: because nothing was received for too long. The host may be slow, and the next
    attempt waits longer."""


class Source(Protocol):
    """Lines of one host."""

    @property
    def name(self) -> str:
        """Name of the host, as the user calls it."""

    @property
    def pids(self) -> tuple[int, ...]:
        """Processes on this machine that belong to the source; the status line shows what they
        cost."""

    def items(self) -> AsyncIterator[Line | SourceState]:
        """What is received, until the source is closed or has failed. To be iterated once."""

    async def request(self, request: Request) -> None:
        """Send a request to the probe; its settings (`merge_settings`) are sent again after a
        reconnect."""

    async def close(self) -> None:
        """End the source and every process it has started; may be called more than once."""


@runtime_checkable
class RunsPrograms(Protocol):
    """A source that can run a program where its probe is, with its rights."""

    async def program_output(self, words: Sequence[str], timeout: float) -> str:
        """What it prints; "" if it fails or takes longer, or if there is no connection."""


LASTING_FIELDS = ("interval", "watch", "machine", "recheck", "events", "connections")
"""Of a request: they stay in force until another one changes them."""


async def program_output(source: Source, words: Sequence[str], timeout: float) -> str | None:
    """The same of any source; None: it runs no programs, as a recorded host."""
    if not isinstance(source, RunsPrograms):
        return None
    return await source.program_output(words, timeout)


def merge_settings(settings: Request, request: Request) -> Request:
    """The `LASTING_FIELDS` of `request`, and those of `settings` that it does not set. What is done
    once (inventory, ping, traffic, change) is left out."""
    lasting = {}
    for name in LASTING_FIELDS:
        value = getattr(request, name)
        lasting[name] = getattr(settings, name) if value is None else value
    return Request(**lasting)
