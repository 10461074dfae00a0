"""The place of a NIC (`nictop.model.place`) in lines, as lstopo(1) draws a machine:

machine  2 NUMA nodes
└ NUMA node 0  CPUs 0-15
  └ root port 0000:00:1c.0  PCIe 8 GT/s ×8
    └ 0000:03:00.0  82576 · PCIe 5 GT/s ×4 (of 8 GT/s ×8)
      ▲ slower or narrower than it can be
      └▸ens224  up · 10G full

Pure. Texts of a host are sanitized here.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal

from nictop.model.place import PlaceLine
from nictop.model.text.glyphs import UNICODE, Glyphs
from nictop.model.text.terminal import clean, width, wrap
from nictop.probe.light_dataclasses import dataclass

BRANCH, MORE, LAST, BLANK = "├ ", "│ ", "└ ", "  "
MAX_DEPTH = 8
MIN_TEXT_CELLS = 10

Style = Literal["dim", "title", "", "warn"]


@dataclass(frozen=True)
class PlacePart:
    """A part of a line, with the name of its style."""

    text: str
    style: Style


def place_lines(
    place: Sequence[PlaceLine], cells: int, *, glyphs: Glyphs = UNICODE
) -> list[tuple[PlacePart, ...]]:
    """Each line with the tree before it; long texts wrap below themselves, and what costs is in a
    line of its own."""
    found: list[tuple[PlacePart, ...]] = []
    for index, line in enumerate(place):
        first, rest = _guides(place, index)
        mark = glyphs.cursor if line.is_own else ""
        lead = glyphs.encode(first) + mark
        below = glyphs.encode(rest)
        indent = max(width(lead), width(below))
        names = wrap(glyphs.text(line.name), max(MIN_TEXT_CELLS, cells - indent))
        style: Style = "title" if line.is_own else ""
        used = indent + width(names[-1])
        beside, others = _texts(glyphs.text(line.text), cells, used, width(below))
        for number, name in enumerate(names):
            found.append((PlacePart(below if number else lead, "dim"), PlacePart(name, "title")))
        found[-1] += (PlacePart(f"  {beside}".rstrip(), style),)
        for text in others:
            found.append((PlacePart(below, "dim"), PlacePart(text, style)))
        if line.cost:
            costs = wrap(glyphs.text(line.cost), max(MIN_TEXT_CELLS, cells - width(below) - 2))
            for number, part in enumerate(costs):
                sign = f"{glyphs.warning} " if number == 0 else "  "
                found.append((PlacePart(below, "dim"), PlacePart(sign + part, "warn")))
    return found


def _texts(text: str, cells: int, used: int, indent: int) -> tuple[str, Sequence[str]]:
    """What is beside a name in a line of which so many cells are used, and the lines below it."""
    room = cells - used - 2
    if not text:
        return "", ()
    if room < MIN_TEXT_CELLS:
        return "", wrap(text, max(MIN_TEXT_CELLS, cells - indent))
    text = clean(text)
    first = wrap(text, room)[0]
    rest = text.removeprefix(first).lstrip()
    return first, wrap(rest, max(MIN_TEXT_CELLS, cells - indent)) if rest else ()


def place_text(place: Sequence[PlaceLine], cells: int, *, glyphs: Glyphs = UNICODE) -> list[str]:
    """The same as text."""
    lines = place_lines(place, cells, glyphs=glyphs)
    return ["".join(part.text for part in parts).rstrip() for parts in lines]


def _guides(place: Sequence[PlaceLine], index: int) -> tuple[str, str]:
    """What is before the name of a line, and before the lines below it."""
    depth = min(place[index].depth, MAX_DEPTH)
    above = "".join(_continues(place, index, depth))
    if depth == 0:
        has_child = _next_depth(place, index) > 0
        return "", MORE if has_child else BLANK
    is_last = not _has_sibling(place, index, depth)
    first = above + (LAST if is_last else BRANCH)
    rest = above + (BLANK if is_last else MORE)
    has_child = _next_depth(place, index) > depth
    return first, rest + (MORE if has_child else BLANK)


def _continues(place: Sequence[PlaceLine], index: int, depth: int) -> Iterator[str]:
    """For each level above: whether another line of it follows."""
    for level in range(1, depth):
        yield MORE if _has_sibling(place, index, level) else BLANK


def _has_sibling(place: Sequence[PlaceLine], index: int, depth: int) -> bool:
    """A line of this depth follows, below the same line."""
    for line in place[index + 1 :]:
        if line.depth == depth:
            return True
        if line.depth < depth:
            return False
    return False


def _next_depth(place: Sequence[PlaceLine], index: int) -> int:
    return place[index + 1].depth if index + 1 < len(place) else 0
