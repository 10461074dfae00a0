"""The guests of a host as a document: a table, and below it what has no room there.

Reads nothing; takes a snapshot.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import groupby

from nictop.model.columns.column import Column
from nictop.model.columns.guests import COLUMNS, COLUMNS_BY_KEY
from nictop.model.guests.agents import agent_text
from nictop.model.guests.owners import STANDING_CONDITIONS
from nictop.model.guests.table import (
    GuestRow,
    guest_rows,
    nic_facts,
    why_guests_are_missing,
)
from nictop.model.snapshot import Snapshot, recorded_age_text
from nictop.model.text.words import count_noun, recorded_text
from nictop.report.document import Block, ColumnTable, Fact, Facts, Items, Line, Section, lines_of

LABEL_CELLS = 14
PAGE_COLUMN_KEYS = (
    *("guest", "state", "link", "network", "vlan", "model", "mac", "address", "source"),
    *("rx", "tx", "drops", "vhost", "queues", "mtu", "vcpu", "vhost_cpu"),
)


def guest_blocks(snapshot: Snapshot) -> tuple[Block, ...]:
    """The guests of a host, for a terminal."""
    rows = guest_rows(snapshot)
    return (Line(headline(snapshot, rows)), *guest_sections(snapshot, rows))


def guests_of_host(snapshot: Snapshot) -> Iterator[Section]:
    """Its guests, among everything else about a host; nothing if none are known, and nothing of an
    ESXi host, whose virtual machines are among its facts."""
    inventory = snapshot.inventory
    if inventory is None or not inventory.guests:
        return
    rows = guest_rows(snapshot)
    if rows:
        yield Section(tuple(guest_sections(snapshot, rows)), "Guests")


def headline(snapshot: Snapshot, rows: Sequence[GuestRow]) -> str:
    """``pve · 12 guests, 3 of them stopped, 1 paused · 2 network namespaces``"""
    known = {id(row.guest): row for row in rows}.values()
    guests = [row for row in known if row.guest.kind != "namespace"]
    namespaces = len(known) - len(guests)
    stopped = sum(row.is_stopped for row in guests)
    text = count_noun(len(guests), "guest")
    if stopped:
        text += f", {stopped} of them stopped"
    states = Counter(row.state for row in guests if row.guest.condition in STANDING_CONDITIONS)
    text += "".join(f", {number} {state}" for state, number in sorted(states.items()))
    parts = [snapshot.host]
    if snapshot.recorded_at is not None:
        parts.append(recorded_text(snapshot.recorded_at, recorded_age_text(snapshot)))
    if snapshot.incomplete:
        parts.append(f"not complete: {snapshot.incomplete}")
    parts.append(text)
    if namespaces:
        parts.append(count_noun(namespaces, "network namespace"))
    return " · ".join(parts)


def guest_sections(snapshot: Snapshot, rows: Sequence[GuestRow]) -> Iterator[Block]:
    """Table and facts, and why guests may be missing."""
    missing = why_guests_are_missing(snapshot)
    if missing is not None:
        yield Items(lines_of((f"guests may be missing: {missing}",), "warn"))
    if rows:
        yield Section((ColumnTable(COLUMNS, rows, page_columns),))
        yield Section((Facts(tuple(_facts(rows)), LABEL_CELLS),))


def page_columns() -> Sequence[Column[GuestRow]]:
    return [COLUMNS_BY_KEY[key] for key in PAGE_COLUMN_KEYS]


def _facts(rows: Sequence[GuestRow]) -> Iterator[Fact]:
    """One for each NIC, and one for what is not known of a guest."""
    for _, own in groupby(rows, key=lambda row: id(row.guest)):
        for row in own:
            if row.number == 0 and row.agent is not None:
                yield Fact(row.guest.name, f"agent: {agent_text(row.agent)}")
            if row.number == 0 and row.condition_text:
                yield Fact(row.guest.name, row.condition_text, "warn")
            if row.nic is not None:
                yield Fact(row.guest.name, nic_facts(row))
        if row.why_no_nics is not None:
            yield Fact(row.guest.name, f"NICs not fully known: {row.why_no_nics}", "warn")
