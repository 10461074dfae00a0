"""Whose a device is: the guest that has it, and its NIC there.

Reads nothing; returns a section of unsanitized text.
"""

from __future__ import annotations

from collections.abc import Iterator

from nictop.model.devices.tree import Row
from nictop.model.facts.sections import Fact, Section, section
from nictop.model.guests.owners import NicOwner
from nictop.model.guests.table import guest_mtu_text, queue_text
from nictop.model.snapshot import Snapshot
from nictop.model.text.words import warn_if

MAX_NAMED_OWNERS = 8
"""Containers with a link on the device."""


def guest_section(row: Row, snapshot: Snapshot) -> tuple[Section, ...]:
    """Of a device that a guest has, or on which containers have links."""
    owner = owner_of(row, snapshot)
    is_namespace = owner is not None and owner.kind == "namespace"
    return section("Other end" if is_namespace else "Guest", list(_facts(row, snapshot)))


def owner_of(row: Row, snapshot: Snapshot) -> NicOwner | None:
    """The guest that has the device of a row."""
    if row.vf is not None and row.uplink is not None:
        return snapshot.owners.of_vf(row.uplink, row.vf)
    if row.link is not None:
        return snapshot.owners.of_link(row.link.ifindex)
    return snapshot.owners.of_function(row.pci.address) if row.pci is not None else None


def _facts(row: Row, snapshot: Snapshot) -> Iterator[Fact]:
    owner = owner_of(row, snapshot)
    if owner is not None and row.vf is None:  # a VF says it with its attributes
        label = "In" if owner.kind == "namespace" else "Assigned to"
        yield Fact(label, owner.text)
    if owner is not None and owner.nic is not None:
        nic = owner.nic
        mtu = guest_mtu_text(nic.mtu, owner.kind, is_stopped=owner.is_stopped)
        device = (nic.name, nic.model or nic.backend, nic.address, mtu)
        yield Fact("NIC there", " · ".join(filter(None, device)))
        if queue_text(nic):
            yield Fact("Queues", queue_text(nic), warn_if(nic.vhost is False))
        if nic.addresses:
            yield Fact("Addresses", ", ".join(nic.addresses))
    above = snapshot.owners.above(row.link.ifindex) if row.link is not None else ()
    if above:
        names = [one.text for one in above[:MAX_NAMED_OWNERS]]
        if len(above) > MAX_NAMED_OWNERS:
            names.append(f"{len(above) - MAX_NAMED_OWNERS} more")
        yield Fact("Links of", ", ".join(names))
