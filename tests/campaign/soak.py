"""Programs that run for an hour while links are added and removed: memory, descriptors and threads
must not grow.

Monitored are the live screen (with keys), the metrics service (one scrape per second), the probe of
a remote host and its client. Growth is the slope of a line fitted to the readings after the
warm-up, times the duration.
"""

from __future__ import annotations

import http.client
import itertools
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tests.benchmarks.links import veth_namespace
from tests.benchmarks.terminals import Terminal
from tests.campaign.results import Options, Row
from tests.support.follower import Follower
from tests.support.namespaces import ROOT, Namespace, why_no_namespaces
from tests.support.sshd import Sshd, why_no_sshd

LINKS = 10
INTERVAL = 0.5
"""Interval of the counters: the history of 600 is full after five minutes."""
READ_SECONDS = 5.0
"""Interval at which /proc is read."""
WARM_UP = 1 / 6
"""Share of the duration that is ignored, while caches and histories fill."""
KEYS = (
    *(b"1", b"j", b"\r", b"\x1b", b"2", b"3", b"k", b"4", b"5", b"6", b"7"),
    *(b"?", b"\x1b", b"1", b"o", b"\x1b"),
)
BOUNDS = {"memory": 2.0, "descriptors": 0.9, "threads": 0.9}
"""Maximum growth after the warm-up: MiB, and numbers of."""


@dataclass
class Subject:
    """A monitored process, by its pid."""

    name: str
    pid: int
    readings: list[tuple[float, float, float, float]] = field(default_factory=list)
    """(CLOCK_MONOTONIC, resident MiB, descriptors, threads)."""
    ended: bool = False

    def read(self) -> None:
        """Read /proc/PID/status and fd."""
        try:
            status = Path(f"/proc/{self.pid}/status").read_text()
            descriptors = len(os.listdir(f"/proc/{self.pid}/fd"))
        except OSError:
            self.ended = True
            return
        values = dict(line.split(":", 1) for line in status.splitlines())
        if "VmRSS" not in values:  # a zombie
            self.ended = True
            return
        resident = int(values["VmRSS"].split()[0]) / 1024
        self.readings.append((time.monotonic(), resident, descriptors, int(values["Threads"])))

    def row(self, seconds: float) -> Row:
        """Growth after the warm-up."""
        counted = self.readings[int(len(self.readings) * WARM_UP) :]
        if self.ended or len(counted) < 10:
            return Row("soak", f"{self.name}: ended before its time", True, seconds)
        times = [reading[0] for reading in counted]
        length = times[-1] - times[0]
        words, bad = [], False
        for place, (what, bound) in enumerate(BOUNDS.items(), 1):
            values = [reading[place] for reading in counted]
            slope = statistics.linear_regression(times, values).slope
            bad = bad or slope * length > bound
            unit = " MiB" if what == "memory" else ""
            words.append(f"{what} {values[0]:.0f} → {values[-1]:.0f}{unit}, {3600 * slope:+.2f}/h")
        return Row("soak", f"{self.name}: " + "; ".join(words), bad, seconds)


class Soak:
    """All subjects, monitored by a thread; a context manager that ends them."""

    def __init__(self, options: Options) -> None:
        self._seconds = 60 * options.soak_minutes
        self._stack = ExitStack()
        self._over = threading.Event()
        self.subjects: list[Subject] = []
        self._threads: list[threading.Thread] = []
        self.begin = time.monotonic()
        self.trouble: list[str] = []

    def __enter__(self) -> Soak:
        reason = why_no_namespaces() or why_no_sshd()
        if reason is not None:
            sys.exit(f"the soak needs network namespaces and an sshd: {reason}")
        try:
            namespace = self._stack.enter_context(veth_namespace(LINKS))
            terminal = self._stack.enter_context(screen(namespace))
            service, port = self._stack.enter_context(metrics(namespace))
            client, probe = self._stack.enter_context(remote(namespace))
        except BaseException:
            self._stack.close()
            raise
        self.subjects = [
            Subject("live screen", terminal.pid),
            Subject("metrics", service.pid),
            Subject("remote probe", probe),
            Subject("ssh client", client.process.pid),
        ]
        for work in (
            lambda: self._repeat(READ_SECONDS, self._look),
            lambda: self._repeat(1.0, lambda: namespace.call(lambda: scrape(port))),
            lambda: self._press(terminal),
            lambda: self._repeat(5.0, lambda: change_links(namespace)),
        ):
            thread = threading.Thread(target=work, daemon=True)
            thread.start()
            self._threads.append(thread)
        self.begin = time.monotonic()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        for thread in self._threads:
            thread.join(30)
        self._stack.close()

    def _repeat(self, seconds: float, work: Callable[[], None]) -> None:
        """Repeat `work` until the soak ends; an exception is stored in `trouble`."""
        try:
            while not self._over.wait(seconds):
                work()
        except Exception as error:
            self.trouble.append(f"{type(error).__name__}: {error}")

    def _look(self) -> None:
        for subject in self.subjects:
            if not subject.ended:
                subject.read()

    def _press(self, terminal: Terminal) -> None:
        """Type one key, and read the output."""
        keys = itertools.cycle(KEYS)
        try:
            while not self._over.is_set():
                terminal.type(next(keys))
                terminal.read(1.0)
        except OSError as error:
            self.trouble.append(f"the live screen: {error}")

    @property
    def left(self) -> float:
        """Seconds until the end of the soak."""
        return max(0.0, self.begin + self._seconds - time.monotonic())

    def rows(self) -> Iterator[Row]:
        seconds = time.monotonic() - self.begin
        for subject in self.subjects:
            yield subject.row(seconds)
        for trouble in self.trouble:
            yield Row("soak", trouble, True, seconds)


@contextmanager
def screen(namespace: Namespace) -> Iterator[Terminal]:
    command = [sys.executable, "-m", "nictop", "--interval", f"{INTERVAL:g}"]
    with Terminal(["ip", "netns", "exec", namespace.name, *command]) as terminal:
        terminal.read(60.0, lambda output: b"idle" in output)
        yield terminal


@contextmanager
def metrics(namespace: Namespace) -> Iterator[tuple[subprocess.Popen[str], int]]:
    """The service and its port, inside the namespace."""
    port = 9807
    command = [sys.executable, "-m", "nictop", "metrics", "--interval", f"{INTERVAL:g}"]
    process = subprocess.Popen(
        ["ip", "netns", "exec", namespace.name, *command, "--listen", f"127.0.0.1:{port}"],
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stderr is not None
        process.stderr.readline()  # prints the address on which it listens
        yield process, port
    finally:
        process.terminate()
        process.communicate()


def scrape(port: int) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    try:
        connection.request("GET", "/metrics")
        answer = connection.getresponse()
        if answer.status != 200 or b"nictop_host_up" not in answer.read():
            raise RuntimeError(f"a scrape answered {answer.status}")
    finally:
        connection.close()


@contextmanager
def remote(namespace: Namespace) -> Iterator[tuple[Follower, int]]:
    """A client process, and the pid of its probe, over a real sshd."""
    with tempfile.TemporaryDirectory(prefix="nictop-") as folder:
        inside = f'exec ip netns exec {namespace.name} sh -c "$SSH_ORIGINAL_COMMAND"'
        server = Sshd(Path(folder), options=(f"ForceCommand {inside}",))
        try:
            server.set_python(sys.executable)
            with Follower(server.target()) as client:
                client.wait_until(lambda: client.details("hello"))
                (pid,) = client.details("hello")
                assert isinstance(pid, int)
                yield client, pid
        finally:
            server.stop()


def change_links(namespace: Namespace) -> None:
    """Add, modify and remove a link."""
    lines = [
        "link add name soak0 type veth peer name soak1",
        "link set soak0 up",
        "link set soak1 up",
    ]
    lines += ["address add 192.0.2.1/24 dev soak0", "link set soak0 mtu 1400", "link del soak0"]
    namespace.run(["ip", "-batch", "-"], input="\n".join(lines) + "\n")
