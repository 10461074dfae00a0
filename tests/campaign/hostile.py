"""Malicious hosts: latency of keys, memory and time to end of nictop while it watches them.

nictop, in a pseudo-terminal, connects through a real sshd to `tests.campaign.hostile_host` or
`hostile_esxi`, which simulates each kind of host: first one alone, then 64 at once together with a
good one. A kind whose lines are refused though they are meant to be taken is a failure: it tests
nothing.
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

from nictop.tui.screens.dialogs.help import FILTER_HINT
from tests.campaign import hostile_esxi, hostile_host
from tests.campaign.hostile_lines import misjudged
from tests.campaign.results import Options, Progress, Row
from tests.support.namespaces import ROOT
from tests.support.sshd import Sshd, why_no_sshd
from tests.support.terminal import TerminalProgram

MAX_KEY_SECONDS = 0.5
"""Seconds from a key to the output that it causes."""
MAX_HOST_MIB = 64.0
"""MiB for each host, in addition to the memory with a good one."""
MAX_END_SECONDS = 2.0
"""Seconds from the key q, or from SIGTERM, to the end of the process."""
WATCH_SECONDS = 10.0
"""Seconds that each host is watched, with a key every `KEY_SECONDS`."""
KEY_SECONDS = 0.7
DRAW_TIMEOUT = 30.0
HOSTS_AT_ONCE = 64
KINDS = (*hostile_host.KINDS, *hostile_esxi.KINDS)
GOOD = "good"
HELP, LIVE = ("?", FILTER_HINT[1:]), ("\x1b", "Quit")
"""Alternating keys, and text that is drawn only after each key (the cursor is on the first letter
of the hint)."""


class Screen:
    """nictop in a pseudo-terminal whose output is read by a thread, so that it never blocks on
    output."""

    def __init__(self, terminal: TerminalProgram) -> None:
        self._terminal = terminal
        self._text, self._closed = b"", False
        self._changed = threading.Condition()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        while True:
            try:
                data = os.read(self._terminal.descriptor, 65536)
            except OSError:
                data = b""
            with self._changed:
                self._closed = not data
                self._text = (self._text + data)[-4_000_000:]
                self._changed.notify_all()
                if self._closed:
                    return

    def seconds_to(self, key: str, words: str, timeout: float = DRAW_TIMEOUT) -> float:
        """Seconds from the key to the words on the screen; `timeout` when they are not drawn.
        Without a key they may have been drawn already. Ends early when the program does."""
        with self._changed:
            begin = time.monotonic()
            if key:
                self._text = b""
                self._terminal.type(key)
            self._changed.wait_for(lambda: words.encode() in self._text or self._closed, timeout)
            return timeout if words.encode() not in self._text else time.monotonic() - begin

    @property
    def fault(self) -> str:
        """What it says about an internal error; "": there was none."""
        with self._changed:
            begin = self._text.find(b"internal error")
            return self._text[begin : begin + 200].decode(errors="replace") if begin >= 0 else ""


@dataclass
class Watched:
    """Maxima measured while some hosts are watched."""

    latency: float = 0.0
    """Seconds, the longest."""
    memory: float = 0.0
    """MiB, VmHWM."""
    quit: float = 0.0
    terminated: float = 0.0
    """Seconds."""
    crashed: bool = False
    """nictop ended before it was told to."""


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
            wrong = misjudged(name) if name in hostile_host.KINDS else ""
            if wrong:
                yield Row("hostile", f"{name}: {wrong}", True, 0.0)
        progress.show(f"hostile: {HOSTS_AT_ONCE} of them beside a good one")
        begin, together = time.monotonic(), [f"{name}={name}" for name in names]
        together += [f"{name}-{number}={name}" for number in range(2, 9) for name in names]
        together = [GOOD, *together[:HOSTS_AT_ONCE]]
        yield row(
            f"{HOSTS_AT_ONCE} of them beside a good host",
            watched(sshd, together),
            usual,
            HOSTS_AT_ONCE,
            begin,
        )


def row(what: str, found: Watched, usual: Watched, number: int, begin: float) -> Row:
    """`number`: how many hosts the memory bound is for."""
    memory = max(0.0, found.memory - usual.memory)
    text = f"{what}: key {found.latency:.2f} s, memory +{memory:.0f} MiB, q {found.quit:.1f} s, "
    text += f"SIGTERM {found.terminated:.1f} s" + ", nictop has crashed" * found.crashed
    failed = (
        found.crashed
        or found.latency > MAX_KEY_SECONDS
        or memory > MAX_HOST_MIB * number
        or max(found.quit, found.terminated) > MAX_END_SECONDS
    )
    return Row("hostile", text, failed, time.monotonic() - begin)


@contextmanager
def hosts(folder: Path) -> Iterator[Sshd]:
    """An sshd with a host name for every kind of host."""
    sshd = Sshd(folder)
    try:
        for module in (hostile_host, hostile_esxi):
            for name in module.KINDS:
                sshd.add_host(
                    name, f"PYTHONPATH={ROOT} {sys.executable} -S -m {module.__name__} {name}"
                )
        yield sshd
    finally:
        sshd.stop()


def watched(sshd: Sshd, names: Sequence[str]) -> Watched:
    """Run nictop with these hosts twice: the first is ended with q, the second with SIGTERM."""
    found = Watched()
    ends: dict[str, Callable[[TerminalProgram], None]] = {
        "quit": lambda screen: screen.type("q"),
        "terminated": lambda screen: os.kill(screen.pid, signal.SIGTERM),
    }
    for field, end in ends.items():
        environment = {
            **os.environ,
            "PYTHONPATH": str(ROOT),
            "TERM": "xterm-256color",
            "HOME": str(sshd.home),
        }
        command = [sys.executable, "-m", "nictop", *names]
        with TerminalProgram(command, ROOT, environment, (120, 36)) as terminal:
            screen = Screen(terminal)
            screen.seconds_to("", "Quit")
            begin, number = time.monotonic(), 0
            while time.monotonic() - begin < WATCH_SECONDS and not ended(terminal.pid):
                key, words = (HELP, LIVE)[number % 2]
                found.latency = max(found.latency, screen.seconds_to(key, words))
                number += 1
                time.sleep(KEY_SECONDS)
            if number % 2 and not ended(terminal.pid):
                screen.seconds_to(*LIVE)
                time.sleep(KEY_SECONDS)  # escape directly followed by a key would be another key
            if ended(terminal.pid):
                found.crashed = True
                continue
            found.memory = max(found.memory, most_memory(terminal.pid))
            begin = time.monotonic()
            end(terminal)
            while not ended(terminal.pid) and time.monotonic() - begin < DRAW_TIMEOUT:
                time.sleep(0.01)
            setattr(found, field, time.monotonic() - begin)
    return found


def ended(pid: int) -> bool:
    """Whether the child has ended (zombie)."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"


def most_memory(pid: int) -> float:
    """Peak resident memory in MiB."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(one.split()[1]) for one in lines if one.startswith("VmHWM:")) / 1024
