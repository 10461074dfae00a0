"""A full garbage collection is made while nobody types, or when it is long overdue."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import nullcontext

import pytest

from nictop.tui.garbage import IDLE_SECONDS, MAX_SECONDS, MIDDLE_COLLECTIONS, GarbageCollector


@pytest.fixture
def full() -> Iterator[list[int]]:
    """Has one entry for each full collection."""
    found: list[int] = []

    def record(phase: str, information: dict[str, int]) -> None:
        if phase == "stop" and information["generation"] == 2:
            found.append(information["collected"])

    gc.callbacks.append(record)
    yield found
    gc.callbacks.remove(record)


def collect_middle_generation() -> None:
    for _ in range(MIDDLE_COLLECTIONS):
        gc.collect(1)


def test_a_full_collection_waits_until_nobody_types(full: list[int]) -> None:
    now = 100.0
    gc.collect()
    with GarbageCollector(lambda: now) as garbage:
        full.clear()
        now += IDLE_SECONDS
        garbage.collect_if_idle()
        assert not full  # nothing to collect
        collect_middle_generation()
        garbage.input_received()
        now += 0.9 * IDLE_SECONDS
        garbage.collect_if_idle()
        assert not full
        now += 0.1 * IDLE_SECONDS
        garbage.collect_if_idle()
        assert len(full) == 1


def test_a_full_collection_does_not_wait_for_ever(full: list[int]) -> None:
    now = 0.0
    with GarbageCollector(lambda: now) as garbage:
        collect_middle_generation()
        full.clear()
        while not full:
            garbage.input_received()
            garbage.collect_if_idle()
            now += 1.0
    assert now == MAX_SECONDS + 1.0


def test_python_begins_none_by_itself(full: list[int]) -> None:
    before = gc.get_threshold()
    gc.collect()
    gc.freeze()  # else a process that has much waits until a quarter of it is new
    gc.collect()
    gc.set_threshold(50, 2, 2)
    try:
        for garbage, expected in ((GarbageCollector(), False), (nullcontext(), True)):
            with garbage:
                full.clear()
                kept = [[number] for number in range(20_000)]
                assert bool(full) is expected and kept
        assert gc.get_threshold() == (50, 2, 2)
    finally:
        gc.set_threshold(*before)
        gc.unfreeze()
