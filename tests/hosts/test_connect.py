"""Sources of hosts: over a real sshd, as root through sudo, and without unnecessary imports."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import aclosing
from dataclasses import replace
from pathlib import Path

import pytest

from nictop.hosts.connect import connect, ssh_target
from nictop.hosts.specification import Host, parse_host
from nictop.model.history import History
from nictop.model.time_axis import LocalClock, axis_time, clock_text
from nictop.probe.records import ChangeRequest, Line, Request
from nictop.wire.local import LocalSource
from nictop.wire.ssh.authentication import Question
from nictop.wire.ssh.connection import SshTarget
from nictop.wire.ssh.host_keys import lookup
from tests.support.items import ITEM_TIMEOUT, has_record, items_until, next_state
from tests.support.sources import session_of
from tests.support.sshd import Sshd, disable_ssh_timeouts, skip_without_sshd

ROOT = Path(__file__).parent.parent.parent


@pytest.fixture
def sshd(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Sshd]:
    """A real sshd that accepts the user of this test, who has a temporary home directory."""
    skip_without_sshd()
    disable_ssh_timeouts(monkeypatch)
    server = Sshd(tmp_path / "server")
    server.set_python(sys.executable)
    home = tmp_path / "user"
    (home / ".ssh").mkdir(parents=True)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)
    (home / ".ssh" / "known_hosts").write_text(server.known_hosts.read_text())
    yield server
    server.stop()


def remote_host(sshd: Sshd, label: str = "there") -> Host:
    return Host(label, sshd.address, sshd.user, sshd.port, identity_files=(str(sshd.key),))


def known_hosts() -> Path:
    return Path(os.environ["HOME"], ".ssh", "known_hosts")


# ----------------------------------------------------------------------------------------- settings


def test_all_settings_of_a_host_are_passed_to_ssh() -> None:
    host = Host("pve", "pve.example", "root", 2222, ("~/.ssh/lab",), sudo=True)
    assert ssh_target(host) == SshTarget(
        "pve.example", "root", 2222, "pve", ("~/.ssh/lab",), sudo=True
    )
    assert ssh_target(parse_host("vm1")) == SshTarget("vm1", label="vm1"), (
        "the rest is left to ~/.ssh/config"
    )
    assert ssh_target(replace(host, allow_changes=True)).allow_changes


@pytest.mark.parametrize("where", ["there", "here"])
@pytest.mark.parametrize("allowed", [False, True])
async def test_changes_are_allowed_only_if_requested(allowed: bool, where: str, sshd: Sshd) -> None:
    """Only with this option the probe, remote or local, can change anything."""
    request = Request(change=ChangeRequest("a", "apply", (("reboot",),), fingerprint="f"))
    host = remote_host(sshd) if where == "there" else Host("local", "local", allow_changes=allowed)
    source = connect(host, allow_changes=allowed)
    async with aclosing(source.items()) as items:  # type: ignore[type-var]
        await items_until(items, has_record("counters"))
        await source.request(request)
        line = (await items_until(items, has_record("change")))[-1]
        assert isinstance(line, Line) and line.change is not None and line.change.kind == "refused"
        assert ("changes are disabled" not in line.change.text) == allowed
        await source.close()


def test_the_ssh_library_is_not_loaded_before_it_is_needed() -> None:
    """It is needed neither for this machine nor to create a remote source: it must not delay the
    first frame."""
    code = """
import sys
from nictop.hosts.connect import connect
from nictop.hosts.specification import Host
before = set(sys.modules)
connect(Host("here", "local"))
print("nictop.wire.ssh.source" in sys.modules)
connect(Host("there", "there.example"))
print("nictop.wire.ssh.source" in sys.modules, "asyncssh" in sys.modules)
"""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=True
    )
    assert done.stdout.split() == ["False", "True", "False"]


# -------------------------------------------------------------------------------------------- local


async def test_this_machine_has_its_label() -> None:
    source = connect(Host("here", "local"), 0.1, eager=True)
    async with aclosing(source.items()) as items:  # type: ignore[type-var]
        (*_, line) = await items_until(items, has_record("inventory"))
        assert has_record("inventory")(line)
        assert source.name == "here"
        await source.close()


def test_this_machine_as_root_through_sudo(tmp_path: Path) -> None:
    """With a replacement of sudo, which checks its options and runs the probe unchanged."""
    tool = tmp_path / "sudo"
    tool.write_text(f'#!/bin/sh\necho "$1 $2" >> {tmp_path}/asked\nshift 2\nexec "$@"\n')
    tool.chmod(0o755)
    prefix = not_root()
    done = subprocess.run(
        [*prefix, sys.executable, "-m", "nictop", "show", "--sudo", "--interval", "0.1"],
        capture_output=True,
        text=True,
        cwd=ROOT,
        timeout=ITEM_TIMEOUT,
        check=False,
        env={
            **os.environ,
            "PATH": f"{tmp_path}:{os.environ['PATH']}",
            "PYTHONDONTWRITEBYTECODE": "1",
        },
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(os.uname().nodename)
    assert (tmp_path / "asked").read_text() == "-n --\n"


def test_a_refusal_of_sudo_is_reported(tmp_path: Path) -> None:
    tool = tmp_path / "sudo"
    tool.write_text("#!/bin/sh\necho 'sudo: a password is required' >&2\nexit 1\n")
    tool.chmod(0o755)
    done = subprocess.run(
        [*not_root(), sys.executable, "-m", "nictop", "show", "--sudo", "--interval", "0.1"],
        capture_output=True,
        text=True,
        cwd=ROOT,
        timeout=ITEM_TIMEOUT,
        check=False,
        env={
            **os.environ,
            "PATH": f"{tmp_path}:{os.environ['PATH']}",
            "PYTHONDONTWRITEBYTECODE": "1",
        },
    )
    assert (done.returncode, done.stdout) == (3, "")
    assert "sudo: a password is required" in done.stderr


def not_root() -> list[str]:
    """Prefix of a command that runs it with an effective user id other than 0."""
    if os.geteuid() != 0:
        return []
    prefix = ["unshare", "--user"]
    if (
        shutil.which("unshare") is None
        or subprocess.run([*prefix, "true"], capture_output=True, check=False).returncode
    ):
        pytest.skip("no user namespace can be made here (unshare --user)")
    return prefix


async def test_the_history_has_a_gap_after_a_reconnect() -> None:
    """A real probe is killed: the history continues after a gap."""
    source = connect(Host("here", "local"), 0.1)
    assert isinstance(source, LocalSource)
    history, killed = History(100), False
    lost: float | None = None
    key = ("rx_bits", 1)
    async with aclosing(session_of(source).follow()) as items:
        async for snapshot in items:
            history.record(snapshot)
            if not killed and len(history.times()) >= 5 and source.pid is not None:
                os.kill(source.pid, signal.SIGKILL)
                killed = True
            elif lost is None and snapshot.state == "lost":
                lost = history.times()[-1]
            elif (
                lost is not None
                and history.times()[-1] > lost
                and None not in history.series(key)[-2:]
            ):
                break
        await source.close()
    values = list(zip(reversed(history.times()), reversed(history.series(key)), strict=False))[::-1]
    assert lost is not None
    before = [value for time, value in values if time <= lost]
    after = [value for time, value in values if time > lost]
    assert None not in before and len(before) >= 3
    gap = after.count(None)
    assert gap >= 1 and after[:gap] == [None] * gap
    assert None not in after[gap:] and len(after[gap:]) == 2


# ------------------------------------------------------------------------------------------- remote


async def test_another_machine(sshd: Sshd) -> None:
    source = connect(remote_host(sshd), 0.1)
    assert source.name == "there"
    async with aclosing(source.items()) as items:  # type: ignore[type-var]
        received = await items_until(items, has_record("inventory"))
        assert any(has_record("hello")(item) for item in received)
        await source.close()


async def test_the_clock_of_a_remote_host_is_converted_to_the_local_one(sshd: Sshd) -> None:
    """Both sides of a loopback connection have the same clock: the true offset is 0."""
    begin = time.monotonic()
    source = connect(remote_host(sshd), 0.1)
    newest = None
    async with aclosing(session_of(source).follow()) as items:
        async for snapshot in items:
            newest = snapshot
            if snapshot.clock is not None and snapshot.counters is not None:
                break
        await source.close()
    assert newest is not None and newest.clock is not None and newest.counters is not None
    found = axis_time(newest.clock, newest.counters.time)
    assert 0 < found.uncertainty < time.monotonic() - begin
    assert abs(found.time - newest.counters.time) <= found.uncertainty
    here = LocalClock(time.monotonic(), time.time())
    assert clock_text(newest, here).startswith("clock offset 0 s ± ")


async def test_sudo_is_an_option_of_one_or_of_all_hosts(sshd: Sshd) -> None:
    sshd.install_script("sudo", "#!/bin/sh\necho 'not in sudoers' >&2\nexit 1\n")
    source = connect(remote_host(sshd), sudo=True)
    async with aclosing(source.items()) as items:  # type: ignore[type-var]
        failed = await next_state(items, "failed")
    assert "not in sudoers" in failed.message


async def test_an_unknown_host_key_is_refused_with_a_hint(sshd: Sshd) -> None:
    known_hosts().write_text("")
    source = connect(remote_host(sshd))
    async with aclosing(source.items()) as items:  # type: ignore[type-var]
        failed = await next_state(items, "failed")
    assert re.match(r"unknown host key of \S+ \(ssh-ed25519 SHA256:", failed.message)
    assert "--accept-new-host-keys" in failed.message
    assert known_hosts().read_text() == ""


async def test_an_unknown_host_key_can_be_accepted_and_is_stored(sshd: Sshd) -> None:
    known_hosts().write_text("")
    source = connect(remote_host(sshd), 0.1, accept_new_host_keys=True)
    async with aclosing(source.items()) as items:  # type: ignore[type-var]
        await items_until(items, has_record("hello"))
        await source.close()
    # hashed, if the configuration of the system says so (HashKnownHosts)
    assert lookup(known_hosts().read_text(), sshd.address, sshd.port).keys


async def test_unknown_host_keys_are_confirmed_by_the_callback(sshd: Sshd) -> None:
    known_hosts().write_text("")
    asked: list[Question] = []

    async def no(question: Question) -> str | None:
        asked.append(question)
        return None

    source = connect(remote_host(sshd), ask=no)
    async with aclosing(source.items()) as items:  # type: ignore[type-var]
        failed = await next_state(items, "failed")
    assert [question.kind for question in asked] == ["host_key"]
    assert "not accepted" in failed.message
