"""Two namespaces joined by a veth pair, and the traffic lines of probes in them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from nictop.probe.records import Line, TrafficLine
from tests.support.namespaces import Namespace
from tests.support.probe import Probe

IPV4 = ("10.20.30.1", "10.20.30.2")
IPV6 = ("fd20:30::1", "fd20:30::2")
PORT = 5301
COOKIE = bytes(range(16)).hex()
"""Of all runs that tests start by `start_request`."""
MARK = "NICTOP_TEST_MARK"
"""Environment variable by which a test finds the processes that it has started, whatever their
parent."""


@dataclass(frozen=True)
class VethPair:
    """`left` and `right` joined by a veth pair with the addresses `IPV4` and `IPV6`; both ends are
    named "wire"."""

    left: Namespace
    right: Namespace


@contextmanager
def veth_pair() -> Iterator[VethPair]:
    left, right = Namespace(), Namespace()
    try:
        left.run(
            [
                "ip",
                "link",
                "add",
                "wire",
                "type",
                "veth",
                "peer",
                "name",
                "wire",
                "netns",
                right.name,
            ]
        )
        for end, namespace in enumerate((left, right)):
            namespace.run(["ip", "address", "add", f"{IPV4[end]}/24", "dev", "wire"])
            namespace.run(["ip", "address", "add", f"{IPV6[end]}/64", "dev", "wire", "nodad"])
        for namespace in (left, right):
            namespace.run(["ip", "link", "set", "wire", "up"])
        yield VethPair(left, right)
    finally:
        left.remove()
        right.remove()


def start_request(
    role: str, generator: str, *arguments: str, address: str | None, **fields: Any
) -> dict[str, Any]:
    """A request to start a generator, for `Probe.send`; its id is the role. Both ends of the
    built-in one need the same arguments."""
    request = {
        "id": role,
        "action": "start",
        "role": role,
        "generator": generator,
        "arguments": list(arguments),
        "port": PORT,
        "address": address,
        "deadline": 30.0,
        "interval": 1.0,
        "cookie": COOKIE,
    }
    return {"traffic": request | fields}


def of_kind(*kinds: str, name: str = "") -> Any:
    """Predicate for `Probe.wait_for`: a traffic line of one of these kinds."""

    def wanted(line: Line) -> bool:
        return (
            line.traffic is not None
            and line.traffic.kind in kinds
            and name in ("", line.traffic.id)
        )

    return wanted


def next_line(probe: Probe, *kinds: str, name: str = "") -> TrafficLine:
    """The next traffic line of one of these kinds."""
    traffic = probe.wait_for(of_kind(*kinds, name=name)).traffic
    assert traffic is not None
    return traffic


def lines_until(probe: Probe, name: str, *kinds: str) -> list[TrafficLine]:
    """All lines about one generator up to and including the first of these kinds."""
    lines: list[TrafficLine] = []

    def wanted(line: Line) -> bool:
        if line.traffic is None or line.traffic.id != name:
            return False
        lines.append(line.traffic)
        return line.traffic.kind in kinds

    probe.wait_for(wanted)
    return lines


def lines_until_exit(probe: Probe, name: str) -> list[TrafficLine]:
    """All lines about one generator up to its exit, or up to its failure to start."""
    lines = lines_until(probe, name, "started", "failed")
    return lines + lines_until(probe, name, "exit") if lines[-1].kind == "started" else lines


def stray_generators(mark: str, probe: Probe) -> list[int]:
    """Marked processes outside the session of the probe (its own child takes inventories): traffic
    generators."""
    found = []
    for pid in marked_processes(mark):
        try:
            if os.getsid(pid) != probe.process.pid:
                found.append(pid)
        except ProcessLookupError:
            continue
    return found


def marked_processes(mark: str) -> list[int]:
    """Processes with this mark in their environment; zombies have none."""
    found = []
    for name in os.listdir("/proc"):
        if not name.isdigit() or int(name) == os.getpid():
            continue
        try:
            with open(f"/proc/{name}/environ", "rb") as file:
                if f"{MARK}={mark}".encode() in file.read().split(b"\0"):
                    found.append(int(name))
        except OSError:
            continue
    return found
