"""The process of a probe on this machine: its command line and its start.

It may be started before there is an event loop: while the rest of nictop is being imported, its
Python starts, the first counters are read, and their lines wait in the pipe. So this module
imports nothing that takes time.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import subprocess
import sys
from importlib.util import find_spec

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

LIBRARIES = ("nictop", "jeepney")
PIPE_BYTES = 1 << 20
"""Of the lines that nothing reads yet: the first inventory of 30 NICs and its parts. A probe whose
pipe is full takes no readings, so there would be no second one when the first screen is drawn. What
a process may ask for without rights (/proc/sys/fs/pipe-max-size); by default it is 64 KiB."""
EXIT_TIMEOUT = 0.5
"""Seconds that the end of stdin, then SIGTERM, may take to end the probe."""


def probe_command(python: str, *arguments: str) -> list[str]:
    """Command line that runs the probe of this very nictop under any Python >= 3.9: a local one.

    The directories go behind the standard library's, so that nothing in them can take its place.
    """
    # nothing is garbage before the first reading; `Probe.run` enables collections again
    start = "import gc, os, sys; gc.disable(); "
    start += f"sys.path += {library_directories()!r}; "
    # at its end nothing is to be flushed, and the kernel frees all objects at once
    start += f"from nictop.probe.__main__ import main; os._exit(main({list(arguments)!r}))"
    return [python, "-I", "-S", "-c", start]


def library_directories(libraries: Iterable[str] = LIBRARIES) -> list[str]:
    """Where they are, without importing them; those that are not installed are left out."""
    found: list[str] = []
    for library in libraries:
        specification = find_spec(library)
        if specification is None:
            continue
        for place in specification.submodule_search_locations or ():
            directory = os.path.dirname(os.path.realpath(place))
            if directory not in found:
                found.append(directory)
    return found


def local_probe_command(
    interval: float,
    *,
    eager: bool = False,
    parts: bool = False,
    allow_changes: bool = False,
    allow_workload: bool = False,
    python: str = "",
) -> list[str]:
    """Command line of the probe of this machine; the options are those of `LocalSource`."""
    options = {
        "--eager": eager,
        "--parts": parts,
        "--allow-changes": allow_changes,
        "--allow-workload": allow_workload,
    }
    chosen = [name for name, is_chosen in options.items() if is_chosen]
    return probe_command(python or sys.executable, "--interval", f"{interval:g}", *chosen)


def start_process(command: Sequence[str]) -> subprocess.Popen[bytes]:
    """Start it, in a session of its own. Raises OSError and ValueError."""
    pipe = subprocess.PIPE
    return subprocess.Popen(
        command, bufsize=0, stdin=pipe, stdout=pipe, stderr=pipe, start_new_session=True
    )


class StartedProbe:
    """A process of the probe that nothing reads yet. Raises OSError and ValueError. `take` it or
    `close` it."""

    def __init__(self, command: Sequence[str]) -> None:
        self._command = list(command)
        self._process: subprocess.Popen[bytes] | None = start_process(self._command)
        _enlarge_pipe(self._process)

    def take(self, command: Sequence[str]) -> subprocess.Popen[bytes] | None:
        """The process, once; None also if it was started with another command line."""
        if list(command) != self._command:
            return None
        process, self._process = self._process, None
        return process

    def close(self) -> None:
        """End the process if it has not been taken."""
        process, self._process = self._process, None
        if process is not None:
            end_process(process)


def _enlarge_pipe(process: subprocess.Popen[bytes]) -> None:
    """Fails where the user has many large pipes already (pipe(7): pipe-user-pages-soft), and on
    other systems."""
    if process.stdout is not None and hasattr(fcntl, "F_SETPIPE_SZ"):
        with contextlib.suppress(OSError):
            fcntl.fcntl(process.stdout, fcntl.F_SETPIPE_SZ, PIPE_BYTES)


def end_process(process: subprocess.Popen[bytes]) -> None:
    """Close its pipes, which ends a probe, and wait until it has ended."""
    for pipe in (process.stdin, process.stdout, process.stderr):
        if pipe is not None:
            pipe.close()
    process.terminate()
    try:
        process.wait(EXIT_TIMEOUT)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
