"""Malicious recordings and directories of them: memory, latency of keys and time to end of every
command that reads one.

Each of the `hostile_recordings.KINDS` and `hostile_directories.KINDS` is opened by `show`, `check`, `report` and `replay`; what has
not ended by itself after a while is told to end. The memory is compared with that of the same
command on a good recording.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from tests.campaign import hostile_directories, hostile_host, hostile_recordings
from tests.campaign.hostile import (
    HELP,
    LIVE,
    MAX_END_SECONDS,
    MAX_HOST_MIB,
    MAX_KEY_SECONDS,
    Screen,
    ended,
    most_memory,
)
from tests.campaign.results import Options, Progress, Row
from tests.support.namespaces import ROOT
from tests.support.terminal import TerminalProgram

WATCH_SECONDS = 5.0
"""Seconds after which a command is told to end; a screen is told so after `KEYS` keys, too."""
DRAW_SECONDS = 15.0
"""Seconds until the first frame of a screen."""
END_TIMEOUT = 20.0
POLL_SECONDS = 0.01
KEYS, KEY_SECONDS = 4, 0.7
PRINTED: dict[str, tuple[tuple[str, ...], signal.Signals]] = {
    "show": (("show",), signal.SIGINT),
    "show, SIGTERM": (("show",), signal.SIGTERM),
    "check": (("check",), signal.SIGINT),
    "report": (("report", "-o", "-"), signal.SIGINT),
    "report, SIGTERM": (("report", "-o", "-"), signal.SIGTERM),
}
"""Command → its arguments, and the signal that ends it."""
SCREENS = {"q": "q", "ctrl+c": "\x03", "SIGTERM": ""}
"""Way to end → key; "": the signal."""


@dataclass
class Read:
    """What one command did with one recording."""

    memory: float = 0.0
    """MiB, VmHWM."""
    seconds: float = 0.0
    """Until it ended by itself, or was told to."""
    end: float = 0.0
    """Seconds from then to its end."""
    latency: float = 0.0
    """Seconds, of the slowest key."""
    fault: str = ""
    """Last line of stderr after an internal error."""


def recordings(options: Options, progress: Progress) -> Iterator[Row]:
    with tempfile.TemporaryDirectory(prefix="nictop-") as folder:
        good = good_recording(Path(folder))
        usual = {which: read(which, good) for which in (*PRINTED, *SCREENS)}
        for number, kind in enumerate(hostile_recordings.KINDS):
            progress.show(f"recordings: {kind}, {number} of {len(hostile_recordings.KINDS)}")
            begin, path = time.monotonic(), Path(folder) / "hostile.nictop"
            hostile_recordings.write(kind, path)
            found = {which: read(which, path) for which in usual}
            yield row(kind, found, usual, time.monotonic() - begin)
        for number, kind in enumerate(hostile_directories.KINDS):
            progress.show(f"directories: {kind}, {number} of {len(hostile_directories.KINDS)}")
            begin, path = time.monotonic(), Path(folder) / f"hostile-{number}"
            hostile_directories.write(kind, path)
            found = {which: read(which, path) for which in usual}
            shutil.rmtree(path)
            yield row(f"directory: {kind}", found, usual, time.monotonic() - begin)


def row(kind: str, found: dict[str, Read], usual: dict[str, Read], seconds: float) -> Row:
    memory = max(max(0.0, one.memory - usual[which].memory) for which, one in found.items())
    latency = max(one.latency for one in found.values())
    end, read_for = (
        max(one.end for one in found.values()),
        max(found[which].seconds for which in found if which in PRINTED),
    )
    faults = [f"{which}: {one.fault}" for which, one in found.items() if one.fault]
    text = (
        f"{kind}: memory +{memory:.0f} MiB, read in {read_for:.1f} s, key {latency:.2f} s, end "
        f"{end:.1f} s"
    )
    failed = (
        bool(faults) or memory > MAX_HOST_MIB or latency > MAX_KEY_SECONDS or end > MAX_END_SECONDS
    )
    return Row("recordings", "; ".join([text, *faults]), failed, seconds)


def good_recording(folder: Path) -> Path:
    """A minute of one host with two links."""
    file = hostile_recordings.File(path := folder / "good.nictop")
    file.key()
    for number in range(60):
        text = hostile_recordings.line_of(hostile_host.counters(number))
        file.items(
            hostile_recordings.payload([("counters", text)]), time=hostile_recordings.BEGIN + number
        )
    file.end()
    file.close()
    return path


def read(which: str, path: Path) -> Read:
    return printed(which, path) if which in PRINTED else shown(SCREENS[which], path)


def environment(folder: Path) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(SOURCE), "TERM": "xterm-256color", "HOME": str(folder)}


def printed(which: str, path: Path) -> Read:
    """A command that prints and ends."""
    arguments, number = PRINTED[which]
    command = [sys.executable, "-m", "nictop", arguments[0], str(path), *arguments[1:]]
    found, begin = Read(), time.monotonic()
    with tempfile.TemporaryFile() as errors:
        process = subprocess.Popen(
            command,
            cwd=SOURCE,
            env=environment(path.parent),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=errors,
        )
        try:
            poll(process, found, begin + WATCH_SECONDS)
            found.seconds = time.monotonic() - begin
            if process.poll() is None:
                process.send_signal(number)
                begin = time.monotonic()
                poll(process, found, begin + END_TIMEOUT)
                found.end = time.monotonic() - begin
        finally:
            process.kill()
            process.wait()
        errors.seek(0)
        text = errors.read()
    if b"internal error" in text or process.returncode in (70, -signal.SIGSEGV):
        found.fault = text.decode(errors="replace").strip()[-300:]
    return found


def poll(process: subprocess.Popen[bytes], found: Read, until: float) -> None:
    while process.poll() is None and time.monotonic() < until:
        with suppress(OSError, StopIteration):  # it ends
            found.memory = max(found.memory, most_memory(process.pid))
        time.sleep(POLL_SECONDS)


def shown(key: str, path: Path) -> Read:
    """The replay. A recording may also be refused at once."""
    found, begin = Read(), time.monotonic()
    command = [sys.executable, "-m", "nictop", "replay", str(path)]
    with TerminalProgram(command, SOURCE, environment(path.parent), (120, 36)) as terminal:
        screen = Screen(terminal)
        screen.seconds_to("", "Quit", DRAW_SECONDS)
        for number in range(KEYS):
            if ended(terminal.pid) or time.monotonic() - begin > 2 * DRAW_SECONDS:
                break
            time.sleep(KEY_SECONDS)
            found.latency = max(
                found.latency, screen.seconds_to(*(HELP, LIVE)[number % 2], END_TIMEOUT)
            )
        time.sleep(KEY_SECONDS)
        if ended(terminal.pid):
            return found
        found.memory, begin = most_memory(terminal.pid), time.monotonic()
        terminal.type(key) if key else os.kill(terminal.pid, signal.SIGTERM)
        while not ended(terminal.pid) and time.monotonic() - begin < END_TIMEOUT:
            time.sleep(POLL_SECONDS)
        found.end = time.monotonic() - begin
        found.fault = found.fault or screen.fault
    return found


SOURCE = ROOT
