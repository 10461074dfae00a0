"""What the differences of a side do not rest on: sources that were not read, or were read some time
before its links.

Pure.
"""

from __future__ import annotations

from collections.abc import Iterator

from nictop.model.facts import absence_reason
from nictop.model.snapshot import Snapshot, inventory_age, outdated_text
from nictop.model.text.units import whole_seconds
from nictop.model.text.words import UNKNOWN_REASONS
from nictop.rules.sources import SOURCES

OLD_SECONDS = 30.0
"""Age of what is read at events and at intervals, from which it is shown."""
OF_MANAGERS = ("networkmanager", "networkd", "configuration", "stopped_managers")
"""The sources that a link event says nothing about, the most important one first."""


def notes_of(name: str, snapshot: Snapshot) -> Iterator[str]:
    """Sentences about a side that begin with its `name`; none: all of it is of one time."""
    inventory = snapshot.inventory
    if inventory is None:
        return
    if snapshot.incomplete:
        yield f"{name}: not complete: {snapshot.incomplete}"
    age = inventory_age(snapshot)
    outdated = outdated_text(snapshot)
    if outdated:
        before = f", {whole_seconds(age)} before its newest reading" if age is not None else ""
        yield f"{name}: managers, addresses and settings {outdated}{before}"
    elif age is not None and age >= OLD_SECONDS:
        events = "; events of links are newer" if snapshot.changes else ""
        yield (
            f"{name}: managers, addresses and settings read {whole_seconds(age)} before its newest "
            f"reading{events}"
        )
    for source in OF_MANAGERS:
        why = inventory.unreadable.get(source)
        if why is not None and why.reason in UNKNOWN_REASONS:
            yield f"{name}: {SOURCES[source]}: {absence_reason(why, None)}"
    routing = inventory.routing
    for part in ("routes", "rules"):
        if routing is not None and part in routing.unreadable:
            reason = absence_reason(routing.unreadable[part], None)
            yield f"{name}: {part} not compared: {reason}"
