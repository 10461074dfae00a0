"""From a host's name to its lines: over a real sshd, as root through sudo, and with nothing loaded in vain."""

from __future__ import annotations

import os
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
from nictop.model.time_axis import LocalClock, clock_words, moment
from nictop.probe.records import ChangeRequest, Line, Request
from nictop.wire.local import LocalSource
from nictop.wire.ssh.authentication import Question
from nictop.wire.ssh.connection import SshTarget
from tests.support.items import LIMIT, has, state, until
from tests.support.sources import session_of
from tests.support.sshd import Sshd, be_patient, skip_without_sshd

ROOT = Path(__file__).parent.parent.parent


@pytest.fixture
def sshd(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Sshd]:
    """A real one, which the user of this test can log in to; his home, known hosts included, is his own."""
    skip_without_sshd()
    be_patient(monkeypatch)
    server = Sshd(tmp_path / "server")
    server.python(sys.executable)
    home = tmp_path / "user"
    (home / ".ssh").mkdir(parents=True)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)
    (home / ".ssh" / "known_hosts").write_text(server.known_hosts.read_text())
    yield server
    server.stop()


def there(sshd: Sshd, label: str = "there") -> Host:
    return Host(label, sshd.address, sshd.user, sshd.port, identity_files=(str(sshd.key),))


def known_hosts() -> Path:
    return Path(os.environ["HOME"], ".ssh", "known_hosts")


# ------------------------------------------------------------------------------------------------------------- settings


def test_everything_that_is_said_of_a_host_goes_to_ssh() -> None:
    host = Host("pve", "pve.example", "root", 2222, ("~/.ssh/lab",), sudo=True)
    assert ssh_target(host) == SshTarget("pve.example", "root", 2222, "pve", ("~/.ssh/lab",), sudo=True)
    assert ssh_target(parse_host("vm1")) == SshTarget("vm1", label="vm1"), "the rest is left to ~/.ssh/config"
    assert ssh_target(replace(host, allow_changes=True)).allow_changes


@pytest.mark.parametrize("where", ["there", "here"])
@pytest.mark.parametrize("allowed", [False, True])
async def test_who_may_be_changed(allowed: bool, where: str, sshd: Sshd) -> None:
    """The probe there, and the one here, are told so, or have nothing that could change anything."""
    wish = Request(change=ChangeRequest("a", "prepare", (("reboot",),)))
    host = there(sshd) if where == "there" else Host("local", "local", allow_changes=allowed)
    source = connect(host, allow_changes=allowed)
    async with aclosing(source.items()) as items:  # type: ignore[type-var]
        await until(items, has("counters"))
        await source.request(wish)
        line = (await until(items, has("change")))[-1]
        assert isinstance(line, Line) and line.change is not None and line.change.kind == "refused"
        assert ("only reads" not in line.change.text) == allowed
        await source.close()


def test_the_ssh_library_is_not_loaded_before_it_is_needed() -> None:
    """Neither for this machine nor for making the source of a remote one; the first frame must not wait for it."""
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
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=True)
    assert done.stdout.split() == ["False", "True", "False"]


# ---------------------------------------------------------------------------------------------------------------- local


async def test_this_machine_under_the_name_it_was_given() -> None:
    source = connect(Host("here", "local"), 0.1, eager=True)
    async with aclosing(source.items()) as items:  # type: ignore[type-var]
        (*_, line) = await until(items, has("inventory"))
        assert has("inventory")(line)
        assert source.name == "here"
        await source.close()


def test_this_machine_as_root_through_sudo(tmp_path: Path) -> None:
    """The real thing but for sudo itself, which must be told not to ask and is given the probe as it is."""
    tool = tmp_path / "sudo"
    tool.write_text(f'#!/bin/sh\necho "$1 $2" >> {tmp_path}/asked\nshift 2\nexec "$@"\n')
    tool.chmod(0o755)
    prefix = not_root()
    done = subprocess.run(
        [*prefix, sys.executable, "-m", "nictop", "show", "--sudo", "--interval", "0.1"],
        capture_output=True,
        text=True,
        cwd=ROOT,
        timeout=LIMIT,
        check=False,
        env={**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}", "PYTHONDONTWRITEBYTECODE": "1"},
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(os.uname().nodename)
    assert (tmp_path / "asked").read_text() == "-n --\n"


def test_sudo_that_refuses_is_said(tmp_path: Path) -> None:
    tool = tmp_path / "sudo"
    tool.write_text("#!/bin/sh\necho 'sudo: a password is required' >&2\nexit 1\n")
    tool.chmod(0o755)
    done = subprocess.run(
        [*not_root(), sys.executable, "-m", "nictop", "show", "--sudo", "--interval", "0.1"],
        capture_output=True,
        text=True,
        cwd=ROOT,
        timeout=LIMIT,
        check=False,
        env={**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}", "PYTHONDONTWRITEBYTECODE": "1"},
    )
    assert (done.returncode, done.stdout) == (3, "")
    assert "sudo: a password is required" in done.stderr


def not_root() -> list[str]:
    """Words before a command that make its effective user id another than 0."""
    if os.geteuid() != 0:
        return []
    prefix = ["unshare", "--user"]
    if (
        shutil.which("unshare") is None
        or subprocess.run([*prefix, "true"], capture_output=True, check=False).returncode
    ):
        pytest.skip("no user namespace can be made here (unshare --user)")
    return prefix


async def test_what_is_counted_after_a_reconnect_is_no_value_of_the_time_before() -> None:
    """A real probe is killed: the history goes on, with a gap where it was away."""
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
            elif lost is not None and history.times()[-1] > lost and None not in history.series(key)[-2:]:
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


# --------------------------------------------------------------------------------------------------------------- remote


async def test_another_machine(sshd: Sshd) -> None:
    source = connect(there(sshd), 0.1)
    assert source.name == "there"
    async with aclosing(source.items()) as items:  # type: ignore[type-var]
        heard = await until(items, has("inventory"))
        assert any(has("hello")(item) for item in heard)
        await source.close()


async def test_its_clock_is_put_on_our_axis(sshd: Sshd) -> None:
    """The other side of a loopback connection has the very same clock: the true offset is 0."""
    begin = time.monotonic()
    source = connect(there(sshd), 0.1)
    newest = None
    async with aclosing(session_of(source).follow()) as items:
        async for snapshot in items:
            newest = snapshot
            if snapshot.clock is not None and snapshot.counters is not None:
                break
        await source.close()
    assert newest is not None and newest.clock is not None and newest.counters is not None
    found = moment(newest.clock, newest.counters.time)
    assert 0 < found.uncertainty < time.monotonic() - begin
    assert abs(found.time - newest.counters.time) <= found.uncertainty
    here = LocalClock(time.monotonic(), time.time())
    assert clock_words(newest, here).startswith("time of day equal · clock known to ")


async def test_sudo_is_asked_for_by_the_host_or_for_all(sshd: Sshd) -> None:
    sshd.tool("sudo", "#!/bin/sh\necho 'not in sudoers' >&2\nexit 1\n")
    source = connect(there(sshd), sudo=True)
    async with aclosing(source.items()) as items:  # type: ignore[type-var]
        failed = await state(items, "failed")
    assert "not in sudoers" in failed.message


async def test_without_anybody_to_ask_an_unknown_host_key_is_refused_with_the_way_out(sshd: Sshd) -> None:
    known_hosts().write_text("")
    source = connect(there(sshd))
    async with aclosing(source.items()) as items:  # type: ignore[type-var]
        failed = await state(items, "failed")
    assert "is not known (ssh-ed25519 SHA256:" in failed.message
    assert "--accept-new-host-keys" in failed.message
    assert known_hosts().read_text() == ""


async def test_an_unknown_host_key_can_be_opted_for_and_is_written_down(sshd: Sshd) -> None:
    known_hosts().write_text("")
    source = connect(there(sshd), 0.1, accept_new_host_keys=True)
    async with aclosing(source.items()) as items:  # type: ignore[type-var]
        await until(items, has("hello"))
        await source.close()
    assert known_hosts().read_text().split()[0] == f"[{sshd.address}]:{sshd.port}"


async def test_who_is_there_to_ask_is_asked(sshd: Sshd) -> None:
    known_hosts().write_text("")
    asked: list[Question] = []

    async def no(question: Question) -> str | None:
        asked.append(question)
        return None

    source = connect(there(sshd), ask=no)
    async with aclosing(source.items()) as items:  # type: ignore[type-var]
        failed = await state(items, "failed")
    assert [question.kind for question in asked] == ["host_key"]
    assert "was not accepted" in failed.message
