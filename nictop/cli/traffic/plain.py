"""``nictop traffic --plain``: an experiment without a screen. ProgressLines goes to stderr, the result to stdout.

A signal that ends programs (SIGINT, SIGTERM, SIGHUP) ends the experiment: generators, probes and namespaces are ended
and waited for, what was measured until then is kept and printed, the run that went on as one that was stopped. Another
signal, or half a minute, and that one is left out.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
from collections.abc import Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field

from nictop.cli import output
from nictop.cli.signals import termination_signals
from nictop.cli.traffic.hosts import connected_hosts
from nictop.cli.traffic.progress import ProgressLines
from nictop.traffic.experiment.experiment import Experiment, ExperimentEnded, Step, StepEnded, carry_out, prepared
from nictop.traffic.plan.request import RunRequest
from nictop.traffic.results.selection import StoredRun, directory, keep

EXIT_FAILED = 4
INTERRUPTED = "interrupted"
LONGEST_END = 30.0
"""Seconds from the signal until a run that was stopped is given up: hosts that do not answer must not hold it."""


@dataclass
class ExperimentResults:
    """What an experiment has brought so far."""

    experiment: Experiment | None = None
    """None: it was ended before it was known what is to be run."""
    runs: list[StoredRun] = field(default_factory=list)
    why: str = ""
    """Why it ended before its last step."""
    stop: asyncio.Event = field(default_factory=asyncio.Event)
    """Set: end what goes on and measure no more."""
    going: bool = False
    """There is an experiment that can be stopped, and is not over."""


def carry_out_plainly(options: argparse.Namespace, wish: RunRequest) -> int:
    """The whole command; its exit code."""
    measured = ExperimentResults()
    number = asyncio.run(_interruptible(options, wish, measured))
    if number:
        measured.why = INTERRUPTED
        output.narrate(f"nictop: {INTERRUPTED}")
    if measured.runs or not number:
        if all(stream is not None and stream.isatty() for stream in (sys.stdout, sys.stderr)):
            output.narrate("")
        print_measured(options, measured.runs, measured.why, measured.experiment)
    return 128 + number if number else exit_code(measured.runs, measured.why)


def exit_code(runs: Sequence[StoredRun], why: str) -> int:
    """0 when every run came to its end."""
    return EXIT_FAILED if why or not runs or any(one.result.failure is not None for one in runs) else 0


async def _interruptible(options: argparse.Namespace, wish: RunRequest, measured: ExperimentResults) -> int:
    """Carry it out; the number of the first signal that ended it, or 0. It is cancelled at most once, and not while it
    cleans up after a stop: further signals do not interrupt that."""
    loop = asyncio.get_running_loop()
    task = asyncio.ensure_future(_carried_out(options, wish, measured))
    timers: list[asyncio.TimerHandle] = []

    def give_up() -> None:
        if measured.going:
            measured.going = False
            task.cancel()

    def on_signal(count: int) -> None:
        if count > 1:
            give_up()
        elif measured.going:
            measured.stop.set()
            timers.append(loop.call_later(LONGEST_END, give_up))
        else:
            task.cancel()

    try:
        with termination_signals(on_signal) as received:
            await asyncio.wait({task})
    finally:
        for timer in timers:
            timer.cancel()
    if received and (task.cancelled() or task.exception() is None):
        return received[0]
    task.result()
    return 0


async def _carried_out(options: argparse.Namespace, wish: RunRequest, measured: ExperimentResults) -> None:
    async with connected_hosts(options, wish) as (hosts, placed):
        experiment = await prepared(placed, hosts)
        measured.experiment = experiment
        for note in experiment.notes:
            output.narrate(note)
        progress = ProgressLines(experiment)
        change = _asked if sys.stdin is not None and sys.stdin.isatty() else None
        events = carry_out(experiment, hosts, change=change, keep=_keeper(), stop=measured.stop)
        measured.going = True
        try:
            async with aclosing(events):
                async for event in events:
                    if isinstance(event, StepEnded):
                        measured.runs.append(event.kept)
                    elif isinstance(event, ExperimentEnded):
                        measured.why = event.why
                    for line in () if measured.stop.is_set() else progress.lines(event):
                        output.narrate(line)
        finally:
            measured.going = False


def _keeper() -> Callable[[StoredRun], object]:
    place = directory(os.environ)
    return lambda kept: keep(kept, place)


async def _asked(step: Step) -> bool:
    """Wait until somebody has made the change; False when the terminal is gone."""
    output.narrate("  then press enter here")
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
    options: argparse.Namespace, runs: Sequence[StoredRun], why: str, experiment: Experiment | None = None
) -> None:
    """The result to stdout, in the format that is wanted."""
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
        glyphs, width = output.glyphs_for(options), output.columns()
        text = run_text.experiment_text(runs, width, glyphs)
        if comparison is not None:
            text += "\n" + comparison_text.comparison_text(comparison, names, width, glyphs)
        output.write_text(text, options)
