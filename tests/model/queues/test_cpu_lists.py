"""CPU lists and masks are parsed as the kernel prints them; anything else is rejected."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nictop.limits import MAX_CPUS
from nictop.model.queues.cpu_lists import format_cpu_list, parse_cpu_list, parse_cpu_mask

CPUS = st.frozensets(st.integers(0, MAX_CPUS - 1), max_size=40)


@pytest.mark.parametrize(
    ("text", "cpus"),
    [
        ("0-3", (0, 1, 2, 3)),
        ("0-1,8,10-11\n", (0, 1, 8, 10, 11)),
        ("7", (7,)),
        ("\n", ()),
        ("3,1", (1, 3)),
    ],
)
def test_lists(text: str, cpus: tuple[int, ...]) -> None:
    assert parse_cpu_list(text) == cpus


@pytest.mark.parametrize(
    "text",
    [
        "x",
        "1-",
        "-1",
        "3-1",
        "1,,2",
        "0-99999999999",
        "0-8192",
        "²",
        "1 2",
        "٣",
        "0-8191,0",
        "0-4000,0-4000,0-4000",
    ],
)
def test_invalid_lists(text: str) -> None:
    assert parse_cpu_list(text) is None


@pytest.mark.parametrize(
    ("text", "cpus"),
    [
        ("f", (0, 1, 2, 3)),
        ("00000000,00000001", (0,)),
        (
            "00000001,00000000",
            (32,),
        ),  # a known wrong result: the first group taken for CPUs 0 to 31
        ("80000000,00000000,00000002", (1, 95)),
        ("00000000", ()),
        ("3,ffffffff\n", tuple(range(34))),
    ],
)
def test_the_last_group_of_a_mask_is_cpus_0_to_31(text: str, cpus: tuple[int, ...]) -> None:
    assert parse_cpu_mask(text) == cpus


@pytest.mark.parametrize(
    "text", ["", "x", "1,1", "0x1", "-1", "123456789", "1,,00000000", "1_0", ",".join(["0"] * 300)]
)
def test_invalid_masks(text: str) -> None:
    assert parse_cpu_mask(text) is None


def test_none_gives_none() -> None:
    assert parse_cpu_list(None) is None
    assert parse_cpu_mask(None) is None


@given(CPUS)
def test_lists_round_trip(cpus: frozenset[int]) -> None:
    assert parse_cpu_list(format_cpu_list(cpus)) == tuple(sorted(cpus))


@given(CPUS)
def test_masks_round_trip(cpus: frozenset[int]) -> None:
    bits = sum(1 << cpu for cpu in cpus)
    groups = [bits >> shift & 0xFFFFFFFF for shift in range(0, MAX_CPUS, 32)]
    assert parse_cpu_mask(",".join(f"{group:08x}" for group in reversed(groups))) == tuple(
        sorted(cpus)
    )


@given(st.binary(max_size=60))
def test_arbitrary_bytes(data: bytes) -> None:
    text = data.decode("utf-8", "surrogateescape")
    for parsed in (parse_cpu_list(text), parse_cpu_mask(text)):
        assert parsed is None or (
            list(parsed) == sorted(set(parsed)) and all(0 <= cpu < MAX_CPUS for cpu in parsed)
        )


def test_ranges() -> None:
    assert format_cpu_list([]) == ""
    assert format_cpu_list([5, 0, 1, 2, 9, 10, 2]) == "0-2,5,9-10"
