"""Driver counters (``ethtool -S``) of losses and limits, by meaning: one table per driver.

Reads nothing; takes the names of the string set ETH_SS_STATS. Counters of every queue, whose names
have its number (``rx_queue_drop_cnt[3]``), are added up. Drivers that are not in the table use the
names of `OTHER`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Literal

Meaning = Literal["ring", "memory", "steering", "resets", "downs", "paused", "pausing", "limits"]
"""ring: received packets without a free descriptor or buffer. memory: the driver found no memory
for a receive buffer. steering: received packets that no rule of the NIC's flow table selects.
resets: the driver reset the NIC. downs: it was taken down, by a reset or by an administrator.
paused and pausing: pause frames received and sent. limits: packets that the platform queued or
dropped because the instance has used up what it may send or receive."""

Names = Mapping[Meaning, tuple[str, ...]]

OTHER: Names = {
    "ring": (
        "rx_no_dma_resources",
        "rx_no_buffer_count",
        "rx_missed_errors",
        "rx_fifo_errors",
        "rx_overruns",
    ),
    "resets": ("tx_timeout_count",),
    "paused": ("rx_flow_control_xoff", "rx_pause", "rx_pause_frames"),
    "pausing": ("tx_flow_control_xoff", "tx_pause", "tx_pause_frames"),
}
"""e1000, igb, igc, e1000e, sfc and others."""

LOSS_COUNTERS: dict[str, Names] = {
    # drivers/net/ethernet/amazon/ena/ena_ethtool.c; AWS EC2 User Guide, "Monitor network
    # performance for ENA settings"
    "ena": {
        "ring": ("rx_overruns",),
        "memory": (r"queue_\d+_rx_page_alloc_fail", r"queue_\d+_rx_skb_alloc_fail"),
        "resets": ("wd_expired", "tx_timeout", "reset_fail"),
        "downs": ("interface_down",),
        "limits": (
            "bw_in_allowance_exceeded",
            "bw_out_allowance_exceeded",
            "pps_allowance_exceeded",
            "conntrack_allowance_exceeded",
            "linklocal_allowance_exceeded",
        ),
    },
    # drivers/net/ethernet/google/gve/gve_ethtool.c; the NIC reports the first two with the private
    # flag report-stats
    "gve": {
        "ring": (r"rx_queue_drop_cnt\[\d+\]", r"rx_no_buffers_posted\[\d+\]"),
        "memory": ("rx_buf_alloc_fail", "rx_skb_alloc_fail", "page_alloc_fail"),
        "resets": ("reset_cnt", "tx_timeouts"),
    },
    # drivers/net/vmxnet3/vmxnet3_ethtool.c
    "vmxnet3": {"resets": ("tx timeout count",)},
    # drivers/net/virtio_net.c; since Linux 6.4 also of each queue
    "virtio_net": {"resets": (r"tx_queue_\d+_tx_timeouts", r"tx\d+_tx_timeouts", "tx_timeouts")},
    # drivers/net/ethernet/microsoft/mana/mana_ethtool.c
    "mana": {"ring": ("hc_rx_discards_no_wqe",)},
    # drivers/net/ethernet/mellanox/mlx5/core/en_stats.c; Documentation/…/mellanox/mlx5/counters.rst
    "mlx5_core": {
        "ring": ("rx_out_of_buffer", "rx_discards_phy"),
        "memory": ("rx_buff_alloc_err",),
        "steering": ("rx_steer_missed_packets",),
        "resets": ("tx_recover", "rx_recover"),
        "paused": ("rx_pause_ctrl_phy",),
        "pausing": ("tx_pause_ctrl_phy",),
    },
    # drivers/net/ethernet/intel/ice/ice_ethtool.c; .nic: of the port, which several netdevs share
    "ice": {
        "ring": ("rx_dropped", "rx_dropped.nic"),
        "memory": ("rx_alloc_fail", "rx_pg_alloc_fail"),
        "resets": ("tx_timeout.nic",),
        "paused": ("link_xoff_rx.nic",),
        "pausing": ("link_xoff_tx.nic",),
    },
    # drivers/net/ethernet/intel/i40e/i40e_ethtool.c
    "i40e": {
        "ring": ("rx_missed_errors", "port.rx_discards", "port.rx_dropped"),
        "memory": ("rx_alloc_fail", "rx_pg_alloc_fail"),
        "resets": ("port.tx_timeout",),
        "paused": ("port.link_xoff_rx", "link_xoff_rx"),
        "pausing": ("port.link_xoff_tx", "link_xoff_tx"),
    },
    # drivers/net/ethernet/intel/iavf/iavf_ethtool.c
    "iavf": {"ring": ("rx_discards",)},
    "i40evf": {"ring": ("rx_discards",)},
    # drivers/net/ethernet/intel/ixgbe/ixgbe_ethtool.c, ixgbevf/ethtool.c
    "ixgbe": {
        "ring": ("rx_no_dma_resources", "rx_missed_errors", "rx_no_buffer_count"),
        "memory": ("alloc_rx_buff_failed", "alloc_rx_page_failed"),
        "resets": ("tx_timeout_count",),
        "paused": ("rx_flow_control_xoff",),
        "pausing": ("tx_flow_control_xoff",),
    },
    "ixgbevf": {
        "memory": ("alloc_rx_buff_failed", "alloc_rx_page_failed"),
        "resets": ("tx_timeout_count",),
    },
    # drivers/net/ethernet/broadcom/bnxt/bnxt_ethtool.c
    "bnxt_en": {
        "ring": (r"\[\d+\]: rx_discards",),
        "paused": ("rx_pause_frames",),
        "pausing": ("tx_pause_frames",),
    },
}

CONNECTIONS_AVAILABLE = "conntrack_allowance_available"
"""ena: connections that the platform can still track for the instance. A number of entries, not a
counter."""


@lru_cache(maxsize=1024)
def loss_positions(driver: str | None, meaning: Meaning, names: Sequence[str]) -> tuple[int, ...]:
    """Positions in `names` (a tuple) of the counters with this meaning."""
    patterns = LOSS_COUNTERS.get(driver or "", OTHER).get(meaning, ())
    if not patterns:
        return ()
    wanted = re.compile("|".join(f"(?:{pattern})" for pattern in patterns))
    return tuple(position for position, name in enumerate(names) if wanted.fullmatch(name.strip()))
