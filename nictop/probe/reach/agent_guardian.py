"""Closes what an agent has opened for a bridge that was killed: an agent does not know who asked.

A child process of the bridge, which waits for its end. It is forked before the bridge connects, so
that it holds nothing of it.
"""

from __future__ import annotations

import contextlib
import os
import time

from nictop.probe.reach.agent_client import Agent, AgentError, AgentGone
from nictop.probe.reach.agent_guests import open_agent
from nictop.probe.reach.problem import GuestProblem

RETRY_SECONDS = 0.5
CLOSE_SECONDS = 15.0
"""Seconds for which closing is tried again."""
DISMISSED = b"."


class Guardian:
    """`add` and `remove` say what is open."""

    def __init__(self, guest: str) -> None:
        reading, self._writing = os.pipe()
        self._pid = os.fork()
        if self._pid == 0:
            try:
                os.close(self._writing)
                watch(reading, guest)
            finally:
                os._exit(0)
        os.close(reading)

    def add(self, handle: int) -> None:
        os.write(self._writing, b"+%d\n" % handle)

    def remove(self, handle: int) -> None:
        os.write(self._writing, b"-%d\n" % handle)

    def dismiss(self) -> None:
        """Nothing is open, or it cannot be closed."""
        os.write(self._writing, DISMISSED)
        os.close(self._writing)
        os.waitpid(self._pid, 0)


def watch(reading: int, guest: str) -> None:
    """Wait for the end of the bridge; then close what is open."""
    os.setsid()
    null = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(null, descriptor)
    told = bytearray()
    while not told.endswith(DISMISSED):
        data = os.read(reading, 4096)
        if not data:
            close_all(guest, open_handles(bytes(told)))
            return
        told += data


def open_handles(told: bytes) -> list[int]:
    """Handles that were added and not removed."""
    handles: list[int] = []
    for line in told.split():
        if line.startswith(b"+"):
            handles.append(int(line[1:]))
        else:
            handles.remove(int(line[1:]))
    return handles


def close_all(guest: str, handles: list[int]) -> None:
    """Close them, however often that must be tried until `CLOSE_SECONDS` are over."""
    deadline = time.monotonic() + CLOSE_SECONDS
    while handles and time.monotonic() < deadline:
        try:
            agent = open_agent(guest)
            while handles:
                close(agent, handles[-1])
                handles.pop()
            agent.close()
        except (AgentGone, GuestProblem):
            time.sleep(RETRY_SECONDS)


def close(agent: Agent, handle: int) -> None:
    """Close one, which the agent may not know any more."""
    with contextlib.suppress(AgentError):
        agent.call("guest-file-close", handle=handle)
