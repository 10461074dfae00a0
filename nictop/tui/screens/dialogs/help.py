"""The help of a screen: its keys by group, marks, its columns; behind them all keys of the program.

╭ Help: Queues ──────────────────────────────────────────────────╮
│ Filter: type a word                                            │
│  Views                                                         │
│   1              view Devices                                  │
╰ Esc Close ─────────────────────────────────────────────────────╯

Made from the bindings and the columns themselves.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, cast

from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical
from textual.screen import Screen
from textual.widgets import Input

from nictop.model.facts import wrap
from nictop.model.text.words import LINK_DOWN, LINK_UP, NO_CARRIER
from nictop.tui.keys import HELP_KEYS, KEY_GROUPS, KEYS, KEYS_AND_VARIANTS, TABS, key_labels
from nictop.tui.widgets.base.dialog_frame import PopUp, box_keys
from nictop.tui.widgets.base.line_view import LineView, SpanLine
from nictop.tui.widgets.base.text_input import TextInput

if TYPE_CHECKING:
    from nictop.model.columns.column import Column
    from nictop.model.text.glyphs import Glyphs
    from nictop.tui.widgets.base.with_glyphs import WithGlyphs

FILTER_HINT = "type a word to filter"
LABEL_CELLS = 14
OWN_GROUPS = ("Actions", "Time", "Move")
"""Groups of keys whose meaning depends on the screen."""


class Topic(NamedTuple):
    """A section of the help."""

    title: str
    rows: Sequence[tuple[str, str]]
    """Key, mark or column, and what it is."""


def topics(screen: Screen[object]) -> list[Topic]:
    """Those of `screen` first."""
    by_id: dict[str, list[str]] = {}
    refused = getattr(screen, "refused_actions", ())
    for binding in (one.binding for one in screen.active_bindings.values()):
        words = binding.tooltip or binding.description
        if binding.id is not None and binding.action not in refused and words not in by_id.get(binding.id, ()):
            by_id.setdefault(binding.id, []).append(words)
    labels = {name: key_labels(screen.app._keymap.get(name, key.keys)) for name, key in KEYS_AND_VARIANTS.items()}
    groups = {
        title: Topic(title, [(labels[name], words) for name in ids for words in by_id.get(name, ())])
        for title, ids in KEY_GROUPS.items()
    }
    found = [groups.pop(title) for title in OWN_GROUPS]
    found.append(Topic("Marks", _marks(cast("WithGlyphs", screen).glyphs)))
    for name, columns in getattr(screen, "tables", {}).items():
        found.append(Topic(f"Columns of {name}" if name else "Columns", [_column_row(one) for one in columns]))
    found += groups.values()
    found.append(Topic("All keys, on any screen", [(labels[name], key.meaning) for name, key in KEYS.items()]))
    return [topic for topic in found if topic.rows]


def _marks(glyphs: Glyphs) -> list[tuple[str, str]]:
    return [
        (LINK_UP, "link up"),
        (NO_CARRIER, "up, but no carrier"),
        (LINK_DOWN, "administratively down"),
        (f"{glyphs.critical} {glyphs.warning} {glyphs.note}", "before a name: critical, warning, info"),
        (glyphs.passed, "all checks passed; a finding that is no longer found"),
        (glyphs.skipped, "a skipped check; elsewhere: not known yet, or the counter was reset"),
        ("●", "the host is live; behind Traffic: a test is running"),
        ("◌", "connecting, or lost and tried again"),
        ("✖", "failed"),
        (glyphs.levels[2:4] + glyphs.levels[-1], "one column per reading, the newest at the right"),
    ]


def _column_row(column: Column[Any]) -> tuple[str, str]:
    return column.title, f"{column.source} [{column.unit}]" if column.unit else column.source


def draw_help(found: Iterable[Topic], cells: int, words: Sequence[str] = ()) -> list[SpanLine]:
    """Lines of the topics with the rows that have every word."""
    lines: list[SpanLine] = []
    for topic in found:
        rows = [row for row in topic.rows if all(word in " ".join(row).casefold() for word in words)]
        if not rows:
            continue
        lines += [((f" {topic.title}", "accent"),)]
        for label, text in rows:
            for number, part in enumerate(wrap(text, max(10, cells - LABEL_CELLS - 3))):
                lines.append(((f"  {label if number == 0 else '':<{LABEL_CELLS}} ", "title"), (part, "")))
        lines.append(((" ", ""),))
    return lines or [((" No matches", "dim"),)]


class HelpFilter(TextInput):
    """Leaves the keys that close the help to its screen: ? always, q before a word."""

    def check_consume_key(self, key: str, character: str | None) -> bool:
        closes = key == "question_mark" or (key == "q" and not self.value)
        return not closes and super().check_consume_key(key, character)


class HelpScreen(PopUp[None]):
    """Shown over the screen that it is about."""

    BINDINGS: ClassVar[list[BindingType]] = HELP_KEYS

    def __init__(self, screen: Screen[object]) -> None:
        super().__init__()
        self._topics = topics(screen)
        self._drawn_for: tuple[int, list[str]] | None = None
        """Cells and words of the lines that are shown."""
        tab = getattr(screen, "tab", "")
        self._heading = next((one.label for one in TABS if one.name == tab), "nictop")

    def compose(self) -> ComposeResult:
        with Vertical(id="help"):
            yield HelpFilter(placeholder=FILTER_HINT, id="help-filter")
            yield LineView(id="help-lines")

    def on_mount(self) -> None:
        box = self.query_one("#help", Vertical)
        box.border_title = self.glyphs.text(f"Help: {self._heading}")
        box.border_subtitle = box_keys("Esc Close", self.app.size.width, self.glyphs)
        lines = self.query_one(LineView)
        lines.can_focus, lines.marks_more = False, True
        self.query_one(TextInput).focus()

    def _draw(self) -> None:
        view, words = self.query_one(LineView), self.query_one(TextInput).value.casefold().split()
        cells = view.scrollable_content_region.width
        if (cells, words) == self._drawn_for:
            return
        self._drawn_for = (cells, words)
        lines = draw_help(self._topics, cells, words)
        view.show_lines([tuple((self.glyphs.encode(text), style) for text, style in line) for line in lines])

    def on_line_view_resized(self) -> None:
        """Also at first."""
        self._draw()

    def on_input_changed(self, event: Input.Changed) -> None:
        event.stop()
        self.query_one(LineView).scroll_to(y=0, animate=False)
        self._draw()

    def action_scroll(self, lines: int) -> None:
        self.query_one(LineView).scroll_relative(y=lines, animate=False)

    def action_page(self, pages: int) -> None:
        view = self.query_one(LineView)
        view.scroll_relative(y=pages * max(1, view.size.height - 1), animate=False)

    def action_back(self) -> None:
        """Clear the filter; without one, close."""
        entry = self.query_one(TextInput)
        if entry.value:
            entry.value = ""
        else:
            self.dismiss()
