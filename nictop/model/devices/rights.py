"""What the probe could not read for want of rights: what running it as root would add.

Reads nothing; takes the newest snapshot.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from nictop.model.snapshot import Snapshot
from nictop.probe.records import Unreadable

WORDS = {
    "iommu_groups": "IOMMU groups",
    "kernel_messages": "kernel messages",
    "link": "PCIe link",
    "mac_address": "MAC addresses",
    "module": "transceiver data",
    "rss": "RSS",
    "fec": "FEC",
}
"""Fields whose name is not yet how people call it."""


def needs_root(snapshot: Snapshot) -> tuple[str, ...]:
    """What the host keeps from this user, in words, each once, in alphabetical order."""
    kept = {
        WORDS.get(field, field.replace("_", " "))
        for unreadable in _all(snapshot)
        for field, why in unreadable.items()
        if why.reason == "needs_root"
    }
    return tuple(sorted(kept, key=str.casefold))


def _all(snapshot: Snapshot) -> Iterator[Mapping[str, Unreadable]]:
    """Every record of what could not be read."""
    if snapshot.inventory is not None:
        yield snapshot.inventory.unreadable
        yield snapshot.inventory.platform.unreadable
    if snapshot.counters is not None:
        yield snapshot.counters.unreadable
    for link in snapshot.links.values():
        yield link.unreadable
        yield link.ethtool.unreadable
    yield from (function.unreadable for function in snapshot.pci)


def is_root(snapshot: Snapshot) -> bool | None:
    """Whether the probe runs as root; None: it has not greeted."""
    return None if snapshot.hello is None else snapshot.hello.euid == 0


def rights_words(snapshot: Snapshot) -> str:
    """``root``, or ``user 1000; root would add: kernel messages, transceiver data``; "" before it has greeted."""
    if snapshot.hello is None:
        return ""
    if is_root(snapshot):
        return "root: everything can be read"
    return f"user {snapshot.hello.euid}{_added(needs_root(snapshot), snapshot)}"


def _added(kept: Iterable[str], snapshot: Snapshot) -> str:
    kept = tuple(kept)
    if kept:
        return f"; root would add: {', '.join(kept)}"
    return "; nothing found yet that needs root" if snapshot.inventory is None else "; nothing found that needs root"
