"""Parts of a campaign that are the test suite, run in another way."""

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

LOOK_EVERY = 1.0
"""Seconds between two looks at the results file."""


@dataclass
class Outcome:
    """Of one or several runs of pytest."""

    counts: Counter[str] = field(default_factory=Counter)
    """passed, failed, skipped → tests."""
    inputs: int = 0
    """That Hypothesis drew."""
    failed: list[str] = field(default_factory=list)
    broken: int = 0
    """Runs that ended with a status other than passed or failed."""
    stopped: bool = False
    """The time was over in the middle of the last run."""

    @property
    def words(self) -> str:
        said = [f"{self.counts['passed']} passed", f"{self.counts['failed']} failed"]
        said += [f"{self.counts['skipped']} skipped"] if self.counts["skipped"] else []
        said += [f"{self.inputs:,} inputs drawn"] if self.inputs else []
        said += [f"{self.broken} runs of pytest broke off"] if self.broken else []
        return ", ".join(said)

    @property
    def is_bad(self) -> bool:
        return bool(self.counts["failed"] or self.broken or not self.counts["passed"])


def pytest_run(
    arguments: Sequence[str], log: Path, outcome: Outcome, progress: Progress, part: str, *, until: float | None = None
) -> None:
    """One run of the suite, added to `outcome`. `until`: when to stop it, CLOCK_MONOTONIC."""
    with tempfile.NamedTemporaryFile("r", prefix="nictop-campaign-", suffix=".jsonl") as results:
        command = [sys.executable, "-m", "pytest", "-q", "-p", "tests.campaign.counting", *arguments]
        environment = {**os.environ, VARIABLE: results.name}
        with log.open("a") as output:
            process = subprocess.Popen(
                command, cwd=ROOT, env=environment, stdin=subprocess.DEVNULL, stdout=output, stderr=output
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
    """Wait a little for it."""
    try:
        process.wait(LOOK_EVERY)
    except subprocess.TimeoutExpired:
        return False
    return True


def take_results(results: tempfile._TemporaryFileWrapper[str], outcome: Outcome) -> None:
    """Lines that have come since the last look."""
    while line := results.readline():
        if not line.endswith("\n"):  # a line that is being written
            results.seek(results.tell() - len(line.encode()))
            return
        found = json.loads(line)
        outcome.counts[found["outcome"]] += 1
        outcome.inputs += found["inputs"]
        if found["outcome"] == "failed":
            outcome.failed.append(found["test"])


def kills(options: Options, progress: Progress) -> Iterator[Row]:
    """Every kill matrix, `options.kills` times at each stage."""
    arguments = ["-m", "kill_matrix", "--kills", str(options.kills), "-n", str(options.jobs), "--dist", "loadfile"]
    yield from suite("kills", arguments, options, progress)


def keys(options: Options, progress: Progress) -> Iterator[Row]:
    """Every key on every screen, typed faster than screens open and close."""
    arguments = ["tests/tui/screens/test_typed_fast.py", "--every-key", "--timeout", "3600", "-n", str(options.jobs)]
    yield from suite("keys", arguments, options, progress)


def starved(options: Options, progress: Progress) -> Iterator[Row]:
    """All tests once, with every processor kept busy by other processes."""
    with busy_processors():
        yield from suite("starved", ["-n", str(options.jobs), "--dist", "loadfile"], options, progress)


def suite(part: str, arguments: Sequence[str], options: Options, progress: Progress) -> Iterator[Row]:
    begin, outcome = time.monotonic(), Outcome()
    pytest_run(arguments, Path(options.logs) / f"{part}.log", outcome, progress, part)
    yield Row(part, outcome.words, outcome.is_bad, time.monotonic() - begin)
    yield from failures(part, outcome)


def fuzzing(options: Options, progress: Progress) -> Iterator[Row]:
    """All tests that draw their inputs, again and again with new ones, until the time is over."""
    begin, outcome, rounds = time.monotonic(), Outcome(), 0
    until = begin + 60 * options.minutes
    arguments = ["-m", "hypothesis", "--hypothesis-profile=campaign", "-n", "2", "--dist", "worksteal"]
    while time.monotonic() < until and not outcome.broken:
        rounds += 1
        pytest_run(arguments, Path(options.logs) / "fuzz.log", outcome, progress, f"fuzz, round {rounds}", until=until)
    yield Row("fuzz", f"{rounds} rounds: {outcome.words}", outcome.is_bad, time.monotonic() - begin)
    yield from failures("fuzz", outcome)


def failures(part: str, outcome: Outcome) -> Iterator[Row]:
    """A row for each test that has failed."""
    for test, times in Counter(outcome.failed).items():
        yield Row(part, f"  {test}" + (f" ({times} times)" if times > 1 else ""), True, 0.0)


@contextmanager
def busy_processors() -> Iterator[None]:
    """A process per processor that does nothing but compute, until the block is left."""
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
