"""An unexpected error of nictop itself: one sentence on stderr, and the traceback in a file below
the state directory.

Never raises an exception.
"""

from __future__ import annotations

import os
import time
import traceback
from contextlib import suppress

from nictop.cli.form import version_text
from nictop.cli.output import print_error, print_status
from nictop.files import state_directory

MAX_ERROR_CHARS = 200
"""Characters of the error's text that are printed."""


def report_fault(error: BaseException) -> None:
    """Print the error and the path of the file; the traceback if the file cannot be written."""
    description = str(error)
    summary = type(error).__name__
    if description:
        summary += f": {description[:MAX_ERROR_CHARS]}"
    text = f"{version_text()}\n{''.join(traceback.format_exception(error))}"
    path = _write(text)
    message = f"internal error: {summary}"
    with suppress(OSError):
        if path:
            print_error(message, f"please report it with the file {path} (traceback)")
        else:
            print_error(message, "please report it with these lines:")
            for line in text.splitlines():
                print_status(line)


def _write(text: str) -> str:
    """Write the text to a new file of mode 0600; return its path, or "" if that fails."""
    folder = state_directory({"HOME": os.path.expanduser("~"), **os.environ})
    path = os.path.join(
        folder, f"fault-{time.strftime('%Y%m%dT%H%M%SZ', time.gmtime())}-{os.getpid()}.txt"
    )
    try:
        os.makedirs(folder, mode=0o700, exist_ok=True)
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with open(descriptor, "w", encoding="utf-8", errors="backslashreplace") as file:
            file.write(text)
    except OSError:
        return ""
    return path
