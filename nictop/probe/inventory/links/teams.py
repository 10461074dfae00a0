"""Mode and ports of teams: generic netlink, family team (linux/if_team.h). Needs CAP_NET_ADMIN.

Two requests per team; hosts without a team send none. What teamd decides (its runner, LACP, the
partner) is not known to the kernel.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping

from nictop.probe.inventory.links.messages import number
from nictop.probe.kernel.netlink import (
    NETLINK_GENERIC,
    NetlinkSocket,
    iter_attributes,
    pack_u32,
    text,
)
from nictop.probe.kernel.sysfs import unreadable_from_error
from nictop.probe.light_dataclasses import replace
from nictop.probe.records import Link, Team, TeamPort, Unreadable

FAMILY = "team"
TEAM_CMD_OPTIONS_GET, TEAM_CMD_PORT_LIST_GET = 2, 3
TEAM_ATTR_TEAM_IFINDEX, TEAM_ATTR_LIST_OPTION, TEAM_ATTR_LIST_PORT = 1, 2, 3
TEAM_ATTR_ITEM_OPTION, TEAM_ATTR_ITEM_PORT = 1, 1
(
    TEAM_ATTR_OPTION_NAME,
    TEAM_ATTR_OPTION_DATA,
    TEAM_ATTR_OPTION_REMOVED,
    TEAM_ATTR_OPTION_PORT_IFINDEX,
) = 1, 4, 5, 6
TEAM_ATTR_PORT_IFINDEX, TEAM_ATTR_PORT_LINKUP, TEAM_ATTR_PORT_REMOVED = 1, 3, 6
NO_MODE = "*NOMODE*"
MAX_TEAMS = 64

Options = dict[tuple[str, int], "bytes | None"]
"""(name, ifindex of the port or 0) → value; None: a flag that is not set."""


def with_teams(links: Iterable[Link]) -> tuple[tuple[Link, ...], Unreadable | None]:
    """The links with `Link.team`, and why it could not be read. Never raises OSError."""
    links = tuple(links)
    teams = [link.ifindex for link in links if link.kind == "team"]
    if not teams:
        return links, None
    found: dict[int, Team] = {}
    trouble: Unreadable | None = None
    try:
        with NetlinkSocket(NETLINK_GENERIC) as netlink:
            for ifindex in teams[:MAX_TEAMS]:
                found[ifindex] = read_team(netlink, ifindex)
    except OSError as error:
        trouble = unreadable_from_error(error, "team")
    missing = Team(
        unreadable={"mode": trouble or Unreadable("failed", f"more than {MAX_TEAMS} teams")}
    )
    complete = []
    for link in links:
        if link.kind == "team":
            complete.append(replace(link, team=found.get(link.ifindex, missing)))
        else:
            complete.append(link)
    return tuple(complete), trouble


def read_team(netlink: NetlinkSocket, ifindex: int) -> Team:
    """Raises OSError."""
    which = pack_u32(TEAM_ATTR_TEAM_IFINDEX, ifindex)
    options: Options = {}
    for body in netlink.generic(FAMILY, TEAM_CMD_OPTIONS_GET, which):
        options.update(parse_options(body))
    ports: dict[int, bool] = {}
    for body in netlink.generic(FAMILY, TEAM_CMD_PORT_LIST_GET, which):
        ports.update(parse_ports(body))
    return make_team(options, ports)


def parse_options(body: bytes) -> Options:
    """Of one reply to TEAM_CMD_OPTIONS_GET."""
    options: Options = {}
    for item in listed(body, TEAM_ATTR_LIST_OPTION, TEAM_ATTR_ITEM_OPTION):
        if TEAM_ATTR_OPTION_NAME in item and TEAM_ATTR_OPTION_REMOVED not in item:
            key = (
                text(item[TEAM_ATTR_OPTION_NAME]),
                number(item, TEAM_ATTR_OPTION_PORT_IFINDEX) or 0,
            )
            options[key] = item.get(TEAM_ATTR_OPTION_DATA)
    return options


def parse_ports(body: bytes) -> dict[int, bool]:
    """ifindex → whether it has a link, of one reply to TEAM_CMD_PORT_LIST_GET."""
    ports: dict[int, bool] = {}
    for item in listed(body, TEAM_ATTR_LIST_PORT, TEAM_ATTR_ITEM_PORT):
        ifindex = number(item, TEAM_ATTR_PORT_IFINDEX)
        if ifindex and TEAM_ATTR_PORT_REMOVED not in item:
            ports[ifindex] = TEAM_ATTR_PORT_LINKUP in item
    return ports


def listed(body: bytes, list_attribute: int, item_attribute: int) -> Iterator[Mapping[int, bytes]]:
    for kind, items in iter_attributes(body):
        if kind == list_attribute:
            for kind_of_item, item in iter_attributes(items):
                if kind_of_item == item_attribute:
                    yield dict(iter_attributes(item))


def make_team(options: Options, ports: Mapping[int, bool]) -> Team:
    """A team of its options and ports (ifindex → whether it has a link)."""
    mode = text(options.get(("mode", 0)) or b"")
    members = []
    for ifindex, has_link in sorted(ports.items()):
        priority = _integer(options, "priority", ifindex, signed=True)
        enabled = _is_enabled(options, ifindex)
        members.append(TeamPort(ifindex, has_link, enabled=enabled, priority=priority))
    return Team(
        mode=None if mode in ("", NO_MODE) else mode,
        active_port=_integer(options, "activeport", 0) or None,  # 0 while there is none
        ports=tuple(members),
    )


def _is_enabled(options: Options, port: int) -> bool | None:
    """A flag, which has no value when it is off."""
    if ("enabled", port) not in options:
        return None
    return options["enabled", port] is not None


def _integer(options: Options, name: str, port: int, *, signed: bool = False) -> int | None:
    """A 32-bit option."""
    value = options.get((name, port))
    if value is None or len(value) != 4:
        return None
    return int.from_bytes(value, sys.byteorder, signed=signed)
