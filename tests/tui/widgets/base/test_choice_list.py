"""The keys of a list whose chosen line is gone."""

from __future__ import annotations

import pytest

from nictop.tui.widgets.base.choice_list import ChoiceList


class KeepingList(ChoiceList):
    """Nothing is chosen instead of a line that is gone."""

    def index_instead(self, place: int) -> int | None:
        return None


@pytest.mark.parametrize(("lines", "chosen"), [(1, "c"), (2, "d"), (-1, "a"), (-2, "a"), (9, "d")])
def test_the_next_line_of_one_that_is_gone_is_the_one_behind_it(lines: int, chosen: str) -> None:
    """That was left out."""
    shown = KeepingList()
    shown.set_keys(tuple("abcd"))
    shown.choose_index(1)
    shown.set_keys(tuple("acd"))
    assert shown.index is None
    shown.action_move(lines)
    assert shown.key == chosen


def test_there_is_a_line_behind_another_one_as_far_as_there_are_lines() -> None:
    shown = KeepingList()
    assert not shown.has_line_after(1) and not shown.has_line_after(-1)
    shown.set_keys(tuple("abc"))
    shown.choose_index(2)
    assert shown.has_line_after(-2) and not shown.has_line_after(1)
    shown.set_keys(tuple("ab"))
    assert shown.has_line_after(-1) and not shown.has_line_after(1)
