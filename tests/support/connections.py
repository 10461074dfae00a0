"""A reading of connections as a probe sends it."""

from __future__ import annotations

from typing import Any

from nictop.probe.light_dataclasses import replace
from nictop.probe.records import Connection, Connections, Line, Unreadable

CGROUPS = {"nginx": "/system.slice/nginx.service", "sshd": "/system.slice/ssh.service"}


def connection(number: int = 1, **fields: Any) -> Connection:
    """A TCP connection of nginx to a client, that sends as fast as the network allows."""
    values: dict[str, Any] = {
        "protocol": "tcp", "state": "established", "local": "10.0.2.15", "local_port": 443,
        "remote": f"198.51.100.{number}", "remote_port": 50000 + number, "cookie": number,
        "inode": 1000 + number, "uid": 33, "pid": 800, "process": "nginx", "output": 2, "sent": 0,
        "received": 0, "retransmitted": 0, "busy_time": 990_000, "window_limited": 0,
        "buffer_limited": 0, "bytes_acked": 7_000_000_000, "bytes_received": 1_000_000,
        "retransmits": 3, "rtt": 340, "minimum_rtt": 210, "congestion_window": 42,
        "send_mss": 1448, "receive_queue": 0, "send_queue": 0,
    }  # fmt: skip
    values.update(fields)
    values.setdefault("cgroup", CGROUPS.get(values["process"]))
    return Connection(**values)


def busy_reading(time: float = 2.0, links: tuple[int, ...] = (2,)) -> Connections:
    """Of a web server on a NIC that sends 940 Mb/s: one fast client, one slow client, one with
    losses, a backup in a container, an NFS mount of the kernel, and UDP sockets."""
    docker = "/system.slice/docker-" + "1a2b3c4d5e6f" * 5 + "7890.scope"
    rows = (
        connection(1, sent=71_000_000, busy_time=980_000),
        connection(2, sent=23_000_000, busy_time=990_000, window_limited=860_000, rtt=24_100,
            minimum_rtt=23_800),
        connection(3, sent=9_400_000, retransmitted=212, retransmits=8120, rtt=81_000,
            remote="2001:db8:12:5::9"),
        connection(
            4, received=6_100_000, sent=20_000, process="restic", pid=4711, cgroup=docker,
            local_port=41000, remote="192.0.2.40", remote_port=8000, receive_queue=3_900_000, uid=0,
        ),
        connection(
            5, sent=2_200_000, received=310_000, process=None, pid=None, local_port=871,
            remote="10.0.2.2", remote_port=2049, busy_time=210_000,
        ),
        connection(6, sent=4_100, received=1_400, process="sshd", pid=612, local_port=22,
            busy_time=12_000, uid=0),
        *(connection(number, busy_time=0) for number in range(10, 22)),
        Connection("udp", "close", "0.0.0.0", 5353, cookie=90, inode=2000, uid=110, pid=501,
            process="avahi-daemon",
                   receive_queue=0, send_queue=0, drops=0, dropped=0),
        Connection("udp", "close", "10.0.2.15", 514, cookie=91, inode=2001, uid=0, pid=502,
            process="rsyslogd",
                   receive_queue=212_992, send_queue=0, drops=81_220, dropped=140, output=2),
    )  # fmt: skip
    return Connections(
        time=time, links=links, seconds=1.0, connections=rows, tcp=18, udp=2, ended=4,
        sent=105_624_100, received=6_411_400, link_sent=117_500_000, link_received=7_300_000,
        owners="complete", took=0.001,
    )  # fmt: skip


def of_plain_user(found: Connections) -> Connections:
    """The same as an ordinary user reads it: processes of others are unknown, their units not."""
    rows = tuple(
        one if one.process is None else replace(one, process=None, pid=None)
        for one in found.connections
    )
    reasons = {"process": Unreadable("needs_root", "/proc/PID/fd of other users")}
    return replace(found, connections=rows, owners="partial", unreadable=reasons)


def line(found: Connections) -> Line:
    return Line(connections=found)
