"""Starts nictop; says in one sentence when this system or this Python cannot run it.

This file stays plain enough for every Python since 2.7 to compile it, and imports nothing of nictop
before the check.
"""

import atexit
import gc
import os
import sys

OLDEST_PYTHON = (3, 10)

YOUNG_OBJECTS = 100000
"""Objects more than at the last garbage collection after which Python makes the next one. By its
default of 700 it makes a hundred while modules are imported, a fifteenth of the time of that, and
finds nothing. The live screen has its own (nictop.tui.garbage)."""

ANYWHERE = ("demo", "replay")
"""Commands that ask no host, and this one neither: they run on every Unix."""


def obstacle(platform, version, command=""):  # type: (str, tuple[object, ...], str) -> str
    """Why nictop cannot run here, as a sentence; "" when it can. Takes sys.platform,
    sys.version_info and the first word of the command line."""
    anywhere = command in ANYWHERE and not platform.startswith("win")
    if not platform.startswith("linux") and not anywhere:
        return "nictop: needs Linux, this system is " + platform
    if tuple(version[:2]) < OLDEST_PYTHON:
        needed, found = (
            ".".join([str(part) for part in parts[:3]]) for parts in (OLDEST_PYTHON, version)
        )
        return "nictop: needs Python " + needed + " or newer, this is Python " + found
    return ""


def main():  # type: () -> int
    """Run the command line; return the exit code."""
    sentence = obstacle(sys.platform, sys.version_info, sys.argv[1] if len(sys.argv) > 1 else "")
    if sentence:
        sys.stderr.write(sentence + "\n")
        return 2
    gc.set_threshold(YOUNG_OBJECTS, 5, 10)
    codes = []  # type: list[int]
    atexit.register(end_process, codes)  # registered first, called last
    from nictop.cli.main import main as command_line

    codes.append(command_line())
    return codes[0]


def end_process(codes):  # type: (list[int]) -> None
    """End with this exit code without freeing each object, which takes some ten milliseconds: the
    kernel frees them all at once. To be called last, when all threads have ended; does nothing
    without a code, and with ``-W`` or ``-X dev``, for which Python tells what was left open."""
    if not codes or sys.warnoptions:
        return
    try:
        for stream in (sys.stdout, sys.stderr):
            if stream is not None:
                stream.flush()
    except (OSError, ValueError):  # Python says it, and has an exit code for it
        return
    os._exit(codes[0])


if __name__ == "__main__":
    sys.exit(main())
