"""What is derived from an inventory once."""

from __future__ import annotations

import gc

from nictop.model.per_inventory import PerInventory
from nictop.probe.records import Inventory
from tests.support.lines import inventory


def read_inventory() -> Inventory:
    read = inventory().inventory
    assert read is not None
    return read


def test_it_is_derived_once_for_each_inventory_and_forgotten_with_it() -> None:
    calls: list[float] = []

    def derived(read: Inventory) -> int:
        calls.append(read.time)
        return len(calls)

    numbers = PerInventory(derived)
    first, second = read_inventory(), read_inventory()
    assert (numbers(first), numbers(second), numbers(first)) == (1, 2, 1)
    assert len(numbers) == 2
    del first
    gc.collect()
    assert len(numbers) == 1
    assert numbers(second) == 2
