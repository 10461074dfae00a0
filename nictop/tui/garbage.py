"""When Python's full garbage collections are made: at times at which nobody types.

With the records of many hosts one takes 0.1 s, in which no key is answered. Python would begin it
after some number of allocations, which is while a host is read. Nothing that a host sends waits for
one: records hold no cycles.
"""

from __future__ import annotations

import gc
from collections.abc import Callable
from time import monotonic

CHECK_SECONDS = 5.0
"""Between two checks whether one is due."""
IDLE_SECONDS = 2.0
"""Seconds without input after which one may begin."""
MAX_SECONDS = 60.0
"""Seconds after which one is made even if somebody types."""
YOUNG_OBJECTS, YOUNG_COLLECTIONS = 10_000, 5
"""Objects more than at the last collection of the youngest generation after which the next one is
made, and how many of these before one of the middle generation. Python's defaults are 700 and 10: a
reading makes more objects than that, which are freed when the next one comes."""
MIDDLE_COLLECTIONS = 4
"""Collections of the middle generation after which one is due: some 200,000 objects more than at
the last one. Python's default is 10, if there are also a quarter more objects that have survived
one."""
NEVER = 1 << 30


class GarbageCollector:
    """A context manager that is entered while the application runs; `collect_if_idle` is to be
    called repeatedly."""

    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        self._clock = clock
        self._input_at = self._collected_at = clock()
        self._thresholds = gc.get_threshold()

    def __enter__(self) -> GarbageCollector:
        self._thresholds = gc.get_threshold()
        gc.freeze()  # what was imported stays: no collection looks at it
        gc.set_threshold(YOUNG_OBJECTS, YOUNG_COLLECTIONS, NEVER)
        return self

    def __exit__(self, *_: object) -> None:
        gc.set_threshold(*self._thresholds)
        gc.unfreeze()

    def input_received(self) -> None:
        self._input_at = self._clock()

    def collect_if_idle(self) -> None:
        now = self._clock()
        is_idle = now - self._input_at >= IDLE_SECONDS or now - self._collected_at >= MAX_SECONDS
        if is_idle and gc.get_count()[2] >= MIDDLE_COLLECTIONS:
            self._collected_at = now
            gc.collect()
