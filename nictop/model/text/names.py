"""Names of hosts in few cells, such that different ones look different."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import takewhile

from nictop.model.text.terminal import clean, fit

ELLIPSIS = "…"


def short_names(names: Iterable[str]) -> dict[str, str]:
    """Name → name without what all begin with, up to a separator: ``001`` and ``002`` of alma-load-001 and
    alma-load-002."""
    names = tuple(names)
    same = takewhile(lambda column: len(set(column)) == 1, zip(*names, strict=False))
    prefix = "".join(column[0] for column in same) if len(names) > 1 else ""
    start = max(prefix.rfind(separator) for separator in "-._") + 1
    return {name: name[start:] or name for name in names}


def distinct_names(names: Iterable[str], cells: int) -> dict[str, str]:
    """Name → name; where several would look the same once they are cut to `cells`, without what they begin with:
    ``…001.example``."""
    names = tuple(dict.fromkeys(names))
    if len({fit(clean(name), cells) for name in names}) == len(names):
        return {name: name for name in names}
    return {name: ELLIPSIS + short if short != name else name for name, short in short_names(names).items()}
