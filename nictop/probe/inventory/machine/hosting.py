"""The product that runs this machine, or that this machine runs as a hypervisor: its commands fix
what is outside.

Reads DMI strings (/sys/class/dmi/id/), /sys/module/kvm_*/refcnt, /proc/xen/capabilities,
/proc/self/ns/pid, /etc/pve and /dev/mshv → environment and roles of `Platform`. Nothing is guessed:
a guest of QEMU without further strings may belong to libvirt, Proxmox or another product.
"""

from __future__ import annotations

import os

from nictop.probe.kernel.sysfs import SysfsDirectory, read_text
from nictop.probe.light_dataclasses import dataclass
from nictop.probe.records import Services

AZURE_ASSET_TAG = "7783-7084-3265-9085-8269-3286-77"
"""Chassis asset tag of every Azure guest: the decimal ASCII codes of "MSFT AZURE VM"."""
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
"""Prefixes of DMI sys_vendor and product_name → environment; the first match. Red Hat's QEMU has
the product name "KVM" unless another one is set, as by oVirt and OpenStack."""
FIRMWARES = (("Proxmox distribution of EDK II", "proxmox"), ("Amazon EC2", "aws"))
"""Prefix of DMI bios_vendor → environment. SeaBIOS, the default of Proxmox, has no such string."""
ASSET_TAGS = {
    "OracleCloud.com": "oci",
    "OpenTelekomCloud": "openstack",
    "SAP CCloud VM": "openstack",
}
HYPERVISOR_ENVIRONMENTS = {"vmware": "esxi", "microsoft": "hyperv", "xen": "xen"}
"""`Platform.hypervisor` → the most likely environment."""
FIRST_PROCESS_NAMESPACE = "pid:[4026531836]"
"""PROC_PID_INIT_INO, include/linux/proc_ns.h: the initial process namespace, which no container
has."""


@dataclass(frozen=True)
class HostingHints:
    """DMI strings of the firmware; empty if not set."""

    vendor: str = ""
    product: str = ""
    chassis_asset_tag: str = ""
    bios_vendor: str = ""
    bios_version: str = ""


def read_hosting_hints(firmware: SysfsDirectory) -> HostingHints:
    """The DMI strings that distinguish products. `firmware`: /sys/class/dmi/id."""
    return HostingHints(
        vendor=firmware.text("system_vendor", "sys_vendor") or "",
        product=firmware.text("product_name", "product_name") or "",
        chassis_asset_tag=firmware.text("environment", "chassis_asset_tag") or "",
        bios_vendor=firmware.text("environment", "bios_vendor") or "",
        bios_version=firmware.text("environment", "bios_version") or "",
    )


def environment(hints: HostingHints, hypervisor: str | None) -> str | None:
    """The product that runs this guest, or that rents out this machine; None when it is not known.

    `hypervisor`: of `Platform`. For a hypervisor host see `own_environment`.
    """
    if hints.chassis_asset_tag == AZURE_ASSET_TAG:
        return "azure"
    if hypervisor == "xen" and "amazon" in hints.bios_version.lower():
        return "aws"
    if hypervisor is None:
        # vendors of virtual machines also sell physical ones; only EC2 rents them out
        return "aws" if hints.vendor.startswith("Amazon EC2") else None
    for vendor, product, name in PRODUCTS:
        if hints.vendor.startswith(vendor) and hints.product.startswith(product):
            return name
    for start, name in FIRMWARES:
        if hints.bios_vendor.startswith(start):
            return name
    return ASSET_TAGS.get(hints.chassis_asset_tag) or HYPERVISOR_ENVIRONMENTS.get(hypervisor)


@dataclass(frozen=True)
class Hosting:
    """Signs that this machine runs guests."""

    proxmox: bool = False
    """/etc/pve exists: the file system of a Proxmox cluster."""
    xen: bool = False
    """Xen's control domain: ``control_d`` in /proc/xen/capabilities."""
    hyperv: bool = False
    """Root partition of Hyper-V: /dev/mshv."""
    kvm: bool = False
    """kvm_intel or kvm_amd is in use: a process has /dev/kvm open."""
    machines: bool = False
    """There are QEMU processes."""


def read_hosting(sys: str, proc: str, etc: str, dev: str, *, machines: bool) -> Hosting:
    """The signs that are visible. Never raises OSError. KVM that is not a module has no reference
    count."""
    modules = SysfsDirectory(os.path.join(sys, "module"))
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
    """The product that a hypervisor host runs."""
    if hosting.proxmox or services.proxmox is not None:
        return "proxmox"
    if hosting.hyperv:
        return "hyperv"
    if hosting.xen:
        return "xen"
    if services.libvirt is not None:
        return "libvirt"
    return None


def roles(hosting: Hosting, *, is_container: bool) -> tuple[str, ...]:
    """ "hypervisor" and "container", each if it applies."""
    hosts = hosting.proxmox or hosting.xen or hosting.hyperv or hosting.kvm or hosting.machines
    return tuple(
        name for name, holds in (("hypervisor", hosts), ("container", is_container)) if holds
    )


def is_container(proc: str) -> bool:
    """Whether this process is in another process namespace than the initial one; False when that is
    not readable."""
    try:
        return os.readlink(os.path.join(proc, "self/ns/pid")) != FIRST_PROCESS_NAMESPACE
    except OSError:
        return False
