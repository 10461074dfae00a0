"""Hosts that mean harm: how long a key waits, how much memory nictop takes and how long it takes to end beside them.

A real sshd lets nictop, on a terminal of its own, in to `tests.campaign.hostile_host`, which plays each kind of them:
one alone, then 64 at once beside a good one.
"""

from __future__ import annotations

import os
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.campaign.hostile_host import KINDS
from tests.campaign.results import Options, Progress, Row
from tests.support.namespaces import ROOT
from tests.support.sshd import Sshd, why_no_sshd
from tests.support.terminal import OnTerminal

MOST_LATENCY = 0.5
"""Seconds from a key to what it draws."""
MOST_MEMORY = 64.0
"""MiB for each host, beyond what a good one takes."""
MOST_TO_END = 2.0
"""Seconds from the key q, or from SIGTERM, to the end of the process."""
WATCHED = 10.0
"""Seconds that each one is watched, with a key every `KEY_EVERY`."""
KEY_EVERY = 0.7
LIMIT = 30.0
TOGETHER = 64
GOOD = "good"
HELP, LIVE = ("?", "leave nictop"), ("\x1b", "Quit")
"""Keys in turns, and words that are drawn by each alone."""


class Screen:
    """nictop on a terminal, whose output is read by a thread of its own, so that it never waits for a reader."""

    def __init__(self, terminal: OnTerminal) -> None:
        self._terminal = terminal
        self._text, self._since = b"", 0
        self._news = threading.Condition()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        while True:
            try:
                data = os.read(self._terminal.descriptor, 65536)
            except OSError:
                return
            with self._news:
                self._text = (self._text + data)[-4_000_000:]
                self._news.notify_all()

    def seconds_to(self, key: str, words: str) -> float:
        """From the key to the words; `LIMIT` when they are not drawn."""
        with self._news:
            self._text = b""
            begin = time.monotonic()
            if key:
                self._terminal.type(key)
            self._news.wait_for(lambda: words.encode() in self._text, LIMIT)
            return time.monotonic() - begin


@dataclass
class Watched:
    """What came out of watching some hosts."""

    latency: float = 0.0
    """Seconds, the longest."""
    memory: float = 0.0
    """MiB, VmHWM."""
    quit: float = 0.0
    terminated: float = 0.0
    """Seconds."""


def hostile(options: Options, progress: Progress) -> Iterator[Row]:
    reason = why_no_sshd()
    if reason is not None:
        yield Row("hostile", reason, True, 0.0)
        return
    names = [name for name in KINDS if name != GOOD]
    with tempfile.TemporaryDirectory(prefix="nictop-") as folder, hosts(Path(folder)) as sshd:
        begin, usual = time.monotonic(), watched(sshd, [GOOD])
        yield row("a good host", usual, usual, 1, begin)
        for number, name in enumerate(names):
            progress.show(f"hostile: {name}, {number} of {len(names)}")
            begin = time.monotonic()
            yield row(name, watched(sshd, [name]), usual, 1, begin)
        progress.show(f"hostile: {TOGETHER} of them beside a good one")
        begin, together = time.monotonic(), [f"{name}={name}" for name in names]
        together += [f"{name}-{number}={name}" for number in range(2, 9) for name in names]
        together = [GOOD, *together[:TOGETHER]]
        yield row(f"{TOGETHER} of them beside a good host", watched(sshd, together), usual, TOGETHER, begin)


def row(what: str, found: Watched, usual: Watched, number: int, begin: float) -> Row:
    """`number`: hosts that share the memory."""
    memory = max(0.0, found.memory - usual.memory)
    said = f"{what}: key {found.latency:.2f} s, memory +{memory:.0f} MiB, q {found.quit:.1f} s, "
    said += f"SIGTERM {found.terminated:.1f} s"
    failed = (
        found.latency > MOST_LATENCY or memory > MOST_MEMORY * number or max(found.quit, found.terminated) > MOST_TO_END
    )
    return Row("hostile", said, failed, time.monotonic() - begin)


@contextmanager
def hosts(folder: Path) -> Iterator[Sshd]:
    """An sshd with every kind of host behind it, by name."""
    sshd = Sshd(folder)
    try:
        script = ROOT / "tests/campaign/hostile_host.py"
        for name in KINDS:
            sshd.named_host(name, f"{sys.executable} -S {script} {name}")
        yield sshd
    finally:
        sshd.stop()


def watched(sshd: Sshd, names: Sequence[str]) -> Watched:
    """Watch them twice: one time q ends it, the other time SIGTERM."""
    found = Watched()
    ends: dict[str, Callable[[OnTerminal], None]] = {
        "quit": lambda screen: screen.type("q"),
        "terminated": lambda screen: os.kill(screen.pid, signal.SIGTERM),
    }
    for field, end in ends.items():
        environment = {**os.environ, "PYTHONPATH": str(ROOT), "TERM": "xterm-256color", "HOME": str(sshd.home)}
        command = [sys.executable, "-m", "nictop", *names]
        with OnTerminal(command, ROOT, environment, (120, 36)) as terminal:
            screen = Screen(terminal)
            screen.seconds_to("", "Quit")
            begin, number = time.monotonic(), 0
            while time.monotonic() - begin < WATCHED:
                key, words = (HELP, LIVE)[number % 2]
                found.latency = max(found.latency, screen.seconds_to(key, words))
                number += 1
                time.sleep(KEY_EVERY)
            if number % 2:
                screen.seconds_to(*LIVE)
                time.sleep(KEY_EVERY)  # escape and a key at once are another key
            found.memory = max(found.memory, most_memory(terminal.pid))
            begin = time.monotonic()
            end(terminal)
            while not ended(terminal.pid) and time.monotonic() - begin < LIMIT:
                time.sleep(0.01)
            setattr(found, field, time.monotonic() - begin)
    return found


def ended(pid: int) -> bool:
    """It is a zombie, which waits for us."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"


def most_memory(pid: int) -> float:
    """MiB, the most that was resident."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(one.split()[1]) for one in lines if one.startswith("VmHWM:")) / 1024
