"""The connections of one NIC of a host, for commands that print them once: the last step of `observe`."""

from __future__ import annotations

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
        """Whether there are rates, and the processes are known as far as that is possible. Raises NoSuchInterface if
        the host has no such NIC."""
        if not self._links:
            link = chosen_nic(snapshot, self._nic)
            if link is None:
                names = ", ".join(clean(one.name) for one in snapshot.links.values())
                raise NoSuchInterface(f"{session.name}: no interface {clean(self._nic)}: {names}")
            self._links = requested_links(link.ifindex, snapshot.links)
            await session.request(Request(connections=self._links))
        found = snapshot.connections
        if found is None or found.links != self._links or found.seconds is None:
            return False
        self._rates_at = self._rates_at or monotonic()
        return found.owners != "pending" or monotonic() - self._rates_at > OWNERS_SECONDS


def chosen_nic(snapshot: Snapshot, name: str = "") -> Link | None:
    """The link with this name or alternative name; "": of those with a device the one with the most traffic, else of
    all but loopback."""
    links = tuple(snapshot.links.values())
    if name:
        return next((link for link in links if name in (link.name, *link.altnames)), None)
    rates = snapshot.rates.links if snapshot.rates is not None else {}
    candidates = [link for link in links if link.device is not None] or [link for link in links if link.name != "lo"]

    def traffic(link: Link) -> float:
        found = rates.get(link.ifindex)
        return (found.rx_bits or 0.0) + (found.tx_bits or 0.0) if found is not None else 0.0

    return max(candidates or links, key=traffic, default=None)
