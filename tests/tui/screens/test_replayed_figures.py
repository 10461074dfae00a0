"""With the same last reading a replay shows the figures of a running test that the live screen
showed.

The screen draws a run a few times a second, so that a replay of a moment may have read a little
more. Times on the axis of the run may differ by milliseconds: it is estimated from the lines that
were read until then.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from nictop.recording.reader import Recording
from nictop.replay.run import RecordedRun
from nictop.replay.run_index import run_marks
from nictop.traffic.live.run_view import RunView
from nictop.traffic.live.samples import sample_at
from tests.support.traffic_screen import two_hosts
from tests.tui.screens.test_recording import RECORD, name_it, real

Figure = tuple[str, object]
"""Direction or host, and values with their reading: goodput, retransmits; CPUs, packets, busiest
queue."""


def figures(view: RunView) -> Iterator[Figure]:
    """Those of the last readings."""
    sample = sample_at(view)
    for number, flow in enumerate(sample.flows):
        yield f"goodput {number}", flow.arrival
        yield f"sending {number}", flow.sending
    for host in sample.hosts:
        yield (
            f"CPUs of {host.host.host}",
            None if host.busy is None else replace(host.busy, time=0.0),
        )
        yield (
            f"packets of {host.host.host}",
            None if host.packets is None else replace(host.packets, time=0.0),
        )
        yield (
            f"queue of {host.host.host}",
            None if host.carrying is None else replace(host.carrying, time=0.0),
        )


@real
async def test_a_replay_has_the_figures_of_the_live_test(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    path = tmp_path / "a.nictop"
    live: set[Figure] = set()
    async with two_hosts() as runs:
        await name_it(runs, RECORD, path)
        await runs.start(5)
        while runs.nictop.traffic.running:
            view = runs.nictop.traffic.view()
            if view is not None and view.result is None:
                live.update(figures(view))
            await runs.pilot.pause(0.05)
        await runs.nictop.recording.end()
    replayed: set[Figure] = set()
    with Recording.open(str(path)) as recording:
        (marks,) = run_marks(recording)
        run = RecordedRun(recording, marks)
        for time in _item_times(recording):
            await run.advance(time)
            view = run.view()
            if view is not None and view.result is None:
                replayed.update(figures(view))
    shown = {(name, value) for name, value in live if value is not None}
    assert {name.partition(" ")[0] for name, _ in shown} == {
        "goodput",
        "sending",
        "CPUs",
        "packets",
        "queue",
    }
    # At least two readings: a loaded machine draws few in five seconds.
    assert len({value for name, value in shown if name == "goodput 0"}) > 1
    assert shown <= replayed, shown - replayed


def _item_times(recording: Recording) -> list[float]:
    """When something was recorded of any host."""
    times: set[float] = set()
    for name in recording.hosts:
        reader = recording.reader(name, recording.begin)
        while (item := reader.next()) is not None:
            times.add(item.time)
    return sorted(times)
