"""Which NICs of a host have which addresses, by each inventory in which that has changed.

Reads nothing; takes the lines of a host.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping

from nictop.probe.light_dataclasses import dataclass
from nictop.probe.records import Inventory, Outdated

MAX_ADDRESS_READINGS = 32


@dataclass(frozen=True)
class AddressReading:
    """By one inventory."""

    time: float
    """Start of the inventory, CLOCK_MONOTONIC of the host."""
    since: float | None
    """Time of the first event that no earlier inventory has read, on the same clock: what changed
    has changed since then. None: none was reported."""
    links: Mapping[str, tuple[int, ...]]
    """Address → ifindexes of the links that have it."""


class AddressReadings:
    """Those of one host, oldest first."""

    def __init__(self) -> None:
        self.kept: deque[AddressReading] = deque(maxlen=MAX_ADDRESS_READINGS)
        self._first_event: float | None = None

    def clear(self) -> None:
        self.kept.clear()
        self._first_event = None

    def add_event(self, event: Outdated) -> None:
        """Whatever it is about: of several at once only the most important one is reported."""
        if self._first_event is None or event.time < self._first_event:
            self._first_event = event.time

    def add(self, inventory: Inventory) -> None:
        """Nothing is known by one that could not read them."""
        if {"links", "addresses"} & inventory.unreadable.keys():
            return
        links = _links_of_addresses(inventory)
        if not self.kept or self.kept[-1].links != links:
            self.kept.append(AddressReading(inventory.time, self._first_event, links))
        self._first_event = None


def _links_of_addresses(inventory: Inventory) -> dict[str, tuple[int, ...]]:
    found: dict[str, tuple[int, ...]] = {}
    for link in inventory.links:
        for own in link.addresses:
            found[own.address] = (*found.get(own.address, ()), link.ifindex)
    return found
