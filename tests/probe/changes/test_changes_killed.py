"""A process that takes part in a change is killed at each stage: the host ends as it was, or with the change that was
confirmed, as ip, ethtool and grep see it; and no process is left."""

from __future__ import annotations

import os
import shutil
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from tests.support.changes import (
    KINDS,
    Changing,
    ProbeBySsh,
    changing,
    guards_in,
    make_links_anew,
    prepare_host,
    processes_in,
    ssh_command,
    state_after,
    state_of,
    wait_for_no_process_left,
)
from tests.support.kills import kill_matrix
from tests.support.namespaces import Namespace, why_impossible
from tests.support.probe import Probe, alive, wait_until
from tests.support.sshd import Sshd, why_no_sshd

STAGES = ("asked", "applying", "half", "applied", "keep", "undo", "undoing")
PROCESSES = ("client", "probe", "guard", "guard-by-sigterm")
CONNECTIONS = ("ssh", "sshd-session")
REPLACEMENTS = 3
"""Processes that are killed one after another: the guard, and those that take the change back in its place."""
PROBE = ["--interval", "60", "--heartbeat", "60", "--allow-changes"]


class Host:
    """A namespace that one test after another uses, as long as each leaves it as it was."""

    def __init__(self) -> None:
        self.namespace = Namespace()
        prepare_host(self.namespace)
        self.old = state_of(self.namespace)
        self._new: dict[str, str] = {}

    def is_as_it_was(self) -> bool:
        return not processes_in(self.namespace) and state_of(self.namespace) == self.old

    def new(self, kind: str) -> str:
        """Its state with one kind of change, made by other tools."""
        if kind not in self._new:
            self._new[kind] = state_after(self.namespace, kind)
        return self._new[kind]

    def check_end(self, stage: str, kind: str, said: str) -> None:
        """Old, or confirmed and new; and what was said is true. A change that stayed is removed for the next test."""
        wait_for_no_process_left(self.namespace)
        now = state_of(self.namespace)
        if now == self.old:
            assert said in ("", "undone", "refused")
            return
        assert stage == "keep" and said in ("", "kept")
        make_links_anew(self.namespace)
        assert now == self.new(kind)


@pytest.fixture(scope="module")
def hosts() -> Iterator[list[Host]]:
    """The one that was used last comes last."""
    reason = why_impossible()
    if reason is not None or shutil.which("ethtool") is None:
        pytest.skip(reason or "ethtool is not installed")
    made: list[Host] = []
    yield made
    for host in made:
        host.namespace.remove()


@pytest.fixture
def host(hosts: list[Host]) -> Host:
    """A new one where the last test has not left the old one as it was."""
    if not hosts or not hosts[-1].is_as_it_was():
        hosts.append(Host())
    return hosts[-1]


class Server:
    """An sshd whose sessions are in the namespace that is named in a file."""

    def __init__(self, folder: Path) -> None:
        self._name = folder / "namespace"
        inside = f'exec {shutil.which("ip")} netns exec "$(cat {self._name})" sh -c "$SSH_ORIGINAL_COMMAND"'
        self.sshd = Sshd(folder, options=(f"ForceCommand {inside}",))
        self.sshd.python(sys.executable)

    @contextmanager
    def changing(self, host: Host) -> Iterator[Changing]:
        """A probe that ssh brings there."""
        self._name.write_text(host.namespace.name)
        end = self.sshd
        with ProbeBySsh(ssh_command(end.address, end.port, end.user, end.key, end.known_hosts), PROBE) as probe:
            yield Changing(probe)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    reason = why_no_sshd() or (None if shutil.which("ssh") else "openssh-client is not installed")
    if reason is not None:
        pytest.skip(reason)
    server = Server(tmp_path_factory.mktemp("sshd"))
    yield server
    server.sshd.stop()


def reach(change: Changing, stage: str, host: Host) -> None:
    """Go on with a change that was just asked for, up to a stage of its life."""
    namespace = host.namespace
    if stage == "half":
        wait_until(lambda: state_of(namespace) != host.old or not guards_in(namespace))
    elif stage == "applying":
        change.said("applying")
    elif stage != "asked":
        change.said("applied")
    if stage in ("keep", "undo", "undoing"):
        change.ask("keep" if stage == "keep" else "undo")
    if stage == "undoing":
        change.said("undoing")


def kill_guard(change: Changing, host: Host, number: signal.Signals, killed: Sequence[int] = ()) -> list[int]:
    """The one that is there or comes, but for those `killed` already; returns its pid, or nothing when the change has
    ended before one came."""

    def guards() -> list[int]:
        return [pid for pid in guards_in(host.namespace) if pid not in killed]

    while True:
        ended = change.has_ended()
        for pid in guards()[:1]:
            with suppress(ProcessLookupError):
                os.kill(pid, number)
            return [pid]
        if ended:
            return []


def close_stdin(probe: Probe) -> None:
    assert probe.process.stdin is not None
    probe.process.stdin.close()


def kill_process(change: Changing, victim: str, host: Host) -> str:
    """What is said then, as far as anybody is there to say it."""
    if victim == "client":
        close_stdin(change.probe)
    elif victim == "probe":
        change.probe.process.kill()
    else:
        kill_guard(change, host, signal.SIGKILL if victim == "guard" else signal.SIGTERM)
        said = change.end()
        assert alive(change.probe.process.pid)
        return said
    return ""


@kill_matrix(STAGES, tuple(KINDS), victims=PROCESSES)
def test_process_killed(host: Host, *, stage: str, kill: int, victim: str, variant: str) -> None:
    with changing(host.namespace) as change:
        change.apply(KINDS[variant])
        reach(change, stage, host)
        said = kill_process(change, victim, host)
    host.check_end(stage, variant, said)


@kill_matrix(STAGES, tuple(KINDS), victims=CONNECTIONS)
def test_connection_killed(host: Host, server: Server, *, stage: str, kill: int, victim: str, variant: str) -> None:
    with server.changing(host) as change:
        change.apply(KINDS[variant])
        reach(change, stage, host)
        session = server.sshd.sessions()[0]
        os.kill(session if victim == "sshd-session" else change.probe.process.pid, signal.SIGKILL)
    host.check_end(stage, variant, "")
    wait_until(lambda: not server.sshd.sessions())


@kill_matrix(("applied",), tuple(KINDS))
def test_replacements_of_the_guard_killed(host: Host, *, stage: str, kill: int, variant: str) -> None:
    """The guard, and then those that take the change back in its place, as long as one is found: the next one goes
    on."""
    killed: list[int] = []
    with changing(host.namespace) as change:
        change.apply(KINDS[variant])
        change.said(stage)
        for _ in range(REPLACEMENTS):
            killed += kill_guard(change, host, signal.SIGKILL, killed)
        said = change.end()
        assert said == "undone" and killed
    host.check_end(stage, variant, said)


@kill_matrix(("applied",), tuple(KINDS))
def test_probe_ends_when_its_guard_has_just_been_killed(host: Host, *, stage: str, kill: int, variant: str) -> None:
    """Stopped first, so that it sees both at the same time: it must still leave a process that takes the change
    back."""
    with changing(host.namespace) as change:
        change.apply(KINDS[variant])
        change.said(stage)
        process = change.probe.process
        process.send_signal(signal.SIGSTOP)
        kill_guard(change, host, signal.SIGKILL)
        close_stdin(change.probe)
        process.send_signal(signal.SIGCONT)
    host.check_end(stage, variant, "")
