"""Asks the OpenSSH client of this machine for the settings of a host: ``ssh -G`` (ssh(1)).

It reads the files of the user and of the system, with Include, Match (whose ``exec`` it runs, as
for any connection) and CanonicalizeHostname, and it refuses files that others can write. It opens
no connection.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import pwd
import shutil
import signal
from collections.abc import Sequence

from nictop.wire.errors import PermanentError, sanitize
from nictop.wire.timeout import with_timeout

Options = dict[str, list[str]]
"""Name in lower case → its values, in the order of the lines."""

ASK_TIMEOUT = 10.0
"""Seconds for ssh to answer: it may ask a resolver or run a command of Match."""
ALWAYS_SET = frozenset(("host", "hostname", "port", "user"))
_defaults: dict[str, Options] = {}
"""Path of ssh → its default settings."""


def ssh_program(config: Sequence[str] | None) -> str:
    """Path of the ssh whose reading is that of this user; "" if there is none. ssh reads the files
    in the home directory of the user database, nictop those in $HOME: if they differ, it would read
    others."""
    if config is None and os.path.expanduser("~") != _database_home():
        return ""
    return shutil.which("ssh") or ""


def _database_home() -> str:
    try:
        return pwd.getpwuid(os.getuid()).pw_dir
    except KeyError:
        return ""


async def ask_ssh(
    program: str, host: str, user: str | None, port: int | None, config: Sequence[str] | None
) -> Options:
    """The options that differ from the defaults of ssh, and those of `ALWAYS_SET`. Raises
    PermanentError."""
    words = []
    if config is not None:
        readable = [path for path in map(os.path.expanduser, config) if os.access(path, os.R_OK)]
        words += ["-F", readable[0] if readable else "none"]
    if user is not None:
        words += ["-l", user]
    if port is not None:
        words += ["-p", str(port)]
    found = await _answer(program, [*words, "--", host], host)
    if program not in _defaults:
        _defaults[program] = await _answer(program, ["-F", "none", "--", "localhost"], "localhost")
    defaults = _defaults[program]
    return {
        name: values
        for name, values in found.items()
        if name in ALWAYS_SET or values != defaults.get(name)
    }


async def _answer(program: str, words: Sequence[str], host: str) -> Options:
    process = await asyncio.create_subprocess_exec(
        program,
        "-G",
        *words,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        # a command of Match reads nothing from this terminal, and ends with ssh
        start_new_session=True,
    )
    try:
        output, errors = await with_timeout(ASK_TIMEOUT, process.communicate())
    except asyncio.TimeoutError:
        raise PermanentError(
            f"ssh -G {sanitize(host)} has not answered within {ASK_TIMEOUT:g} s",
            "check Match exec in ~/.ssh/config",
        ) from None
    finally:
        if process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            await process.wait()
    if process.returncode != 0:
        printed = errors.decode("utf-8", "replace").splitlines()
        lines = [sanitize(line) for line in printed if line.strip()]
        raise PermanentError(
            f"ssh refuses its settings for {sanitize(host)}: "
            f"{'; '.join(lines[:2]) or 'no reason given'}",
            f"check ~/.ssh/config; try ssh -G {sanitize(host)}",
        )
    return parse_answer(output.decode("utf-8", "surrogateescape"))


def parse_answer(text: str) -> Options:
    """Lines of ``name value``."""
    found: Options = {}
    for line in text.splitlines():
        name, _, value = line.partition(" ")
        if name:
            found.setdefault(name.lower(), []).append(value)
    return found
