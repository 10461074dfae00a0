"""Runs on a hypervisor: what the agents of its guests tell of them, a line of JSON for each guest.

Nothing is started in a guest, and nothing is changed there: it is for guests that cannot be watched
(Windows; an agent that forbids guest-exec), and for the addresses of all others.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time

from nictop.probe.reach.agent_client import AgentError, AgentGone, printable
from nictop.probe.reach.agent_facts import (
    WINDOWS,
    address_text,
    answer,
    field,
    forbidden_commands,
)
from nictop.probe.reach.agent_guests import check_run, open_agent
from nictop.probe.reach.problem import GuestProblem

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from nictop.probe.reach.agent_client import Agent

MAX_GUESTS = 256
MAX_THREADS = 16
"""Agents that are asked at the same time: one that does not answer takes 10 s."""
MAX_INTERFACES, MAX_ADDRESSES = 64, 16


def report(name: str) -> dict[str, Any]:
    """What is known of one guest: an object of a line. Never raises."""
    try:
        check_run(name)
        agent = open_agent(name)
        try:
            return dict(told_by(agent), guest=name)
        finally:
            agent.close()
    except GuestProblem as problem:
        return {"guest": name, "why": str(problem)}
    except (AgentError, AgentGone, OSError, ValueError) as error:
        return {"guest": name, "why": printable(str(error))}


def told_by(agent: Agent) -> dict[str, Any]:
    """Raises AgentGone."""
    system = answer(agent, "guest-get-osinfo")
    cpus = answer(agent, "guest-get-vcpus")
    forbidden = forbidden_commands(agent)
    online = None
    if isinstance(cpus, list):
        online = sum(field(cpu, "online") is True for cpu in cpus)
    return {
        "system": printable(field(system, "pretty-name")),
        "kernel": printable(field(system, "kernel-release")),
        "is_windows": field(system, "id") == WINDOWS,
        "cpus": online,
        "forbidden": forbidden,
        "interfaces": interfaces(answer(agent, "guest-network-get-interfaces")),
    }


def interfaces(found: object) -> list[dict[str, Any]]:
    """Name, MAC address and IP addresses of the interfaces, without loopback."""
    told = []
    for interface in found[:MAX_INTERFACES] if isinstance(found, list) else ():
        name = printable(field(interface, "name"))
        if name == "lo" or not name:
            continue
        mac = printable(field(interface, "hardware-address")).lower()
        listed = field(interface, "ip-addresses")
        shown = map(address_text, listed[:MAX_ADDRESSES] if isinstance(listed, list) else ())
        told.append({"name": name, "mac": mac, "addresses": [text for text in shown if text]})
    return told


class Reports:
    """Asks several agents at the same time, and prints what each tells as soon as it is known."""

    def __init__(self, names: Sequence[str]) -> None:
        self._waiting = list(names)[::-1]
        self._unknown = set(names)
        self._lock = threading.Lock()

    def run(self, seconds: float) -> None:
        """For `seconds` at most: then the others are named."""
        deadline = time.monotonic() + seconds
        number = min(MAX_THREADS, len(self._waiting))
        threads = [threading.Thread(target=self._work, daemon=True) for _ in range(number)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(max(0.0, deadline - time.monotonic()))
        with self._lock:
            for name in sorted(self._unknown):
                self._print({"guest": name, "why": f"it has not answered within {seconds:g} s"})
            self._unknown.clear()

    def _work(self) -> None:
        while True:
            with self._lock:
                if not self._waiting:
                    return
                name = self._waiting.pop()
            told = report(name)
            with self._lock:
                if name in self._unknown:
                    self._unknown.discard(name)
                    self._print(told)

    def _print(self, told: dict[str, Any]) -> None:
        line = json.dumps(told).encode() + b"\n"
        while line:
            line = line[os.write(sys.stdout.fileno(), line) :]


def main(arguments: Sequence[str]) -> int:
    """``SECONDS GUEST …``"""
    seconds, *names = arguments
    Reports(names[:MAX_GUESTS]).run(float(seconds))
    os._exit(0)  # without those that do not answer
