"""Addresses that the DHCP servers of this host have given out → `DhcpLease`.

Reads the files of dnsmasq: those that libvirt's helper writes (``virbr0.status``, JSON,
src/network/leaseshelper.c), and lease files (dnsmasq(8): time of expiry, MAC address, IP address,
name of the client or ``*``, client id; a line ``duid …`` and the IPv6 leases below it have no MAC
address) of libvirt before 1.2.6, Incus, LXD, dnsmasq itself, NetworkManager (method shared,
nm-dnsmasq-manager.c), and those with a name: ``dnsmasq.lxcbr0.leases`` of lxc-net,
``dnsmasq.ZONE.leases`` of Proxmox SDN (PVE::Network::SDN::Dhcp::Dnsmasq).
"""

from __future__ import annotations

import glob
import json
import os

from nictop.probe.inventory.guests.values import mac_or_none
from nictop.probe.kernel.patterns import pattern
from nictop.probe.kernel.sysfs import parse_integer, printable_path
from nictop.probe.records import DhcpLease

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from nictop.probe.inventory.configuration.files import Files

LIBVIRT_DIRECTORY = "lib/libvirt/dnsmasq"
LEASE_FILES = (
    ("libvirt", f"{LIBVIRT_DIRECTORY}/*.leases"),
    ("incus", "lib/incus/networks/*/dnsmasq.leases"),
    ("lxd", "lib/lxd/networks/*/dnsmasq.leases"),
    ("lxd", "snap/lxd/common/lxd/networks/*/dnsmasq.leases"),
    ("dnsmasq", "lib/misc/dnsmasq.*.leases"),
    ("NetworkManager", "lib/NetworkManager/dnsmasq-*.leases"),
    ("dnsmasq", "lib/misc/dnsmasq.leases"),
    ("dnsmasq", "lib/dnsmasq/dnsmasq.leases"),
)
"""(Who, files below /var)."""
FILE_NAME = pattern(r"dnsmasq[.-](?P<name>.+)\.leases")
MAX_LEASES = 4096
MAX_LEASE_FILES = 256
MAX_NAME_CHARS = 255
MAX_ADDRESS_CHARS = 45
MAX_TIME = 1 << 40
"""Seconds since the epoch."""


def read_leases(files: Files, var: str) -> tuple[DhcpLease, ...]:
    """All leases, also those that have ended: the clock of the reader decides."""
    found: dict[tuple[str, str], DhcpLease] = {}
    for lease in _all_leases(files, var):
        if len(found) >= MAX_LEASES:
            break
        found.setdefault((lease.mac, lease.address), lease)
    return tuple(found.values())


def _all_leases(files: Files, var: str) -> Iterator[DhcpLease]:
    directory = os.path.join(var, LIBVIRT_DIRECTORY)
    for path in files.listed(directory, ".status")[:MAX_LEASE_FILES]:
        source = f"libvirt {os.path.basename(path)[: -len('.status')]}"
        yield from parse_libvirt_status(files.text(path) or "", source)
    for source, expression in LEASE_FILES:
        paths = sorted(glob.glob(os.path.join(glob.escape(var), expression)))
        for path in paths[:MAX_LEASE_FILES]:
            match = FILE_NAME.fullmatch(printable_path(os.path.basename(path)))
            whose = source if match is None else f"{source} {match['name'][:MAX_NAME_CHARS]}"
            yield from parse_leases(files.text(path) or "", whose)


def parse_libvirt_status(text: str, source: str) -> Iterator[DhcpLease]:
    """``[{"ip-address": "192.168.122.41", "mac-address": "52:54:…", "expiry-time": …}]``"""
    try:
        decoded: Any = json.loads(text) if text.strip() else []
    except (ValueError, RecursionError):
        return
    for entry in decoded if isinstance(decoded, list) else ():
        if isinstance(entry, dict):
            keys = ("mac-address", "ip-address", "hostname", "expiry-time")
            found = lease(*map(entry.get, keys), source=source)
            if found is not None:
                yield found


def parse_leases(text: str, source: str) -> Iterator[DhcpLease]:
    """Lines of a lease file of dnsmasq."""
    for line in text.split("\n"):
        words = line.split()
        if len(words) >= 4:
            hostname = words[3] if words[3] != "*" else ""
            expires = parse_integer(words[0])
            found = lease(words[1], words[2], hostname, expires, source=source)
            if found is not None:
                yield found


def lease(
    mac: object, address: object, hostname: object, expires: object, *, source: str
) -> DhcpLease | None:
    """None: not the address of an Ethernet NIC."""
    known = mac_or_none(mac) if isinstance(mac, str) else None
    if known is None or not isinstance(address, str):
        return None
    if not 0 < len(address) <= MAX_ADDRESS_CHARS:
        return None
    name = hostname[:MAX_NAME_CHARS] if isinstance(hostname, str) else ""
    end = float(expires) if isinstance(expires, int) and 0 < expires < MAX_TIME else None
    return DhcpLease(address, known, source, name, end)
