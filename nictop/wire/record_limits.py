"""Limits on decoded records: a line is checked before it is decoded, a record before it is used.

Reads nothing. The limits are in `nictop.limits`. A field above its limit is emptied and listed in
`unreadable` of its record; if the record has no such mapping, the line is rejected.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from typing import Any, Literal, Union, get_args, get_origin

import msgspec

from nictop import limits
from nictop.errors import NictopError
from nictop.probe.light_dataclasses import set_field
from nictop.probe.records import (
    ChangeLine,
    Clock,
    Connections,
    Counters,
    Hello,
    Inventory,
    LinkChange,
    Outdated,
    Pong,
    PortCounts,
    TrafficLine,
    Trouble,
    Unreadable,
)
from nictop.wire.record_types import field_types, has_needed_fields, is_record

Record = (
    Hello
    | Inventory
    | Counters
    | LinkChange
    | Trouble
    | Pong
    | TrafficLine
    | ChangeLine
    | Clock
    | Connections
    | Outdated
)
"""What a `Line` holds."""
Check = Callable[[Any], str]
"""What is wrong with a value, for example ``more than 16 entries``; "" when it is valid."""


MAX_SHARED_TEXTS, MAX_SHARED_CHARS = 4096, 64
"""How many texts are remembered so that records share them, and how long they are at most: a
quarter of the memory of a large inventory are equal drivers, states and CPU lists."""
_shared_texts: dict[str, str] = {}


class LimitError(NictopError):
    """A line holds more than a limit allows."""


class _NetworkManagerSize(msgspec.Struct, gc=False):
    profiles: list[msgspec.Raw] = []
    devices: dict[str, msgspec.Raw] = {}


class _InventorySize(msgspec.Struct, gc=False):
    """The collections that may have the most entries. The content of an entry is skipped."""

    links: list[msgspec.Raw] = []
    pci: list[msgspec.Raw] = []
    networkmanager: _NetworkManagerSize | None = None
    settings: msgspec.Raw = msgspec.Raw(b"{}")
    interrupts: list[msgspec.Raw] = []
    threads: list[msgspec.Raw] = []
    configuration: list[msgspec.Raw] = []
    forwarding: list[msgspec.Raw] = []
    messages: list[msgspec.Raw] | None = None
    guests: list[msgspec.Raw] | None = None
    leases: list[msgspec.Raw] = []
    switch_ports: list[msgspec.Raw] = []


class _LineSize(msgspec.Struct, gc=False):
    inventory: _InventorySize | None = None


_LEFT_OUT = (
    *("interrupts", "threads", "configuration", "forwarding", "messages"),
    *("guests", "leases", "switch_ports"),
)
"""Collections that are not decoded when they have too many entries."""

_sizes = msgspec.json.Decoder(_LineSize)
_parts = msgspec.json.Decoder(dict[str, msgspec.Raw])


def check_line(
    line: bytes | bytearray | memoryview,
) -> tuple[bytes | bytearray | memoryview, dict[str, str]]:
    """The line without those fields of an inventory that have too many entries, and what is wrong
    with each of them. Raises LimitError for a line that would take too much time or memory to
    decode nevertheless, and msgspec's errors for some that are not records. Costs a tenth of the
    decoding, and nothing for a small line."""
    if len(line) <= limits.MAX_SMALL_LINE_BYTES:
        return line, {}
    text = bytes(line) if isinstance(line, memoryview) else line
    _check_size(text)
    found = _sizes.decode(text).inventory
    if found is None:
        return line, {}
    _check_needed(found)
    wrong = _left_out(found)
    if not wrong:
        return line, {}
    return _without(text, wrong), wrong


def _check_size(text: bytes | bytearray) -> None:
    """Raises LimitError for a line that is too large for what it begins with."""
    max_bytes, max_values = limits.MAX_OTHER_LINE_BYTES, limits.MAX_LINE_VALUES
    for beginning, sizes in limits.MAX_LINE_SIZES.items():
        if text.startswith(beginning):
            max_bytes, max_values = sizes
            break
    if len(text) > max_bytes:
        raise LimitError(f"line of {len(text)} bytes exceeds {max_bytes}")
    if text.count(b"{") > limits.MAX_LINE_OBJECTS:
        raise LimitError(f"more than {limits.MAX_LINE_OBJECTS} records in one line")
    if text.count(b",") > max_values:
        raise LimitError(f"more than {max_values} values in one line")


def _check_needed(found: _InventorySize) -> None:
    """Raises LimitError for too many of what an inventory cannot be without."""
    manager = found.networkmanager or _NetworkManagerSize()
    for name, number, limit in (
        ("links", len(found.links), limits.MAX_LINKS),
        ("PCI functions", len(found.pci), limits.MAX_PCI_FUNCTIONS),
        ("profiles", len(manager.profiles), limits.MAX_PROFILES),
        ("managed devices", len(manager.devices), limits.MAX_LINKS),
    ):
        if number > limit:
            raise LimitError(f"more than {limit} {name}")


def _left_out(found: _InventorySize) -> dict[str, str]:
    """Fields that are not decoded → what is wrong with them."""
    wrong = {}
    for name in _LEFT_OUT:
        limit = limits.MAX_ENTRIES[f"Inventory.{name}"]
        if len(getattr(found, name) or ()) > limit:
            wrong[name] = _more_than(limit, "entries")
    if bytes(found.settings).count(b":") > limits.MAX_SETTINGS_VALUES:
        wrong["settings"] = _more_than(limits.MAX_SETTINGS_VALUES, "values")
    return wrong


def _without(text: bytes | bytearray, names: Iterable[str]) -> bytes:
    """The line of an inventory without these fields."""
    record = _parts.decode(text)
    inventory = _parts.decode(record["inventory"])
    for name in names:
        del inventory[name]
    return msgspec.json.encode({**record, "inventory": inventory})


def mark_unreadable(record: Inventory, wrong: dict[str, str]) -> None:
    """List the fields that `check_line` has left out. Modifies `record`: call it before the record
    is shared."""
    for name, reason in wrong.items():
        record.unreadable[name] = Unreadable("malformed", reason)


def limit_record(record: Record) -> None:
    """Empty the fields above their limit and list them in `unreadable`; raises LimitError where
    that is not possible. Modifies `record`: call it before the record is shared. Every record of a
    `Line` has limits: those of its types."""
    kind: Any = type(record)
    if isinstance(record, Counters):
        wrong = _limit_counters(record)
    else:
        wrong = _record_check(kind)(record)
    if wrong:
        raise LimitError(wrong)


_COUNTERS = tuple(
    (name, limits.MAX_ENTRIES[f"Counters.{name}"])
    for name in field_types(Counters)
    if f"Counters.{name}" in limits.MAX_ENTRIES
)


def _texts_of_machine(interrupts: Iterable[Any]) -> Iterator[str]:
    for interrupt in interrupts:
        yield interrupt.label
        yield interrupt.description


def _names_of_queues(queues: Mapping[int, Iterable[Any]]) -> Iterator[str]:
    for rows in queues.values():
        for row in rows:
            yield row[0]


def _texts_of_ports(ports: dict[int, PortCounts]) -> Iterator[str]:
    for counted in ports.values():
        yield counted.source
        yield from counted.errors


_COUNTER_TEXTS: dict[str, Callable[[Any], Iterable[str]]] = {
    "machine": _texts_of_machine,
    "ports": _texts_of_ports,
    "queues": _names_of_queues,
    "stack": iter,
}
"""Field → the texts in it."""


def _limit_counters(counters: Counters) -> str:
    """Of the collections only their size and their texts are checked: their content is limited by
    the number of values in a line."""
    wrong = {}
    for name, limit in _COUNTERS:
        collection = getattr(counters, name)
        if collection and len(collection) > limit:
            wrong[name] = _more_than(limit, "entries")
    for name, texts in _COUNTER_TEXTS.items():
        collection = getattr(counters, name)
        if not collection:
            continue
        if max(map(len, texts(collection)), default=0) > limits.MAX_TEXT_CHARS:
            wrong.setdefault(name, _more_than(limits.MAX_TEXT_CHARS, "characters"))
    for name, reason in wrong.items():
        set_field(counters, name, None if name == "machine" else {})
        counters.unreadable[name] = Unreadable("malformed", reason)
    return _counters_unreadable(counters.unreadable)


def _more_than(limit: int, what: str) -> str:
    return f"more than {limit} {what}"


@cache
def _record_check(record: Any) -> Check:
    """The check of a record class; it empties fields above their limit."""
    hints = field_types(record)
    judged = []
    kept = {"unreadable"}
    """Fields that cannot be emptied."""
    for name, hint in hints.items():
        check = _check(hint, f"{record.__name__}.{name}")
        if check is not None:
            is_text = hint in (str, str | None)
            judged.append((name, check, is_text, type(None) in get_args(hint)))
        if is_record(hint) and has_needed_fields(hint):
            kept.add(name)
    has_reasons = get_origin(hints.get("unreadable")) is dict
    if not judged:
        return _nothing_to_check

    def check_record(value: Any) -> str:
        for name, check, is_text, is_optional in judged:
            present_value = getattr(value, name)
            if not present_value:
                continue
            wrong = check(present_value)
            if not wrong:
                if is_text and len(present_value) <= MAX_SHARED_CHARS:
                    known = _shared_texts.get(present_value)
                    if known is None:
                        _remember(present_value)
                    else:
                        set_field(value, name, known)
                continue
            if not has_reasons or name in kept:
                return f"{wrong} in {name}"
            set_field(value, name, _emptied(present_value, is_optional=is_optional))
            value.unreadable[name] = Unreadable("malformed", wrong)
        return ""

    return check_record


def _remember(text: str) -> None:
    if len(_shared_texts) >= MAX_SHARED_TEXTS:
        _shared_texts.clear()
    _shared_texts[text] = text


def _nothing_to_check(value: Any) -> str:
    """The check of a record class without texts and collections."""
    return ""


def _emptied(value: Any, *, is_optional: bool) -> Any:
    """The value that replaces one above its limit: a text is truncated, everything else is
    emptied."""
    if isinstance(value, str):
        return value[: limits.MAX_TEXT_CHARS]
    return None if is_optional else type(value)()


_WITHOUT_LIMIT = frozenset((int, float, bool, type(None)))


def _check(hint: Any, path: str) -> Check | None:
    """The check of a value of this type at ``Record.field``; None: every value is valid."""
    if hint is str:
        return _text_check(path)
    if hint in _WITHOUT_LIMIT:
        return None
    if is_record(hint):
        check = _record_check(hint)
        return None if check is _nothing_to_check else check
    origin, arguments = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        return _optional_check(_first_check(arguments, path))
    if origin is dict:
        return _collection_check(dict.values, [_check(part, path) for part in arguments], path)
    if arguments == (str, ...):
        return _texts_check(path)
    if origin is tuple:
        items = [part for part in arguments if part is not ...]
        return _collection_check(iter, [None, _first_check(items, path)], path)
    assert origin is Literal, hint
    return None


def _first_check(hints: Iterable[Any], path: str) -> Check | None:
    """The check of the first of these types that needs one; no field has two that do."""
    checks = [_check(hint, path) for hint in hints]  # of all: each must be known
    return next(filter(None, checks), None)


def _text_check(path: str) -> Check:
    limit = limits.MAX_CHARS.get(path, limits.MAX_TEXT_CHARS)

    def check(value: Any) -> str:
        if isinstance(value, str) and len(value) > limit:
            return _more_than(limit, "characters")
        return ""

    return check


def _optional_check(check: Check | None) -> Check | None:
    """The check of a value that may be missing, too."""
    if check is None:
        return None

    def check_present(value: Any) -> str:
        return "" if value is None else check(value)

    return check_present


def _collection_check(values: Callable[[Any], Any], checks: list[Check | None], path: str) -> Check:
    """The check of a collection; `checks` are those of its keys and of its values."""
    limit = limits.MAX_ENTRIES.get(path, limits.MAX_OTHER_ENTRIES)
    key_check, value_check = checks

    def check(value: Any) -> str:
        if len(value) > limit:
            return _more_than(limit, "entries")
        if key_check is not None:
            for item in value:
                if wrong := key_check(item):
                    return wrong
        if value_check is not None:
            for item in values(value):
                if wrong := value_check(item):
                    return wrong
        return ""

    return check


def _texts_check(path: str) -> Check:
    """The check of a tuple of strings: separate because it is faster and there are very many."""
    limit = limits.MAX_ENTRIES.get(path, limits.MAX_OTHER_ENTRIES)
    max_chars = limits.MAX_CHARS.get(path, limits.MAX_TEXT_CHARS)

    def check(value: Any) -> str:
        if len(value) > limit:
            return _more_than(limit, "entries")
        if max(map(len, value)) > max_chars:
            return _more_than(max_chars, "characters")
        return ""

    return check


_counters_unreadable = _collection_check(
    dict.values,
    [_text_check("Counters.unreadable"), _record_check(Unreadable)],
    "Counters.unreadable",
)
