"""What a workload or a measurement by hand did: its duration, its end, its own figure, and the
bytes of NICs and connections meanwhile. Reads nothing."""

from __future__ import annotations

from typing import Literal

from nictop.probe.light_dataclasses import dataclass
from nictop.probe.records import StorageActivity

MAX_OTHER_SHARE = 0.05
"""Of the bytes of the chosen NIC: with more that are known to be of other processes, a run measures
them too."""
BUSIER_FACTOR = 2
"""A NIC that carried more than that many times what the chosen one did, which may be a port of its
bond, is named."""
EndReason = Literal["itself", "deadline", "stopped", "lost", "hand", "interval"]
"""deadline: the time limit. stopped: by the user. lost: its host was lost, which ends it. hand: a
measurement was ended by the user, as planned. interval: it was chosen in a recording, later."""


@dataclass(frozen=True)
class CommandFigure:
    """What the command itself reports."""

    name: str
    """``read bandwidth``"""
    value: float
    """In `unit`."""
    unit: str
    """``b/s``, ``s``, ``1/s`` (scaled when shown); or as the command wrote it, "": none."""
    source: str
    """``fio JSON``, ``--value``"""
    less_is_better: bool = False


@dataclass(frozen=True)
class NicTraffic:
    """Counters of one NIC from right before to right after. None: reset, or not counted."""

    name: str
    ifindex: int
    received_bytes: int | None
    """With the headers of Ethernet, without preamble, FCS and gap."""
    sent_bytes: int | None
    received_packets: int | None
    sent_packets: int | None
    seconds: float
    """Between both readings."""

    @property
    def bytes(self) -> int:
        return (self.received_bytes or 0) + (self.sent_bytes or 0)


@dataclass(frozen=True)
class TrafficPeer:
    """TCP connections to one peer, or of one process."""

    text: str
    """``192.0.2.5 port 445``; of other processes their name."""
    sent: int
    """Bytes of payload."""
    received: int
    connections: int = 1


@dataclass(frozen=True)
class BytesByOwner:
    """Payload of TCP connections over the chosen NIC, as far as they were seen."""

    own: int
    other: int
    unknown: int
    """No process that may be read has the connection: of another user, or the kernel's own (NFS,
    SMB, iSCSI, NBD)."""
    peers: tuple[TrafficPeer, ...] = ()
    """Of the workload, those with the most bytes first."""
    others: tuple[TrafficPeer, ...] = ()
    """Of other processes."""
    unknowns: tuple[TrafficPeer, ...] = ()
    retransmits: int = 0
    """Segments, of the workload."""


@dataclass(frozen=True)
class GuestFigures:
    """A guest that was measured from its hypervisor. Cores that its threads used; None: not
    known."""

    name: str
    cores: float | None = None
    vcpu: float | None = None
    """Its virtual CPUs: all that runs in it."""
    vhost: float | None = None
    """Threads that copy its packets."""
    rest: float | None = None
    """Other threads of its emulator."""


@dataclass(frozen=True)
class WorkloadFigures:
    """Of one run."""

    seconds: float
    """From its begin to its end."""
    reason: EndReason = "itself"
    user: str = ""
    """As whom it ran; "": a measurement by hand."""
    status: int | None = None
    signal: int | None = None
    stdout: tuple[str, ...] = ()
    """Last lines; not clean."""
    stderr: tuple[str, ...] = ()
    stdout_bytes: int = 0
    """All that it wrote."""
    stderr_bytes: int = 0
    figure: CommandFigure | None = None
    no_figure: str = ""
    """Why there is none although one was asked for."""
    nics: tuple[NicTraffic, ...] = ()
    """The chosen one, and all others with traffic."""
    chosen_ifindex: int | None = None
    guest: GuestFigures | None = None
    """The guest whose NIC is the chosen one; None: it is a NIC of the host itself."""
    owners: BytesByOwner | None = None
    owners_unknown: str = ""
    """Why `owners` is None."""
    user_seconds: float | None = None
    """CPU time of its processes."""
    system_seconds: float | None = None
    processes: int = 1
    storage: tuple[StorageActivity, ...] = ()
    """Block devices and NFS servers with requests meanwhile, of all processes of the host."""
    left: int = 0
    """Processes that it left running, and that were ended; -1: some could not be ended."""

    @property
    def chosen(self) -> NicTraffic | None:
        """Counters of the chosen NIC; None: none was, or it is gone."""
        for nic in self.nics:
            if nic.ifindex == self.chosen_ifindex:
                return nic
        return None

    @property
    def busier_nic(self) -> NicTraffic | None:
        """The NIC that carried most, if that is more than `BUSIER_FACTOR` times what the chosen one
        did: the work may have gone over it."""
        chosen, busiest = self.chosen, max(self.nics, key=lambda nic: nic.bytes, default=None)
        if chosen is None or busiest is None or busiest.bytes <= BUSIER_FACTOR * chosen.bytes:
            return None
        return busiest

    @property
    def used_chosen_nic(self) -> bool:
        """As far as is known: no NIC was busier, or most bytes of the chosen one were its own."""
        chosen, owners = self.chosen, self.owners
        if chosen is None:
            return False
        if self.busier_nic is None:
            return True
        return owners is not None and owners.own > chosen.bytes / 2

    @property
    def other_share(self) -> float | None:
        """Share of 1 of the bytes of the chosen NIC that other processes are known to have moved;
        None: not known."""
        nic = self.chosen
        if self.owners is None or nic is None or not nic.bytes:
            return None
        return min(1.0, self.owners.other / nic.bytes)
