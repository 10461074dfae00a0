"""Parts of a snapshot that were not received have an empty value, or are None."""

from __future__ import annotations

from dataclasses import replace

from nictop.model.parts import (
    boot_id,
    forwarding_entries,
    managed_devices,
    network_manager,
    newest_counters,
    rates_of_links,
    sysctl_values,
    threads_of,
    unreadable_sources,
)
from nictop.model.snapshot import Snapshot
from nictop.probe.records import Unreadable
from tests.model.hosts import HELLO, LINKS, live_host


def test_of_a_host_that_has_sent_nothing() -> None:
    nothing = Snapshot.empty("vm1")
    assert boot_id(nothing) is None
    assert network_manager(nothing) is None
    assert managed_devices(None) == {}
    assert (sysctl_values(nothing), unreadable_sources(nothing)) == ({}, {})
    assert (threads_of(nothing), forwarding_entries(nothing)) == ((), ())
    assert rates_of_links(nothing) == {}


def test_of_a_host_that_is_read() -> None:
    host = live_host()
    rates = host.rates
    assert host.inventory is not None and rates is not None
    why = {"routes": Unreadable("failed", "changed")}
    host = replace(host, inventory=replace(host.inventory, unreadable=why))
    assert boot_id(host) == HELLO.boot_id
    assert unreadable_sources(host) == why
    assert rates_of_links(host) is rates.links


def test_newest_counters_are_those_of_the_last_record() -> None:
    host = live_host()
    assert host.counters is not None
    link = replace(LINKS[0], counters=(1, 2, 3, 4))
    assert newest_counters(link, host) == host.counters.links[link.ifindex]
    unknown = replace(link, ifindex=99)
    assert newest_counters(unknown, host) == (1, 2, 3, 4)
    assert newest_counters(link, Snapshot.empty("vm1")) == (1, 2, 3, 4)
    assert newest_counters(replace(unknown, counters=None), host) is None
