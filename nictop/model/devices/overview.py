"""Every NIC of every watched host on one line each.

Reads nothing; `overview(hosts)` yields the rows, `overview_columns` says what stands in them and in which order, and
`row_filter` which of them are wanted. A host without NICs (not heard of yet, failed, or with virtual links only) has
one line of its own, so that no watched host is ever out of sight.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from nictop.model.devices.netdevs import End
from nictop.model.facts.summary import ranked_addresses
from nictop.model.managers.link_managers import profile_name
from nictop.model.rates.links import LinkRates
from nictop.model.snapshot import Snapshot
from nictop.model.text import units
from nictop.model.text.words import Tone, driver_name, is_virtual
from nictop.probe.records import Link, PciFunction

NO_NIC = 0
"""`End.ifindex` of the line of a host without NICs; the kernel counts from one."""
WORST_FIRST = ("critical", "warning", "info")
"""Severities of findings."""
HOST_STATES = ("failed", "stale", "connecting", "live")
"""First words of `NicRow.host_state`, in the order of their column."""


@dataclass(frozen=True, eq=False)
class HostNow:
    """A watched host at the moment of drawing."""

    snapshot: Snapshot
    age: float | None = None
    """Seconds since its last line was heard; None: nothing was heard of it."""


@dataclass(frozen=True, eq=False)
class NicRow:
    """One line."""

    end: End
    """Key: stable while the netdev exists."""
    snapshot: Snapshot
    link: Link | None = None
    """None: the line of a host without NICs."""
    pci: PciFunction | None = None
    profile: tuple[str, Tone] = ("", "dim")
    """Who runs it, in a word (see `profile_name`); "": nobody, or not known."""
    rates: LinkRates | None = None
    """The newest that were heard, however long ago."""
    severity: str | None = None
    """Of the worst finding about it."""
    peers: tuple[str, ...] = ()
    """``vm1 ens3``: the NICs of other hosts that it carries or is carried by."""
    age: float | None = None
    """Seconds since the host was heard of, when it is not live."""

    @property
    def is_stale(self) -> bool:
        """What stands in the line was true once."""
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
        return (driver_name(self.link, self.pci) or "") if self.link is not None else ""

    @cached_property
    def addresses(self) -> tuple[str, ...]:
        """``192.0.2.7/24``; those people would ping first come first."""
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

    @property
    def drops(self) -> float | None:
        """Dropped by the stack and, where it counts that, missed by the device; per second."""
        dropped = self.rate("rx_dropped", "tx_dropped")
        return None if dropped is None else dropped + (self.rate("rx_missed") or 0.0)


def overview(
    hosts: Iterable[HostNow],
    *,
    severities: Mapping[End, str] | None = None,
    peers: Mapping[End, Sequence[End]] | None = None,
    virtual: bool = False,
    before: Iterable[NicRow] = (),
) -> tuple[NicRow, ...]:
    """Rows by host in the order given, then by ifindex. `virtual`: bridges, taps, veths, … and loopback too. `before`:
    the rows as they were; what cannot have changed since is not derived again."""
    hosts = tuple(hosts)
    known = {row.end: row for row in before}
    names = _names(hosts) if peers else {}
    rows: list[NicRow] = []
    for host in hosts:
        snapshot = host.snapshot
        age = host.age if snapshot.state != "live" else None
        functions = {function.address: function for function in snapshot.pci}
        shown = [link for _, link in sorted(snapshot.links.items()) if virtual or not is_virtual(link)]
        if not shown:
            rows.append(NicRow(End(snapshot.host, NO_NIC), snapshot, age=age))
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
