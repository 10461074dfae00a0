"""The key that begins and ends a measurement of what flows now, with two real hosts."""

from __future__ import annotations

import pytest

from nictop.traffic.plan.request import RunRequest
from nictop.tui.screens.dialogs.line_entry import LineEntry
from nictop.tui.screens.traffic import run
from nictop.tui.screens.traffic.command import RunCommandScreen
from nictop.tui.screens.traffic.run import RunScreen
from nictop.tui.widgets.base.text_input import TextInput
from tests.support.traffic_screen import two_hosts
from tests.traffic.pair import missing_requirement

REASON = missing_requirement()
pytestmark = pytest.mark.skipif(REASON is not None, reason=REASON or "")


@pytest.mark.parametrize("key", ["b", "enter"])
async def test_begin_and_end_by_hand(
    key: str, tmp_path: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of the selected interface of the shown host, with the CPU of the other one; saved."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    async with two_hosts() as runs:
        traffic = runs.nictop.traffic
        await runs.press("b")
        await runs.until(lambda: isinstance(runs.app.screen, RunScreen))
        assert traffic.request is not None and traffic.request.observers == ("b",)
        await runs.wait_for_arrivals()
        assert traffic.measures_by_hand
        await runs.press(key)
        await runs.wait_until_finished()
        (stored,) = traffic.results
        figures = stored.result.workload
        assert figures is not None and figures.reason == "hand" and stored.result.stopped is None
        assert [load.host for load in stored.result.hosts] == ["a", "b"]
        await runs.until(lambda: "ended by hand" in runs.run_text())
        assert not runs.app.screen.check_action("end_measurement", ())


async def test_key_that_begins_a_measurement_ends_no_other_test() -> None:
    async with two_hosts() as runs:
        await runs.start(20)
        await runs.wait_for_arrivals()
        await runs.press("b")
        assert runs.nictop.traffic.running
        request = runs.nictop.traffic.request
        assert request is not None and request.test == "bulk"
        await runs.stop()
        await runs.wait_until_finished()


async def test_workload_on_the_screen_is_repeated_only_if_that_is_wanted(
    tmp_path: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its command is shown while it runs, and before it is run again."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.setattr(run, "KEY_IGNORED_SECONDS", 0.0)
    request = RunRequest(
        "a", "a", client_nic="nictopt", test="workload", workload="sleep 1.2; echo done", time=30
    )
    async with two_hosts(request=request, options=("--allow-workload",)) as runs:
        await runs.until(lambda: isinstance(runs.app.screen, RunScreen))
        await runs.until(lambda: "sleep 1.2; echo done" in runs.text("#run-title"))
        await runs.wait_until_finished()
        await runs.until(lambda: "exit status 0" in runs.run_text())
        await runs.press("enter")
        await runs.until(lambda: isinstance(runs.app.screen, run.RepeatScreen))
        await runs.press("enter")
        await runs.until(lambda: isinstance(runs.app.screen, RunScreen))
        assert not runs.nictop.traffic.running and len(runs.nictop.traffic.ended) == 1
        await runs.press("enter")
        await runs.until(lambda: isinstance(runs.app.screen, run.RepeatScreen))
        await runs.press("left", "enter")
        await runs.until(lambda: len(runs.nictop.traffic.ended) == 2)


async def test_command_that_is_typed_on_the_screen(
    tmp_path: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is shown as it will run, and is run only after the answer, on a host that gets the right
    to run it by a new connection."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    async with two_hosts() as runs:
        await runs.open_form()
        runs.app.screen.measure_command()  # type: ignore[attr-defined]
        await runs.until(lambda: isinstance(runs.app.screen, LineEntry))
        runs.app.screen.query_one(TextInput).value = "sleep 1.2; echo typed"
        await runs.press("enter")
        await runs.until(lambda: isinstance(runs.app.screen, RunCommandScreen))
        screen = runs.app.screen
        assert isinstance(screen, RunCommandScreen)
        shown = "".join(text for line in screen.text_lines(200) for text, _ in line)
        assert "On a: /bin/sh -c sleep 1.2; echo typed" in shown
        assert "connects to it once more" in shown
        assert "= nictop traffic a=a.example --workload 'sleep 1.2; echo typed'" in shown
        await runs.press("enter")  # Cancel is chosen
        await runs.until(lambda: not isinstance(runs.app.screen, RunCommandScreen))
        assert not runs.nictop.traffic.running and not runs.nictop.traffic.may_run

        runs.app.screen.measure_command()  # type: ignore[attr-defined]
        await runs.until(lambda: isinstance(runs.app.screen, LineEntry))
        runs.app.screen.query_one(TextInput).value = "sleep 1.2; echo typed"
        await runs.press("enter")
        await runs.until(lambda: isinstance(runs.app.screen, RunCommandScreen))
        await runs.press("left", "enter")
        await runs.until(lambda: isinstance(runs.app.screen, RunScreen))
        await runs.wait_until_finished()
        (stored,) = runs.nictop.traffic.results
        assert stored.result.failure is None and stored.result.workload is not None
        assert stored.result.workload.stdout == ("typed",)
        assert [load.host for load in stored.result.hosts] == ["a", "b"]


async def test_command_that_is_not_one_line_is_refused_while_it_is_typed() -> None:
    async with two_hosts() as runs:
        await runs.open_form()
        runs.app.screen.measure_command()  # type: ignore[attr-defined]
        await runs.until(lambda: isinstance(runs.app.screen, LineEntry))
        runs.app.screen.query_one(TextInput).value = "x" * 5000
        await runs.press("enter")
        await runs.until(lambda: "not one line" in runs.text("#entry-error"))
        assert isinstance(runs.app.screen, LineEntry)
