"""Values that the probe could not read because it does not run as root.

Reads nothing; takes the newest snapshot.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from nictop.model.snapshot import Snapshot
from nictop.probe.records import Unreadable

FIELD_TEXTS = {
    "iommu_groups": "IOMMU groups",
    "kernel_messages": "kernel messages",
    "link": "PCIe link",
    "mac_address": "MAC addresses",
    "module": "transceiver data",
    "rss": "RSS",
    "fec": "FEC",
}
"""Field → text, where the name of the field is not the usual term."""


def needs_root(snapshot: Snapshot) -> tuple[str, ...]:
    """Texts for what only root can read, each once, in alphabetical order."""
    hidden = {
        FIELD_TEXTS.get(field, field.replace("_", " "))
        for unreadable in _all(snapshot)
        for field, why in unreadable.items()
        if why.reason == "needs_root"
    }
    return tuple(sorted(hidden, key=str.casefold))


def _all(snapshot: Snapshot) -> Iterator[Mapping[str, Unreadable]]:
    """All `unreadable` mappings of a snapshot."""
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
    """Whether the probe runs as root; None: no hello yet."""
    return None if snapshot.hello is None else snapshot.hello.euid == 0


def rights_text(snapshot: Snapshot) -> str:
    """``root``, or ``user 1000; root would add: kernel messages, transceiver data``; "" before the hello."""
    if snapshot.hello is None:
        return ""
    if is_root(snapshot):
        return "root: everything can be read"
    return f"user {snapshot.hello.euid}{_added(needs_root(snapshot), snapshot)}"


def _added(hidden: Iterable[str], snapshot: Snapshot) -> str:
    hidden = tuple(hidden)
    if hidden:
        return f"; root would add: {', '.join(hidden)}"
    return "; nothing found yet that needs root" if snapshot.inventory is None else "; nothing found that needs root"
