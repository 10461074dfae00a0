"""Runs on the screen: real iperf3 between two namespaces, by keys alone, and nothing of it left
behind."""

from __future__ import annotations

import os
import re
import shlex
import signal
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from textual import events
from textual.screen import Screen as TextualScreen

from nictop.cli.arguments import parse
from nictop.cli.traffic.hosts import run_hosts
from nictop.cli.traffic.options import request_of
from nictop.model.text.glyphs import ASCII, UNICODE, Glyphs
from nictop.probe.records import Address, Line, Outdated
from nictop.recording.reader import Recording
from nictop.replay.run import RecordedRun
from nictop.replay.run_index import run_marks
from nictop.report.html.latency_charts import latency_charts
from nictop.traffic.plan.request import RunRequest
from nictop.traffic.results.selection import StoredRun, save_run, stored_runs
from nictop.tui.controllers import traffic
from nictop.tui.controllers.traffic import TrafficController
from nictop.tui.screens.dialogs.leave import ChangeScreen, LeaveScreen
from nictop.tui.screens.dialogs.menu import MenuList
from nictop.tui.screens.live.screen import LiveScreen
from nictop.tui.screens.traffic.form import BUILTIN_TEXT, TrafficScreen
from nictop.tui.screens.traffic.results import ResultsScreen, StoredRunScreen
from nictop.tui.screens.traffic.run import JUST_ENDED, KEY_IGNORED_SECONDS, RunScreen
from nictop.tui.widgets.base.line_widget import LineWidget
from nictop.tui.widgets.devices.overview_table import OverviewTable
from nictop.tui.widgets.devices.table import DeviceTable
from nictop.tui.widgets.status.status_line import StatusLine
from nictop.tui.widgets.traffic.form import RunForm
from nictop.tui.widgets.traffic.pair_table import PairTable
from nictop.tui.widgets.traffic.results_list import SetUpList
from nictop.tui.widgets.traffic.start_lines import StartLines
from nictop.wire.source import SourceState
from tests.support.lines import counters, hello, inventory, link
from tests.support.screen import NARROW, WIDE, Screen, live_screen, screen_with_hosts, wait_until
from tests.support.traffic_screen import ScreenWithTraffic, two_hosts
from tests.traffic.pair import missing_requirement, processes_in
from tests.traffic.plans import tools
from tests.traffic.runs import result
from tests.tui.screens.test_traffic_screenshots import answer, both

real = pytest.mark.skipif(missing_requirement() is not None, reason=str(missing_requirement()))


@pytest.fixture(autouse=True)
def results_directory(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Path]:
    """Results are kept in a directory of the test."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    yield tmp_path / "nictop" / "runs"


def status(screen: Screen) -> str:
    return "".join(text for text, _ in screen.app.screen.query_one(StatusLine).lines[0])


def shown(screen: Screen) -> type[object]:
    return type(screen.app.screen)


def title(runs: ScreenWithTraffic) -> str:
    return runs.text("#run-title")


# -------------------------------------------------------------------------------------------- a run


@real
@pytest.mark.parametrize("size", [WIDE, NARROW])
async def test_a_run_by_keys_alone_ends_with_its_result_on_the_screen_and_on_disk(
    size: tuple[int, int], results_directory: Path
) -> None:
    async with two_hosts(size, rate="50mbit") as runs:
        await runs.start()
        assert isinstance(runs.app.screen, RunScreen)
        await runs.wait_until_finished()
        assert runs.nictop.traffic.trouble == ""
        (kept,) = runs.nictop.traffic.results
        # payload of 50 Mb/s of frames, and what the shaper sends at once in the beginning
        assert kept.result.goodput is not None and 0 < kept.result.goodput <= 47.8e6 * 1.1
        assert "received by b" in runs.run_text()
        assert "verified" in runs.run_text()
        assert title(runs).startswith(" a:nictopt → b:nictopt")
        assert [one.identity for _, one in stored_runs(results_directory).results] == [
            kept.identity
        ]
        assert runs.generators() == []


@real
async def test_enter_ends_a_run_at_once_and_shows_what_was_measured(
    results_directory: Path,
) -> None:
    async with two_hosts() as runs:
        await runs.start(600)
        await runs.wait_for_arrivals()
        assert len(runs.generators()) == 2
        assert runs.app.screen.active_bindings["enter"].binding.description == "Stop"
        await runs.stop()
        await runs.wait_until_finished()
        assert runs.generators() == []
        assert runs.app.screen.active_bindings["enter"].binding.description == "Run again"
        form = runs.app.screen.active_bindings["e"].binding
        assert form.show and form.description == "Form", "the way to other tests is in sight"
        assert "received by b" in runs.run_text() and " of 600 s" in runs.run_text()
        picture = runs.chart().shown
        assert picture is not None and picture.flows[0].points
        ((_, kept),) = stored_runs(results_directory).results
        assert (
            kept.result.stopped is not None and kept.result.why_not_ranked and kept.result.goodput
        )
        await runs.press("escape")
        assert isinstance(runs.app.screen, TrafficScreen)
        # the options are still there
        assert runs.app.screen.query_one(RunForm).words["time"] == "600"


def signal_all(processes: Iterable[int], number: signal.Signals) -> None:
    for pid in processes:
        with suppress(ProcessLookupError):  # it has come to its end meanwhile
            os.kill(pid, number)


@real
async def test_queues_and_cpus_of_a_test_are_of_its_nic() -> None:
    async with two_hosts() as runs:
        devices = runs.app.screen.query_one(DeviceTable)
        devices.choose_link(1)
        await runs.start(600)
        page = runs.app.screen
        assert isinstance(page, RunScreen)
        await runs.until(lambda: (view := page.run_view()) is not None and len(view.hosts) == 2)
        await runs.press("2")
        assert devices.chosen is not None and devices.chosen.link is not None
        assert devices.chosen.link.name == "nictopt"
        assert runs.drawn()[2].strip(" │").startswith("nictopt")
        devices.choose_link(1)
        await runs.press("1", "3")
        assert devices.chosen.link.name == "lo", "not from another page"
        await runs.press("6")
        await runs.stop()
        await runs.wait_until_finished()
        await runs.press("3")
        assert devices.chosen.link.name == "nictopt", "the test that has just finished"


@real
async def test_enter_as_a_test_ends_does_not_start_it_again() -> None:
    now = 100.0
    async with two_hosts() as runs:
        await runs.start()
        page = runs.app.screen
        assert isinstance(page, RunScreen)
        page._clock = lambda: now
        await runs.wait_until_finished()
        await runs.press("enter")
        assert not runs.nictop.traffic.running, "it was meant to stop the test"
        said = [one.message for one in runs.app._notifications]
        assert JUST_ENDED.format("Enter") in said
        now += KEY_IGNORED_SECONDS + 0.1
        await runs.press("enter")
        assert runs.nictop.traffic.running


@real
async def test_a_stopped_run_whose_ends_do_not_report_says_that_nothing_is_saved(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(traffic, "RUN_STOP_TIMEOUT", 0.3)
    async with two_hosts() as runs:
        await runs.start(600)
        await runs.wait_for_arrivals()
        processes = processes_in(runs.spaces["b"])
        signal_all(processes, signal.SIGSTOP)
        try:
            await runs.stop()
            await runs.wait_until_finished()
        finally:
            signal_all(processes, signal.SIGCONT)
        assert runs.nictop.traffic.results == ()
        assert "its ends have not reported in time" in runs.nictop.traffic.trouble
        shown = runs.run_text()
        assert "what was measured is not saved" in " ".join(shown.split())
        assert any(row.rstrip().endswith("no result") for row in runs.drawn())


@real
async def test_e_goes_from_a_run_to_the_form() -> None:
    async with two_hosts() as runs:
        await runs.start(600)
        assert not runs.app.screen.active_bindings["e"].binding.show
        await runs.press("e")
        assert (
            isinstance(runs.app.screen, TrafficScreen)
            and runs.app.screen.query_one(RunForm).has_focus
        )
        assert runs.nictop.traffic.running


@real
@pytest.mark.parametrize("stage", ["at once", "while it is looked for generators"])
async def test_a_run_that_is_stopped_at_the_start_leaves_nothing(stage: str) -> None:
    async with two_hosts() as runs:
        await runs.open_form()
        await runs.type("time", "600")
        processes = processes_in(runs.spaces["b"])
        signal_all(processes, signal.SIGSTOP)  # its probe answers when the key has been pressed
        try:
            await runs.press("enter")
            if stage != "at once":
                await runs.until(lambda: "checking iperf3" in runs.run_text())
            await runs.stop()
        finally:
            signal_all(processes, signal.SIGCONT)
        await runs.wait_until_finished()
        assert runs.generators() == []
        assert runs.nictop.traffic.results == ()


@real
async def test_a_run_goes_on_when_its_screen_is_left(results_directory: Path) -> None:
    async with two_hosts() as runs:
        await runs.start(600)
        await runs.wait_for_arrivals()
        page = runs.app.screen
        await runs.press("escape")
        assert shown(runs) is LiveScreen
        await runs.until(lambda: "▶" in status(runs) and "b/s" in status(runs))
        assert "of 600 s" in status(runs)
        assert "6 Traffic ●" in runs.drawn()[0]
        await runs.press("6")
        assert runs.app.screen is page, "as it was left"
        await runs.press("1")
        await runs.nictop.traffic.stop()
        await runs.wait_until_finished()
        (notice,) = [one.message for one in runs.app._notifications]
        assert notice.startswith("Test finished: ") and notice.endswith(
            "b/s ▲ stopped early (key 6)"
        )
        assert "▶" not in status(runs) and "6 Traffic 7" in runs.drawn()[0]
        assert len(stored_runs(results_directory).results) == 1


@real
async def test_the_probes_read_as_before_after_a_run() -> None:
    async with two_hosts() as runs:
        followed = runs.nictop.hosts.by_name["a"]
        await runs.start()
        await runs.wait_until_finished()
        assert not followed.in_run and followed._subscribers == []
        runs.app.screen.dismiss()
        before = followed.snapshot.counters
        await runs.until(lambda: followed.snapshot.counters is not before)
        newest = followed.snapshot
        await runs.until(lambda: followed.snapshot.counters is not newest.counters)
        assert newest.counters is not None and followed.snapshot.counters is not None
        assert followed.snapshot.counters.time - newest.counters.time > 0.6


@real
async def test_the_size_may_change_during_a_run() -> None:
    async with two_hosts() as runs:
        await runs.start(600)
        await runs.wait_for_arrivals()
        for size in ((40, 12), (20, 6), (200, 60), NARROW, WIDE):
            await runs.pilot.resize_terminal(*size)
            await runs.settle()
            assert len(runs.drawn()) == size[1]
        assert any("█" in row for row in runs.drawn())
        await runs.stop()
        await runs.wait_until_finished()


@real
async def test_a_frozen_picture_stands_still_and_has_a_cursor() -> None:
    async with two_hosts() as runs:
        await runs.start(600)
        await runs.wait_for_arrivals()
        await runs.press("space")
        frozen = runs.chart().shown
        assert frozen is not None
        assert "PAUSED" in title(runs)
        points = len(frozen.flows[0].points)

        def newer() -> bool:
            picture = runs.nictop.traffic.view()
            return picture is not None and len(picture.flows[0].points) > points

        await runs.until(newer)
        assert runs.chart().shown is frozen
        await runs.press("left", "left")
        assert runs.chart().time is not None
        before = runs.chart().view
        await runs.press("o", "enter")
        assert runs.chart().view != before
        await runs.press("end", "space")
        assert runs.chart().time is None
        assert "PAUSED" not in title(runs)
        await runs.stop()
        await runs.wait_until_finished()


@real
async def test_quitting_during_a_run_is_confirmed_first() -> None:
    async with two_hosts() as runs:
        await runs.start(600)
        await runs.wait_for_arrivals()
        await runs.press("q")
        assert shown(runs) is LeaveScreen
        await runs.press("enter")
        assert shown(runs) is RunScreen, "Cancel is chosen first"
        assert len(runs.generators()) == 2
        await runs.press("q")
        await runs.pilot.press("left", "enter")
        await runs.wait_until_ended()
        assert runs.generators() == []


@real
async def test_one_control_c_during_a_run_stops_it_and_ends_nictop() -> None:
    async with two_hosts() as runs:
        await runs.start(600)
        await runs.wait_for_arrivals()
        await runs.press("q")
        assert shown(runs) is LeaveScreen
        await runs.pilot.press("ctrl+c")
        await runs.wait_until_ended()
        assert runs.generators() == []


@real
async def test_two_runs_at_once_there_are_not() -> None:
    async with two_hosts() as runs:
        await runs.start(600)
        await runs.wait_for_arrivals()
        request = runs.nictop.traffic.request
        assert request is not None
        assert not runs.nictop.traffic.start(request)
        assert len(runs.generators()) == 2
        await runs.stop()
        await runs.wait_until_finished()


@real
async def test_a_host_that_is_removed_ends_the_run() -> None:
    async with two_hosts() as runs:
        await runs.start(600)
        await runs.wait_for_arrivals()
        runs.nictop.hosts.remove("b")
        await runs.wait_until_finished()
        assert runs.generators() == []
        assert (
            runs.nictop.traffic.trouble or runs.nictop.traffic.results[0].result.failure is not None
        )


@real
async def test_a_request_is_started_at_once_and_its_result_is_returned() -> None:
    request = RunRequest("a", "b", client_nic="nictopt", server_nic="nictopt", ip_version=4, time=1)
    async with two_hosts(request=request) as runs:
        await runs.until(lambda: bool(runs.nictop.traffic.ended))
        experiment = runs.app.requested_experiment
        assert experiment.trouble == ""
        assert [one.result.failure for one in experiment.results] == [None]


@real
async def test_without_iperf3_on_one_end_the_built_in_generator_runs_and_says_so() -> None:
    async with two_hosts(bare=["b"]) as runs:
        await runs.open_form()
        assert "b: iperf3 not installed, built-in generator only" in runs.pair_facts()
        await runs.type("time", "1")
        await runs.press("enter")
        await runs.wait_until_finished()
        (kept,) = runs.nictop.traffic.results
        assert kept.result.plan.generator == "builtin"
        assert kept.result.failure is None
        assert any("built-in" in note for note in runs.nictop.traffic.notes)


@real
async def test_iperf3_that_is_asked_for_and_missing_is_refused_before_anything_starts() -> None:
    async with two_hosts(bare=["b"]) as runs:
        await runs.open_form()
        runs.app.screen.query_one(RunForm).set_word("generator", "iperf3")
        await runs.settle()
        assert "not installed" in runs.pair_facts()
        await runs.press("enter")
        assert isinstance(runs.app.screen, TrafficScreen)
        assert runs.nictop.traffic.ended == []


# -------------------------------------------------------------------------------------- experiments


async def compare_by_hand(runs: ScreenWithTraffic) -> None:
    await runs.open_form()
    await runs.type("time", "1")
    await runs.type("vary", "setup=old,new")
    runs.app.screen.query_one(RunForm).set_word("rest", "1")
    await runs.press("enter")


@real
async def test_the_user_is_asked_for_a_change_and_confirms_it() -> None:
    async with two_hosts() as runs:
        await compare_by_hand(runs)
        for name in ("old", "new"):
            await runs.until(
                lambda name=name: (
                    isinstance(runs.app.screen, ChangeScreen)
                    and bool(runs.app.screen.query("#dialog-text"))
                    and name in runs.text("#dialog-text")
                )  # type: ignore[misc]
            )
            await runs.press("enter")
            assert isinstance(runs.app.screen, ChangeScreen), "it was meant for the screen below"
            await runs.press("tab", "enter")
            await runs.until(lambda: not runs.nictop.traffic.awaits_answer)
        await runs.wait_until_finished()
        assert [one.value for one in runs.nictop.traffic.results] == ["old", "new"]
        assert any("B: new" in row for row in runs.drawn())
        assert "one run each" in runs.run_text()
        await runs.press("o", "enter")
        assert runs.chart().display


@real
async def test_a_change_is_requested_once_if_the_run_is_updated_while_the_dialog_closes() -> None:
    async with two_hosts() as runs:
        await compare_by_hand(runs)
        await runs.until(lambda: isinstance(runs.app.screen, ChangeScreen))
        asked = runs.app.screen
        assert isinstance(asked, ChangeScreen)
        asked.action_yes()
        runs.nictop.traffic.publish()
        assert not any(isinstance(screen, ChangeScreen) for screen in runs.app.screen_stack)
        await runs.until(lambda: not runs.nictop.traffic.awaits_answer)
        await runs.until(lambda: isinstance(runs.app.screen, ChangeScreen))
        await runs.press("escape")
        await runs.wait_until_finished()


@real
async def test_who_does_not_make_the_change_ends_the_experiment() -> None:
    async with two_hosts() as runs:
        await compare_by_hand(runs)
        await runs.until(lambda: isinstance(runs.app.screen, ChangeScreen))
        await runs.press("escape")
        await runs.wait_until_finished()
        assert runs.nictop.traffic.results == ()
        assert runs.nictop.traffic.trouble
        assert runs.generators() == []


@real
async def test_a_self_test_needs_no_second_host() -> None:
    async with two_hosts() as runs:
        await runs.open_form()
        await runs.type("time", "1")
        await runs.press("shift+tab", "o", "end", "enter")
        await runs.wait_until_finished()
        (kept,) = runs.nictop.traffic.results
        assert kept.result.failure is None
        assert "no NIC" in runs.run_text()


# ----------------------------------------------------------------------------------------- the form


def nic(name: str, address: str, mtu: int = 1500) -> Line:
    return inventory(
        link(2, name, bus="pci", mtu=mtu, addresses=(Address("ipv4", address, 24, "global", ()),))
    )


async def test_with_one_host_the_form_says_what_to_do() -> None:
    async with live_screen(NARROW) as screen:
        await screen.receive(hello(), nic("ens3", "192.0.2.1"))
        await screen.press("6")
        drawn = "\n".join(screen.drawn())
        assert "Press 5 to add one" in drawn
        assert "Self-test" in drawn
        await screen.press("enter")
        assert "a test needs two hosts" in "\n".join(screen.drawn())
        assert not screen.nictop.traffic.running
        await screen.press("escape")
        assert isinstance(screen.app.screen, LiveScreen)


async def test_a_host_that_failed_is_not_waited_for() -> None:
    async with screen_with_hosts("vm1", "vm2", "pve", size=NARROW) as (screen, hosts):
        hosts["vm1"].send(hello(), nic("ens3", "192.0.2.1"), counters(1.0, {2: (0, 0)}))
        hosts["pve"].send(SourceState("failed", "no Python"))
        await wait_until(
            screen, lambda: screen.nictop.hosts.by_name["pve"].snapshot.state == "failed"
        )
        await screen.press("6")
        drawn = "\n".join(screen.drawn())
        assert (
            "Waiting for vm2 (connecting)." in drawn
            and "Not connected: pve (failed: no Python)." in drawn
        )
        hosts["vm2"].send(SourceState("lost", "connection timed out", 30.0))
        await wait_until(
            screen,
            lambda: any(
                "A test needs two connected hosts; not connected: vm2 (" in row
                for row in screen.drawn()
            ),
        )


async def test_one_machine_under_two_names_is_named_as_the_reason() -> None:
    async with screen_with_hosts("vm1", "vm2") as (screen, hosts):
        for name, address in (("vm1", "192.0.2.1"), ("vm2", "192.0.2.2")):
            hosts[name].send(hello(), nic("ens3", address), counters(1.0, {2: (0, 0)}))
        await wait_until(
            screen, lambda: all(one.snapshot.inventory for one in screen.nictop.hosts.sessions)
        )
        await screen.press("6")
        drawn = "\n".join(screen.drawn())
        words = " ".join(row.strip("│ ") for row in drawn.split("\n"))
        assert "No test path: vm1, vm2 report the same boot ID: same machine." in words
        assert "no two" not in words, "both have an address in one subnet"


async def test_no_path_says_which_addresses_do_not_count_and_what_to_do() -> None:
    """Two guests of QEMU's user network have one and the same address."""
    async with screen_with_hosts("vm1", "vm2", size=WIDE) as (screen, hosts):
        for name, boot in (("vm1", "b1"), ("vm2", "b2")):
            line = hello()
            assert line.hello is not None
            hosts[name].send(
                replace(line, hello=replace(line.hello, boot_id=boot)), nic("ens3", "10.0.2.15")
            )
            hosts[name].send(counters(1.0, {2: (0, 0)}))
        await wait_until(
            screen, lambda: all(one.snapshot.inventory for one in screen.nictop.hosts.sessions)
        )
        await screen.press("6")
        said = " ".join(" ".join(screen.drawn()).split())
        assert "no two machines have different addresses in the same subnet." in said
        assert "Not listed: 10.0.2.15: on " in said
        assert "Give both hosts an address in one subnet" in said
        hosts["vm2"].send(Line(outdated=Outdated(1e6, "address")))
        await wait_until(screen, lambda: "as they were read last" in " ".join(screen.drawn()))
        outdated = " ".join(" ".join(screen.drawn()).split())
        assert "Not listed: 10.0.2.15: on " in outdated, "that has not changed"


@pytest.mark.parametrize("size", [WIDE, NARROW])
async def test_a_nic_without_a_path_says_why_below_the_others(size: tuple[int, int]) -> None:
    async with screen_with_hosts("vm1", "vm2", size=size) as (screen, hosts):
        for name, boot, own in (("vm1", "b1", "192.0.2.1"), ("vm2", "b2", "192.0.2.2")):
            line = hello()
            assert line.hello is not None
            known = (Address("ipv4", own, 24, "global", ()),)
            links = [link(2, "ens3", bus="pci", addresses=known)]
            links += [link(3, "ens7", bus="pci", flags=0x1002)] if name == "vm1" else []
            hosts[name].send(
                replace(line, hello=replace(line.hello, boot_id=boot)), inventory(*links)
            )
            hosts[name].send(counters(1.0, {2: (0, 0)}))
        await wait_until(
            screen, lambda: all(one.snapshot.inventory for one in screen.nictop.hosts.sessions)
        )
        await screen.press("6")
        said = "Not listed: vm1 ens7: no IP address; set down"
        table = screen.app.screen.query_one(PairTable)
        assert [said in row for row in screen.lines(PairTable)] == [False, True]
        await screen.press("down", "end")
        assert table.index == 0, "it is no path"
        await screen.press("slash", *"ens7")
        assert [row.strip() for row in screen.lines(PairTable)] == ["No matches", said]
        await screen.press("escape", "slash", *"ens3")
        assert not any("Not listed" in row for row in screen.lines(PairTable))


async def test_no_path_of_a_host_that_changed_since_is_said_as_of_before() -> None:
    """Its addresses may have been set after they were read: no sentence says more than that."""
    async with screen_with_hosts("vm1", "vm2", size=WIDE) as (screen, hosts):
        for name, boot, address in (("vm1", "b1", "192.0.2.1"), ("vm2", "b2", "198.51.100.2")):
            line = hello()
            assert line.hello is not None
            hosts[name].send(
                replace(line, hello=replace(line.hello, boot_id=boot)), nic("ens3", address)
            )
            hosts[name].send(counters(1.0, {2: (0, 0)}))
        await wait_until(
            screen, lambda: all(one.snapshot.inventory for one in screen.nictop.hosts.sessions)
        )
        await screen.press("6")
        before = " ".join(" ".join(screen.drawn()).split())
        assert "same subnet." in before and "Start does nothing: no test path" in before
        assert "read before an event" not in before
        hosts["vm2"].send(Line(outdated=Outdated(1e6, "address")))
        await wait_until(
            screen,
            lambda: any(one.snapshot.unread_event for one in screen.nictop.hosts.sessions),
        )
        await wait_until(screen, lambda: "as they were read last" in " ".join(screen.drawn()))
        after = " ".join(" ".join(screen.drawn()).split())
        assert "vm2: to be read again: values were read before an event (address)" in after
        assert "Start does nothing: no test path so far; vm2: to be read again" in after


@pytest.mark.parametrize(
    ("other", "words"), [("192.0.2.2", "nothing"), ("198.51.100.2", "same subnet")]
)
async def test_pairs_share_a_subnet_and_say_in_what_they_differ(other: str, words: str) -> None:
    async with screen_with_hosts("vm1", "vm2") as (screen, hosts):
        for name, boot, address, mtu in (
            ("vm1", "b1", "192.0.2.1", 1500),
            ("vm2", "b2", other, 9000),
        ):
            line = hello()
            assert line.hello is not None
            hosts[name].send(
                replace(line, hello=replace(line.hello, boot_id=boot)),
                nic("ens3[/x]", address, mtu),
            )
            hosts[name].send(counters(1.0, {2: (0, 0)}))
        await wait_until(
            screen, lambda: all(one.snapshot.inventory for one in screen.nictop.hosts.sessions)
        )
        await screen.press("6")
        drawn = "\n".join(screen.drawn())
        if words == "nothing":
            assert screen.app.screen.query_one(PairTable).count == 1
            assert "mtu 1500 / 9000" in drawn
            assert "ens3[/x]" in drawn
            await screen.press("slash", *"192.0.2.9")
            assert "No matches" in "\n".join(screen.drawn())
            await screen.press("escape")
            assert screen.app.screen.query_one(PairTable).count == 1
        else:
            assert words in drawn


@real
async def test_wrong_words_are_said_beside_their_field_and_nothing_starts() -> None:
    async with two_hosts() as runs:
        await runs.open_form()
        form = runs.app.screen.query_one(RunForm)
        for name, typed, said in (
            ("streams", "many", "not an integer"),
            ("streams", "0", "must be 1 to 128"),
            ("bitrate", "fast", "not a rate"),
            ("time", "99999999", "must be 1"),
            ("length", "9M", "block size of iperf3 must be at most 1048576"),
        ):
            if typed == "9M":
                form.set_word("generator", "iperf3")
            await runs.type(name, typed)
            field = [one.name for one in form.shown].index(name)
            assert said in runs.text("#run-form").split("\n")[field]
            await runs.press("enter")
            assert isinstance(runs.app.screen, TrafficScreen)
            assert "Not started" in runs.pair_facts()
            assert runs.nictop.traffic.ended == []
            await runs.press("ctrl+u")
            assert said not in runs.text("#run-form").split("\n")[field]


@pytest.mark.parametrize("size", [WIDE, NARROW])
async def test_the_command_line_below_the_form_makes_the_same_request(
    size: tuple[int, int],
) -> None:
    async with screen_with_hosts("vm1.example", "vm2.example", size=size) as (screen, hosts):
        for name, boot, address in (
            ("vm1.example", "b1", "192.0.2.1"),
            ("vm2.example", "b2", "192.0.2.2"),
        ):
            line = hello()
            assert line.hello is not None
            hosts[name].send(
                replace(line, hello=replace(line.hello, boot_id=boot)), nic("ens3", address)
            )
            hosts[name].send(counters(1.0, {2: (0, 0)}))
        await wait_until(
            screen, lambda: all(one.snapshot.inventory for one in screen.nictop.hosts.sessions)
        )
        await screen.press("6")
        form_screen = screen.app.screen
        assert isinstance(form_screen, TrafficScreen)
        form = form_screen.query_one(RunForm)

        def command() -> str:
            return command_line(form_screen)

        host_words = "vm1.example=vm1.example.example vm2.example=vm2.example.example"
        assert command() == f"nictop traffic {host_words}"
        for word, value in (
            ("direction", "server → client"),
            ("streams", "4"),
            ("vary", "length=512,4K"),
            ("repeat", "3"),
        ):
            form.set_word(word, value)
            await screen.settle()
            program, *rest = shlex.split(command())
            options = parse(rest)
            _, request = run_hosts(options, request_of(options, plain=False))
            assert program == "nictop"
            assert request == form_screen._choice.request, value
        assert request.direction == "reverse" and request.compare == ("length", ("512", "4K"))
        form.set_word("streams", "many")
        await screen.settle()
        assert command() == "", "no command line starts this"


def command_line(form_screen: TextualScreen[Any]) -> str:
    """As a shell would read it: rows that are continued are one line."""
    rows = [
        line
        for line in form_screen.query_one("#run-command", LineWidget).lines
        if line[-1][1] == "title"
    ]
    parts = ["".join(text for text, _ in row).strip() for row in rows]
    return " ".join(part.removesuffix("\\").strip() for part in parts).removeprefix("= ")


async def test_a_test_that_does_not_start_says_why_once() -> None:
    async with screen_with_hosts("vm1", "vm2", size=NARROW) as (screen, hosts):
        await both(screen, hosts)
        await screen.press("6")
        await answer(screen, hosts, tools())
        form = screen.app.screen.query_one(RunForm)
        for field, value, line, said in (
            (
                "between",
                "true",
                "command",
                "command: a setup command is for variants of queues, mtu or setup",
            ),
            ("streams", "129", "streams", "streams must be 1 to 128, not 129"),
        ):
            preset = form.words[field]
            form.set_word(field, value)
            await screen.settle()
            (row,) = [row for row in screen.drawn() if row.strip(" ▸│").startswith(f"{line} ")]
            assert said.removeprefix("command: ")[:40] in row
            await screen.press("enter")
            assert screen.drawn()[5].strip("│ ") == f"Not started: {said}"
            form.set_word(field, preset)


def fields_drawn(screen: Screen) -> list[str]:
    """Labels of the form."""
    lines = screen.app.screen.query_one(RunForm).lines
    return ["".join(text for text, _ in line)[1:15].strip(" ▸") for line in lines]


@pytest.mark.parametrize("size", [WIDE, NARROW])
async def test_each_kind_of_test_has_its_fields(size: tuple[int, int]) -> None:
    async with screen_with_hosts("vm1", "vm2", size=size) as (screen, hosts):
        await both(screen, hosts)
        await screen.press("6")
        await answer(screen, hosts, tools())
        form = screen.app.screen.query_one(RunForm)
        form.everything = False
        await screen.press("tab")
        assert fields_drawn(screen)[:6] == [
            "test",
            "direction",
            "protocol",
            "seconds",
            "streams",
            "block size",
        ]
        form.set_word("bitrate", "fast")  # of no concern to the others
        await screen.press("right")
        common = ["runs", "vary", "label"]
        assert fields_drawn(screen) == [
            "test",
            "protocol",
            "seconds",
            "connections",
            "size",
            "request rate",
            *common,
        ]
        assert "= nictop traffic" in "\n".join(screen.drawn()) and "--test rr" in "\n".join(
            screen.drawn()
        )
        await screen.press("right")
        assert fields_drawn(screen) == ["test", "seconds", "connections", "size", "files", *common]
        assert BUILTIN_TEXT in "\n".join(screen.drawn())
        form.set_word("files", "1000")
        form.set_word("size", "4K")
        await screen.settle()
        drawn = " ".join(row.strip(" │") for row in screen.drawn())
        assert "at most: it ends after the files" in drawn
        assert "--test crr --size 4K --time 10 --files 1000" in command_line(screen.app.screen)
        await screen.press("right")
        bulk = ["test", "direction", "protocol", "seconds", "streams", "block size"]
        assert fields_drawn(screen) == [*bulk, "size", "request rate", "rate", *common]
        drawn = "\n".join(screen.drawn())
        assert "vm1: iperf3" in drawn and BUILTIN_TEXT not in drawn, (
            "its bulk flow is that of iperf3"
        )
        form.set_word("bitrate", "50M")
        form.set_word("rate", "300")
        await screen.settle()
        drawn = " ".join(row.strip(" │") for row in screen.drawn())
        assert (
            "--test loaded" in drawn
            and "--rate 300" in drawn
            and "--bitrate 50M" in drawn
            and "--files" not in drawn
        )
        form.set_word("bitrate", "fast")
        await screen.press("right")
        assert fields_drawn(screen) == [*bulk, "rate", *common]
        assert "not a rate" in "\n".join(screen.drawn())


@pytest.mark.parametrize(
    ("test", "field", "typed", "said"),
    [
        ("rr", "size", "64K:9M", "size must be 1 to 8388608, not 9437184"),
        ("rr", "size", "big", '"big" is not a size'),
        ("rr", "streams", "0", "connections must be 1 to 128, not 0"),
        ("crr", "files", "0", "files must be 1 to 1000000, not 0"),
        ("rr", "rate", "0", "request rate must be 1"),
        ("loaded", "rate", "2M", "not an integer"),
        ("rr", "vary", "bitrate=1G,2G", "rate is an option of the bulk test"),
        ("crr", "vary", "direction=forward,reverse", "reverse and bidirectional are options"),
    ],
)
async def test_errors_of_a_latency_test_are_beside_their_field(
    test: str, field: str, typed: str, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with screen_with_hosts("vm1", "vm2", size=NARROW) as (screen, hosts):
        await both(screen, hosts)
        monkeypatch.setattr(screen.nictop.traffic, "start", lambda *_, **__: pytest.fail("started"))
        await screen.press("6")
        await answer(screen, hosts, tools())
        form_screen = screen.app.screen
        assert isinstance(form_screen, TrafficScreen)
        form = form_screen.query_one(RunForm)
        form.set_word("test", test)
        form.set_word(field, typed)
        await screen.settle()
        lines = ["".join(text for text, _ in line) for line in form.lines]
        assert said[:35] in lines[[one.name for one in form.shown].index(field)]
        assert "= nictop" not in "\n".join(screen.drawn())
        for action in (form_screen.action_start, form_screen.start_self_test):
            action()
            await screen.settle()
            assert screen.app.screen is form_screen and "Not started: " in "\n".join(screen.drawn())


async def test_a_self_test_with_an_invalid_option_is_not_started_without_a_pair() -> None:
    async with live_screen(NARROW) as screen:
        await screen.receive(hello(), nic("ens3", "192.0.2.1"))
        await screen.press("6", "tab", "right", *["down"] * 3, "0", "tab", "right", "enter")
        assert isinstance(screen.app.screen, TrafficScreen)
        assert "Not started: connections must be 1 to 128, not 0" in "\n".join(screen.drawn())


async def test_a_field_is_seen_on_the_smallest_screen() -> None:
    async with screen_with_hosts("vm1", "vm2", size=(40, 10)) as (screen, hosts):
        await both(screen, hosts)
        await screen.press("6")
        await answer(screen, hosts, tools())
        await screen.press("tab", "right")
        assert any("test " in row and "rr" in row for row in screen.drawn())
        await screen.press("down", "down", "x")
        assert any("seconds " in row and " x▏" in row for row in screen.drawn())
        await screen.press("enter")
        assert any("Not started" in row for row in screen.drawn())
        assert any("seconds " in row for row in screen.drawn())


async def test_keys_typed_ahead_after_the_kind_of_test_go_to_its_fields() -> None:
    async with live_screen(NARROW) as screen:
        await screen.receive(hello(), nic("ens3", "192.0.2.1"))
        await screen.press("6")
        for key in ("tab", "right", "down", "down", *"30", "down", "down", *"64"):
            screen.app.post_message(events.Key(key, key if len(key) == 1 else None))
        await screen.settle()
        form = screen.app.screen.query_one(RunForm)
        assert {name: form.words[name] for name in ("test", "time", "streams", "size",
            "direction")} == { "test": "rr", "time": "30", "streams": "1", "size": "64",
        "direction": "client → "
                                                                                   "server",
        }  # fmt: skip


@real
@pytest.mark.parametrize(("test", "size"), [("rr", NARROW), ("crr", WIDE)])
async def test_a_latency_test_from_the_form_and_its_recording(
    test: str, size: tuple[int, int], tmp_path: Path
) -> None:
    recording = tmp_path / "run.nictop"
    async with two_hosts(size) as runs:
        assert await runs.nictop.recording.start(str(recording)) == ""
        await runs.open_form()
        runs.app.screen.query_one(RunForm).set_word("test", test)
        await runs.type("time", "2")
        await runs.press("enter")
        await runs.wait_until_finished()
        (kept,) = runs.nictop.traffic.results
        figures = kept.result.transactions
        assert kept.result.failure is None and figures is not None and figures.points
        assert "░" in runs.text("#run-chart") and "● max" in runs.text("#run-chart")
        bars = runs.app.screen.query_one("#run-latencies", LineWidget)
        assert bars.display == (size == WIDE) and runs.chart().display
        await runs.press("o", "enter")
        assert bars.display and not runs.chart().display
        kinds = {"rr": "transactions", "crr": "connections"}
        assert runs.text("#run-latencies").startswith(
            f"latency from  {figures.latency.count} {kinds[test]}"
        )
        chart = runs.chart()
        await runs.press("o", "enter")
        assert chart.display and bars.display == (size == WIDE)
        await runs.nictop.recording.end(notify=False)
    with Recording.open(str(recording)) as recorded:
        (marks,) = run_marks(recorded)
        run = RecordedRun(recorded, marks)
        await run.advance(recorded.end)
    view = run.view()
    assert run.stored == kept, "with its experiment, as it was saved"
    assert view is not None and view.latency == figures.latency and view.plan.test == test
    assert [one.latency for one in view.transactions] == [one.latency for one in figures.points]
    assert view.result is not None and "aria-label" in latency_charts(view.result)


@real
@pytest.mark.parametrize("ending", ["stopped", "killed"])
async def test_a_run_that_did_not_end_by_itself_is_the_same_saved_and_in_the_recording(
    ending: str, tmp_path: Path, results_directory: Path
) -> None:
    """Stopped by the user, or failed; the recording begins while it runs."""
    recording = tmp_path / "run.nictop"
    async with two_hosts() as runs:
        await runs.start(600)
        await runs.wait_for_arrivals()
        assert await runs.nictop.recording.start(str(recording)) == ""
        if ending == "stopped":
            await runs.nictop.traffic.stop()
        else:
            for pid in runs.generators():
                os.kill(pid, signal.SIGKILL)
        await runs.wait_until_finished()
        (kept,) = runs.nictop.traffic.results
        live = runs.nictop.traffic.view()
        await runs.nictop.recording.end(notify=False)
    ((_, saved),) = stored_runs(results_directory).results
    assert (kept.result.stopped is not None, kept.result.failure is not None) == (
        ending == "stopped", ending == "killed",
    )  # fmt: skip
    with Recording.open(str(recording)) as recorded:
        (marks,) = run_marks(recorded)
        run = RecordedRun(recorded, marks)
        await run.advance(marks.begin)
        begun = run.view()
        await run.advance(recorded.end)
    view = run.view()
    assert begun is not None and begun.result is None and begun.plan.time == 600
    assert live is not None and view is not None
    assert live.result == view.result == saved.result == kept.result
    assert run.stored == saved == kept


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        ("30", "rate 30 b/s; did you mean 30M?"),
        ("64k", "rate 64 kb/s; did you mean 64M?"),
        ("30M", "b/s per stream: 500M, 2.5G (-b)"),
        ("1000000", "b/s per stream: 500M, 2.5G (-b)"),
    ],
)
async def test_a_rate_that_may_lack_its_suffix_is_asked_about_where_it_is_typed(
    typed: str, said: str
) -> None:
    async with screen_with_hosts("vm1", "vm2", size=NARROW) as (screen, hosts):
        await both(screen, hosts)
        await screen.press("6")
        await answer(screen, hosts, tools())
        await screen.press("tab", *["down"] * 6, *typed)
        (row,) = [row for row in screen.drawn() if "rate  " in row]
        assert said in row
        assert "\n".join(screen.drawn()).count("did you mean") == ("did you mean" in said)


@pytest.mark.parametrize("size", [WIDE, NARROW, (60, 20)])
async def test_the_form_says_what_start_does_with_what_it_says(
    size: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of every message: a host that does not answer, a wrong field, a remark, no path."""
    async with screen_with_hosts("vm1", "vm2", size=size) as (screen, hosts):

        def start() -> str:
            lines = screen.lines(StartLines)
            text = " ".join(" ".join(lines).split())
            said = re.search(r"(?<!\[ )Start ([^\[]+)", text)
            return "" if said is None else said[1].strip()

        await both(screen, hosts)
        await screen.press("6")
        await screen.settle()
        assert start() == "waits for the check of both hosts"
        form_screen = screen.app.screen
        assert isinstance(form_screen, TrafficScreen)
        await answer(screen, hosts, tools())
        assert start() == ("runs it as it is" if form_screen._choice.notes else "")
        form = form_screen.query_one(RunForm)
        form.set_word("streams", "129")
        await screen.settle()
        assert start() == "does nothing before this is corrected: streams"
        form.set_word("streams", "1")
        form.set_word("bitrate", "30")
        await screen.settle()
        assert start() == "runs it as it is"
        form.set_word("bitrate", "")
        form_screen._tools.known.pop("vm2")
        form_screen._tools._why_not["vm2"] = "no answer from the probe within 10 s"
        form_screen._check()
        await screen.settle()
        assert "vm2: no answer from the probe within 10" in "\n".join(screen.drawn())
        assert start() == "asks vm2 again; without an answer no test"
        await screen.press("slash", *"nowhere")
        await screen.settle()
        assert start() == "does nothing: no path is chosen"


async def test_with_one_host_start_says_that_it_does_nothing() -> None:
    async with live_screen(NARROW) as screen:
        await screen.press("6")
        await screen.settle()
        assert "Start does nothing: " in "\n".join(screen.lines(StartLines))


async def test_the_form_is_opened_at_its_beginning() -> None:
    """What is typed next is not meant for the field of the last use; within the view the focus
    stays."""
    async with screen_with_hosts("vm1", "vm2", size=NARROW) as (screen, hosts):
        await both(screen, hosts)
        await screen.press("6")
        await answer(screen, hosts, tools())
        await screen.press("tab", "down", "down")
        form = screen.app.screen.query_one(RunForm)
        assert form.has_focus and form.chosen.name == "protocol"
        await screen.press("o", "escape")
        assert form.has_focus and form.chosen.name == "protocol", "a menu is not another view"
        await screen.press("1", "6")
        assert screen.app.screen.query_one(PairTable).has_focus
        await screen.press("tab")
        assert form.has_focus and form.chosen.name == "test"
        await screen.press("down", "right")
        assert form.words["direction"] == "server → client", "its values are kept"
        await screen.press("1", "6")
        assert form.words["direction"] == "server → client"


@pytest.mark.parametrize("glyphs", [UNICODE, ASCII])
async def test_only_the_pane_with_the_focus_has_a_cursor(glyphs: Glyphs) -> None:
    async with screen_with_hosts("vm1", "vm2", size=NARROW, glyphs=glyphs) as (screen, hosts):
        await both(screen, hosts)
        await screen.press("6")
        await answer(screen, hosts, tools())

        def cursors() -> list[str]:
            return [
                row.strip().split()[0] for row in screen.drawn() if row.startswith(glyphs.cursor)
            ]

        assert cursors() == [f"{glyphs.cursor}vm1:ens224"]
        await screen.press("tab")
        assert cursors() == [f"{glyphs.cursor}test"]
        await screen.press("escape")
        assert cursors() == [f"{glyphs.cursor}vm1:ens224"]


async def test_a_click_on_a_button_starts_the_test(monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[bool] = []

    def start(request: RunRequest, *, self_test: bool = False) -> bool:
        started.append(self_test)
        return True

    async with live_screen(NARROW) as screen:
        await screen.receive(hello(), nic("ens3", "192.0.2.1"))
        monkeypatch.setattr(screen.nictop.traffic, "start", start)
        await screen.press("6")
        await screen.pilot.click("#run-command", offset=(3, 1))
        await screen.settle()
        assert "a test needs two hosts" in "\n".join(screen.drawn()) and not started
        await screen.pilot.click("#run-command", offset=(15, 1))
        await screen.settle()
        assert started == [True] and shown(screen) is RunScreen


async def test_tab_reaches_the_buttons(monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[bool] = []

    def start(request: RunRequest, *, self_test: bool = False) -> bool:
        started.append(self_test)
        return True

    async with live_screen(NARROW) as screen:
        await screen.receive(hello(), nic("ens3", "192.0.2.1"))
        monkeypatch.setattr(screen.nictop.traffic, "start", start)
        await screen.press("6", "enter")
        assert any(
            "Not started: a test needs two hosts (Tab: to the button Self-test)" in row
            for row in screen.drawn()
        )
        await screen.press("tab", "tab")
        assert any(row.startswith(" [▸Start ]  [ Self-test ]") for row in screen.drawn())
        await screen.press("right")
        assert any(row.startswith(" [ Start ]  [▸Self-test ]") for row in screen.drawn())
        assert (
            sum(
                "▸"
                in row.replace("◂ client → server ▸", "")
                .replace("◂ tcp ▸", "")
                .replace("◂ bulk ▸", "")
                for row in screen.drawn()
            )
            == 1
        )
        await screen.press("escape")
        assert screen.app.screen.query_one(PairTable).has_focus and not started
        await screen.press("shift+tab", "right", "enter")
        assert started == [True] and shown(screen) is RunScreen


async def test_letters_that_are_keys_are_characters_in_the_form() -> None:
    async with live_screen() as screen:
        await screen.receive(hello(), nic("ens3", "192.0.2.1"))
        await screen.press("6", "tab", "down", "down", "down", *"qk6h/s?:")
        form = screen.app.screen.query_one(RunForm)
        assert form.words["time"] == "qk6h/s?:"
        assert isinstance(screen.app.screen, TrafficScreen)
        await screen.press("backspace")
        assert form.words["time"] == "qk6h/s?"
        await screen.press("ctrl+u")
        assert form.words["time"] == "10"


async def test_the_footer_names_no_letter_that_is_typed_into_the_field() -> None:
    async with live_screen() as screen:
        await screen.receive(hello(), nic("ens3", "192.0.2.1"))
        await screen.press("6", "tab")
        on_choice = screen.drawn()[-1]
        assert "o View" in on_choice and "? Help" in on_choice
        await screen.press("down", "down", "down")
        on_text = screen.drawn()[-1]
        assert "Enter Start" in on_text
        assert not any(hint in on_text for hint in ("o View", "/ Filter", "? Help", "q Quit"))
        await screen.press("up", "up", "up")
        assert screen.drawn()[-1] == on_choice


async def test_what_is_typed_after_a_run_is_not_typed_into_a_field_of_the_form(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with live_screen() as screen:
        await screen.receive(hello(), nic("ens3", "192.0.2.1"))
        monkeypatch.setattr(screen.nictop.traffic, "start", lambda *_, **__: True)
        await screen.press("6", "tab", "down", "down", "down")
        form_screen = screen.app.screen
        assert isinstance(form_screen, TrafficScreen) and form_screen.query_one(RunForm).types
        form_screen.start_self_test()
        await screen.settle()
        assert shown(screen) is RunScreen
        await screen.press("escape", *"x9")
        assert shown(screen) is TrafficScreen
        assert form_screen.query_one(RunForm).words["time"] == "10"


async def test_all_boxes_of_the_form_are_as_wide_as_the_screen() -> None:
    async with screen_with_hosts("vm1", "vm2", size=WIDE) as (screen, hosts):
        await both(screen, hosts)
        await screen.press("6")
        await answer(screen, hosts, tools())
        assert {
            len(row) for row in screen.drawn() if row.startswith("╭") and row.endswith("╮")
        } == {WIDE[0]}
        assert (
            sum(row.startswith("╭") for row in screen.drawn())
            == 2
            == sum(row.endswith("╮") for row in screen.drawn())
        )


async def test_an_ascii_console_gets_ascii() -> None:
    async with live_screen(NARROW, glyphs=ASCII) as screen:
        await screen.receive(hello(), nic("ens3", "192.0.2.1"))
        await screen.press("6", "o", "enter")
        assert all(row.isascii() for row in screen.drawn())


# ------------------------------------------------------------------------------------- kept results


def write_set_up(
    directory: Path, experiment: str, label: str, gigabits: float, runs: int = 5
) -> None:
    for number in range(runs):
        made = result(gigabits + number / 100, wall=1_790_000_000.0 + 60 * number)
        save_run(
            StoredRun(
                f"{experiment}{number:02d}",
                experiment,
                made,
                made.wall,
                "0",
                "repeat",
                label,
                number=number + 1,
            ),
            directory,
        )


async def open_kept(screen: Screen) -> SetUpList:
    await screen.press("7")
    assert isinstance(screen.app.screen, ResultsScreen)
    table = screen.app.screen.query_one(SetUpList)
    await wait_until(
        screen, lambda: "Reading" not in "".join(text for line in table.lines for text, _ in line)
    )
    await screen.settle()
    return table


@pytest.mark.parametrize("size", [WIDE, NARROW])
async def test_two_kept_set_ups_are_compared(
    size: tuple[int, int], results_directory: Path
) -> None:
    write_set_up(results_directory, "a1a1a1a1a1", "vswitch", 4.0)
    write_set_up(results_directory, "b2b2b2b2b2", "passthrough[/b]", 8.0)
    async with live_screen(size) as screen:
        await screen.receive(hello(), nic("ens3", "192.0.2.1"))
        table = await open_kept(screen)
        drawn = ["".join(text for text, _ in line) for line in table.lines]
        slower = next(number for number, line in enumerate(drawn) if "vswitch" in line)
        await screen.press("home", *["down"] * slower, "m")
        assert "A against B" not in "\n".join(screen.drawn())
        await screen.press("home", *["down"] * (1 - slower), "m")
        await screen.settle()
        assert any("Better: passthrough[/b] = " in line for line in screen.drawn())
        await screen.press("o")
        await screen.settle()
        assert any("Worse: vswitch = " in line for line in screen.drawn())


async def test_results_are_filtered(results_directory: Path) -> None:
    write_set_up(results_directory, "a1a1a1a1a1", "vswitch", 4.0)
    write_set_up(results_directory, "b2b2b2b2b2", "passthrough", 8.0)
    async with live_screen(NARROW) as screen:
        await screen.receive(hello(), nic("ens3", "192.0.2.1"))
        table = await open_kept(screen)
        assert "/ Filter" in screen.drawn()[-1]
        await screen.press("slash", *"VSW", "enter")
        assert table.has_focus and table.chosen is not None and table.chosen.name == "vswitch"
        assert any("VSW" in row and row.rstrip().endswith("1 of 2") for row in screen.drawn())
        await screen.press("slash", "x")
        assert any("No matches" in row for row in screen.drawn())
        await screen.press("escape")
        assert table.count == 2 and shown(screen) is ResultsScreen
        await screen.press("escape")
        assert shown(screen) is LiveScreen


async def test_results_open_on_the_newest(results_directory: Path) -> None:
    write_set_up(results_directory, "a1a1a1a1a1", "older", 4.0, runs=1)
    async with live_screen() as screen:
        await screen.receive(hello(), nic("ens3", "192.0.2.1"))
        table = await open_kept(screen)
        await screen.press("end", "enter", "escape")
        assert table.chosen is not None and table.chosen.name == "older"
        (path,) = [path for path, _ in stored_runs(results_directory).results]
        run = stored_runs(results_directory).results[0][1]
        newer = replace(
            run,
            identity="b2b2b2b2b200",
            experiment="b2b2b2b2b2",
            label="newer",
            written=run.written + 600,
        )
        save_run(newer, path.parent)
        await screen.press("1", "7")
        await wait_until(screen, lambda: len(table._rows) == 2)
        assert table.chosen.name == "newer"
        await screen.press("end", "1", "7")
        await screen.settle()
        assert table.chosen.name == "older", "it stays until there is a newer one"


async def test_a_kept_run_is_drawn_as_it_was(results_directory: Path) -> None:
    write_set_up(results_directory, "a1a1a1a1a1", "vswitch", 4.0, runs=2)
    async with live_screen() as screen:
        await screen.receive(hello(), nic("ens3", "192.0.2.1"))
        await open_kept(screen)
        await screen.press("enter")
        assert shown(screen) is StoredRunScreen
        await screen.settle()
        assert any("4.00 Gb/s received by b" in row for row in screen.drawn())
        await screen.press("n")
        await screen.settle()
        assert any("4.01 Gb/s received by b" in row for row in screen.drawn())
        assert "run 2 of 2" in screen.drawn()[2]
        assert "n Next run" in screen.drawn()[-1]
        await screen.press("right_square_bracket")
        assert "run 2 of 2" in screen.drawn()[2], "that is the next host"
        await screen.press("e")
        await screen.settle()
        assert shown(screen) is TrafficScreen and screen.app.screen.query_one(RunForm).has_focus


async def test_what_is_no_result_is_said_and_takes_nothing_from_the_others(
    results_directory: Path,
) -> None:
    write_set_up(results_directory, "a1a1a1a1a1", "vswitch", 4.0, runs=1)
    (known,) = [path for path, _ in stored_runs(results_directory).results]
    (known.parent / f"x{known.name[1:]}").write_text("{")
    async with live_screen() as screen:
        await screen.receive(hello(), nic("ens3", "192.0.2.1"))
        table = await open_kept(screen)
        assert table.chosen is not None
        assert any("not a nictop result" in row for row in screen.drawn())


async def test_nothing_kept_is_said() -> None:
    async with live_screen() as screen:
        await screen.receive(hello(), nic("ens3", "192.0.2.1"))
        await open_kept(screen)
        assert any("No results yet" in row for row in screen.drawn())
        await screen.press("enter", "m", "escape")
        assert isinstance(screen.app.screen, LiveScreen)


async def test_what_is_typed_ahead_comes_into_the_field_that_the_key_before_has_chosen() -> None:
    """A slow line brings several keys at once."""
    async with live_screen() as screen:
        await screen.receive(hello(), nic("ens3", "192.0.2.1"))
        await screen.press("6")
        for key in ("tab", "down", "down", "down", *"1007", "backspace", "down", *"4"):
            screen.app.post_message(events.Key(key, key if len(key) == 1 else None))
        await screen.settle()
        form = screen.app.screen.query_one(RunForm)
        assert (form.words["time"], form.words["streams"], form.chosen.name) == (
            "100",
            "4",
            "streams",
        )


async def test_that_a_test_runs_is_not_said_after_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    running = [True]
    monkeypatch.setattr(TrafficController, "running", property(lambda self: running[0]))
    async with live_screen(WIDE) as screen:
        await screen.receive(hello(), nic("ens3", "192.0.2.1"))
        await screen.press("6", "e")
        form = screen.app.screen
        assert isinstance(form, TrafficScreen)
        form.start_self_test()
        await screen.press("e")
        await screen.settle()
        assert screen.app.screen is form
        assert any("A test is running already" in row for row in screen.drawn())
        running[0] = False
        screen.nictop.traffic.publish()
        await screen.settle()
        assert not any("A test is running" in row for row in screen.drawn())


async def test_the_menu_follows_the_test_that_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """It was opened while a test ran, which has ended meanwhile."""
    running = [True]
    monkeypatch.setattr(TrafficController, "running", property(lambda self: running[0]))
    async with live_screen(WIDE) as screen:
        await screen.receive(hello(), nic("ens3", "192.0.2.1"))
        await screen.press("6", "e", "o")
        await screen.settle()
        told = "a test is running"
        assert sum(told in row for row in screen.drawn()) == 3
        await screen.press("space")
        checked = list(screen.app.screen.query_one(MenuList).checked)
        running[0] = False
        screen.nictop.traffic.publish()
        await screen.settle()
        assert not any(told in row for row in screen.drawn())
        assert screen.app.screen.query_one(MenuList).checked == checked


@pytest.mark.parametrize("size", [WIDE, NARROW])
async def test_the_verdict_on_the_path_is_seen_without_scrolling(
    size: tuple[int, int], results_directory: Path
) -> None:
    made = replace(
        result(4.0), bottleneck="not determined; " + "excluded: a long list of limits, " * 30
    )
    assert made.proof is not None
    save_run(
        StoredRun("c3c3c3c3c300", "c3c3c3c3c3", made, made.wall, "0", "repeat", "x", number=1),
        results_directory,
    )
    async with live_screen(size) as screen:
        await screen.receive(hello(), nic("ens3", "192.0.2.1"))
        await open_kept(screen)
        await screen.press("enter")
        await screen.settle()
        rows = screen.drawn()
        goodput = next(number for number, row in enumerate(rows) if row.startswith(" goodput"))
        verdict = next(number for number, row in enumerate(rows) if row.startswith(" path "))
        assert (
            goodput
            < verdict
            < next(number for number, row in enumerate(rows) if row.startswith(" bottleneck"))
        )


async def test_without_a_path_the_command_line_is_that_of_the_self_test_and_says_so() -> None:
    """Start does not start it."""
    async with live_screen(WIDE) as screen:
        await screen.receive(hello())
        await screen.press("6")
        rows = [row.strip("│ ") for row in screen.drawn()]
        (shown,) = [row for row in rows if "nictop traffic --self-test" in row]
        assert shown.startswith("= Self-test: nictop traffic --self-test")


async def test_left_and_right_count_a_number() -> None:
    """As they choose the value of other fields; what is typed next replaces it."""
    async with live_screen(WIDE) as screen:
        await screen.press("6", "tab")
        form = screen.app.screen.query_one(RunForm)
        while form.chosen.name != "streams":
            await screen.press("down")
        assert "←→ Change" in screen.drawn()[-1]
        await screen.press("right", "right")
        assert form.words["streams"] == "3"
        await screen.press("left")
        assert form.words["streams"] == "2"
        await screen.press("8")
        assert form.words["streams"] == "8"
        while form.chosen.name != "label":
            await screen.press("down")
        assert "←→ Change" not in screen.drawn()[-1]
        await screen.press("left")
        assert form.words["label"] == ""


def two_nics(boot: str, number: int, *nics: str) -> list[Line]:
    """A guest with these NICs, each in a network of its own."""
    line = hello()
    assert line.hello is not None
    links = []
    for name in nics:
        ifindex = 2 + ("ens224", "ens256").index(name)
        address = Address("ipv4", f"192.0.{ifindex}.{number}", 24, "global", ())
        links.append(link(ifindex, name, bus="pci", addresses=(address,)))
    return [replace(line, hello=replace(line.hello, boot_id=boot)), inventory(*links)]


@pytest.mark.parametrize("moved", [False, True], ids=["by itself", "by the user"])
async def test_a_chosen_nic_that_is_gone_is_said_and_no_other_one_is_taken_silently(
    moved: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[RunRequest] = []
    async with screen_with_hosts("vm1", "vm2", size=NARROW) as (screen, hosts):
        monkeypatch.setattr(
            screen.nictop.traffic, "start", lambda request, **_: started.append(request)
        )
        for number, name in enumerate(("vm1", "vm2"), 1):
            hosts[name].send(*two_nics(name, number, "ens224", "ens256"))
        await screen.press("6")
        await wait_until(screen, lambda: len(paths(screen)) == 2)
        if moved:
            await screen.press("down", "up")
        hosts["vm1"].send(two_nics("vm1", 1, "ens256")[1])
        await wait_until(screen, lambda: len(paths(screen)) == 1)
        await screen.settle()
        drawn = " ".join(" ".join(screen.drawn()).split())
        gone = "vm1:ens224 ↔ vm2:ens224 is gone (vm1 has no ens224 any more); "
        end = "choose a path" if moved else "chosen now: vm1:ens256 ↔ vm2:ens256"
        assert gone + end in drawn
        await screen.press("enter")
        assert not started and "Not started: " + gone + end in " ".join(
            " ".join(screen.drawn()).split()
        )
        if moved:
            await screen.press("down")
        await screen.press("enter")
        (request,) = started
        assert (request.client, request.server) == ("vm1", "vm2")


async def test_a_chosen_nic_that_comes_back_is_chosen_again() -> None:
    async with screen_with_hosts("vm1", "vm2", size=NARROW) as (screen, hosts):
        for number, name in enumerate(("vm1", "vm2"), 1):
            hosts[name].send(*two_nics(name, number, "ens224", "ens256"))
        await screen.press("6")
        await wait_until(screen, lambda: len(paths(screen)) == 2)
        await screen.press("down", "up")
        hosts["vm1"].send(two_nics("vm1", 1, "ens256")[1])
        await wait_until(screen, lambda: len(paths(screen)) == 1)
        hosts["vm1"].send(two_nics("vm1", 1, "ens224", "ens256")[1])
        await wait_until(screen, lambda: len(paths(screen)) == 2)
        await screen.settle()
        chosen = screen.app.screen.query_one(PairTable).chosen
        assert chosen is not None and chosen.client_nic == "ens224"
        assert "is gone" not in "\n".join(screen.drawn())


def paths(screen: Screen) -> Sequence[object]:
    table = screen.app.screen.query(PairTable)
    return range(table.first().count) if table else ()


async def test_the_menu_of_hosts_follows_the_test_and_the_nic(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What it said when it was opened stayed: that a test is running, after its end; and paths of a
    NIC that was gone."""
    async with screen_with_hosts("vm1", "vm2", size=NARROW) as (screen, hosts):
        for number, name in enumerate(("vm1", "vm2"), 1):
            hosts[name].send(*two_nics(name, number, "ens224", "ens256"))
        await screen.press("5")
        await wait_until(screen, lambda: screen.app.screen.query_one(OverviewTable).count == 4)
        screen.app.screen.query_one(OverviewTable).focus()
        await screen.settle()
        traffic = type(screen.nictop.traffic)
        is_running = [True]
        monkeypatch.setattr(traffic, "running", property(lambda _: is_running[0]))
        await screen.press("e")
        path = "Test the path to vm2 ens224"

        def drawn() -> str:
            return "\n".join(screen.drawn())

        assert f"{path}  a test is running" in drawn()
        is_running[0] = False
        screen.nictop.traffic.changed.publish()
        await wait_until(screen, lambda: path in drawn() and "a test is running" not in drawn())
        hosts["vm1"].send(two_nics("vm1", 1, "ens256")[1])
        await wait_until(screen, lambda: f"{path}  not any more" in drawn())
        assert "Show set-up of vm1 ens224…  not any more" in drawn()
        assert "Add host…" in drawn()
