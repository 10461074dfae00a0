"""What happened to the netdevs of a host while it was watched: carrier changes, resets, new netdevs
of the same device.

The kernel counts since the netdev was created; a mean since boot hides what happens now. Reads
nothing; compares inventories, and what the kernel reports between them: who sets a link down and up
takes its carrier, and both may be over before the next inventory.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from nictop.model.devices.driver_losses import loss_positions
from nictop.model.devices.links import ethtool_driver
from nictop.probe.light_dataclasses import dataclass
from nictop.probe.records import Inventory, Link

HISTORY_SECONDS = 3600.0
IFF_UP = 0x1
"""net/if.h; `model.text.words` cannot be imported here."""
MAX_INVENTORY_SECONDS = 300.0
"""What was reported while an inventory was taken is newer than it, at most by this much."""
MIN_STEP_SECONDS = 60.0
"""Between two stored points: at most 60 for each link."""


@dataclass(frozen=True)
class Point:
    """Sums since the device was first seen."""

    time: float
    """Of the inventory, CLOCK_MONOTONIC."""
    losses: int = 0
    """Of the carrier."""
    resets: int = 0
    netdevs: int = 0
    """How often another netdev appeared for the device: the driver was bound again, or a VF was
    made again."""
    downs: int = 0
    """How often somebody has set the link down, and so taken its carrier."""


@dataclass(frozen=True)
class LinkHistory:
    """The last hour of one device."""

    ifindex: int
    carrier_changes: int | None
    resets: int | None
    """As last counted by kernel and driver; None: not counted."""
    is_settled: bool
    """Administratively up, and it had its carrier since: other changes of the carrier are not
    losses."""
    has_carrier: bool
    """At the last reading."""
    points: tuple[Point, ...]
    """Oldest first, never empty."""
    name: str = ""
    """Of the netdev, at the last reading."""

    @property
    def watched(self) -> float:
        """Seconds between the first and the last reading within the hour."""
        return self.points[-1].time - self.points[0].time

    @property
    def new_losses(self) -> int:
        """Of the carrier, within the time watched, at most an hour."""
        return self.points[-1].losses - self.points[0].losses

    @property
    def new_resets(self) -> int:
        return self.points[-1].resets - self.points[0].resets

    @property
    def new_downs(self) -> int:
        return self.points[-1].downs - self.points[0].downs

    @property
    def all_downs(self) -> int:
        """Since the device was first seen."""
        return self.points[-1].downs

    @property
    def new_netdevs(self) -> int:
        return self.points[-1].netdevs - self.points[0].netdevs


def with_inventory(
    histories: Mapping[str, LinkHistory], inventory: Inventory
) -> dict[str, LinkHistory]:
    """The histories after an inventory: of the devices in it, and of those that were there within
    the hour."""
    recent = {
        device: history
        for device, history in histories.items()
        if -MAX_INVENTORY_SECONDS <= inventory.time - history.points[-1].time <= HISTORY_SECONDS
    }
    for link in inventory.links:
        if link.device is not None:
            recent[link.device] = _continued(recent.get(link.device), link, inventory.time)
    return recent


def with_change(
    histories: dict[str, LinkHistory], link: Link, time: float
) -> dict[str, LinkHistory]:
    """The histories after the kernel has reported `link`; the same ones if it is not of the netdev
    that an inventory had."""
    before = histories.get(link.device or "")
    if link.device is None or before is None or before.ifindex != link.ifindex:
        return histories
    return {**histories, link.device: _continued(before, link, time)}


def _continued(before: LinkHistory | None, link: Link, time: float) -> LinkHistory:
    changes, resets = link.carrier_changes, reset_total(link)
    if before is None:
        is_settled = link.carrier is True and bool(link.flags & IFF_UP)
        points: tuple[Point, ...] = (Point(time),)
        has_carrier = link.carrier is True
        return LinkHistory(
            link.ifindex, changes, resets, is_settled, has_carrier, points, link.name
        )
    last = before.points[-1]
    if time < last.time:  # an inventory that was begun before what was reported since
        return before
    is_new = link.ifindex != before.ifindex
    point = Point(
        time,
        last.losses + _new_losses(before, link, is_new=is_new),
        last.resets + increase(before.resets, resets, is_new=is_new),
        last.netdevs + is_new,
        last.downs + (before.has_carrier and not link.flags & IFF_UP),
    )
    is_settled = _is_settled(before, link, is_new=is_new)
    points = _appended(before.points, point)
    has_carrier = link.carrier is True
    return LinkHistory(link.ifindex, changes, resets, is_settled, has_carrier, points, link.name)


def history_texts(histories: Mapping[str, LinkHistory], links: Iterable[Link]) -> tuple[str, ...]:
    """``ens224 made again once, lost its carrier 2 times``: what happened while the host was
    watched, of which the answer at its end shows nothing. `links`: those that are there now."""
    present = {link.device for link in links}
    found = []
    for device, history in histories.items():
        parts = [
            f"{what} {count_text(number)}"
            for what, number in (
                ("made again", history.new_netdevs),
                ("lost its carrier", history.new_losses),
                ("set down", history.new_downs),
            )
            if number
        ]
        if device not in present:
            parts.append("gone now")
        if parts:
            found.append(f"{history.name or device} {', '.join(parts)}")
    return tuple(found)


def count_text(number: int) -> str:
    """``once``, ``3 times``"""
    return "once" if number == 1 else f"{number} times"


def losses_after_the_first_carrier(changes: int, *, has_carrier: bool) -> int:
    """How often the carrier went after it had come, of this many changes since the netdev was
    created or set up. Each change is a gain or a loss, in turn; `has_carrier`: after the last one.

    A driver that takes the carrier away when it has registered its netdev, before any cable was
    looked at, makes the first change a loss (igb_probe: "carrier off reporting is important to
    ethtool even BEFORE open"); one that does so before makes it a gain, as netif_carrier_off then
    counts nothing (net/sched/sch_generic.c). Documentation/ABI/testing/sysfs-class-net:
    carrier_changes is the sum of carrier_up_count and carrier_down_count.
    """
    gains = (changes + has_carrier) // 2
    return max(0, gains - has_carrier)


def _new_losses(before: LinkHistory, link: Link, *, is_new: bool) -> int:
    """Losses of the carrier since the last inventory, without those by "down" and "up"."""
    if not link.flags & IFF_UP:
        return 0
    changed = increase(before.carrier_changes, link.carrier_changes, is_new=is_new)
    has_carrier = link.carrier is True
    if is_new or not before.is_settled:
        return losses_after_the_first_carrier(changed, has_carrier=has_carrier)
    return max(0, (changed + before.has_carrier - has_carrier) // 2)


def _is_settled(before: LinkHistory, link: Link, *, is_new: bool) -> bool:
    """`LinkHistory.is_settled`"""
    if not link.flags & IFF_UP:
        return False
    if link.carrier is True:
        return True
    # Any change since "up" includes the carrier that follows it.
    if link.carrier_changes and link.carrier_changes != before.carrier_changes:
        return True
    return before.is_settled and not is_new


def increase(before: int | None, now: int | None, *, is_new: bool) -> int:
    """How much a counter has risen; one that became smaller, or is that of a new netdev, began at
    0."""
    if now is None:
        return 0
    if is_new:
        return now
    if before is None:
        return 0
    if now < before:
        return now
    return now - before


def _appended(points: tuple[Point, ...], point: Point) -> tuple[Point, ...]:
    kept = [known for known in points if point.time - known.time <= HISTORY_SECONDS]
    # A point between others is replaced by the next one that follows soon; the first one stays, it
    # is the base.
    if len(kept) > 1 and point.time - kept[-2].time < MIN_STEP_SECONDS:
        kept.pop()
    return (*kept, point)


def reset_total(link: Link) -> int | None:
    """Resets that the driver counts at the time of the inventory; None: it counts none."""
    names, values = link.ethtool.driver_counter_names, link.ethtool.driver_counters
    if names is None or values is None or len(names) != len(values):
        return None
    positions = loss_positions(ethtool_driver(link), "resets", names)
    if not positions:
        return None
    return sum(values[position] for position in positions)
