"""The TCP connection to a host: its name is resolved and its addresses are tried here, and not in
asyncssh, so that a slow start can be told apart: the resolver, the network, or what answers there.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import socket
from collections.abc import Callable
from typing import Any

from nictop.wire.source import ConnectionStage

Report = Callable[[ConnectionStage, str], None]
"""Called when a stage of a connection begins, with what it is about (a name, an address)."""
NO_ROUTE = (errno.ENETUNREACH, errno.EAFNOSUPPORT, errno.EADDRNOTAVAIL)
"""Errors of an address family that this machine does not use: another address says more."""


async def open_socket(settings: Any, report: Report) -> socket.socket | None:
    """A connected socket for `settings` (`SshSettings`); None: asyncssh has to make the connection,
    by a ProxyCommand. Raises OSError."""
    if settings.proxy_command:
        report("connect", settings.host)
        return None
    report("resolve", settings.host)
    found = await asyncio.get_running_loop().getaddrinfo(
        settings.host, settings.port, family=settings.family, type=socket.SOCK_STREAM
    )
    errors: list[OSError] = []
    for family, kind, protocol, _, address in found:
        report("connect", address_text(str(address[0]), int(address[1])))
        try:
            return await _connected(
                socket.socket(family, kind, protocol), address, settings.local_addr
            )
        except OSError as error:
            errors.append(error)
    telling = [error for error in errors if error.errno not in NO_ROUTE]
    raise (telling or errors or [OSError("the name has no address")])[0]


async def _connected(opened: socket.socket, address: Any, local_address: Any) -> socket.socket:
    """`opened`, connected; closed after an error."""
    with contextlib.ExitStack() as cleanup:
        cleanup.callback(opened.close)
        opened.setblocking(False)
        if local_address:
            opened.bind(local_address)
        await asyncio.get_running_loop().sock_connect(opened, address)
        cleanup.pop_all()
    return opened


def address_text(host: str, port: int) -> str:
    """``192.0.2.1 port 22``"""
    return f"{host} port {port}"
