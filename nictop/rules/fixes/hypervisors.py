"""Where commands for the hypervisor of a guest are run: the product that manages it.

Reads nothing. `Platform.environment` names the product; where it is not known, every product of
that hypervisor is listed.
"""

from __future__ import annotations

from collections.abc import Mapping

from nictop.model.devices.subnets import CLOUD_PROVIDERS
from nictop.probe.records import Platform
from nictop.rules.finding import Fix, WhereToType

PRODUCT_PLACES: dict[str, WhereToType] = {
    "esxi": "esxi",
    "proxmox": "proxmox",
    "libvirt": "libvirt",
    "ovirt": "libvirt",
    "kubevirt": "libvirt",
    "ahv": "ahv",
    "hyperv": "hyperv",
    "azure": "azure",
}
"""`Platform.environment` → place. oVirt and KubeVirt start their guests with libvirt."""
LINUX_HYPERVISORS = ("kvm", "qemu", "xen", "nutanix")
"""`Platform.hypervisor` of guests whose host runs Linux (Xen: in its first domain)."""
KVM_PRODUCTS: tuple[WhereToType, ...] = ("proxmox", "libvirt", "ahv")
LINUX_PRODUCTS: tuple[WhereToType, ...] = (*KVM_PRODUCTS, "hypervisor")


def hypervisor_places(platform: Platform) -> tuple[WhereToType, ...]:
    """Products whose settings this guest depends on; (): not a guest, or not known."""
    if platform.hypervisor is None:
        return ()
    known = PRODUCT_PLACES.get(platform.environment or "")
    if known is not None:
        return (known,)
    if platform.environment in CLOUD_PROVIDERS:
        return ("cloud",)
    if platform.hypervisor in ("kvm", "qemu"):
        return KVM_PRODUCTS
    return ("hypervisor",) if platform.hypervisor in LINUX_HYPERVISORS else ()


def fixes_of_places(platform: Platform, fixes: Mapping[WhereToType, Fix]) -> tuple[Fix, ...]:
    """Those for the hypervisor of this guest, where there are any."""
    return tuple(fixes[place] for place in hypervisor_places(platform) if place in fixes)


def has_linux_hypervisor(platform: Platform) -> bool:
    """The hypervisor of this guest is a Linux host with a shell: ``ip link set … vf …`` works
    there."""
    return any(place in LINUX_PRODUCTS for place in hypervisor_places(platform))
