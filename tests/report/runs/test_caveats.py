"""A figure that is not that of the chosen path has a mark and words beside it, wherever it is
shown."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from nictop.cli.traffic.progress import ProgressLines
from nictop.model.text.glyphs import ASCII, UNICODE, Glyphs
from nictop.report.html.page import html_page
from nictop.report.markdown import markdown_page
from nictop.report.page import report_of
from nictop.report.runs.comparison import comparison_text
from nictop.report.runs.json import compare_json, stored_runs_json, traffic_json
from nictop.report.runs.points import set_up_points
from nictop.report.runs.sentences import result_sentences, unplanned_seconds
from nictop.report.runs.text import experiment_text, run_text, stored_runs_text
from nictop.traffic.analysis.comparison import compare_stored_runs
from nictop.traffic.experiment.events import StepEnded, StepStarted
from nictop.traffic.experiment.steps import Experiment, ExperimentStep
from nictop.traffic.failures import Failure
from nictop.traffic.generators.intervals import Total
from nictop.traffic.live.run_view import result_view
from nictop.traffic.results.caveats import caveat_of, caveat_of_runs
from nictop.traffic.results.path_proof import HostProof, PathProof
from nictop.traffic.results.result import Result
from nictop.traffic.results.selection import StoredRun, StoredRuns
from nictop.tui.screens.traffic.status import headline_text, options_text
from nictop.tui.widgets.charts.bar_chart import draw_points
from nictop.tui.widgets.traffic.results_list import COLUMNS, set_up_text, set_ups
from tests.traffic.analysis.test_loaded import loaded
from tests.traffic.analysis.test_transactions import latencies
from tests.traffic.plans import PLAN
from tests.traffic.runs import flow, result

LOSS = "a ens4 lost its carrier at second 3, back at second 18"
ELSEWHERE = PathProof("failed", "a: ens4 carried only 12 kB")
REQUESTS = replace(
    loaded().transactions, idle=None, loaded_since=None, latency=latencies(90.0, 2000)
)  # type: ignore[type-var]
KINDS: dict[str, tuple[Callable[[], Result], str]] = {
    "bulk": (lambda: result(5.0), r"5\.00 Gb/s"),
    "rr": (
        lambda: result(
            plan=replace(PLAN, test="rr", generator="builtin"), flows=(), transactions=REQUESTS
        ),
        r"200(?: transactions)?/s",
    ),
    "loaded": (loaded, r"48\.[12] ms"),
}
CAVEATS: dict[str, Callable[[Result], Result]] = {
    "path not verified": lambda one: replace(one, proof=ELSEWHERE),
    "path not checked": lambda one: replace(one, proof=None),
    "stopped early": lambda one: replace(one, stopped=1.0),
    "lost its link": lambda one: replace(one, event=LOSS, incident="link_lost"),
    "NIC event": lambda one: replace(one, event="a ens4 was reset", incident="other"),
    "": lambda one: one,
}
FOUND = re.compile(
    r"(?:[▲!] ?(?:path )?not (?:verified|checked)|[▲!] ?(?:stopped early|lost its link|NIC event))"
)


def stored(one: Result, number: int = 1, **more: str) -> StoredRun:
    return StoredRun(f"x-{number}", "x", one, one.wall, "0", number=number, **more)  # type: ignore[arg-type]


def texts_of(run: StoredRun, glyphs: Glyphs) -> dict[str, str]:
    """Place → what is shown there; two runs where a place is of several."""
    several = [replace(run, kind="sweep", variable="mss", group="1", value="1"),
               replace(run, identity="x-2", number=2, kind="sweep", variable="mss", group="2",
                   value="2")]  # fmt: skip
    step = ExperimentStep(run.result.plan, "")
    experiment = Experiment("x", (step, step), "repeat")
    progress = ProgressLines(experiment)
    list(progress.lines(StepStarted(1, 2, step, 1.0)))
    other = replace(run, identity="y-1", experiment="y")
    compared = compare_stored_runs([run], [other], ("A", "B"))
    columns = {column.key: column.cell(set_ups([run])[0])[0] for column in COLUMNS}
    points = draw_points(set_up_points(several), 100, 12, glyphs=glyphs)
    report = report_of((), [run], wall=0.0)
    found = {
        "run": run_text(run.result, 100, glyphs),
        "experiment": experiment_text(several, 160, glyphs),
        "list": stored_runs_text(StoredRuns(((Path("x.json"), run),)), 160, glyphs),
        "comparison": comparison_text(compared, ("A", "B"), 160, glyphs),
        "title": headline_text(result_view(run.result), glyphs),
        "bars": "\n".join("".join(part for part, _ in line) for line in points),
    }
    if not glyphs.is_ascii:
        found |= {
            "progress": "\n".join(progress.lines(StepEnded(1, run))),
            "results": f"{columns['goodput']} {columns['path']}",
            "html": html.unescape(re.sub(r"<[^>]*>", "", html_page(report))),
            "markdown": markdown_page(report).replace("\\", ""),
        }
    return found


@pytest.mark.parametrize("glyphs", [UNICODE, ASCII])
@pytest.mark.parametrize("caveat", CAVEATS)
@pytest.mark.parametrize("kind", KINDS)
def test_the_figure_has_its_caveat_on_the_same_line(kind: str, caveat: str, glyphs: Glyphs) -> None:
    make, figure = KINDS[kind]
    run = stored(CAVEATS[caveat](make()))
    assert caveat_of(run.result) == caveat
    for place, text in texts_of(run, glyphs).items():
        lines = [line for line in text.splitlines() if re.search(figure, line)]
        assert lines, f"{place}: {text}"
        if not caveat:
            assert not FOUND.search(text), f"{place}: {text}"
            continue
        words = caveat.removeprefix("path ")
        marked = [line for line in lines if glyphs.warning in line]
        assert marked, f"{place}: {text}"
        assert any(words in line for line in (marked if place != "bars" else text.splitlines())), (
            f"{place}: {text}"
        )


@pytest.mark.parametrize("caveat", CAVEATS)
def test_json_has_it_as_a_field(caveat: str) -> None:
    run = stored(CAVEATS[caveat](result(5.0)))
    compared = compare_stored_runs([run], [run], ("A", "B"))
    experiment = Experiment("x", (ExperimentStep(PLAN, ""),), "run")
    documents = (
        json.loads(traffic_json(experiment, [run]))["runs"][0],
        json.loads(stored_runs_json(StoredRuns(((Path("x"), run),))))["runs"][0]["run"],
        json.loads(compare_json(compared, [("A", [run]), ("B", [run])]))["setups"][0]["runs"][0],
    )
    for one in documents:
        assert (one["verified"], one["caveat"]) == (not caveat, caveat)
    assert (
        json.loads(compare_json(compared, [("A", [run]), ("B", [run])]))["comparison"]["caveats"]
        == [caveat] * 2
    )


def test_a_failed_run_is_never_a_figure() -> None:
    run = stored(result(5.0, failure=Failure("refused", "connection refused by b")))
    assert caveat_of(run.result) == "failed"
    listed = stored_runs_text(StoredRuns(((Path("x.json"), run),)), 160)
    assert "✖ failed" in listed and "5.00 Gb/s" not in listed
    assert headline_text(result_view(run.result)) == "✖ failed"
    assert "▲ failed: 5.00 Gb/s received by b" in run_text(run.result, 120)


def test_on_a_narrow_screen_the_words_of_the_headline_are_shorter() -> None:
    view = result_view(replace(loaded(), proof=ELSEWHERE))
    wide = headline_text(view)
    assert wide.endswith(" Mb/s ▲ path not verified")
    assert headline_text(view, room=58).endswith(" Mb/s ▲ not verified")


def test_a_mean_over_more_seconds_than_planned_says_so() -> None:
    """The generators of a run whose cable was pulled end late: 19 s under the title 2 s."""
    received = Total(False, False, 19.2, 913e3, 2_191_200)
    failed = replace(
        result(flows=(flow(1.0, received=received),)),
        failure=Failure("interrupted", "the test failed"),
    )
    (goodput,) = [text for kind, text in result_sentences(failed) if kind == "goodput"]
    assert "913 kb/s received by b, mean of 19.2 s (planned: 2 s)" in goodput
    (usual,) = [text for kind, text in result_sentences(result()) if kind == "goodput"]
    assert "mean of" not in usual


def test_the_mean_of_a_run_that_lost_its_link_has_its_seconds() -> None:
    """Also if they are as many as planned: in some of them nothing was received."""
    whole = result(1.99, plan=replace(PLAN, time=10))
    failed = replace(whole, failure=Failure("interrupted", "a lost its carrier"))
    for made in (failed, replace(whole, event=LOSS)):
        (text,) = [one.text for one in result_sentences(made) if one.kind == "goodput"]
        assert "mean of 10.0 s" in text and "planned" not in text
        assert unplanned_seconds(made, made.flows[0]) == 10.0, "in the legend of the chart"
    assert unplanned_seconds(whole, whole.flows[0]) is None


def test_a_path_sentence_is_not_said_twice() -> None:
    ends = ("a: ens4 carried 1.92 MiB", "b: ens4 carried 2.15 MiB")
    hosts = tuple(
        HostProof(name, "proven", "physical", text) for name, text in zip("ab", ends, strict=True)
    )
    proof = PathProof(
        "unknown", f"the test failed while data was in flight: {'; '.join(ends)}", hosts
    )
    paths = [text for kind, text in result_sentences(result(proof=proof)) if kind == "path"]
    assert len(paths) == 1


@pytest.mark.parametrize(
    ("ended", "end_text"),
    [
        ({"failure": Failure("stall", "no more data")}, "failed"),
        ({"stopped": 6.0}, "stopped early"),
        ({"event": LOSS, "incident": "link_lost"}, "lost its link"),
    ],
)
def test_the_seconds_of_a_run_that_was_not_whole_are_the_same_words_everywhere(
    ended: dict[str, object], end_text: str
) -> None:
    """The title of its chart, its sentences, the saved results."""
    received = Total(False, False, 6.0, 5e9, 5e9 * 6 / 8)
    run = result(plan=replace(PLAN, time=10), flows=(replace(flow(5.0), received=received),))
    run = replace(run, **ended)  # type: ignore[arg-type]
    assert "TCP ×1 · 6.00 s (planned: 10 s)" in options_text(result_view(run))
    assert "6.00 s (planned: 10 s)" in set_up_text(set_ups([stored(run)])[0])
    (said,) = [one.text for one in result_sentences(run) if one.kind == "goodput"]
    assert said.startswith(f"▲ {end_text}: 5.00 Gb/s received by b, mean of 6.00 s (planned: 10 s)")


def test_runs_that_have_all_failed_have_that_caveat() -> None:
    """A comparison said "path verified" beside their figure."""
    whole = result()
    failed = replace(whole, failure=Failure("interrupted", "a lost its carrier"))
    assert caveat_of_runs([failed, failed]) == "failed"
    assert caveat_of_runs([failed, whole]) == caveat_of(whole)
    assert caveat_of_runs([]) == ""
