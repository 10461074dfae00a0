"""Waiting for the first readings of the hosts that take part in a test."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from functools import partial

from nictop.errors import HostUnreachable
from nictop.hosts.session import HostSession, slowest_factor, until
from nictop.hosts.start import DOING, LONG_WAIT_SECONDS
from nictop.model.snapshot import has_platform
from nictop.model.text.terminal import clean
from nictop.model.text.units import of_limit_text, whole_seconds

PLATFORM_SECONDS = 20.0
"""Of a usual host, which needs less than one."""


async def wait_for_readings(
    hosts: Sequence[HostSession], timeout: float | None, progress: Callable[[str], object]
) -> None:
    """Until the hosts have sent inventory and counters. `timeout`: seconds; None: as long as they
    may still connect. `progress` is called with a sentence on what is waited for. Raises
    HostUnreachable, which says the step that lasted too long."""
    begin, told = time.monotonic(), set[str]()

    def has_ended(host: HostSession) -> bool:
        return host.snapshot.state == "failed" if timeout is None else host.is_given_up

    def limit() -> float:
        """A slow host may need longer."""
        if timeout is None:
            return math.inf
        return timeout * slowest_factor(hosts)

    def steps() -> list[tuple[str, str, bool]]:
        return [(host.snapshot.state, _doing(host), host.has_readings) for host in hosts]

    def has_advanced(before: list[tuple[str, str, bool]]) -> bool:
        return steps() != before

    while waiting := [host for host in hosts if not host.has_readings]:
        for host in waiting:
            if has_ended(host):
                raise HostUnreachable(f"{host.name}: {host.snapshot.message}")
        name, advanced = waiting[0].name, partial(has_advanced, steps())
        sentence = f"waiting for {name}: {_doing(waiting[0])}"
        if sentence not in told:  # another host may have advanced, or a hop is connected to again
            progress(sentence)
        told.add(sentence)
        due = time.monotonic() + LONG_WAIT_SECONDS
        while not await until(hosts, advanced, min(due, begin + limit()) - time.monotonic()):
            now = time.monotonic()
            if now >= begin + limit():
                raise HostUnreachable(f"{name}: {_too_late(waiting[0], limit())}")
            if now >= due:
                progress(f"{sentence}, {limited_text(waiting[0], now, begin, limit())}")
                due = now + LONG_WAIT_SECONDS


def limited_text(session: HostSession, now: float, begin: float, limit: float) -> str:
    """``14 s; 31 s in all (limit 90 s)``: of the step, and of all that is waited for."""
    step = session.start.active(now)
    seconds = "" if step is None else f"{step.seconds or 0.0:.0f} s; "
    return f"{seconds}{of_limit_text(now - begin, limit)}"


def _too_late(session: HostSession, limit: float) -> str:
    """``no complete answer within 90 s: reading interfaces, 34 s``"""
    doing = session.start.active_text(time.monotonic()) or clean(session.snapshot.message)
    sentence = f"no complete answer within {limit:g} s"
    return f"{sentence}: {doing}" if doing else sentence


async def wait_for_platforms(
    hosts: Sequence[HostSession], progress: Callable[[str], object]
) -> str:
    """Until it is known what the NICs of these hosts are connected to: the first part of an
    inventory has only the links. Not for ever: who has named both NICs does not need it. What is
    missing then: ``inventory of vm1 not complete after 20 s``; "": nothing is."""

    def unread() -> list[HostSession]:
        return [host for host in hosts if not has_platform(host.snapshot)]

    if not unread():
        return ""
    begin = time.monotonic()
    limit = PLATFORM_SECONDS * slowest_factor(hosts)
    sentence = f"waiting for {unread()[0].name}: {DOING['inventory']}"
    progress(f"{sentence}, at most {limit:.0f} s")
    while (left := begin + limit - time.monotonic()) > 0:
        if await until(hosts, lambda: not unread(), min(LONG_WAIT_SECONDS, left)):
            return ""
        if left > LONG_WAIT_SECONDS:
            progress(f"{sentence}, {of_limit_text(time.monotonic() - begin, limit)}")
    names = " and ".join(clean(host.name) for host in unread())
    seconds = time.monotonic() - begin
    sentence = f"inventory of {names} not complete after {whole_seconds(seconds)}"
    reason = clean(unread()[0].snapshot.message)
    return f"{sentence} ({reason})" if reason else sentence


def _doing(session: HostSession) -> str:
    """The step of its start, ``starting probe (attempt 2)``; ``lost``, ``lost (attempt 2)``."""
    step = session.start.active(time.monotonic())
    text = session.snapshot.state if step is None else DOING[step.name]
    if session.start.attempt > 1:
        return f"{text} (attempt {session.start.attempt})"
    return text
