"""Short texts of facts about links and hosts, and of the reasons why values are absent.

Reads nothing; takes fields of the records. The text is raw: `terminal.clean` is applied where it is
shown.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from nictop.model.devices.links import ethtool_driver
from nictop.model.queues.cpu_lists import parse_cpu_list
from nictop.model.snapshot import is_unread_link
from nictop.model.text import units
from nictop.probe.records import (
    NOT_OFFERED_BY_ESXI,
    NOT_READ_YET,
    Address,
    Link,
    LinkSettings,
    PciFunction,
    Platform,
    Trouble,
    Unreadable,
)
from nictop.probe.records.unreadable import NOT_RECORDED

Tone = Literal["normal", "dim", "good", "warn", "bad", "title"]

IFF_UP = 0x1
IFF_LOOPBACK = 0x8
IFF_NOARP = 0x80
IFF_PROMISC = 0x100
IFF_MULTICAST = 0x1000

LINK_UP, NO_CARRIER, LINK_DOWN = "↑", "▽", "○"
"""Marks of the state of a link: others than those of severities, which are in the same lines."""
NOT_RUNNING = ("lowerlayerdown", "dormant", "testing", "notpresent", "down")
"""Operstates in which an administratively enabled link does not pass packets; lo and tun have
``unknown``."""


# ------------------------------------------------------------------------------------------ absence


REASON_TEXTS = {
    "needs_root": "needs root",
    "missing": "not available on this host",
    "vanished": "device removed",
}
"""Reasons of which the details say no more."""


UNKNOWN_REASONS = ("needs_root", "malformed", "failed")
"""Of `Unreadable`: the value is unknown. The others say that there is none."""


def absence_reason(why: Unreadable | None, driver: str | None) -> str:
    """Why a value is absent. `driver`: name of the kernel driver, or kind of the virtual link, that
    does not offer it."""
    if why is None:
        return "unknown"
    if why.reason == "not_offered":
        return f"not supported by {driver or 'the driver'}"
    if why.reason in REASON_TEXTS:
        return REASON_TEXTS[why.reason]
    if why.reason == "malformed":
        text = "invalid data"
    elif why.detail in (NOT_READ_YET, NOT_RECORDED, NOT_OFFERED_BY_ESXI):
        return why.detail
    else:
        text = "not readable"
    if why.detail:
        text += f" ({why.detail})"
    return text


def value_or_reason(
    value: str | None, unreadable: Mapping[str, Unreadable], field: str, driver: str | None
) -> str:
    """`value`, or why the field `field` of a record is absent; never empty."""
    if value:
        return value
    return absence_reason(unreadable.get(field), driver)


# ----------------------------------------------------------------------------------------- platform

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
    """``VMware guest``, ``bare metal``, ``ESXi host (experimental)``, or the name of the hypervisor
    in the firmware."""
    if is_esxi(platform):
        return "ESXi host (experimental)"
    if platform.hypervisor:
        return HYPERVISOR_TEXTS.get(platform.hypervisor, f"{platform.hypervisor} guest")
    if "hypervisor" in platform.unreadable:
        return f"hypervisor {absence_reason(platform.unreadable['hypervisor'], None)}"
    return "bare metal"


def recorded_text(wall: float, no_data: str = "") -> str:
    """``recorded 2026-11-21 08:01:40 UTC``, ``recorded … · no data for 12 s``. `wall`:
    `Snapshot.recorded_at`; `no_data`: `recorded_age_text`."""
    text = f"recorded {units.wall_time_text(wall)}"
    return f"{text} · {no_data}" if no_data else text


def kernel_text(release: str) -> str:
    """``Linux 6.12.0``; of an ESXi host ``VMkernel 7.0.3``. `release`: `Hello.kernel`."""
    if release.startswith("VMkernel"):
        return release
    return f"Linux {release}"


def platform_text(platform: Platform) -> str:
    """``VMware guest · 1 CPU``"""
    number = cpu_count(platform.online_cpus)
    if number is None:
        return hypervisor_text(platform)
    return f"{hypervisor_text(platform)} · {count_noun(number, 'CPU')}"


def cpu_count(cpu_list: str | None) -> int | None:
    """Number of CPUs in a kernel CPU list, ``0-3,8``; None if it is absent or invalid."""
    cpus = parse_cpu_list(cpu_list)
    if not cpus:
        return None
    return len(cpus)


def warn_if(is_bad: object) -> Tone:
    """Tone of a text that may say something bad."""
    return "warn" if is_bad else "normal"


def dim_if(is_absent: object) -> Tone:
    """Tone of a text that may say that there is nothing."""
    return "dim" if is_absent else "normal"


def count_noun(number: int, noun: str, plural: str = "") -> str:
    """``1 run``, ``2 runs``, ``1.23 M segments``. `plural`: if it is not the noun with an s."""
    if number != 1:
        noun = plural or f"{noun}s"
    return f"{units.count(number)} {noun}"


def mtu_of(link: Link) -> int | None:
    """Bytes; None: not reported (ESXi)."""
    return link.mtu or None


def mtu_text(link: Link) -> str:
    """``MTU 1500``"""
    return f"MTU {mtu_of(link) or units.UNKNOWN}"


FAMILY_NAMES = {"ipv4": "IPv4", "ipv6": "IPv6"}
"""By `Address.family`."""


def address_text(address: Address) -> str:
    """``192.0.2.7/24``"""
    return f"{address.address}/{address.prefix_length}"


def on_off(flag: bool) -> str:
    return "on" if flag else "off"


# --------------------------------------------------------------------------------------- link state


def speed_text(settings: LinkSettings | None) -> str | None:
    """``10G full``, ``10G``; None when the speed is not known."""
    if settings is None or settings.speed is None:
        return None
    speed = units.link_speed(settings.speed)
    if settings.duplex:
        return f"{speed} {settings.duplex}"
    return speed


def state_text(link: Link) -> tuple[str, Tone]:
    """``up, 10G full`` · ``up, speed unknown`` · ``no carrier, no cable`` · ``down``."""
    if not link.flags & IFF_UP:
        if link.operstate == "notpresent":
            return "not present", "bad"
        return "down", "dim"
    obstacle = _obstacle(link)
    if obstacle:
        return f"{obstacle}{_extended_state(link)}", "warn"
    settings = link.ethtool.settings
    if settings is not None and settings.speed is not None:
        tone: Tone = "warn" if settings.duplex == "half" else "good"
        return f"up, {speed_text(settings)}", tone
    if is_virtual(link):
        return "up", "good"
    why = link.ethtool.unreadable.get("settings")
    if why is not None and why.detail == NOT_READ_YET:
        return f"up, speed {NOT_READ_YET}", "good"
    return "up, speed unknown", "good"


def _obstacle(link: Link) -> str:
    """Why a link that is administratively up does not pass packets; "": it does."""
    if link.operstate == "lowerlayerdown":
        return "lower layer down"
    if link.carrier is False:
        return "no carrier"
    if link.operstate in NOT_RUNNING:
        return f"up, {link.operstate}"
    return ""


def _extended_state(link: Link) -> str:
    """``, no cable``: what the driver says of a link without carrier; "": nothing."""
    state = link.ethtool.state
    if state is None or not state.extended_state:
        return ""
    return f", {state.extended_state}"


def state_mark(link: Link) -> str:
    """`LINK_UP`, `NO_CARRIER` or `LINK_DOWN`."""
    if not link.flags & IFF_UP:
        return LINK_DOWN
    if link.carrier is False or link.operstate in NOT_RUNNING:
        return NO_CARRIER
    return LINK_UP


def is_virtual(link: Link) -> bool:
    """The link has no device: bridge, veth, tap, lo, …"""
    return (
        link.bus is None
        and link.device is None
        and link.pci_address is None
        and not is_unread_link(link)
    )


def driver_name(link: Link, pci: PciFunction | None = None) -> str | None:
    """Kernel driver of a link, or the kind of a virtual link; None: not known."""
    reported = ethtool_driver(link)
    if reported:
        return reported
    if link.kind:
        return link.kind
    if link.flags & IFF_LOOPBACK:
        return "loopback"
    if link.bus not in (None, "pci"):  # that of the function drives a bus: virtio-pci
        return None
    if pci is None:
        return None
    return pci.driver


def trouble_kind(trouble: Trouble) -> tuple[str, Tone]:
    """The word before its sentence."""
    if trouble.is_notice:
        return "note", "dim"
    return "error", "warn"
