"""A real probe as a child process: its output, line by line; every wait has a timeout."""

from __future__ import annotations

import json
import os
import select
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import pytest

from nictop.probe.helper import NAME
from nictop.probe.records import Inventory, Line, Unreadable
from nictop.wire.codec import decode
from nictop.wire.probe_process import probe_command
from nictop.wire.ssh.bootstrap_command import RemoteCommand
from nictop.wire.ssh.bundle import bundle
from tests.support.namespaces import ROOT, Namespace

TEST_TIMEOUT = 90.0
"""Seconds that a test waits for something that normally takes less than one."""
MAX_POLL_SECONDS = 0.02
PYTHONS = tuple(f"python3.{minor}" for minor in range(6, 14))
"""Every Python that may run on a watched host; 3.6 is the oldest."""
INSTALLED_PYTHONS = ROOT / ".venv" / "pythons"
"""Where `.ci/old-pythons` installs them."""


class Probe:
    """The probe under test; a context manager that ends the process. `prefix`: arguments before its
    command; `command`: replaces the probe's command."""

    def __init__(
        self,
        *arguments: str,
        namespace: Namespace | None = None,
        python: str = sys.executable,
        user: int | None = None,
        prefix: Sequence[str] = (),
        command: Sequence[str] | None = None,
    ) -> None:
        inside = ["ip", "netns", "exec", namespace.name] if namespace is not None else prefix
        self.process = subprocess.Popen(
            [*inside, *(command or probe_command(python, *arguments))],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
            user=user,
        )
        self._buffer = b""

    def __enter__(self) -> Probe:
        return self

    def __exit__(self, *_: object) -> None:
        for stream in (self.process.stdin, self.process.stdout):
            if stream is not None and not stream.closed:
                stream.close()
        try:
            self.process.wait(TEST_TIMEOUT)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise
        finally:
            assert self.process.stderr is not None
            self.process.stderr.close()

    def raw_lines(self, limit: float = TEST_TIMEOUT) -> Iterator[bytes]:
        """Lines as they are received, until the probe ends; TimeoutError when none comes within
        `limit` seconds."""
        assert self.process.stdout is not None
        descriptor = self.process.stdout.fileno()
        end = time.monotonic() + limit
        while True:
            while b"\n" in self._buffer:
                line, _, self._buffer = self._buffer.partition(b"\n")
                yield line
                end = time.monotonic() + limit
            readable, _, _ = select.select([descriptor], [], [], max(0.0, end - time.monotonic()))
            if not readable:
                raise TimeoutError(f"no line from the probe within {limit} s")
            part = os.read(descriptor, 1 << 20)
            if not part:
                return
            self._buffer += part

    def wait_for(self, wanted: Callable[[Line], object], limit: float = TEST_TIMEOUT) -> Line:
        """The first line for which `wanted` is true; AssertionError when it is not received in
        time."""
        end = time.monotonic() + limit
        received = []
        for raw in self.raw_lines(limit):
            line = decode(raw)
            if wanted(line):
                return line
            received.append(raw[:300])
            if time.monotonic() > end:
                break
        raise AssertionError(f"not received within {limit} s; received: {received[-8:]}")

    def send(self, request: dict[str, Any] | bytes) -> None:
        assert self.process.stdin is not None
        line = request if isinstance(request, bytes) else json.dumps(request).encode() + b"\n"
        self.process.stdin.write(line)
        self.process.stdin.flush()

    def children(self) -> list[int]:
        """Process ids of the children of the probe and of its helper, without the helper itself."""
        found = []
        for pid in children_of(self.process.pid):
            found += children_of(pid) if is_helper(pid) else [pid]
        return found

    def pids(self) -> tuple[int, int]:
        """Of the probe and of its helper."""
        return self.process.pid, self.helper()

    def helper(self) -> int:
        """Process id of the helper; 0: there is none."""
        return next(filter(is_helper, children_of(self.process.pid)), 0)


def children_of(pid: int) -> list[int]:
    """[] for a process that has ended."""
    try:
        return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []


def is_helper(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/comm").read_text() == f"{NAME}\n"
    except OSError:
        return False


def is_alive(pid: int) -> bool:
    """Whether a process exists and is not a zombie."""
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def wait_until(
    condition: Callable[[], object], limit: float = TEST_TIMEOUT, pause: float = 0.002
) -> None:
    """Poll `condition` until it is true; AssertionError after `limit` seconds. Every `pause`
    seconds, later every tenth of the time that has passed: what takes long does not use the CPU of
    what it waits for."""
    begin = time.monotonic()
    while not condition():
        passed = time.monotonic() - begin
        if passed > limit:
            raise AssertionError(f"condition not reached within {limit} s")
        select.select([], [], [], max(pause, min(MAX_POLL_SECONDS, passed / 10)))


class SentProbe(Probe):
    """A probe whose modules are sent over stdin, as to a remote host; its command is run by sh.
    `folder`: for the link that makes `python` its python3."""

    def __init__(
        self, python: str, folder: Path, *arguments: str, namespace: Namespace | None = None
    ) -> None:
        packed = bundle(
            allow_changes="--allow-changes" in arguments,
            allow_workload="--allow-workload" in arguments,
        )
        command = RemoteCommand(arguments, len(packed.start), len(packed.frames))
        (folder / "python3").symlink_to(python)
        environment = ["env", "-i", f"PATH={folder}:/usr/sbin:/usr/bin:/sbin:/bin"]
        rest = packed.rest_for(*version_and_magic(python))
        super().__init__(namespace=namespace, command=[*environment, "sh", "-c", command.line()])
        self.send(packed.first + rest)
        for line in self.raw_lines():
            if command.parse_answer(line + b"\n") is not None:
                break


@lru_cache
def version_and_magic(python: str) -> tuple[str, str]:
    """``3.6.15``, and the magic number of its byte code."""
    code = (
        "import sys, importlib.util as u; print('%d.%d.%d' % sys.version_info[:3], "
        "u.MAGIC_NUMBER.hex())"
    )
    version, magic = subprocess.run(
        [python, "-I", "-S", "-c", code], stdout=subprocess.PIPE, check=True, text=True
    ).stdout.split()
    return version, magic


def python_parameters(names: Sequence[str]) -> list[Any]:
    """A parameter for each of these Pythons: its path; skipped with the reason when it is not
    installed."""
    return [
        pytest.param(
            path, id=name, marks=() if path else pytest.mark.skip(f"{name} is not installed")
        )
        for name, path in zip(names, map(interpreter, names), strict=True)
    ]


def interpreters(names: Sequence[str]) -> list[str]:
    """Paths of the Pythons that are installed and start."""
    return [found for found in map(interpreter, names) if found]


@lru_cache
def interpreter(name: str) -> str:
    """Path of a Python; "" if none starts: version managers put names into PATH that do not
    start."""
    versions = os.path.expanduser("~/.pyenv/versions")
    managed = [
        os.path.join(versions, entry, "bin", name)
        for entry in (sorted(os.listdir(versions)) if os.path.isdir(versions) else ())
    ]
    for candidate in (shutil.which(name), *managed, str(INSTALLED_PYTHONS / name / "bin" / name)):
        if candidate is None or not os.access(candidate, os.X_OK):
            continue
        started = subprocess.run(
            [candidate, "-I", "-S", "-c", "import sys"], capture_output=True, check=False
        )
        if started.returncode == 0:
            return candidate
    return ""


def unreadable_parts(record: Inventory) -> dict[str, Unreadable]:
    """Unreadable parts of an inventory; unless run as root, without those that need root (kernel
    log, netplan)."""
    return {
        part: why
        for part, why in record.unreadable.items()
        if why.reason != "needs_root" or os.geteuid() == 0
    }
