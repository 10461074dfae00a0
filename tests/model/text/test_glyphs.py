"""The characters that nictop draws with."""

import ast
from dataclasses import fields
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import nictop
from nictop.model.text.glyphs import ASCII, UNICODE, Glyphs
from nictop.model.text.terminal import clean, width
from nictop.model.text.words import LINK_DOWN, LINK_UP, NO_CARRIER

anything = st.text(
    st.characters(codec="utf-8") | st.sampled_from("\x1b\u202e\u200b▲│–é漢"), max_size=20
)


def characters(glyphs: Glyphs) -> dict[str, str]:
    return {
        one.name: "".join(getattr(glyphs, one.name))
        for one in fields(Glyphs)
        if one.name != "is_ascii"
    }


def test_typography_in_ascii() -> None:
    assert ASCII.encode("↑ 10G ×4 – 3 µs · größe") == "^ 10G x4 - 3 us - gr\\xf6\\xdfe"
    assert ASCII.encode("│ └ ens224") == "| ` ens224"


NOT_DRAWN = (
    "probe",
    "model/text/terminal.py",
    "model/text/glyphs.py",
    "tui/widgets/charts/bar_chart.py",
)
"""Folders and files whose other characters are compared with, or drawn in UNICODE only."""


def text_of(path: Path) -> str:
    """All strings of a module but its docstrings."""
    tree = ast.parse(path.read_text())
    docstrings = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    strings = (
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and id(node) not in docstrings
    )
    return "".join(node.value for node in strings if isinstance(node.value, str))


@pytest.mark.parametrize(
    "folder", ["model", "rules", "hosts", "changes", "traffic", "replay", "report", "cli", "tui"]
)
def test_every_character_of_own_texts_has_an_ascii_form(folder: str) -> None:
    package = Path(nictop.__file__).parent
    paths = [
        one
        for one in (package / folder).rglob("*.py")
        if not str(one.relative_to(package)).startswith(NOT_DRAWN)
    ]
    used = {character for path in paths for character in text_of(path) if not character.isascii()}
    assert {one for one in used if "\\" in ASCII.encode(one)} == set()


def test_each_character_takes_one_cell() -> None:
    for glyphs in (UNICODE, ASCII):
        assert all(
            width(text) == len(text) > 0 and clean(text) == text
            for text in characters(glyphs).values()
        )


def test_ascii_has_its_own_form_of_each() -> None:
    assert all(text.isascii() for text in characters(ASCII).values())
    assert not any(text.isascii() for text in characters(UNICODE).values())


def test_kinds_and_parts_are_as_many_in_both() -> None:
    different = {
        name
        for name, text in characters(UNICODE).items()
        if len(text) != len(characters(ASCII)[name])
    }
    assert different == {"levels", "bar"}, "parts of a cell"


@given(anything)
def test_any_text_in_ascii(text: str) -> None:
    assert ASCII.encode(text).isascii()
    assert ASCII.text(text) == clean(ASCII.encode(text))


@given(anything)
def test_any_text_in_unicode(text: str) -> None:
    assert UNICODE.encode(text) == text
    assert UNICODE.text(text) == clean(text)


@pytest.mark.parametrize("glyphs", [UNICODE, ASCII], ids=["unicode", "ascii"])
def test_no_mark_of_a_link_is_that_of_a_severity(glyphs: Glyphs) -> None:
    links = [glyphs.encode(mark) for mark in (LINK_UP, NO_CARRIER, LINK_DOWN)]
    severities = [glyphs.critical, glyphs.warning, glyphs.note, glyphs.passed, glyphs.skipped]
    assert len({*links, *severities}) == len(links) + len(severities)
    assert {len(mark) for mark in links} == {1}


@pytest.mark.parametrize("glyphs", [UNICODE, ASCII], ids=["unicode", "ascii"])
def test_a_host_that_connects_has_no_mark_of_a_link(glyphs: Glyphs) -> None:
    """In ASCII both were ``o``."""
    links = {glyphs.encode(mark) for mark in (LINK_UP, LINK_DOWN, NO_CARRIER)}
    assert not {glyphs.encode(mark) for mark in "●◌✖"} & links


def test_a_severity_in_a_text_has_its_mark_in_ascii() -> None:
    assert [ASCII.encode(mark) for mark in (UNICODE.critical, UNICODE.warning)] == [
        ASCII.critical,
        ASCII.warning,
    ]


def test_a_branch_of_a_tree_is_no_mark_in_ascii() -> None:
    marks = {ASCII.critical, ASCII.warning, ASCII.note, ASCII.passed, ASCII.skipped}
    assert marks.isdisjoint({ASCII.encode(line) for line in "├└│"})
