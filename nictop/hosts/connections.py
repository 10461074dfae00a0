"""The connections of one NIC of a host, for commands that print them once: the last step of
`observe`."""

from __future__ import annotations

from collections.abc import Iterable
from time import monotonic

from nictop.errors import HostUnreachable
from nictop.hosts.session import HostSession
from nictop.model.connections.table import requested_links
from nictop.model.snapshot import Snapshot
from nictop.model.text.terminal import clean
from nictop.probe.records import Link, Request

OWNERS_SECONDS = 5.0
"""How long the search for processes is waited for after the first rates."""


class NoSuchInterface(HostUnreachable):
    """The host was reached, but has no such NIC."""

    exit_code = 2


class ReadConnections:
    """`nic`: name of the NIC; "": the one with the most traffic."""

    def __init__(self, nic: str = "") -> None:
        self._nic = nic
        self._links: tuple[int, ...] = ()
        self._rates_at: float | None = None

    async def __call__(self, session: HostSession, snapshot: Snapshot) -> bool:
        """Whether there are rates, and the processes are known as far as that is possible. Raises
        NoSuchInterface if the host has no such NIC."""
        if not self._links:
            link = chosen_nic(snapshot, self._nic)
            if link is None:
                names = ", ".join(clean(known.name) for known in snapshot.links.values())
                raise NoSuchInterface(f"{session.name}: no interface {clean(self._nic)}: {names}")
            self._links = requested_links(link.ifindex, snapshot.links)
            await session.request(Request(connections=self._links))
        found = snapshot.connections
        if found is None or found.links != self._links:
            return False
        if found.seconds is None:
            return False
        if self._rates_at is None:
            self._rates_at = monotonic()
        return found.owners != "pending" or monotonic() - self._rates_at > OWNERS_SECONDS


def chosen_nic(snapshot: Snapshot, name: str = "") -> Link | None:
    """The link with this name or alternative name; "": of those with a device the one with the most
    traffic, else of all but loopback."""
    links = tuple(snapshot.links.values())
    if name:
        return _link_named(name, links)
    rates = {} if snapshot.rates is None else snapshot.rates.links
    candidates = [link for link in links if link.device is not None]
    if not candidates:
        candidates = [link for link in links if link.name != "lo"]

    def traffic(link: Link) -> float:
        measured = rates.get(link.ifindex)
        if measured is None:
            return 0.0
        return (measured.rx_bits or 0.0) + (measured.tx_bits or 0.0)

    return max(candidates or links, key=traffic, default=None)


def _link_named(name: str, links: Iterable[Link]) -> Link | None:
    for link in links:
        if name in (link.name, *link.altnames):
            return link
    return None
