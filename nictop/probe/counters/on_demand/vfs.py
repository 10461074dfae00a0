"""Counters of each VF, as the physical function reports them: RTM_GETLINK with RTEXT_FILTER_VF,
IFLA_VFINFO_LIST.

On some cards the request costs a mailbox or firmware call, so only links with VFs are requested:
those whose PCI function has ``sriov_numvfs`` above 0.
"""

from __future__ import annotations

import errno
import os

from nictop.probe.kernel import netlink
from nictop.probe.kernel.if_link import (
    IFLA_NUM_VF,
    IFLA_VF_INFO,
    IFLA_VF_MAC,
    IFLA_VF_STATS,
    IFLA_VFINFO_LIST,
    VF_STATS_ATTRIBUTES,
)
from nictop.probe.kernel.rtnetlink import (
    IFINFOMSG,
    IFLA_EXT_MASK,
    RTEXT_FILTER_VF,
    RTM_GETLINK,
    RTM_NEWLINK,
)


class VfCounterReader:
    """Reads VF counters of any physical function in the network namespace in which it was
    created."""

    def __init__(self) -> None:
        self._netlink = netlink.NetlinkSocket(netlink.NETLINK_ROUTE)

    def close(self) -> None:
        self._netlink.close()

    def read(self, ifindex: int) -> dict[int, tuple[int, ...]]:
        """VF number → numbers in the order of `records.VF_COUNTERS`; VFs without counters are left
        out.

        If the driver has no VF counters the kernel reports zeros: when all numbers of all VFs are
        zero, {} is returned.

        Raises OSError: ENODEV (the link is gone), EMSGSIZE (the kernel could not list all VFs,
        because their list exceeds one attribute of 64 KiB).
        """
        body = IFINFOMSG.pack(0, 0, ifindex, 0, 0) + netlink.pack_u32(
            IFLA_EXT_MASK, RTEXT_FILTER_VF
        )
        counters: dict[int, tuple[int, ...]] = {}
        for kind, reply in self._netlink.request(RTM_GETLINK, body):
            if kind == RTM_NEWLINK:
                expected, listed, found = parse_vf_counters(reply)
                if listed < expected:
                    raise OSError(errno.EMSGSIZE, f"{listed} of {expected} VFs listed")
                counters.update(found)
        return counters if any(map(any, counters.values())) else {}


def parse_vf_counters(body: bytes) -> tuple[int, int, dict[int, tuple[int, ...]]]:
    """Of one RTM_NEWLINK: the number of VFs (IFLA_NUM_VF), how many are listed, and the counters by
    VF number."""
    fields = dict(netlink.iter_attributes(body[IFINFOMSG.size :]))
    counters: dict[int, tuple[int, ...]] = {}
    listed = 0
    for kind, information in netlink.iter_attributes(fields.get(IFLA_VFINFO_LIST, b"")):
        parts = dict(netlink.iter_attributes(information))
        address = parts.get(IFLA_VF_MAC, b"")
        if kind != IFLA_VF_INFO or len(address) < 4:
            continue
        listed += 1
        statistics = dict(netlink.iter_attributes(parts.get(IFLA_VF_STATS, b"")))
        if statistics:
            counters[netlink.unsigned(address[:4])] = tuple(
                netlink.unsigned(statistics.get(column, b"")) for column in VF_STATS_ATTRIBUTES
            )
    return netlink.unsigned(fields.get(IFLA_NUM_VF, b"")), listed, counters


def read_physical_functions(sys: str = "/sys") -> tuple[int, ...]:
    """ifindexes of the netdevs whose PCI function has virtual functions; unreadable ones are left
    out."""
    found = []
    try:
        names = os.listdir(f"{sys}/class/net")
    except OSError:
        return ()
    for name in names:
        try:
            if _read_number(f"{sys}/class/net/{name}/device/sriov_numvfs") > 0:
                found.append(_read_number(f"{sys}/class/net/{name}/ifindex"))
        except (OSError, ValueError):
            continue  # no SR-IOV, or the link has just been removed
    return tuple(sorted(found))


def _read_number(path: str) -> int:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return int(os.read(descriptor, 32))
    finally:
        os.close(descriptor)
