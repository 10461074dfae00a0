"""``nictop [HOST …]``: the live screen."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import TYPE_CHECKING

from nictop.cli.hosts import wanted_hosts
from nictop.cli.signals import run_screen
from nictop.cli.terminal import require_terminal, screen_glyphs

if TYPE_CHECKING:
    from nictop.hosts.specification import Host


def run(options: argparse.Namespace) -> int:
    wanted = wanted_hosts(options.hosts)
    require_terminal("without a terminal, use: nictop show [--format json]")
    return watch(wanted, options)


def watch(hosts: Sequence[Host], options: argparse.Namespace) -> int:
    """Show them until the screen is left. Returns the exit code."""
    from nictop.hosts.connect import early_local_probe

    def show() -> int:
        with early_local_probe(
            hosts,
            options.interval,
            eager=True,
            parts=True,
            sudo=options.sudo,
            allow_changes=options.allow_changes,
        ) as started:
            from nictop.tui.run import run as run_app

            code, _ = run_app(
                hosts,
                interval=options.interval,
                glyphs=screen_glyphs(options),
                sudo=options.sudo,
                allow_changes=options.allow_changes,
                accept_new_host_keys=options.accept_new_host_keys,
                started=started,
            )
        return code

    return run_screen(show)
