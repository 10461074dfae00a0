"""Where things are typed that this machine cannot do itself: the product that runs a guest.

Reads nothing. `Platform.environment` names the product; where it is not known, every product of that hypervisor is
offered, and none that does not apply.
"""

from __future__ import annotations

from nictop.probe.records import Platform
from nictop.rules.finding import WhereToType

PRODUCTS: dict[str, WhereToType] = {
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
CLOUDS = ("aws", "gcp", "oci", "alibaba", "digitalocean", "hetzner", "tencent", "openstack")
LINUX = ("kvm", "qemu", "xen", "nutanix")
"""`Platform.hypervisor` of guests whose host is a Linux, or has one in its first domain."""
KVM_PRODUCTS: tuple[WhereToType, ...] = ("proxmox", "libvirt", "ahv")
LINUX_PRODUCTS: tuple[WhereToType, ...] = (*KVM_PRODUCTS, "hypervisor")


def places_below(platform: Platform) -> tuple[WhereToType, ...]:
    """Products whose settings this guest depends on; () on a machine that is no guest, or when nothing is known."""
    if platform.hypervisor is None:
        return ()
    known = PRODUCTS.get(platform.environment or "")
    if known is not None:
        return (known,)
    if platform.environment in CLOUDS:
        return ("cloud",)
    if platform.hypervisor in ("kvm", "qemu"):
        return KVM_PRODUCTS
    return ("hypervisor",) if platform.hypervisor in LINUX else ()


def has_linux_below(platform: Platform) -> bool:
    """The machine below this guest is a Linux whose shell its owner can reach: ``ip link set … vf …`` works there."""
    return any(place in LINUX_PRODUCTS for place in places_below(platform))
