"""A picture of a screen as SVG that is the same in every viewer: characters are outlines, blocks
and lines are shapes, so that no font is needed and columns stand straight. `text_of` gives the text
of a picture."""

from __future__ import annotations

import io
import os
import re
from collections.abc import Iterable, Iterator
from html import escape, unescape
from itertools import groupby
from typing import NamedTuple

from rich.cells import cell_len
from rich.color import Color, blend_rgb
from rich.console import Console
from rich.segment import Segment
from rich.style import Style
from rich.terminal_theme import SVG_EXPORT_THEME
from textual.app import App

from tests.support.outlines import CELL_WIDTH, add_outlines, outline
from tests.support.shapes import shape

CELL_HEIGHT = 24.0
MARGIN, BAR = 8.0, 30.0
"""Around the screen, and the height of the bar above it."""
BUTTONS = ("#ff5f57", "#febc2e", "#28c840")
UNDERLINE = 20.0
"""Its place below the top of a cell."""
DIM_SHARE = 0.5


class Cell(NamedTuple):
    """One character."""

    text: str
    column: int
    colour: str
    ground: str
    bold: bool
    underline: bool


Rows = list[list[Cell]]
GlyphNames = dict[tuple[str, str], str]
"""(style, character) → id of its outline."""


def picture_of(app: App[None]) -> str:
    """The screen as it is now."""
    width, height = app.size
    return _svg(screen_rows(app), width, height)


def screen_rows(app: App[None]) -> Rows:
    """The characters of the screen, row by row."""
    return [list(_cells(line)) for line in _lines(app)]


def text_of(picture: str) -> list[str]:
    """The lines of a picture."""
    found = re.search(r"<desc>(.*?)</desc>", picture, re.DOTALL)
    assert found is not None, "no picture of `picture_of`"
    return unescape(found[1]).split("\n")


def rows_text(rows: Rows) -> str:
    return "\n".join("".join(cell.text for cell in row).rstrip() for row in rows)


def _lines(app: App[None]) -> Iterator[list[Segment]]:
    width, height = app.size
    console = Console(
        width=width, height=height, file=io.StringIO(), force_terminal=True,
        color_system="truecolor", record=True, legacy_windows=False, safe_box=False,
    )  # fmt: skip
    console.print(
        app.screen._compositor.render_update(
            full=True, screen_stack=app._background_screens, simplify=True
        )
    )
    segments = Segment.filter_control(console._record_buffer)
    return iter(
        list(Segment.split_and_crop_lines(segments, width, include_new_lines=False))[:height]
    )


def _cells(line: Iterable[Segment]) -> Iterator[Cell]:
    column = 0
    for text, style, _ in line:
        colour, ground = _colours(style or Style.null())
        bold, underline = bool(style and style.bold), bool(style and style.underline)
        for character in text:
            yield Cell(character, column, colour, ground, bold, underline)
            column += cell_len(character)


def _colours(style: Style) -> tuple[str, str]:
    theme = SVG_EXPORT_THEME
    front = _triplet(style.color, foreground=True)
    back = _triplet(style.bgcolor, foreground=False)
    if style.reverse:
        front, back = back, front
    if style.dim:
        front = blend_rgb(front, back, DIM_SHARE)
    return front.hex, "" if back == theme.background_color else back.hex


def _triplet(color: Color | None, *, foreground: bool):  # type: ignore[no-untyped-def]
    theme = SVG_EXPORT_THEME
    if color is None or color.is_default:
        return theme.foreground_color if foreground else theme.background_color
    return color.get_truecolor(theme)


# ------------------------------------------------------------------------------------------ drawing


def _svg(rows: Rows, columns: int, lines: int) -> str:
    names = glyph_names(rows)
    parts = [*head(columns, lines, rows_text(rows)), *definitions(names)]
    for number, row in enumerate(rows):
        drawn = drawn_row(row, names)
        if drawn:
            parts.append(f"<g {row_place(number)}>{drawn}</g>")
    return "\n".join((*parts, "</svg>")) + "\n"


def glyph_names(rows: Rows) -> GlyphNames:
    """Of all characters that are drawn as outlines; `make screenshots` stores those that are
    new."""
    used = sorted({_key(cell) for row in rows for cell in row if _needs_outline(cell)})
    if os.environ.get("NICTOP_DRAW_SCREENSHOTS"):
        add_outlines(set(used))
    return {key: f"{'b' if key[0] == 'bold' else 'r'}{ord(key[1]):x}" for key in used}


def row_place(number: int) -> str:
    """Attribute of the group of a row."""
    return f'transform="translate({MARGIN:g} {BAR + number * CELL_HEIGHT:g})"'


def head(columns: int, lines: int, text: str, style: str = "") -> list[str]:
    """The window without its content. `style`: more of the style sheet."""
    width, height = columns * CELL_WIDTH + 2 * MARGIN, lines * CELL_HEIGHT + BAR + MARGIN
    return [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}" role="img">',
        f"<title>nictop</title><desc>{escape(text, quote=False)}</desc>",
        f'<rect width="{width:g}" height="{height:g}" rx="8" '
        f'fill="{SVG_EXPORT_THEME.background_color.hex}"/>',
        *(
            f'<circle cx="{18 + 20 * number}" cy="15" r="6" fill="{fill}"/>'
            for number, fill in enumerate(BUTTONS)
        ),
        # without seams between neighbours where a cell is no whole number of pixels
        f"<style>rect {{ shape-rendering: crispEdges }}{style}</style>",
    ]


def definitions(names: GlyphNames) -> list[str]:
    """The outlines."""
    paths = [
        f'<path id="{name}" d="{outline(character, weight)}"/>'
        for (weight, character), name in names.items()
    ]
    return ["<defs>", *paths, "</defs>"]


def drawn_row(row: list[Cell], names: GlyphNames) -> str:
    return "".join((*_grounds(row), *_inks(row, names)))


def _grounds(row: list[Cell]) -> Iterator[str]:
    for ground, run in groupby(row, key=lambda cell: cell.ground):
        cells = list(run)
        if ground:
            yield _rectangle(
                cells[0].column * CELL_WIDTH, 0, _width(cells), CELL_HEIGHT, f' fill="{ground}"'
            )


def _inks(row: list[Cell], names: GlyphNames) -> Iterator[str]:
    """One group for each run of a colour."""
    for colour, run in groupby(row, key=lambda cell: cell.colour):
        cells = list(run)
        inner = "".join((*_characters(cells, names), *_underlines(cells)))
        if inner:
            yield f'<g fill="{colour}">{inner}</g>'


def _characters(cells: list[Cell], names: GlyphNames) -> Iterator[str]:
    for key, run in groupby(cells, key=_key):
        same = list(run)
        if same[0].text.isspace():
            continue
        if key in names:
            for cell in same:
                place = f' x="{cell.column * CELL_WIDTH:g}"' if cell.column else ""
                yield f'<use href="#{names[key]}"{place}/>'
            continue
        for left, top, right, bottom, opacity in shape(key[1], len(same)):
            more = f' fill-opacity="{opacity:g}"' if opacity < 1 else ""
            begin = same[0].column * CELL_WIDTH
            yield _rectangle(begin + left, top, right - left, bottom - top, more)


def _underlines(cells: list[Cell]) -> Iterator[str]:
    for underline, run in groupby(cells, key=lambda cell: cell.underline):
        same = list(run)
        if underline:
            yield _rectangle(same[0].column * CELL_WIDTH, UNDERLINE, _width(same), 1.5)


def _rectangle(x: float, y: float, width: float, height: float, more: str = "") -> str:
    return f'<rect x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}"{more}/>'


def _width(cells: list[Cell]) -> float:
    return sum(cell_len(cell.text) for cell in cells) * CELL_WIDTH


def _key(cell: Cell) -> tuple[str, str]:
    """(style, character); shapes have no style."""
    return ("bold" if cell.bold and not shape(cell.text, 1) else "regular", cell.text)


def _needs_outline(cell: Cell) -> bool:
    return not cell.text.isspace() and not shape(cell.text, 1)
