"""``nictop demo``: the screens on a recording that comes with nictop, for whoever has no VM at hand.

Reads the recording in the package. Nothing is connected to, and nothing of this machine is read, so that any system
with Python shows it.
"""

from __future__ import annotations

import argparse
from importlib.resources import as_file, files

from nictop.cli.terminal import require_terminal, screen_glyphs

DEMO_FILE = "demo.nictop"
START = 10.0
"""Seconds after its beginning: the guests have been connected to, and have told everything."""
BANNER = (
    "Demo, recorded on two QEMU guests: kernels, profiles, findings and counters are real, NICs and speeds are the "
    "emulator's. It begins anew."
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.description = "Show a recording of two guests that comes with nictop. Nothing is connected to."
    parser.epilog = "Keys to begin with: 5 findings, 2 queues, 3 CPUs, t the traffic run, n the next one, ? all keys."


def run(options: argparse.Namespace) -> int:
    from nictop.recording.reader import Recording

    require_terminal("the demo is a screen: it needs a terminal")
    with as_file(files("nictop.recording").joinpath(DEMO_FILE)) as path, Recording.open(str(path)) as recording:
        from nictop.tui.run import show

        start = recording.begin + START
        return show(recording, start=start, glyphs=screen_glyphs(options), loop=True, banner=BANNER)
