"""Waiting for the first readings of the hosts that take part in a test."""

from __future__ import annotations

import math
import time
from collections.abc import AsyncGenerator, Sequence
from functools import partial

from nictop.errors import HostUnreachable
from nictop.hosts.session import HostSession, until
from nictop.hosts.start import DOING
from nictop.traffic.run.events import Stage


async def wait_for_readings(hosts: Sequence[HostSession], timeout: float | None) -> AsyncGenerator[Stage, None]:
    """What is waited for; ends once the hosts have sent inventory and counters. `timeout`: seconds; None: as long as
    they may still connect. Raises HostUnreachable."""
    end = time.monotonic() + (math.inf if timeout is None else timeout)
    fatal = ("failed",) if timeout is None else ("lost", "failed")

    def progress() -> list[tuple[str, str, bool]]:
        return [(one.snapshot.state, _doing(one), one.has_readings) for one in hosts]

    def has_advanced(before: list[tuple[str, str, bool]]) -> bool:
        return progress() != before

    while waiting := [one for one in hosts if not one.has_readings]:
        for one in waiting:
            if one.snapshot.state in fatal:
                raise HostUnreachable(f"{one.name}: {one.snapshot.message}")
        name, advanced = waiting[0].name, partial(has_advanced, progress())
        yield Stage("waiting", f"waiting for {name}: {_doing(waiting[0])}")
        if not await until(hosts, advanced, end - time.monotonic()):
            raise HostUnreachable(f"{name}: no complete answer within {timeout:g} s")


def _doing(session: HostSession) -> str:
    """The step of its start; ``lost``."""
    step = session.start.active(time.monotonic())
    return session.snapshot.state if step is None else DOING[step.name]
