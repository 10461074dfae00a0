"""Waiting for the first readings of the hosts that take part in a test."""

from __future__ import annotations

import math
import time
from collections.abc import AsyncGenerator, Sequence
from functools import partial

from nictop.errors import HostUnreachable
from nictop.hosts.session import until
from nictop.traffic.run.events import Stage
from nictop.traffic.run.host import RunHost


async def wait_for_readings(hosts: Sequence[RunHost], timeout: float | None) -> AsyncGenerator[Stage, None]:
    """Ends once the hosts have sent inventory and counters. `timeout`: seconds; None: as long as they may still
    connect. Raises HostUnreachable."""
    end = time.monotonic() + (math.inf if timeout is None else timeout)
    needed = [host.session for host in hosts]
    fatal = ("failed",) if timeout is None else ("lost", "failed")

    def progress() -> list[tuple[str, bool]]:
        return [(one.snapshot.state, one.has_readings) for one in needed]

    def has_advanced(before: list[tuple[str, bool]]) -> bool:
        return progress() != before

    while waiting := [one for one in needed if not one.has_readings]:
        for one in waiting:
            if one.snapshot.state in fatal:
                raise HostUnreachable(f"{one.name}: {one.snapshot.message}")
        name, advanced = waiting[0].name, partial(has_advanced, progress())
        yield Stage("waiting", f"waiting for {name}: {waiting[0].snapshot.state}")
        if not await until(needed, advanced, end - time.monotonic()):
            raise HostUnreachable(f"{name}: no complete answer within {timeout:g} s")
