"""Starts of commands beside one of Python that does nothing; of the offline file of ``make dist``,
compared with that of the installed program; and one Tab in a shell."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from tests.benchmarks.results import Result
from tests.support.namespaces import ROOT

BESIDE_PYTHON = {
    ("--help",): 2.0,
    ("check", "--explain"): 2.2,
    ("show",): 37.0,
}
"""Command → its bound. ``show`` is two processes, and a third one that takes the inventory."""
COMMANDS = (("--version",), ("check", "--explain"))


def commands(quick: bool) -> Iterator[Result]:
    """CPU with byte code that was written before, in turns."""
    runs = 5 if quick else 15
    with tempfile.TemporaryDirectory() as home:
        environment = {"HOME": home, "PATH": os.environ["PATH"], "PYTHONDONTWRITEBYTECODE": ""}
        spent: dict[tuple[str, ...], list[float]] = {command: [] for command in BESIDE_PYTHON}
        nothing = []
        for number in range(runs + 1):
            took = cpu([sys.executable, "-c", "pass"], environment)
            if number:
                nothing.append(took)
            for command, times in spent.items():
                took = cpu([sys.executable, "-m", "nictop", *command], environment)
                if number:
                    times.append(took)
        yield Result("start of Python: CPU", 1e3 * statistics.median(nothing), None, "ms")
        for command, times in spent.items():
            ratio = statistics.median(times) / statistics.median(nothing)
            text = f"nictop {' '.join(command)}: CPU, {1e3 * statistics.median(times):.0f} ms"
            yield Result(text, ratio, BESIDE_PYTHON[command], "× Python")


def offline_file(quick: bool) -> Iterator[Result]:
    """Nothing without dist/: make dist."""
    for path in ROOT.glob("dist/*.pyz"):
        yield Result("offline file: size", path.stat().st_size / 1e6, 25, "MB")
        with tempfile.TemporaryDirectory() as home:
            environment = {"HOME": home, "PATH": os.environ["PATH"], "PYTHONDONTWRITEBYTECODE": ""}
            yield Result(
                "offline file: first start",
                1000 * cpu([sys.executable, str(path), "demo"], environment),
                None,
                "ms",
            )
            for command in COMMANDS:
                offline = [sys.executable, str(path), *command]
                installed = [sys.executable, "-m", "nictop", *command]
                cpu(offline, environment)  # writes byte code
                pairs = [
                    (cpu(offline, environment), cpu(installed, environment))
                    for _ in range(7 if quick else 31)
                ]
                ratio = statistics.median(one for one, _ in pairs) / statistics.median(
                    other for _, other in pairs
                )
                yield Result(
                    f"offline file: later start, nictop {' '.join(command)}",
                    ratio,
                    1.5,
                    "× installed",
                )


def tab(quick: bool) -> Iterator[Result]:
    """What a shell runs when Tab is pressed where a host is expected; everything else is in its
    script."""
    with tempfile.TemporaryDirectory() as home:
        folder = Path(home, ".ssh")
        folder.mkdir()
        (folder / "config").write_text("".join(f"Host vm{number}\n" for number in range(500)))
        environment = {"HOME": home, "PATH": os.environ["PATH"]}
        for what in ("hosts", "results"):
            command = [sys.executable, "-m", "nictop", "completion", what]
            times = [cpu(command, environment) for _ in range(7 if quick else 31)]
            yield Result(
                f"completion of {what}: CPU of one Tab", 1000 * statistics.median(times), 150, "ms"
            )


def cpu(command: Sequence[str], environment: dict[str, str]) -> float:
    """CPU seconds of a command, whatever its exit code."""
    process = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        env=environment, cwd=ROOT,
    )  # fmt: skip
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    return usage.ru_utime + usage.ru_stime
