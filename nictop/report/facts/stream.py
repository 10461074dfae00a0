"""The lines of ``nictop show --format jsonl``: JSON objects, one for each reading of a host.

Reads nothing. The first line of a host has everything that ``--format json`` has of it; those that
follow leave out what is as before: hello, inventory, queue maps, LLDP, troubles, names of counters.
``{"host": "vm1", "state": "lost", "message": …}``: the connection. All is ASCII with escapes.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from nictop.model.snapshot import Snapshot
from nictop.model.time_axis import both_clocks
from nictop.probe.light_dataclasses import replace
from nictop.probe.records import Counters
from nictop.report.facts.host import show_document
from nictop.report.facts.names import add_names
from nictop.report.json import finite_values, json_values
from nictop.wire.source import SourceState

Json = dict[str, Any]
PARTS = ("hello", "inventory", "queue_maps", "lldp", "troubles", "counter_names")
"""What a line has only when it has changed, the first one always."""

LEFT_OUT = ("chains", "places", "recorded_at", "data_age", "nictop")
"""Of ``--format json``: places say nothing that the inventory and the queue maps do not have."""


class HostLines:
    """The lines of one host that were not taken yet: at most one of each kind. If they are not
    taken in time, the next reading replaces the one that waits."""

    def __init__(self, host: str) -> None:
        self._host = host
        self._state: Json | None = None
        self._last_state: Json | None = None
        """The newest one, also if it was taken."""
        self._snapshot: Snapshot | None = None
        """The reading that waits."""
        self._noted: Counters | None = None
        """Those of the newest reading."""
        self._replaced = 0
        """Readings that were not taken, since the last one that was."""
        self._known: dict[str, Any] = {}
        """The parts that the reader has, as records."""

    @property
    def is_waiting(self) -> bool:
        return self._state is not None or self._snapshot is not None

    def note_state(self, state: SourceState) -> None:
        line = {"host": self._host, "state": state.state, "message": state.message}
        if line != self._last_state:
            self._state = self._last_state = line

    def note_item(self, snapshot: Snapshot) -> None:
        """The snapshot after an item of the host. It is a reading if it has new counters, and the
        inventory is known."""
        if snapshot.inventory is None or snapshot.counters in (None, self._noted):
            return
        self._replaced += self._snapshot is not None
        self._snapshot, self._noted = snapshot, snapshot.counters

    def take(self) -> str:
        """The lines; "": none."""
        lines = [] if self._state is None else [self._state]
        if self._snapshot is not None:
            lines.append(self._reading(self._snapshot))
        self._state, self._snapshot, self._replaced = None, None, 0
        return "".join(f"{_text(line)}\n" for line in lines)

    def _reading(self, snapshot: Snapshot) -> Json:
        document = show_document(snapshot, has_places=False)
        parts = {part: getattr(document, part) for part in PARTS}
        unchanged = [part for part in PARTS if _is_same(parts[part], self._known.get(part))]
        self._known = parts
        if "inventory" in unchanged:
            document = replace(document, inventory=None)  # the largest part is not made for nothing
        values = add_names(json_values(document), snapshot)
        for part in (*unchanged, *LEFT_OUT):
            del values[part]
        line = {"host": self._host, "wall": _wall(snapshot), **values}
        if self._replaced:
            line["skipped_readings"] = self._replaced
        return line


def _is_same(part: object, known: object) -> bool:
    return part is known or part == known


def _wall(snapshot: Snapshot) -> float | None:
    """Time of day of the reading by the clock of the host, seconds since the epoch."""
    read, counters = both_clocks(snapshot), snapshot.counters
    if read is None or counters is None:
        return None
    time, wall = read
    return wall + counters.time - time


def _text(line: Mapping[str, Any]) -> str:
    try:
        return json.dumps(line, allow_nan=False)
    except ValueError:  # a number that JSON does not have
        return json.dumps(finite_values(line, ()))
