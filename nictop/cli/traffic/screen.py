"""``nictop traffic`` with a terminal: the traffic screen, which starts the request; then the result
is printed."""

from __future__ import annotations

import argparse
import os

from nictop.cli import output
from nictop.cli.signals import termination_as_interrupt
from nictop.cli.terminal import screen_glyphs
from nictop.cli.traffic.hosts import run_hosts
from nictop.cli.traffic.plain import exit_code, print_measured
from nictop.hosts.specification import LOCAL, Host
from nictop.model.text.terminal import clean
from nictop.traffic.plan.request import RunRequest


def run_on_screen(options: argparse.Namespace, request: RunRequest) -> int:
    """The whole command; its exit code."""
    if options.self_test:
        hosts: tuple[Host, ...] = (Host(os.uname().nodename, LOCAL),)
    else:
        hosts, request = run_hosts(options, request)
    from nictop.tui.run import run

    with termination_as_interrupt() as got:
        try:
            code, experiment = run(
                hosts,
                interval=options.interval,
                glyphs=screen_glyphs(options),
                sudo=options.sudo,
                accept_new_host_keys=options.accept_new_host_keys,
                request=request,
                self_test=options.self_test,
            )
        except (KeyboardInterrupt, OSError):
            if not got:
                raise
    if got:  # the result is not read, and the terminal may be gone
        return 128 + got[0]
    for sentence in (*experiment.notes, *filter(None, (experiment.trouble,))):
        output.print_status(clean(sentence))
    if experiment.results:
        print_measured(options, experiment.results, experiment.trouble)
    return code or exit_code(experiment.results, experiment.trouble)
