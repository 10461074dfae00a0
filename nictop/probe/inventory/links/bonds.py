"""LACP partner and churn of the ports of bonds from /proc/net/bonding/BOND, which rtnetlink does
not have.

One file is read per bond of mode 802.3ad. The partner of each port is in it only with
CAP_NET_ADMIN.
"""

from __future__ import annotations

import os
from collections.abc import Iterable

from nictop.probe.inventory.links.bond_messages import (
    LACP_MODE,
    parse_proc_bonding,
    with_lacp_details,
)
from nictop.probe.kernel.sysfs import printable_path, unreadable_from_error
from nictop.probe.light_dataclasses import replace
from nictop.probe.records import Link, Unreadable

MAX_PROC_BYTES = 256 * 1024
"""About 900 bytes per port."""


def with_bond_details(
    links: Iterable[Link], proc: str = "/proc"
) -> tuple[tuple[Link, ...], Unreadable | None]:
    """The links with the LACP details of `Link.bond_port`, and why some are missing. Never raises
    OSError."""
    found = {link.ifindex: link for link in links}
    trouble: Unreadable | None = None
    for bond in tuple(found.values()):
        if bond.bond is None or bond.bond.mode != LACP_MODE:
            continue
        content = read_proc_bonding(os.path.join(proc, "net/bonding", bond.name))
        ports = parse_proc_bonding(content.split("\n")) if isinstance(content, str) else {}
        for link in tuple(found.values()):
            if link.master != bond.ifindex or link.bond_port is None:
                continue
            if isinstance(content, Unreadable):
                failed = dict.fromkeys(("actor", "partner"), content)
                port = replace(link.bond_port, unreadable={**link.bond_port.unreadable, **failed})
                trouble = content
            else:
                port = with_lacp_details(link.bond_port, ports.get(link.name, {}))
                trouble = trouble or port.unreadable.get("partner")
            found[link.ifindex] = replace(link, bond_port=port)
    return tuple(found.values()), trouble


def read_proc_bonding(path: str) -> str | Unreadable:
    """The whole text; the kernel returns one page per read."""
    try:
        with open(path, "rb") as file:
            return file.read(MAX_PROC_BYTES).decode("utf-8", "replace")
    except OSError as error:
        return unreadable_from_error(error, printable_path(path))
