"""Lazy patterns: each can be compiled, and behaves as the one of `re`."""

from __future__ import annotations

import importlib
import re

import pytest

from nictop.probe.kernel.patterns import LazyPattern, pattern
from tests.support.namespaces import ROOT

MODULES = sorted(
    ".".join(path.relative_to(ROOT).with_suffix("").parts)
    for path in (ROOT / "nictop/probe").rglob("*.py")
    if "import pattern\n" in path.read_text("utf-8")
)


@pytest.mark.parametrize("name", MODULES)
def test_every_pattern_of_the_probe_compiles(name: str) -> None:
    module = importlib.import_module(name)
    found = [value for value in vars(module).values() if isinstance(value, LazyPattern)]
    assert found
    for one in found:
        assert re.compile(one._text, one._flags).pattern == one._text


def test_a_lazy_pattern_behaves_as_a_compiled_one() -> None:
    digits = pattern(r"([0-9]+)x", re.IGNORECASE)
    assert [match[1] for match in digits.finditer("1x 22X")] == ["1", "22"]
    assert digits.fullmatch("3X") and not digits.fullmatch("3")
    assert digits.sub("", "a1xb") == "ab" and digits.groups == 1
    with pytest.raises(AttributeError):
        digits.no_such_method  # type: ignore[attr-defined]  # noqa: B018


def test_an_invalid_pattern_fails_at_its_first_use() -> None:
    with pytest.raises(re.error):
        pattern("(").search("")
