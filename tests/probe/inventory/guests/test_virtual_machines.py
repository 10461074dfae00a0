"""Virtual machines: which tap, macvtap or function belongs to which NIC; processes in a directory in
place of procfs, and a real one with the properties of QEMU."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from nictop.probe.inventory.guests.reader import without_running
from nictop.probe.inventory.guests.virtual_machines import DevicesHere, read_virtual_machines
from nictop.probe.inventory.machine.qemu import read_machines
from nictop.probe.records import GuestNic, HostedGuest, Link, PciFunction, Unreadable
from tests.probe.inventory.machine.test_threads import BY_LOADER, Proc, link
from tests.support.namespaces import Namespace


@pytest.fixture
def proc(tmp_path: Path) -> Proc:
    return Proc(tmp_path / "proc")


def function(address: str, group: int | None = None) -> PciFunction:
    return PciFunction(address, 0x020000, 0x8086, 0x154C, None, None, None, iommu_group=group)


def guests(
    proc: Proc, *links: Link, functions: tuple[PciFunction, ...] = (), sys: str = "/nonexistent"
) -> list[HostedGuest]:
    root = str(proc.root)
    processes = {
        int(name): (proc.root / name / "comm").read_text().strip()
        for name in os.listdir(root)
        if name.isdigit()
    }
    machines = read_machines(processes, links, root)
    here = DevicesHere(links, functions, sys)
    return list(read_virtual_machines(machines, processes, here, root))


def test_taps_by_descriptor_as_libvirt_opens_them(proc: Proc) -> None:
    words = (
        *("-name", "guest=web1", "-uuid", "u-1", "-smp", "4"),
        *("-netdev", '{"type":"tap","fds":"33:34","vhost":true,"vhostfds":"35:36","id":"h0"}'),
        *(
            "-device",
            '{"driver":"virtio-net-pci","netdev":"h0","id":"net0","mac":"52:54:00:00:00:01"}',
        ),
        *("-netdev", '{"type":"tap","fd":"38","id":"h1"}'),
        *("-device", '{"driver":"e1000e","netdev":"h1","id":"net1","mac":"52:54:00:00:00:02"}'),
    )
    proc.process(50, "qemu-system-x86", ("qemu-system-x86_64", *words))
    for number in (33, 34):
        proc.descriptor(50, number, "/dev/net/tun", "iff:\tvnet0\n")
    proc.descriptor(50, 38, "/dev/tap12")
    proc.descriptor(50, 40, "/dev/net/tun", "iff:\tvnet7\n")
    links = (link(5, "vnet0", "tun"), link(12, "macvtap0", "macvtap"), link(9, "vnet7", "tun"))
    (guest,) = guests(proc, *links)
    assert (guest.name, guest.id, guest.pid, guest.vcpus) == ("web1", "u-1", 50, 4)
    assert (guest.kind, guest.product, guest.state) == ("vm", "qemu", "running")
    first, second, later = guest.nics
    assert first == GuestNic(
        "net0", "virtio-net-pci", "tap", "52:54:00:00:00:01", 5, queues=2, vhost=True
    )
    assert second == GuestNic(
        "net1", "e1000e", "macvtap", "52:54:00:00:00:02", 12, queues=1, vhost=False
    )
    assert later == GuestNic(backend="tap", link=9, queues=1)


def test_taps_by_name_as_proxmox_has_them(proc: Proc) -> None:
    words = (
        *("-id", "101", "-netdev", "type=tap,id=net0,ifname=tap101i0,vhost=on"),
        *("-device", "virtio-net-pci,netdev=net0,id=net0,mac=BC:24:11:00:00:01"),
    )
    proc.process(60, "kvm", ("/usr/bin/kvm", *words))
    proc.descriptor(60, 20, "/dev/net/tun", "iff:\ttap101i0\n")
    (guest,) = guests(proc, link(7, "tap101i0", "tun"))
    assert (guest.name, guest.id) == ("101", "101")
    assert [(nic.link, nic.target) for nic in guest.nics] == [(7, "tap101i0")]


def test_the_tap_of_another_user_is_known_by_name_or_address(
    proc: Proc, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = (
        *("-netdev", "tap,id=a,ifname=t0", "-device", "virtio-net-pci,netdev=a"),
        *("-netdev", "tap,id=b,fd=33", "-device", "virtio-net-pci,netdev=b,mac=52:54:00:00:00:02"),
        *("-netdev", "tap,id=c,fd=34", "-device", "virtio-net-pci,netdev=c,mac=52:54:00:00:00:03"),
    )
    proc.process(50, "kvm", ("kvm", "-name", "a", *words))
    real = os.listdir

    def listdir(path: str) -> list[str]:
        if path.endswith("/50/fd"):
            raise PermissionError(13, "Permission denied")
        return real(path)

    monkeypatch.setattr("nictop.probe.inventory.machine.qemu.os.listdir", listdir)
    by_address = Link(6, "vnet0", 1, 0, "up", True, 1500, kind="tun", address="fe:54:00:00:00:02")
    (guest,) = guests(proc, link(5, "t0", "tun"), by_address)
    assert [nic.link for nic in guest.nics] == [5, 6, None]
    assert guest.unreadable["nics"].reason == "needs_root"


def test_a_tap_that_another_guest_has_open_is_not_claimed_by_name(proc: Proc) -> None:
    words = ("-netdev", "tap,id=a,ifname=t0", "-device", "virtio-net-pci,netdev=a")
    proc.process(50, "kvm", ("kvm", "-name", "ended", *words))
    (guest,) = guests(proc, link(5, "t0", "tun"))
    assert [nic.link for nic in guest.nics] == [None]


def test_functions_by_command_line_and_by_group(proc: Proc) -> None:
    words = ("-device", "vfio-pci,host=01:10.2,id=hostpci0", "-device", "vfio-pci,host=01:00.1")
    proc.process(50, "kvm", ("kvm", "-name", "a", *words))
    for number, group in enumerate((40, 41, 42)):
        proc.descriptor(50, number + 10, f"/dev/vfio/{group}")
    proc.descriptor(50, 20, "/dev/vfio/vfio")
    functions = (
        function("0000:01:10.2", 40),
        function("0000:01:10.4", 41),
        function("0000:02:00.0", 42),
        function("0000:02:00.1", 42),
    )
    (guest,) = guests(proc, functions=functions)
    assert [(nic.name, nic.pci_address, nic.backend) for nic in guest.nics] == [
        ("hostpci0", "0000:01:10.2", "vfio"),
        ("", "0000:01:10.4", "vfio"),
    ]


def test_the_function_of_a_vdpa_device(proc: Proc, tmp_path: Path) -> None:
    device = tmp_path / "sys/devices/pci0000:00/0000:3b:00.2/vdpa0/vhost-vdpa-0"
    device.mkdir(parents=True)
    bus = tmp_path / "sys/bus/vdpa/devices"
    bus.mkdir(parents=True)
    (bus / "vdpa0").symlink_to(device.parent)
    words = (
        *("-add-fd", "set=0,fd=24", "-netdev", "vhost-vdpa,id=v,vhostdev=/dev/fdset/0"),
        *("-device", "virtio-net-pci,netdev=v,id=net0"),
    )
    proc.process(50, "kvm", ("kvm", *words))
    proc.descriptor(50, 24, "/dev/vhost-vdpa-0")
    (guest,) = guests(proc, sys=str(tmp_path / "sys"))
    (nic,) = guest.nics
    assert (nic.backend, nic.target, nic.pci_address) == (
        "vhost-vdpa",
        "/dev/vhost-vdpa-0",
        "0000:3b:00.2",
    )


def test_other_monitors(proc: Proc) -> None:
    proc.process(70, "firecracker", ("firecracker", "--id", "vm-7"))
    proc.descriptor(70, 9, "/dev/net/tun", "iff:\tfc0\n")
    words = (
        "cloud-hypervisor",
        "--api-socket",
        "/run/ch1.sock",
        "--net",
        "tap=ch0,mac=12:34:56:78:90:ab",
    )
    proc.process(71, "cloud-hyperviso", words)
    proc.descriptor(71, 9, "/dev/net/tun", "iff:\tch0\n")
    links = (link(5, "fc0", "tun"), link(6, "ch0", "tun"))
    found = {guest.name: guest for guest in guests(proc, *links)}
    assert [nic.link for nic in found["vm-7"].nics] == [5]
    (nic,) = found["ch1"].nics
    assert (found["ch1"].product, nic.link, nic.address) == (
        "cloud-hypervisor",
        6,
        "12:34:56:78:90:ab",
    )


def test_a_guest_in_another_namespace_has_no_link_here(proc: Proc) -> None:
    words = ("-netdev", "tap,id=a,ifname=tap0", "-device", "virtio-net-pci,netdev=a,id=n")
    for pid, number in ((50, 1), (60, 2)):
        proc.process(pid, "qemu-system-x86", ("qemu-system-x86_64", "-name", f"m{pid}", *words))
        proc.namespace(pid, number)
        proc.descriptor(pid, 5, "/dev/net/tun", "iff:\ttap0\n")
    found = {guest.name: guest for guest in guests(proc, link(5, "tap0", "tun"))}
    assert {name: [nic.link for nic in guest.nics] for name, guest in found.items()} == {
        "m50": [5],
        "m60": [None],
    }
    assert found["m60"].unreadable == {
        "nics": Unreadable("missing", "in another network namespace")
    }


STAND_IN = """
import fcntl, os, struct, sys
tap = os.open("/dev/net/tun", os.O_RDWR)
os.dup2(tap, 33)
fcntl.ioctl(33, 0x400454CA, struct.pack("16sH22x", b"vnet0", 0x1002))
with open("/proc/self/comm", "w") as file:
    file.write("qemu-system-x86")
print(os.getpid(), flush=True)
sys.stdin.read()
"""
READ = """
import json
from nictop.probe.inventory.collect import InventoryRoots
from nictop.probe.inventory.guests import containers, virtual_machines  # while they are readable
from nictop.probe.inventory.guests.reader import read_guests
from nictop.probe.inventory.links.reader import read_links
from nictop.probe.inventory.machine.processes import read_processes
from nictop.probe.inventory.machine.qemu import read_running_machines
{before}
links, processes = read_links()[0], read_processes()[0]
roots = InventoryRoots("/sys", "/proc", "/etc", "/dev", "/run", "/usr", "/var")
found, _ = read_guests(read_running_machines(processes, links), processes, links, (), roots)
from nictop.probe.light_dataclasses import field_mapping
print(json.dumps([found, {{link.name: link.ifindex for link in links}}], default=field_mapping))
"""


@pytest.mark.parametrize("before", ["", "import os\nos.setgid(65534)\nos.setuid(65534)"])
def test_a_process_with_the_properties_of_qemu(namespace: Namespace, before: str) -> None:
    """libvirt passes an open tap: as root it is known by the descriptor, to others by its
    address."""
    if not os.path.exists("/dev/net/tun"):
        pytest.skip("no /dev/net/tun here")
    namespace.run(["ip", "tuntap", "add", "vnet0", "mode", "tap"])
    namespace.run(["ip", "link", "set", "vnet0", "address", "fe:54:00:00:00:01"])
    words = (
        *("-name", "guest=web,,1", "-netdev", '{"type":"tap","fd":"33","id":"h0"}'),
        *("-device", '{"driver":"virtio-net-pci","netdev":"h0","mac":"52:54:00:00:00:01"}'),
    )
    argv = ["ip", "netns", "exec", namespace.name, *BY_LOADER, "-c", STAND_IN, *words]
    with subprocess.Popen(
        argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin is not None and process.stdout is not None
        try:
            pid = int(process.stdout.readline())
            found, names = json.loads(namespace.python(READ.format(before=before)))
        finally:
            process.stdin.close()
    guest: dict[str, Any] = next(one for one in found if one["pid"] == pid)
    assert guest["name"] == "web,1"
    (nic,) = guest["nics"]
    assert (nic["link"], nic["address"], nic["vhost"]) == (
        names["vnet0"],
        "52:54:00:00:00:01",
        False,
    )


# ------------------------------------------------------------------------- whose process it is

CLAIMING = (
    *("-name", "guest=web1", "-uuid", "u-1"),
    *(
        "-netdev",
        "tap,id=a,ifname=t0,script=no",
        "-device",
        "e1000e,netdev=a,mac=52:54:00:00:00:01",
    ),
    *("-device", "vfio-pci,host=01:10.2,id=hostpci0"),
)
REAL = ("-name", "guest=web1", "-uuid", "u-1")


def owned_by(monkeypatch: pytest.MonkeyPatch, **owners: int) -> None:
    """Processes of others: ``p50=1000``."""
    for module in ("machine.qemu",):
        monkeypatch.setattr(
            f"nictop.probe.inventory.{module}.owner_of",
            lambda pid, proc: owners.get(f"p{pid}", 0),
        )


@pytest.mark.parametrize("is_readable", [True, False])
def test_a_process_of_a_user_claims_nothing_of_others(
    proc: Proc, monkeypatch: pytest.MonkeyPatch, is_readable: bool
) -> None:
    """It may name a guest, its tap, MAC address and VF: that is what any user may type."""
    proc.process(50, "qemu-system-x86", ("qemu-system-x86_64", *CLAIMING))
    proc.process(51, "qemu-system-x86", ("/usr/bin/qemu-system-x86_64", *REAL))
    proc.descriptor(50, 20, "/dev/net/tun", "iff:\towntap\n")
    if not is_readable:
        shutil.rmtree(proc.root / "50/fd")
    owned_by(monkeypatch, p50=3999999)
    links = (link(5, "t0", "tun"), link(6, "owntap", "tun"))
    found = guests(proc, *links, functions=(function("0000:01:10.2", 40),))
    fake, real = sorted(found, key=lambda guest: guest.pid or 0)
    assert (fake.name, fake.id) == ("run by user 3999999: web1", "")
    assert [(nic.link, nic.address) for nic in fake.nics] == [(6, None)] * is_readable
    assert "nics" in fake.unreadable
    detail = "its command line is not believed (run by user 3999999: web1)"
    assert (fake.unreadable["nics"].detail == detail) is is_readable
    assert (real.name, real.id, real.unreadable) == ("web1", "u-1", {})


def test_a_program_of_root_that_a_user_has_started_is_no_guest(
    proc: Proc, monkeypatch: pytest.MonkeyPatch
) -> None:
    """``exec -a qemu-system-x86_64 sudo …`` has the user ID of root and words of the user."""
    folder = proc.process(50, "qemu-x", ("qemu-system-x86_64", *CLAIMING))
    (folder / "exe").symlink_to("/usr/bin/sudo")
    (guest,) = guests(proc, link(5, "t0", "tun"))
    assert guest.name == "its program is sudo, not an emulator: web1" and not guest.nics


def test_another_monitor_of_a_user_claims_nothing_of_others(
    proc: Proc, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ("cloud-hypervisor", "--api-socket", "/run/web1.sock", "--net", "tap=t0", "--device")
    proc.process(50, "cloud-hyperviso", (*words, "path=/sys/bus/pci/devices/0000:01:10.2"))
    owned_by(monkeypatch, p50=3999999)
    shutil.rmtree(proc.root / "50/fd")
    functions = (function("0000:01:10.2", 40),)
    (guest,) = guests(proc, link(5, "t0", "tun"), functions=functions)
    assert guest.name == "run by user 3999999: web1" and not guest.nics


def test_a_guest_that_stands_in_a_configuration_is_not_hidden_by_a_users_process(
    proc: Proc, monkeypatch: pytest.MonkeyPatch
) -> None:
    proc.process(50, "qemu-system-x86", ("qemu-system-x86_64", *CLAIMING))
    owned_by(monkeypatch, p50=3999999)
    stopped = HostedGuest("web1", "vm", "qemu", "stopped", "u-1")
    assert without_running([stopped], guests(proc)) == [stopped]
