"""Counters of the port of a physical function: the standard ones, else those of the driver."""

from __future__ import annotations

import errno
import struct
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nictop.probe.counters.on_demand import ports
from nictop.probe.kernel import netlink
from nictop.probe.records import PORT_ERRORS

NONE = (None, None, None, None)


def statistics(values: dict[int, int], group: int = ports.ETHTOOL_STATS_ETH_MAC) -> bytes:
    """The attributes of ETHTOOL_MSG_STATS_GET_REPLY (net/ethtool/stats.c, stats_put_stats)."""
    body = netlink.pack_u32(ports.ETHTOOL_A_STATS_GRP_ID, group) + netlink.pack_u32(3, 18)
    for number, value in values.items():
        counted = netlink.pack_attribute(number, struct.pack("=Q", value))
        body += netlink.pack_attribute(ports.ETHTOOL_A_STATS_GRP_STAT, counted)
    header = netlink.pack_attribute(ports.ETHTOOL_A_STATS_HEADER, netlink.pack_u32(1, 4))
    return header + netlink.pack_attribute(ports.ETHTOOL_A_STATS_GRP, body)


def test_standard_counters_are_those_of_the_mac() -> None:
    body = statistics({0: 20, 3: 10, 4: 7, 6: 2 << 40, 12: 1 << 40})
    assert ports.mac_numbers(ports.parse_statistics(body)) == (10, 20, 1 << 40, 2 << 40)


def test_other_groups_are_not_those_of_the_mac() -> None:
    other = statistics({0: 1, 3: 1, 6: 1, 12: 1}, group=3)
    assert ports.mac_numbers(ports.parse_statistics(other)) == NONE


def test_errors_are_those_of_three_groups() -> None:
    """FrameCheckSequenceErrors, SymbolErrorDuringCarrier, etherStatsOversizePkts."""
    body = statistics({4: 7, 3: 10, 21: 0}) + statistics({0: 3}, ports.ETHTOOL_STATS_ETH_PHY)
    body += statistics({1: 5}, ports.ETHTOOL_STATS_RMON)
    errors = ports.port_errors(ports.parse_statistics(body))
    assert errors == {"fcs": 7, "too long": 0, "symbol": 3, "oversize": 5}
    assert set(ports.ERROR_STATISTICS.values()) == set(PORT_ERRORS)


def test_errors_beside_the_counters_of_a_driver(read: Read) -> None:
    found = read(Nic([statistics({1: 9}, ports.ETHTOOL_STATS_RMON)], IGB))
    assert found == {"source": "igb", "numbers": (1, 2, 3, 4), "errors": {"oversize": 9}}


@given(st.binary(max_size=300))
def test_any_attributes_can_be_parsed(data: bytes) -> None:
    found = ports.parse_statistics(data)
    assert len(ports.mac_numbers(found)) == 4 and isinstance(ports.port_errors(found), dict)


def test_names_of_each_driver_are_of_the_port() -> None:
    """As many groups as `records.PORT_COUNTERS`, each counter in one group only."""
    for driver, groups in ports.DRIVER_PORT_COUNTERS.items():
        assert len(groups) == 4, driver
        names = [name for group in groups for name in group]
        assert len(set(names)) == len(names), driver


def test_several_counters_are_added_up() -> None:
    names = [name for group in ports.DRIVER_PORT_COUNTERS["ice"] for name in group]
    positions = ports.port_positions("ice", ["other", *names])
    assert ports.port_numbers([99, *range(1, 9)], positions) == (6, 15, 7, 8)


def test_without_bytes_of_the_port_nothing_is_known() -> None:
    assert ports.port_positions("igb", ["rx_packets", "tx_packets", "rx_bytes"]) == ()
    assert ports.port_positions("unknown", ["rx_bytes_phy", "tx_bytes_phy"]) == ()


@dataclass
class Nic:
    """What the kernel and the driver of a NIC answer."""

    replies: list[bytes] | OSError
    counters: Sequence[tuple[str, int]]

    def generic(self, family: str, command: int, attributes: bytes) -> list[bytes]:
        assert (family, command) == ("ethtool", ports.ETHTOOL_MSG_STATS_GET)
        assert attributes == ports.request(4)
        if isinstance(self.replies, OSError):
            raise self.replies
        return self.replies

    def link_name(self, ifindex: int) -> bytes:
        return b"ens224".ljust(16, b"\0")

    def read_names(self, ifindex: int) -> tuple[str, ...]:
        return tuple(name for name, _ in self.counters)

    def read(self, ifindex: int) -> tuple[int, ...]:
        return tuple(value for _, value in self.counters)


IGB = (("rx_packets", 1), ("tx_packets", 2), ("rx_bytes", 3), ("tx_bytes", 4), ("rx_smbus", 5))


Read = Callable[[Nic], "ports.PortFields"]


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> Iterator[Read]:
    """Reads a NIC of the driver igb."""
    monkeypatch.setattr(ports, "read_driver_name", lambda link, sys: "igb")
    reader = ports.PortCounterReader()

    def read_nic(nic: Nic) -> ports.PortFields:
        monkeypatch.setattr(reader, "_netlink", nic)
        monkeypatch.setattr(reader, "_drivers", nic)
        return reader.read(4)

    sockets = reader._netlink, reader._drivers
    yield read_nic
    for one in sockets:
        one.close()


def test_standard_counters_are_preferred(read: Read) -> None:
    nic = Nic([statistics({0: 20, 3: 10, 6: 200, 12: 100})], IGB)
    assert read(nic) == {"source": "eth-mac", "numbers": (10, 20, 100, 200), "errors": {}}


@pytest.mark.parametrize(
    "replies",
    [
        [],
        [statistics({})],
        [statistics({0: 20, 3: 10})],  # bnxt_en: packets only
        netlink.NetlinkError(errno.EOPNOTSUPP, "before Linux 5.13"),
    ],
)
def test_the_drivers_own_counters_are_read_where_the_standard_has_no_bytes(
    replies: list[bytes] | OSError, read: Read
) -> None:
    assert read(Nic(replies, IGB)) == {"source": "igb", "numbers": (1, 2, 3, 4), "errors": {}}


def test_a_driver_without_such_counters_gives_none(read: Read) -> None:
    assert read(Nic([], IGB[:2])) == ports.NONE_GIVEN


def test_counters_are_not_mixed_up_when_their_number_changes(read: Read) -> None:
    """``ethtool -L`` adds counters: positions that were found before are not used again."""
    assert read(Nic([], IGB))["source"] == "igb"
    changed = Nic([], (("new", 9), *IGB))
    with pytest.raises(OSError, match="changed"):
        read(changed)
    assert read(changed) == {"source": "igb", "numbers": (1, 2, 3, 4), "errors": {}}


def test_other_errors_are_raised(read: Read) -> None:
    with pytest.raises(OSError, match="gone"):
        read(Nic(netlink.NetlinkError(errno.ENODEV, "gone"), IGB))


def test_this_kernel_answers_the_request() -> None:
    """The loopback has no such counters, but the request is accepted."""
    reader = ports.PortCounterReader()
    try:
        assert reader.read(1) == ports.NONE_GIVEN
        loopback = reader._netlink.generic(
            ports.FAMILY, ports.ETHTOOL_MSG_STATS_GET, ports.request(1)
        )
        assert [ports.parse_statistics(reply) for reply in loopback] == [{}]
    finally:
        reader.close()
