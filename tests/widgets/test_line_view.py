"""Lines are made when they come into view, and laying out is left to those who need other sizes."""

from __future__ import annotations

from textual.app import App, ComposeResult

from nictop.widgets.line_view import CURSOR_MARKS, LineView, SpanLine

LINES = 1000


class Viewer(App[None]):
    """One view of many lines."""

    CSS_PATH = "../../nictop/nictop.tcss"

    def __init__(self) -> None:
        super().__init__()
        self.made: list[int] = []

    def compose(self) -> ComposeResult:
        yield LineView(id="view")

    def line(self, index: int) -> SpanLine:
        self.made.append(index)
        return ((f" line {index}", ""),)


def drawn(view: LineView, y: int) -> str:
    return view.render_line(y).text.rstrip()


async def test_only_lines_in_view_are_made() -> None:
    app = Viewer()
    async with app.run_test(size=(40, 10)) as pilot:
        view = app.query_one(LineView)
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
    async with app.run_test(size=(40, 10)) as pilot:
        view = app.query_one(LineView)
        for cursor in (0, 700, 2):
            view.show_drawn(LINES, app.line, cursor=cursor)
            await pilot.pause()
            rows = [drawn(view, y) for y in range(10)]
            assert f"{CURSOR_MARKS[False]}line {cursor}" in rows
            assert sum(row.startswith(CURSOR_MARKS[False]) for row in rows) == 1


async def test_fewer_lines_leave_nothing_behind() -> None:
    app = Viewer()
    async with app.run_test(size=(40, 10)) as pilot:
        view = app.query_one(LineView)
        view.show_drawn(LINES, app.line)
        view.scroll_to(y=900, animate=False)
        await pilot.pause()
        view.show_drawn(2, app.line)
        await pilot.pause()
        assert [drawn(view, y) for y in range(10)] == [" line 0", " line 1"] + [""] * 8
