"""Different hosts look different in whatever cells their names have."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nictop.model.facts import clean, fit
from nictop.model.text.names import distinct_names, short_names

LONG = "a-virtual-machine-of-the-production-in-rack-17-slot"

CASES: dict[str, tuple[tuple[str, ...], dict[str, str]]] = {
    "short": (("vm1", "vm2"), {"vm1": "vm1", "vm2": "vm2"}),
    "alike": (
        (f"{LONG}-1", f"{LONG}-2"),
        {f"{LONG}-1": "a-virtu…slot-1", f"{LONG}-2": "a-virtu…slot-2"},
    ),
    "alike beside others": (
        (f"{LONG}-1", "db", f"{LONG}-2"),
        {f"{LONG}-1": "a-virtu…slot-1", "db": "db"},
    ),
    "same end": (
        (f"{LONG}-1.example.com", f"{LONG}-2.example.com"),
        {f"{LONG}-1.example.com": "…1.example.com", f"{LONG}-2.example.com": "…2.example.com"},
    ),
    "two pairs": (
        (f"{LONG}-1", f"{LONG}-2", f"b{LONG}-1", f"b{LONG}-2"),
        {f"{LONG}-1": "a-virtu…slot-1", f"b{LONG}-2": "ba-virt…slot-2"},
    ),
    "no separator": (("a" * 30 + "1", "a" * 30 + "2"), {"a" * 30 + "1": "aaaaaaa…aaaaa1"}),
    "addresses": (
        ("2001:db8:1234:5678::1", "2001:db8:1234:5678::2"),
        {"2001:db8:1234:5678::1": "2001:db…678::1"},
    ),
    "in the middle": (
        ("a" * 30 + "1" + "b" * 30, "a" * 30 + "2" + "b" * 30),
        {"a" * 30 + "2" + "b" * 30: "aaaaaaaaaaa…#2"},
    ),
}
CELLS = 14


@pytest.mark.parametrize("name", CASES)
def test_how_they_are_told_apart(name: str) -> None:
    names, expected = CASES[name]
    shown = distinct_names(names, CELLS)
    cut = {one: fit(clean(text), CELLS).rstrip() for one, text in shown.items()}
    assert expected.items() <= cut.items()
    assert len(set(cut.values())) == len(names)


PARTS = st.lists(
    st.sampled_from(("web", "db", LONG, "1", "2", "例", "x" * 20)), min_size=1, max_size=4
)


@given(
    st.lists(st.builds("-".join, PARTS), unique=True, max_size=16),
    st.integers(min_value=6, max_value=40),
)
def test_hosts_of_any_names_look_different(names: list[str], cells: int) -> None:
    shown = distinct_names(names, cells)
    assert list(shown) == names
    assert len({fit(clean(text), cells) for text in shown.values()}) == len(names)


def test_one_host_keeps_its_name() -> None:
    assert short_names(["web-1"]) == distinct_names(["web-1"], 3) == {"web-1": "web-1"}
