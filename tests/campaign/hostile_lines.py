"""What becomes of the lines of a hostile host or recording: a line that is refused, or that has
unknown fields, tests nothing but the refusal. Whoever writes one says what is meant
(`hostile_host.FATES`)."""

from __future__ import annotations

import dataclasses
import itertools
import types
import typing
from collections.abc import Iterable, Iterator
from typing import Any, Union

import msgspec

from nictop.errors import NictopError
from nictop.probe.light_dataclasses import field_mapping
from nictop.probe.records import Line
from nictop.wire.line_reader import LineReader
from nictop.wire.source import SourceState
from tests.campaign import hostile_host
from tests.support.arbitrary import fields_of

PARTS, MAX_BYTES = 4, 16 << 20
"""Of the data of a host: so much of it is judged."""


def misjudged(name: str) -> str:
    """Why the lines of this kind of host are not what they are meant to be; "": they are."""
    return judged(hostile_host.KINDS[name](), hostile_host.FATES[name])


def judged(data: Iterable[bytes], meant: hostile_host.Fate) -> str:
    """Why it is not what is `meant`."""
    found = fates(data)
    expected = {
        "taken": {"taken"},
        "cut": {"taken", "cut"},
        "refused": {*found, "refused"},
        "unknown": {*found},
    }[meant]
    unexpected = [f"{fate}: {reason}" for fate, reason in found.items() if fate not in expected]
    if unexpected:
        return f"lines that are meant to be {meant} are {unexpected[0]}"
    return "" if meant in found else f"no line is {meant}"


def fates(data: Iterable[bytes]) -> dict[str, str]:
    """Fate of the lines → the reason, or text, of the first one."""
    found: dict[str, str] = {}
    reader = LineReader()
    list(reader.feed(hostile_host.hello()))
    size = 0
    try:
        for part in itertools.islice(data, PARTS):
            if isinstance(part, hostile_host.Complaint):
                continue
            size += len(part)
            for item in reader.feed(part):
                if isinstance(item, SourceState) and item.message:
                    found.setdefault("refused", item.message)
                elif isinstance(item, Line):
                    for fate, reason in line_fates(item):
                        found.setdefault(fate, reason)
            for fate, reason in unknown_fates(part):
                found.setdefault(fate, reason)
            if size > MAX_BYTES:
                break
    except NictopError as error:
        found.setdefault("refused", error.message)
    return found


def line_fates(line: Line) -> Iterator[tuple[str, str]]:
    """What has become of a line that was taken."""
    left_out = next(unreadable_in(line), "")
    yield ("cut", left_out) if left_out else ("taken", "")


def unreadable_in(value: Any) -> Iterator[str]:
    """The fields in it that were above their limit."""
    if dataclasses.is_dataclass(value):
        for name, one in (getattr(value, "unreadable", None) or {}).items():
            if one.reason == "malformed" and one.detail.startswith("more than"):
                yield f"{name}: {one.detail}"
        for one in field_mapping(value).values():
            yield from unreadable_in(one)
    elif isinstance(value, dict):
        for one in value.values():
            yield from unreadable_in(one)
    elif isinstance(value, tuple):
        for one in value[:9]:
            yield from unreadable_in(one)


def unknown_fates(part: bytes) -> Iterator[tuple[str, str]]:
    for text in part.split(b"\n")[:-1]:
        try:
            value = msgspec.json.decode(text)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            continue
        for name in unknown_fields(value, Line):
            yield "unknown", f"no field {name}"


def unknown_fields(value: Any, kind: Any) -> Iterator[str]:
    """Names in a JSON value that its type does not have. Of a long list only some are looked at."""
    origin, members = typing.get_origin(kind), typing.get_args(kind)
    if value is None:
        return
    if origin in (Union, types.UnionType):
        records = [member for member in members if member is not type(None)]
        yield from unknown_fields(value, records[0]) if len(records) == 1 else ()
    elif dataclasses.is_dataclass(kind) and isinstance(value, dict):
        hints = fields_of(kind)  # type: ignore[arg-type]
        for name, one in value.items():
            if name in hints:
                yield from unknown_fields(one, hints[name])
            else:
                yield f"{kind.__name__}.{name}"  # type: ignore[union-attr]
    elif origin is dict and isinstance(value, dict):
        for one in itertools.islice(value.values(), 9):
            yield from unknown_fields(one, members[1])
    elif origin is tuple and isinstance(value, list):
        for one in value[:9]:
            yield from unknown_fields(one, members[0])
