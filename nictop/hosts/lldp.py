"""Listening for LLDP on a watched host: the request to its probe, and when it has ended.

What is received is in `Snapshot.listened`: `HostSession.process` puts it there.
"""

from __future__ import annotations

from collections.abc import Callable
from uuid import uuid4

from nictop.errors import NictopError
from nictop.hosts.session import HostSession, Item
from nictop.model.devices.lldp import listening_links
from nictop.model.snapshot import Snapshot
from nictop.model.text.terminal import clean
from nictop.model.text.words import absence_reason, count_noun
from nictop.probe.records import Line, LldpNeighbour, Request, TrafficRequest, Unreadable

LISTENING_SECONDS = 35.0
"""LLDP is sent every 30 s by default."""
REPLY_SECONDS = 10.0
"""For the probe to start and to report the end."""


class LldpRequest:
    """One request. `timeout`: seconds after which it has ended in any case."""

    timeout = LISTENING_SECONDS + REPLY_SECONDS

    def __init__(self, session: HostSession) -> None:
        self._session = session
        self.links: tuple[int, ...] = ()
        """ifindexes on which it listens."""
        self.has_ended = False
        self.error = ""
        """Why the probe could not listen."""
        self._id = f"{uuid4().hex[:12]}-lldp"
        self._unsubscribe: Callable[[], None] | None = None

    async def start(self) -> None:
        """To be called once. It has ended at once if there is nothing to listen on."""
        self.links = listening_links(self._session.snapshot)
        if not self.links:
            self.has_ended = True
            return
        self._unsubscribe = self._session.subscribe(self._receive)
        request = TrafficRequest(self._id, "lldp", links=self.links, deadline=LISTENING_SECONDS)
        await self._session.request(Request(traffic=request))

    def close(self) -> None:
        """Process no more lines."""
        if self._unsubscribe is not None:
            self._unsubscribe()
            self._unsubscribe = None

    def _receive(self, item: Item, _: Snapshot) -> None:
        if not isinstance(item, Line) or item.traffic is None:
            return
        line = item.traffic
        if line.id != self._id:
            return
        if line.kind == "failed":
            self.error = line.text
        if line.kind in ("failed", "exit"):
            self.has_ended = True


class ListenForLldp:
    """A step of `observe`: listen once, until the end."""

    def __init__(self) -> None:
        self._request: LldpRequest | None = None

    async def __call__(self, session: HostSession, snapshot: Snapshot) -> bool:
        if self._request is None:
            self._request = LldpRequest(session)
            await self._request.start()
        return self._request.has_ended


def why_not_listening(snapshot: Snapshot) -> str:
    """Why there is nothing to listen on; "": there is, or may be."""
    if snapshot.inventory is None:
        return "interfaces were not read yet"
    if not listening_links(snapshot):
        return "no interface with a link that may be connected to a switch"
    return ""


async def listen_for_lldp(session: HostSession) -> str:
    """Listen until the end; one sentence about the result. Raises NictopError."""
    name, why_not = clean(session.name), why_not_listening(session.snapshot)
    if why_not:
        raise NictopError(f"{name}: {why_not}")
    request = LldpRequest(session)
    await request.start()
    timeout = request.timeout * session.slowness.factor
    try:
        await session.until(lambda: request.has_ended or session.is_unreachable, timeout)
    finally:
        request.close()
    if request.error or not request.has_ended:
        raise NictopError(f"{name}: {clean(request.error) or 'no answer from the probe'}")
    snapshot = session.snapshot
    results = [snapshot.listened.get(ifindex) for ifindex in request.links]
    refused = [result for result in results if isinstance(result, Unreadable)]
    if len(refused) == len(results):
        raise NictopError(f"{name}: cannot listen for LLDP: {absence_reason(refused[0], None)}")
    heard = sum(isinstance(result, LldpNeighbour) for result in results)
    return f"{name}: LLDP received on {heard} of {count_noun(len(results), 'interface')}"
