"""``nictop demo``: the live screens on a recording in the package.

It makes no connection and reads nothing of this machine: it runs on any system with Python.
"""

from __future__ import annotations

import argparse
from functools import partial
from importlib.resources import as_file, files
from pathlib import Path

from nictop.cli import output
from nictop.cli.signals import run_screen
from nictop.cli.terminal import require_terminal, screen_glyphs
from nictop.errors import NictopError

DEMO_FILE = "demo.nictop"
DEMO_START_SECONDS = 19.0
"""Seconds of the recording: the first traffic test has been running for some seconds by then."""
DEMO_NIC = "ens256"
"""Interface of both hosts that carries the traffic tests."""
DEMO_NOTICE = (
    "A recording of two QEMU guests, in a loop. Findings and counters are real, NICs "
    "are emulated. Traffic has the test. In a shell, nictop demo --file prints its path: for "
    "replay, show, check, report."
)

EXAMPLES = """\
examples:
  nictop demo
  nictop demo --file                what show, check and replay read

"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Open a recording of two guests that comes with nictop. Connects to no host."
    )
    parser.epilog = f"{EXAMPLES}It begins in a traffic test. The help on the screen lists the keys."
    parser.add_argument(
        "--file",
        action="store_true",
        help='print the path of the recording: nictop check "$(nictop demo --file)"',
    )


def _path_of_file() -> Path:
    """Raises NictopError where the package is not in a folder."""
    path = files("nictop.recording").joinpath(DEMO_FILE)
    if not isinstance(path, Path):
        raise NictopError("the recording is in an archive", f"unpack nictop/recording/{DEMO_FILE}")
    return path


def run(options: argparse.Namespace) -> int:
    if options.file:
        return output.write(f"{_path_of_file()}\n")
    from nictop.recording.reader import Recording

    require_terminal("nictop demo needs a terminal")
    with (
        as_file(files("nictop.recording").joinpath(DEMO_FILE)) as path,
        Recording.open(str(path)) as recording,
    ):
        from nictop.tui.run import show

        start = recording.begin + DEMO_START_SECONDS
        glyphs = screen_glyphs(options)
        return run_screen(
            partial(
                show,
                recording,
                start=start,
                glyphs=glyphs,
                loop=True,
                nic=DEMO_NIC,
                notice=DEMO_NOTICE,
            )
        )
