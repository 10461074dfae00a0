"""An attempt of NetworkManager that was seen to fail is remembered for the NIC and the profile."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest

from nictop.model.managers.failed_attempts import (
    MAX_ATTEMPTS,
    FailedAttempts,
    failed_before,
    with_inventory,
)
from nictop.probe.records import Inventory, ManagedDevice, NetworkManager
from tests.model.managers.test_profile_match import profile
from tests.support.lines import inventory, link

NIC = link(3, "ens224", device="0000:0b:00.0")
OWN, GENERATED = "5555", "7777"
PROFILES = (
    profile(uuid=OWN, id="ens224"),
    profile(uuid=GENERATED, id="Wired connection 1", autoconnect_priority=-999),
)
UNMANAGED, UNAVAILABLE, DISCONNECTED, IP_CONFIG, ACTIVATED, FAILED = 10, 20, 30, 70, 100, 120
DHCP_FAILED, CARRIER, NEW_ACTIVATION = 17, 40, 60


def read(
    time: float,
    state: int,
    reason: int = 0,
    active: str | None = None,
    *,
    ifindex: int = 3,
    available: tuple[str, ...] = (OWN, GENERATED),
) -> Inventory:
    device = ManagedDevice(
        "ens224",
        1,
        state,
        reason,
        managed=True,
        autoconnect=True,
        active_profile=active,
        available_profiles=available,
    )
    manager = NetworkManager("1.52", False, True, {ifindex: device}, PROFILES)
    found = inventory(replace(NIC, ifindex=ifindex), time=time).inventory
    assert found is not None
    return replace(found, networkmanager=manager)


def after(*inventories: Inventory) -> FailedAttempts:
    attempts: FailedAttempts = {}
    before: Inventory | None = None
    for one in inventories:
        attempts = with_inventory(attempts, before, one)
        before = one
    return attempts


FAILURE = (read(1.0, IP_CONFIG, active=OWN), read(2.0, DISCONNECTED))
SEQUENCES: Mapping[str, tuple[tuple[Inventory, ...], float | None]] = {
    "seen between two attempts": (FAILURE, 2.0),
    "still disconnected": ((*FAILURE, read(3.0, DISCONNECTED)), 2.0),
    "tried again": ((*FAILURE, read(3.0, IP_CONFIG, active=OWN)), 2.0),
    "its cable was unplugged and came back": (
        (
            *FAILURE,
            read(3.0, UNAVAILABLE, CARRIER),
            read(4.0, DISCONNECTED, CARRIER),
            read(5.0, IP_CONFIG, active=OWN),
        ),
        2.0,
    ),
    "failed twice": (
        (*FAILURE, read(3.0, IP_CONFIG, active=OWN), read(4.0, FAILED, DHCP_FAILED, OWN)),
        4.0,
    ),
    "its driver was bound again": ((*FAILURE, read(3.0, UNAVAILABLE, ifindex=9)), 2.0),
    "activated since": ((*FAILURE, read(3.0, ACTIVATED, active=OWN)), None),
    "another profile has failed": (
        (read(1.0, IP_CONFIG, active=GENERATED), read(2.0, DISCONNECTED)),
        None,
    ),
    "disconnected for another activation": (
        (read(1.0, IP_CONFIG, active=OWN), read(2.0, DISCONNECTED, NEW_ACTIVATION)),
        None,
    ),
    "unavailable until now": ((read(1.0, UNAVAILABLE), read(2.0, DISCONNECTED)), None),
    "the first reading: the profile with the highest priority": ((read(1.0, DISCONNECTED),), 1.0),
    "the first reading, no profile is known": ((read(1.0, DISCONNECTED, available=()),), None),
    "its profile is gone": (
        (*FAILURE, replace(FAILURE[0], networkmanager=NetworkManager("1.52", False, True, {}, ()))),
        None,
    ),
    "NetworkManager did not answer since": (
        (*FAILURE, replace(FAILURE[0], networkmanager=None)),
        2.0,
    ),
}


@pytest.mark.parametrize("name", SEQUENCES)
def test_which_attempts_are_remembered(name: str) -> None:
    inventories, expected = SEQUENCES[name]
    assert failed_before(after(*inventories), NIC, OWN) == expected


def test_the_number_of_attempts_is_limited() -> None:
    many = {(f"nic{number}", OWN): float(number) for number in range(2 * MAX_ATTEMPTS)}
    kept = with_inventory(many, None, read(1e6, UNMANAGED))
    assert len(kept) == MAX_ATTEMPTS and min(kept.values()) == MAX_ATTEMPTS
