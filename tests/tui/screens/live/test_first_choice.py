"""Which interface is chosen before the user chooses one: the first, then, once the checks have run,
the one with the worst finding. What a key acts on is what was shown when it was pressed."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest

from nictop.probe.light_dataclasses import replace
from nictop.probe.records import Address, Line
from nictop.rules.wording import is_checked
from nictop.tui.screens.live.screen import LiveScreen
from nictop.tui.widgets.base.choice_list import REACTION_SECONDS
from nictop.tui.widgets.traffic.pair_table import PairTable
from nictop.wire.source import SourceState
from tests.support.lines import counters, hello, inventory, link
from tests.support.screen import FROZEN_TIME, Screen, screen_with_hosts, wait_until
from tests.support.stages import STAGES, items_of, recorded_hosts

Clock = Callable[[float], None]
HOST, *_ = recorded_hosts()
FIRST, WORST = "ens192", "ens224"


@asynccontextmanager
async def starting(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[tuple[Screen, Start]]:
    """A host of which nothing is known yet."""
    async with screen_with_hosts(HOST) as (screen, hosts):
        start = Start(screen, hosts[HOST].send, monkeypatch)
        yield screen, start


class Start:
    """Of a slow host. `go_on`: to a stage, some seconds later."""

    def __init__(
        self, screen: Screen, send: Callable[..., None], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        self._screen, self._send, self._patch = screen, send, monkeypatch
        self._now, self._stage = FROZEN_TIME, -1

    def wait(self, seconds: float) -> None:
        self._now += seconds
        self._patch.setattr("nictop.tui.controllers.nictop.monotonic", lambda: self._now)

    async def go_on(self, stage: str, seconds: float = 5.0) -> None:
        screen, nictop = self._screen, self._screen.nictop
        self.wait(seconds)
        last = STAGES.index(stage)
        for name in STAGES[self._stage + 1 : last + 1]:
            self._send(*items_of(HOST)[name])
        self._stage = last
        session = nictop.hosts.session
        first, *_ = items_of(HOST)[stage]
        assert isinstance(first, Line) and first.inventory is not None
        wanted = first.inventory
        await wait_until(
            screen,
            lambda: (
                session.snapshot.inventory is not None
                and session.snapshot.inventory.pending == wanted.pending
            ),
        )
        if stage == "all":
            await wait_until(screen, lambda: is_checked(nictop.diagnosis.result, session.snapshot))
        else:
            await wait_until(screen, nictop.diagnosis._idle.is_set)
        await screen.settle()


async def test_it_moves_once_when_the_checks_have_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not with each finding of a part of them: `machine` has one about ens256."""
    async with starting(monkeypatch) as (screen, start):
        for stage, chosen in (("links", FIRST), ("machine", FIRST), ("all", WORST)):
            await start.go_on(stage)
            assert screen.chosen() == chosen, stage


@pytest.mark.parametrize(
    "keys", [("enter",), ("2",), ("4", "1"), ("o", "escape"), ("question_mark",)]
)
async def test_it_does_not_move_any_more_once_a_key_was_pressed(
    keys: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is read, or acted on, is this interface."""
    async with starting(monkeypatch) as (screen, start):
        await start.go_on("links")
        await screen.press(*keys)
        await start.go_on("all")
        live = next(one for one in screen.app.screen_stack if isinstance(one, LiveScreen))
        assert live.chosen_nic == FIRST


async def test_a_key_while_nothing_is_listed_keeps_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    async with starting(monkeypatch) as (screen, start):
        await screen.press("down", "2", "1")
        await start.go_on("links")
        await start.go_on("all")
        assert screen.chosen() == WORST


@pytest.mark.parametrize(
    ("seconds", "chosen"), [(REACTION_SECONDS / 2, FIRST), (REACTION_SECONDS * 2, WORST)]
)
async def test_a_key_acts_on_what_was_shown_when_it_was_pressed(
    seconds: float, chosen: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody can react to what has moved at the same moment."""
    async with starting(monkeypatch) as (screen, start):
        await start.go_on("links")
        await start.go_on("all")
        assert screen.chosen() == WORST
        start.wait(seconds)
        await screen.press("b")
        await screen.settle()
        request = screen.nictop.traffic.request
        assert request is not None and request.client_nic == chosen
        await screen.nictop.traffic.stop()
        await screen.press("1")
        assert screen.chosen() == chosen


async def test_what_was_chosen_for_a_moment_only_is_not_meant(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A fast host: the first choice was hardly drawn."""
    async with starting(monkeypatch) as (screen, start):
        await start.go_on("links")
        await start.go_on("all", seconds=REACTION_SECONDS / 4)
        start.wait(REACTION_SECONDS / 4)
        await screen.press("e")
        await screen.settle()
        assert any("set up ens224" in row for row in screen.drawn())


async def test_the_path_that_a_key_was_pressed_at_stays_chosen() -> None:
    """Enter starts a test on it, and another host is read meanwhile, whose paths come first."""
    async with screen_with_hosts("vm1", "vm2", "vm3") as (screen, hosts):

        def read(name: str, number: int) -> None:
            line = hello()
            assert line.hello is not None
            known = replace(line.hello, boot_id=name)
            address = Address("ipv4", f"192.0.2.{number}", 24, "global", ())
            told = inventory(link(2, "ens3", bus="pci", addresses=(address,)))
            hosts[name].send(
                SourceState("live"), replace(line, hello=known), told, counters(1.0, {2: (0, 0)})
            )

        read("vm1", 1)
        read("vm3", 3)
        table = await shown_paths(screen, 1)
        assert table.chosen is not None and table.chosen.pair.server.host == "vm3"
        await screen.press("e")
        read("vm2", 2)
        table = await shown_paths(screen, 3)
        (before, *_) = table._rows
        assert before.pair.server.host == "vm2"
        assert table.chosen is not None and table.chosen.pair.server.host == "vm3"


async def shown_paths(screen: Screen, number: int) -> PairTable:
    if not screen.app.screen.query(PairTable):
        await screen.press("6")
    table = screen.app.screen.query_one(PairTable)
    await wait_until(screen, lambda: table.count == number)
    return table
