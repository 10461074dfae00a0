"""What is derived from an inventory once, as long as the inventory object exists: tables that many
questions about single NICs look into.

Reads nothing.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Mapping
from typing import Generic, TypeVar

from nictop.model.devices.links import functions_by_address
from nictop.probe.records import Inventory, Neighbour, PciFunction, Profile

Derived = TypeVar("Derived")


class PerInventory(Generic[Derived]):
    """A function of an inventory that is called once for each inventory object."""

    def __init__(self, derive: Callable[[Inventory], Derived]) -> None:
        self._derive = derive
        self._known: dict[int, Derived] = {}
        """By the id of an inventory that exists."""

    def __call__(self, inventory: Inventory) -> Derived:
        key = id(inventory)
        try:
            return self._known[key]
        except KeyError:
            derived = self._known[key] = self._derive(inventory)
        weakref.finalize(inventory, self._known.pop, key).atexit = False
        return derived

    def __len__(self) -> int:
        """How many inventories it is known of."""
        return len(self._known)


def _functions(inventory: Inventory) -> Mapping[str, PciFunction]:
    return functions_by_address(inventory.pci)


def _profiles(inventory: Inventory) -> Mapping[str, Profile]:
    """Of two with one UUID the first counts."""
    if inventory.networkmanager is None:
        return {}
    return {profile.uuid: profile for profile in reversed(inventory.networkmanager.profiles)}


def _neighbours(inventory: Inventory) -> Mapping[int, tuple[Neighbour, ...]]:
    found: dict[int, list[Neighbour]] = {}
    if inventory.routing is not None:
        for neighbour in inventory.routing.neighbours:
            found.setdefault(neighbour.ifindex, []).append(neighbour)
    return {ifindex: tuple(known) for ifindex, known in found.items()}


functions_of_inventory = PerInventory(_functions)
"""PCI functions by address."""
profiles_of_inventory = PerInventory(_profiles)
"""Profiles of NetworkManager by UUID."""
neighbours_of_inventory = PerInventory(_neighbours)
"""Neighbours by the ifindex of their link."""
