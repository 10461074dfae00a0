"""``nictop record``: writes a recording of hosts.

The seconds of ``--time`` count for each host from its first reading: a slow host is recorded as
long as a fast one.

It reads the hosts as the live screen does, and the queue and driver counters of all their devices.
"""

from __future__ import annotations

import argparse
import asyncio
import math
import os
import re
import signal
import sys
import time
from collections.abc import Sequence
from contextlib import closing
from typing import TYPE_CHECKING

from nictop.cli import output
from nictop.cli.arguments import add_hosts, parse_seconds
from nictop.cli.hosts import connect_host, wanted_hosts
from nictop.cli.progress_line import ProgressLine
from nictop.errors import HostUnreachable, NictopError
from nictop.hosts.start import LONG_WAIT_SECONDS

if TYPE_CHECKING:
    from nictop.probe.records import Line
    from nictop.recording.keep import Keep, KeptDirectory
    from nictop.recording.writer import Recorder
    from nictop.wire.source import Source, SourceState

MIN_RECORD_SECONDS, MAX_RECORD_SECONDS = 1.0, 31 * 86400.0
PROGRESS_SECONDS = 1.0
"""Seconds between two updates of the progress line."""
UNSEEN_SECONDS = 5.0
"""The same where nobody sees it: whether the recorder has failed is looked at so often."""
FIRST_READING_SECONDS = 90.0
"""With --time: seconds that a host which is not lost may take for its first reading, as for other
commands (`nictop.hosts.observe.HOSTS_TIMEOUT`)."""
MAX_REASONS = 5
SECONDS_OF = {"m": 60, "h": 3600, "d": 86400}
BYTES_OF = {"M": 10**6, "G": 10**9}
MIN_KEPT_SECONDS, MAX_KEPT_SECONDS = 600, 366 * 86400
MIN_KEPT_BYTES, MAX_KEPT_BYTES = 16 * 10**6, 10**13
KEPT_FORMS = "30m, 24h, 7d or 500M, 2G: from 10 minutes to 366 days, from 16 MB to 10 TB"

EXAMPLES = """\
examples:
  nictop record monday.nictop vm1 vm2      until Ctrl-C
  nictop record monday.nictop vm1 --time 60
  nictop record monday.nictop              this host

"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Record everything that hosts report, until Ctrl-C. The file contains names, addresses "
        "and profiles of the "
        "hosts and can be read by its owner only (mode 0600). No traffic test is in it, only the "
        "packets of one that "
        "runs meanwhile: a test is recorded where it is made, on the live screen (nictop HOST "
        "HOST; r, then 6). "
        "nictop traffic saves its results by themselves (--list)."
    )
    parser.epilog = EXAMPLES + (
        "Exit codes: 0 recorded, 2 usage error or the file cannot be written, 3 no "
        "reading of any host was recorded."
    )
    parser.add_argument(
        "file",
        metavar="FILE",
        help="new file, 0.5 to 5 MB per host per hour; with --keep a directory",
    )
    add_hosts(parser)
    parser.add_argument(
        "--time",
        type=_time,
        metavar="SECONDS",
        help="stop SECONDS after the first reading of each host (default: record until Ctrl-C)",
    )
    parser.add_argument("--force", action="store_true", help="overwrite FILE")
    parser.add_argument(
        "--keep",
        action="append",
        type=_kept,
        metavar="TIME|SIZE",
        help="record into the directory FILE and delete there what is older (24h, 7d) or too much "
        "(2G); may be given twice. nictop replay, show, check, report and diff read the directory",
    )
    parser.add_argument(
        "--unit", action="store_true", help="print a systemd unit of this command and exit"
    )


def run(options: argparse.Namespace) -> int:
    from nictop.hosts.session import read_local_clock
    from nictop.recording.writer import Recorder, recorded_source

    wanted, here = wanted_hosts(options.hosts), read_local_clock(time.monotonic(), time.time())
    keep = _keep(options)
    if options.unit:
        return _print_unit(options, keep)

    async def recording(target: str | KeptDirectory) -> int:
        recorder = Recorder(target, force=options.force, boot_id=here.boot_id)
        sources = [recorded_source(connect_host(host, options), recorder) for host in wanted]
        return await _RecordingRun(recorder, sources).run(options.time)

    if keep is None:
        return asyncio.run(recording(options.file))
    from nictop.recording.keep import KeptDirectory

    with closing(KeptDirectory(options.file, keep)) as directory:
        return asyncio.run(recording(directory))


def _keep(options: argparse.Namespace) -> Keep | None:
    """None: everything, in one file. Raises NictopError."""
    if options.keep is None:
        return None
    from nictop.recording.keep import Keep

    if options.force:
        raise NictopError("--force overwrites a file; --keep records into a directory")
    kept: dict[str, int] = {}
    for kind, amount in options.keep:
        if kind in kept:
            raise NictopError("--keep twice: once a time and once a size", KEPT_FORMS)
        kept[kind] = amount
    return Keep(kept.get("seconds"), kept.get("bytes"))


def _print_unit(options: argparse.Namespace, keep: Keep | None) -> int:
    from nictop.cli.record_unit import unit_text

    if keep is None:
        raise NictopError(
            "--unit needs --keep", "a service that records for ever fills a file system without it"
        )
    directory = os.path.abspath(options.file)  # a service begins in another directory
    words = [directory if word == options.file else word for word in sys.argv[1:]]
    words.remove("--unit")
    return output.write(unit_text(directory, words, options.hosts))


class _HostProgress:
    """What one host has sent so far. Times are seconds of the clock of the event loop."""

    def __init__(self) -> None:
        from nictop.hosts.start import StartSteps

        self.state = "connecting"
        self._start = StartSteps(is_remote=True)
        self.reason = ""
        """Why it is not live."""
        self.first_counters: float | None = None
        self.has_inventory = False
        self._was_lost = False
        self._live_since: float | None = None

    def process(self, item: Line | SourceState, now: float) -> None:
        from nictop.probe.records import Line

        if not isinstance(item, Line):
            self.state = item.state
            if item.state != "live":
                self._start.process_state(item, now)
            self._live_since = now if item.state == "live" else None
            if item.state in ("lost", "failed"):
                self.reason, self._was_lost = item.message, True
            return
        if item.inventory is not None:
            self.has_inventory = True
        if item.counters is not None and self.first_counters is None:
            self.first_counters = now

    @property
    def has_reading(self) -> bool:
        return self.has_inventory or self.first_counters is not None

    def text(self, now: float) -> str:
        """``live``, ``logging in, 4 s``, ``no reading yet, 14 s``"""
        if self._live_since is not None and not self.has_reading:
            return f"no reading yet, {now - self._live_since:.0f} s"
        if self.state != "connecting":
            return self.state
        return self._start.active_text(now) or self.state

    def ends_at(self, begin: float, seconds: float) -> float:
        """When it was recorded for `seconds`. A host without a complete reading is waited for, as a
        recording without an inventory cannot be shown; but not one that cannot be reached."""
        if self.first_counters is not None and self.has_inventory:
            return self.first_counters + seconds
        if self._was_lost:
            return begin + seconds
        return begin + seconds + FIRST_READING_SECONDS


class _RecordingRun:
    """The hosts that are recorded, until a signal or the time limit."""

    def __init__(self, recorder: Recorder, sources: list[Source]) -> None:
        self._recorder, self._sources = recorder, sources
        self._hosts = {source.name: _HostProgress() for source in sources}
        self._stop = asyncio.Event()
        self._progress = ProgressLine()

    async def run(self, limit: float | None) -> int:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            loop.add_signal_handler(number, self._stop.set)
        pause = PROGRESS_SECONDS if self._progress.is_terminal else UNSEEN_SECONDS
        begin = told = loop.time()
        tasks = [asyncio.ensure_future(self._follow(source)) for source in self._sources]
        end = asyncio.ensure_future(_all(tasks))
        try:
            while not (self._stop.is_set() or end.done() or self._recorder.has_failed):
                left = math.inf
                if limit is not None:
                    left = self._ends_at(begin, limit) - loop.time()
                if left <= 0:
                    break
                self._progress.show(self._progress_text())
                if self._awaited_texts() and loop.time() >= told + LONG_WAIT_SECONDS:
                    told = loop.time()
                    self._progress.log(f"waiting: {self._waiting_text(begin, limit)}")
                await self._wait(min(pause, left), end)
        finally:
            await asyncio.gather(*(source.close() for source in self._sources))
            await asyncio.gather(end, return_exceptions=True)
            await self._recorder.close()
        self._progress.finish(self._progress_text())
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
        missing = []
        for name, host in self._hosts.items():
            if not host.has_reading:
                missing.append(self._why_missing(name, host))
        if len(missing) == len(self._hosts):
            why = "no reading was recorded"
            if not any(host.state == "live" for host in self._hosts.values()):
                why = f"no host could be reached: {why}"
            raise HostUnreachable(why, "; ".join(missing[:MAX_REASONS]))
        for sentence in missing[:MAX_REASONS]:
            output.print_status(f"not recorded: {sentence}")
        return 0

    @staticmethod
    def _why_missing(name: str, host: _HostProgress) -> str:
        from nictop.model.text.terminal import clean

        reason = _reason_of(name, host)
        return clean(f"{name}: {reason or f'it was {host.state}, and sent no reading'}")

    async def _follow(self, source: Source) -> None:
        """Process the items of a source until it ends."""
        loop = asyncio.get_running_loop()
        async for item in source.items():
            self._hosts[source.name].process(item, loop.time())

    def _progress_text(self) -> str:
        from nictop.model.text import units

        live = sum(host.state == "live" for host in self._hosts.values())
        parts = []
        if len(self._hosts) > 1:
            parts.append(f"{live} of {len(self._hosts)} hosts live")
        parts += self._state_texts()
        parts += [units.bytes_(self._recorder.size), f"recorded {self._recorded_text()}"]
        if self._recorder.dropped:
            parts.append(f"{self._recorder.dropped} lines lost")
        parts.append(self._recorder.trouble or self._lost_text())
        return " · ".join(filter(None, parts))

    def _lost_text(self) -> str:
        """Why the first host that is not reached is not; "": all are."""
        for name, host in self._hosts.items():
            if host.state in ("lost", "failed"):
                return f"{name}: {_reason_of(name, host)}"
        return ""

    def _recorded_text(self) -> str:
        """Time since the first reading of any host: ``--time`` counts from there, too."""
        from nictop.model.text import units

        begun = [host.first_counters for host in self._hosts.values() if host.first_counters]
        if not begun:
            return "nothing yet"
        return units.whole_seconds(int(asyncio.get_running_loop().time() - min(begun)))

    def _state_texts(self) -> list[str]:
        """`_awaited_texts`; of a single host also ``vm1: live``."""
        if len(self._hosts) > 1:
            return self._awaited_texts()
        now = asyncio.get_running_loop().time()
        return [f"{name}: {host.text(now)}" for name, host in self._hosts.items()]

    def _awaited_texts(self) -> list[str]:
        """``vm1: logging in, 4 s``: the first host that has sent nothing yet."""
        now = asyncio.get_running_loop().time()
        for name, host in self._hosts.items():
            is_silent = host.state == "live" and not host.has_reading
            if is_silent or host.state == "connecting":
                return [f"{name}: {host.text(now)}"]
        return []

    def _waiting_text(self, begin: float, limit: float | None) -> str:
        """With the time limit, where there is one."""
        from nictop.model.text.units import of_limit_text

        parts = self._awaited_texts()
        if limit is not None:
            seconds = asyncio.get_running_loop().time() - begin
            parts.insert(0, of_limit_text(seconds, limit + FIRST_READING_SECONDS))
        return " · ".join(parts)


async def _all(tasks: Sequence[asyncio.Task[None]]) -> None:
    """Wait until all tasks have ended, also by exceptions."""
    await asyncio.gather(*tasks, return_exceptions=True)


def _kept(text: str) -> tuple[str, int]:
    """(``seconds`` or ``bytes``, amount). Raises ArgumentTypeError."""
    found = re.fullmatch(r"([0-9]{1,9})([mhdMG])", text)
    if found is None:
        raise argparse.ArgumentTypeError(f"{text!r} is not {KEPT_FORMS}")
    number, unit = int(found[1]), found[2]
    if unit in SECONDS_OF:
        kind, amount = "seconds", number * SECONDS_OF[unit]
        is_possible = MIN_KEPT_SECONDS <= amount <= MAX_KEPT_SECONDS
    else:
        kind, amount = "bytes", number * BYTES_OF[unit]
        is_possible = MIN_KEPT_BYTES <= amount <= MAX_KEPT_BYTES
    if not is_possible:
        raise argparse.ArgumentTypeError(f"{text!r} is not {KEPT_FORMS}")
    return kind, amount


def _time(text: str) -> float:
    return parse_seconds(text, MIN_RECORD_SECONDS, MAX_RECORD_SECONDS)


def _reason_of(name: str, host: _HostProgress) -> str:
    """Without the name of the host, with which the reasons of some hosts begin."""
    return host.reason.removeprefix(f"{name}: ")
