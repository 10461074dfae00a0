"""Command lines of virtual machine monitors: those of libvirt, Proxmox and by hand; hostile ones."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nictop.probe.inventory.guests.other_monitors import MonitorCommand
from nictop.probe.inventory.guests.qemu_command import (
    MAX_NICS,
    CommandNic,
    QemuCommand,
    full_address,
    virtual_cpus,
)
from nictop.probe.inventory.guests.values import MONITORS


def command(*words: str) -> QemuCommand:
    return QemuCommand("\0".join(("qemu-system-x86_64", *words, "")))


def facts(nic: CommandNic) -> tuple[object, ...]:
    return nic.name, nic.model, nic.backend, nic.address, nic.queues, nic.vhost


LIBVIRT = (
    *("-name", "guest=web1,debug-threads=on", "-smp", "4,sockets=1,dies=1,cores=4,threads=1"),
    *("-uuid", "5b1e5c9e-9d3c-4f4d-8c38-2f7f8b6c1a10"),
    "-netdev",
    '{"type":"tap","fds":"33:34","vhost":true,"vhostfds":"35:36","id":"hostnet0"}',
    "-device",
    '{"driver":"virtio-net-pci","mq":true,"vectors":6,"host_mtu":9000,"netdev":"hostnet0",'
    '"id":"net0","mac":"52:54:00:AA:BB:01","bus":"pci.1","addr":"0x0"}',
    "-netdev",
    '{"type":"tap","fd":"38","id":"hostnet1"}',
    *("-device", '{"driver":"e1000e","netdev":"hostnet1","id":"net1","mac":"52:54:00:aa:bb:02"}'),
    *("-device", '{"driver":"vfio-pci","host":"0000:3b:02.3","id":"hostdev0","bus":"pci.5"}'),
)


def test_the_command_line_of_libvirt() -> None:
    found = command(*LIBVIRT)
    assert (found.vcpus, found.uuid) == (4, "5b1e5c9e-9d3c-4f4d-8c38-2f7f8b6c1a10")
    assert [facts(nic) for nic in found.nics] == [
        ("net0", "virtio-net-pci", "tap", "52:54:00:aa:bb:01", 2, True),
        ("net1", "e1000e", "tap", "52:54:00:aa:bb:02", 1, False),
    ]
    assert [(nic.descriptors, nic.mtu) for nic in found.nics] == [((33, 34), 9000), ((38,), None)]
    assert found.functions == (("hostdev0", "0000:3b:02.3"),)


def test_the_command_line_of_proxmox() -> None:
    found = command(
        *("-id", "101", "-name", "web1,debug-threads=on", "-smp", "8,sockets=2,cores=4,maxcpus=8"),
        "-netdev",
        "type=tap,id=net0,ifname=tap101i0,script=/usr/libexec/qemu-server/pve-bridge,vhost=on,queues=4",
        "-device",
        "virtio-net-pci,mac=BC:24:11:00:00:01,netdev=net0,bus=pci.0,addr=0x12,id=net0,mq=on",
        *("-device", "vfio-pci,host=0000:01:10.2,id=hostpci0,bus=ich9-pcie-port-1"),
    )
    (nic,) = found.nics
    assert facts(nic) == ("net0", "virtio-net-pci", "tap", "bc:24:11:00:00:01", 4, True)
    assert (nic.tap_name, found.id, found.vcpus) == ("tap101i0", "101", 8)
    assert found.max_vcpus == 8
    assert found.functions == (("hostpci0", "0000:01:10.2"),)


def test_other_forms() -> None:
    found = command(
        *("-nic", "tap,model=vmxnet3,mac=52:54:00:00:00:03,ifname=t3,script=no"),
        *("-nic", "none"),
        *("-chardev", "socket,id=char0,path=/run/ovs/vhost1.sock"),
        *("-netdev", "type=vhost-user,id=u0,chardev=char0,queues=2"),
        *("-device", "virtio-net-pci,netdev=u0,id=nu"),
        *("-netdev", "vhost-vdpa,id=v0,vhostdev=/dev/vhost-vdpa-0"),
        *("-device", "virtio-net-pci,netdev=v0"),
        *("-device", "e1000,netdev=missing"),
        *("-device", "vfio-pci,sysfsdev=/sys/bus/pci/devices/0000:01:10.4/"),
        *("-device", "vfio-pci,host=1:0.7", "-device", "vfio-pci,host=../..", "-device"),
    )
    told = {nic.model or "": nic for nic in found.nics}
    assert [nic.backend for nic in found.nics] == ["vhost-user", "vhost-vdpa", "tap"]
    assert found.nics[0].path == "/run/ovs/vhost1.sock" and found.nics[0].queues == 2
    assert found.nics[1].path == "/dev/vhost-vdpa-0" and found.nics[1].vhost is None
    assert told["vmxnet3"].tap_name == "t3" and told["vmxnet3"].vhost is False
    assert [address for _, address in found.functions] == ["0000:01:10.4", "0000:01:00.7"]


def test_old_options_only_where_one_card_meets_one_backend() -> None:
    one = ("-net", "nic,model=rtl8139,macaddr=52:54:00:00:00:09", "-net", "tap,ifname=t9")
    (nic,) = command(*one).nics
    assert (nic.model, nic.address, nic.tap_name) == ("rtl8139", "52:54:00:00:00:09", "t9")
    assert command(*one, "-net", "nic").nics == ()


@pytest.mark.parametrize(
    ("options", "uses"),
    [
        ("vhost=off,vhostfd=4", False),
        ("vhostfd=4", True),
        ("vhostforce=on", True),
        ("ifname=t", False),
    ],
)
def test_vhost_is_decided_as_by_qemu(options: str, uses: bool) -> None:
    (nic,) = command("-netdev", f"tap,id=a,{options}", "-device", "virtio-net-pci,netdev=a").nics
    assert nic.vhost is uses


@pytest.mark.parametrize(
    ("value", "cpus"),
    [
        ("4", 4),
        ("cpus=2,maxcpus=8", 2),
        ("sockets=2,cores=3,threads=2", 12),
        ("", None),
        ("x", None),
    ],
)
def test_virtual_cpus(value: str, cpus: int | None) -> None:
    assert virtual_cpus(value) == cpus


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("01:10.2", "0000:01:10.2"),
        ("0000:3B:02.3", "0000:3b:02.3"),
        ("10000:01:00.0", "10000:01:00.0"),
        ("01:10", None),
        ("01:10.8", None),
        ("", None),
    ],
)
def test_addresses_of_functions(text: str, address: str | None) -> None:
    assert full_address(text) == address


def test_the_number_of_nics_is_limited() -> None:
    words: list[str] = []
    for number in range(MAX_NICS + 10):
        words += ["-netdev", f"tap,id=n{number}", "-device", f"e1000,netdev=n{number}"]
    assert len(command(*words).nics) == MAX_NICS


def test_cloud_hypervisor() -> None:
    words = (
        *("cloud-hypervisor", "--api-socket", "/run/web1.sock", "--cpus", "boot=4,max=8"),
        *("--net", "tap=ich0,mac=12:34:56:78:90:ab,num_queues=8", "vhost_user=true,socket=/run/v"),
        *("--device", "path=/sys/bus/pci/devices/0000:01:10.4/"),
    )
    found = MonitorCommand("cloud-hypervisor", "\0".join(words))
    assert (found.name, found.vcpus) == ("web1", 4)
    assert [(nic.backend, nic.tap_name, nic.queues, nic.path) for nic in found.nics] == [
        ("tap", "ich0", 4, ""),
        ("vhost-user", "", 1, "/run/v"),
    ]
    assert found.functions == (("", "0000:01:10.4"),)


def test_firecracker_and_crosvm() -> None:
    found = MonitorCommand("firecracker", "firecracker\0--id\0vm-7\0--api-sock\0/x")
    assert (found.name, found.nics) == ("vm-7", ())
    words = (
        "crosvm",
        "run",
        "--cpus",
        "num-cores=2",
        "--net",
        "tap-name=c0",
        "--vfio",
        "/d/01:00.1",
    )
    found = MonitorCommand("crosvm", "\0".join(words))
    assert [nic.tap_name for nic in found.nics] == ["c0"]
    assert (found.vcpus, found.functions) == (2, (("", "0000:01:00.1"),))


OPTION = st.sampled_from(
    (
        "-netdev",
        "-device",
        "-nic",
        "-net",
        "-smp",
        "-chardev",
        "-name",
        "--net",
        "--device",
        "--cpus",
    )
)


@given(st.lists(st.tuples(OPTION, st.text(max_size=40)), max_size=8))
def test_arbitrary_arguments(pairs: list[tuple[str, str]]) -> None:
    text = "\0".join(word for pair in pairs for word in pair)
    assert len(QemuCommand(text).nics) <= MAX_NICS
    for product in MONITORS.values():
        assert len(MonitorCommand(product, text).functions) <= 2 * len(pairs)


@given(st.recursive(st.none() | st.booleans() | st.integers() | st.text(), st.lists, max_leaves=5))
def test_arbitrary_json(value: object) -> None:
    text = json.dumps({"type": value, "id": "a", "driver": value, "netdev": "a", "queues": value})
    for nic in command("-netdev", text, "-device", text).nics:
        assert nic.name == "a"
