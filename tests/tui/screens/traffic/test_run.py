"""The page of a running test and the frame around it tell one reading of it."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from time import monotonic

import pytest

from nictop.probe.light_dataclasses import replace
from nictop.traffic.experiment.events import ChangeRequired
from nictop.traffic.experiment.steps import ExperimentStep
from nictop.traffic.generators.intervals import Interval
from nictop.traffic.plan.plan import RunPlan
from nictop.traffic.plan.request import RunRequest
from nictop.traffic.record.log import IntervalMeasured
from nictop.traffic.results.result import Result
from nictop.traffic.run.events import FINAL_COUNTERS, RunFinished, Stage
from nictop.tui.controllers.traffic import TrafficController
from nictop.tui.screens.dialogs.dialog import OVER_TITLE
from nictop.tui.screens.dialogs.leave import (
    NOT_REPORTED,
    NOTHING_MEASURED,
    ONLY_OMITTED,
    OVER_PHASES,
    SAVED,
    LeaveScreen,
    StopScreen,
)
from nictop.tui.screens.traffic.form import TrafficScreen
from nictop.tui.screens.traffic.run import CONTINUES, NOT_APPLIED, RunChangeScreen, RunScreen
from nictop.tui.widgets.base.line_widget import LineWidget
from tests.support.reports import stored_run
from tests.support.screen import NARROW, WIDE, Screen, live_screen, wait_until
from tests.traffic.machines import machine, nic
from tests.traffic.plans import PLAN
from tests.traffic.watched import Watched, quiet_host

RATE = re.compile(r"\d+ Mb/s")
TIME = re.compile(r"\d+ of \d+ s")


def told(screen: Screen, widget: str) -> tuple[list[str], list[str]]:
    """Rates and times in the lines of a widget."""
    lines = screen.app.screen.query_one(widget, LineWidget).lines
    text = " ".join(part for line in lines for part, _ in line)
    return RATE.findall(text), TIME.findall(text)


def measure(run: Watched, end: float, rate: float) -> None:
    """It is reported now."""
    run.axis = monotonic() - end
    run.report("server", Interval(end - 0.5, end, rate, False))


async def test_the_frame_and_the_title_tell_one_reading_of_a_running_test(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each reading of a host draws the frame again, between two redraws of the page."""
    monkeypatch.setattr(TrafficController, "running", property(lambda self: True))
    async with live_screen(WIDE) as screen:
        traffic = screen.nictop.traffic
        live = Watched(PLAN)
        traffic._live = live.live
        measure(live, 1.5, 302e6)
        traffic.publish()
        screen.app.push_screen(RunScreen())
        await wait_until(screen, lambda: isinstance(screen.app.screen, RunScreen))
        await screen.settle()
        first = told(screen, "#status")
        assert (
            first == told(screen, "#run-title") and first[0] == ["302 Mb/s"] and len(first[1]) == 1
        )
        measure(live, 4.5, 364e6)
        screen.nictop.hosts.changed.publish()
        assert told(screen, "#status") == told(screen, "#run-title") == first
        traffic.publish()
        second = told(screen, "#status")
        assert second == told(screen, "#run-title"), "nothing is drawn on the terminal between both"
        assert second[0] == ["364 Mb/s"] and second[1] != first[1]


async def test_a_running_test_says_that_its_bottleneck_is_not_known_yet(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The rows below the rule are never empty."""
    monkeypatch.setattr(TrafficController, "running", property(lambda self: True))
    async with live_screen(WIDE) as screen:
        traffic = screen.nictop.traffic
        live = Watched(PLAN)
        traffic._live = live.live
        measure(live, 1.5, 302e6)
        traffic.publish()
        screen.app.push_screen(RunScreen())
        await wait_until(screen, lambda: isinstance(screen.app.screen, RunScreen))
        await screen.settle()
        shown = screen.app.screen.query_one("#run-sentences", LineWidget).lines
        lines = ["".join(part for part, _ in line) for line in shown]
        assert [line.split()[:4] for line in lines] == [["bottleneck", "not", "known", "yet:"]]


async def test_bars_of_the_last_experiment_do_not_hide_the_chart_of_the_next_test(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Begun by the key that measures by hand, while the page is there."""
    running = [False]
    monkeypatch.setattr(TrafficController, "running", property(lambda self: running[0]))
    async with live_screen(WIDE) as screen:
        page = RunScreen()
        screen.app.push_screen(page)
        await wait_until(screen, lambda: screen.app.screen is page)
        await screen.settle()
        page.show_points(True)
        await screen.settle()
        assert page.query_one("#run-points").display
        running[0] = True
        screen.nictop.traffic.publish()
        assert not page.query_one("#run-points").display and page.query_one("#run-plots").display
        page.show_points(True)
        screen.nictop.traffic.publish()
        assert page.query_one("#run-points").display, "chosen while it runs"


def shown_lines(screen: Screen, widget: str) -> str:
    lines = screen.app.screen.query_one(widget, LineWidget).lines
    return "\n".join("".join(part for part, _ in line) for line in lines)


async def test_a_test_that_does_not_end_says_what_is_waited_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its time stays at the planned end, and its chart runs on."""
    monkeypatch.setattr(TrafficController, "running", property(lambda self: True))
    async with live_screen(WIDE) as screen:
        traffic = screen.nictop.traffic
        live = Watched(PLAN)
        traffic._live = live.live
        measure(live, PLAN.span + 31.5, 0.0)
        traffic.publish()
        screen.app.push_screen(RunScreen())
        await wait_until(screen, lambda: isinstance(screen.app.screen, RunScreen))
        await screen.settle()
        said = shown_lines(screen, "#run-sentences")
        assert re.search(r"2 s are over; waiting for iperf3 on b and a to end: 3\d s", said), said
        assert "waiting for iperf3 to end" in shown_lines(screen, "#status")
        traffic._live.process(Stage("ending", FINAL_COUNTERS))
        traffic.publish()
        assert "2 s are over; reading final counters" in shown_lines(screen, "#run-sentences")


async def test_a_test_that_is_stopped_shows_no_rate_of_before(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(TrafficController, "running", property(lambda self: True))
    async with live_screen(WIDE) as screen:
        traffic = screen.nictop.traffic
        live = Watched(PLAN)
        traffic._live = live.live
        measure(live, 1.5, 302e6)
        traffic.sentence, traffic._stopped_at = "stopping", monotonic()
        traffic._take_run_event(
            IntervalMeasured("b", 2.0, Interval(1.5, 2.0, 0.0, False), "server")
        )
        traffic.publish()
        screen.app.push_screen(RunScreen())
        await wait_until(screen, lambda: isinstance(screen.app.screen, RunScreen))
        await screen.settle()
        for widget in ("#status", "#run-title", "#run-sentences"):
            assert "stopping" in shown_lines(screen, widget), widget
        for widget in ("#status", "#run-title"):
            assert told(screen, widget) == ([], [])


def dialog_words(screen: Screen) -> str:
    return " ".join(shown_lines(screen, "#dialog-text").split())


@asynccontextmanager
async def question_of_a_run(
    monkeypatch: pytest.MonkeyPatch, plan: RunPlan = PLAN
) -> AsyncIterator[tuple[Screen, Watched]]:
    """A run of which nothing is measured yet, and the question whether it is stopped."""
    monkeypatch.setattr(TrafficController, "running", property(lambda self: True))
    async with live_screen(WIDE) as screen:
        traffic = screen.nictop.traffic
        live = Watched(plan)
        traffic._live = live.live
        traffic.publish()
        page = RunScreen()
        screen.app.push_screen(page)
        await wait_until(screen, lambda: isinstance(screen.app.screen, RunScreen))
        await screen.settle()
        page.action_stop()
        await wait_until(screen, lambda: isinstance(screen.app.screen, StopScreen))
        await screen.settle()
        yield screen, live


async def test_the_question_says_what_is_saved_at_each_moment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What is measured after it was opened, too."""
    async with question_of_a_run(monkeypatch) as (screen, live):
        traffic = screen.nictop.traffic
        assert dialog_words(screen) == NOTHING_MEASURED
        live.axis = monotonic() - 1.0
        live.report("client", Interval(0.0, 1.0, 302e6, True))
        traffic.publish()
        assert dialog_words(screen) == NOT_REPORTED, "what was sent alone is no result"
        measure(live, 1.5, 302e6)
        traffic.publish()
        assert dialog_words(screen) == f"{SAVED}."
        traffic._stopped_at = monotonic()
        traffic.publish()
        await screen.settle()
        assert dialog_words(screen) == "The test is being stopped.", "nothing to ask"
        await screen.press("escape")
        page = screen.app.screen
        assert isinstance(page, RunScreen)
        page.action_stop()
        await screen.settle()
        assert screen.app.screen is page


async def test_omitted_seconds_are_not_said_to_be_saved(monkeypatch: pytest.MonkeyPatch) -> None:
    async with question_of_a_run(monkeypatch, replace(PLAN, omit=3)) as (screen, live):
        live.axis = monotonic() + 1.5
        live.report("server", Interval(1.0, 1.5, 302e6, False, omitted=True))
        screen.nictop.traffic.publish()
        assert dialog_words(screen) == ONLY_OMITTED


async def test_the_question_of_an_experiment_tells_runs_that_have_ended(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with question_of_a_run(monkeypatch) as (screen, _):
        traffic = screen.nictop.traffic
        traffic.results = (stored_run(1, "one", Result(PLAN, 0.0)),)
        traffic.publish()
        assert dialog_words(screen) == f"{SAVED}; the run that runs now has measured nothing yet."
        traffic._live.process(RunFinished(Result(PLAN, 0.0)))  # type: ignore[union-attr]
        traffic.publish()
        await wait_until(screen, lambda: dialog_words(screen) == OVER_PHASES["counters"])


async def test_keys_for_a_question_that_is_over_start_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It stays, without its buttons: Enter on the page of a test that has ended starts it again."""
    async with question_of_a_run(monkeypatch) as (screen, _):
        traffic = screen.nictop.traffic
        started: list[object] = []
        monkeypatch.setattr(traffic, "start", lambda *asked, **_: started.append(asked))
        monkeypatch.setattr(TrafficController, "running", property(lambda self: False))
        traffic.request = RunRequest("vm1", "vm2")
        traffic.publish()
        await screen.settle()
        question = screen.app.screen
        assert isinstance(question, StopScreen) and question.dialog_title == OVER_TITLE
        assert dialog_words(screen).startswith(
            "The test has ended. The key that closes this starts no"
        )
        await screen.press("left", "enter")
        await screen.settle()
        assert started == []


async def test_the_question_before_quitting_does_not_promise_a_result(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with question_of_a_run(monkeypatch) as (screen, live):
        await screen.press("escape")
        await screen.press("q")
        await wait_until(screen, lambda: isinstance(screen.app.screen, LeaveScreen))
        await screen.settle()
        assert NOTHING_MEASURED in dialog_words(screen)
        measure(live, 1.5, 302e6)
        screen.nictop.traffic.publish()
        assert f"{SAVED}." in dialog_words(screen)
        assert "Nothing" not in dialog_words(screen)
        screen.nictop.traffic._stopped_at = monotonic()
        screen.nictop.traffic.publish()
        assert dialog_words(screen) == "A test is being stopped."


async def test_a_doubled_enter_does_not_end_the_test_that_it_has_started(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stops: list[None] = []

    async def stop(self: TrafficController) -> None:
        stops.append(None)

    monkeypatch.setattr(TrafficController, "stop", stop)
    async with question_of_a_run(monkeypatch) as (screen, _):
        page = screen.app.screen_stack[-2]
        await screen.press("enter")
        assert screen.app.screen is page and not stops
        assert [one.message for one in screen.app._notifications] == [CONTINUES]
        await screen.press("enter", "enter")
        assert screen.app.screen is page and not stops
        await screen.press("enter", "left", "enter")
        assert stops == [None]


async def test_a_measurement_by_hand_that_has_not_begun_is_not_ended_by_a_doubled_key(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its result would be none."""
    monkeypatch.setattr(TrafficController, "running", property(lambda self: True))
    async with live_screen(WIDE) as screen:
        traffic = screen.nictop.traffic
        traffic.request = RunRequest("vm1", "vm1", test="manual")
        await screen.press("b")
        await wait_until(screen, lambda: isinstance(screen.app.screen, RunScreen))
        await screen.settle()
        assert not traffic.is_stopping, "by the key on another page, neither"
        for key in ("enter", "b"):
            await screen.press(key)
            assert isinstance(screen.app.screen, StopScreen), key
            assert dialog_words(screen) == NOTHING_MEASURED
            await screen.press("enter")
            assert isinstance(screen.app.screen, RunScreen)


async def test_the_question_for_a_change_says_what_the_hosts_show_now(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The change is made while it is open."""
    monkeypatch.setattr(TrafficController, "running", property(lambda self: True))
    async with live_screen(WIDE) as screen:
        traffic = screen.nictop.traffic
        hosts = {name: quiet_host(name) for name in "ab"}

        def show(mtu: int) -> None:
            for name, host in hosts.items():
                host.session.snapshot = machine(name, nic(4, "ens4", mtu=mtu))
            traffic.publish()

        show(1500)
        plan = replace(PLAN, server=replace(PLAN.server, ifindex=4))
        step = ExperimentStep(plan, "", change="MTU of ens4: 9000", value="9000")
        traffic._hosts = hosts
        traffic._answer = asyncio.get_running_loop().create_future()
        traffic._take(ChangeRequired(step, "MTU of ens4: 9000 (current: 1500)", "mtu"))
        traffic.publish()
        screen.app.push_screen(RunScreen())
        await wait_until(screen, lambda: isinstance(screen.app.screen, RunChangeScreen))
        await screen.settle()
        assert "(current: a: ens4 MTU 1500, required 9000" in dialog_words(screen)
        show(9000)
        assert dialog_words(screen) == f"MTU of ens4: 9000 {NOT_APPLIED}"
        assert [sentence for sentence, _ in traffic.stage_times] == ["MTU of ens4: 9000"]


async def test_the_form_is_one_key_from_a_test_that_has_ended() -> None:
    """Enter starts it again: the way to other tests is beside it."""
    async with live_screen(NARROW) as screen:
        screen.nictop.traffic.request = RunRequest("vm1", "vm2")
        screen.app.push_screen(RunScreen())
        await wait_until(screen, lambda: isinstance(screen.app.screen, RunScreen))
        await screen.settle()
        assert "Enter Run again  Esc Back  e Form" in screen.drawn()[-1]
        assert screen.drawn()[-1].rstrip().endswith("q Quit")
        await screen.press("e")
        await wait_until(screen, lambda: isinstance(screen.app.screen, TrafficScreen))
