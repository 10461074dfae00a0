"""Cost of reading the interrupts of a large machine, compared with raw reads of the same file and
other programs.

The machines are synthetic: a /proc/interrupts as the kernel prints it, and the files of
/sys/kernel/irq for the NIC's vectors. Between two passes every vector of the NIC is counted on its
CPU. "Read raw" is the unavoidable cost of reading that file in a real /proc: one page per read, as
the kernel returns it (here from the page cache, which is faster than a kernel that formats
numbers). "Parsing" is a pass without its raw reads.
"""

from __future__ import annotations

import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from nictop.probe.counters.interrupts import InterruptCounterReader
from nictop.probe.counters.on_demand.interrupt_table import InterruptTable
from nictop.probe.kernel.open_files import OpenFileCache
from tests.benchmarks.results import Result

FIRST = 24
"""Number of the first vector."""
PAGE = 4096
"""Bytes per read of the raw file."""


class Host:
    """A machine with `vectors` NIC vectors among `lines` lines of /proc/interrupts; `tick`
    increments every vector."""

    def __init__(self, root: Path, cpus: int, lines: int, vectors: int) -> None:
        self.sys, self.proc, self.cpus = root / "sys", root / "proc", cpus
        self.numbers = list(range(FIRST, FIRST + vectors))
        (self.sys / "devices/system/cpu").mkdir(parents=True)
        (self.sys / "devices/system/cpu/possible").write_text(f"0-{cpus - 1}\n")
        self.proc.mkdir()
        text = bytearray(
            (" " * 11 + "".join(f"CPU{cpu:<8}" for cpu in range(cpus)) + "\n").encode()
        )
        self._places = []
        self._count = 1_000_000
        for line in range(lines):
            counts = [0] * cpus
            counts[line % cpus] = self._count
            text += f"{FIRST + line:>4}:".encode()
            if line < vectors:
                self._places.append(len(text) + 11 * (line % cpus) + 1)
            text += "".join(f" {count:>10}" for count in counts).encode()
            text += f"  PCI-MSIX-0000:02:00.0 {line:>3}-edge      eth0-TxRx-{line}\n".encode()
        (self.proc / "interrupts").write_bytes(text)
        self.size = len(text)
        for number in self.numbers:
            (self.sys / f"kernel/irq/{number}").mkdir(parents=True)
        self._write_vectors()

    def tick(self) -> None:
        self._count += 1234
        with (self.proc / "interrupts").open("r+b", buffering=0) as file:
            for place in self._places:
                os.pwrite(file.fileno(), f"{self._count:>10}".encode(), place)
        self._write_vectors()

    def check(self, found: dict[int, dict[int, int]]) -> None:
        """RuntimeError unless these are the current counts."""
        if found != {
            number: {(number - FIRST) % self.cpus: self._count} for number in self.numbers
        }:
            raise RuntimeError("wrong counts: the figures would be worthless")

    def _write_vectors(self) -> None:
        for number in self.numbers:
            counts = [0] * self.cpus
            counts[(number - FIRST) % self.cpus] = self._count
            path = self.sys / f"kernel/irq/{number}/per_cpu_count"
            path.write_text(",".join(map(str, counts)) + "\n")


@contextmanager
def host(cpus: int, lines: int, vectors: int) -> Iterator[Host]:
    with tempfile.TemporaryDirectory(prefix="nictop-") as root:
        yield Host(Path(root), cpus, lines, vectors)


def many_interrupts(quick: bool) -> Iterator[Result]:
    yield from measured(256, 4000, 256, 1.2, quick)
    yield from measured(64, 600, 64, 2.5, quick)


def measured(cpus: int, lines: int, vectors: int, bound: float, quick: bool) -> Iterator[Result]:
    what = f"{cpus} CPUs × {lines} interrupt lines"
    with host(cpus, lines, vectors) as machine:
        raw, at_once, bare, by_file, by_table, whole, first = passes(machine, 7 if quick else 41)
    yield Result(
        f"{what}: the file read raw ({machine.size / 1e6:.1f} MB)", raw * 1e3, None, "ms CPU"
    )
    yield Result("… read at once into a buffer that is there", at_once * 1e3, None, "ms CPU")
    yield Result(
        f"… {vectors} NIC vectors, all counting, by their own files", by_file * 1e3, None, "ms CPU"
    )
    yield Result("… its parsing against the file read raw", (by_file - bare) / raw, bound, "times")
    yield Result("… all of it against the file read raw", by_file / raw, None, "times")
    yield Result(
        f"… {vectors} NIC vectors by that file (old kernels)", by_table * 1e3, None, "ms CPU"
    )
    yield Result(
        "… its parsing against the file read raw", (by_table - at_once) / raw, None, "times"
    )
    yield Result("… whole machine", whole * 1e3, None, "ms CPU")
    yield Result("… its parsing against the file read raw", (whole - at_once) / raw, None, "times")
    yield Result("… whole machine, the first time", first * 1e3, None, "ms CPU")


def passes(machine: Host, rounds: int) -> list[float]:
    """Median CPU seconds of: the file read raw, the file in one read, the vectors' files read raw,
    the vectors from their files and from the table, the whole table; and of the first pass over the
    table."""
    files = OpenFileCache(len(machine.numbers))
    own = InterruptCounterReader(files, sys=str(machine.sys))
    fallback = InterruptCounterReader(files, sys="/nowhere", proc=str(machine.proc))
    table = InterruptTable(str(machine.proc))
    with ExitStack() as stack:
        for reader in (files, own, fallback, table):
            stack.callback(reader.close)
        whole = stack.enter_context((machine.proc / "interrupts").open("rb", buffering=0))
        folder = machine.sys / "kernel/irq"
        vector_files = [
            stack.enter_context(
                (folder / f"{number}/per_cpu_count").open("rb", buffering=0)
            ).fileno()
            for number in machine.numbers
        ]
        first = cpu_seconds(table.read)
        own.set_targets(machine.numbers)
        fallback.set_targets(machine.numbers)
        buffer = bytearray(machine.size)
        turns: list[Callable[[], object]] = [
            lambda: read_raw(whole.fileno()),
            lambda: os.preadv(whole.fileno(), [buffer], 0),
            lambda: [os.pread(descriptor, PAGE, 0) for descriptor in vector_files],
            lambda: own.read(refuse),
            lambda: fallback.read(refuse),
            table.read,
        ]
        times: list[list[float]] = [[] for _ in turns]
        for _ in range(rounds):
            machine.tick()
            for turn, found in zip(turns, times, strict=True):
                found.append(cpu_seconds(turn))
        machine.check(own.read(refuse))
        machine.check(fallback.read(refuse))
        machine.check(
            {int(line["label"]): line["counts"] for line in table.read()[: len(machine.numbers)]}
        )
    return [*map(statistics.median, times), first]


def memory_of_many_interrupts(quick: bool) -> Iterator[Result]:
    """Peak memory while the interrupts of the whole machine are read, in a separate process."""
    with host(256, 4000, 0) as machine:
        for repeated in (2,) if quick else (2, 30):
            code = (
                "from nictop.probe.counters.on_demand.interrupt_table import InterruptTable\n"
                "def peak():\n"
                "    lines = open('/proc/self/status').read().splitlines()\n"
                "    return next(int(line.split()[1]) for line in lines if "
                "line.startswith('VmHWM:'))\n"
                f"before = peak()\ntable = InterruptTable({str(machine.proc)!r})\n"
                f"for _ in range({repeated}): table.read()\n"
                "print(peak() - before)"
            )
            grown = int(run_python(code)) * 1024
            what = f"256 CPUs × 4000 interrupt lines, {repeated} passes: memory against the file"
            yield Result(what, grown / machine.size, 3.5, "times")


def compared_with_other_programs(quick: bool) -> Iterator[Result]:
    """CPU per refresh on this machine: all lines of /proc/interrupts in nictop, and in other
    programs."""
    refreshes = 2 if quick else 4
    table = InterruptTable()
    table.read()
    ours = statistics.median(cpu_seconds(table.read) for _ in range(200))
    table.close()
    yield Result("this machine's interrupts, all lines, per pass", ours * 1e3, None, "ms CPU")
    for name, command in other_programs(refreshes).items():
        least = min(children_cpu(command) for _ in range(2 if quick else 3))
        once = min(children_cpu(other_programs(1)[name]) for _ in range(2 if quick else 3))
        refresh = (least - once) / (refreshes - 1)
        yield Result(f"{name}: per refresh", refresh * 1e3, None, "ms CPU")
        if refresh > 0:
            yield Result(f"ours against {name}", ours / refresh, 1, "times")


def other_programs(refreshes: int) -> dict[str, list[str]]:
    """Commands of the other programs that are installed, each for `refreshes` refreshes. Two share
    a name."""
    found = {}
    for name in ("irqtop", "network-top"):
        for folder in os.get_exec_path():
            path = os.path.join(folder, name)
            if not os.access(path, os.X_OK):
                continue
            help_text = subprocess.run(
                [path, "--help"], capture_output=True, text=True, check=False, timeout=60
            ).stdout
            if "--batch" in help_text:
                found[f"{name} (util-linux)"] = [
                    path,
                    "--batch",
                    "--iter",
                    str(refreshes),
                    "--delay",
                    "1",
                ]
            elif "--interrupts-file" in help_text:
                arguments = ["-n", str(refreshes), "-i", "1", "--no-clear", "--no-color"]
                found[f"{name} (netutils-linux)"] = [path, *arguments]
    return found


def children_cpu(command: list[str]) -> float:
    """CPU seconds of a command, its children included; its output is discarded."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    environment = {**os.environ, "TERM": "xterm"}
    subprocess.run(
        command,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=True,
        timeout=60,
        env=environment,
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def run_python(code: str) -> str:
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout


def read_raw(descriptor: int) -> int:
    place = 0
    while part := os.pread(descriptor, PAGE, place):
        place += len(part)
    return place


def cpu_seconds(call: Callable[[], object]) -> float:
    begin = time.thread_time_ns()
    call()
    return (time.thread_time_ns() - begin) / 1e9


def refuse(error: Exception, where: str) -> None:
    raise RuntimeError(f"{where}: {error}")
