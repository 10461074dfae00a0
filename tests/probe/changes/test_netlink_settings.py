"""Rollbacks set the kernel's settings by netlink: without programs, files and processes, and with
the same result as ip, bridge and ethtool."""

from __future__ import annotations

import errno
import os
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from nictop.probe.changes.apply import roll_back
from nictop.probe.changes.netlink_settings import ETHTOOL_MESSAGES, ROUTE_MESSAGES, set_by_netlink
from nictop.probe.kernel.netlink import NetlinkError
from nictop.probe.plan.current_state import Roots, read_state
from nictop.probe.plan.grammar.actions import parse_action
from nictop.probe.plan.undo import UndoActions, read_undo
from tests.probe.changes.test_changes_bridges_bonds import REAL, make_links, shown_state
from tests.support.changes import (
    ADDRESS,
    CHANNELS,
    FEATURES,
    LINK,
    MTU,
    QUEUES,
    REMOVE_ADDRESS,
    Actions,
    change_client,
    guards_in,
    prepare_host,
    run_without_nictop,
    wait_for_no_process_left,
)
from tests.support.changes import (
    read_state as shown_host,
)
from tests.support.namespaces import Namespace, why_no_namespaces
from tests.support.probe import Probe, wait_until

SETTINGS: dict[str, Actions] = {
    "mtu": MTU,
    "channels": CHANNELS,
    "features": FEATURES,
    "address": ADDRESS,
    "no address": REMOVE_ADDRESS,
    "no loopback address": [["ip", "address", "add", "127.0.0.9/8", "dev", LINK]],
    "IPv6 address": [["ip", "address", "add", "2001:db8::7/64", "dev", LINK]],
    "several": [*MTU, *ADDRESS, *FEATURES, *CHANNELS],
}
PROGRAM_KINDS = {
    "virtual function",
    "identify",
    "affinity",
    "steering",
    "virtual functions",
    "sysctl",
}
"""Undone by a program, by writing a file, or not at all."""

pytestmark = pytest.mark.skipif(why_no_namespaces() is not None, reason=str(why_no_namespaces()))


@contextmanager
def no_programs() -> Iterator[None]:
    """Every attempt to start one fails."""

    def refuse(*_: object, **__: object) -> int:
        raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fork", refuse)
        patch.setattr(subprocess, "Popen", refuse)
        yield


def undo_of(actions: Actions) -> UndoActions:
    """In the order of a rollback."""
    operations = [parse_action(words) for words in reversed(actions)]
    found = [read_undo(one, read_state(one, Roots()), (), Roots()) for one in operations]
    return tuple(words for undo in found for words in undo)


def rolled_back(namespace: Namespace, undo: UndoActions) -> list[str]:
    def roll_back_alone() -> list[str]:
        with no_programs():
            return roll_back(undo, Roots())

    return namespace.call(roll_back_alone)


@pytest.mark.parametrize("kind", SETTINGS)
def test_setting_is_restored_without_a_program(namespace: Namespace, kind: str) -> None:
    prepare_host(namespace)
    namespace.run(
        ["sh", "-c", f"echo 0 > {QUEUES}/rx-2/rps_cpus"]
    )  # this process sees another /sys
    if "IPv6" in kind:
        namespace.run(["sh", "-c", f"echo 0 > /proc/sys/net/ipv6/conf/{LINK}/disable_ipv6"])
    actions = SETTINGS[kind]
    old, undo = shown_host(namespace), namespace.call(lambda: undo_of(actions))
    run_without_nictop(namespace, actions)
    assert shown_host(namespace) != old
    assert rolled_back(namespace, undo) == []
    assert shown_host(namespace) == old


ADDRESS_LINES = (
    "10.9.0.1/24 broadcast 10.9.0.255 label {LINK}:web metric 70 scope link",
    "10.9.0.1/24 broadcast + noprefixroute",
    "10.9.0.1/24 scope host",
    "127.0.0.9/8",
    "2001:db8::9/64 nodad noprefixroute metric 700",
    "2001:db8::9/64 nodad home mngtmpaddr preferred_lft 0",
    "10.9.0.1/24 preferred_lft 0 noprefixroute",
)


@pytest.mark.parametrize("by_program", [False, True], ids=["netlink", "ip"])
@pytest.mark.parametrize("written", ADDRESS_LINES)
def test_address_has_all_it_had(
    namespace: Namespace, written: str, by_program: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its label, broadcast address, scope and metric, and whether the kernel adds the route of its
    subnet."""
    prepare_host(namespace)
    namespace.run(["sh", "-c", f"echo 0 > /proc/sys/net/ipv6/conf/{LINK}/disable_ipv6"])
    text, *options = written.replace("{LINK}", LINK).split()
    namespace.run(["ip", "address", "add", text, *options, "dev", LINK])

    def shown() -> str:
        """Without the state of duplicate address detection."""
        lines = f"ip -j -d address show dev {LINK}; ip route; ip -6 route show proto kernel"
        return namespace.run(["sh", "-c", lines]).replace('"tentative":true,', "")

    actions = [["ip", "address", "del", text, "dev", LINK]]
    old, undo = shown(), namespace.call(lambda: undo_of(actions))
    run_without_nictop(namespace, actions)
    assert shown() != old
    if by_program:
        monkeypatch.setattr("nictop.probe.changes.apply.set_by_netlink", lambda _: False)
        assert namespace.call(lambda: roll_back(undo, Roots())) == []
    else:
        assert rolled_back(namespace, undo) == []
    assert shown() == old


def test_the_kernel_answers_whether_an_address_was_added(namespace: Namespace) -> None:
    """NLM_F_EXCL shares a bit with NLM_F_DUMP, which has no ACK: it would be waited for until the
    time limit, in each undo of an address."""
    prepare_host(namespace)
    add = parse_action(["ip", "address", "add", "10.9.0.1/24", "dev", LINK], undoing=True)
    assert namespace.call(lambda: set_by_netlink(add))
    with pytest.raises(OSError, match=r"assigned|exists") as refused:
        namespace.call(lambda: set_by_netlink(add))
    assert refused.value.errno == errno.EEXIST


def test_address_with_a_peer_is_not_removed(namespace: Namespace) -> None:
    prepare_host(namespace)
    namespace.run(["ip", "address", "add", "10.9.0.1", "peer", "10.9.0.2/32", "dev", LINK])
    with pytest.raises(ValueError, match="has the address of a peer, which could not be restored"):
        namespace.call(lambda: undo_of([["ip", "address", "del", "10.9.0.1/32", "dev", LINK]]))


@pytest.mark.parametrize(
    "options",
    [
        "label -x",
        "broadcast ff02::1",
        "valid_lft 5",
        "metric x",
        "noprefixroute label",
        "scope 1000",
    ],
)
def test_options_of_an_address_are_those_of_an_undo(options: str) -> None:
    words = ["ip", "address", "add", "10.9.0.1/24", "dev", LINK]
    with pytest.raises(ValueError, match="ip address"):
        parse_action([*words, *options.split()], undoing=True)
    with pytest.raises(ValueError, match="only an address and dev NAME"):
        parse_action([*words, "metric", "5"])
    with pytest.raises(ValueError, match="only an address and dev NAME"):
        parse_action([*words[:2], "del", *words[3:], "metric", "5"], undoing=True)
    with pytest.raises(ValueError, match="only an address and dev NAME"):
        parse_action([*words[:2], "del", *words[3:], "nodad"])
    kept = parse_action([*words, "preferred_lft", "0", "noprefixroute"])
    assert kept.words == (*words, "preferred_lft", "0", "noprefixroute")


@pytest.mark.parametrize("kind", REAL)
def test_bridge_and_bond_are_restored_without_a_program(namespace: Namespace, kind: str) -> None:
    make_links(namespace, kind)
    old, undo = shown_state(namespace, kind), namespace.call(lambda: undo_of(REAL[kind]))
    run_without_nictop(namespace, REAL[kind])
    assert shown_state(namespace, kind) != old
    assert rolled_back(namespace, undo) == []
    assert shown_state(namespace, kind) == old


def test_link_that_was_down_is_set_down_without_a_program(namespace: Namespace) -> None:
    prepare_host(namespace)
    namespace.run(["ip", "link", "set", "dev", LINK, "down"])
    old, undo = (
        shown_host(namespace),
        namespace.call(lambda: undo_of([["ip", "link", "set", "dev", LINK, "up"]])),
    )
    namespace.run(["ip", "link", "set", "dev", LINK, "up"])
    assert rolled_back(namespace, undo) == []
    assert shown_host(namespace) == old


def test_program_is_used_where_the_kernel_refuses(
    namespace: Namespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As before Linux 5.8, which has no channels in the netlink family of ethtool."""

    def refuse(*_: object, **__: object) -> None:
        raise NetlinkError(errno.EOPNOTSUPP, os.strerror(errno.EOPNOTSUPP))

    prepare_host(namespace)
    namespace.run(["sh", "-c", f"echo 0 > {QUEUES}/rx-2/rps_cpus"])
    old, undo = shown_host(namespace), namespace.call(lambda: undo_of(CHANNELS))
    run_without_nictop(namespace, CHANNELS)
    monkeypatch.setattr("nictop.probe.changes.apply.set_by_netlink", refuse)
    assert namespace.call(lambda: roll_back(undo, Roots())) == []
    assert shown_host(namespace) == old


def test_every_kind_is_set_by_netlink_or_has_a_reason() -> None:
    kinds = {*ROUTE_MESSAGES, *ETHTOOL_MESSAGES}
    assert kinds.isdisjoint(PROGRAM_KINDS)
    for words in (["write", "/proc/irq/30/smp_affinity_list", "1"], ["ethtool", "-p", "lo", "1"]):
        assert not set_by_netlink(parse_action(words))


# ----------------------------------------------------------------------------------- no process ids

PIDS_ROOT = Path("/sys/fs/cgroup/pids")


@contextmanager
def pids_group(name: str) -> Iterator[Path]:
    """A control group that limits the number of processes."""
    root = next(
        (one for one in (PIDS_ROOT, Path("/sys/fs/cgroup")) if (one / "cgroup.procs").exists()),
        None,
    )
    if root is None:
        pytest.skip("no control groups")
    folder = root / name
    folder.mkdir()
    try:
        if not (folder / "pids.max").exists():
            pytest.skip("no control group limits process ids")
        yield folder
    finally:
        wait_until(lambda: not (folder / "cgroup.procs").read_text())
        folder.rmdir()


def put_guards_in(namespace: Namespace, folder: Path) -> None:
    """As in a container, whose processes cannot leave it."""
    for pid in guards_in(namespace):
        (folder / "cgroup.procs").write_text(str(pid))
    (folder / "pids.max").write_text("1")


def disconnect(probe: Probe) -> None:
    assert probe.process.stdin is not None
    probe.process.stdin.close()


def kill(probe: Probe) -> None:
    probe.process.kill()


@pytest.mark.parametrize("kind", ["several", "no address"])
@pytest.mark.parametrize("end", [disconnect, kill])
def test_change_is_undone_without_a_free_process_id(
    namespace: Namespace, kind: str, end: Callable[[Probe], None]
) -> None:
    namespace.disable_ipv6()
    prepare_host(namespace)
    old = shown_host(namespace)
    with pids_group(f"{namespace.name}-full") as folder, change_client(namespace) as change:
        change.apply(SETTINGS[kind])
        change.wait_for("applied")
        put_guards_in(namespace, folder)
        end(change.probe)
        wait_until(lambda: shown_host(namespace) == old)
    wait_for_no_process_left(namespace)
    assert shown_host(namespace) == old
