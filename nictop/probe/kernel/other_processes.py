"""What root alone may know of other processes: descriptors, network namespaces, programs; and
the output of lldpcli.

A process that is restricted by Landlock may not look into others, and starts no program. It puts
these questions to the helper of the probe (`probe.helper`), over a socket, with the writing end of
a pipe for the answer: the probe and its children may ask at the same time. Without a helper the
answers are given here. There are no other questions.
"""

from __future__ import annotations

import array
import json
import os
import re
import select
import socket
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

PLACE = re.compile(r"(?:fd|fdinfo)/[0-9]{1,10}|ns/net|exe", re.ASCII)
"""Below /proc/PID."""
MAX_PLACES = 64
"""In one question."""
MAX_TEXT_BYTES = 4096
MAX_PID = 1 << 22
"""PID_MAX_LIMIT of 64-bit kernels."""
MAX_QUESTION_BYTES = 16 * 1024
ANSWER_READ_BYTES = 64 * 1024
ANSWER_TIMEOUT = 2.0
"""Seconds for an answer about processes, which the helper gives at once unless it has no CPU."""
WRITE_TIMEOUT = 1.0
"""Seconds that the helper waits for somebody who does not read the answer."""
OWN_CPU_SHARE = 0.2
"""Of the CPU time of a question to the helper, what this process uses (1.7 of 7.7 ms for 900
descriptors)."""
LLDPCLI_DIRECTORIES = (
    "/usr/sbin",
    "/usr/bin",
    "/sbin",
    "/bin",
    "/usr/local/sbin",
    "/run/current-system/sw/bin",
)
LLDPCLI_ARGUMENTS = ("-f", "json0", "show", "neighbors", "details")
LLDPCLI_TIMEOUT, MAX_LLDPCLI_SECONDS = 2.0, 8.0
"""Seconds on an idle and on a busy host: lldpd may hang."""
MAX_LLDPCLI_BYTES = 4 * 1024 * 1024

_channel: socket.socket | None = None


def ask_through(channel: socket.socket) -> None:
    """From now on questions of this process and its children go to the helper."""
    global _channel  # noqa: PLW0603
    _channel = channel


def own_cpu_share() -> float:
    """The part of the CPU time of `read_places` that this process uses."""
    return 1.0 if _channel is None else OWN_CPU_SHARE


def read_places(pid: int, places: Sequence[str], proc: str = "/proc") -> dict[str, str]:
    """Targets of links below /proc/PID (fd/3, ns/net, exe) and contents of files (fdinfo/3), those
    that can be read. Never raises OSError."""
    if _channel is None or proc != "/proc":
        return places_here(pid, places, proc)
    found: dict[str, str] = {}
    for first in range(0, len(places), MAX_PLACES):
        answer = _ask(
            {"pid": pid, "places": list(places[first : first + MAX_PLACES])}, ANSWER_TIMEOUT
        )
        if not answer:  # the helper has ended, and so does the probe
            break
        found.update(json.loads(answer))
    return found


def places_here(pid: int, places: Sequence[str], proc: str = "/proc") -> dict[str, str]:
    """As `read_places`, by this process."""
    found = {}
    for place in places:
        path = f"{proc}/{pid}/{place}"
        try:
            found[place] = (
                _content(path)
                if place.startswith("fdinfo/")
                else os.readlink(path)[:MAX_TEXT_BYTES]
            )
        except OSError:
            continue  # closed meanwhile, or not permitted
    return found


def lldpcli_output(directories: Sequence[str] = LLDPCLI_DIRECTORIES) -> tuple[int, bytes]:
    """(return code, output). Raises FileNotFoundError if it is not installed, TimeoutError,
    OSError."""
    path = find_lldpcli(directories)
    if path is None:
        raise FileNotFoundError("lldpcli is not installed")
    if _channel is None or directories is not LLDPCLI_DIRECTORIES:
        return run_lldpcli(path)
    status, _, output = _ask({"lldpcli": True}, MAX_LLDPCLI_SECONDS + ANSWER_TIMEOUT).partition(
        b"\n"
    )
    if status == b"timeout":
        raise TimeoutError
    if not re.fullmatch(rb"-?[0-9]{1,3}", status):
        raise OSError(status.decode("utf-8", "replace") or "no answer from the helper")
    return int(status), output


def find_lldpcli(directories: Sequence[str]) -> str | None:
    paths = (os.path.join(directory, "lldpcli") for directory in directories)
    return next((path for path in paths if os.access(path, os.X_OK)), None)


def run_lldpcli(path: str) -> tuple[int, bytes]:
    """(return code, output). Raises TimeoutError and OSError."""
    import subprocess

    from nictop.probe.kernel.programs import program_output

    command = (path, *LLDPCLI_ARGUMENTS)
    try:
        status, output = program_output(
            command, LLDPCLI_TIMEOUT, MAX_LLDPCLI_SECONDS, environment={"LC_ALL": "C"}
        )
        return status, output[:MAX_LLDPCLI_BYTES]
    except subprocess.SubprocessError as error:
        raise OSError(str(error)) from error


def answer_question(channel: socket.socket) -> None:
    """In the helper, when `channel` is readable: read one question and answer it. Raises EOFError
    at its end, and ValueError for what is no question."""
    size = array.array("i").itemsize
    data, ancillary, _, _ = channel.recvmsg(MAX_QUESTION_BYTES, socket.CMSG_SPACE(size))
    descriptors = array.array("i")
    for level, kind, content in ancillary:
        if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
            descriptors.frombytes(content[: len(content) - len(content) % size])
    try:
        if not data:
            raise EOFError
        if len(descriptors) != 1:
            raise ValueError("a question without a pipe for its answer")
        _answer(json.loads(data), descriptors[0])
    finally:
        for descriptor in descriptors:
            os.close(descriptor)


def _answer(question: Any, pipe: int) -> None:
    if question == {"lldpcli": True}:
        _answer_in_a_process_of_its_own(pipe)
        return
    if not isinstance(question, dict):
        raise ValueError("not a question of the probe")
    pid, places = question.get("pid"), question.get("places")
    if type(pid) is not int or not 0 < pid <= MAX_PID:
        raise ValueError("not the number of a process")
    if not isinstance(places, list) or len(places) > MAX_PLACES or not all(map(is_place, places)):
        raise ValueError("not places below /proc/PID")
    _write(pipe, json.dumps(places_here(pid, places)).encode())


def is_place(place: object) -> bool:
    return isinstance(place, str) and PLACE.fullmatch(place) is not None


def _answer_in_a_process_of_its_own(pipe: int) -> None:
    """lldpcli may take seconds. The process is not a child of this one, which need not wait for
    it."""
    pid = os.fork()
    if pid:
        os.waitpid(pid, 0)
        return
    try:
        if os.fork() == 0:
            _write(pipe, _lldpcli_answer())
    finally:
        os._exit(0)


def _lldpcli_answer() -> bytes:
    path = find_lldpcli(LLDPCLI_DIRECTORIES)
    try:
        status, output = run_lldpcli(path or "")
    except TimeoutError:
        return b"timeout\n"
    except OSError as error:
        return str(error).replace("\n", " ").encode("utf-8", "replace") + b"\n"
    return b"%d\n" % status + output


def _ask(question: dict[str, object], limit: float) -> bytes:
    """The answer of the helper, b"" when there is none within `limit` seconds."""
    assert _channel is not None
    readable, writable = os.pipe()
    try:
        try:
            rights = (socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [writable]))
            _channel.sendmsg([json.dumps(question).encode()], [rights])
        except OSError:
            return b""
        finally:
            os.close(writable)
        return _read(readable, limit)
    finally:
        os.close(readable)


def _read(descriptor: int, limit: float) -> bytes:
    """What is written until the other end is closed; b"" after `limit` seconds."""
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    end = time.monotonic() + limit
    parts: list[bytes] = []
    while poll.poll(max(0.0, end - time.monotonic()) * 1000):
        part = os.read(descriptor, ANSWER_READ_BYTES)
        if not part:
            return b"".join(parts)
        parts.append(part)
    return b""


def _write(descriptor: int, data: bytes) -> None:
    """Write all, unless nobody reads for `WRITE_TIMEOUT`."""
    os.set_blocking(descriptor, False)
    poll = select.poll()
    poll.register(descriptor, select.POLLOUT)
    rest = memoryview(data)
    while rest and poll.poll(WRITE_TIMEOUT * 1000):
        try:
            rest = rest[os.write(descriptor, rest) :]
        except OSError:  # its reader has ended
            return


def _content(path: str) -> str:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return os.read(descriptor, MAX_TEXT_BYTES).decode("utf-8", "replace")
    finally:
        os.close(descriptor)
