"""What is known of the state of a guest: libvirt's status files, saved memory, locks of Proxmox, frozen
cgroups; hostile and missing files."""

from __future__ import annotations

from pathlib import Path

import pytest

from nictop.probe.inventory.collect import InventoryRoots
from nictop.probe.inventory.guests.conditions import parse_status, with_conditions
from nictop.probe.inventory.guests.reader import with_names
from nictop.probe.records import HostedGuest
from tests.probe.inventory.guests.test_configurations import PROXMOX, roots

STATUS = """<!--
WARNING: THIS IS AN AUTO-GENERATED FILE. CHANGES TO IT ARE LIKELY TO BE
OVERWRITTEN AND LOST. Changes to this xml configuration should be made using:
  virsh edit web1
-->

<domstatus state='{}' reason='{}' pid='{}'>
  <taint flag='custom-ga-command'/>
  <domain type='kvm' id='3'><name>web1</name></domain>
</domstatus>
"""
RUNNING = HostedGuest("web1", "vm", "qemu", "running", pid=4242)
STOPPED = HostedGuest(
    "web2", "vm", "qemu", "stopped", source="/etc/libvirt/qemu/web2.xml"
)  # fmt: skip
CONTAINER = HostedGuest("ct1", "container", "docker", "running", pid=70)


def conditions(folder: Path, *guests: HostedGuest) -> list[tuple[str, str]]:
    found = with_conditions(guests, roots(folder))
    return [(guest.condition, guest.condition_reason) for guest in found]


@pytest.mark.parametrize(
    ("state", "reason", "pid", "expected"),
    [
        ("paused", "user", "4242", ("paused", "user")),
        ("paused", "ioerror", "4242", ("paused", "ioerror")),
        ("crashed", "panicked", "4242", ("crashed", "panicked")),
        ("running", "booted", "4242", ("", "")),
        ("paused", "user", "4243", ("", "")),
        ("paused", "user", "", ("", "")),
        ("paused", "user", "9" * 400, ("", "")),
    ],
)
def test_states_of_libvirt_belong_to_the_process(
    tmp_path: Path, state: str, reason: str, pid: str, expected: tuple[str, str]
) -> None:
    directory = tmp_path / "libvirt/qemu"
    directory.mkdir(parents=True)
    (directory / "web1.xml").write_text(STATUS.format(state, reason, pid))
    (directory / "autostart").mkdir()
    assert conditions(tmp_path, RUNNING) == [expected]


@pytest.mark.parametrize("text", ["", "<domain/>", "<domstatus >", "<domstatus state='x'>", "\0"])
def test_what_is_no_status(text: str) -> None:
    assert parse_status(text)[0] is None


def test_without_files_nothing_is_known(tmp_path: Path) -> None:
    assert conditions(tmp_path, RUNNING, STOPPED, CONTAINER) == [("", "")] * 3


def test_memory_that_libvirt_has_saved(tmp_path: Path) -> None:
    directory = tmp_path / "lib/libvirt/qemu/save"
    directory.mkdir(parents=True)
    (directory / "web2.save").touch()
    assert conditions(tmp_path, STOPPED) == [("saved", "")]


def test_locks_of_proxmox(tmp_path: Path) -> None:
    suspended = HostedGuest("web3", "vm", "qemu", "stopped", "103", lock="suspended")
    assert conditions(tmp_path, suspended) == [("saved", "")]
    locked = HostedGuest("web1", "vm", "qemu", "stopped", "101", lock="backup")
    (running,) = with_names([HostedGuest("web1", "vm", "qemu", "running", "101")], [locked])
    assert running.lock == "backup" and running.state == "running"


def test_the_lock_in_a_configuration(tmp_path: Path) -> None:
    from nictop.probe.inventory.configuration.files import Files
    from nictop.probe.inventory.guests.stopped_proxmox import read_proxmox_guests

    directory = tmp_path / "pve/qemu-server"
    directory.mkdir(parents=True)
    (directory / "101.conf").write_text("lock: suspended\n" + PROXMOX)
    (guest,) = read_proxmox_guests(Files(), str(tmp_path))
    assert guest.lock == "suspended"


@pytest.mark.parametrize(
    ("cgroup", "events", "expected"),
    [
        ("0::/system.slice/docker-1.scope\n", "populated 1\nfrozen 1\n", "paused"),
        ("0::/system.slice/docker-1.scope\n", "populated 1\nfrozen 0\n", ""),
        ("0::/elsewhere\n", "frozen 1\n", ""),
        ("4:freezer:/docker/1\n", "frozen 1\n", ""),
    ],
)
def test_a_frozen_container(tmp_path: Path, cgroup: str, events: str, expected: str) -> None:
    process = tmp_path / "70"
    process.mkdir()
    (process / "cgroup").write_text(cgroup)
    directory = tmp_path / "fs/cgroup/system.slice/docker-1.scope"
    directory.mkdir(parents=True)
    (directory / "cgroup.events").write_text(events)
    found = with_conditions([CONTAINER], InventoryRoots(*[str(tmp_path)] * 7))
    assert found[0].condition == expected
