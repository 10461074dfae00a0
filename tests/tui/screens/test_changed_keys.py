"""No text names a key that the configuration has given another one: every key is changed, and every
view, dialog, help and palette is read."""

from __future__ import annotations

import ast
import re
from importlib.resources import as_file, files
from pathlib import Path
from typing import Any

import pytest
from textual.containers import Vertical

import nictop
from nictop.cli.commands.demo import DEMO_FILE, DEMO_NIC, DEMO_START_SECONDS
from nictop.rules import Diagnosis, Fix
from nictop.tui.app import NictopApp
from nictop.tui.keys import (
    KEYS,
    KEYS_AND_VARIANTS,
    PAIRS,
    TABS,
    checked_keymap,
    default_label,
    key_label,
    meaning_text,
    pair_label,
)
from nictop.tui.screens.dialogs.help import HelpScreen
from nictop.tui.widgets.base.key_footer import KeyFooter
from nictop.wire.source import SourceState
from tests.support.captured import captured_lines
from tests.support.findings import commands, finding
from tests.support.replay_screen import screen_with_replay
from tests.support.screen import NARROW, WIDE, Screen, live_screen, screen_with_hosts

ROOT = Path(nictop.__file__).parent
KEY = {name: f"ctrl+f{number}" for number, name in enumerate(KEYS_AND_VARIANTS, 1)}
"""Id → the key that it has here: one that no text has by chance."""
NAMED = "Esc|Enter(?! the )|Tab|Space|PgUp|PgDn|←→|← →|↑↓|ctrl\\+[a-z]\\b|shift\\+tab"
KEY_IN_TEXT = re.compile(
    rf"(?<![\w-])({NAMED})(?![\w-])"
    r"|\b[Pp]ress(es)? ([a-z0-9?:/+-])(?!\w)|\b[Kk]eys? [a-z0-9?](?!\w)|\([a-z0-9?]\)"
    r"|\b[a-z0-9?]: (go|open|show|to|run|list|reopen|add)\b"
)
"""What names a key that is not one of `KEY`."""
FIXED = {
    "tui/keys.py": "the keys themselves",
    "tui/screens/dialogs/dialog.py": "keys of dialogs cannot be changed",
    "tui/screens/dialogs/menu.py": "nor those of menus",
    "tui/screens/dialogs/no_clipboard.py": "a dialog",
    "tui/screens/dialogs/report.py": "a dialog",
    "tui/screens/dialogs/leave.py": "a dialog",
    "tui/screens/dialogs/question.py": "a dialog",
    "tui/screens/live/row_dialog.py": "a dialog",
    "tui/screens/live/layer.py": "layer(1) is an action",
    "tui/screens/changes/fix.py": "a dialog",
    "tui/screens/changes/screen.py": "a dialog",
    "tui/widgets/changes/guided_fields.py": "Enter is a verb there",
}
"""Files whose texts may name keys, and why."""


def label_of(name: str) -> str:
    return key_label(KEY[name])


# ---------------------------------------------------------------------------------------- all texts


def texts_of(path: Path) -> list[str]:
    """String constants of a module that are no docstrings, without those that are compiled to
    bindings."""
    tree = ast.parse(path.read_text("utf-8"))
    docstrings = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    constants = [node for node in ast.walk(tree) if isinstance(node, ast.Constant)]
    return [
        node.value
        for node in constants
        if isinstance(node.value, str) and id(node) not in docstrings
    ]


def test_no_text_of_the_program_has_a_key_in_it() -> None:
    paths = [*(ROOT / "tui").rglob("*.py"), *(ROOT / "replay").rglob("*.py")]
    paths += [ROOT / "rules" / "wording.py", *(ROOT / "cli" / "commands").glob("*.py")]
    found = set()
    for path in paths:
        if any(map(KEY_IN_TEXT.search, texts_of(path))):
            found.add(str(path.relative_to(ROOT)))
    assert found == set(FIXED)


@pytest.mark.parametrize(
    "text",
    [
        "No matches (Esc clears the filter)",
        "Press o for skipped checks.",
        "3 hidden (o)",
        "+5 (key 4)",
        "o: go there",
        "next pane (shift+tab: previous)",
    ],
)
def test_a_key_in_a_text_is_seen(text: str) -> None:
    assert KEY_IN_TEXT.search(text)


def test_keys_in_the_meaning_of_another_one_are_those_in_force() -> None:
    for name in KEYS:
        text = meaning_text(name, label_of)
        assert "{" not in text and not KEY_IN_TEXT.search(text)
    assert meaning_text("sort", default_label) == "sort by the next column (S: reverse)"
    assert "ctrl+c" in meaning_text("quit", default_label)


def test_pairs_of_keys() -> None:
    assert [pair_label(default_label, name) for name in PAIRS] == ["←→", "↑↓", "PgUp/PgDn"]
    assert pair_label(label_of, "left") == f"{label_of('left')}/{label_of('right')}"


# ------------------------------------------------------------------------------------- what is drawn


@pytest.fixture
def changed_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    """The application has the keys of `KEY` from its start on."""
    begin = NictopApp.__init__

    def begin_with_keys(self: NictopApp, *given: Any, **named: Any) -> None:
        begin(self, *given, **named)
        self.set_keymap(checked_keymap(KEY, "config.toml"))

    monkeypatch.setattr(NictopApp, "__init__", begin_with_keys)


class Reader:
    """Presses keys by their ids, and reads what is shown then."""

    def __init__(self, screen: Screen) -> None:
        self.screen = screen
        self.read = 0

    async def press(self, *names: str) -> None:
        """Ids of keys; others are keys of dialogs, which cannot be changed."""
        for name in names:
            await self.screen.press(KEY.get(name, name))
            await self.screen.settle()
            self.check(f"after {names}")

    def check(self, where: str) -> None:
        self.read += 1
        shown = self.screen.app.screen
        text = "\n".join(self.screen.drawn())
        frame = next(iter(shown.query(Vertical)), None)
        if not isinstance(shown, HelpScreen) and frame is not None and shown.is_modal:
            for part in str(frame.border_subtitle).split(" · "):
                text = text.replace(re.sub(r"\[.*?\]", "", part), "")
        found = KEY_IN_TEXT.search(text)
        assert not found, f"{found} {where}:\n{text}"
        for footer in shown.query(KeyFooter):
            labels = {*map(label_of, KEY), *(pair_label(label_of, name) for name in PAIRS)}
            assert {hint.display for hint in footer.hints} <= labels, where

    async def read_help_and_palette(self) -> None:
        await self.press("help")
        assert isinstance(self.screen.app.screen, HelpScreen)
        for _ in range(12):
            await self.press("page-down")
        await self.press("help", "palette")
        await self.press(*["pagedown"] * 6, "escape")


def notices(screen: Screen) -> str:
    return "\n".join(str(notice.message) for notice in screen.app._notifications)


@pytest.mark.usefixtures("changed_keys")
@pytest.mark.parametrize("size", [NARROW, WIDE], ids=["narrow", "wide"])
async def test_views_of_one_host(size: tuple[int, int]) -> None:
    async with live_screen(size, allow_changes=True) as screen:
        reader = Reader(screen)
        await screen.receive(*captured_lines("virtio-4-queues"))
        for tab in TABS:
            await reader.press(tab.name)
            assert f"{label_of(tab.name)} {tab.label}" in screen.drawn()[0] or size == NARROW
            await reader.read_help_and_palette()
        await reader.press("devices", "open", "open", "filter", "x", "back", "back", "back")
        for name in ("devices", "queues", "cpus", "findings", "hosts", "results"):
            await reader.press(name, "filter", "x", "x", "x", "open", "back", "back")
        await reader.press("findings", "open", "back", "right", "options", "escape")
        await reader.press("hosts", "options", "edit", "escape", "pane", "pane")
        await reader.press("devices", "options", "escape", "down", "edit", "tab", "tab", "escape")
        await reader.press("record", "enter", "escape", "record", "escape", "copy", "fix", "escape")
        await reader.press("traffic", "edit", "down", "options", "escape", "back")
        assert not KEY_IN_TEXT.search(notices(screen))
        assert reader.read > 150


@pytest.mark.usefixtures("changed_keys")
async def test_views_of_a_host_that_is_not_read() -> None:
    async with screen_with_hosts("vm1", "vm2") as (screen, hosts):
        reader = Reader(screen)
        hosts["vm1"].send(SourceState("failed", "connection refused"))
        await screen.settle()
        for tab in TABS:
            await reader.press(tab.name)
        await reader.press("devices", "copy", "fix", "edit")
        text = "\n".join(screen.drawn())
        assert f"Press {label_of('hosts')} for the list of hosts" in text
        assert not KEY_IN_TEXT.search(notices(screen))


@pytest.mark.usefixtures("changed_keys")
async def test_views_of_a_recording() -> None:
    with as_file(files("nictop.recording").joinpath(DEMO_FILE)) as path:
        async with screen_with_replay(
            path, WIDE, start=DEMO_START_SECONDS, loop=True, nic=DEMO_NIC
        ) as screen:
            reader = Reader(screen)
            await reader.press("devices", "open", "open")
            text = "\n".join(screen.drawn())
            assert f"start the recording ({label_of('record')})" in " ".join(text.split())
            await reader.press("devices", "pane", "pane", "pane", "open", "escape")
            for tab in TABS:
                await reader.press(tab.name)
                await reader.read_help_and_palette()
            await reader.press("results", "mark", "down", "open", "back")
            await reader.press("traffic", "options", "escape", "next")


# ---------------------------------------------------------------------------- keys of the dialogs


@pytest.mark.usefixtures("changed_keys")
async def test_the_copy_key_of_a_dialog_is_that_of_the_configuration(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    copied: list[object] = []
    monkeypatch.setattr("nictop.tui.app.NictopApp._copy", lambda self, request: copied.append(1))
    async with live_screen(allow_changes=False) as screen:
        reader = Reader(screen)
        await screen.receive(*captured_lines("virtio-4-queues"))
        fix = Fix("here", "set MTU 9000", commands("ip link set dev ens256 mtu 9000"))
        await screen.show_diagnosis(Diagnosis((finding(fixes=(fix,)),), ()))
        await reader.press("findings", "fix")
        text = "\n".join(screen.drawn())
        assert f"{label_of('copy')} Copy" in text
        await reader.press("copy")
        assert copied


@pytest.mark.usefixtures("changed_keys")
async def test_the_help_is_closed_by_the_keys_of_the_configuration() -> None:
    """The line of its filter takes what these keys were before."""
    async with live_screen() as screen:
        reader = Reader(screen)
        for name in ("help", "quit", "back"):
            await reader.press("help")
            assert isinstance(screen.app.screen, HelpScreen)
            await screen.press("q", "question_mark")
            assert isinstance(screen.app.screen, HelpScreen)
            await screen.press("backspace", "backspace")
            await reader.press(name)
            assert not isinstance(screen.app.screen, HelpScreen)


@pytest.mark.usefixtures("changed_keys")
async def test_a_click_on_a_key_in_the_frame_of_the_help_presses_the_key_in_force() -> None:
    async with live_screen() as screen:
        reader = Reader(screen)
        await reader.press("help")
        rows = screen.drawn()
        words = f"{label_of('back')} Close"
        y = next(number for number, row in enumerate(rows) if words in row)
        await screen.pilot.click(offset=(rows[y].index(words) + 1, y))
        await screen.settle()
        assert not isinstance(screen.app.screen, HelpScreen)
