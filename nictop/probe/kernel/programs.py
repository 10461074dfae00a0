"""Runs a program for its output, with a time limit that a busy host extends."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping, Sequence

from nictop.probe.kernel.pdeathsig import set_parent_death_signal
from nictop.probe.kernel.waiting import Wait


def program_output(
    arguments: Sequence[str],
    limit: float,
    longest: float,
    *,
    environment: Mapping[str, str] | None = None,
    stderr: int = subprocess.DEVNULL,
) -> tuple[int, bytes]:
    """(return code, output). The program is killed when this process ends, and after `limit`
    seconds, or `longest` on a busy host: TimeoutError. Raises OSError and
    subprocess.SubprocessError."""
    parent = os.getpid()
    with subprocess.Popen(
        arguments,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=stderr,
        env=environment,
        preexec_fn=lambda: set_parent_death_signal(parent),  # noqa: PLW1509 (this process has one thread)
    ) as process:
        try:
            output = _wait_for_output(process, Wait(limit, longest))
        except TimeoutError:
            process.kill()
            raise
    return process.returncode, output


def _wait_for_output(process: subprocess.Popen[bytes], wait: Wait) -> bytes:
    while True:
        try:
            return process.communicate(timeout=wait.remaining())[0]
        except subprocess.TimeoutExpired:
            wait.extend()
