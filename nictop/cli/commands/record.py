"""``nictop record``: writes a recording of hosts.

The seconds of ``--time`` count for each host from its first reading: a slow host is recorded as long as a fast one.

It reads the hosts as the live screen does, and the queue and driver counters of all their devices.
"""

from __future__ import annotations

import argparse
import asyncio
import math
import signal
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from nictop.cli import output
from nictop.cli.arguments import add_hosts, parse_seconds
from nictop.cli.hosts import wanted_hosts
from nictop.cli.progress_line import ProgressLine
from nictop.errors import HostUnreachable, NictopError

if TYPE_CHECKING:
    from nictop.probe.records import Line
    from nictop.recording.writer import Recorder
    from nictop.wire.source import Source, SourceState

MIN_RECORD_SECONDS, MAX_RECORD_SECONDS = 1.0, 31 * 86400.0
PROGRESS_SECONDS = 1.0
"""Seconds between two updates of the progress line."""
FIRST_READING_SECONDS = 90.0
"""With --time: seconds that a host which is not lost may take for its first reading, as for other commands
(`nictop.hosts.observe.HOSTS_TIMEOUT`)."""
MAX_REASONS = 5


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Record everything that hosts report, until Ctrl-C. The file contains names, addresses and profiles of the "
        "hosts and can be read by its owner only (mode 0600). No traffic test is in it, only the packets of one that "
        "runs meanwhile: a test is recorded where it is made, on the live screen (nictop HOST HOST; r, then 6). "
        "nictop traffic saves its results by themselves (--list)."
    )
    parser.epilog = (
        "Exit codes: 0 recorded, 2 usage error or the file cannot be written, 3 no reading of any host was recorded."
    )
    parser.add_argument("file", metavar="FILE", help="new file; 0.5 to 5 MB per host per hour")
    add_hosts(parser)
    parser.add_argument(
        "--time",
        type=_time,
        metavar="SECONDS",
        help="stop SECONDS after the first reading of each host (default: record until Ctrl-C)",
    )
    parser.add_argument("--force", action="store_true", help="overwrite FILE")


def run(options: argparse.Namespace) -> int:
    from nictop.hosts.connect import connect
    from nictop.hosts.session import read_local_clock
    from nictop.recording.writer import Recorder, recorded_source

    wanted, here = wanted_hosts(options.hosts), read_local_clock(time.monotonic(), time.time())

    async def recording() -> int:
        recorder = Recorder(options.file, force=options.force, boot_id=here.boot_id)
        sources = [
            recorded_source(
                connect(host, options.interval, sudo=options.sudo, accept_new_host_keys=options.accept_new_host_keys),
                recorder,
            )
            for host in wanted
        ]
        return await _RecordingRun(recorder, sources).run(options.time)

    return asyncio.run(recording())


class _HostProgress:
    """What one host has sent so far. Times are seconds of the clock of the event loop."""

    def __init__(self, name: str) -> None:
        from nictop.hosts.start import StartSteps
        from nictop.model.snapshot import Snapshot

        self.state = "connecting"
        self._start, self._nothing = StartSteps(is_remote=True), Snapshot(name, "connecting", "")
        self.reason = ""
        """Why it is not live."""
        self.first_counters: float | None = None
        self.has_inventory = False
        self._was_lost = False

    def process(self, item: Line | SourceState, now: float) -> None:
        from nictop.probe.records import Line

        if not isinstance(item, Line):
            self.state = item.state
            if item.state != "live":
                self._start.process_state(item, self._nothing, now)
            if item.state in ("lost", "failed"):
                self.reason, self._was_lost = item.message, True
            return
        self.has_inventory = self.has_inventory or item.inventory is not None
        if item.counters is not None and self.first_counters is None:
            self.first_counters = now

    @property
    def has_reading(self) -> bool:
        return self.has_inventory or self.first_counters is not None

    def text(self, now: float) -> str:
        """``live``, ``logging in, 4 s``"""
        return (self._start.active_text(now) if self.state == "connecting" else "") or self.state

    def ends_at(self, begin: float, seconds: float) -> float:
        """When it was recorded for `seconds`. A host without a complete reading is waited for, as a recording without
        an inventory cannot be shown; but not one that cannot be reached."""
        if self.first_counters is not None and self.has_inventory:
            return self.first_counters + seconds
        return begin + seconds + (0.0 if self._was_lost else FIRST_READING_SECONDS)


class _RecordingRun:
    """The hosts that are recorded, until a signal or the time limit."""

    def __init__(self, recorder: Recorder, sources: list[Source]) -> None:
        self._recorder, self._sources = recorder, sources
        self._hosts = {source.name: _HostProgress(source.name) for source in sources}
        self._stop = asyncio.Event()
        self._progress = ProgressLine()

    async def run(self, limit: float | None) -> int:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            loop.add_signal_handler(number, self._stop.set)
        begin = loop.time()
        tasks = [asyncio.ensure_future(self._follow(source)) for source in self._sources]
        end = asyncio.ensure_future(_all(tasks))
        try:
            while not (self._stop.is_set() or end.done() or self._recorder.has_failed):
                left = math.inf if limit is None else self._ends_at(begin, limit) - loop.time()
                if left <= 0:
                    break
                self._progress.show(self._progress_text(loop.time() - begin))
                await self._wait(min(PROGRESS_SECONDS, left), end)
        finally:
            await asyncio.gather(*(source.close() for source in self._sources))
            await asyncio.gather(end, return_exceptions=True)
            await self._recorder.close()
        self._progress.finish(self._progress_text(loop.time() - begin))
        return self._result(tasks)

    def _ends_at(self, begin: float, seconds: float) -> float:
        """When the last host was recorded for so long."""
        return max(host.ends_at(begin, seconds) for host in self._hosts.values())

    async def _wait(self, delay: float, end: asyncio.Task[None]) -> None:
        stop = asyncio.ensure_future(self._stopped())
        try:
            await asyncio.wait({stop, end}, timeout=delay, return_when=asyncio.FIRST_COMPLETED)
        finally:
            stop.cancel()

    async def _stopped(self) -> None:
        await self._stop.wait()

    def _result(self, tasks: Sequence[asyncio.Task[None]]) -> int:
        for task in tasks:
            if (error := task.exception()) is not None:
                raise error
        if self._recorder.trouble:
            raise NictopError(self._recorder.trouble)
        missing = [self._why_missing(name, host) for name, host in self._hosts.items() if not host.has_reading]
        if len(missing) == len(self._hosts):
            reached = any(host.state == "live" for host in self._hosts.values())
            why = "no reading was recorded" if reached else "no host could be reached: no reading was recorded"
            raise HostUnreachable(why, "; ".join(missing[:MAX_REASONS]))
        for sentence in missing[:MAX_REASONS]:
            output.print_status(f"not recorded: {sentence}")
        return 0

    @staticmethod
    def _why_missing(name: str, host: _HostProgress) -> str:
        from nictop.model.text.terminal import clean

        return clean(f"{name}: {host.reason or f'it was {host.state}, and sent no reading'}")

    async def _follow(self, source: Source) -> None:
        """Process the items of a source until it ends."""
        loop = asyncio.get_running_loop()
        async for item in source.items():
            self._hosts[source.name].process(item, loop.time())

    def _progress_text(self, elapsed: float) -> str:
        from nictop.model.text import units

        live = sum(host.state == "live" for host in self._hosts.values())
        parts = [f"{live} of {len(self._hosts)} hosts live"] if len(self._hosts) > 1 else []
        parts += self._awaited_texts()
        parts += [units.bytes_(self._recorder.size), units.duration(float(int(elapsed)))]
        if self._recorder.dropped:
            parts.append(f"{self._recorder.dropped} lines lost")
        reason = self._recorder.trouble or next(
            (f"{name}: {host.reason}" for name, host in self._hosts.items() if host.state in ("lost", "failed")),
            "",
        )
        return " · ".join([*parts, reason] if reason else parts)

    def _awaited_texts(self) -> list[str]:
        """``vm1: logging in, 4 s``: the first host that is not live; of a single host also ``vm1: live``."""
        now = asyncio.get_running_loop().time()
        awaited = [(name, host) for name, host in self._hosts.items() if host.state == "connecting"]
        named = awaited or (list(self._hosts.items()) if len(self._hosts) == 1 else [])
        return [f"{name}: {host.text(now)}" for name, host in named[:1]]


async def _all(tasks: Sequence[asyncio.Task[None]]) -> None:
    """Wait until all tasks have ended, also by exceptions."""
    await asyncio.gather(*tasks, return_exceptions=True)


def _time(text: str) -> float:
    return parse_seconds(text, MIN_RECORD_SECONDS, MAX_RECORD_SECONDS)
