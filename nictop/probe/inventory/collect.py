"""Takes the inventory: calls the readers of all sources, and collects their results in one `Inventory`.

A failure concerns its own source only: the reason is in `Inventory.unreadable`, the other sources are read. The
inventory can be passed on in parts before it is complete. Meant to run in a short-lived child of the probe, so that
memory and modules are not kept; a reader is imported when it is called.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from importlib import import_module
from typing import Any, TypeVar

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
MACHINE_SOURCES = ("queues", "qdiscs", "ethtool", "messages", "services", "platform", "settings", "iommu", "forwarding")
MANAGER_SOURCES = ("networkmanager", "networkd", "configuration", "stopped_managers")
"""Sources that are read in a second and a third step, after links, interrupts and threads, which the counters need. The
third step takes longest, and longer if a daemon is slow."""
NOT_READ_YET = "not read yet"
NOTHING_KNOWN = Platform(None, None, None, None, None, None, None, None, None)
READERS = {
    "read_pci": ("pci", "pci.functions"),
    "read_links": ("links", "links.reader"),
    "read_processes": ("processes", "machine.processes"),
    "read_threads": ("threads", "machine.threads"),
    "read_interrupts": ("interrupts", "machine.interrupts"),
    "read_queues": ("queues", "links.queues"),
    "with_qdiscs": ("qdiscs", "links.qdiscs"),
    "read_ethtool": ("ethtool", "ethtool.reader"),
    "read_kernel_messages": ("messages", "machine.kernel_log"),
    "with_ages": ("messages", "machine.message_states"),
    "read_services": ("services", "machine.daemons"),
    "read_platform": ("platform", "machine.platform"),
    "read_settings": ("settings", "machine.sysctl"),
    "read_tables": ("settings", "machine.message_states"),
    "read_iommu": ("iommu", "pci.iommu_groups"),
    "read_forwarding": ("forwarding", "links.forwarding"),
    "read_networkmanager": ("networkmanager", "managers.networkmanager"),
    "read_networkd": ("networkd", "managers.networkd"),
    "read_link_configuration": ("configuration", "configuration.collect"),
    "read_stopped_managers": ("stopped_managers", "managers.stopped"),
}
"""Function → (source, the key of its failure in `Inventory.unreadable`; its module in nictop.probe.inventory)."""


class SourceReader:
    """Calls the functions of `READERS`; failures by source are in `failed`."""

    def __init__(self) -> None:
        self.failed: dict[str, Unreadable] = {}

    def call(self, function: str, otherwise: Result, *arguments: object, **roots: object) -> Result:
        """The result of the function; `otherwise` after an exception, which is recorded."""
        source, module = READERS[function]
        try:
            result: Result = getattr(import_module(f"nictop.probe.inventory.{module}"), function)(*arguments, **roots)
            return result
        except Exception as error:
            self.failed[source] = Unreadable("failed", f"{type(error).__name__}: {error}")
            return otherwise

    def read(self, function: str, otherwise: Result, *arguments: object, **roots: object) -> Result:
        """As `call`, for a function that returns (result, why it is missing or incomplete)."""
        nothing: tuple[Result, Unreadable | None] = (otherwise, None)
        result, trouble = self.call(function, nothing, *arguments, **roots)
        if trouble is not None:
            self.failed[READERS[function][0]] = trouble
        return result

    def read_processes(self, proc: str) -> dict[int, str]:
        """Names of all processes by pid. If some may be missing, threads and services may be missing."""
        nothing: tuple[dict[int, str], Unreadable | None] = ({}, None)
        processes, trouble = self.call("read_processes", nothing, proc)
        if trouble is not None:
            self.failed["threads"] = self.failed["services"] = trouble
        return processes


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
    """The complete inventory. Never raises.

    `reason`: start, request, event or re-scan. `part` is called with an incomplete inventory before the sources in
    `MACHINE_SOURCES` are read, and again before those in `MANAGER_SOURCES`. The other parameters are the roots of the
    file system.
    """
    started, wall, cpu = time.monotonic(), time.time(), time.process_time()
    sources = SourceReader()
    call, read, failed = sources.call, sources.read, sources.failed
    inventory = Inventory(
        time=started, wall=wall, took=0.0, reason=reason, platform=NOTHING_KNOWN, pci=(), links=(), unreadable=failed
    )

    def pass_on(*pending: str) -> None:
        if part is not None:
            unread = {source: Unreadable("failed", NOT_READ_YET) for source in pending}
            took = time.process_time() - cpu
            part(replace(inventory, took=took, unreadable={**failed, **unread}, pending=pending))

    pci: tuple[PciFunction, ...] = read("read_pci", (), sys)
    no_links: tuple[tuple[Link, ...], dict[str, Unreadable]] = ((), {})
    links, failed_sources = call("read_links", no_links, sys)
    failed.update(failed_sources)
    processes = sources.read_processes(proc)
    threads: tuple[Thread, ...] = read("read_threads", (), links, proc, processes)
    interrupts: tuple[Interrupt, ...] = read("read_interrupts", (), links, pci, sys, proc)
    inventory = replace(inventory, pci=pci, links=links, interrupts=interrupts, threads=threads)
    pass_on(*MACHINE_SOURCES, *MANAGER_SOURCES)

    no_ethtool: dict[int, Ethtool] = {}
    complete = read("read_queues", links, links, sys)
    complete = read("with_qdiscs", complete, complete)
    records = read("read_ethtool", no_ethtool, links)
    links = tuple(replace(link, ethtool=records.get(link.ifindex, link.ethtool)) for link in complete)
    addresses = tuple(function.address for function in pci)
    messages: tuple[KernelMessage, ...] | None = read("read_kernel_messages", None, addresses, dev)
    if messages:
        links, pci = call("with_ages", (links, pci), links, pci, messages, run)
    services = call("read_services", Services(), processes, proc)
    runs_machines = any(thread.machine is not None for thread in threads)
    platform = call("read_platform", NOTHING_KNOWN, sys, proc, etc, dev, services=services, runs_machines=runs_machines)
    settings = call("read_settings", Settings(), links, sys, proc)
    if messages:
        settings = replace(settings, tables=call("read_tables", settings.tables, messages, proc))
    iommu: tuple[IommuGroup, ...] = read("read_iommu", (), pci, sys)
    forwarding: tuple[ForwardingEntry, ...] = read("read_forwarding", (), links, pci)
    inventory = replace(
        inventory,
        platform=platform,
        pci=pci,
        links=links,
        services=services,
        settings=settings,
        iommu=iommu,
        forwarding=forwarding,
        messages=messages,
    )
    pass_on(*MANAGER_SOURCES)

    roots: dict[str, Any] = {"etc": etc, "run": run, "usr": usr}
    networkmanager: NetworkManager | None = read("read_networkmanager", None, links, var=var, **roots)
    networkd: dict[int, NetworkdLink] = read("read_networkd", {}, run)
    configuration: tuple[ConfigurationEntry, ...] = read("read_link_configuration", (), var=var, **roots)
    stopped: tuple[StoppedManager, ...] = ()
    if processes:  # otherwise it is not known which managers run
        stopped = read("read_stopped_managers", (), frozenset(processes.values()), **roots)
    return replace(
        inventory,
        networkmanager=networkmanager,
        networkd=networkd,
        configuration=configuration,
        stopped_managers=stopped,
        took=time.process_time() - cpu,
    )
