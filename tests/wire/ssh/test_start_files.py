"""What a remote login does before, around and instead of nictop's command is told with its cause;
and what nictop sends is executed by no other program than its own Python."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import aclosing
from pathlib import Path

import pytest

from nictop.probe.records import Line
from nictop.wire.errors import PermanentError, TransientError
from nictop.wire.source import ConnectionStage
from nictop.wire.ssh import exit_reason, remote_probe
from nictop.wire.ssh.bootstrap_command import FIRST_LINE, NOT_A_SHELL_STATUS
from nictop.wire.ssh.connection import Connection
from nictop.wire.ssh.exit_reason import (
    SLOW_STAGES,
    ConnectTime,
    Ending,
    Reached,
    late_reason,
    oom_reason,
)
from nictop.wire.ssh.source import SshSource
from tests.support.items import has_record, items_until, next_state
from tests.support.probe import wait_until
from tests.support.sshd import Sshd, disable_ssh_timeouts, skip_without_sshd

LONG_SECONDS = 3600.0

READS_INPUT = "reads standard input"
INPUT_LOST = "reads or replaces standard input"
OTHER_READER = "what nictop sent was read by another program than its own"
NOT_RUN = "the login ended before nictop's command was run"

WORKING_START_FILES = {
    "echo Welcome": "",
    "echo '{\"hello\": 1}'; printf 'no newline'": "",
    "set -x": "",
    "mkdir -p gone && cd gone && rmdir ../gone": "",
    "TMOUT=1; export PYTHONHOME=/nonexistent": "",
    "if then": "",
    "read -t 1 line": READS_INPUT,
    "read line": READS_INPUT,
    "read -p 'Continue? ' line": READS_INPUT,
}
"""Text of .bashrc → what is told of a host that is read all the same."""

FAILING_START_FILES = {
    "read -n 1 line": INPUT_LOST,
    "head -c 100 >/dev/null": INPUT_LOST,
    "exec </dev/null": INPUT_LOST,
    "exec sh -l": OTHER_READER,
    "exit 0": f"{NOT_RUN}: status 0; a start-up file",
    "echo 'maintenance until 18:00'; exit 1": f"{NOT_RUN}: maintenance until 18:00; a start-up "
    f"file",
    "echo 'no access' >&2; exit 7": f"{NOT_RUN}: no access; a start-up file",
    "set -e; false": f"{NOT_RUN}: status 1; a start-up file",
    "PATH=/nonexistent": "check PATH in the start-up files",
    "exec() { echo no; }": f"{NOT_RUN}: no; a start-up file",
}
FORCED_COMMANDS = {
    "echo hello from the menu": f"{NOT_RUN}: hello from the menu",
    "true": f"{NOT_RUN}: status 0",
    "sh": OTHER_READER,
    "bash -i": OTHER_READER,
    "bash -l": OTHER_READER,
    "printf 'Choice: '; read x; echo bad choice; exit 1": f"{NOT_RUN}: Choice: bad choice; a "
    f"start-up file",
    "printf 'Choice: '; read x; echo unknown $x; exit 1": OTHER_READER,
    'rbash -c "$SSH_ORIGINAL_COMMAND"': "the account has a restricted shell",
    "internal-sftp": "the account is for file transfer only",
    "/usr/sbin/nologin": "the account has no login shell",
    "/usr/local/bin/gone": "a program is missing there",
}
"""Command of sshd → what is told; so that it can be told, it must be permanent: no attempt
helps."""


@pytest.fixture(autouse=True)
def no_agent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)
    disable_ssh_timeouts(monkeypatch)


@pytest.fixture(scope="module")
def sshd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sshd]:
    skip_without_sshd()
    made = Sshd(tmp_path_factory.mktemp("sshd"))
    yield made
    made.stop()


def set_start_file(sshd: Sshd, text: str) -> None:
    if "bash" not in os.path.basename(os.environ.get("SHELL", "bash")):
        pytest.skip("the login shell reads no .bashrc")
    (sshd.home / ".bashrc").write_text(f"{text}\n")


async def troubles(source: SshSource) -> list[str]:
    """What is told of a host until its inventory was received."""
    async with aclosing(source.items()) as items:
        received = await items_until(items, has_record("inventory"))
    return [item.trouble.message for item in received if isinstance(item, Line) and item.trouble]


async def reason(source: SshSource, state: str = "failed") -> str:
    async with aclosing(source.items()) as items:
        ended = await next_state(items, state)
        await source.close()
    assert ended.message.isprintable()
    return ended.message


@pytest.mark.parametrize("text", WORKING_START_FILES)
async def test_a_start_file_that_does_not_matter_or_can_be_worked_around(
    sshd: Sshd, text: str
) -> None:
    set_start_file(sshd, text)
    told = await troubles(SshSource(sshd.target(), 0.1))
    if WORKING_START_FILES[text]:
        assert len(told) == 1 and WORKING_START_FILES[text] in told[0]
    else:
        assert told == []


@pytest.mark.parametrize("text", FAILING_START_FILES)
async def test_a_start_file_in_the_way_is_named(sshd: Sshd, text: str) -> None:
    set_start_file(sshd, text)
    message = await reason(SshSource(sshd.target(), 0.1))
    assert FAILING_START_FILES[text] in message and "zlib" not in message


@pytest.mark.parametrize("text", ["cat >/dev/null", "head -c 1000000 >/dev/null"])
async def test_a_start_file_that_waits_for_the_end_of_its_input_is_named(
    sshd: Sshd, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The end of the input that follows the time limit shows it, however slow the machine is."""
    monkeypatch.setattr(remote_probe, "STARTUP_TIMEOUT", 0.0)
    monkeypatch.setattr(remote_probe, "PING_SECONDS", 0.05)
    monkeypatch.setattr(remote_probe, "LATE_END_TIMEOUT", LONG_SECONDS)
    set_start_file(sshd, text)
    assert INPUT_LOST in await reason(SshSource(sshd.target(), 0.1))


@pytest.mark.parametrize("command", FORCED_COMMANDS)
async def test_a_forced_command_is_named(tmp_path: Path, command: str) -> None:
    skip_without_sshd()
    server = Sshd(tmp_path, options=(f"ForceCommand {command}",))
    try:
        assert FORCED_COMMANDS[command] in await reason(SshSource(server.target(), 0.1))
        assert [path.name for path in server.home.iterdir() if not path.name.startswith(".")] == []
    finally:
        server.stop()


async def test_a_forced_command_that_prints_what_it_reads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    skip_without_sshd()
    monkeypatch.setattr(remote_probe, "STARTUP_TIMEOUT", 0.0)
    monkeypatch.setattr(remote_probe, "PING_SECONDS", 0.05)
    monkeypatch.setattr(remote_probe, "LATE_END_TIMEOUT", LONG_SECONDS)
    server = Sshd(tmp_path, options=("ForceCommand cat",))
    try:
        assert OTHER_READER in await reason(SshSource(server.target(), 0.1))
    finally:
        server.stop()


async def test_a_forced_command_that_does_not_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    skip_without_sshd()
    monkeypatch.setattr(remote_probe, "STARTUP_TIMEOUT", 0.0)
    monkeypatch.setattr(remote_probe, "PING_SECONDS", 0.05)
    monkeypatch.setattr(remote_probe, "LATE_END_TIMEOUT", 0.0)
    pid = tmp_path / "pid"
    server = Sshd(tmp_path, options=(f"ForceCommand echo $$ > {pid}; exec sleep 1000",))
    try:
        message = await reason(SshSource(server.target(), 0.1), "lost")
        assert "did not run nictop's command within 0 s" in message and "ForceCommand" in message
        wait_until(lambda: pid.exists() and pid.read_text())
    finally:
        server.stop()
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            os.kill(int(pid.read_text()), signal.SIGKILL)


@pytest.mark.parametrize("shell", ["bash", "dash", "zsh", "fish", "tcsh", "busybox ash"])
def test_a_shell_that_reads_the_input_executes_nothing_of_it(tmp_path: Path, shell: str) -> None:
    """Its first line ends the shell: the sources behind it are bytes that may mean anything."""
    words = shell.split()
    if shutil.which(words[0]) is None:
        pytest.skip(f"{words[0]} is not installed")
    done = subprocess.run(
        words,
        input=FIRST_LINE + b"echo executed\ntouch made\n",
        capture_output=True,
        cwd=tmp_path,
        check=False,
    )
    assert done.returncode == NOT_A_SHELL_STATUS
    assert b"executed" not in done.stdout and list(tmp_path.glob("made")) == []


# --------------------------------------------------------------------------------- slow, and killed


async def test_a_slow_login_is_told(sshd: Sshd, monkeypatch: pytest.MonkeyPatch) -> None:
    set_start_file(sshd, "true")
    monkeypatch.setattr(exit_reason, "SLOW_SHARE", 0.0)
    told = await troubles(SshSource(sshd.target(label="vm1"), 0.1))
    assert [one.partition(" took ")[0] for one in told] == ["connecting", "the login shell"]


def test_only_a_login_shell_that_needs_half_of_the_limit_is_slow() -> None:
    assert (
        exit_reason.slow_notice("the login shell", 13.0, 15.0, "hint")
        == "the login shell took 13 s of at most 15 s: hint"
    )
    assert exit_reason.slow_notice("the login shell", 7.4, 15.0, "hint") == ""


@pytest.mark.parametrize(
    ("stage", "purpose", "advice"),
    [
        ("resolve", "to resolve its name", "resolv.conf"),
        ("connect", "to reach its port", "network"),
        ("host_key", "for the SSH handshake", "still starting"),
        ("login", "to log in", "UseDNS"),
    ],
)
def test_the_step_that_took_the_time_is_named_with_what_helps_there(
    stage: ConnectionStage, purpose: str, advice: str
) -> None:
    """ "check DNS and PAM of its sshd" was said of a handshake of 7.4 s and a login of 0.5 s."""
    stages: dict[ConnectionStage, float] = dict.fromkeys(SLOW_STAGES, 0.2)
    took = ConnectTime("vm1", stages | {stage: 7.4}, 15.0)
    notice = exit_reason.slow_connection_notice(took, "vm1")
    assert notice.startswith(f"connecting took 8 s of at most 15 s, 7 s of it {purpose}: ")
    of_jump = exit_reason.slow_connection_notice(took, "vm2")
    assert of_jump.startswith("connecting to vm1 took 8 s")
    others = [hint for other, (_, hint) in SLOW_STAGES.items() if other != stage]
    assert advice in notice and not any(hint in notice for hint in others)


def test_a_connection_that_needs_less_than_half_of_its_limit_is_not_slow() -> None:
    took = ConnectTime("vm1", {"login": 7.4}, 15.0)
    assert exit_reason.slow_connection_notice(took, "vm1") == ""


async def test_the_time_of_each_stage_of_a_connection_is_known(
    sshd: Sshd, monkeypatch: pytest.MonkeyPatch
) -> None:
    noted: list[ConnectTime] = []
    monkeypatch.setattr(Connection, "note_time", lambda _, took: noted.append(took))
    set_start_file(sshd, "true")
    await troubles(SshSource(sshd.target(label="vm1"), 0.1))
    (took,) = noted
    assert set(took.stages) == set(SLOW_STAGES) and took.host == "vm1" and took.seconds > 0


async def test_a_probe_that_the_kernel_killed_for_want_of_memory(sshd: Sshd) -> None:
    """Told by the kernel log of the host; without it, both causes are named."""
    set_start_file(sshd, "true")
    line = "[ 12.3] Out of memory: Killed process {} (python3) total-vm:1kB"
    for text, expected in (
        (line, "it was out of memory; free memory there"),
        ("{}", "was killed by KILL; memory may"),
    ):
        source = SshSource(sshd.target(), 0.1)
        async with aclosing(source.items()) as items:
            await items_until(items, has_record("counters"))
            pid = sshd.probes()[0]
            sshd.install_script("dmesg", f"#!/bin/sh\necho '{text.format(pid)}'\n")
            os.kill(pid, 9)
            assert expected in (await next_state(items, "lost")).message
            await source.close()


def ending(
    reached: Reached,
    status: int | None = None,
    signal: str = "",
    detail: str = "",
    sudo: bool = False,
) -> Ending:
    return Ending("vm1", reached, status, signal, detail, has_echo=False, uses_sudo=sudo)


@pytest.mark.parametrize(
    ("end", "message", "hint"),
    [
        (
            ending("python", signal="KILL"),
            "the probe on vm1 was killed by KILL",
            "memory may be short there",
        ),
        (ending("python", 137), "the probe on vm1 was killed by KILL", "memory may be short there"),
        (
            ending("python", 137, detail="Killed"),
            "the probe on vm1 was killed by KILL: Killed",
            "memory may be short",
        ),
        (
            ending("python", signal="ALRM"),
            "the probe on vm1 was killed by ALRM",
            "CPUs are too busy",
        ),
        (ending("python", 152), "the probe on vm1 was killed by XCPU", "ulimit -t"),
        (ending("shell", signal="SEGV"), "Python on vm1 was killed by SEGV", "python3 -V"),
        (
            ending("nothing", signal="TERM"),
            "the login shell on vm1 was killed by TERM",
            "shuts down",
        ),
        (
            ending("python", 1, detail="MemoryError"),
            "the probe on vm1 ended with status 1: MemoryError",
            "",
        ),
        (ending("python"), "the probe on vm1 ended without an exit status", ""),
        (
            ending("shell", 3, detail="licence expired"),
            "cannot start Python on vm1: licence expired",
            "python3 -V",
        ),
        (
            ending("nothing", 1, detail="sudo: a password is required", sudo=True),
            "sudo failed on vm1: sudo: a password is required",
            "the live screen asks for the password",
        ),
        (
            ending("nothing", 1, detail="sudo: sorry, you must have a tty to run sudo", sudo=True),
            "sudo failed on vm1: sudo: sorry, you must have a tty to run sudo",
            "remove requiretty from sudoers",
        ),
        (
            ending("nothing", 1, detail="closed", sudo=True),
            "vm1: the login ended before",
            "a start-up file",
        ),
    ],
)
def test_reasons(end: Ending, message: str, hint: str) -> None:
    error = exit_reason.exit_reason(end)
    assert error.message.startswith(message) and hint in error.hint
    is_final = end.reached != "python" and not end.killed_by
    assert isinstance(error, PermanentError if is_final else TransientError)


@pytest.mark.parametrize(
    ("reached", "message"),
    [
        ("nothing", "vm1: the login shell did not run nictop's command within 15 s: Choice"),
        ("shell", "vm1: Python did not start within 15 s: Choice"),
        ("python", "vm1: no data from the probe within 15 s: Choice"),
    ],
)
def test_reasons_of_the_time_limit(reached: Reached, message: str) -> None:
    assert late_reason(ending(reached, detail="Choice"), 15.0).message == message


def test_the_kernel_log_is_not_guessed_from() -> None:
    end = ending("python", signal="KILL")
    assert oom_reason(end, "") is None and oom_reason(end, "Killed process 5 by hand") is None
    error = oom_reason(end, "Memory cgroup out of memory: Killed process 5 (python3)")
    assert error is not None and "control group" in error.message and "MemoryMax" in error.hint
