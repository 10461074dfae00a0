"""The slow pass: everything that changes rarely, gathered into one `Inventory`.

Reads PCI functions, links, ethtool, queues, interrupts, threads and the platform through their own readers. Each source
fails by itself: the others still arrive, and `Inventory.unreadable` says which one is missing and why. Meant to run in
a short-lived child of the probe, so that neither its memory nor what it imports stays; nothing heavy is imported with
this module.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar

from nictop.probe.records import Ethtool, Interrupt, Inventory, Link, PciFunction, Platform, Thread, Unreadable

Result = TypeVar("Result")
NOTHING_KNOWN = Platform(None, None, None, None, None, None, None, None, None)


def take_inventory(reason: str, *, sys: str = "/sys", proc: str = "/proc", etc: str = "/etc") -> Inventory:
    """The whole inventory. `reason` is handed through: start, request, event, re-scan. Never raises."""
    started, wall, cpu = time.monotonic(), time.time(), time.process_time()
    failed: dict[str, Unreadable] = {}
    no_functions: tuple[PciFunction, ...] = ()
    no_links: tuple[Link, ...] = ()
    no_interrupts: tuple[Interrupt, ...] = ()
    no_threads: tuple[Thread, ...] = ()
    pci = guarded("pci", failed, lambda: pci_functions(sys, failed), no_functions)
    links = guarded("links", failed, lambda: complete_links(sys, failed), no_links)
    interrupts = guarded("interrupts", failed, lambda: vectors(links, pci, sys, proc, failed), no_interrupts)
    threads = guarded("threads", failed, lambda: busy_threads(links, proc, failed), no_threads)
    platform = guarded("platform", failed, lambda: machine(sys, proc, etc), NOTHING_KNOWN)
    return Inventory(
        time=started,
        wall=wall,
        took=time.process_time() - cpu,
        reason=reason,
        platform=platform,
        pci=pci,
        links=links,
        interrupts=interrupts,
        threads=threads,
        unreadable=failed,
    )


def guarded(source: str, failed: dict[str, Unreadable], read: Callable[[], Result], otherwise: Result) -> Result:
    """What a source yields. An error that its reader did not foresee ends this source only, and is said."""
    try:
        return read()
    except Exception as error:
        failed[source] = Unreadable("failed", f"{type(error).__name__}: {error}")
        return otherwise


def pci_functions(sys: str, failed: dict[str, Unreadable]) -> tuple[PciFunction, ...]:
    """PCI network functions with their names."""
    from nictop.probe.pci import read_pci

    functions, trouble = read_pci(sys)
    if trouble is not None:
        failed["pci"] = trouble
    return functions


def complete_links(sys: str, failed: dict[str, Unreadable]) -> tuple[Link, ...]:
    """Links with their queues and their ethtool part."""
    from nictop.probe.ethtool import read_ethtool
    from nictop.probe.links import read_links

    links, trouble = read_links(sys)
    failed.update(trouble)

    def with_queues() -> tuple[Link, ...]:
        from nictop.probe.queues import read_queues

        complete, missing = read_queues(links, sys)
        if missing is not None:
            failed["queues"] = missing
        return complete

    def ask() -> dict[int, Ethtool]:
        records, missing = read_ethtool(links)
        if missing is not None:
            failed["ethtool"] = missing
        return records

    nothing: dict[int, Ethtool] = {}
    complete = guarded("queues", failed, with_queues, links)
    records = guarded("ethtool", failed, ask, nothing)
    return tuple(replace(link, ethtool=records.get(link.ifindex, link.ethtool)) for link in complete)


def vectors(
    links: tuple[Link, ...], functions: tuple[PciFunction, ...], sys: str, proc: str, failed: dict[str, Unreadable]
) -> tuple[Interrupt, ...]:
    """Interrupts of all network devices."""
    from nictop.probe.interrupts import read_interrupts

    interrupts, trouble = read_interrupts(links, functions, sys, proc)
    if trouble is not None:
        failed["interrupts"] = trouble
    return interrupts


def busy_threads(links: tuple[Link, ...], proc: str, failed: dict[str, Unreadable]) -> tuple[Thread, ...]:
    """Threads that spend CPU on packets."""
    from nictop.probe.threads import read_threads

    threads, trouble = read_threads(links, proc)
    if trouble is not None:
        failed["threads"] = trouble
    return threads


def machine(sys: str, proc: str, etc: str) -> Platform:
    """The platform."""
    from nictop.probe.platform import read_platform

    return read_platform(sys, proc, etc)
