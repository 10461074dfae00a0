"""Apply one action and check the result by reading it back; roll actions back.

Programs are looked up in a fixed list of directories and run by argument vector, with a fixed
environment and a timeout; files are written with one write. A rollback sets what it can by netlink,
without a program. An action whose setting already has its value is skipped, so a rollback may be
repeated. Errors are ValueErrors with a sentence.
"""

from __future__ import annotations

import contextlib
import os
import select
import subprocess
import time
from collections.abc import Callable, Sequence
from types import MappingProxyType

from nictop.probe.changes.netlink_settings import set_by_netlink
from nictop.probe.changes.vfs_in_use import find_vf_in_use
from nictop.probe.kernel.exits import exit_text
from nictop.probe.kernel.pdeathsig import set_parent_death_signal
from nictop.probe.plan.current_state import Roots, State, as_text, equal, read_state, target_state
from nictop.probe.plan.grammar.actions import parse_action
from nictop.probe.plan.grammar.operation import Operation
from nictop.probe.plan.ifindexes import Ifindexes, with_current_name
from nictop.probe.plan.programs import find_program, program_environment

PROGRAM_TIMEOUT = 20.0
"""Seconds for a program that changes kernel settings; a driver that resets its device needs
several."""
NMCLI_TIMEOUT = 75.0
"""Seconds: activating a profile waits for DHCP, 45 s by default."""
NMCLI_WAIT_SECONDS = "60"
"""For ``nmcli --wait``."""
PROGRAM_POLL_SECONDS = 0.2
"""Seconds between calls of `on_poll` while a program runs."""
IDENTIFY_MARGIN_SECONDS = 5.0
"""Added to the seconds that a LED blinks."""
KILL_WAIT_SECONDS = 5.0
"""Seconds for a killed program to end."""
MAX_ERROR_CHARS = 300
UNDO_ATTEMPTS, UNDO_RETRY_SECONDS = 4, 0.5
"""Number of attempts of a rollback, and seconds between them."""


def apply_operation(
    operation: Operation,
    roots: Roots,
    target: State,
    pass_fds: Sequence[int] = (),
    on_poll: Callable[[], object] | None = None,
) -> None:
    """Apply an operation and read it back. `pass_fds` are inherited by the program, so that the
    locks stay held until it ends. `on_poll` is called while it runs; an exception that it raises
    kills the program. Raises ValueError when the settings are not `target` afterwards."""
    if operation.kind == "identify":
        blink_led(operation, pass_fds, on_poll)
        return
    if not operation.uses_networkmanager and is_applied(operation, roots, target):
        return
    problem = ""
    try:
        if operation.words[0] == "write":
            write_file(roots.path(operation.words[1]), operation.words[2])
        else:
            run_program(unsaved_words(operation), pass_fds, on_poll)
    except ValueError as error:
        problem = str(error)
    if operation.uses_networkmanager:
        if problem:
            raise ValueError(problem)
        return
    now = read_state(operation, roots)
    if not equal(now, target):
        raise ValueError(
            problem or f"{operation.subject}: expected {as_text(target)}, found {as_text(now)}"
        )


def unsaved_words(operation: Operation) -> tuple[str, ...]:
    """The command to run. Profiles are changed and added in memory only, so that those on disk are
    the old ones until the change is kept (`networkmanager.settings.store_profiles`), whatever ends
    this machine before that."""
    words = operation.words
    if operation.kind == "profile modify":
        return (*words[:3], "--temporary", *words[3:])
    if operation.kind == "profile add":
        return (*words[:3], "save", "no", *words[3:])
    return words


def blink_led(
    operation: Operation, pass_fds: Sequence[int], on_poll: Callable[[], object] | None
) -> None:
    """``ethtool -p``: the kernel ends the blinking after the seconds, and when the program is
    killed."""
    seconds = int(operation.settings[0][1])
    try:
        run_program(operation.words, pass_fds, on_poll, timeout=seconds + IDENTIFY_MARGIN_SECONDS)
    except ValueError as error:
        if "not supported" in str(error).lower():
            raise ValueError(
                f"the driver of {operation.interface} cannot blink the port LED"
            ) from None
        raise


def is_applied(operation: Operation, roots: Roots, target: State) -> bool:
    """Whether all settings have their values already; False when they cannot be read."""
    with contextlib.suppress(ValueError):
        return equal(read_state(operation, roots), target)
    return False


def write_file(path: str, text: str) -> None:
    """One write to an existing file. Raises ValueError."""
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_TRUNC | os.O_CLOEXEC)
        try:
            os.write(descriptor, text.encode() + b"\n")
        finally:
            os.close(descriptor)
    except OSError as error:
        raise ValueError(f"{path}: {error.strerror}") from None


def run_program(
    argv: Sequence[str],
    pass_fds: Sequence[int] = (),
    on_poll: Callable[[], object] | None = None,
    timeout: float | None = None,
) -> None:
    """Run a program and wait for it; it is killed when this process ends. `timeout`: seconds, None:
    `PROGRAM_TIMEOUT` or `NMCLI_TIMEOUT`. Raises ValueError with the last line of its output, and
    what `on_poll` raises."""
    path = find_program(argv[0])
    wait = ("--wait", NMCLI_WAIT_SECONDS) if argv[0] == "nmcli" else ()
    parent = os.getpid()

    def die_with_parent() -> None:
        with contextlib.suppress(OSError):
            # no ctypes: the next holder of the locks waits for the program
            set_parent_death_signal(parent)

    try:
        process = subprocess.Popen(
            [path, *wait, *argv[1:]],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=program_environment(),
            pass_fds=tuple(pass_fds),
            preexec_fn=die_with_parent,  # noqa: PLW1509 (this process has one thread)
        )
    except (OSError, subprocess.SubprocessError) as error:
        raise ValueError(f"cannot start {path}: {error}") from None
    if timeout is None:
        timeout = NMCLI_TIMEOUT if argv[0] == "nmcli" else PROGRAM_TIMEOUT
    output = wait_for_output(process, timeout, on_poll)
    if process.returncode:
        raise ValueError(
            f"{' '.join(argv[:3])}: {last_line(output) or exit_text(process.returncode)}"
        )


def wait_for_output(
    process: subprocess.Popen[bytes], timeout: float, on_poll: Callable[[], object] | None
) -> bytes:
    """The output of a process. Kills it after `timeout` seconds and raises ValueError."""
    end = time.monotonic() + timeout
    try:
        while True:
            try:
                return process.communicate(timeout=min(PROGRAM_POLL_SECONDS, timeout))[0]
            except subprocess.TimeoutExpired:
                if on_poll is not None:
                    on_poll()
                if time.monotonic() >= end:
                    name = os.path.basename(str(process.args[0]))  # type: ignore[index]
                    raise ValueError(
                        f"{name} did not end within {timeout:g} s and was stopped"
                    ) from None
    except BaseException:
        process.kill()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.communicate(timeout=KILL_WAIT_SECONDS)
        raise


def last_line(output: bytes) -> str:
    """The last non-empty line of a program's output, without control characters."""
    text = ""
    for line in output.decode("utf-8", "replace").splitlines():
        text = line.strip() or text
    printable = (character if character.isprintable() else " " for character in text)
    return "".join(printable)[:MAX_ERROR_CHARS]


def restore_operation(
    operation: Operation, roots: Roots, target: State, pass_fds: Sequence[int]
) -> None:
    """As `apply_operation`, but by netlink in this process where that is known and succeeds: a
    program may have no process id or memory left."""
    if is_applied(operation, roots, target):
        return
    with contextlib.suppress(OSError):
        # an older kernel, which ethtool(8) asks in another way: the program below
        set_by_netlink(operation)
    apply_operation(operation, roots, target, pass_fds)


def roll_back(
    undo: Sequence[Sequence[str]],
    roots: Roots,
    pass_fds: Sequence[int] = (),
    ifindexes: Ifindexes = MappingProxyType({}),
) -> list[str]:
    """Apply the actions of an undo in order, skipping those already done; failed ones are tried
    again. `ifindexes`: of the links that they name.

    Returns sentences about what could not be restored; empty: everything is as before.
    """
    failures: list[str] = []
    for attempt in range(UNDO_ATTEMPTS):
        if attempt:
            select.select([], [], [], UNDO_RETRY_SECONDS)
        failures = []
        for words in undo:
            try:
                operation = with_current_name(parse_action(words, undoing=True), ifindexes)
                target = target_state(operation, read_state(operation, roots))
                if operation.kind == "virtual functions" and not is_applied(
                    operation, roots, target
                ):
                    use = find_vf_in_use(roots.path(os.path.dirname(operation.words[1])), roots)
                    if use:
                        raise ValueError(f"VFs of {operation.subject} not removed: {use}")
                restore_operation(operation, roots, target, pass_fds)
            except (ValueError, OSError) as error:
                failures.append(str(error))
        if not failures:
            break
    return failures
