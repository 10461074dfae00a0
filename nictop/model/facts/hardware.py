"""Texts for PCI functions, PCI Express links, transceivers and virtual functions.

Reads nothing; takes records and returns unsanitized text: `text.terminal.clean` is applied where it
is displayed.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from nictop.model.devices.virtual_functions import PASSTHROUGH_DRIVERS
from nictop.model.text import units
from nictop.model.text.words import Tone, absence_reason, on_off
from nictop.probe.records import Module, Optics, PcieErrors, PcieLink, PciFunction, VirtualFunction

_ENCODING = ((8.0, 0.8), (64.0, 128 / 130))
"""Up to this many GT/s (exclusive) → share of the transfers that are data: 8b/10b, then
128b/130b."""


def pcie_capacity(link: PcieLink) -> float | None:
    """Gb/s of data in each direction before packet overhead: GT/s × lanes × encoding (PCI Express
    Base Specification); None when speed or width are not known."""
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
    is_slower = _is_below(link.speed, link.max_speed)
    is_narrower = _is_below(link.width, link.max_width)
    if is_slower or is_narrower:
        return f"{now} (of {maximum})", "warn"
    return now, "normal"


def _is_below(now: float | None, maximum: float | None) -> bool:
    """Both are known, and it is less."""
    if now is None or maximum is None:
        return False
    return now < maximum


def _lanes(speed: float | None, lanes: int | None) -> str:
    rate = "speed unknown"
    if speed is not None:
        rate = f"{speed:g} GT/s"
    if lanes is None:
        return f"{rate} ×?"
    return f"{rate} ×{lanes}"


def pcie_errors_text(errors: PcieErrors | None) -> str:
    """``1 fatal (DLP 1), 12 correctable (BadTLP 10, RxErr 2)``; "" when there are none."""
    if errors is None:
        return ""
    parts = []
    for severity, total, kinds in (
        ("fatal", errors.fatal, errors.fatal_kinds),
        ("nonfatal", errors.nonfatal, errors.nonfatal_kinds),
        ("correctable", errors.correctable, errors.correctable_kinds),
    ):
        if total > 0:
            parts.append(f"{units.count(total)} {severity}{_kinds_text(kinds)}")
    return ", ".join(parts)


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
    if not enabled:
        return "off"
    return f"{', '.join(enabled)} on"


def ids_text(pci: PciFunction) -> str:
    """``8086:1572``"""
    return f"{pci.vendor_id:04x}:{pci.device_id:04x}"


def pci_name(pci: PciFunction) -> str:
    """``Intel Corporation 82576 Gigabit Network Connection``; the ids where there is no name."""
    name = pci.device_name or ids_text(pci)
    if pci.vendor_name:
        return f"{pci.vendor_name} {name}"
    return name


def optical_power(milliwatt: float | None) -> str:
    """``-2.35 dBm (0.58 mW)``; dBm is 10 log10 of milliwatt."""
    if milliwatt is None or math.isnan(milliwatt):
        return "unknown"
    if milliwatt <= 0:
        return "no light"
    return f"{10 * math.log10(milliwatt):.2f} dBm ({milliwatt:.2f} mW)"


def module_text(module: Module) -> str:
    """``SFP Intel Corp FTLX8571D3BCV-IT · fibre, 850 nm · LC``, ``SFP+ Molex 74752-1101 · copper
    cable, 1 m``."""
    names = [name for name in (module.kind, module.vendor, module.part) if name]
    medium: str = module.medium
    if medium == "unknown":
        medium = "medium unknown"
    if module.length is not None:
        medium += f" cable, {module.length:g} m"
    if module.wavelength is not None:
        medium += f", {module.wavelength:g} nm"
    parts = (" ".join(names) or "unnamed module", medium, module.connector)
    return " · ".join(part for part in parts if part)


def lane_texts(lanes: Sequence[Optics]) -> tuple[str, ...]:
    """One line per lane: received power, transmitted power, laser current."""
    texts = []
    for lane in lanes:
        current = "current unknown"
        if lane.bias is not None:
            current = f"{lane.bias:.1f} mA"
        received, sent = optical_power(lane.rx_power), optical_power(lane.tx_power)
        texts.append(f"rx {received} · tx {sent} · laser {current}")
    return tuple(texts)


ZERO_MAC_ADDRESS = "00:00:00:00:00:00"


LINK_STATES = {"auto": "auto: that of the port"}
"""What the PF sets for the link of a VF (IFLA_VF_LINK_STATE), where the word is not clear."""


def vf_text(vf: VirtualFunction) -> str:
    """Settings by the physical function: ``52:54:00:… · VLAN 100 · spoof check on · trust off ·
    link auto: that of the port``."""
    address = vf.address or "MAC unknown"
    if address == ZERO_MAC_ADDRESS:
        address = "no MAC set by the PF"
    parts = [address, _vf_vlan_text(vf)]
    parts.append(f"spoof check {_flag_text(vf.spoof_check)}")
    parts.append(f"trust {_flag_text(vf.trust)}")
    state = vf.link_state or "state unknown"
    parts.append(f"link {LINK_STATES.get(state, state)}")
    return " · ".join(parts)


def _flag_text(flag: bool | None) -> str:
    if flag is None:
        return "unknown"
    return on_off(flag)


def _vf_vlan_text(vf: VirtualFunction) -> str:
    if vf.vlan is None:
        return "VLAN unknown"
    if not vf.vlan:
        return "no VLAN"
    text = f"VLAN {vf.vlan}"
    if vf.vlan_protocol not in (None, "802.1Q"):
        text += f" {vf.vlan_protocol}"
    if vf.qos:
        text += f" priority {vf.qos}"
    return text


def vf_rate_text(vf: VirtualFunction) -> str:
    """``min 100 Mb/s, max 1000 Mb/s``, ``no limit``."""
    limits = []
    if vf.min_tx_rate:
        limits.append(f"min {vf.min_tx_rate} Mb/s")
    if vf.max_tx_rate:
        limits.append(f"max {vf.max_tx_rate} Mb/s")
    if limits:
        return ", ".join(limits)
    if vf.max_tx_rate is None:
        return "unknown"
    return "no limit"


def driver_text(pci: PciFunction) -> tuple[str, Tone]:
    """``igb``, ``no driver``, ``vfio-pci (VM or user-space driver)``, with an override that is not
    in effect."""
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
