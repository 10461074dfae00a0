"""Counters that are read only of the link that is on the screen: that they could not be read of one
side is no difference while they were not read of the other one.

Pure.
"""

from __future__ import annotations

from nictop.model.facts.facts import COUNTER_NAMES, LINK_OF_FAILURE, failure_text
from nictop.model.snapshot import Snapshot
from nictop.probe.light_dataclasses import replace
from nictop.probe.records import Counters, Unreadable

ON_DEMAND = ("queues", "driver", "machine")
"""Fields of `Counters`: of watched links (`Request.watch`), and all interrupts while they are
requested."""
NOT_READ_THEN = "not read at that time"


def without_unshared_failures(snapshot: Snapshot, other: Snapshot) -> tuple[Snapshot, str]:
    """The snapshot without the failures of counters that were not read of the other side, and these
    as a text; "": there are none."""
    counters = snapshot.counters
    if counters is None:
        return snapshot, ""
    shared, texts = dict(counters.unreadable), []
    for field in ON_DEMAND:
        if field in shared and not _was_read(other, field, shared[field], snapshot):
            name = COUNTER_NAMES.get(field, f"{field} counters")
            texts.append(failure_text(name, shared.pop(field), snapshot))
    if not texts:
        return snapshot, ""
    return replace(snapshot, counters=replace(counters, unreadable=shared)), ", ".join(texts)


def _was_read(other: Snapshot, field: str, why: Unreadable, snapshot: Snapshot) -> bool:
    counters = other.counters
    if counters is None:
        return False
    if field == "machine":
        return counters.machine is not None or field in counters.unreadable
    watched, name = _watched_names(counters, other), _name_of_failure(why, snapshot)
    has_it = any(link.name == name for link in other.links.values())
    return name in watched if has_it else bool(watched)


def _name_of_failure(why: Unreadable, snapshot: Snapshot) -> str:
    """Of the link that it is about; "": of none, or it is gone."""
    match = LINK_OF_FAILURE.match(why.detail)
    link = snapshot.links.get(int(match[1])) if match is not None else None
    return "" if link is None else link.name


def _watched_names(counters: Counters, snapshot: Snapshot) -> set[str]:
    watched = {*counters.queues, *counters.driver}
    return {link.name for ifindex, link in snapshot.links.items() if ifindex in watched}
