"""Inventories taken inside the namespaces of a private NetworkManager, by a server process that has
all modules loaded.

``python -m tests.support.namespace_inventory`` is that process: it forks for each request, the
child enters the namespaces, takes the inventory as the probe's child does, and exits. Starting a
Python for each inventory would cost ten times as much.
"""

from __future__ import annotations

import atexit
import ctypes
import functools
import json
import os
import subprocess
import sys
from typing import Any

import msgspec

from nictop.probe.inventory import collect as inventory
from nictop.probe.inventory.managers import networkmanager as profiles
from nictop.probe.light_dataclasses import field_mapping
from nictop.probe.records import Inventory, Line
from tests.support.namespaces import ROOT, enter
from tests.support.networkmanager import PrivateNetworkManager
from tests.support.probe import TEST_TIMEOUT


def take_inventory_inside(
    manager: PrivateNetworkManager,
    *,
    user: int | None = None,
    reply_timeout: float | None = TEST_TIMEOUT,
) -> Inventory:
    """The whole inventory, decoded and type-checked as lines of a probe are.

    `user`: effective user id while it is taken, default root. `reply_timeout`: timeout in seconds
    for replies of NetworkManager; None: that of the probe.
    """
    _, target, _, _, _, _, *environment = manager.prefix
    request = {
        "pid": int(target.partition("=")[2]),
        "environment": dict(word.split("=", 1) for word in environment),
        "user": user,
        "reply_timeout": reply_timeout,
    }
    server = _server()
    assert server.stdin is not None and server.stdout is not None
    server.stdin.write(json.dumps(request).encode() + b"\n")
    server.stdin.flush()
    reply = server.stdout.readline()
    assert reply.startswith(b"{"), reply.decode()
    found = msgspec.json.decode(reply, type=Line).inventory
    assert found is not None
    return found


@functools.lru_cache
def _server() -> subprocess.Popen[bytes]:
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.support.namespace_inventory"],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    atexit.register(process.communicate)
    return process


def _take(request: dict[str, Any]) -> str:
    """Take the inventory, in the forked child; a JSON line."""
    libc = ctypes.CDLL(None, use_errno=True)
    namespaces = [
        os.open(f"/proc/{request['pid']}/ns/{name}", os.O_RDONLY) for name in ("mnt", "net", "uts")
    ]
    for descriptor in namespaces:
        enter(libc, descriptor, 0)
        os.close(descriptor)
    os.chdir("/")
    os.environ.update(request["environment"])
    if request["reply_timeout"] is not None:
        profiles.REPLY_TIMEOUT = request["reply_timeout"]
    if request["user"] is not None:
        os.setresuid(*3 * [request["user"]])
    return json.dumps({"inventory": inventory.take_inventory("test")}, default=field_mapping)


def _serve() -> None:
    inventory.take_inventory("warm")  # loads the deferred imports now, as root
    for line in sys.stdin:
        pid = os.fork()
        if pid == 0:
            try:
                reply = _take(json.loads(line))
            except BaseException as error:
                reply = repr(error)
            os.write(1, reply.replace("\n", " ").encode() + b"\n")
            os._exit(0)
        os.waitpid(pid, 0)


if __name__ == "__main__":
    _serve()
