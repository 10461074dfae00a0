"""The types of the fields of records, evaluated from their texts.

msgspec and the limits of records look at all types of all record classes. `typing` would compile
the text of each field anew for each of them, which took a tenth of a start of nictop. Probes
never evaluate one.
"""

from __future__ import annotations

import sys
from typing import Any, get_args

Type = Any
_types: dict[tuple[str, str], tuple[Type, set[type]]] = {}
"""Module and text → the type, and the record classes that it is made of."""


def evaluate_types(record: type) -> None:
    """Let the annotations of a record class, and of all classes that its fields have, be types in
    place of texts."""
    waiting, known = [record], {record}
    while waiting:
        for base in waiting.pop().__mro__:
            for found in _evaluate(base):
                new = found - known
                known |= new
                waiting += new


def field_types(record: type) -> dict[str, Type]:
    """Name of each field → its type."""
    types: dict[str, Type] = {}
    for base in reversed(record.__mro__):
        _evaluate(base)
        types.update(vars(base).get("__annotations__", {}))
    return types


def _evaluate(cls: type) -> list[set[type]]:
    """Evaluate the annotations of one class; returns the record classes in each."""
    types: dict[str, Type] = {}
    records = []
    for name, text in vars(cls).get("__annotations__", {}).items():
        if not isinstance(text, str):  # all of this class were evaluated before
            return []
        types[name], found = _evaluated(cls.__module__, text)
        records.append(found)
    if types:
        cls.__annotations__ = types
    return records


def _evaluated(module: str, text: str) -> tuple[Type, set[type]]:
    """`text` is one of nictop's own source."""
    known = _types.get((module, text))
    if known is None:
        hint = eval(text, vars(sys.modules[module]))
        known = _types[module, text] = hint, _records_in(hint)
    return known


def _records_in(hint: Type) -> set[type]:
    """The record classes that a type is made of."""
    if is_record(hint):
        return {hint}
    found: set[type] = set()
    for argument in get_args(hint):
        found |= _records_in(argument)
    return found


def is_record(hint: Type) -> bool:
    return isinstance(hint, type) and hasattr(hint, "_names")
