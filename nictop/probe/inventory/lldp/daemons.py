"""LLDP neighbours of lldpd and of systemd-networkd, if they run. Those of NetworkManager are read
with its devices."""

from __future__ import annotations

from nictop.probe.inventory.lldp.lldpd import read_lldpd
from nictop.probe.inventory.lldp.networkd import Neighbours, read_networkd_lldp
from nictop.probe.records import Link, Services, Unreadable


def read_lldp(
    links: tuple[Link, ...], services: Services, run: str = "/run"
) -> tuple[Neighbours, Unreadable | None]:
    """(neighbours by ifindex, those of lldpd before those of networkd; why some could not be
    read)."""
    found: Neighbours = {}
    trouble = None
    if services.lldpd is not None:
        found, trouble = read_lldpd({link.name: link.ifindex for link in links})
    if services.networkd is not None:
        others, why = read_networkd_lldp(run)
        trouble = trouble or why
        for ifindex, neighbours in others.items():
            found[ifindex] = (*found.get(ifindex, ()), *neighbours)
    return found, trouble
