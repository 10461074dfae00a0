"""The command line that starts a probe on a machine that has only a shell and Python, and the first
answer.

The login shell may be any (sh, csh, fish): the line contains no backslash, newline or exclamation
mark. Each process is replaced by the next one with exec. Python reads the number of bytes of stdin
that the line gives and executes them (`probe.bootstrap`), which reads the rest.

A python3 in PATH that is new enough is used; otherwise python3.N from new to old, platform-python
(RHEL 8), and python.

The first line of stdin is for everything else that may read it: a shell that a start-up file
executes, or that sshd runs instead of the command, ends itself there, and runs nothing of what
follows.

The answer is one line: a marker made of two random strings, which the command contains in the
opposite order (so that an echo of the command is not an answer), then ``ready 3.11.2 a70d0d0a``
(version, magic number of its byte code), or ``old 2.7.5 yum`` (version or "none", package manager
of the host). A line with the marker and ``shell`` precedes it: the login shell has run the command.
An ESXi host answers ``esxi 7.0.3``: Python is not started there, even if it has one. Output before
the marker is ignored.
"""

from __future__ import annotations

import re
import secrets
import shlex
from collections.abc import Sequence
from functools import cached_property
from typing import Literal

from nictop.probe.light_dataclasses import dataclass, field
from nictop.wire.errors import PermanentError

MIN_REMOTE_PYTHON = (3, 6)
SOURCES_TIMEOUT = 40
"""Seconds within which the bootstrap source must arrive on the remote host; otherwise the remote
process ends."""
MAX_NOISE_BYTES = 64 * 1024
"""Bytes that login shells may print before the marker."""
MAX_MARK_BYTES = 128
"""A line with the marker is shorter. Of what was searched before, so much is searched again."""

NOT_A_SHELL_STATUS = 97
FIRST_LINE = b"exit %d\n" % NOT_A_SHELL_STATUS
"""Every shell understands it, and most menus. The Python that was meant to read it skips it."""
INPUT_LOST_STATUS = 98
"""Exit status of that Python if the sources are not what was sent."""

INSTALL_COMMANDS = {
    "dnf": "dnf install python3",
    "yum": "yum install python3",
    "apt": "apt install python3",
    "zypper": "zypper install python3",
    "apk": "apk add python3",
}
"""Package manager → command that installs Python on a host that has it."""

_OTHER_PYTHONS = " ".join(
    [
        *(f"python3.{minor}" for minor in range(20, MIN_REMOTE_PYTHON[1] - 1, -1)),
        "/usr/libexec/platform-python",
        "python",
    ]
)
PYTHONS = f"python3 {_OTHER_PYTHONS}"
"""Names of Python in the order in which they are tried."""
_SHELL = (
    'echo; echo "$4-$3 shell"; test "$(uname)" = VMkernel && echo && echo "$4-$3 esxi $(uname '
    '-r)" && exit; '
    'test -z "$NICTOP_FOUND" && command -v python3 >/dev/null 2>&1 && exec python3 -I -S -c "$2" '
    '"$@"; '
    f"for python in {_OTHER_PYTHONS}; do command -v $python >/dev/null 2>&1 && "
    f'$python -I -S -c "import sys; sys.exit(sys.version_info < {MIN_REMOTE_PYTHON})" </dev/null '
    f">/dev/null 2>&1 && "
    'exec $python -I -S -c "$2" "$@"; done; '
    "found=$NICTOP_FOUND; for python in python python2; do "
    'test -z "$found" && command -v $python >/dev/null 2>&1 && found=$($python -V 2>&1 '
    "</dev/null); done; "
    "found=${found#Python }; case $found in [23].*) ;; *) found=none; esac; "
    f"for tool in {' '.join(INSTALL_COMMANDS)} unknown; do command -v $tool >/dev/null 2>&1 && "
    f"break; done; "
    'echo; echo "$4-$3 old $found $tool"'
)
"""$1 is this text itself, $2 the Python code below, $3 and $4 the two strings of the marker.
Executed a second time when the python3 in PATH is too old. Python 2 writes its version to
stderr."""
_PYTHON = (
    "import os, sys; "
    f"sys.version_info < {MIN_REMOTE_PYTHON} and (os.environ.update(NICTOP_FOUND='%d.%d.%d' % "
    f"sys.version_info[:3]), "
    "os.execvp('sh', ['sh', '-c', sys.argv[1], 'sh'] + sys.argv[1:])); "
    f"import io, signal, zlib; signal.alarm({SOURCES_TIMEOUT}); "
    "mark = '%s-%s ready ' % (sys.argv[4], sys.argv[3]) + '%d.%d.%d' % sys.version_info[:3]; "
    "mark += ' ' + sys.modules['_frozen_importlib_external'].MAGIC_NUMBER.hex(); "
    "os.write(1, (chr(10) + mark + chr(10)).encode()); "
    "stdin = io.BufferedReader(io.FileIO(0, closefd=False), 1); "
    f"line = stdin.read({len(FIRST_LINE)}); is_first = line == b'{FIRST_LINE.decode().strip()}' + "
    f"bytes([10]); "
    "is_first or os.write(2, ('%s-%s input' % (sys.argv[4], sys.argv[3])).encode()); "
    "line = line[is_first * len(line):]; "
    f"sys.excepthook = lambda *_: os._exit({INPUT_LOST_STATUS}); "
    "source = zlib.decompress(line + stdin.read(int(sys.argv[5]) - len(line))); "
    "sys.excepthook = sys.__excepthook__; exec(source); "
    "sys.exit(run_probe(int(sys.argv[6]), sys.argv[7:], '%s-%s' % (sys.argv[4], sys.argv[3])))"
)
"""A buffer of one byte reads exactly the requested bytes: the frames that follow stay in stdin."""


@dataclass(frozen=True)
class RemoteCommand:
    """How to start one probe. `arguments` are those of `nictop.probe`, beginning with ``--interval
    S``."""

    arguments: Sequence[str]
    start: int
    """Bytes of the bootstrap source."""
    frames: int
    first: str = field(default_factory=lambda: secrets.token_hex(8))
    second: str = field(default_factory=lambda: secrets.token_hex(8))
    prefix: Sequence[str] = ()
    """Words that run the command which follows them in a guest (`wire.guests.wrapping`)."""
    marks: Sequence[str] = ()
    """Of the programs in `prefix`, whose sentences begin with them."""

    @cached_property
    def _answer(self) -> re.Pattern[bytes]:
        words = self.second.encode(), self.first.encode()
        return re.compile(
            rb"^%s-%s (ready|old) ([\w.+]{1,20})(?: ([0-9a-z]{1,8}))?\r?\n" % words, re.M
        )

    @property
    def prompt(self) -> str:
        """The password prompt that sudo is given."""
        return f"nictop-{self.second}-{self.first}:"

    def line(self, sudo: Literal["", "quiet", "password"] = "") -> str:
        """The command line for the login shell. `sudo`: none, without a password, or with a
        password from stdin."""
        words = ["sh", "-c", _SHELL, "sh", _SHELL, _PYTHON, self.first, self.second]
        words += [str(self.start), str(self.frames), *self.arguments]
        rights = {
            "": [],
            "quiet": ["sudo", "-n", "--"],
            "password": ["sudo", "-S", "-p", self.prompt, "--"],
        }[sudo]
        return " ".join(["exec", *map(shlex.quote, [*rights, *self.prefix, *words])])

    def line_beside(self, script: str, sudo: Literal["", "quiet", "password"] = "") -> str:
        """The command line that runs another `script` where the probe runs; "": it would need a
        password."""
        if not self.prefix:
            return script
        if sudo == "password":
            return ""
        rights = ["sudo", "-n", "--"] if sudo else []
        return " ".join(map(shlex.quote, [*rights, *self.prefix, "sh", "-c", script]))

    @property
    def shell_mark(self) -> bytes:
        """The line that the shell prints."""
        return f"{self.second}-{self.first} shell".encode()

    @property
    def input_mark(self) -> bytes:
        """What Python writes to stderr if the first line of stdin was read by another program."""
        return f"{self.second}-{self.first} input".encode()

    @cached_property
    def _received(self) -> re.Pattern[bytes]:
        mark = f"{self.second}-{self.first}".encode()
        return re.compile(rb"^%s received ([0-9]{1,9})\r?\n" % mark, re.M)

    def take_received(self, stderr: bytearray) -> int | None:
        """How many bytes of the frames have come, as the newest line in `stderr` says, from which
        such lines are removed; None: there is none."""
        found = self._received.findall(stderr)
        if not found:
            return None
        stderr[:] = self._received.sub(b"", stderr)
        return int(found[-1])

    def is_from_esxi(self, noise: bytes | bytearray, start: int = 0) -> bool:
        """The marker of an ESXi host is in `noise` after `start`."""
        return noise.find(f"\n{self.second}-{self.first} esxi ".encode(), start) >= 0

    def parse_answer(
        self, noise: bytes | bytearray, start: int = 0
    ) -> tuple[str, str, bytes] | None:
        """(Python version, magic number of its byte code, bytes after the marker) once the marker
        is in `noise` after `start`, else None; raises PermanentError when there is no Python that
        is new enough."""
        found = self._answer.search(noise, start)
        if found is None:
            return None
        version, detail = found[2].decode(), (found[3] or b"").decode()
        if found[1] == b"ready":
            return version, detail, bytes(noise[found.end() :])
        oldest = ".".join(map(str, MIN_REMOTE_PYTHON))
        what = f"Python {version} on the host is too old"
        if version == "none":
            what = "python3 not found on the host"
        possible = [*INSTALL_COMMANDS.values()]
        if detail in INSTALL_COMMANDS:
            possible = [INSTALL_COMMANDS[detail]]
        commands = ", ".join(f"`{command}`" for command in possible)
        raise PermanentError(
            f"{what}: nictop needs Python {oldest} or newer there", f"install it there: {commands}"
        )
