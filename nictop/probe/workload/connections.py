"""Bytes of the TCP connections of a host while a workload runs: those of its processes, of other
processes, and those of which the process is not known.

Dumps the TCP sockets of the host (netlink sock_diag, without loopback) and reads /proc/PID/fd.
What a connection carries after its last reading is not counted, and one that is opened and closed
between two readings is not seen.
"""

from __future__ import annotations

import socket
import time

from nictop.probe.counters.on_demand.connections.dump import without_loopback
from nictop.probe.kernel import errno_reasons as reasons
from nictop.probe.kernel import netlink
from nictop.probe.traffic import sock_diag
from nictop.probe.workload.processes import all_pids

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    SocketFields = dict[str, Any]

MAX_CONNECTIONS = 16384
"""That are remembered; of more, the bytes are not known."""
OWNER_SECONDS, MIN_OWNED_BYTES = 2.0, 1_000_000
"""Between two searches for the processes of connections of others, and bytes of such a connection
from which on it is searched for."""
MAX_REPORTED = 32
"""Connections in a report, those with the most bytes."""


class WorkloadConnection:
    """One TCP connection since it was first seen."""

    def __init__(self, fields: SocketFields, *, is_new: bool) -> None:
        """`is_new`: it was made after the first reading, so that all its bytes count."""
        self.fields = fields
        self._sent = 0 if is_new else fields["bytes_acked"] or 0
        self._received = 0 if is_new else fields["bytes_received"] or 0
        self._retransmits = 0 if is_new else fields["retransmits"]
        self.owner = "unknown"
        """own: of the workload; other: of another process; unknown: no process that may be read has
        it open."""
        self.process = ""

    def close(self, fields: SocketFields) -> None:
        """No process has it open any more (inode 0), but the kernel still sends its last bytes: its
        counts, unless they are gone."""
        if (fields["bytes_acked"] or 0) >= (self.fields["bytes_acked"] or 0):
            self.fields = dict(fields, inode=0)

    def counts(self) -> tuple[int, int, int]:
        """(bytes sent and acknowledged, bytes received, segments that were sent again)"""
        return (
            max(0, (self.fields["bytes_acked"] or 0) - self._sent),
            max(0, (self.fields["bytes_received"] or 0) - self._received),
            max(0, self.fields["retransmits"] - self._retransmits),
        )


class WorkloadConnections:
    """`read` with the processes of the workload; `report` at any time."""

    def __init__(self, proc: str = "/proc") -> None:
        self._proc = proc
        self._netlink: netlink.NetlinkSocket | None = None
        self._connections: dict[tuple[int, int, int], WorkloadConnection] = {}
        self._by_ends: dict[tuple[str, int, str, int], WorkloadConnection] = {}
        """The newest of each four ends."""
        self._own_inodes: set[int] = set()
        self.unreadable: dict[str, str] | None = None
        """Fields of `records.Unreadable` if the bytes are not known."""
        self._next_owners = 0.0
        self._reads = 0

    def read(self, pids: Iterable[int]) -> None:
        """Never raises OSError."""
        if self.unreadable is not None:
            return
        for pid in pids:
            self._own_inodes |= sock_diag.read_socket_inodes(pid, self._proc)
        try:
            sockets = self._dump()
        except OSError as error:
            self.close()
            number = error.errno or 0
            detail = f"sock_diag: {reasons.name(number)}"
            self.unreadable = {"reason": reasons.REASONS.get(number, "failed"), "detail": detail}
            return
        self._add(sockets)
        self._find_owners()
        self._reads += 1

    def _dump(self) -> list[SocketFields]:
        if self._netlink is None:
            self._netlink = netlink.NetlinkSocket(sock_diag.NETLINK_SOCK_DIAG, timeout=1.0)
        found = []
        for family in (socket.AF_INET, socket.AF_INET6):
            request = sock_diag.INET_DIAG_REQ_V2.pack(
                family, socket.IPPROTO_TCP, 1 << (sock_diag.INET_DIAG_INFO - 1),
                sock_diag.STATE_MASK,
            )  # fmt: skip
            request += netlink.pack_attribute(
                sock_diag.INET_DIAG_REQ_BYTECODE, without_loopback(family)
            )
            for _, body in self._netlink.dump(sock_diag.SOCK_DIAG_BY_FAMILY, request):
                fields = sock_diag.parse_socket(body)
                if fields is not None:
                    found.append(fields)
        return found

    def _add(self, sockets: Iterable[SocketFields]) -> None:
        by_ends = {}
        for fields in sockets:
            by_ends[ends_of(fields)] = fields
        for ends, fields in by_ends.items():
            local, local_port, remote, remote_port = ends
            if (remote, remote_port, local, local_port) in by_ends:
                continue  # both ends are on this host
            if fields["bytes_acked"] is None:  # Linux before 4.1
                self.unreadable = {"reason": "unsupported", "detail": "no byte counts in tcp_info"}
                return
            if not fields["inode"] and ends in self._by_ends:
                self._by_ends[ends].close(fields)
                continue
            key = (fields["inode"], local_port, remote_port)
            known = self._connections.get(key)
            if known is None and len(self._connections) >= MAX_CONNECTIONS:
                detail = f"more than {MAX_CONNECTIONS} connections"
                self.unreadable = {"reason": "failed", "detail": detail}
                return
            is_own = fields["inode"] in self._own_inodes
            if known is None:
                known = WorkloadConnection(fields, is_new=is_own or self._reads > 0)
                self._connections[key] = known
            else:
                known.fields = fields
            self._by_ends[ends] = known
            if is_own:
                known.owner = "own"

    def _find_owners(self) -> None:
        """Of large connections of others."""
        now = time.monotonic()
        if now < self._next_owners:
            return
        self._next_owners = now + OWNER_SECONDS
        wanted = {}
        for connection in self._connections.values():
            inode = connection.fields["inode"]
            if connection.owner == "unknown" and inode:
                sent, received, _ = connection.counts()
                if sent + received >= MIN_OWNED_BYTES:
                    wanted[inode] = connection
        if not wanted:
            return
        for pid in all_pids(self._proc):
            for inode in sock_diag.read_socket_inodes(pid, self._proc) & wanted.keys():
                wanted[inode].owner = "other"
                wanted[inode].process = _name(pid, self._proc)

    def report(self) -> list[dict[str, Any]]:
        """Fields of `records.WorkloadConnection`: those with the most bytes one by one, the others
        summed up by owner and local address."""
        moved = []
        for connection in self._connections.values():
            sent, received, retransmits = connection.counts()
            if sent + received:
                moved.append((sent + received, sent, received, retransmits, connection))
        moved.sort(key=lambda entry: -entry[0])
        records = []
        rest: dict[tuple[str, str], dict[str, Any]] = {}
        for number, (_, sent, received, retransmits, connection) in enumerate(moved):
            counts = {"sent": sent, "received": received, "retransmits": retransmits}
            fields = connection.fields
            own = {"owner": connection.owner, "local": fields["local"]}
            if number < MAX_REPORTED:
                record = dict(own, process=connection.process, remote=fields["remote"])
                record.update(counts, local_port=fields["local_port"])
                record.update(remote_port=fields["remote_port"], rtt=fields["rtt"])
                records.append(record)
                continue
            summed = rest.setdefault((connection.owner, fields["local"]), dict(own, connections=0))
            summed["connections"] += 1
            for name, count in counts.items():
                summed[name] = summed.get(name, 0) + count
        return records + list(rest.values())[:MAX_REPORTED]

    def close(self) -> None:
        if self._netlink is not None:
            self._netlink.close()
            self._netlink = None


def ends_of(fields: SocketFields) -> tuple[str, int, str, int]:
    return fields["local"], fields["local_port"], fields["remote"], fields["remote_port"]


def _name(pid: int, proc: str) -> str:
    try:
        with open(f"{proc}/{pid}/comm", encoding="utf-8", errors="replace") as file:
            return file.read(64).rstrip("\n")
    except OSError:
        return ""
