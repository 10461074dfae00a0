"""The items of several hosts of a recording, by time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from heapq import heappop, heappush

from nictop.recording.reader import NOT_YET, NotYet, RecordedItem, Recording


def items_of_hosts(
    recording: Recording, names: Iterable[str], since: float
) -> Iterator[tuple[RecordedItem, str] | NotYet]:
    """The items of these hosts by time, in steps of some milliseconds."""
    heap: list[tuple[float, str, RecordedItem]] = []
    readers = {name: recording.reader(name, since) for name in names}
    wanted = list(readers)
    while wanted or heap:
        while wanted:
            name = wanted[-1]
            recorded = readers[name].step()
            if recorded is NOT_YET:
                yield NOT_YET
                continue
            wanted.pop()
            if recorded is not None:
                heappush(heap, (recorded.time, name, recorded))
        if heap:
            _, name, recorded = heappop(heap)
            yield recorded, name
            wanted.append(name)
