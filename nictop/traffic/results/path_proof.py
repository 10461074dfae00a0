"""Which NICs carried the bytes of a run, as a result says it. Reads nothing."""

from __future__ import annotations

from typing import Literal

from nictop.model.devices.netdevs import End
from nictop.probe.light_dataclasses import dataclass
from nictop.traffic.hosts.link_roles import Role

ProofVerdict = Literal["proven", "failed", "unknown"]
NetworkPath = Literal[
    "physical",
    "virtual function",
    "accelerated",
    "synthetic",
    "mixed",
    "virtual",
    "loopback",
    "other",
]


@dataclass(frozen=True)
class Carried:
    """Bytes that one netdev, or a VF as counted by its physical function, carried during the
    run."""

    end: End
    name: str
    """Name on the host, without control characters."""
    role: Role
    """Relation to the chosen NIC of its host."""
    received: float | None
    """Bytes; None: reset during the run, or not counted."""
    sent: float | None
    guest: str = ""
    """Name of the guest that has it; "": none, or not known, as in older results."""

    @property
    def text(self) -> str:
        """``VF 3 of ens1f0 (guest web1)``"""
        return f"{self.name} (guest {self.guest})" if self.guest else self.name

    @property
    def both(self) -> float:
        """Bytes of both directions, as far as they are known."""
        return (self.received or 0.0) + (self.sent or 0.0)

    @property
    def larger(self) -> float:
        """Bytes of the direction with more of them."""
        return max(self.received or 0.0, self.sent or 0.0)


@dataclass(frozen=True)
class HostProof:
    """Proof of one end of the run."""

    host: str
    verdict: ProofVerdict
    path: NetworkPath | None
    sentence: str
    carried: tuple[Carried, ...] = ()
    """The chosen NIC first, then by bytes, without those below `PARTIAL_SHARE`."""
    foreign: bool = False
    """The chosen NIC carried much more than the run."""


@dataclass(frozen=True)
class PathProof:
    """Proof of both ends, and netdevs of other hosts."""

    verdict: ProofVerdict
    """proven: both ends are; failed: one has failed."""
    sentence: str
    hosts: tuple[HostProof, ...] = ()
    """Client and server."""
    observed: tuple[Carried, ...] = ()
    """Netdevs of other hosts that carried the run."""
    one_machine: bool = False
    """Both ends are on one machine."""
