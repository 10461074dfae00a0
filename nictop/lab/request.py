"""What a lab consists of, and what is wrong with it on purpose. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Literal, get_args

from nictop.errors import NictopError
from nictop.probe.light_dataclasses import dataclass, field

Join = Literal["veth", "bridge"]
JOINS: tuple[Join, ...] = get_args(Join)
HOSTS = ("a", "b", "c")
FAULTY = "b"
"""The host that a fault is made in."""
SWITCH = "switch"
"""Namespace with the bridge."""
NIC, SECOND_NIC = "lab0", "lab1"
"""Names in the hosts. The second one is that of b on the way to c."""
DEFAULT_MTU, MIN_MTU, MAX_MTU = 1500, 1280, 65535
"""IPv6 needs 1280 bytes (RFC 8200)."""
SMALLER_MTU_BYTES = 100
"""What the fault "mtu" takes away."""
MAX_VLAN_ID = 4094
MIN_DELAY_MS, MAX_DELAY_MS = 0.001, 10_000.0
MIN_LOSS_PERCENT, MAX_LOSS_PERCENT = 0.001, 100.0
MIN_RATE_MBIT, MAX_RATE_MBIT = 0.1, 30_000.0
"""The attributes of the kernel have 32 bits, for bytes per second."""

FAULTS = {
    "mtu": "a smaller MTU than the others",
    "down": "its NIC is down",
    "no-address": "no IP address",
    "prefix-length": "a longer prefix than the others",
    "duplicate-address": "also the IP addresses of netns:a",
    "arp": "ARP is off",
    "route": "a route refuses packets to netns:a",
    "vlan": "another VLAN than the others (with --vlan)",
}
"""Fault → what is wrong with the host b."""
NEED_AN_ADDRESS = ("prefix-length", "duplicate-address")
"""Faults of an address."""


@dataclass(frozen=True)
class LabRequest:
    """What is to be made. 0: unset."""

    hosts: int = 2
    """2 or 3."""
    join: Join = "veth"
    """By veth three hosts are a chain: b forwards between a and c. By bridge all are on one."""
    delay_ms: float = 0.0
    """Of each packet that a host sends."""
    loss_percent: float = 0.0
    """Of the packets that a host sends."""
    rate_mbit: float = 0.0
    """Largest rate at which a host sends."""
    vlan: int = 0
    mtu: int = DEFAULT_MTU
    faults: tuple[str, ...] = ()


@dataclass(frozen=True)
class Network:
    """One subnet, and the NICs in it."""

    number: int
    nics: dict[str, str] = field(default_factory=dict)
    """Host → its NIC."""

    def addresses(self, host: str) -> tuple[tuple[str, int], tuple[str, int]]:
        """IPv4 and IPv6 address with prefix length: for benchmarks (RFC 2544), unique local (RFC
        4193)."""
        place = HOSTS.index(host) + 1
        return (
            (f"198.18.{self.number}.{place}", 24),
            (f"fd6e:6963:746f:{self.number}::{place}", 64),
        )

    @property
    def prefixes(self) -> tuple[str, str]:
        return f"198.18.{self.number}.0/24", f"fd6e:6963:746f:{self.number}::/64"


def checked(request: LabRequest) -> LabRequest:
    """The same. Raises NictopError if its parts do not fit each other."""
    if "vlan" in request.faults and not request.vlan:
        raise NictopError("--fault vlan needs the VLAN that the others have", "add --vlan 5")
    for other in NEED_AN_ADDRESS:
        if "no-address" in request.faults and other in request.faults:
            raise NictopError(f"--fault no-address and --fault {other} exclude each other")
    if "mtu" in request.faults and request.mtu - SMALLER_MTU_BYTES < MIN_MTU:
        raise NictopError(
            f"--fault mtu needs an MTU of {MIN_MTU + SMALLER_MTU_BYTES} or more for the others"
        )
    return request


def vlan_of(request: LabRequest, host: str) -> int:
    """Of the link with its addresses; 0: none. By veth it is here that the VLANs differ."""
    return _vlan(request, host, faulty_join="veth")


def vlan_of_port(request: LabRequest, host: str) -> int:
    """Of its port of the bridge."""
    return _vlan(request, host, faulty_join="bridge")


def _vlan(request: LabRequest, host: str, faulty_join: Join) -> int:
    is_faulty = "vlan" in request.faults and host == FAULTY and request.join == faulty_join
    if not is_faulty:
        return request.vlan
    return request.vlan + 1 if request.vlan < MAX_VLAN_ID else 1


def host_names(request: LabRequest) -> tuple[str, ...]:
    """Those with addresses."""
    return HOSTS[: request.hosts]


def namespace_names(request: LabRequest) -> tuple[str, ...]:
    """All that are watched."""
    switch = (SWITCH,) if request.join == "bridge" else ()
    return (*host_names(request), *switch)


def networks(request: LabRequest) -> tuple[Network, ...]:
    """One on a bridge; of a chain of veths one for each."""
    names = host_names(request)
    if request.join == "bridge":
        return (Network(0, dict.fromkeys(names, NIC)),)
    return tuple(_chain(names))


def _chain(names: tuple[str, ...]) -> Iterator[Network]:
    for number, (one, other) in enumerate(pairwise(names)):
        yield Network(number, {one: SECOND_NIC if number else NIC, other: NIC})


def summary(request: LabRequest) -> str:
    """One line for the user."""
    joined = {"veth": "joined by veth", "bridge": "on the bridge of netns:switch"}
    names = " ".join(f"local/netns:{name}" for name in namespace_names(request))
    return f"lab: {names}, {joined[request.join]}"
