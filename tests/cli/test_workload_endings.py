"""``nictop traffic HOST --workload`` that is interrupted or killed at each stage: nothing of the
command is left, nor of its children."""

from __future__ import annotations

import signal
import uuid
from contextlib import suppress
from pathlib import Path

import pytest

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
