"""A pytest plugin (``-p tests.campaign.counting``): a JSON line per test, with the inputs that
Hypothesis drew.

The file is named by the environment variable NICTOP_CAMPAIGN_RESULTS; every worker appends to it.
"""

from __future__ import annotations

import functools
import json
import os
from collections import Counter
from typing import Any

import pytest

VARIABLE = "NICTOP_CAMPAIGN_RESULTS"
_inputs: Counter[str] = Counter()
"""Test → inputs drawn so far."""


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for name, function in {
        item.nodeid.partition("[")[0]: item.function
        for item in items
        if isinstance(item, pytest.Function) and hasattr(item.function, "hypothesis")
    }.items():
        count_inputs(name, function)


def count_inputs(name: str, function: Any) -> None:
    """Wrap the inner function of a Hypothesis test, the way Hypothesis documents for plugins."""
    inner = function.hypothesis.inner_test

    @functools.wraps(inner)
    def counted(*arguments: Any, **named: Any) -> Any:
        _inputs[name] += 1
        return inner(*arguments, **named)

    function.hypothesis.inner_test = counted


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    if "PYTEST_XDIST_WORKER" not in os.environ and getattr(report, "node", None) is not None:
        return  # on the controller of xdist, whose workers have written the line
    if report.when != "call" and report.outcome == "passed":
        return
    name = report.nodeid.partition("[")[0]
    line = {
        "test": report.nodeid,
        "outcome": report.outcome,
        "when": report.when,
        "inputs": _inputs.pop(name, 0),
    }
    with open(os.environ[VARIABLE], "a", encoding="utf-8") as file:
        file.write(json.dumps(line) + "\n")
