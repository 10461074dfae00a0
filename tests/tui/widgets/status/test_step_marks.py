"""The marks of the steps to a host that is read, in both character sets."""

from __future__ import annotations

import pytest

from nictop.hosts.start import StartStep
from nictop.model.text.glyphs import ASCII, UNICODE, Glyphs
from nictop.tui.screens.dialogs.help import _marks
from nictop.tui.widgets.status.host_start import _step_line

NOT_OF_STEPS = {"?": "doubt", "!": "warning", "i": "info"}


@pytest.mark.parametrize("glyphs", [UNICODE, ASCII])
def test_each_mark_of_a_step_is_its_own_and_in_the_help(glyphs: Glyphs) -> None:
    """On a console steps that had not begun had the mark of info, the running one that of doubt."""
    states = ("done", "active", "failed", "waiting")
    steps = [StartStep("checks", state) for state in states]  # type: ignore[arg-type]
    marks = [_step_line(step, 80, glyphs)[0][0].strip() for step in steps]
    assert len({*marks}) == len(marks) and not NOT_OF_STEPS.keys() & {*marks}
    explained = {mark for label, _ in _marks(glyphs) for mark in glyphs.encode(label).split()}
    assert {*marks, "?"} <= explained
