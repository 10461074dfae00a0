"""Whose commands repair what is outside this machine: the product that runs it, or that it runs itself.

Reads DMI strings (/sys/class/dmi/id/), /sys/module/kvm_*/refcnt, /proc/xen/capabilities, /proc/self/ns/pid, /etc/pve
and /dev/mshv; yields the environment and the roles of `Platform`. What the strings do not tell is not guessed: a guest
of QEMU may belong to libvirt, Proxmox or any other product.
"""

from __future__ import annotations

import os
from dataclasses import dataclass

from nictop.probe.kernel.sysfs import Folder, read_text
from nictop.probe.records import Services

AZURE_ASSET_TAG = "7783-7084-3265-9085-8269-3286-77"
"""Chassis asset tag of every guest on Azure: the digits of "MSFT AZURE VM"."""
PRODUCTS = (
    ("Nutanix", "AHV", "ahv"),
    ("Google", "Google Compute Engine", "gcp"),
    ("", "OpenStack", "openstack"),
    ("oVirt", "", "ovirt"),
    ("", "oVirt", "ovirt"),
    ("Red Hat", "RHEV", "ovirt"),
    ("Red Hat", "RHV", "ovirt"),
    ("Red Hat", "RHEL", "ovirt"),
    ("Red Hat", "KVM", "libvirt"),
    ("KubeVirt", "", "kubevirt"),
    ("", "VirtualBox", "virtualbox"),
    ("Parallels", "", "parallels"),
    ("Amazon EC2", "", "aws"),
    ("Alibaba Cloud", "", "alibaba"),
    ("DigitalOcean", "", "digitalocean"),
    ("Hetzner", "vServer", "hetzner"),
    ("Tencent Cloud", "", "tencent"),
)
"""Beginnings of DMI sys_vendor and product_name → environment; the first that fits. Red Hat's QEMU calls itself "KVM"
when nobody gives it another name, and oVirt and OpenStack do."""
FIRMWARES = (("Proxmox distribution of EDK II", "proxmox"), ("Amazon EC2", "aws"))
"""Beginning of DMI bios_vendor → environment. SeaBIOS, which Proxmox starts by default, tells nothing."""
ASSET_TAGS = {"OracleCloud.com": "oci", "OpenTelekomCloud": "openstack", "SAP CCloud VM": "openstack"}
HYPERVISORS = {"vmware": "esxi", "microsoft": "hyperv", "xen": "xen"}
"""`Platform.hypervisor` → environment, where there is one product to think of first."""
FIRST_PROCESS_NAMESPACE = "pid:[4026531836]"
"""PROC_PID_INIT_INO, include/linux/proc_ns.h: the only process namespace that no container has."""


@dataclass(frozen=True)
class HostingHints:
    """What the firmware was told to say; empty for nothing."""

    vendor: str = ""
    product: str = ""
    chassis_asset_tag: str = ""
    bios_vendor: str = ""
    bios_version: str = ""


def read_signs(firmware: Folder) -> HostingHints:
    """DMI strings that tell products apart. `firmware`: /sys/class/dmi/id."""
    return HostingHints(
        vendor=firmware.text("system_vendor", "sys_vendor") or "",
        product=firmware.text("product_name", "product_name") or "",
        chassis_asset_tag=firmware.text("environment", "chassis_asset_tag") or "",
        bios_vendor=firmware.text("environment", "bios_vendor") or "",
        bios_version=firmware.text("environment", "bios_version") or "",
    )


def environment(signs: HostingHints, hypervisor: str | None) -> str | None:
    """The product around a guest, or around a rented bare machine; None when it cannot be told.

    `hypervisor` is that of `Platform`. What a machine runs itself is not looked at: see `own_environment`.
    """
    if signs.chassis_asset_tag == AZURE_ASSET_TAG:
        return "azure"
    if hypervisor == "xen" and "amazon" in signs.bios_version.lower():
        return "aws"
    if hypervisor is None:  # a vendor of virtual machines may sell real ones too: of these only EC2 rents any
        return "aws" if signs.vendor.startswith("Amazon EC2") else None
    for vendor, product, name in PRODUCTS:
        if signs.vendor.startswith(vendor) and signs.product.startswith(product):
            return name
    by_firmware = next((name for start, name in FIRMWARES if signs.bios_vendor.startswith(start)), None)
    return by_firmware or ASSET_TAGS.get(signs.chassis_asset_tag) or HYPERVISORS.get(hypervisor)


@dataclass(frozen=True)
class Hosting:
    """Signs that this machine runs guests of its own."""

    proxmox: bool = False
    """/etc/pve is there: the file system of a Proxmox cluster."""
    xen: bool = False
    """Xen's first domain: ``control_d`` in /proc/xen/capabilities."""
    hyperv: bool = False
    """Root partition of Hyper-V: /dev/mshv."""
    kvm: bool = False
    """Somebody holds /dev/kvm open: kvm_intel or kvm_amd has users."""
    machines: bool = False
    """QEMU processes were seen."""


def read_hosting(sys: str, proc: str, etc: str, dev: str, *, machines: bool) -> Hosting:
    """What of it can be seen; never raises OSError. A KVM that is built into the kernel counts no users."""
    modules = Folder(os.path.join(sys, "module"))
    users = [modules.integer("roles", f"{name}/refcnt") for name in ("kvm_intel", "kvm_amd")]
    capabilities = read_text(os.path.join(proc, "xen/capabilities"))
    return Hosting(
        proxmox=os.path.isdir(os.path.join(etc, "pve")),
        xen=isinstance(capabilities, str) and "control_d" in capabilities,
        hyperv=os.path.exists(os.path.join(dev, "mshv")),
        kvm=any(count is not None and count > 0 for count in users),
        machines=machines,
    )


def own_environment(hosting: Hosting, services: Services) -> str | None:
    """The product that a machine, which is no guest, runs itself."""
    if hosting.proxmox or services.proxmox is not None:
        return "proxmox"
    if hosting.hyperv:
        return "hyperv"
    if hosting.xen:
        return "xen"
    return "libvirt" if services.libvirt is not None else None


def roles(hosting: Hosting, *, is_container: bool) -> tuple[str, ...]:
    """ "hypervisor" and "container", as far as they hold."""
    hosts = hosting.proxmox or hosting.xen or hosting.hyperv or hosting.kvm or hosting.machines
    return tuple(name for name, holds in (("hypervisor", hosts), ("container", is_container)) if holds)


def is_container(proc: str) -> bool:
    """This process is in a process namespace that is not the kernel's first one; False when nobody says."""
    try:
        return os.readlink(os.path.join(proc, "self/ns/pid")) != FIRST_PROCESS_NAMESPACE
    except OSError:
        return False
