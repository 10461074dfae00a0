"""Wildcards of configuration files: as fnmatch(3) has them, and never slower for a pattern that was
made to be slow."""

from __future__ import annotations

import time
from fnmatch import fnmatchcase

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nictop.model.text.wildcards import MAX_PATTERN_CHARS, matches

ALPHABET = st.sampled_from("ab*?[]!-c")


@pytest.mark.parametrize(
    ("pattern", "text", "expected"),
    [
        ("", "", True),
        ("", "a", False),
        ("*", "", True),
        ("eth*", "eth0", True),
        ("eth*", "veth0", False),
        ("*th?", "eth0", True),
        ("?", "", False),
        ("en[ps]*", "ens3", True),
        ("en[!ps]*", "ens3", False),
        ("en[^ps]*", "eno1", True),  # glibc has both marks
        ("[]a]", "]", True),
        ("[!]a]", "]", False),
        ("[a-", "[a-", True),
        ("[a-]", "-", True),
        ("e*n*p*", "enp", True),
        ("ens\n*", "ens\n3", True),
        ("ENS*", "ens3", False),
    ],
)
def test_wildcards(pattern: str, text: str, expected: bool) -> None:
    assert matches(text, pattern) is expected


def test_without_sets_brackets_are_themselves() -> None:
    assert matches("[e]ns3", "[e]ns*", sets=False) and not matches("ens3", "[e]ns*", sets=False)


@given(st.text(ALPHABET, max_size=12), st.text(st.sampled_from("abc-]!"), max_size=12))
def test_the_same_as_the_library_says(pattern: str, text: str) -> None:
    assert matches(text, pattern) is fnmatchcase(text, pattern)


@given(st.text(max_size=20), st.text(max_size=20))
def test_any_text_is_answered(pattern: str, text: str) -> None:
    literal_brackets = pattern.replace("[", "[[]")
    assert matches(text, pattern, sets=False) is fnmatchcase(text, literal_brackets)
    assert matches(text, pattern) is fnmatchcase(text, pattern)
    assert matches(text, f"*{'?' * len(text)}*")


@pytest.mark.parametrize(
    "pattern",
    ["*a" * 255 + "*b", "a*" * 255 + "b", "*?" * 255 + "b", "[a-z]*" * 85 + "b", "[!b]*" * 100],
)
@pytest.mark.parametrize(
    "text", ["a" * MAX_PATTERN_CHARS, "ab" * (MAX_PATTERN_CHARS // 2 - 1) + "c"]
)
def test_patterns_that_keep_a_backtracking_matcher_busy(pattern: str, text: str) -> None:
    """The time of one that backtracks grows exponentially with the number of asterisks."""
    begin = time.thread_time()
    assert matches(text, pattern) is pattern.startswith("[!b]"), "the others end with b"
    assert time.thread_time() - begin < 0.5, "seconds of CPU; some milliseconds are needed"


def test_what_is_longer_than_any_name_matches_nothing() -> None:
    assert matches("a" * MAX_PATTERN_CHARS, "*") and not matches("a" * (MAX_PATTERN_CHARS + 1), "*")
    assert not matches("a", "*" * (MAX_PATTERN_CHARS + 1))
