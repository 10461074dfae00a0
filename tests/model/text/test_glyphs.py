"""The characters that nictop draws with."""

from dataclasses import fields

from hypothesis import given
from hypothesis import strategies as st

from nictop.model.text.glyphs import ASCII, UNICODE, Glyphs
from nictop.model.text.terminal import clean, width

anything = st.text(st.characters(codec="utf-8") | st.sampled_from("\x1b\u202e\u200b▲│–é漢"), max_size=20)


def characters(glyphs: Glyphs) -> dict[str, str]:
    return {one.name: "".join(getattr(glyphs, one.name)) for one in fields(Glyphs) if one.name != "is_ascii"}


def test_typography_in_ascii() -> None:
    assert ASCII.encode("▲ 10G ×4 – 3 µs · größe") == "^ 10G x4 - 3 us - gr\\xf6\\xdfe"
    assert ASCII.encode("│ └ ens224") == "| ` ens224"


def test_each_character_takes_one_cell() -> None:
    for glyphs in (UNICODE, ASCII):
        assert all(width(text) == len(text) > 0 and clean(text) == text for text in characters(glyphs).values())


def test_ascii_has_its_own_form_of_each() -> None:
    assert all(text.isascii() for text in characters(ASCII).values())
    assert not any(text.isascii() for text in characters(UNICODE).values())


def test_kinds_and_parts_are_as_many_in_both() -> None:
    different = {name for name, text in characters(UNICODE).items() if len(text) != len(characters(ASCII)[name])}
    assert different == {"levels", "bar"}, "parts of a cell"


@given(anything)
def test_any_text_in_ascii(text: str) -> None:
    assert ASCII.encode(text).isascii()
    assert ASCII.text(text) == clean(ASCII.encode(text))


@given(anything)
def test_any_text_in_unicode(text: str) -> None:
    assert UNICODE.encode(text) == text
    assert UNICODE.text(text) == clean(text)
