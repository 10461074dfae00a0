"""Platform: a captured guest, this machine, and the signs of each hypervisor."""

from __future__ import annotations

import os
import platform as interpreter
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nictop.probe.inventory.machine.platform import (
    has_hypervisor_flag,
    hypervisor,
    hypervisor_of_device_tree,
    machine_id_hash,
    parse_os_release,
    parse_session,
    read_platform,
)
from nictop.probe.records import Platform, Services

Signs = tuple[str, str, "str | None", list[str], bool, tuple[str, ...]]
"""DMI vendor and product, /sys/hypervisor/type, clock sources, CPU flag, buses."""


def test_a_captured_guest(capture: Callable[[str], Path]) -> None:
    root = capture("guest")
    roots = (str(root / "sys"), str(root / "proc"), str(root / "etc"), str(root / "dev"))
    assert read_platform(*roots, variables={}) == Platform(
        hypervisor="qemu",
        system_vendor="QEMU",
        product_name="Standard PC (Q35 + ICH9, 2009)",
        distribution="Debian GNU/Linux 13 (trixie)",
        distribution_id="debian",
        online_cpus="0-3",
        possible_cpus="0-3",
        numa_nodes="0",
        iommu_groups=15,
        page_bytes=os.sysconf("SC_PAGE_SIZE"),
    )


def test_this_machine() -> None:
    found = read_platform()
    assert found.online_cpus is not None
    first, _, last = found.online_cpus.partition("-")
    if "," not in found.online_cpus:
        assert int(last or first) - int(first) + 1 == os.sysconf("SC_NPROCESSORS_ONLN")
    try:
        release = interpreter.freedesktop_os_release()
    except OSError:
        release = {}
    assert found.distribution == release.get("PRETTY_NAME")
    assert found.distribution_id == release.get("ID")


def test_a_machine_without_signs_is_not_a_guest(tmp_path: Path) -> None:
    found = read_platform(
        str(tmp_path), str(tmp_path), str(tmp_path / "etc"), str(tmp_path), variables={}
    )
    page_bytes = os.sysconf("SC_PAGE_SIZE")
    nothing = Platform(None, None, None, None, None, None, None, None, 0, page_bytes=page_bytes)
    assert found == nothing


def test_unreadable_files_are_reported(tmp_path: Path) -> None:
    (tmp_path / "class/dmi/id/sys_vendor").mkdir(parents=True)
    found = read_platform(str(tmp_path), str(tmp_path), str(tmp_path / "etc"))
    assert found.system_vendor is None
    assert found.unreadable["system_vendor"].detail.endswith("sys_vendor: EISDIR")


@pytest.mark.parametrize(
    ("signs", "expected"),
    [
        (("VMware, Inc.", "VMware20,1", None, ["tsc"], True, ("pci",)), "vmware"),
        (
            ("Microsoft Corporation", "Virtual Machine", None, ["tsc"], True, ("vmbus",)),
            "microsoft",
        ),
        (("Microsoft Corporation", "Surface Book", None, ["tsc"], False, ("pci",)), None),
        (("Amazon EC2", "m5.large", None, ["kvm-clock", "tsc"], True, ("pci",)), "amazon"),
        (("Amazon EC2", "m5.metal", None, ["tsc"], False, ("pci",)), None),
        (("QEMU", "Standard PC (Q35 + ICH9, 2009)", None, ["kvm-clock"], True, ("pci",)), "kvm"),
        (("QEMU", "Standard PC (Q35 + ICH9, 2009)", None, ["tsc"], False, ("pci",)), "qemu"),
        (("Bochs", "Bochs", None, ["tsc"], False, ("pci",)), "qemu"),
        (("Nutanix", "AHV", None, ["kvm-clock"], True, ("pci",)), "nutanix"),
        (("Red Hat", "KVM", None, ["kvm-clock"], True, ("pci",)), "kvm"),
        (("Xen", "HVM domU", "xen", ["xen"], True, ("xen",)), "xen"),
        (("innotek GmbH", "VirtualBox", None, ["kvm-clock"], True, ("pci",)), "virtualbox"),
        (("Oracle Corporation", "SUN FIRE X4170", None, ["tsc"], False, ("pci",)), None),
        (("Dell Inc.", "PowerEdge R740", None, ["tsc", "hpet"], False, ("pci",)), None),
        (("", "", None, ["kvm-clock"], True, ("virtio",)), "kvm"),
        (("", "", None, ["tsc"], True, ()), "unknown"),
    ],
)
def test_signs_of_each_hypervisor(signs: Signs, expected: str | None) -> None:
    vendor, product, xen_type, clocks, has_flag, buses = signs
    found = hypervisor(
        vendor=vendor,
        product=product,
        xen_type=xen_type,
        clocks=clocks,
        has_flag=has_flag,
        buses=buses,
    )
    assert found == expected


@pytest.mark.parametrize(
    ("machine", "node", "nodes", "expected"),
    [
        ("linux,dummy-virt", "", ("chosen", "fw-cfg@9020000", "psci"), "qemu"),
        ("linux,dummy-virt", "", ("chosen", "psci"), "unknown"),
        ("", "linux,kvm", ("hypervisor",), "kvm"),
        ("xlnx,zynqmp", "xen,xen-4.17\0xen,xen", ("hypervisor",), "xen"),
        ("", "acme,visor", ("hypervisor",), "unknown"),
        ("raspberrypi,4-model-b\0brcm,bcm2711", "", ("chosen", "psci"), None),
        ("", "", (), None),
    ],
)
def test_hypervisor_of_a_device_tree(
    machine: str, node: str, nodes: tuple[str, ...], expected: str | None
) -> None:
    assert hypervisor_of_device_tree(machine, node, nodes) == expected


def test_hypervisor_flag() -> None:
    assert has_hypervisor_flag("processor\t: 0\nflags\t\t: fpu vme hypervisor lahf_lm\n")
    assert not has_hypervisor_flag("model name\t: hypervisor\nflags\t\t: fpu hypervisors\n")
    assert not has_hypervisor_flag("")


def test_os_release_with_quotes_and_escapes() -> None:
    text = """# comment
NAME='Single "quoted"'
PRETTY_NAME="Say \\"hi\\" for \\$5 \\\\ \\`x\\`"
ID=debian
EMPTY=
broken line
=nothing
"""
    assert parse_os_release(text) == {
        "NAME": 'Single "quoted"',
        "PRETTY_NAME": 'Say "hi" for $5 \\ `x`',
        "ID": "debian",
    }


@given(st.text())
def test_any_os_release_can_be_parsed(text: str) -> None:
    assert all(isinstance(value, str) and value for value in parse_os_release(text).values())
    assert not has_hypervisor_flag(text) or "hypervisor" in text
    assert has_hypervisor_flag(f"flags : fpu hypervisor sse\n{text}")


def test_nodes_and_their_cpus(tmp_path: Path) -> None:
    """In numerical order; node 3 has no CPUs."""
    for name, cpus in (
        ("node0", "0-3,8"),
        ("node10", "9"),
        ("node2", "4-7"),
        ("node3", ""),
        ("node", "1"),
        ("xnode4", "1"),
    ):
        folder = tmp_path / "devices/system/node" / name
        folder.mkdir(parents=True)
        (folder / "cpulist").write_text(cpus + "\n")
    found = read_platform(str(tmp_path), str(tmp_path), str(tmp_path))
    assert list(found.node_cpus.items()) == [(0, "0-3,8"), (2, "4-7"), (10, "9")]
    assert found.unreadable == {}
    (tmp_path / "devices/system/node/node2/cpulist").unlink()
    (tmp_path / "devices/system/node/node2/cpulist").mkdir()
    found = read_platform(str(tmp_path), str(tmp_path), str(tmp_path))
    assert set(found.node_cpus) == {0, 10}
    assert found.unreadable["node_cpus"].detail.endswith("EISDIR")


def test_nodes_of_a_captured_guest(capture: Callable[[str], Path]) -> None:
    assert read_platform(str(capture("queues") / "sys")).node_cpus == {0: "0-3"}


def machine(root: Path, vendor: str, product: str, *, is_guest: bool) -> None:
    """Files with firmware strings and the CPU flag below `root`, used as /sys, /proc, /etc and
    /dev."""
    folder = root / "class/dmi/id"
    folder.mkdir(parents=True)
    (folder / "sys_vendor").write_text(vendor + "\n")
    (folder / "product_name").write_text(product + "\n")
    (root / "cpuinfo").write_text(f"flags\t\t: fpu {'hypervisor' if is_guest else 'vme'}\n")


def test_environment_of_hosts_and_guests(tmp_path: Path) -> None:
    real, nested = tmp_path / "real", tmp_path / "nested"
    machine(real, "Dell Inc.", "PowerEdge R740", is_guest=False)
    machine(nested, "VMware, Inc.", "VMware20,1", is_guest=True)
    for root, hypervisor_name, environment in ((real, None, "proxmox"), (nested, "vmware", "esxi")):
        (root / "pve").mkdir()
        found = read_platform(*[str(root)] * 4, variables={})
        assert (found.hypervisor, found.environment, found.roles) == (
            hypervisor_name,
            environment,
            ("hypervisor",),
        )


def test_the_control_domain_of_xen_is_a_host(tmp_path: Path) -> None:
    machine(tmp_path, "Dell Inc.", "PowerEdge R740", is_guest=True)
    (tmp_path / "hypervisor").mkdir()
    (tmp_path / "hypervisor/type").write_text("xen\n")
    (tmp_path / "xen").mkdir()
    (tmp_path / "xen/capabilities").write_text("control_d\n")
    found = read_platform(*[str(tmp_path)] * 4, variables={})
    assert (found.hypervisor, found.environment, found.roles) == ("xen", "xen", ("hypervisor",))


def test_environment_from_daemons_and_machines(tmp_path: Path) -> None:
    machine(tmp_path, "Dell Inc.", "PowerEdge R740", is_guest=False)
    found = read_platform(
        *[str(tmp_path)] * 4, services=Services(libvirt=7), runs_machines=True, variables={}
    )
    assert (found.environment, found.roles) == ("libvirt", ("hypervisor",))


def test_related_distributions_and_the_machine_id_hash_the_machine_id(tmp_path: Path) -> None:
    (tmp_path / "os-release").write_text('ID="almalinux"\nID_LIKE="rhel centos fedora"\n')
    (tmp_path / "machine-id").write_text("0123456789abcdef0123456789abcdef\n")
    found = read_platform(
        *[str(tmp_path)] * 4, variables={"SSH_CONNECTION": "192.0.2.9 50000 192.0.2.1 22"}
    )
    assert found.distribution_like == "rhel centos fedora"
    assert found.machine_id_hash == "3eb1bd439947eb76"
    assert found.session_address == "192.0.2.1"


@pytest.mark.parametrize("content", ["", "uninitialized", "0123", "g" * 32, "0" * 33])
def test_an_invalid_machine_id_has_no_hash(content: str) -> None:
    assert machine_id_hash(content) is None


@pytest.mark.parametrize(
    ("connection", "address"),
    [
        ("192.0.2.9 50000 192.0.2.1 22", "192.0.2.1"),
        ("2001:db8::9 50000 2001:db8::1 22", "2001:db8::1"),
        ("fe80::9%eth0 50000 fe80::1%eth0 22", "fe80::1"),
        ("", None),
        ("192.0.2.9 50000 22", None),
        ("192.0.2.9 50000 elephant 22", None),
        ("192.0.2.9 50000 192.0.2.1\0 22", None),
    ],
)
def test_session_address(connection: str, address: str | None) -> None:
    assert parse_session(connection) == address


@given(st.text())
def test_any_session_and_machine_id_can_be_parsed(text: str) -> None:
    address = parse_session(text)
    assert address is None or set(address) <= set("0123456789abcdef.:")
    assert machine_id_hash(text) is None or len(text) == 32
