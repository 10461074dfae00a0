"""Every driver's vector names, as in its kernel source or on a real guest."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nictop.model.queues.vectors import (
    ALL_QUEUES,
    OTHER,
    SCHEMES,
    Direction,
    Vector,
    vector,
    vectors,
)
from tests.model.captured import captured_interrupts, captured_inventory

CONFIG = Vector("both", None, "config")


def queue(direction: Direction, number: int) -> Vector:
    return Vector(direction, number, "queue")


NAMES = [
    ("virtio_net", "virtio2-input.0", queue("rx", 0)),
    ("virtio_net", "virtio2-output.13", queue("tx", 13)),
    ("virtio_net", "virtio2-config", CONFIG),
    ("virtio_net", "virtio2-control", CONFIG),
    ("virtio_net", "virtio2-virtqueues", ALL_QUEUES),
    ("virtio_net", "virtio1-req.0", None),
    ("vmxnet3", "ens192-rxtx-3", queue("both", 3)),
    ("vmxnet3", "ens192-rx-1", queue("rx", 1)),
    ("vmxnet3", "ens192-tx-1", queue("tx", 1)),
    ("vmxnet3", "ens192-event-4", OTHER),
    ("igb", "ens224", OTHER),
    ("igb", "ens224-TxRx-0", queue("both", 0)),
    ("igb", "ens224-rx-1", queue("rx", 1)),
    ("igb", "ens224-tx-1", queue("tx", 1)),
    ("igc", "enp2s0-TxRx-3", queue("both", 3)),
    ("igbvf", "ens224v0-tx-0", queue("tx", 0)),
    ("igbvf", "ens224v0-rx-0", queue("rx", 0)),
    ("igbvf", "ens224v0", OTHER),
    ("ixgbe", "eth2-TxRx-63", queue("both", 63)),
    ("ixgbe", "eth2", OTHER),
    ("ixgbevf", "eth2-TxRx-1", queue("both", 1)),
    ("ixgbevf", "eth2-rx-1", queue("rx", 1)),
    ("i40e", "i40e-ens37-TxRx-7", queue("both", 7)),
    ("i40e", "i40e-0000:02:05.0:misc", OTHER),
    ("i40e", "i40e-0000:02:05.0:fdir-TxRx-0", OTHER),
    ("iavf", "iavf-ens37v0-TxRx-3", queue("both", 3)),
    ("iavf", "iavf-0000:02:0a.0:mbx", OTHER),
    ("i40evf", "i40evf-eth0-TxRx-0", queue("both", 0)),
    ("ice", "ice-ens1f0-TxRx-12", queue("both", 12)),
    ("ice", "ice-0000:3b:00.0:misc", OTHER),
    ("ice", "ice-0000:3b:00.0:ctrl-TxRx-0", OTHER),
    ("mlx4_en", "mlx4-1@pci:0000:05:00.0", queue("both", 0)),
    ("mlx4_en", "mlx4-16@0000:05:00.0", queue("both", 15)),
    ("mlx4_en", "mlx4-comp-0@pci:0000:05:00.0", queue("both", 0)),
    ("mlx4_en", "mlx4-async@pci:0000:05:00.0", OTHER),
    ("mlx5_core", "mlx5_comp3@pci:0000:08:00.0", queue("both", 3)),
    ("mlx5_core", "mlx5_async@pci:0000:08:00.0", OTHER),
    ("mlx5_core", "mlx5_async0@pci:0000:08:00.0", OTHER),
    ("mlx5_core", "mlx5_pages_eq@pci:0000:08:00.0", OTHER),
    ("mlx5_core", "mlx5_combined0@pci:0000:08:00.0", ALL_QUEUES),
    ("bnxt_en", "ens1f0-TxRx-5", queue("both", 5)),
    ("bnxt_en", "ens1f0-rx-2", queue("rx", 2)),
    ("ena", "ens5-Tx-Rx-1", queue("both", 1)),
    ("ena", "ena-mgmnt@pci:0000:00:05.0", OTHER),
    ("gve", "gve-mgmnt@pci:0000:00:04.0", OTHER),
    ("e1000e", "enp0s31f6-rx-0", queue("rx", 0)),
    ("e1000e", "enp0s31f6-tx-0", queue("tx", 0)),
    ("e1000e", "enp0s31f6", OTHER),
    ("tg3", "eth0-tx-0", queue("tx", 0)),
    ("tg3", "eth0-rx-1", queue("rx", 0)),
    ("tg3", "eth0-txrx-2", queue("both", 1)),
    ("tg3", "eth0-0", OTHER),
    ("vif", "vif0-q1-tx", queue("tx", 1)),
    ("vif", "eth0-q0-rx", queue("rx", 0)),
    ("vif", "vif3.0-q1-tx", queue("rx", 1)),  # netback: packets sent by the guest are received here
    ("vif", "vif3.0-q1-rx", queue("tx", 1)),
    ("vif", "vif3.0-q2", queue("both", 2)),
]


@pytest.mark.parametrize(("driver", "name", "expected"), NAMES)
def test_names(driver: str, name: str, expected: Vector | None) -> None:
    assert vector(driver, name) == expected


def test_the_driver_selects_the_table() -> None:
    assert vector("virtio_net", "ens192-rxtx-3") is None
    assert vector("vmxnet3", "ens224-TxRx-0") == OTHER
    assert vector("unheard-of", "eth0-TxRx-0") is None


def test_a_name_from_before_a_rename() -> None:
    assert (
        vector("igb", "eth0-TxRx-1") == vector("igb", "my-uplink-rx-7-TxRx-1") == queue("both", 1)
    )


@pytest.mark.parametrize(
    ("driver", "name"),
    [("r8169", "enp3s0"), ("e1000", "eth0"), ("virtio_net", "virtio0"), ("igb", "ens224"),
        ("vmxnet3", "ens192"),
     ("vif", "eth0"), ("tg3", "eth0"), ("e1000e", "eno1"), ("igb", "ens224-TxRx-0")],
)  # fmt: skip
def test_the_sole_vector_of_a_device_serves_all_queues(driver: str, name: str) -> None:
    expected = queue("both", 0) if name.endswith("-0") else ALL_QUEUES
    assert vectors(driver, [name]) == (expected,)


def test_gve_transmits_in_the_first_half_of_the_blocks() -> None:
    names = [f"gve-ntfy-blk{number}@pci:0000:00:04.0" for number in range(4)] + [
        "gve-mgmnt@pci:0000:00:04.0"
    ]
    assert vectors("gve", names) == (
        queue("tx", 0),
        queue("tx", 1),
        queue("rx", 0),
        queue("rx", 1),
        OTHER,
    )
    old = ["eth0-ntfy-block.0", "eth0-ntfy-block.1", "eth0-mgmnt"]
    assert vectors("gve", old) == (queue("tx", 0), queue("rx", 0), OTHER)


def test_truncated_names_are_assigned_by_order() -> None:
    assert vectors("igbvf", ["enp101s0f0v12"] * 3) == (queue("tx", 0), queue("rx", 0), OTHER)
    assert vectors("e1000e", ["enp101s0f0np0"] * 3) == (queue("rx", 0), queue("tx", 0), OTHER)


def test_every_scheme_cites_its_kernel_source() -> None:
    for driver, schemes in SCHEMES.items():
        assert all(one.source.count("drivers/") >= 1 and ".c" in one.source for one in schemes), (
            driver
        )
    assert {name for name, _, _ in NAMES} | {"r8169", "e1000", "gve"} >= SCHEMES.keys() - {
        "mlx4_core", "xen-netfront", "xen-netback", "xen_netfront",
    }  # fmt: skip


def test_every_vector_of_the_captured_guest_is_known() -> None:
    interrupts, _ = captured_interrupts()
    assert len(interrupts) == 29, "5 of vmxnet3, 3 of igb, 12 of igbvf, 9 of virtio"
    links = {link.pci_address: link for link in captured_inventory().links if link.pci_address}
    for address in {one.pci_address for one in interrupts if one.pci_address is not None}:
        own = [one.actions[0] for one in interrupts if one.pci_address == address]
        info = links[address].ethtool.driver
        assert info is not None
        assert None not in vectors(info.driver, own)


@given(st.sampled_from(sorted(SCHEMES)), st.lists(st.text(max_size=40), max_size=6))
def test_arbitrary_names(driver: str, names: list[str]) -> None:
    found = vectors(driver, names)
    assert len(found) == len(names)
    assert all(
        one is None or one.queue is None or (one.queue >= 0 and one.role == "queue")
        for one in found
    )


@given(st.sampled_from(sorted(SCHEMES)), st.text(max_size=20), st.text("0123456789²٣", max_size=12))
def test_arbitrary_numbers(driver: str, prefix: str, digits: str) -> None:
    for form in ("-TxRx-", "-rx-", "-txrx-", "-rxtx-", "-q"):
        found = vector(driver, prefix + form + digits)
        assert found is None or found.queue is None or found.queue < 10**6
