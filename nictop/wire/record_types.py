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
    texts = vars(cls).get("__annotations__", {})
    if not all(isinstance(text, str) for text in texts.values()):  # evaluated before
        return []
    module = cls.__module__
    _evaluate_texts(module, [text for text in texts.values() if (module, text) not in _types])
    known = {name: _types[module, text] for name, text in texts.items()}
    if known:
        cls.__annotations__ = {name: hint for name, (hint, _) in known.items()}
    return [records for _, records in known.values()]


def _evaluate_texts(module: str, texts: list[str]) -> None:
    """Into `_types`. They are of nictop's own source. One expression of all: compiling each by
    itself takes twice the time."""
    hints = eval("".join(f"({text}), " for text in texts) or "()", vars(sys.modules[module]))
    for text, hint in zip(texts, hints, strict=True):
        _types[module, text] = hint, _records_in(hint)


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


def has_needed_fields(record: Any) -> bool:
    """There is no empty one."""
    return len(record._defaults) < len(record._names)
