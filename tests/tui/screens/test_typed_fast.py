"""Every key twice, faster than a screen can be opened or closed, while hosts report: no screen
fails.

Keys go to the application as the terminal gives them, without a pause between them; news of the
hosts comes between them. The keys are those of all bindings in `nictop.tui.keys`.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from itertools import count
from pathlib import Path
from types import SimpleNamespace

import pytest
from textual import events
from textual._callback import invoke
from textual.widget import Widget
from textual.widgets import OptionList

import nictop.tui.keys
from nictop.rules import Diagnosis, Fix
from nictop.traffic.results.selection import StoredRuns
from nictop.traffic.results.store import StoredRun
from nictop.tui.controllers.nictop import Nictop
from nictop.tui.controllers.signal import Signal
from nictop.tui.palette import Palette
from nictop.tui.screens.changes.guided import SetUpScreen
from nictop.tui.screens.changes.screen import HostChangeScreen
from nictop.tui.screens.dialogs.help import HelpScreen
from nictop.tui.screens.dialogs.leave import ChangeScreen, LeaveScreen
from nictop.tui.screens.dialogs.line_entry import LineEntry
from nictop.tui.screens.dialogs.menu import MenuScreen
from nictop.tui.screens.dialogs.question import QuestionScreen
from nictop.tui.screens.live.hosts import HostsScreen
from nictop.tui.screens.live.screen import LiveScreen
from nictop.tui.screens.replay.run import RecordedRunScreen
from nictop.tui.screens.traffic.form import TrafficScreen
from nictop.tui.screens.traffic.results import ResultsScreen, StoredRunScreen
from nictop.tui.screens.traffic.run import RunScreen
from nictop.tui.widgets.base.line_widget import LineWidget
from nictop.tui.widgets.devices.table import DeviceTable
from nictop.tui.widgets.status.host_table import HostTable
from nictop.tui.widgets.traffic.results_list import ResultGroup, SetUpList, set_ups
from nictop.wire.source import SourceState
from nictop.wire.ssh.authentication import Question
from tests.cli.commands.test_demo import DEMO
from tests.support.findings import commands, finding
from tests.support.lines import change, counters, gone, hello, inventory, link
from tests.support.replay_screen import screen_with_replay
from tests.support.screen import Screen, ScriptedHosts, screen_with_hosts, wait_until
from tests.traffic.runs import result

TURNS = 60
"""Of the loop: more than opening or closing a screen takes."""
EVERY = 4
"""Turns from one news to the next: each draws everything."""
QUITS = ("q", "ctrl+c", "ctrl+q")
"""Those that end the program from most screens."""
EVERYWHERE = ("enter", "escape", "tab", "pagedown", "ctrl+p")
TYPED = ("x", "backspace", "[")
SECOND = ("enter", "escape", "5", "o", "6", "question_mark", "x", "pagedown", "ctrl+p")
NOTHING = "f12"
"""A key that does nothing anywhere."""
JUMBO = Fix("here", "take jumbo frames", commands("ip link set dev ens192 mtu 9000"), False)


def keys_of_all_bindings() -> Iterator[str]:
    for name, bindings in vars(nictop.tui.keys).items():
        if name.endswith("_KEYS"):
            for binding in bindings:
                yield from binding.key.split(",")


MORE = (
    "shift+tab",
    "up",
    "down",
    "left",
    "right",
    "pageup",
    "home",
    "end",
    "9",
    "ctrl+a",
    "ctrl+k",
    "é",
)
KEYS = tuple(dict.fromkeys([*keys_of_all_bindings(), *EVERYWHERE, *TYPED, *MORE]))


def signals(nictop: Nictop) -> Iterator[Signal]:
    """Those that make screens draw what is shown already."""
    yield from (nictop.hosts.changed, nictop.hosts.snapshot_changed, nictop.diagnosis.changed)
    yield from (nictop.traffic.changed, nictop.changes.changed, nictop.recording.changed)


def callbacks(nictop: Nictop) -> list[Callable[[], object]]:
    """What the screens subscribed to these."""
    return [callback for signal in signals(nictop) for callback in signal._callbacks]


class Typing:
    """The application with hosts that report without a pause; without any, on a recording."""

    def __init__(self, screen: Screen, hosts: ScriptedHosts | None = None) -> None:
        self.screen, self.app, self.nictop, self._hosts = screen, screen.app, screen.nictop, hosts
        self._numbers = count(2)

    def send_changes(self) -> None:
        """Counters, a link that comes and goes, a new inventory, and a host that is away."""
        if self._hosts is None:
            return
        number = next(self._numbers)
        for source in (self._hosts["one"], self._hosts["two"]):
            source.send(
                counters(float(number), {2: (number * 1000, 0)}),
                change(2, "ens192", carrier=number % 2 == 0),
            )
            source.send(
                inventory(
                    link(2, "ens192", bus="pci"),
                    *[link(3, "ens224")] * (number % 3 == 0),
                    time=float(number),
                )
            )
        self._hosts["two"].send(
            SourceState("lost" if number % 2 else "live", "no answer", 4.0), gone(3, "ens224")
        )

    def type(self, *keys: str) -> None:
        """As a terminal gives them: all at once."""
        driver = self.app._driver
        assert driver is not None
        for key in keys:
            event = events.Key(key, key if len(key) == 1 else None)
            event.set_sender(self.app)
            driver.send_message(event)

    async def burst(self, *keys: str) -> None:
        """These keys at once, and news at every turn of the loop until what they do is done."""
        self.send_changes()
        self.type(*keys)
        self.send_changes()
        for turn in range(TURNS):
            if not self.app.is_running:
                break
            await asyncio.sleep(0)
            if turn % EVERY:
                continue
            for signal in signals(self.nictop):
                signal.publish()
        await self.screen.settle()
        assert self.app._exception is None, f"{keys}: {self.app._exception!r}"

    def works(self) -> bool:
        """Something that a key has begun is not over: a file that is read or written, a run, a
        closing connection."""
        return self.nictop.traffic.running or any(
            not one.is_finished
            for one in self.app.workers
            if not (one.group or "").startswith("source ")
        )

    async def back(self) -> None:
        """To the live screen, and nothing that was begun is running."""
        await self.nictop.traffic.stop()
        for mode, stack in self.app._screen_stacks.items():
            await self.app.switch_mode(mode)
            while len(stack) > (2 if mode == "live" else 1):
                await self.app.pop_screen()
        await self.app.switch_mode("live")
        await wait_until(self.screen, lambda: not self.works())
        await self.nictop.recording.end(notify=False)
        await self.screen.settle()
        if isinstance(self.app.screen, LiveScreen):
            self.app.screen.remove_class("-detail")
            self.app.screen.show_tab("devices")
        if self._hosts is None:
            return
        self.nictop.diagnosis.publish(
            Diagnosis((finding(host="one", subject="ens192", fixes=(JUMBO,)),), ())
        )
        await self.screen.settle()


async def view(typing: Typing, name: str) -> None:
    await typing.app.action_view(name)


async def press(typing: Typing, *keys: str) -> None:
    await typing.screen.press(*keys)


async def push(typing: Typing, *made: object) -> None:
    for one in made:
        await typing.app.push_screen(one)  # type: ignore[call-overload]


async def taken(text: str) -> str:
    return "" if text else "nothing was typed"


def stored_group(label: str) -> ResultGroup:
    """Two runs of one experiment."""
    made = result(4.0)
    runs = [
        StoredRun(f"{label}{n}", label, made, made.wall, "0", "repeat", label, number=n)
        for n in (1, 2)
    ]
    (found,) = set_ups(runs)
    return found


def question() -> Question:
    return Question("password", "one", "password of root@one", secret=True)


OPENERS: dict[str, tuple[type, Callable[[Typing], Awaitable[None]]]] = {
    "devices": (LiveScreen, lambda one: view(one, "devices")),
    "queues": (LiveScreen, lambda one: view(one, "queues")),
    "queues, filter": (LiveScreen, lambda one: press(one, "2", "slash")),
    "CPUs": (LiveScreen, lambda one: view(one, "cpus")),
    "findings": (LiveScreen, lambda one: view(one, "findings")),
    "help": (HelpScreen, lambda one: press(one, "question_mark")),
    "hosts": (HostsScreen, lambda one: press(one, "5")),
    "hosts, adding": (HostsScreen, lambda one: press(one, "5", "e", "enter")),
    "hosts, filter": (HostsScreen, lambda one: press(one, "5", "slash")),
    "a menu": (MenuScreen, lambda one: press(one, "o")),
    "traffic": (TrafficScreen, lambda one: press(one, "6")),
    "results": (ResultsScreen, lambda one: press(one, "7")),
    "results, filter": (ResultsScreen, lambda one: press(one, "7", "slash")),
    "a run": (RunScreen, lambda one: push(one, RunScreen())),
    "a fix": (HostChangeScreen, lambda one: press(one, "f")),
    "set up": (SetUpScreen, lambda one: press(one, "e")),
    "record": (LineEntry, lambda one: press(one, "r", "home", "enter")),
    "report": (LineEntry, lambda one: press(one, "r", "end", "enter")),
    "a stored run": (
        StoredRunScreen,
        lambda one: push(one, StoredRunScreen(stored_group("before"))),
    ),
    "between two runs": (ChangeScreen, lambda one: push(one, ChangeScreen("plug it in"))),
    "leave": (LeaveScreen, lambda one: push(one, LeaveScreen())),
    "question": (QuestionScreen, lambda one: push(one, QuestionScreen(question()))),
    "line": (LineEntry, lambda one: push(one, LineEntry("a", "b", "c", taken))),
    "palette": (object, lambda one: press(one, "ctrl+p")),
}


@asynccontextmanager
async def two_hosts() -> AsyncIterator[Typing]:
    async with screen_with_hosts("one", "two") as (screen, hosts):
        typing = Typing(screen, hosts)
        for name in ("one", "two"):
            hosts[name].send(
                SourceState("live"),
                hello(),
                inventory(link(2, "ens192", bus="pci")),
                counters(1.0, {2: (0, 0)}),
            )
        await wait_until(
            screen, lambda: all(one.snapshot.inventory for one in screen.nictop.hosts.sessions)
        )
        await wait_until(screen, lambda: screen.nictop.diagnosis.result is not None)
        await typing.back()
        yield typing


@pytest.fixture
def every_key(request: pytest.FixtureRequest) -> bool:
    """A campaign tries all keys on all screens."""
    return bool(request.config.getoption("--every-key"))


@pytest.fixture(autouse=True)
def folders(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("XDG_STATE_HOME", "XDG_DATA_HOME", "XDG_CONFIG_HOME"):
        monkeypatch.setenv(name, str(tmp_path))


@pytest.mark.parametrize("name", [name for name in OPENERS if name != "palette"])
async def test_nothing_is_drawn_on_a_screen_that_was_left(name: str) -> None:
    """Signals that it subscribed to and its timers come while its widgets are removed, and
    afterwards."""
    async with two_hosts() as typing:
        before = callbacks(typing.nictop)
        await OPENERS[name][1](typing)
        await typing.screen.settle()
        left = typing.app.screen
        subscribed = callbacks(typing.nictop)
        timers = list(left._timers)
        if len(typing.app.screen_stack) > 1:
            await typing.app.pop_screen()
        else:
            mode = typing.app.current_mode
            await typing.app.switch_mode("live")
            await typing.app.remove_mode(mode)
        await typing.screen.settle()
        assert not left.children
        program = (typing.app, typing.nictop, typing.nictop.traffic)
        of_the_program = [one for one in before if getattr(one, "__self__", None) in program]
        assert callbacks(typing.nictop) == (
            of_the_program if isinstance(left, LiveScreen) else before
        )
        for callback in subscribed:
            callback()
        for message in (HostTable.Chosen(), DeviceTable.Opened()):
            await left._dispatch_message(message)
        for timer in timers:
            if timer._callback is not None:
                await invoke(timer._callback)
        left.call_after_refresh(left.query_one, LineWidget)
        await typing.screen.settle()
        assert typing.app._exception is None


async def left(typing: Typing, widget: type[Widget], disk: asyncio.Event) -> None:
    """Leave the screen; the disk answers as soon as this widget of it is gone."""
    screen = typing.app.screen

    async def answer() -> None:
        while screen.query(widget):  # noqa: ASYNC110  (Textual tells nobody)
            await asyncio.sleep(0)
        disk.set()

    answering = asyncio.create_task(answer())
    if len(typing.app.screen_stack) > 1:
        await typing.app.pop_screen()
    else:
        mode = typing.app.current_mode
        await typing.app.switch_mode("live")
        await typing.app.remove_mode(mode)
    await answering
    await wait_until(typing.screen, lambda: not typing.works())
    assert typing.app._exception is None


async def test_kept_runs_that_are_read_when_their_screen_is_left(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The disk is slower than somebody who types: its answer comes while the widgets are taken
    away."""
    disk = asyncio.Event()

    async def slow(*_: object) -> StoredRuns:
        await disk.wait()
        return StoredRuns()

    monkeypatch.setattr(
        "nictop.tui.screens.traffic.results.asyncio", SimpleNamespace(to_thread=slow)
    )
    async with two_hosts() as typing:
        await press(typing, "7")
        await left(typing, SetUpList, disk)


async def test_a_line_that_is_taken_when_its_screen_is_left() -> None:
    disk = asyncio.Event()

    async def slow(text: str) -> str:
        await disk.wait()
        return "the disk is full"

    async with two_hosts() as typing:
        await push(typing, LineEntry("a", "b", "c", slow))
        await press(typing, "enter")
        await left(typing, LineWidget, disk)


@pytest.mark.parametrize("name", OPENERS)
async def test_every_key_twice(name: str, every_key: bool) -> None:
    """Those that are bound on the screen, and some that are not."""
    kind, opened = OPENERS[name]
    async with two_hosts() as typing:
        keys: list[str] = [NOTHING]
        for key in keys:
            await typing.back()
            await opened(typing)
            await typing.screen.settle()
            if key == NOTHING:
                bound = (
                    [*typing.app.screen.active_bindings, *EVERYWHERE, *TYPED]
                    if not every_key
                    else KEYS
                )
                keys += [one for one in dict.fromkeys(bound) if one not in QUITS]
            assert isinstance(typing.app.screen, kind), f"before {key}: {typing.app.screen}"
            await typing.burst(key, key)
            assert typing.app.is_running, f"{key} {key}"


@pytest.mark.parametrize(
    "name", ["devices", "queues", "CPUs", "findings", "hosts", "timeline", "run", "help"]
)
async def test_every_key_twice_in_a_recording(name: str, every_key: bool) -> None:
    keys = {
        "queues": "2",
        "CPUs": "3",
        "findings": "4",
        "hosts": "5",
        "run": "6",
        "help": "question_mark",
    }
    keys["timeline"] = "shift+tab"
    async with screen_with_replay(DEMO, start=30.0) as screen:
        typing = Typing(screen)
        tried: list[str] = [NOTHING]
        for key in tried:
            await typing.back()
            if name in keys:
                await screen.press(keys[name])
            if key == NOTHING:
                bound = (
                    [*screen.app.screen.active_bindings, *EVERYWHERE, *TYPED]
                    if not every_key
                    else KEYS
                )
                tried += [one for one in dict.fromkeys(bound) if one not in QUITS]
            assert name != "run" or isinstance(screen.app.screen, RecordedRunScreen), (
                f"before {key}"
            )
            await typing.burst(key, key)
            assert screen.app.is_running, f"{key} {key}"


@pytest.mark.parametrize("key", QUITS)
@pytest.mark.parametrize(
    "name", ["devices", "hosts", "help", "traffic", "palette", "a run", "line"]
)
async def test_keys_that_end_it_typed_twice_end_it_once(name: str, key: str) -> None:
    async with two_hosts() as typing:
        await OPENERS[name][1](typing)
        await typing.screen.settle()
        await typing.burst(key, key)
        assert not typing.app.return_code


@pytest.mark.parametrize(
    "first", ["5", "6", "7", "e", "f", "question_mark", "r", "o", "4", "slash", "colon", "ctrl+p"]
)
async def test_a_key_and_others_right_behind_it(first: str, every_key: bool) -> None:
    async with two_hosts() as typing:
        for key in KEYS if every_key else SECOND:
            if key in QUITS:
                continue
            await typing.back()
            await typing.burst(first, key, first)


@pytest.mark.parametrize(
    "keys", [("enter", "enter"), ("enter", "enter", "enter"), ("enter", "escape", "enter")]
)
async def test_a_command_of_the_palette_is_run_once(
    keys: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    async with two_hosts() as typing:
        opened: list[str] = []
        monkeypatch.setattr(
            type(typing.app), "action_help", lambda app: opened.append(str(app.screen))
        )
        await typing.screen.press("ctrl+p", *"Show help")
        await wait_until(
            typing.screen, lambda: typing.app.screen.query_one(OptionList).highlighted is not None
        )
        below = typing.app.screen_stack[:-1]
        await typing.burst(*keys)
        await wait_until(
            typing.screen, lambda: typing.app.screen_stack == below
        )  # the search for the whole text ended
        await typing.screen.settle()
        assert len(opened) == ("escape" not in keys)


async def test_a_palette_that_is_closed_while_it_searches() -> None:
    async with two_hosts() as typing:
        await typing.screen.press("ctrl+p")
        palette = typing.app.screen
        assert isinstance(palette, Palette)
        await typing.screen.press("escape")
        assert typing.app.screen is not palette
        await palette._gather_commands("host").wait()
        assert typing.app.is_running and not typing.app.return_code
