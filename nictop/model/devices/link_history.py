"""What happened to the netdevs of a host while it was watched: carrier changes, resets, new netdevs
of the same device.

A netdev with a device is known again by that, and its port of a device with several: it may be made
again. One without a device (a veth, bridge, bond, VLAN, tap, tunnel) is known by its number:
another one of its name is another NIC.

The kernel counts since the netdev was created; a mean since boot hides what happens now. Reads
nothing; compares inventories, and what the kernel reports between them: who sets a link down and up
takes its carrier, and both may be over before the next inventory.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

from nictop.limits import MAX_LINKS
from nictop.model.devices.driver_losses import loss_positions
from nictop.model.devices.links import ethtool_driver
from nictop.model.text.ip_addresses import address_network
from nictop.probe.kernel.route_protocols import route_owner
from nictop.probe.light_dataclasses import dataclass, replace
from nictop.probe.light_tuples import NamedTuple
from nictop.probe.records import Address, Inventory, Link, TableRoute

HISTORY_SECONDS = 3600.0
DOWN, SMALL_MTU, DISABLED, FOR_A_MOMENT = "down", "mtu", "disabled", "moment"
IPV6_MIN_MTU = 1280
IPV6_LOSSES = {
    DOWN: "the link was set down",
    SMALL_MTU: f"the MTU was below {IPV6_MIN_MTU}",
    DISABLED: "IPv6 was turned off on the link",
    FOR_A_MOMENT: "the link was without IPv6 for a moment",
}
"""What removes the IPv6 addresses of a link, and does not give them back, unless keep_addr_on_down
is set: addrconf_ifdown(), called by addrconf_notify() and dev_disable_change() of
net/ipv6/addrconf.c."""
IFF_UP = 0x1
"""net/if.h; `model.text.words` cannot be imported here."""
MAX_INVENTORY_SECONDS = 300.0
"""What was reported while an inventory was taken is newer than it, at most by this much."""
MAX_HISTORIES = 2 * MAX_LINKS
MAX_TEXTS = 12
ANOTHER_HAS_ITS_NAME = ", and another one has its name"
MAX_LOST_ADDRESSES, MAX_LOST_ROUTES = 16, 16
"""Of one link."""
MAX_MAC_ADDRESSES = 8
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


class RemovedAddress(NamedTuple):
    """An IP address that an inventory had on a link, and a later one had not."""

    address: str
    prefix_length: int
    time: float
    """Of the first inventory without it, CLOCK_MONOTONIC."""


class LeftBridge(NamedTuple):
    """A bridge of which a link was a port, and is not now."""

    ifindex: int
    name: str
    time: float
    """Of the first inventory in which it is no port, CLOCK_MONOTONIC."""


@dataclass(frozen=True)
class LinkHistory:
    """The last hour of one device, or of one netdev without a device."""

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
    device: str | None = None
    """None: it has none."""
    ipv6_addresses: tuple[Address, ...] = ()
    """Permanent ones of global scope, as an inventory last read them."""
    lost_ipv6_addresses: tuple[Address, ...] = ()
    """Those that have gone with IPv6 of the link (`ipv6_loss`) and have not come back."""
    ipv6_loss: str = ""
    """What has removed IPv6 from the link since `ipv6_addresses` were read, a key of
    `IPV6_LOSSES`; "": nothing."""
    lost_by: str = ""
    """The same, of `lost_ipv6_addresses`."""
    static_routes: tuple[TableRoute, ...] = ()
    """By this link, as an inventory last read them."""
    lost_routes: tuple[TableRoute, ...] = ()
    """Those that have gone with the link, or with its IPv6, and have not come back."""
    addresses: tuple[Address, ...] = ()
    """As an inventory last read them."""
    removed_addresses: tuple[RemovedAddress, ...] = ()
    """Those that are not on the link now; the last of them, oldest first."""
    mac_addresses: tuple[str, ...] = ()
    """All that it was seen with, the newest last: neighbours keep an old one for a while."""
    bridge: tuple[int, str] | None = None
    """(ifindex, name) of the bridge of which it was a port when an inventory last read it."""
    left_bridge: LeftBridge | None = None
    """The last one; None: it is a port of something now."""
    gone: float | None = None
    """CLOCK_MONOTONIC when it was first seen to be gone; None: it is there."""

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
    """The histories after an inventory: of the links in it, and of those that were there within the
    hour."""
    recent = {
        key: history
        for key, history in histories.items()
        if -MAX_INVENTORY_SECONDS <= inventory.time - history.points[-1].time <= HISTORY_SECONDS
    }
    has_addresses = "addresses" not in inventory.unreadable
    routing = inventory.routing
    has_routes = "routing" not in inventory.pending
    if routing is not None and "routes" in routing.unreadable:
        has_routes = False
    bridges = {one.ifindex: one.name for one in inventory.links if one.kind == "bridge"}
    for link in inventory.links:
        key = history_key(link)
        before = recent.get(key)
        history = _continued(before, link, inventory.time)
        if history is not before:
            history = _with_mac_address(history, link)
            history = _with_bridge(history, link, bridges, inventory.time)
            if has_addresses:
                history = _with_ipv6_addresses(history, link)
                history = _with_addresses(history, link, inventory.time)
            if has_routes and routing is not None:
                history = _with_routes(history, link, routing.routes)
            if has_addresses and has_routes:
                history = replace(history, ipv6_loss="")
        recent[key] = history
    return _newest(_with_gone(recent, inventory))


def _with_gone(histories: dict[str, LinkHistory], inventory: Inventory) -> dict[str, LinkHistory]:
    present = {history_key(link) for link in inventory.links}
    for key, history in histories.items():
        is_new = history.points[-1].time > inventory.time
        if key not in present and history.gone is None and not is_new:
            histories[key] = replace(history, gone=inventory.time)
    return histories


def history_key(link: Link) -> str:
    """``0000:02:00.0``, ``0000:02:00.0 pf0vf3`` of a representor, ``0000:02:00.0 port 1``,
    ``ifindex 7``"""
    if link.device is None:
        return f"ifindex {link.ifindex}"
    if link.physical_port:
        return f"{link.device} {link.physical_port}"
    return f"{link.device} port {link.device_port}" if link.device_port else link.device


def _newest(histories: dict[str, LinkHistory]) -> dict[str, LinkHistory]:
    """At most `MAX_HISTORIES`: containers come and go by the thousand."""
    if len(histories) <= MAX_HISTORIES:
        return histories
    by_time = sorted(histories.items(), key=lambda item: -item[1].points[-1].time)
    return dict(by_time[:MAX_HISTORIES])


def with_change(
    histories: dict[str, LinkHistory], link: Link, time: float
) -> dict[str, LinkHistory]:
    """The histories after the kernel has reported `link`; the same ones if it is not of the netdev
    that an inventory had."""
    key = history_key(link)
    before = histories.get(key)
    if before is None or before.ifindex != link.ifindex:
        return histories
    return {**histories, key: _continued(before, link, time)}


def with_gone_link(
    histories: dict[str, LinkHistory], link: Link, time: float
) -> dict[str, LinkHistory]:
    """The histories after a link is gone: its number may be that of another one later."""
    key = history_key(link)
    before = histories.get(key)
    if before is None or before.ifindex != link.ifindex:
        return histories
    others = dict(histories)
    if link.device is None:
        del others[key]
        key = f"{key} until {time}"
    others[key] = replace(before, gone=time)
    return others


def _continued(before: LinkHistory | None, link: Link, time: float) -> LinkHistory:
    if before is None:
        is_settled = link.carrier is True and bool(link.flags & IFF_UP)
        return _history_of(link, (Point(time),), is_settled=is_settled)
    last = before.points[-1]
    if time < last.time:  # an inventory that was begun before what was reported since
        return before
    is_new = link.ifindex != before.ifindex
    point = Point(
        time,
        last.losses + _new_losses(before, link, is_new=is_new),
        last.resets + increase(before.resets, reset_total(link), is_new=is_new),
        last.netdevs + is_new,
        last.downs + (before.has_carrier and not link.flags & IFF_UP),
    )
    is_settled = _is_settled(before, link, is_new=is_new)
    history = _history_of(link, _appended(before.points, point), is_settled=is_settled)
    history = replace(history, mac_addresses=before.mac_addresses)
    if is_new:
        return history
    return replace(
        history,
        ipv6_addresses=before.ipv6_addresses,
        lost_ipv6_addresses=before.lost_ipv6_addresses,
        lost_by=before.lost_by,
        ipv6_loss=ipv6_loss(link) or before.ipv6_loss,
        static_routes=before.static_routes,
        lost_routes=before.lost_routes,
        addresses=before.addresses,
        removed_addresses=before.removed_addresses,
        bridge=before.bridge,
        left_bridge=before.left_bridge,
    )


def ipv6_loss(link: Link) -> str:
    """A key of `IPV6_LOSSES`: why the link has no IPv6 now; "": it may have."""
    if not link.flags & IFF_UP:
        return DOWN
    if 0 < link.mtu < IPV6_MIN_MTU:
        return SMALL_MTU
    return DISABLED if link.ipv6_disabled else ""


def _with_mac_address(history: LinkHistory, link: Link) -> LinkHistory:
    known = history.mac_addresses
    if link.address is None or known[-1:] == (link.address,):
        return history
    others = tuple(address for address in known if address != link.address)
    return replace(history, mac_addresses=(*others, link.address)[-MAX_MAC_ADDRESSES:])


def _with_bridge(
    history: LinkHistory, link: Link, bridges: Mapping[int, str], time: float
) -> LinkHistory:
    """`bridges`: ifindex → name."""
    if link.master is None:
        left = history.left_bridge
        if history.bridge is not None:
            left = LeftBridge(*history.bridge, time)
        return replace(history, bridge=None, left_bridge=left)
    name = bridges.get(link.master)
    bridge = None if name is None else (link.master, name)
    return replace(history, bridge=bridge, left_bridge=None)


def _with_ipv6_addresses(history: LinkHistory, link: Link) -> LinkHistory:
    """With those that the link has now, and those that it has lost. One of the same subnet that was
    set by hand replaces one that is gone."""
    if not history.ipv6_loss and _has_got_ipv6_anew(history.addresses, link.addresses):
        history = replace(history, ipv6_loss=FOR_A_MOMENT)
    present = [one for one in link.addresses if is_set_ipv6_address(one)]
    known = list(history.lost_ipv6_addresses)
    if history.ipv6_loss:
        known += history.ipv6_addresses
    subnets = {address_network(one) for one in present}
    there = {one.address for one in link.addresses}
    lost = [
        one for one in known if one.address not in there and address_network(one) not in subnets
    ]
    return replace(
        history,
        ipv6_addresses=tuple(present),
        lost_ipv6_addresses=tuple(dict.fromkeys(lost))[:MAX_LOST_ADDRESSES],
        lost_by=(history.ipv6_loss or history.lost_by) if lost else "",
    )


def _has_got_ipv6_anew(before: Iterable[Address], now: Iterable[Address]) -> bool:
    """The kernel has added a link-local address again that it had added before: in between the link
    was down or without IPv6, too briefly for a reading."""
    known = {one.address: one.created for one in before if one.created is not None}
    return any(
        one.created is not None and known.get(one.address, one.created) != one.created
        for one in now
    )


def _with_addresses(history: LinkHistory, link: Link, time: float) -> LinkHistory:
    """With those that the link has now, and those that it had before."""
    if history.addresses == link.addresses and not history.removed_addresses:
        return history
    present = {one.address for one in link.addresses}
    removed = {one.address: one for one in history.removed_addresses}
    for one in history.addresses:
        removed[one.address] = RemovedAddress(one.address, one.prefix_length, time)
    gone = [one for address, one in removed.items() if address not in present]
    return replace(
        history,
        addresses=link.addresses,
        removed_addresses=tuple(gone[-MAX_LOST_ADDRESSES:]),
    )


def _with_routes(history: LinkHistory, link: Link, routes: Sequence[TableRoute]) -> LinkHistory:
    """With the static routes that the link has now, and those that it has lost. Another route to
    the same destination in the same table replaces one that is gone."""
    static = [one for one in routes if one.type == "unicast" and not route_owner(one.protocol)]
    present = [one for one in static if one.ifindex == link.ifindex]
    gone_families = {DOWN: ("ipv4", "ipv6")}.get(history.ipv6_loss, ("ipv6",))
    known = list(history.lost_routes)
    if history.ipv6_loss:
        known += [one for one in history.static_routes if one.family in gone_families]
    there = {_place(one) for one in routes}
    lost = {_place(one): one for one in known if _place(one) not in there}
    return replace(
        history,
        static_routes=tuple(present[:MAX_LOST_ROUTES]),
        lost_routes=tuple(lost.values())[:MAX_LOST_ROUTES],
    )


def _place(route: TableRoute) -> tuple[str, int, str]:
    return route.family, route.table, route.destination


def is_set_ipv6_address(address: Address) -> bool:
    """Of global scope, and without an end: not from a router advertisement or DHCPv6."""
    return address.family == "ipv6" and address.scope == "global" and "permanent" in address.flags


def _history_of(link: Link, points: tuple[Point, ...], *, is_settled: bool) -> LinkHistory:
    return LinkHistory(
        ifindex=link.ifindex,
        carrier_changes=link.carrier_changes,
        resets=reset_total(link),
        is_settled=is_settled,
        has_carrier=link.carrier is True,
        points=points,
        name=link.name,
        device=link.device,
    )


def history_texts(
    histories: Mapping[str, LinkHistory],
    links: Iterable[Link],
    time_text: Callable[[float], str],
) -> tuple[str, ...]:
    """``ens224 made again once, lost its carrier 2 times``, ``ens256 was gone at 08:01:40 UTC``:
    what happened while the host was watched, of which the answer at its end shows nothing.
    `links`: those that are there now."""
    present = {history_key(link): link.name for link in links}
    names = frozenset(present.values())
    found = []
    for key, history in histories.items():
        parts = [
            f"{what} {count_text(number)}"
            for what, number in (
                ("made again", history.new_netdevs),
                ("lost its carrier", history.new_losses),
                ("set down", history.new_downs),
            )
            if number
        ]
        if key not in present:
            parts.append(_gone_text(history, names, time_text))
        if parts:
            found.append(f"{history.name or key} {', '.join(parts)}")
    if len(found) > MAX_TEXTS:
        found[MAX_TEXTS - 1 :] = [f"{len(found) - MAX_TEXTS + 1} other interfaces changed"]
    return tuple(found)


def _gone_text(
    history: LinkHistory, names: Collection[str], time_text: Callable[[float], str]
) -> str:
    text = "is gone"
    if history.gone is not None:
        text = f"was gone at {time_text(history.gone)}"
    return text + ANOTHER_HAS_ITS_NAME if history.name in names else text


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
