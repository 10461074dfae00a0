"""Traffic for a measurement: what a probe is asked to start, and what it says of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from nictop.probe.records.firewalls import Firewalls
from nictop.probe.records.unreadable import Unreadable


@dataclass(frozen=True)
class TrafficRequest:
    """Start, stop or look for one generator of traffic, or look up a route. A probe answers each with `TrafficLine`s of
    the same id."""

    id: str
    """Chosen by the asker, unique among the children that run: printable ASCII, 1 to 64 characters."""
    action: Literal["check", "start", "stop", "path"]
    """check: which generators are there ("tools"). start: one child. stop: end that child; it says "exit" then. path:
    how this host reaches `address` from `source` ("path")."""
    role: Literal["server", "client"] | None = None
    generator: Literal["iperf3", "builtin"] | None = None
    arguments: tuple[str, ...] = ()
    """Options of the generator without its name, role, port and address, which the probe puts in front. iperf3: only
    those of `iperf3_command`; builtin: those of `built_in_options`."""
    port: int = 0
    """1 to 65535. server: to listen at; client: to connect to."""
    address: str | None = None
    """Numeric IPv4 or IPv6, with a zone where it needs one (``fe80::1%ens3``). server: to bind to, None: any;
    client: the server's; path: the other end's."""
    deadline: float = 0.0
    """Seconds from the start, above 0 and at most 86400: the child is ended then, whatever it does."""
    sockets: bool = False
    """True: a "sockets" line every `interval`."""
    interval: float = 1.0
    """Seconds, 0.1 to 60."""
    source: str = ""
    """path: this end's address."""
    ifindex: int = 0
    """path: the NIC that is meant to receive from `address`; 0: not known."""
    threads: bool = False
    """True: a "threads" line about once a second, of all processes of this host."""


@dataclass(frozen=True)
class TrafficTools:
    """Which generators a host has. builtin is always there."""

    path: str | None = None
    """Of iperf3; None: not found in PATH."""
    version: str = ""
    """What ``iperf3 --version`` prints, whole."""
    options: tuple[str, ...] = ()
    """Long options that ``iperf3 --help`` names, with their dashes, in its order: ``--json-stream``."""
    congestion_controls: tuple[str, ...] = ()
    """/proc/sys/net/ipv4/tcp_available_congestion_control"""
    allowed_congestion_controls: tuple[str, ...] = ()
    """/proc/sys/net/ipv4/tcp_allowed_congestion_control: what an ordinary user may choose."""
    congestion_control: str = ""
    """/proc/sys/net/ipv4/tcp_congestion_control: what a socket gets that does not choose."""
    cpus: tuple[int, ...] = ()
    """CPU ids that the probe, hence its children, may run on."""
    firewalls: Firewalls | None = None
    """What may keep a client out; None: an older probe does not say."""
    unreadable: dict[str, Unreadable] = field(default_factory=dict)
    """Field of this record → why it is empty: an iperf3 that hangs, fails or is no iperf3."""


@dataclass(frozen=True)
class TrafficPath:
    """How a host reaches an address, and whether it takes packets from there. RTM_GETROUTE, RTM_GETNEIGH,
    net.ipv4.conf.*.rp_filter."""

    address: str
    source: str
    """As asked."""
    route: str = ""
    """Type of the route, as ip-route(8) names it: unicast, local, broadcast, multicast, unreachable, prohibit,
    blackhole, throw; none: there is no route; "": not known, or `source` is no address of this host."""
    ifindex: int | None = None
    """NIC that it leaves by."""
    gateway: str | None = None
    """None: on-link."""
    neighbour: str = ""
    """State of the gateway's or the address's entry in the neighbour table, as ip-neighbour(8) names it: reachable,
    stale, delay, probe, incomplete, failed, permanent, noarp; none: no entry; "": not known."""
    neighbour_address: str | None = None
    """Its MAC address."""
    rp_filter: int | None = None
    """In force on the NIC that was asked about: 0 off, 1 strict, 2 loose. None: IPv6, or not known."""
    unreadable: dict[str, Unreadable] = field(default_factory=dict)
    """Field of this record → why it is empty."""


@dataclass(frozen=True)
class TrafficSocket:
    """One TCP socket of a child, by netlink sock_diag (struct tcp_info). None: the kernel is too old for the field.

    Counts are since the connection was made; the control connection of iperf3 is one of these sockets.
    """

    inode: int
    """Identifies the socket while it is open."""
    state: str
    """As ``ss`` names it: established, syn-sent, fin-wait-1, …"""
    local: str
    """Address, IPv4-mapped ones as IPv4."""
    local_port: int
    remote: str
    remote_port: int
    congestion_control: str
    """INET_DIAG_CONG"""
    bytes_acked: int | None
    """Sent and acknowledged by the other end, without retransmissions (Linux 4.1)."""
    bytes_received: int | None
    retransmits: int
    """Segments, tcpi_total_retrans."""
    rtt: int
    """µs, smoothed."""
    rttvar: int
    """µs"""
    minimum_rtt: int | None
    """µs; None also before the first measurement."""
    congestion_window: int
    """Segments."""
    snd_mss: int
    """Bytes of payload in a full segment: TCP options are already subtracted."""
    pacing_rate: int | None
    """Bytes per second; None: not limited."""
    delivery_rate: int | None
    """Bytes per second, the most recent one (Linux 4.9)."""
    lost: int
    """Segments, tcpi_lost."""
    bytes_retransmitted: int | None
    """Linux 4.19."""
    busy_time: int | None
    """µs with data to send (Linux 4.10)."""
    window_limited: int | None
    """µs of `busy_time` limited by the receiver's window, tcpi_rwnd_limited."""
    buffer_limited: int | None
    """µs of `busy_time` limited by the own send buffer."""
    send_window: int | None
    """Bytes the receiver last offered, scaled (Linux 5.4)."""


@dataclass(frozen=True)
class BusyThread:
    """What one thread of the host used between two readings (see `busy_threads`)."""

    tid: int
    pid: int
    name: str
    """comm: as its owner set it."""
    user: int
    """USER_HZ ticks in that time."""
    system: int
    cpu: int | None
    """That it last ran on; None: this is a process with several threads that have not been read one by one yet."""
    generator: bool = False
    """It belongs to the generator that this line is about."""


@dataclass(frozen=True)
class TrafficLine:
    """Something about the generator `id`. In this order for each child: "started", then "listening" (a server's), then
    "output", "sockets" and "threads", at last one "exit"; or one "failed" instead of "started". "failed" after
    "started" is said ahead of the "exit" and is the reason why the probe ended the child."""

    time: float
    """Seconds, CLOCK_MONOTONIC of the probe's machine."""
    id: str
    kind: Literal["tools", "path", "started", "listening", "output", "sockets", "threads", "exit", "failed"]
    text: str = ""
    """output: one line without its end; failed: a sentence."""
    stream: Literal["stdout", "stderr"] | None = None
    """output: where it was written to."""
    tools: TrafficTools | None = None
    """tools: the answer to a check."""
    path: TrafficPath | None = None
    """path: the answer to that."""
    pid: int | None = None
    """started: of the child, which is also the id of its process group and session."""
    arguments: tuple[str, ...] = ()
    """started: argv as run."""
    sockets: tuple[TrafficSocket, ...] = ()
    """sockets: those of the child and its children, by inode."""
    status: int | None = None
    """exit: 0 to 255; None: ended by `signal`. Said only when both pipes are at their end."""
    signal: int | None = None
    """exit: number of the signal that ended it."""
    unreadable: Unreadable | None = None
    """sockets: why there are none; threads: why some may be missing."""
    threads: tuple[BusyThread, ...] = ()
    """threads: those of this host that used most CPU since the reading before, the first one most."""
    seconds: float | None = None
    """threads: since the reading before."""
