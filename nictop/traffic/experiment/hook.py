"""The user's own command between two runs, which changes what nictop does not.

Runs it on this machine by ``/bin/sh -c`` in a session of its own, with a time limit and without any input.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Mapping
from contextlib import suppress

from nictop.model.text.terminal import clean
from nictop.model.text.units import duration
from nictop.wire.timeout import within

KEPT_OUTPUT = 2000
"""Bytes of what a command says: the end of it tells why it failed."""
LONGEST_LINE, LONGEST_COMMAND = 200, 60
"""Characters that are said of its last line, and of itself."""
GENTLE = 1.0
"""Seconds between SIGTERM and SIGKILL."""


async def run_between(command: str, environment: Mapping[str, str], seconds: float) -> str:
    """Why it failed, with the command's name and its last line (of stderr, where it wrote any), clean; "" when it did
    not. However this is left, the command has ended; what it has left in the background stays."""
    output, errors = _Said(), _Said()
    try:
        try:
            process = await asyncio.create_subprocess_exec(
                "/bin/sh",
                "-c",
                command,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=output.writing,
                stderr=errors.writing,
                start_new_session=True,
                env={**os.environ, **environment},
            )
        except (OSError, ValueError) as error:
            return f"the command {_named(command)} cannot be started: {clean(str(error))}"
        finally:
            for one in (output, errors):
                one.begin()
        try:
            over = await _ends_within(process, seconds)
        finally:
            await _end(process)
    finally:
        for one in (output, errors):
            one.end()
    last = errors.last_line or output.last_line
    last = f": {last}" if last else ""
    if not over:
        return f"the command {_named(command)} had not ended after {duration(seconds)}, and was stopped{last}"
    code = process.returncode or 0
    return f"the command {_named(command)} ended {_status(code)}{last}" if code else ""


def _named(command: str) -> str:
    words = clean(command)
    return f"'{words[:LONGEST_COMMAND]}…'" if len(words) > LONGEST_COMMAND else f"'{words}'"


class _Said:
    """The end of what a command writes to one stream. The pipe is not asyncio's, which waits for its end: something in
    the background may hold it open."""

    def __init__(self) -> None:
        self._reading, self.writing = os.pipe()
        os.set_blocking(self._reading, False)
        self._said = bytearray()
        self._loop = asyncio.get_running_loop()

    def begin(self) -> None:
        """The command has its end of it."""
        os.close(self.writing)
        self._loop.add_reader(self._reading, self._take)

    def end(self) -> None:
        """Take what has come, and no more."""
        self._loop.remove_reader(self._reading)
        for _ in range(16):  # a background process may write for ever
            if not self._take():
                break
        os.close(self._reading)

    @property
    def last_line(self) -> str:
        """Clean; "" when it wrote nothing."""
        lines = self._said.decode("utf-8", "replace").strip().splitlines()
        return clean(lines[-1].strip())[:LONGEST_LINE] if lines else ""

    def _take(self) -> bool:
        """Whether more may come."""
        try:
            part = os.read(self._reading, 65536)
        except BlockingIOError:
            return False
        if not part:
            self._loop.remove_reader(self._reading)
            return False
        self._said[:] = (self._said + part)[-KEPT_OUTPUT:]
        return True


async def _ends_within(process: asyncio.subprocess.Process, seconds: float) -> bool:
    try:
        await within(seconds, process.wait())
    except asyncio.TimeoutError:
        return False
    return True


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
