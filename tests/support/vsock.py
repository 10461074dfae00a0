"""The two ends of a vsock for tests: AF_VSOCK itself where the kernel has vsock_loopback, else a
stand-in.

The stand-in is the Python of the hypervisor: its sockets of AF_VSOCK are connections by TCP. All
other parts of the channel are the real ones.
"""

from __future__ import annotations

import functools
import shlex
import socket
import sys
import threading
from contextlib import suppress

from tests.support.sshd import Sshd, public_key

LOOPBACK_CID, STAND_IN_CID = 1, 3
ANY_CID = 0xFFFFFFFF
CONNECT_SECONDS = 1.0
STAND_IN = """
import socket, sys

class Socket(socket.socket):
    def __init__(self, family=-1, *others, **more):
        self._is_vsock = family == socket.AF_VSOCK
        super().__init__(socket.AF_INET if self._is_vsock else family, *others, **more)

    def connect(self, address):
        if self._is_vsock:
            cid, port = address
            if cid != {cid}:
                raise OSError(19, "No such device")
            address = ({address!r}, port)
        super().connect(address)

socket.socket = Socket
code = sys.argv[4]
sys.argv[:5] = ["-c"]
exec(compile(code, "<string>", "exec"), {{"__name__": "__main__"}})
"""
"""Run as ``python3 FILE -I -S -c CODE ARGUMENTS``."""


@functools.lru_cache
def has_loopback() -> bool:
    """A connection by AF_VSOCK to this machine itself arrives (vsock_loopback, Linux 5.6)."""
    try:
        with socket.socket(socket.AF_VSOCK) as listener, socket.socket(socket.AF_VSOCK) as client:
            listener.bind((ANY_CID, ANY_CID))
            listener.listen()
            client.settimeout(CONNECT_SECONDS)
            client.connect((LOOPBACK_CID, listener.getsockname()[1]))
    except OSError:
        return False
    return True


class VsockRelay:
    """Joins connections by AF_VSOCK with those of an sshd, which listens by TCP only."""

    def __init__(self, server: Sshd) -> None:
        self._server = server
        self._listener = socket.socket(socket.AF_VSOCK)
        self._listener.bind((ANY_CID, ANY_CID))
        self._listener.listen()
        self.port: int = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                near, _ = self._listener.accept()
                far = socket.create_connection((self._server.address, self._server.port))
                for ends in ((near, far), (far, near)):
                    threading.Thread(target=carry, args=ends, daemon=True).start()

    def stop(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()


def carry(source: socket.socket, target: socket.socket) -> None:
    """Until the end of `source`; then both are closed."""
    with suppress(OSError):
        while data := source.recv(65536):
            target.sendall(data)
    for end in (source, target):
        with suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)


def vsock_level(hypervisor: Sshd, guest: Sshd) -> tuple[str, VsockRelay | None]:
    """(Level by which `guest` is reached, relay to be stopped). Its host key is known."""
    relay = VsockRelay(guest) if has_loopback() else None
    if relay is not None:
        cid, port = LOOPBACK_CID, relay.port
    else:
        cid, port = STAND_IN_CID, guest.port
        file = hypervisor.folder / "vsock.py"
        file.write_text(STAND_IN.format(cid=STAND_IN_CID, address=guest.address))
        words = shlex.join([sys.executable, str(file)])
        (hypervisor.tools / "python3").unlink(missing_ok=True)
        hypervisor.install_script("python3", f'#!/bin/sh\nexec {words} "$@"\n')
    key = f"[vsock/{cid}]:{port} {public_key(guest.host_key)}\n"
    hypervisor.known_hosts.write_text(hypervisor.known_hosts.read_text() + key)
    return f"vsock:{guest.user}@{cid}:{port}", relay
