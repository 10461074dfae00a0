"""The connections of one NIC: text and JSON of ``nictop show --connections``, and the JSON schema.

Reads nothing; takes the answers of `nictop.hosts.observe`. The JSON is ASCII with escapes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from nictop import __version__
from nictop.hosts.observe import Answer, Unreachable
from nictop.model.connections.table import ConnectionTable
from nictop.model.snapshot import Snapshot
from nictop.probe.light_dataclasses import dataclass
from nictop.report.facts.connection_document import connection_blocks, shown_table
from nictop.report.facts.hosts import UnreachableHost, sections_text, unreachable_text
from nictop.report.json import json_text, schema_of_hosts, schema_text
from nictop.report.render.text import text_of


@dataclass(frozen=True)
class HostConnections:
    """One host that answered."""

    host: str
    connections: ConnectionTable | None
    """None: a recording without connections at this time."""
    recorded_at: float | None = None
    """The time of this state in a recording, seconds since the epoch; null: of a live host."""
    data_age: float | None = None
    """Seconds from its newest counters to that time; null: of a live host, or there are none."""


@dataclass(frozen=True)
class ConnectionsDocument:
    """What ``nictop show --connections --format json`` prints."""

    nictop: str
    """Version of the program that wrote it."""
    hosts: tuple[Any, ...]
    """In the order of the command line: a `HostConnections` or an `UnreachableHost` of each."""


def host_connections(snapshot: Snapshot, nic: str = "") -> HostConnections:
    """Of the NIC of the newest reading, if that is `nic` ("": any)."""
    return HostConnections(
        snapshot.host, shown_table(snapshot, nic), snapshot.recorded_at, snapshot.data_age
    )


def connections_json(answers: Sequence[Answer], nic: str = "") -> str:
    """The document as indented ASCII JSON with a final newline."""
    hosts: list[HostConnections | UnreachableHost] = []
    for answer in answers:
        if isinstance(answer, Unreachable):
            hosts.append(UnreachableHost(answer.host, answer.sentence))
        else:
            hosts.append(host_connections(answer[0], nic))
    return json_text(ConnectionsDocument(__version__, tuple(hosts)))


def connections_schema() -> str:
    """JSON schema (draft 2020-12) of that document, made from the record types, with a final
    newline."""
    return schema_text(schema_of_hosts(ConnectionsDocument, HostConnections, UnreachableHost))


def connections_text(answers: Sequence[Answer], width: int, nic: str = "") -> str:
    """Each host: its NIC, the processes with their share, and the connections; at most `width`
    cells (40 to 200) per line, with a final newline."""
    texts = []
    for answer in answers:
        if isinstance(answer, Unreachable):
            texts.append(unreachable_text(answer, width))
        else:
            texts.append(text_of(connection_blocks(answer[0], nic), width))
    return sections_text(texts, width)
