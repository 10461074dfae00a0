"""What somebody else changes between two runs: the command given for it, and whether the hosts show it afterwards.

`run_between` runs the user's own command on this machine, with a time limit; the rest reads inventories of the watched
hosts. Nothing is changed by nictop itself.
"""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial

from nictop.model.units import duration
from nictop.model.wording.text import clean
from nictop.traffic.host import RunHost, is_set_within
from nictop.traffic.places import refreshed
from nictop.traffic.plan import Plan
from nictop.traffic.variables import not_shown

KEPT_OUTPUT = 2000
"""Bytes of what a command says: the end of it tells why it failed."""
GENTLE = 1.0
"""Seconds between SIGTERM and SIGKILL."""
PAUSE = 0.5
"""Seconds between two looks at hosts that do not show a change yet."""


@dataclass(frozen=True)
class Waits:
    """Seconds after which a change is not waited for any longer."""

    between: float = 300.0
    """For the command that makes it: a virtual machine may be started again meanwhile."""
    shown: float = 20.0
    """Until the inventories show it, and the NICs have their carrier again."""
    back: float = 60.0
    """For a lost host to be there again."""


async def run_between(command: str, environment: Mapping[str, str], seconds: float) -> str:
    """Run a command of the user's by ``/bin/sh -c`` in a session of its own; why it failed, clean, "" when it did not.
    Its input is empty. However this is left, the command has ended; what it has left in the background stays."""
    reading, writing = os.pipe()
    said = bytearray()
    loop = asyncio.get_running_loop()

    def take() -> bool:
        """Whether more may come. The pipe is not asyncio's, which waits for its end: something in the background may
        hold it open."""
        try:
            part = os.read(reading, 65536)
        except BlockingIOError:
            return False
        if not part:
            loop.remove_reader(reading)
            return False
        said[:] = (said + part)[-KEPT_OUTPUT:]
        return True

    try:
        os.set_blocking(reading, False)
        try:
            process = await asyncio.create_subprocess_exec(
                "/bin/sh",
                "-c",
                command,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=writing,
                stderr=writing,
                start_new_session=True,
                env={**os.environ, **environment},
            )
        except (OSError, ValueError) as error:
            return f"the command cannot be started: {clean(str(error))}"
        finally:
            os.close(writing)
        loop.add_reader(reading, take)
        try:
            over = await _ends_within(process, seconds)
        finally:
            await _end(process)
            loop.remove_reader(reading)
        for _ in range(16):  # a background process may write for ever
            if not take():
                break
    finally:
        os.close(reading)
    if not over:
        return f"the command had not ended after {duration(seconds)}, and was stopped{_last_line(said)}"
    code = process.returncode or 0
    if code == 0:
        return ""
    return f"the command ended {_status(code)}{_last_line(said)}"


async def _ends_within(process: asyncio.subprocess.Process, seconds: float) -> bool:
    ended = asyncio.Event()

    async def wait() -> None:
        await process.wait()
        ended.set()

    waiting = asyncio.ensure_future(wait())
    try:
        return await is_set_within(ended, seconds)
    finally:
        waiting.cancel()


async def _end(process: asyncio.subprocess.Process) -> None:
    """The whole session of a command that still runs, gently first; also when this is cancelled in turn."""
    if process.returncode is not None:
        return
    try:
        _signal(process, signal.SIGTERM)
        await _ends_within(process, GENTLE)
    finally:
        # its number is not given away while others of its group are there: those that do not heed SIGTERM
        _signal(process, signal.SIGKILL)
    await _ends_within(process, GENTLE)


def _signal(process: asyncio.subprocess.Process, number: signal.Signals) -> None:
    with suppress(ProcessLookupError):
        os.killpg(process.pid, number)


def _status(code: int) -> str:
    if code > 0:
        return f"with status {code}"
    try:
        return f"by {signal.Signals(-code).name}"
    except ValueError:
        return f"by signal {-code}"


def _last_line(said: bytearray) -> str:
    lines = said.decode("utf-8", "replace").strip().splitlines()
    return f": {clean(lines[-1].strip())[:200]}" if lines else ""


# ---------------------------------------------------------------------------------------------------------- the hosts


def away(plan: Plan, hosts: Mapping[str, RunHost]) -> str:
    """Which end is not there now, and why; clean, "" when both are."""
    for name in dict.fromkeys((plan.client.host, plan.server.host)):
        host = hosts.get(name)
        if host is None:
            return f"{clean(name)} is not watched"
        if host.snapshot.state != "live" or host.snapshot.counters is None:
            return f"{clean(name)}: {clean(host.snapshot.message) or host.snapshot.state}"
    return ""


async def back(plan: Plan, hosts: Mapping[str, RunHost], seconds: float) -> str:
    """Wait for ends that are away; who is still away then, "" when nobody is."""
    end = time.monotonic() + seconds
    for name in dict.fromkeys((plan.client.host, plan.server.host)):
        if name in hosts:
            await hosts[name].until(partial(_is_settled, hosts[name]), end - time.monotonic())
    return away(plan, hosts)


def _is_settled(host: RunHost) -> bool:
    """There, or never again."""
    state = host.snapshot.state
    return state == "failed" or (state == "live" and host.snapshot.counters is not None)


async def looked(plan: Plan, hosts: Mapping[str, RunHost], seconds: float) -> Plan:
    """New inventories of both ends; the plan with the NICs that bear its addresses now."""
    ends = [hosts[name] for name in dict.fromkeys((plan.client.host, plan.server.host)) if name in hosts]
    await asyncio.gather(*(host.look(seconds) for host in ends))
    snapshots = {name: host.snapshot for name, host in hosts.items()}
    return replace(plan, client=refreshed(plan.client, snapshots), server=refreshed(plan.server, snapshots))


async def until_shown(
    variable: str, value: str, plan: Plan, hosts: Mapping[str, RunHost], seconds: float
) -> tuple[Plan, str]:
    """Look at both ends until they show a change; the plan with the NICs as they are then, and why it is not as it
    should be ("": it is)."""
    end = time.monotonic() + seconds
    while True:
        plan = await looked(plan, hosts, max(PAUSE, end - time.monotonic()))
        why = missing(variable, value, plan, hosts)
        left = end - time.monotonic()
        if not why or left <= 0:
            return plan, why
        await asyncio.sleep(min(PAUSE, left))


def missing(variable: str, value: str, plan: Plan, hosts: Mapping[str, RunHost]) -> str:
    """What the newest pictures of the ends lack; clean, "" when nothing."""
    snapshots = {name: host.snapshot for name, host in hosts.items()}
    return not_shown(variable, value, plan, snapshots) or "; ".join(_without_carrier(plan, hosts))


def _without_carrier(plan: Plan, hosts: Mapping[str, RunHost]) -> Iterable[str]:
    for place in (plan.client, plan.server):
        host = hosts.get(place.host)
        link = host.snapshot.links.get(place.ifindex or 0) if host is not None else None
        if link is not None and link.carrier is not True:
            yield f"{clean(place.host)}: {clean(link.name)} has no carrier"
