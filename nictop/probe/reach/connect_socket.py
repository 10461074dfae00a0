"""Joins stdin and stdout with a stream socket: the way of an SSH connection to a guest, from where
the guest can be reached. By TCP, or by AF_VSOCK, which needs no network.
"""

from __future__ import annotations

import contextlib
import os
import select
import socket

from nictop.probe.reach.problem import LATER_STATUS, say

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

CONNECT_SECONDS = 10.0
READ_BYTES = 65536
STDIN, STDOUT = 0, 1


def opened(kind: str, address: str, port: int) -> socket.socket:
    """A connected socket. Raises OSError."""
    if kind == "ssh":
        return socket.create_connection((address, port), CONNECT_SECONDS)
    family = getattr(socket, "AF_VSOCK", None)  # Python 3.7
    if family is None:
        raise OSError("its Python is too old for vsock (3.7)")
    connection = socket.socket(family, socket.SOCK_STREAM)
    connection.settimeout(CONNECT_SECONDS)
    connection.connect((int(address), port))
    return connection


def carry(connection: socket.socket) -> None:
    """Both directions, until the other side or stdin ends."""
    connection.settimeout(None)
    while True:
        readable, _, _ = select.select([STDIN, connection.fileno()], [], [])
        if STDIN in readable:
            data = os.read(STDIN, READ_BYTES)
            if not data:
                return
            connection.sendall(data)
        if connection.fileno() in readable:
            data = connection.recv(READ_BYTES)
            if not data:
                return
            while data:
                data = data[os.write(STDOUT, data) :]


def main(arguments: Sequence[str]) -> int:
    """``ssh ADDRESS PORT`` or ``vsock CID PORT``"""
    kind, address, port = arguments
    try:
        connection = opened(kind, address, int(port))
    except OSError as error:
        reason = error.strerror or str(error)
        say(f"cannot connect to {kind}:{address} port {port}: {reason}")
        return LATER_STATUS
    with contextlib.suppress(OSError):  # one side is gone: so is the connection
        carry(connection)
    return 0
