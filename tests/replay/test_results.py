"""The runs of a recording as a report has them: from the demo, whose figures two real guests have
told."""

from __future__ import annotations

import asyncio
import functools
import re

import pytest

from nictop.recording.reader import Recording
from nictop.replay import results as room
from nictop.replay.results import RecordedResults, recorded_results
from nictop.replay.run_index import run_marks
from nictop.traffic.results.store import WithoutResult
from tests.cli.commands.test_demo import DEMO
from tests.cli.test_main import run


@functools.cache
def results_until(after_run: int | None = None, seconds: float = 0.0) -> RecordedResults:
    """Until so long after the begin of a run; None: until the end."""
    with Recording.open(DEMO) as recording:
        until = (
            recording.end if after_run is None else run_marks(recording)[after_run].begin + seconds
        )
        return asyncio.run(recorded_results(recording, until))


def test_both_runs_have_their_charts_proof_and_bottleneck() -> None:
    found = results_until()
    assert found.missing == ()
    assert [round(one.result.goodput / 1e9, 2) for one in found.runs if one.result.goodput] == [
        0.08,
        0.2,
    ]
    for one in found.runs:
        assert one.result.proof is not None and one.result.proof.verdict == "proven"
        assert one.result.bottleneck is not None
        assert one.result.failure is None
        assert one.written > one.result.wall
    with Recording.open(DEMO) as recording:
        assert [one.identity for one in found.runs] == [
            one.identity for one in run_marks(recording)
        ]


@pytest.mark.parametrize(
    ("after_run", "seconds", "whole", "untold"), [(0, -1, 0, 0), (0, 5, 0, 1), (1, 5, 1, 1)]
)
def test_a_run_that_was_not_over_has_no_result(
    after_run: int, seconds: float, whole: int, untold: int
) -> None:
    found = results_until(after_run, seconds)
    assert (len(found.runs), len(found.missing)) == (whole, untold)
    assert all(
        "(client alma-load-001, server alma-load-002)" in one.sentence
        and "still running at this time" in one.sentence
        and not one.has_failed
        for one in found.missing
    )


def test_of_too_many_runs_only_the_last_ones_are_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(room, "MAX_RECORDED_RUNS", 1)
    found = results_until.__wrapped__()
    assert [one.result.plan.streams for one in found.runs] == [4]
    assert found.missing == (
        WithoutResult("only the last 1 of 2 tests in the recording are shown"),
    )


@pytest.mark.parametrize("form", ["html", "markdown"])
def test_the_report_of_a_recording_has_them(form: str) -> None:
    done = run("report", DEMO, "-o", "-", "--format", form)
    assert (done.returncode, done.stderr) == (0, "")
    assert "81.6 Mb/s received by alma-load-002" in done.stdout
    assert "200 Mb/s received by alma-load-002" in done.stdout
    assert len(re.findall("alma-load-001: ens256 carried", done.stdout)) >= 2
    assert "retransmits 0.58 %, probably spurious: ens256 of alma-load-001 sent" in done.stdout
    assert "hypervisor of alma-load-002" in done.stdout
    if form == "html":
        articles = re.findall(r'<article class="run">.*?</article>', done.stdout, re.DOTALL)
        assert len(articles) == 2 and all("<svg" in one for one in articles)


def test_aliases_reach_the_runs() -> None:
    done = run("report", DEMO, "-o", "-", "--redact")
    assert done.returncode == 0
    assert "Mb/s received by host-2" in done.stdout
    assert "alma-load" not in done.stdout and "10.78.0." not in done.stdout


def test_a_moment_before_the_runs_has_none() -> None:
    done = run("report", DEMO, "-o", "-", "--at", "+4")
    assert done.returncode == 0
    assert 'class="run"' not in done.stdout
