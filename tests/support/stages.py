"""A slow host's start, item by item: what is known of it at each stage, from a real inventory."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from importlib.resources import as_file, files

from nictop.cli.commands.demo import DEMO_FILE
from nictop.probe.inventory.collect import (
    MACHINE_SOURCES,
    MANAGER_SOURCES,
    NOTHING_KNOWN,
)
from nictop.probe.records import (
    Counters,
    Ethtool,
    Hello,
    Inventory,
    Line,
    Link,
    PacketFilters,
    Services,
    Settings,
)
from nictop.probe.records.unreadable import NOT_READ_YET, NOT_RECORDED, Unreadable
from nictop.recording.reader import Recording
from nictop.wire.source import SourceState
from tests.support.recordings import read_all

Item = Line | SourceState
STAGES = ("no link", "no hello", "hello", "links", "machine", "all")
"""no link: nothing answers yet; no hello: logged in, the probe is being sent; links: the first part
of the inventory; machine: all but the network managers; all: and counters, so that there are
rates."""


@lru_cache(maxsize=1)
def recorded_hosts() -> dict[str, tuple[Hello, Inventory, tuple[Counters, ...]]]:
    """The two guests of the demo: hello, inventory, and counters after it."""
    with (
        as_file(files("nictop.recording").joinpath(DEMO_FILE)) as path,
        Recording.open(str(path)) as recording,
    ):
        return {name: _records(recording, name) for name in recording.hosts}


def _records(recording: Recording, name: str) -> tuple[Hello, Inventory, tuple[Counters, ...]]:
    lines = [one.item for one in read_all(recording, name) if isinstance(one.item, Line)]
    hello = next(line.hello for line in lines if line.hello is not None)
    recorded = next(line.inventory for line in lines if line.inventory is not None)
    read = {name: why for name, why in recorded.unreadable.items() if why.detail != NOT_RECORDED}
    inventory = replace(recorded, unreadable=read)  # here it is that of a live host
    counters = [line.counters for line in lines if line.counters is not None]
    return hello, inventory, tuple(one for one in counters if one.time > inventory.time)


def links_only(whole: Inventory) -> Inventory:
    """What the probe sends before it reads settings (`collect.add_counted_devices`)."""
    first = replace(
        whole,
        platform=NOTHING_KNOWN,
        links=tuple(map(_without_settings, whole.links)),
        services=Services(),
        settings=Settings(),
        iommu=(),
        forwarding=(),
        messages=None,
        devlink=(),
        routing=None,
        filters=PacketFilters(),
    )
    return _pending(without_managers(first), (*MACHINE_SOURCES, *MANAGER_SOURCES))


def without_managers(whole: Inventory) -> Inventory:
    """What it sends before it asks the network managers."""
    known = replace(
        whole, networkmanager=None, networkd={}, configuration=(), stopped_managers=(), lldp={}
    )
    return _pending(known, MANAGER_SOURCES)


def _pending(inventory: Inventory, pending: tuple[str, ...]) -> Inventory:
    unread = {source: Unreadable("failed", NOT_READ_YET) for source in pending}
    return replace(inventory, pending=pending, unreadable={**inventory.unreadable, **unread})


def _without_settings(link: Link) -> Link:
    return replace(
        link,
        traffic_control=(),
        tc_filters=(),
        queues=(),
        napis=(),
        channels=(),
        ethtool=Ethtool(),
        bridge_port=None,
        bridge_vlans=None,
        bond=None,
        bond_port=None,
        team=None,
    )


def items_of(name: str) -> dict[str, tuple[Item, ...]]:
    """Stage → the items of a recorded host that lead to it from the one before."""
    hello, inventory, counters = recorded_hosts()[name]
    return {
        "no link": (
            SourceState("connecting"),
            SourceState("connecting", stage="connect", target="192.0.2.1 port 22"),
        ),
        "no hello": (
            SourceState("connecting", stage="host_key", target=name),
            SourceState("connecting", stage="login", target="root"),
            SourceState("connecting", stage="probe"),
        ),
        "hello": (SourceState("live"), Line(hello=hello)),
        "links": (
            Line(inventory=links_only(inventory)),
            *(Line(counters=one) for one in counters[:2]),
        ),
        "machine": (Line(inventory=without_managers(inventory)), Line(counters=counters[2])),
        "all": (Line(inventory=inventory), *(Line(counters=one) for one in counters[3:6])),
    }
