"""Every key that is documented answers in every view: it does something that can be seen, or a
notice says why not."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from textual.screen import ModalScreen
from textual.widgets import Input

from nictop.rules import Diagnosis
from nictop.rules.wording import is_checked
from nictop.tui.keys import KEY_GROUPS, KEYS_AND_VARIANTS, NOT_HERE_TEXTS
from tests.support.lines import counters, hello, inventory, link
from tests.support.screen import NARROW, WIDE, Screen, live_screen, screen_with_hosts, wait_until
from tests.support.stages import STAGES, items_of, recorded_hosts


@pytest.fixture(autouse=True)
def no_results(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Those of whoever runs the tests are not shown."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))


def shown(screen: Screen) -> tuple[object, ...]:
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


@asynccontextmanager
async def host_at(stage: str, size: tuple[int, int] = WIDE) -> AsyncIterator[Screen]:
    """One host, of which so much is known; its checks have run on all of that."""
    name, *_ = recorded_hosts()
    async with screen_with_hosts(name, size=size) as (screen, hosts):
        for one in STAGES[: STAGES.index(stage) + 1]:
            hosts[name].send(*items_of(name)[one])
            await wait_until(screen, lambda: hosts[name].is_drained)
        await wait_until(screen, lambda: not screen.nictop.hosts.pending)
        nictop = screen.nictop
        if stage == "all":
            await wait_until(
                screen,
                lambda: is_checked(nictop.diagnosis.result, nictop.hosts.session.snapshot),
            )
        await screen.settle()
        yield screen


def told(screen: Screen) -> str:
    """All notices, and what is drawn below them."""
    notices = [one.message for one in screen.app._notifications]
    screen.app.clear_notifications()
    return "\n".join((*notices, *screen.drawn()))


UNREAD = (
    (("1", "s"), "nothing to sort yet"),
    (("1", "S"), "nothing to sort yet"),
    (("1", "m"), "interfaces were not read yet"),
    (("1", "right"), "interfaces were not read yet"),
    (("2", "left"), "interfaces were not read yet"),
    (("3", "right"), "interfaces were not read yet"),
    (("4", "n"), "no next finding so far: not all checks have run yet"),
    (("1", "o", "down", "down", "enter"), "interfaces were not read yet"),
    (("1", "o", "down", "down", "down", "enter"), "waiting for alma-load-001"),
    (("6", "enter"), "Not started: a test needs two hosts"),
    (("7", "m"), "nothing to mark here"),
    (("1", "colon", *"place", "enter"), "interfaces were not read yet"),
    (("1", "colon", *"layers", "enter"), "interfaces were not read yet"),
    (("1", "colon", *"connections", "enter"), "Interfaces: not read yet"),
    (("1", "colon", *"packets", "enter"), "Packets are shown; that changes nothing"),
    (("1", "o", "enter"), "Virtual interfaces are hidden; that changes nothing"),
    (("4", "o", "enter"), "Skipped checks are shown; that changes nothing"),
)
"""Keys → what the answer says before the interfaces are read."""
ANSWERS: dict[str, Sequence[tuple[tuple[str, ...], str]]] = {
    "no link": UNREAD,
    "no hello": UNREAD,
    "hello": UNREAD,
    "links": (
        (("4", "enter"), "not all checks had run yet; no finding was chosen"),
        (("4", "N"), "no previous finding so far: not all checks have run yet"),
        (("2", "left"), "ens192 is the first interface that Devices lists."),
        (("b",), "alma-load-001:ens192 · traffic of the NIC"),
    ),
    "machine": (
        (("4", "n"), "no next finding so far: not all checks have run yet"),
        (("1", "home", "y"), "not all checks had run yet; no command was known of what is chosen"),
        (("4", "b"), "alma-load-001:ens256 · traffic of the NIC"),
    ),
    "all": (
        (("4", "N"), "There is no previous finding."),
        (("1", "S"), "The usual order is not reversed; s sorts by a column."),
        (("3", *["right"] * 9), "ens256 is the last interface that Devices lists."),
        (("6", "enter"), "Not started: a test needs two hosts"),
        (("1", "down", "4", "down", "down", "b"), "alma-load-001:ens224v0 · traffic of the NIC"),
    ),
}


@pytest.mark.parametrize("stage", ANSWERS)
async def test_an_answer_is_that_of_the_stage_of_the_start(stage: str) -> None:
    """Each key in each view at each stage of a slow start: these had none, or one that the stage
    does not support."""
    async with host_at(stage) as screen:
        for keys, words in ANSWERS[stage]:
            for key in keys:
                await screen.press(key)
                await screen.settle()
            answer = told(screen)
            assert words in answer, (keys, answer)
            for _ in range(2):
                await screen.press("escape")
                await screen.settle()
            screen.app.clear_notifications()


WALKED_KEYS = tuple(
    name
    for name in (*KEY_GROUPS["Actions"], *KEY_GROUPS["Time"], "left", "right")
    if name not in ("measure", "record", "timeline")
)
"""Those that begin nothing."""
MOVES = ("left", "right")
"""A list at its end stays as it is; in the views of one interface the key says so."""


@pytest.mark.parametrize("stage", ["machine", "links", "all", "no link"])
async def test_every_key_answers_in_every_view(stage: str) -> None:
    """The other stages know as much as the last one."""
    silent = []
    async with host_at(stage, NARROW) as screen:
        app = screen.app
        for view in "1234567":
            is_left = True
            for name in WALKED_KEYS:
                if is_left:
                    await screen.press(view)
                app.clear_notifications()
                await screen.settle()
                before = shown(screen)
                await screen.press(KEYS_AND_VARIANTS[name].keys.split(",")[0])
                await screen.settle()
                after = shown(screen)
                if after == before and (name not in MOVES or view in "23"):
                    silent.append((view, name))
                is_left = after[1:3] != before[1:3]
                while isinstance(app.screen, ModalScreen) or isinstance(app.focused, Input):
                    await screen.press("escape")
    assert not silent
