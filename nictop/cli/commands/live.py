"""``nictop [HOST …]``: the live screen."""

from __future__ import annotations

import argparse

from nictop.cli.hosts import wanted_hosts
from nictop.cli.signals import run_screen
from nictop.cli.terminal import require_terminal, screen_glyphs


def run(options: argparse.Namespace) -> int:
    wanted = wanted_hosts(options.hosts)
    require_terminal("without a terminal, use: nictop show [--format json]")
    from nictop.tui.run import run as run_app

    def show() -> int:
        code, _ = run_app(
            wanted,
            interval=options.interval,
            glyphs=screen_glyphs(options),
            sudo=options.sudo,
            allow_changes=options.allow_changes,
            accept_new_host_keys=options.accept_new_host_keys,
        )
        return code

    return run_screen(show)
