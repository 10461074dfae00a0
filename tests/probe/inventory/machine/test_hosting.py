"""Hosting: firmware strings of real guests, products of hypervisor hosts, containers."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nictop.probe.inventory.machine.hosting import (
    AZURE_ASSET_TAG,
    Hosting,
    HostingHints,
    environment,
    is_container,
    own_environment,
    read_hosting,
    roles,
)
from nictop.probe.records import Services
from tests.support.namespaces import ROOT

Q35 = "Standard PC (Q35 + ICH9, 2009)"
MICROSOFT = "Microsoft Corporation"


@pytest.mark.parametrize(
    ("hints", "hypervisor", "expected"),
    [
        (
            HostingHints("VMware, Inc.", "VMware20,1", "No Asset Tag", "VMware, Inc."),
            "vmware",
            "esxi",
        ),
        (
            HostingHints("VMware, Inc.", "VMware Virtual Platform", "", "Phoenix Technologies LTD"),
            "vmware",
            "esxi",
        ),
        (HostingHints(MICROSOFT, "Virtual Machine", AZURE_ASSET_TAG), "microsoft", "azure"),
        (
            HostingHints(MICROSOFT, "Virtual Machine", "1234-5678-9012-3456-7890-1234-56"),
            "microsoft",
            "hyperv",
        ),
        (
            HostingHints(
                "QEMU", Q35, "", "SeaBIOS", "rel-1.16.3-0-ga6ed6b701f0a-prebuilt.qemu.org"
            ),
            "kvm",
            None,
        ),
        (
            HostingHints("QEMU", Q35, "", "Proxmox distribution of EDK II", "4.2025.02-4"),
            "kvm",
            "proxmox",
        ),
        (HostingHints("QEMU", Q35, "", "EFI Development Kit II / OVMF", "0.0.0"), "kvm", None),
        (HostingHints("QEMU", "Standard PC (i440FX + PIIX, 1996)", "", "SeaBIOS"), "qemu", None),
        (HostingHints("Bochs", "Bochs", "", "Bochs"), "kvm", None),
        (HostingHints("Red Hat", "KVM", "", "SeaBIOS", "1.16.1-1.el9"), "kvm", "libvirt"),
        (HostingHints("Red Hat", "RHEV Hypervisor", "", "SeaBIOS"), "kvm", "ovirt"),
        (HostingHints("oVirt", "oVirt Node"), "kvm", "ovirt"),
        (HostingHints("oVirt", "RHEL", "", "SeaBIOS"), "kvm", "ovirt"),
        (HostingHints("Red Hat", "OpenStack Compute"), "kvm", "openstack"),
        (HostingHints("OpenStack Foundation", "OpenStack Nova"), "kvm", "openstack"),
        (HostingHints("Nutanix", "AHV"), "nutanix", "ahv"),
        (
            HostingHints("Amazon EC2", "m5.large", "Amazon EC2", "Amazon EC2", "1.0"),
            "amazon",
            "aws",
        ),
        (HostingHints("Amazon EC2", "m5.metal", "Amazon EC2", "Amazon EC2", "1.0"), None, "aws"),
        (HostingHints("Xen", "HVM domU", "", "Xen", "4.11.amazon"), "xen", "aws"),
        (HostingHints("Xen", "HVM domU", "", "Xen", "4.17.5-13"), "xen", "xen"),
        (HostingHints("Google", "Google Compute Engine", "", "Google"), "google", "gcp"),
        (
            HostingHints("innotek GmbH", "VirtualBox", "", "innotek GmbH"),
            "virtualbox",
            "virtualbox",
        ),
        (HostingHints("KubeVirt", "None"), "kvm", "kubevirt"),
        (HostingHints("QEMU", Q35, "OracleCloud.com", "SeaBIOS"), "kvm", "oci"),
        (HostingHints("Dell Inc.", "PowerEdge R740", "", "Dell Inc."), None, None),
        (HostingHints(MICROSOFT, "Surface Book"), None, None),
        (HostingHints("Nutanix", "NX-3060-G5"), None, None),
        (HostingHints(), "kvm", None),
        (HostingHints(), "unknown", None),
        (HostingHints(), None, None),
    ],
)
def test_environment_of_a_guest(
    hints: HostingHints, hypervisor: str | None, expected: str | None
) -> None:
    assert environment(hints, hypervisor) == expected


@given(
    st.builds(HostingHints, st.text(), st.text(), st.text(), st.text(), st.text()),
    st.none() | st.text(),
)
def test_any_strings_are_hints(hints: HostingHints, hypervisor: str | None) -> None:
    found = environment(hints, hypervisor)
    assert found is None or (found.isascii() and found.islower())


@pytest.mark.parametrize(
    ("hosting", "services", "expected"),
    [
        (Hosting(proxmox=True), Services(libvirt=5), "proxmox"),
        (Hosting(), Services(proxmox=5), "proxmox"),
        (Hosting(kvm=True, machines=True), Services(libvirt=5), "libvirt"),
        (Hosting(kvm=True, machines=True), Services(), None),
        (Hosting(xen=True), Services(libvirt=5), "xen"),
        (Hosting(hyperv=True), Services(), "hyperv"),
        (Hosting(), Services(), None),
    ],
)
def test_own_environment_of_a_host(
    hosting: Hosting, services: Services, expected: str | None
) -> None:
    assert own_environment(hosting, services) == expected


def test_roles() -> None:
    assert roles(Hosting(), is_container=False) == ()
    assert roles(Hosting(machines=True), is_container=True) == ("hypervisor", "container")
    for sign in ("proxmox", "xen", "hyperv", "kvm", "machines"):
        assert roles(Hosting(**{sign: True}), is_container=False) == ("hypervisor",)


def test_signs_of_a_host(tmp_path: Path) -> None:
    root = str(tmp_path)
    assert read_hosting(root, root, root, root, machines=False) == Hosting()
    (tmp_path / "pve").mkdir()
    (tmp_path / "xen").mkdir()
    (tmp_path / "xen/capabilities").write_text("control_d\n")
    (tmp_path / "mshv").write_text("")
    for name, users in (("kvm_intel", "0"), ("kvm_amd", "2")):
        (tmp_path / "module" / name).mkdir(parents=True)
        (tmp_path / "module" / name / "refcnt").write_text(users + "\n")
    assert read_hosting(root, root, root, root, machines=True) == Hosting(
        True, True, True, True, True
    )
    (tmp_path / "xen/capabilities").write_text("")  # a guest of Xen
    (tmp_path / "module/kvm_amd/refcnt").write_text("0\n")
    assert read_hosting(root, root, root, root, machines=False) == Hosting(
        proxmox=True, hyperv=True
    )


def test_a_container_is_detected_by_its_process_namespace(tmp_path: Path) -> None:
    assert is_container(str(tmp_path)) is False
    if os.geteuid() != 0 or shutil.which("unshare") is None:
        pytest.skip("needs root and unshare")
    code = f"import sys; sys.path.insert(0, {str(ROOT)!r})\n"
    code += "from nictop.probe.inventory.machine.hosting import is_container\n"
    argv = [
        "unshare",
        "--pid",
        "--fork",
        "--mount-proc",
        sys.executable,
        "-c",
        code + "print(is_container('/proc'))",
    ]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"no process namespace can be created here: {done.stderr}")
    assert done.stdout == "True\n"


def test_this_machine_is_a_container_or_has_kernel_threads() -> None:
    """In the initial process namespace pid 2 is kthreadd."""
    sees_kernel = Path("/proc/2/comm").exists() and Path("/proc/2/comm").read_text() == "kthreadd\n"
    assert is_container("/proc") is not sees_kernel
