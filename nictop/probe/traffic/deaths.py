"""Why a generator died: evidence of its host for the signal or status with which it ended.

Reads the free space of the directory for temporary files, in which iperf3 maps the buffer of each
stream (esnet/iperf, src/iperf_api.c, iperf_new_stream: TMPDIR, TEMP, TMP, else /tmp; a page for
which there is no space gives SIGBUS, or EFAULT in read(2): esnet/iperf#987, #1201), and the number
of processes that the kernel killed for lack of memory (oom_kill in /proc/vmstat, Linux 4.13). What
is not known is not said. Imported by the probe with its generators: it imports nothing of the
records.
"""

from __future__ import annotations

import errno
import os
import signal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

TEMPORARY_VARIABLES = ("TMPDIR", "TEMP", "TMP")
MAX_VMSTAT_CHARS = 64 * 1024
CRASHES = (signal.SIGBUS, signal.SIGSEGV)
LIBRARY_ERRORS = (
    "error while loading shared libraries",
    "symbol lookup error",
    "Error loading shared library",
)
"""Of the dynamic linkers of glibc and musl, on standard error."""
STREAM_ERRORS = ("No space left on device", "unable to create a new stream", "Bad address")
"""What iperf3 says of a buffer that it cannot fill: read(2) into a page without space gives
EFAULT."""
MEANINGS = {
    signal.SIGXFSZ: "limit of the file size (ulimit -f)",
    signal.SIGXCPU: "limit of CPU time (ulimit -t)",
    signal.SIGSYS: "system call refused by a seccomp filter",
    signal.SIGILL: "instruction that this CPU does not have",
    signal.SIGKILL: "killed by another process, or for lack of memory",
    signal.SIGTERM: "ended by another process",
}
START_ERRORS = {
    errno.ENOENT: "the program, its interpreter or its loader is missing",
    errno.EACCES: "not executable, or on a file system mounted noexec",
    errno.ENOEXEC: "made for another machine, or no program",
    errno.ENOMEM: "out of memory",
    errno.ETXTBSY: "it is being written",
    errno.ELIBBAD: "a shared library cannot be used",
}


def is_error(line: str) -> bool:
    """Whether a line of standard output is an error of a buffer: iperf3 reports errors there with
    --json-stream."""
    return any(error in line for error in STREAM_ERRORS)


def start_error_text(text: str) -> str:
    """The text of an errno as strerror(3) gives it, with what it means for the start of a
    program."""
    for number, meaning in START_ERRORS.items():
        if text == os.strerror(number):
            return f"{text}: {meaning}"
    return text


def read_kills(proc: str = "/proc") -> int | None:
    """Processes killed for lack of memory since boot; None: not known."""
    try:
        with open(f"{proc}/vmstat", encoding="ascii", errors="replace") as file:
            return parse_kills(file.read(MAX_VMSTAT_CHARS))
    except OSError:
        return None


def parse_kills(text: str) -> int | None:
    for line in text.splitlines():
        name, _, value = line.partition(" ")
        if name == "oom_kill" and value.isdecimal():
            return int(value)
    return None


def why_it_died(
    number: int | None, stderr: Iterable[str], kills: int | None, proc: str = "/proc"
) -> str:
    """A phrase, "" if nothing is known. `number`: of the signal; `stderr`: its last lines; `kills`:
    those of `read_kills` before it was started."""
    lines = list(stderr)
    for line in lines:
        if any(one in line for one in LIBRARY_ERRORS):
            return line.strip()[:200]
    full = full_temporary_directory()
    if full and (number in CRASHES or any(map(is_error, lines))):
        return full
    if number == signal.SIGKILL and kills is not None and (read_kills(proc) or 0) > kills:
        return "killed by the kernel: out of memory"
    return MEANINGS.get(number, "") if number is not None else ""  # type: ignore[call-overload]


def full_temporary_directory() -> str:
    """``/tmp is full``, or why no file can be made there; "" if one can, or if that cannot be
    read."""
    folder = next(
        (os.environ[name] for name in TEMPORARY_VARIABLES if os.environ.get(name)), "/tmp"
    )
    try:
        found = os.statvfs(folder)
    except FileNotFoundError:
        return f"{folder} does not exist"
    except OSError:
        return ""
    if found.f_flag & os.ST_RDONLY:
        return f"{folder} is read-only"
    if found.f_bavail == 0 and found.f_blocks:
        return f"{folder} is full"
    if found.f_favail == 0 and found.f_files:
        return f"{folder} has no free inodes"
    return ""
