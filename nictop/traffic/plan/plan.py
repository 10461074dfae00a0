"""The plan of one run (both endpoints and every option), and the endpoint pairs to choose from.

Reads nothing. `problems(plan)` lists what is invalid in the plan itself; what the two hosts do not
support is listed by `tools.refusals`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import permutations
from typing import Literal

from nictop.model.devices.netdevs import Disagreement, End
from nictop.model.devices.subnets import Member, SharedSubnet
from nictop.model.snapshot import Snapshot, is_same_namespace
from nictop.probe.light_dataclasses import dataclass, replace
from nictop.probe.records import Link

Direction = Literal["forward", "reverse", "bidirectional"]
Generator = Literal["iperf3", "builtin", "ntttcp"]
TestKind = Literal["bulk", "rr", "crr", "loaded", "workload", "manual"]
"""bulk: one direction at full speed. rr: request and response. crr: connect, request, response,
close. loaded: rr alone (idle), then beside a bulk flow. workload: a command of the user. manual:
what flows from its begin to its end, both by the user."""
GENERATED_TESTS: tuple[TestKind, ...] = ("bulk", "rr", "crr", "loaded")
"""Tests whose traffic nictop generates, between two ends."""
ONE_HOST_TESTS: tuple[TestKind, ...] = ("workload", "manual")
"""Of one host, the client, whose end is not known before."""
Judge = Literal["duration", "rate", "value", "smaller-value", "cpu"]
"""By which figure runs of a workload are compared: its duration, the bits per second of its NIC,
the figure that it reports (more is better; or less), CPU per Gb/s."""
DEFAULT_WORKLOAD_SECONDS = 3600
"""Time limit of a workload or of a measurement by hand."""
MAX_COMMAND_CHARS, MAX_PATTERN_CHARS = 4096, 500
"""Of a command, as in the probe, and of the expression for its figure."""

MAX_IPERF3_MESSAGE_BYTES = 1 << 20
MAX_BUILTIN_MESSAGE_BYTES = 8 << 20
MAX_UDP_PAYLOAD_BYTES = 65507
"""UDP over IPv4: 65535 less 20 bytes of IP header and 8 of UDP header."""
MIN_DATAGRAM_BYTES = 16
MAX_STREAMS = 128
DEFAULT_REQUEST_BYTES = 64
MIN_REQUEST_DATAGRAM_BYTES = 8
MAX_FILES = 1_000_000
MAX_REQUEST_RATE = 1_000_000
DEFAULT_LOADED_RATE = 200
"""Requests per second of a loaded run: p99 of each phase is known after 5 s, however long a
response takes."""
LOAD_RAMP_SECONDS = 2
"""Of the bulk flow of a loaded run, in which its rate rises; not measured."""
LOAD_START_SECONDS = 20
"""The requests of a loaded run last at most that much longer than planned: until the bulk flow has
ended."""
MAX_LOADED_INTERVAL, MIN_PHASE_REPORTS = 5.0, 5
"""Seconds between two reports in a loaded run, whose bulk flow is started after a report of the
requests; reports in each phase, of which only those that lie wholly in it are counted."""
MIN_MSS, MAX_MSS = 88, 32767
MIN_WINDOW_BYTES, MAX_WINDOW_BYTES = 1024, 1 << 30
MAX_BITRATE = 10**13
"""Bits per second, of each stream."""
MAX_CPU = MAX_PORT = 65535
MAX_TIME_SECONDS, MAX_OMIT_SECONDS = 86000, 600
"""A probe terminates generators after a day."""
DEFAULT_WAIT_SECONDS, MAX_WAIT_SECONDS = 300, 3600
"""For a client that somebody starts by hand."""
MIN_INTERVAL_SECONDS, MAX_INTERVAL_SECONDS = 0.1, 60
MAX_TRANSACTION_REPORTS = 20_000
"""Of one run: each has a histogram, some 6 kB in memory."""

DSCP = {
    "cs0": 0, "cs1": 8, "cs2": 16, "cs3": 24, "cs4": 32, "cs5": 40, "cs6": 48, "cs7": 56, "ef": 46,
    "va": 44, "le": 1, "af11": 10, "af12": 12, "af13": 14, "af21": 18, "af22": 20, "af23": 22,
    "af31": 26, "af32": 28, "af33": 30, "af41": 34, "af42": 36, "af43": 38,
}  # fmt: skip
"""Name → DSCP (RFC 2474, 2597, 3246, 5865, 8622)."""


NETWORK = "network"
"""Name of the other end of what one host sends and receives."""


@dataclass(frozen=True)
class Endpoint:
    """One end of a run."""

    host: str
    """Name of the watched host."""
    ifindex: int | None
    """The NIC that should carry the run; None: any, then the path cannot be proven."""
    address: str
    """IPv4 or IPv6 address, with a zone if it is link-local."""

    @property
    def end(self) -> End | None:
        if self.ifindex is None:
            return None
        return End(self.host, self.ifindex)

    def link_in(self, snapshots: Mapping[str, Snapshot]) -> Link | None:
        """Its NIC as the host has it now; None: not known. `snapshots`: by host."""
        if self.ifindex is None or self.host not in snapshots:
            return None
        return snapshots[self.host].links.get(self.ifindex)


@dataclass(frozen=True, kw_only=True)
class RunOptions:
    """The options of a run that do not depend on its endpoints. None: the default of the
    generator."""

    direction: Direction = "forward"
    """forward: the client sends; reverse: the server sends."""
    protocol: Literal["tcp", "udp"] = "tcp"
    bitrate: int | None = None
    """Bits per second, of each stream."""
    time: int = 10
    """Seconds that are measured; loaded: of each phase."""
    omit: int = 0
    """Seconds before the measured ones."""
    streams: int = 1
    length: int | None = None
    """Bytes of one write, or of one datagram."""
    mss: int | None = None
    window: int | None = None
    """Bytes of the socket buffers (SO_SNDBUF, SO_RCVBUF)."""
    congestion: str | None = None
    dscp: int | None = None
    """0 to 63."""
    client_cpu: int | None = None
    server_cpu: int | None = None
    zerocopy: bool = False
    port: int = 5201
    interval: float = 0.5
    """Seconds between two reports of the generator."""
    test: TestKind = "bulk"
    request_size: int | None = None
    """rr, crr: bytes; None: `DEFAULT_REQUEST_BYTES`."""
    response_size: int | None = None
    """rr, crr: bytes; None: as the request."""
    files: int | None = None
    """crr: transactions after which the run ends; `time` is the longest that it may take then.
    None: ends after `time`."""
    rate: int | None = None
    """rr, loaded: requests per second of all connections together, sent on schedule. None: each
    connection of rr sends when it has the last response; loaded: `DEFAULT_LOADED_RATE`."""

    foreign: bool = False
    """bulk: one end is a program that nictop did not start, on a host that is not watched, whose
    name is its address: the server, or with `foreign_client` the client."""
    foreign_client: bool = False
    """With `foreign`: somebody starts the client, by a command that nictop prints."""
    wait: int = DEFAULT_WAIT_SECONDS
    """foreign_client: seconds until it must have come."""
    guest: str = ""
    """manual: a guest of the host, whose NIC is measured as the guest sees it."""
    guest_vf: int | None = None
    """With `guest`: its NIC is this VF of the NIC of the endpoint; None: it has a link there."""
    workload: str = ""
    """workload: the command, one line for a shell."""
    value_pattern: str = ""
    """workload: regular expression that finds the command's own figure in its output; "": one of
    a known format is looked for."""
    judged_by: Judge | None = None
    """workload, manual; None: the command's own figure, or else duration, or rate (manual)."""
    variable_name: str = ""
    variable_value: str = ""
    """workload: ``$NICTOP_VARIABLE`` and ``$NICTOP_VALUE``."""

    @property
    def has_bulk(self) -> bool:
        """There is a flow at full speed."""
        return self.test in ("bulk", "loaded")

    @property
    def foreign_side(self) -> Literal["client", "server"] | None:
        """The end that is not watched; None: both are."""
        if not self.foreign:
            return None
        return "client" if self.foreign_client else "server"

    @property
    def has_requests(self) -> bool:
        """There are requests and responses."""
        return self.test in ("rr", "crr", "loaded")

    @property
    def is_of_one_host(self) -> bool:
        """What a host does by itself is measured: client and server are the same endpoint."""
        return self.test in ONE_HOST_TESTS

    @property
    def has_rate(self) -> bool:
        """Its figure over time is bits per second."""
        return self.has_bulk or self.is_of_one_host

    @property
    def is_open_ended(self) -> bool:
        """It may end long before its time."""
        return self.files is not None or self.is_of_one_host

    @property
    def span(self) -> int:
        """Seconds from the first measured one to the end."""
        if self.test == "loaded":
            return 2 * self.time + LOAD_RAMP_SECONDS
        return self.time

    @property
    def type_of_service(self) -> int | None:
        """Byte of the IP header that has the DSCP in its upper six bits (RFC 2474); None: the
        default."""
        if self.dscp is None:
            return None
        return self.dscp << 2

    @property
    def sizes(self) -> tuple[int, int]:
        """Bytes of a request and of a response."""
        request = self.request_size or DEFAULT_REQUEST_BYTES
        return request, self.response_size or request


@dataclass(frozen=True)
class RunPlan(RunOptions):
    """The endpoints, the generator and the options of one run."""

    client: Endpoint
    server: Endpoint
    generator: Generator = "iperf3"

    @property
    def ip_version(self) -> Literal[4, 6]:
        return 6 if ":" in self.server.address else 4

    @property
    def sending(self) -> tuple[Literal["client", "server"], ...]:
        """Sides that send payload at full speed; () in tests of requests and responses alone."""
        if not self.has_bulk:
            return ()
        if self.direction == "bidirectional":
            return ("client", "server")
        return ("client",) if self.direction == "forward" else ("server",)

    @property
    def drawn_ends(self) -> tuple[Endpoint, str, Endpoint]:
        """The end that sends, an arrow, and the end that receives; for both directions client
        first."""
        if self.is_of_one_host:
            return self.client, "↔", Endpoint(NETWORK, None, "")
        if self.direction == "reverse":
            return self.server, "→", self.client
        is_one_way = self.direction == "forward" and self.has_bulk
        return self.client, "→" if is_one_way else "↔", self.server

    @property
    def watched_ends(self) -> tuple[Endpoint, ...]:
        """Ends on hosts that are watched, each host once."""
        if self.foreign_side == "client":
            return (self.server,)
        if self.foreign or self.server.host == self.client.host:
            return (self.client,)
        return (self.client, self.server)

    @property
    def foreign_end(self) -> Endpoint | None:
        """The end that is not watched; None: both are."""
        ends = {"client": self.client, "server": self.server}
        return ends[self.foreign_side] if self.foreign_side is not None else None

    @property
    def senders(self) -> tuple[str, ...]:
        """Hosts that send payload."""
        if self.is_of_one_host:
            return (self.client.host,)
        hosts = {"client": self.client.host, "server": self.server.host}
        return tuple(hosts[side] for side in self.sending)

    @property
    def seconds(self) -> int:
        """Duration with the omitted seconds."""
        return self.span + self.omit

    @property
    def requests(self) -> RunPlan:
        """Of a loaded run its part with requests, on one connection; other plans unchanged."""
        if self.test != "loaded":
            return self
        return replace(
            self,
            test="rr",
            generator="builtin",
            direction="forward",
            time=self.span + LOAD_START_SECONDS,
            rate=self.rate or DEFAULT_LOADED_RATE,
            interval=self._loaded_interval,
            streams=1,
            bitrate=None,
            length=None,
            mss=None,
            window=None,
            congestion=None,
            zerocopy=False,
        )

    @property
    def load(self) -> RunPlan | None:
        """The bulk flow of a loaded run, always TCP, on the next port; None: another test."""
        if self.test != "loaded":
            return None
        return replace(
            self,
            test="bulk",
            protocol="tcp",
            omit=LOAD_RAMP_SECONDS,
            interval=self._loaded_interval,
            request_size=None,
            response_size=None,
            files=None,
            rate=None,
            port=next_port(self.port),
        )

    @property
    def parts(self) -> tuple[RunPlan, ...]:
        """What the generators run, each with its own: of a loaded run its requests, then its bulk
        flow; of other runs the plan itself."""
        load = self.load
        if load is None:
            return (self,)
        return (self.requests, load)

    @property
    def _loaded_interval(self) -> float:
        """Seconds between two reports of both parts of a loaded run."""
        return min(self.interval, MAX_LOADED_INTERVAL, self.time / MIN_PHASE_REPORTS)

    @property
    def requested_load(self) -> float | None:
        """Bits per second of all streams and directions, or requests per second, that the run is to
        reach; None: as many as possible."""
        if self.test == "bulk" and self.bitrate:
            return float(self.bitrate * self.streams * len(self.sending))
        if self.test == "rr" and self.rate is not None:
            return float(self.rate)
        return None


@dataclass(frozen=True)
class EndpointPair:
    """Two netdevs of two hosts that share a subnet."""

    network: str
    client: Endpoint
    server: Endpoint
    disagreements: tuple[Disagreement, ...] = ()
    """Settings in which the two ends differ."""


def endpoint_pairs(
    subnets: Iterable[SharedSubnet], snapshots: Iterable[Snapshot]
) -> tuple[EndpointPair, ...]:
    """Every pair of endpoints in a shared subnet, in both directions: devices before virtual links,
    then in the order of the subnets. Addresses that several netdevs have are left out, and pairs of
    two names of one machine (of one of its network namespaces)."""
    by_host = {snapshot.host: snapshot for snapshot in snapshots}
    found: list[EndpointPair] = []
    for subnet in subnets:
        unique = [member for member in subnet.members if member.address not in subnet.duplicates]
        for client, server in permutations(unique, 2):
            if not _are_one_host(by_host, client.end.host, server.end.host):
                found.append(_pair(subnet, client, server))

    def virtual_ends(pair: EndpointPair) -> int:
        return _is_virtual(by_host, pair.client) + _is_virtual(by_host, pair.server)

    return tuple(sorted(found, key=virtual_ends))


def _pair(subnet: SharedSubnet, client: Member, server: Member) -> EndpointPair:
    ends = {client.end, server.end}
    differing = [
        disagreement for disagreement in subnet.disagreements if _separates(disagreement, ends)
    ]
    return EndpointPair(subnet.network, _endpoint(client), _endpoint(server), tuple(differing))


def _are_one_host(by_host: dict[str, Snapshot], one: str, other: str) -> bool:
    if one == other:
        return True
    if one not in by_host or other not in by_host:
        return False
    return is_same_namespace(by_host[one], by_host[other])


def _endpoint(member: Member) -> Endpoint:
    return Endpoint(member.end.host, member.end.ifindex, member.address)


def _separates(disagreement: Disagreement, ends: set[End]) -> bool:
    """The ends have different values."""
    return sum(bool(ends.intersection(side)) for _, side in disagreement.sides) > 1


def _is_virtual(by_host: dict[str, Snapshot], endpoint: Endpoint) -> bool:
    """Also if it is not known."""
    link = endpoint.link_in(by_host)
    return link is None or link.bus is None


def next_port(port: int) -> int:
    """The next higher port; of the highest, the next lower one, which needs no privilege either."""
    if port < MAX_PORT:
        return port + 1
    return port - 1


def dscp_number(text: str) -> int | None:
    """``ef``, ``AF41``, ``46``, ``0x2e`` → 0 to 63; None if it is invalid."""
    named = DSCP.get(text.lower())
    if named is not None:
        return named
    try:
        number = int(text, 0)
    except ValueError:
        return None
    return number if 0 <= number < 64 else None
