"""Driver counters (``ethtool -S``) by queue: one table per driver.

Reads nothing; takes the names of the string set ETH_SS_STATS and returns, per queue, the positions
of its packets, bytes and drops. Names that are in no table are ignored: a number in a name is not
taken for a queue.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Literal

from nictop.probe.kernel.patterns import pattern
from nictop.probe.light_dataclasses import dataclass
from nictop.probe.records import Link

Side = Literal["rx", "tx"]
Quantity = Literal["packets", "bytes", "drops"]


@dataclass(frozen=True)
class QueuePositions:
    """Positions of one direction of one queue among the driver counters. Several are added; none:
    not offered."""

    packets: tuple[int, ...] = ()
    bytes: tuple[int, ...] = ()
    drops: tuple[int, ...] = ()


@dataclass(frozen=True)
class CounterName:
    """One counter name of a driver; the first group of the pattern is the queue number."""

    pattern: re.Pattern[str]
    side: Side
    what: Quantity
    section: bool = False
    """The name is in a section whose header has the queue number; it has none itself."""


def _names(*rows: tuple[str, Side, Quantity]) -> tuple[CounterName, ...]:
    return tuple(CounterName(pattern(text), side, what) for text, side, what in rows)


def _rx_and_tx(packets: str, size: str, *drops: tuple[str, Side]) -> tuple[CounterName, ...]:
    """Rows for both directions; the patterns have ``{}`` for rx or tx."""
    rows: list[tuple[str, Side, Quantity]] = []
    for side in ("rx", "tx"):
        direction: Side = "rx" if side == "rx" else "tx"
        rows += [
            (packets.format(direction), direction, "packets"),
            (size.format(direction), direction, "bytes"),
        ]
    return _names(*rows, *((text, direction, "drops") for text, direction in drops))


def _section(names: str, side: Side, what: Quantity) -> CounterName:
    return CounterName(pattern(names), side, what, section=True)


_INTEL = _rx_and_tx(r"{}_queue_(\d+)_packets", r"{}_queue_(\d+)_bytes")
_XL710 = _rx_and_tx(  # the second form is that of Linux before 5.0
    r"{0}-(\d+)\.(?:{0}_)?packets", r"{0}-(\d+)\.(?:{0}_)?bytes"
)
_MELLANOX = _rx_and_tx(r"{}(\d+)_packets", r"{}(\d+)_bytes")

COUNTER_NAMES: dict[str, tuple[CounterName, ...]] = {
    # drivers/net/virtio_net.c; packets and bytes until Linux 6.9 (then qstats), the shorter names
    # since 6.5
    "virtio_net": _rx_and_tx(
        r"{}(?:_queue_)?(\d+)_packets",
        r"{}(?:_queue_)?(\d+)_bytes",
        (r"rx(?:_queue_)?(\d+)_drops", "rx"),
        (r"tx(?:_queue_)?(\d+)_drops", "tx"),
    ),
    # drivers/net/vmxnet3/vmxnet3_ethtool.c; sums as in vmxnet3_get_stats64, the TSO and LRO ones
    # are contained in them
    "vmxnet3": (
        _section(r"[umb]cast pkts rx", "rx", "packets"),
        _section(r"[umb]cast bytes rx", "rx", "bytes"),
        _section(r"pkts rx OOB|drv dropped rx total", "rx", "drops"),
        _section(r"[umb]cast pkts tx", "tx", "packets"),
        _section(r"[umb]cast bytes tx", "tx", "bytes"),
        _section(r"pkts tx discard|drv dropped tx total", "tx", "drops"),
    ),
    # drivers/net/ethernet/intel/{igb/igb,igc/igc,ixgbe/ixgbe,ixgbevf/}ethtool.c, ice/ice_ethtool.c
    "igb": (*_INTEL, *_names((r"rx_queue_(\d+)_drops", "rx", "drops"))),
    "igc": (*_INTEL, *_names((r"rx_queue_(\d+)_drops", "rx", "drops"))),
    "ixgbe": _INTEL,
    "ixgbevf": _INTEL,
    "ice": _INTEL,
    # drivers/net/ethernet/intel/igbvf/ethtool.c and e1000e/ethtool.c count for the device alone
    "igbvf": (),
    "e1000e": (),
    # drivers/net/ethernet/intel/i40e/i40e_ethtool.c, iavf/iavf_ethtool.c
    "i40e": _XL710,
    "iavf": _XL710,
    "i40evf": _XL710,
    # drivers/net/ethernet/mellanox/mlx5/core/en_stats.c: the transmit ones of traffic class 0
    "mlx5_core": (
        *_MELLANOX,
        *_names(
            (r"rx(\d+)_buff_alloc_err", "rx", "drops"),
            (r"rx(\d+)_wqe_err", "rx", "drops"),
            (r"tx(\d+)_dropped", "tx", "drops"),
        ),
    ),
    # drivers/net/ethernet/mellanox/mlx4/en_ethtool.c
    "mlx4_en": (*_MELLANOX, *_names((r"rx(\d+)_dropped", "rx", "drops"))),
    # drivers/net/ethernet/broadcom/bnxt/bnxt_ethtool.c; discards are of the hardware's ring
    "bnxt_en": _rx_and_tx(
        r"\[(\d+)\]: {}_[umb]cast_packets",
        r"\[(\d+)\]: {}_[umb]cast_bytes",
        (r"\[(\d+)\]: rx_discards", "rx"),
        (r"\[(\d+)\]: tx_discards", "tx"),
    ),
    # drivers/net/ethernet/amazon/ena/ena_ethtool.c
    "ena": _rx_and_tx(r"queue_(\d+)_{}_cnt", r"queue_(\d+)_{}_bytes"),
    # drivers/net/ethernet/google/gve/gve_ethtool.c; it counts descriptors, which are not packets
    "gve": _names(
        (r"rx_bytes\[(\d+)\]", "rx", "bytes"),
        (r"rx_dropped_pkt\[(\d+)\]", "rx", "drops"),
        (r"rx_queue_drop_cnt\[(\d+)\]", "rx", "drops"),
        (r"tx_bytes\[(\d+)\]", "tx", "bytes"),
    ),
    # drivers/net/ethernet/microsoft/mana/mana_ethtool.c
    "mana": _rx_and_tx(r"{}_(\d+)_packets", r"{}_(\d+)_bytes", (r"rx_(\d+)_xdp_drop", "rx")),
    # drivers/net/hyperv/netvsc_drv.c
    "hv_netvsc": _rx_and_tx(r"{}_queue_(\d+)_packets", r"{}_queue_(\d+)_bytes"),
    # drivers/net/veth.c; counted by its NAPI only: see `_veth_counts`
    "veth": _names(
        (r"rx_queue_(\d+)_xdp_packets", "rx", "packets"),
        (r"rx_queue_(\d+)_xdp_bytes", "rx", "bytes"),
        (r"rx_queue_(\d+)_drops", "rx", "drops"),
    ),
}

_HEADERS: dict[str, Side] = {"Rx Queue#": "rx", "Tx Queue#": "tx"}
"""Section headers of vmxnet3: counters whose value is the queue number. They are in the order of
the queues."""

_INDENT = pattern(r" *")
SECTION_INDENT = 2
"""Blanks before the names of a section. Names with more are parts of the one above (`` giant
hdr``), names with fewer end the section (``tx timeout count``)."""


def queue_positions(driver: str, names: Sequence[str]) -> dict[tuple[Side, int], QueuePositions]:
    """("rx" or "tx", queue number) → positions in `names`; {} for drivers that count no queues or
    are not in the table."""
    table = COUNTER_NAMES.get(driver, ())
    found: dict[tuple[Side, int], dict[Quantity, list[int]]] = {}
    section: tuple[Side, int] | None = None
    headers: dict[Side, int] = {"rx": 0, "tx": 0}
    for position, name in enumerate(names):
        if driver == "vmxnet3" and name in _HEADERS:
            side = _HEADERS[name]
            section = (side, headers[side])
            headers[side] += 1
            continue
        if _indent(name) < SECTION_INDENT:
            section = None
        for row in table:
            key = _key(row, name, section)
            if key is not None:
                found.setdefault(key, {}).setdefault(row.what, []).append(position)
                break
    return {
        key: QueuePositions(*(tuple(parts.get(what, ())) for what in ("packets", "bytes", "drops")))
        for key, parts in found.items()
        if key[1] >= 0
    }


def _key(row: CounterName, name: str, section: tuple[Side, int] | None) -> tuple[Side, int] | None:
    if row.section:
        is_in_section = (
            section is not None and section[0] == row.side and _indent(name) == SECTION_INDENT
        )
        return section if is_in_section and row.pattern.fullmatch(name.strip()) else None
    match = row.pattern.fullmatch(name)
    return (row.side, _number(match[1])) if match is not None else None


def _indent(name: str) -> int:
    match = _INDENT.match(name)
    return match.end() if match is not None else 0


def _number(digits: str) -> int:
    """The queue number; -1 for an invalid one."""
    return int(digits) if digits.isascii() and len(digits) <= 6 else -1


def link_queue_positions(
    driver: str | None, link: Link, peer: Link | None = None
) -> dict[tuple[Side, int], QueuePositions]:
    """The positions for a link in its present configuration. `peer`: the other end of a veth, if it
    is visible."""
    names = link.ethtool.driver_counter_names
    if driver is None or names is None:
        return {}
    if driver == "veth" and not _veth_counts(link, peer):
        return {}
    return queue_positions(driver, names)


def _veth_counts(link: Link, peer: Link | None) -> bool:
    """Whether veth counts the packets of a queue: only if its NAPI receives them, that is with
    receive GRO (off by default), and from a peer without TCP segmentation offload
    (veth_skb_is_eligible_for_napi). Otherwise its zeros would look like idle queues."""
    if peer is None or peer.ethtool.features is None:
        return False
    segments = any(
        one.active and one.name.startswith("tx-tcp") and one.name.endswith("-segmentation")
        for one in peer.ethtool.features
    )
    if segments:
        return False
    return any(one.name == "rx-gro" and one.active for one in link.ethtool.features or ())
