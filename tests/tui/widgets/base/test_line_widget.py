"""Lines are made when they come into view, and laying out is left to those who need other sizes."""

from __future__ import annotations

import pytest
from textual.app import App, ComposeResult

from nictop.model.text.glyphs import ASCII, UNICODE, Glyphs
from nictop.tui.widgets.base.line_widget import LineWidget, SpanLine, with_more
from nictop.tui.widgets.devices.table import DeviceTable
from tests.support.lines import hello, inventory, link
from tests.support.screen import live_screen, running, settle

LINES = 1000


class Viewer(App[None]):
    """One view of many lines."""

    CSS_PATH = "../../../../nictop/tui/nictop.tcss"

    def __init__(self) -> None:
        super().__init__()
        self.made: list[int] = []

    def compose(self) -> ComposeResult:
        yield LineWidget(id="view")

    def line(self, index: int) -> SpanLine:
        self.made.append(index)
        return ((f" line {index}", ""),)


def drawn(view: LineWidget, y: int) -> str:
    return view.render_line(y).text.rstrip()


def drawn_rows(app: Viewer) -> list[str]:
    """What is on the screen."""
    return [strip.text for strip in app.screen._compositor.render_strips()]


@pytest.mark.parametrize(
    ("glyphs", "mark"), [(UNICODE, "▾ PgDn"), (ASCII, "v PgDn")], ids=["unicode", "ascii"]
)
async def test_text_with_more_below_is_marked(
    glyphs: Glyphs, mark: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(LineWidget, "glyphs", glyphs)
    app = Viewer()
    async with running(app, (40, 10), notifications=False) as pilot:
        view = app.query_one(LineWidget)
        view.show_drawn(15, app.line)
        assert drawn(view, 9) == " line 9", "a list has a cursor"
        view.marks_more = True
        assert drawn(view, 9).startswith(" line 9 ") and drawn(view, 9).endswith(mark)
        assert drawn(view, 8) == " line 8"
        view.scroll_to(y=5, animate=False)
        await pilot.pause()
        assert drawn(view, 9) == " line 14"
        view.show_drawn(10, app.line)
        await pilot.pause()
        assert drawn(view, 9) == " line 9"


@pytest.mark.parametrize(
    ("glyphs", "end"), [(UNICODE, "… ▾ PgDn"), (ASCII, "~ v PgDn")], ids=["unicode", "ascii"]
)
async def test_a_sentence_that_the_mark_covers_ends_with_an_ellipsis(
    glyphs: Glyphs, end: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(LineWidget, "glyphs", glyphs)
    app = Viewer()
    async with running(app, (40, 10), notifications=False):
        view = app.query_one(LineWidget)
        view.marks_more = True
        view.show_lines([((" File /etc/systems/ens256.nmconnection", ""),)] * 15)
        assert drawn(view, 9) == f" File /etc/systems/ens256.nmcon{end}"
        view.show_lines([((" ── Manager ".ljust(40, "─"), ""),)] * 15)
        assert drawn(view, 9).endswith(f"─ {end[2:]}" if glyphs is UNICODE else f"- {end[2:]}")


@pytest.mark.parametrize("focused", [True, False])
async def test_without_colours_the_cursor_is_seen_by_its_attributes(
    focused: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    async with live_screen() as screen:
        await screen.receive(
            hello(), inventory(link(2, "ens192", bus="pci"), link(3, "ens224", bus="pci"))
        )
        table = screen.app.screen.query_one(DeviceTable)
        if not focused:
            screen.app.screen.set_focus(None)
            await screen.settle()
        rows = [
            [one.style for one in table.render_line(y) if one.style]
            for y in range(table.size.height)
        ]
        seen = [
            bool(styles) and all(one.reverse if focused else one.underline for one in styles)
            for styles in rows
        ]
        assert seen.count(True) == 1


async def test_without_colours_a_bar_of_the_chosen_line_is_not_reversed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Reversed, its data were dark and its empty cells light: traffic that rises seemed to fall."""
    monkeypatch.setenv("NO_COLOR", "1")
    app = Viewer()
    async with running(app, (40, 10), notifications=False) as pilot:
        view = app.query_one(LineWidget)
        view.focus()
        line = ((" ens192 ", ""), ("▁▂▃", "in"), ("   ", "in"), (" 3 %", ""))
        view.show_lines([line], None, 0)
        await pilot.pause()
        reversed_texts = [
            one.text for one in view.render_line(0) if one.style is not None and one.style.reverse
        ]
        assert reversed_texts[:2] == ["▸ens192 ", " 3 %"]


@pytest.mark.parametrize(
    ("cells", "shown"),
    [
        (80, " what it is connected to is not known yet …"),
        (43, " what it is connected to is not known yet …"),
        (42, " what it is connected to is not known …"),
        (13, " what it is …"),
        (12, " what it …"),
    ],
)
def test_a_text_that_goes_on_has_one_ellipsis(cells: int, shown: str) -> None:
    found = with_more(" what it is connected to is not known yet", cells)
    assert found == shown and len(found) <= cells


async def test_only_lines_in_view_are_made() -> None:
    app = Viewer()
    async with running(app, (40, 10), notifications=False) as pilot:
        view = app.query_one(LineWidget)
        view.show_drawn(LINES, app.line, cursor=3)
        await pilot.pause()
        assert set(app.made) == set(range(10))
        assert len(app.made) == 10, "each line is made once"
        app.made.clear()
        view.scroll_to(y=500, animate=False)
        await pilot.pause()
        assert set(app.made) == set(range(500, 510))
        assert drawn(view, 0) == " line 500"


async def test_the_cursor_is_brought_into_view_and_has_a_mark() -> None:
    app = Viewer()
    async with running(app, (40, 10), notifications=False) as pilot:
        view = app.query_one(LineWidget)
        for cursor in (0, 700, 2):
            view.show_drawn(LINES, app.line, cursor=cursor)
            await pilot.pause()
            rows = [drawn(view, y) for y in range(10)]
            assert f"{UNICODE.cursor}line {cursor}" in rows
            assert sum(row.startswith(UNICODE.cursor) for row in rows) == 1


async def test_fewer_lines_leave_nothing_behind() -> None:
    app = Viewer()
    async with running(app, (40, 10), notifications=False) as pilot:
        view = app.query_one(LineWidget)
        view.show_drawn(LINES, app.line)
        view.scroll_to(y=900, animate=False)
        await pilot.pause()
        view.show_drawn(2, app.line)
        await pilot.pause()
        assert [drawn(view, y) for y in range(10)] == [" line 0", " line 1"] + [""] * 8


async def test_a_scroll_bar_is_a_coloured_column_without_characters() -> None:
    app = Viewer()
    async with running(app, (20, 10)):
        view = app.query_one(LineWidget)
        view.show_drawn(LINES, app.line)
        await settle(app)
        rows = app.screen._compositor.render_strips()
        cells = [row.crop(19, 20) for row in rows]
        assert {one.text for one in cells} == {" "}
        styles = {segment.style for one in cells for segment in one if segment.style}
        colours = {style.color if style.reverse else style.bgcolor for style in styles}
        assert len(colours) == 2 and view.rich_style.bgcolor not in colours


async def test_the_last_column_is_drawn_when_the_scroll_bar_has_gone() -> None:
    """A view that is made lower shows a scroll bar until whoever fills it has made fewer lines."""
    app = Viewer()
    lines: list[SpanLine] = [(("x" * 40, ""),)] * 10
    async with running(app, (40, 10), notifications=False) as pilot:
        view = app.query_one(LineWidget)
        view.show_lines(lines)
        await pilot.pause()
        view.take_rows(9)
        await pilot.pause()
        assert drawn_rows(app)[0] != "x" * 40
        view.show_lines(lines[:9])
        await pilot.pause()
        assert drawn_rows(app)[:9] == ["x" * 40] * 9


async def test_a_style_that_changes_is_drawn_anew_and_others_are_not() -> None:
    app = Viewer()
    async with running(app, (40, 10), notifications=False):
        view = app.query_one(LineWidget)
        view.show_lines([((" in", "in"), (" plain", ""))])
        await settle(app)
        drawn = [view.render_line(0)]
        refreshed: list[bool] = []
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(
                LineWidget, "refresh", lambda self, *given, **named: refreshed.append(True)
            )
            view.notify_style_update()
            assert refreshed == [], "nothing is different"
        app.theme = "textual-light"
        await settle(app)
        drawn.append(view.render_line(0))
        colours = [
            [segment.style.color for segment in strip if segment.style is not None]
            for strip in drawn
        ]
        assert all(
            before != after for before, after in zip(*(one[:2] for one in colours), strict=True)
        )


async def test_a_style_that_there_is_not_is_refused() -> None:
    app = Viewer()
    async with running(app, (40, 10), notifications=False):
        view = app.query_one(LineWidget)
        view.show_lines([((" in", "nosuch"),)])
        with pytest.raises(KeyError, match="nosuch"):
            view.render_line(0)
        view.show_lines([])
