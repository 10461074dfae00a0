"""Where the NICs of a host are in their machine, for JSON.

Reads nothing; texts are raw.
"""

from __future__ import annotations

from collections.abc import Iterator

from nictop.model.place import PlaceLine, has_place, place_of
from nictop.model.snapshot import Snapshot
from nictop.probe.light_dataclasses import dataclass
from nictop.report.facts.host_document import rows_of_nics


@dataclass(frozen=True)
class PlaceDocument:
    """The place of one NIC."""

    ifindex: int | None
    """null: a PCI function without a driver, or without a netdev."""
    pci_address: str | None
    lines: tuple[PlaceLine, ...]
    """A tree: each line belongs to the last one before it of a smaller `depth`. Of devices below
    the same port only network functions are known."""


def place_documents(snapshot: Snapshot) -> tuple[PlaceDocument, ...]:
    """Of all NICs that have one, in the order of the tree of devices."""
    return tuple(_places(snapshot))


def _places(snapshot: Snapshot) -> Iterator[PlaceDocument]:
    for row in rows_of_nics(snapshot):
        if not has_place(row, snapshot):
            continue
        ifindex = None if row.link is None else row.link.ifindex
        address = None if row.pci is None else row.pci.address
        yield PlaceDocument(ifindex, address, place_of(row, snapshot))
