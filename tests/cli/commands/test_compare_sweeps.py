"""``nictop compare`` of two sweeps: a row for each value, in text, Markdown and JSON."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from nictop.report.runs.json import CompareDocument
from tests.cli.commands.test_report import check as matches_schema
from tests.cli.test_main import call_main
from tests.traffic.results.test_selection import save_all, series
from tests.traffic.runs import result

Rates = dict[str, tuple[float, ...]]
"""Value → Gb/s of its runs."""


def save_sweep(directory: Path, label: str, rates: Rates) -> None:
    measured = [(value, rate) for value, runs in rates.items() for rate in runs]
    made = series(
        label[0] * 12,
        *((value, value) for value, _ in measured),
        kind="sweep",
        variable="length",
        label=label,
    )
    runs = [
        replace(run, result=result(rate)) for run, (_, rate) in zip(made, measured, strict=True)
    ]
    save_all(directory, runs)


@pytest.fixture
def state(tmp_path: Path) -> Path:
    kept = tmp_path / "nictop" / "runs"
    kept.mkdir(parents=True)
    save_sweep(kept, "virtio", {"4K": (1.0, 1.01, 1.0), "64K": (4.0, 4.02, 3.99), "1M": (5.0,)})
    save_sweep(kept, "passthrough", {"4K": (2.0, 2.02, 2.0), "64K": (4.0, 4.0, 4.01)})
    return tmp_path


def compare(state: Path, *options: str) -> str:
    done = call_main("compare", "virtio", "passthrough", *options, XDG_STATE_HOME=str(state))
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def test_each_value_has_its_figures_and_its_verdict(state: Path) -> None:
    lines = compare(state).splitlines()
    assert lines[:2] == ["A: virtio", "B: passthrough"]
    rows = [line.split() for line in lines if line.startswith(("4K", "64K", "1M"))]
    four, many, large, few, _ = (" ".join(row) for row in rows)
    assert four.startswith("4K 1.00 Gb/s 2.00 Gb/s 2.00 (") and four.endswith(") Better")
    assert many.startswith("64K 4.00 Gb/s 4.00 Gb/s 1.00 (") and many.endswith("No difference")
    assert large == "1M 5.00 Gb/s – – Not ranked"
    assert few.startswith("1M: virtio has 1 run, passthrough has 0 runs, 3 needed")


def test_markdown_and_json_say_the_same(state: Path) -> None:
    assert "| 4K | 1.00 Gb/s | 2.00 Gb/s |" in compare(state, "--format", "markdown")
    data = compare(state, "--format", "json")
    schema = json.loads(call_main("compare", "--schema").stdout)
    matches_schema(json.loads(data), schema, schema["$defs"])
    document = msgspec.json.decode(data, type=CompareDocument)
    assert (document.comparison, document.variable) == (None, "length")
    verdicts = {one.value: one.comparison.verdict for one in document.values}
    assert verdicts == {"4K": "better", "64K": "same", "1M": "refused"}
    assert [len(side.runs) for side in document.values[2].setups] == [1, 0]
