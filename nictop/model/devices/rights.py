"""Values that the probe could not read because it does not run as root; what the kernel forbids one
that does.

Reads nothing; takes the newest snapshot.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from nictop.model.snapshot import Snapshot
from nictop.probe.records import Restriction, Unreadable

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
    hidden = set()
    for unreadable in _all(snapshot):
        for field, why in unreadable.items():
            if why.reason == "needs_root":
                hidden.add(FIELD_TEXTS.get(field, field.replace("_", " ")))
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
    if snapshot.hello is None:
        return None
    return snapshot.hello.euid == 0


def rights_text(snapshot: Snapshot) -> str:
    """``root``, ``user 1000``; "" before the hello."""
    if snapshot.hello is None:
        return ""
    if snapshot.hello.euid == 0:
        return "root"
    return f"user {snapshot.hello.euid}"


SIGNAL_ABI = 6
"""Version of Landlock's ABI from which on the probe cannot signal other processes (Linux 6.12)."""


def restriction_text(snapshot: Snapshot) -> str:
    """Whether the kernel holds the probe to reading: ``held by the kernel: Landlock ABI 7;
    capabilities net_admin``; "" if that is not known."""
    if snapshot.inventory is None or snapshot.hello is None:
        return ""
    found = snapshot.inventory.restriction
    if found is None and is_root(snapshot):
        return ""
    if found is None:
        return f"not held by the kernel: the probe has the rights of {rights_text(snapshot)}"
    parts = [_landlock_text(found), _capabilities_text(found)]
    if found.why_tests_are_root:
        parts.append(f"tests run as root, because {found.why_tests_are_root}")
    if found.allow_changes:
        parts.append("changes are made by another process")
    return "; ".join(parts)


def _landlock_text(found: Restriction) -> str:
    has_seccomp = found.why_no_seccomp == ""
    if found.landlock is None:
        part = " but for programs and attributes of files (seccomp)" if has_seccomp else ""
        return f"not held by the kernel{part}, because {found.why_no_landlock}"
    missing = []
    if found.landlock < SIGNAL_ABI:
        missing.append("signals, which need Linux 6.12")
    if found.why_no_seccomp:
        missing.append(f"attributes of files, because {found.why_no_seccomp}")
    text = "held by the kernel"
    if missing:
        text += f" but for {', and for '.join(missing)}"
    text += f": Landlock ABI {found.landlock}"
    if has_seccomp:
        text += ", seccomp"
    return text


def _capabilities_text(found: Restriction) -> str:
    if found.capabilities is None:
        return f"all capabilities, because {found.why_all_capabilities}"
    return f"capabilities {', '.join(found.capabilities) or 'none'}"


def missing_rights_text(snapshot: Snapshot) -> str:
    """``not readable without root: kernel messages, transceiver data``; "" if everything can be
    read."""
    if is_root(snapshot):
        return ""
    hidden = needs_root(snapshot)
    if not hidden:
        return ""
    return f"not readable without root: {', '.join(hidden)}"
