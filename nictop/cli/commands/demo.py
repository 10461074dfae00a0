"""``nictop demo``: the live screens on a recording in the package.

It makes no connection and reads nothing of this machine: it runs on any system with Python.
"""

from __future__ import annotations

import argparse
from importlib.resources import as_file, files

from nictop.cli.terminal import require_terminal, screen_glyphs

DEMO_FILE = "demo.nictop"
DEMO_START_SECONDS = 10.0
"""Seconds of the recording: all data of the guests have been received by then."""
DEMO_NOTICE = (
    "Demo, recorded on two QEMU guests: kernels, profiles, findings and counters are real, NICs and speeds are the "
    "emulator's. It begins anew."
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.description = "Show a recording of two guests that comes with nictop. Nothing is connected to."
    parser.epilog = "Keys to begin with: 4 findings, 2 queues, 3 CPUs, 6 the traffic test, n the next one, ? help."


def run(options: argparse.Namespace) -> int:
    from nictop.recording.reader import Recording

    require_terminal("the demo is a screen: it needs a terminal")
    with as_file(files("nictop.recording").joinpath(DEMO_FILE)) as path, Recording.open(str(path)) as recording:
        from nictop.tui.run import show

        start = recording.begin + DEMO_START_SECONDS
        return show(recording, start=start, glyphs=screen_glyphs(options), loop=True, notice=DEMO_NOTICE)
