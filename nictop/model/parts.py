"""Parts of a snapshot, and what stands for one that is not known yet.

Reads nothing. Each function has its own answer for a host whose hello, inventory or counters were
not received: an empty value where nothing is said about it, else None.
"""

from __future__ import annotations

from collections.abc import Mapping

from nictop.model.rates.links import LinkRates
from nictop.model.snapshot import Snapshot
from nictop.probe.records import (
    ForwardingEntry,
    Link,
    ManagedDevice,
    NetworkManager,
    Thread,
    Unreadable,
)


def boot_id(snapshot: Snapshot) -> str | None:
    if snapshot.hello is None:
        return None
    return snapshot.hello.boot_id


def sysctl_values(snapshot: Snapshot) -> Mapping[str, int]:
    """By name: ``net.ipv4.ip_forward``."""
    if snapshot.inventory is None:
        return {}
    return snapshot.inventory.settings.sysctl


def threads_of(snapshot: Snapshot) -> tuple[Thread, ...]:
    if snapshot.inventory is None:
        return ()
    return snapshot.inventory.threads


def forwarding_entries(snapshot: Snapshot) -> tuple[ForwardingEntry, ...]:
    if snapshot.inventory is None:
        return ()
    return snapshot.inventory.forwarding


def unreadable_sources(snapshot: Snapshot) -> Mapping[str, Unreadable]:
    """Source of the inventory → why it could not be read."""
    if snapshot.inventory is None:
        return {}
    return snapshot.inventory.unreadable


def network_manager(snapshot: Snapshot) -> NetworkManager | None:
    if snapshot.inventory is None:
        return None
    return snapshot.inventory.networkmanager


def managed_devices(manager: NetworkManager | None) -> Mapping[int, ManagedDevice]:
    """Devices that NetworkManager knows, by ifindex."""
    if manager is None:
        return {}
    return manager.devices


def rates_of_links(snapshot: Snapshot) -> Mapping[int, LinkRates]:
    """By ifindex."""
    if snapshot.rates is None:
        return {}
    return snapshot.rates.links


def newest_counters(link: Link, snapshot: Snapshot) -> tuple[int, ...] | None:
    """Those of a link (`LINK_COUNTERS`) in the newest record, else in the inventory; None: not
    read."""
    if snapshot.counters is None:
        return link.counters
    return snapshot.counters.links.get(link.ifindex, link.counters)


NO_ANSWER = " did not answer"
"""Behind the name of a service in the reason why it was not read in time."""
STOPPED = "is stopped"
"""End of that reason if its process was stopped (SIGSTOP): it does not answer later either."""


def late_services(snapshot: Snapshot) -> tuple[str, ...]:
    """Names of those that did not answer in time, and that the probe asks again soon: a slow one
    has not failed."""
    if snapshot.inventory is None:
        return ()
    manager = snapshot.inventory.networkmanager
    of_manager = () if manager is None else manager.unreadable.values()
    names = []
    for why in (*snapshot.inventory.unreadable.values(), *of_manager):
        if is_answer_late(why):
            names.append(why.detail.partition(NO_ANSWER)[0].partition(" (")[0])
    return tuple(dict.fromkeys(names))


def is_answer_late(why: Unreadable) -> bool:
    is_unanswered = why.reason == "failed" and NO_ANSWER in why.detail
    return is_unanswered and not why.detail.endswith(STOPPED)
