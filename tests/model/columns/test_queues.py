"""The queue table: what stands in each column, and which of them fit."""

from __future__ import annotations

import pytest

from nictop.model.columns.column import fit_columns
from nictop.model.columns.queues import COLUMNS, DROPS
from nictop.model.queues.map import InterruptLoad, QueueRow
from nictop.model.queues.plan import QueueInterrupt

IRQ = QueueInterrupt(41, "eth0-TxRx-0", "both", "queue", False, (0, 1, 2, 3), (2,), False)
SHARED = QueueInterrupt(42, "eth0", "both", "queue", True, None, None, None)

ROW = QueueRow(
    0, True, True, rx_packets=776_000.0, rx_bits=9.41e9, rx_drops=5.0, tx_packets=0.0, tx_bits=0.0,
    napis=(8193,), loads=(InterruptLoad(IRQ, 12_000.0, {2: 12_000.0}),), interrupts=12_000.0,
    allowed=(0, 1, 2,
        3), effective=(2,),
    local=False, xps=(0, 1), rps=(), offered=("rx_packets", "rx_bits", "rx_drops", "tx_packets"),
)  # fmt: skip


def cells(row: QueueRow) -> dict[str, tuple[str, str]]:
    return {column.key: column.cell(row) for column in COLUMNS}


def test_a_busy_queue() -> None:
    found = cells(ROW)
    assert {key: text.strip() for key, (text, _) in found.items()} == {
        "queue": "0", "rx_packets": "776 k", "tx_packets": "0", "rx_bits": "9.41 G", "tx_bits": "0",
        "rx_drops": "5.00", "tx_drops": "n/a", "napi": "8193", "irq": "41", "interrupts": "12.0 k",
        "effective": "2", "allowed": "0-3", "numa": "far", "xps": "0-1", "rps": "off",
        "vector": "eth0-TxRx-0",
    }  # fmt: skip
    tones = {key: tone for key, (_, tone) in found.items() if tone != "normal"}
    assert tones == {"tx_packets": "dim", "tx_bits": "dim", "rx_drops": "warn", "tx_drops": "dim",
        "numa": "warn",
                     "rps": "dim"}  # fmt: skip


def test_what_is_not_known_and_what_is_not_offered() -> None:
    asked = cells(QueueRow(3, True, False, offered=()))
    assert asked["queue"] == ("3 rx", "normal")
    assert asked["rx_packets"][0].strip() == "n/a"
    assert asked["tx_packets"] == ("", "normal")
    unknown = cells(QueueRow(3, True, True))
    assert [
        unknown[key][0].strip() for key in ("rx_packets", "irq", "effective", "napi", "interrupts")
    ] == ["–"] * 5
    assert [unknown[key] for key in ("numa", "xps", "rps")] == [("", "normal")] * 3


def test_an_interrupt_of_several_queues_is_marked() -> None:
    row = QueueRow(
        1, True, True, loads=(InterruptLoad(IRQ, 1.0, {}), InterruptLoad(SHARED, None, {}))
    )
    assert cells(row)["irq"] == ("41 42*", "normal")


def test_queues_out_of_use_channels_and_the_sum() -> None:
    assert cells(QueueRow(2, False, False))["queue"] == ("2 off", "dim")
    assert cells(QueueRow(0, True, True, channel=14))["irq"] == ("ch 14", "normal")
    total = cells(QueueRow(None, True, True, loads=ROW.loads, napis=(1, 2)))
    assert [total[key][0] for key in ("queue", "irq", "vector", "napi")] == ["all", "", "", ""]


def test_where_interrupts_were_seen_when_the_kernel_does_not_say() -> None:
    row = QueueRow(0, True, True, loads=(InterruptLoad(SHARED, 6.0, {2: 1.0, 7: 5.0}),))
    assert row.busy_cpus == (7, 2)
    assert cells(row)["effective"] == ("7,2", "normal")


def test_the_cpu_is_the_one_that_took_the_interrupts_marked_where_the_affinity_read_earlier_differs() -> (
    None
):
    moved = QueueRow(0, True, True, loads=(InterruptLoad(IRQ, 6.0, {3: 6.0}),), effective=(2,))
    partly = QueueRow(
        0, True, True, loads=(InterruptLoad(IRQ, 6.0, {2: 1.0, 3: 5.0}),), effective=(2,)
    )
    same = QueueRow(0, True, True, loads=(InterruptLoad(IRQ, 6.0, {2: 6.0}),), effective=(1, 2))
    idle = QueueRow(0, True, True, loads=(InterruptLoad(IRQ, 0.0, {}),), effective=(2,))
    assert [cells(row)["effective"] for row in (moved, partly, same, idle)] == [
        ("3▲", "warn"),
        ("3,2▲", "warn"),
        ("2", "normal"),
        ("2", "dim"),
    ]


@pytest.mark.parametrize(
    ("cpus", "shown"),
    [
        ((5,), "5"),
        ((5, 3), "5,3"),
        ((5, 3, 1), "5,3,1"),
        ((5, 3, 1, 0), "5,3+2"),
        ((127, 126, 125), "127+2"),
    ],
)
def test_cpus_that_do_not_fit_are_counted(cpus: tuple[int, ...], shown: str) -> None:
    loads = (InterruptLoad(IRQ, 9.0, {cpu: 9.0 - number for number, cpu in enumerate(cpus)}),)
    assert cells(QueueRow(0, True, True, loads=loads))["effective"] == (shown, "normal")


def test_drops_of_both_directions_as_far_as_they_are_counted() -> None:
    found = [DROPS.cell(row) for row in (
        QueueRow(0, True, True, rx_drops=2.0, tx_drops=3.0),
        QueueRow(0, True, True, rx_drops=0.0, offered=("rx_drops",)),
        QueueRow(0, True, True, offered=()),
        QueueRow(0, True, True),
    )]  # fmt: skip
    assert [(text.strip(), tone) for text, tone in found] == [
        ("5.00", "warn"), ("0", "dim"), ("n/a", "dim"), ("–", "dim"),
    ]  # fmt: skip


def test_bits_are_under_a_title_that_says_bits() -> None:
    assert {column.title for column in COLUMNS if column.unit == "b/s"} == {"RX b/s", "TX b/s"}


@pytest.mark.parametrize("width", [0, 6, 7, 30, 50, 78, 118, 200])
def test_columns_fit(width: int) -> None:
    shown = fit_columns(COLUMNS, width)
    assert sum(column.width + 1 for column in shown) <= width
    assert [column for column in COLUMNS if column in shown] == list(shown)
    dropped = [column.priority for column in COLUMNS if column not in shown]
    assert not dropped or all(column.priority < min(dropped) for column in shown)


def test_80_columns_hold_the_way_to_the_cpu() -> None:
    assert {"queue", "rx_packets", "tx_packets", "irq", "interrupts", "effective"} <= {
        column.key for column in fit_columns(COLUMNS, 78)
    }
    assert fit_columns(COLUMNS, 200) == COLUMNS
    assert len({column.key for column in COLUMNS}) == len(COLUMNS)
    assert all(len(column.title) <= column.width for column in COLUMNS)
