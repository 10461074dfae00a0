"""``nictop traffic RECORDING --from TIME --to TIME``: an interval of a recording as a result."""

from __future__ import annotations

import argparse
import os

from nictop.cli import output
from nictop.cli.hosts import is_recording_argument
from nictop.cli.traffic.plain import exit_code, print_measured
from nictop.errors import NictopError
from nictop.model.text.terminal import clean
from nictop.recording.segments import open_recording
from nictop.recording.time_spec import resolve_time
from nictop.replay.interval import interval_result
from nictop.traffic.experiment.steps import Experiment
from nictop.traffic.results.selection import directory, save_run

EXAMPLE = "nictop traffic FILE.nictop --from 14:03:20 --to 14:04:00"


def run_interval(options: argparse.Namespace) -> int:
    """The whole command; its exit code. The result is saved as that of a test is."""
    if options.since is None or options.until is None:
        raise NictopError("--from and --to belong together", EXAMPLE)
    if options.client is None or not is_recording_argument(options.client):
        raise NictopError("--from and --to need a recording", EXAMPLE)
    for name in ("workload", "manual", "self_test", "observe", "sweep", "compare"):
        if getattr(options, name):
            raise NictopError(f"--from excludes --{name.replace('_', '-')}", "omit one of them")
    folder = directory(os.environ)
    with open_recording(options.client, time_text=options.since) as recording:
        since, until = (resolve_time(text, recording) for text in (options.since, options.until))
        run = interval_result(
            recording,
            since,
            until,
            host=options.server or "",
            nic=options.client_nic,
            guest=options.guest,
            label=options.label,
        )
    try:
        save_run(run, folder)
    except NictopError as error:
        output.print_status(f"not saved: {clean(error.message)}")
    experiment = Experiment(run.experiment, (), label=options.label)
    print_measured(options, [run], "", experiment)
    return exit_code([run], "")
