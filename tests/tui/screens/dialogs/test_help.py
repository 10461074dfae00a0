"""The help: columns of the view with unit and source, in the words of their definitions."""

from __future__ import annotations

from pathlib import Path

import pytest

from nictop.model.text.glyphs import ASCII
from nictop.tui.filter_help import FILTER_TITLE
from nictop.tui.keys import TABS
from nictop.tui.screens.dialogs.help import HelpScreen, topics
from nictop.tui.screens.frame import FramedScreen
from nictop.tui.widgets.base.line_widget import LineWidget
from nictop.tui.widgets.base.text_input import TextInput
from nictop.tui.widgets.devices.table import DeviceTable
from tests.support.captured import captured_lines
from tests.support.lines import hello, inventory, link
from tests.support.screen import NARROW, Screen, live_screen, wait_until

UNITS = {"", "bytes", "packets", "packets/s", "b/s", "1/s", "%", "ms", "cores per Gb/s"}
UNITS |= {
    "b/s, transactions/s or latency",
    "cores per Gb/s, of rr and crr CPU time per transaction",
}


@pytest.fixture(autouse=True)
def folders(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("XDG_STATE_HOME", "XDG_DATA_HOME", "XDG_CONFIG_HOME"):
        monkeypatch.setenv(name, str(tmp_path))


async def shown(screen: Screen, key: str) -> FramedScreen:
    await screen.press(key)
    found = screen.app.screen
    assert isinstance(found, FramedScreen)
    return found


async def test_every_column_of_every_view_has_its_unit_and_source() -> None:
    async with live_screen((200, 50)) as screen:
        await screen.receive(*captured_lines("virtio-4-queues"))
        await wait_until(screen, lambda: screen.nictop.diagnosis.result is not None)
        for number, tab in enumerate(TABS, 1):
            view = await shown(screen, str(number))
            tables = view.tables
            assert bool(tables) == (tab.name != "findings")
            found = [
                topic for topic in topics(screen.app.screen) if topic.title.startswith("Columns")
            ]
            rows = [row for topic in found for row in topic.rows]
            columns = [column for table in tables.values() for column in table]
            assert len(rows) == len(columns)
            for column, (title, text) in zip(columns, rows, strict=True):
                assert column.source and "  " not in column.source, column.key
                assert title == column.title and text.startswith(column.source)
                assert column.unit in UNITS
                assert not column.unit or text.endswith(f"[{column.unit}]")


async def test_words_of_keys_begin_with_a_small_letter() -> None:
    async with live_screen(NARROW) as screen:
        rows = [row for topic in topics(screen.app.screen)[:3] for row in topic.rows]
        assert ("↑ k", "line above") in rows
        assert [words for _, words in rows if words[:1].isupper()] == []


async def test_the_columns_are_found_by_the_filter() -> None:
    async with live_screen(NARROW, glyphs=ASCII) as screen:
        await screen.press("3", "question_mark", *"squeeze")
        text = " ".join(
            " ".join(part for part, _ in line)
            for line in screen.app.screen.query_one(LineWidget).lines
        )
        assert " ".join(text.split()) == (
            "Columns sqz time_squeeze: NAPI budget or time used up with packets left "
            "(/proc/net/softnet_stat column 3) "
            "[1/s]"
        )
        assert all(row.isascii() for row in screen.drawn())


async def open_help(screen: Screen, *typed: str) -> LineWidget:
    await screen.press("question_mark", *typed)
    await screen.settle()
    return screen.app.screen.query_one(LineWidget)


def chosen_line(lines: LineWidget) -> str:
    (found,) = [
        text for text in ("".join(part for part, _ in line) for line in lines.lines) if "▸" in text
    ] or [""]
    return " ".join(found.split())


async def test_enter_runs_the_chosen_line() -> None:
    async with live_screen(NARROW) as screen:
        await screen.receive(hello(), inventory(link(2, "ens192", bus="pci")))
        lines = await open_help(screen, *"view queues")
        assert chosen_line(lines) == "▸ 2 view Queues"
        await screen.press("enter")
        await screen.settle()
        assert isinstance(screen.app.screen, FramedScreen) and screen.app.screen.tab == "queues"
        await screen.press("1")
        lines = await open_help(screen, *"drops/s")
        while "drops/s" not in chosen_line(lines).split()[:2]:
            await screen.press("down")
        await screen.press("enter")
        await screen.settle()
        assert screen.app.screen.query_one(DeviceTable).order.column == "drops_rate"
        await open_help(screen, *"driver:igb")
        await screen.press("enter")
        await screen.settle()
        assert screen.app.screen.query_one("#device-filter").has_focus


async def test_the_first_escape_closes_and_enter_alone_starts_nothing() -> None:
    async with live_screen(NARROW) as screen:
        await screen.receive(hello(), inventory(link(2, "ens192", bus="pci")))
        below = screen.app.screen
        await open_help(screen, *"sort")
        await screen.press("escape")
        assert screen.app.screen is below
        lines = await open_help(screen)
        assert chosen_line(lines) == ""
        await screen.press("enter")
        await screen.settle()
        assert screen.app.screen is below and not below.has_class("-detail")


async def test_every_line_is_reached_with_the_arrows_and_the_filter_takes_all_letters() -> None:
    async with live_screen(NARROW) as screen:
        await screen.receive(hello(), inventory(link(2, "ens192", bus="pci")))
        lines = await open_help(screen)
        help_screen = screen.app.screen
        assert isinstance(help_screen, HelpScreen)
        rows, seen = help_screen._rows, []
        for _ in rows:
            await screen.press("down")
            seen.append(chosen_line(lines))
        assert len(seen) == len(rows) and all(seen) and "quit (ctrl+c" in seen[-1]
        await screen.press(*"jkhl")
        assert screen.app.screen.query_one(TextInput).value == "jkhl"


@pytest.mark.parametrize("key", "1234567")
async def test_the_filter_language_and_the_sort_columns_are_in_the_help(key: str) -> None:
    async with live_screen(NARROW) as screen:
        await screen.receive(*captured_lines("virtio-4-queues"))
        view = await shown(screen, key)
        found = {topic.title: topic for topic in topics(screen.app.screen)}
        assert found[FILTER_TITLE].rows == list(view.filter_rows) != []
        sortable = [title for title in found if "Enter sorts" in title]
        assert bool(sortable) is (key in "15")
        for title in sortable:
            assert found[title].runs.keys() == set(found[title].rows)
