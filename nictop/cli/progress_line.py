"""What a command waits for, in one line on stderr that is overwritten; where stderr is not a
terminal, a line for what takes long.

nictop: 12 s in all (limit 90 s) · vm1: logging in, 4 s · vm2: reading inventory, 2 s
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import AsyncGenerator, Callable, Generator, Sequence
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from time import monotonic
from typing import TYPE_CHECKING

from nictop.cli import output
from nictop.hosts.start import LONG_WAIT_SECONDS
from nictop.model.parts import late_services

if TYPE_CHECKING:
    from nictop.hosts.session import HostSession

MIN_PROGRESS_COLUMNS = 20
"""Columns that are used at least."""
UNKNOWN_COLUMNS = 80
"""Of a terminal that reports 0: its size was never set, as of a serial console."""
SEPARATOR = " · "
WAITING_REDRAW_SECONDS = 0.5
MAX_WAITING_NAMES = 3
"""Hosts in the line."""
LONG_READING_SECONDS = 5.0
"""After its first inventory took so long, it is said before that another one may follow."""


class ProgressLine:
    """On a terminal one line that is overwritten; else nothing until `finish`."""

    def __init__(self) -> None:
        self.is_terminal = sys.stderr is not None and sys.stderr.isatty()
        self._width = 0

    def show(self, text: str) -> None:
        from nictop.model.text.terminal import clean

        if not self.is_terminal:
            return
        with contextlib.suppress(OSError):
            line = output.stderr_text(whole_parts(clean(text), _stderr_columns() - 1))
            sys.stderr.write("\r" + line.ljust(self._width))
            sys.stderr.flush()
            self._width = len(line)

    def clear(self) -> None:
        """Remove it: what follows begins in the first column."""
        if self.is_terminal and self._width:
            with contextlib.suppress(OSError):
                sys.stderr.write("\r" + " " * self._width + "\r")
                sys.stderr.flush()
            self._width = 0

    def log(self, text: str) -> None:
        """A step, where stderr is no terminal: there it is a line of its own."""
        from nictop.model.text.terminal import clean

        if not self.is_terminal:
            output.print_status(clean(text))

    def finish(self, text: str) -> None:
        """The last text, on a line of its own, also where stderr is no terminal."""
        from nictop.model.text.terminal import clean

        self.clear()
        output.print_status(clean(text))


def _stderr_columns() -> int:
    """Raises OSError."""
    columns = os.get_terminal_size(sys.stderr.fileno()).columns or UNKNOWN_COLUMNS
    return max(MIN_PROGRESS_COLUMNS, columns)


def whole_parts(text: str, cells: int) -> str:
    """As many parts of a line as fit, each whole: ``vm1: reading interfaces · …``. Only a first
    part that is too wide is cut."""
    from nictop.model.text.terminal import fit, width

    if width(text) <= cells:
        return text
    rest = f"{SEPARATOR}…"
    first, *others = text.split(SEPARATOR)
    shown = fit(first, min(width(first), cells))
    for part in others:
        longer = f"{shown}{SEPARATOR}{part}"
        if width(longer) + width(rest) > cells:
            break
        shown = longer
    return shown + rest if width(shown) + width(rest) <= cells else shown


@contextmanager
def telling(text: str) -> Generator[None, None, None]:
    """Tell on a terminal what is done inside the block."""
    line = ProgressLine()
    line.show(text)
    try:
        yield
    finally:
        line.clear()


@asynccontextmanager
async def waiting_line(
    sessions: Sequence[HostSession],
    rates_seconds: float | None,
    limit: Callable[[], float],
    *,
    logs: bool = True,
) -> AsyncGenerator[ProgressLine, None]:
    """Tell what of these hosts is waited for inside the block. `rates_seconds`: of rates that are
    measured of each; None: a host is waited for until it is read. `limit`: seconds that it takes at
    most. `logs`: False: the caller logs the steps where stderr is no terminal."""
    import asyncio

    line = ProgressLine()
    text = partial(_limited_text, sessions, rates_seconds, monotonic(), limit)
    task = asyncio.ensure_future(_tell(line, text, logs=logs))
    try:
        yield line
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        line.clear()


async def wait_for_hosts(sessions: Sequence[HostSession], seconds: float) -> None:
    """Until these hosts are read, told on stderr: on a terminal as by `waiting_line`, elsewhere in
    a line for each step. Raises HostUnreachable."""
    from nictop.hosts.session import slowest_factor
    from nictop.traffic.hosts.readings import wait_for_readings

    def limit() -> float:
        return seconds * slowest_factor(sessions)

    async with waiting_line(sessions, None, limit, logs=False) as line:
        await wait_for_readings(sessions, seconds, line.log)


async def _tell(line: ProgressLine, text: Callable[[float], str], *, logs: bool) -> None:
    import asyncio

    while line.is_terminal:
        line.show(text(monotonic()))
        await asyncio.sleep(WAITING_REDRAW_SECONDS)
    while logs:
        await asyncio.sleep(LONG_WAIT_SECONDS)
        waiting = text(monotonic())
        if waiting:
            line.log(f"waiting: {waiting}")


def _limited_text(
    sessions: Sequence[HostSession],
    rates_seconds: float | None,
    begin: float,
    limit: Callable[[], float],
    now: float,
) -> str:
    """``31 s in all (limit 90 s) · vm1: reading interfaces, 14 s``; of a short wait only the
    hosts."""
    from nictop.model.text.units import of_limit_text

    text = waiting_text(sessions, rates_seconds, now)
    if not text or now - begin < LONG_WAIT_SECONDS:
        return text
    return f"{of_limit_text(now - begin, limit())}{SEPARATOR}{text}"


def _is_awaited(session: HostSession, rates_seconds: float | None) -> bool:
    """It may still send something that is waited for; without rates that ends with the first
    readings."""
    has_all = rates_seconds is None and session.has_readings
    return not session.is_closed and not has_all


def waiting_text(sessions: Sequence[HostSession], rates_seconds: float | None, now: float) -> str:
    """``vm1: logging in, 4 s · vm2: measuring, 1 of 3 s · 4 more``"""
    awaited = [session for session in sessions if _is_awaited(session, rates_seconds)]
    texts = []
    for session in awaited[:MAX_WAITING_NAMES]:
        texts.append(f"{session.name}: {_doing(session, rates_seconds or 0.0, now)}")
    if len(awaited) > MAX_WAITING_NAMES:
        texts.append(f"{len(awaited) - MAX_WAITING_NAMES} more")
    return SEPARATOR.join(texts)


def _doing(session: HostSession, rates_seconds: float, now: float) -> str:
    """What is waited for of one host."""
    if session.is_unreachable:
        return session.snapshot.state
    doing = session.start.active_text(now)
    if doing:
        return doing
    if session.snapshot.state != "live":
        return "starting"
    if not rates_seconds:
        return "measuring"
    measured, silence = session.window.seconds, _silence(session, now)
    reading = session.start.seconds_of("inventory", now)
    is_long = reading >= LONG_READING_SECONDS
    if measured < rates_seconds:
        then = f", then reading again (about {reading:.0f} s)" if is_long else ""
        quiet = f"; {session.old_text(now)}" if silence else ""
        return f"measuring, {measured:.0f} of {rates_seconds:g} s{quiet}{then}"
    late = late_services(session.snapshot)
    if late:
        return f"measured; {late[0]} did not answer in time and is asked again"
    before = f" (took {reading:.0f} s before)" if is_long else ""
    waited = measured - rates_seconds + silence
    return f"measured; reading again what may have changed, {waited:.0f} s{before}"


def _silence(session: HostSession, now: float) -> float:
    """Seconds since its last line, where one is overdue; else 0."""
    rates = session.snapshot.rates
    if not session.is_overdue(now, rates.elapsed if rates else 1.0):
        return 0.0
    return session.age(now) or 0.0
