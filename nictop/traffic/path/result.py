"""The result of a path test: both ends, and what was found in each direction."""

from __future__ import annotations

from typing import Literal

from nictop.probe.light_dataclasses import dataclass, field
from nictop.probe.records import PathListener, PathTest
from nictop.rules.finding import Finding
from nictop.traffic.path.link_losses import LinkLoss


@dataclass(frozen=True)
class PathRequest:
    """What the user asks for; "" and None: any. The client is the first host of the command
    line."""

    client: str
    server: str
    """Names of watched hosts."""
    client_nic: str = ""
    client_address: str = ""
    server_nic: str = ""
    server_address: str = ""
    ip_version: Literal[4, 6] | None = None
    port: int = 0
    """UDP and TCP port of the test at both ends; 0: any free one."""


@dataclass(frozen=True)
class PathEnd:
    """One end."""

    host: str
    nic: str
    """Name of the NIC that has the address; "": unknown."""
    ifindex: int | None
    address: str
    mac: str | None
    mtu: int | None
    """Bytes."""
    root: bool
    """Its probe ran as root."""
    nics: dict[int, str] = field(default_factory=dict)
    """ifindex → name of each NIC of the host that the result mentions."""
    ip_versions: tuple[int, ...] = ()
    """4, 6: of the addresses of its NIC, without link-local ones; (): not known."""


@dataclass(frozen=True)
class PathDirection:
    """One direction: what the sender's probe found, and what the receiver's probe received."""

    sender: PathEnd
    receiver: PathEnd
    test: PathTest | None = None
    listener: PathListener | None = None
    """The last line of the receiver's; None: it did not answer."""
    failure: str = ""
    """Why it was not tested; "": it was."""


@dataclass(frozen=True)
class PathResult:
    """Both directions of one test."""

    wall: float
    """Seconds since the epoch at the start."""
    network: str
    """Subnet that both ends share; "": none."""
    port: int
    """As in the request; that of the run, which is tested on the server."""
    directions: tuple[PathDirection, PathDirection]
    """From the client to the server, and back."""
    link_losses: tuple[LinkLoss, ...] = ()
    """Links of both hosts that were without carrier during the test, as far as is known."""


@dataclass(frozen=True)
class PathReport:
    """A result, and what is wrong."""

    result: PathResult
    findings: tuple[Finding, ...]
    """Worst first."""
