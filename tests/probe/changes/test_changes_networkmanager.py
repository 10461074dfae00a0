"""A change of NetworkManager taken back or kept, with a real NetworkManager in a namespace, killed at each stage: the
host ends as it was or as it was confirmed, never between, as nmcli, ip and the files say."""

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

from nictop.probe.changes.grammar.actions import parse_action
from nictop.probe.changes.networkmanager.activation import Wanted, is_so, is_to_be_held
from nictop.probe.changes.networkmanager.affected import AffectedProfiles
from nictop.probe.changes.networkmanager.checkpoint import Checkpoint, why_not_the_same
from nictop.probe.changes.networkmanager.kernel_settings import refuse_what_would_stay, settings_of
from nictop.probe.changes.networkmanager.state import EXTERNAL, Asking, BusProfile, Device, NetworkManagerNow
from nictop.probe.inventory.managers.networkmanager import ROOT, SERVICE
from tests.support.kills import kill_matrix, moment_of
from tests.support.managed_change import (
    Change,
    Seen,
    addresses,
    end_child,
    profile_files,
    routes,
    seen,
    start_child,
    without_timestamp,
)
from tests.support.networkmanager import Bus, PrivateNetworkManager, private_networkmanager, why_no_networkmanager

NIC = "ens37"
MADE_UP = "Wired connection 1"
ACTIVATING, ACTIVATED = 40, 100
PROFILES = {"added": 0, "described": EXTERNAL}
"""UUID → flags."""
ABSENCES = (0.0, 0.6, 1.2, 1.8)
"""Seconds until a NetworkManager that has been killed is started anew."""
STATIC = ("ipv4.method", "manual", "ipv4.addresses", "192.0.2.9/24", "ipv6.method", "disabled")
HOSTILE = {
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
    """What is on the host, and what is done to it."""

    prepare: Callable[[PrivateNetworkManager], None]
    actions: tuple[tuple[str, ...], ...]


def nothing(_: PrivateNetworkManager) -> None:
    """The made-up profile waits for DHCP."""


def own_profile(manager: PrivateNetworkManager) -> None:
    """One's own, saved, with an address and a default route; and a second one that is not up."""
    way = ("ipv4.method", "manual", "ipv4.addresses", "192.0.2.1/24", "ipv4.gateway", "192.0.2.254")
    manager.nmcli("con", "mod", MADE_UP, "con.id", "mine", *way, "ipv6.method", "disabled")
    manager.nmcli("con", "up", "mine")
    other = ("ipv4.method", "manual", "ipv4.addresses", "198.51.100.5/24", "802-3-ethernet.mtu", "1400")
    manager.nmcli("con", "add", "type", "ethernet", "ifname", NIC, "con-name", "second", "autoconnect", "no", *other)


def set_up_by_hand(manager: PrivateNetworkManager) -> None:
    """An address and a route that no profile knows: NetworkManager only looks on."""
    manager.nmcli("device", "disconnect", NIC)
    manager.namespace.run(["ip", "address", "add", "198.51.100.7/24", "dev", NIC])
    manager.namespace.run(["ip", "route", "add", "203.0.113.0/24", "via", "198.51.100.1"])
    manager.wait_for(lambda: manager.device_state(NIC) == ACTIVATED)


RENAMED = (("nmcli", "con", "mod", MADE_UP, "connection.id", NIC, *STATIC), ("nmcli", "con", "up", "id", NIC))
WRONG = ("ipv4.addresses", "203.0.113.9/24", "ipv4.gateway", "203.0.113.1")
ADDED = ("nmcli", "con", "add", "type", "ethernet", "ifname", NIC, "con-name", "added", *STATIC)
CASES = {
    "renamed": Case(nothing, RENAMED),
    "wrong-address": Case(own_profile, (("nmcli", "con", "mod", "mine", *WRONG), ("nmcli", "con", "up", "mine"))),
    "added-profile": Case(nothing, (ADDED, ("nmcli", "con", "up", "added"))),
    "another-profile": Case(own_profile, (("nmcli", "con", "up", "second"),)),
    "set-up-by-hand": Case(set_up_by_hand, (ADDED, ("nmcli", "con", "up", "added"))),
}
REAPPLIED = Case(
    own_profile, (("nmcli", "con", "mod", "mine", "+ipv4.addresses", "192.0.2.2/24"), ("nmcli", "dev", "reapply", NIC))
)
UNCHANGED = Case(nothing, ())


@contextmanager
def prepared(case: Case) -> Iterator[PrivateNetworkManager]:
    """One with ens37, as the case wants it."""
    reason = why_no_networkmanager()
    if reason is not None:
        pytest.skip(f"no real NetworkManager: {reason}")
    with private_networkmanager(NIC) as manager:
        manager.wait_for(lambda: manager.device_state(NIC) >= ACTIVATING)
        case.prepare(manager)
        yield manager


class Host:
    """A prepared one that several tests use, each of which leaves it as it was; `close` ends it."""

    def __init__(self, case: Case) -> None:
        with ExitStack() as stack:
            self.manager = stack.enter_context(prepared(case))
            self.before, self.may_connect = seen(self.manager, NIC), may_connect(self.manager)
            self._child = start_child(self.manager)
            stack.callback(end_child, self._child)
            self.close = stack.pop_all().close
        self._durations: dict[Case, dict[str, float]] = {}

    def change(self, *actions: Sequence[str], keep_within: float = 60.0) -> Change:
        """One at a time: they share a process, which takes a tenth of a second to start."""
        return Change(self.manager, *actions, keep_within=keep_within, process=self._child)

    def durations(self, case: Case) -> dict[str, float]:
        """Seconds that each stage of a change takes when nothing is killed; measured once."""
        if case not in self._durations:
            self._durations[case] = measured_durations(self.change(*case.actions))
            assert rested(self.manager) == self.before
        return self._durations[case]


class Hosts:
    """Those of this module. A host that a test has failed with, or has not left as it was, is not used again."""

    def __init__(self) -> None:
        self._free: dict[Callable[[PrivateNetworkManager], None], Host] = {}

    @contextmanager
    def prepared(self, case: Case) -> Iterator[Host]:
        host = self._free.pop(case.prepare, None) or Host(case)
        try:
            yield host
            assert (seen(host.manager, NIC), may_connect(host.manager)) == (host.before, host.may_connect)
        except BaseException:
            host.close()
            raise
        self._free[case.prepare] = host

    def close(self) -> None:
        for host in self._free.values():
            host.close()


@pytest.fixture(scope="module")
def hosts() -> Iterator[Hosts]:
    made = Hosts()
    yield made
    made.close()


def rested(manager: PrivateNetworkManager) -> Seen:
    """What is there when a NetworkManager that has been killed is back and something is up again."""
    manager.wait_for(lambda: manager.device_state(NIC) >= ACTIVATING)
    return seen(manager, NIC)


def may_connect(manager: PrivateNetworkManager) -> bool:
    """Whether the device may connect by itself."""
    return bool(manager.device(NIC, "Autoconnect"))


# ------------------------------------------------------------------------------------ nothing is killed


@pytest.mark.parametrize("name", [*CASES, "reapplied"])
def test_taken_back(hosts: Hosts, name: str) -> None:
    case = CASES.get(name, REAPPLIED)
    with hosts.prepared(case) as host, host.change(*case.actions) as change:
        assert (change.begin(), change.do(), change.step("settled")) == ("", "", "")
        changed = seen(host.manager, NIC)
        assert changed.addresses != host.before.addresses
        assert (change.step("undo"), seen(host.manager, NIC)) == ("", host.before)
        # once more changes nothing
        assert (change.step("undo"), seen(host.manager, NIC)) == ("", host.before)


@pytest.mark.parametrize("name", CASES)
def test_kept(name: str) -> None:
    """No checkpoint is left that would take it back later, or be in the way of another change."""
    with prepared(CASES[name]) as manager, Change(manager, *CASES[name].actions) as change:
        assert (change.begin(), change.do(), change.step("settled")) == ("", "", "")
        changed = seen(manager, NIC)
        assert (change.step("keep"), seen(manager, NIC)) == ("", changed)
        with Change(manager, ("nmcli", "dev", "reapply", NIC)) as another:
            assert (another.begin(), another.step("undo"), seen(manager, NIC)) == ("", "", changed)


def test_a_device_that_was_disconnected_is_disconnected_again() -> None:
    with prepared(UNCHANGED) as manager, Change(manager, ADDED, ("nmcli", "con", "up", "added")) as change:
        manager.nmcli("device", "disconnect", NIC)
        before = seen(manager, NIC)
        assert (change.begin(), change.do()) == ("", "")
        assert seen(manager, NIC).active != before.active
        assert (change.step("undo"), seen(manager, NIC)) == ("", before)
        assert before.active == {NIC: ""}


@pytest.mark.parametrize("name", HOSTILE.values(), ids=HOSTILE)
def test_names_that_are_hard_to_write_down(hosts: Hosts, name: str) -> None:
    """A profile renamed to it, and one added under it: nothing is left of either."""
    rename = ("nmcli", "con", "mod", MADE_UP, "connection.id", name)
    add = ("nmcli", "con", "add", "type", "ethernet", "ifname", NIC, "con-name", f"{name}+", *STATIC)
    with hosts.prepared(UNCHANGED) as host, host.change(rename, add) as change:
        assert (change.begin(), change.do()) == ("", "")
        assert name in host.manager.nmcli("-e", "no", "-f", "NAME", "con", "show").splitlines()
        assert (change.step("undo"), rested(host.manager)) == ("", host.before)


def test_profiles_that_are_no_files_are_given_back_over_the_bus() -> None:
    """As for ifcfg files: the ones below /etc are not seen. Secrets come back as well."""
    secret = ("802-1x.eap", "md5", "802-1x.identity", "me", "802-1x.password", "it's a secret")
    rename = ("nmcli", "con", "mod", "mine", "connection.id", "renamed", *WRONG)
    with prepared(Case(own_profile, ())) as manager:
        manager.nmcli("con", "mod", "second", *secret)
        before = seen(manager, NIC)
        second = ("nmcli", "con", "mod", "second", "ipv4.addresses", "192.0.2.77/24")
        with Change(manager, rename, second, ADDED, etc="/nowhere") as change:
            assert (change.begin(), change.do()) == ("", "")
            manager.nmcli("con", "delete", "second")
            assert change.step("undo") == ""
            after = seen(manager, NIC)
    assert after.profiles.keys() == before.profiles.keys()
    for uuid, text in before.profiles.items():
        assert after.profiles[uuid].splitlines() == text.splitlines()
    assert (after.active, after.addresses) == (before.active, before.addresses)
    assert any("it's a secret" in text for text in after.profiles.values())


def test_what_others_do_meanwhile_stays() -> None:
    """A profile that is added by hand, and one that is edited, while a change waits."""
    case = CASES["wrong-address"]
    with prepared(case) as manager:
        with Change(manager, *case.actions) as change:
            assert (change.begin(), change.do()) == ("", "")
            manager.nmcli("con", "add", "type", "ethernet", "ifname", "none0", "con-name", "theirs")
            manager.nmcli("con", "mod", "second", "ipv4.addresses", "198.51.100.6/24")
            assert change.step("undo") == ""
        assert manager.nmcli("-g", "ipv4.addresses", "con", "show", "second").strip() == "198.51.100.6/24"
        assert "theirs" in manager.nmcli("-f", "NAME", "con", "show").splitlines()


# ------------------------------------------------------------------------------------ it does not begin


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("nmcli", "con", "up", "no such"), "no profiles of NetworkManager are called no such"),
        (("nmcli", "con", "mod", "twice", "ipv4.method", "auto"), "2 profiles of NetworkManager are called twice"),
    ],
    ids=["none", "two"],
)
def test_a_profile_that_is_not_the_one(hosts: Hosts, words: tuple[str, ...], sentence: str) -> None:
    with hosts.prepared(UNCHANGED) as host, host.change(words) as change:
        for _ in range(2):
            host.manager.nmcli("con", "add", "type", "ethernet", "ifname", "none0", "con-name", "twice")
        assert change.begin() == sentence
        added = set(host.manager.profiles()) - set(host.before.profiles)
        host.manager.nmcli("con", "delete", *(word for uuid in added for word in ("uuid", uuid)))


def test_two_changes_of_one_device(hosts: Hosts) -> None:
    """The second is refused as long as the first waits."""
    reapply = ("nmcli", "dev", "reapply", NIC)
    with (
        hosts.prepared(UNCHANGED) as host,
        host.change(*RENAMED) as change,
        Change(host.manager, reapply) as second,
    ):
        assert change.begin() == ""
        assert second.begin().startswith("NetworkManager makes no checkpoint: ")
        assert change.step("undo") == ""
        assert (second.begin(), second.step("undo")) == ("", "")


def test_without_networkmanager() -> None:
    with prepared(UNCHANGED) as manager, Change(manager, *RENAMED) as change:
        assert (change.begin(), change.step("is_still_there")) == ("", "True")
        manager.stop()
        assert change.step("is_still_there") == "False"
        assert change.begin() == "NetworkManager does not run"
        manager.bus.end()
        assert change.begin() != ""


# ------------------------------------------------------------------------------------ NetworkManager is killed


class Kill:
    """NetworkManager is killed after `kill_after` seconds and started anew `start_after` seconds later; a context
    manager that waits for both."""

    def __init__(self, manager: PrivateNetworkManager, kill_after: float, start_after: float) -> None:
        self._trouble: list[BaseException] = []
        self._manager, self._start_after = manager, start_after
        self._thread = threading.Timer(kill_after, self._work)

    def _work(self) -> None:
        try:
            self._manager.stop()
            threading.Event().wait(self._start_after)
            self._manager.start()
        except BaseException as error:
            self._trouble.append(error)

    def __enter__(self) -> Kill:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._thread.join()
        if self._trouble:
            raise self._trouble[0]


def begin_and_do(change: Change) -> None:
    """As far as it goes; like the guard, which takes back what went wrong."""
    if not change.do():
        change.step("settled")


def measured_durations(change: Change) -> dict[str, float]:
    """Seconds that each stage takes when nothing is killed: they only say where in a stage a kill falls."""
    times = [time.monotonic()]
    for stage in (change.begin, lambda: begin_and_do(change), lambda: change.step("undo")):
        stage()
        times.append(time.monotonic())
    return {name: times[place + 1] - times[place] for place, name in enumerate(("begin", "do", "undo"))}


def absence_of(kill: int) -> float:
    """Seconds until NetworkManager is back: longer with each round of the cases."""
    return ABSENCES[kill // len(CASES) % len(ABSENCES)]


@kill_matrix(("begin", "begun", "do", "waiting", "undo"), tuple(CASES))
def test_killed_and_taken_back(hosts: Hosts, stage: str, kill: int, variant: str) -> None:
    case = CASES[variant]
    with hosts.prepared(case) as host:
        length = host.durations(case)[stage] if stage in ("begin", "do", "undo") else 0.0
        with host.change(*case.actions) as change:
            killing = Kill(host.manager, length * moment_of(kill), absence_of(kill))
            if stage == "begin":
                with killing:
                    refusal = change.begin()
                assert refusal or change.step("undo") == ""
            else:
                assert change.begin() == ""
                assert end_in(stage, killing, change) == ""
        assert rested(host.manager) == host.before


def end_in(stage: str, killing: Kill, change: Change) -> str:
    """From "begun" to the end of the undo, killed in one stage; what the undo says. NetworkManager may be away still
    when it is asked to undo."""
    if stage == "begun":
        with killing:
            return change.step("undo")
    if stage == "do":
        with killing:
            begin_and_do(change)
            return change.step("undo")
    begin_and_do(change)
    with killing:
        return change.step("undo")


@pytest.mark.parametrize("allowed", ["yes", "no"])
@kill_matrix(("starting", "at-rest"))
def test_another_networkmanager_brings_up_nothing_by_itself(hosts: Hosts, stage: str, kill: int, allowed: str) -> None:
    """One that has been started anew while the change was there would prefer any profile to none, and has no reason yet
    not to: neither while it is only starting, nor when the new profile is taken away from under it. `allowed`: whether
    the device may connect by itself as soon as it is not set up otherwise."""
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
                manager.wait_for(manager.is_at_rest)
                change.start("undo")
            assert change.answer() == ""
            assert (seen(manager, NIC), may_connect(manager)) == (host.before, allowed == "yes")
        manager.nmcli("device", "set", NIC, "autoconnect", "yes" if host.may_connect else "no")


@pytest.mark.parametrize(
    ("state", "active", "expected"),
    [
        (100, "added", False),  # up
        (110, "gone", False),  # its profile has been deleted: it is on its way down
        (110, "", False),
        (20, "", True),
        (30, "", True),
        (100, "described", True),
    ],
)
def test_when_nothing_is_up(state: int, active: str, expected: bool) -> None:
    """And only then NetworkManager may connect by itself again."""
    wanted = Wanted(NIC, "", ACTIVATED, True, True, True)
    device = Device(NIC, "/d", state, True, True, active, "/a" if active else "/", (), (), ())
    added, described = (BusProfile("/p", uuid, uuid, NIC, "", flags, False, {}) for uuid, flags in PROFILES.items())
    now = NetworkManagerNow(":1.1", {NIC: device}, {"added": added, "described": described})
    assert is_so(wanted, device, now, None) is expected
    assert is_to_be_held(wanted, device, now, False) is not expected
    assert is_to_be_held(wanted, device, now, True)
    assert not is_to_be_held(replace(wanted, uuid="added"), device, now, True)


@pytest.mark.parametrize(
    ("active", "words", "expected"),
    [
        ("plain", "con up paused", {"ethtool.pause-rx", "ethtool.feature-gro"}),
        ("paused", "con up paused", set()),
        ("alike", "con up paused", {"ethtool.feature-gro"}),
        ("", "con up paused ifname ens37", {"ethtool.pause-rx", "ethtool.feature-gro"}),
        ("plain", "con up renamed", {"ethtool.pause-rx", "ethtool.feature-gro"}),
        ("paused", "con up nobody", set()),
        ("plain", "con mod paused +ethtool.eee-enabled on ipv4.method auto", {"ethtool.eee-enabled", "ipv4.method"}),
    ],
)
def test_what_a_profile_would_set_that_is_not_so_already(active: str, words: str, expected: set[str]) -> None:
    paused = {"pause-rx": ("b", False), "feature-gro": ("b", False)}
    settings = {"plain": {}, "paused": {"ethtool": paused}, "alike": {"ethtool": {"pause-rx": ("b", False)}}}
    profiles = {uuid: BusProfile("/p", uuid, uuid, NIC, "", 0, False, what) for uuid, what in settings.items()}
    device = Device(NIC, "/d", ACTIVATED, True, True, active, "/a", (), (), ())
    now = NetworkManagerNow(":1.1", {NIC: device}, profiles)
    earlier = [parse_action(["nmcli", "con", "mod", "paused", "connection.id", "renamed"])]
    operation = parse_action(["nmcli", *words.split()])
    assert settings_of(operation, earlier, now) == expected
    refused = next((name for name in sorted(expected) if name.startswith(("ethtool.pause", "ethtool.eee"))), None)
    with pytest.raises(ValueError, match=refused) if refused else nullcontext():
        refuse_what_would_stay(operation, earlier, now)


def test_refused_while_networkmanager_is_only_starting(hosts: Hosts) -> None:
    """Which must not be taken for what was before: a change that begins then would be taken back to a link that is
    down for good. Without a carrier NetworkManager goes on starting for some seconds."""
    peer = f"far{NIC}"
    with hosts.prepared(UNCHANGED) as host, host.change(*RENAMED) as change:
        manager, before = host.manager, host.before
        manager.stop()
        manager.namespace.run(["ip", "link", "set", "dev", peer, "down"])
        manager.start()
        assert change.begin() == f"NetworkManager is only starting, and nothing is up on {NIC} yet: try again"
        manager.namespace.run(["ip", "link", "set", "dev", peer, "up"])
        assert rested(manager) == before
        assert (change.begin(), change.do(), change.step("undo"), seen(manager, NIC)) == ("", "", "", before)


def test_what_comes_up_while_a_change_begins() -> None:
    device = Device(NIC, "/d", ACTIVATED, True, True, "one", "/a", (), (), ())
    profiles = {uuid: BusProfile("/p", uuid, uuid, NIC, "", 0, False, {}) for uuid in ("one", "other")}
    now = NetworkManagerNow(":1.1", {NIC: device}, profiles)
    kept = Checkpoint(":1.1", "/c", AffectedProfiles((NIC,), (), ()), (), {}, (), (Wanted.of(device, now),), (), (), ())
    assert why_not_the_same(kept, now) == ""
    others = [replace(now, owner=":1.2"), replace(now, devices={})]
    others += [replace(now, devices={NIC: replace(device, active=uuid)}) for uuid in ("other", "")]
    for other in others:
        assert why_not_the_same(kept, other) == f"NetworkManager sets up {NIC} by itself just now: try again"


def test_networkmanager_that_has_ended_has_not_refused(tmp_path: Path) -> None:
    """Else a confirmation in the moment of its end would be told that the change had been taken back."""
    if not shutil.which("dbus-daemon"):
        pytest.skip("no dbus-daemon")
    private = Bus(tmp_path)
    try:
        with Asking(str(private.socket), 10.0) as asking, pytest.raises(ConnectionError, match="does not run"):
            asking.ask(ROOT, SERVICE, "CheckpointDestroy", "o", "/c")
    finally:
        private.end()


@kill_matrix(("waiting", "keep"), tuple(CASES))
def test_killed_and_kept(hosts: Hosts, stage: str, kill: int, variant: str) -> None:
    """It is the confirmed new state, though NetworkManager has been started anew before the confirmation, or is only
    started anew after it. A change that has been kept so can still be taken back."""
    case = CASES[variant]
    with hosts.prepared(case) as host, host.change(*case.actions) as change:
        manager = host.manager
        assert (change.begin(), change.do(), change.step("settled")) == ("", "", "")
        changed = seen(manager, NIC)
        killing = Kill(manager, 0.0, absence_of(kill))
        if stage == "waiting":
            with killing:
                pass
            complaint = change.step("keep")
        else:
            with killing:
                complaint = change.step("keep")
        assert (complaint, rested(manager)) == ("", changed)
        assert (change.step("undo"), rested(manager)) == ("", host.before)


def test_kept_though_it_comes_back_with_something_else() -> None:
    """What was confirmed is brought up again, not what NetworkManager prefers when it has lost its memory."""
    case = CASES["another-profile"]
    with prepared(case) as manager, Change(manager, *case.actions) as change:
        assert (change.begin(), change.do(), change.step("settled")) == ("", "", "")
        changed = seen(manager, NIC)
        manager.stop()
        manager.shell("rm /run/NetworkManager/devices/*")
        manager.namespace.run(["ip", "address", "flush", "dev", NIC])
        manager.start()
        assert rested(manager).active != changed.active
        assert (change.step("keep"), seen(manager, NIC)) == ("", changed)


@pytest.mark.parametrize("name", CASES)
def test_killed_for_good(name: str) -> None:
    """Files, addresses and routes are back without it; and it finds everything as before when it is started again."""
    case = CASES[name]
    with prepared(case) as manager:
        before = seen(manager, NIC)
        with Change(manager, *case.actions) as change:
            assert (change.begin(), change.do()) == ("", "")
            manager.stop()
            assert change.step("undo", 1.0) == ""
            without = seen_without_networkmanager(manager)
            assert without == (before.files, before.addresses, before.routes)
        manager.start()
        after = rested(manager)
    assert (after.files, after.profiles) == (before.files, before.profiles)


def seen_without_networkmanager(manager: PrivateNetworkManager) -> tuple[object, ...]:
    files = {
        path: without_timestamp(text) for path, text in profile_files(manager).items() if "\nexternal=" not in text
    }
    return files, {NIC: addresses(manager, NIC)}, routes(manager)


def test_networkmanager_that_hangs(hosts: Hosts) -> None:
    """It is said, files and addresses are back all the same, and NetworkManager follows when it goes on."""
    case = CASES["wrong-address"]
    with hosts.prepared(case) as host, host.change(*case.actions) as change:
        manager, before = host.manager, host.before
        assert (change.begin(), change.do()) == ("", "")
        os.kill(manager.pid, signal.SIGSTOP)
        complaint = change.step("undo", 1.0)
        without = seen_without_networkmanager(manager)
        os.kill(manager.pid, signal.SIGCONT)
        assert complaint == "NetworkManager did not answer in time"
        assert without == (before.files, before.addresses, before.routes)
        assert (change.step("undo"), seen(manager, NIC)) == ("", before)


def test_neither_kept_nor_undone(hosts: Hosts) -> None:
    """What asked for the change is gone: NetworkManager rolls back by itself, and says so to a late confirmation."""
    case = CASES["wrong-address"]
    with (
        hosts.prepared(case) as host,
        address_changes(host.manager) as news,
        host.change(*case.actions, keep_within=600.0) as change,
    ):
        manager, before = host.manager, host.before
        assert (change.begin(), change.do(), change.step("settled", 1.0)) == ("", "", "")
        assert seen(manager, NIC).addresses != before.addresses
        while addresses(manager, NIC) != before.addresses[NIC]:
            assert news.readline()
        assert change.step("keep") == "NetworkManager has taken the change back by itself"
        assert (change.step("undo"), seen(manager, NIC)) == ("", before)


@contextmanager
def address_changes(manager: PrivateNetworkManager) -> Iterator[IO[bytes]]:
    """A line or more for each."""
    command = ["ip", "-n", manager.namespace.name, "monitor", "address"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, start_new_session=True) as process:
        assert process.stdout is not None
        try:
            yield process.stdout
        finally:
            process.kill()
