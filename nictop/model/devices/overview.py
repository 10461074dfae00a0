"""The overview: one row per NIC of every watched host.

Reads nothing; `overview(hosts)` returns the rows, `columns.overview` defines the cells and their
order, `row_filter` selects rows. A host without NICs (nothing received yet, failed, or only
loopback) has one row of its own, so that every watched host is visible.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import cached_property

from nictop.model.devices.bonds import is_aggregate
from nictop.model.devices.links import function_of, functions_by_address, reported_speed
from nictop.model.devices.netdevs import End
from nictop.model.devices.ports import wire_rates
from nictop.model.facts.summary import ranked_addresses
from nictop.model.managers.link_managers import profile_name
from nictop.model.rates.links import LinkRates, VfRates, sum_known
from nictop.model.snapshot import Snapshot
from nictop.model.text import units
from nictop.model.text.words import (
    IFF_LOOPBACK,
    LINK_UP,
    Tone,
    address_text,
    driver_name,
    is_virtual,
    state_mark,
)
from nictop.probe.light_dataclasses import dataclass
from nictop.probe.records import LINK_COUNTERS, Link, PciFunction, VirtualFunction

NO_NIC_IFINDEX = 0
"""`End.ifindex` in the row of a host without NICs; the kernel's numbers begin at 1."""
SEVERITIES_WORST_FIRST = ("critical", "warning", "info")
"""Severities of findings, the worst first."""
HOST_STATES = ("failed", "stale", "not", "reading", "read", "live")
"""First words of `NicRow.host_state`, in sort order."""


@dataclass(frozen=True, eq=False)
class HostNow:
    """A watched host at the time of drawing."""

    snapshot: Snapshot
    age: float | None = None
    """Seconds since its last line was received; None: nothing was received."""
    is_overdue: bool = False
    """It is live, and has sent nothing new for too long."""
    late_seconds: float | None = None
    """Age of its newest reading if the next one is late; None: it is not, or `is_overdue`."""


def _age_text(seconds: float) -> str:
    """In one unit, so that no column cuts it: ``12 s``, ``90 min``, ``30 h``, ``3 d``."""
    for unit, size, most in (("s", 1, 120), ("min", 60, 120), ("h", 3600, 48)):
        if seconds < size * most:
            return f"{max(0.0, seconds) // size:.0f} {unit}"
    return f"{seconds // 86400:.0f} d"


@dataclass(frozen=True, eq=False)
class NicRow:
    """One row of the overview."""

    end: End
    """Key: stable while the netdev exists."""
    snapshot: Snapshot
    link: Link | None = None
    """None: the row of a host without NICs, or (in the tree of devices) a function without a
    netdev."""
    pci: PciFunction | None = None
    vf: VirtualFunction | None = None
    """In the tree of devices: as reported by the netdev of its physical function."""
    profile: tuple[str, Tone] = ("", "dim")
    """Manager or profile as short text (see `profile_name`); "": none, or not known."""
    rates: LinkRates | VfRates | None = None
    """The newest rates, however old: `rate` tells those of now."""
    severity: str | None = None
    """Severity of the worst finding about it."""
    is_doubtful: bool = False
    """That finding may have changed, or was not checked again."""
    peers: tuple[str, ...] = ()
    """``vm1 ens3``: connected NICs of other hosts (VF and tap pairs)."""
    age: float | None = None
    """Seconds since the last line of the host was received, when it is not live, or overdue."""
    late_seconds: float | None = None
    """See `HostNow`."""

    @property
    def is_stale(self) -> bool:
        """The values of the row are not current."""
        return self.snapshot.state != "live" or self.age is not None

    @property
    def host_state(self) -> str:
        """``live``, ``read 3 s ago`` (the next reading is late), ``reading`` (its interfaces, for
        the first time), ``not read yet``, ``failed``, ``stale 12 s``. The steps of a
        connection are in the table of hosts."""
        state = self.snapshot.state
        if state == "live" and self.snapshot.inventory is None:
            return "reading"
        if state == "live" and self.late_seconds is not None:
            return f"read {_age_text(self.late_seconds)} ago"
        if state == "failed" or not self.is_stale:
            return state
        if state == "connecting" and self.snapshot.hello is None:
            return "not read yet"
        if self.age is None:
            return "stale"
        return f"stale {_age_text(self.age)}"

    @cached_property
    def driver(self) -> str:
        if self.link is not None:
            return driver_name(self.link, self.pci) or ""
        if self.pci is not None:
            return self.pci.driver or ""
        return ""

    @cached_property
    def addresses(self) -> tuple[str, ...]:
        """``192.0.2.7/24``; the most useful ones first."""
        if self.link is None:
            return ()
        return tuple(map(address_text, ranked_addresses(self.link)))

    @property
    def speed(self) -> int | None:
        """Mb/s; None: not known, or none now: what a link without a carrier reports is that of
        before, and that of a veth is always the same."""
        if self.link is None or state_mark(self.link) != LINK_UP:
            return None
        return reported_speed(self.link)

    def rate(self, *names: str) -> float | None:
        """Sum of some fields of `LinkRates`; None when one of them is not known now."""
        if self.is_stale:
            return None
        total: float = 0
        for name in names:
            value: float | None = getattr(self.rates, name, None)
            if value is None:
                return None
            total += value
        return total

    def count(self, *names: str) -> int | None:
        """Sum of some counters (`LINK_COUNTERS`) of the link; None when none of them has been
        counted."""
        if self.link is None:
            return None
        numbers = self.link.counters
        if self.snapshot.counters is not None:
            numbers = self.snapshot.counters.links.get(self.link.ifindex) or numbers
        if numbers is None:
            return None
        by_name = dict(zip(LINK_COUNTERS, numbers, strict=False))
        return sum_known(by_name.get(name) for name in names)

    @property
    def drops(self) -> float | None:
        """Packets dropped by the stack and, where it counts them, missed by the device; per
        second."""
        dropped = self.rate("rx_dropped", "tx_dropped")
        if dropped is None:
            return None
        return dropped + (self.rate("rx_missed") or 0.0)

    @property
    def total_drops(self) -> int | None:
        """The same since the link was created, in packets."""
        return self.count("rx_dropped", "tx_dropped", "rx_missed_errors")


def overview(
    hosts: Iterable[HostNow],
    *,
    severities: Mapping[End, str] | None = None,
    doubtful: Collection[End] = (),
    peers: Mapping[End, Sequence[End]] | None = None,
    virtual: bool = False,
    before: Iterable[NicRow] = (),
) -> tuple[NicRow, ...]:
    """Rows by host in the given order, then by ifindex. `doubtful`: where the worst finding may
    have changed. `virtual`: including bridges, taps, veths,
    … and loopback; of a host that has no others, all but loopback are included anyway. `before`:
    the previous rows; values that cannot have changed are copied from them."""
    hosts = tuple(hosts)
    severities, peers = severities or {}, peers or {}
    known = {row.end: row for row in before}
    names: Mapping[End, str] = {}
    if peers:
        names = _names(hosts)
    rows: list[NicRow] = []
    for host in hosts:
        snapshot, age = host.snapshot, _shown_age(host)
        functions = functions_by_address(snapshot.pci)
        rates = wire_rates(snapshot)
        links = _shown_links(snapshot, virtual=virtual)
        if not links:
            end = End(snapshot.host, NO_NIC_IFINDEX)
            rows.append(NicRow(end, snapshot, age=age, late_seconds=host.late_seconds))
        for link in links:
            end = End(snapshot.host, link.ifindex)
            rows.append(
                NicRow(
                    end=end,
                    snapshot=snapshot,
                    link=link,
                    pci=function_of(link, functions),
                    profile=_profile(link, snapshot, known.get(end)),
                    rates=rates.get(link.ifindex),
                    severity=severities.get(end),
                    is_doubtful=end in doubtful,
                    peers=_peer_texts(peers.get(end, ()), names),
                    age=age,
                    late_seconds=host.late_seconds,
                )
            )
    return tuple(rows)


def _shown_age(host: HostNow) -> float | None:
    """Of values that are not those of now."""
    if host.snapshot.state == "live" and not host.is_overdue:
        return None
    return host.age


def _peer_texts(ends: Iterable[End], names: Mapping[End, str]) -> tuple[str, ...]:
    """``vm1 ens3`` of those whose host is shown."""
    return tuple(f"{end.host} {names[end]}" for end in ends if end in names)


def _shown_links(snapshot: Snapshot, *, virtual: bool) -> list[Link]:
    """By ifindex: all, or those with a device and what is made of them; of a host that has none,
    all but loopback."""
    links = [link for _, link in sorted(snapshot.links.items())]
    if virtual and links:
        return links
    if all(map(is_virtual, links)):
        return [link for link in links if not link.flags & IFF_LOOPBACK]
    return [link for link in links if not is_virtual(link) or is_aggregate(link)]


def _names(hosts: Iterable[HostNow]) -> dict[End, str]:
    names: dict[End, str] = {}
    for host in hosts:
        for link in host.snapshot.links.values():
            names[End(host.snapshot.host, link.ifindex)] = link.name
    return names


def _profile(link: Link, snapshot: Snapshot, before: NicRow | None) -> tuple[str, Tone]:
    if (
        before is not None
        and before.link is link
        and before.snapshot.inventory is snapshot.inventory
    ):
        return before.profile
    name, tone = profile_name(link, snapshot)
    if name == units.UNKNOWN:
        return "", "dim"
    return name, tone
