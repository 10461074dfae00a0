"""Packets and bytes at the port of a NIC, for all functions that share it.

The netdev of a physical function counts what its own queues carry: with SR-IOV, packets of VFs pass
beside them. What the wire carries is counted by the NIC: read from the standard counters of IEEE
802.3 (generic netlink ``ethtool``, ETHTOOL_MSG_STATS_GET, group eth-mac; Linux 5.13), and where a
driver does not have their octets, from its own counters (``ethtool -S``), by the names in
`DRIVER_PORT_COUNTERS`. Damaged frames and those of a wrong size are in the same reply, in the
groups eth-mac, eth-phy and rmon. Packets between two functions of one port, which the NIC's switch
returns, are not on the wire; whether they are counted is up to the NIC.
"""

from __future__ import annotations

import errno
import os

from nictop.probe.counters.on_demand.drivers import DriverCounterReader
from nictop.probe.kernel import netlink

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import TypedDict

    class PortFields(TypedDict):
        """`records.PortCounts`"""

        source: str
        numbers: tuple[int | None, ...]
        errors: dict[str, int]

    Names = tuple[tuple[str, ...], ...]
    Statistics = dict[tuple[int, int], int]
    """(Group, number of the statistic) → value."""


FAMILY = "ethtool"
ETHTOOL_MSG_STATS_GET = 32
ETHTOOL_A_HEADER_DEV_INDEX = 1
ETHTOOL_A_STATS_HEADER, ETHTOOL_A_STATS_GROUPS, ETHTOOL_A_STATS_GRP = 2, 3, 4
ETHTOOL_A_STATS_GRP_ID, ETHTOOL_A_STATS_GRP_STAT = 2, 4
ETHTOOL_A_BITSET_NOMASK, ETHTOOL_A_BITSET_SIZE, ETHTOOL_A_BITSET_VALUE = 1, 2, 4
ETHTOOL_STATS_ETH_PHY, ETHTOOL_STATS_ETH_MAC, ETHTOOL_STATS_RMON = 0, 1, 3
GROUPS = (ETHTOOL_STATS_ETH_PHY, ETHTOOL_STATS_ETH_MAC, ETHTOOL_STATS_RMON)
NLA_F_NESTED = 0x8000
MAC_STATISTICS = (3, 0, 12, 6)
"""FramesReceivedOK, FramesTransmittedOK, OctetsReceivedOK and OctetsTransmittedOK
(ETHTOOL_A_STATS_ETH_MAC_5_RX_PKT, 2_TX_PKT, 14_RX_BYTES, 8_TX_BYTES; ethtool_netlink.h), in the
order of `records.PORT_COUNTERS`."""
ERROR_STATISTICS = {
    (ETHTOOL_STATS_ETH_MAC, 4): "fcs",
    (ETHTOOL_STATS_ETH_MAC, 5): "alignment",
    (ETHTOOL_STATS_ETH_MAC, 19): "in range length",
    (ETHTOOL_STATS_ETH_MAC, 20): "out of range length",
    (ETHTOOL_STATS_ETH_MAC, 21): "too long",
    (ETHTOOL_STATS_ETH_PHY, 0): "symbol",
    (ETHTOOL_STATS_RMON, 0): "undersize",
    (ETHTOOL_STATS_RMON, 1): "oversize",
    (ETHTOOL_STATS_RMON, 2): "fragments",
    (ETHTOOL_STATS_RMON, 3): "jabbers",
}
"""(Group, ETHTOOL_A_STATS_ETH_MAC_*, …_ETH_PHY_*, …_RMON_*) → key of `records.PORT_ERRORS`."""
MAC_SOURCE = "eth-mac"
NOT_OFFERED_ERRNOS = (errno.EOPNOTSUPP, errno.EINVAL, errno.ENOENT)
"""Of a kernel before 5.13, or a driver without these counters."""


def _cast(prefix: str, suffix: str = "") -> Names:
    """Names of a driver that counts unicast, multicast and broadcast packets."""
    packets = [
        tuple(f"{prefix}{side}_{kind}{suffix}" for kind in ("unicast", "multicast", "broadcast"))
        for side in ("rx", "tx")
    ]
    return (*packets, (f"{prefix}rx_bytes{suffix}",), (f"{prefix}tx_bytes{suffix}",))


PHY_NAMES: Names = (
    ("rx_packets_phy",), ("tx_packets_phy",), ("rx_bytes_phy",), ("tx_bytes_phy",),
)  # fmt: skip
NIC_NAMES: Names = (("rx_pkts_nic",), ("tx_pkts_nic",), ("rx_bytes_nic",), ("tx_bytes_nic",))
MAC_NAMES: Names = (
    ("mac_rx_total_pkt_num",), ("mac_tx_total_pkt_num",),
    ("mac_rx_total_oct_num",), ("mac_tx_total_oct_num",),
)  # fmt: skip

DRIVER_PORT_COUNTERS: Mapping[str, Names] = {
    # drivers/net/ethernet/intel/igb/igb_ethtool.c: registers GPRC, GPTC, GORC and GOTC of the MAC
    "igb": (("rx_packets",), ("tx_packets",), ("rx_bytes",), ("tx_bytes",)),
    # drivers/net/ethernet/intel/ixgbe/ixgbe_ethtool.c; …/wangxun/libwx/wx_ethtool.c
    "ixgbe": NIC_NAMES,
    "ngbe": NIC_NAMES,
    "txgbe": NIC_NAMES,
    # drivers/net/ethernet/intel/i40e/i40e_ethtool.c and ice/ice_ethtool.c: "PF_STATs … for the
    # physical function at the bottom of the stack"
    "i40e": _cast("port."),
    "ice": _cast("", ".nic"),
    # drivers/net/ethernet/mellanox/mlx5/core/en_stats.c: register PPCNT, group IEEE 802.3;
    # …/mlx4/en_ethtool.c, phy statistics
    "mlx5_core": PHY_NAMES,
    "mlx4_core": PHY_NAMES,
    # drivers/net/ethernet/broadcom/bnxt/bnxt_ethtool.c: bnxt_port_stats_arr
    "bnxt_en": (("rx_good_frames",), ("tx_good_frames",), ("rx_bytes",), ("tx_bytes",)),
    # drivers/net/ethernet/sfc/ef10.c: EF10_DMA_STAT
    "sfc": (("port_rx_packets",), ("port_tx_packets",), ("port_rx_bytes",), ("port_tx_bytes",)),
    # drivers/net/ethernet/hisilicon/hns3/hns3pf/hclge_main.c: g_mac_stats_string;
    # …/huawei/hinic/hinic_ethtool.c: hinic_port_stats
    "hns3": MAC_NAMES,
    "hinic": MAC_NAMES,
}
"""Driver (as in sysfs) → names of its counters of the port, in the order of
`records.PORT_COUNTERS`; several are added up."""

NONE_GIVEN: PortFields = {"source": "", "numbers": (), "errors": {}}


class PortCounterReader:
    """Reads the port of any physical function in the network namespace in which it was created.
    `sys`: root of sysfs."""

    def __init__(self, sys: str = "/sys") -> None:
        self._sys = sys
        self._netlink = netlink.NetlinkSocket(netlink.NETLINK_GENERIC)
        self._drivers = DriverCounterReader()
        self._positions: dict[int, tuple[str, int, tuple[tuple[int, ...], ...]]] = {}
        """ifindex → driver, number of its counters, and positions of those of the port."""

    def close(self) -> None:
        self._netlink.close()
        self._drivers.close()

    def forget(self) -> None:
        """After an event: an ifindex may be that of another link."""
        self._positions.clear()

    def read(self, ifindex: int) -> PortFields:
        """The counters of the port; `NONE_GIVEN` if kernel and driver give no bytes of it.

        Raises OSError: ENODEV (the link is gone), and errors of the driver.
        """
        statistics = self._read_standard(ifindex)
        errors = port_errors(statistics)
        standard = mac_numbers(statistics)
        if None not in standard[2:]:
            return {"source": MAC_SOURCE, "numbers": standard, "errors": errors}
        own = self._read_driver(ifindex)
        return {"source": own["source"], "numbers": own["numbers"], "errors": errors}

    def _read_standard(self, ifindex: int) -> Statistics:
        try:
            replies = self._netlink.generic(FAMILY, ETHTOOL_MSG_STATS_GET, request(ifindex))
        except netlink.NetlinkError as error:
            if error.errno not in NOT_OFFERED_ERRNOS:
                raise
            return {}
        return parse_statistics(replies[0] if replies else b"")

    def _read_driver(self, ifindex: int) -> PortFields:
        driver, count, positions = self._layout(ifindex)
        if not positions:
            return NONE_GIVEN
        numbers = self._drivers.read(ifindex)
        if len(numbers) != count:
            self._positions.pop(ifindex, None)
            raise OSError(errno.EAGAIN, "the number of driver counters changed meanwhile")
        return {
            "source": driver,
            "numbers": port_numbers(numbers, positions),
            "errors": {},
        }

    def _layout(self, ifindex: int) -> tuple[str, int, tuple[tuple[int, ...], ...]]:
        known = self._positions.get(ifindex)
        if known is None:
            name = self._drivers.link_name(ifindex).rstrip(b"\0").decode("utf-8", "replace")
            driver = read_driver_name(name, self._sys)
            names: Sequence[str] = ()
            if driver in DRIVER_PORT_COUNTERS:
                names = self._drivers.read_names(ifindex)
            known = driver, len(names), port_positions(driver, names)
            self._positions[ifindex] = known
        return known


def request(ifindex: int) -> bytes:
    """Attributes of ETHTOOL_MSG_STATS_GET: one device, `GROUPS` as a compact bit set."""
    device = netlink.pack_u32(ETHTOOL_A_HEADER_DEV_INDEX, ifindex)
    groups = (
        netlink.pack_attribute(ETHTOOL_A_BITSET_NOMASK, b"")
        + netlink.pack_u32(ETHTOOL_A_BITSET_SIZE, max(GROUPS) + 1)
        + netlink.pack_u32(ETHTOOL_A_BITSET_VALUE, sum(1 << group for group in GROUPS))
    )
    header = netlink.pack_attribute(ETHTOOL_A_STATS_HEADER | NLA_F_NESTED, device)
    return header + netlink.pack_attribute(ETHTOOL_A_STATS_GROUPS | NLA_F_NESTED, groups)


def parse_statistics(body: bytes) -> Statistics:
    """Of one reply; the kernel leaves out what a driver does not count."""
    found: Statistics = {}
    for kind, group in netlink.iter_attributes(body):
        if kind != ETHTOOL_A_STATS_GRP:
            continue
        parts = list(netlink.iter_attributes(group))
        number = netlink.unsigned(dict(parts).get(ETHTOOL_A_STATS_GRP_ID, b""))
        for part, statistic in parts:
            if part == ETHTOOL_A_STATS_GRP_STAT:
                for position, value in netlink.iter_attributes(statistic):
                    found[number, position] = netlink.unsigned(value)
    return found


def mac_numbers(found: Statistics) -> tuple[int | None, ...]:
    """`MAC_STATISTICS`."""
    return tuple(found.get((ETHTOOL_STATS_ETH_MAC, number)) for number in MAC_STATISTICS)


def port_errors(found: Statistics) -> dict[str, int]:
    """`records.PortCounts.errors`."""
    return {name: found[place] for place, name in ERROR_STATISTICS.items() if place in found}


def port_positions(driver: str, names: Sequence[str]) -> tuple[tuple[int, ...], ...]:
    """Positions of the counters of the port among the driver's counters; () if there are none of
    its bytes."""
    wanted = DRIVER_PORT_COUNTERS.get(driver, ())
    by_name: dict[str, int] = {}
    for position, name in enumerate(names):
        by_name.setdefault(name.strip(), position)
    found = []
    for group in wanted:
        complete = all(name in by_name for name in group)
        found.append(tuple(by_name[name] for name in group) if complete else ())
    if not all(found[2:]):
        return ()
    return tuple(found)


def port_numbers(
    numbers: Sequence[int], positions: Sequence[Sequence[int]]
) -> tuple[int | None, ...]:
    """`records.PORT_COUNTERS`."""
    return tuple(
        sum(numbers[position] for position in group) if group else None for group in positions
    )


def read_driver_name(link: str, sys: str = "/sys") -> str:
    """Name of the driver of a link's device; "" if there is none."""
    try:
        return os.path.basename(os.readlink(f"{sys}/class/net/{link}/device/driver"))
    except OSError:
        return ""
