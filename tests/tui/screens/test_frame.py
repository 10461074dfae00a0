"""The frame of every screen: tabs, hosts, findings and keys are where they always are."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from textual import events
from textual.binding import Binding
from textual.screen import ModalScreen

import nictop.tui.keys
from nictop.errors import NictopError
from nictop.model.text.glyphs import ASCII, UNICODE, Glyphs
from nictop.rules import Diagnosis
from nictop.traffic.generators.intervals import Interval
from nictop.traffic.live.run_view import RunView
from nictop.traffic.results.result import IntervalPoint
from nictop.traffic.run.events import FINAL_COUNTERS
from nictop.tui.app import NictopApp
from nictop.tui.controllers.changes import Changes
from nictop.tui.controllers.traffic import TrafficController
from nictop.tui.keys import KEYS_AND_VARIANTS, TABS, checked_keymap, key_label
from nictop.tui.screens.dialogs.dialog import OVER_TITLE
from nictop.tui.screens.dialogs.help import HelpScreen, topics
from nictop.tui.screens.dialogs.leave import LeaveScreen, StopScreen
from nictop.tui.screens.frame import FramedScreen
from nictop.tui.screens.live.hosts import HostsScreen
from nictop.tui.screens.live.screen import LiveScreen
from nictop.tui.screens.traffic.form import TrafficScreen
from nictop.tui.screens.traffic.results import ResultsScreen
from nictop.tui.widgets.base.key_footer import KeyFooter
from nictop.tui.widgets.base.text_input import TextInput
from nictop.tui.widgets.devices.overview import OverviewPane
from nictop.tui.widgets.devices.table import DeviceTable
from nictop.tui.widgets.findings.panel import FindingsPanel
from nictop.tui.widgets.findings.view import FindingList
from nictop.tui.widgets.status.host_table import HostTable
from nictop.tui.widgets.status.replay_line import ReplayLine
from nictop.tui.widgets.status.status_line import StatusLine
from nictop.tui.widgets.status.tab_line import TabLine, draw_tabs
from nictop.tui.widgets.traffic.form import RunForm
from nictop.wire.source import SourceState
from tests.cli.commands.test_demo import DEMO
from tests.support.findings import finding
from tests.support.lines import counters, hello, inventory, link
from tests.support.replay_screen import screen_with_replay
from tests.support.screen import (
    NARROW,
    WIDE,
    Screen,
    ScriptedHosts,
    live_screen,
    screen_with_hosts,
    wait_until,
)
from tests.traffic.plans import PLAN
from tests.traffic.runs import flow, result

SCREENS = {
    "1": LiveScreen,
    "2": LiveScreen,
    "3": LiveScreen,
    "4": LiveScreen,
    "5": HostsScreen,
    "6": TrafficScreen,
}
SCREENS["7"] = ResultsScreen
NAMES = {str(number): tab.name for number, tab in enumerate(TABS, 1)}
ENDING = "? Help  q Quit "


@pytest.fixture(autouse=True)
def folders(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("XDG_STATE_HOME", "XDG_DATA_HOME", "XDG_CONFIG_HOME"):
        monkeypatch.setenv(name, str(tmp_path))


@pytest.mark.parametrize("view", ["1", "2", "3", "4", "5"])
async def test_the_key_of_the_pause_says_what_it_does_now(view: str) -> None:
    async with live_screen(WIDE) as screen:
        await screen.receive(
            hello(), inventory(link(2, "ens192", bus="pci")), counters(1.0, {2: (0, 0)})
        )
        await screen.press(view)
        for words in ("Pause", "Resume", "Pause"):
            await screen.settle()
            assert screen.app.screen.active_bindings["space"].binding.description == words
            await screen.press("space")


async def two(screen: Screen, hosts: ScriptedHosts) -> None:
    for name in ("vm1", "vm2"):
        lines = (link(2, "ens192", bus="pci"), link(3, "ens224", bus="pci"))
        hosts[name].send(
            SourceState("live"), hello(), inventory(*lines), counters(1.0, {2: (0, 0)})
        )
    await wait_until(
        screen, lambda: all(one.snapshot.inventory for one in screen.nictop.hosts.sessions)
    )
    await screen.show_diagnosis(
        Diagnosis((finding(host="vm1"), finding(host="vm1", severity="info")), ())
    )


def tab(screen: Screen) -> str:
    shown = screen.app.screen
    assert isinstance(shown, FramedScreen)
    return shown.tab


# --------------------------------------------------------------------------------------------- tabs


@pytest.mark.parametrize("first", SCREENS)
async def test_every_tab_from_every_tab(first: str) -> None:
    async with screen_with_hosts("vm1", "vm2", size=NARROW) as (screen, hosts):
        await two(screen, hosts)
        for second, kind in SCREENS.items():
            await screen.press(first, second)
            assert isinstance(screen.app.screen, kind)
            assert tab(screen) == NAMES[second]
            rows = screen.drawn()
            assert f"│{second} {TABS[int(second) - 1].label}" in rows[0]
            assert "[● vm1]" in rows[1]
            assert rows[-1].endswith(ENDING)
            assert second == "4" or " ▲ vm1 ens224" in rows[-2]


async def test_a_click_does_what_the_key_does() -> None:
    async with screen_with_hosts("vm1", "vm2", size=NARROW) as (screen, hosts):
        await two(screen, hosts)
        for name in ("hosts", "results", "cpus", "traffic", "findings", "devices"):
            label = next(
                f"{number} {one.label}" for number, one in enumerate(TABS, 1) if one.name == name
            )
            await screen.pilot.click(TabLine, offset=(screen.drawn()[0].index(label), 0))
            await screen.settle()
            assert tab(screen) == name
        await screen.pilot.click(StatusLine, offset=(screen.drawn()[1].index("vm2"), 0))
        await screen.settle()
        assert "[● vm2]" in screen.drawn()[1]
        await screen.pilot.click(FindingsPanel)
        await screen.settle()
        assert tab(screen) == "findings"


async def test_a_digit_is_a_character_where_text_is_typed_and_no_key_below_a_dialog() -> None:
    async with screen_with_hosts("vm1", "vm2") as (screen, hosts):
        await two(screen, hosts)
        await screen.press("5", "slash", "3")
        assert screen.app.screen.query_one("#nic-filter", TextInput).value == "3"
        assert tab(screen) == "hosts"
        await screen.press("escape", "question_mark", "3")
        assert isinstance(screen.app.screen, HelpScreen)


async def test_screens_are_as_they_were_left() -> None:
    async with screen_with_hosts("vm1", "vm2") as (screen, hosts):
        await two(screen, hosts)
        await screen.press("down", "5", "slash", *"ens224", "enter")
        before = screen.app.screen
        await screen.press("6", "e", "down", "down", "down", *"77", "escape")
        assert isinstance(screen.app.screen, TrafficScreen), "one step back: from the field"
        await screen.press("5")
        assert screen.app.screen is before
        assert screen.app.screen.query_one("#nic-filter", TextInput).value == "ens224"
        await screen.press("6")
        assert screen.app.screen.query_one(RunForm).words["time"] == "77"
        await screen.press("1")
        assert screen.chosen() == "ens224"


async def test_escape_goes_back_to_devices() -> None:
    async with screen_with_hosts("vm1", "vm2") as (screen, hosts):
        await two(screen, hosts)
        for key in "234567":
            await screen.press(key, "escape")
            assert tab(screen) == "devices", key
            assert screen.app.screen.query_one(DeviceTable).has_focus


async def test_keys_and_clicks_are_handled_before_hosts_and_garbage_collections(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    told: list[str] = []
    monkeypatch.setattr("nictop.wire.budget.input_received", lambda: told.append("hosts"))
    async with screen_with_hosts("vm1") as (screen, _):
        driver = screen.app._driver
        assert driver is not None
        monkeypatch.setattr(screen.app.garbage, "input_received", lambda: told.append("garbage"))
        mouse = (None, 3, 9, 0, 0, 1, False, False, False)
        cases: list[tuple[events.InputEvent, set[str]]] = [
            (events.MouseMove(*mouse), set()),
            (events.MouseDown(*mouse), {"hosts", "garbage"}),
            (events.Key("2", "2"), {"hosts", "garbage"}),
        ]
        for event, expected in cases:
            told.clear()
            event.set_sender(screen.app)
            driver.send_message(event)
            await screen.settle()
            assert set(told) == expected, event


async def test_what_is_hidden_is_not_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: list[object] = []
    async with screen_with_hosts("vm1", "vm2") as (screen, hosts):
        await two(screen, hosts)
        await screen.press("5", "6", "7", "1")
        for kind in (TabLine, StatusLine, FindingsPanel, OverviewPane, HostTable):
            monkeypatch.setattr(kind, "show", lambda self, *_, **__: drawn.append(self.screen))
        screen.nictop.hosts.changed.publish()
        await screen.settle()
        assert set(drawn) == {screen.app.screen}


@pytest.mark.parametrize("glyphs", [UNICODE, ASCII], ids=["unicode", "ascii"])
@pytest.mark.parametrize("active", NAMES.values())
@pytest.mark.parametrize("width", [*range(0, 100, 4), 200])
def test_tabs_fit_and_their_digits_stay(width: int, active: str, glyphs: Glyphs) -> None:
    badges = {
        "findings": [(f"{glyphs.critical}1", "bad"), (f"{glyphs.warning}4", "warn")],
        "hosts": [("●12", "good"), ("✖9", "bad")],
        "traffic": [("●", "good")],
    }
    drawn = draw_tabs(active, badges, width, glyphs=glyphs)
    text = "".join(part for part, _ in drawn.line)
    assert len(text) <= width and (not glyphs.is_ascii or text.isascii())
    if width >= 16:
        keys = re.sub(r"\S(12|9)|[✖▲X!]\d", lambda found: " " * len(found[0]), text)
        assert [one for one in keys if one.isdigit()] == list("1234567"), text
        for number, one in enumerate(TABS, 1):
            assert drawn.at(keys.index(str(number))) == one.name
    if width >= 40:
        number = list(NAMES.values()).index(active)
        assert f"{glyphs.axis}{number + 1} {TABS[number].label[:3]}" in text
    assert width < 100 or " nictop " in text


async def test_badges() -> None:
    async with screen_with_hosts("vm1", "vm2") as (screen, hosts):
        await two(screen, hosts)
        assert "4 Findings ▲1 5 Hosts ●2 6 Traffic 7" in screen.drawn()[0]
        hosts["vm2"].send(SourceState("failed", "no python3"))
        await wait_until(
            screen, lambda: screen.nictop.hosts.by_name["vm2"].snapshot.state == "failed"
        )
        found = (
            finding(severity="critical"),
            *[finding(subject=f"e{number}") for number in range(4)],
        )
        await screen.show_diagnosis(Diagnosis((*found, finding(severity="info")), ()))
        await wait_until(
            screen, lambda: "4 Findings ✖1 ▲4 5 Hosts ●1 ✖1 6 Traffic" in screen.drawn()[0]
        )


@pytest.mark.parametrize("size", [NARROW, WIDE, (60, 20)])
async def test_the_frame_says_whether_the_host_may_be_changed(size: tuple[int, int]) -> None:
    for allowed, words, other in (
        (False, "read-only", "changes allowed"),
        (True, "changes allowed", "read-only"),
    ):
        async with live_screen(size, allow_changes=allowed) as screen:
            await screen.receive(hello(), inventory(link(2, "ens192", bus="pci")))
            for key in SCREENS:
                await screen.press(key)
                assert words in screen.drawn()[1] and other not in screen.drawn()[1], key
    async with screen_with_replay(DEMO, size) as replayed:
        assert not re.search("read-only|changes", replayed.drawn()[1]), "there is nothing to change"


async def test_the_reboot_of_another_host_is_in_the_line_at_the_bottom() -> None:
    """It was said only while that host was the chosen one."""
    nic, first = link(2, "ens192", bus="pci"), hello()
    assert first.hello is not None
    async with screen_with_hosts("vm1", "vm2", size=NARROW) as (screen, hosts):
        for name in ("vm1", "vm2"):
            state = SourceState("live")
            hosts[name].send(state, first, inventory(nic), counters(1.0, {2: (0, 0)}))
        await screen.settle()
        assert "rebooted" not in screen.drawn()[-2]
        again = replace(first, hello=replace(first.hello, boot_id="another"))
        hosts["vm2"].send(again, inventory(nic, time=2.0), counters(2.0, {2: (0, 0)}))
        await screen.settle()
        assert screen.nictop.hosts.chosen == "vm1"
        screen.nictop.hosts.changed.publish()  # as when its connection came back
        await screen.settle()
        assert "vm2: rebooted" in screen.drawn()[-2]


async def test_a_click_on_the_worst_finding_opens_that_one() -> None:
    async with screen_with_hosts("vm1", "vm2", size=NARROW) as (screen, hosts):
        await two(screen, hosts)
        worst, other = (
            finding(host="vm2", severity="critical", subject="ens192"),
            finding(host="vm1"),
        )
        await screen.press("4", "slash", *"vm1", "enter", "5")
        await screen.show_diagnosis(Diagnosis((worst, other), ()))
        await screen.pilot.click(FindingsPanel, offset=(10, 0))
        await screen.settle()
        assert screen.app.screen.query_one(FindingList).chosen == worst, "the filter has hidden it"
        await screen.press("down", "1")
        await screen.pilot.click(FindingsPanel, offset=(NARROW[0] - 4, 0))
        await screen.settle()
        assert tab(screen) == "findings"
        assert screen.app.screen.query_one(FindingList).chosen == other, "as the list was left"


@pytest.mark.parametrize("size", [NARROW, WIDE, (60, 20)])
async def test_a_notice_covers_neither_the_worst_finding_nor_the_keys(
    size: tuple[int, int],
) -> None:
    async with screen_with_hosts("vm1", "vm2", size=size) as (screen, hosts):
        await two(screen, hosts)
        before = screen.drawn()
        screen.nictop.notify("a line\nand another", "A notice")
        await wait_until(screen, lambda: any("and another" in row for row in screen.drawn()))
        assert screen.drawn()[-3:] == before[-3:]


async def test_a_question_ends_with_what_it_asks_about_and_stays_until_it_is_closed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    states = {"running": True, "unconfirmed": True}
    monkeypatch.setattr(TrafficController, "running", property(lambda self: states["running"]))
    monkeypatch.setattr(Changes, "is_unconfirmed", property(lambda self: states["unconfirmed"]))
    monkeypatch.setattr(TrafficController, "stop", lambda self: asyncio.sleep(0))
    async with screen_with_hosts("vm1", "vm2") as (screen, hosts):
        await two(screen, hosts)

        async def end(name: str) -> None:
            states[name] = False
            screen.nictop.traffic.changed.publish()
            screen.nictop.changes.changed.publish()
            await screen.settle()

        screen.app.push_screen(StopScreen())
        await screen.settle()
        assert any("Stop the test?" in row for row in screen.drawn())
        await end("running")
        assert isinstance(screen.app.screen, StopScreen)
        assert any("The test has ended." in row for row in screen.drawn())
        await screen.press("enter")
        assert isinstance(screen.app.screen, LiveScreen)
        states["running"] = True
        await screen.press("q")
        assert isinstance(screen.app.screen, LeaveScreen)
        await end("running")
        text = "\n".join(screen.drawn())
        assert "A change is not confirmed" in text and "A test is running" not in text
        await end("unconfirmed")
        assert any("has ended by itself." in row for row in screen.drawn())
        await screen.press("escape")
        assert isinstance(screen.app.screen, LiveScreen)


@pytest.mark.parametrize(
    ("number", "seconds", "stage", "is_over"),
    [
        (1, 9.0, "", False),
        (1, 10.1, "", True),
        (1, 10.1, FINAL_COUNTERS, True),
        (2, 10.1, FINAL_COUNTERS, True),
        (0, 10.1, FINAL_COUNTERS, False),
    ],
    ids=["measuring", "over", "counters", "last of two", "another run follows"],
)
async def test_whether_to_stop_is_asked_no_longer_when_the_time_is_over(
    monkeypatch: pytest.MonkeyPatch, number: int, seconds: float, stage: str, is_over: bool
) -> None:
    point = IntervalPoint(5.0, Interval(4.0, 5.0, 8e6, sends=False))
    made = result(flows=(flow(1.0, points=(point,)),), plan=replace(PLAN, time=10))
    views = [RunView(made, 5.0), RunView(made, seconds, stage)]
    began = SimpleNamespace(number=max(1, number), total=max(1, number) + (number == 0))
    monkeypatch.setattr(TrafficController, "running", property(lambda _: True))
    monkeypatch.setattr(TrafficController, "view", lambda _: views[0])
    monkeypatch.setattr(TrafficController, "stop", lambda _: asyncio.sleep(0))
    async with screen_with_hosts("vm1", "vm2") as (screen, hosts):
        await two(screen, hosts)
        screen.nictop.traffic.began = began  # type: ignore[assignment]
        screen.app.push_screen(StopScreen())
        await screen.settle()
        views.pop(0)
        screen.nictop.traffic.changed.publish()
        await screen.settle()
        question = screen.app.screen
        assert isinstance(question, StopScreen)
        assert (question.dialog_title == OVER_TITLE) is is_over


# --------------------------------------------------------------------------------------------- keys


def bindings() -> Iterator[Binding]:
    """Of every screen that is not a dialog, and of its widgets."""
    for name, found in vars(nictop.tui.keys).items():
        if name.endswith("_KEYS"):
            yield from (
                one for one in found if isinstance(one, Binding) and one.id in KEYS_AND_VARIANTS
            )


def test_no_key_has_two_meanings() -> None:
    owner: dict[str, str] = {}
    for name, key in KEYS_AND_VARIANTS.items():
        for one in key.keys.split(","):
            assert owner.setdefault(one, name) == name
    for binding in bindings():
        assert binding.id is not None
        assert {owner[one] for one in binding.key.split(",")} == {binding.id}
        assert binding.description


@pytest.mark.parametrize("size", [NARROW, WIDE, (60, 20), (40, 12)])
async def test_help_and_quit_are_never_cut_and_hints_are_whole(size: tuple[int, int]) -> None:
    async with screen_with_hosts("vm1", "vm2", size=size) as (screen, hosts):
        await two(screen, hosts)
        for key in SCREENS:
            await screen.press(key)
            row = screen.drawn()[-1]
            assert row.endswith(ENDING), key
            footer = screen.app.screen.query_one(KeyFooter)
            shown = [footer.shown_at(column, index) for column, index in footer.placed()]
            assert len(shown) <= 10
            for hint in shown:
                assert f" {hint.display} {hint.label} " in row


async def test_record_is_the_last_hint_of_every_view_and_in_its_help() -> None:
    async with screen_with_hosts("vm1", "vm2", size=WIDE) as (screen, hosts):
        await two(screen, hosts)
        for key in SCREENS:
            await screen.press(key)
            assert screen.drawn()[-1].removesuffix(ENDING).rstrip().endswith(" r Record/report"), (
                key
            )
            (actions,) = [topic for topic in topics(screen.app.screen) if topic.title == "Actions"]
            assert (
                "r",
                "menu: start or stop a recording, save the last minutes, write a report",
            ) in actions.rows, key


def test_labels_of_keys() -> None:
    labels = {
        "left_curly_bracket": "{",
        "full_stop": ".",
        "comma": ",",
        "left_parenthesis": "(",
        "plus": "+",
    }
    labels |= {
        "question_mark": "?",
        "escape": "Esc",
        "pageup": "PgUp",
        "ctrl+c": "ctrl+c",
        "S": "S",
        "f2": "f2",
    }
    assert {key: key_label(key) for key in labels} == labels


@pytest.mark.parametrize(
    ("section", "words"),
    [
        ({"view.queues": "f2"}, "unknown action view.queues"),
        ({"copy": "e"}, "e is both copy and edit"),
        ({"copy": "x", "edit": "x"}, "x is both copy and edit"),
        ({"copy": ""}, "keys.copy: no key"),
    ],
)
def test_a_keymap_that_is_not_valid_is_refused_in_one_sentence(
    section: dict[str, str], words: str
) -> None:
    with pytest.raises(NictopError) as raised:
        checked_keymap(section, "config.toml")
    assert words in raised.value.message
    assert raised.value.exit_code == 2


async def test_keys_of_the_configuration_are_bound_and_shown() -> None:
    keys = checked_keymap(
        {"help": "f1", "queues": "x", "copy": "ctrl+y, c", "edit": "y"}, "config.toml"
    )
    async with live_screen(NARROW) as screen:
        screen.app.set_keymap(keys)
        await screen.receive(hello(), inventory(link(2, "ens192", bus="pci")))
        assert screen.drawn()[-1].endswith("f1 Help  q Quit ")
        assert " y Show set-up " in screen.drawn()[-1]
        await screen.press("x")
        assert tab(screen) == "queues"
        await screen.press("2", "1", "f1")
        assert isinstance(screen.app.screen, HelpScreen)


async def test_keys_of_the_configuration_are_shown_in_texts() -> None:
    async with live_screen(NARROW) as screen:
        screen.app.set_keymap(checked_keymap({"options": "f6", "hosts": "f8"}, "config.toml"))
        await screen.receive(
            hello(), inventory(link(2, "ens192", bus="pci"), link(5, "veth0", kind="veth"))
        )
        assert any("1 hidden (f6)" in row for row in screen.drawn())
        await screen.press("6")
        assert any("Press f8 to add one" in row for row in screen.drawn())


# ----------------------------------------------------------------------------------------- timeline


async def test_the_timeline_is_a_pane_and_can_be_clicked() -> None:
    async with screen_with_replay(DEMO, NARROW, start=10.0) as screen:
        await screen.press("shift+tab")
        line = screen.app.screen.query_one(ReplayLine)
        assert line.has_focus
        assert screen.drawn()[-1].startswith(" Enter Go to time")
        row = screen.text("#replay")
        end = max(index for index, one in enumerate(row) if one in "─━┼╋●")
        await screen.pilot.click(ReplayLine, offset=(end, 0))
        await screen.wait_until_shown()
        assert screen.replay.playback.at_end
        for key in "234567":
            await screen.press(key)
            assert "at the end" in screen.text("#replay"), key


async def test_the_demo_says_what_it_is_once(monkeypatch: pytest.MonkeyPatch) -> None:
    notices: list[str] = []
    monkeypatch.setattr(
        NictopApp, "show_notice", lambda self, text, title: notices.append(f"{title}: {text}")
    )
    async with screen_with_replay(
        DEMO, NARROW, start=30.0, notice="A recording of two guests."
    ) as screen:
        assert notices == ["Demo: A recording of two guests."]
        assert not isinstance(screen.app.screen, ModalScreen)
        assert screen.drawn()[2].startswith("   DEVICE ")
