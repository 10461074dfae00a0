"""``nictop traffic --plain``: an experiment without a screen. Progress goes to stderr, the result
to stdout.

A signal that ends programs (SIGINT, SIGTERM, SIGHUP) ends the experiment: generators, probes and
namespaces are ended and waited for; what was measured is stored and printed, including the run that
was stopped. That run is left out after another signal, or after `STOP_TIMEOUT`.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from nictop.cli import output
from nictop.cli.event_loop import result_of
from nictop.cli.progress_line import wait_for_hosts
from nictop.cli.signals import termination_signals
from nictop.cli.terminal import StdinKind, is_terminal, stdin_kind
from nictop.cli.traffic.hosts import run_hosts, sessions_of
from nictop.cli.traffic.progress import ProgressLines
from nictop.errors import NictopError
from nictop.hosts.observe import HOSTS_TIMEOUT
from nictop.hosts.session import HostSession, running
from nictop.model.text.terminal import clean
from nictop.traffic.experiment.events import ExperimentEnded, StepEnded
from nictop.traffic.experiment.experiment import Experiment, ExperimentStep
from nictop.traffic.plan.request import RunRequest
from nictop.traffic.results.selection import StoredRun, directory
from nictop.traffic.session import ExperimentPrepared, Note, RunSession, SessionEvent, WaitEnded

EXIT_FAILED = 4
INTERRUPTED = "interrupted"
INPUT_ENDED = "standard input ended: the measurement ends, with what was measured so far"
NOTHING_MEASURED = "standard input ended; nothing was measured, and nothing changed on the hosts"
STOP_TIMEOUT = 30.0
"""Seconds from the signal until a run that was stopped is cancelled: its hosts may not answer."""


def run_plain(options: argparse.Namespace, request: RunRequest) -> int:
    """The whole command; its exit code."""
    number, measured = result_of(_run(options, request))
    why = measured.why
    if number:
        why = INTERRUPTED
        output.print_status(f"nictop: {INTERRUPTED}")
    if measured.runs or not number:
        if is_terminal(sys.stdout) and is_terminal(sys.stderr):
            output.print_status("")
        print_measured(options, measured.runs, why, measured.experiment)
    if number:
        return 128 + number
    return exit_code(measured.runs, why)


def exit_code(runs: Sequence[StoredRun], why: str) -> int:
    """0 when every run came to its end and carried data in each direction."""
    if why or not runs:
        return EXIT_FAILED
    for run in runs:
        if run.result.failure is not None or not run.result.has_carried:
            return EXIT_FAILED
    return 0


class _Measured:
    """What was measured so far, of whose events lines are printed. `is_quiet`: it is ending."""

    def __init__(self, is_quiet: Callable[[], bool], stdin: StdinKind) -> None:
        self.experiment: Experiment | None = None
        """None: it is not known yet what is to be run."""
        self.runs: list[StoredRun] = []
        self.why = ""
        """Why it ended before its last step; "": it did not."""
        self._is_quiet, self._stdin = is_quiet, stdin
        self._progress: ProgressLines | None = None

    def take(self, event: SessionEvent) -> None:
        """Print an event, and keep what was measured."""
        if isinstance(event, Note):
            output.print_status(event.sentence)
            return
        if isinstance(event, WaitEnded):
            output.print_status(event.missing)
            return
        if isinstance(event, ExperimentPrepared):
            self.experiment = event.experiment
            self._progress = ProgressLines(event.experiment, stdin=self._stdin)
            return
        if isinstance(event, StepEnded):
            self.runs.append(event.run)
        elif isinstance(event, ExperimentEnded):
            self.why = event.reason
        if self._progress is None or self._is_quiet():
            return
        for line in self._progress.lines(event):
            output.print_status(line)


async def _run(options: argparse.Namespace, request: RunRequest) -> tuple[int, _Measured]:
    """The number of the first signal that ended it, or 0, and what was measured. It is cancelled at
    most once, and not while it cleans up after a stop: further signals do not interrupt that."""
    directory(os.environ)  # raises NictopError before any host is connected to
    stdin = stdin_kind()
    sessions = None
    if not options.self_test:
        hosts, request = run_hosts(options, request)
        sessions = sessions_of(options, hosts, request)
        output.print_status(f"connecting to {', '.join(clean(host.label) for host in hosts)}")
    change = _ask_for_change if stdin == "terminal" else None
    run = RunSession(request, sessions, change=change, timeout=HOSTS_TIMEOUT)
    measured = _Measured(run.stopping.is_set, stdin)
    task = asyncio.ensure_future(_measure(run, measured, sessions or ()))
    stop = _Stop(run, task)
    try:
        input_stops = _input_stops(run, stop, is_used=request.test == "manual" and stdin != "none")
        with termination_signals(stop.on_signal) as received, input_stops:
            await asyncio.wait({task})
    finally:
        stop.close()
    has_error = not task.cancelled() and task.exception() is not None
    if received and not has_error:
        return received[0], measured
    if stop.input_ended and task.cancelled() and not measured.runs:
        raise NictopError(NOTHING_MEASURED)
    task.result()
    return 0, measured


@contextmanager
def _input_stops(run: RunSession, stop: _Stop, *, is_used: bool) -> Iterator[None]:
    """Of a measurement by hand: a line on standard input ends it, and the end of the input ends
    the command also before anything is measured."""
    if not is_used:
        yield
        return
    loop, descriptor = asyncio.get_running_loop(), sys.stdin.fileno()

    def read() -> None:
        if not _read_input(descriptor):
            stop.on_end_of_input()
        elif not run.stop():
            return
        loop.remove_reader(descriptor)

    loop.add_reader(descriptor, read)
    try:
        yield
    finally:
        loop.remove_reader(descriptor)


def _read_input(descriptor: int) -> bytes:
    """b"" at its end, or if the terminal is gone."""
    try:
        return os.read(descriptor, 4096)
    except OSError:
        return b""


class _Stop:
    """Ends a run at a signal or the end of standard input; cancels it at the second signal, or
    after `STOP_TIMEOUT`."""

    def __init__(self, run: RunSession, task: asyncio.Task[None]) -> None:
        self._run, self._task = run, task
        self._timer: asyncio.TimerHandle | None = None
        self._gave_up = False
        self.input_ended = False

    def on_end_of_input(self) -> None:
        self.input_ended = True
        if self._run.is_running:
            output.print_status(INPUT_ENDED)
        self.on_signal(1)

    def on_signal(self, count: int) -> None:
        if count > 1:
            self._give_up()
        elif self._run.stop():
            self._timer = asyncio.get_running_loop().call_later(STOP_TIMEOUT, self._give_up)
        else:
            self._task.cancel()

    def _give_up(self) -> None:
        if self._run.is_running and not self._gave_up:
            self._gave_up = True
            self._task.cancel()

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()


async def _measure(run: RunSession, measured: _Measured, sessions: Sequence[HostSession]) -> None:
    async with running(*sessions):
        await wait_for_hosts(sessions, HOSTS_TIMEOUT)
        await run.run(measured.take)


async def _ask_for_change(step: ExperimentStep) -> bool:
    """Wait until the user has made the change; False if the terminal is gone."""
    output.print_status("  then press Enter")
    loop = asyncio.get_running_loop()
    answered = asyncio.Event()
    descriptor = sys.stdin.fileno()
    loop.add_reader(descriptor, answered.set)
    try:
        await answered.wait()
    finally:
        loop.remove_reader(descriptor)
    return bool(os.read(descriptor, 4096))


def print_measured(
    options: argparse.Namespace,
    runs: Sequence[StoredRun],
    why: str,
    experiment: Experiment | None = None,
) -> None:
    """The result to stdout, in the requested format."""
    from nictop.report.runs import comparison as comparison_text
    from nictop.report.runs import markdown as run_markdown
    from nictop.report.runs import text as run_text
    from nictop.traffic.analysis.comparison import comparison_of

    comparison, names = comparison_of(runs)
    if options.format == "json" and experiment is not None:
        from nictop.report.runs.json import traffic_json

        output.write(traffic_json(experiment, runs, ended_early=why, comparison=comparison))
    elif options.format == "markdown":
        text = run_markdown.experiment_markdown(runs)
        if comparison is not None:
            text += "\n" + run_markdown.comparison_markdown(comparison, names)
        output.write(text)
    else:
        glyphs, width = output.glyphs_for(options), output.terminal_columns()
        text = run_text.experiment_text(runs, width, glyphs)
        if comparison is not None:
            text += "\n" + comparison_text.comparison_text(comparison, names, width, glyphs)
        output.write_text(text, options)
