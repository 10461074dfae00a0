"""The help of a screen: its keys by group, marks, its columns; behind them all keys of the program.

╭ Help: Queues ──────────────────────────────────────────────────╮
│ Filter: type a word                                            │
│  Views                                                         │
│ ▸ 1              view Devices                                  │
╰ Enter Run · Esc Close ─────────────────────────────────────────╯

Made from the bindings, filters and columns themselves. Enter does what the chosen line is about:
the action of a key, the order by a column; a filter is opened.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, cast

from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical
from textual.screen import Screen
from textual.widgets import Input

from nictop.model.facts import wrap
from nictop.model.text.words import LINK_DOWN, LINK_UP, NO_CARRIER
from nictop.probe.light_tuples import NamedTuple
from nictop.tui.filter_help import FILTER_TITLE
from nictop.tui.keys import (
    HELP_KEYS,
    KEY_GROUPS,
    KEYS,
    KEYS_AND_VARIANTS,
    NOT_HERE,
    TABS,
    TIMELINE_KEYS,
    glyphs_of,
    key_labels,
    keys_in_force,
    meaning_text,
    pair_label,
    shown_key,
)
from nictop.tui.widgets.base.dialog_frame import PopUp
from nictop.tui.widgets.base.line_widget import LineWidget, SpanLine
from nictop.tui.widgets.base.text_input import TextInput
from nictop.tui.widgets.status.replay_line import ReplayLine

if TYPE_CHECKING:
    from nictop.model.columns.column import Column
    from nictop.model.text.glyphs import Glyphs
    from nictop.tui.filter_help import FilterRows
    from nictop.tui.widgets.base.with_glyphs import WithGlyphs

ONLY_AT_NOW, ONLY_IN_PAST = ("leave",), ("screen.now",)
"""Actions of the timeline."""
FILTER_HINT = "type a word to filter"
LABEL_CELLS = 14
OWN_GROUPS = ("Actions", "Time", "Move")
"""Groups of keys whose meaning depends on the screen."""


class DescribedScreen(Protocol):
    """What the help asks a screen of the frame."""

    @property
    def tables(self) -> Mapping[str, Sequence[Column[Any]]]: ...

    @property
    def sorted_tables(self) -> Collection[str]: ...

    @property
    def filter_rows(self) -> FilterRows: ...

    def sort_table(self, column: str) -> None: ...


Run = Callable[[], Awaitable[object] | object]


class Topic(NamedTuple):
    """A section of the help."""

    title: str
    rows: Sequence[tuple[str, str]]
    """Key, mark, filter or column, and what it is."""
    runs: Mapping[tuple[str, str], Run] = MappingProxyType({})
    """Row → what Enter does on it."""


class DrawnHelp(NamedTuple):
    """Lines, and the first line of each row with what Enter does there."""

    lines: list[SpanLine]
    rows: list[tuple[int, Run | None]]


def topics(screen: Screen[object]) -> list[Topic]:
    """Those of `screen` first."""
    glyphs = glyphs_of(screen.app)
    keys = {name: keys_in_force(screen.app, name) for name in KEYS_AND_VARIANTS}
    labels = {name: key_labels(keys[name], glyphs) for name in keys}
    by_id = _actions_by_key(screen)
    groups = {title: _keys_topic(title, ids, labels, by_id) for title, ids in KEY_GROUPS.items()}
    found = [groups.pop(title) for title in OWN_GROUPS]
    found.append(Topic("Marks", _marks(cast("WithGlyphs", screen).glyphs)))
    found.append(_timeline_topic(screen, labels))
    if hasattr(screen, "filter_rows"):
        framed = cast("DescribedScreen", screen)
        found += [_filter_topic(framed, by_id), *_column_topics(framed, labels)]
    found += groups.values()
    found.append(_all_keys_topic(screen, labels, by_id))
    return [topic for topic in found if topic.rows]


def _all_keys_topic(
    screen: Screen[object], labels: Mapping[str, str], by_id: dict[str, dict[str, Run]]
) -> Topic:
    """What each key is for on any screen; Enter does what it does on this one."""
    rows: list[tuple[str, str]] = []
    runs: dict[tuple[str, str], Run] = {}
    for name in KEYS:
        row = (labels[name], meaning_text(name, partial(shown_key, screen.app)))
        rows.append(row)
        if name in by_id:
            runs[row] = next(iter(by_id[name].values()))
    return Topic("All keys, on any screen", rows, runs)


def _actions_by_key(screen: Screen[object]) -> dict[str, dict[str, Run]]:
    """Id of a key → its words on this screen, each with what it does."""
    by_id: dict[str, dict[str, Run]] = {}
    refused = getattr(screen, "refused_actions", ())
    for node, binding, _, _ in screen.active_bindings.values():
        is_answer = binding.action.startswith(NOT_HERE)
        if binding.id is not None and binding.action not in refused and not is_answer:
            words = binding.tooltip or binding.description
            run = partial(screen.app.run_action, binding.action, node)
            by_id.setdefault(binding.id, {}).setdefault(words, run)
    return by_id


def _keys_topic(
    title: str, ids: Iterable[str], labels: Mapping[str, str], by_id: dict[str, dict[str, Run]]
) -> Topic:
    runs: dict[tuple[str, str], Run] = {}
    for name in ids:
        for words, run in by_id.get(name, {}).items():
            runs[labels[name], words] = run
    return Topic(title, list(runs), runs)


def _timeline_topic(screen: Screen[object], labels: Mapping[str, str]) -> Topic:
    """The keys of the timeline, while another pane has the focus; Enter focuses the
    timeline, and does what the key does."""
    line = next(iter(screen.query(ReplayLine)), None)
    subject = "the last minutes" if line is not None and line.is_present else "the recording"
    title = f"Timeline of {subject}; {labels['pane']} goes to it"
    if line is None or not line.can_focus or line.has_focus:
        return Topic(title, ())

    async def run(action: str) -> None:
        screen.set_focus(line)
        await screen.app.run_action(action, line)

    impossible = ONLY_IN_PAST if line.is_present else ONLY_AT_NOW
    rows = {
        (labels[binding.id or ""], binding.tooltip): partial(run, binding.action)
        for binding in TIMELINE_KEYS
        if binding.action not in impossible
    }
    return Topic(title, list(rows), rows)


def _filter_topic(screen: DescribedScreen, by_id: dict[str, dict[str, Run]]) -> Topic:
    """Enter opens the filter."""
    rows = list(screen.filter_rows)
    opens = next(iter(by_id.get("filter", {}).values()), None)
    if opens is None:
        return Topic(FILTER_TITLE, rows)
    return Topic(FILTER_TITLE, rows, dict.fromkeys(rows, opens))


def _column_topics(screen: DescribedScreen, labels: Mapping[str, str]) -> Iterator[Topic]:
    """Enter sorts by a column, where the table can be sorted."""
    keys = f"{labels['sort']} or {labels['open']}"
    for name, columns in screen.tables.items():
        title = f"Columns of {name}" if name else "Columns"
        rows = {_column_row(column): partial(screen.sort_table, column.key) for column in columns}
        if name in screen.sorted_tables:
            yield Topic(f"{title}; {keys} sorts, as a click on the title", list(rows), rows)
        else:
            yield Topic(title, list(rows))


def _marks(glyphs: Glyphs) -> list[tuple[str, str]]:
    return [
        (LINK_UP, "link up"),
        (NO_CARRIER, "up, but no carrier"),
        (LINK_DOWN, "administratively down"),
        (
            f"{glyphs.critical} {glyphs.warning} {glyphs.note}",
            "before a name: critical, warning, info",
        ),
        (glyphs.passed, "all checks passed; a finding that is no longer found"),
        (glyphs.skipped, "a skipped check; elsewhere: not known yet, or the counter was reset"),
        ("●", "the host is live; behind Traffic: a test is running"),
        (
            "◌",
            "the host is being connected to, or has sent nothing for some time; before a step: it "
            "is being done",
        ),
        (glyphs.idle, "before a step: it has not begun"),
        ("?", "it may have changed since it was read, or was not checked again"),
        (
            "✖",
            "the host could not be reached, or the connection failed: why, and when it is tried "
            "again, is beside it",
        ),
        (
            glyphs.levels[2:4] + glyphs.levels[-1],
            "a column is one reading or the mean of several, the newest at the right",
        ),
    ]


def _column_row(column: Column[Any]) -> tuple[str, str]:
    words = column.source
    if column.unit:
        words += f" [{column.unit}]"
    return column.title, words


def draw_help(found: Iterable[Topic], cells: int, words: Sequence[str] = ()) -> DrawnHelp:
    """The topics with the rows that have every word."""
    lines: list[SpanLine] = []
    places: list[tuple[int, Run | None]] = []
    for topic in found:
        rows = [row for row in topic.rows if _has_words(row, words)]
        if not rows:
            continue
        lines.append(((f" {topic.title}", "accent"),))
        for row in rows:
            places.append((len(lines), topic.runs.get(row)))
            label, text = row
            for part in wrap(text, max(10, cells - LABEL_CELLS - 3)):
                lines.append(((f"  {label:<{LABEL_CELLS}} ", "title"), (part, "")))
                label = ""
        lines.append(((" ", ""),))
    if not lines:
        lines.append(((" No matches", "dim"),))
    return DrawnHelp(lines, places)


def _has_words(row: tuple[str, str], words: Iterable[str]) -> bool:
    """All of them, in small letters."""
    text = " ".join(row).casefold()
    return all(word in text for word in words)


class HelpFilter(TextInput):
    """Leaves the keys that close the help to its screen: that of the help always, that to quit
    before a word."""

    def check_consume_key(self, key: str, character: str | None) -> bool:
        # Textual asks about the keys that bindings have before those of the configuration
        if key in KEYS["help"].keys.split(","):
            return False
        if key in KEYS["quit"].keys.split(",") and not self.value:
            return False
        return super().check_consume_key(key, character)


class HelpScreen(PopUp[None]):
    """Shown over the screen that it is about."""

    BINDINGS: ClassVar[list[BindingType]] = HELP_KEYS

    def __init__(self, screen: Screen[object]) -> None:
        super().__init__()
        self._topics = topics(screen)
        self._drawn_for: tuple[int, list[str]] | None = None
        """Cells and words of the lines that are shown."""
        self._rows: Sequence[tuple[int, Run | None]] = ()
        self._chosen: int | None = None
        """Index of a row; None: Enter closes the help and starts nothing."""
        self._has_jumped = False
        """A page was scrolled since a row was chosen."""
        self._lines: Sequence[SpanLine] = ()
        labels = {tab.name: tab.label for tab in TABS}
        self._heading = labels.get(getattr(screen, "tab", ""), "nictop")

    def compose(self) -> ComposeResult:
        with Vertical(id="help"):
            yield HelpFilter(placeholder=FILTER_HINT, id="help-filter")
            yield LineWidget(id="help-lines")

    def on_mount(self) -> None:
        box = self.query_one("#help", Vertical)
        box.border_title = self.glyphs.text(f"Help: {self._heading}")
        box.border_subtitle = self.frame_keys(self._key_hints)
        lines = self.query_one(LineWidget)
        lines.can_focus, lines.marks_more = False, True
        self.query_one(TextInput).focus()

    @property
    def _key_hints(self) -> str:
        choose = pair_label(self.key_label, "up")
        return f"{choose} Choose · {self.key_label('open')} Run · {self.key_label('back')} Close"

    def _draw(self) -> None:
        view, words = self.query_one(LineWidget), self.query_one(TextInput).value.casefold().split()
        cells = view.scrollable_content_region.width
        if (cells, words) == self._drawn_for:
            return
        self._drawn_for = (cells, words)
        drawn = draw_help(self._topics, cells, words)
        self._rows = drawn.rows
        self._chosen = None
        if words:  # the first one that Enter runs
            runnable = (index for index, (_, run) in enumerate(drawn.rows) if run is not None)
            self._chosen = next(runnable, None)
        self._lines = list(map(self._encoded, drawn.lines))
        self._show_lines()

    def _encoded(self, line: SpanLine) -> SpanLine:
        return tuple((self.glyphs.encode(text), style) for text, style in line)

    def _show_lines(self) -> None:
        lines = list(self._lines)
        line = None if self._chosen is None else self._rows[self._chosen][0]
        if line is not None:
            (text, style), *rest = lines[line]
            lines[line] = ((f"{self.glyphs.cursor}{text[1:]}", style), *rest)
        self.query_one(LineWidget).show_lines(lines, cursor=line)

    def draw_resized(self) -> None:
        """Also at first."""
        self._draw()

    def on_input_changed(self, event: Input.Changed) -> None:
        event.stop()
        self.query_one(LineWidget).scroll_to(y=0, animate=False)
        self._draw()

    def action_choose(self, step: int) -> None:
        """The next row; at first, and behind a jump by a page, the first one in view."""
        if not self._rows:
            return
        if self._chosen is None or self._has_jumped:
            top = self.query_one(LineWidget).scroll_offset.y
            below = (index for index, (line, _) in enumerate(self._rows) if line >= top)
            self._chosen, self._has_jumped = next(below, len(self._rows) - 1), False
        else:
            self._chosen = max(0, min(len(self._rows) - 1, self._chosen + step))
        self._show_lines()

    def action_page(self, pages: int) -> None:
        self._has_jumped = True
        self.query_one(LineWidget).scroll_pages(pages)

    def action_run(self) -> None:
        """Close the help, and do what the chosen row is about."""
        run = None if self._chosen is None else self._rows[self._chosen][1]
        self.dismiss()
        if run is not None:
            self.app.call_later(run)  # when the screen below is shown again
