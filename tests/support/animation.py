"""Several screens as one animated picture: an SVG whose rows are shown and hidden by CSS.

A row that several screens have in common is in the file once. Where nothing is animated, as in
rsvg-convert, and for readers who prefer reduced motion, the picture is its first screen.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from textual.app import App

from tests.support.picture import (
    Cell,
    Rows,
    definitions,
    drawn_row,
    glyph_names,
    head,
    row_place,
    rows_text,
    screen_rows,
)

CAPTION_PLACE = 'transform="translate(92 3)"'
"""In the bar, behind the buttons."""
CAPTION_COLOUR = "#c5c8c6"
STILL = "\n@media (prefers-reduced-motion: reduce) { g { animation: none !important } }\n"

Shown = tuple[int, ...]
"""Numbers of the screens that have a part."""


class Frame(NamedTuple):
    """A screen, and how long it is shown."""

    rows: Rows
    caption: str
    seconds: float


def frame_of(app: App[None], caption: str, seconds: float) -> Frame:
    """The screen as it is now."""
    return Frame(screen_rows(app), caption, seconds)


def animation_of(frames: Sequence[Frame], columns: int, lines: int) -> str:
    captions = [_caption_cells(frame.caption) for frame in frames]
    names = glyph_names([*captions, *(row for frame in frames for row in frame.rows)])
    parts: dict[tuple[str, str], list[int]] = {}
    for number, (frame, caption) in enumerate(zip(frames, captions, strict=True)):
        drawn = [(CAPTION_PLACE, drawn_row(caption, names))]
        drawn += [(row_place(row), drawn_row(cells, names)) for row, cells in enumerate(frame.rows)]
        for part in drawn:
            parts.setdefault(part, []).append(number)
    shown = {part: tuple(numbers) for part, numbers in parts.items() if part[1]}
    animated = sorted({numbers for numbers in shown.values() if len(numbers) < len(frames)})
    style = _animations(animated, [frame.seconds for frame in frames]) + STILL
    text = "\n\n".join(f"{frame.caption}\n{rows_text(frame.rows)}" for frame in frames)
    groups = [_group(place, drawn, numbers, animated) for (place, drawn), numbers in shown.items()]
    found = [*head(columns, lines, text, style), *definitions(names), *groups, "</svg>"]
    return "\n".join(found) + "\n"


def _caption_cells(caption: str) -> list[Cell]:
    return [
        Cell(character, column, CAPTION_COLOUR, "", bold=False, underline=False)
        for column, character in enumerate(caption)
    ]


def _group(place: str, drawn: str, numbers: Shown, animated: Sequence[Shown]) -> str:
    if numbers not in animated:
        return f"<g {place}>{drawn}</g>"
    still = "" if 0 in numbers else ' visibility="hidden"'
    return f'<g class="a{animated.index(numbers)}"{still} {place}>{drawn}</g>'


def _animations(animated: Iterable[Shown], seconds: Sequence[float]) -> str:
    """A class for each set of screens: its parts are in sight while one of them is shown."""
    whole = sum(seconds)
    begins = [sum(seconds[:number]) / whole for number in range(len(seconds))]
    rules = []
    for name, numbers in enumerate(animated):
        steps = []
        for number, begin in enumerate(begins):
            is_shown = number in numbers
            if number == 0 or is_shown != (number - 1 in numbers):
                word = "visible" if is_shown else "hidden"
                steps.append(f"{100 * begin:.4g}% {{ visibility: {word} }}")
        rules.append(f"@keyframes a{name} {{ {' '.join(steps)} }}")
        rules.append(f".a{name} {{ animation: a{name} {whole:g}s step-end infinite }}")
    return "\n" + "\n".join(rules)
