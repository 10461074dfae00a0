"""The user's command between two runs (``--between``), which makes changes that nictop does not
make.

Runs it on this machine with ``/bin/sh -c`` in its own session, with a time limit and without input.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Mapping
from contextlib import suppress

from nictop.model.text.terminal import clean
from nictop.model.text.units import duration
from nictop.probe.kernel.exits import exit_text
from nictop.wire.timeout import ends_within

MAX_OUTPUT_BYTES = 2000
"""Of each stream; the end is kept, as it has the error message."""
MAX_SHOWN_LINE, MAX_SHOWN_COMMAND = 200, 60
"""Characters of the last line and of the command in a message."""
TERMINATE_SECONDS = 1.0
"""Between SIGTERM and SIGKILL."""
PIPE_READ_BYTES = 65536
MAX_FINAL_READS = 16
"""A background process may write for ever."""


async def run_hook(command: str, environment: Mapping[str, str], seconds: float) -> str:
    """Run the command. Returns why it failed, with its text and last line (of stderr if any) and
    without control characters; "" if it succeeded. However this is left, the command has ended; its
    background processes stay."""
    output, errors = _OutputTail(), _OutputTail()
    try:
        try:
            process = await asyncio.create_subprocess_exec(
                "/bin/sh",
                "-c",
                command,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=output.write_end,
                stderr=errors.write_end,
                start_new_session=True,
                env={**os.environ, **environment},
            )
        except (OSError, ValueError) as error:
            return f"command {_quoted_command(command)} cannot be started: {clean(str(error))}"
        finally:
            for stream in (output, errors):
                stream.start()
        try:
            ended = await ends_within(process, seconds)
        finally:
            await _terminate(process)
    finally:
        for stream in (output, errors):
            stream.close()
    if not ended:
        what = f"timed out after {duration(seconds)}"
    elif process.returncode:
        what = exit_text(process.returncode)
    else:
        return ""
    sentence = f"command {_quoted_command(command)} {what}"
    last_line = errors.last_line or output.last_line
    return f"{sentence}: {last_line}" if last_line else sentence


def _quoted_command(command: str) -> str:
    text = clean(command)
    if len(text) > MAX_SHOWN_COMMAND:
        text = f"{text[:MAX_SHOWN_COMMAND]}…"
    return f"'{text}'"


class _OutputTail:
    """The end of what a command writes to one stream. Not a pipe of asyncio, which would wait for
    its end: a background process may keep it open."""

    def __init__(self) -> None:
        self._read_end, self.write_end = os.pipe()
        os.set_blocking(self._read_end, False)
        self._output = bytearray()
        self._loop = asyncio.get_running_loop()

    def start(self) -> None:
        """Start reading, after the command was started."""
        os.close(self.write_end)
        self._loop.add_reader(self._read_end, self._read)

    def close(self) -> None:
        """Read what is available, and close the pipe."""
        self._loop.remove_reader(self._read_end)
        for _ in range(MAX_FINAL_READS):
            if not self._read():
                break
        os.close(self._read_end)

    @property
    def last_line(self) -> str:
        """The last line, without control characters; "" if nothing was written."""
        lines = self._output.decode("utf-8", "replace").strip().splitlines()
        if not lines:
            return ""
        return clean(lines[-1].strip())[:MAX_SHOWN_LINE]

    def _read(self) -> bool:
        """Read once; return whether more may be available."""
        try:
            part = os.read(self._read_end, PIPE_READ_BYTES)
        except BlockingIOError:
            return False
        if not part:
            self._loop.remove_reader(self._read_end)
            return False
        self._output[:] = (self._output + part)[-MAX_OUTPUT_BYTES:]
        return True


async def _terminate(process: asyncio.subprocess.Process) -> None:
    """Terminate the session of a command that still runs: SIGTERM, then SIGKILL, also if this is
    cancelled again."""
    if process.returncode is not None:
        return
    try:
        _signal(process, signal.SIGTERM)
        await ends_within(process, TERMINATE_SECONDS)
    finally:
        # the process group exists as long as it has members: those that ignore SIGTERM
        _signal(process, signal.SIGKILL)
    await ends_within(process, TERMINATE_SECONDS)


def _signal(process: asyncio.subprocess.Process, number: signal.Signals) -> None:
    with suppress(ProcessLookupError):
        os.killpg(process.pid, number)
