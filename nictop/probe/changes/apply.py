"""Does one action, and reads back whether it is done; takes actions back, as far as that goes.

Programs are found in a fixed list of directories and run by argument vector, with an environment of their own and a
deadline; files are written with one write. What is already so is not done again, so that taking back may be tried as
often as it needs. Failures are ValueErrors with a sentence.
"""

from __future__ import annotations

import contextlib
import os
import select
import subprocess
import time
from collections.abc import Callable, Sequence
from types import MappingProxyType

from nictop.probe.changes.grammar.actions import Operation, parse_action
from nictop.probe.changes.plan.current_state import Roots, State, read_state, same, text_of, wanted_state
from nictop.probe.changes.plan.ifindexes import Numbers, as_called_now
from nictop.probe.changes.plan.vfs_in_use import why_in_use
from nictop.probe.kernel.pdeathsig import die_with

DIRECTORIES = ("/usr/sbin", "/usr/bin", "/sbin", "/bin", "/run/current-system/sw/bin")
DEADLINE = 20.0
"""Seconds for one program of the kernel's settings: a driver that resets its device takes some."""
NMCLI_DEADLINE = 75.0
"""Seconds: to bring a profile up waits for DHCP, 45 s by default."""
NMCLI_WAIT = "60"
GLANCE = 0.2
"""Seconds between two looks at whether it shall still go on."""
KILLED = 5.0
"""Seconds that a killed program may stay in the kernel."""
LONGEST_COMPLAINT = 300
PASSES, PAUSE = 4, 0.5
"""How often taking back is tried, and seconds between two of them."""


def find_program(name: str) -> str:
    """Its path. Raises ValueError."""
    for directory in DIRECTORIES:
        path = os.path.join(directory, name)
        if os.access(path, os.X_OK):
            return path
    raise ValueError(f"{name} is not installed")


def environment() -> dict[str, str]:
    """Of the programs: nothing of the user's but which bus is the system's."""
    kept = {name: os.environ[name] for name in ("DBUS_SYSTEM_BUS_ADDRESS",) if name in os.environ}
    return {"LC_ALL": "C", "PATH": ":".join(DIRECTORIES), **kept}


def do(
    operation: Operation,
    roots: Roots,
    wanted: State,
    held: Sequence[int] = (),
    glance: Callable[[], object] | None = None,
) -> None:
    """Make it so. `held`: descriptors of locks, which the program holds as well: who takes them after us finds it
    ended. `glance` is called while it runs; what that raises ends it. Raises ValueError: it is not so."""
    if not operation.is_networkmanagers and is_so(operation, roots, wanted):
        return
    problem = ""
    try:
        if operation.words[0] == "write":
            write(roots.file(operation.words[1]), operation.words[2])
        else:
            run(operation.words, held, glance)
    except ValueError as error:
        problem = str(error)
    if operation.is_networkmanagers:
        if problem:
            raise ValueError(problem)
        return
    now = read_state(operation, roots)
    if not same(now, wanted):
        raise ValueError(problem or f"{operation.subject}: {text_of(now)} is read back, not {text_of(wanted)}")


def is_so(operation: Operation, roots: Roots, wanted: State) -> bool:
    """Whether there is nothing to do. What cannot be read now is not so."""
    with contextlib.suppress(ValueError):
        return same(read_state(operation, roots), wanted)
    return False


def write(path: str, text: str) -> None:
    """One write to a file that exists. Raises ValueError."""
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_TRUNC | os.O_CLOEXEC)
        try:
            os.write(descriptor, text.encode() + b"\n")
        finally:
            os.close(descriptor)
    except OSError as error:
        raise ValueError(f"{path}: {error.strerror}") from None


def run(words: Sequence[str], held: Sequence[int] = (), glance: Callable[[], object] | None = None) -> None:
    """Run a program to its end. It dies with this process. Raises ValueError with its last line, and what `glance`
    raises."""
    path = find_program(words[0])
    wait = ("--wait", NMCLI_WAIT) if words[0] == "nmcli" else ()
    parent = os.getpid()

    def bind() -> None:
        with contextlib.suppress(OSError):  # without ctypes: the held locks are waited for all the same
            die_with(parent)

    try:
        process = subprocess.Popen(
            [path, *wait, *words[1:]],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=environment(),
            pass_fds=tuple(held),
            preexec_fn=bind,  # noqa: PLW1509 (this process has one thread)
        )
    except (OSError, subprocess.SubprocessError) as error:
        raise ValueError(f"{path} cannot be started: {error}") from None
    said = output_of(process, NMCLI_DEADLINE if words[0] == "nmcli" else DEADLINE, glance)
    if process.returncode:
        raise ValueError(f"{' '.join(words[:3])}: {complaint(said) or f'status {process.returncode}'}")


def output_of(process: subprocess.Popen[bytes], limit: float, glance: Callable[[], object] | None) -> bytes:
    """What it prints until its end, which comes after `limit` seconds at most. Raises ValueError then."""
    end = time.monotonic() + limit
    try:
        while True:
            try:
                return process.communicate(timeout=min(GLANCE, limit))[0]
            except subprocess.TimeoutExpired:
                if glance is not None:
                    glance()
                if time.monotonic() >= end:
                    name = os.path.basename(str(process.args[0]))  # type: ignore[index]
                    raise ValueError(f"{name} took more than {limit:g} s and was ended") from None
    except BaseException:
        process.kill()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.communicate(timeout=KILLED)
        raise


def complaint(said: bytes) -> str:
    """The last line of what a program printed, fit to be repeated."""
    lines = [line.strip() for line in said.decode("utf-8", "replace").splitlines() if line.strip()]
    text = "".join(character if character.isprintable() else " " for character in lines[-1]) if lines else ""
    return text[:LONGEST_COMPLAINT]


def take_back(
    undo: Sequence[Sequence[str]], roots: Roots, held: Sequence[int] = (), numbers: Numbers = MappingProxyType({})
) -> list[str]:
    """Do actions that take back, in their order, however many of them are so already; what failed is tried again.
    `numbers`: of the links that they name.

    Returns sentences about what stayed as it was made; empty: all is as before.
    """
    failures: list[str] = []
    for attempt in range(PASSES):
        if attempt:
            select.select([], [], [], PAUSE)
        failures = []
        for words in undo:
            try:
                operation = as_called_now(parse_action(words, undoing=True), numbers)
                wanted = wanted_state(operation, read_state(operation, roots))
                if operation.kind == "virtual functions" and not is_so(operation, roots, wanted):
                    why = why_in_use(roots.file(os.path.dirname(operation.words[1])), roots)
                    if why:
                        raise ValueError(f"{operation.subject} keeps its VFs: {why}")
                do(operation, roots, wanted, held)
            except (ValueError, OSError) as error:
                failures.append(str(error))
        if not failures:
            break
    return failures
