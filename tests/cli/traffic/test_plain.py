"""The exit code of a traffic test without a screen."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from nictop.cli.traffic.plain import exit_code
from nictop.traffic.generators.intervals import Total
from nictop.traffic.results.store import StoredRun
from tests.traffic.runs import flow, result

if TYPE_CHECKING:
    from nictop.traffic.results.result import Result


def stored(one: Result) -> StoredRun:
    return StoredRun("1", "1", one, 0.0, "1")


NOTHING = replace(flow(5.0), received=Total(False, False, 10.0, 0.0, bytes=0))


@pytest.mark.parametrize(
    ("runs", "code"),
    [
        ([], 4),
        ([result(5.0)], 0),
        ([result(flows=(NOTHING,))], 4),
        ([result(flows=(flow(5.0), replace(NOTHING, sender="b", receiver="a")))], 4),
        ([result(5.0), result(flows=(NOTHING,))], 4),
    ],
)
def test_a_run_that_carried_nothing_has_failed(runs: list[Result], code: int) -> None:
    assert exit_code([stored(one) for one in runs], "") == code
