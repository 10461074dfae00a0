"""The stages of a run in the place of its chart."""

from __future__ import annotations

import pytest

from nictop.model.text.glyphs import UNICODE
from nictop.tui.widgets.traffic.run_waiting import RunStage, RunWaiting, draw_waiting

DONE = [RunStage(f"step {number}", 1.0, "done") for number in range(4)]
FAILED = RunStage("waiting for the first byte", 9.0, "failed")
WAITING = RunWaiting(
    "Nothing was measured.", "Test failed: " + "long reason " * 20, [*DONE, FAILED], ["Hint: this"]
)


def rows(rows: int | None) -> list[str]:
    return [
        "".join(text for text, _ in line).strip() for line in draw_waiting(WAITING, 60, rows=rows)
    ]


@pytest.mark.parametrize("height", [1, 2, 3, 6, 8, 10, None])
def test_the_stage_that_failed_is_seen_on_each_height(height: int | None) -> None:
    seen = rows(height)[:height]
    failed = [one for one in seen if "waiting for the first byte" in one]
    assert len(failed) == 1 and failed[0].startswith(UNICODE.critical) and failed[0].endswith("9 s")
    if height is not None and height > 5:
        assert seen[0] == "Nothing was measured." and seen[1].startswith("Test failed:")


def test_a_stage_of_which_something_was_not_done_has_no_mark_of_success() -> None:
    line = draw_waiting(RunWaiting(stages=[RunStage("checking: not all", 2.0, "partly")]), 60)[0]
    assert line[0] == (f" {UNICODE.warning} ", "warn")
