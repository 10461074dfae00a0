"""A command of the user that a probe runs: what it gets, what is reported of it, and that nothing
of it is left, however it, its supervisor or the probe ends."""

from __future__ import annotations

import os
import pwd
import signal
import subprocess
import sys
import uuid
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from nictop.probe.records import Line, WorkloadReport
from nictop.probe.traffic.requests import TrafficCommand
from nictop.probe.workload.processes import descendants, descendants_now, parse_parent
from nictop.probe.workload.run import MAX_OUTPUT_BYTES, Tail
from nictop.wire.ssh.bundle import bundle
from tests.support.probe import (
    PYTHONS,
    Probe,
    SentProbe,
    interpreters,
    is_alive,
    wait_until,
)

ALLOWED = ("--interval", "60", "--allow-workload")
CHILDREN = (
    "sleep 1000 & setsid sleep 1001 & (trap '' TERM; exec setsid sleep 1002) & "
    "(setsid sh -c 'sleep 1003 & sleep 1004' &); sleep 1005; true"
)
"""In the background, in sessions of their own, ignoring SIGTERM, and orphaned."""
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")


def work(command: str, **more: Any) -> dict[str, Any]:
    request = {"id": "run-c", "action": "work", "workload": command, "deadline": 30.0, **more}
    return {"traffic": request}


def report_of(probe: Probe, state: str) -> WorkloadReport:
    line = probe.wait_for(lambda line: _has(line, state))
    assert line.traffic is not None and line.traffic.work is not None
    return line.traffic.work


def _has(line: Line, state: str) -> bool:
    traffic = line.traffic
    if traffic is not None and traffic.kind == "failed":
        raise AssertionError(traffic.text)
    return traffic is not None and traffic.work is not None and traffic.work.state == state


def ended(command: str, **more: Any) -> WorkloadReport:
    """The report about the end of a command."""
    with Probe(*ALLOWED) as probe:
        probe.send(work(command, **more))
        return report_of(probe, "ended")


def marked(mark: str) -> list[int]:
    """PIDs of the processes with this word in their environment."""
    found = []
    for folder in Path("/proc").iterdir():
        with suppress(OSError):
            if folder.name.isdigit() and mark.encode() in (folder / "environ").read_bytes():
                found.append(int(folder.name))
    return [pid for pid in found if is_alive(pid)]


# ------------------------------------------------------------------------------------------- results


def test_exit_status_output_and_environment_of_a_command() -> None:
    report = ended(
        "echo $NICTOP_VALUE; echo to stderr >&2; cat; test -t 0 || echo no terminal; exit 3",
        variables={"NICTOP_VALUE": "64K; rm -rf /"},
    )
    assert (report.status, report.signal, report.reason, report.left) == (3, None, "itself", 0)
    assert report.stdout == "64K; rm -rf /\nno terminal\n"
    assert (report.stderr, report.stderr_bytes) == ("to stderr\n", 10)
    assert report.seconds > 0 and report.user_seconds is not None


def test_command_that_is_killed() -> None:
    report = ended("kill -9 $$")
    assert (report.status, report.signal, report.reason) == (None, signal.SIGKILL, "itself")


def test_flood_of_output_is_bounded_and_its_end_is_kept() -> None:
    report = ended("head -c 50000000 /dev/zero | tr '\\0' x; echo the end")
    assert report.stdout_bytes == 50000008 and report.stdout.endswith("x" * 1000 + "the end\n")
    assert len(report.stdout) <= MAX_OUTPUT_BYTES


def test_output_that_is_not_text_fits_into_a_line() -> None:
    """Each byte takes six characters as JSON."""
    report = ended("head -c 200000 /dev/zero | tr '\\0' '\\377'")
    assert report.stdout and set(report.stdout) == {"\N{REPLACEMENT CHARACTER}"}


def test_command_that_hangs_is_ended_at_its_deadline() -> None:
    report = ended("trap '' TERM; while true; do sleep 1; done", deadline=0.3)
    assert (report.reason, report.signal) == ("deadline", signal.SIGKILL)


def test_processes_that_a_command_leaves_running_are_counted_and_ended() -> None:
    mark = uuid.uuid4().hex
    report = ended(f"export MARK={mark}; sleep 1000 & setsid sleep 1001 & echo done")
    assert (report.status, report.left, report.stdout) == (0, 2, "done\n")
    assert marked(mark) == []


def test_stopped_command_reports_what_it_has_written() -> None:
    with Probe(*ALLOWED) as probe:
        probe.send(work("echo before; sleep 1000"))
        report_of(probe, "began")
        probe.send({"traffic": {"id": "run-c", "action": "stop"}})
        report = report_of(probe, "ended")
    assert (report.reason, report.signal) == ("stopped", signal.SIGTERM)


def test_tail_keeps_the_last_bytes() -> None:
    tail = Tail(5)
    for chunk in (b"abc", b"def", b"", b"gh\xff"):
        tail.add(chunk)
    assert (tail.total, tail.text(5), tail.text(2)) == (9, "efgh\ufffd", "h\ufffd")


@pytest.mark.parametrize(
    ("stat", "parent"), [(b"1 (a b) ) S 77 1 1", 77), (b"1 (sh) S", 0), (b"", 0)]
)
def test_parent_of_a_process(stat: bytes, parent: int) -> None:
    assert parse_parent(stat) == parent


# -------------------------------------------------------------------------------------- what is left


@pytest.fixture
def mark() -> Iterator[str]:
    """A word in the environment of all processes of the command; none of them may be left."""
    word = uuid.uuid4().hex
    yield word
    for pid in marked(word):
        os.kill(pid, signal.SIGKILL)


@pytest.mark.parametrize("victim", ["probe", "helper", "supervisor", "stdin", "stop", "SIGTERM"])
def test_nothing_of_a_command_is_left(victim: str, mark: str) -> None:
    """Children, grandchildren, orphans, in sessions of their own, ignoring SIGTERM."""
    with Probe(*ALLOWED) as probe:
        probe.send(work(f"export MARK={mark}; {CHILDREN}"))
        began = report_of(probe, "began")
        wait_until(lambda: len(marked(mark)) >= 7)
        end(victim, probe, began.pid)
        wait_until(lambda: not marked(mark))
        assert not is_alive(began.pid)


def end(victim: str, probe: Probe, pid: int) -> None:
    if victim == "stdin":
        assert probe.process.stdin is not None
        probe.process.stdin.close()
    elif victim == "stop":
        probe.send({"traffic": {"id": "run-c", "action": "stop"}})
    elif victim == "SIGTERM":
        probe.process.terminate()
    else:
        supervisor = parse_parent(Path(f"/proc/{pid}/stat").read_bytes())
        victims = {"probe": probe.process.pid, "helper": probe.helper(), "supervisor": supervisor}
        os.kill(victims[victim] or probe.process.pid, signal.SIGKILL)


def test_probe_goes_on_after_its_supervisor_was_killed(mark: str) -> None:
    with Probe(*ALLOWED) as probe:
        probe.send(work(f"export MARK={mark}; {CHILDREN}"))
        end("supervisor", probe, report_of(probe, "began").pid)
        exit_line = probe.wait_for(
            lambda line: line.traffic is not None and line.traffic.kind == "exit"
        )
        assert exit_line.traffic is not None and exit_line.traffic.signal == signal.SIGKILL
        probe.send(work("echo again"))
        assert report_of(probe, "ended").stdout == "again\n"


STOPPING = "kill -STOP $PPID"
STOPPING_FOR_EVER = f"trap '' TERM; while {STOPPING}; do :; done"


def test_supervisor_that_its_command_stopped_goes_on() -> None:
    report = ended(f"{STOPPING}; echo stopped it; exec sleep 1000", deadline=1.0)
    assert (report.reason, report.stdout) == ("deadline", "stopped it\n")


@pytest.mark.parametrize("victim", ["deadline", "stdin", "stop", "SIGTERM"])
def test_supervisor_that_is_stopped_for_ever_is_ended_with_its_command(
    victim: str, mark: str
) -> None:
    """And what has taken the mark of the workload from its environment."""
    seconds = f"1000.{int(mark[:8], 16)}"
    children = f"sleep 1001 & env -i setsid sleep {seconds} & : {seconds}"
    command = f"export MARK={mark}; {children}; {STOPPING_FOR_EVER}"
    with Probe(*ALLOWED) as probe:
        probe.send(work(command, deadline=1.0 if victim == "deadline" else 60.0))
        wait_until(lambda: bool(marked(mark)) and len(with_word(seconds)) == 2)
        if victim != "deadline":
            end(victim, probe, 0)
        wait_until(lambda: not marked(mark) and not with_word(seconds))
        if victim in ("deadline", "stop"):  # its end is reported, too
            probe.wait_for(lambda line: _has_kind(line, ("exit", "failed")))


@needs_root
@pytest.mark.parametrize("victim", ["stdin", "SIGTERM", "stop"])
def test_helper_that_a_command_stopped_ends_it_all_the_same(victim: str, mark: str) -> None:
    with Probe(*ALLOWED) as probe:
        stopping = "read pid name state parent rest < /proc/$PPID/stat; kill -STOP $parent"
        probe.send(work(f"export MARK={mark}; sleep 1001 & {stopping}; sleep 1002"))
        wait_until(lambda: len(marked(mark)) == 2)
        end(victim, probe, 0)
        wait_until(lambda: not marked(mark))
        wait_until(lambda: victim == "stop" or not is_alive(probe.process.pid))


def with_word(word: str) -> list[int]:
    """PIDs of the processes with this word in their arguments: of the shell, too."""
    found = []
    for folder in Path("/proc").iterdir():
        with suppress(OSError):
            if folder.name.isdigit() and word in (folder / "cmdline").read_text():
                found.append(int(folder.name))
    return [pid for pid in found if is_alive(pid)]


def _has_kind(line: Line, kinds: tuple[str, ...]) -> bool:
    return line.traffic is not None and line.traffic.kind in kinds


# -------------------------------------------------------------------------------------------- rights


def test_probe_without_the_option_runs_no_command(tmp_path: Path) -> None:
    with Probe("--interval", "60") as probe:
        probe.send(work(f"touch {tmp_path}/made"))
        line = probe.wait_for(lambda line: line.traffic is not None)
    assert line.traffic is not None and line.traffic.kind == "failed"
    assert line.traffic.text == "this probe was started without --allow-workload"
    assert not (tmp_path / "made").exists()


def test_code_that_runs_a_command_is_sent_only_if_it_is_allowed() -> None:
    for allowed in (False, True):
        sent = {path for part in bundle(allow_workload=allowed).parts for path in part}
        assert any(path.startswith("nictop/probe/workload/") for path in sent) == allowed


@needs_root
def test_under_sudo_the_command_runs_as_the_user_who_called_it() -> None:
    """With the groups and the home directory of that user, and without capabilities."""
    nobody = pwd.getpwnam("nobody")
    environment = [f"SUDO_UID={nobody.pw_uid}", f"SUDO_GID={nobody.pw_gid}", "HOME=/root"]
    with Probe(*ALLOWED, prefix=["env", *environment]) as probe:
        probe.send(work("id -un; echo $HOME $USER; grep CapEff /proc/self/status"))
        assert report_of(probe, "began").user == "nobody"
        report = report_of(probe, "ended")
    name, home, capabilities = report.stdout.splitlines()
    assert (name, home) == ("nobody", f"{nobody.pw_dir} nobody")
    assert int(capabilities.split()[1], 16) == 0


@needs_root
def test_command_of_an_ordinary_login_runs_as_that_login() -> None:
    for python in ("/usr/bin/python3", sys.executable):
        try:
            with Probe(*ALLOWED, python=python, user=65534) as probe:
                probe.send(work("id -u"))
                report = report_of(probe, "ended")
            break
        except (OSError, AssertionError):
            continue
    else:
        pytest.skip("a plain user can read no Python here, or not the sources")
    assert report.stdout == "65534\n"


@needs_root
def test_command_of_the_login_root_runs_as_root() -> None:
    with Probe(*ALLOWED, prefix=["env", "-u", "SUDO_UID", "-u", "SUDO_GID"]) as probe:
        probe.send(work("id -u"))
        assert report_of(probe, "ended").stdout == "0\n"


@pytest.mark.parametrize("python", interpreters(PYTHONS))
def test_every_python_of_a_host_runs_a_command(python: str, tmp_path: Path) -> None:
    """Also with connections, and children that are left."""
    with SentProbe(python, tmp_path, *ALLOWED) as probe:
        probe.send(work("echo one; sleep 1000 & echo two >&2; exit 5"))
        report = report_of(probe, "ended")
    assert (report.status, report.left, report.unreadable) == (5, 1, None)
    assert (report.stdout, report.stderr) == ("one\n", "two\n")


# ------------------------------------------------------------------------------------------ requests


@pytest.mark.parametrize(
    "wrong",
    [
        {"workload": ""},
        {"workload": "  "},
        {"workload": "a\nb"},
        {"workload": "a\0b"},
        {"workload": "x" * 4097},
        {"workload": 7},
        {"workload": "a", "variables": {"PATH": "/tmp"}},
        {"workload": "a", "variables": {"NICTOP_VALUE": 7}},
        {"workload": "a", "variables": {"NICTOP_VALUE": "a\0"}},
        {"workload": "a", "variables": ["NICTOP_VALUE"]},
        {"workload": "a", "variables": {f"NICTOP_{'A' * n}": "" for n in range(1, 20)}},
        {"workload": "a", "deadline": 0},
        {"workload": "a", "deadline": 1e9},
    ],
)
def test_invalid_request_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"is not|are not|more than"):
        TrafficCommand({"id": "run-c", "action": "work", "deadline": 1.0, **wrong})


def test_descendants_are_found_by_both_ways() -> None:
    """Children, grandchildren and those of other threads."""
    code = (
        "import subprocess as s, time; p=s.Popen(['sh','-c','sleep 50 & sleep 51']); time.sleep(50)"
    )
    with subprocess.Popen([sys.executable, "-c", code], start_new_session=True) as process:
        try:
            wait_until(lambda: len(descendants(process.pid)) == 3)
            assert sorted(descendants_now(process.pid)) == sorted(descendants(process.pid))
        finally:
            os.killpg(process.pid, signal.SIGKILL)
    assert descendants_now(process.pid) == []
