"""Which watched host is a guest of another one."""

from __future__ import annotations

from dataclasses import replace

import pytest

from nictop.model.guests.watched import QEMU_DEFAULT_ADDRESS, watched_guests
from nictop.model.snapshot import Snapshot
from nictop.probe.records import GuestNic, HostedGuest
from tests.model.hosts import HELLO, inventory, make_link, snapshot_of

MAC, OTHER = "52:54:00:aa:00:01", "52:54:00:aa:00:02"


def machine(*addresses: str, name: str = "web1", state: str = "running") -> HostedGuest:
    nics = tuple(GuestNic(f"net{number}", address=mac) for number, mac in enumerate(addresses))
    return HostedGuest(name, "vm", "qemu", state, nics=nics)  # type: ignore[arg-type]


def hypervisor(*guests: HostedGuest, name: str = "local") -> Snapshot:
    hello = replace(HELLO, boot_id=name)
    return snapshot_of(hello, replace(inventory(links=()), guests=guests), host=name)


def watched(name: str, *addresses: str) -> Snapshot:
    links = tuple(
        make_link(2 + number, f"ens{number}", address=mac, bus="virtio")
        for number, mac in enumerate(addresses)
    )
    return snapshot_of(replace(HELLO, boot_id=name), inventory(links=links), host=name)


@pytest.mark.parametrize(
    ("guests", "hosts", "found"),
    [
        ((machine(MAC),), (watched("g1", MAC, OTHER),), ["g1"]),
        ((machine(MAC, OTHER),), (watched("g1", MAC),), []),  # it has not all of them
        ((machine(MAC),), (watched("g1", OTHER),), []),
        ((machine(MAC),), (watched("g1", MAC), watched("g2", MAC)), []),  # a clone
        ((machine(MAC), machine(MAC, name="web2")), (watched("g1", MAC),), []),
        ((machine(MAC, state="stopped"),), (watched("g1", MAC),), []),
        ((machine(QEMU_DEFAULT_ADDRESS),), (watched("g1", QEMU_DEFAULT_ADDRESS),), []),
        ((machine(),), (watched("g1", MAC),), []),
    ],
)
def test_a_watched_host_is_a_guest_by_its_mac_addresses(
    guests: tuple[HostedGuest, ...], hosts: tuple[Snapshot, ...], found: list[str]
) -> None:
    """Neither view said that g1 is the guest of the hypervisor that was watched, too."""
    matches = watched_guests((hypervisor(*guests), *hosts))
    assert [match.name for match in matches] == found
    assert all((one.hypervisor, one.guest) == ("local", guests[0]) for one in matches)


def test_a_machine_is_no_guest_of_itself() -> None:
    """Watched under two names."""
    own = snapshot_of(
        replace(HELLO, boot_id="local"),
        inventory(links=(make_link(2, "ens1", address=MAC, bus="pci"),)),
        host="again",
    )
    assert watched_guests((hypervisor(machine(MAC)), own)) == ()
