"""Names of hosts in few cells, such that different ones look different."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from itertools import takewhile

from nictop.model.text.terminal import clean, fit, fit_middle, width

ELLIPSIS = "…"
MIN_NAME_CELLS = 6
"""Of a name in a path that does not fit."""


def short_names(names: Iterable[str]) -> dict[str, str]:
    """Name → name without what all begin with, up to a separator: ``001`` and ``002`` of
    alma-load-001 and alma-load-002."""
    names = tuple(names)
    if len(names) < 2:
        return {name: name for name in names}
    same = takewhile(lambda column: len(set(column)) == 1, zip(*names, strict=False))
    prefix = "".join(column[0] for column in same)
    start = max(prefix.rfind(separator) for separator in "-._") + 1
    return {name: name[start:] or name for name in names}


def distinct_names(names: Iterable[str], cells: int) -> dict[str, str]:
    """Name → name; those that would look the same once they are cut to `cells` are shown by the
    first of `_WAYS` that tells them apart."""
    shown = {name: name for name in names}
    for way in _WAYS:
        for alike in _alike(shown, cells):
            shown.update(way(alike, cells))
    return shown


def _alike(shown: Mapping[str, str], cells: int) -> list[list[str]]:
    """Names that look the same in `cells` cells, by what they look like."""
    groups: dict[str, list[str]] = {}
    for name, text in shown.items():
        groups.setdefault(fit(clean(text), cells), []).append(name)
    return [group for group in groups.values() if len(group) > 1]


def _without_begin(names: Iterable[str], cells: int) -> dict[str, str]:
    """``…001.example``: without what they begin with."""
    return {
        name: ELLIPSIS + short if short != name else name
        for name, short in short_names(names).items()
    }


def _with_both_ends(names: Iterable[str], cells: int) -> dict[str, str]:
    """``production…web-001``"""
    return {name: fit_middle(name, cells).rstrip() for name in names}


def _numbered(names: Iterable[str], cells: int) -> dict[str, str]:
    """``produc…#2``: names that differ somewhere in their middle."""
    numbers = {name: f"#{number}" for number, name in enumerate(names, 1)}
    return {
        name: fit(name, cells - len(number)).rstrip() + number for name, number in numbers.items()
    }


def names_in_path(names: tuple[str, str], rest: int, cells: int) -> tuple[str, str]:
    """Two names of hosts in a path of `cells` cells with `rest` other cells: where it does not fit,
    both are cut."""
    if sum(width(clean(name)) for name in names) + rest <= cells:
        return names
    room = max(MIN_NAME_CELLS, (cells - rest) // 2)
    shown = distinct_names(names, room)
    first, second = (fit(shown[name], room).rstrip() for name in names)
    return first, second


_WAYS: tuple[Callable[[Iterable[str], int], dict[str, str]], ...] = (
    _with_both_ends,
    _without_begin,
    _numbered,
)
