"""The table of metrics, the table of docs/metrics.md that is generated from it, and the
dashboard."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path
from typing import Any

from nictop.metrics.catalogue import METRICS
from tests.cli.test_main import run

PAGE = Path(__file__).parents[2] / "docs" / "metrics.md"
PART = re.compile(
    r"(<!-- metrics: [^\n]*test_catalogue.py -->\n)(.*?)(<!-- end of metrics -->)", re.DOTALL
)
SAMPLES = {metric.sample: metric for metric in METRICS}


def table() -> str:
    rows = [
        f"| `{one.sample}` | {', '.join(one.labels)} | {one.help} | {one.source} |\n"
        for one in METRICS
    ]  # sample names, which are used in queries
    return "| metric | labels | description | source |\n|---|---|---|---|\n" + "".join(rows)


def test_the_page_lists_every_metric() -> None:
    text = PAGE.read_text()
    if os.environ.get("NICTOP_DRAW_SCREENSHOTS"):
        text = PART.sub(lambda match: match[1] + table() + match[3], text)
        PAGE.write_text(text)
    shown = PART.search(text)
    assert shown is not None
    assert shown[2] == table(), "NICTOP_DRAW_SCREENSHOTS=1 and this test write it anew"


def test_names_follow_the_conventions() -> None:
    assert len({metric.name for metric in METRICS}) == len(METRICS)
    for metric in METRICS:
        assert re.fullmatch(r"nictop_[a-z_]+", metric.name) and not metric.name.endswith(
            ("_total", "_info")
        )
        assert metric.help and metric.source and metric.name.endswith(metric.unit)
        assert all(re.fullmatch(r"[a-z_]+", label) for label in metric.labels)
        assert "host" in metric.labels or not metric.labels or metric.name == "nictop_build"


# ---------------------------------------------------------------------------------------- dashboard


def dashboard() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(
        files("nictop.metrics").joinpath("grafana.json").read_text(encoding="utf-8")
    )
    return found


def expressions() -> Iterator[str]:
    whole = dashboard()
    for panel in whole["panels"]:
        yield from (target["expr"] for target in panel["targets"])
    yield from (
        one["query"]["query"] for one in whole["templating"]["list"] if one["type"] == "query"
    )


def test_the_dashboard_uses_only_existing_metrics() -> None:
    asked = [
        (name, expression)
        for expression in expressions()
        for name in re.findall(r"nictop_\w+", expression)
    ]
    assert len(asked) > 20
    for name, expression in asked:
        assert name in SAMPLES, expression
    for expression in expressions():
        for name, selector in re.findall(r"(nictop_\w+)\{([^}]*)\}", expression):
            assert set(re.findall(r"(\w+)=~?\"", selector)) <= set(SAMPLES[name].labels), expression


def test_the_dashboard_uses_rates_only_of_counters() -> None:
    for expression in expressions():
        rated = set(re.findall(r"rate\((nictop_\w+)", expression))
        for name in re.findall(r"nictop_\w+", expression):
            assert (SAMPLES[name].kind == "counter") is (name in rated), expression


def test_panels_do_not_overlap() -> None:
    taken: set[tuple[int, int]] = set()
    panels = dashboard()["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    for panel in panels:
        grid = panel["gridPos"]
        cells = {(grid["x"] + x, grid["y"] + y) for x in range(grid["w"]) for y in range(grid["h"])}
        assert not cells & taken and all(x < 24 for x, _ in cells), panel["title"]
        taken |= cells
        assert panel["title"] and all(target["expr"] for target in panel["targets"])


def test_the_command_prints_the_dashboard() -> None:
    done = run("metrics", "--dashboard")
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout) == dashboard()


def test_an_invalid_address_is_an_error() -> None:
    done = run("metrics", "--listen", "here:1")
    assert done.returncode == 2 and done.stdout == ""
    assert done.stderr.startswith(
        "nictop: invalid listen address 'here:1': 'here' is not an IP address\n"
    )
