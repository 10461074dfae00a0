"""Pictures of runs that were measured between two real guests, as they are kept: what a person sees
who opens them.

The guests are emulated without acceleration, so that the figures are those of the machine below
them.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from nictop.traffic.results.selection import StoredRun, save_run
from nictop.tui.screens.traffic.results import ResultsScreen, StoredRunScreen
from nictop.tui.widgets.status.status_line import StatusLine
from nictop.tui.widgets.traffic.results_list import ResultGroup, SetUpList, set_ups
from tests.support.kept_runs import kept_runs
from tests.support.picture import picture_of
from tests.support.screen import WIDE, Screen, ScriptedHosts, screen_with_hosts, wait_until
from tests.tui.screens.test_screenshots import compare

RUNS = {"lab-ens224": "lab-igb", "lab-ens224v0": "lab-vf", "lab-ens256": "lab-virtio"}
"""Label → name of the picture."""


@pytest.fixture(autouse=True)
def no_cost(monkeypatch: pytest.MonkeyPatch) -> None:
    """The status line has no CPU time of nictop in it, however long the test takes."""
    monkeypatch.setattr(StatusLine, "COST_EVERY", 3600.0)


def rows(runs: list[StoredRun]) -> list[ResultGroup]:
    return sorted(set_ups(runs), key=lambda row: row.first.group)


async def picture(screen: Screen, hosts: ScriptedHosts, shown: StoredRunScreen, *keys: str) -> str:
    await wait_until(screen, lambda: not screen.nictop.hosts.pending)
    await screen.app.push_screen(shown)
    await screen.settle()
    await screen.press(*keys)
    await screen.settle()
    screen.app.clear_notifications()
    return picture_of(screen.app)


@pytest.mark.parametrize("label", RUNS)
async def test_a_run_between_guests_is_proven_and_looks_like_its_picture(
    label: str,
) -> None:
    (run,) = kept_runs("lab")[label]
    assert run.result.proof is not None and run.result.proof.verdict == "proven"
    nic = label.removeprefix("lab-")
    assert all(f"{host}: {nic} carried" in run.result.proof.sentence for host in ("vm1", "vm2"))
    async with screen_with_hosts("vm1", "vm2", size=WIDE) as (screen, hosts):
        shown = StoredRunScreen(rows([run])[0])
        compare(f"{RUNS[label]}-120x36", await picture(screen, hosts, shown))


@pytest.mark.parametrize(
    ("archive", "label"),
    [
        ("lab", "mss"),
        *(("recipes", label) for label in ("full", "sriov", "cost", "files")),
    ],
)
async def test_a_comparison_between_guests_looks_like_its_picture(
    archive: str, label: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The two set-ups of the chosen comparison are compared without a mark."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    for run in kept_runs(archive)[label]:
        save_run(run, tmp_path / "nictop" / "runs")
    async with screen_with_hosts("vm1", "vm2", size=WIDE) as (screen, _):
        await wait_until(screen, lambda: not screen.nictop.hosts.pending)
        shown = ResultsScreen()
        screen.app.push_screen(shown)
        await wait_until(
            screen, lambda: shown.is_mounted and shown.query_one(SetUpList).chosen is not None
        )
        await screen.settle()
        screen.app.clear_notifications()
        compare(f"lab-{label}-120x36", picture_of(screen.app))


@pytest.mark.parametrize(
    ("archive", "label", "name"), [("lab", "sweep", "sweep"), ("recipes", "blocks-igb", "blocks")]
)
async def test_a_sweep_between_guests_looks_like_its_picture(
    archive: str, label: str, name: str
) -> None:
    async with screen_with_hosts("vm1", "vm2", size=WIDE) as (screen, hosts):
        shown = StoredRunScreen(rows(kept_runs(archive)[label])[0])
        compare(f"lab-{name}-120x36", await picture(screen, hosts, shown, "o", "enter"))
