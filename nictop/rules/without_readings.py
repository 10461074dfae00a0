"""A host without its readings, to find out which outcomes of rules rest on none.

Counters and rates are new every second, the inventory is not. Most rules look only at the latter:
they are evaluated for the host without its readings, and what they say holds until something else
of it is new (`Snapshot.kept`). A rule that asks for a reading there is evaluated with all of them.
"""

from __future__ import annotations

from typing import Any, NoReturn

from nictop.model.snapshot import DERIVED, READINGS, Snapshot
from nictop.rules.host import HostFacts, once_per_host

INDEXES = (
    "links",
    "links_by_name",
    "links_by_driver",
    "links_by_kind",
    "unreadable_of_devices",
    "unreadable_of_functions",
    "functions",
    "links_of_function",
    "ports",
    "used_virtual_functions",
    "interrupts_of_function",
)
"""Properties of `HostFacts` that nearly every diagnosis needs, and that consist of records of the
inventory alone."""


class ReadingNeeded(BaseException):
    """What was asked for rests on a reading. Not a subclass of Exception: a rule that catches
    exceptions must not catch it."""


def _refuse(_: Any) -> NoReturn:
    raise ReadingNeeded


class SnapshotWithoutReadings(Snapshot):
    """Raises ReadingNeeded when one of `READINGS` is asked for."""


class FactsWithoutReadings(HostFacts):
    """Raises ReadingNeeded when a reading is asked for."""

    window = property(_refuse)


class FactsWithoutRates(HostFacts):
    """Raises ReadingNeeded when a rate is asked for, which two readings or more make."""

    window = property(_refuse)
    newest_rates = property(_refuse)


@once_per_host
def without_rates(host: HostFacts) -> HostFacts:
    """The same host, to find out whether a rule rests on rates."""
    facts = object.__new__(FactsWithoutRates)
    vars(facts)["snapshot"] = host.snapshot
    for name in INDEXES:
        vars(facts)[name] = getattr(host, name)
    return facts


for name in READINGS:
    setattr(SnapshotWithoutReadings, name, property(_refuse))


@once_per_host
def without_readings(host: HostFacts) -> HostFacts:
    """The same host; what is derived from its inventory alone is shared, as it takes time."""
    for name in DERIVED:
        getattr(host.snapshot, name)
    known = vars(host.snapshot)
    snapshot = object.__new__(SnapshotWithoutReadings)
    vars(snapshot).update({name: known[name] for name in known if name not in READINGS})
    facts = object.__new__(FactsWithoutReadings)
    vars(facts)["snapshot"] = snapshot
    for name in INDEXES:
        vars(host)[name] = getattr(facts, name)
    return facts
