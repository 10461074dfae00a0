"""``nictop replay``: the live screens on a recording."""

from __future__ import annotations

import argparse
from functools import partial

from nictop.cli.arguments import number_between
from nictop.cli.hosts import add_time_option, host_in_recording
from nictop.cli.signals import run_screen
from nictop.cli.terminal import require_terminal, screen_glyphs
from nictop.errors import NictopError

MIN_REPLAY_SPEED, MAX_REPLAY_SPEED = 0.1, 100.0

EXAMPLES = """\
examples:
  nictop replay monday.nictop
  nictop replay monday.nictop --speed 4

"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.description = "Open a recording in the live screens. Connects to no host."
    parser.epilog = EXAMPLES + (
        "The help on the screen lists the keys. A file that is still being written is followed."
    )
    parser.add_argument(
        "file",
        metavar="FILE",
        help="recording made by nictop record (with --keep: its directory), or on the screen",
    )
    parser.add_argument(
        "--speed",
        type=_speed,
        default=1.0,
        metavar="X",
        help=f"playback speed, {MIN_REPLAY_SPEED:g} to {MAX_REPLAY_SPEED:g} (default 1)",
    )
    add_time_option(parser, "start at TIME", "start")


def run(options: argparse.Namespace) -> int:
    from nictop.recording.file.frames import EmptyRecording
    from nictop.recording.segments import open_recording
    from nictop.recording.time_spec import resolve_time

    named = host_in_recording(options.file)
    if named is not None:
        path, host = named
        raise NictopError(
            f"a recording is replayed with all of its hosts, not {host} alone",
            f"nictop replay {path}",
        )
    require_terminal("without a terminal, use: nictop show FILE --at TIME")
    is_whole = options.at is not None
    with open_recording(options.file, whole=is_whole, time_text=options.at) as recording:
        if not recording.hosts:
            raise EmptyRecording(f"{options.file}: no data of any host in this recording yet")
        start = recording.begin if options.at is None else resolve_time(options.at, recording)
        from nictop.tui.run import show

        return run_screen(
            partial(
                show,
                recording,
                start=start,
                speed=options.speed,
                glyphs=screen_glyphs(options),
                notice=recording.left_out,
                notice_title="Not everything is read",
            )
        )


def _speed(text: str) -> float:
    return number_between(text, MIN_REPLAY_SPEED, MAX_REPLAY_SPEED, "a speed")
