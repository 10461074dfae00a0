"""A row of buttons: keys, clicks, and nothing pressed by what was meant for the stage before."""

from __future__ import annotations

import pytest
from textual.app import App, ComposeResult

from nictop.model.text.glyphs import ASCII, UNICODE, Glyphs
from nictop.tui.widgets.base import button_row
from nictop.tui.widgets.base.button_row import Button, ButtonRow
from tests.support.screen import running

PLAN = (Button("apply", "Apply"), Button("copy", "Copy"), Button("cancel", "Cancel"))
APPLIED = (Button("keep", "Keep"), Button("undo", "Undo now"))


class Row(App[None]):
    """Changes to the stage "applied" as soon as Apply is pressed."""

    CSS_PATH = "../../../../nictop/tui/nictop.tcss"

    def __init__(self, glyphs: Glyphs = UNICODE) -> None:
        super().__init__()
        self.glyphs = glyphs
        self.pressed: list[str] = []
        self.bells = 0

    def bell(self) -> None:
        self.bells += 1

    def compose(self) -> ComposeResult:
        yield ButtonRow(id="dialog-buttons")

    def on_mount(self) -> None:
        self.row.show(PLAN, stage="plan")
        self.row.focus()

    def on_button_row_pressed(self, event: ButtonRow.Pressed) -> None:
        self.pressed.append(event.name)
        if event.name == "apply":
            self.row.show(APPLIED, stage="applied")

    @property
    def row(self) -> ButtonRow:
        return self.query_one(ButtonRow)

    @property
    def text(self) -> str:
        return self.row.render_line(0).text.rstrip()


@pytest.mark.parametrize(("glyphs", "mark"), [(UNICODE, "▸"), (ASCII, ">")])
async def test_keys_choose_and_press(glyphs: Glyphs, mark: str) -> None:
    app = Row(glyphs)
    async with running(app, (60, 5)) as pilot:
        assert app.text == "[ Apply ] [ Copy ] [ Cancel ]"
        await pilot.press("right", "right")
        assert app.text == f"[ Apply ] [{mark}Copy ] [ Cancel ]"
        await pilot.press("enter", "enter", "left", "left", "enter")
        assert app.pressed == ["copy", "copy", "cancel"]


async def test_in_a_narrow_dialog_no_button_is_cut_and_the_chosen_one_has_its_mark() -> None:
    names = ("Apply", "Copy", "More time: 10 min", "Less: 2 min", "Cancel")
    app = Row()
    async with running(app, (60, 5)) as pilot:
        app.row.styles.width = 56
        await pilot.pause()
        app.row.show([Button(name, name) for name in names], stage="narrow", chosen="Cancel")
        assert app.text == "[Apply][Copy][More time: 10 min][Less: 2 min]▸Cancel]"
        await pilot.click(ButtonRow, (48, 0))
        assert app.pressed == ["Cancel"]


async def test_enter_presses_nothing_until_a_button_is_chosen() -> None:
    app = Row()
    async with running(app, (60, 5)) as pilot:
        await pilot.press("enter", "enter")
        assert (app.pressed, app.bells) == ([], 2)
        await pilot.press("right", "enter", "enter", "enter")
        assert app.pressed == ["apply"], (
            "a doubled Enter does not press the button of the next stage"
        )
        await pilot.press("right", "enter")
        assert app.pressed == ["apply", "keep"]


async def test_a_double_click_does_not_press_two_different_buttons() -> None:
    app = Row()
    async with running(app, (60, 5)) as pilot:
        await pilot.click(ButtonRow, (3, 0), times=3)
        assert app.pressed == ["apply"]
        await pilot.click(ButtonRow, (3, 0))
        assert app.pressed == ["apply", "keep"]
        await pilot.click(ButtonRow, (12, 0), times=2)
        await pilot.click(ButtonRow, (40, 0))
        assert app.pressed == ["apply", "keep", "undo", "undo"]


async def test_a_disabled_button_says_why_and_rings() -> None:
    app = Row()
    async with running(app, (60, 5)) as pilot:
        why = "changes are disabled for web1"
        app.row.show(
            (Button("apply", "Apply", False, why), Button("close", "Close")),
            stage="read-only",
            chosen="close",
        )
        assert app.text == "[ Apply ] [▸Close ]"
        await pilot.press("left")
        assert app.text == f"[▸Apply ] [ Close ]  {why}"
        await pilot.press("enter")
        await pilot.click(ButtonRow, (2, 0))
        assert (app.pressed, app.bells) == ([], 2)


async def test_a_choice_survives_the_same_stage_and_blanks_go_first() -> None:
    app = Row()
    async with running(app, (24, 5)) as pilot:
        assert app.text == "[Apply] [Copy] [Cancel]"
        await pilot.press("right", "right")
        app.row.show(PLAN[1:], stage="plan")
        assert app.text == "[▸Copy ] [ Cancel ]"
        await pilot.press("enter")
        assert app.pressed == ["copy"]


async def test_the_safe_button_of_a_new_stage_is_seen_at_once_and_not_pressed_by_the_key_before(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = 100.0
    monkeypatch.setattr(button_row, "monotonic", lambda: now)
    app = Row()
    async with running(app, (60, 5)) as pilot:
        await pilot.press("right", "enter")
        app.row.show(APPLIED, stage="kept", chosen="undo")
        assert app.text == "[ Keep ] [▸Undo now ]"
        await pilot.press("enter")
        assert app.pressed == ["apply"], "a doubled Enter"
        now += button_row.NEW_STAGE_SECONDS
        await pilot.press("enter")
        assert app.pressed == ["apply", "undo"]
