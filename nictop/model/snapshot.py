"""The present state of one host: the newest of all its records, and the rates between its last two
counter records.

Reads nothing. `advance(before, line)` derives the next snapshot from the last one and one line of
the probe; snapshots are immutable and share everything that did not change.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import fields
from functools import cached_property
from typing import Any, Literal, TypeVar

from nictop.limits import MAX_LINKS, MAX_TEXT_CHARS
from nictop.model.devices.link_history import (
    IFF_UP,
    LinkHistory,
    with_change,
    with_gone_link,
    with_inventory,
)
from nictop.model.devices.links import ethtool_driver
from nictop.model.devices.switch_ports import SwitchPorts
from nictop.model.guests.agent_facts import AgentsTold
from nictop.model.guests.owners import NicOwners
from nictop.model.kernel_log import NO_MESSAGES, KernelLog
from nictop.model.managers import failed_attempts
from nictop.model.managers.configuration import LinkConfiguration
from nictop.model.managers.failed_attempts import FailedAttempts
from nictop.model.rates.links import Rates, port_rates, rates, vf_rates
from nictop.model.reboot import RebootTime
from nictop.model.text.units import wall_time_text, whole_seconds
from nictop.probe.events.reach import reach_of
from nictop.probe.light_dataclasses import dataclass, field, field_values, replace
from nictop.probe.protocol.requests import MAX_WATCHED_LINKS
from nictop.probe.records import (
    Clock,
    Connections,
    Counters,
    Ethtool,
    Hello,
    HostedGuest,
    Inventory,
    Line,
    Link,
    LinkChange,
    LldpListening,
    LldpNeighbour,
    Outdated,
    PciFunction,
    Trouble,
    Unreadable,
)
from nictop.probe.records.unreadable import NOT_READ_YET

T = TypeVar("T")
DERIVED = ("configuration", "kernel_log", "owners")
"""Properties of a `Snapshot` that no reading changes, and no event."""
READINGS = ("counters", "before", "rates", "vf_base")
"""Fields of a `Snapshot` that a reading changes, and nothing else that it has."""
CHANGING = ("applying", "applied", "checked", "undoing", "undone", "failed")
"""Replies about a change after which an older inventory is no longer that of the host."""
PATCHED_FIELDS = ("name", "operstate", "carrier", "flags", "mtu")
"""Of a link, that a `LinkChange` has, too."""
BEFORE_CHANGE, BEFORE_EVENT = "read before it changed", "read before an event"
BEFORE_LOSS = "read before the connection was lost"
BEFORE_SILENCE = "read before its data stopped"
"""What is said of values of such an inventory, and of one that is older than an event of the host:
what has changed, if anything, is not known before it is read again."""
SINCE_ITS_CHANGE, SINCE_ITS_EVENT = " since its change", " since its last event"
SINCE_ITS_DATA = " since its data stopped"
SINCE_ITS_LOSS = " since the connection was lost"
SINCE_TEXTS = (SINCE_ITS_CHANGE, SINCE_ITS_EVENT, SINCE_ITS_DATA, SINCE_ITS_LOSS)
"""See `since_text`."""
REASONS = {
    "nictop": (BEFORE_CHANGE, SINCE_ITS_CHANGE),
    "connection": (BEFORE_LOSS, SINCE_ITS_LOSS),
    "silence": (BEFORE_SILENCE, SINCE_ITS_DATA),
}
"""Source of an event that is none of the host → what is said of values of before, and behind the
name of the host."""
_INVENTORY_PARTS = tuple(
    part.name for part in fields(Inventory) if part.name not in ("time", "wall", "took", "reason")
)
_ETHTOOL_PARTS = tuple(part.name for part in fields(Ethtool) if part.name != "unreadable")
UNREAD_ETHTOOL = Ethtool(
    unreadable=dict.fromkeys(_ETHTOOL_PARTS, Unreadable("failed", NOT_READ_YET))
)
"""Of a link in a first part of an inventory: its settings are read after it was sent. And of one
that only an event has made known."""
State = Literal["connecting", "live", "lost", "failed"]

SILENT_AFTER_SECONDS = 3.0
"""A host is silent when it has sent nothing for two intervals and these seconds."""

RATED_DRIVERS = ("vmxnet3",)
"""Their rules judge rates of counters that only the driver has (`rules.vmxnet3`): one ioctl a
second for each NIC."""

MAX_TROUBLES = 20
"""Number of stored messages: a probe that reports trouble on every pass does not fill the
memory."""

MIN_VF_INTERVAL_SECONDS = 0.9
"""Minimum seconds between two VF records that rates are computed from: the probe reads them once a
second at most."""

MAX_VF_RATES_AGE_SECONDS = 3.0
"""Seconds after which VF rates are no longer shown without a new VF record."""

ARPHRD_ETHER, ARPHRD_INFINIBAND, ARPHRD_VOID = 1, 32, 0xFFFF
"""`Link.type` of a link that is known only from a LinkChange (linux/if_arp.h: nothing is known)."""
_EVENT_FIELDS = frozenset(("type", "unreadable", *(part.name for part in fields(LinkChange))))
UNREAD_LINK_FIELDS = {
    part.name: Unreadable("failed", NOT_READ_YET)
    for part in fields(Link)
    if part.name not in _EVENT_FIELDS
}
"""`Link.unreadable` of such a link: what a LinkChange does not have."""


@dataclass(frozen=True, eq=False)
class Snapshot:
    """The known state of one host at one time."""

    host: str
    """Name under which the host is watched."""
    state: State
    message: str
    """Why it is not live, or the newest trouble of its probe; "" when there is neither."""
    hello: Hello | None = None
    inventory: Inventory | None = None
    """As received; `links` also has later changes."""
    counters: Counters | None = None
    before: Counters | None = None
    """The previous record, with which `rates` were computed."""
    rates: Rates | None = None
    links: dict[int, Link] = field(default_factory=dict)
    """By ifindex: the inventory's links, with every LinkChange received since the inventory was
    started."""
    pci: tuple[PciFunction, ...] = ()
    inventory_pending: bool = True
    """There is no inventory yet, or links changed after the last one was started."""
    troubles: tuple[Trouble, ...] = ()
    """The newest `MAX_TROUBLES` troubles of this probe, oldest first."""
    changes: dict[int, LinkChange] = field(default_factory=dict)
    """ifindex → the newest change that is not in any inventory yet."""
    departed: dict[int, Link] = field(default_factory=dict)
    """ifindex → a link that is gone by such a change, as it was: an inventory that was begun before
    may have read its device before, and the links after."""
    vf_base: Counters | None = None
    """The record with which the next VF rates are computed."""
    clock: Clock | None = None
    """The newest estimate of its clock offset (see `time_axis`); None: not measured since its
    boot."""
    failed_attempts: FailedAttempts = field(default_factory=dict)
    """Of NetworkManager, to get an address, as far as they were seen."""
    connections: Connections | None = None
    """The newest reading of the connections of a NIC, however old; see
    `model.connections.table.is_current`."""
    listened: dict[int, LldpNeighbour | Unreadable | None] = field(default_factory=dict)
    """ifindex → what was received while listening for LLDP on request; None: nothing until the
    end."""
    recorded_at: float | None = None
    """Wall time of this state of a recording, by the clock of the recording machine; None: of a
    live host."""
    data_age: float | None = None
    """Of a recording: seconds from its newest counters to that time; None: a live host, or they are
    not known."""
    reboots: tuple[RebootTime, ...] = ()
    """Of a state that is reported: when the host was started anew while it was watched or recorded,
    oldest first."""
    event: Outdated | None = None
    """The newest change by nictop, or the newest event after which the host could not be read at
    once."""
    silence: Outdated | None = None
    """At the newest reading of a host from which nothing comes any more; gone with the next line of
    it."""
    other_event: Outdated | None = None
    """The same of those that are not of a link: they may be about everything, and an event of a
    link that came later does not hide them."""
    histories: dict[str, LinkHistory] = field(default_factory=dict)
    """`history_key` → what happened to a netdev in the last hour, as far as it was watched."""
    incomplete: str = ""
    """``no complete answer within 371 s``: it is what was read of a host until a command ended to
    wait; "": all of it was read, or the host is watched."""
    agents: AgentsTold = field(default_factory=dict)
    """What the agents of its guests told when they were asked last; of a guest that is not there:
    its agent was not asked."""
    is_replayed: bool = False
    """It is read from a recording: what its probe was to read next may not be in it."""
    functions_read_at: float | None = None
    """Begin of an inventory of which only the PCI functions are known yet: they are newer than all
    else that was read; None: they are of the inventory."""

    @property
    def is_lost(self) -> bool:
        """Of a live host: the connection to it is lost, or will never be there."""
        return self.recorded_at is None and self.state in ("lost", "failed")

    @property
    def unread_event(self) -> Outdated | None:
        """The event that is newer than the inventory, whose values may be those of before; None:
        there was none."""
        if self.inventory is None:
            return None
        if self.silence is not None:
            return self.silence
        for event in (self.other_event, self.event):
            if event is not None and self.inventory.time < event.time:
                return event
        return None

    @cached_property
    def configuration(self) -> LinkConfiguration | None:
        """Configuration file stanzas by link: computed once for all rows of a table."""
        return None if self.inventory is None else LinkConfiguration(self.inventory)

    @cached_property
    def kernel_log(self) -> KernelLog:
        """The kernel messages of the inventory, by device."""
        if self.inventory is None:
            return NO_MESSAGES
        return KernelLog(
            self.inventory.messages or (),
            self.inventory.links,
            self.inventory.pci,
            only_links=is_other_namespace(self),
            other_names=_names_inside(self.inventory.guests or ()),
        )

    @cached_property
    def switch_ports(self) -> SwitchPorts:
        """Ports of Open vSwitch."""
        known = self.inventory.switch_ports if self.inventory is not None else ()
        return SwitchPorts(known, self.links)

    @cached_property
    def owners(self) -> NicOwners:
        """Whose the NICs are."""
        return NicOwners(self.inventory, self.links, self.pci)

    @cached_property
    def kept(self) -> dict[Any, Any]:
        """For results that rest on no reading: the same object while only readings are new."""
        return {}

    @classmethod
    def empty(cls, host: str) -> Snapshot:
        """The snapshot of a host from which nothing was received."""
        return cls(host=host, state="connecting", message="")


def _names_inside(guests: Iterable[HostedGuest]) -> frozenset[str]:
    """Names of the interfaces in network namespaces of a host."""
    return frozenset(nic.name for guest in guests if guest.kind != "vm" for nic in guest.nics)


def watchable_links(links: Iterable[Link]) -> tuple[int, ...]:
    """ifindexes of links with a device, which may have queue and driver counters: as many as a
    probe accepts to watch, the lowest ones."""
    return tuple(sorted(link.ifindex for link in links if link.device is not None))[
        :MAX_WATCHED_LINKS
    ]


def links_of_rated_drivers(links: Iterable[Link]) -> tuple[int, ...]:
    """ifindexes of the links whose driver's counters rules need while they are watched, as many as
    a probe accepts, the lowest ones."""
    return watchable_links(link for link in links if ethtool_driver(link) in RATED_DRIVERS)


def outdated_text(snapshot: Snapshot, *, brief: bool = False) -> str:
    """``read before an event (NetworkManager)``, `brief`: without what it was about; "": nothing
    newer is known than the inventory."""
    event = snapshot.unread_event
    if event is None:
        return ""
    if event.source in REASONS:
        return REASONS[event.source][0]
    if brief or not event.source:
        return BEFORE_EVENT
    return f"{BEFORE_EVENT} ({event.source})"


def reading_notice(snapshot: Snapshot) -> str:
    """``read again in 8 s: values were read before an event (NetworkManager)``; "" as
    `outdated_text`. What happens is first, as a narrow screen cuts the end. The times are those of
    the newest reading of the host. Of a recording what was to be read later is not announced."""
    event, counters = snapshot.unread_event, snapshot.counters
    if event is None:
        return ""
    what = outdated_text(snapshot)
    if event.source == "silence":
        return what
    values = _gone_text(snapshot) or f"values were {what}"
    is_begun = counters is not None and event.due is not None and event.due <= counters.time
    if snapshot.is_replayed and not is_begun:
        return values
    if counters is None or counters.time < event.time:
        return f"to be read again: {values}"
    return f"{_next_reading_text(event, counters.time, _last_stop(snapshot))}: {values}"


def _gone_text(snapshot: Snapshot) -> str:
    """``ens224 is gone since 15:54:24 UTC, its device is not read yet``; "": no NIC is gone. Not a
    veth or tap, which has no device."""
    gone = [
        (change.time, link.name)
        for ifindex, change in snapshot.changes.items()
        for link in (snapshot.departed.get(ifindex),)
        if change.gone and link is not None and link.device is not None
    ]
    if not gone or snapshot.inventory is None:
        return ""
    time, name = max(gone)
    inventory = snapshot.inventory
    _, _, since = wall_time_text(inventory.wall - inventory.time + time).partition(" ")
    text = f"{name} is gone since {since}"
    if len(gone) > 1:
        return f"{text}, and {len(gone) - 1} more; their devices are not read yet"
    return f"{text}, its device is not read yet"


def _last_stop(snapshot: Snapshot) -> float:
    """When the newest inventory was stopped before it was complete; 0.0: none was."""
    times = [one.time for one in snapshot.troubles if one.about == "inventory"]
    return max(times, default=0.0)


def _next_reading_text(event: Outdated, now: float, stopped: float) -> str:
    """``read again in 8 s``, ``being read again for 3 s``; `stopped`: the time at which an
    attempt to read it was stopped, from which the next one counts."""
    if event.due is None:
        return "to be read again"
    if event.due > now:
        return f"read again in {whole_seconds(max(1.0, event.due - now))}"
    if stopped > event.due:
        passed = whole_seconds(max(0.0, now - stopped))
        return "being read once more" if passed == "0 s" else f"being read once more for {passed}"
    passed = whole_seconds(now - event.due)
    return "being read again" if passed == "0 s" else f"being read again for {passed}"


def is_other_namespace(snapshot: Snapshot) -> bool:
    """It is known not to be the network namespace in which its machine has started: the kernel log
    and the PCI functions are those of the whole machine, its links are not."""
    hello = snapshot.hello
    if hello is None or not hello.network_namespace or not hello.first_namespace:
        return False
    return hello.network_namespace != hello.first_namespace


def is_outage(seconds: float, interval: float) -> bool:
    """Nothing was read for so long although there should be a reading every `interval`."""
    return seconds > outage_seconds(interval)


def outage_seconds(interval: float) -> float:
    return SILENT_AFTER_SECONDS + 2 * interval


def at_recorded_time(
    snapshot: Snapshot, wall: float, age: float | None, reboots: tuple[RebootTime, ...] = ()
) -> Snapshot:
    """The state of a recording at a time (`recorded_at`, `data_age`, `reboots` until then). Old
    rates are no rates of that time: there are none, as of a host that is watched."""
    state = replace(snapshot, recorded_at=wall, data_age=age, reboots=reboots)
    if recorded_age_text(state):
        return replace(with_silence(state), rates=None)
    return replace(state, rates=None) if state.state != "live" else state


def recorded_age_text(snapshot: Snapshot) -> str:
    """``no data for 12 s``: values of a recording that are older than its time; "": they are of
    that time."""
    age = snapshot.data_age
    if age is None:
        return ""
    interval = 1.0 if snapshot.rates is None else snapshot.rates.elapsed
    is_away = snapshot.state != "live" and age >= 1.0
    if not is_away and not is_outage(age, interval):
        return ""
    return f"no data for {whole_seconds(age)}"


def inventory_age(snapshot: Snapshot) -> float | None:
    """Seconds from the beginning of its inventory to the newest counters, by its own clock; None:
    not known."""
    if snapshot.inventory is None or snapshot.counters is None:
        return None
    return max(0.0, snapshot.counters.time - snapshot.inventory.time)


def trouble_text(snapshot: Snapshot, trouble: Trouble, *, since: float = 0.0) -> str:
    """``2 min 5 s earlier: not enough memory for the driver counters``; without a time before the
    first reading. Whether it still holds is not known. `since`: seconds since the newest
    reading."""
    newest = newest_reading(snapshot)
    if newest is None:
        return trouble.message
    age = max(0.0, newest - trouble.time + since)
    return f"{whole_seconds(age)} earlier: {trouble.message}"


def since_text(snapshot: Snapshot) -> str:
    """Behind the name of a host of which nothing newer is known; "" as `outdated_text`."""
    event = snapshot.unread_event
    if event is None:
        return ""
    if event.source in REASONS:
        return REASONS[event.source][1]
    return SINCE_ITS_EVENT


def is_unread_link(link: Link) -> bool:
    """Only an event has made it known: until its inventory has been read, it has a name, a state
    and an MTU, and nothing is known to be absent."""
    return link.type == ARPHRD_VOID


def unread_links(snapshots: Iterable[Snapshot]) -> list[str]:
    """``vm1 ens256`` of each link of which only an event is known: it may have what is missed."""
    names = []
    for snapshot in snapshots:
        for link in snapshot.links.values():
            if is_unread_link(link):
                names.append(f"{snapshot.host} {link.name}")
    return names


def is_read_whole(snapshot: Snapshot) -> bool:
    """No part of its inventory is still being read: what the checks have not found is not there."""
    return snapshot.inventory is not None and not snapshot.inventory.pending


def has_platform(snapshot: Snapshot) -> bool:
    """Rules can be evaluated, and links be compared with those of other hosts: the first part of an
    inventory has only links, not the platform, settings and forwarding tables that say what they
    are connected to."""
    return snapshot.inventory is not None and "platform" not in snapshot.inventory.pending


def with_state(snapshot: Snapshot, state: State, message: str) -> Snapshot:
    """The same snapshot with another connection state; its values stay on the screen while a host
    is lost."""
    return replace(snapshot, state=state, message=message)


def with_silence(snapshot: Snapshot) -> Snapshot:
    """Nothing comes from its host any more: what was read may have changed, and its links, too."""
    newest = newest_reading(snapshot) or 0.0
    return replace(snapshot, silence=Outdated(newest, "silence"))


def newest_reading(snapshot: Snapshot) -> float | None:
    """Its time, on the clock of the host; None: there was none."""
    readings = (snapshot.counters, snapshot.inventory)
    return max((reading.time for reading in readings if reading is not None), default=None)


def advance(before: Snapshot, line: Line) -> Snapshot:
    """The snapshot after one line of the probe; an empty line changes nothing."""
    if before.silence is not None:
        before = replace(before, silence=None)
    if line.counters is not None:
        return _with_counters(before, line.counters)
    if line.link_change is not None:
        return _with_link_change(before, line.link_change)
    if line.inventory is not None:
        return _with_inventory(before, line.inventory)
    if line.hello is not None:
        return _with_hello(before, line.hello)
    if line.clock is not None:
        return replace(before, clock=line.clock)
    if line.connections is not None:
        return replace(before, connections=line.connections)
    if line.traffic is not None and line.traffic.lldp is not None:
        return replace(before, listened=_listened(before, line.traffic.lldp))
    if line.change is not None and line.change.kind in CHANGING:
        return _with_event(before, Outdated(line.change.time, "nictop"))
    if line.outdated is not None:
        return _with_event(before, line.outdated)
    if line.trouble is not None:
        troubles = (*before.troubles, line.trouble)[-MAX_TROUBLES:]
        return replace(before, message=line.trouble.message, troubles=troubles)
    return before


def _with_event(snapshot: Snapshot, event: Outdated) -> Snapshot:
    """The newest events: lines of the executor and of the inventories come from two processes, and
    what did not come from a link is reported some time after it."""
    newest = later_event(snapshot.event, event)
    other = snapshot.other_event
    if event.source != "link":
        other = event if other is None else _wider_event(other, event, snapshot.inventory)
    return _with_same_inventory(snapshot, replace(snapshot, event=newest, other_event=other))


def _wider_event(known: Outdated, event: Outdated, inventory: Inventory | None) -> Outdated:
    """The later one of two; while no inventory is from after either, that which may be about
    more."""
    read_at = -math.inf if inventory is None else inventory.time
    if min(known.time, event.time) <= read_at:
        return later_event(known, event)
    return max(known, event, key=lambda one: (reach_of(one.source), one.time))


def later_event(known: Outdated | None, event: Outdated) -> Outdated:
    return event if known is None or event.time >= known.time else known


def _with_counters(snapshot: Snapshot, new: Counters) -> Snapshot:
    old = snapshot.counters
    clock_ticks = snapshot.hello.clock_ticks if snapshot.hello is not None else 100
    now = rates(old, new, clock_ticks) if old is not None else None
    base = snapshot.vf_base
    age = new.time - base.time if base is not None else 0.0
    functions, ports = {}, {}
    if snapshot.rates is not None and age <= MAX_VF_RATES_AGE_SECONDS:
        functions, ports = snapshot.rates.vfs, snapshot.rates.ports
    has_new = bool(new.vfs or new.ports)
    if has_new and (base is None or age < 0 or age >= MIN_VF_INTERVAL_SECONDS):
        functions, ports = {}, {}
        if base is not None:
            functions, ports = vf_rates(base, new), port_rates(base, new)
        base = new
    if now is not None:
        now = replace(now, vfs=functions, ports=ports)
    after = replace(snapshot, counters=new, before=old, rates=now, vf_base=base)
    after.__dict__["kept"] = snapshot.kept
    return _with_same_inventory(snapshot, after)


def _with_same_inventory(before: Snapshot, after: Snapshot) -> Snapshot:
    """`after` with what was derived from the inventory and the links that both have: counters are
    new every second, and reading the kernel log again would take a third of the time of all
    rules."""
    for name in DERIVED:
        derived = before.__dict__.get(name)
        if derived is not None:
            after.__dict__[name] = derived
    return after


def _with_link_change(snapshot: Snapshot, change: LinkChange) -> Snapshot:
    if change.ifindex not in snapshot.links and len(snapshot.links) >= MAX_LINKS:
        return replace(snapshot, inventory_pending=True)
    links = dict(snapshot.links)
    _patch(links, change)
    changes = {**snapshot.changes, change.ifindex: change}
    if len(changes) > MAX_LINKS:  # the oldest one
        del changes[next(iter(changes))]
    changed = replace(snapshot, links=links, inventory_pending=True, changes=changes)
    known = snapshot.links.get(change.ifindex)
    if change.gone:
        changed = _without_link_counters(changed, change.ifindex)
        if known is not None:
            departed = {**changed.departed, change.ifindex: known}
            histories = with_gone_link(snapshot.histories, known, change.time)
            changed = replace(changed, departed=departed, histories=histories)
    elif known is not None:
        histories = with_change(snapshot.histories, links[change.ifindex], change.time)
        changed = replace(changed, histories=histories)
    if _makes_doubtful(known, change):
        changed = _with_event(changed, Outdated(change.time, "link"))
    return changed


def _makes_doubtful(known: Link | None, change: LinkChange) -> bool:
    """Of a link that came or went the device has another driver, or is another one; one that lost
    its carrier or got it has another profile, and other addresses, soon: what is known of it is of
    before. What was found of a name, state or MTU that it has no more is of before, too."""
    if change.gone or known is None:
        return True
    return any(getattr(known, name) != getattr(change, name) for name in PATCHED_FIELDS)


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
            ethtool=UNREAD_ETHTOOL,
            unreadable=UNREAD_LINK_FIELDS,
        )
    changes = change.carrier_changes
    if _is_operation_changed(known, change):
        _forget_port_states(links, change.ifindex)
        known = links.get(change.ifindex, known)
    links[change.ifindex] = replace(
        known,
        name=change.name,
        flags=change.flags,
        operstate=change.operstate,
        carrier=change.carrier,
        mtu=change.mtu,
        carrier_changes=changes if changes is not None else known.carrier_changes,
    )


def _is_operation_changed(known: Link, change: LinkChange) -> bool:
    """Up or down, or its carrier."""
    before = known.flags & IFF_UP, known.carrier, known.operstate
    return before != (change.flags & IFF_UP, change.carrier, change.operstate)


def _forget_port_states(links: dict[int, Link], ifindex: int) -> None:
    """Of a port of a bridge, or of the ports of a bridge: the kernel changes the STP state with the
    carrier, and tells it in no event of the link (net/bridge/br_if.c br_port_carrier_check,
    br_stp_if.c br_stp_disable_bridge)."""
    for number, link in tuple(links.items()):
        if link.bridge_port is not None and ifindex in (number, link.master):
            links[number] = replace(link, bridge_port=replace(link.bridge_port, state=""))


def _without_link_counters(snapshot: Snapshot, ifindex: int) -> Snapshot:
    """The snapshot without the counters of a link that is gone: another link may get the same
    ifindex."""

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
            ports=_without(counters.ports, ifindex),
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
            ports=_without(now.ports, ifindex),
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


def has_functions_only(inventory: Inventory) -> bool:
    """The first part of an inventory after an event."""
    return "links" in inventory.pending


def _with_functions(snapshot: Snapshot, known: Inventory, part: Inventory) -> Snapshot:
    """With the PCI functions of `part` in the inventory, which stays as old as it is, without the
    interfaces that were gone before they were read."""
    if "pci" in part.unreadable:
        return snapshot
    gone = {
        ifindex
        for ifindex, change in snapshot.changes.items()
        if change.gone and change.time < part.time
    }
    before = {function.address: function for function in known.pci}
    functions = tuple(_with_age_of(before.get(one.address), one) for one in part.pci)
    links = tuple(link for link in known.links if link.ifindex not in gone)
    unreadable = {source: why for source, why in known.unreadable.items() if source != "pci"}
    inventory = replace(known, pci=functions, links=links, unreadable=unreadable)
    departed = {index: link for index, link in snapshot.departed.items() if index not in gone}
    return replace(
        snapshot,
        inventory=with_shared_parts(inventory, known),
        pci=functions,
        departed=departed,
        functions_read_at=part.time,
    )


def _with_age_of(known: PciFunction | None, function: PciFunction) -> PciFunction:
    """Its age is read later."""
    return function if known is None else replace(function, created=known.created)


def _with_inventory(snapshot: Snapshot, inventory: Inventory) -> Snapshot:
    if has_functions_only(inventory) and snapshot.inventory is not None:
        return _with_functions(snapshot, snapshot.inventory, inventory)
    if snapshot.inventory is not None:
        inventory = with_shared_parts(inventory, snapshot.inventory)
    links = {link.ifindex: link for link in inventory.links}
    if "ethtool" in inventory.pending:
        links = {ifindex: replace(link, ethtool=UNREAD_ETHTOOL) for ifindex, link in links.items()}
    newer = {
        ifindex: change
        for ifindex, change in snapshot.changes.items()
        if change.time > inventory.time
    }
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
        departed={index: link for index, link in snapshot.departed.items() if index in newer},
        failed_attempts=failed_attempts.with_inventory(
            snapshot.failed_attempts, snapshot.inventory, inventory
        ),
        histories=with_inventory(snapshot.histories, inventory),
        troubles=_without_solved(snapshot.troubles, inventory),
        functions_read_at=None,
    )


def _without_solved(troubles: tuple[Trouble, ...], inventory: Inventory) -> tuple[Trouble, ...]:
    """Those of earlier inventories are over when one is complete."""
    if inventory.pending:
        return troubles
    return tuple(
        trouble
        for trouble in troubles
        if trouble.about != "inventory" or trouble.time > inventory.time
    )


def with_shared_parts(inventory: Inventory, before: Inventory) -> Inventory:
    """`inventory`, consisting of the objects of the one before where both are equal. The older one
    stays in memory for a while, as it is still drawn or judged; and what was derived of an object
    is found again."""
    shared: dict[str, Any] = {}
    for name in _INVENTORY_PARTS:
        known = getattr(before, name)
        if getattr(inventory, name) == known:
            shared[name] = known
    if "links" not in shared:
        links = {link.ifindex: link for link in before.links}
        shared["links"] = tuple(_same_or(links.get(link.ifindex), link) for link in inventory.links)
    return replace(inventory, **shared)


def _same_or(known: Link | None, link: Link) -> Link:
    return known if known is not None and known == link else link


def _listened(
    snapshot: Snapshot, new: LldpListening
) -> dict[int, LldpNeighbour | Unreadable | None]:
    """`Snapshot.listened` after new frames or the end. A neighbour of before stays if nothing is
    received this time: it may send at longer intervals."""
    found = {
        ifindex: one for ifindex, one in snapshot.listened.items() if ifindex in snapshot.links
    }
    found.update(
        (ifindex, one)
        for ifindex, one in new.heard.items()
        if ifindex in snapshot.links and _is_small(one)
    )
    for ifindex in new.links if new.ended else ():
        if ifindex in snapshot.links and not isinstance(found.get(ifindex), LldpNeighbour):
            found[ifindex] = new.unreadable.get(str(ifindex))
    return found


def _is_small(neighbour: LldpNeighbour) -> bool:
    """Unlike an inventory, such a line was not checked for the length of its texts."""
    texts = [value for value in field_values(neighbour) if isinstance(value, (str, tuple))]
    return all(len(text) <= MAX_TEXT_CHARS for text in texts)


def _without_renumbered(snapshot: Snapshot, inventory: Inventory) -> Snapshot:
    """The snapshot without the counters of interrupt numbers that now belong to another vector
    (``ethtool -L``, driver reload), because the old and new counts cannot be compared."""
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

    def unchanged(mapping: dict[int, T]) -> dict[int, T]:
        return {number: value for number, value in mapping.items() if number not in changed}

    counters, before, rates = snapshot.counters, snapshot.before, snapshot.rates
    if counters is not None:
        counters = replace(counters, interrupts=unchanged(counters.interrupts))
    if before is not None:
        before = replace(before, interrupts=unchanged(before.interrupts))
    if rates is not None:
        rates = replace(rates, interrupts=unchanged(rates.interrupts))
    return replace(snapshot, counters=counters, before=before, rates=rates)


def is_same_machine(one: Snapshot, other: Snapshot) -> bool:
    """Watched twice, under two names: the boot ID is the same."""
    mine, theirs = one.hello, other.hello
    return (
        mine is not None
        and theirs is not None
        and bool(mine.boot_id)
        and mine.boot_id == theirs.boot_id
    )


def is_same_namespace(one: Snapshot, other: Snapshot) -> bool:
    """They have the same links: the same machine, and as far as is known the same network
    namespace of it."""
    if not is_same_machine(one, other):
        return False
    assert one.hello is not None and other.hello is not None
    mine, theirs = one.hello.network_namespace, other.hello.network_namespace
    return 0 in (mine, theirs) or mine == theirs


def _with_hello(snapshot: Snapshot, hello: Hello) -> Snapshot:
    """After a hello: the state is preserved after a restart of the probe, but not after a reboot of
    the host."""
    known = snapshot.hello
    same_boot = known is not None and known.boot_id == hello.boot_id and bool(hello.boot_id)
    if not same_boot or known is None:
        empty = replace(Snapshot.empty(snapshot.host), is_replayed=snapshot.is_replayed)
        return replace(empty, state="live", hello=hello)
    if hello.monotonic <= known.monotonic:  # the same one, as in a recording
        return replace(snapshot, state="live", message="", inventory_pending=True)
    lost = Outdated(hello.monotonic, "connection", due=hello.monotonic)
    # what a probe of before could not do, or the connection to it, says nothing about this one; the
    # offset of the clock does
    clock = snapshot.clock and replace(snapshot.clock, round_trip=None)
    kept = replace(
        snapshot,
        state="live",
        message="",
        hello=hello,
        inventory_pending=True,
        troubles=(),
        clock=clock,
    )
    return _with_event(kept, lost)
