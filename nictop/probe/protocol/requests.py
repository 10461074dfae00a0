"""Requests to the probe: bytes from stdin → lines → fields of a `records.Request`.

The sender may be a newer nictop, a person or a mistake: invalid fields are reported, and the others
are used.
"""

from __future__ import annotations

import json

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Literal, TypedDict

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


LINK_FIELDS: tuple[Literal["watch", "connections"], ...] = ("watch", "connections")
BOOLEAN_FIELDS: tuple[Literal["inventory", "machine", "recheck", "events"], ...] = (
    "inventory",
    "machine",
    "recheck",
    "events",
)
OBJECT_FIELDS: tuple[Literal["traffic", "change"], ...] = ("traffic", "change")
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
    interval = request.get("interval")
    if interval is not None:
        seconds = clamped_interval(interval)
        if seconds is None:
            problems.append("interval is not a positive number")
        else:
            fields["interval"] = seconds
    for list_name in LINK_FIELDS:
        links = request.get(list_name)
        if (
            isinstance(links, list)
            and len(links) <= MAX_WATCHED_LINKS
            and all(map(is_ifindex, links))
        ):
            fields[list_name] = links
        elif links is not None:
            problems.append(f"{list_name} is not a list of at most {MAX_WATCHED_LINKS} ifindexes")
    for name in BOOLEAN_FIELDS:
        flag = request.get(name)
        if isinstance(flag, bool):
            fields[name] = flag
        elif flag is not None:
            problems.append(f"{name} is not true or false")
    ping = request.get("ping")
    if type(ping) is int and 0 <= ping <= MAX_PING_SEQUENCE:
        fields["ping"] = ping
    elif ping is not None:
        problems.append("ping is not a number of this size")
    for command in OBJECT_FIELDS:
        value = request.get(command)
        if isinstance(value, dict):
            fields[command] = value
        elif value is not None:
            problems.append(f"{command} is not an object")
    return fields, "; ".join(problems)


def clamped_interval(value: object) -> float | None:
    """Seconds, limited to `MIN_COUNTER_INTERVAL` and `MAX_COUNTER_INTERVAL`; None when it is not a
    positive number (NaN)."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not value > 0:
        return None
    return float(min(max(value, MIN_COUNTER_INTERVAL), MAX_COUNTER_INTERVAL))


def is_ifindex(value: object) -> bool:
    return type(value) is int and 0 < value < 1 << 31
