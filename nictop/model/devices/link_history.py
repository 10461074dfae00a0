"""What happened to the netdevs of a host while it was watched: carrier changes, resets, new netdevs of the same device.

The kernel counts since the netdev was created; a mean since boot hides what happens now. Reads nothing; compares
inventories, which are taken after each event.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from nictop.model.devices.driver_losses import loss_positions
from nictop.probe.records import Inventory, Link

HISTORY_SECONDS = 3600.0
IFF_UP = 0x1
"""net/if.h; `model.text.words` cannot be imported here."""
MIN_STEP_SECONDS = 60.0
"""Between two stored points: at most 60 for each link."""


@dataclass(frozen=True)
class Point:
    """Sums since the device was first seen."""

    time: float
    """Of the inventory, CLOCK_MONOTONIC."""
    carrier_changes: int = 0
    resets: int = 0
    netdevs: int = 0
    """How often another netdev appeared for the device: the driver was bound again, or a VF was made again."""


@dataclass(frozen=True)
class LinkHistory:
    """The last hour of one device."""

    ifindex: int
    carrier_changes: int | None
    resets: int | None
    """As last counted by kernel and driver; None: not counted."""
    is_settled: bool
    """Administratively up, and it had its carrier since: other changes of the carrier are not losses."""
    points: tuple[Point, ...]
    """Oldest first, never empty."""

    @property
    def watched(self) -> float:
        """Seconds between the first and the last reading within the hour."""
        return self.points[-1].time - self.points[0].time

    @property
    def new_carrier_changes(self) -> int:
        """Within the time watched, at most an hour."""
        return self.points[-1].carrier_changes - self.points[0].carrier_changes

    @property
    def new_resets(self) -> int:
        return self.points[-1].resets - self.points[0].resets

    @property
    def new_netdevs(self) -> int:
        return self.points[-1].netdevs - self.points[0].netdevs


def with_inventory(histories: Mapping[str, LinkHistory], inventory: Inventory) -> dict[str, LinkHistory]:
    """The histories after an inventory: of the devices in it, and of those that were there within the hour."""
    recent = {
        device: history
        for device, history in histories.items()
        if 0 <= inventory.time - history.points[-1].time <= HISTORY_SECONDS
    }
    for link in inventory.links:
        if link.device is not None:
            recent[link.device] = _continued(recent.get(link.device), link, inventory.time)
    return recent


def _continued(before: LinkHistory | None, link: Link, time: float) -> LinkHistory:
    changes, resets = link.carrier_changes, reset_total(link)
    is_up = bool(link.flags & IFF_UP)
    if before is None:
        return LinkHistory(link.ifindex, changes, resets, is_up and link.carrier is True, (Point(time),))
    last = before.points[-1]
    is_new = link.ifindex != before.ifindex
    changed = increase(None if is_new else before.carrier_changes, changes, is_new=is_new)
    if not is_up:
        changed = 0
    elif not before.is_settled and not is_new:
        changed = max(0, changed - 1)  # the carrier that follows "up"
    point = Point(
        time,
        last.carrier_changes + changed,
        last.resets + increase(None if is_new else before.resets, resets, is_new=is_new),
        last.netdevs + is_new,
    )
    # Any change since "up" includes the carrier that follows it.
    has_returned = link.carrier is True or bool(changes and changes != before.carrier_changes)
    is_settled = is_up and (has_returned or (before.is_settled and not is_new))
    return LinkHistory(link.ifindex, changes, resets, is_settled, _appended(before.points, point))


def increase(before: int | None, now: int | None, *, is_new: bool) -> int:
    """How much a counter has risen; one that became smaller, or is that of a new netdev, began at 0."""
    if now is None:
        return 0
    if is_new:
        return now
    if before is None:
        return 0
    return now - before if now >= before else now


def _appended(points: tuple[Point, ...], point: Point) -> tuple[Point, ...]:
    kept = [one for one in points if point.time - one.time <= HISTORY_SECONDS]
    # A point between others is replaced by the next one that follows soon; the first one stays, it is the base.
    if len(kept) > 1 and point.time - kept[-2].time < MIN_STEP_SECONDS:
        kept.pop()
    return (*kept, point)


def reset_total(link: Link) -> int | None:
    """Resets that the driver counts at the time of the inventory; None: it counts none."""
    names, values = link.ethtool.driver_counter_names, link.ethtool.driver_counters
    if names is None or values is None or len(names) != len(values):
        return None
    driver = link.ethtool.driver.driver if link.ethtool.driver is not None else None
    positions = loss_positions(driver, "resets", names)
    return sum(values[position] for position in positions) if positions else None
