"""Configurations of Proxmox's virtual machines and containers → `HostedGuest`.

Reads /etc/pve/qemu-server/N.conf (qm.conf(5): ``net0: virtio=MAC,bridge=vmbr0,tag=30,queues=4``,
``hostpci0: 0000:01:10.2,pcie=1``, ``ipconfig0: ip=192.0.2.7/24,gw=192.0.2.1`` of net0 by
cloud-init) and /etc/pve/lxc/N.conf (pct.conf(5): ``net0:
name=eth0,bridge=vmbr0,hwaddr=MAC,ip=192.0.2.7/24``) of this node. What follows the first section
(``[snapshot]``) is of a snapshot, and not read. Only root may read the directories.
"""

from __future__ import annotations

import os
import re

from nictop.probe.inventory.guests.qemu_command import (
    MAX_NICS,
    full_address,
    options,
)
from nictop.probe.inventory.guests.values import mac_or_none, small_number
from nictop.probe.kernel.patterns import pattern
from nictop.probe.kernel.sysfs import printable_path
from nictop.probe.light_dataclasses import replace
from nictop.probe.records import GuestNic, HostedGuest

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from nictop.probe.inventory.configuration.files import Files

FILE_NAME = pattern(r"[0-9]{1,10}\.conf", re.ASCII)
NIC_KEY = pattern(r"net[0-9]{1,2}", re.ASCII)
FUNCTION_KEY = pattern(r"hostpci[0-9]{1,2}", re.ASCII)
CLOUD_INIT_DRIVE = pattern(r"[^,]*[:/](?:vm-[0-9]+-)?cloudinit(?:\.[a-z0-9]+)?(?:,.*)?", re.ASCII)
"""Drive that hands ``ipconfig0`` to the guest (qemu-server, PVE/QemuServer/Drive.pm,
drive_is_cloudinit)."""
DRIVE_KEY = pattern(r"(?:ide|sata|scsi|virtio)[0-9]{1,2}", re.ASCII)
WHOLE_DEVICE = pattern(r"(?:[0-9a-f]{4,8}:)?[0-9a-f]{1,2}:[0-9a-f]{1,2}", re.ASCII | re.IGNORECASE)
MAX_GUESTS_OF_KIND = 512
MAX_ADDRESS_CHARS = 64
MAX_NAME_CHARS, MAX_LOCK_CHARS = 128, 32


def read_proxmox_guests(files: Files, etc: str) -> Iterator[HostedGuest]:
    """All that have a configuration on this node; the caller leaves out those that run."""
    for directory, kind in (("qemu-server", "vm"), ("lxc", "container")):
        paths = [
            path
            for path in files.listed(os.path.join(etc, "pve", directory), ".conf")
            if FILE_NAME.fullmatch(os.path.basename(path))
        ]
        for path in paths[:MAX_GUESTS_OF_KIND]:
            text = files.text(path)
            number = os.path.basename(path)[: -len(".conf")]
            if text and kind == "vm":
                yield machine_guest(settings(text), number, printable_path(path))
            elif text:
                yield container_guest(settings(text), number, printable_path(path))


def settings(text: str) -> dict[str, str]:
    """Key → value of the lines before the first section; the first of a key counts."""
    found: dict[str, str] = {}
    for line in text.split("\n"):
        if line.startswith("["):
            break
        key, separator, value = line.partition(":")
        if separator and not line.startswith("#"):
            found.setdefault(key.strip(), value.strip())
    return found


def machine_guest(found: dict[str, str], number: str, source: str) -> HostedGuest:
    passes = passes_addresses(found)
    nics = []
    for key in sorted(found):
        if NIC_KEY.fullmatch(key):
            nic = machine_nic(key, found[key])
            nics.append(with_ipconfig(nic, found, source) if passes else nic)
    for key in sorted(found):
        if FUNCTION_KEY.fullmatch(key):
            for address in given_addresses(found[key]):
                nics.append(GuestNic(key, model="vfio-pci", backend="vfio", pci_address=address))
    cores = small_number(found.get("cores", "1")) or 1
    sockets = small_number(found.get("sockets", "1")) or 1
    return HostedGuest(
        name=(found.get("name") or number)[:MAX_NAME_CHARS],
        kind="vm",
        product="qemu",
        state="stopped",
        id=number,
        vcpus=small_number(found.get("vcpus", "")) or cores * sockets,
        nics=tuple(nics[:MAX_NICS]),
        source=source,
        lock=lock_of(found),
    )


def passes_addresses(found: dict[str, str]) -> bool:
    """Without one the guest gets no address; nor with a network file of its own (qm(1),
    cicustom), which replaces ``ipconfigN``."""
    if "network" in options(found.get("cicustom", ""), "user"):
        return False
    for key, value in found.items():
        if DRIVE_KEY.fullmatch(key) and CLOUD_INIT_DRIVE.fullmatch(value):
            return True
    return False


def with_ipconfig(nic: GuestNic, found: dict[str, str], source: str) -> GuestNic:
    """With the addresses of the line ``ipconfigN`` of its number."""
    key = f"ipconfig{nic.name[len('net') :]}"
    addresses = static_addresses(options(found.get(key, ""), "ip"))
    if not addresses:
        return nic
    return replace(nic, assigned=addresses, assigned_by=f"{key} in {source}")


def static_addresses(given: dict[str, str]) -> tuple[str, ...]:
    """``192.0.2.7/24`` of ip and ip6; not dhcp, auto and manual."""
    values = (given.get(key, "") for key in ("ip", "ip6"))
    return tuple(text[:MAX_ADDRESS_CHARS] for text in values if "/" in text)


def lock_of(found: dict[str, str]) -> str:
    """``backup``, ``migrate``, ``suspended``, …"""
    return found.get("lock", "")[:MAX_LOCK_CHARS]


def machine_nic(key: str, value: str) -> GuestNic:
    """``virtio=BC:24:11:…,bridge=vmbr0``, or ``model=virtio,macaddr=…``."""
    given = options(value, "model")
    model, _, address = value.partition(",")[0].partition("=")
    if model == "model":
        model, address = address, given.get("macaddr", "")
    is_virtio = model == "virtio"
    return GuestNic(
        name=key,
        model=model or None,
        backend="tap" if given.get("bridge") else "user",
        address=mac_or_none(address or given.get("macaddr", "")),
        target=given.get("bridge", ""),
        vlan=small_number(given.get("tag", "")),
        mtu=small_number(given.get("mtu", "")),
        queues=small_number(given.get("queues", "")) or 1,
        vhost=True if is_virtio and given.get("bridge") else None,
    )


def given_addresses(value: str) -> Iterator[str]:
    """``0000:01:10.2,pcie=1``, ``host=01:10.2;01:10.3``; all functions of a device without one are
    not known here."""
    given = options(value, "host")
    for text in given.get("host", "").split(";")[:MAX_NICS]:
        whole = f"{text}.0" if WHOLE_DEVICE.fullmatch(text) else text
        address = full_address(whole)
        if address is not None:
            yield address


def container_guest(found: dict[str, str], number: str, source: str) -> HostedGuest:
    keys = [key for key in sorted(found) if NIC_KEY.fullmatch(key)]
    nics = [container_nic(found[key], f"{key} in {source}") for key in keys]
    return HostedGuest(
        name=(found.get("hostname") or number)[:MAX_NAME_CHARS],
        kind="container",
        product="lxc",
        state="stopped",
        id=number,
        nics=tuple(nics[:MAX_NICS]),
        source=source,
        lock=lock_of(found),
    )


def container_nic(value: str, source: str) -> GuestNic:
    given = options(value, "name")
    addresses = static_addresses(given)
    return GuestNic(
        name=given.get("name", ""),
        backend=given.get("type") or "veth",
        address=mac_or_none(given.get("hwaddr", "")),
        target=given.get("bridge", ""),
        vlan=small_number(given.get("tag", "")),
        mtu=small_number(given.get("mtu", "")),
        addresses=addresses,
        assigned=addresses,
        assigned_by=source if addresses else "",
    )
