"""Forwarding tables: MAC addresses in the embedded switch of a NIC and on the ports of bridges.

Dumps RTM_GETNEIGH with AF_BRIDGE (linux/neighbour.h) → `ForwardingEntry` records. Only for physical
functions that can have virtual functions, for ports of bridges, and for virtual NICs, whose own
table has the addresses of the macvlan links above it in any namespace (dev_uc_add in
drivers/net/macvlan.c). On hosts without any of them no request is sent, and where there are only
virtual NICs one for each of them: a bridge may have a hundred thousand addresses.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterable

from nictop.probe.inventory.links.messages import number
from nictop.probe.kernel.backports import colon_hex
from nictop.probe.kernel.netlink import (
    HEADER,
    NETLINK_ROUTE,
    DumpInterrupted,
    NetlinkSocket,
    iter_attributes,
)
from nictop.probe.kernel.rtnetlink import RTM_GETNEIGH
from nictop.probe.kernel.sysfs import unreadable_from_error
from nictop.probe.records import ForwardingEntry, Link, PciFunction, Unreadable

NDMSG = struct.Struct("=BxxxiHBB")
"""struct ndmsg: family, ifindex, state, flags, type."""
NDA_LLADDR, NDA_CACHEINFO, NDA_VLAN, NDA_MASTER = 2, 3, 5, 9
CACHEINFO = struct.Struct("=8xI4x")
"""struct nda_cacheinfo: ndm_updated, since a frame came in (net/bridge/br_fdb.c, fdb_fill_info), in
units of 1/100 s (USER_HZ) on all processors that Linux still has."""
IDLE_TICKS = 3000
NTF_SELF, NTF_EXT_LEARNED, NTF_STICKY = 0x02, 0x10, 0x40
NUD_NOARP = 0x40
"""Of a static entry (net/bridge/br_fdb.c, fdb_to_nud)."""
NUD_PERMANENT = 0x80
MAC_BYTES = 6
IDENTITY_BYTES = NDMSG.size + 4 + MAC_BYTES
"""Start of a message: link, state, flags, and the address, which is the first attribute
(net/bridge/br_fdb.c)."""
MAX_FORWARDING_ENTRIES = 4096
MAX_VIRTUAL_NICS = 8
"""Virtual NICs whose own table is read."""
VIRTUAL_DRIVERS = ("virtio_net", "vmxnet3", "hv_netvsc", "ena", "gve", "mana")
"""The virtual switch below them may accept their own address only."""
MAX_DUMPED_ENTRIES = 65_536
"""Entries of the dump that are parsed; limits the cost of an inventory."""
MAX_REPEATED_ENTRIES = 262_144
"""Permanent entries that differ from a parsed one in the VLAN only, which cost less: 64 ports with
all VLANs."""


class ForwardingTooLong(Exception):
    """More entries than `MAX_FORWARDING_ENTRIES`, or a longer dump than `MAX_DUMPED_ENTRIES`."""


class EntryFilter:
    """What is kept of a dump, while it is read."""

    def __init__(self, ports: set[int], nics: set[int]) -> None:
        """`ports`: of bridges; `nics`: those whose own entries are relevant. By ifindex."""
        self.found: dict[ForwardingEntry, None] = {}
        self._ports, self._nics = ports, nics
        self._permanent: set[bytes] = set()
        """Identities of permanent entries: the bridge has one for each VLAN of a port, up to
        4094."""
        self._parsed = self._repeated = 0

    def add(self, data: bytes, start: int) -> bool:
        """Add the entry whose payload begins at `start`; False: the message is not needed any
        more. Raises ForwardingTooLong."""
        identity = data[start : start + IDENTITY_BYTES]
        if identity in self._permanent:
            self._repeated += 1
            if self._repeated > MAX_REPEATED_ENTRIES:
                raise ForwardingTooLong
            return False
        self._parsed += 1
        if self._parsed > MAX_DUMPED_ENTRIES or len(self.found) >= MAX_FORWARDING_ENTRIES:
            raise ForwardingTooLong
        length = HEADER.unpack_from(data, start - HEADER.size)[0]
        entry = parse_entry(data[start : start - HEADER.size + length])
        if entry is not None:
            if entry.permanent:
                self._permanent.add(identity)
            if is_relevant(entry, self._ports, self._nics):
                self.found[entry] = None
        return False


def read_forwarding(
    links: Iterable[Link], functions: Iterable[PciFunction]
) -> tuple[tuple[ForwardingEntry, ...], Unreadable | None]:
    """Unicast entries of physical functions, virtual NICs and ports of bridges among `links`, and
    why some may be missing.

    Never raises OSError.
    """
    links = tuple(links)
    ports, physical, virtual = (
        bridge_ports(links),
        physical_links(links, functions),
        virtual_nics(links),
    )
    if not ports and not physical and not virtual:
        return (), None
    ifindexes: Iterable[int] = virtual
    if ports or physical:
        ifindexes = (0,)  # all tables in one dump
    entries = EntryFilter(ports, physical | set(virtual))
    trouble = None
    try:
        with NetlinkSocket(NETLINK_ROUTE) as netlink:
            for ifindex in ifindexes:
                query = NDMSG.pack(socket.AF_BRIDGE, ifindex, 0, 0, 0)
                netlink.dump(RTM_GETNEIGH, query, keep=entries.add)
    except ForwardingTooLong:
        detail = f"more than {MAX_FORWARDING_ENTRIES} entries, or {MAX_DUMPED_ENTRIES} on all links"
        trouble = Unreadable("failed", detail)
    except DumpInterrupted:
        detail = "forwarding: changed while it was read, may be incomplete"
        trouble = Unreadable("failed", detail)
    except OSError as error:
        trouble = unreadable_from_error(error, "forwarding")
    return tuple(entries.found), trouble


def bridge_ports(links: Iterable[Link]) -> set[int]:
    """ifindexes of links whose master is a bridge."""
    links = tuple(links)
    bridges = {link.ifindex for link in links if link.kind == "bridge"}
    return {link.ifindex for link in links if link.master in bridges}


def physical_links(links: Iterable[Link], functions: Iterable[PciFunction]) -> set[int]:
    """ifindexes of the links of physical functions that can have virtual functions."""
    capable = {
        function.address
        for function in functions
        if function.sriov is not None and function.sriov.total_vfs
    }
    return {link.ifindex for link in links if link.pci_address in capable}


def virtual_nics(links: Iterable[Link]) -> list[int]:
    """ifindexes of the first links with a driver of a virtual NIC."""
    found = []
    for link in links:
        driver = link.ethtool.driver
        if link.kind is None and driver is not None and driver.driver in VIRTUAL_DRIVERS:
            found.append(link.ifindex)
    return found[:MAX_VIRTUAL_NICS]


def is_relevant(entry: ForwardingEntry, ports: set[int], physical: set[int]) -> bool:
    """Entries of a device itself (NTF_SELF) are relevant for NICs (`physical`), those of a bridge
    for its ports."""
    if entry.self_entry:
        return entry.ifindex in physical
    return entry.ifindex in ports


def parse_entry(payload: bytes) -> ForwardingEntry | None:
    """A forwarding entry of an RTM_NEWNEIGH; None for group and zero addresses, and for anything
    else."""
    if len(payload) < NDMSG.size:
        return None
    family, ifindex, state, flags, _ = NDMSG.unpack_from(payload)
    if family != socket.AF_BRIDGE or ifindex <= 0:
        return None
    found = dict(iter_attributes(payload[NDMSG.size :]))
    address = found.get(NDA_LLADDR, b"")
    if len(address) != MAC_BYTES or address[0] & 1 or not any(address):
        return None
    permanent = bool(state & NUD_PERMANENT)
    set_as = words_of_entry(state, flags)
    ages = found.get(NDA_CACHEINFO, b"")
    return ForwardingEntry(
        ifindex=ifindex,
        address=colon_hex(address),
        self_entry=bool(flags & NTF_SELF),
        master=number(found, NDA_MASTER) or None,
        permanent=permanent,
        vlan=None if permanent else number(found, NDA_VLAN) or None,
        idle=not (permanent or set_as) and is_idle(ages),
        set_as=set_as,
    )


def words_of_entry(state: int, flags: int) -> str:
    """`ForwardingEntry.set_as`"""
    if state & NUD_PERMANENT or flags & NTF_SELF:
        return ""
    words = []
    if flags & NTF_STICKY:
        words.append("sticky")
    if flags & NTF_EXT_LEARNED:
        words.append("extern_learn")
    if state & NUD_NOARP:
        words.insert(0, "static")
    elif words:
        words.insert(0, "dynamic")
    return " ".join(words)


def is_idle(ages: bytes) -> bool:
    """By NDA_CACHEINFO; False where it is missing."""
    if len(ages) < CACHEINFO.size:
        return False
    (updated,) = CACHEINFO.unpack_from(ages)
    return bool(updated >= IDLE_TICKS)
