"""Requests to the probe: bytes from stdin → lines → fields of a `records.Request`.

The sender may be a newer nictop, a person or a mistake: invalid fields are reported, and the others
are used.
"""

from __future__ import annotations

import json

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypedDict

    class RequestFields(TypedDict, total=False):
        interval: float
        watch: list[int]
        connections: list[int]
        inventory: bool
        machine: bool
        recheck: bool
        events: bool
        ping: int
        traffic: dict[str, object]
        change: dict[str, object]


MIN_COUNTER_INTERVAL, MAX_COUNTER_INTERVAL = 0.1, 60.0
"""Seconds between two counters."""
MAX_REQUEST_BYTES = 64 * 1024
"""Bytes of one line."""
MAX_PING_SEQUENCE = 1 << 53
"""JSON readers agree on integers up to here."""
MAX_WATCHED_LINKS = 64
"""Links watched at once: each costs a few ioctls per reading."""


class RequestLines:
    """Splits a stream into lines, and drops those longer than `MAX_REQUEST_BYTES`."""

    def __init__(self) -> None:
        self._rest = bytearray()
        self._skipping = False

    def feed(self, data: bytes) -> tuple[list[bytes], bool]:
        """(lines completed by `data`, whether a line was dropped because it was too long)."""
        lines = take_lines(self._rest, data)
        if lines and self._skipping:
            self._skipping = False
            del lines[0]
        dropped = any(len(line) > MAX_REQUEST_BYTES for line in lines)
        if len(self._rest) > MAX_REQUEST_BYTES:
            dropped = dropped or not self._skipping
            self._skipping = True
        if self._skipping:
            self._rest.clear()
        return [line for line in lines if line.strip() and len(line) <= MAX_REQUEST_BYTES], dropped


def take_lines(rest: bytearray, data: bytes) -> list[bytes]:
    """The lines that `data` completes, without line ends; `rest` becomes what follows them. The
    work does not depend on what was received before."""
    first, *others = data.split(b"\n")
    rest += first
    if not others:
        return []
    lines = [bytes(rest), *others[:-1]]
    rest[:] = others[-1]
    return lines


def parse_request(line: bytes) -> tuple[RequestFields, str]:
    """(valid fields of a `records.Request`, text about invalid ones, "" when there are none).

    The interval is limited to its range; unknown fields are ignored.
    """
    try:
        request = json.loads(line)
    except (ValueError, RecursionError) as error:
        return {}, str(error)[:200]
    if not isinstance(request, dict):
        return {}, "not an object"
    fields: RequestFields = {}
    problems = []
    for name, (valid_value, problem) in REQUEST_FIELDS.items():
        given = request.get(name)
        if given is None:
            continue
        value = valid_value(given)
        if value is None:
            problems.append(f"{name} {problem}")
        else:
            fields[name] = value  # type: ignore[literal-required]
    return fields, "; ".join(problems)


def _valid_links(value: object) -> list[int] | None:
    if not isinstance(value, list) or len(value) > MAX_WATCHED_LINKS:
        return None
    return value if all(map(is_ifindex, value)) else None


def _valid_flag(value: object) -> bool | None:
    return value if isinstance(value, bool) else None


def _valid_sequence(value: object) -> int | None:
    if type(value) is not int or not 0 <= value <= MAX_PING_SEQUENCE:
        return None
    return value


def _valid_object(value: object) -> dict[str, object] | None:
    return value if isinstance(value, dict) else None


def clamped_interval(value: object) -> float | None:
    """Seconds, limited to `MIN_COUNTER_INTERVAL` and `MAX_COUNTER_INTERVAL`; None when it is not a
    positive number (NaN)."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not value > 0:
        return None
    return float(min(max(value, MIN_COUNTER_INTERVAL), MAX_COUNTER_INTERVAL))


def is_ifindex(value: object) -> bool:
    return type(value) is int and 0 < value < 1 << 31


LINKS_PROBLEM = f"is not a list of at most {MAX_WATCHED_LINKS} ifindexes"
REQUEST_FIELDS: dict[str, tuple[Callable[[object], object | None], str]] = {
    "interval": (clamped_interval, "is not a positive number"),
    "watch": (_valid_links, LINKS_PROBLEM),
    "connections": (_valid_links, LINKS_PROBLEM),
    "inventory": (_valid_flag, "is not true or false"),
    "machine": (_valid_flag, "is not true or false"),
    "recheck": (_valid_flag, "is not true or false"),
    "events": (_valid_flag, "is not true or false"),
    "ping": (_valid_sequence, "is not a number of this size"),
    "traffic": (_valid_object, "is not an object"),
    "change": (_valid_object, "is not an object"),
}
"""Field → its value, None for an invalid one, and what is then wrong with it."""
