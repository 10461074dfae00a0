"""Changes of real links by a real probe in a namespace; what came of it is read by ip and ethtool,
not by nictop."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import Iterator
from dataclasses import replace

import pytest

from nictop.changes.audit_log import LoggedChange
from nictop.changes.events import Applied, ChangeTimeouts, ConnectionLost, Event, Prepared, ReadBack
from nictop.changes.job import ChangeSpec
from nictop.changes.session import ChangeSession
from nictop.wire.local import LocalSource
from nictop.wire.probe_process import probe_command
from tests.changes.carrying import carry
from tests.support.namespaces import Namespace
from tests.support.probe import wait_until

LINK = "ens4"
MTU = ("ip", "link", "set", "dev", LINK, "mtu", "1400")
QUEUES = ("ethtool", "-L", LINK, "rx", "3", "tx", "3")
STEERING = ("write", f"/sys/class/net/{LINK}/queues/rx-0/rps_cpus", "1")
ALL = (MTU, QUEUES, STEERING)
SPEC = ChangeSpec("here", ALL, "a change", keep_within=300.0)
REAL = ChangeTimeouts(rollback=20.0, retry=0.1)


@pytest.fixture
def place(namespace: Namespace) -> Iterator[Namespace]:
    namespace.disable_ipv6()
    queues = ("numrxqueues", "4", "numtxqueues", "4")
    namespace.run(
        ["ip", "link", "add", LINK, *queues, "type", "veth", "peer", "name", "far", *queues]
    )
    for name in (LINK, "far"):
        namespace.run(["ip", "link", "set", name, "up"])
    yield namespace


def source(place: Namespace, *arguments: str) -> LocalSource:
    options = ("--interval", "0.2", "--eager", *arguments)
    command = ["ip", "netns", "exec", place.name, *probe_command(sys.executable, *options)]
    return LocalSource(0.2, command=command, name="here", retry=(0.05, 0.1))


def changing(place: Namespace) -> LocalSource:
    return source(place, "--allow-changes")


def state(place: Namespace) -> tuple[int, list[str], str]:
    """MTU, queues and steering, as other programs read them."""
    (link,) = json.loads(place.run(["ip", "-j", "link", "show", "dev", LINK]))
    shown = (
        place.run(["ethtool", "-l", LINK]).partition("Current hardware settings:")[2].splitlines()
    )
    queues = [line for line in shown if line.startswith(("RX:", "TX:"))]
    return link["mtu"], [line.split()[1] for line in queues], steering(place)


def steering(place: Namespace) -> str:
    """/sys of the namespace: that of its own mount, which ``ip netns exec`` makes."""
    return (
        place.run(["cat", f"/sys/class/net/{LINK}/queues/rx-0/rps_cpus"])
        .strip()
        .replace(",", "")
        .lstrip("0")
        or "0"
    )


NEW = (1400, ["3", "3"], "1")


def guards(place: Namespace) -> list[str]:
    """Processes of the namespace; none stays."""
    return place.run(["ip", "netns", "pids", place.name]).split()


def apply_and_keep(event: Event, change: ChangeSession) -> None:
    if isinstance(event, Prepared):
        change.apply(twice=True)
    if isinstance(event, ReadBack):
        change.keep()


def apply_only(event: Event, change: ChangeSession) -> None:
    if isinstance(event, Prepared):
        change.apply(twice=True)


async def test_what_is_kept_stays(place: Namespace) -> None:
    before = state(place)
    carried = await carry(changing(place), apply_and_keep, SPEC, limits=REAL)
    assert carried.end.outcome == "kept", carried.events
    assert state(place) == NEW != before
    (prepared,) = (event for event in carried.events if isinstance(event, Prepared))
    assert [one.before for one in prepared.plan][:2] == [
        "mtu 1500",
        f"rx {before[1][0]} tx {before[1][1]}",
    ]
    assert not prepared.needs_second_yes and carried.log[-1].state == "kept"
    wait_until(lambda: len(guards(place)) <= 1)  # that of ip itself


async def test_a_plan_changes_nothing(place: Namespace) -> None:
    before = state(place)
    carried = await carry(changing(place), lambda event, change: change.undo(), SPEC, limits=REAL)
    assert carried.end.outcome == "cancelled" and state(place) == before and not carried.log


async def test_an_unconfirmed_change_is_rolled_back_by_the_host(place: Namespace) -> None:
    before = state(place)
    seen = []

    def decide(event: Event, change: ChangeSession) -> None:
        apply_only(event, change)
        if isinstance(event, Applied):
            seen.append(state(place))

    carried = await carry(changing(place), decide, replace(SPEC, keep_within=5.0), limits=REAL)
    assert seen == [NEW] and state(place) == before and carried.end.outcome == "undone"


async def test_a_probe_that_only_reads_refuses(place: Namespace) -> None:
    before = state(place)
    carried = await carry(source(place), apply_and_keep, SPEC, limits=REAL)
    assert (
        carried.end.outcome == "refused"
        and "changes are disabled" in carried.end.text
        and state(place) == before
    )


async def test_a_precondition_that_changed_since_it_was_shown(place: Namespace) -> None:
    def decide(event: Event, change: ChangeSession) -> None:
        if isinstance(event, Prepared):
            place.run(["ip", "link", "set", LINK, "mtu", "1450"])
        apply_and_keep(event, change)

    carried = await carry(changing(place), decide, SPEC, limits=REAL)
    assert (
        carried.end.outcome == "refused" and state(place)[0] == 1450 and state(place)[1:] != NEW[1:]
    )
    assert [one.state for one in carried.log] == ["begun", "refused"]


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
async def test_a_connection_that_is_lost_undoes_it(
    place: Namespace, number: signal.Signals
) -> None:
    """The probe is killed; the host undoes it, and nictop reads that when a new probe is there."""
    before, there = state(place), changing(place)

    def decide(event: Event, change: ChangeSession) -> None:
        apply_only(event, change)
        if isinstance(event, Applied):
            assert there.pid is not None and state(place) == NEW
            os.kill(there.pid, number)

    carried = await carry(there, decide, SPEC, limits=REAL)
    assert any(isinstance(event, ConnectionLost) for event in carried.events)
    assert carried.end.outcome == "undone" and state(place) == before


async def test_a_connection_that_is_lost_with_the_yes_on_its_way(place: Namespace) -> None:
    """Kept or undone, as a whole, and what is said is what is there. A yes that arrived, but whose
    answer did not, is believed when the time of the change is over."""
    before, there = state(place), changing(place)

    def decide(event: Event, change: ChangeSession) -> None:
        apply_only(event, change)
        if isinstance(event, ReadBack):
            change.keep()
            asyncio.get_running_loop().call_soon(asyncio.get_running_loop().call_soon, kill)

    def kill() -> None:
        if there.pid is not None:
            os.kill(there.pid, signal.SIGKILL)

    carried = await carry(there, decide, replace(SPEC, keep_within=5.0), limits=REAL)
    assert {"kept": NEW, "undone": before}[carried.end.outcome] == state(place)


async def test_a_link_with_the_default_route_takes_a_second_yes(place: Namespace) -> None:
    place.run(["ip", "address", "add", "192.0.2.10/24", "dev", LINK])
    place.run(["ip", "route", "add", "default", "via", "192.0.2.1"])

    def once(event: Event, change: ChangeSession) -> None:
        if isinstance(event, Prepared):
            assert event.needs_second_yes
            assert any("default route" in text for one in event.plan for text in one.disturbs)
            change.apply()

    spec = replace(SPEC, actions=(MTU,))
    assert (await carry(changing(place), once, spec, limits=REAL)).end.outcome == "refused"
    assert state(place)[0] == 1500
    assert (await carry(changing(place), apply_and_keep, spec, limits=REAL)).end.outcome == "kept"
    assert state(place)[0] == 1400


async def test_two_nictops_at_one_link(place: Namespace) -> None:
    """The second is refused; the first continues."""
    others: list[str] = []
    first_applied, second_ended = asyncio.Event(), asyncio.Event()
    log: list[LoggedChange] = []

    def first(event: Event, change: ChangeSession) -> None:
        apply_only(event, change)
        if isinstance(event, Applied):
            first_applied.set()
            asyncio.ensure_future(keep_later(change))  # noqa: RUF006  (it ends before the change does)

    async def keep_later(change: ChangeSession) -> None:
        await second_ended.wait()
        change.keep()

    async def second() -> None:
        await first_applied.wait()
        spec = replace(SPEC, actions=(("ip", "link", "set", "dev", LINK, "mtu", "1300"),))
        carried = await carry(changing(place), apply_only, spec, limits=REAL)
        others.append(carried.end.outcome)
        second_ended.set()

    spec = replace(SPEC, actions=(MTU,), keep_within=60.0)
    carried, _ = await asyncio.gather(
        carry(changing(place), first, spec, limits=REAL, log=log.append), second()
    )
    assert carried.end.outcome == "kept" and others == ["refused"] and state(place)[0] == 1400


async def test_what_fails_in_the_middle_leaves_nothing(place: Namespace) -> None:
    """The second action is one that the driver refuses."""
    before = state(place)
    actions = (MTU, STEERING, ("ethtool", "-G", LINK, "rx", "1"), QUEUES)
    carried = await carry(
        changing(place), apply_and_keep, replace(SPEC, actions=actions), limits=REAL
    )
    assert carried.end.outcome in ("undone", "refused") and carried.end.text
    assert state(place) == before
