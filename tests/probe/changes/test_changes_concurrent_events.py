"""Events between plan, change and undo: links are renamed or removed, the guard is stopped, other
users take its locks. The changed link ends as it was before, and no other link is changed."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

import pytest

from nictop.probe.changes import locks
from nictop.probe.changes.locks import LOCK_NAME_PREFIX
from nictop.probe.plan.grammar.actions import parse_action
from nictop.probe.plan.ifindexes import refuse_other_link, with_current_name, with_name
from tests.probe.changes import test_changes
from tests.support.changes import (
    ADDRESS,
    CHANNELS,
    LINK,
    MTU,
    PEER,
    SEVERAL_ACTIONS,
    Actions,
    ChangeClient,
    change_client,
    guards_in,
    prepare_host,
    read_state,
    wait_for_no_process_left,
)
from tests.support.namespaces import Namespace
from tests.support.probe import TEST_TIMEOUT

OTHER_NAME = "nic9"
NOBODY_UID = 65534
LOCK_PROGRAM = """
import os, socket, sys
os.setuid(int(sys.argv[1]))
one = socket.socket(socket.AF_UNIX)
while True:
    try:
        one.bind("\\0" + sys.argv[2])
        break
    except OSError:
        pass
if sys.argv[3] == "listen":
    one.listen(1)
print("locked", flush=True)
sys.stdin.read()
"""


host = test_changes.host
"""A namespace with links to change."""


def rename(host: Namespace, old: str, new: str) -> None:
    host.run(["ip", "link", "set", "dev", old, "name", new])


def apply_change(change: ChangeClient, actions: Actions, keep_within: float = 60.0) -> None:
    change.apply(actions, keep_within)
    change.wait_for("applied")


def undo_by_request(change: ChangeClient) -> None:
    change.request("undo")
    assert change.wait_for("undone").text == "on request"


def undo_by_rescue(change: ChangeClient, host: Namespace) -> None:
    """By the process that replaces a killed guard."""
    (guard,) = guards_in(host)
    os.kill(guard, signal.SIGKILL)
    assert change.wait_for("undone").text == "the rollback process was killed"


@pytest.mark.parametrize("swapped", [False, True], ids=["renamed", "names swapped"])
@pytest.mark.parametrize("killed", [False, True], ids=["guard", "rescue"])
def test_renamed_link_is_restored(host: Namespace, swapped: bool, killed: bool) -> None:
    """Also when another link has its old name by then; that one is not changed."""
    old, others = read_state(host), read_state(host, PEER)
    with change_client(host) as change:
        apply_change(change, SEVERAL_ACTIONS)
        rename(host, LINK, OTHER_NAME)
        if swapped:
            rename(host, PEER, LINK)
            host.run(["ip", "link", "set", "dev", LINK, "mtu", "1400"])
            others = read_state(host, LINK)
        if killed:
            undo_by_rescue(change, host)
        else:
            undo_by_request(change)
    wait_for_no_process_left(host)
    if swapped:
        assert read_state(host, LINK) == others
        rename(host, LINK, PEER)
    rename(host, OTHER_NAME, LINK)
    assert read_state(host) == old


def test_removed_link_is_reported_and_its_successor_untouched(host: Namespace) -> None:
    with change_client(host) as change:
        apply_change(change, [*MTU, *CHANNELS])
        host.run(["ip", "link", "del", "dev", LINK])
        prepare_host(host)
        host.run(["ip", "link", "set", "dev", LINK, "mtu", "1400"])
        new = read_state(host)
        change.request("undo")
        change.wait_for("undoing")
        line = change.wait_for("failed")
        assert f"interface {LINK} no longer exists" in line.text
        assert read_state(host) == new
    wait_for_no_process_left(host)


def test_other_link_with_the_prepared_name_is_not_changed(host: Namespace) -> None:
    """Its settings are the same as those of the prepared link."""
    with change_client(host) as change:
        shown = change.prepare(MTU)
        host.run(["ip", "link", "del", "dev", LINK])
        prepare_host(host)
        assert change.prepare(MTU).plan == shown.plan
        new = read_state(host)
        change.request("apply", actions=MTU, fingerprint=shown.fingerprint, keep_within=5)
        assert "has changed since" in change.wait_for("refused").text
        assert read_state(host) == new


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("ethtool -L a combined 4", "ethtool -L b combined 4"),
        ("ip link set dev dev mtu 1500", "ip link set dev b mtu 1500"),
        (
            "ip link set dev vf vf 3 mac 02:00:00:00:00:01",
            "ip link set dev b vf 3 mac 02:00:00:00:00:01",
        ),
        ("ip address del 192.0.2.1/24 dev a", "ip address del 192.0.2.1/24 dev b"),
        (
            "write /sys/class/net/net/queues/rx-0/rps_cpus 1",
            "write /sys/class/net/b/queues/rx-0/rps_cpus 1",
        ),
        (
            "write /sys/class/net/a/device/sriov_numvfs 0",
            "write /sys/class/net/b/device/sriov_numvfs 0",
        ),
    ],
)
def test_link_name_is_replaced_in_every_kind(line: str, expected: str) -> None:
    assert " ".join(with_name(parse_action(line.split(), undoing=True), "b")) == expected


def test_operation_without_link_and_other_link() -> None:
    affinity = parse_action(["write", "/proc/irq/30/smp_affinity_list", "1"])
    assert with_current_name(affinity, {"a": 1}) is affinity
    refuse_other_link("", {"a": 1})
    with pytest.raises(ValueError, match="lo is now another interface"):
        refuse_other_link("lo", {"lo": 999_999})


# ------------------------------------------------------------------------------------------ stopped


def deadline_passes(change: ChangeClient) -> None:
    """Nothing is sent to it."""
    change.wait_for("undone")


def undo_is_requested(change: ChangeClient) -> None:
    change.request("undo")
    change.wait_for("undone")


def connection_ends(change: ChangeClient) -> None:
    assert change.probe.process.stdin is not None
    change.probe.process.stdin.close()
    change.probe.process.wait(TEST_TIMEOUT)


@pytest.mark.parametrize(
    ("event", "keep_within"),
    [(deadline_passes, 10.0), (undo_is_requested, 600.0), (connection_ends, 600.0)],
    ids=["deadline", "undo", "disconnected"],
)
def test_stopped_guard_is_replaced(
    host: Namespace, event: Callable[[ChangeClient], None], keep_within: float
) -> None:
    """A stopped guard does not roll back; another process must."""
    old = read_state(host)
    with change_client(host) as change:
        apply_change(change, SEVERAL_ACTIONS, keep_within)
        (guard,) = guards_in(host)
        os.kill(guard, signal.SIGSTOP)
        event(change)
        wait_for_no_process_left(host, *change.probe.pids())
        assert read_state(host) == old
    wait_for_no_process_left(host)


# ----------------------------------------------------------------------------- locks of other users


@contextmanager
def lock_process(
    host: Namespace, subject: str, mode: str, user: int = NOBODY_UID
) -> Iterator[subprocess.Popen[bytes]]:
    """A process of `user` that takes a lock as soon as it is free, and holds it."""
    words = [sys.executable, "-c", LOCK_PROGRAM, str(user), LOCK_NAME_PREFIX[1:] + subject, mode]
    with subprocess.Popen(
        ["ip", "netns", "exec", host.name, *words], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def acquire_lock(subject: str) -> str:
    """Why it could not be acquired; "" if it could."""
    try:
        locks.acquire([subject], 0.1).close()
    except ValueError as error:
        return str(error)
    return ""


def wait_until_locked(process: subprocess.Popen[bytes]) -> None:
    assert process.stdout is not None and process.stdout.readline() == b"locked\n"


def test_lock_of_an_unprivileged_user_does_not_block_undo(host: Namespace) -> None:
    """Any user may bind a socket of that name, also between the end of a guard and its
    replacement."""
    old = read_state(host)
    number = host.call(lambda: socket.if_nametoindex(LINK))
    with change_client(host) as change:
        apply_change(change, SEVERAL_ACTIONS)
        (guard,) = guards_in(host)
        with lock_process(host, f"link {number}", "listen") as process:
            change.probe.process.send_signal(signal.SIGSTOP)
            os.kill(guard, signal.SIGKILL)
            wait_until_locked(process)
            change.probe.process.send_signal(signal.SIGCONT)
            assert change.wait_for("undone").text == "the rollback process was killed"
            assert read_state(host) == old
            change.request("prepare", actions=ADDRESS)
            change.wait_for("prepared")
    wait_for_no_process_left(host)


def test_lock_holder_can_be_queried_repeatedly(host: Namespace) -> None:
    def refused() -> str:
        with pytest.raises(ValueError, match="in progress") as error:
            locks.acquire(["one"])
        return str(error.value)

    def query() -> set[str]:
        held = locks.acquire(["one"])
        try:
            return {refused() for _ in range(20)}
        finally:
            held.close()

    (text,) = host.call(query)
    assert f"process {os.getpid()} of " in text


def test_lock_of_another_change_is_respected(host: Namespace) -> None:
    with lock_process(host, "one", "listen", user=os.geteuid()) as process:
        wait_until_locked(process)
        assert f"process {process.pid} of " in host.call(lambda: acquire_lock("one"))
    assert not host.call(lambda: acquire_lock("one"))
    with lock_process(host, "one", "only bind", user=os.geteuid()) as process:
        wait_until_locked(process)
        assert f"process {process.pid} of " in host.call(lambda: acquire_lock("one")), (
            "it does not listen yet"
        )


@pytest.mark.parametrize("mode", ["listen", "only bind"])
def test_a_socket_of_another_user_is_no_lock(host: Namespace, mode: str) -> None:
    """Else any user could forbid all changes."""
    with lock_process(host, "one", mode) as process:
        wait_until_locked(process)
        assert host.call(lambda: locks.lock_holder("one")) == (process.pid, NOBODY_UID)
        assert not host.call(lambda: acquire_lock("one"))


def test_a_lock_is_respected_when_others_fill_its_backlog(host: Namespace) -> None:
    """Any user may connect to it as often as it accepts."""

    def refused_with_full_backlog() -> str:
        held = locks.acquire(["one"])
        clients = []
        try:
            for _ in range(locks.MAX_HOLDER_QUERIES + 1):
                clients.append(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM))
                clients[-1].setblocking(False)
                with suppress(BlockingIOError):
                    clients[-1].connect(LOCK_NAME_PREFIX + "one")
            return acquire_lock("one")
        finally:
            held.close()
            for client in clients:
                client.close()

    assert "process " in host.call(refused_with_full_backlog)
