"""A guest of a watched host → the host that is watched through it, as `pve/101` is on the command
line.

Reads nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from nictop.hosts.specification import Host, host_below
from nictop.model.guests.owners import STANDING_CONDITIONS
from nictop.probe.records import HostedGuest
from nictop.wire.guests.levels import Kind, Level, parse_levels

KIND_OF_PRODUCT: Mapping[str, Kind] = {
    "qemu": "guest",
    "docker": "docker",
    "podman": "podman",
    "lxc": "lxc",
    "incus": "incus",
    "lxd": "incus",
    "nspawn": "nspawn",
    "netns": "netns",
}
"""Product of a guest → how it is reached; of others, as cloud-hypervisor, no way is known."""


def host_of_guest(host: Host, guest: HostedGuest) -> Host | None:
    """None: no way to it is known, or its name cannot be written."""
    return next(hosts_of_guest(host, guest), None)


def hosts_of_guest(host: Host, guest: HostedGuest) -> Iterator[Host]:
    """By its name, then by its id: under either it may be watched already."""
    for level in _levels_of_guest(guest):
        yield host_below(host, str(level), str(level))


def agent_name(guest: HostedGuest) -> str | None:
    """By which its agent is found on the hypervisor; None: it cannot be written."""
    levels = (level for level in _levels_of_guest(guest) if level.kind == "guest")
    level = next(levels, None)
    return level.name if level is not None else None


def _levels_of_guest(guest: HostedGuest) -> Iterator[Level]:
    kind = KIND_OF_PRODUCT.get(guest.product)
    if kind is None:
        return
    for name in _names(guest):
        level = Level(kind, name)
        try:
            is_level = parse_levels(str(level)) == (level,)
        except ValueError:
            continue
        if is_level:
            yield level


def _names(guest: HostedGuest) -> Iterator[str]:
    """pct(1) of Proxmox takes numbers only."""
    is_of_proxmox = guest.product == "lxc" and guest.id.isdigit()
    if not is_of_proxmox:
        yield guest.name
    yield guest.id


def running_guests(guests: Iterable[HostedGuest]) -> tuple[HostedGuest, ...]:
    """Those that can be watched: nothing answers in one that is paused or has crashed."""
    return tuple(guest for guest in guests if _runs(guest) and any(_levels_of_guest(guest)))


def _runs(guest: HostedGuest) -> bool:
    return guest.state == "running" and guest.condition not in STANDING_CONDITIONS
