"""Sources that an older nictop did not record: nothing is known of them, which is not "none".

A probe writes every field of its inventory; one that a recorded line does not have is of a later
version.
"""

from __future__ import annotations

from dataclasses import fields

import msgspec

from nictop.probe.inventory.collect import MACHINE_SOURCES, MANAGER_SOURCES
from nictop.probe.records import Inventory, Unreadable
from nictop.probe.records.unreadable import NOT_RECORDED

RECORDED_SOURCES = frozenset((*MACHINE_SOURCES, *MANAGER_SOURCES)).intersection(
    field.name for field in fields(Inventory)
)
"""Sources that are a field of the inventory."""


class _Line(msgspec.Struct):
    inventory: dict[str, msgspec.Raw]


_decoder = msgspec.json.Decoder(_Line)


def mark_unrecorded(inventory: Inventory, text: bytes | bytearray | memoryview) -> None:
    """List in `unreadable` what `text`, from which the inventory was decoded, does not have.
    Modifies `inventory`: call it before the record is shared."""
    recorded = _decoder.decode(text).inventory
    for source in sorted(RECORDED_SOURCES.difference(recorded)):
        inventory.unreadable.setdefault(source, Unreadable("failed", NOT_RECORDED))
