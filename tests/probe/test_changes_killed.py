"""Killed at every stage, twenty times each: the host ends as it was, or with the change that was confirmed, as ip,
ethtool and cat see it; and nobody stays behind."""

from __future__ import annotations

import contextlib
import itertools
import os
import shutil
import signal
import sys
from pathlib import Path

import pytest

from tests.support.changes import (
    KINDS,
    Changing,
    ProbeBySsh,
    begin_again,
    changing,
    guards_in,
    nobody_stays,
    prepare_host,
    ssh_command,
    state_of,
    states_after,
)
from tests.support.namespaces import Namespace
from tests.support.probe import alive, wait_until
from tests.support.sshd import Sshd, skip_without_sshd

TIMES = 20
STAGES = ("asked", "applying", "half", "applied", "keep", "undo", "undoing")
PROBE = ["--interval", "60", "--heartbeat", "60", "--allow-changes"]


@pytest.fixture
def host(namespace: Namespace) -> Namespace:
    if shutil.which("ethtool") is None:
        pytest.skip("ethtool is not installed")
    prepare_host(namespace)
    return namespace


def reach(change: Changing, stage: str, host: Namespace, old: str) -> None:
    """Go on with a change that was just asked for, up to a stage of its life."""
    if stage == "half":
        wait_until(lambda: state_of(host) != old or not guards_in(host))
    elif stage == "applying":
        change.said("applying")
    elif stage != "asked":
        change.said("applied")
    if stage in ("keep", "undo", "undoing"):
        change.ask("keep" if stage == "keep" else "undo")
    if stage == "undoing":
        change.said("undoing")


def kill_guard(host: Namespace, number: signal.Signals) -> None:
    """The one that is there, or comes; or has gone already."""
    for _ in range(500):
        for pid in guards_in(host)[:1]:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)
            return


def check_end(host: Namespace, stage: str, said: str, states: tuple[str, str]) -> None:
    """Old, or confirmed and new; and what was said is true. A change that stayed is taken away for the next one."""
    old, new = states
    nobody_stays(host)
    now = state_of(host)
    if now == old:
        assert said in ("", "undone", "refused")
        return
    assert stage == "keep" and said in ("", "kept") and now == new
    begin_again(host)


@pytest.mark.parametrize("victim", ["client", "probe", "guard", "guard told to end"])
@pytest.mark.parametrize("stage", STAGES)
def test_a_process_is_killed(host: Namespace, stage: str, victim: str) -> None:
    after = states_after(host)
    old = state_of(host)
    for kind in itertools.islice(itertools.cycle(KINDS), TIMES):
        said = ""
        with changing(host) as change:
            change.apply(KINDS[kind])
            reach(change, stage, host, old)
            if victim == "client":
                assert change.probe.process.stdin is not None
                change.probe.process.stdin.close()
            elif victim == "probe":
                change.probe.process.kill()
            else:
                kill_guard(host, signal.SIGKILL if victim == "guard" else signal.SIGTERM)
                said = change.end()
                assert alive(change.probe.process.pid)
        check_end(host, stage, said, (old, after[kind]))


@pytest.mark.parametrize("victim", ["ssh", "sshd session"])
@pytest.mark.parametrize("stage", STAGES)
def test_a_connection_is_killed(host: Namespace, stage: str, victim: str, tmp_path: Path) -> None:
    skip_without_sshd()
    if shutil.which("ssh") is None:
        pytest.skip("openssh-client is not installed")
    after = states_after(host)
    old = state_of(host)
    inside = f'exec {shutil.which("ip")} netns exec {host.name} sh -c "$SSH_ORIGINAL_COMMAND"'
    server = Sshd(tmp_path, options=(f"ForceCommand {inside}",))
    try:
        server.python(sys.executable)
        client = ssh_command(server.address, server.port, server.user, server.key, server.known_hosts)
        for kind in itertools.islice(itertools.cycle(KINDS), TIMES):
            with ProbeBySsh(client, PROBE) as probe:
                change = Changing(probe)
                change.apply(KINDS[kind])
                reach(change, stage, host, old)
                session = server.sessions()[0]
                os.kill(session if victim == "sshd session" else probe.process.pid, signal.SIGKILL)
            check_end(host, stage, "", (old, after[kind]))
            wait_until(lambda: not server.sessions())
    finally:
        server.stop()


def test_whoever_takes_back_is_killed_as_well(host: Namespace) -> None:
    """The guard, and then everybody who comes in its place, as long as somebody is found: the next one goes on."""
    old = state_of(host)
    for kind in itertools.islice(itertools.cycle(KINDS), TIMES):
        with changing(host) as change:
            change.apply(KINDS[kind])
            change.said("applied")
            for _ in range(3):
                kill_guard(host, signal.SIGKILL)
            assert change.end() == "undone"
        check_end(host, "applied", "undone", (old, old))


def test_the_probe_goes_when_its_guard_has_just_been_killed(host: Namespace) -> None:
    """Stopped first, so that it sees both at the same time: it must still leave somebody who takes the change back."""
    old = state_of(host)
    for kind in itertools.islice(itertools.cycle(KINDS), TIMES):
        with changing(host) as change:
            change.apply(KINDS[kind])
            change.said("applied")
            process = change.probe.process
            process.send_signal(signal.SIGSTOP)
            kill_guard(host, signal.SIGKILL)
            assert process.stdin is not None
            process.stdin.close()
            process.send_signal(signal.SIGCONT)
        check_end(host, "applied", "", (old, old))
