"""What was added between two readings of the counters of lost packets. Pure."""

from __future__ import annotations

from nictop.probe.records import LossCount

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable


def increases(before: Iterable[LossCount], after: Iterable[LossCount]) -> tuple[LossCount, ...]:
    """The largest count first; a counter that was reset is left out."""
    old = {_key(one): one.count for one in before}
    grown = []
    for one in after:
        added = one.count - old.get(_key(one), 0)
        if added > 0:
            grown.append(LossCount(one.source, one.name, added, one.ifindex, one.where))
    return tuple(sorted(grown, key=lambda one: -one.count))


def _key(one: LossCount) -> tuple[str, str, int | None, str]:
    return one.source, one.name, one.ifindex, one.where
