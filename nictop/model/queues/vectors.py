"""Queues by the names of interrupts: one table per driver.

Reads nothing; takes the names that drivers passed to ``request_irq`` (`Interrupt.actions`) and
returns queue numbers. The table is chosen by driver, never by interface name. The interface may
have been renamed after the name was assigned, so that only the fixed part of a vector name is
matched. Each row cites the kernel source that prints it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Literal

from nictop.probe.kernel.patterns import pattern
from nictop.probe.light_dataclasses import dataclass

Direction = Literal["rx", "tx", "both"]
Role = Literal["queue", "other", "config"]


@dataclass(frozen=True)
class Vector:
    """What one interrupt serves."""

    direction: Direction
    queue: int | None
    """Queue number as counted by the kernel; None: all queues of the netdev, or none (`role`)."""
    role: Role
    """other: link changes, mailbox, events. config: notification of a configuration change of the
    device."""


@dataclass(frozen=True)
class Scheme:
    """One naming scheme of a driver's vectors."""

    pattern: re.Pattern[str]
    """Matches the whole name; its first group, if there is one, is the number."""
    direction: Direction
    role: Role
    source: str
    """The file of the Linux source that prints the name."""
    first: int = 0
    """The number of queue 0 in the name; a smaller number is not a queue (other)."""


_Row = tuple[str, Direction, Role] | tuple[str, Direction, Role, int]


def _schemes(source: str, *rows: _Row) -> tuple[Scheme, ...]:
    return tuple(
        Scheme(pattern(row[0], re.DOTALL), row[1], row[2], source, row[3] if len(row) == 4 else 0)
        for row in rows
    )


_SINGLE = "drivers without a queue in the name: "
_INTEL: tuple[_Row, ...] = (
    (r".*-TxRx-(\d+)", "both", "queue"),
    (r".*-rx-(\d+)", "rx", "queue"),
    (r".*-tx-(\d+)", "tx", "queue"),
)

SCHEMES: dict[str, tuple[Scheme, ...]] = {
    "virtio_net": _schemes(
        "drivers/virtio/virtio_pci_common.c; names of the queues: drivers/net/virtio_net.c",
        (r"virtio\d+-input\.(\d+)", "rx", "queue"),
        (r"virtio\d+-output\.(\d+)", "tx", "queue"),
        (r"virtio\d+-config", "both", "config"),
        (r"virtio\d+-control", "both", "config"),
        (
            r"virtio\d+-virtqueues",
            "both",
            "queue",
        ),  # fewer vectors than queues: one for all of them
    ),
    "vmxnet3": _schemes(
        "drivers/net/vmxnet3/vmxnet3_drv.c",
        (r".*-rxtx-(\d+)", "both", "queue"),
        (r".*-rx-(\d+)", "rx", "queue"),
        (r".*-tx-(\d+)", "tx", "queue"),
        (r".*-tx", "tx", "queue"),  # one vector shared by all transmit queues
        (r".*-event-\d+", "both", "other"),
        (r".*", "both", "other"),
    ),
    "igb": _schemes("drivers/net/ethernet/intel/igb/igb_main.c", *_INTEL, (r".*", "both", "other")),
    "igc": _schemes("drivers/net/ethernet/intel/igc/igc_main.c", *_INTEL, (r".*", "both", "other")),
    "igbvf": _schemes(
        "drivers/net/ethernet/intel/igbvf/netdev.c", *_INTEL[1:], (r".*", "both", "other")
    ),
    "ixgbe": _schemes(
        "drivers/net/ethernet/intel/ixgbe/ixgbe_main.c", *_INTEL, (r".*", "both", "other")
    ),
    "ixgbevf": _schemes(
        "drivers/net/ethernet/intel/ixgbevf/ixgbevf_main.c", *_INTEL, (r".*", "both", "other")
    ),
    "i40e": _schemes(
        "drivers/net/ethernet/intel/i40e/i40e_main.c",
        (r"i40e-.*:(?:misc|fdir-TxRx-\d+)", "both", "other"),  # flow director: a queue of no netdev
        *_INTEL,
    ),
    "iavf": _schemes(
        "drivers/net/ethernet/intel/iavf/iavf_main.c", *_INTEL, (r"iavf-.*:mbx", "both", "other")
    ),
    "ice": _schemes(
        "drivers/net/ethernet/intel/ice/ice_lib.c, ice_main.c",
        (r"ice-.*:(?:misc|ll_ts|ctrl-TxRx-\d+)", "both", "other"),
        *_INTEL,
    ),
    "mlx4_en": _schemes(
        "drivers/net/ethernet/mellanox/mlx4/eq.c: event queues, of which 0 is not for completions",
        (r"mlx4-(\d+)@.*", "both", "queue", 1),
        (
            r"mlx4-comp-(\d+)@.*",
            "both",
            "queue",
        ),  # before Linux 4.2: completions alone, the other one last
        (r"mlx4-async@.*", "both", "other"),
    ),
    "mlx5_core": _schemes(
        "drivers/net/ethernet/mellanox/mlx5/core/pci_irq.c",
        (r"mlx5_comp(\d+)@.*", "both", "queue"),
        (r"mlx5_combined\d+@.*", "both", "queue"),  # the only vector that the function has
        (r"mlx5_(?:async|ctrl|cmd|pages)\w*@.*", "both", "other"),
    ),
    "bnxt_en": _schemes("drivers/net/ethernet/broadcom/bnxt/bnxt.c", *_INTEL),
    "ena": _schemes(
        "drivers/net/ethernet/amazon/ena/ena_netdev.c",
        (r".*-Tx-Rx-(\d+)", "both", "queue"),
        (r"ena-mgmnt@.*", "both", "other"),
    ),
    "gve": _schemes(
        "drivers/net/ethernet/google/gve/gve_main.c: notification blocks, one half for tx, the "
        "other for rx",
        (r"gve-ntfy-blk(\d+)@.*", "both", "queue"),
        (r".*-ntfy-block\.(\d+)", "both", "queue"),  # before Linux 6.4
        (r"gve-mgmnt@.*", "both", "other"),
        (r".*-mgmnt", "both", "other"),
    ),
    # interface names of more than 10 characters leave no room for the queue: see `_BY_ORDER`
    "e1000e": _schemes(
        "drivers/net/ethernet/intel/e1000e/netdev.c", *_INTEL[1:], (r".*", "both", "other")
    ),
    "r8169": _schemes(
        _SINGLE + "drivers/net/ethernet/realtek/r8169_main.c", (r".*", "both", "other")
    ),
    "e1000": _schemes(
        _SINGLE + "drivers/net/ethernet/intel/e1000/e1000_main.c", (r".*", "both", "other")
    ),
    "tg3": _schemes(
        "drivers/net/ethernet/broadcom/tg3.c: with several vectors the first one has no receive "
        "ring",
        (r".*-txrx-(\d+)", "both", "queue", 1),
        (r".*-rx-(\d+)", "rx", "queue", 1),
        (r".*-tx-(\d+)", "tx", "queue"),
        (r".*-\d+", "both", "other"),
        (r".*", "both", "other"),
    ),
    "vif": _schemes(
        "drivers/net/xen-netfront.c, drivers/net/xen-netback/interface.c (its tx: what the guest "
        "sends)",
        (r"vif\d+\.\d+-q(\d+)-tx", "rx", "queue"),
        (r"vif\d+\.\d+-q(\d+)-rx", "tx", "queue"),
        (r".*-q(\d+)-tx", "tx", "queue"),
        (r".*-q(\d+)-rx", "rx", "queue"),
        (r".*-q(\d+)", "both", "queue"),  # one event channel for both directions
        (r".*", "both", "other"),
    ),
}
SCHEMES["xen-netfront"] = SCHEMES["xen-netback"] = SCHEMES["xen_netfront"] = SCHEMES["vif"]
SCHEMES["i40evf"] = SCHEMES["iavf"]
SCHEMES["mlx4_core"] = SCHEMES["mlx4_en"]

ALL_QUEUES = Vector("both", None, "queue")
OTHER = Vector("both", None, "other")

_BY_ORDER = {
    "e1000e": (Vector("rx", 0, "queue"), Vector("tx", 0, "queue"), OTHER),
    "igbvf": (Vector("tx", 0, "queue"), Vector("rx", 0, "queue"), OTHER),
}
"""Vectors in the order of their numbers, for the case that all three have the name of the interface
only."""

MAX_NUMBER_DIGITS = 6
"""Maximum digits of a queue number."""


def vector(driver: str, action: str) -> Vector | None:
    """The vector with this name on a device of `driver`; None: the driver does not use such
    names."""
    for scheme in SCHEMES.get(driver, ()):
        match = scheme.pattern.fullmatch(action)
        if match is None:
            continue
        if scheme.role != "queue" or match.re.groups == 0:
            return Vector(scheme.direction, None, scheme.role)
        if not match[1].isascii() or len(match[1]) > MAX_NUMBER_DIGITS:
            return None
        number = int(match[1]) - scheme.first
        if number < 0:
            return OTHER
        return Vector(scheme.direction, number, "queue")
    return None


def vectors(driver: str, actions: Sequence[str]) -> tuple[Vector | None, ...]:
    """All vectors of one device together, ordered by interrupt number.

    Some names can be interpreted only together: the only vector of a device (MSI, INTx) serves all
    of its queues whatever its name, and gve numbers receive blocks after the transmit blocks.
    """
    found = [vector(driver, action) for action in actions]
    if driver == "virtio_net":
        return tuple(map(_virtio_vector, found, actions))
    if len(actions) == 1 and driver in SCHEMES:
        only = found[0]
        if only is None or only.role == "other":
            return (ALL_QUEUES,)
    are_all_same = len(actions) == 3 and len(set(actions)) == 1
    if driver in _BY_ORDER and are_all_same:
        return _BY_ORDER[driver]
    if driver == "gve":
        return tuple(_gve_vectors(found))
    return tuple(found)


def _virtio_vector(named: Vector | None, action: str) -> Vector | None:
    """INTx has the name of the virtio device alone."""
    if named is None and re.fullmatch(r"virtio\d+", action):
        return ALL_QUEUES
    return named


def _gve_vectors(found: Sequence[Vector | None]) -> Iterator[Vector | None]:
    """Inverse of gve_tx_idx_to_ntfy and gve_rx_idx_to_ntfy: the first half of the blocks
    transmits."""
    blocks = [named.queue for named in found if named is not None and named.queue is not None]
    half = len(blocks) // 2
    for named in found:
        if named is None or named.queue is None:
            yield named
        elif named.queue < half:
            yield Vector("tx", named.queue, "queue")
        else:
            yield Vector("rx", named.queue - half, "queue")
