"""All guests of this host, and the leases of its DHCP servers.

A guest that runs takes the place of its configuration, and gets what only that has: the name of a
container of Proxmox, and the addresses that it is configured to have. What a user may not read is
in the reason, so that "none" is never said of what is not known. Each inventory is taken by a new
process: what this host has none of is not imported.
"""

from __future__ import annotations

import os

from nictop.probe.inventory.configuration.files import Files
from nictop.probe.inventory.guests.values import MONITORS
from nictop.probe.light_dataclasses import replace
from nictop.probe.records import DhcpLease, GuestNic, HostedGuest, Unreadable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from nictop.probe.inventory.collect import InventoryRoots
    from nictop.probe.inventory.guests.reservations import Reservation
    from nictop.probe.inventory.machine.qemu import VirtualMachine
    from nictop.probe.records import Link, PciFunction

MAX_GUESTS = 1024
MAX_NICS_OF_ALL = 4096
LEASE_DIRECTORIES = (
    "lib/libvirt/dnsmasq",
    "lib/incus/networks",
    "lib/lxd/networks",
    "snap/lxd/common/lxd/networks",
    "lib/misc",
    "lib/NetworkManager",
    "lib/dnsmasq",
)
"""Below /var: where `leases` and `reservations` look."""
SDN_DIRECTORY = "dnsmasq.d"
"""Below /etc: where `reservations` looks on a host of Proxmox."""


def read_guests(
    machines: Iterable[VirtualMachine],
    processes: Mapping[int, str],
    links: Sequence[Link],
    functions: Sequence[PciFunction],
    roots: InventoryRoots,
) -> tuple[tuple[HostedGuest, ...], Unreadable | None]:
    """(Guests, running ones first, by name; why some may be missing). Never raises OSError."""
    files = Files()  # of configurations: those of the names of containers have limits of their own
    here = (links, functions, roots)
    running = _virtual_machines(machines, processes, *here)
    containers, trouble = _containers(processes, Files(), *here)
    running += containers
    configured = _configured(files, roots.etc)
    running = with_names(running, configured)
    found = [*running, *without_running(configured, running)]
    found = with_assigned(found, configured, roots) if found else []
    found = with_conditions(found, roots) if found else []
    found.sort(key=lambda guest: (guest.state != "running", guest.name, guest.id))
    trouble = trouble or configuration_trouble(files)
    if len(found) > MAX_GUESTS:
        trouble = Unreadable("failed", f"more than {MAX_GUESTS} guests")
    return tuple(with_limited_nics(found[:MAX_GUESTS])), trouble


def _virtual_machines(
    machines: Iterable[VirtualMachine],
    processes: Mapping[int, str],
    links: Sequence[Link],
    functions: Sequence[PciFunction],
    roots: InventoryRoots,
) -> list[HostedGuest]:
    machines = list(machines)
    if not machines and MONITORS.keys().isdisjoint(processes.values()):
        return []
    from nictop.probe.inventory.guests.virtual_machines import DevicesHere, read_virtual_machines

    here = DevicesHere(links, functions, roots.sys)
    return list(read_virtual_machines(machines, processes, here, roots.proc))


def _containers(
    processes: Mapping[int, str],
    files: Files,
    links: Sequence[Link],
    functions: Sequence[PciFunction],
    roots: InventoryRoots,
) -> tuple[list[HostedGuest], Unreadable | None]:
    from nictop.probe.inventory.guests.namespaces import some_have_ids

    if not some_have_ids():
        return [], None
    from nictop.probe.inventory.guests.containers import read_containers

    return read_containers(processes, links, functions, files, roots)


def _configured(files: Files, etc: str) -> list[HostedGuest]:
    """All that have a configuration, whether they run or not."""
    found: list[HostedGuest] = []
    if os.path.isdir(os.path.join(etc, "libvirt/qemu")):
        from nictop.probe.inventory.guests.stopped_libvirt import read_stopped_domains

        found += read_stopped_domains(files, etc)
    if os.path.isdir(os.path.join(etc, "pve")):
        from nictop.probe.inventory.guests.stopped_proxmox import read_proxmox_guests

        found += read_proxmox_guests(files, etc)
    return found


def with_limited_nics(guests: Iterable[HostedGuest]) -> Iterator[HostedGuest]:
    """The guests with `MAX_NICS_OF_ALL` NICs together: a line of the probe has room for them."""
    left = MAX_NICS_OF_ALL
    for guest in guests:
        left -= len(guest.nics)
        if left >= 0:
            yield guest
        else:
            why = Unreadable("failed", f"more than {MAX_NICS_OF_ALL} NICs of guests")
            yield replace(guest, nics=(), unreadable={**guest.unreadable, "nics": why})


def configuration_trouble(files: Files) -> Unreadable | None:
    """Why stopped guests may be missing: the first file or directory that could not be read."""
    return next(iter(files.unreadable.values()), None)


def without_running(
    configured: Iterable[HostedGuest], running: Iterable[HostedGuest]
) -> list[HostedGuest]:
    """Those that have no process: by UUID or number, or by name where one of both has neither."""
    ids = {(guest.kind, guest.id) for guest in running if guest.id}
    names = {(guest.kind, guest.name) for guest in running}
    nameless = {(guest.kind, guest.name) for guest in running if not guest.id}
    stopped = []
    for guest in configured:
        runs_by_name = (guest.kind, guest.name) in (nameless if guest.id else names)
        if not runs_by_name and (guest.kind, guest.id) not in ids:
            stopped.append(guest)
    return stopped


def with_names(
    running: Iterable[HostedGuest], configured: Iterable[HostedGuest]
) -> list[HostedGuest]:
    """Containers that their cgroup names by a number get the name of their configuration; all get
    their lock of Proxmox."""
    names = {guest.id: guest.name for guest in configured if guest.kind == "container"}
    locks = {(guest.kind, guest.id): guest.lock for guest in configured if guest.lock}
    named = []
    for guest in running:
        lock = locks.get((guest.kind, guest.id), "")
        is_named = guest.product == "lxc" and guest.id in names
        if is_named or lock:
            name = names[guest.id] if is_named else guest.name
            guest = replace(guest, name=name, lock=lock)  # noqa: PLW2901
        named.append(guest)
    return named


def with_assigned(
    guests: list[HostedGuest], configured: Iterable[HostedGuest], roots: InventoryRoots
) -> list[HostedGuest]:
    """With the addresses that the configuration of a running guest gives its NICs, and those that
    DHCP servers of this host reserve for them."""
    known: dict[tuple[str, str, str], GuestNic] = {}
    for guest in configured:
        for nic in guest.nics:
            if nic.assigned and nic.address:
                known[guest.kind, guest.id, nic.address] = nic
    reserved: Mapping[str, Reservation] = {}
    if any(nic.address for guest in guests for nic in guest.nics):
        reserved = _reservations(roots)
    if not known and not reserved:
        return guests
    return [_with_assigned_nics(guest, known, reserved) for guest in guests]


def _reservations(roots: InventoryRoots) -> Mapping[str, Reservation]:
    directories = [os.path.join(roots.var, directory) for directory in LEASE_DIRECTORIES]
    if not any(map(os.path.isdir, (*directories, os.path.join(roots.etc, SDN_DIRECTORY)))):
        return {}
    from nictop.probe.inventory.guests.reservations import read_reservations

    return read_reservations(Files(), roots.var, roots.etc)


def _with_assigned_nics(
    guest: HostedGuest,
    known: Mapping[tuple[str, str, str], GuestNic],
    reserved: Mapping[str, Reservation],
) -> HostedGuest:
    nics = []
    for nic in guest.nics:
        address = nic.address or ""
        configured, reservation = known.get((guest.kind, guest.id, address)), reserved.get(address)
        if nic.assigned:
            nics.append(nic)
        elif configured is not None:
            by = configured.assigned_by
            nics.append(replace(nic, assigned=configured.assigned, assigned_by=by))
        elif reservation is not None:
            by = reservation.source
            nics.append(replace(nic, assigned=reservation.addresses, assigned_by=by))
        else:
            nics.append(nic)
    return replace(guest, nics=tuple(nics))


def with_conditions(guests: list[HostedGuest], roots: InventoryRoots) -> list[HostedGuest]:
    from nictop.probe.inventory.guests import conditions

    return conditions.with_conditions(guests, roots)


def read_dhcp_leases(var: str = "/var") -> tuple[DhcpLease, ...]:
    """Never raises OSError."""
    if not any(os.path.isdir(os.path.join(var, directory)) for directory in LEASE_DIRECTORIES):
        return ()
    from nictop.probe.inventory.guests.leases import read_leases

    return read_leases(Files(), var)
