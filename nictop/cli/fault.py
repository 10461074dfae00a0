"""A fault of nictop itself: one sentence on stderr, and the traceback in a file to be reported.

Reads the environment for where that file is; never raises.
"""

from __future__ import annotations

import os
import time
import traceback
from contextlib import suppress

from nictop import __version__
from nictop.cli.output import complain, narrate
from nictop.files import state_directory

LONGEST = 200
"""Characters of what the error says; what it is about may be long."""


def report_fault(error: BaseException) -> None:
    """Say what happened, and which file to report. The traceback goes to stderr when it cannot be written."""
    said = str(error)
    words = f"{type(error).__name__}: {said[:LONGEST]}" if said else type(error).__name__
    text = f"nictop {__version__}\n{''.join(traceback.format_exception(error))}"
    path = _written(text)
    message = f"stopped by a fault of nictop itself ({words})"
    with suppress(OSError):
        if path:
            complain(message, f"please report it with the file {path}, which has the traceback")
        else:
            complain(message, "please report it with these lines:")
            for line in text.splitlines():
                narrate(line)


def _written(text: str) -> str:
    """Path of a new file with the text, for its owner alone; "" when there is none."""
    folder = state_directory({"HOME": os.path.expanduser("~"), **os.environ})
    path = os.path.join(folder, f"fault-{time.strftime('%Y%m%dT%H%M%SZ', time.gmtime())}-{os.getpid()}.txt")
    try:
        os.makedirs(folder, mode=0o700, exist_ok=True)
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with open(descriptor, "w", encoding="utf-8", errors="backslashreplace") as file:
            file.write(text)
    except OSError:
        return ""
    return path
