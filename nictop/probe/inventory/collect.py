"""The slow pass: everything that changes rarely, gathered into one `Inventory`.

Reads PCI functions, links, ethtool, queues, queueing disciplines, interrupts, threads, daemons, settings, forwarding
tables, the kernel's messages, who manages the links and the platform through their own readers. Each source fails by
itself: the others still arrive, and `Inventory.unreadable` says which one is missing and why. What is known can be told
before all is. Meant to run in a short-lived child of the probe, so that neither its memory nor what it imports stays;
nothing heavy is imported with this module.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar

from nictop.probe.records import (
    ConfigurationEntry,
    Ethtool,
    ForwardingEntry,
    Interrupt,
    Inventory,
    IommuGroup,
    KernelMessage,
    Link,
    NetworkdLink,
    NetworkManager,
    PciFunction,
    Platform,
    Services,
    Settings,
    StoppedManager,
    Thread,
    Unreadable,
)

Result = TypeVar("Result")
MACHINE = ("queues", "qdiscs", "ethtool", "messages", "services", "platform", "settings", "iommu", "forwarding")
MANAGERS = ("networkmanager", "networkd", "configuration", "stopped_managers")
"""Sources that are read after links, interrupts and threads, by which it is known what to count; in two steps. The
second takes longest, and longer where a daemon is slow."""
NOT_READ_YET = "not read yet"
NOTHING_KNOWN = Platform(None, None, None, None, None, None, None, None, None)


def take_inventory(
    reason: str,
    *,
    sys: str = "/sys",
    proc: str = "/proc",
    etc: str = "/etc",
    dev: str = "/dev",
    run: str = "/run",
    usr: str = "/usr",
    var: str = "/var",
    part: Callable[[Inventory], None] | None = None,
) -> Inventory:
    """The whole inventory. `reason` is handed through: start, request, event, re-scan. `part` is called with what is
    known when `MACHINE` is about to be read, and again before `MANAGERS` are. Never raises."""
    started, wall, cpu = time.monotonic(), time.time(), time.process_time()
    failed: dict[str, Unreadable] = {}
    inventory = Inventory(
        time=started, wall=wall, took=0.0, reason=reason, platform=NOTHING_KNOWN, pci=(), links=(), unreadable=failed
    )

    def tell(*pending: str) -> None:
        if part is not None:
            unread = {source: Unreadable("failed", NOT_READ_YET) for source in pending}
            took = time.process_time() - cpu
            part(replace(inventory, took=took, unreadable={**failed, **unread}, pending=pending))

    pci: tuple[PciFunction, ...] = guarded("pci", failed, lambda: pci_functions(sys, failed), ())
    plain: tuple[Link, ...] = guarded("links", failed, lambda: plain_links(sys, failed), ())
    processes: dict[int, str] = guarded("processes", failed, lambda: process_names(proc, failed), {})
    threads: tuple[Thread, ...] = guarded("threads", failed, lambda: busy_threads(plain, proc, processes, failed), ())
    interrupts: tuple[Interrupt, ...] = guarded(
        "interrupts", failed, lambda: vectors(plain, pci, sys, proc, failed), ()
    )
    inventory = replace(inventory, pci=pci, links=plain, interrupts=interrupts, threads=threads)
    tell(*MACHINE, *MANAGERS)
    links: tuple[Link, ...] = guarded("links", failed, lambda: complete_links(plain, sys, failed), plain)
    messages = guarded("messages", failed, lambda: kernel_messages(pci, dev, failed), None)
    links, pci = guarded("messages", failed, lambda: with_ages(links, pci, messages, run), (links, pci))
    services = guarded("services", failed, lambda: daemons(proc, processes), Services())
    platform = guarded(
        "platform", failed, lambda: machine(sys, proc, etc, dev=dev, services=services, threads=threads), NOTHING_KNOWN
    )
    inventory = replace(
        inventory,
        platform=platform,
        pci=pci,
        links=links,
        services=services,
        settings=guarded("settings", failed, lambda: kernel_settings(links, messages, sys, proc), Settings()),
        iommu=guarded("iommu", failed, lambda: iommu_groups(pci, sys, failed), ()),
        forwarding=guarded("forwarding", failed, lambda: forwarding_entries(links, pci, failed), ()),
        messages=messages,
    )
    tell(*MANAGERS)
    inventory = replace(
        inventory,
        networkmanager=guarded(
            "networkmanager",
            failed,
            lambda: networkmanager(links, failed, etc=etc, run=run, usr=usr, var=var),
            None,
        ),
        networkd=guarded("networkd", failed, lambda: networkd_links(run, failed), {}),
        configuration=guarded(
            "configuration", failed, lambda: link_configuration(failed, etc=etc, run=run, usr=usr, var=var), ()
        ),
        stopped_managers=guarded(
            "stopped_managers", failed, lambda: stopped_managers(processes, failed, etc=etc, run=run, usr=usr), ()
        ),
    )
    return replace(inventory, took=time.process_time() - cpu)


def guarded(source: str, failed: dict[str, Unreadable], read: Callable[[], Result], otherwise: Result) -> Result:
    """What a source yields. An error that its reader did not foresee ends this source only, and is said."""
    try:
        return read()
    except Exception as error:
        failed[source] = Unreadable("failed", f"{type(error).__name__}: {error}")
        return otherwise


def pci_functions(sys: str, failed: dict[str, Unreadable]) -> tuple[PciFunction, ...]:
    """PCI network functions with their names."""
    from nictop.probe.inventory.pci.functions import read_pci

    functions, trouble = read_pci(sys)
    if trouble is not None:
        failed["pci"] = trouble
    return functions


def plain_links(sys: str, failed: dict[str, Unreadable]) -> tuple[Link, ...]:
    """Links with their addresses and default routes."""
    from nictop.probe.inventory.links.reader import read_links

    links, trouble = read_links(sys)
    failed.update(trouble)
    return links


def complete_links(links: tuple[Link, ...], sys: str, failed: dict[str, Unreadable]) -> tuple[Link, ...]:
    """The same with their queues, queueing disciplines and ethtool part."""

    def with_queues() -> tuple[Link, ...]:
        from nictop.probe.inventory.links.queues import read_queues

        complete, missing = read_queues(links, sys)
        if missing is not None:
            failed["queues"] = missing
        return complete

    def ask() -> dict[int, Ethtool]:
        from nictop.probe.inventory.ethtool.reader import read_ethtool

        records, missing = read_ethtool(links)
        if missing is not None:
            failed["ethtool"] = missing
        return records

    def with_traffic_control() -> tuple[Link, ...]:
        from nictop.probe.inventory.links.qdiscs import with_qdiscs

        complete, missing = with_qdiscs(with_their_queues)
        if missing is not None:
            failed["qdiscs"] = missing
        return complete

    nothing: dict[int, Ethtool] = {}
    with_their_queues = guarded("queues", failed, with_queues, links)
    complete = guarded("qdiscs", failed, with_traffic_control, with_their_queues)
    records = guarded("ethtool", failed, ask, nothing)
    return tuple(replace(link, ethtool=records.get(link.ifindex, link.ethtool)) for link in complete)


def vectors(
    links: tuple[Link, ...], functions: tuple[PciFunction, ...], sys: str, proc: str, failed: dict[str, Unreadable]
) -> tuple[Interrupt, ...]:
    """Interrupts of all network devices."""
    from nictop.probe.inventory.machine.interrupts import read_interrupts

    interrupts, trouble = read_interrupts(links, functions, sys, proc)
    if trouble is not None:
        failed["interrupts"] = trouble
    return interrupts


def networkmanager(links: tuple[Link, ...], failed: dict[str, Unreadable], **roots: str) -> NetworkManager | None:
    """NetworkManager's devices and profiles. `roots`: etc, run, usr, var."""
    from nictop.probe.inventory.managers.networkmanager import read_networkmanager

    found, trouble = read_networkmanager(links, **roots)
    if trouble is not None:
        failed["networkmanager"] = trouble
    return found


def networkd_links(run: str, failed: dict[str, Unreadable]) -> dict[int, NetworkdLink]:
    """What systemd-networkd says about links."""
    from nictop.probe.inventory.managers.networkd import read_networkd

    links, trouble = read_networkd(run)
    if trouble is not None:
        failed["networkd"] = trouble
    return links


def link_configuration(failed: dict[str, Unreadable], **roots: str) -> tuple[ConfigurationEntry, ...]:
    """What configuration files say about links. `roots`: etc, run, usr, var."""
    from nictop.probe.inventory.configuration.collect import read_link_configuration

    entries, trouble = read_link_configuration(**roots)
    if trouble is not None:
        failed["configuration"] = trouble
    return entries


def process_names(proc: str, failed: dict[str, Unreadable]) -> dict[int, str]:
    """Names of all processes by pid. What is wrong with them is wrong with threads and daemons, too."""
    from nictop.probe.inventory.machine.processes import read_processes

    processes, trouble = read_processes(proc)
    if trouble is not None:
        failed["threads"] = failed["services"] = trouble
    return processes


def busy_threads(
    links: tuple[Link, ...], proc: str, processes: dict[int, str], failed: dict[str, Unreadable]
) -> tuple[Thread, ...]:
    """Threads that spend CPU on packets."""
    from nictop.probe.inventory.machine.threads import read_threads

    threads, trouble = read_threads(links, proc, processes)
    if trouble is not None:
        failed["threads"] = trouble
    return threads


def daemons(proc: str, processes: dict[int, str]) -> Services:
    """Daemons that have a say about NICs."""
    from nictop.probe.inventory.machine.daemons import read_services

    return read_services(processes, proc)


def stopped_managers(
    processes: dict[int, str], failed: dict[str, Unreadable], **roots: str
) -> tuple[StoppedManager, ...]:
    """Managers of networks that are installed and do not run; none where no process could be seen. `roots`: etc, run,
    usr."""
    if not processes:
        return ()
    from nictop.probe.inventory.managers.stopped import read_stopped_managers

    found, trouble = read_stopped_managers(frozenset(processes.values()), **roots)
    if trouble is not None:
        failed["stopped_managers"] = trouble
    return found


def machine(sys: str, proc: str, etc: str, *, dev: str, services: Services, threads: tuple[Thread, ...]) -> Platform:
    """The platform; threads of virtual machines tell that it runs some."""
    from nictop.probe.inventory.machine.platform import read_platform

    runs_machines = any(thread.machine is not None for thread in threads)
    return read_platform(sys, proc, etc, dev, services=services, runs_machines=runs_machines)


def kernel_settings(
    links: tuple[Link, ...], messages: tuple[KernelMessage, ...] | None, sys: str, proc: str
) -> Settings:
    """Kernel settings around networking, and how full the tables are that the kernel called full."""
    from nictop.probe.inventory.machine.sysctl import read_settings

    settings = read_settings(links, sys, proc)
    if not messages:
        return settings
    from nictop.probe.inventory.machine.message_states import read_tables

    return replace(settings, tables=read_tables(messages, proc))


def iommu_groups(functions: tuple[PciFunction, ...], sys: str, failed: dict[str, Unreadable]) -> tuple[IommuGroup, ...]:
    """IOMMU groups of the network functions."""
    from nictop.probe.inventory.pci.iommu_groups import read_iommu

    groups, trouble = read_iommu(functions, sys)
    if trouble is not None:
        failed["iommu"] = trouble
    return groups


def forwarding_entries(
    links: tuple[Link, ...], functions: tuple[PciFunction, ...], failed: dict[str, Unreadable]
) -> tuple[ForwardingEntry, ...]:
    """Forwarding tables of physical functions and ports of bridges."""
    from nictop.probe.inventory.links.forwarding import read_forwarding

    entries, trouble = read_forwarding(links, functions)
    if trouble is not None:
        failed["forwarding"] = trouble
    return entries


def kernel_messages(
    functions: tuple[PciFunction, ...], dev: str, failed: dict[str, Unreadable]
) -> tuple[KernelMessage, ...] | None:
    """What the kernel has complained about on behalf of NICs."""
    from nictop.probe.inventory.machine.kernel_log import read_kernel_messages

    messages, trouble = read_kernel_messages((function.address for function in functions), dev)
    if trouble is not None:
        failed["messages"] = trouble
    return messages


def with_ages(
    links: tuple[Link, ...], functions: tuple[PciFunction, ...], messages: tuple[KernelMessage, ...] | None, run: str
) -> tuple[tuple[Link, ...], tuple[PciFunction, ...]]:
    """Links and functions with the time since which they exist, where the kernel complained of anything."""
    if not messages:
        return links, functions
    from nictop.probe.inventory.machine.message_states import with_ages as aged

    return aged(links, functions, messages, run)
