"""What a terminal sends, before Textual's parser reads it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nictop.tui.terminal_input import (
    MAX_PASTE_CHARS,
    MAX_SEQUENCE_CHARS,
    PASTE_BEGIN,
    PASTE_END,
    TerminalInput,
)

ESC = "\x1b"


def taken(*texts: str, pause: float = 5.0) -> list[str]:
    """The parts of all texts, and of a pause behind them."""
    terminal = TerminalInput()
    parts = [part for text in texts for part in terminal.take(text)]
    return parts + list(terminal.pause(pause))


@pytest.mark.parametrize(
    "keys",
    [
        ["a", "ü", "\r", "\x03", "\t"],
        [f"{ESC}[A", f"{ESC}OP", f"{ESC}[[A", f"{ESC}[1;5C", f"{ESC}[15~", f"{ESC}[97;5u"],
        [f"{ESC}[<0;12;7M", f"{ESC}[<0;12;7m", f"{ESC}[M !!", "x"],
        [f"{ESC}\x7f", f"{ESC}[?2026;2$y", f"{ESC}[48;24;80;480;640t", "q"],
        ["\x7f", ESC],
    ],
)
def test_keys_mouse_and_answers_are_handed_on_however_they_are_cut(keys: list[str]) -> None:
    text = "".join(keys)
    assert taken(text) == keys
    assert taken(*text) == keys


def test_an_escape_key_is_known_by_the_next_key_or_a_pause() -> None:
    terminal = TerminalInput()
    assert list(terminal.take(ESC)) == []
    assert list(terminal.pause(0.1)) == [ESC]
    assert list(terminal.take(f"{ESC}{ESC}")) == [ESC]
    assert list(terminal.pause(0.1)) == [ESC]


@pytest.mark.parametrize("key", ["6", "x", "?", "ü"])
def test_a_key_right_behind_an_escape_key_is_a_key(key: str) -> None:
    """In one read, as of a slow connection; Alt and a key looks the same, and is none here."""
    assert taken(f"{ESC}{key}") == taken(ESC, key) == [ESC, key]
    assert taken(f"{ESC}{ESC}{key}j") == [ESC, ESC, key, "j"]


@pytest.mark.parametrize(
    "sent",
    [
        f"{ESC}]11;rgb:{'f' * 200_000}\x07",
        f"{ESC}]52;c;{'q' * 9}{ESC}\\",
        f"{ESC}P{'x' * 200_000}{ESC}\\",
        f"{ESC}[?2026;{'9' * 100_000}$y",
        f"{ESC}[{'1;' * 50_000}R",
    ],
)
def test_answers_of_any_length_are_no_keys(sent: str) -> None:
    assert taken(sent, "j") == ["j"]


def test_what_is_not_ended_ends_at_a_pause() -> None:
    terminal = TerminalInput()
    for begun in (f"{ESC}]11;rgb:ff", f"{ESC}[1;1;1", f"{ESC}["):
        assert list(terminal.take(begun)) == []
        assert list(terminal.pause(0.1)) == []
        assert list(terminal.take("q")) == ["q"]


def test_a_paste_is_text_without_control_characters_and_has_an_end() -> None:
    pasted = f"{PASTE_BEGIN}10.1.1.1/24\n{ESC}[31mX\x03\x9b{PASTE_END}"
    assert taken(pasted, "q") == [f"{PASTE_BEGIN}10.1.1.1/24\n[31mX{PASTE_END}", "q"]
    (long,) = taken(PASTE_BEGIN + "word " * 200_000 + PASTE_END)
    assert len(long) <= MAX_PASTE_CHARS + len(PASTE_BEGIN + PASTE_END) + len(PASTE_END)
    terminal = TerminalInput()
    assert list(terminal.take(f"{PASTE_BEGIN}abc")) == []
    assert list(terminal.pause(0.1)) == [], "a slow line"
    assert list(terminal.pause(2.0)) == [f"{PASTE_BEGIN}abc{PASTE_END}"]
    assert list(terminal.take("q")) == ["q"]


def test_of_many_changes_of_the_focus_the_last_one_matters() -> None:
    assert taken(f"{ESC}[I{ESC}[O" * 5000, pause=0.1) == [f"{ESC}[O"]


def test_a_screen_is_not_larger_than_can_be_drawn() -> None:
    assert taken(f"{ESC}[48;99999;99999;1;1t") == [f"{ESC}[48;500;1000;1;1t"]
    assert taken(f"{ESC}[48;50:1;200:2;1;1t") == [f"{ESC}[48;50:1;200:2;1;1t"]


@given(st.lists(st.text(st.sampled_from(f"{ESC}[]OPM<;0129~ABtIq\\\x07\n \x9b"), max_size=30)))
def test_any_input_gives_short_parts_and_nothing_stays(texts: list[str]) -> None:
    parts = taken(*texts)
    assert all(len(part) <= MAX_SEQUENCE_CHARS or part.startswith(PASTE_BEGIN) for part in parts)
    terminal = TerminalInput()
    for text in texts:
        list(terminal.take(text))
    list(terminal.pause(5.0))
    assert list(terminal.take("q")) == ["q"]
