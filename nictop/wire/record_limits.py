"""Limits of what is decoded: lines are judged before they become records, records before anybody else has them.

Reads nothing. The numbers are those of `nictop.limits`. A field that holds more is emptied and named in `unreadable` of
its record; where the record has no such mapping, the line is refused.
"""

from __future__ import annotations

import types
from collections.abc import Callable
from dataclasses import fields, is_dataclass
from functools import cache
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import msgspec

from nictop import limits
from nictop.errors import NictopError
from nictop.probe.records import Counters, Inventory, Unreadable

Check = Callable[[Any], str]
"""What is wrong with a value: ``more than 16 entries``; "" for nothing."""


class LimitError(NictopError):
    """A line holds more than any host has."""


class _Entry(msgspec.Struct, gc=False):
    """Any JSON object: all that is in it is passed over."""


class _NetworkManagerSize(msgspec.Struct, gc=False):
    profiles: list[_Entry] = []
    devices: dict[str, _Entry] = {}


class _InventorySize(msgspec.Struct, gc=False):
    links: list[_Entry] = []
    pci: list[_Entry] = []
    networkmanager: _NetworkManagerSize | None = None


class _LineSize(msgspec.Struct, gc=False):
    """How many there are of the records that take kilobytes each."""

    inventory: _InventorySize | None = None


_sizes = msgspec.json.Decoder(_LineSize)


def check_line(line: bytes | bytearray | memoryview) -> None:
    """Raises LimitError for a line that would take too much time or memory to decode, and msgspec's errors for some
    that are no records. Costs a tenth of decoding it, and nothing for a small one."""
    if len(line) <= limits.LARGEST_SMALL_LINE:
        return
    text = bytes(line) if isinstance(line, memoryview) else line
    known = (found for words, found in limits.LARGEST_LINES.items() if text.startswith(words))
    largest, most_values = next(known, (limits.LARGEST_OTHER_LINE, limits.MOST_VALUES))
    if len(line) > largest:
        raise LimitError(f"a line of {len(line)} bytes is longer than {largest}")
    if text.count(b"{") > limits.MOST_OBJECTS:
        raise LimitError(f"more than {limits.MOST_OBJECTS} records in one line")
    if text.count(b",") > most_values:
        raise LimitError(f"more than {most_values} values in one line")
    found = _sizes.decode(text).inventory
    if found is None:
        return
    manager = found.networkmanager or _NetworkManagerSize()
    for name, number, most in (
        ("links", len(found.links), limits.MOST_LINKS),
        ("PCI functions", len(found.pci), limits.MOST_PCI_FUNCTIONS),
        ("profiles", len(manager.profiles), limits.MOST_PROFILES),
        ("managed devices", len(manager.devices), limits.MOST_LINKS),
    ):
        if number > most:
            raise LimitError(f"more than {most} {name}")


def limit_record(record: Inventory | Counters) -> None:
    """Empty the fields that hold more than any host has, and say so in `unreadable`; raises LimitError where that is
    not possible. Only for a record that nobody else has seen yet."""
    wrong = _limit_counters(record) if isinstance(record, Counters) else _check_of(Inventory)(record)
    if wrong:
        raise LimitError(wrong)


_COUNTERS = tuple(
    (field.name, limits.COLLECTIONS[f"Counters.{field.name}"])
    for field in fields(Counters)
    if f"Counters.{field.name}" in limits.COLLECTIONS
)


def _limit_counters(counters: Counters) -> str:
    """The number of values in a line limits what is within the collections."""
    found = vars(counters)
    for name, most in _COUNTERS:
        if found.get(name) and len(found[name]) > most:
            found[name] = None if name == "machine" else {}
            counters.unreadable[name] = Unreadable("malformed", _more(most, "entries"))
    return ""


def _more(most: int, what: str) -> str:
    return f"more than {most} {what}"


@cache
def _check_of(record: Any) -> Check:
    """What judges the fields of a record class, and empties them."""
    hints, own = get_type_hints(record), fields(record)
    checks = [(field, _check(hints[field.name], f"{record.__name__}.{field.name}")) for field in own]
    judged = [(field.name, check, field.default is None) for field, check in checks if check is not None]
    has_reasons = "unreadable" in hints

    def check_record(value: Any) -> str:
        found = vars(value)
        for name, check, is_optional in judged:
            held = found.get(name)  # a default of the class is not in it
            wrong = check(held) if held else ""
            if wrong and (not has_reasons or name == "unreadable"):
                return f"{wrong} in {name}"
            if wrong:
                found[name] = _nothing(held, is_optional=is_optional)
                found["unreadable"][name] = Unreadable("malformed", wrong)
        return ""

    return check_record


def _nothing(value: Any, *, is_optional: bool) -> Any:
    """What stands for a field that holds too much: a text is cut, of anything else nothing is left."""
    if isinstance(value, str):
        return value[: limits.LONGEST_TEXT]
    return None if is_optional else type(value)()


def _check(hint: Any, path: str) -> Check | None:
    """What judges a value of this type at ``Record.field``; None: nothing can be wrong with it."""
    origin, arguments = get_origin(hint), get_args(hint)
    if hint is str:
        longest = limits.TEXTS.get(path, limits.LONGEST_TEXT)
        return lambda value: _more(longest, "characters") if isinstance(value, str) and len(value) > longest else ""
    if is_dataclass(hint) and isinstance(hint, type):
        return _check_of(hint)
    if origin in (Union, types.UnionType):
        found = [check for check in (_check(part, path) for part in arguments) if check is not None]
        check = found[0] if found else None
        return None if check is None else lambda value: check(value) if value is not None else ""
    if origin is dict:
        return _check_of_many(dict.values, [_check(part, path) for part in arguments], path)
    if arguments == (str, ...):
        return _check_texts(path)
    if origin is tuple:
        found = [check for check in (_check(part, path) for part in arguments if part is not ...) if check is not None]
        return _check_of_many(iter, [None, found[0] if found else None], path)
    assert origin is Literal or hint in (int, float, bool, type(None)), hint
    return None


def _check_of_many(values: Callable[[Any], Any], checks: list[Check | None], path: str) -> Check:
    """A collection whose keys and values are judged by `checks`."""
    most = limits.COLLECTIONS.get(path, limits.MOST_OF_ALL)
    of_key, of_value = checks

    def check(value: Any) -> str:
        if len(value) > most:
            return _more(most, "entries")
        if of_key is not None:
            for one in value:
                if wrong := of_key(one):
                    return wrong
        if of_value is not None:
            for one in values(value):
                if wrong := of_value(one):
                    return wrong
        return ""

    return check


def _check_texts(path: str) -> Check:
    """The same for a tuple of texts, of which there are very many."""
    most, longest = limits.COLLECTIONS.get(path, limits.MOST_OF_ALL), limits.TEXTS.get(path, limits.LONGEST_TEXT)

    def check(value: Any) -> str:
        if len(value) > most:
            return _more(most, "entries")
        return _more(longest, "characters") if max(map(len, value)) > longest else ""

    return check
