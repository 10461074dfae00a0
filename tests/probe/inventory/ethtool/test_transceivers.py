"""Transceivers: EEPROM images according to SFF-8472, SFF-8636 and CMIS, and arbitrary bytes."""

from __future__ import annotations

import math
import struct
from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nictop.probe.inventory.ethtool import transceivers as modules
from nictop.probe.inventory.ethtool.transceivers import (
    CMIS_ADVERTISING,
    CMIS_LANES,
    LOWER,
    SFP_DIAGNOSTICS,
    UPPER,
    Page,
    parse_module,
)


def image(values: Mapping[int, object], start: int = 0) -> bytes:
    """128 bytes with the given values at the offsets of the standard; `start`: offset of the first
    byte."""
    data = bytearray(128)
    for offset, value in values.items():
        piece = bytes([value]) if isinstance(value, int) else value
        assert isinstance(piece, bytes)
        data[offset - start : offset - start + len(piece)] = piece
    assert len(data) == 128
    return bytes(data)


def assert_close(found: tuple[float | None, ...], expected: tuple[float, ...]) -> None:
    assert found == pytest.approx(expected)


def name(text: str) -> bytes:
    return text.encode().ljust(16)


SFP_SR = image(
    {
        0: 0x03,
        2: 0x07,
        3: 0x10,
        20: name("FINISAR CORP."),
        40: name("FTLX8571D3BCL"),
        60: struct.pack(">H", 850),
    }
    | {68: name("ABC1234"), 92: 0x68}
)
SFP_DAC = image(
    {
        0: 0x03,
        2: 0x21,
        8: 0x04,
        18: 3,
        20: name("Intel Corp"),
        40: name("XDACBL3M"),
        68: name("X0001"),
        60: 0x01,
    }
)


def test_a_fibre_sfp_with_diagnostics() -> None:
    measured = image({96: struct.pack(">hHHHH", 0x2480, 33012, 4000, 5891, 4123)})
    assert modules.pages_to_read(SFP_SR) == (SFP_DIAGNOSTICS,)
    module = parse_module({LOWER: SFP_SR, SFP_DIAGNOSTICS: measured})
    assert module is not None
    assert (module.kind, module.vendor, module.part, module.serial) == (
        "SFP",
        "FINISAR CORP.",
        "FTLX8571D3BCL",
        "ABC1234",
    )
    assert (module.connector, module.medium, module.length, module.wavelength) == (
        "LC",
        "fibre",
        None,
        850.0,
    )
    (lane,) = module.lanes
    assert_close((module.temperature, module.voltage), (36.5, 3.3012))
    assert_close((lane.rx_power, lane.tx_power, lane.bias), (0.4123, 0.5891, 8.0))


def test_a_temperature_below_zero() -> None:
    module = parse_module({LOWER: SFP_SR, SFP_DIAGNOSTICS: image({96: b"\xf6\x80"})})
    assert module is not None
    assert module.temperature == -9.5


def test_an_externally_calibrated_sfp() -> None:
    """SFF-8472 9.5: value = slope × raw + offset, received power by a polynomial."""
    lower = image({92: 0x58})[92:93]
    sfp = SFP_SR[:92] + lower + SFP_SR[93:]
    measured = image(
        {
            56: struct.pack(">5f", 0, 0, 0, 2, 100),
            76: struct.pack(">HhHhHhHh", 0x0180, 10, 0x0100, -20, 0x0100, 256, 0x0200, 0),
            96: struct.pack(">hHHHH", 0x2400, 16500, 4000, 5000, 2000),
        }
    )
    module = parse_module({LOWER: sfp, SFP_DIAGNOSTICS: measured})
    assert module is not None
    (lane,) = module.lanes
    assert_close((module.temperature, module.voltage), (37.0, 3.3))
    assert_close((lane.rx_power, lane.tx_power, lane.bias), (0.41, 0.498, 12.02))


def test_a_direct_attach_cable_has_a_length_and_no_diagnostics() -> None:
    assert modules.pages_to_read(SFP_DAC) == ()
    module = parse_module({LOWER: SFP_DAC})
    assert module is not None
    assert (module.connector, module.medium, module.length) == ("copper pigtail", "copper", 3.0)
    assert (module.wavelength, module.temperature, module.lanes) == (None, None, ())


@pytest.mark.parametrize(
    ("codes", "medium"),
    [
        ({6: 0x08, 2: 0x22}, "copper"),
        ({36: 0x16, 2: 0x22}, "copper"),
        ({8: 0x08, 2: 0x23, 3: 0x10}, "fibre"),
        ({8: 0x08, 2: 0x23, 36: 0x01}, "fibre"),
        ({8: 0x08, 2: 0x21}, "copper"),
        ({2: 0x80}, "unknown"),
    ],
)
def test_medium_of_an_sfp(codes: dict[int, int], medium: str) -> None:
    """BASE-T, active optical, active copper, and unknown."""
    module = parse_module({LOWER: image({0: 0x03} | codes)})
    assert module is not None
    assert module.medium == medium


QSFP_LOWER = image(
    {0: 0x11, 22: struct.pack(">h", 40 * 256), 26: struct.pack(">H", 32800)}
    | {34: struct.pack(">4H", 8000, 8100, 8200, 0), 42: struct.pack(">4H", 3500, 3600, 3700, 3800)}
    | {50: struct.pack(">4H", 9000, 9100, 9200, 9300)}
)


def qsfp_upper(**other: int) -> bytes:
    values: dict[int, object] = {
        128: 0x11,
        130: 0x0C,
        148: name("Mellanox"),
        168: name("MMA1B00-C100D"),
        186: struct.pack(">H", 850 * 20),
        196: name("MT1234"),
        220: 0x0C,
    }
    return image(values | {int(key[1:]): value for key, value in other.items()}, 128)


def test_a_fibre_qsfp28_has_four_lanes() -> None:
    module = parse_module({LOWER: QSFP_LOWER, UPPER: qsfp_upper()})
    assert module is not None
    assert (module.kind, module.vendor, module.part) == ("QSFP28", "Mellanox", "MMA1B00-C100D")
    assert (module.medium, module.connector, module.wavelength) == ("fibre", "MPO 1x12", 850.0)
    lane = module.lanes[1]
    assert_close((module.temperature, module.voltage), (40.0, 3.28))
    assert_close((lane.rx_power, lane.tx_power, lane.bias), (0.81, 0.91, 7.2))
    assert module.lanes[3].rx_power == 0.0
    assert len(module.lanes) == 4


def test_a_passive_qsfp_cable_has_registers_but_no_measurements() -> None:
    module = parse_module(
        {LOWER: QSFP_LOWER, UPPER: qsfp_upper(b147=0xA0, b130=0x23, b146=2, b192=0x0B)}
    )
    assert module is not None
    assert (module.medium, module.length, module.wavelength) == ("copper", 2.0, None)
    assert (module.temperature, module.voltage, module.lanes) == (None, None, ())


def test_a_qsfp_without_measurement_of_transmitted_power() -> None:
    module = parse_module({LOWER: QSFP_LOWER, UPPER: qsfp_upper(b220=0x08)})
    assert module is not None
    assert {lane.tx_power for lane in module.lanes} == {None}


CMIS_UPPER = image(
    {
        128: 0x18,
        129: name("Innolight"),
        148: name("T-DP4CNH-N00"),
        166: name("INK1"),
        202: 0,
        203: 0x0C,
        212: 0x06,
    },
    128,
)


def test_a_qsfp_dd_with_paged_memory() -> None:
    lower = image(
        {0: 0x18, 1: 0x40, 14: struct.pack(">h", 45 * 256), 16: struct.pack(">H", 33000), 85: 2}
    )
    advertising = image({138: struct.pack(">H", 1311 * 20), 159: 0x03, 160: 0x0F}, 128)
    lanes = image(
        {154: struct.pack(">8H", *[10000] * 8), 170: struct.pack(">8H", *[20000] * 8)}
        | {186: struct.pack(">8H", *range(8000, 8800, 100))},
        128,
    )
    assert modules.pages_to_read(lower) == (UPPER, CMIS_ADVERTISING, CMIS_LANES)
    module = parse_module(
        {LOWER: lower, UPPER: CMIS_UPPER, CMIS_ADVERTISING: advertising, CMIS_LANES: lanes}
    )
    assert module is not None
    assert (module.kind, module.vendor, module.part, module.serial) == (
        "QSFP-DD",
        "Innolight",
        "T-DP4CNH-N00",
        "INK1",
    )
    assert (module.medium, module.wavelength, module.temperature) == ("fibre", 1311.0, 45.0)
    lane = module.lanes[7]
    assert_close((lane.rx_power, lane.tx_power, lane.bias), (0.87, 1.0, 80.0))
    assert len(module.lanes) == 8


def test_a_flat_cmis_cable_has_no_measurements() -> None:
    lower = image({0: 0x18, 2: 0x80, 85: 3})
    upper = bytearray(CMIS_UPPER)
    upper[202 - 128], upper[203 - 128], upper[212 - 128] = 0x05, 0x23, 0x0A
    assert modules.pages_to_read(lower) == (UPPER,)
    module = parse_module({LOWER: lower, UPPER: bytes(upper)})
    assert module is not None
    assert (module.medium, module.length, module.temperature, module.lanes) == (
        "copper",
        0.5,
        None,
        (),
    )


@pytest.mark.parametrize("first", [b"", bytes(128), b"\xff" * 128, SFP_SR[:100], QSFP_LOWER])
def test_invalid_and_incomplete_pages(first: bytes) -> None:
    assert parse_module({LOWER: first}) is None


def test_control_characters_in_names_are_replaced() -> None:
    module = parse_module({LOWER: image({0: 0x03, 20: b"Evil\x1b[31m\xe9\0", 40: b"\xff" * 16})})
    assert module is not None
    assert (module.vendor, module.part) == ("Evil\ufffd[31m\ufffd", "")


kinds = st.sampled_from(
    sorted(modules.SFP_IDENTIFIERS + modules.QSFP_IDENTIFIERS + modules.CMIS_IDENTIFIERS)
)


@given(
    kinds,
    st.binary(min_size=127, max_size=127),
    st.lists(st.binary(min_size=120, max_size=128), min_size=4, max_size=4),
)
def test_any_bytes_are_a_module_or_none(kind: int, rest: bytes, others: list[bytes]) -> None:
    lower = bytes([kind]) + rest
    pages: dict[Page, bytes] = {LOWER: lower}
    pages.update(zip((UPPER, SFP_DIAGNOSTICS, CMIS_ADVERTISING, CMIS_LANES), others, strict=True))
    assert set(modules.pages_to_read(lower)) <= set(pages)
    module = parse_module(pages)
    if module is None:
        return
    numbers = [module.temperature, module.voltage, module.wavelength, module.length]
    numbers += [
        value for lane in module.lanes for value in (lane.rx_power, lane.tx_power, lane.bias)
    ]
    assert all(value is None or math.isfinite(value) for value in numbers), (
        "JSON has neither NaN nor infinity"
    )
