"""Configurations of Proxmox's virtual machines and containers → `HostedGuest`.

Reads /etc/pve/qemu-server/N.conf (qm.conf(5): ``net0: virtio=MAC,bridge=vmbr0,tag=30,queues=4``,
``hostpci0: 0000:01:10.2,pcie=1``) and /etc/pve/lxc/N.conf (pct.conf(5): ``net0:
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
from nictop.probe.records import GuestNic, HostedGuest

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from nictop.probe.inventory.configuration.files import Files

FILE_NAME = pattern(r"[0-9]{1,10}\.conf", re.ASCII)
NIC_KEY = pattern(r"net[0-9]{1,2}", re.ASCII)
FUNCTION_KEY = pattern(r"hostpci[0-9]{1,2}", re.ASCII)
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
    nics = [machine_nic(key, found[key]) for key in sorted(found) if NIC_KEY.fullmatch(key)]
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
    nics = [container_nic(found[key]) for key in sorted(found) if NIC_KEY.fullmatch(key)]
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


def container_nic(value: str) -> GuestNic:
    given = options(value, "name")
    addresses = [given.get(key, "") for key in ("ip", "ip6")]
    return GuestNic(
        name=given.get("name", ""),
        backend=given.get("type") or "veth",
        address=mac_or_none(given.get("hwaddr", "")),
        target=given.get("bridge", ""),
        vlan=small_number(given.get("tag", "")),
        mtu=small_number(given.get("mtu", "")),
        addresses=tuple(text[:MAX_ADDRESS_CHARS] for text in addresses if "/" in text),
    )
