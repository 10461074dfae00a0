"""The overview: one row per NIC of every watched host.

Reads nothing; `overview(hosts)` returns the rows, `columns.overview` defines the cells and their order, `row_filter`
selects rows. A host without NICs (nothing received yet, failed, or only loopback) has one row of its own, so that
every watched host is visible.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from nictop.model.devices.bonds import is_aggregate
from nictop.model.devices.netdevs import End
from nictop.model.facts.summary import ranked_addresses
from nictop.model.managers.link_managers import profile_name
from nictop.model.rates.links import LinkRates, VfRates
from nictop.model.snapshot import Snapshot
from nictop.model.text import units
from nictop.model.text.words import IFF_LOOPBACK, Tone, driver_name, is_virtual
from nictop.probe.records import LINK_COUNTERS, Link, PciFunction, VirtualFunction

NO_NIC_IFINDEX = 0
"""`End.ifindex` in the row of a host without NICs; the kernel's numbers begin at 1."""
SEVERITIES_WORST_FIRST = ("critical", "warning", "info")
"""Severities of findings, the worst first."""
HOST_STATES = ("failed", "stale", "connecting", "live")
"""First words of `NicRow.host_state`, in sort order."""


@dataclass(frozen=True, eq=False)
class HostNow:
    """A watched host at the time of drawing."""

    snapshot: Snapshot
    age: float | None = None
    """Seconds since its last line was received; None: nothing was received."""


@dataclass(frozen=True, eq=False)
class NicRow:
    """One row of the overview."""

    end: End
    """Key: stable while the netdev exists."""
    snapshot: Snapshot
    link: Link | None = None
    """None: the row of a host without NICs, or (in the tree of devices) a function without a netdev."""
    pci: PciFunction | None = None
    vf: VirtualFunction | None = None
    """In the tree of devices: as reported by the netdev of its physical function."""
    profile: tuple[str, Tone] = ("", "dim")
    """Manager or profile as short text (see `profile_name`); "": none, or not known."""
    rates: LinkRates | VfRates | None = None
    """The newest rates, however old."""
    severity: str | None = None
    """Severity of the worst finding about it."""
    peers: tuple[str, ...] = ()
    """``vm1 ens3``: connected NICs of other hosts (VF and tap pairs)."""
    age: float | None = None
    """Seconds since the last line of the host was received, when it is not live."""

    @property
    def is_stale(self) -> bool:
        """The values of the row are not current."""
        return self.snapshot.state != "live"

    @property
    def host_state(self) -> str:
        """``live``, ``connecting``, ``failed``, ``stale 12.0 s``."""
        state = self.snapshot.state
        if state in ("live", "failed"):
            return state
        if state == "connecting" and self.snapshot.hello is None:
            return state
        return "stale" if self.age is None else f"stale {units.duration(self.age)}"

    @cached_property
    def driver(self) -> str:
        if self.link is not None:
            return driver_name(self.link, self.pci) or ""
        return (self.pci.driver or "") if self.pci is not None else ""

    @cached_property
    def addresses(self) -> tuple[str, ...]:
        """``192.0.2.7/24``; the most useful ones first."""
        return tuple(f"{one.address}/{one.prefix_length}" for one in ranked_addresses(self.link)) if self.link else ()

    @property
    def speed(self) -> int | None:
        """Mb/s."""
        settings = self.link.ethtool.settings if self.link is not None else None
        return settings.speed if settings is not None else None

    def rate(self, *names: str) -> float | None:
        """Sum of some fields of `LinkRates`; None when one of them is not known."""
        values = [getattr(self.rates, name, None) for name in names]
        return None if None in values else sum(value for value in values if value is not None)

    def count(self, *names: str) -> int | None:
        """Sum of some counters (`LINK_COUNTERS`) of the link; None when none of them has been counted."""
        if self.link is None:
            return None
        counters = self.snapshot.counters
        numbers = (counters.links.get(self.link.ifindex) if counters is not None else None) or self.link.counters
        if numbers is None:
            return None
        known = [number for name, number in zip(LINK_COUNTERS, numbers, strict=False) if name in names]
        return sum(known) if known else None

    @property
    def drops(self) -> float | None:
        """Packets dropped by the stack and, where it counts them, missed by the device; per second."""
        dropped = self.rate("rx_dropped", "tx_dropped")
        return None if dropped is None else dropped + (self.rate("rx_missed") or 0.0)

    @property
    def total_drops(self) -> int | None:
        """The same since the link was created, in packets."""
        return self.count("rx_dropped", "tx_dropped", "rx_missed_errors")


def overview(
    hosts: Iterable[HostNow],
    *,
    severities: Mapping[End, str] | None = None,
    peers: Mapping[End, Sequence[End]] | None = None,
    virtual: bool = False,
    before: Iterable[NicRow] = (),
) -> tuple[NicRow, ...]:
    """Rows by host in the given order, then by ifindex. `virtual`: including bridges, taps, veths, … and loopback; of a
    host that has no others, all but loopback are included anyway. `before`: the previous rows; values that cannot have
    changed are copied from them."""
    hosts = tuple(hosts)
    known = {row.end: row for row in before}
    names = _names(hosts) if peers else {}
    rows: list[NicRow] = []
    for host in hosts:
        snapshot = host.snapshot
        age = host.age if snapshot.state != "live" else None
        functions = {function.address: function for function in snapshot.pci}
        links = [link for _, link in sorted(snapshot.links.items())]
        shown = [link for link in links if virtual or not is_virtual(link)]
        shown = [link for link in links if link in shown or is_aggregate(link)] if shown and not virtual else shown
        shown = shown or [link for link in links if not link.flags & IFF_LOOPBACK]
        if not shown:
            rows.append(NicRow(End(snapshot.host, NO_NIC_IFINDEX), snapshot, age=age))
        for link in shown:
            end = End(snapshot.host, link.ifindex)
            others = (peers or {}).get(end, ())
            rows.append(
                NicRow(
                    end=end,
                    snapshot=snapshot,
                    link=link,
                    pci=functions.get(link.pci_address or ""),
                    profile=_profile(link, snapshot, known.get(end)),
                    rates=snapshot.rates.links.get(link.ifindex) if snapshot.rates is not None else None,
                    severity=(severities or {}).get(end),
                    peers=tuple(f"{other.host} {names[other]}" for other in others if other in names),
                    age=age,
                )
            )
    return tuple(rows)


def _names(hosts: Iterable[HostNow]) -> dict[End, str]:
    return {End(host.snapshot.host, link.ifindex): link.name for host in hosts for link in host.snapshot.links.values()}


def _profile(link: Link, snapshot: Snapshot, before: NicRow | None) -> tuple[str, Tone]:
    if before is not None and before.link is link and before.snapshot.inventory is snapshot.inventory:
        return before.profile
    name, tone = profile_name(link, snapshot)
    return ("", "dim") if name == units.UNKNOWN else (name, tone)
