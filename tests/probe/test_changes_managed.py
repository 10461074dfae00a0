"""A change of NetworkManager's made by the guard itself, together with one of the kernel's: shown, kept, taken back,
and with the guard, the probe or NetworkManager killed on the way."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.support.changes import Changing, guards_in
from tests.support.managed_change import Seen, seen
from tests.support.networkmanager import PrivateNetworkManager, private_networkmanager, why_no_networkmanager
from tests.support.probe import Probe, wait_until

NIC = "ens37"
MADE_UP = "Wired connection 1"
RENAMED = ["nmcli", "con", "mod", "id", MADE_UP, "connection.id", NIC, "connection.interface-name", NIC]
STATIC = ["ipv4.method", "manual", "ipv4.addresses", "192.0.2.9/24", "ipv6.method", "disabled"]
ACTIONS = [[*RENAMED, *STATIC], ["nmcli", "con", "up", "id", NIC], ["ip", "link", "set", "dev", NIC, "mtu", "1400"]]
TIMES = 20
ACTIVATING = 40
"""NM_DEVICE_STATE_PREPARE: something comes up, or is up."""

pytestmark = pytest.mark.skipif(why_no_networkmanager() is not None, reason=str(why_no_networkmanager()))


@pytest.fixture(scope="module")
def manager() -> Iterator[PrivateNetworkManager]:
    """One that has made up a profile for the NIC, and asks for addresses in vain."""
    with private_networkmanager(NIC) as one:
        one.wait_for(lambda: one.nmcli("-g", "GENERAL.CONNECTION", "device", "show", NIC).strip() == MADE_UP)
        yield one


@contextmanager
def probe_in(manager: PrivateNetworkManager) -> Iterator[Changing]:
    arguments = ("--interval", "60", "--allow-changes")
    with Probe(*arguments, prefix=manager.prefix) as probe:
        yield Changing(probe)


def looks(manager: PrivateNetworkManager) -> tuple[Seen, str]:
    manager.wait_for(lambda: manager.device_state(NIC) >= ACTIVATING)
    mtu = manager.namespace.run(["cat", f"/sys/class/net/{NIC}/mtu"])
    return seen(manager, NIC), mtu


def test_shown_made_and_taken_back(manager: PrivateNetworkManager) -> None:
    old = looks(manager)
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
        assert (made.addresses[NIC], mtu_now.strip()) == (["192.0.2.9/24"], "1400")
        change.ask("undo")
        assert change.end() == "undone"
        assert looks(manager) == old
    wait_until(lambda: not guards_in(manager.namespace))


@pytest.mark.parametrize("victim", ["guard", "probe", "client", "networkmanager"])
def test_killed_before_it_is_kept(manager: PrivateNetworkManager, victim: str) -> None:
    old = looks(manager)
    for number in range(TIMES):
        with probe_in(manager) as change:
            change.apply(ACTIONS)
            change.said("applied" if number % 2 else "applying")
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
        assert looks(manager) == old, (number, victim)


def test_the_connection_goes_while_dhcp_is_waited_for(manager: PrivateNetworkManager) -> None:
    """Three quarters of a minute, which nobody wants to be locked out for."""
    old = looks(manager)
    actions = [[*RENAMED, "ipv4.may-fail", "no"], ["nmcli", "con", "up", "id", NIC]]
    with probe_in(manager) as change:
        change.apply(actions)
        change.said("applying")
        wait_until(lambda: manager.nmcli("-g", "GENERAL.CONNECTION", "device", "show", NIC).strip() == NIC)
        assert change.probe.process.stdin is not None
        change.probe.process.stdin.close()
        wait_until(lambda: not guards_in(manager.namespace))
    assert looks(manager) == old


def test_kept(manager: PrivateNetworkManager) -> None:
    with probe_in(manager) as change:
        change.apply(ACTIONS)
        change.said("applied")
        made = looks(manager)
        change.ask("keep")
        assert change.end() == "kept"
    wait_until(lambda: not guards_in(manager.namespace))
    now = looks(manager)
    assert now == made and list(now[0].files) and now[0].addresses[NIC] == ["192.0.2.9/24"]


def test_a_profile_that_nobody_has(manager: PrivateNetworkManager) -> None:
    with probe_in(manager) as change:
        for name in ("nothing", 'it\'s $(reboot) "mine"'):
            change.ask("prepare", actions=[["nmcli", "con", "mod", "id", name, "ipv4.method", "auto"]])
            assert "profiles of NetworkManager are called" in change.said("refused").text
