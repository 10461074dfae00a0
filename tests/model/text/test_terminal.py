"""What a machine calls itself never reaches the terminal as anything but visible text of a known
width."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nictop.model.facts import clean, fit, width, wrap
from nictop.model.text.terminal import fit_middle


@pytest.mark.parametrize(
    ("raw", "shown"),
    [
        ("ens192", "ens192"),
        ("tap[/x]", "tap[/x]"),
        ('it\'s "quoted"', 'it\'s "quoted"'),
        ("größe 网卡 ﾈｯﾄ", "größe 网卡 ﾈｯﾄ"),
        ("\x1b[31mred\x1b[0m", "\\x1b[31mred\\x1b[0m"),
        ("\x1b]0;title\x07", "\\x1b]0;title\\x07"),
        ("a\tb\nc\rd\x00e\x7f", "a\\x09b\\x0ac\\x0dd\\x00e\\x7f"),
        ("\x9b2J", "\\x9b2J"),
        ("abc\u202edef", "abc\\u202edef"),
        ("\u2066x\u2069", "\\u2066x\\u2069"),
        ("eth\u200b0", "eth\\u200b0"),
        ("\ufeffeth0", "\\ufeffeth0"),
        ("a\u00a0b\u3000c", "a\\xa0b\\u3000c"),
        ("\u2028", "\\u2028"),
        ("\ud800", "\\ud800"),
        ("\ue000", "\\ue000"),
        ("\U000e0041", "\\U000e0041"),
        ("x\ufe0f", "x\\ufe0f"),
        ("e\u0301", "e\u0301"),
        ("\u0301", "\\u0301"),
        ("z\u0301\u0302\u0303\u0304", "z\u0301\u0302\\u0303\\u0304"),
        ("\u3164", "\\u3164"),
        ("", ""),
    ],
)
def test_clean(raw: str, shown: str) -> None:
    assert clean(raw) == shown


anything = st.text(st.characters(codec=None))


@given(anything)
def test_clean_leaves_nothing_that_a_terminal_obeys(text: str) -> None:
    shown = clean(text)
    assert clean(shown) == shown
    assert not [one for one in shown if one != " " and unicodedata.category(one)[0] in "CZ"]
    shown.encode()


@given(anything, st.integers(min_value=0, max_value=30), st.sampled_from(["left", "right"]))
def test_fit_is_exact(text: str, cells: int, align: str) -> None:
    assert width(fit(text, cells, align)) == cells


@pytest.mark.parametrize(
    ("text", "cells", "align", "fitted"),
    [
        ("ens192", 8, "left", "ens192  "),
        ("ens192", 8, "right", "  ens192"),
        ("ens192", 6, "left", "ens192"),
        ("ens192", 5, "left", "ens1…"),
        ("网卡网", 5, "left", "网卡…"),
        ("网卡网", 4, "left", "网… "),
        ("网卡", 1, "left", "…"),
        ("ens192", 0, "left", ""),
        ("\x1b[2J", 4, "left", "\\x1…"),
    ],
)
def test_fit(text: str, cells: int, align: str, fitted: str) -> None:
    assert fit(text, cells, align) == fitted


@pytest.mark.parametrize(
    ("text", "cells", "lines"),
    [
        ("one two three", 7, ("one two", "three")),
        ("one", 10, ("one",)),
        ("", 10, ("",)),
        ("abcdefgh", 3, ("abc", "def", "gh")),
        ("a 网卡网卡 b", 4, ("a", "网卡", "网卡", "b")),
        ("a\nb", 10, ("a\\x0ab",)),
        ("fe80::fc3c:96da:5b21:4587/64", 27, ("fe80::fc3c:96da:5b21:4587", "/64")),
        ("is fe80::fc3c:96da:5b21:4587/64", 28, ("is", "fe80::fc3c:96da:5b21:4587/64")),
        ("b62c1f3e-7d5a-4c21-9e3b-0123456742db", 30, ("b62c1f3e-7d5a-4c21-9e3b-", "0123456742db")),
        ("/etc/NetworkManager/system", 21, ("/etc/NetworkManager", "/system")),
    ],
)
def test_wrap(text: str, cells: int, lines: tuple[str, ...]) -> None:
    assert wrap(text, cells) == lines


@given(anything, st.integers(min_value=2, max_value=40))
def test_wrap_keeps_to_the_width_and_loses_only_blanks(text: str, cells: int) -> None:
    lines = wrap(text, cells)
    assert all(width(line) <= cells for line in lines)
    assert "".join(lines).replace(" ", "") == clean(text).replace(" ", "")


@given(anything, st.integers(min_value=0, max_value=30), st.sampled_from(["left", "right"]))
def test_fit_in_the_middle_is_exact(text: str, cells: int, align: str) -> None:
    assert width(fit_middle(text, cells, align)) == cells


@pytest.mark.parametrize(
    ("text", "cells", "align", "fitted"),
    [
        ("[2001:db8::5678]:443", 22, "right", "  [2001:db8::5678]:443"),
        ("[2001:db8:1234::5678]:443", 15, "left", "[2001:d…78]:443"),
        ("ens192", 3, "left", "e…2"),
        ("ens192", 2, "left", "e…"),
        ("网卡网卡", 6, "left", "网…卡 "),
        ("网卡网卡", 5, "left", "网…卡"),
        ("\x1b[2J", 5, "left", "\\x…2J"),
    ],
)
def test_fit_in_the_middle(text: str, cells: int, align: str, fitted: str) -> None:
    assert fit_middle(text, cells, align) == fitted
