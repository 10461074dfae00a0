"""Whether a process listens on a port: its sockets, and /proc/net/tcp and tcp6 (udp and udp6).

Listening sockets come first in the TCP tables, and only they are read, so other connections cost
nothing. What cannot be read counts as not listening.
"""

from __future__ import annotations

import os

from nictop.probe.traffic.sock_diag import read_socket_inodes

TCP_LISTEN, TCP_CLOSE = b"0A", b"07"
"""States in the tables, hexadecimal (net/tcp_states.h); an unconnected UDP socket has TCP_CLOSE."""
TABLE_READ_BYTES = 16 * 1024
MAX_SOCKET_TABLE_BYTES = 4 * 1024 * 1024
"""Bytes of one table: 25 000 listening sockets."""


def read_listening(pid: int, port: int, *, udp: bool = False, proc: str = "/proc") -> bool:
    """Whether `pid` listens on TCP `port`, or has an unconnected UDP socket there, on any address.
    Never raises OSError."""
    inodes = read_socket_inodes(pid, proc)
    state = TCP_CLOSE if udp else TCP_LISTEN
    for name in ("udp", "udp6") if udp else ("tcp", "tcp6"):
        table = _read_table(f"{proc}/net/{name}", state, read_all=udp) if inodes else b""
        if not inodes.isdisjoint(parse_listeners(table, port, state)):
            return True
    return False


def parse_listeners(table: bytes, port: int, state: bytes = TCP_LISTEN) -> set[int]:
    """Inodes of the sockets with this local port and state; malformed lines are skipped."""
    inodes = set()
    for line in table.splitlines():
        words = line.split()
        if len(words) < 10 or words[3] != state:
            continue
        try:
            if int(words[1].rpartition(b":")[2], 16) == port:
                inodes.add(int(words[9]))
        except ValueError:
            continue
    return inodes


def _read_table(path: str, state: bytes, *, read_all: bool) -> bytes:
    table = b""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return b""
    try:
        while len(table) < MAX_SOCKET_TABLE_BYTES:
            data = os.read(descriptor, TABLE_READ_BYTES)
            table += data
            last = table[: table.rfind(b"\n")].rpartition(b"\n")[2].split()
            if not data or (not read_all and len(last) > 3 and last[3] not in (state, b"st")):
                break
    except OSError:
        pass
    finally:
        os.close(descriptor)
    return table
