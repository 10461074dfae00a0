"""One host now: the newest of everything it said, and the rates between its last two counter records.

Reads nothing. `advance(before, line)` makes the next snapshot from the last one and one line of the probe; snapshots
are immutable and share all that did not change.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Literal, TypeVar

from nictop.limits import MAX_LINKS
from nictop.model.managers.configuration import LinkConfiguration
from nictop.model.rates.links import Rates, rates, vf_rates
from nictop.probe.protocol.requests import MAX_WATCHED_LINKS
from nictop.probe.records import Clock, Counters, Hello, Inventory, Line, Link, LinkChange, PciFunction, Trouble

T = TypeVar("T")
State = Literal["connecting", "live", "lost", "failed"]

MOST_TROUBLES = 20
"""Sentences kept; a probe that complains on every pass does not fill the memory."""

VF_SPACING = 0.9
"""Seconds at least between two VF readings of which rates are made: the probe takes them once a second at most."""

VF_AGE = 3.0
"""Seconds after which VF rates are no longer shown when no new reading has come."""

ARPHRD_VOID = 0xFFFF
"""`Link.type` of a link of which only a LinkChange has been heard (linux/if_arp.h: nothing is known)."""


@dataclass(frozen=True, eq=False)
class Snapshot:
    """What is known of one host at one moment."""

    host: str
    """Name under which it is watched."""
    state: State
    message: str
    """Why it is not live, or the newest trouble of its probe; "" when there is neither."""
    hello: Hello | None = None
    inventory: Inventory | None = None
    """As taken; `links` has what was heard since."""
    counters: Counters | None = None
    before: Counters | None = None
    """The record that `rates` compares `counters` with."""
    rates: Rates | None = None
    links: dict[int, Link] = field(default_factory=dict)
    """By ifindex: the inventory's links, patched by every LinkChange heard since it was started."""
    pci: tuple[PciFunction, ...] = ()
    inventory_pending: bool = True
    """There is no inventory yet, or links changed after the last one was started."""
    troubles: tuple[Trouble, ...] = ()
    """The newest `MOST_TROUBLES` sentences of this probe, oldest first."""
    changes: dict[int, LinkChange] = field(default_factory=dict)
    """ifindex → the newest change that no inventory contains yet."""
    vf_base: Counters | None = None
    """The record that the next VF rates are computed from."""
    clock: Clock | None = None
    """The newest comparison of its clock with ours (see `time_axis`); None: not compared since it was booted."""

    @cached_property
    def configuration(self) -> LinkConfiguration | None:
        """Stanzas of configuration files, by the links that they apply to: sorted once for all rows of a table."""
        return None if self.inventory is None else LinkConfiguration(self.inventory)

    @classmethod
    def empty(cls, host: str) -> Snapshot:
        """A host from which nothing has been heard."""
        return cls(host=host, state="connecting", message="")


def watchable_links(links: Iterable[Link]) -> tuple[int, ...]:
    """ifindexes of links with a device, which may have queue and driver counters: as many as a probe accepts to watch,
    the lowest ones."""
    return tuple(sorted(link.ifindex for link in links if link.device is not None))[:MAX_WATCHED_LINKS]


def with_state(snapshot: Snapshot, state: State, message: str) -> Snapshot:
    """The same facts with another state of the connection; they stay on the screen while a host is lost."""
    return replace(snapshot, state=state, message=message)


def advance(before: Snapshot, line: Line) -> Snapshot:
    """The snapshot after one line of the probe. A line that says nothing changes nothing."""
    if line.counters is not None:
        return _counted(before, line.counters)
    if line.link_change is not None:
        return _changed(before, line.link_change)
    if line.inventory is not None:
        return _inventoried(before, line.inventory)
    if line.hello is not None:
        return _greeted(before, line.hello)
    if line.clock is not None:
        return replace(before, clock=line.clock)
    if line.trouble is not None:
        troubles = (*before.troubles, line.trouble)[-MOST_TROUBLES:]
        return replace(before, message=line.trouble.message, troubles=troubles)
    return before


def _counted(snapshot: Snapshot, new: Counters) -> Snapshot:
    old = snapshot.counters
    clock_ticks = snapshot.hello.clock_ticks if snapshot.hello is not None else 100
    now = rates(old, new, clock_ticks) if old is not None else None
    base = snapshot.vf_base
    age = new.time - base.time if base is not None else 0.0
    functions = snapshot.rates.vfs if snapshot.rates is not None and age <= VF_AGE else {}
    if new.vfs and (base is None or age < 0 or age >= VF_SPACING):
        functions = vf_rates(base, new) if base is not None else {}
        base = new
    if now is not None:
        now = replace(now, vfs=functions)
    return replace(snapshot, counters=new, before=old, rates=now, vf_base=base)


def _changed(snapshot: Snapshot, change: LinkChange) -> Snapshot:
    if change.ifindex not in snapshot.links and len(snapshot.links) >= MAX_LINKS:
        return replace(snapshot, inventory_pending=True)
    links = dict(snapshot.links)
    _patch(links, change)
    changes = {**snapshot.changes, change.ifindex: change}
    if len(changes) > MAX_LINKS:  # the oldest one
        del changes[next(iter(changes))]
    changed = replace(snapshot, links=links, inventory_pending=True, changes=changes)
    return _forgotten(changed, change.ifindex) if change.gone else changed


def _patch(links: dict[int, Link], change: LinkChange) -> None:
    if change.gone:
        links.pop(change.ifindex, None)
        return
    known = links.get(change.ifindex)
    if known is None:
        known = Link(
            ifindex=change.ifindex,
            name=change.name,
            type=ARPHRD_VOID,
            flags=change.flags,
            operstate=change.operstate,
            carrier=change.carrier,
            mtu=change.mtu,
        )
    links[change.ifindex] = replace(
        known,
        name=change.name,
        flags=change.flags,
        operstate=change.operstate,
        carrier=change.carrier,
        mtu=change.mtu,
    )


def _forgotten(snapshot: Snapshot, ifindex: int) -> Snapshot:
    """Without the numbers of a link that is gone: the next link with this ifindex begins anew."""

    def without(counters: Counters | None) -> Counters | None:
        if counters is None:
            return None
        return replace(
            counters,
            links=_without(counters.links, ifindex),
            queues=_without(counters.queues, ifindex),
            driver=_without(counters.driver, ifindex),
            channels=_without(counters.channels, ifindex),
            vfs=_without(counters.vfs, ifindex),
        )

    now = snapshot.rates
    if now is not None:
        now = replace(
            now,
            links=_without(now.links, ifindex),
            queues=_without(now.queues, ifindex),
            driver=_without(now.driver, ifindex),
            channels=_without(now.channels, ifindex),
            vfs=_without(now.vfs, ifindex),
        )
    return replace(
        snapshot,
        counters=without(snapshot.counters),
        before=without(snapshot.before),
        vf_base=without(snapshot.vf_base),
        rates=now,
    )


def _without(mapping: dict[int, T], ifindex: int) -> dict[int, T]:
    return {key: value for key, value in mapping.items() if key != ifindex}


def _inventoried(snapshot: Snapshot, inventory: Inventory) -> Snapshot:
    links = {link.ifindex: link for link in inventory.links}
    newer = {ifindex: change for ifindex, change in snapshot.changes.items() if change.time > inventory.time}
    for change in newer.values():
        _patch(links, change)
    snapshot = _without_renumbered(snapshot, inventory)
    return replace(
        snapshot,
        message="" if snapshot.state == "live" else snapshot.message,
        inventory=inventory,
        links=links,
        pci=inventory.pci,
        inventory_pending=bool(newer or inventory.pending),
        changes=newer,
    )


def _without_renumbered(snapshot: Snapshot, inventory: Inventory) -> Snapshot:
    """Without the counts of interrupt numbers that now belong to another vector (``ethtool -L``, driver reload): what
    was counted for the one is nothing to compare the other with."""
    if snapshot.inventory is None:
        return snapshot
    known = {one.number: (one.actions, one.pci_address) for one in snapshot.inventory.interrupts}
    changed = {
        one.number
        for one in inventory.interrupts
        if one.number in known and known[one.number] != (one.actions, one.pci_address)
    }
    if not changed:
        return snapshot

    def kept(mapping: dict[int, T]) -> dict[int, T]:
        return {number: value for number, value in mapping.items() if number not in changed}

    counters, before, now = snapshot.counters, snapshot.before, snapshot.rates
    return replace(
        snapshot,
        counters=replace(counters, interrupts=kept(counters.interrupts)) if counters is not None else None,
        before=replace(before, interrupts=kept(before.interrupts)) if before is not None else None,
        rates=replace(now, interrupts=kept(now.interrupts)) if now is not None else None,
    )


def _greeted(snapshot: Snapshot, hello: Hello) -> Snapshot:
    """A probe began to speak. Numbers and facts survive a restart of the probe, but not one of the host."""
    known = snapshot.hello
    same_boot = known is not None and known.boot_id == hello.boot_id and bool(hello.boot_id)
    if not same_boot:
        return replace(Snapshot.empty(snapshot.host), state="live", hello=hello)
    return replace(snapshot, state="live", message="", hello=hello, inventory_pending=True)
