"""Watched hosts that are virtual machines of another watched host, by their VF and tap pairs.

Reads nothing.
"""

from __future__ import annotations

from collections.abc import Sequence

from nictop.model.devices.pairs import Pairs, paired_functions, pairs
from nictop.model.snapshot import Snapshot
from nictop.probe.light_dataclasses import dataclass


@dataclass(frozen=True)
class Guest:
    """A watched host that is a virtual machine of another one."""

    hypervisor: str
    """Name of the host that runs it."""
    machine: str
    """Name of the virtual machine there."""


def guests(snapshots: Sequence[Snapshot], found: Pairs | None = None) -> dict[str, Guest]:
    """Host → its virtual machine, where all pairs of the host agree. `found`: `pairs` of the
    snapshots, if known."""
    if found is None:
        found = pairs(snapshots)
    by_name = {snapshot.host: snapshot for snapshot in snapshots}
    claims: dict[str, set[Guest]] = {}
    for tap in found.taps:
        if tap.machine is not None:
            claims.setdefault(tap.guest.host, set()).add(Guest(tap.tap.host, tap.machine))
    for pair in found.virtual_functions:
        hypervisor = by_name[pair.physical.host]
        port = hypervisor.links.get(pair.physical.ifindex)
        for function in paired_functions(pair, by_name):
            owner = hypervisor.owners.of_vf(port, function) if port is not None else None
            if owner is not None and owner.kind == "vm" and not owner.is_stopped:
                guest = Guest(hypervisor.host, owner.name)
                claims.setdefault(pair.guest.host, set()).add(guest)
    return {host: claimed.pop() for host, claimed in claims.items() if len(claimed) == 1}
