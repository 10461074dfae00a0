"""Where commands for the hypervisor of a guest are run: the product that manages it.

Reads nothing. `Platform.environment` names the product; where it is not known, every product of
that hypervisor is listed, as a condition of its fix.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from nictop.model.devices.subnets import CLOUD_PROVIDERS
from nictop.probe.light_dataclasses import replace
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
PRODUCT_CONDITIONS: dict[WhereToType, str] = {
    "proxmox": "is Proxmox VE",
    "libvirt": "uses libvirt",
    "ahv": "is Nutanix AHV",
}
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


def fixes_of_places(
    platform: Platform, fixes: Mapping[WhereToType, Fix], others: Iterable[Fix] = ()
) -> tuple[Fix, ...]:
    """Those for the hypervisor of this guest, where there are any. `others`: fixes of another
    place, behind them; before them where the product of the hypervisor is not known, as these may
    not apply."""
    places = hypervisor_places(platform)
    found = tuple(fixes[place] for place in places if place in fixes)
    if len(places) < 2:
        return (*found, *others)
    return (*others, *map(if_product, found))


def if_product(fix: Fix) -> Fix:
    """``If the hypervisor is Proxmox VE: set 4 queues``: it is not known which product it is."""
    title = f"{fix.title[:1].lower()}{fix.title[1:]}"
    return replace(fix, title=f"If the hypervisor {PRODUCT_CONDITIONS[fix.where]}: {title}")


def has_linux_hypervisor(platform: Platform) -> bool:
    """The hypervisor of this guest is a Linux host with a shell: ``ip link set … vf …`` works
    there."""
    return any(place in LINUX_PRODUCTS for place in hypervisor_places(platform))
