"""Hosts made of literal records, for requests of runs between them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from nictop.model.devices.pairs import pairs
from nictop.model.snapshot import Snapshot
from nictop.probe.records import Address, Channels, Ethtool, Link
from nictop.traffic.plan.plan import EndpointPair, endpoint_pairs
from tests.model.hosts import HELLO, LOOPBACK, inventory, make_link, snapshot_of

LO = replace(LOOPBACK, addresses=(Address("ipv4", "127.0.0.1", 8, "host", ("permanent",)),))


def nic(
    ifindex: int, name: str, *addresses: str, queues: int | None = None, **more: object
) -> Link:
    """A device with global addresses of /24 or /64."""
    records = tuple(
        Address("ipv6", one, 64, "global", ())
        if ":" in one
        else Address("ipv4", one, 24, "global", ())
        for one in addresses
    )
    settings = (
        Ethtool(channels=Channels(None, None, None, queues, None, None, None, 8))
        if queues
        else Ethtool()
    )
    return make_link(ifindex, name, bus="pci", addresses=records, ethtool=settings, **more)


def machine(name: str, *links: Link, boot: str = "") -> Snapshot:
    hello = replace(HELLO, boot_id=boot or name)
    return snapshot_of(hello, inventory(links=(LO, *links), pci=()), host=name)


def between(*hosts: Snapshot) -> tuple[Sequence[EndpointPair], dict[str, Snapshot]]:
    """Their endpoint pairs, and the snapshots by host."""
    return endpoint_pairs(pairs(hosts).subnets, hosts), {host.host: host for host in hosts}


def two(queues: int | None = None) -> tuple[Sequence[EndpointPair], dict[str, Snapshot]]:
    """Hosts a and b in two shared subnets: ens3, and ens4 with both IP versions."""
    return between(
        machine(
            "a",
            nic(3, "ens3", "192.0.2.1"),
            nic(4, "ens4", "198.51.100.1", "2001:db8::1", queues=queues),
        ),
        machine(
            "b",
            nic(5, "ens3", "192.0.2.2"),
            nic(6, "ens4", "198.51.100.2", "2001:db8::2", queues=queues),
        ),
    )
