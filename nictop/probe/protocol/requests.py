"""What the probe is asked: bytes from stdin → lines → the wishes of a `records.Request`.

Whoever writes there may be a newer nictop, a person or a mistake: what makes no sense is said and the rest is done.
"""

from __future__ import annotations

import json

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import TypedDict

    class RequestFields(TypedDict, total=False):
        interval: float
        watch: list[int]
        inventory: bool
        machine: bool
        recheck: bool
        ping: int
        traffic: dict[str, object]
        change: dict[str, object]


SHORTEST, LONGEST = 0.1, 60.0
"""Seconds between two counters."""
LONGEST_REQUEST = 64 * 1024
"""Bytes of one line."""
LARGEST_PING = 1 << 53
"""JSON readers agree on integers up to here."""
WATCH_LIMIT = 64
"""Links that may be watched at once: each costs a few ioctls per pass."""


class RequestLines:
    """Cuts a stream into lines, and forgets those that are longer than `LONGEST_REQUEST`."""

    def __init__(self) -> None:
        self._rest = b""
        self._skipping = False

    def feed(self, data: bytes) -> tuple[list[bytes], bool]:
        """The lines that `data` completes; and whether one has been given up because it was too long."""
        *lines, self._rest = (self._rest + data).split(b"\n")
        if lines and self._skipping:
            self._skipping = False
            del lines[0]
        given_up = any(len(line) > LONGEST_REQUEST for line in lines)
        if len(self._rest) > LONGEST_REQUEST:
            given_up = given_up or not self._skipping
            self._skipping = True
        if self._skipping:
            self._rest = b""
        return [line for line in lines if line.strip() and len(line) <= LONGEST_REQUEST], given_up


def parse_request(line: bytes) -> tuple[RequestFields, str]:
    """One `records.Request`: what it wishes, as far as it makes sense, and what does not, in words ("" when all does).

    The interval is held within its limits; unknown fields are left to later versions.
    """
    try:
        request = json.loads(line)
    except (ValueError, RecursionError) as error:
        return {}, str(error)[:200]
    if not isinstance(request, dict):
        return {}, "not an object"
    wishes: RequestFields = {}
    problems = []
    interval, watch = request.get("interval"), request.get("watch")
    if interval is not None:
        held = held_interval(interval)
        if held is None:
            problems.append("interval is not a positive number")
        else:
            wishes["interval"] = held
    if watch is not None:
        if isinstance(watch, list) and len(watch) <= WATCH_LIMIT and all(map(is_ifindex, watch)):
            wishes["watch"] = watch
        else:
            problems.append(f"watch is not a list of at most {WATCH_LIMIT} ifindexes")
    inventory, machine = request.get("inventory"), request.get("machine")
    if isinstance(inventory, bool):
        wishes["inventory"] = inventory
    elif inventory is not None:
        problems.append("inventory is not true or false")
    if isinstance(machine, bool):
        wishes["machine"] = machine
    elif machine is not None:
        problems.append("machine is not true or false")
    recheck = request.get("recheck")
    if isinstance(recheck, bool):
        wishes["recheck"] = recheck
    elif recheck is not None:
        problems.append("recheck is not true or false")
    ping = request.get("ping")
    if type(ping) is int and 0 <= ping <= LARGEST_PING:
        wishes["ping"] = ping
    elif ping is not None:
        problems.append("ping is not a number of this size")
    traffic, change = request.get("traffic"), request.get("change")
    if isinstance(traffic, dict):
        wishes["traffic"] = traffic
    elif traffic is not None:
        problems.append("traffic is not an object")
    if isinstance(change, dict):
        wishes["change"] = change
    elif change is not None:
        problems.append("change is not an object")
    return wishes, "; ".join(problems)


def held_interval(value: object) -> float | None:
    """Seconds within `SHORTEST` and `LONGEST`; None for what is no positive number (NaN is none)."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not value > 0:
        return None
    return float(min(max(value, SHORTEST), LONGEST))


def is_ifindex(value: object) -> bool:
    return type(value) is int and 0 < value < 1 << 31
