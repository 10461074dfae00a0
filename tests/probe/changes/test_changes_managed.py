"""A change of NetworkManager's made by the guard itself, together with one of the kernel's: shown, kept, taken back,
and with the guard, the probe, its client or NetworkManager killed at each stage."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import pytest

from tests.support.changes import Changing, guards_in
from tests.support.kills import kill_matrix
from tests.support.managed_change import Seen, ip, seen
from tests.support.networkmanager import PrivateNetworkManager, private_networkmanager, why_no_networkmanager
from tests.support.probe import Probe, wait_until

Looks = tuple[Seen, int]
"""What NetworkManager has set up, and the MTU."""
NIC = "ens37"
MADE_UP = "Wired connection 1"
RENAMED = ["nmcli", "con", "mod", "id", MADE_UP, "connection.id", NIC, "connection.interface-name", NIC]
STATIC = ["ipv4.method", "manual", "ipv4.addresses", "192.0.2.9/24", "ipv6.method", "disabled"]
ACTIONS = [[*RENAMED, *STATIC], ["nmcli", "con", "up", "id", NIC], ["ip", "link", "set", "dev", NIC, "mtu", "1400"]]
VICTIMS = ("guard", "probe", "client", "networkmanager")
ACTIVATING = 40
"""NM_DEVICE_STATE_PREPARE: something comes up, or is up."""

pytestmark = pytest.mark.skipif(why_no_networkmanager() is not None, reason=str(why_no_networkmanager()))


@contextmanager
def managed_host() -> Iterator[PrivateNetworkManager]:
    """One that has made up a profile for the NIC, and asks for addresses in vain."""
    with private_networkmanager(NIC) as one:
        one.wait_for(lambda: one.active_profile(NIC, "Id") == MADE_UP)
        yield one


class Host:
    """The one that all tests use: each leaves it as it was, else the next one gets another."""

    def __init__(self) -> None:
        self._stack = ExitStack()
        self.manager = self._stack.enter_context(managed_host())
        self.before, self.settings = looks(self.manager), kernel_settings(self.manager)

    def is_as_it_was(self) -> bool:
        manager = self.manager
        if manager.daemon is None or guards_in(manager.namespace):
            return False
        return (looks(manager), kernel_settings(manager)) == (self.before, self.settings)

    def close(self) -> None:
        self._stack.close()


@pytest.fixture(scope="module")
def hosts() -> Iterator[list[Host]]:
    """The one that is used comes last."""
    made: list[Host] = []
    yield made
    for host in made:
        host.close()


@pytest.fixture
def host(hosts: list[Host]) -> Host:
    if not hosts or not hosts[-1].is_as_it_was():
        hosts.append(Host())
    return hosts[-1]


@pytest.fixture
def manager(host: Host) -> PrivateNetworkManager:
    return host.manager


@pytest.fixture
def old(host: Host) -> Looks:
    """What it looks like before a test."""
    return host.before


@contextmanager
def probe_in(manager: PrivateNetworkManager) -> Iterator[Changing]:
    arguments = ("--interval", "60", "--allow-changes")
    with Probe(*arguments, prefix=manager.prefix) as probe:
        yield Changing(probe)


def activation(manager: PrivateNetworkManager) -> str:
    """Its path: another one each time something is brought up, whatever its profile is called."""
    return str(manager.device(NIC, "ActiveConnection") or "").strip("/")


@contextmanager
def ended(manager: PrivateNetworkManager) -> Iterator[None]:
    """It is killed, and started anew in any case: other tests go on with it."""
    manager.stop()
    try:
        yield
    finally:
        manager.start()


def looks(manager: PrivateNetworkManager) -> Looks:
    manager.wait_for(lambda: manager.device_state(NIC) >= ACTIVATING)
    return seen(manager, NIC), json.loads(ip(manager, "-j", "link", "show", "dev", NIC))[0]["mtu"]


def test_shown_made_and_taken_back(manager: PrivateNetworkManager, old: Looks) -> None:
    with probe_in(manager) as change:
        shown = change.prepared(ACTIONS)
        assert looks(manager) == old
        modify, up, mtu = shown.plan
        assert modify.subject == MADE_UP and modify.persistent and not modify.undo
        assert modify.before == (
            f"connection.id {MADE_UP} connection.interface-name {NIC} ipv4.method auto ipv4.addresses (none) "
            "ipv6.method auto"
        )
        assert modify.after.startswith(f"connection.id {NIC} ")
        assert up.disturbs == (f"sets {NIC} up anew: no traffic for a moment",) and not up.persistent
        assert mtu.undo
        change.ask("apply", actions=ACTIONS, fingerprint=shown.fingerprint, keep_within=60)
        change.said("applied")
        made, mtu_now = looks(manager)
        assert (made.addresses[NIC], mtu_now) == (["192.0.2.9/24"], 1400)
        change.ask("undo")
        assert change.end() == "undone"
        assert looks(manager) == old
    wait_until(lambda: not guards_in(manager.namespace))


@kill_matrix(("applying", "applied"), victims=VICTIMS)
def test_killed_before_it_is_kept(
    manager: PrivateNetworkManager, old: Looks, *, stage: str, kill: int, victim: str
) -> None:
    with probe_in(manager) as change:
        change.apply(ACTIONS)
        change.said(stage)
        if victim == "guard":
            for pid in guards_in(manager.namespace)[:1]:
                os.kill(pid, signal.SIGKILL)
            assert change.end() == "undone"
        elif victim == "probe":
            change.probe.process.kill()
        elif victim == "client":
            assert change.probe.process.stdin is not None
            change.probe.process.stdin.close()
        else:
            manager.stop()
            manager.start()
            change.ask("undo")
            assert change.end() == "undone"
    wait_until(lambda: not guards_in(manager.namespace), 90.0)
    assert looks(manager) == old


@pytest.mark.parametrize("undone_by", ["networkmanager", "nictop"])
def test_what_a_profile_sets_in_the_kernel_comes_back(
    manager: PrivateNetworkManager, old: Looks, undone_by: str
) -> None:
    """Queues and offloads by ethtool.* settings; a NetworkManager that was killed does not know any more what was."""
    before = kernel_settings(manager)
    settings = ["ethtool.feature-gro", "off" if "generic-receive-offload: on" in before else "on"]
    actions = [[*RENAMED, *STATIC, *settings], ["nmcli", "con", "up", "id", NIC]]
    with probe_in(manager) as change:
        change.apply(actions)
        change.said("applied")
        assert kernel_settings(manager) != before
        if undone_by == "nictop":
            manager.stop()
            manager.start()
        change.ask("undo")
        assert change.end() == "undone"
    assert (looks(manager), kernel_settings(manager)) == (old, before)


def kernel_settings(manager: PrivateNetworkManager) -> str:
    return "".join(manager.namespace.run(["ethtool", option, NIC]) for option in ("-l", "-k"))


def test_what_would_not_come_back_does_not_begin(manager: PrivateNetworkManager, old: Looks) -> None:
    """Pause, EEE and FEC: set by an action, or by a profile that is brought up, unless that is how it is already."""
    up = [["nmcli", "con", "up", "id", "paused"]]
    with probe_in(manager) as change:
        for setting in ("ethtool.pause-autoneg", "ethtool.eee-enabled", "ethtool.fec-mode"):
            change.ask("prepare", actions=[["nmcli", "con", "mod", "id", MADE_UP, setting, "off"]])
            assert change.said("refused").text.startswith(f"{setting} is not set by nictop: ")
        pause = ["ethtool.pause-autoneg", "off"]
        manager.nmcli("con", "add", "type", "ethernet", "ifname", NIC, "con-name", "paused", *STATIC, *pause)
        try:
            change.ask("prepare", actions=up)
            assert change.said("refused").text.startswith("ethtool.pause-autoneg is not set by nictop: ")
            manager.nmcli("con", "mod", "paused", "ethtool.pause-autoneg", "", "ethtool.feature-gro", "off")
            assert change.prepared(up).plan[0].before == f"{NIC}: {MADE_UP}"
        finally:
            manager.nmcli("con", "delete", "paused")
    manager.wait_for(lambda: looks(manager) == old)


def test_networkmanager_ends_while_nmcli_waits(manager: PrivateNetworkManager, old: Looks) -> None:
    """nmcli would wait for another minute; the change is taken back as soon as NetworkManager is there again."""
    earlier = activation(manager)
    with probe_in(manager) as change:
        change.apply([[*RENAMED, "ipv4.may-fail", "no"], ["nmcli", "con", "up", "id", NIC]])
        change.said("applying")
        manager.wait_for(lambda: activation(manager) not in ("", earlier))
        with ended(manager):
            assert change.said("failed").text == "NetworkManager has ended in the middle of the change"
        assert change.end() == "undone"
    assert looks(manager) == old


def test_a_profile_of_the_same_name_is_part_of_what_was_shown(manager: PrivateNetworkManager) -> None:
    add = [["nmcli", "con", "add", "type", "ethernet", "ifname", NIC, "con-name", "added", *STATIC]]
    with probe_in(manager) as change:
        shown = change.prepared(add)
        assert shown.plan[0].before == "no such profile"
        manager.nmcli("con", "add", "type", "ethernet", "ifname", "none0", "con-name", "added")
        try:
            change.ask("apply", actions=add, fingerprint=shown.fingerprint, keep_within=60)
            assert "has changed since" in change.said("refused").text
            uuid = manager.nmcli("-g", "connection.uuid", "con", "show", "added").strip()
            assert change.prepared(add).plan[0].before == f"a profile of this name: {uuid}"
        finally:
            manager.nmcli("con", "delete", "added")


def test_the_connection_goes_while_dhcp_is_waited_for(manager: PrivateNetworkManager, old: Looks) -> None:
    """Without waiting for the three quarters of a minute that DHCP may take."""
    earlier = activation(manager)
    actions = [[*RENAMED, "ipv4.may-fail", "no"], ["nmcli", "con", "up", "id", NIC]]
    with probe_in(manager) as change:
        change.apply(actions)
        change.said("applying")
        manager.wait_for(lambda: activation(manager) not in ("", earlier))
        assert change.probe.process.stdin is not None
        change.probe.process.stdin.close()
        wait_until(lambda: not guards_in(manager.namespace))
    assert looks(manager) == old


def test_kept() -> None:
    with managed_host() as manager:
        with probe_in(manager) as change:
            change.apply(ACTIONS)
            change.said("applied")
            made = looks(manager)
            change.ask("keep")
            assert change.end() == "kept"
        wait_until(lambda: not guards_in(manager.namespace))
        now = looks(manager)
        assert now == made and list(now[0].files) and now[0].addresses[NIC] == ["192.0.2.9/24"]


def test_a_profile_that_does_not_exist(manager: PrivateNetworkManager) -> None:
    with probe_in(manager) as change:
        for name in ("nothing", 'it\'s $(reboot) "mine"'):
            change.ask("prepare", actions=[["nmcli", "con", "mod", "id", name, "ipv4.method", "auto"]])
            assert "profiles of NetworkManager are called" in change.said("refused").text
