"""Notices do not pile up: the newest of each title, of the three newest titles."""

from __future__ import annotations

from tests.support.screen import WIDE, Screen, live_screen


def shown(screen: Screen) -> list[str]:
    return [notice.message for notice in screen.app._notifications]


async def test_the_newest_notice_of_a_title_replaces_the_one_before() -> None:
    async with live_screen(WIDE) as screen:
        for number in range(3):
            screen.app.show_notice(f"copy {number}", "Copy")
        screen.app.show_notice("saved", "Saved")
        await screen.settle()
        assert shown(screen) == ["copy 2", "saved"]


async def test_there_are_three_at_most() -> None:
    async with live_screen(WIDE) as screen:
        for number in range(8):
            screen.app.show_notice(f"text {number}", f"title {number}")
        await screen.settle()
        assert shown(screen) == ["text 5", "text 6", "text 7"]
