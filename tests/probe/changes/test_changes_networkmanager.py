"""A change of NetworkManager that is undone or kept, with a real NetworkManager in a namespace that
is killed at each stage: the host ends as before or as confirmed, as nmcli, ip and the files
show."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO

import pytest

from nictop.probe.changes.networkmanager.activation import (
    Target,
    activated_next,
    is_reached,
    must_stop_autoconnect,
)
from nictop.probe.changes.networkmanager.checkpoint import Checkpoint, change_since
from nictop.probe.inventory.managers.networkmanager import PROFILE_INTERFACE, ROOT, SERVICE
from nictop.probe.plan.grammar.actions import parse_action
from nictop.probe.plan.networkmanager.affected import AffectedProfiles
from nictop.probe.plan.networkmanager.kernel_settings import (
    changed_settings,
    refuse_lasting_settings,
)
from nictop.probe.plan.networkmanager.plan import describe_operation
from nictop.probe.plan.networkmanager.state import (
    NM_DEVICE_STATE_REASON_USER_REQUESTED,
    NM_SETTINGS_CONNECTION_FLAG_EXTERNAL,
    BusProfile,
    Device,
    NmClient,
    NmState,
)
from tests.support.kills import kill_matrix, position_in_stage
from tests.support.managed_change import (
    Change,
    HostState,
    addresses,
    end_child,
    profile_files,
    read_host_state,
    routes,
    start_child,
    without_timestamp,
)
from tests.support.networkmanager import (
    Bus,
    PrivateNetworkManager,
    private_networkmanager,
    why_no_networkmanager,
)

NIC = "ens37"
GENERATED_PROFILE = "Wired connection 1"
NM_DEVICE_STATE_DISCONNECTED, NM_DEVICE_STATE_PREPARE, NM_DEVICE_STATE_ACTIVATED = 30, 40, 100
ONE_SHORT_ATTEMPT = """[main]
autoconnect-retries-default=1
[connection]
ipv4.dhcp-timeout=1
ipv6.ra-timeout=1
"""
"""Of DHCP; NetworkManager waits 5 minutes until the next one."""
PROFILE_FLAGS = {"added": 0, "described": NM_SETTINGS_CONNECTION_FLAG_EXTERNAL}
"""UUID → flags."""
RESTART_DELAYS = (0.0, 0.6, 1.2, 1.8)
"""Seconds until a killed NetworkManager is started again."""
STATIC_ADDRESS = (
    "ipv4.method",
    "manual",
    "ipv4.addresses",
    "192.0.2.9/24",
    "ipv6.method",
    "disabled",
)
DIFFICULT_NAMES = {
    "quotes": "a 'b' \"c\"",
    "shell-syntax": "$(touch /tmp/x) `id`; & | > x",
    "not-ascii": "名前 [red]",
    "leading-blank": " blank",
    "backslashes": "back\\slash\\s",
    "path": "../x",
    "keyfile-syntax": "a=b#;c",
}


@dataclass(frozen=True)
class Case:
    """The state of a host, and the actions of a change."""

    prepare: Callable[[PrivateNetworkManager], None]
    actions: tuple[tuple[str, ...], ...]


def generated_profile(_: PrivateNetworkManager) -> None:
    """The generated profile waits for DHCP."""


def own_profile(manager: PrivateNetworkManager) -> None:
    """A saved profile with an address and a default route, active; and a second one that is not."""
    settings = (
        "ipv4.method",
        "manual",
        "ipv4.addresses",
        "192.0.2.1/24",
        "ipv4.gateway",
        "192.0.2.254",
    )
    manager.nmcli(
        "con", "mod", GENERATED_PROFILE, "con.id", "mine", *settings, "ipv6.method", "disabled"
    )
    manager.nmcli("con", "up", "mine")
    other = (
        "ipv4.method",
        "manual",
        "ipv4.addresses",
        "198.51.100.5/24",
        "802-3-ethernet.mtu",
        "1400",
    )
    manager.nmcli(
        "con",
        "add",
        "type",
        "ethernet",
        "ifname",
        NIC,
        "con-name",
        "second",
        "autoconnect",
        "no",
        *other,
    )


def configured_by_hand(manager: PrivateNetworkManager) -> None:
    """An address and a route without a profile: an external connection of NetworkManager."""
    manager.nmcli("device", "disconnect", NIC)
    manager.namespace.run(["ip", "address", "add", "198.51.100.7/24", "dev", NIC])
    manager.namespace.run(["ip", "route", "add", "203.0.113.0/24", "via", "198.51.100.1"])
    manager.wait_for(lambda: manager.device_state(NIC) == NM_DEVICE_STATE_ACTIVATED)


RENAME = (
    ("nmcli", "con", "mod", GENERATED_PROFILE, "connection.id", NIC, *STATIC_ADDRESS),
    ("nmcli", "con", "up", "id", NIC),
)
WRONG_ADDRESS = ("ipv4.addresses", "203.0.113.9/24", "ipv4.gateway", "203.0.113.1")
ADD = (
    "nmcli",
    "con",
    "add",
    "type",
    "ethernet",
    "ifname",
    NIC,
    "con-name",
    "added",
    *STATIC_ADDRESS,
)
CASES = {
    "renamed": Case(generated_profile, RENAME),
    "wrong-address": Case(
        own_profile,
        (("nmcli", "con", "mod", "mine", *WRONG_ADDRESS), ("nmcli", "con", "up", "mine")),
    ),
    "added-profile": Case(generated_profile, (ADD, ("nmcli", "con", "up", "added"))),
    "another-profile": Case(own_profile, (("nmcli", "con", "up", "second"),)),
    "set-up-by-hand": Case(configured_by_hand, (ADD, ("nmcli", "con", "up", "added"))),
}
DESCRIPTION = Case(configured_by_hand, (("nmcli", "con", "up", "id", NIC),))
"""The profile that describes what was configured by hand is activated: NetworkManager manages it
then, with the same addresses."""
REAPPLY = Case(
    own_profile,
    (
        ("nmcli", "con", "mod", "mine", "+ipv4.addresses", "192.0.2.2/24"),
        ("nmcli", "dev", "reapply", NIC),
    ),
)
NO_ACTIONS = Case(generated_profile, ())


@contextmanager
def prepared_networkmanager(case: Case) -> Iterator[PrivateNetworkManager]:
    """A NetworkManager with ens37, in the state of the case."""
    reason = why_no_networkmanager()
    if reason is not None:
        pytest.skip(f"no real NetworkManager: {reason}")
    with private_networkmanager(NIC) as manager:
        manager.wait_for(lambda: manager.device_state(NIC) >= NM_DEVICE_STATE_PREPARE)
        case.prepare(manager)
        yield manager


class Host:
    """A prepared host that several tests use, each of which leaves it unchanged; `close` ends
    it."""

    def __init__(self, case: Case) -> None:
        with ExitStack() as stack:
            self.manager = stack.enter_context(prepared_networkmanager(case))
            self.before, self.autoconnect_allowed = (
                read_host_state(self.manager, NIC),
                autoconnect_allowed(self.manager),
            )
            self._child = start_child(self.manager)
            stack.callback(end_child, self._child)
            self.close = stack.pop_all().close
        self._durations: dict[Case, dict[str, float]] = {}

    def change(self, *actions: Sequence[str], keep_within: float = 60.0) -> Change:
        """One at a time: they share a process, which takes 0.1 s to start."""
        return Change(self.manager, *actions, keep_within=keep_within, process=self._child)

    def durations(self, case: Case) -> dict[str, float]:
        """Seconds of each stage of a change without kills; measured once."""
        if case not in self._durations:
            self._durations[case] = measured_durations(self.change(*case.actions))
            assert state_after_restart(self.manager) == self.before
        return self._durations[case]


class Hosts:
    """The hosts of this module. A host is not used again after a failed test, or when it was not
    left unchanged."""

    def __init__(self) -> None:
        self._free: dict[Callable[[PrivateNetworkManager], None], Host] = {}

    @contextmanager
    def prepared(self, case: Case) -> Iterator[Host]:
        host = self._free.pop(case.prepare, None) or Host(case)
        try:
            yield host
            assert (read_host_state(host.manager, NIC), autoconnect_allowed(host.manager)) == (
                host.before,
                host.autoconnect_allowed,
            )
        except BaseException:
            host.close()
            raise
        self._free[case.prepare] = host

    def close(self) -> None:
        for host in self._free.values():
            host.close()


@pytest.fixture(scope="module")
def hosts() -> Iterator[Hosts]:
    created = Hosts()
    yield created
    created.close()


def state_after_restart(manager: PrivateNetworkManager) -> HostState:
    """The state once a killed NetworkManager runs again and a profile is active or being
    activated."""
    manager.wait_for(lambda: manager.device_state(NIC) >= NM_DEVICE_STATE_PREPARE)
    return read_host_state(manager, NIC)


def autoconnect_allowed(manager: PrivateNetworkManager) -> bool:
    """The device's property Autoconnect."""
    return bool(manager.device_property(NIC, "Autoconnect"))


def state_reason(manager: PrivateNetworkManager) -> int:
    """NM_DEVICE_STATE_REASON_*."""
    return int(manager.device_property(NIC, "StateReason")[1])


# ------------------------------------------------------------------------------------ without kills


@pytest.mark.parametrize("name", [*CASES, "reapplied"])
def test_undo(hosts: Hosts, name: str) -> None:
    case = CASES.get(name, REAPPLY)
    with hosts.prepared(case) as host, host.change(*case.actions) as change:
        assert (change.begin(), change.do(), change.step("record_applied")) == ("", "", "")
        changed = read_host_state(host.manager, NIC)
        assert changed.addresses != host.before.addresses
        assert (change.step("undo"), read_host_state(host.manager, NIC)) == ("", host.before)
        # a second undo changes nothing
        assert (change.step("undo"), read_host_state(host.manager, NIC)) == ("", host.before)


def test_undo_of_an_activated_description(hosts: Hosts) -> None:
    """NetworkManager only describes the NIC again: the same active profile is not enough."""
    with hosts.prepared(DESCRIPTION) as host, host.change(*DESCRIPTION.actions) as change:
        assert host.before.described == (NIC,)
        assert (change.begin(), change.do(), change.step("record_applied")) == ("", "", "")
        assert read_host_state(host.manager, NIC).described == ()
        assert (change.step("undo"), read_host_state(host.manager, NIC)) == ("", host.before)


def test_undo_where_a_description_was_activated_before() -> None:
    """Its profile is gone: NetworkManager describes the same addresses with a new one, which is not
    the state of before."""
    with prepared_networkmanager(DESCRIPTION) as manager:
        manager.nmcli("con", "up", "id", NIC)
        before = read_host_state(manager, NIC)
        with Change(manager, ADD, ("nmcli", "con", "up", "added")) as change:
            assert (change.begin(), change.do(), change.step("record_applied")) == ("", "", "")
            assert "only describes them now" in change.step("undo")
        after = read_host_state(manager, NIC)
        assert (before.described, after.described) == ((), (NIC,))
        assert after == replace(before, described=(NIC,))


def without_its_address(manager: PrivateNetworkManager) -> None:
    """NetworkManager goes on describing a NIC whose address was removed by hand."""
    manager.wait_for(lambda: manager.device_state(NIC) == NM_DEVICE_STATE_DISCONNECTED)
    address = ["198.51.100.7/24", "dev", NIC]
    manager.namespace.run(["ip", "address", "add", *address])
    manager.wait_for(lambda: manager.only_describes(NIC))
    manager.namespace.run(["ip", "address", "del", *address])
    (described,) = manager.profiles()
    manager.wait_for(
        lambda: "disabled" in manager.nmcli("-g", "ipv4.method", "con", "show", described)
    )


def test_undo_where_a_nic_without_an_address_was_described() -> None:
    """Nothing is left to describe: the NIC is disconnected, without an address as before."""
    reason = why_no_networkmanager()
    if reason is not None:
        pytest.skip(f"no real NetworkManager: {reason}")
    with private_networkmanager(NIC, no_auto_default="*") as manager:
        without_its_address(manager)
        before = read_host_state(manager, NIC)
        assert before.described == (NIC,)
        with Change(manager, ADD, ("nmcli", "con", "up", "added")) as change:
            assert (change.begin(), change.do(), change.step("record_applied")) == ("", "", "")
            assert change.step("undo") == ""
        after = read_host_state(manager, NIC)
        assert manager.device_state(NIC) == NM_DEVICE_STATE_DISCONNECTED
        assert after == replace(before, described=(), active={NIC: ""})


def test_a_profile_that_networkmanager_activates_where_it_only_described() -> None:
    own = BusProfile("/p", "own", "own", NIC, "", 0, False, {})
    device = Device(NIC, "/d", 30, 38, True, True, "", "/", (), ("/p",), ())
    now = NmState(":1.1", {NIC: device}, {"own": own})
    (sentence,) = activated_next(device, now)
    assert sentence == "ens37: NetworkManager activates profile own by itself now"
    assert activated_next(replace(device, autoconnect=False), now) == []


@pytest.mark.parametrize(
    ("connection", "ipv4", "ipv6", "expected"),
    [
        ({}, "disabled", "ignore", True),
        ({}, "disabled", "disabled", True),
        ({}, "manual", "ignore", False),
        ({}, "disabled", "auto", False),
        ({"master": ("s", "br0")}, "disabled", "ignore", False),
        ({"controller": ("s", "br0")}, "disabled", "ignore", False),
    ],
)
def test_what_a_profile_describes(
    connection: dict[str, object], ipv4: str, ipv6: str, expected: bool
) -> None:
    settings: dict[str, dict[str, object]] = {
        "connection": connection,
        "ipv4": {"method": ("s", ipv4)},
        "ipv6": {"method": ("s", ipv6)},
    }
    profile = BusProfile("/p", "u", "u", NIC, "", 0x8, True, settings)
    assert profile.is_empty is expected


@pytest.mark.parametrize("name", CASES)
def test_keep(name: str) -> None:
    """No checkpoint is left that would roll it back later, or exclude another change."""
    with (
        prepared_networkmanager(CASES[name]) as manager,
        Change(manager, *CASES[name].actions) as change,
    ):
        assert (change.begin(), change.do(), change.step("record_applied")) == ("", "", "")
        changed = read_host_state(manager, NIC)
        assert change.step("keep") == ""
        kept = read_host_state(manager, NIC)
        assert kept == stored(changed, kept)
        with Change(manager, ("nmcli", "dev", "reapply", NIC)) as another:
            assert (another.begin(), another.step("undo"), read_host_state(manager, NIC)) == (
                "",
                "",
                kept,
            )


def stored(changed: HostState, kept: HostState) -> HostState:
    """The state of a change once its profiles are on disk: the same but for their files, of which
    none of a profile that the change has set is left in memory."""
    assert set(on_disk(kept)) >= set(on_disk(changed))
    names = {path.rpartition("/")[2] for path in on_disk(kept)}
    in_memory = [path for path in kept.files if path.startswith("/run/")]
    assert not [path for path in in_memory if path.rpartition("/")[2] in names]
    return replace(changed, files=kept.files)


def on_disk(state: HostState) -> dict[str, str]:
    """The profile files that a reboot leaves."""
    return {path: text for path, text in state.files.items() if path.startswith("/etc/")}


def reboot(manager: PrivateNetworkManager) -> None:
    """What is in memory is gone."""
    manager.stop()
    manager.shell("rm -rf /run/NetworkManager/*")
    manager.namespace.run(["ip", "address", "flush", "dev", NIC])
    manager.start()


@pytest.mark.parametrize("name", CASES)
def test_profiles_on_disk_are_the_old_ones_until_the_change_is_kept(name: str) -> None:
    """If the machine ends before that, the next boot has the profiles of before; after that, the
    new ones."""
    with (
        prepared_networkmanager(CASES[name]) as manager,
        Change(manager, *CASES[name].actions) as change,
    ):
        before = read_host_state(manager, NIC)
        assert (change.begin(), change.do(), change.step("record_applied")) == ("", "", "")
        assert on_disk(read_host_state(manager, NIC)) == on_disk(before)
        reboot(manager)
        again = state_after_restart(manager)
        assert (again.profiles.keys(), on_disk(again)) == (before.profiles.keys(), on_disk(before))
    with (
        prepared_networkmanager(CASES[name]) as manager,
        Change(manager, *CASES[name].actions) as change,
    ):
        assert (
            change.begin(),
            change.do(),
            change.step("record_applied"),
            change.step("keep"),
        ) == ("", "", "", "")
        kept = read_host_state(manager, NIC)
        reboot(manager)
        assert on_disk(state_after_restart(manager)) == on_disk(kept)


@pytest.mark.parametrize(
    "command",
    [("device", "disconnect", NIC), ("con", "down", GENERATED_PROFILE)],
    ids=["device-disconnect", "con-down"],
)
def test_device_disconnected_by_user_is_disconnected_again(command: Sequence[str]) -> None:
    with (
        prepared_networkmanager(NO_ACTIONS) as manager,
        Change(manager, ADD, ("nmcli", "con", "up", "added")) as change,
    ):
        manager.nmcli(*command)
        before, allowed = read_host_state(manager, NIC), autoconnect_allowed(manager)
        assert (change.begin(), change.do()) == ("", "")
        assert read_host_state(manager, NIC).active != before.active
        assert (change.step("undo"), read_host_state(manager, NIC)) == ("", before)
        assert before.active == {NIC: ""}
        assert autoconnect_allowed(manager) == allowed


@pytest.mark.parametrize(
    "actions", [RENAME, (ADD, ("nmcli", "con", "up", "added"))], ids=["renamed", "added-profile"]
)
def test_device_that_waits_for_the_next_dhcp_attempt(actions: Sequence[Sequence[str]]) -> None:
    """NetworkManager tries its generated profile again, and does not regard the device as
    disconnected by the user."""
    with prepared_networkmanager(NO_ACTIONS) as manager, Change(manager, *actions) as change:
        manager.stop()
        manager.write("/etc/NetworkManager/conf.d/one-short-attempt.conf", ONE_SHORT_ATTEMPT)
        manager.start()
        manager.wait_for(lambda: manager.device_state(NIC) >= NM_DEVICE_STATE_PREPARE)
        manager.wait_for(lambda: manager.device_state(NIC) == NM_DEVICE_STATE_DISCONNECTED)
        before = read_host_state(manager, NIC)
        (generated,) = before.profiles
        assert (before.active, autoconnect_allowed(manager)) == ({NIC: ""}, True)
        assert (change.begin(), change.do(), change.step("record_applied")) == ("", "", "")
        assert manager.device_state(NIC) == NM_DEVICE_STATE_ACTIVATED
        assert change.step("undo") == ""
        after = read_host_state(manager, NIC)
        assert replace(after, active=before.active) == before
        assert after.active[NIC] in (generated, "")  # tried again, and it may have failed again
        assert state_reason(manager) != NM_DEVICE_STATE_REASON_USER_REQUESTED
        assert autoconnect_allowed(manager)


@pytest.mark.parametrize("name", DIFFICULT_NAMES.values(), ids=DIFFICULT_NAMES)
def test_difficult_profile_names(hosts: Hosts, name: str) -> None:
    """A profile is renamed to it, and another added with it: after the undo neither is left."""
    rename = ("nmcli", "con", "mod", GENERATED_PROFILE, "connection.id", name)
    add = (
        "nmcli",
        "con",
        "add",
        "type",
        "ethernet",
        "ifname",
        NIC,
        "con-name",
        f"{name}+",
        *STATIC_ADDRESS,
    )
    with hosts.prepared(NO_ACTIONS) as host, host.change(rename, add) as change:
        assert (change.begin(), change.do()) == ("", "")
        assert name in host.manager.nmcli("-e", "no", "-f", "NAME", "con", "show").splitlines()
        assert (change.step("undo"), state_after_restart(host.manager)) == ("", host.before)


def test_settings_of_a_bridge_profile_are_stored_and_restored() -> None:
    modify = ("nmcli", "con", "mod", "br9")

    def with_bridge(manager: PrivateNetworkManager) -> None:
        own_profile(manager)
        addresses = ("ipv4.method", "disabled", "ipv6.method", "disabled")
        manager.nmcli(
            "con",
            "add",
            "type",
            "bridge",
            "ifname",
            "br9",
            "con-name",
            "br9",
            "bridge.stp",
            "no",
            *addresses,
        )
        manager.nmcli("con", "up", "br9")

    def stored() -> list[str]:
        return manager.nmcli(
            "-g", "bridge.vlan-filtering,connection.lldp", "con", "show", "br9"
        ).split()

    with prepared_networkmanager(Case(with_bridge, ())) as manager:
        before, settings = read_host_state(manager, NIC), stored()
        changes = (
            (*modify, "bridge.vlan-filtering", "yes"),
            (*modify, "connection.lldp", "enable-rx"),
        )
        with Change(manager, *changes) as change:
            assert (change.begin(), change.do()) == ("", "")
            changed = stored()
            assert changed != settings and "yes" in changed
            assert change.step("undo") == ""
        assert stored() == settings and state_after_restart(manager) == before


def test_profiles_without_files_are_restored_over_dbus() -> None:
    """As for ifcfg files: files below /etc are not visible. Secrets are restored as well."""
    secret = ("802-1x.eap", "md5", "802-1x.identity", "me", "802-1x.password", "it's a secret")
    rename = ("nmcli", "con", "mod", "mine", "connection.id", "renamed", *WRONG_ADDRESS)
    with prepared_networkmanager(Case(own_profile, ())) as manager:
        manager.nmcli("con", "mod", "second", *secret)
        before = read_host_state(manager, NIC)
        second = ("nmcli", "con", "mod", "second", "ipv4.addresses", "192.0.2.77/24")
        with Change(manager, rename, second, ADD, etc="/nowhere") as change:
            assert (change.begin(), change.do()) == ("", "")
            manager.nmcli("con", "delete", "second")
            assert change.step("undo") == ""
            after = read_host_state(manager, NIC)
        second_uuid = manager.nmcli("-g", "connection.uuid", "con", "show", "second").strip()
        (path,) = manager.call(
            f"{ROOT}/Settings", f"{SERVICE}.Settings", "GetConnectionByUuid", "s", second_uuid
        )
        (secrets,) = manager.call(path, PROFILE_INTERFACE, "GetSecrets", "s", "802-1x")
    assert secrets["802-1x"] == {"password": ("s", "it's a secret")}
    assert after.profiles.keys() == before.profiles.keys()
    for uuid, text in before.profiles.items():
        assert after.profiles[uuid].splitlines() == text.splitlines()
    assert (after.active, after.addresses) == (before.active, before.addresses)


def test_changes_of_others_are_preserved() -> None:
    """A profile is added by hand, and another one edited, before the undo."""
    case = CASES["wrong-address"]
    with prepared_networkmanager(case) as manager:
        with Change(manager, *case.actions) as change:
            assert (change.begin(), change.do()) == ("", "")
            manager.nmcli("con", "add", "type", "ethernet", "ifname", "none0", "con-name", "theirs")
            manager.nmcli("con", "mod", "second", "ipv4.addresses", "198.51.100.6/24")
            assert change.step("undo") == ""
        assert (
            manager.nmcli("-g", "ipv4.addresses", "con", "show", "second").strip()
            == "198.51.100.6/24"
        )
        assert "theirs" in manager.nmcli("-f", "NAME", "con", "show").splitlines()


# ------------------------------------------------------------------------------------ refusals


@pytest.mark.parametrize(
    ("action", "error_text"),
    [
        (("nmcli", "con", "up", "no such"), "no NetworkManager profiles have the name no such"),
        (
            ("nmcli", "con", "mod", "twice", "ipv4.method", "auto"),
            "2 NetworkManager profiles have the name twice",
        ),
    ],
    ids=["unknown", "ambiguous"],
)
def test_unknown_and_ambiguous_profiles(
    hosts: Hosts, action: tuple[str, ...], error_text: str
) -> None:
    with hosts.prepared(NO_ACTIONS) as host, host.change(action) as change:
        for _ in range(2):
            host.manager.nmcli(
                "con", "add", "type", "ethernet", "ifname", "none0", "con-name", "twice"
            )
        assert change.begin() == error_text
        added = set(host.manager.profiles()) - set(host.before.profiles)
        host.manager.nmcli("con", "delete", *(word for uuid in added for word in ("uuid", uuid)))


def test_second_change_of_a_device_is_refused(hosts: Hosts) -> None:
    """As long as the first is not finished."""
    reapply = ("nmcli", "dev", "reapply", NIC)
    with (
        hosts.prepared(NO_ACTIONS) as host,
        host.change(*RENAME) as change,
        Change(host.manager, reapply) as second,
    ):
        assert change.begin() == ""
        assert second.begin().startswith("NetworkManager cannot create a checkpoint: ")
        assert change.step("undo") == ""
        assert (second.begin(), second.step("undo")) == ("", "")


def test_without_networkmanager() -> None:
    with prepared_networkmanager(NO_ACTIONS) as manager, Change(manager, *RENAME) as change:
        assert (change.begin(), change.step("has_networkmanager_ended")) == ("", "False")
        os.kill(manager.bus.process.pid, signal.SIGSTOP)
        try:
            assert change.step("has_networkmanager_ended") == "False", "the bus does not answer"
        finally:
            os.kill(manager.bus.process.pid, signal.SIGCONT)
        manager.stop()
        assert change.step("has_networkmanager_ended") == "True"
        assert change.begin() == "NetworkManager is not running"
        manager.bus.end()
        assert change.begin() != ""


# ------------------------------------------------------------------------- NetworkManager is killed


class Kill:
    """Kills NetworkManager after `kill_after` seconds and starts it again `start_after` seconds
    later; a context manager that waits for both."""

    def __init__(
        self, manager: PrivateNetworkManager, kill_after: float, start_after: float
    ) -> None:
        self._errors: list[BaseException] = []
        self._manager, self._start_after = manager, start_after
        self._thread = threading.Timer(kill_after, self._work)

    def _work(self) -> None:
        try:
            self._manager.stop()
            threading.Event().wait(self._start_after)
            self._manager.start()
        except BaseException as error:
            self._errors.append(error)

    def __enter__(self) -> Kill:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._thread.join()
        if self._errors:
            raise self._errors[0]


def apply_actions(change: Change) -> None:
    """Up to the first error, like the guard, which then rolls back."""
    if not change.do():
        change.step("record_applied")


def measured_durations(change: Change) -> dict[str, float]:
    """Seconds of each stage without kills; they only determine where in a stage a kill falls."""
    times = [time.monotonic()]
    for stage in (change.begin, lambda: apply_actions(change), lambda: change.step("undo")):
        stage()
        times.append(time.monotonic())
    return {
        name: times[index + 1] - times[index] for index, name in enumerate(("begin", "do", "undo"))
    }


def restart_delay(kill: int) -> float:
    """Seconds until NetworkManager is started again: longer with each round of the cases."""
    return RESTART_DELAYS[kill // len(CASES) % len(RESTART_DELAYS)]


@kill_matrix(("begin", "after-begin", "do", "waiting", "undo"), tuple(CASES))
def test_killed_and_undone(hosts: Hosts, stage: str, kill: int, variant: str) -> None:
    case = CASES[variant]
    with hosts.prepared(case) as host:
        length = host.durations(case)[stage] if stage in ("begin", "do", "undo") else 0.0
        with host.change(*case.actions) as change:
            killer = Kill(host.manager, length * position_in_stage(kill), restart_delay(kill))
            if stage == "begin":
                with killer:
                    refusal = change.begin()
                assert refusal or change.step("undo") == ""
            else:
                assert change.begin() == ""
                assert undo_with_kill(stage, killer, change) == ""
        assert state_after_restart(host.manager) == host.before


def undo_with_kill(stage: str, killer: Kill, change: Change) -> str:
    """From after "begin" to the end of the undo, with a kill in one stage; returns the error of the
    undo. NetworkManager may still be gone when the undo begins."""
    if stage == "after-begin":
        with killer:
            return change.step("undo")
    if stage == "do":
        with killer:
            apply_actions(change)
            return change.step("undo")
    apply_actions(change)
    with killer:
        return change.step("undo")


@pytest.mark.parametrize("allowed", ["yes", "no"])
@kill_matrix(("starting", "at-rest"))
def test_restarted_networkmanager_activates_nothing(
    hosts: Hosts, stage: str, kill: int, allowed: str
) -> None:
    """A restarted NetworkManager would activate any profile that fits, while it starts as well as
    when the new profile is removed. `allowed`: whether the device may connect by itself."""
    case = CASES["set-up-by-hand"]
    with hosts.prepared(case) as host:
        manager = host.manager
        manager.nmcli("device", "set", NIC, "autoconnect", allowed)
        with host.change(*case.actions) as change:
            assert (change.begin(), change.do()) == ("", "")
            manager.stop()
            if stage == "starting":
                change.start("undo")
            manager.start()
            if stage == "at-rest":
                manager.wait_for(manager.has_started)
                change.start("undo")
            assert change.result() == ""
            assert (read_host_state(manager, NIC), autoconnect_allowed(manager)) == (
                host.before,
                allowed == "yes",
            )
        manager.nmcli(
            "device", "set", NIC, "autoconnect", "yes" if host.autoconnect_allowed else "no"
        )


@pytest.mark.parametrize(
    ("state", "active", "expected"),
    [
        (100, "added", False),  # active
        (110, "gone", False),  # deactivating: its profile was deleted
        (110, "", False),
        (20, "", True),
        (30, "", True),
        (100, "described", True),
    ],
)
def test_device_without_active_profile(state: int, active: str, expected: bool) -> None:
    """Only then may NetworkManager connect by itself again."""
    wanted = Target(NIC, "", NM_DEVICE_STATE_ACTIVATED, True, True, temporary=True)
    device = Device(NIC, "/d", state, 0, True, True, active, "/a" if active else "/", (), (), ())
    added, described = (
        BusProfile("/p", uuid, uuid, NIC, "", flags, False, {})
        for uuid, flags in PROFILE_FLAGS.items()
    )
    now = NmState(":1.1", {NIC: device}, {"added": added, "described": described})
    assert is_reached(wanted, device, now, None) is expected
    assert must_stop_autoconnect(wanted, device, now, False) is not expected
    assert must_stop_autoconnect(wanted, device, now, True)
    assert not must_stop_autoconnect(replace(wanted, uuid="added"), device, now, True)


@pytest.mark.parametrize(
    ("state", "reason", "autoconnect", "expected"),
    [
        (30, 5, True, "usual"),  # DHCP has failed
        (30, 39, True, ""),  # nmcli connection down
        (30, 39, False, ""),  # nmcli device disconnect
        (30, 60, True, ""),  # another profile is about to be activated
        (20, 40, True, ""),  # no carrier
    ],
)
def test_profile_that_is_activated_next(
    state: int, reason: int, autoconnect: bool, expected: str
) -> None:
    connections: dict[str, dict[str, object]] = {
        "usual": {"timestamp": ("t", 5)},
        "older": {},
        "by-hand": {"autoconnect": ("b", False)},
        "generated": {"autoconnect-priority": ("i", -999), "timestamp": ("t", 9)},
        "elsewhere": {"autoconnect-priority": ("i", 9)},
        "unavailable": {"autoconnect-priority": ("i", 9)},
    }
    profiles = {
        uuid: BusProfile(f"/{uuid}", uuid, uuid, "", "", 0, False, {"connection": connection})
        for uuid, connection in connections.items()
    }
    available = tuple(f"/{uuid}" for uuid in connections if uuid != "unavailable")
    device = Device(NIC, "/d", state, reason, True, autoconnect, "", "/", (), available, ())
    other = Device(
        "ens38",
        "/o",
        NM_DEVICE_STATE_ACTIVATED,
        0,
        True,
        True,
        "elsewhere",
        "/a",
        (),
        available,
        (),
    )
    now = NmState(":1.1", {NIC: device, "ens38": other}, profiles)
    target = Target.of(device, now)
    assert target.uuid == expected
    failed, disconnected = replace(device, state=30, reason=5), replace(device, state=30, reason=39)
    assert is_reached(target, failed, now, None)
    assert is_reached(target, disconnected, now, None) is not bool(expected)


@pytest.mark.parametrize(
    ("active", "action", "expected"),
    [
        ("plain", "con up paused", {"ethtool.pause-rx", "ethtool.feature-gro"}),
        ("paused", "con up paused", set()),
        ("alike", "con up paused", {"ethtool.feature-gro"}),
        ("", "con up paused ifname ens37", {"ethtool.pause-rx", "ethtool.feature-gro"}),
        ("plain", "con up renamed", {"ethtool.pause-rx", "ethtool.feature-gro"}),
        ("paused", "con up nobody", set()),
        (
            "plain",
            "con mod paused +ethtool.eee-enabled on ipv4.method auto",
            {"ethtool.eee-enabled", "ipv4.method"},
        ),
    ],
)
def test_changed_ethtool_settings_of_a_profile(
    active: str, action: str, expected: set[str]
) -> None:
    paused = {"pause-rx": ("b", False), "feature-gro": ("b", False)}
    settings = {
        "plain": {},
        "paused": {"ethtool": paused},
        "alike": {"ethtool": {"pause-rx": ("b", False)}},
    }
    profiles = {
        uuid: BusProfile("/p", uuid, uuid, NIC, "", 0, False, what)
        for uuid, what in settings.items()
    }
    device = Device(NIC, "/d", NM_DEVICE_STATE_ACTIVATED, 0, True, True, active, "/a", (), (), ())
    now = NmState(":1.1", {NIC: device}, profiles)
    earlier = [parse_action(["nmcli", "con", "mod", "paused", "connection.id", "renamed"])]
    operation = parse_action(["nmcli", *action.split()])
    assert changed_settings(operation, earlier, now) == expected
    refused = next(
        (name for name in sorted(expected) if name.startswith(("ethtool.pause", "ethtool.eee"))),
        None,
    )
    with pytest.raises(ValueError, match=refused) if refused else nullcontext():
        refuse_lasting_settings(operation, earlier, now)


def test_refused_while_networkmanager_starts(hosts: Hosts) -> None:
    """That state must not be saved: the undo would leave the link down. Without a carrier
    NetworkManager takes several seconds to start."""
    peer = f"far{NIC}"
    with hosts.prepared(NO_ACTIONS) as host, host.change(*RENAME) as change:
        manager, before = host.manager, host.before
        manager.stop()
        manager.namespace.run(["ip", "link", "set", "dev", peer, "down"])
        manager.start()
        assert (
            change.begin()
            == f"NetworkManager is still starting, no active profile on {NIC} yet: try again"
        )
        manager.namespace.run(["ip", "link", "set", "dev", peer, "up"])
        assert state_after_restart(manager) == before
        assert (
            change.begin(),
            change.do(),
            change.step("undo"),
            read_host_state(manager, NIC),
        ) == ("", "", "", before)


def test_activation_while_a_change_begins() -> None:
    device = Device(NIC, "/d", NM_DEVICE_STATE_ACTIVATED, 0, True, True, "one", "/a", (), (), ())
    profiles = {
        uuid: BusProfile("/p", uuid, uuid, NIC, "", 0, False, {}) for uuid in ("one", "other")
    }
    now = NmState(":1.1", {NIC: device}, profiles)
    checkpoint = Checkpoint(
        ":1.1",
        "/c",
        AffectedProfiles((NIC,), (), ()),
        (),
        {},
        (),
        (Target.of(device, now),),
        (),
        (),
        (),
    )
    assert change_since(checkpoint, now) == ""
    others = [replace(now, owner=":1.2"), replace(now, devices={})]
    others += [replace(now, devices={NIC: replace(device, active=uuid)}) for uuid in ("other", "")]
    for other in others:
        assert change_since(checkpoint, other) == f"NetworkManager is activating {NIC}: try again"


def test_ended_networkmanager_is_not_a_refusal(tmp_path: Path) -> None:
    """Otherwise a "keep" at that time would report that the change was rolled back."""
    if not shutil.which("dbus-daemon"):
        pytest.skip("no dbus-daemon")
    bus = Bus(tmp_path)
    try:
        with (
            NmClient(str(bus.socket), 10.0) as client,
            pytest.raises(ConnectionError, match="NetworkManager is not running"),
        ):
            client.request(ROOT, SERVICE, "CheckpointDestroy", "o", "/c")
    finally:
        bus.end()


@kill_matrix(("waiting", "keep"), tuple(CASES))
def test_killed_and_kept(hosts: Hosts, stage: str, kill: int, variant: str) -> None:
    """The confirmed state stays, whether NetworkManager is restarted before the confirmation or
    after it. A change kept this way can still be undone."""
    case = CASES[variant]
    with hosts.prepared(case) as host, host.change(*case.actions) as change:
        manager = host.manager
        assert (change.begin(), change.do(), change.step("record_applied")) == ("", "", "")
        changed = read_host_state(manager, NIC)
        killer = Kill(manager, 0.0, restart_delay(kill))
        if stage == "waiting":
            with killer:
                pass
            error = change.step("keep")
        else:
            with killer:
                error = change.step("keep")
        assert error == ""
        kept = state_after_restart(manager)
        assert kept == stored(changed, kept)
        assert (change.step("undo"), state_after_restart(manager)) == ("", host.before)


def test_keep_after_networkmanager_restarts_with_another_profile() -> None:
    """The confirmed profile is activated again, not the one that a NetworkManager without its state
    prefers."""
    case = CASES["another-profile"]
    with prepared_networkmanager(case) as manager, Change(manager, *case.actions) as change:
        assert (change.begin(), change.do(), change.step("record_applied")) == ("", "", "")
        changed = read_host_state(manager, NIC)
        manager.stop()
        manager.shell("rm /run/NetworkManager/devices/*")
        manager.namespace.run(["ip", "address", "flush", "dev", NIC])
        manager.start()
        assert state_after_restart(manager).active != changed.active
        assert change.step("keep") == ""
        kept = read_host_state(manager, NIC)
        assert kept == stored(changed, kept)


@pytest.mark.parametrize("name", CASES)
def test_undo_without_networkmanager(name: str) -> None:
    """Files, addresses and routes are restored without it; once started again, it finds everything
    as before."""
    case = CASES[name]
    with prepared_networkmanager(case) as manager:
        before = read_host_state(manager, NIC)
        with Change(manager, *case.actions) as change:
            assert (change.begin(), change.do()) == ("", "")
            manager.stop()
            assert change.step("undo", 1.0) == ""
            without = read_state_without_networkmanager(manager)
            assert without == (before.files, before.addresses, before.routes)
        manager.start()
        after = state_after_restart(manager)
    assert (after.files, after.profiles) == (before.files, before.profiles)


def read_state_without_networkmanager(manager: PrivateNetworkManager) -> tuple[object, ...]:
    files = {
        path: without_timestamp(text)
        for path, text in profile_files(manager).items()
        if "\nexternal=" not in text
    }
    return files, {NIC: addresses(manager, NIC)}, routes(manager)


def test_hanging_networkmanager(hosts: Hosts) -> None:
    """The timeout is reported, files and addresses are restored nevertheless, and NetworkManager
    follows once it continues."""
    case = CASES["wrong-address"]
    with hosts.prepared(case) as host, host.change(*case.actions) as change:
        manager, before = host.manager, host.before
        assert (change.begin(), change.do()) == ("", "")
        os.kill(manager.pid, signal.SIGSTOP)
        error = change.step("undo", 1.0)
        without = read_state_without_networkmanager(manager)
        os.kill(manager.pid, signal.SIGCONT)
        assert error == "NetworkManager did not answer in time"
        assert without == (before.files, before.addresses, before.routes)
        assert (change.step("undo"), read_host_state(manager, NIC)) == ("", before)


def test_rollback_by_networkmanager_itself(hosts: Hosts) -> None:
    """The process that made the change is gone: NetworkManager rolls back by itself, and refuses a
    late "keep"."""
    case = CASES["wrong-address"]
    with (
        hosts.prepared(case) as host,
        address_changes(host.manager) as monitor,
        host.change(*case.actions, keep_within=600.0) as change,
    ):
        manager, before = host.manager, host.before
        assert (change.begin(), change.do(), change.step("record_applied", 1.0)) == ("", "", "")
        assert read_host_state(manager, NIC).addresses != before.addresses
        while addresses(manager, NIC) != before.addresses[NIC]:
            assert monitor.readline()
        assert change.step("keep") == "NetworkManager rolled the change back"
        assert (change.step("undo"), read_host_state(manager, NIC)) == ("", before)


@contextmanager
def address_changes(manager: PrivateNetworkManager) -> Iterator[IO[bytes]]:
    """Output of ``ip monitor address``: at least one line for each change."""
    command = ["ip", "-n", manager.namespace.name, "monitor", "address"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, start_new_session=True) as process:
        assert process.stdout is not None
        try:
            yield process.stdout
        finally:
            process.kill()


@pytest.mark.parametrize(
    ("flags", "external", "method", "before", "words"),
    [
        (0x8, True, "disabled", "described (external)", "after a rollback it has none"),
        (0x8, True, "manual", "described (external)", "a rollback restores the addresses that"),
        (0x4, False, "manual", "described", "which NetworkManager then only describes"),
        (0x0, False, "manual", "described", ""),
    ],
)
def test_the_plan_says_what_a_rollback_cannot_bring_back(
    flags: int, external: bool, method: str, before: str, words: str
) -> None:
    settings = {"ipv4": {"method": ("s", method)}}
    profile = BusProfile("/p", "u", "described", NIC, "", flags, True, settings)
    other = BusProfile("/q", "v", "mine", NIC, "", 0, False, {})
    device = Device(NIC, "/d", 100, 0, True, True, "u", "/a", (), (), (), external)
    now = NmState(":1.1", {NIC: device}, {"u": profile, "v": other})
    operation = parse_action(("nmcli", "con", "up", "id", "mine"))
    described = describe_operation(operation, (), now)
    assert described.before == f"{NIC}: {before}"
    interruption, *limits = described.disturbs
    assert interruption == f"reconfigures {NIC}: short traffic interruption"
    assert words in "".join(limits) and bool(limits) is bool(words)
