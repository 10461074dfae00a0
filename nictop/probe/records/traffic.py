"""Traffic for a measurement: requests to a probe, its replies, and the firewalls of the host."""

from __future__ import annotations

from typing import Literal

from nictop.probe.light_dataclasses import dataclass, field
from nictop.probe.records.drops import DropReport
from nictop.probe.records.lldp import LldpListening
from nictop.probe.records.losses import LossCount
from nictop.probe.records.path import PathListener, PathTest, TrafficPath
from nictop.probe.records.unreadable import Unreadable


@dataclass(frozen=True, slots=True)
class TrafficRequest:
    """Start, stop or check one traffic generator, look up a route, test the path to the other end,
    monitor dropped packets, or listen for LLDP. A probe replies with `TrafficLine`s of the same
    id."""

    id: str
    """Chosen by the requester, unique among the running children: printable ASCII, 1 to 64
    characters."""
    action: Literal[
        "check",
        "start",
        "stop",
        "path",
        "path_listen",
        "path_test",
        "floor",
        "drops",
        "lldp",
        "losses",
        "work",
    ]
    """check: list the generators ("tools"). start: start one child. stop: end that child; "exit"
    follows. path: the route from `source` to `address` ("path"). path_listen: answer the path test
    of `address` until stop or `deadline` ("path_listener", twice; then "exit"). path_test: test the
    path from `source` to `address` ("path_test"). floor: measure the latency of the built-in
    generator itself over loopback ("floor"). drops: monitor dropped packets for `deadline` seconds,
    as root ("drops"). lldp: listen on `links` until each has had a frame, stop or `deadline`
    ("lldp", several times; then "exit"). losses: read the counters of lost packets ("losses").
    work: run a command until its end, stop or `deadline` ("work", twice; then "exit"); only by a
    probe with ``--allow-workload``."""
    role: Literal["server", "client"] | None = None
    generator: Literal["iperf3", "builtin", "ntttcp"] | None = None
    arguments: tuple[str, ...] = ()
    """Options of the generator without its name, role, port and address, which the probe adds.
    iperf3: only those allowed by `traffic.iperf3`; builtin, and floor: those of
    `traffic.builtin.options`."""
    port: int = 0
    """1 to 65535. server, path_listen: to listen at; client, path_test: to connect to. path_listen:
    0: any."""
    address: str | None = None
    """Numeric IPv4 or IPv6, with a zone if needed (``fe80::1%ens3``). server: to bind to, None:
    any; client: the server's; path, path_listen, path_test: the other end's."""
    deadline: float = 0.0
    """Seconds from the start, above 0 and at most 86400 (path_listen, path_test: 240; check: 120,
    or 0: the default; floor, drops: 60; lldp: 35): the child is ended then; drops: the report is
    sent then."""
    sockets: bool = False
    """True: a "sockets" line every `interval`."""
    interval: float = 1.0
    """Seconds, 0.1 to 60."""
    source: str = ""
    """path, path_listen, path_test: the local address."""
    ifindex: int = 0
    """path, path_listen, path_test: the NIC that should receive packets from `address`; losses:
    whose counters of the driver are read; 0: unknown."""
    threads: bool = False
    """True: a "threads" line about once a second, of all processes of this host."""
    cookie: str = ""
    """path_listen, path_test: 32 hexadecimal digits that packets of this test contain. start,
    builtin: the same for the greetings of this run; a server answers no others."""
    short: bool = False
    """path_test: a few packets instead of a few hundred, at most 2 s. path_listen: any free port if
    `port` is in use."""
    links: tuple[int, ...] = ()
    """lldp: ifindexes, 1 to 64."""
    peer: str = ""
    """start, server of builtin: address of the client, numeric; "": it may be translated on the
    way."""
    congestion: str = ""
    """start, server of iperf3: the congestion control that its client will ask it to set; "": the
    default."""
    workload: str = ""
    """work: what ``/bin/sh -c`` executes, one line."""
    variables: dict[str, str] = field(default_factory=dict)
    """work: variables of its environment; their names begin with ``NICTOP_``."""


@dataclass(frozen=True, slots=True)
class FilterChain:
    """A base chain of nftables, type filter, for packets to the host itself (hook input) or from it
    (hook output)."""

    family: Literal["ip", "ip6", "inet"]
    table: str
    name: str
    policy: Literal["accept", "drop"]
    """For packets on which no rule decides."""
    hook: Literal["input", "output"] = "input"


@dataclass(frozen=True, slots=True)
class Firewalls:
    """The firewalls of this network namespace."""

    firewalld: int | None = None
    """pid; None: not running."""
    ufw: bool = False
    """Enabled: ENABLED in /etc/ufw/ufw.conf."""
    chains: tuple[FilterChain, ...] = ()
    """By family, table and name; also those created by firewalld, ufw and iptables-nft."""
    unreadable: dict[str, Unreadable] = field(default_factory=dict)
    """Field of this record → why it is unknown."""


@dataclass(frozen=True, slots=True)
class TrafficTools:
    """Traffic generators of a host; builtin is always available."""

    path: str | None = None
    """Of iperf3; None: not found in PATH."""
    version: str = ""
    """The output of ``iperf3 --version``."""
    options: tuple[str, ...] = ()
    """Long options in ``iperf3 --help``, in its order, with dashes: ``--json-stream``."""
    congestion_controls: tuple[str, ...] = ()
    """/proc/sys/net/ipv4/tcp_available_congestion_control"""
    allowed_congestion_controls: tuple[str, ...] = ()
    """/proc/sys/net/ipv4/tcp_allowed_congestion_control: algorithms that an ordinary user may
    select."""
    congestion_control: str = ""
    """/proc/sys/net/ipv4/tcp_congestion_control: the default."""
    cpus: tuple[int, ...] = ()
    """Ids of the CPUs on which the probe and its children may run."""
    ntttcp_path: str | None = None
    """Of ntttcp; None: not found in PATH, or not reported by an older probe."""
    ntttcp_version: str = ""
    """The first line of ``ntttcp -h``."""
    firewalls: Firewalls | None = None
    """Firewalls that may block a client; None: not reported by an older probe."""
    unreadable: dict[str, Unreadable] = field(default_factory=dict)
    """Field of this record → why it is empty: an iperf3 that hangs, fails or is another program."""


@dataclass(frozen=True, slots=True)
class TrafficSocket:
    """One TCP socket of a child, by netlink sock_diag (struct tcp_info). None: the kernel is too
    old for the field.

    Counts are since the connection was made; the control connection of iperf3 is one of these
    sockets.
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
    """Acknowledged by the remote end, without retransmissions (Linux 4.1)."""
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


@dataclass(frozen=True, slots=True)
class BusyThread:
    """CPU time of one thread of the host between two readings (see `traffic.busy_threads`)."""

    tid: int
    pid: int
    name: str
    """comm, which the process can set."""
    user: int
    """USER_HZ ticks in that time."""
    system: int
    cpu: int | None
    """On which it last ran; None: the sum of a process whose threads have not been read
    individually yet."""
    generator: bool = False
    """It belongs to the generator of this line."""
    probe: bool = False
    """It belongs to the probe that writes this line, or to a child of it that reads the
    inventory."""
    seconds: float = 0.0
    """Between its own two readings, which a busy host delays; 0: that of its line, from an older
    probe."""


@dataclass(frozen=True, slots=True)
class LatencyCounts:
    """Latencies of transactions, counted in the buckets of `traffic.builtin.latency_buckets`."""

    sum: int
    """ns"""
    buckets: tuple[int, ...]
    """As by `latency_buckets.packed_counts`."""


@dataclass(frozen=True, slots=True)
class GeneratorFloor:
    """The built-in generator alone: both ends on this host, over loopback."""

    arguments: tuple[str, ...]
    """Those of the request."""
    seconds: float
    transactions: int
    lost: int
    latency: LatencyCounts
    connect: LatencyCounts | None = None
    """--test crr: of connecting."""


@dataclass(frozen=True, slots=True)
class WorkloadConnection:
    """Bytes of a TCP connection while a workload ran, or of several together."""

    owner: Literal["own", "other", "unknown"]
    """own: a process of the workload has it open. other: another process. unknown: no process that
    may be read, or it is the kernel's own, as of an NFS mount."""
    local: str
    """Address; connections within the host are left out."""
    sent: int
    """Bytes of payload that were acknowledged."""
    received: int
    retransmits: int = 0
    """Segments."""
    local_port: int = 0
    remote: str = ""
    """Address; "": several connections."""
    remote_port: int = 0
    rtt: int = 0
    """µs, smoothed, at the last reading."""
    process: str = ""
    """other: its name."""
    connections: int = 1


@dataclass(frozen=True, slots=True)
class StorageActivity:
    """What a block device, or the NFS mounts of a server, did in some seconds, of all processes of
    the host."""

    name: str
    """``nbd0``; of NFS the server."""
    kind: Literal["block", "nfs"]
    seconds: float
    reads: int = 0
    """Requests that were completed."""
    writes: int = 0
    read_bytes: int = 0
    """nfs: with the headers of RPC."""
    written_bytes: int = 0
    read_seconds: float = 0.0
    """Of all reads together: block: from the request until it was completed, nfs: until the reply
    (rtt)."""
    write_seconds: float = 0.0
    busy: float | None = None
    """Share of 1 of the time with a request in flight; None: not counted."""
    slowest_read: float | None = None
    """Seconds that a read took on average in the slowest second; None: none was read, or it is of
    one interval."""
    slowest_write: float | None = None


@dataclass(frozen=True, slots=True)
class WorkloadReport:
    """A command of the user: that it began, what storage does meanwhile, and how it ended."""

    state: Literal["began", "running", "ended"]
    pid: int
    """Of its shell."""
    time: float
    """Seconds, CLOCK_MONOTONIC: of its begin or end."""
    user: str = ""
    """began: as whom it runs."""
    seconds: float = 0.0
    """ended: from its begin to its end."""
    reason: Literal["itself", "deadline", "stopped"] = "itself"
    """ended: why."""
    status: int | None = None
    """ended: exit status of the shell; None: ended by `signal`."""
    signal: int | None = None
    user_seconds: float | None = None
    """ended: CPU time of all its processes."""
    system_seconds: float | None = None
    processes: int = 1
    """ended: the most at one time."""
    left: int = 0
    """ended: processes that it left running, and that were ended; -1: some could not be ended."""
    connections: tuple[WorkloadConnection, ...] = ()
    """ended: of the host, those with the most bytes first."""
    unreadable: Unreadable | None = None
    """ended: why the bytes of connections are not known."""
    threads: tuple[BusyThread, ...] = ()
    """ended: those of the host that used most CPU time meanwhile; "generator": of its session."""
    threads_seconds: float = 0.0
    threads_unreadable: Unreadable | None = None
    """ended: why some may be missing."""
    storage: tuple[StorageActivity, ...] = ()
    """running: since the last report; ended: of the whole time; those with most bytes first."""
    stdout: str = ""
    """ended: the end of its standard output."""
    stderr: str = ""
    stdout_bytes: int = 0
    """ended: all that it wrote."""
    stderr_bytes: int = 0


@dataclass(frozen=True, slots=True)
class TrafficLine:
    """A reply about the generator `id`. In this order for each child: "started", "listening" (of a
    server), then "output", "sockets" and "threads", finally one "exit"; or one "failed" instead of
    "started". "failed" after "started" precedes the "exit" and is the reason why the probe ended
    the child."""

    time: float
    """Seconds, CLOCK_MONOTONIC of the probe's machine."""
    id: str
    kind: Literal[
        "tools",
        "path",
        "path_listener",
        "path_test",
        "floor",
        "drops",
        "lldp",
        "losses",
        "work",
        "started",
        "listening",
        "output",
        "sockets",
        "threads",
        "exit",
        "failed",
    ]
    text: str = ""
    """output: one line without line feed; failed: a sentence; exit: why it died, as far as its host
    shows it."""
    stream: Literal["stdout", "stderr"] | None = None
    """output: where it was written."""
    tools: TrafficTools | None = None
    """tools: the reply to a check."""
    path: TrafficPath | None = None
    """path: the reply to path."""
    pid: int | None = None
    """started: of the child, which is also the id of its process group and session."""
    arguments: tuple[str, ...] = ()
    """started: argv as run."""
    sockets: tuple[TrafficSocket, ...] = ()
    """sockets: those of the child and its children, by inode."""
    status: int | None = None
    """exit: 0 to 255; None: ended by `signal`. Sent after the end of both pipes."""
    signal: int | None = None
    """exit: number of the signal that ended it."""
    unreadable: Unreadable | None = None
    """sockets: why there are none; threads: why some may be missing."""
    threads: tuple[BusyThread, ...] = ()
    """threads: those of this host that used most CPU since the last reading, in descending
    order."""
    seconds: float | None = None
    """threads: since the last reading."""
    path_listener: PathListener | None = None
    path_test: PathTest | None = None
    floor: GeneratorFloor | None = None
    """floor: the reply to floor."""
    drops: DropReport | None = None
    lldp: LldpListening | None = None
    losses: tuple[LossCount, ...] | None = None
    """losses: the reply to losses, totals above 0."""
    work: WorkloadReport | None = None
    """work: a command has begun or ended."""
