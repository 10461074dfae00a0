"""Texts for PCI functions, PCI Express links, transceivers and virtual functions.

Reads nothing; takes records and returns unsanitized text: `text.terminal.clean` is applied where it is displayed.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from nictop.model.devices.virtual_functions import PASSTHROUGH_DRIVERS
from nictop.model.text import units
from nictop.model.text.words import Tone, absence_reason, on_off
from nictop.probe.records import Module, Optics, PcieErrors, PcieLink, PciFunction, VirtualFunction

_ENCODING = ((8.0, 0.8), (64.0, 128 / 130))
"""Up to this many GT/s (exclusive) → share of the transfers that are data: 8b/10b, then 128b/130b."""


def pcie_capacity(link: PcieLink) -> float | None:
    """Gb/s of data in each direction before packet overhead: GT/s × lanes × encoding (PCI Express Base Specification);
    None when speed or width are not known."""
    if link.speed is None or link.width is None:
        return None
    for limit, share in _ENCODING:
        if link.speed < limit:
            return link.speed * link.width * share
    return link.speed * link.width


def pcie_text(link: PcieLink | None) -> tuple[str, Tone]:
    """``8 GT/s ×4``, or ``8 GT/s ×4 (of 16 GT/s ×8)`` when the link runs below its maximum."""
    if link is None:
        return "none", "dim"
    if link.speed is None and link.width is None:
        return "unknown", "dim"
    now, maximum = _lanes(link.speed, link.width), _lanes(link.max_speed, link.max_width)
    slower = link.speed is not None and link.max_speed is not None and link.speed < link.max_speed
    narrower = link.width is not None and link.max_width is not None and link.width < link.max_width
    if slower or narrower:
        return f"{now} (of {maximum})", "warn"
    return now, "normal"


def _lanes(speed: float | None, lanes: int | None) -> str:
    return f"{f'{speed:g} GT/s' if speed is not None else 'speed unknown'} ×{lanes if lanes is not None else '?'}"


def pcie_errors_text(errors: PcieErrors | None) -> str:
    """``1 fatal (DLP 1), 12 correctable (BadTLP 10, RxErr 2)``; "" when there are none."""
    if errors is None:
        return ""
    severities = (
        ("fatal", errors.fatal, errors.fatal_kinds),
        ("nonfatal", errors.nonfatal, errors.nonfatal_kinds),
        ("correctable", errors.correctable, errors.correctable_kinds),
    )
    return ", ".join(
        f"{units.count(total)} {severity}{_kinds_text(kinds)}" for severity, total, kinds in severities if total > 0
    )


def _kinds_text(kinds: Mapping[str, int]) -> str:
    """`` (BadTLP 10, RxErr 2)``, the most frequent first; "" when there are none."""
    if not kinds:
        return ""
    by_count = sorted(kinds, key=lambda kind: (-kinds[kind], kind))
    return f" ({', '.join(f'{kind} {units.count(kinds[kind])}' for kind in by_count)})"


ASPM_NAMES = {
    "l0s_aspm": "L0s",
    "l1_aspm": "L1",
    "l1_1_aspm": "L1.1",
    "l1_2_aspm": "L1.2",
    "l1_1_pcipm": "L1.1 PCI-PM",
    "l1_2_pcipm": "L1.2 PCI-PM",
    "clkpm": "clock PM",
}
"""File in ``link/`` → name of the state in the PCI Express Base Specification."""


def aspm_text(aspm: Mapping[str, bool]) -> str:
    """``L1, L1.2 on``, ``off``"""
    enabled = [name for file, name in ASPM_NAMES.items() if aspm.get(file)]
    return f"{', '.join(enabled)} on" if enabled else "off"


def ids_text(pci: PciFunction) -> str:
    """``8086:1572``"""
    return f"{pci.vendor_id:04x}:{pci.device_id:04x}"


def pci_name(pci: PciFunction) -> str:
    """``Intel Corporation 82576 Gigabit Network Connection``; the ids where there is no name."""
    if pci.device_name:
        return f"{pci.vendor_name} {pci.device_name}" if pci.vendor_name else pci.device_name
    return f"{pci.vendor_name} {ids_text(pci)}" if pci.vendor_name else ids_text(pci)


def optical_power(milliwatt: float | None) -> str:
    """``-2.35 dBm (0.58 mW)``; dBm is 10 log10 of milliwatt."""
    if milliwatt is None or math.isnan(milliwatt):
        return "unknown"
    if milliwatt <= 0:
        return "no light"
    return f"{10 * math.log10(milliwatt):.2f} dBm ({milliwatt:.2f} mW)"


def module_text(module: Module) -> str:
    """``SFP Intel Corp FTLX8571D3BCV-IT · fibre, 850 nm · LC``, ``SFP+ Molex 74752-1101 · copper cable, 1 m``."""
    name = " ".join(part for part in (module.kind, module.vendor, module.part) if part) or "unnamed module"
    medium: str = "medium unknown" if module.medium == "unknown" else module.medium
    if module.length is not None:
        medium += f" cable, {module.length:g} m"
    if module.wavelength is not None:
        medium += f", {module.wavelength:g} nm"
    return " · ".join(part for part in (name, medium, module.connector) if part)


def lane_texts(lanes: Sequence[Optics]) -> tuple[str, ...]:
    """One line per lane: received power, transmitted power, laser current."""
    return tuple(
        f"rx {optical_power(lane.rx_power)} · tx {optical_power(lane.tx_power)} · laser "
        + (f"{lane.bias:.1f} mA" if lane.bias is not None else "current unknown")
        for lane in lanes
    )


ZERO_MAC_ADDRESS = "00:00:00:00:00:00"


def vf_text(vf: VirtualFunction) -> str:
    """Settings by the physical function: ``52:54:00:… · VLAN 100 · spoof check on · trust off · link auto``."""
    address = "no MAC set by the PF" if vf.address == ZERO_MAC_ADDRESS else vf.address or "MAC unknown"
    vlan = "VLAN unknown" if vf.vlan is None else "no VLAN"
    if vf.vlan:
        protocol = f" {vf.vlan_protocol}" if vf.vlan_protocol not in (None, "802.1Q") else ""
        vlan = f"VLAN {vf.vlan}{protocol}" + (f" priority {vf.qos}" if vf.qos else "")
    parts = [address, vlan]
    for name, flag in (("spoof check", vf.spoof_check), ("trust", vf.trust)):
        parts.append(f"{name} {on_off(flag) if flag is not None else 'unknown'}")
    parts.append(f"link {vf.link_state or 'state unknown'}")
    return " · ".join(parts)


def vf_rate_text(vf: VirtualFunction) -> str:
    """``min 100 Mb/s, max 1000 Mb/s``, ``no limit``."""
    limits = [f"{name} {rate} Mb/s" for name, rate in (("min", vf.min_tx_rate), ("max", vf.max_tx_rate)) if rate]
    if limits:
        return ", ".join(limits)
    return "unknown" if vf.max_tx_rate is None else "no limit"


def driver_text(pci: PciFunction) -> tuple[str, Tone]:
    """``igb``, ``no driver``, ``vfio-pci (VM or user-space driver)``, with an override that is not in
    effect."""
    override = ""
    if pci.driver_override and pci.driver_override != pci.driver:
        override = f", override {pci.driver_override}"
    if pci.driver is None:
        if "driver" in pci.unreadable:
            return f"{absence_reason(pci.unreadable['driver'], None)}{override}", "dim"
        return f"no driver{override}", "warn"
    if pci.driver in PASSTHROUGH_DRIVERS:
        return f"{pci.driver} (VM or user-space driver){override}", "normal"
    return f"{pci.driver}{override}", "normal"
