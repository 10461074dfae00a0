"""Every key that is documented answers in every view: it does something that can be seen, or a
notice says why not."""

from __future__ import annotations

import pytest

from nictop.rules import Diagnosis
from nictop.tui.keys import KEYS_AND_VARIANTS, NOT_HERE_TEXTS
from tests.support.lines import counters, hello, inventory, link
from tests.support.screen import WIDE, Screen, live_screen


def shown(screen: Screen) -> object:
    app = screen.app
    notices = [(one.title, one.message, one.identity) for one in app._notifications]
    return screen.drawn(), list(app.screen_stack), app.screen.focused, notices


@pytest.mark.parametrize(
    ("view", "names"),
    [
        ("1", ("host-next", "next", "timeline", "back", "copy", "fix", "watch")),
        ("2", ("sort", "sort-reverse", "mark", "next-previous", "host-previous", "timeline")),
        ("4", ("open", "sort", "mark", "edit", "copy", "fix", "timeline")),
        ("5", ("copy", "next", "fix", "host-next", "timeline")),
        ("6", ("copy", "sort", "mark", "next", "pause", "faster", "timeline")),
        ("7", ("copy", "sort", "edit", "fix", "pause", "slower", "timeline")),
    ],
)
async def test_a_key_that_does_nothing_here_says_so(view: str, names: tuple[str, ...]) -> None:
    async with live_screen(WIDE) as screen:
        nic = link(2, "ens192", bus="pci")
        await screen.receive(hello(), inventory(nic), counters(1.0, {2: (0, 0)}))
        await screen.show_diagnosis(Diagnosis((), ()))
        await screen.press(view)
        for name in names:
            assert name in NOT_HERE_TEXTS
            screen.app.clear_notifications()
            await screen.settle()
            before = shown(screen)
            await screen.press(KEYS_AND_VARIANTS[name].keys.split(",")[0])
            await screen.settle()
            assert shown(screen) != before, name


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        (("1", "s"), "nothing to sort yet"),
        (("2", "o"), "Idle queues are shown"),
        (("5", "o"), "that changes nothing that is shown now"),
        (("4", "n"), "no next finding"),
        (("4", "N"), "no previous finding"),
        (("1", *"+++++++"), "there is no further step"),
    ],
)
async def test_a_key_without_effect_says_why_on_a_host_that_is_not_read(
    keys: tuple[str, ...], words: str
) -> None:
    async with live_screen(WIDE) as screen:
        await screen.press(*keys)
        await screen.settle()
        messages = [one.message for one in screen.app._notifications]
        assert any(words in message for message in messages), messages
