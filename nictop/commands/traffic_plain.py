"""``nictop traffic --plain``: an experiment without a screen. Progress goes to stderr, the result to stdout.

A signal that ends programs (SIGINT, SIGTERM, SIGHUP) ends the experiment: generators, probes and namespaces are ended
and waited for, what was measured until then is printed.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import sys
from collections.abc import Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field

from nictop.commands import output
from nictop.commands.traffic_hosts import heard_hosts
from nictop.commands.traffic_progress import Progress
from nictop.traffic.experiment import Experiment, ExperimentEnded, Step, StepEnded, carry_out, prepared
from nictop.traffic.kept import Kept, directory, keep
from nictop.traffic.wish import Wish

EXIT_FAILED = 4
ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
INTERRUPTED = "interrupted"


@dataclass
class Measured:
    """What an experiment has brought so far."""

    experiment: Experiment | None = None
    """None: it was ended before it was known what is to be run."""
    runs: list[Kept] = field(default_factory=list)
    why: str = ""
    """Why it ended before its last step."""


def carry_out_plainly(options: argparse.Namespace, wish: Wish) -> int:
    """The whole command; its exit code."""
    measured = Measured()
    number = asyncio.run(_interruptible(options, wish, measured))
    if number:
        measured.why = INTERRUPTED
        output.narrate(f"nictop: {INTERRUPTED}")
    if measured.runs or not number:
        if all(stream is not None and stream.isatty() for stream in (sys.stdout, sys.stderr)):
            output.narrate("")
        print_measured(options, measured.runs, measured.why, measured.experiment)
    return 128 + number if number else exit_code(measured.runs, measured.why)


def exit_code(runs: Sequence[Kept], why: str) -> int:
    """0 when every run came to its end."""
    return EXIT_FAILED if why or not runs or any(one.result.failure is not None for one in runs) else 0


async def _interruptible(options: argparse.Namespace, wish: Wish, measured: Measured) -> int:
    """Carry it out; the number of the signal that ended it, or 0. One signal is enough: a second one must not keep the
    first one from cleaning up."""
    loop = asyncio.get_running_loop()
    task = asyncio.ensure_future(_carried_out(options, wish, measured))
    got: list[int] = []

    def end(number: int) -> None:
        if not got:
            got.append(number)
            task.cancel()

    for number in ENDING:
        loop.add_signal_handler(number, end, number)
    try:
        await asyncio.wait({task})
    finally:
        for number in ENDING:
            loop.remove_signal_handler(number)
    if got and (task.cancelled() or task.exception() is None):
        return got[0]
    task.result()
    return 0


async def _carried_out(options: argparse.Namespace, wish: Wish, measured: Measured) -> None:
    async with heard_hosts(options, wish) as (hosts, placed):
        experiment = await prepared(placed, hosts)
        measured.experiment = experiment
        for note in experiment.notes:
            output.narrate(note)
        progress = Progress(experiment)
        change = _asked if sys.stdin is not None and sys.stdin.isatty() else None
        events = carry_out(experiment, hosts, change=change, keep=_keeper())
        async with aclosing(events):
            async for event in events:
                for line in progress.lines(event):
                    output.narrate(line)
                if isinstance(event, StepEnded):
                    measured.runs.append(event.kept)
                elif isinstance(event, ExperimentEnded):
                    measured.why = event.why


def _keeper() -> Callable[[Kept], object]:
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
    options: argparse.Namespace, runs: Sequence[Kept], why: str, experiment: Experiment | None = None
) -> None:
    """The result to stdout, in the format that is wanted."""
    from nictop.report import comparison_text, run_markdown, run_text
    from nictop.traffic.compared import comparison_of

    comparison, names = comparison_of(runs)
    if options.format == "json" and experiment is not None:
        from nictop.report.run_json import traffic_json

        output.write(traffic_json(experiment, runs, ended_early=why, comparison=comparison))
    elif options.format == "markdown":
        text = run_markdown.experiment_markdown(runs)
        if comparison is not None:
            text += "\n" + run_markdown.comparison_markdown(comparison, names)
        output.write(text)
    else:
        plain, width = output.wants_ascii(options), output.columns()
        text = run_text.experiment_text(runs, width, plain)
        if comparison is not None:
            text += "\n" + comparison_text.comparison_text(comparison, names, width, plain)
        output.write_text(text, options)
