"""The filters of queues and CPUs: numbers, lists, values to compare, names of interrupts."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nictop.model.columns.cpus import cpu_rows
from nictop.model.queues.filters import CPU_FIELDS, QUEUE_FIELDS, number_filter
from nictop.model.queues.map import queue_map
from tests.tui.widgets.cpu.guest import link_of, loaded_guest


def queues(text: str) -> list[int | None]:
    guest, _ = loaded_guest()
    wanted = number_filter(text, QUEUE_FIELDS)
    return [row.queue for row in queue_map(link_of(guest), guest).rows if wanted.accepts(row)]


def cpus(text: str) -> list[int]:
    guest, _ = loaded_guest()
    assert guest.rates is not None
    wanted = number_filter(text, CPU_FIELDS)
    return [row.cpu for row in cpu_rows(guest.rates) if wanted.accepts(row)]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("", [0, 1, 2, 3]),
        ("2", [2]),
        ("1-2", [1, 2]),
        ("0,3", [0, 3]),
        ("1-", [1]),
        ("!0-2", [3]),
        ("irq:57", [3]),
        ("irq:9999", []),
        ("queue:1", [1]),
        ("input.2", [2]),
        ("INPUT", [0, 1, 2, 3]),
        ("output.1 !2", [1]),
        ("rx>1T", []),
        ("drops/s>=0", [0, 1, 2, 3]),
        ("cpu:3 3", [3]),
    ],
)
def test_queues_are_found_by_number_interrupt_cpu_and_rate(text: str, found: list[int]) -> None:
    assert queues(text) == found


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("", [0, 1, 2, 3]),
        ("3", [3]),
        ("cpu:0-1", [0, 1]),
        ("busy>99", []),
        ("busy>=0", [0, 1, 2, 3]),
        ("!1", [0, 2, 3]),
    ],
)
def test_cpus_are_found_by_number_and_share(text: str, found: list[int]) -> None:
    assert cpus(text) == found


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("colour:red", 'unknown key "colour"; keys: queue, irq, cpu, rx, tx, irq/s, drops/s'),
        ("rx>", "rx> needs a number, e.g. rx>10"),
        ("irq:x", "numbers needed, e.g. irq:0-3"),
    ],
)
def test_what_is_wrong_is_said_and_shows_everything(text: str, said: str) -> None:
    assert number_filter(text, QUEUE_FIELDS).errors == (said,)
    assert queues(text) == [0, 1, 2, 3]


def test_a_name_finds_no_cpu() -> None:
    assert number_filter("input", CPU_FIELDS).errors == ("numbers needed, e.g. 0-3 or busy>50",)


@given(st.text(max_size=60))
def test_any_text_is_a_filter(text: str) -> None:
    errors = number_filter(text, QUEUE_FIELDS).errors + number_filter(text, CPU_FIELDS).errors
    assert all(error.isprintable() for error in errors)
    queues(text)
    cpus(text)
