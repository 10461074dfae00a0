"""Counters by queue: real ``ethtool -S`` output, and the names of every driver in the table."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nictop.model.queues.driver_counters import (
    COUNTER_NAMES,
    QueuePositions,
    Side,
    link_queue_positions,
    queue_positions,
)
from nictop.probe.records import Ethtool, Feature
from tests.model.captured import ethtool_names
from tests.model.hosts import make_link

Capture = Callable[[str], Path]


def sums(
    driver: str, names: tuple[str, ...], values: tuple[int, ...]
) -> dict[tuple[Side, int], tuple[int, int, int]]:
    return {
        key: (
            sum(values[position] for position in found.packets),
            sum(values[position] for position in found.bytes),
            sum(values[position] for position in found.drops),
        )
        for key, found in queue_positions(driver, names).items()
    }


def test_vmxnet3_sections_of_the_captured_guest(capture: Capture) -> None:
    """TSO and LRO packets are among the unicast ones (vmxnet3_get_stats64): adding them would count
    them twice."""
    names, values = ethtool_names(capture("guest"), "ens192")
    found = sums("vmxnet3", names, values)
    assert found.keys() == {(side, number) for side in ("rx", "tx") for number in range(4)}
    assert found["tx", 0] == (32, 8722, 0)
    assert found["tx", 1] == (32 + 3 + 7, 6790 + 266 + 294, 0)
    assert found["tx", 3] == (108 + 2, 91364 + 648, 0)
    assert found["rx", 0] == (410 + 2 + 3, 271466 + 220 + 1240, 0)
    assert found["rx", 3] == (0, 0, 0)


def test_vmxnet3_sections_end_where_the_device_counters_begin() -> None:
    names = ("Tx Queue#", "  ucast pkts tx", "  drv dropped tx total", "     ucast pkts "
                                                                       "tx", "tx timeout count",
             "  ucast pkts tx", "Rx Queue#", "  ucast pkts tx", "  pkts rx OOB",
             "  ucast bytes rx")  # fmt: skip
    assert queue_positions("vmxnet3", names) == {
        ("tx", 0): QueuePositions(packets=(1,), drops=(2,)),
        ("rx", 0): QueuePositions(bytes=(9,), drops=(8,)),
    }


def test_igb_of_the_captured_guest(capture: Capture) -> None:
    names, values = ethtool_names(capture("guest"), "ens224")
    assert sums("igb", names, values) == {
        ("tx", 0): (163, 26334, 0),
        ("rx", 0): (343, 97938, 0),
        ("rx", 1): (0, 0, 0),
    }


def test_virtio_of_the_captured_guest_has_drops_only(capture: Capture) -> None:
    names, _ = ethtool_names(capture("guest"), "ens256")
    found = queue_positions("virtio_net", names)
    assert found.keys() == {("rx", number) for number in range(4)}
    assert all(not one.packets and not one.bytes and len(one.drops) == 1 for one in found.values())


def test_igbvf_of_the_captured_guest_counts_no_queues(capture: Capture) -> None:
    names, _ = ethtool_names(capture("guest"), "ens224v0")
    assert queue_positions("igbvf", names) == {}


PACKETS_AND_BYTES = [
    ("virtio_net", "{}_queue_1_packets", "{}_queue_1_bytes"),  # before Linux 6.5
    ("virtio_net", "{}1_packets", "{}1_bytes"),
    ("igb", "{}_queue_1_packets", "{}_queue_1_bytes"),
    ("igc", "{}_queue_1_packets", "{}_queue_1_bytes"),
    ("ixgbe", "{}_queue_1_packets", "{}_queue_1_bytes"),
    ("ixgbevf", "{}_queue_1_packets", "{}_queue_1_bytes"),
    ("ice", "{}_queue_1_packets", "{}_queue_1_bytes"),
    ("i40e", "{}-1.packets", "{}-1.bytes"),
    ("i40e", "{0}-1.{0}_packets", "{0}-1.{0}_bytes"),  # before Linux 5.0
    ("iavf", "{}-1.packets", "{}-1.bytes"),
    ("i40evf", "{}-1.packets", "{}-1.bytes"),
    ("mlx5_core", "{}1_packets", "{}1_bytes"),
    ("mlx4_en", "{}1_packets", "{}1_bytes"),
    ("bnxt_en", "[1]: {}_ucast_packets", "[1]: {}_ucast_bytes"),
    ("ena", "queue_1_{}_cnt", "queue_1_{}_bytes"),
    ("hv_netvsc", "{}_queue_1_packets", "{}_queue_1_bytes"),
    ("mana", "{}_1_packets", "{}_1_bytes"),
]


@pytest.mark.parametrize(("driver", "packets", "size"), PACKETS_AND_BYTES)
def test_packets_and_bytes(driver: str, packets: str, size: str) -> None:
    names = [
        "rx_packets",
        packets.format("rx"),
        size.format("rx"),
        packets.format("tx"),
        size.format("tx"),
        "tx_bytes",
    ]
    assert queue_positions(driver, names) == {
        ("rx", 1): QueuePositions(packets=(1,), bytes=(2,)),
        ("tx", 1): QueuePositions(packets=(3,), bytes=(4,)),
    }


@pytest.mark.parametrize(
    ("driver", "name", "key"),
    [
        ("virtio_net", "rx_queue_2_drops", ("rx", 2)),
        ("igb", "rx_queue_2_drops", ("rx", 2)),
        ("mlx5_core", "rx2_buff_alloc_err", ("rx", 2)),
        ("mlx5_core", "tx2_dropped", ("tx", 2)),
        ("mlx4_en", "rx2_dropped", ("rx", 2)),
        ("bnxt_en", "[2]: rx_discards", ("rx", 2)),
        ("bnxt_en", "[2]: tx_discards", ("tx", 2)),
        ("gve", "rx_queue_drop_cnt[2]", ("rx", 2)),
    ],
)
def test_drops(driver: str, name: str, key: tuple[Side, int]) -> None:
    assert queue_positions(driver, [name]) == {key: QueuePositions(drops=(0,))}


def test_gve_descriptors_are_not_packets() -> None:
    names = ["rx_completed_desc[0]", "rx_bytes[0]", "tx_completed_desc[0]", "tx_bytes[0]"]
    assert queue_positions("gve", names) == {
        ("rx", 0): QueuePositions(bytes=(1,)),
        ("tx", 0): QueuePositions(bytes=(3,)),
    }


def test_bnxt_adds_up_unicast_multicast_and_broadcast() -> None:
    names = [f"[0]: rx_{kind}cast_packets" for kind in "umb"]
    assert queue_positions("bnxt_en", names) == {("rx", 0): QueuePositions(packets=(0, 1, 2))}


def test_names_of_other_drivers_are_ignored() -> None:
    assert queue_positions("unheard-of", ["rx_queue_0_packets"]) == {}
    assert (
        queue_positions("igb", ["rx0_packets", "rx_queue_x_packets", "rx_queue_0_packets_total"])
        == {}
    )
    assert queue_positions("igb", ["rx_queue_9999999_packets"]) == {}


@pytest.mark.parametrize(
    ("gro", "segments", "counts"),
    [(True, False, True), (False, False, False), (True, True, False), (True, None, False)],
)
def test_veth_counts_only_packets_received_by_napi(
    gro: bool, segments: bool | None, counts: bool
) -> None:
    """`segments` None: the peer is in another network namespace."""
    ethtool = Ethtool(
        driver_counter_names=(
            "peer_ifindex",
            "rx_queue_0_xdp_packets",
            "rx_queue_0_xdp_bytes",
            "rx_queue_0_drops",
        ),
        features=(Feature("rx-gro", gro, gro, False),),
    )
    sending = Ethtool(features=(Feature("tx-tcp6-segmentation", segments or False, True, False),))
    peer = make_link(8, "veth1", kind="veth", ethtool=sending) if segments is not None else None
    found = link_queue_positions("veth", make_link(7, "veth0", kind="veth", ethtool=ethtool), peer)
    assert found == ({("rx", 0): QueuePositions((1,), (2,), (3,))} if counts else {})


@given(st.sampled_from(sorted(COUNTER_NAMES)), st.lists(st.text(max_size=32), max_size=20))
def test_arbitrary_names(driver: str, names: list[str]) -> None:
    for (side, number), found in queue_positions(driver, names).items():
        assert side in ("rx", "tx") and number >= 0
        positions = found.packets + found.bytes + found.drops
        assert positions and len(set(positions)) == len(positions) and max(positions) < len(names)
