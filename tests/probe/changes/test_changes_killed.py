"""A process that takes part in a change is killed at each stage: the host ends as before, or with
the confirmed change, as ip, ethtool and grep read it; and no process is left."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from nictop.probe.changes.executor import CLOSE_TIMEOUT
from nictop.probe.kernel.daemonize import OOM_SCORE_ADJ_MIN
from nictop.probe.records import MIN_KEEP_WITHIN
from tests.support.changes import (
    KINDS,
    ChangeClient,
    SshProbe,
    change_client,
    expected_state,
    guards_in,
    prepare_host,
    processes_in,
    read_state,
    replace_links,
    ssh_command,
    wait_for_no_process_left,
    watchers_in,
)
from tests.support.kills import kill_matrix
from tests.support.namespaces import Namespace, why_no_namespaces
from tests.support.probe import TEST_TIMEOUT, Probe, is_alive, wait_until
from tests.support.sshd import Sshd, why_no_sshd

STAGES = ("requested", "applying", "half", "applied", "keep", "undo", "undoing")
PROCESSES = ("client", "probe", "guard", "guard-by-sigterm")
CONNECTIONS = ("ssh", "sshd-session")
PAIRS = ("probe and guard", "probe and watcher", "guard and watcher")
"""Killed at once: the third process rolls back."""
RESCUES_KILLED = 3
"""Processes that are killed one after another: the guard, and those that roll back for it."""
CGROUP_ROOTS = (Path("/sys/fs/cgroup"), Path("/sys/fs/cgroup/unified"))
PROBE_ARGUMENTS = ["--interval", "60", "--heartbeat", "60", "--allow-changes"]


class Host:
    """A namespace shared by tests, as long as each leaves it unchanged."""

    def __init__(self) -> None:
        self.namespace = Namespace()
        prepare_host(self.namespace)
        self.old = read_state(self.namespace)
        self._new: dict[str, str] = {}

    def is_unchanged(self) -> bool:
        return not processes_in(self.namespace) and read_state(self.namespace) == self.old

    def changed_state(self, kind: str) -> str:
        """Its state after one kind of change, made by other tools."""
        if kind not in self._new:
            self._new[kind] = expected_state(self.namespace, kind)
        return self._new[kind]

    def check_final_state(self, stage: str, kind: str, reported: str) -> None:
        """The old state, or the new one after "keep"; and the reports agree with it. A kept change
        is removed for the next test."""
        wait_for_no_process_left(self.namespace)
        now = read_state(self.namespace)
        if now == self.old:
            assert reported in ("", "undone", "refused")
            return
        assert stage == "keep" and reported in ("", "kept")
        replace_links(self.namespace)
        assert now == self.changed_state(kind)


@pytest.fixture(scope="module")
def hosts() -> Iterator[list[Host]]:
    """The host in use comes last."""
    reason = why_no_namespaces()
    if reason is not None or shutil.which("ethtool") is None:
        pytest.skip(reason or "ethtool is not installed")
    created: list[Host] = []
    yield created
    for host in created:
        host.namespace.remove()


@pytest.fixture
def host(hosts: list[Host]) -> Host:
    """A new one when the last test has not left it unchanged."""
    if not hosts or not hosts[-1].is_unchanged():
        hosts.append(Host())
    return hosts[-1]


class NamespaceSshd:
    """An sshd whose sessions run in the namespace that is named in a file."""

    def __init__(self, folder: Path) -> None:
        self._name = folder / "namespace"
        command = (
            f'exec {shutil.which("ip")} netns exec "$(cat {self._name})" sh -c '
            f'"$SSH_ORIGINAL_COMMAND"'
        )
        self.sshd = Sshd(folder, options=(f"ForceCommand {command}",))
        self.sshd.set_python(sys.executable)

    @contextmanager
    def changing(self, host: Host) -> Iterator[ChangeClient]:
        """A probe started there over ssh."""
        self._name.write_text(host.namespace.name)
        sshd = self.sshd
        with SshProbe(
            ssh_command(sshd.address, sshd.port, sshd.user, sshd.key, sshd.known_hosts),
            PROBE_ARGUMENTS,
        ) as probe:
            yield ChangeClient(probe)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NamespaceSshd]:
    reason = why_no_sshd() or (None if shutil.which("ssh") else "openssh-client is not installed")
    if reason is not None:
        pytest.skip(reason)
    server = NamespaceSshd(tmp_path_factory.mktemp("sshd"))
    yield server
    server.sshd.stop()


def advance_to(change: ChangeClient, stage: str, host: Host) -> None:
    """Continue a change that was just requested up to a stage."""
    namespace = host.namespace
    if stage == "half":
        wait_until(lambda: read_state(namespace) != host.old or not guards_in(namespace))
    elif stage == "applying":
        change.wait_for("applying")
    elif stage != "requested":
        change.wait_for("applied")
    if stage in ("keep", "undo", "undoing"):
        change.request("keep" if stage == "keep" else "undo")
    if stage == "undoing":
        change.wait_for("undoing")


def kill_guard(
    change: ChangeClient, host: Host, signal_number: signal.Signals, killed: Sequence[int] = ()
) -> list[int]:
    """Kill the guard that runs now or next, except those already `killed`; returns its pid, or
    nothing when the change ends first."""

    def remaining_guards() -> list[int]:
        return [pid for pid in guards_in(host.namespace) if pid not in killed]

    while True:
        ended = change.has_ended()
        for pid in remaining_guards()[:1]:
            with suppress(ProcessLookupError):
                os.kill(pid, signal_number)
            return [pid]
        if ended:
            return []


def close_stdin(probe: Probe) -> None:
    assert probe.process.stdin is not None
    probe.process.stdin.close()


def kill_process(change: ChangeClient, victim: str, host: Host) -> str:
    """Kill one process of the change; returns the final report, if the probe is still there to
    receive it."""
    if victim == "client":
        close_stdin(change.probe)
    elif victim == "probe":
        change.probe.process.kill()
    else:
        kill_guard(change, host, signal.SIGKILL if victim == "guard" else signal.SIGTERM)
        reported = change.wait_for_end()
        assert is_alive(change.probe.process.pid)
        return reported
    return ""


def keep_within(stage: str) -> float:
    """Seconds. Right after a request there may be no process to kill yet: then the change is
    applied, and undone at its deadline."""
    return MIN_KEEP_WITHIN if stage == "requested" else 60.0


@kill_matrix(STAGES, tuple(KINDS), victims=PROCESSES)
def test_process_killed(host: Host, *, stage: str, kill: int, victim: str, variant: str) -> None:
    with change_client(host.namespace) as change:
        change.apply(KINDS[variant], keep_within=keep_within(stage))
        advance_to(change, stage, host)
        reported = kill_process(change, victim, host)
    host.check_final_state(stage, variant, reported)


@kill_matrix(STAGES, tuple(KINDS), victims=CONNECTIONS)
def test_connection_killed(
    host: Host, server: NamespaceSshd, *, stage: str, kill: int, victim: str, variant: str
) -> None:
    with server.changing(host) as change:
        change.apply(KINDS[variant], keep_within=keep_within(stage))
        advance_to(change, stage, host)
        session = server.sshd.sessions()[0]
        os.kill(session if victim == "sshd-session" else change.probe.process.pid, signal.SIGKILL)
    host.check_final_state(stage, variant, "")
    wait_until(lambda: not server.sshd.sessions())


@kill_matrix(("applied",), tuple(KINDS))
def test_rescues_killed(host: Host, *, stage: str, kill: int, variant: str) -> None:
    """The guard and then each process that rolls back for it are killed; the next one continues."""
    killed: list[int] = []
    with change_client(host.namespace) as change:
        change.apply(KINDS[variant])
        change.wait_for(stage)
        for _ in range(RESCUES_KILLED):
            killed += kill_guard(change, host, signal.SIGKILL, killed)
        reported = change.wait_for_end()
        assert reported == "undone" and killed
    host.check_final_state(stage, variant, reported)


@kill_matrix(("applied",), tuple(KINDS))
def test_probe_ends_right_after_its_guard_was_killed(
    host: Host, *, stage: str, kill: int, variant: str
) -> None:
    """The probe is stopped, so that it notices both at once: it must still start a process that
    rolls back."""
    with change_client(host.namespace) as change:
        change.apply(KINDS[variant])
        change.wait_for(stage)
        process = change.probe.process
        process.send_signal(signal.SIGSTOP)
        kill_guard(change, host, signal.SIGKILL)
        close_stdin(change.probe)
        process.send_signal(signal.SIGCONT)
    host.check_final_state(stage, variant, "")


def stop_and_kill(pids: Sequence[int]) -> None:
    """Kill processes at once: none of them notices the end of another."""
    for signal_number in (signal.SIGSTOP, signal.SIGKILL):
        for pid in pids:
            with suppress(ProcessLookupError):
                os.kill(pid, signal_number)


@kill_matrix(STAGES, tuple(KINDS), victims=PAIRS)
def test_two_processes_killed_at_once(
    host: Host, *, stage: str, kill: int, victim: str, variant: str
) -> None:
    with change_client(host.namespace) as change:
        change.apply(KINDS[variant], keep_within=keep_within(stage))
        advance_to(change, stage, host)
        found = {
            "probe": [change.probe.process.pid],
            "guard": guards_in(host.namespace),
            "watcher": watchers_in(host.namespace),
        }
        stop_and_kill([pid for name in victim.split(" and ") for pid in found[name]])
        reported = "" if "probe" in victim else change.wait_for_end()
    host.check_final_state(stage, variant, reported)


@pytest.mark.parametrize("stopped", ["guard", "watcher"])
@pytest.mark.parametrize("stage", ["applied", "undoing"])
def test_stopped_process_without_a_probe(host: Host, stopped: str, stage: str) -> None:
    """One of guard and watcher is stopped, then the probe is killed: the other one rolls back."""
    with change_client(host.namespace) as change:
        change.apply(KINDS["several"])
        change.wait_for("applied")
        pids = guards_in(host.namespace) if stopped == "guard" else watchers_in(host.namespace)
        for pid in pids:
            os.kill(pid, signal.SIGSTOP)
        change.probe.process.kill()
        wait_until(lambda: read_state(host.namespace) == host.old)
        for pid in pids:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)
    host.check_final_state("applied", "several", "")


def test_all_processes_stopped_until_the_deadline_has_passed(host: Host) -> None:
    """As when a virtual machine is paused and its clocks continue, or its control group is
    frozen."""
    with change_client(host.namespace) as change:
        change.apply(KINDS["several"], keep_within=MIN_KEEP_WITHIN)
        deadline = change.wait_for("applied").deadline
        assert deadline is not None
        pids = [change.probe.process.pid, *guards_in(host.namespace), *watchers_in(host.namespace)]
        assert len(pids) == 3
        for pid in pids:
            os.kill(pid, signal.SIGSTOP)
        wait_until(lambda: time.monotonic() > deadline)
        assert read_state(host.namespace) != host.old
        for pid in pids:
            os.kill(pid, signal.SIGCONT)
        reported = change.wait_for_end()
        assert reported == "undone"
    host.check_final_state("applied", "several", reported)


def test_stopped_watcher_does_not_delay_the_end_of_the_probe(host: Host) -> None:
    with change_client(host.namespace) as change:
        change.apply(KINDS["mtu"])
        change.wait_for("applied")
        (watcher,) = watchers_in(host.namespace)
        os.kill(watcher, signal.SIGSTOP)
        close_stdin(change.probe)
        change.probe.process.wait(CLOSE_TIMEOUT - 1)
        assert read_state(host.namespace) == host.old
        os.kill(watcher, signal.SIGCONT)
    host.check_final_state("applied", "mtu", "")


@contextmanager
def control_group(name: str) -> Iterator[Path]:
    """A control group of version 2 that can be killed as a whole."""
    root = next((one for one in CGROUP_ROOTS if (one / "cgroup.procs").exists()), None)
    if root is None:
        pytest.skip("no control groups of version 2")
    folder = root / name
    folder.mkdir()
    try:
        if not (folder / "cgroup.kill").exists():
            pytest.skip("this kernel has no cgroup.kill")
        yield folder
    finally:
        wait_until(lambda: not (folder / "cgroup.procs").read_text())
        folder.rmdir()


@contextmanager
def change_client_with_control_groups(namespace: Namespace) -> Iterator[ChangeClient]:
    """``ip netns exec`` mounts another /sys, without control groups."""
    entered = ["nsenter", f"--net=/run/netns/{namespace.name}"]
    with Probe(*PROBE_ARGUMENTS, prefix=entered) as probe:
        yield ChangeClient(probe)


@pytest.mark.parametrize("variant", ["mtu", "no address"])
def test_control_group_of_the_session_is_killed(host: Host, variant: str) -> None:
    """As by a login manager, or by the kernel when the group is out of memory
    (memory.oom.group)."""
    group = control_group(f"{host.namespace.name}-session")
    with group as folder, change_client_with_control_groups(host.namespace) as change:
        (folder / "cgroup.procs").write_text(str(change.probe.process.pid))
        change.apply(KINDS[variant])
        change.wait_for("applied")
        (folder / "cgroup.kill").write_text("1")
        change.probe.process.wait(TEST_TIMEOUT)
        wait_until(lambda: read_state(host.namespace) == host.old)
    host.check_final_state("applied", variant, "")


def may_refuse_oom_kill() -> bool:
    """Lowering the score needs CAP_SYS_RESOURCE."""
    words = ["sh", "-c", f"echo {OOM_SCORE_ADJ_MIN} > /proc/self/oom_score_adj"]
    return subprocess.run(words, capture_output=True, check=False).returncode == 0


@pytest.mark.skipif(not may_refuse_oom_kill(), reason="no CAP_SYS_RESOURCE")
def test_kernel_does_not_choose_the_rollback_processes_when_memory_is_short(host: Host) -> None:
    with change_client(host.namespace) as change:
        change.apply(KINDS["mtu"])
        change.wait_for("applied")
        pids = guards_in(host.namespace) + watchers_in(host.namespace)
        assert len(pids) == 2
        scores = {Path(f"/proc/{pid}/oom_score_adj").read_text().strip() for pid in pids}
        assert scores == {str(OOM_SCORE_ADJ_MIN)}
        assert Path(f"/proc/{change.probe.process.pid}/oom_score_adj").read_text().strip() != str(
            OOM_SCORE_ADJ_MIN
        )
    host.check_final_state("applied", "mtu", "")
