"""Pictures of the dialogs that change a host: a guest of a rule case, drawn by nictop; see
test_screenshots."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from pathlib import Path

import pytest

from nictop.changes.inbox import ChangeInbox
from nictop.model.text.glyphs import ASCII, UNICODE
from nictop.probe.records import Address, ChangeLine, ChangeRequest, Line, PlannedAction
from nictop.tui.app import NictopApp
from nictop.tui.screens.changes.screen import HostChangeScreen
from nictop.tui.widgets.status.status_line import StatusLine
from tests.support.findings import lines_of_case
from tests.support.picture import picture_of
from tests.support.screen import FROZEN_TIME, NARROW, WIDE, Screen, running, wait_until
from tests.support.sources import ScriptedSource
from tests.tui.screens.test_screenshots import compare

SIZES = {"120x36": (WIDE, UNICODE), "80x24": (NARROW, UNICODE), "ascii-80x24": (NARROW, ASCII)}
BEFORE = (
    "connection.id 'Wired connection 1' ipv4.method auto ipv4.addresses '' ipv4.never-default no"
)
AFTER = (
    "connection.id ens224 ipv4.method manual ipv4.addresses 198.51.100.10/24 ipv4.never-default yes"
)
UP = ("reconfigures ens224: short traffic interruption",)
HERE = 1000.0
"""This machine's clock."""
READ_AT = datetime(2026, 11, 21, 14, 3, 20).timestamp()
"""When the values of the change were verified: in any time zone the same time of day."""


def plan(asked: ChangeRequest) -> tuple[PlannedAction, ...]:
    """What the host would say of the two commands of the set-up."""
    modify, up = asked.actions
    uuid = next(word for word in modify if word.count("-") == 4)
    return (
        PlannedAction(modify, BEFORE, AFTER, (), "Wired connection 1", persistent=True),
        PlannedAction(up, "ens224: Wired connection 1", f"up: {uuid}", (), "ens224", disturbs=UP),
    )


def after() -> Line:
    """What the host has then."""
    line = next(
        one
        for one in lines_of_case("profiles", "profile_is_generated")
        if one.inventory is not None
    )
    assert line.inventory is not None
    address = Address("ipv4", "198.51.100.10", 24, "global", ())
    links = tuple(
        replace(one, addresses=(address,)) if one.name == "ens224" else one
        for one in line.inventory.links
    )
    wall = line.inventory.wall + 60.0 - line.inventory.time
    return replace(line, inventory=replace(line.inventory, time=60.0, wall=wall, links=links))


def picture(screen: Screen) -> str:
    screen.app.clear_notifications()
    return picture_of(screen.app)


@pytest.mark.parametrize("name", SIZES)
async def test_a_set_up_and_its_change_look_like_their_pictures(
    name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.setattr(StatusLine, "COST_EVERY", 3600.0)
    monkeypatch.setattr("nictop.tui.controllers.changes.CHANGE_COUNTDOWN_SECONDS", 3600.0)
    monkeypatch.setattr("nictop.tui.controllers.changes.monotonic", lambda: HERE)
    monkeypatch.setattr("nictop.tui.controllers.nictop.monotonic", lambda: FROZEN_TIME)
    monkeypatch.setattr(ChangeInbox, "wall_time", lambda self, time: READ_AT)
    monkeypatch.setattr(
        "nictop.tui.screens.changes.status.change_status", lambda progress, now, key: ""
    )
    size, glyphs = SIZES[name]
    source = ScriptedSource("alma-load-001")
    app = NictopApp(lambda host, ask: source, glyphs=glyphs, allow_changes=True)
    async with running(app, size, notifications=False) as pilot:
        screen = Screen(app, source, pilot)
        await screen.receive(*lines_of_case("profiles", "profile_is_generated"))
        await wait_until(screen, lambda: app.nictop.diagnosis.result is not None)
        await screen.press("right", "e", "down", "down", *"198.51.100.10/24")
        compare(f"set-up-{name}", picture(screen))
        await screen.press("enter")
        await wait_until(screen, lambda: any(one.change for one in source.requests))
        asked = next(one.change for one in source.requests if one.change)
        await screen.receive(
            Line(change=ChangeLine(50.0, asked.id, "prepared", plan=plan(asked), fingerprint="f"))
        )
        await wait_until(screen, lambda: isinstance(app.screen, HostChangeScreen))
        await screen.settle()
        compare(f"change-plan-{name}", picture(screen))
        await screen.press("right", "enter")
        await screen.receive(
            Line(change=ChangeLine(55.0, asked.id, "applied", plan=plan(asked), deadline=85.0))
        )
        await screen.receive(after())
        await wait_until(
            screen, lambda: getattr(app.nictop.changes.progress, "proof", None) is not None
        )
        change = app.nictop.changes.session
        assert change is not None
        change.progress = replace(change.progress, deadline=HERE + 23.0)
        app.nictop.changes.changed.publish()
        # the checks have run with the new inventory
        await wait_until(screen, lambda: "1?" not in screen.drawn()[0])
        await screen.settle()
        compare(f"change-applied-{name}", picture(screen))
