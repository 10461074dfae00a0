"""Every text and every collection that a line can hold has a limit: by the types of the records, so
that a new one is included without a change here.
"""

from __future__ import annotations

import dataclasses
import typing
from collections.abc import Iterator
from types import UnionType
from typing import Any, Literal, Union

import msgspec
import pytest

from nictop import limits
from nictop.probe.light_dataclasses import field_mapping
from nictop.probe.records import Line
from nictop.wire import record_limits
from nictop.wire.codec import LineError, decode

HINTS = {name: next(part for part in typing.get_args(hint) if part is not type(None))
         for name, hint in typing.get_type_hints(Line).items()}  # fmt: skip
"""Name of a record in a line → its class."""
UNLIMITED = {"TrafficLine.text"}
"""As long as the longest line."""
LONG = "x" * (max(limit for path, limit in limits.MAX_CHARS.items() if path not in UNLIMITED) + 1)
"""Longer than every other text."""


def without_none(hint: Any) -> Any:
    if typing.get_origin(hint) in (Union, UnionType):
        return next(part for part in typing.get_args(hint) if part is not type(None))
    return hint


def smallest(hint: Any) -> Any:
    """A value of this type, with empty collections."""
    kind, members = without_none(hint), typing.get_args(without_none(hint))
    origin = typing.get_origin(kind)
    if origin is Literal:
        return members[0]
    if origin is tuple:
        return () if members[-1] is ... else tuple(map(smallest, members))
    if origin is dict:
        return {}
    if dataclasses.is_dataclass(kind):
        return record(kind)
    return kind(0) if kind in (int, float, bool) else ""


def record(kind: Any, /, **other: Any) -> dict[str, Any]:
    hints = typing.get_type_hints(kind)
    needed = [
        one.name
        for one in dataclasses.fields(kind)
        if one.default is dataclasses.MISSING and one.default_factory is dataclasses.MISSING
    ]
    return {**{name: smallest(hints[name]) for name in needed}, **other}


def with_long_text(hint: Any, path: str) -> Iterator[tuple[str, Any]]:
    """(record and field, value in which this text is long), for every text in values of this
    type."""
    kind, members = without_none(hint), typing.get_args(without_none(hint))
    origin = typing.get_origin(kind)
    if kind is str:
        yield path, LONG
    elif origin is tuple and members[-1] is ...:
        yield from ((where, [value]) for where, value in with_long_text(members[0], path))
    elif origin is tuple:
        for number, member in enumerate(members):
            for where, value in with_long_text(member, path):
                yield (
                    where,
                    [
                        *map(smallest, members[:number]),
                        value,
                        *map(smallest, members[number + 1 :]),
                    ],
                )
    elif origin is dict:
        if members[0] is str:
            yield path, {LONG: smallest(members[1])}
        key = smallest(members[0])
        yield from ((where, {key: value}) for where, value in with_long_text(members[1], path))
    elif dataclasses.is_dataclass(kind):
        for name, one in typing.get_type_hints(kind).items():
            for where, value in with_long_text(one, f"{kind.__name__}.{name}"):  # type: ignore[union-attr]
                yield where, record(kind, **{name: value})


def long_collections(hint: Any, path: str) -> Iterator[tuple[str, Any]]:
    """(record and field, value with too many entries), for the collections that the fields of a
    record hold."""
    kind, members = without_none(hint), typing.get_args(without_none(hint))
    origin = typing.get_origin(kind)
    many = limits.MAX_ENTRIES.get(path, limits.MAX_OTHER_ENTRIES) + 1
    if origin is tuple and members[-1] is ...:
        yield path, [smallest(members[0])] * many
        yield from (
            (where, [value]) for where, value in long_collections(members[0], path) if where != path
        )
    elif origin is dict:
        keys = map(str, range(many))
        yield path, dict.fromkeys(keys, smallest(members[1]))
        key = smallest(members[0])
        yield from (
            (where, {key: value})
            for where, value in long_collections(members[1], path)
            if where != path
        )
    elif dataclasses.is_dataclass(kind):
        for name, one in typing.get_type_hints(kind).items():
            for where, value in long_collections(one, f"{kind.__name__}.{name}"):  # type: ignore[union-attr]
                yield where, record(kind, **{name: value})


def longest(value: Any) -> tuple[int, int]:
    """The longest text and the largest collection in a record."""
    if isinstance(value, str):
        return len(value), 0
    if isinstance(value, (tuple, dict)):
        inner = [*value, *(value.values() if isinstance(value, dict) else ())]
        size = len(value)
    elif dataclasses.is_dataclass(value):
        inner, size = list(field_mapping(value).values()), 0
    else:
        return 0, 0
    found = list(map(longest, inner))
    return max((text for text, _ in found), default=0), max(
        (number for _, number in found), default=0
    ) or size


def decoded(name: str, value: Any) -> Any:
    """The record, or None: the line was rejected."""
    try:
        return getattr(decode(msgspec.json.encode({name: value})), name)
    except LineError as error:
        assert "more than" in error.message or "exceeds" in error.message, error.message
        return None


def test_the_limits_are_those_of_all_records_of_a_line() -> None:
    assert set(typing.get_args(record_limits.Record)) == set(HINTS.values())


@pytest.mark.parametrize("name", HINTS)
def test_no_text_of_a_record_is_longer_than_its_limit(name: str) -> None:
    tried = 0
    for where, value in with_long_text(HINTS[name], ""):
        if where in UNLIMITED:
            continue
        found = decoded(name, value)
        limit = max(limits.MAX_TEXT_CHARS, limits.MAX_CHARS.get(where, 0))
        assert found is None or longest(found)[0] <= limit, where
        tried += 1
    assert tried or name in ("pong", "clock", "outdated")


@pytest.mark.parametrize("name", [name for name in HINTS if name != "counters"])
def test_no_collection_of_a_record_is_larger_than_its_limit(name: str) -> None:
    """Those of counters are limited by the number of values in a line."""
    for where, value in long_collections(HINTS[name], ""):
        found = decoded(name, value)
        limit = limits.MAX_ENTRIES.get(where, limits.MAX_OTHER_ENTRIES)
        assert found is None or longest(found)[1] <= limit, where


def test_names_in_link_changes_are_short() -> None:
    """As many of them as there are links are kept."""
    change = record(HINTS["link_change"], name="x" * limits.MAX_NAME_CHARS)
    assert decoded("link_change", change) is not None
    assert decoded("link_change", {**change, "name": "x" * (limits.MAX_NAME_CHARS + 1)}) is None


def test_a_record_that_cannot_be_emptied_rejects_the_line() -> None:
    platform = typing.get_type_hints(HINTS["inventory"])["platform"]
    reasons = {str(number): {"reason": "failed"} for number in range(limits.MAX_OTHER_ENTRIES + 1)}
    value = record(HINTS["inventory"], platform=record(platform, unreadable=reasons))
    with pytest.raises(LineError, match="in unreadable in platform"):
        decode(msgspec.json.encode({"inventory": value}))
