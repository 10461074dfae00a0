"""Short texts of facts about links and hosts, and of the reasons why values are absent.

Reads nothing; takes fields of the records. The text is raw: `terminal.clean` is applied where it is shown.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from nictop.model.queues.cpu_lists import parse_cpu_list
from nictop.model.snapshot import ARPHRD_VOID
from nictop.model.text import units
from nictop.probe.records import NOT_OFFERED_BY_ESXI, Link, LinkSettings, PciFunction, Platform, Unreadable

Tone = Literal["normal", "dim", "good", "warn", "bad", "title"]

IFF_UP = 0x1
IFF_LOOPBACK = 0x8
IFF_NOARP = 0x80
IFF_PROMISC = 0x100
IFF_MULTICAST = 0x1000

LINK_UP, NO_CARRIER, LINK_DOWN = "↑", "▽", "○"
"""Marks of the state of a link: others than those of severities, which are in the same lines."""
NOT_RUNNING = ("lowerlayerdown", "dormant", "testing", "notpresent", "down")
"""Operstates in which an administratively enabled link does not pass packets; lo and tun have ``unknown``."""


# ----------------------------------------------------------------------------------------------------- absence


NOT_READ_YET = "not read yet"
"""Detail of a source that is still being read (`Inventory.pending`)."""


def absence_reason(why: Unreadable | None, driver: str | None) -> str:
    """Why a value is absent. `driver`: name of the kernel driver, or kind of the virtual link, that does not offer
    it."""
    if why is None:
        return "unknown"
    detail = f" ({why.detail})" if why.detail else ""
    if why.reason == "not_offered":
        return f"not supported by {driver}" if driver else "not supported by the driver"
    if why.reason == "needs_root":
        return "needs root"
    if why.reason == "missing":
        return "not available on this host"
    if why.reason == "malformed":
        return f"invalid data{detail}"
    if why.reason == "vanished":
        return "device removed"
    return why.detail if why.detail in (NOT_READ_YET, NOT_OFFERED_BY_ESXI) else f"not readable{detail}"


def value_or_reason(value: str | None, unreadable: Mapping[str, Unreadable], field: str, driver: str | None) -> str:
    """`value`, or why the field `field` of a record is absent; never empty."""
    if value:
        return value
    return absence_reason(unreadable.get(field), driver)


# ------------------------------------------------------------------------------------------------------- platform

HYPERVISOR_TEXTS = {
    "vmware": "VMware guest",
    "kvm": "KVM guest",
    "qemu": "QEMU guest",
    "microsoft": "Hyper-V guest",
    "hyperv": "Hyper-V guest",
    "xen": "Xen guest",
    "amazon": "Amazon EC2 guest",
    "google": "Google Compute Engine guest",
    "oracle": "VirtualBox guest",
    "virtualbox": "VirtualBox guest",
    "bhyve": "bhyve guest",
    "parallels": "Parallels guest",
    "nutanix": "Nutanix AHV guest",
    "firecracker": "Firecracker guest",
}


def is_esxi(platform: Platform) -> bool:
    """The host itself is an ESXi host."""
    is_guest = platform.hypervisor is not None or "hypervisor" in platform.unreadable
    return platform.environment == "esxi" and not is_guest


def hypervisor_text(platform: Platform) -> str:
    """``VMware guest``, ``bare metal``, ``ESXi host (experimental)``, or the name of the hypervisor in the firmware."""
    if is_esxi(platform):
        return "ESXi host (experimental)"
    if platform.hypervisor:
        return HYPERVISOR_TEXTS.get(platform.hypervisor, f"{platform.hypervisor} guest")
    if "hypervisor" in platform.unreadable:
        return f"hypervisor {absence_reason(platform.unreadable['hypervisor'], None)}"
    return "bare metal"


def recorded_text(wall: float) -> str:
    """``recorded 2026-11-21 08:01:40 UTC``. `wall`: `Snapshot.recorded_at`."""
    return f"recorded {units.wall_time_text(wall)}"


def kernel_text(release: str) -> str:
    """``Linux 6.12.0``; of an ESXi host ``VMkernel 7.0.3``. `release`: `Hello.kernel`."""
    return release if release.startswith("VMkernel") else f"Linux {release}"


def platform_text(platform: Platform) -> str:
    """``VMware guest · 1 CPU``"""
    number = cpu_count(platform.online_cpus)
    if number is None:
        return hypervisor_text(platform)
    return f"{hypervisor_text(platform)} · {number} CPU{'' if number == 1 else 's'}"


def cpu_count(cpu_list: str | None) -> int | None:
    """Number of CPUs in a kernel CPU list, ``0-3,8``; None if it is absent or invalid."""
    cpus = parse_cpu_list(cpu_list)
    return len(cpus) if cpus else None


def count_noun(number: int, noun: str, plural: str = "") -> str:
    """``1 run``, ``2 runs``, ``1.23 M segments``. `plural`: if it is not the noun with an s."""
    return f"{units.count(number)} {noun if number == 1 else plural or f'{noun}s'}"


def mtu_of(link: Link) -> int | None:
    """Bytes; None: not reported (ESXi)."""
    return link.mtu or None


def mtu_text(link: Link) -> str:
    """``MTU 1500``"""
    return f"MTU {units.UNKNOWN if mtu_of(link) is None else link.mtu}"


def on_off(flag: bool) -> str:
    return "on" if flag else "off"


# ------------------------------------------------------------------------------------------------------ link state


def speed_text(settings: LinkSettings | None) -> str | None:
    """``10G full``, ``10G``; None when the speed is not known."""
    if settings is None or settings.speed is None:
        return None
    return units.link_speed(settings.speed) + (f" {settings.duplex}" if settings.duplex else "")


def state_text(link: Link) -> tuple[str, Tone]:
    """``up, 10G full`` · ``up, speed unknown`` · ``no carrier, no cable`` · ``down``."""
    if not link.flags & IFF_UP:
        return ("not present", "bad") if link.operstate == "notpresent" else ("down", "dim")
    state = link.ethtool.state
    why = f", {state.extended_state}" if state is not None and state.extended_state else ""
    if link.operstate == "lowerlayerdown":
        return f"lower layer down{why}", "warn"
    if link.carrier is False:
        return f"no carrier{why}", "warn"
    if link.operstate in NOT_RUNNING:
        return f"up, {link.operstate}{why}", "warn"
    speed = speed_text(link.ethtool.settings)
    half = link.ethtool.settings is not None and link.ethtool.settings.duplex == "half"
    if speed is not None:
        return f"up, {speed}", "warn" if half else "good"
    return ("up" if is_virtual(link) else "up, speed unknown"), "good"


def state_mark(link: Link) -> str:
    """`LINK_UP`, `NO_CARRIER` or `LINK_DOWN`."""
    if not link.flags & IFF_UP:
        return LINK_DOWN
    return NO_CARRIER if link.carrier is False or link.operstate in NOT_RUNNING else LINK_UP


def is_virtual(link: Link) -> bool:
    """The link has no device: bridge, veth, tap, lo, …"""
    return link.bus is None and link.device is None and link.pci_address is None and link.type != ARPHRD_VOID


def driver_name(link: Link, pci: PciFunction | None = None) -> str | None:
    """Kernel driver of a link, or the kind of a virtual link; None: not known."""
    if link.ethtool.driver is not None and link.ethtool.driver.driver:
        return link.ethtool.driver.driver
    if link.kind:
        return link.kind
    if link.flags & IFF_LOOPBACK:
        return "loopback"
    return pci.driver if pci is not None else None
