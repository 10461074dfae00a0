"""Parts of a campaign that run the test suite with other settings."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tests.campaign.counting import VARIABLE
from tests.campaign.results import Options, Progress, Row
from tests.support.namespaces import ROOT
from tests.support.samples import SAMPLES

READ_SECONDS = 1.0
"""Interval at which the results file is read."""


@dataclass
class Outcome:
    """Result of one or several runs of pytest."""

    counts: Counter[str] = field(default_factory=Counter)
    """"passed", "failed" or "skipped" → number of tests."""
    inputs: int = 0
    """Number of inputs drawn by Hypothesis."""
    failed: list[str] = field(default_factory=list)
    broken: int = 0
    """Runs of pytest that ended with an exit status other than passed or failed."""
    stopped: bool = False
    """Whether the last run was stopped at the time limit."""

    @property
    def words(self) -> str:
        parts = [f"{self.counts['passed']} passed", f"{self.counts['failed']} failed"]
        parts += [f"{self.counts['skipped']} skipped"] if self.counts["skipped"] else []
        parts += [f"{self.inputs:,} inputs drawn"] if self.inputs else []
        parts += [f"{self.broken} runs of pytest broke off"] if self.broken else []
        return ", ".join(parts)

    @property
    def is_bad(self) -> bool:
        return bool(self.counts["failed"] or self.broken or not self.counts["passed"])


def pytest_run(
    arguments: Sequence[str],
    log: Path,
    outcome: Outcome,
    progress: Progress,
    part: str,
    *,
    until: float | None = None,
) -> None:
    """Add one run of the suite to `outcome`. `until`: time limit, CLOCK_MONOTONIC."""
    with tempfile.NamedTemporaryFile("r", prefix="nictop-campaign-", suffix=".jsonl") as results:
        command = [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "-p",
            "tests.campaign.counting",
            *arguments,
        ]
        environment = {**os.environ, VARIABLE: results.name}
        with log.open("a") as output:
            process = subprocess.Popen(
                command,
                cwd=ROOT,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
            )
            try:
                while not has_ended(process):
                    take_results(results, outcome)
                    progress.show(f"{part}: {outcome.words}")
                    if until is not None and time.monotonic() > until:
                        process.send_signal(signal.SIGINT)
                        process.wait(120)
                        outcome.stopped = True
            finally:
                if process.poll() is None:
                    process.terminate()
                    process.wait(60)
        take_results(results, outcome)
        if process.returncode not in (0, 1) and not outcome.stopped:
            outcome.broken += 1


def has_ended(process: subprocess.Popen[bytes]) -> bool:
    """Wait for the process for `READ_SECONDS`; whether it has ended."""
    try:
        process.wait(READ_SECONDS)
    except subprocess.TimeoutExpired:
        return False
    return True


def take_results(results: tempfile._TemporaryFileWrapper[str], outcome: Outcome) -> None:
    """Add the lines that were written since the last call."""
    while line := results.readline():
        if not line.endswith("\n"):  # incomplete line
            results.seek(results.tell() - len(line.encode()))
            return
        found = json.loads(line)
        outcome.counts[found["outcome"]] += 1
        outcome.inputs += found["inputs"]
        if found["outcome"] == "failed":
            outcome.failed.append(found["test"])


def kills(options: Options, progress: Progress) -> Iterator[Row]:
    """Every kill matrix, `options.kills` times at each stage."""
    arguments = [
        "-m",
        "kill_matrix",
        "--kills",
        str(options.kills),
        "-n",
        str(options.jobs),
        "--dist",
        "loadfile",
    ]
    yield from suite("kills", arguments, options, progress)


def keys(options: Options, progress: Progress) -> Iterator[Row]:
    """Every key on every screen, typed without waiting for the screens."""
    arguments = [
        "tests/tui/screens/test_typed_fast.py",
        "--every-key",
        "--timeout",
        "3600",
        "-n",
        str(options.jobs),
    ]
    yield from suite("keys", arguments, options, progress)


def cases(options: Options, progress: Progress) -> Iterator[Row]:
    """All cases of the tests of which `make test` runs some."""
    tests = [f"tests/{name}" for name in SAMPLES]
    yield from suite("cases", [*tests, "--all-cases", "-n", str(options.jobs)], options, progress)


def pairs(options: Options, progress: Progress) -> Iterator[Row]:
    """Every Python with every login shell and SSH server shows the same facts."""
    arguments = ["tests/wire/ssh/test_login_shells.py", "--every-pair", "-n", str(options.jobs)]
    yield from suite("pairs", arguments, options, progress)


def starved(options: Options, progress: Progress) -> Iterator[Row]:
    """All tests once, while other processes keep every CPU busy."""
    with busy_processors():
        yield from suite(
            "starved",
            ["--all-cases", "-n", str(options.jobs), "--dist", "loadfile"],
            options,
            progress,
        )


def suite(
    part: str, arguments: Sequence[str], options: Options, progress: Progress
) -> Iterator[Row]:
    begin, outcome = time.monotonic(), Outcome()
    pytest_run(arguments, Path(options.logs) / f"{part}.log", outcome, progress, part)
    yield Row(part, outcome.words, outcome.is_bad, time.monotonic() - begin)
    yield from failures(part, outcome)


def fuzzing(options: Options, progress: Progress) -> Iterator[Row]:
    """All Hypothesis tests, repeated with new inputs until the time limit."""
    begin, outcome, rounds = time.monotonic(), Outcome(), 0
    until = begin + 60 * options.minutes
    arguments = [
        "-m",
        "hypothesis",
        "--hypothesis-profile=campaign",
        "-n",
        "2",
        "--dist",
        "worksteal",
    ]
    while time.monotonic() < until and not outcome.broken:
        rounds += 1
        pytest_run(
            arguments,
            Path(options.logs) / "fuzz.log",
            outcome,
            progress,
            f"fuzz, round {rounds}",
            until=until,
        )
    yield Row("fuzz", f"{rounds} rounds: {outcome.words}", outcome.is_bad, time.monotonic() - begin)
    yield from failures("fuzz", outcome)


def failures(part: str, outcome: Outcome) -> Iterator[Row]:
    """One row for each failed test."""
    for test, times in Counter(outcome.failed).items():
        yield Row(part, f"  {test}" + (f" ({times} times)" if times > 1 else ""), True, 0.0)


@contextmanager
def busy_processors() -> Iterator[None]:
    """Runs one process per CPU in a busy loop while the context is active."""
    loops = [
        subprocess.Popen([sys.executable, "-S", "-c", "while True: pass"], stdin=subprocess.DEVNULL)
        for _ in os.sched_getaffinity(0)
    ]
    try:
        yield
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()
