"""What the guest agents told of guests, as data: a part of a snapshot (`Snapshot.agents`).

Reads nothing. The texts about it are in `nictop.model.guests.agents`.
"""

from __future__ import annotations

from collections.abc import Mapping

from nictop.probe.light_dataclasses import dataclass
from nictop.probe.light_tuples import NamedTuple
from nictop.probe.records import HostedGuest


@dataclass(frozen=True)
class AgentInterface:
    """guest-network-get-interfaces"""

    name: str
    mac: str
    """Lower case; "": not told."""
    addresses: tuple[str, ...]
    """``192.0.2.5/24``"""


@dataclass(frozen=True)
class AgentFacts:
    """What the agent of one guest told, or why it told nothing."""

    system: str = ""
    """guest-get-osinfo: pretty-name."""
    kernel: str = ""
    """guest-get-osinfo: kernel-release."""
    cpus: int | None = None
    """Online ones, guest-get-vcpus; None: not told."""
    is_windows: bool = False
    forbidden: tuple[str, ...] = ()
    """Commands that a probe would need, and that it does not allow (guest-info)."""
    interfaces: tuple[AgentInterface, ...] = ()
    why: str = ""
    """Why nothing is known; "": it answered."""
    asked_at: float | None = None
    """Seconds since the epoch, by the clock of this machine."""

    def addresses_of(self, mac: str | None) -> tuple[str, ...]:
        """Those of the interface with this MAC address."""
        found: list[str] = []
        for interface in self.interfaces:
            if mac and interface.mac == mac:
                found += interface.addresses
        return tuple(found)


class GuestKey(NamedTuple):
    """By which a guest of a host is known again in the next inventory."""

    kind: str
    name: str
    id: str


AgentsTold = Mapping[GuestKey, AgentFacts]
"""Of one host."""


def guest_key(guest: HostedGuest) -> GuestKey:
    return GuestKey(guest.kind, guest.name, guest.id)
