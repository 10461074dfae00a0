"""Bars of characters. Pure."""

from __future__ import annotations

from nictop.model.text.glyphs import UNICODE, Glyphs


def bar(share: float | None, cells: int, glyphs: Glyphs = UNICODE) -> str:
    """`share` (0 to 1) of `cells` cells, in eighths of a cell (ASCII: whole cells); a share above 0
    shows at least the smallest mark."""
    steps = len(glyphs.bar)
    filled = round(min(1.0, max(0.0, share or 0.0)) * cells * steps)
    if not filled and share:
        filled = 1
    full, rest = divmod(filled, steps)
    return (glyphs.bar[-1] * full + (glyphs.bar[rest - 1] if rest else "")).ljust(cells)[:cells]
