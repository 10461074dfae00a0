"""Names of drivers' counters, as in their source files and in ``ethtool -S`` of real machines, and
their meaning."""

from __future__ import annotations

import re

import pytest

from nictop.model.devices.driver_losses import LOSS_COUNTERS, OTHER, Meaning, loss_positions

ENA = (
    *(
        "tx_timeout",
        "suspend",
        "resume",
        "wd_expired",
        "interface_up",
        "interface_down",
        "admin_q_pause",
    ),
    *("bw_in_allowance_exceeded", "bw_out_allowance_exceeded", "pps_allowance_exceeded"),
    *(
        "conntrack_allowance_available",
        "conntrack_allowance_exceeded",
        "linklocal_allowance_exceeded",
    ),
    *(
        "queue_0_tx_cnt",
        "queue_0_rx_cnt",
        "queue_0_rx_page_alloc_fail",
        "queue_11_rx_page_alloc_fail",
    ),
)
GVE = (
    *(
        "rx_packets",
        "rx_dropped",
        "tx_timeouts",
        "rx_buf_alloc_fail",
        "reset_cnt",
        "page_alloc_fail",
    ),
    *(
        "rx_dropped_pkt[0]",
        "rx_queue_drop_cnt[0]",
        "rx_no_buffers_posted[0]",
        "rx_queue_drop_cnt[12]",
    ),
)
MLX5 = (
    "rx_packets",
    "rx_out_of_buffer",
    "rx_steer_missed_packets",
    "rx_pause_ctrl_phy",
    "tx_pause_ctrl_phy",
)
ICE = (
    "rx_dropped",
    "rx_alloc_fail",
    "link_xoff_rx.nic",
    "link_xoff_tx.nic",
    "tx_timeout.nic",
    "rx_dropped.nic",
)


@pytest.mark.parametrize(
    ("driver", "meaning", "names", "found"),
    [
        ("ena", "limits", ENA, [name for name in ENA if name.endswith("exceeded")]),
        ("ena", "memory", ENA, ["queue_0_rx_page_alloc_fail", "queue_11_rx_page_alloc_fail"]),
        ("ena", "resets", ENA, ["tx_timeout", "wd_expired"]),
        (
            "gve",
            "ring",
            GVE,
            ["rx_queue_drop_cnt[0]", "rx_no_buffers_posted[0]", "rx_queue_drop_cnt[12]"],
        ),
        ("gve", "resets", GVE, ["tx_timeouts", "reset_cnt"]),
        ("mlx5_core", "ring", MLX5, ["rx_out_of_buffer"]),
        ("mlx5_core", "steering", MLX5, ["rx_steer_missed_packets"]),
        ("mlx5_core", "paused", MLX5, ["rx_pause_ctrl_phy"]),
        ("ice", "ring", ICE, ["rx_dropped", "rx_dropped.nic"]),
        ("ice", "pausing", ICE, ["link_xoff_tx.nic"]),
        ("i40e", "ring", ("rx_dropped", "port.rx_dropped"), ["port.rx_dropped"]),
        ("iavf", "ring", ("rx_discards", "tx_discards"), ["rx_discards"]),
        ("mana", "ring", ("hc_rx_discards_no_wqe", "hc_rx_bytes"), ["hc_rx_discards_no_wqe"]),
        ("igb", "ring", ("  rx_no_buffer_count ", "rx_dropped"), ["  rx_no_buffer_count "]),
        (None, "limits", ENA, []),
    ],
)
def test_counters_by_meaning(
    driver: str | None, meaning: Meaning, names: tuple[str, ...], found: list[str]
) -> None:
    assert [names[position] for position in loss_positions(driver, meaning, names)] == found


def test_every_name_is_a_pattern_without_groups() -> None:
    for table in (OTHER, *LOSS_COUNTERS.values()):
        for patterns in table.values():
            assert all(re.compile(pattern).groups == 0 for pattern in patterns)
