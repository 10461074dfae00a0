"""Configuration files of stopped guests, and lease files: those of libvirt, Proxmox and dnsmasq, and
hostile ones."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nictop.probe.inventory.collect import InventoryRoots
from nictop.probe.inventory.configuration.files import Files
from nictop.probe.inventory.guests import stopped_libvirt
from nictop.probe.inventory.guests.leases import parse_leases, parse_libvirt_status, read_leases
from nictop.probe.inventory.guests.reader import read_dhcp_leases, read_guests
from nictop.probe.inventory.guests.reservations import parse_reservations, read_reservations
from nictop.probe.inventory.guests.stopped_libvirt import parse_xml, read_stopped_domains
from nictop.probe.inventory.guests.stopped_proxmox import read_proxmox_guests
from nictop.probe.inventory.machine.qemu import VirtualMachine
from nictop.probe.records import DhcpLease, GuestNic, HostedGuest

DOMAIN = """<!--
WARNING: THIS IS AN AUTO-GENERATED FILE.
-->
<domain type='kvm'>
  <name>web2</name>
  <uuid>5b1e5c9e-9d3c-4f4d-8c38-2f7f8b6c1a10</uuid>
  <vcpu placement='static'>4</vcpu>
  <devices>
    <interface type='bridge'>
      <mac address='52:54:00:AA:BB:01'/>
      <source bridge='br0'/>
      <vlan><tag id='42'/></vlan>
      <model type='virtio'/>
      <driver name='qemu' queues='2'/>
      <mtu size='9000'/>
    </interface>
    <interface type='direct'>
      <mac address='52:54:00:aa:bb:02'/>
      <source dev='ens1f0' mode='bridge'/>
      <model type='e1000e'/>
    </interface>
    <interface type='hostdev' managed='yes'>
      <mac address='52:54:00:aa:bb:03'/>
      <source><address type='pci' domain='0x0000' bus='0x3b' slot='0x02' function='0x3'/></source>
    </interface>
    <hostdev mode='subsystem' type='pci'>
      <source><address domain='0x0000' bus='0x3b' slot='0x03' function='0x1'/></source>
    </hostdev>
    <hostdev mode='subsystem' type='usb'><source><vendor id='0x1'/></source></hostdev>
  </devices>
</domain>
"""
PROXMOX = """#a note
cores: 4
sockets: 2
name: web1
net0: virtio=BC:24:11:00:00:01,bridge=vmbr0,firewall=1,queues=4,tag=30
net1: e1000=BC:24:11:00:00:02,bridge=vmbr1
hostpci0: 0000:01:10.2,pcie=1
hostpci1: mapping=nic
smbios1: uuid=5b1e5c9e-9d3c-4f4d-8c38-2f7f8b6c1a10

[before-update]
name: old
net2: virtio=BC:24:11:00:00:09,bridge=vmbr0
"""
CONTAINER = """hostname: ct1
net0: name=eth0,bridge=vmbr0,hwaddr=BC:24:11:00:00:05,ip=192.0.2.5/24,tag=7,type=veth
"""


def roots(folder: Path) -> InventoryRoots:
    """All of them in one directory."""
    return InventoryRoots(*[str(folder)] * 7)


def domains(folder: Path, text: str) -> tuple[list[HostedGuest], Files]:
    directory = folder / "libvirt/qemu"
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "web2.xml").write_text(text)
    files = Files()
    return list(read_stopped_domains(files, str(folder))), files


def test_a_domain_of_libvirt(tmp_path: Path) -> None:
    (guest,), files = domains(tmp_path, DOMAIN)
    assert (guest.name, guest.state, guest.vcpus) == ("web2", "stopped", 4)
    assert guest.id == "5b1e5c9e-9d3c-4f4d-8c38-2f7f8b6c1a10"
    assert guest.source.endswith("/libvirt/qemu/web2.xml")
    assert files.unreadable == {}
    bridge, direct, function, device = guest.nics
    assert bridge == GuestNic(
        model="virtio",
        backend="tap",
        address="52:54:00:aa:bb:01",
        target="br0",
        vlan=42,
        mtu=9000,
        queues=2,
        vhost=False,
    )
    assert (direct.backend, direct.target, direct.model) == ("macvtap", "ens1f0", "e1000e")
    assert (function.pci_address, function.address) == ("0000:3b:02.3", "52:54:00:aa:bb:03")
    assert device.pci_address == "0000:3b:03.1"


@pytest.mark.parametrize(
    "text",
    [
        '<!DOCTYPE d [<!ENTITY a "b">]><domain><name>&a;</name></domain>',
        '<!DOCTYPE d SYSTEM "file:///etc/passwd"><domain><name>x</name></domain>',
        "<domain><name>x</name>",
        "<domain>" * 200 + "</domain>" * 200,
        "<domain><name>x</name>" + "<a/>" * (stopped_libvirt.MAX_ELEMENTS + 1) + "</domain>",
        "no xml",
        "<domain>&undefined;</domain>",
    ],
)
def test_documents_that_libvirt_has_not_written_are_not_read(tmp_path: Path, text: str) -> None:
    found, files = domains(tmp_path, text)
    assert found == []
    assert [why.reason for why in files.unreadable.values()] == ["malformed"]


@pytest.mark.parametrize("text", ["<x/>", "<domain/>", "<domain><name> </name></domain>"])
def test_other_documents_are_no_guests(tmp_path: Path, text: str) -> None:
    assert domains(tmp_path, text)[0] == []


def test_texts_of_a_domain_are_bounded() -> None:
    root = parse_xml(f"<domain a='{'x' * 5000}'><name>{'y' * 5000}</name></domain>")
    assert len(root.get("a")) == len(root.child("name").text) == stopped_libvirt.MAX_VALUE_CHARS


@given(st.text())
def test_arbitrary_documents(text: str) -> None:
    try:
        assert parse_xml(text).name is not None
    except ValueError as error:
        assert str(error)


def proxmox(folder: Path) -> list[HostedGuest]:
    for directory, name, text in (
        ("qemu-server", "101.conf", PROXMOX),
        ("qemu-server", "notes.txt", PROXMOX),
        ("lxc", "105.conf", CONTAINER),
    ):
        path = folder / "pve" / directory
        path.mkdir(parents=True, exist_ok=True)
        (path / name).write_text(text)
    return list(read_proxmox_guests(Files(), str(folder)))


def test_guests_of_proxmox(tmp_path: Path) -> None:
    machine, container = proxmox(tmp_path)
    assert (machine.name, machine.id, machine.kind, machine.vcpus) == ("web1", "101", "vm", 8)
    virtio, e1000, function = machine.nics
    assert (virtio.model, virtio.address, virtio.target) == ("virtio", "bc:24:11:00:00:01", "vmbr0")
    assert (virtio.vlan, virtio.queues, virtio.vhost) == (30, 4, True)
    assert (e1000.model, e1000.queues, e1000.vhost) == ("e1000", 1, None)
    assert function.pci_address == "0000:01:10.2"
    assert (container.name, container.id, container.kind) == ("ct1", "105", "container")
    assert container.nics[0] == GuestNic(
        name="eth0",
        backend="veth",
        address="bc:24:11:00:00:05",
        target="vmbr0",
        vlan=7,
        addresses=("192.0.2.5/24",),
        assigned=("192.0.2.5/24",),
        assigned_by=f"net0 in {container.source}",
    )


@pytest.mark.parametrize(
    ("lines", "assigned"),
    [
        ("ide2: local-lvm:vm-101-cloudinit,media=cdrom", ("192.0.2.5/24", "2001:db8::5/64")),
        ("scsi1: nfs:101/vm-101-cloudinit.qcow2,media=cdrom", ("192.0.2.5/24", "2001:db8::5/64")),
        ("ide2: local:cloudinit", ("192.0.2.5/24", "2001:db8::5/64")),
        ("ide2: local:iso/debian.iso,media=cdrom", ()),
        ("scsi0: local-lvm:vm-101-disk-0,size=32G", ()),
        ("ide2: local:cloudinit\ncicustom: network=local:snippets/n.yaml", ()),
        (
            "ide2: local:cloudinit\ncicustom: user=local:snippets/u.yaml",
            ("192.0.2.5/24", "2001:db8::5/64"),
        ),
    ],
)
def test_addresses_that_cloud_init_is_told(
    tmp_path: Path, lines: str, assigned: tuple[str, ...]
) -> None:
    """Not without a drive that tells them, and not with a network file in their place."""
    text = (
        "ipconfig0: gw=192.0.2.1,ip=192.0.2.5/24,ip6=2001:db8::5/64\nipconfig1: ip=dhcp,ip6=auto\n"
    )
    path = tmp_path / "pve/qemu-server/101.conf"
    path.parent.mkdir(parents=True)
    path.write_text(
        f"{PROXMOX.partition('[')[0]}{text}{lines}\n[snap]\nipconfig1: ip=192.0.2.9/24\n"
    )
    (guest,) = read_proxmox_guests(Files(), str(tmp_path))
    first, second, _ = guest.nics
    assert first.assigned == assigned
    assert first.assigned_by == (f"ipconfig0 in {guest.source}" if assigned else "")
    assert second.assigned == ()


def test_a_running_guest_has_the_addresses_of_its_configuration_or_a_reservation(
    tmp_path: Path,
) -> None:
    """By its number and MAC address; the configuration comes first."""
    folder = tmp_path / "pve/qemu-server"
    folder.mkdir(parents=True)
    (folder / "101.conf").write_text(f"{PROXMOX}\n".replace(
        "name: web1", "name: web1\nide2: a:cloudinit\nipconfig0: ip=192.0.2.5/24"
    ))  # fmt: skip
    hosts = tmp_path / "lib/libvirt/dnsmasq"
    hosts.mkdir(parents=True)
    lines = ("bc:24:11:00:00:01,192.0.2.8", "BC:24:11:00:00:02,192.0.2.9,web1")
    (hosts / "default.hostsfile").write_text("\n".join(lines))
    command = "\0".join((
        "kvm", "-id", "101", "-netdev", "type=tap,id=net0,ifname=tap101i0",
        "-device", "virtio-net-pci,mac=BC:24:11:00:00:01,netdev=net0",
        "-netdev", "type=tap,id=net1,ifname=tap101i1",
        "-device", "e1000,mac=BC:24:11:00:00:02,netdev=net1",
    ))  # fmt: skip
    machine = VirtualMachine(50, "web1", command=command)
    (guest,), trouble = read_guests((machine,), {}, (), (), roots(tmp_path))
    assert (guest.state, trouble) == ("running", None)
    first, second = guest.nics
    assert first.assigned == ("192.0.2.5/24",)
    assert first.assigned_by.startswith("ipconfig0 in ") and first.assigned_by.endswith("101.conf")
    assert second.assigned == ("192.0.2.9",)
    assert second.assigned_by == f"DHCP reservation in {hosts}/default.hostsfile"


def all_guests(folder: Path, *machines: VirtualMachine) -> dict[str, str]:
    """Name → state."""
    found, trouble = read_guests(machines, {}, (), (), roots(folder))
    assert trouble is None
    return {guest.name: guest.state for guest in found}


def test_a_guest_that_runs_takes_the_place_of_its_configuration(tmp_path: Path) -> None:
    domains(tmp_path, DOMAIN)
    proxmox(tmp_path)
    stopped = {"web1": "stopped", "web2": "stopped", "ct1": "stopped"}
    assert all_guests(tmp_path) == stopped
    by_number = VirtualMachine(
        50, "web1", command="kvm\0-id\000101".replace("\000101", "\0" + "101")
    )
    by_uuid = VirtualMachine(
        51, "web2", command="qemu\0-uuid\0" + "5b1e5c9e-9d3c-4f4d-8c38-2f7f8b6c1a10"
    )
    running = {"web1": "running", "web2": "running", "ct1": "stopped"}
    assert all_guests(tmp_path, by_number, by_uuid) == running
    by_name = VirtualMachine(52, "web2", command="qemu\0-name\0web2")
    assert all_guests(tmp_path, by_name) == {**stopped, "web2": "running"}


def test_the_numbers_of_guests_and_nics_are_limited(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So that a line with all of them is one that the reader accepts."""
    domains(tmp_path, DOMAIN)
    proxmox(tmp_path)
    monkeypatch.setattr("nictop.probe.inventory.guests.reader.MAX_NICS_OF_ALL", 4)
    found, _ = read_guests((), {}, (), (), roots(tmp_path))
    assert [(guest.name, len(guest.nics)) for guest in found] == [
        ("ct1", 1),
        ("web1", 3),
        ("web2", 0),
    ]
    assert found[2].unreadable["nics"].detail == "more than 4 NICs of guests"
    monkeypatch.setattr("nictop.probe.inventory.guests.reader.MAX_GUESTS", 2)
    found, trouble = read_guests((), {}, (), (), roots(tmp_path))
    assert len(found) == 2
    assert trouble is not None and trouble.detail == "more than 2 guests"


def test_what_a_user_may_not_read_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "libvirt/qemu").mkdir(parents=True)

    def refused(path: str) -> list[str]:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("nictop.probe.inventory.configuration.files.os.listdir", refused)
    found, trouble = read_guests((), {}, (), (), roots(tmp_path))
    assert found == ()
    assert trouble is not None and trouble.reason == "needs_root"
    assert "/libvirt/qemu" in trouble.detail


# ------------------------------------------------------------------------------------------- leases


def test_leases_of_libvirt_and_dnsmasq(tmp_path: Path) -> None:
    folder = tmp_path / "lib/libvirt/dnsmasq"
    folder.mkdir(parents=True)
    status = [
        {
            "ip-address": "192.168.122.41",
            "mac-address": "52:54:00:AA:BB:01",
            "hostname": "web1",
            "expiry-time": 1700000000,
        },
        {"ip-address": "192.168.122.42"},
        "x",
    ]
    (folder / "virbr0.status").write_text(json.dumps(status))
    misc = tmp_path / "lib/misc"
    misc.mkdir()
    lines = "1700000100 52:54:00:aa:bb:02 192.0.2.9 * 01:52:54:00:aa:bb:02\nduid 00:01\n0 x y z *\n"
    (misc / "dnsmasq.leases").write_text(lines)
    (misc / "dnsmasq.zone1.leases").write_text("0 52:54:00:aa:bb:03 10.1.0.7 * *\n")
    manager = tmp_path / "lib/NetworkManager"
    manager.mkdir()
    (manager / "dnsmasq-ens1.leases").write_text("0 52:54:00:aa:bb:04 10.42.0.9 * *\n")
    assert read_dhcp_leases(str(tmp_path)) == (
        DhcpLease("192.168.122.41", "52:54:00:aa:bb:01", "libvirt virbr0", "web1", 1700000000.0),
        DhcpLease("10.1.0.7", "52:54:00:aa:bb:03", "dnsmasq zone1"),
        DhcpLease("10.42.0.9", "52:54:00:aa:bb:04", "NetworkManager ens1"),
        DhcpLease("192.0.2.9", "52:54:00:aa:bb:02", "dnsmasq", "", 1700000100.0),
    )


def test_the_number_of_leases_is_limited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nictop.probe.inventory.guests.leases.MAX_LEASES", 3)
    folder = tmp_path / "lib/misc"
    folder.mkdir(parents=True)
    lines = [f"0 52:54:00:00:00:{number:02x} 192.0.2.{number} *" for number in range(1, 9)]
    (folder / "dnsmasq.leases").write_text("\n".join(lines))
    assert len(read_leases(Files(), str(tmp_path))) == 3


def test_reservations_of_libvirt_and_incus(tmp_path: Path) -> None:
    libvirt = tmp_path / "lib/libvirt/dnsmasq"
    libvirt.mkdir(parents=True)
    lines = (
        "52:54:00:aa:bb:01,192.168.122.41,web1",
        "52:54:00:AA:BB:02,192.168.122.42,3600",
        "web3,192.168.122.43",
        "id:00:01:00:01,web4,[2001:db8::4]",
        "52:54:00:aa:bb:01,192.168.122.99",
    )
    (libvirt / "default.hostsfile").write_text("\n".join(lines))
    incus = tmp_path / "lib/incus/networks/incusbr0/dnsmasq.hosts"
    incus.mkdir(parents=True)
    (incus / "default_c1.eth0").write_text("00:16:3e:00:00:01,10.0.0.5,[fd42::5],c1\n")
    (incus / "default_c2.eth0").write_text("00:16:3e:00:00:02,c2\n")
    zone = tmp_path / "dnsmasq.d/zone1"
    zone.mkdir(parents=True)
    (zone / "ethers").write_text(
        "BC:24:11:00:00:07,10.1.0.7,[fd00::7]\nBC:24:11:00:00:08,fd00::8\n"
    )
    found = read_reservations(Files(), str(tmp_path), str(tmp_path))
    assert {mac: one.addresses for mac, one in found.items()} == {
        "52:54:00:aa:bb:01": ("192.168.122.41",),
        "52:54:00:aa:bb:02": ("192.168.122.42",),
        "00:16:3e:00:00:01": ("10.0.0.5", "fd42::5"),
        "bc:24:11:00:00:07": ("10.1.0.7", "fd00::7"),
    }
    source = found["52:54:00:aa:bb:02"].source
    assert source == f"DHCP reservation in {libvirt}/default.hostsfile"


@given(st.text())
def test_arbitrary_files_of_reservations(text: str) -> None:
    for mac, addresses in parse_reservations(text):
        assert len(mac) == 17 and 0 < len(addresses) <= 4


@given(st.text())
def test_arbitrary_lease_files(text: str) -> None:
    found = [*parse_leases(text, "s"), *parse_libvirt_status(text, "s")]
    assert all(lease.source == "s" for lease in found)
