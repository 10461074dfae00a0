"""Which of the inventories of an hour say something new of the links of a host.

A finding such as "lost its carrier 4 times while it was watched" rests on what happened before the
position in a recording (`model.devices.link_history`). With findings there is an inventory every
few seconds; most of them have nothing that it needs, and decoding one costs milliseconds.

Reads nothing; takes the texts of entries.
"""

from __future__ import annotations

import msgspec

from nictop.model.devices.link_history import HISTORY_SECONDS, IFF_UP, MIN_STEP_SECONDS

__all__ = ["HISTORY_SECONDS", "NewLinkStates"]


class _Link(msgspec.Struct):
    """What of a `Link` a carrier change is counted from."""

    ifindex: int = 0
    device: str | None = None
    flags: int = 0
    carrier: bool | None = None
    carrier_changes: int | None = None


class _Inventory(msgspec.Struct):
    links: list[_Link] = []


class _Line(msgspec.Struct):
    inventory: _Inventory | None = None


_decoder = msgspec.json.Decoder(_Line)
INVENTORY_BEGIN = b'{"inventory":'
ALWAYS_NEEDED = (b'{"hello":', b'{"link_change":')
State = tuple[tuple[int, str | None, int, bool | None, int | None], ...]


class NewLinkStates:
    """Of one host, in the order of its entries."""

    def __init__(self) -> None:
        self._state: State | None = None
        self._next = float("-inf")
        """Time from which on an inventory is needed in any case, as a point in time."""

    def needs(self, text: bytes, time: float) -> bool:
        """The line is a hello, a change of a link, or an inventory with other states of links than
        the one before; one a minute is needed in any case. A text that cannot be decoded is: who
        decodes it says so."""
        if text.startswith(ALWAYS_NEEDED):
            return True
        if not text.startswith(INVENTORY_BEGIN):
            return False
        try:
            state = _state(_decoder.decode(text))
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return True
        if state == self._state and time < self._next:
            return False
        self._state, self._next = state, time + MIN_STEP_SECONDS
        return True


def _state(line: _Line) -> State:
    if line.inventory is None:
        return ()
    return tuple(
        (link.ifindex, link.device, link.flags & IFF_UP, link.carrier, link.carrier_changes)
        for link in line.inventory.links
        if link.device is not None
    )
