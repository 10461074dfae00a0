"""A change of NetworkManager and of the kernel, made by the guard: prepared, kept, undone, and with
the guard, the probe, its client or NetworkManager killed at each stage."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace

import pytest

from tests.support.changes import ChangeClient, guards_in, watchers_in
from tests.support.kills import kill_matrix
from tests.support.managed_change import HostState, ip, read_host_state
from tests.support.networkmanager import (
    PrivateNetworkManager,
    private_networkmanager,
    why_no_networkmanager,
)
from tests.support.probe import Probe, wait_until

ManagedState = tuple[HostState, int]
"""NetworkManager's state and the MTU."""
NIC = "ens37"
GENERATED_PROFILE = "Wired connection 1"
RENAMED = [
    "nmcli",
    "con",
    "mod",
    "id",
    GENERATED_PROFILE,
    "connection.id",
    NIC,
    "connection.interface-name",
    NIC,
]
STATIC = ["ipv4.method", "manual", "ipv4.addresses", "192.0.2.9/24", "ipv6.method", "disabled"]
ACTIONS = [
    [*RENAMED, *STATIC],
    ["nmcli", "con", "up", "id", NIC],
    ["ip", "link", "set", "dev", NIC, "mtu", "1400"],
]
VICTIMS = ("guard", "probe", "client", "networkmanager", "probe and guard")
NM_DEVICE_STATE_PREPARE = 40
"""From here on a profile is active or being activated."""

pytestmark = pytest.mark.skipif(
    why_no_networkmanager() is not None, reason=str(why_no_networkmanager())
)


@contextmanager
def managed_host() -> Iterator[PrivateNetworkManager]:
    """A NetworkManager that has generated profile for the NIC, which gets no DHCP answer."""
    with private_networkmanager(NIC) as one:
        one.wait_for(lambda: one.active_profile(NIC, "Id") == GENERATED_PROFILE)
        yield one


class Host:
    """Shared by all tests: each leaves it unchanged, else the next test gets a new one."""

    def __init__(self) -> None:
        self._stack = ExitStack()
        self.manager = self._stack.enter_context(managed_host())
        self.before, self.settings = read_managed_state(self.manager), kernel_settings(self.manager)

    def is_unchanged(self) -> bool:
        manager = self.manager
        if manager.daemon is None or guards_in(manager.namespace):
            return False
        if manager.device_state(NIC) < NM_DEVICE_STATE_PREPARE:
            return False
        return (read_managed_state(manager), kernel_settings(manager)) == (
            self.before,
            self.settings,
        )

    def close(self) -> None:
        self._stack.close()


@pytest.fixture(scope="module")
def hosts() -> Iterator[list[Host]]:
    """The host in use comes last."""
    created: list[Host] = []
    yield created
    for host in created:
        host.close()


@pytest.fixture
def host(hosts: list[Host]) -> Host:
    if not hosts or not hosts[-1].is_unchanged():
        hosts.append(Host())
    return hosts[-1]


@pytest.fixture
def manager(host: Host) -> PrivateNetworkManager:
    return host.manager


@pytest.fixture
def old(host: Host) -> ManagedState:
    """The state before a test."""
    return host.before


@contextmanager
def start_probe(manager: PrivateNetworkManager) -> Iterator[ChangeClient]:
    arguments = ("--interval", "60", "--allow-changes")
    with Probe(*arguments, prefix=manager.prefix) as probe:
        yield ChangeClient(probe)


def activation_path(manager: PrivateNetworkManager) -> str:
    """Object path, which differs for each activation."""
    return str(manager.device_property(NIC, "ActiveConnection") or "").strip("/")


@contextmanager
def stopped_networkmanager(manager: PrivateNetworkManager) -> Iterator[None]:
    """NetworkManager is killed, and started again in any case, because other tests use it."""
    manager.stop()
    try:
        yield
    finally:
        manager.start()


def read_managed_state(manager: PrivateNetworkManager) -> ManagedState:
    manager.wait_for(lambda: manager.device_state(NIC) >= NM_DEVICE_STATE_PREPARE)
    return read_host_state(manager, NIC), json.loads(ip(manager, "-j", "link", "show", "dev", NIC))[
        0
    ]["mtu"]


def test_prepare_apply_undo(manager: PrivateNetworkManager, old: ManagedState) -> None:
    with start_probe(manager) as change:
        shown = change.prepare(ACTIONS)
        assert read_managed_state(manager) == old
        modify, up, mtu = shown.plan
        assert modify.subject == GENERATED_PROFILE and modify.persistent and not modify.undo
        assert modify.before == (
            f"connection.id '{GENERATED_PROFILE}' connection.interface-name {NIC} ipv4.method "
            f"auto ipv4.addresses '' "
            "ipv6.method auto"
        )
        assert modify.after.startswith(f"connection.id {NIC} ")
        assert (
            up.disturbs == (f"reconfigures {NIC}: short traffic interruption",)
            and not up.persistent
        )
        assert mtu.undo
        change.request("apply", actions=ACTIONS, fingerprint=shown.fingerprint, keep_within=60)
        change.wait_for("applied")
        applied, mtu_now = read_managed_state(manager)
        assert (applied.addresses[NIC], mtu_now) == (["192.0.2.9/24"], 1400)
        change.request("undo")
        assert change.wait_for_end() == "undone"
        assert read_managed_state(manager) == old
    wait_until(lambda: not guards_in(manager.namespace))


def test_a_probe_that_only_reads_has_the_same_plan(
    manager: PrivateNetworkManager, old: ManagedState
) -> None:
    with start_probe(manager) as change:
        expected = change.prepare(ACTIONS)
    with Probe("--interval", "60", prefix=manager.prefix) as probe:
        change = ChangeClient(probe)
        shown = change.prepare(ACTIONS)
        assert (shown.plan, shown.fingerprint) == (expected.plan, expected.fingerprint)
        change.request(
            "apply", actions=ACTIONS, fingerprint=shown.fingerprint, keep_within=60, twice=True
        )
        assert "changes are disabled" in change.wait_for("refused").text
    assert read_managed_state(manager) == old


@kill_matrix(("applying", "applied"), victims=VICTIMS)
def test_killed_before_keep(
    manager: PrivateNetworkManager, old: ManagedState, *, stage: str, kill: int, victim: str
) -> None:
    with start_probe(manager) as change:
        change.apply(ACTIONS)
        change.wait_for(stage)
        if victim == "guard":
            for pid in guards_in(manager.namespace)[:1]:
                os.kill(pid, signal.SIGKILL)
            assert change.wait_for_end() == "undone"
        elif victim == "probe":
            change.probe.process.kill()
        elif victim == "probe and guard":
            pids = [change.probe.process.pid, *guards_in(manager.namespace)[:1]]
            for signal_number in (signal.SIGSTOP, signal.SIGKILL):
                for pid in pids:
                    os.kill(pid, signal_number)
        elif victim == "client":
            assert change.probe.process.stdin is not None
            change.probe.process.stdin.close()
        else:
            manager.stop()
            manager.start()
            change.request("undo")
            assert change.wait_for_end() == "undone"
    wait_until(lambda: not (guards_in(manager.namespace) or watchers_in(manager.namespace)), 90.0)
    assert read_managed_state(manager) == old


@pytest.mark.parametrize("undone_by", ["networkmanager", "nictop"])
def test_kernel_settings_of_a_profile_are_restored(
    manager: PrivateNetworkManager, old: ManagedState, undone_by: str
) -> None:
    """Queues and offloads in ethtool.* settings; a restarted NetworkManager does not know the old
    values."""
    before = kernel_settings(manager)
    settings = ["ethtool.feature-gro", "off" if "generic-receive-offload: on" in before else "on"]
    actions = [[*RENAMED, *STATIC, *settings], ["nmcli", "con", "up", "id", NIC]]
    with start_probe(manager) as change:
        change.apply(actions)
        change.wait_for("applied")
        assert kernel_settings(manager) != before
        if undone_by == "nictop":
            manager.stop()
            manager.start()
        change.request("undo")
        assert change.wait_for_end() == "undone"
    assert (read_managed_state(manager), kernel_settings(manager)) == (old, before)


def kernel_settings(manager: PrivateNetworkManager) -> str:
    return "".join(manager.namespace.run(["ethtool", option, NIC]) for option in ("-l", "-k"))


def test_settings_that_cannot_be_restored_are_refused(
    manager: PrivateNetworkManager, old: ManagedState
) -> None:
    """Pause, EEE and FEC: set by an action, or by an activated profile, unless they are so
    already."""
    up = [["nmcli", "con", "up", "id", "paused"]]
    with start_probe(manager) as change:
        for setting in ("ethtool.pause-autoneg", "ethtool.eee-enabled", "ethtool.fec-mode"):
            change.request(
                "prepare",
                actions=[["nmcli", "con", "mod", "id", GENERATED_PROFILE, setting, "off"]],
            )
            assert change.wait_for("refused").text.startswith(f"nictop does not set {setting}: ")
        pause = ["ethtool.pause-autoneg", "off"]
        manager.nmcli(
            "con", "add", "type", "ethernet", "ifname", NIC, "con-name", "paused", *STATIC, *pause
        )
        try:
            change.request("prepare", actions=up)
            assert change.wait_for("refused").text.startswith(
                "nictop does not set ethtool.pause-autoneg: "
            )
            manager.nmcli(
                "con", "mod", "paused", "ethtool.pause-autoneg", "", "ethtool.feature-gro", "off"
            )
            assert change.prepare(up).plan[0].before == f"{NIC}: {GENERATED_PROFILE}"
        finally:
            manager.nmcli("con", "delete", "paused")
    manager.wait_for(lambda: read_managed_state(manager) == old)


def test_networkmanager_ends_while_nmcli_waits(
    manager: PrivateNetworkManager, old: ManagedState
) -> None:
    """nmcli would wait for another minute; the change is undone as soon as NetworkManager runs
    again."""
    earlier = activation_path(manager)
    with start_probe(manager) as change:
        change.apply([[*RENAMED, "ipv4.may-fail", "no"], ["nmcli", "con", "up", "id", NIC]])
        change.wait_for("applying")
        manager.wait_for(lambda: activation_path(manager) not in ("", earlier))
        with stopped_networkmanager(manager):
            assert change.wait_for("failed").text == "NetworkManager stopped during the change"
        assert change.wait_for_end() == "undone"
    assert read_managed_state(manager) == old


def test_new_profile_of_the_same_name_changes_the_plan(manager: PrivateNetworkManager) -> None:
    add = [["nmcli", "con", "add", "type", "ethernet", "ifname", NIC, "con-name", "added", *STATIC]]
    with start_probe(manager) as change:
        shown = change.prepare(add)
        assert shown.plan[0].before == "no such profile"
        manager.nmcli("con", "add", "type", "ethernet", "ifname", "none0", "con-name", "added")
        try:
            change.request("apply", actions=add, fingerprint=shown.fingerprint, keep_within=60)
            assert "has changed since" in change.wait_for("refused").text
            uuid = manager.nmcli("-g", "connection.uuid", "con", "show", "added").strip()
            assert change.prepare(add).plan[0].before == f"existing profile of this name: {uuid}"
        finally:
            manager.nmcli("con", "delete", "added")


def test_connection_ends_while_dhcp_is_pending(
    manager: PrivateNetworkManager, old: ManagedState
) -> None:
    """The guard does not wait for the DHCP timeout of 45 s."""
    earlier = activation_path(manager)
    actions = [[*RENAMED, "ipv4.may-fail", "no"], ["nmcli", "con", "up", "id", NIC]]
    with start_probe(manager) as change:
        change.apply(actions)
        change.wait_for("applying")
        manager.wait_for(lambda: activation_path(manager) not in ("", earlier))
        assert change.probe.process.stdin is not None
        change.probe.process.stdin.close()
        wait_until(lambda: not guards_in(manager.namespace))
    assert read_managed_state(manager) == old


def test_keep() -> None:
    with managed_host() as manager:
        with start_probe(manager) as change:
            change.apply(ACTIONS)
            change.wait_for("applied")
            applied = read_managed_state(manager)
            change.request("keep")
            assert change.wait_for_end() == "kept"
        wait_until(lambda: not guards_in(manager.namespace))
        now = read_managed_state(manager)
        kept = replace(applied[0], files=now[0].files), applied[1]
        assert now == kept and now[0].addresses[NIC] == ["192.0.2.9/24"]
        assert list(now[0].files) == [f"/etc/NetworkManager/system-connections/{NIC}.nmconnection"]


def test_unknown_profile(manager: PrivateNetworkManager) -> None:
    with start_probe(manager) as change:
        for name in ("nothing", 'it\'s $(reboot) "mine"'):
            change.request(
                "prepare", actions=[["nmcli", "con", "mod", "id", name, "ipv4.method", "auto"]]
            )
            assert "NetworkManager profiles have the name" in change.wait_for("refused").text


def test_what_something_else_takes_from_a_profile_is_reported() -> None:
    """An address that NetworkManager has set, deleted by hand, and the profile that is active."""
    with managed_host() as manager, start_probe(manager) as change:
        shown = change.prepare(ACTIONS)
        change.request("apply", actions=ACTIONS, fingerprint=shown.fingerprint, keep_within=60)
        change.wait_for("applied")
        manager.namespace.run(["ip", "address", "del", "192.0.2.9/24", "dev", NIC])
        lost = f"{NIC}: 192.0.2.9/24 absent instead of present"
        assert change.wait_for("checked").differences == (lost,)
        manager.nmcli("dev", "disconnect", NIC)
        change.request("keep")
        differences = change.wait_for("kept").differences
        assert lost in differences
        assert f"{NIC}: no active profile instead of profile {NIC}" in differences


def test_what_something_else_adds_to_a_profile_is_reported_and_rolled_back() -> None:
    """An address, and the profile of the change edited while its decision is waited for."""
    with managed_host() as manager, start_probe(manager) as change:
        before = read_managed_state(manager)
        shown = change.prepare(ACTIONS)
        change.request("apply", actions=ACTIONS, fingerprint=shown.fingerprint, keep_within=60)
        change.wait_for("applied")
        manager.namespace.run(["ip", "address", "add", "192.0.2.77/24", "dev", NIC])
        added = f"{NIC}: 192.0.2.77/24 present instead of absent"
        assert change.wait_for("checked").differences == (added,)
        manager.nmcli("con", "mod", NIC, "ipv4.addresses", "192.0.2.44/24")
        edited = f"profile {NIC}: other settings in ipv4"
        assert change.wait_for("checked").differences == (added, edited)
        change.request("undo")
        assert change.wait_for_end() == "undone"
        assert read_managed_state(manager) == before
