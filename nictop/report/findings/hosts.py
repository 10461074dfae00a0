"""Hosts that were checked, and those that were not, in a line each. Reads nothing."""

from __future__ import annotations

from collections.abc import Sequence

from nictop.model.devices.link_history import history_texts
from nictop.model.facts import clean, platform_text
from nictop.model.reboot import RebootTime, reboots_text
from nictop.model.snapshot import inventory_age, outdated_text, recorded_age_text
from nictop.model.text import units
from nictop.model.text.units import whole_seconds
from nictop.model.text.words import kernel_text, recorded_text
from nictop.model.time_axis import short_event_time_text
from nictop.probe.light_dataclasses import dataclass
from nictop.report.facts.hosts import UnreachableHost
from nictop.rules import HostFacts

NOT_COMPLETE = "not complete"


@dataclass(frozen=True)
class CheckedHost:
    """A host whose data was checked."""

    host: str
    """Name under which it is watched."""
    platform: str
    """``VMware guest · 1 CPU``"""
    kernel: str
    root: bool
    """The probe ran as root; without root some rules are skipped."""
    seconds: float
    """Length of the window of rates that the rules used."""
    recorded_at: float | None = None
    """The time of this state in a recording, seconds since the epoch; null: of a live host."""
    data_age: float | None = None
    """Seconds from its newest counters to that time; null: of a live host, or there are none."""
    before_change: bool = False
    """The host was changed, or had an event, after this state was read."""
    outdated: str = ""
    """``read before an event (NetworkManager)``; empty without such a change or event."""
    incomplete: str = ""
    """``no complete answer within 371 s``: it was checked as far as it was read until then; else
    empty."""
    no_data: str = ""
    """``no data for 12 s``: of a recording, where its values are older than that time; else
    empty."""
    inventory_age: float | None = None
    """Seconds from the beginning of the reading of its interfaces, addresses, managers and settings
    to its newest counters; null: not known."""
    reboots: tuple[RebootTime, ...] = ()
    """While it was watched or recorded, oldest first."""
    link_events: tuple[str, ...] = ()
    """``ens224 made again once``, ``ens256 was gone at 08:01:40 UTC``: what happened to its NICs
    while it was watched."""


def checked_host(host: HostFacts) -> CheckedHost:
    hello = host.snapshot.hello
    kernel, is_root = "", False
    if hello is not None:
        kernel, is_root = hello.kernel, hello.euid == 0
    return CheckedHost(
        host=host.name,
        platform=platform_text(host.inventory.platform),
        kernel=kernel,
        root=is_root,
        seconds=host.elapsed,
        recorded_at=host.snapshot.recorded_at,
        before_change=host.snapshot.unread_event is not None,
        outdated=outdated_text(host.snapshot),
        data_age=host.snapshot.data_age,
        no_data=recorded_age_text(host.snapshot),
        incomplete=host.snapshot.incomplete,
        inventory_age=inventory_age(host.snapshot),
        reboots=host.snapshot.reboots,
        link_events=_link_events(host),
    )


def _link_events(host: HostFacts) -> tuple[str, ...]:
    def time_text(time: float) -> str:
        return f"{short_event_time_text(host.inventory, time)} UTC"

    return history_texts(host.snapshot.histories, host.links, time_text)


def checked_host_text(host: CheckedHost) -> str:
    """``guest · VMware guest · 4 CPUs · Linux 6.12.0 · rates over 3.00 s · not root``"""
    parts = [host.host, host.platform]
    if host.recorded_at is not None:
        parts.insert(1, recorded_text(host.recorded_at, host.no_data))
    if host.reboots:
        parts.insert(len(parts) - 1, reboots_text(host.reboots))
    if host.outdated:
        parts.insert(1, host.outdated)
    if host.incomplete:
        parts.insert(1, f"{NOT_COMPLETE}: {host.incomplete}")
    if host.kernel:
        parts.append(kernel_text(host.kernel))
        if host.kernel.startswith("VMkernel"):
            parts.append("without the checks of Linux hosts")
    if host.seconds:
        parts.append(f"rates over {units.duration(host.seconds)}")
    if host.link_events:
        parts.append(f"while it was watched: {'; '.join(host.link_events)}")
    if not host.root:
        parts.append("not root")
    return " · ".join(clean(part) for part in parts)


def inventory_time_text(hosts: Sequence[HostFacts]) -> str:
    """``settings read 3 s before the last values``: when that was read on which the checks rest;
    of several hosts the oldest. "": not known of any."""
    ages = [age for host in hosts if (age := inventory_age(host.snapshot)) is not None]
    if not ages:
        return ""
    most = "up to " if len(ages) > 1 else ""
    return f"settings read {most}{whole_seconds(max(ages))} before the last values"


def unreachable_host_text(host: UnreachableHost) -> str:
    """``vm3 · not read: 192.0.2.7 port 22: connection timed out``"""
    reason = host.unreachable.removeprefix(f"{host.host}: ")
    return f"{clean(host.host)} · not read: {clean(reason)}"
