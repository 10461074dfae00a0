"""Values that the probe could not read because it does not run as root.

Reads nothing; takes the newest snapshot.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from nictop.model.snapshot import Snapshot
from nictop.probe.records import Unreadable

FIELD_TEXTS = {
    "bonds": "LACP partners of bond ports",
    "iommu_groups": "IOMMU groups",
    "kernel_messages": "kernel messages",
    "link": "PCIe link",
    "mac_address": "MAC addresses",
    "mode": "eswitch mode",
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
        yield from (device.unreadable for device in snapshot.inventory.devlink)
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
    """``root``, ``user 1000``; "" before the hello."""
    if snapshot.hello is None:
        return ""
    return "root" if snapshot.hello.euid == 0 else f"user {snapshot.hello.euid}"


def missing_rights_text(snapshot: Snapshot) -> str:
    """``not readable without root: kernel messages, transceiver data``; "" if everything can be read."""
    hidden = () if is_root(snapshot) else needs_root(snapshot)
    return f"not readable without root: {', '.join(hidden)}" if hidden else ""
