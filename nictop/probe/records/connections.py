"""Records of the sockets that use a NIC, sent only while they are requested
(`Request.connections`)."""

from __future__ import annotations

from typing import Literal

from nictop.probe.light_dataclasses import dataclass, field
from nictop.probe.records.unreadable import Unreadable


@dataclass(frozen=True, slots=True)
class Connection:
    """One TCP or UDP socket, by netlink sock_diag (struct inet_diag_msg, struct tcp_info).

    None: this kernel does not report it; of numbers "since the previous reading" also: there is no
    previous reading.
    """

    protocol: Literal["tcp", "udp"]
    state: str
    """As ``ss`` names it: established, syn-sent, fin-wait-1, …; UDP: established (connected) or
    close."""
    local: str
    """Address, IPv4-mapped ones as IPv4; ``0.0.0.0`` and ``::``: any address (UDP)."""
    local_port: int
    remote: str = ""
    """Address; "": a UDP socket that is not connected, which may have any number of peers."""
    remote_port: int = 0
    cookie: int = 0
    """Identifies the socket on this host. idiag_cookie"""
    device: int = 0
    """ifindex to which the socket is bound (SO_BINDTODEVICE, a VRF), or the zone of a link-local
    address; 0: none. idiag_if"""
    direction: Literal["both", "rx", "tx"] = "both"
    """What of it goes through the requested links; rx: it sends through another link."""
    output: int | None = None
    """ifindex of the link through which it sends. RTM_GETROUTE; None: not looked up, or no
    route."""
    sent: int | None = None
    """Payload bytes acknowledged by the peer since the previous reading. tcpi_bytes_acked (Linux
    4.1)"""
    received: int | None = None
    """Payload bytes received since the previous reading. tcpi_bytes_received (Linux 4.1)"""
    retransmitted: int | None = None
    """Segments retransmitted since the previous reading."""
    busy_time: int | None = None
    """µs since the previous reading in which it had data to send. tcpi_busy_time (Linux 4.10)"""
    window_limited: int | None = None
    """µs of these in which the peer's receive window was full. tcpi_rwnd_limited"""
    buffer_limited: int | None = None
    """µs of these in which the send buffer was too small. tcpi_sndbuf_limited"""
    bytes_acked: int | None = None
    bytes_received: int | None = None
    """Payload bytes since the connection was made."""
    retransmits: int | None = None
    """Segments retransmitted since the connection was made. tcpi_total_retrans"""
    rtt: int | None = None
    """µs, smoothed; 0: not measured yet. tcpi_rtt"""
    minimum_rtt: int | None = None
    """µs. tcpi_min_rtt (Linux 4.6)"""
    congestion_window: int | None = None
    """Segments. tcpi_snd_cwnd"""
    send_mss: int | None = None
    """Bytes of payload in a full segment. tcpi_snd_mss"""
    receive_queue: int | None = None
    """Bytes that the process has not read yet. idiag_rqueue"""
    send_queue: int | None = None
    """Bytes that are not acknowledged (TCP) or not sent (UDP) yet. idiag_wqueue"""
    drops: int | None = None
    """UDP: packets dropped because the receive buffer was full, since the socket was created.
    SK_MEMINFO_DROPS"""
    dropped: int | None = None
    """UDP: those since the previous reading."""
    inode: int = 0
    """0: its process has closed it."""
    uid: int | None = None
    """User id of its owner. idiag_uid"""
    pid: int | None = None
    process: str | None = None
    """comm of the process that has it open (/proc/PID/fd). None: unknown, see
    `Connections.owners`."""
    cgroup: str | None = None
    """Path of the control group: of the process (/proc/PID/cgroup), else of the socket
    (INET_DIAG_CGROUP_ID, Linux 5.8, control groups v2)."""


@dataclass(frozen=True, slots=True)
class Connections:
    """The sockets of this network namespace that use the requested links."""

    time: float
    """Seconds, CLOCK_MONOTONIC when the sockets were read."""
    links: tuple[int, ...]
    """ifindexes as requested: the NIC, then the links above it."""
    seconds: float | None = None
    """Since the previous reading; None: this is the first one."""
    connections: tuple[Connection, ...] = ()
    """TCP by bytes since the previous reading (the first time: since they were made), the most
    first; then UDP. Only as many as `probe.counters.on_demand.connections` sends."""
    tcp: int = 0
    """TCP connections on these links, listed or not. Without listening sockets, and those that stay
    in the host."""
    udp: int = 0
    """UDP sockets that use these links, or may use them."""
    ended: int = 0
    """TCP connections of the previous reading that no longer exist: what they sent since then is
    not known."""
    sent: int | None = None
    """Payload bytes of all these connections since the previous reading, listed or not."""
    received: int | None = None
    link_sent: int | None = None
    """Bytes sent by the NIC since the previous reading, with headers. IFLA_STATS_LINK_64
    tx_bytes"""
    link_received: int | None = None
    owners: Literal["complete", "pending", "partial"] = "partial"
    """complete: a connection without `process` belongs to no process (kernel). pending: the search
    continues. partial: not all processes may be read, the reason is in `unreadable` as
    ``process``."""
    took: float = 0.0
    """CPU seconds of this reading, without the search for processes."""
    unreadable: dict[str, Unreadable] = field(default_factory=dict)
    """tcp, udp, addresses, process → why it is missing or incomplete."""
