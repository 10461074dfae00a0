"""The words in the frame of a dialog: of a title that is too long, what tells apart stays."""

from __future__ import annotations

import pytest

from nictop.model.text.glyphs import UNICODE
from nictop.tui.widgets.base.dialog_frame import box_title


@pytest.mark.parametrize(
    ("text", "screen", "shown"),
    [
        (
            "alma-load-001: set IP address of ens224 (profile ens224)",
            80,
            "alma-load-001: set IP address of ens224 (profile ens224)",
        ),
        (
            "alma-load-001: set IP address of ens224 (profile ens224)",
            60,
            "alma-load-001: set IP address of ens224",
        ),
        (
            "a-very-long-name-of-a-host-001: set IP address of ens224 (profile ens224)",
            60,
            "a-very-long-na…of-a-host-001: set IP address of ens224",
        ),
        ("(one) and (another)", 20, "(one) and"),
    ],
)
def test_a_title_that_is_too_long_still_says_which_host_it_is(
    text: str, screen: int, shown: str
) -> None:
    assert box_title(text, screen, UNICODE) == shown
