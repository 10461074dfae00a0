"""The connections of one NIC as a document.

Reads nothing; takes a snapshot.
"""

from __future__ import annotations

from collections.abc import Iterator

from nictop.model.columns.connections import COLUMNS, OTHER_PARTS, nic_texts, number_text
from nictop.model.connections.table import ConnectionTable, connection_table
from nictop.model.snapshot import Snapshot, recorded_age_text
from nictop.model.text import units
from nictop.model.text.words import recorded_text
from nictop.report.document import Block, ColumnTable, Items, Line, Section, Table, lines_of

MAX_USERS = 10
"""Processes in the table."""
USER_TITLES = ("WHO", "SHARE", "RX b/s", "TX b/s")
NOT_RECORDED = "no connections recorded at this time: they are recorded while they are shown"


def shown_table(snapshot: Snapshot, nic: str = "") -> ConnectionTable | None:
    """The connections of the NIC of the newest reading, if that is `nic` ("": any); None: there is
    no such reading."""
    reading = snapshot.connections
    if reading is None or not reading.links:
        return None
    table = connection_table(reading.links[0], snapshot)
    if table is None or nic not in ("", table.nic):
        return None
    return table


def connection_sections(snapshot: Snapshot) -> Iterator[Section]:
    """Who used the NIC whose connections were shown, for a page; nothing if none were."""
    table = shown_table(snapshot)
    if table is not None:
        about = Line(" · ".join(nic_texts(table)), "dim")
        yield Section((about, *table_blocks(table)), f"Connections of {table.nic}")


def connection_blocks(snapshot: Snapshot, nic: str) -> tuple[Block, ...]:
    """The same of one host, for a terminal; `nic`: as in `shown_table`."""
    table = shown_table(snapshot, nic)
    names = [snapshot.host]
    if snapshot.recorded_at is not None:
        names.append(recorded_text(snapshot.recorded_at, recorded_age_text(snapshot)))
    if table is None:
        why = f"not read: {snapshot.incomplete}" if snapshot.incomplete else NOT_RECORDED
        return (Line(f"{' · '.join(names)}: {why}"),)
    return (Line(" · ".join((*names, table.nic, *nic_texts(table)))), *table_blocks(table))


def table_blocks(table: ConnectionTable) -> Iterator[Section]:
    """The processes with their share, the connections, and what is not in the table."""
    yield Section(tuple(user_blocks(table)))
    if table.rows:
        yield Section((ColumnTable(COLUMNS, table.rows, lambda: COLUMNS),))
    yield Section((Items(lines_of((number_text(table), *table.notes))),))


def user_blocks(table: ConnectionTable) -> Iterator[Block]:
    """The busiest processes and the rest of the NIC's bytes."""
    rows = list(user_rows(table))
    if rows:
        yield Table(USER_TITLES, tuple(rows))
    if table.share is not None:
        yield Line(f"other: {OTHER_PARTS}")


def user_rows(table: ConnectionTable) -> Iterator[tuple[str, ...]]:
    for user in table.users[:MAX_USERS]:
        if user.rx_bits or user.tx_bits:
            yield user_row(user.name, user.share, user.rx_bits, user.tx_bits)
    if table.share is not None:
        yield user_row("other", 1 - table.share, table.other_rx_bits, table.other_tx_bits)


def user_row(
    name: str, share: float | None, rx_bits: float | None, tx_bits: float | None
) -> tuple[str, ...]:
    return name, units.percentage(share), units.scaled(rx_bits), units.scaled(tx_bits)
