"""The command line that starts a probe on a machine that has nothing but a shell and a Python, and its first answer.

The login shell there is anybody's (sh, csh, fish), so that the line has no backslash, no newline and no exclamation
mark in it; every process makes room for the next one with exec. Python reads so many bytes of stdin as the line says
and executes them (`probe.journey`); what it reads after that is up to them.

The answer is one line: a mark made of two random words that stand in the command in another order (so that an echo of
the command is no answer), then ``ready 3.11.2 a70d0d0a`` (version, magic number of its byte code), or what was found
instead. Whatever is printed before it is noise.
"""

from __future__ import annotations

import re
import secrets
import shlex
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from nictop.wire.errors import PermanentError

OLDEST_PYTHON = (3, 9)
ALARM = 15
"""Seconds for each part of the sources to arrive, or nobody waits for it any more."""
NOISE = 64 * 1024
"""Bytes that login shells may print before the mark."""

_OTHERS = " ".join(
    ["/usr/libexec/platform-python", *(f"python3.{minor}" for minor in range(20, OLDEST_PYTHON[1] - 1, -1))]
)
_SHELL = (
    'test -z "$NICTOP_FOUND" && command -v python3 >/dev/null 2>&1 && exec python3 -I -S -c "$2" "$@"; '
    f"for python in {_OTHERS}; do command -v $python >/dev/null 2>&1 && "
    '$python -I -S -c "import sys; sys.exit(sys.version_info < (3, 9))" </dev/null >/dev/null 2>&1 && '
    'exec $python -I -S -c "$2" "$@"; done; '
    'echo; echo "$4-$3 old ${NICTOP_FOUND:-none}"'
)
"""$1 is this text itself, $2 the Python below, $3 and $4 the words of the mark. Runs a second time when the python3
that was found is too old."""
_PYTHON = (
    "import os, sys; "
    f"sys.version_info < {OLDEST_PYTHON} and (os.environ.update(NICTOP_FOUND='%d.%d.%d' % sys.version_info[:3]), "
    "os.execvp('sh', ['sh', '-c', sys.argv[1], 'sh'] + sys.argv[1:])); "
    f"import io, signal, zlib; signal.alarm({ALARM}); "
    "mark = '%s-%s ready %d.%d.%d' % (sys.argv[4], sys.argv[3], *sys.version_info[:3]); "
    "mark += ' ' + sys.modules['_frozen_importlib_external'].MAGIC_NUMBER.hex(); "
    "os.write(1, (chr(10) + mark + chr(10)).encode()); "
    "exec(zlib.decompress(io.BufferedReader(io.FileIO(0, closefd=False), 1).read(int(sys.argv[5])))); "
    "sys.exit(arrive(int(sys.argv[6]), sys.argv[7:]))"
)
"""A buffer of one byte reads exactly what it is asked for: the frames that follow stay in stdin."""


@dataclass(frozen=True)
class RemoteCommand:
    """How to start one probe. `arguments` are those of `nictop.probe`, beginning with ``--interval S``."""

    arguments: Sequence[str]
    start: int
    """Bytes of the journey's source."""
    frames: int
    first: str = field(default_factory=lambda: secrets.token_hex(8))
    second: str = field(default_factory=lambda: secrets.token_hex(8))

    @property
    def prompt(self) -> str:
        """What sudo asks with."""
        return f"nictop-{self.second}-{self.first}:"

    def line(self, sudo: Literal["", "quiet", "password"] = "") -> str:
        """For the login shell. `sudo`: without a password, or with one from stdin."""
        words = ["sh", "-c", _SHELL, "sh", _SHELL, _PYTHON, self.first, self.second]
        words += [str(self.start), str(self.frames), *self.arguments]
        rights = {"": [], "quiet": ["sudo", "-n", "--"], "password": ["sudo", "-S", "-p", self.prompt, "--"]}[sudo]
        return " ".join(["exec", *map(shlex.quote, [*rights, *words])])

    def answer(self, noise: bytes) -> tuple[str, str, bytes] | None:
        """(Python's version, magic number of its byte code, what follows the mark) once the mark is in `noise`; raises
        PermanentError when there is no Python that is new enough."""
        words = self.second.encode(), self.first.encode()
        mark = re.compile(rb"^%s-%s (ready|old) ([\w.]{1,20})(?: ([0-9a-f]{8}))?\r?\n" % words, re.M)
        found = mark.search(noise)
        if found is None:
            return None
        version = found[2].decode()
        if found[1] == b"ready":
            return version, (found[3] or b"").decode(), noise[found.end() :]
        oldest = ".".join(map(str, OLDEST_PYTHON))
        what = "there is no python3" if version == "none" else f"its python3 is {version}, which is too old"
        raise PermanentError(
            f"{what}: nictop needs {oldest} or later on the other side",
            f"install one beside it, for example with `dnf install python{oldest}` or `apt install python3`",
        )
