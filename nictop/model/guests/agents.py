"""What the guest agents tell of guests: also of those that cannot be watched (Windows; an agent
that forbids guest-exec).

Reads nothing. An agent is asked on request only: `Snapshot.agents` is what was told the last time.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from nictop.model.text.words import count_noun
from nictop.probe.light_dataclasses import dataclass
from nictop.probe.records import HostedGuest

AGENT_SOURCE = "guest agent"
MAX_SHOWN_INTERFACES, MAX_SHOWN_ADDRESSES = 8, 4


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


def agent_text(told: AgentFacts) -> str:
    """``Windows Server 2022 Standard · 4 CPUs · Ethernet 52:54:… 192.0.2.5/24 · cannot be watched:
    Windows``"""
    if told.why:
        return f"told nothing: {told.why}"
    system = told.system
    if system and told.kernel:
        system += f", {told.kernel}"
    cpus = count_noun(told.cpus, "CPU") if told.cpus is not None else ""
    parts = [system, cpus, *map(_interface_text, told.interfaces[:MAX_SHOWN_INTERFACES])]
    if len(told.interfaces) > MAX_SHOWN_INTERFACES:
        parts.append(f"{len(told.interfaces) - MAX_SHOWN_INTERFACES} more interfaces")
    parts.append(why_not_watchable(told))
    return " · ".join(filter(None, parts)) or "told nothing"


def why_not_watchable(told: AgentFacts) -> str:
    """ "": the agent can carry a probe."""
    if told.is_windows:
        return "cannot be watched: Windows"
    if told.forbidden:
        return f"cannot be watched by it: {', '.join(told.forbidden[:2])} not allowed"
    return ""


def _interface_text(interface: AgentInterface) -> str:
    shown = interface.addresses[:MAX_SHOWN_ADDRESSES]
    return " ".join(filter(None, (interface.name, interface.mac, *shown)))
