"""Which watched host is a virtual machine of another one, by the MAC addresses of its NICs.

Reads nothing. The names need not be alike: a guest may be watched over SSH.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from nictop.model.guests.table import hosted_guests
from nictop.model.snapshot import Snapshot, is_same_machine
from nictop.probe.light_tuples import NamedTuple
from nictop.probe.records import HostedGuest

QEMU_DEFAULT_ADDRESS = "52:54:00:12:34:56"
"""Of the first NIC of each machine that is started without one (net/net.c:
qemu_macaddr_default_if_unset): it says nothing."""


class WatchedGuest(NamedTuple):
    """A watched host that is a guest of another watched host."""

    name: str
    """Of the watched host."""
    hypervisor: str
    guest: HostedGuest


def watched_guests(snapshots: Iterable[Snapshot]) -> tuple[WatchedGuest, ...]:
    """Those of which no other guest or host may be meant: clones have the same addresses."""
    hosts = [one for one in snapshots if one.inventory is not None]
    found = [match for hypervisor in hosts for match in _matches(hypervisor, hosts)]
    names = [match.name for match in found]
    guests = [(match.hypervisor, id(match.guest)) for match in found]
    return tuple(
        match
        for match, guest in zip(found, guests, strict=True)
        if names.count(match.name) == 1 and guests.count(guest) == 1
    )


def _matches(hypervisor: Snapshot, hosts: Iterable[Snapshot]) -> Iterator[WatchedGuest]:
    """Hosts that have each address of a running guest."""
    others = [one for one in hosts if not is_same_machine(hypervisor, one)]
    guests = [one for one in hosted_guests(hypervisor) if one.kind == "vm"]
    if not guests:
        return
    addresses = {one.host: _addresses_of_nics(one) for one in others}
    for guest in guests:
        own = _addresses_of_guest(guest)
        for other in others:
            if guest.state == "running" and own and own <= addresses[other.host]:
                yield WatchedGuest(other.host, hypervisor.host, guest)


def _addresses_of_guest(guest: HostedGuest) -> set[str]:
    """Empty: they are not known, or are those of many guests."""
    addresses = {nic.address for nic in guest.nics if nic.address}
    return set() if addresses == {QEMU_DEFAULT_ADDRESS} else addresses


def _addresses_of_nics(host: Snapshot) -> set[str]:
    found: set[str] = set()
    for link in host.links.values():
        if link.bus is not None:
            found |= {one for one in (link.address, link.permanent_address) if one}
    return found
