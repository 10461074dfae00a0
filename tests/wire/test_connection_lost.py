"""The error of a connection that has ended."""

from __future__ import annotations

import pytest

from nictop.wire.errors import connection_lost


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (None, "connection to vm1 lost"),
        (OSError("Connection lost"), "connection to vm1 lost"),
        (OSError("reset\x1b by peer"), "connection to vm1 lost: reset by peer"),
    ],
)
def test_a_cause_that_only_repeats_it_is_left_out(error: Exception | None, said: str) -> None:
    assert connection_lost("vm1", error).message == said
