"""``nictop traffic HOST --workload`` that is interrupted or killed at each stage: nothing of the
command is left, nor of its children."""

from __future__ import annotations

import os
import signal
import uuid
from contextlib import suppress
from pathlib import Path

import pytest

from nictop.probe.workload.processes import parse_parent
from nictop.traffic.results.selection import directory, stored_runs
from tests.cli.test_traffic_command import LIMIT
from tests.cli.test_traffic_endings import start_nictop
from tests.support.kills import kill_matrix
from tests.support.probe import is_alive, wait_until

STAGES = {
    "before the first line": "",
    "connecting": "waiting for local",
    "shown": "starting on local",
    "running": "running on local",
    "measured": " sent ",
}
"""Stage → what its line of progress contains."""
SIGNALS = {
    "SIGINT": signal.SIGINT,
    "SIGTERM": signal.SIGTERM,
    "SIGHUP": signal.SIGHUP,
    "SIGKILL": signal.SIGKILL,
}


def with_mark(mark: str) -> list[int]:
    """PIDs of processes with this word in their environment."""
    found = []
    for folder in Path("/proc").iterdir():
        with suppress(OSError):
            if folder.name.isdigit() and mark.encode() in (folder / "environ").read_bytes():
                found.append(int(folder.name))
    return [pid for pid in found if is_alive(pid)]


@kill_matrix(tuple(STAGES), tuple(SIGNALS))
def test_nothing_of_a_workload_is_left(tmp_path: Path, stage: str, kill: int, variant: str) -> None:
    """Children in the background, in a session of their own, and one that ignores SIGTERM."""
    mark = uuid.uuid4().hex
    children = "(setsid sleep 1000 &); (trap '' TERM; exec sleep 1001) & sleep 1002"
    command = f"export MARK_OF_TEST={mark}; {children}"
    number = SIGNALS[variant] if STAGES[stage] else signal.SIGTERM
    process = start_nictop(
        tmp_path, "unused", "local", "--plain", "--workload", command, "--client-nic", "lo"
    )
    assert process.stderr is not None
    output = [""]
    while STAGES[stage] not in output[-1]:
        output.append(process.stderr.readline())
        assert output[-1], output
    if stage in ("running", "measured"):
        wait_until(lambda: len(with_mark(mark)) >= 3)
    process.send_signal(number)
    _, rest = process.communicate(timeout=LIMIT)
    wait_until(lambda: not with_mark(mark))
    assert "Traceback" not in rest


LASTING = {
    "hangs": "trap '' TERM HUP INT; while :; do sleep {word}; done",
    "floods": "yes {word} & exec yes {word} >&2",
    "forks": "for n in 1 2 3 4 5 6; do (setsid sleep {word} &); done; exec sleep {word}",
    "becomes a daemon": "(setsid env -i /bin/sh -c 'cd /; exec </dev/null >/dev/null 2>&1; "
    'trap "" TERM HUP; sleep {word} & sleep {word}\' &); exec sleep {word}',
    "has a terminal of its own": "exec python3 -c \"import pty; pty.spawn(['sleep', '{word}'])\"",
}
"""Commands that last until they are ended, with a word of the test."""
NUMBERS = {"hangs": 1, "floods": 2, "forks": 7, "becomes a daemon": 3}
"""Of the processes that do nothing else; 1 of the others."""


def lasting_command(name: str) -> tuple[str, str, int]:
    """(command, its word, number of its processes that last)"""
    word = f"1000.{uuid.uuid4().int % 10**12:012}"
    return LASTING[name].format(word=word), word, NUMBERS.get(name, 1)


def lasting(word: str) -> list[int]:
    """PIDs of those processes."""
    found = []
    for folder in Path("/proc").iterdir():
        with suppress(OSError):
            if folder.name.isdigit():
                arguments = (folder / "cmdline").read_text().split("\0")
                if arguments[0] in ("sleep", "yes") and word in arguments:
                    found.append(int(folder.name))
    return [pid for pid in found if is_alive(pid)]


@kill_matrix(tuple(LASTING), victims=("nictop", "command"))
def test_nothing_is_left_of_any_command(tmp_path: Path, stage: str, kill: int, victim: str) -> None:
    """Whether nictop is killed or the command itself, while it runs."""
    command, word, number = lasting_command(stage)
    process = start_nictop(
        tmp_path, "unused", "local", "--plain", "--workload", command, "--client-nic", "lo"
    )
    wait_until(lambda: len(lasting(word)) >= number)
    if victim == "nictop":
        process.kill()
    else:
        with suppress(ProcessLookupError):
            os.kill(command_of(lasting(word)), signal.SIGKILL)
    printed, said = process.communicate(timeout=LIMIT)
    wait_until(lambda: not lasting(word))
    assert "Traceback" not in said
    if victim == "command":
        assert process.returncode == 4, said
        assert "the command" in printed


def command_of(pids: list[int]) -> int:
    """The first process of a command: what nictop has started."""
    first = min(pids)
    while is_of_command(parent := parse_parent(Path(f"/proc/{first}/stat").read_bytes())):
        first = parent
    return first


def is_of_command(pid: int) -> bool:
    return pid > 1 and "nictop" not in Path(f"/proc/{pid}/cmdline").read_text()


def test_interrupted_workload_is_saved_with_what_was_measured(tmp_path: Path) -> None:
    process = start_nictop(
        tmp_path, "unused", "local", "--plain", "--workload", "echo before; exec sleep 1000"
    )
    assert process.stderr is not None
    while "running on" not in process.stderr.readline():
        pass
    process.send_signal(signal.SIGINT)
    printed, _ = process.communicate(timeout=LIMIT)
    assert process.returncode == 128 + signal.SIGINT
    assert "as " in printed and ": stopped" in printed
    (stored,) = stored_runs(directory({"XDG_STATE_HOME": str(tmp_path)})).results
    figures = stored[1].result.workload
    assert figures is not None and (figures.reason, figures.stdout) == ("stopped", ("before",))


@pytest.mark.parametrize(("command", "code"), [("true", 0), ("exit 3", 4)])
def test_exit_code(tmp_path: Path, command: str, code: int) -> None:
    process = start_nictop(tmp_path, "unused", "local", "--plain", "--workload", command)
    process.communicate(timeout=LIMIT)
    assert process.returncode == code
