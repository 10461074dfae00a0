"""What else happens to a host while its change is shown or waits to be kept: links get other names or go, the guard is
stopped, somebody without rights takes its locks. The link that was changed ends as it was, and no other one is touched.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from nictop.probe.changes import locks
from nictop.probe.changes.grammar.actions import parse_action
from nictop.probe.changes.locks import PREFIX
from nictop.probe.changes.plan.ifindexes import as_called_now, refuse_another, renamed
from tests.probe.changes import test_changes
from tests.support.changes import (
    ADDRESS,
    CHANNELS,
    LINK,
    MTU,
    PEER,
    SEVERAL,
    Actions,
    Changing,
    changing,
    guards_in,
    prepare_host,
    state_of,
    wait_for_no_process_left,
)
from tests.support.namespaces import Namespace
from tests.support.probe import LIMIT

OTHER = "nic9"
NOBODY = 65534
SQUAT = """
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
print("taken", flush=True)
sys.stdin.read()
"""


host = test_changes.host
"""The fixture: a namespace with links to change."""


def rename(host: Namespace, old: str, new: str) -> None:
    host.run(["ip", "link", "set", "dev", old, "name", new])


def applied(change: Changing, actions: Actions, keep_within: float = 60.0) -> None:
    change.apply(actions, keep_within)
    change.said("applied")


def undone_by_asking(change: Changing) -> None:
    change.ask("undo")
    assert change.said("undone").text == "as asked"


def undone_by_another(change: Changing, host: Namespace) -> None:
    """By whoever comes in the place of a guard that was killed."""
    (guard,) = guards_in(host)
    os.kill(guard, signal.SIGKILL)
    assert change.said("undone").text == "the guard was killed"


@pytest.mark.parametrize("swapped", [False, True], ids=["renamed", "names swapped"])
@pytest.mark.parametrize("killed", [False, True], ids=["guard", "rescue"])
def test_a_link_that_got_another_name_is_put_back(host: Namespace, swapped: bool, killed: bool) -> None:
    """Also when its old name is that of another link by now, which is left alone."""
    old, others = state_of(host), state_of(host, PEER)
    with changing(host) as change:
        applied(change, SEVERAL)
        rename(host, LINK, OTHER)
        if swapped:
            rename(host, PEER, LINK)
            host.run(["ip", "link", "set", "dev", LINK, "mtu", "1400"])
            others = state_of(host, LINK)
        if killed:
            undone_by_another(change, host)
        else:
            undone_by_asking(change)
    wait_for_no_process_left(host)
    if swapped:
        assert state_of(host, LINK) == others
        rename(host, LINK, PEER)
    rename(host, OTHER, LINK)
    assert state_of(host) == old


def test_a_link_that_has_gone_is_said_and_another_of_its_name_left_alone(host: Namespace) -> None:
    with changing(host) as change:
        applied(change, [*MTU, *CHANNELS])
        host.run(["ip", "link", "del", "dev", LINK])
        prepare_host(host)
        host.run(["ip", "link", "set", "dev", LINK, "mtu", "1400"])
        new = state_of(host)
        change.ask("undo")
        change.said("undoing")
        line = change.said("failed")
        assert f"the interface that was {LINK} is not there any more" in line.text
        assert state_of(host) == new
    wait_for_no_process_left(host)


def test_another_link_of_the_name_that_was_shown_is_not_changed(host: Namespace) -> None:
    """It looks the same to the last setting."""
    with changing(host) as change:
        shown = change.prepared(MTU)
        host.run(["ip", "link", "del", "dev", LINK])
        prepare_host(host)
        assert change.prepared(MTU).plan == shown.plan
        new = state_of(host)
        change.ask("apply", actions=MTU, fingerprint=shown.fingerprint, keep_within=5)
        assert "has changed since" in change.said("refused").text
        assert state_of(host) == new


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("ethtool -L a combined 4", "ethtool -L b combined 4"),
        ("ip link set dev dev mtu 1500", "ip link set dev b mtu 1500"),
        ("ip link set dev vf vf 3 mac 02:00:00:00:00:01", "ip link set dev b vf 3 mac 02:00:00:00:00:01"),
        ("ip address del 192.0.2.1/24 dev a", "ip address del 192.0.2.1/24 dev b"),
        ("write /sys/class/net/net/queues/rx-0/rps_cpus 1", "write /sys/class/net/b/queues/rx-0/rps_cpus 1"),
        ("write /sys/class/net/a/device/sriov_numvfs 0", "write /sys/class/net/b/device/sriov_numvfs 0"),
    ],
)
def test_names_in_the_words_of_every_kind(line: str, expected: str) -> None:
    assert " ".join(renamed(parse_action(line.split(), undoing=True), "b")) == expected


def test_what_names_no_link_is_the_same_and_another_link_is_refused() -> None:
    affinity = parse_action(["write", "/proc/irq/30/smp_affinity_list", "1"])
    assert as_called_now(affinity, {"a": 1}) is affinity
    refuse_another("", {"a": 1})
    with pytest.raises(ValueError, match="lo is not the interface any more"):
        refuse_another("lo", {"lo": 999_999})


# ------------------------------------------------------------------------------------------- stopped


def its_time_is_over(change: Changing) -> None:
    """Nothing is said to it."""
    change.said("undone")


def it_is_asked_to_undo(change: Changing) -> None:
    change.ask("undo")
    change.said("undone")


def the_connection_goes(change: Changing) -> None:
    assert change.probe.process.stdin is not None
    change.probe.process.stdin.close()
    change.probe.process.wait(LIMIT)


@pytest.mark.parametrize(
    ("event", "keep_within"),
    [(its_time_is_over, 10.0), (it_is_asked_to_undo, 600.0), (the_connection_goes, 600.0)],
    ids=["late", "undo", "gone"],
)
def test_a_guard_that_is_stopped(host: Namespace, event: Callable[[Changing], None], keep_within: float) -> None:
    """It would take nothing back until somebody lets it go on, and what nobody kept would stay."""
    old = state_of(host)
    with changing(host) as change:
        applied(change, SEVERAL, keep_within)
        (guard,) = guards_in(host)
        os.kill(guard, signal.SIGSTOP)
        event(change)
        wait_for_no_process_left(host, change.probe.process.pid)
        assert state_of(host) == old
    wait_for_no_process_left(host)


# ------------------------------------------------------------------------------------------- strangers


@contextmanager
def squatter(host: Namespace, subject: str, how: str, user: int = NOBODY) -> Iterator[subprocess.Popen[bytes]]:
    """Somebody who takes a lock as soon as it is free, and keeps it."""
    words = [sys.executable, "-c", SQUAT, str(user), PREFIX[1:] + subject, how]
    with subprocess.Popen(
        ["ip", "netns", "exec", host.name, *words], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def said_taken(process: subprocess.Popen[bytes]) -> None:
    assert process.stdout is not None and process.stdout.readline() == b"taken\n"


def test_a_lock_that_somebody_without_rights_took_keeps_nothing_from_being_taken_back(host: Namespace) -> None:
    """Anybody may give a socket such a name, and may do it between a guard's end and whoever takes its place."""
    old = state_of(host)
    number = host.inside(lambda: socket.if_nametoindex(LINK))
    with changing(host) as change:
        applied(change, SEVERAL)
        (guard,) = guards_in(host)
        with squatter(host, f"link {number}", "listen") as somebody:
            change.probe.process.send_signal(signal.SIGSTOP)
            os.kill(guard, signal.SIGKILL)
            said_taken(somebody)
            change.probe.process.send_signal(signal.SIGCONT)
            assert change.said("undone").text == "the guard was killed"
            assert state_of(host) == old
            change.ask("prepare", actions=ADDRESS)
            assert "is under way" in change.said("refused").text, "a second change is still refused"
    wait_for_no_process_left(host)


def test_whose_a_lock_is_can_be_asked_again_and_again(host: Namespace) -> None:
    def refused() -> str:
        with pytest.raises(ValueError, match="under way") as why:
            locks.take(["one"])
        return str(why.value)

    def ask() -> set[str]:
        held = locks.take(["one"])
        try:
            return {refused() for _ in range(20)}
        finally:
            held.close()

    (said,) = host.inside(ask)
    assert f"process {os.getpid()} of " in said


def test_a_lock_of_another_change_is_respected(host: Namespace) -> None:
    def take_after(held: str) -> str:
        try:
            locks.take([held], 0.1, despite_strangers=True).close()
        except ValueError as error:
            return str(error)
        return ""

    with squatter(host, "one", "listen", user=os.geteuid()) as somebody:
        said_taken(somebody)
        assert f"process {somebody.pid} of " in host.inside(lambda: take_after("one"))
    assert not host.inside(lambda: take_after("one"))
    with squatter(host, "one", "only bind") as somebody:
        said_taken(somebody)
        assert not host.inside(lambda: take_after("one")), "nobody says whose it is"
