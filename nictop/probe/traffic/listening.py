"""Whether a process listens at a port: /proc/net/tcp and tcp6 (udp and udp6), beside the sockets it has open.

Sockets that listen come first in the TCP tables, and only they are read: a host with many connections costs no more.
Yields a boolean. Only what cannot be read counts as "no".
"""

from __future__ import annotations

import os

from nictop.probe.traffic.sock_diag import read_inodes

LISTEN, UNCONNECTED = b"0A", b"07"
READ = 16 * 1024
LARGEST = 4 * 1024 * 1024
"""Bytes of one table: 25 000 listening sockets."""


def read_listening(pid: int, port: int, *, udp: bool = False, proc: str = "/proc") -> bool:
    """Whether `pid` listens at TCP `port`, or waits unconnected at UDP `port`, at whichever address. Never raises
    OSError."""
    inodes = read_inodes(pid, proc)
    state = UNCONNECTED if udp else LISTEN
    for name in ("udp", "udp6") if udp else ("tcp", "tcp6"):
        table = _read(f"{proc}/net/{name}", state, whole=udp) if inodes else b""
        if not inodes.isdisjoint(parse_listeners(table, port, state)):
            return True
    return False


def parse_listeners(table: bytes, port: int, state: bytes = LISTEN) -> set[int]:
    """Inodes of the lines with this local port and state; lines that are none are left out."""
    found = set()
    for line in table.splitlines():
        words = line.split()
        if len(words) < 10 or words[3] != state:
            continue
        try:
            if int(words[1].rpartition(b":")[2], 16) == port:
                found.add(int(words[9]))
        except ValueError:
            continue
    return found


def _read(path: str, state: bytes, *, whole: bool) -> bytes:
    table = b""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return b""
    try:
        while len(table) < LARGEST:
            part = os.read(descriptor, READ)
            table += part
            last = table[: table.rfind(b"\n")].rpartition(b"\n")[2].split()
            if not part or (not whole and len(last) > 3 and last[3] not in (state, b"st")):
                break
    except OSError:
        pass
    finally:
        os.close(descriptor)
    return table
