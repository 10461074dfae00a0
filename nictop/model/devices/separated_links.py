"""Two ends that cannot reach each other by the design of macvlan, macvtap and ipvlan.

A macvlan sends to other macvlans of its lower device (mode bridge), and everything else out of the
lower device to the wire (drivers/net/macvlan.c, macvlan_queue_xmit): the host that has the lower
device never receives it, nor does a macvlan receive what the lower device sends. Two macvlans of
mode vepa or private reach each other only through a switch that sends a frame back to the port
where it came in (hairpin). ipvlan hands unicast packets to its master, but not the broadcasts of
ARP (drivers/net/ipvlan/ipvlan_core.c, ipvlan_process_multicast). So this is reported of a path that
was tested and does not work.

Reads nothing; takes the snapshots of both ends.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from nictop.model.snapshot import Snapshot, is_same_machine
from nictop.probe.light_dataclasses import dataclass
from nictop.probe.records import Link

MACVLAN_KINDS = ("macvlan", "macvtap")
UPPER_KINDS = (*MACVLAN_KINDS, "ipvlan", "ipvtap")
"""Kinds of links that share the NIC below them with its host."""
BLIND_MODES = ("private", "vepa")
"""Modes in which macvlans of one lower device do not reach each other."""


@dataclass(frozen=True, eq=False)
class Separation:
    """Why two ends cannot reach each other."""

    kind: Literal["lower", "siblings"]
    """lower: one end is the device below the other one. siblings: both are above the same
    device."""
    upper: Link
    """The macvlan, macvtap or ipvlan."""
    upper_host: str
    """The host that has it: of a guest, its hypervisor."""
    lower: Link | None
    """lower: the device below."""
    lower_host: str
    """lower: the host that has it; siblings: that of the other one."""
    guest: str = ""
    """Host whose NIC `upper` is; "": `upper` is a link of that host itself."""

    @property
    def mode(self) -> str:
        """``bridge``, ``vepa``, ``private``, ``passthru``, ``l2``; "": not known."""
        return str(
            self.upper.details.get("macvlan_mode") or self.upper.details.get("ipvlan_mode") or ""
        )


def separation(
    one: Snapshot, link: Link | None, other: Snapshot, other_link: Link | None
) -> Separation | None:
    """None: nothing of this kind is known between the two links."""
    if link is None or other_link is None:
        return None
    found = (
        *_above_the_other(one, link, other, other_link),
        *_above_the_other(other, other_link, one, link),
        *_siblings(one, link, other, other_link),
    )
    return found[0] if found else None


def _above_the_other(
    upper: Snapshot, link: Link, lower: Snapshot, lower_link: Link
) -> Iterator[Separation]:
    """`link` is above `lower_link`: itself, or as the NIC of a guest whose tap is a macvtap
    there."""
    if link.kind in UPPER_KINDS and _is_on(upper, link, lower, lower_link):
        yield Separation("lower", link, upper.host, lower_link, lower.host)
        return
    if link.kind is not None or link.address is None:
        return
    for tap in lower.links.values():
        if tap.lower != lower_link.ifindex or tap.lower_namespace is not None:
            continue
        if tap.kind in MACVLAN_KINDS and tap.address == link.address:
            yield Separation("lower", tap, lower.host, lower_link, lower.host, guest=upper.host)


def _is_on(upper: Snapshot, link: Link, lower: Snapshot, lower_link: Link) -> bool:
    """In another network namespace of one machine the number of the lower device is that of the
    other namespace."""
    if link.lower != lower_link.ifindex or lower_link.kind in UPPER_KINDS:
        return False
    if link.lower_namespace is None:
        return upper.host == lower.host or _in_one_namespace(upper, lower)
    return upper.host != lower.host and is_same_machine(upper, lower)


def _in_one_namespace(one: Snapshot, other: Snapshot) -> bool:
    """Two names of one host: the same links."""
    return is_same_machine(one, other) and {*one.links} == {*other.links}


def _siblings(one: Snapshot, link: Link, other: Snapshot, other_link: Link) -> Iterator[Separation]:
    """Both are macvlans above one device, and the mode of one of them does not let them reach each
    other."""
    if link.kind not in MACVLAN_KINDS or other_link.kind not in MACVLAN_KINDS:
        return
    if link.lower is None or link.lower != other_link.lower:
        return
    is_outside = link.lower_namespace is not None
    is_other_outside = other_link.lower_namespace is not None
    if is_outside != is_other_outside or not is_same_machine(one, other):
        return
    for host, upper, there in ((one, link, other), (other, other_link, one)):
        if upper.details.get("macvlan_mode") in BLIND_MODES:
            yield Separation("siblings", upper, host.host, None, there.host)
