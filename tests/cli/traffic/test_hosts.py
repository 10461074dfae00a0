"""``nictop traffic`` over real SSH sessions: which hosts the words mean, and that both ends go when
nictop does."""

from __future__ import annotations

import os
import signal
import subprocess
import uuid
from contextlib import suppress
from pathlib import Path

import msgspec
import pytest

from nictop.report.runs.json import TrafficDocument
from tests.cli import test_show_hosts
from tests.cli.test_main import NICTOP, ROOT
from tests.cli.test_show_hosts import User
from tests.support.probe import wait_until
from tests.support.traffic import MARK, marked_processes

user = test_show_hosts.user
"""The fixture: somebody whom a real sshd lets in."""

ONE_TWO = (
    "one",
    "two=127.0.0.1:{port}",
    "--client-address",
    "127.0.0.1",
    "--server-address",
    "127.0.0.1",
)
LOOPBACK = ("--client-nic", "lo", "--server-nic", "lo")


def words(somebody: User, *more: str) -> tuple[str, ...]:
    """A run between two sessions of one sshd, over loopback."""
    return (
        "traffic",
        *(word.format(port=somebody.sshd.port) for word in ONE_TWO),
        *LOOPBACK,
        "--time",
        "1",
        *more,
    )


def test_two_hosts_and_an_observer(user: User) -> None:
    done = user.nictop(
        *words(user, "--observe", "local", "--format", "json", "--generator", "builtin")
    )
    assert done.returncode == 0, done.stderr
    errors = done.stderr.splitlines()
    assert (
        errors[0] == "connecting to one, two, local"
        and "from one 127.0.0.1 to two 127.0.0.1" in errors
    )
    (only,) = msgspec.json.decode(done.stdout, type=TrafficDocument).runs
    result = only.kept.result
    assert [(load.host, load.role) for load in result.hosts] == [
        ("one", "client"),
        ("two", "server"),
        ("local", "observer"),
    ]
    assert only.goodput and not only.ranked and "on one machine" in only.why_not_ranked[0]
    assert user.sshd.probes() == []
    kept = list(Path(user.home, ".local", "state", "nictop", "runs").glob("*.json"))
    assert len(kept) == 1


def test_a_group_is_no_end(user: User) -> None:
    done = user.nictop("traffic", "lab", "one", "--plain")
    assert (done.returncode, done.stdout) == (2, "")
    assert "lab is a group of 3 hosts; a test has one client" in done.stderr


def test_two_names_of_one_machine_have_no_way_between_them(user: User) -> None:
    done = user.nictop("traffic", "one", "local", "--plain")
    assert (done.returncode, done.stdout) == (2, "")
    assert "one and local are the same machine (equal boot ID)" in done.stderr
    assert "Traceback" not in done.stderr and user.sshd.probes() == []


@pytest.mark.parametrize("ending", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGKILL])
def test_both_ends_go_when_nictop_does(user: User, ending: signal.Signals) -> None:
    mark = uuid.uuid4().hex
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith(("XDG_", "SSH_"))
    }
    process = subprocess.Popen(
        [
            *NICTOP,
            *words(user, "--time", "30", "--observe", "local", "--plain", "--interval", "0.2"),
        ],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        env={**environment, "HOME": str(user.home), MARK: mark},
    )
    assert process.stderr is not None
    while " Gb/s" not in (line := process.stderr.readline()):
        assert line
    assert len(generators(user)) >= 4, "two probes and what they have started"
    process.send_signal(ending)
    process.communicate(timeout=60)
    assert process.returncode == (-ending if ending == signal.SIGKILL else 128 + ending)
    # what a probe starts has a session of its own, and the same HOME
    wait_until(
        lambda: not user.sshd.probes() and not marked_processes(mark) and not generators(user)
    )


def generators(user: User) -> list[int]:
    """Processes with the HOME that sshd gives to its sessions."""
    found = []
    for name in filter(str.isdigit, os.listdir("/proc")):
        with suppress(OSError):
            environment = Path(f"/proc/{name}/environ").read_bytes().split(b"\0")
            found += [int(name)] if f"HOME={user.sshd.home}".encode() in environment else []
    return found
