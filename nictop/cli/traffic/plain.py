"""``nictop traffic --plain``: an experiment without a screen. Progress goes to stderr, the result to stdout.

A signal that ends programs (SIGINT, SIGTERM, SIGHUP) ends the experiment: generators, probes and namespaces are ended
and waited for; what was measured is stored and printed, including the run that was stopped. That run is left out after
another signal, or after `STOP_TIMEOUT`.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
from collections.abc import Sequence
from contextlib import aclosing

from nictop.cli import output
from nictop.cli.progress_line import wait_for_hosts
from nictop.cli.signals import termination_signals
from nictop.cli.traffic.hosts import run_hosts, sessions_of
from nictop.cli.traffic.progress import ProgressLines
from nictop.hosts.observe import HOSTS_TIMEOUT
from nictop.hosts.session import HostSession, running
from nictop.model.text.terminal import clean
from nictop.traffic.experiment.experiment import Experiment, ExperimentStep
from nictop.traffic.plan.request import RunRequest
from nictop.traffic.results.selection import StoredRun, directory
from nictop.traffic.session import Note, RunSession

EXIT_FAILED = 4
INTERRUPTED = "interrupted"
STOP_TIMEOUT = 30.0
"""Seconds from the signal until a run that was stopped is cancelled: its hosts may not answer."""


def run_plain(options: argparse.Namespace, request: RunRequest) -> int:
    """The whole command; its exit code."""
    number, run = asyncio.run(_run(options, request))
    why = run.why
    if number:
        why = INTERRUPTED
        output.print_status(f"nictop: {INTERRUPTED}")
    if run.results or not number:
        if all(stream is not None and stream.isatty() for stream in (sys.stdout, sys.stderr)):
            output.print_status("")
        print_measured(options, run.results, why, run.experiment)
    return 128 + number if number else exit_code(run.results, why)


def exit_code(runs: Sequence[StoredRun], why: str) -> int:
    """0 when every run came to its end and carried data in each direction."""
    has_failed = any(one.result.failure is not None or not one.result.has_carried for one in runs)
    return EXIT_FAILED if why or not runs or has_failed else 0


async def _run(options: argparse.Namespace, request: RunRequest) -> tuple[int, RunSession]:
    """The number of the first signal that ended it, or 0, and what was measured. It is cancelled at most once, and not
    while it cleans up after a stop: further signals do not interrupt that."""
    directory(os.environ)  # raises NictopError before any host is connected to
    sessions = None
    if not options.self_test:
        hosts, request = run_hosts(options, request)
        sessions = sessions_of(options, hosts)
        output.print_status(f"connecting to {', '.join(clean(host.label) for host in hosts)}")
    change = _ask_for_change if sys.stdin is not None and sys.stdin.isatty() else None
    run = RunSession(request, sessions, change=change, timeout=HOSTS_TIMEOUT)
    loop = asyncio.get_running_loop()
    task = asyncio.ensure_future(_print_events(run, sessions or ()))
    timers: list[asyncio.TimerHandle] = []

    gave_up = False

    def give_up() -> None:
        nonlocal gave_up
        if run.is_running and not gave_up:
            gave_up = True
            task.cancel()

    def on_signal(count: int) -> None:
        if count > 1:
            give_up()
        elif run.stop():
            timers.append(loop.call_later(STOP_TIMEOUT, give_up))
        else:
            task.cancel()

    try:
        with termination_signals(on_signal) as received:
            await asyncio.wait({task})
    finally:
        for timer in timers:
            timer.cancel()
    if received and (task.cancelled() or task.exception() is None):
        return received[0], run
    task.result()
    return 0, run


async def _print_events(run: RunSession, sessions: Sequence[HostSession]) -> None:
    progress: ProgressLines | None = None
    async with running(*sessions):
        await wait_for_hosts(sessions, HOSTS_TIMEOUT)
        async with aclosing(run.events()) as events:
            async for event in events:
                if isinstance(event, Note):
                    output.print_status(event.sentence)
                    continue
                if progress is None and run.experiment is not None:
                    progress = ProgressLines(run.experiment)
                for line in () if progress is None or run.stopping.is_set() else progress.lines(event):
                    output.print_status(line)


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
    options: argparse.Namespace, runs: Sequence[StoredRun], why: str, experiment: Experiment | None = None
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
