"""Where things are typed that this machine cannot do itself: the product that runs a guest.

Reads nothing. `Platform.environment` names the product; where it is not known, every product of that hypervisor is
offered, and none that does not apply.
"""

from __future__ import annotations

from nictop.probe.records import Platform
from nictop.rules.finding import WhereToType

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
CLOUD_PROVIDERS = ("aws", "gcp", "oci", "alibaba", "digitalocean", "hetzner", "tencent", "openstack")
LINUX_HYPERVISORS = ("kvm", "qemu", "xen", "nutanix")
"""`Platform.hypervisor` of guests whose host is a Linux, or has one in its first domain."""
KVM_PRODUCTS: tuple[WhereToType, ...] = ("proxmox", "libvirt", "ahv")
LINUX_PRODUCTS: tuple[WhereToType, ...] = (*KVM_PRODUCTS, "hypervisor")


def hypervisor_places(platform: Platform) -> tuple[WhereToType, ...]:
    """Products whose settings this guest depends on; () on a machine that is no guest, or when nothing is known."""
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


def has_linux_hypervisor(platform: Platform) -> bool:
    """The machine below this guest is a Linux whose shell its owner can reach: ``ip link set … vf …`` works there."""
    return any(place in LINUX_PRODUCTS for place in hypervisor_places(platform))
