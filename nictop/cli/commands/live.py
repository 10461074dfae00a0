"""``nictop [HOST …]``: the live screen."""

from __future__ import annotations

import argparse
import sys

from nictop.cli.hosts import wanted_hosts
from nictop.cli.signals import ending_as_interrupts
from nictop.errors import NictopError


def run(options: argparse.Namespace) -> int:
    wanted = wanted_hosts(options.hosts)
    for stream, name in ((sys.stdout, "stdout"), (sys.stdin, "stdin"), (sys.__stderr__, "stderr")):
        if stream is None or not stream.isatty():
            raise NictopError(f"{name} is not a terminal", "for scripts and pipes: nictop show [--format json]")
    from nictop.tui.run import run as run_app

    with ending_as_interrupts() as got:
        try:
            return run_app(
                wanted,
                interval=options.interval,
                ascii_only=options.ascii,
                sudo=options.sudo,
                allow_changes=options.allow_changes,
                accept_new_host_keys=options.accept_new_host_keys,
            ).code
        except (KeyboardInterrupt, OSError):
            if not got:
                raise
    return 128 + got[0]
