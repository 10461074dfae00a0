"""Pages of a transceiver's EEPROM → `Module`. Pure: `reader` reads the pages.

SFF-8472 (SFP), SFF-8636 and SFF-8436 (QSFP) and CMIS (QSFP-DD, OSFP). Diagnostics are left out
where the module has none: a passive cable has the registers, but no measurements in them.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Literal

from nictop.probe.light_dataclasses import replace
from nictop.probe.light_tuples import NamedTuple
from nictop.probe.records import Module, Optics


class Page(NamedTuple):
    """Half a page: 128 bytes at I²C address `address`, page `page`, from `offset` (0 or 128)."""

    address: int
    page: int
    offset: int


Pages = Mapping[Page, bytes]
Medium = Literal["fibre", "copper", "unknown"]

LOWER, UPPER = Page(0x50, 0, 0), Page(0x50, 0, 128)
SFP_DIAGNOSTICS = Page(0x51, 0, 0)
CMIS_ADVERTISING, CMIS_LANES = Page(0x50, 0x01, 128), Page(0x50, 0x11, 128)

SFP_IDENTIFIERS = (0x03, 0x0B)
QSFP_IDENTIFIERS = (0x0C, 0x0D, 0x11)
CMIS_IDENTIFIERS = (0x18, 0x19, 0x1B, 0x1E, 0x1F, 0x20, 0x21, 0x22, 0x23, 0x24, 0x25)
"""Identifier values of SFF-8024 4-1, byte 0 of the lower page."""
MODULE_KINDS = {
    0x03: "SFP",
    0x0B: "DWDM-SFP",
    0x0C: "QSFP",
    0x0D: "QSFP+",
    0x11: "QSFP28",
    0x18: "QSFP-DD",
    0x19: "OSFP",
    0x1B: "DSFP",
    0x1E: "QSFP+ (CMIS)",
    0x1F: "SFP-DD",
    0x20: "SFP+ (CMIS)",
}
CONNECTORS = {
    0x01: "SC",
    0x07: "LC",
    0x08: "MT-RJ",
    0x09: "MU",
    0x0B: "optical pigtail",
    0x0C: "MPO 1x12",
    0x0D: "MPO 2x16",
    0x21: "copper pigtail",
    0x22: "RJ45",
    0x23: "no separable connector",
    0x24: "MXC",
    0x25: "CS",
    0x26: "SN",
    0x27: "MPO 2x12",
    0x28: "MPO 1x16",
}
COPPER_CONNECTORS = (0x21, 0x22)
FIBRE_CONNECTORS = (0x01, 0x07, 0x08, 0x09, 0x0B, 0x0C, 0x0D, 0x24, 0x25, 0x26, 0x27, 0x28)
FIBRE_CABLES = (0x01, 0x18)
"""Extended compliance codes (SFF-8024 4-4) of active optical cables."""
COPPER_CODES = (0x08, 0x0B, 0x0C, 0x0D, 0x16, 0x19, 0x1C, 0x1D, 0x1E, 0x32, 0x40)
"""Extended compliance codes of copper: CR, active copper, BASE-T."""


def pages_to_read(lower: bytes) -> tuple[Page, ...]:
    """The pages to read after the first 128 bytes; none for an unknown type of module."""
    if len(lower) != 128:
        return ()
    kind = lower[0]
    if kind in SFP_IDENTIFIERS and has_sfp_diagnostics(lower):
        return (SFP_DIAGNOSTICS,)
    if kind in QSFP_IDENTIFIERS:
        return (UPPER,)
    if kind in CMIS_IDENTIFIERS:
        has_flat_memory = lower[2] & 0x80
        if has_flat_memory:
            return (UPPER,)
        return UPPER, CMIS_ADVERTISING, CMIS_LANES
    return ()


def has_sfp_diagnostics(lower: bytes) -> bool:
    """Byte 92: implemented, and readable without the address change sequence, which no driver
    performs."""
    return bool(lower[92] & 0x40) and not lower[92] & 0x04


def parse_module(pages: Pages) -> Module | None:
    """The module with these pages; None when the first page is short or of an unknown type."""
    lower = pages.get(LOWER, b"")
    if len(lower) != 128:
        return None
    if lower[0] in SFP_IDENTIFIERS:
        return parse_sfp(lower, pages.get(SFP_DIAGNOSTICS, b""))
    upper = pages.get(UPPER, b"")
    if len(upper) != 128:
        return None
    if lower[0] in QSFP_IDENTIFIERS:
        return parse_qsfp(lower, upper)
    if lower[0] in CMIS_IDENTIFIERS:
        return parse_cmis(
            lower, upper, pages.get(CMIS_ADVERTISING, b""), pages.get(CMIS_LANES, b"")
        )
    return None


def parse_sfp(lower: bytes, diagnostics: bytes) -> Module:
    """SFF-8472: page A0h, and 128 bytes of page A2h."""
    medium = sfp_medium(lower)
    is_cable = lower[8] & 0x0C != 0
    module = Module(
        kind=MODULE_KINDS[lower[0]],
        vendor=padded_text(lower[20:36]),
        part=padded_text(lower[40:56]),
        serial=padded_text(lower[68:84]),
        connector=CONNECTORS.get(lower[2], f"unknown 0x{lower[2]:02x}"),
        medium=medium,
    )
    if is_cable:
        module = replace(module, length=float(lower[18]) or None)
    elif medium == "fibre":
        module = replace(module, wavelength=float(unsigned(lower, 60)) or None)
    if len(diagnostics) != 128:
        return module
    temperature, voltage, optics = parse_sfp_diagnostics(lower, diagnostics)
    return replace(module, temperature=temperature, voltage=voltage, lanes=(optics,))


def sfp_medium(lower: bytes) -> Medium:
    """From cable technology (byte 8), 1000BASE-T (byte 6), extended compliance (byte 36) and
    connector."""
    if lower[8] & 0x04 or lower[6] & 0x08 or lower[36] in COPPER_CODES:
        return "copper"
    if not lower[8] & 0x08:
        return connector_medium(lower[2])
    if lower[3] & 0x70 or lower[36] in FIBRE_CABLES:
        return "fibre"
    return "copper"


def connector_medium(connector: int) -> Medium:
    """The medium, as far as the connector type determines it."""
    if connector in COPPER_CONNECTORS:
        return "copper"
    if connector in FIBRE_CONNECTORS:
        return "fibre"
    return "unknown"


def parse_sfp_diagnostics(lower: bytes, page: bytes) -> tuple[float, float, Optics]:
    """(°C, V, power and bias) of page A2h; externally calibrated modules have slopes and offsets
    (SFF-8472 9.5)."""
    temperature, voltage, bias, tx_power, rx_power = struct.unpack_from(">hHHHH", page, 96)
    if not lower[92] & 0x10:
        return temperature / 256, voltage / 1e4, Optics(rx_power / 1e4, tx_power / 1e4, bias * 2e-3)

    def linear(raw: int, offset: int) -> float:
        slope, constant = struct.unpack_from(">Hh", page, offset)
        return float(raw * (slope / 256) + constant)

    factors = struct.unpack_from(">5f", page, 56)
    received = sum(factor * rx_power**power for factor, power in zip(factors, (4, 3, 2, 1, 0)))
    optics = Optics(
        rx_power=max(received, 0.0) / 1e4 if received - received == 0 else None,
        tx_power=max(linear(tx_power, 80), 0.0) / 1e4,
        bias=max(linear(bias, 76), 0.0) * 2e-3,
    )
    return linear(temperature, 84) / 256, linear(voltage, 88) / 1e4, optics


def parse_qsfp(lower: bytes, upper: bytes) -> Module:
    """SFF-8636 and SFF-8436: lower page 00h and upper page 00h."""
    technology = upper[147 - 128] >> 4
    connector, cable_length = upper[130 - 128], upper[146 - 128]
    is_copper = technology >= 0x0A or upper[192 - 128] in COPPER_CODES
    module = Module(
        kind=MODULE_KINDS[lower[0]],
        vendor=padded_text(upper[20:36]),
        part=padded_text(upper[40:56]),
        serial=padded_text(upper[68:84]),
        connector=CONNECTORS.get(connector, f"unknown 0x{connector:02x}"),
        medium="copper" if is_copper else "fibre",
    )
    if is_copper or connector == 0x23:  # a cable
        module = replace(module, length=float(cable_length) or None)
    if not is_copper:
        module = replace(module, wavelength=unsigned(upper, 186 - 128) / 20 or None)
    if technology in (0x0A, 0x0B):  # a passive cable measures nothing
        return module
    return replace(
        module,
        temperature=struct.unpack_from(">h", lower, 22)[0] / 256,
        voltage=unsigned(lower, 26) / 1e4,
        lanes=parse_qsfp_lanes(lower, has_tx_power=upper[220 - 128] & 0x04 != 0),
    )


def parse_qsfp_lanes(lower: bytes, *, has_tx_power: bool) -> tuple[Optics, ...]:
    lanes = []
    for lane in range(4):
        rx, bias, tx = (unsigned(lower, start + 2 * lane) for start in (34, 42, 50))
        lanes.append(Optics(rx / 1e4, tx / 1e4 if has_tx_power else None, bias * 2e-3))
    return tuple(lanes)


def parse_cmis(lower: bytes, upper: bytes, advertising: bytes, lanes: bytes) -> Module:
    """CMIS 4 and 5: lower page, page 00h, and of modules with paged memory 01h (advertising) and
    11h (lanes)."""
    connector = upper[203 - 128]
    medium = cmis_medium(lower, upper)
    length = (upper[202 - 128] & 0x3F) * (0.1, 1.0, 10.0, 100.0)[upper[202 - 128] >> 6]
    module = Module(
        kind=MODULE_KINDS.get(lower[0], f"CMIS 0x{lower[0]:02x}"),
        vendor=padded_text(upper[1:17]),
        part=padded_text(upper[20:36]),
        serial=padded_text(upper[38:54]),
        connector=CONNECTORS.get(connector, f"unknown 0x{connector:02x}"),
        medium=medium,
        length=round(length, 1) or None,
    )
    has_pages = not lower[2] & 0x80 and len(advertising) == 128
    if not has_pages:
        return module
    if medium == "fibre":
        module = replace(module, wavelength=unsigned(advertising, 138 - 128) / 20 or None)
    monitors = advertising[159 - 128]
    if monitors & 0x01:
        module = replace(module, temperature=struct.unpack_from(">h", lower, 14)[0] / 256)
    if monitors & 0x02:
        module = replace(module, voltage=unsigned(lower, 16) / 1e4)
    if len(lanes) == 128:
        module = replace(module, lanes=parse_cmis_lanes(lower[0], advertising, lanes))
    return module


def cmis_medium(lower: bytes, upper: bytes) -> Medium:
    """From the media type (byte 85) and the technology (page 00h, byte 212), else from the
    connector."""
    media, technology = lower[85], upper[212 - 128]
    if media in (3, 5) or 0x0A <= technology <= 0x0F:
        return "copper"
    if media in (1, 2, 4):
        return "fibre"
    return connector_medium(upper[203 - 128])


def parse_cmis_lanes(kind: int, advertising: bytes, page: bytes) -> tuple[Optics, ...]:
    """Page 11h: the measurements that byte 160 of page 01h advertises."""
    offered = advertising[160 - 128]
    if not offered & 0x07:
        return ()
    factor = (1, 2, 4, 1)[offered >> 3 & 0x03]
    count = {0x18: 8, 0x19: 8, 0x1E: 4, 0x20: 1}.get(kind, 2)
    lanes = []
    for lane in range(count):
        rx_power = tx_power = bias = None
        if offered & 0x04:
            rx_power = unsigned(page, 186 - 128 + 2 * lane) / 1e4
        if offered & 0x02:
            tx_power = unsigned(page, 154 - 128 + 2 * lane) / 1e4
        if offered & 0x01:
            bias = unsigned(page, 170 - 128 + 2 * lane) * 2e-3 * factor
        lanes.append(Optics(rx_power=rx_power, tx_power=tx_power, bias=bias))
    return tuple(lanes)


def unsigned(page: bytes, offset: int) -> int:
    """A big-endian 16-bit number."""
    return int.from_bytes(page[offset : offset + 2], "big")


def padded_text(value: bytes) -> str:
    """A name padded with spaces; bytes that are not printable ASCII become U+FFFD."""
    return "".join(
        chr(byte) if 32 <= byte < 127 else "\ufffd" for byte in value.rstrip(b"\0 \xff")
    ).strip()
