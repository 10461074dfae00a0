"""The facts of one host: text and JSON of ``nictop show``, and the JSON schema.

Reads nothing; takes a snapshot. The JSON is ASCII with escapes: no name can reach a terminal
as a control sequence.
"""

from __future__ import annotations

from typing import Any

import msgspec

from nictop import __version__
from nictop.model.devices.lldp import neighbours
from nictop.model.facts import is_virtual
from nictop.model.queues.map import QueueMap, queue_map
from nictop.model.rates.links import Rates
from nictop.model.snapshot import Snapshot, is_unread_link
from nictop.probe.light_dataclasses import dataclass, field
from nictop.probe.records import (
    CHANNEL_COUNTERS,
    CPU_TIMES,
    LINK_COUNTERS,
    PORT_COUNTERS,
    QUEUE_COUNTERS,
    SOFTIRQS,
    SOFTNET_COUNTERS,
    THREAD_TIMES,
    VCPU_WAITS,
    VF_COUNTERS,
    Counters,
    Hello,
    Inventory,
    LldpNeighbour,
    Trouble,
)
from nictop.report.facts.chains import ChainDocument, chain_documents
from nictop.report.facts.host_document import host_blocks
from nictop.report.facts.names import add_names, add_names_to_schema
from nictop.report.facts.peers import Peers
from nictop.report.facts.places import PlaceDocument, place_documents
from nictop.report.json import json_text, json_values, schema_text
from nictop.report.render.text import text_of
from nictop.rules.by_device import DeviceFindings

SINGLE_QUEUE_PAIR = 2
"""Number of queues of a link with one receive and one transmit queue."""


@dataclass(frozen=True)
class CounterNames:
    """What the numbers of `Counters` are, by position."""

    links: tuple[str, ...] = LINK_COUNTERS
    cpus: tuple[str, ...] = CPU_TIMES
    queues: tuple[str, ...] = QUEUE_COUNTERS
    vfs: tuple[str, ...] = VF_COUNTERS
    ports: tuple[str, ...] = PORT_COUNTERS
    softirqs: tuple[str, ...] = SOFTIRQS
    softnet: tuple[str, ...] = SOFTNET_COUNTERS
    threads: tuple[str, ...] = (*THREAD_TIMES, "cpu")
    channels: tuple[str, ...] = CHANNEL_COUNTERS
    waits: tuple[str, ...] = VCPU_WAITS


@dataclass(frozen=True)
class ShowDocument:
    """What ``nictop show --format json`` prints."""

    nictop: str
    """Version of the program that wrote it."""
    host: str
    hello: Hello | None
    inventory: Inventory | None
    counters: Counters | None
    """The newest record."""
    rates: Rates | None
    """Per second, over `Rates.elapsed`."""
    queue_maps: dict[int, QueueMap] = field(default_factory=dict)
    """ifindex → queue, NAPI, interrupt and CPU of every link that a device carries or that has
    several queues."""
    counter_names: CounterNames = field(default_factory=CounterNames)
    troubles: tuple[Trouble, ...] = ()
    """What the probe could not do, in sentences."""
    lldp: dict[int, tuple[LldpNeighbour, ...]] = field(default_factory=dict)
    """ifindex → what the other end announces by LLDP or CDP, of all services and by listening
    (--lldp)."""
    chains: tuple[ChainDocument, ...] | None = None
    """The layers of each NIC, from its slot to its peers, and which of them works; null: the checks
    have not run."""
    places: tuple[PlaceDocument, ...] = ()
    """Where each NIC is in its machine: what `o` draws on the screen, with what costs."""
    recorded_at: float | None = None
    """The time of this state in a recording, seconds since the epoch; null: of a live host."""
    data_age: float | None = None
    """Seconds from its newest counters to that time; null: of a live host, or there are none."""


def show_document(
    snapshot: Snapshot, findings: DeviceFindings | None = None, *, has_places: bool = True
) -> ShowDocument:
    """The snapshot as a record of the schema. `findings`: None: the checks have not run."""
    chains = None if findings is None else chain_documents(snapshot, findings)
    return ShowDocument(
        nictop=__version__,
        host=snapshot.host,
        chains=chains,
        places=place_documents(snapshot) if has_places else (),
        recorded_at=snapshot.recorded_at,
        data_age=snapshot.data_age,
        hello=snapshot.hello,
        inventory=snapshot.inventory,
        counters=snapshot.counters,
        rates=snapshot.rates,
        queue_maps=_queue_maps(snapshot),
        troubles=snapshot.troubles,
        lldp=_neighbours_of_links(snapshot),
    )


def _queue_maps(snapshot: Snapshot) -> dict[int, QueueMap]:
    """Of links with a device or several queues, by ifindex."""
    found = {}
    for ifindex, link in snapshot.links.items():
        has_device = not is_virtual(link) and not is_unread_link(link)
        if has_device or len(link.queues) > SINGLE_QUEUE_PAIR:
            found[ifindex] = queue_map(link, snapshot)
    return found


def _neighbours_of_links(snapshot: Snapshot) -> dict[int, tuple[LldpNeighbour, ...]]:
    """By ifindex, of links that have some."""
    found = {}
    for ifindex, link in snapshot.links.items():
        announced = neighbours(link, snapshot)
        if announced:
            found[ifindex] = announced
    return found


def show_values(snapshot: Snapshot, findings: DeviceFindings | None = None) -> dict[str, Any]:
    """The document as JSON values, with names beside the numbers (`report.facts.names`); keys of
    mappings by number are strings."""
    return add_names(json_values(show_document(snapshot, findings)), snapshot)


def show_json(snapshot: Snapshot, findings: DeviceFindings | None = None) -> str:
    """The document as indented ASCII JSON with a final newline."""
    return json_text(show_values(snapshot, findings))


def show_schema() -> str:
    """JSON schema (draft 2020-12) of that document, made from the record types, with a final
    newline."""
    return schema_text(add_names_to_schema(msgspec.json.schema(ShowDocument)))


def show_text(
    snapshot: Snapshot,
    width: int,
    findings: DeviceFindings | None = None,
    peers: Peers | None = None,
) -> str:
    """Headline, device tree with rates, CPUs, facts of every device; at most `width` cells (40 to
    200) per line, with a final newline. Virtual links are in the tree only, except bonds, teams and
    those with a known switch port."""
    return text_of(host_blocks(snapshot, findings, peers), width)
