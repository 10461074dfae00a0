"""Inventories of the place where a private NetworkManager works, taken by a process that has everything loaded.

``python -m tests.support.inside`` is that process: it forks for each request, the child enters the place, takes the
inventory as the probe's child does, and ends. Starting a Python for each one would cost ten times as much.
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
from nictop.probe.records import Inventory, Line
from tests.support.namespaces import ROOT, enter
from tests.support.networkmanager import PrivateNetworkManager
from tests.support.probe import LIMIT


def inventory_inside(
    manager: PrivateNetworkManager, *, user: int | None = None, patience: float | None = LIMIT
) -> Inventory:
    """The whole inventory, decoded as the reader of the wire does, all types checked.

    `user`: who takes it, root otherwise. `patience`: seconds that NetworkManager has to answer; None: as many as the
    probe gives it.
    """
    _, target, _, _, _, _, *environment = manager.prefix
    request = {
        "pid": int(target.partition("=")[2]),
        "environment": dict(word.split("=", 1) for word in environment),
        "user": user,
        "patience": patience,
    }
    server = _server()
    assert server.stdin is not None and server.stdout is not None
    server.stdin.write(json.dumps(request).encode() + b"\n")
    server.stdin.flush()
    said = server.stdout.readline()
    assert said.startswith(b"{"), said.decode()
    found = msgspec.json.decode(said, type=Line).inventory
    assert found is not None
    return found


@functools.lru_cache
def _server() -> subprocess.Popen[bytes]:
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.support.inside"], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    atexit.register(process.communicate)
    return process


def _take(request: dict[str, Any]) -> str:
    """In the child."""
    libc = ctypes.CDLL(None, use_errno=True)
    places = [os.open(f"/proc/{request['pid']}/ns/{name}", os.O_RDONLY) for name in ("mnt", "net", "uts")]
    for place in places:
        enter(libc, place, 0)
        os.close(place)
    os.chdir("/")
    os.environ.update(request["environment"])
    if request["patience"] is not None:
        profiles.LIMIT = request["patience"]
    if request["user"] is not None:
        os.setresuid(*3 * [request["user"]])
    return json.dumps({"inventory": inventory.take_inventory("test")}, default=vars)


def _serve() -> None:
    inventory.take_inventory("warm")  # what is loaded when it is needed is loaded now, and belongs to root
    for line in sys.stdin:
        pid = os.fork()
        if pid == 0:
            try:
                said = _take(json.loads(line))
            except BaseException as error:
                said = repr(error)
            os.write(1, said.replace("\n", " ").encode() + b"\n")
            os._exit(0)
        os.waitpid(pid, 0)


if __name__ == "__main__":
    _serve()
