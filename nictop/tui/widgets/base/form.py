"""Fields, one line each: text is typed into the chosen one, or one of its choices selected.

  direction     ◂ forward ▸   who sends
▸ time          20▏           seconds that count
  message size  9M            longer than 8 MiB

The first typed character replaces the text, backspace deletes the last one; left and right count a
whole number down and up. A click on ◂ or ▸
selects another choice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import ClassVar

from textual import events
from textual.binding import BindingType
from textual.message import Message

from nictop.model.facts import clean, fit, width
from nictop.model.text.terminal import fit_end
from nictop.probe.light_dataclasses import dataclass
from nictop.tui.keys import FORM_KEYS
from nictop.tui.widgets.base.choice_list import ChoiceList
from nictop.tui.widgets.base.line_widget import Span, SpanLine

VALUE_CELLS = 18
"""Cells of a short value."""
MAX_NUMBER_CHARS = 9
"""Of a whole number that the keys count up and down."""
MAX_VALUE_CHARS = 200
"""Characters of a value."""


@dataclass(frozen=True)
class Field:
    """One field of a form."""

    name: str
    """Key of its value."""
    label: str
    example: str
    """Shown beside the field: what can be typed, or what the choice is about."""
    parse: Callable[[str], object] | None = None
    """Makes a value of its text; raises NictopError for an invalid one. None: the text is the
    value."""
    choices: tuple[str, ...] = ()
    """The first one is the default; (): text is typed."""
    preset: str = ""
    """Initial text."""
    common: bool = False
    """Shown in the short form, too."""
    empty: str = "default"
    """Shown instead of an empty text: what it means."""

    @property
    def first_word(self) -> str:
        """Initial value."""
        if self.choices:
            return self.choices[0]
        return self.preset


def presets(fields: Iterable[Field]) -> dict[str, str]:
    """Initial value of each field."""
    return {field.name: field.first_word for field in fields}


def next_choice(field: Field, word: str, step: int) -> str:
    """The next choice, or the one before (`step` -1); after the last comes the first."""
    place = 0
    if word in field.choices:
        place = field.choices.index(word)
    return field.choices[(place + step) % len(field.choices)]


class Form(ChoiceList):
    """Posts `Changed` whenever a value has changed."""

    BINDINGS: ClassVar[list[BindingType]] = FORM_KEYS
    label_cells = 14
    """Cells of a label."""
    value_cells = VALUE_CELLS

    class Changed(Message):
        """A value has changed."""

    def __init__(self, fields: Sequence[Field], *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._by_name = {field.name: field for field in fields}
        self.words = presets(fields)
        """Name of a field → its text."""
        self.problems: Mapping[str, str] = {}
        self._fresh = True
        """The next character that is typed replaces the text."""

    def set_fields(self, fields: Sequence[Field]) -> None:
        """Other fields from now on; those that stay keep their text, unless it is the initial
        one."""
        before = presets(self._by_name.values())
        kept = {name: word for name, word in self.words.items() if word != before[name]}
        self._by_name = {field.name: field for field in fields}
        self.words = {name: kept.get(name, word) for name, word in presets(fields).items()}

    @property
    def is_initial(self) -> bool:
        """Nothing was typed or chosen."""
        return self.words == presets(self._by_name.values())

    def has_typed(self, words: Mapping[str, str]) -> bool:
        """A text was typed among these words, not only choices made."""
        texts = [field for field in self._by_name.values() if not field.choices]
        return any(words.get(field.name, field.preset) != field.preset for field in texts)

    def fill(self, words: Mapping[str, str]) -> None:
        """The texts of the fields that there are; the others stay."""
        self.words |= {name: word for name, word in words.items() if name in self.words}

    @property
    def shown(self) -> Sequence[Field]:
        """The fields that are shown."""
        return tuple(self._by_name.values())

    @property
    def chosen(self) -> Field:
        """The field at the cursor."""
        index = self.index
        if index is None:
            return next(iter(self._by_name.values()))
        return self._by_name[self._keys[index]]

    @property
    def types(self) -> bool:
        """Characters are typed into the chosen field; they are not key commands."""
        return self.is_focused and not self.chosen.choices

    def show(self, problems: Mapping[str, str]) -> None:
        """Draw the form. `problems`: name of a field → what is wrong with its text."""
        self.problems = problems
        self.set_keys([field.name for field in self.shown])
        self.redraw()

    def choice_changed(self, index: int) -> None:
        self._fresh = True
        if self.is_focused:
            self.refresh_bindings()  # on a text, characters are no keys

    def redraw(self) -> None:
        found = self.shown
        self.show_drawn(
            len(found), lambda index: self._line_of_field(found[index]), None, self.index
        )

    def _line_of_field(self, field: Field) -> SpanLine:
        cells = self.scrollable_content_region.width
        typing = self.types and field is self.chosen
        value, style = self._value(field, typing=typing)
        beside, tone = self._beside(field)
        room = max(1, cells - self.label_cells - 3)
        wanted = min(max(self.value_cells, width(value) + 1), max(1, room))
        if field is self.chosen and width(self.glyphs.text(beside)) > room - wanted:
            wanted = min(width(value) + 1, room)  # more room for what is beside it
        return (
            (f" {fit(self._label(field), self.label_cells)} ", ""),
            (self._value_in(wanted, value, typing=typing), style),
            (" " + fit(self.glyphs.text(beside), max(0, room - wanted)), tone),
        )

    def _value(self, field: Field, *, typing: bool) -> Span:
        word = clean(self.words[field.name])
        if field.choices:
            return f"{self.glyphs.choice_left} {word} {self.glyphs.cursor}", ""
        caret = self.glyphs.caret if typing else ""
        if not word:
            return f"{caret}{field.empty}", "dim"
        return word + caret, "title"

    def _value_in(self, cells: int, value: str, *, typing: bool) -> str:
        """In exactly `cells` cells; while it is typed its end is in sight."""
        text = self.glyphs.encode(value)
        if typing:
            return fit_end(text, cells)
        return fit(text, cells)

    def _label(self, field: Field) -> str:
        return field.label

    def _beside(self, field: Field) -> tuple[str, str]:
        """Text beside a field, and its style."""
        problem = self.problems.get(field.name, "")
        if problem:
            return problem, "bad"
        return field.example, "dim"

    # ----------------------------------------------------------------------------------------- keys

    def move(self, step: int) -> bool:
        """Choose the next field, or the one before (`step` -1). False: there is none."""
        target = (self.index or 0) + step
        if not 0 <= target < len(self.shown):
            return False
        self.choose_index(target)
        return True

    def choose_edge(self, step: int) -> None:
        """Choose the first field (`step` 1) or the last one (-1)."""
        self.choose_index(0 if step > 0 else len(self.shown) - 1)

    def set_word(self, name: str, word: str) -> None:
        """Replace the text of a field."""
        if self.words[name] != word:
            self.words[name] = word
            # at once: keys that were typed ahead come next
            self.set_keys([field.name for field in self.shown])
            self.redraw()
            self.post_message(self.Changed())

    def check_consume_key(self, key: str, character: str | None) -> bool:
        """A character that is typed is not a key command."""
        return self.types and character is not None and character.isprintable()

    def on_key(self, event: events.Key) -> None:
        if self.types and event.is_printable and event.character is not None:
            event.stop()
            event.prevent_default()
            self._type(event.character)

    def on_paste(self, event: events.Paste) -> None:
        if self.types:
            event.stop()
            line = event.text.split("\n")[0]
            self._type("".join(filter(str.isprintable, line)))

    def _type(self, text: str) -> None:
        name = self.chosen.name
        before = "" if self._fresh else self.words[name]
        self._fresh = False
        self.set_word(name, (before + text)[:MAX_VALUE_CHARS])
        self.redraw()

    def action_change(self, step: int) -> None:
        field = self.chosen
        if field.choices:
            self.set_word(field.name, next_choice(field, self.words[field.name], step))
        elif self._number is not None:
            self._fresh = True
            self.set_word(field.name, str(max(0, self._number + step)))

    @property
    def _number(self) -> int | None:
        """The whole number in the chosen field; None: its text is something else."""
        word = self.words[self.chosen.name].strip()
        is_number = word.isascii() and word.isdecimal() and len(word) <= MAX_NUMBER_CHARS
        return int(word) if is_number and self.chosen.parse is not None else None

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """A text that is no number has no next one."""
        if action == "change" and self._by_name:
            return bool(self.chosen.choices) or self._number is not None
        return super().check_action(action, parameters)

    def on_click(self, event: events.Click) -> None:
        """On ◂ or ▸; the click chooses the field, too (`ChoiceList`)."""
        offset = event.get_content_offset_capture(self)
        index = self.line_at(offset.y)
        if index is None or index >= len(self.shown):
            return
        field = self.shown[index]
        if not field.choices:
            return
        word = self.words[field.name]
        first = self.label_cells + 2
        steps = {first: -1, first + width(clean(word)) + 3: 1}
        if offset.x in steps:
            self.set_word(field.name, next_choice(field, word, steps[offset.x]))

    def action_erase(self) -> None:
        if not self.chosen.choices:
            self._fresh = False
            self.set_word(self.chosen.name, self.words[self.chosen.name][:-1])

    def action_clear(self) -> None:
        self._fresh = True
        self.set_word(self.chosen.name, presets([self.chosen])[self.chosen.name])

    def on_focus(self) -> None:
        super().on_focus()
        self._fresh = True
        self.redraw()

    def on_blur(self) -> None:
        super().on_blur()
        self.redraw()
