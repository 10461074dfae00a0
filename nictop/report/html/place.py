"""The place of a NIC in its machine as inline SVG: boxes within boxes, as lstopo(1) draws them.

Reads nothing; takes the lines of `nictop.model.place`. Colours are in the style sheet of the page.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from nictop.model.place import PlaceLine
from nictop.model.text.terminal import fit, width
from nictop.probe.light_tuples import NamedTuple
from nictop.report.html.charts import CHART_WIDTH, figure, label
from nictop.report.html.elements import Html, element

ROW_HEIGHT, PADDING, INDENT = 20.0, 6.0, 18.0
MAX_DEPTH = 8
CELL_WIDTH = 6.6
"""Of a character, about: longer texts are cut."""
COST_MARK = "▲ "
LEGEND = (
    "box: what is in it is below it; ▲: what costs time or throughput; of devices below the same "
    "port only network functions"
)


def place_figure(place: Sequence[PlaceLine], title: str) -> Html:
    """`title`: of what NIC it is."""
    parts: list[Html] = []
    bottom = PADDING
    for box in _boxes(place):
        parts += _box(box)
        bottom = max(bottom, box.bottom)
    return figure(parts, bottom + PADDING, title, [LEGEND])


class _Box(NamedTuple):
    """A line with everything below it."""

    line: PlaceLine
    top: float
    bottom: float


def _boxes(place: Sequence[PlaceLine]) -> list[_Box]:
    """Those that contain others first."""
    found: list[_Box] = []
    index, top = 0, PADDING
    while index < len(place):
        index, top = _add_box(place, index, top, found)
        top += PADDING
    return sorted(found, key=lambda box: (box.top, -box.bottom))


def _add_box(
    place: Sequence[PlaceLine], index: int, top: float, found: list[_Box]
) -> tuple[int, float]:
    """Index of the line after the box, and its lower edge."""
    line, bottom = place[index], top + _own_height(place[index])
    following = index + 1
    while following < len(place) and _depth(place[following]) > _depth(line):
        following, bottom = _add_box(place, following, bottom, found)
        bottom += PADDING
    found.append(_Box(line, top, bottom))
    return following, bottom


def _own_height(line: PlaceLine) -> float:
    return ROW_HEIGHT * (2 if line.cost else 1) + PADDING


def _depth(line: PlaceLine) -> int:
    return min(line.depth, MAX_DEPTH)


def _box(box: _Box) -> Iterator[Html]:
    line, x = box.line, PADDING + INDENT * _depth(box.line)
    room = CHART_WIDTH - 2 * x
    kind = "own" if line.is_own else "place"
    height = box.bottom - box.top
    yield element("rect", x=x, y=box.top, width=room, height=height, class_=kind)
    cells = int((room - 2 * PADDING) / CELL_WIDTH)
    baseline = box.top + ROW_HEIGHT - PADDING
    text = f"{line.name}  {line.text}".rstrip()
    yield label(_cut(text, cells), x + PADDING, baseline, class_="value")
    if line.cost:
        cost = _cut(f"{COST_MARK}{line.cost}", cells)
        yield label(cost, x + PADDING, baseline + ROW_HEIGHT, class_="cost")


def _cut(text: str, cells: int) -> str:
    return text if width(text) <= cells else fit(text, cells)
