"""Takes the inventory: calls the readers of all sources, and collects their results in one
`Inventory`.

A failure concerns its own source only: the reason is in `Inventory.unreadable`, the other sources
are read. The inventory can be passed on in parts before it is complete. Meant to run in a
short-lived child of the probe, so that memory is not kept; a reader is imported when it is called.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from importlib import import_module
from typing import TypeVar

from nictop.probe.light_dataclasses import dataclass, replace
from nictop.probe.records import (
    ConfigurationEntry,
    DevlinkDevice,
    DhcpLease,
    Ethtool,
    ForwardingEntry,
    HostedGuest,
    Interrupt,
    Inventory,
    IommuGroup,
    KernelMessage,
    Link,
    LldpNeighbour,
    NetworkdLink,
    NetworkManager,
    PacketFilters,
    Platform,
    Routing,
    Services,
    Settings,
    StoppedManager,
    SwitchPort,
    Thread,
    Unreadable,
)
from nictop.probe.records.unreadable import NOT_READ_YET
from nictop.probe.restriction import read_restriction

TYPE_CHECKING = False
if TYPE_CHECKING:
    from nictop.probe.inventory.machine.qemu import VirtualMachine

Result = TypeVar("Result")
COUNTED_SOURCES = ("links", "processes", "threads", "interrupts")
"""Sources of the first step that are read after the PCI functions."""
MACHINE_SOURCES = (
    *(
        "queues",
        "qdiscs",
        "bridge_vlans",
        "switch_ports",
        "bonds",
        "teams",
        "ethtool",
        "messages",
        "services",
        "platform",
        "settings",
    ),
    *("iommu", "forwarding", "devlink", "routing", "filters"),
)
MANAGER_SOURCES = (
    "networkmanager",
    "networkd",
    "configuration",
    "stopped_managers",
    "lldp",
    "guests",
)
"""Sources that are read in a second and a third step, after links, interrupts and threads, which
the counters need. The third step takes longest, and longer if a daemon is slow."""
NOTHING_KNOWN = Platform(None, None, None, None, None, None, None, None, None)
READERS = {
    "read_pci": ("pci", "pci.functions"),
    "read_links": ("links", "links.reader"),
    "read_processes": ("processes", "machine.processes"),
    "read_running_machines": ("threads", "machine.qemu"),
    "read_threads": ("threads", "machine.threads"),
    "read_interrupts": ("interrupts", "machine.interrupts"),
    "read_queues": ("queues", "links.queues"),
    "with_udev_names": ("links", "links.udev_names"),
    "with_qdiscs": ("qdiscs", "links.qdiscs"),
    "with_bridge_vlans": ("bridge_vlans", "links.bridge_vlans"),
    "read_switch_ports": ("switch_ports", "links.openvswitch"),
    "with_bond_details": ("bonds", "links.bonds"),
    "with_teams": ("teams", "links.teams"),
    "read_ethtool": ("ethtool", "ethtool.reader"),
    "read_kernel_messages": ("messages", "machine.kernel_log"),
    "with_ages": ("messages", "machine.message_states"),
    "read_services": ("services", "machine.daemons"),
    "read_platform": ("platform", "machine.platform"),
    "read_settings": ("settings", "machine.sysctl"),
    "read_tables": ("settings", "machine.message_states"),
    "read_iommu": ("iommu", "pci.iommu_groups"),
    "read_forwarding": ("forwarding", "links.forwarding"),
    "read_devlink": ("devlink", "pci.devlink"),
    "read_routing": ("routing", "routing.reader"),
    "read_filters": ("filters", "filters.reader"),
    "read_lldp": ("lldp", "lldp.daemons"),
    "read_networkmanager": ("networkmanager", "managers.networkmanager"),
    "read_networkd": ("networkd", "managers.networkd"),
    "read_link_configuration": ("configuration", "configuration.collect"),
    "read_stopped_managers": ("stopped_managers", "managers.stopped"),
    "read_guests": ("guests", "guests.reader"),
    "read_dhcp_leases": ("guests", "guests.reader"),
}
"""Function → (source, the key of its failure in `Inventory.unreadable`; its module in
nictop.probe.inventory)."""


class SourceReader:
    """Calls the functions of `READERS`; failures by source are in `failed`."""

    def __init__(self) -> None:
        self.failed: dict[str, Unreadable] = {}

    def call(self, function: str, otherwise: Result, *arguments: object, **roots: object) -> Result:
        """The result of the function; `otherwise` after an exception, which is recorded."""
        source, module = READERS[function]
        try:
            result: Result = getattr(import_module(f"nictop.probe.inventory.{module}"), function)(
                *arguments, **roots
            )
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
        """Names of all processes by pid. If some may be missing, threads, services and guests may
        be missing."""
        nothing: tuple[dict[int, str], Unreadable | None] = ({}, None)
        processes, trouble = self.call("read_processes", nothing, proc)
        if trouble is not None:
            for source in ("threads", "services", "guests"):
                self.failed[source] = trouble
        return processes


class HostProcesses:
    """What several readers need of the processes."""

    def __init__(self, names: dict[int, str]) -> None:
        self.names = names
        """pid → comm."""
        self.machines: list[VirtualMachine] = []
        """QEMU processes; read in the first step."""


@dataclass(frozen=True)
class InventoryRoots:
    """Directories that the inventory is read from."""

    sys: str
    proc: str
    etc: str
    dev: str
    run: str
    usr: str
    var: str


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
    started: float | None = None,
    part: Callable[[Inventory], None] | None = None,
) -> Inventory:
    """The complete inventory. Never raises.

    `reason`: start, request, event or re-scan. `part` is called with an incomplete inventory before
    the sources in `MACHINE_SOURCES` are read, and again before those in `MANAGER_SOURCES`; after an
    event once, as soon as the PCI functions and their drivers are read.
    `started`: its time (CLOCK_MONOTONIC; None: now). On a host without free CPU a process begins to
    read seconds after its start, and an event in between counts as not read. The other parameters
    are the roots of the file system.
    """
    now, wall, cpu = time.monotonic(), time.time(), time.process_time()
    started = now if started is None else started
    sources, roots = SourceReader(), InventoryRoots(sys, proc, etc, dev, run, usr, var)
    inventory = Inventory(
        time=started,
        wall=wall - (now - started),
        took=0.0,
        reason=reason,
        platform=NOTHING_KNOWN,
        pci=(),
        links=(),
        unreadable=sources.failed,
        restriction=read_restriction(),
    )

    def pass_on(*pending: str) -> None:
        if part is not None:
            unread = {source: Unreadable("failed", NOT_READ_YET) for source in pending}
            took = time.process_time() - cpu
            part(
                replace(
                    inventory, took=took, unreadable={**sources.failed, **unread}, pending=pending
                )
            )

    is_after_event = reason == "event"
    inventory = replace(inventory, pci=sources.read("read_pci", (), roots.sys))
    if is_after_event:
        pass_on(*COUNTED_SOURCES, *MACHINE_SOURCES, *MANAGER_SOURCES)
    processes = HostProcesses(sources.read_processes(proc))
    inventory = add_counted_devices(inventory, sources, roots, processes)
    if not is_after_event:
        pass_on(*MACHINE_SOURCES, *MANAGER_SOURCES)
    inventory = add_settings(inventory, sources, roots, processes)
    if not is_after_event:
        pass_on(*MANAGER_SOURCES)
    inventory = add_managers(inventory, sources, roots, processes)
    return replace(inventory, took=time.process_time() - cpu)


def add_counted_devices(
    inventory: Inventory, sources: SourceReader, roots: InventoryRoots, processes: HostProcesses
) -> Inventory:
    """First step, after the PCI functions: links, threads and interrupts, which the counters
    need."""
    no_links: tuple[tuple[Link, ...], dict[str, Unreadable]] = ((), {})
    links, failed = sources.call("read_links", no_links, roots.sys)
    sources.failed.update(failed)
    processes.machines = sources.call(
        "read_running_machines", processes.machines, processes.names, links, roots.proc
    )
    threads: tuple[Thread, ...] = sources.read(
        "read_threads", (), links, roots.proc, processes.names, processes.machines
    )
    interrupts: tuple[Interrupt, ...] = sources.read(
        "read_interrupts", (), links, inventory.pci, roots.sys, roots.proc
    )
    return replace(inventory, links=links, interrupts=interrupts, threads=threads)


def add_settings(
    inventory: Inventory, sources: SourceReader, roots: InventoryRoots, processes: HostProcesses
) -> Inventory:
    """Second step (`MACHINE_SOURCES`): settings of links, of the kernel and of the machine."""
    sys, proc = roots.sys, roots.proc
    pci, links = inventory.pci, _links_with_settings(inventory.links, sources, sys, proc)
    addresses = {function.address for function in pci} | {
        function.parent for function in pci if function.parent
    }
    switch_ports: tuple[SwitchPort, ...] = ()
    if _may_have_open_vswitch(links, roots.run):
        switch_ports = sources.read("read_switch_ports", (), roots.run, roots.etc)
    messages: tuple[KernelMessage, ...] | None = sources.read(
        "read_kernel_messages", None, addresses, roots.dev
    )
    if messages:
        links, pci = sources.call("with_ages", (links, pci), links, pci, messages, roots.run, proc)
    links = sources.call("with_udev_names", links, links, roots.run)
    services = sources.call("read_services", Services(), processes.names, proc)
    machine = {
        "services": services,
        "runs_machines": any(one.machine is not None for one in inventory.threads),
    }
    platform = sources.call(
        "read_platform", NOTHING_KNOWN, sys, proc, roots.etc, roots.dev, **machine
    )
    settings = sources.call("read_settings", Settings(), links, sys, proc)
    settings = replace(
        settings, tables=sources.call("read_tables", settings.tables, messages or (), proc)
    )
    iommu: tuple[IommuGroup, ...] = sources.read("read_iommu", (), pci, sys)
    forwarding: tuple[ForwardingEntry, ...] = sources.read("read_forwarding", (), links, pci)
    devlink: tuple[DevlinkDevice, ...] = sources.read("read_devlink", ())
    no_routing: Routing | None = None
    routing = sources.call("read_routing", no_routing, roots.etc, roots.run)
    filters: PacketFilters = sources.read("read_filters", PacketFilters(), links, sys, proc)
    return replace(
        inventory,
        platform=platform,
        pci=pci,
        links=links,
        services=services,
        settings=settings,
        iommu=iommu,
        forwarding=forwarding,
        messages=messages,
        devlink=devlink,
        routing=routing,
        filters=filters,
        switch_ports=switch_ports,
    )


def _may_have_open_vswitch(links: tuple[Link, ...], run: str) -> bool:
    """Its datapath in the kernel has a link; one in user space has none."""
    has_datapath = any(link.kind == "openvswitch" for link in links)
    return has_datapath or os.path.lexists(os.path.join(run, "openvswitch/db.sock"))


def _links_with_settings(
    links: tuple[Link, ...], sources: SourceReader, sys: str, proc: str
) -> tuple[Link, ...]:
    """The links with queues, qdiscs, VLANs of bridges, details of bonds and teams, and what ethtool
    shows."""
    no_ethtool: dict[int, Ethtool] = {}
    complete = sources.read("read_queues", links, links, sys)
    complete = sources.read("with_qdiscs", complete, complete)
    complete = sources.read("with_bridge_vlans", complete, complete)
    complete = sources.read("with_bond_details", complete, complete, proc)
    complete = sources.read("with_teams", complete, complete)
    records = sources.read("read_ethtool", no_ethtool, links)
    return tuple(
        replace(link, ethtool=records.get(link.ifindex, link.ethtool)) for link in complete
    )


def add_managers(
    inventory: Inventory, sources: SourceReader, roots: InventoryRoots, processes: HostProcesses
) -> Inventory:
    """Third step (`MANAGER_SOURCES`): network managers and their configuration files, daemons of
    LLDP, and guests."""
    files = {"etc": roots.etc, "run": roots.run, "usr": roots.usr}
    networkmanager: NetworkManager | None = sources.read(
        "read_networkmanager", None, inventory.links, var=roots.var, **files
    )
    networkd: dict[int, NetworkdLink] = sources.read("read_networkd", {}, roots.run)
    configuration: tuple[ConfigurationEntry, ...] = sources.read(
        "read_link_configuration", (), var=roots.var, **files
    )
    stopped: tuple[StoppedManager, ...] = ()
    if processes.names:  # otherwise it is not known which managers run
        stopped = sources.read(
            "read_stopped_managers", (), frozenset(processes.names.values()), **files
        )
    lldp: dict[int, tuple[LldpNeighbour, ...]] = {}
    if inventory.services.lldpd is not None or inventory.services.networkd is not None:
        lldp = sources.read("read_lldp", lldp, inventory.links, inventory.services, roots.run)
    guests, leases = _guests(inventory, sources, roots, processes)
    return replace(
        inventory,
        guests=guests,
        leases=leases,
        networkmanager=networkmanager,
        networkd=networkd,
        configuration=configuration,
        stopped_managers=stopped,
        lldp=lldp,
    )


def _guests(
    inventory: Inventory, sources: SourceReader, roots: InventoryRoots, processes: HostProcesses
) -> tuple[tuple[HostedGuest, ...], tuple[DhcpLease, ...]]:
    """Guests, and addresses that were given to them."""
    guests: tuple[HostedGuest, ...] = sources.read(
        "read_guests",
        (),
        processes.machines,
        processes.names,
        inventory.links,
        inventory.pci,
        roots,
    )
    leases: tuple[DhcpLease, ...] = sources.call("read_dhcp_leases", (), roots.var)
    return guests, leases
