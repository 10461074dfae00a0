"""A growing series on the axis of a run.

Reads nothing. The axis and the clocks of hosts are known better with every line; what is in a
series moves with them.
"""

from __future__ import annotations

from bisect import insort
from operator import attrgetter
from typing import Any, ClassVar, Generic, Protocol, TypeVar

from nictop.probe.light_dataclasses import replace

PLACE_DIGITS = 2
"""Series are placed on the axis to hundredths of a second: nearly every line moves the axis by
less, and a move costs time for every point."""
PLACE_SECONDS = 10.0**-PLACE_DIGITS


class Timed(Protocol):
    """A dataclass with a time on the axis of the run."""

    __dataclass_fields__: ClassVar[dict[str, Any]]

    @property
    def time(self) -> float: ...


TimedT = TypeVar("TimedT", bound=Timed)
BY_TIME = attrgetter("time")


class Series(Generic[TimedT]):
    """`all` is the same object until an item is added or moved, so that a chart can skip
    redrawing."""

    def __init__(self) -> None:
        self._items: list[TimedT] = []
        self._all: tuple[TimedT, ...] | None = ()
        self.origin = 0.0
        """Start of the axis on the clock of whoever reports the items."""

    def place(self, origin: float) -> None:
        """Set the origin: all items move with it."""
        origin = round(origin, PLACE_DIGITS)
        earlier = origin - self.origin
        self.origin = origin
        if earlier and self._items:
            self._items = [replace(item, time=item.time - earlier) for item in self._items]
            self._all = None

    def add(self, item: TimedT) -> None:
        insort(self._items, item, key=BY_TIME)
        self._all = None

    @property
    def all(self) -> tuple[TimedT, ...]:
        """All items in order of time."""
        if self._all is None:
            self._all = tuple(self._items)
        return self._all
