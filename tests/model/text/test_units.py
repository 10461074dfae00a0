"""Three significant digits, fixed width, and no number that reads as another one."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nictop.model.text import units


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0 b/s"),
        (-0.0, "0 b/s"),
        (1, "1.00 b/s"),
        (9.994, "9.99 b/s"),
        (9.996, "10.0 b/s"),
        (99.94, "99.9 b/s"),
        (99.96, "100 b/s"),
        (812, "812 b/s"),
        (999.4, "999 b/s"),
        (999.5, "1.00 kb/s"),
        (1000, "1.00 kb/s"),
        (999_499, "999 kb/s"),
        (999_500, "1.00 Mb/s"),
        (9_414_000_000, "9.41 Gb/s"),
        (21_308_000, "21.3 Mb/s"),
        (3.2e12, "3.20 Tb/s"),
        (1.5e20, "150 Eb/s"),
        (0.1, "0.10 b/s"),
        (0.005, "0.01 b/s"),
        (0.0049, "<.01 b/s"),
        (-9_414_000_000, "-9.41 Gb/s"),
        (-999.5, "-1.00 kb/s"),
        (math.inf, "∞ b/s"),
        (10**400, "∞ b/s"),
        (-math.inf, "-∞ b/s"),
        (math.nan, "–"),
        (None, "–"),
    ],
)
def test_bits_per_second(value: float | None, text: str) -> None:
    assert units.bits_per_second(value) == text


@pytest.mark.parametrize(
    ("value", "cell"),
    [
        (9_414_000_000, "9.41 G"),
        (21_308_000, "21.3 M"),
        (812_000, " 812 k"),
        (812, " 812  "),
        (0, "   0  "),
        (999.5, "1.00 k"),
        (None, "   –  "),
        (math.nan, "   –  "),
        (math.inf, "   ∞  "),
    ],
)
def test_scaled_keeps_the_prefix_in_its_place(value: float | None, cell: str) -> None:
    assert units.scaled(value) == cell


@given(st.floats(min_value=0, max_value=9e20))
def test_scaled_never_jitters_and_never_lies(value: float) -> None:
    cell = units.scaled(value)
    assert len(cell) == units.SCALED_WIDTH
    digits, prefix = cell[:4].strip(), cell[5].strip()
    if digits == "<.01":
        assert 0 < value < 0.005
        return
    shown = float(digits) * 1000 ** units.SI_PREFIXES.index(prefix)
    assert shown == pytest.approx(value, rel=0.00501, abs=0.00501)
    assert (shown == 0) == (value == 0)


@given(
    st.one_of(
        st.floats(allow_nan=True, allow_infinity=True),
        st.integers(),
        st.just(10**400),
        st.just(-(10**400)),
    )
)
def test_every_number_has_a_text(value: float) -> None:
    for function in (
        units.bits_per_second,
        units.packets_per_second,
        units.bytes_,
        units.duration,
        units.percentage,
    ):
        assert function(value)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0 B"),
        (812, "812 B"),
        (1023, "1023 B"),
        (1024, "1.00 KiB"),
        (1024 * 1023.5, "1.00 MiB"),
        (1.2 * 2**20, "1.20 MiB"),
        (2**64, "16.0 EiB"),
        (0.5, "0.50 B"),
        (-2048, "-2.00 KiB"),
        (None, "–"),
    ],
)
def test_bytes(value: float | None, text: str) -> None:
    assert units.bytes_(value) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0 s"),
        (0.000031, "31.0 µs"),
        (0.312, "312 ms"),
        (0.9996, "1.00 s"),
        (1.0, "1.00 s"),
        (12.34, "12.3 s"),
        (59.97, "1 min"),
        (185, "3 min 5 s"),
        (3599.6, "1 h"),
        (7500, "2 h 5 min"),
        (86399.7, "1 d"),
        (3 * 86400 + 4 * 3600 + 59, "3 d 4 h"),
        (-185, "-3 min 5 s"),
        (None, "–"),
    ],
)
def test_duration(seconds: float | None, text: str) -> None:
    assert units.duration(seconds) == text


@pytest.mark.parametrize(
    ("megabits", "text"),
    [
        (10, "10M"),
        (100, "100M"),
        (1000, "1G"),
        (2500, "2.5G"),
        (10_000, "10G"),
        (25_000, "25G"),
        (400_000, "400G"),
        (999_999, "999G"),
        (1_200_000, "1.2T"),
        (12_345, "12.3G"),
        (0, "0M"),
        (None, "–"),
    ],
)
def test_link_speed(megabits: int | None, text: str) -> None:
    assert units.link_speed(megabits) == text


@pytest.mark.parametrize(
    ("share", "text"),
    [
        (0, "0 %"),
        (0.0004, "<0.1 %"),
        (0.0005, "0.1 %"),
        (0.018, "1.8 %"),
        (0.0995, "10 %"),
        (0.55, "55 %"),
        (1, "100 %"),
        (math.nan, "–"),
        (None, "–"),
    ],
)
def test_percentage(share: float | None, text: str) -> None:
    assert units.percentage(share) == text


def test_a_whole_percentage_above_zero_is_not_zero() -> None:
    assert [units.whole_percentage(share) for share in (0.0, 1e-16, 0.002, 0.005, 0.55, 1)] == [
        "0 %", "0 %", "<1 %", "<1 %", "55 %", "100 %",
    ]  # fmt: skip


def test_small_counts_are_exact() -> None:
    assert [units.count(number) for number in (0, 22, 999_999, 1_000_000, None)] == [
        "0",
        "22",
        "999999",
        "1.00 M",
        "–",
    ]


def test_events_per_second() -> None:
    assert [units.per_second(number) for number in (0.0, 12.0, 1200.0, None)] == [
        "0/s",
        "12.0/s",
        "1.20 k/s",
        "–",
    ]
