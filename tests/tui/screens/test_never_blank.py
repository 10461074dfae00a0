"""No view is ever blank: at every moment it shows values, or what is waited for, or why there is
nothing and what to do."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from importlib.resources import as_file, files
from pathlib import Path

import pytest

from nictop.cli.commands.demo import DEMO_FILE, DEMO_NIC, DEMO_START_SECONDS
from nictop.errors import NictopError
from nictop.hosts.specification import Host
from nictop.model.text.glyphs import ASCII, UNICODE, Glyphs
from nictop.replay.run import RecordedRun
from nictop.report.runs.points import set_up_points
from nictop.rules import Finding
from nictop.traffic.failures import Failure
from nictop.traffic.path.result import PathDirection, PathEnd, PathReport, PathResult
from nictop.traffic.plan.request import RunRequest
from nictop.traffic.results.selection import StoredRun
from nictop.traffic.run.events import WAITING_FOR_DATA, PathTested, Stage
from nictop.traffic.session import WaitEnded
from nictop.tui.app import _greeting
from nictop.tui.controllers.traffic import FinishedExperiment
from nictop.tui.screens.live.bodies import DETAIL_CLASS
from nictop.tui.screens.replay.run import RecordedRunScreen
from nictop.tui.screens.traffic.results import StoredRunScreen
from nictop.tui.screens.traffic.run import RunScreen
from nictop.tui.widgets.base.line_widget import LineWidget
from nictop.tui.widgets.devices.table import DeviceTable
from nictop.tui.widgets.findings.view import FindingList, FindingsView
from nictop.tui.widgets.status.replay_line import ReplayLine
from nictop.tui.widgets.traffic.results_list import ResultGroup
from tests.support.lines import hello, inventory, link
from tests.support.replay_screen import ScreenWithReplay, screen_with_replay
from tests.support.screen import NARROW, WIDE, Screen, live_screen, screen_with_hosts, wait_until
from tests.support.stages import STAGES, items_of, recorded_hosts
from tests.traffic.live.test_run_view import socket
from tests.traffic.plans import PLAN
from tests.traffic.runs import result
from tests.traffic.watched import Watched

VIEWS = ("123", "47", "56")
"""Views that are walked together."""
LOOPS = 2
LARGE = (200, 50)
MAX_EMPTY_ROWS = 14
"""Below each other, in the column of a list on a large screen."""
FRAME_ROWS = 2
"""Above the body (tabs and hosts) and below it (worst finding and keys)."""
BORDERS = frozenset(" ─│╭╮╰╯┤├")
MIN_SENTENCE_ROWS = 2
MAX_DELAY_SECONDS = 3.0
"""By which the rules, that are run on a timer, may find something later in one loop than in the
other."""
DEMO_RESULTS = ("81.6 M", "200 M")
"""Goodput of the tests of the demo, as the list of results has it."""


@pytest.fixture(autouse=True)
def no_results(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Those of whoever runs the tests are not shown."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))


def body(screen: Screen) -> list[str]:
    return screen.drawn()[FRAME_ROWS:-FRAME_ROWS]


def empty_rows(rows: list[str]) -> int:
    """The most rows in a row without a character."""
    longest = current = 0
    for row in rows:
        current = 0 if set(row) - BORDERS else current + 1
        longest = max(longest, current)
    return longest


def says_something(rows: list[str]) -> bool:
    """There are sentences, or rows of values."""
    words = sum(any(part.isalpha() and len(part) > 1 for part in row.split()) for row in rows)
    return words >= MIN_SENTENCE_ROWS


def is_filled(rows: list[str]) -> bool:
    """The same, and no part that is empty is larger than the rest."""
    return says_something(rows) and empty_rows(rows) <= 2 * len(rows) // 3


async def pass_second(screen: ScreenWithReplay) -> None:
    await screen.advance_clock(1.0)
    screen.replay._tick()  # the timer of the application, which follows the clock of the machine
    await screen.wait_until_shown()
    await screen.nictop.diagnosis.renew()
    await screen.settle()


def findings_of(screen: ScreenWithReplay) -> set[str]:
    """State and key of every finding that the view Findings has."""
    recent = screen.app._live_screen.query_one(FindingsView).recent
    states = {(False, False): "open", (True, False): "gone", (True, True): "resolved"}
    return {
        f"{states[one.gone, one.resolved]} {one.key}" for one in (*recent.entries, *recent.resolved)
    }


def check_times(screen: ScreenWithReplay, key: str) -> None:
    """Nothing is shown that was known only later."""
    now, text = screen.replay.playback.now(), "\n".join(body(screen))
    recent = screen.app._live_screen.query_one(FindingsView).recent
    assert all(
        one.first_seen <= one.last_seen <= now for one in (*recent.entries, *recent.resolved)
    ), recent.entries
    ended = [run.end is not None and run.end <= now for run in screen.replay.runs]
    if key == "7":
        listed = [goodput in text for goodput in DEMO_RESULTS]
        assert listed == ended, f"at {now}: {text}"
    if key == "6" and not any(ended):
        assert "received by" not in text, f"at {now}: {text}"


@pytest.mark.parametrize("views", VIEWS)
async def test_every_view_of_the_demo_has_content_and_nothing_before_its_time_over_two_loops(
    views: str,
) -> None:
    """Second by second: it is never blank, nothing is shown before its time, and what the first
    loop has only later is not in the second one before."""
    first: dict[str, float] = {}
    """Finding with its state → second of the loop at which the first loop had it."""
    second_loop, before = False, -1.0
    with as_file(files("nictop.recording").joinpath(DEMO_FILE)) as path:
        async with screen_with_replay(
            path, NARROW, start=DEMO_START_SECONDS, loop=True, nic=DEMO_NIC
        ) as screen:
            recording = screen.replay.playback.recording
            seconds = round(LOOPS * (recording.end - recording.begin - DEMO_START_SECONDS)) + LOOPS
            for second in range(seconds):
                place = screen.replay.playback.now() - recording.begin
                second_loop, before = second_loop or place < before, place
                for key in views:
                    await screen.press(key)
                    await screen.settle()
                    rows = body(screen)
                    where = "\n".join(
                        [f"view {key}, second {second}, at {place}:", *screen.drawn()]
                    )
                    fills = says_something if key == "7" else is_filled  # Results may have none yet
                    assert fills(rows), where
                    check_times(screen, key)
                    for found in findings_of(screen):
                        known = first.setdefault(found, place)
                        assert not second_loop or known <= place + MAX_DELAY_SECONDS, (
                            f"{found} {where}"
                        )
                await pass_second(screen)
            assert second_loop and screen.replay.playback.now() < recording.end - DEMO_START_SECONDS


@pytest.mark.parametrize("size", [NARROW, (60, 20)], ids=["80x24", "60x20"])
async def test_every_row_of_the_devices_fills_the_views_of_one_interface(
    size: tuple[int, int],
) -> None:
    """Also a row that is no interface: its members, and what can be chosen instead of it."""
    with as_file(files("nictop.recording").joinpath(DEMO_FILE)) as path:
        async with screen_with_replay(
            path, size, start=DEMO_START_SECONDS, loop=True, nic=DEMO_NIC
        ) as screen:
            await screen.seek(screen.replay.runs[0].begin + 5)
            table = screen.app.screen.query_one(DeviceTable)
            keys: set[str] = set()
            await screen.press("1", "home")
            for _ in range(len(table._rows)):
                for opened in (["2"], ["3"], ["1"], ["enter"], ["enter"]):
                    await screen.press(*opened)
                    rows = body(screen)
                    chosen = table.chosen
                    assert chosen is not None
                    keys.add(chosen.key)
                    is_short = chosen.kind == "group" and opened == [
                        "enter"
                    ]  # all of its members, however few
                    said = (
                        says_something(rows) and "lo " in "".join(rows)
                        if is_short
                        else is_filled(rows)
                    )
                    assert said, "\n".join([f"{chosen.key} {opened}:", *screen.drawn()])
                await screen.press("escape", "escape", "1", "down")
            assert {"group:virtual"} <= keys and len(keys) == len(table._rows)


async def test_the_first_frame_of_a_recorded_test_says_that_the_recording_is_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Reading it takes seconds on a busy machine."""
    reads = asyncio.Event()

    async def advance(self: RecordedRun, now: float) -> None:
        await reads.wait()

    monkeypatch.setattr(RecordedRun, "advance", advance)
    with as_file(files("nictop.recording").joinpath(DEMO_FILE)) as path:
        async with screen_with_replay(
            path, NARROW, start=DEMO_START_SECONDS, nic=DEMO_NIC
        ) as screen:
            await screen.press("6")
            await wait_until(screen, lambda: isinstance(screen.app.screen, RecordedRunScreen))
            await screen.settle()
            text = " ".join(" ".join(body(screen)).split())
            assert "Test 1 of 2 (client alma-load-001, server alma-load-002)" in text
            assert "Reading the recording up to this time…" in text and "started" not in text
            reads.set()


async def test_the_view_of_tests_has_content_while_the_demo_plays_around_it() -> None:
    """It was opened during the second test: in the next loop that one has not begun."""
    with as_file(files("nictop.recording").joinpath(DEMO_FILE)) as path:
        async with screen_with_replay(
            path, NARROW, start=DEMO_START_SECONDS, loop=True, nic=DEMO_NIC
        ) as screen:
            second = screen.replay.runs[1]
            await screen.seek(second.begin + 5)
            await screen.press("6")
            shown = set()
            for _ in range(100):
                await pass_second(screen)
                now = screen.replay.playback.now()
                assert says_something(body(screen)), "\n".join([f"at {now}:", *screen.drawn()])
                shown.add(screen.drawn()[2].split("·")[0].strip())
                view = screen.app.screen
                assert isinstance(view, RecordedRunScreen)
                assert view._index == (0 if now < second.begin else 1)
            assert shown == {
                "alma-load-001 → alma-load-002",  # its NICs are not known before its plan
                "alma-load-001:ens256 → alma-load-002:ens256",
            }


async def test_a_test_without_data_yet_says_its_stage_as_far_as_the_recording_has_it() -> None:
    """Its plan is known after 2.4 s, its client runs after 11.4 s, the first byte comes at 12.5 s."""
    with as_file(files("nictop.recording").joinpath(DEMO_FILE)) as path:
        async with screen_with_replay(
            path, NARROW, start=DEMO_START_SECONDS, nic=DEMO_NIC
        ) as screen:
            begin = screen.replay.runs[0].begin

            async def check(seconds: float, stage: str) -> None:
                await screen.seek(begin + seconds)
                sentence = f"server alma-load-002): {stage}."
                await wait_until(
                    screen, lambda: sentence in " ".join(" ".join(body(screen)).split())
                )
                text = " ".join(" ".join(body(screen)).split())
                assert "Nothing is measured yet; the chart begins with the first data." in text

            await screen.press("6")
            await check(0.0, "it is being started")
            await check(4.0, "checking iperf3 on both hosts, and the path between them")
            await check(11.8, "waiting for the first byte")
            assert "being started" not in " ".join(body(screen))


async def test_a_test_that_has_not_begun_says_when_it_does_and_how_the_one_before_ended() -> None:
    with as_file(files("nictop.recording").joinpath(DEMO_FILE)) as path:
        async with screen_with_replay(
            path, NARROW, start=DEMO_START_SECONDS, nic=DEMO_NIC
        ) as screen:
            first, second = screen.replay.runs
            assert first.end is not None
            await screen.press("6")
            await screen.seek(second.begin - 10)
            await screen.press("n")
            await screen.settle()
            text = " ".join(" ".join(body(screen)).split())
            assert "Test 2 of 2 (client alma-load-001, server alma-load-002)" in text
            assert "It begins at 17:37:16, in 10 s. Enter: go there" in text
            assert (
                "Result of test 1, alma-load-001 → alma-load-002: 81.6 Mb/s received by "
                "alma-load-002" in text
            )
            assert says_something(body(screen))
            # on the timeline Enter asks for a time
            screen.app.screen.query_one(ReplayLine).focus()
            await wait_until(screen, lambda: "go there" not in " ".join(body(screen)))
            text = " ".join(" ".join(body(screen)).split())
            assert "It begins at 17:37:16, in 10 s." in text and "goes there" not in text


async def test_the_moment_that_a_search_jumps_to_is_not_blank() -> None:
    """The key n: the begin of a test, of which the client has not been started yet."""
    with as_file(files("nictop.recording").joinpath(DEMO_FILE)) as path:
        async with screen_with_replay(
            path, NARROW, start=DEMO_START_SECONDS, nic=DEMO_NIC
        ) as screen:
            first, second = screen.replay.runs
            await screen.press("6")
            for begin in (first.begin, second.begin):
                for late in (0.0, 0.01, 0.05, 0.2):
                    await screen.seek(begin + late)
                    await screen.press("6")
                    await screen.settle()
                    assert says_something(body(screen)), "\n".join(screen.drawn())
                    assert "settings of the test unknown" not in " ".join(screen.drawn())


UNTESTED = "the path test did not end"
NOT_COMPLETE = "inventory of vm1 not complete after 41 s"


class ScriptedRun:
    """A `RunSession` whose stages are those that the test sends; "!" and a reason end it."""

    stages: asyncio.Queue[str]

    def __init__(self, request: RunRequest, sessions: object, change: object = None) -> None:
        type(self).stages = asyncio.Queue()

    async def run(self, emit: Callable[[Stage | PathTested | WaitEnded], object]) -> None:
        while True:
            sentence = await self.stages.get()
            if sentence == UNTESTED:
                ends = (PathEnd("vm1", "a", 1, "192.0.2.1", None, None, True, {}),) * 2
                directions = tuple(
                    PathDirection(*ends, None, None, "vm1: no answer") for _ in range(2)
                )
                result = PathResult(0.0, "", 0, (directions[0], directions[1]))
                emit(PathTested(PathReport(result, ())))
                continue
            if sentence.startswith("!"):
                raise NictopError(sentence[1:], "install iperf3 there")
            if sentence == NOT_COMPLETE:
                emit(WaitEnded(sentence))
                continue
            is_wait = sentence.startswith("waiting for vm")
            emit(Stage("waiting" if is_wait else "preparing", sentence))

    def stop(self) -> bool:
        return False


async def test_an_attempt_that_was_followed_by_another_has_not_passed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A host that restarts: what is waited for is one stage, with the time of all attempts."""
    now = 100.0
    monkeypatch.setattr("nictop.traffic.session.RunSession", ScriptedRun)
    monkeypatch.setattr("nictop.tui.controllers.traffic.monotonic", lambda: now)
    async with live_screen(NARROW) as screen:
        traffic = screen.nictop.traffic
        traffic.start(RunRequest("vm1", "vm2"), self_test=True)
        await screen.press("6")
        await wait_until(screen, lambda: isinstance(screen.app.screen, RunScreen))

        async def shown_after(sentence: str) -> list[str]:
            ScriptedRun.stages.put_nowait(sentence)
            await wait_until(screen, lambda: traffic.sentence == sentence)
            traffic.publish()
            await screen.settle()
            rows = [" ".join(row.split()) for row in body(screen)]
            return [row for row in rows if row[:1] in (UNICODE.passed, "◌")]

        for attempt, doing in enumerate(("lost", "SSH handshake (attempt 3)", "logging in")):
            shown = await shown_after(f"waiting for vm2: {doing}")
            of_all = " (all steps)" if attempt else ""
            assert shown == [f"◌ waiting for vm2: {doing}{of_all} {10 * attempt} s"]
            now += 10
        assert await shown_after("checking iperf3 on both hosts") == [
            "✓ waiting for vm2: logging in (all steps) 30 s",
            "◌ checking iperf3 on both hosts 0 s",
        ]


async def test_a_wait_that_ended_without_what_was_waited_for_is_not_checked_off(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """``✓ waiting for vm1: reading inventory`` stood above the test that failed without it."""
    monkeypatch.setattr("nictop.traffic.session.RunSession", ScriptedRun)
    async with live_screen(WIDE) as screen:
        traffic = screen.nictop.traffic
        traffic.start(RunRequest("vm1", "vm2"), self_test=True)
        await screen.press("6")
        await wait_until(screen, lambda: isinstance(screen.app.screen, RunScreen))
        for sentence in (
            "waiting for vm1: reading inventory, at most 20 s",
            NOT_COMPLETE,
            "checking iperf3",
        ):
            ScriptedRun.stages.put_nowait(sentence)
        await wait_until(screen, lambda: traffic.sentence == "checking iperf3")
        traffic.publish()
        await screen.settle()
        said = " ".join(" ".join(body(screen)).split())
        assert f"▲ {NOT_COMPLETE}" in said and "✓" not in said, said


@pytest.mark.parametrize("glyphs", [UNICODE, ASCII], ids=["unicode", "ascii"])
async def test_a_live_test_names_its_stages_until_there_is_data_and_why_there_is_none(
    monkeypatch: pytest.MonkeyPatch, glyphs: Glyphs
) -> None:
    now = 100.0
    monkeypatch.setattr("nictop.traffic.session.RunSession", ScriptedRun)
    monkeypatch.setattr("nictop.tui.controllers.traffic.monotonic", lambda: now)
    async with live_screen(NARROW, glyphs=glyphs) as screen:
        traffic = screen.nictop.traffic
        traffic.ended.append(FinishedExperiment((StoredRun("a", "a", result(), 0.0, "0"),)))

        def lines() -> list[str]:
            return [" ".join(row.split()) for row in body(screen) if set(row) - BORDERS]

        async def enter(sentence: str) -> None:
            ScriptedRun.stages.put_nowait(sentence)
            await wait_until(screen, ScriptedRun.stages.empty)
            await screen.settle()
            traffic.publish()
            await screen.settle()

        traffic.start(RunRequest("vm1", "vm2"), self_test=True)
        await screen.press("6")
        await wait_until(screen, lambda: isinstance(screen.app.screen, RunScreen))
        assert says_something(body(screen)), "\n".join(screen.drawn())
        await enter("checking iperf3 on both hosts, and the path between them")
        now += 3
        await enter(UNTESTED)
        await enter("starting the server on vm2")
        now += 9
        traffic.publish()
        await screen.settle()
        shown = lines()
        assert "Nothing is measured yet; the chart begins with the first data." in shown
        passed, waiting = (glyphs.passed, glyphs.encode("◌"))
        assert not any(one.startswith(f"{passed} checking iperf3 on both hosts") for one in shown)
        untested = "checking iperf3 on both hosts: path not fully tested"
        assert any(
            one.startswith(f"{glyphs.warning} {untested} ") and one.endswith(" 3 s")
            for one in shown
        )
        assert f"{waiting} starting the server on vm2 9 s" in shown
        assert any(
            one.startswith(glyphs.text("Last result, a → b: ")) and "received by" in one
            for one in shown
        )
        await enter("!vm2: iperf3 is not installed")
        await wait_until(screen, lambda: not traffic.running)
        await screen.settle()
        shown = lines()
        assert "Test failed: vm2: iperf3 is not installed" in shown
        assert "Hint: install iperf3 there" in shown
        assert any(one.startswith("Enter: run it again") for one in shown)
        assert f"{glyphs.critical} starting the server on vm2 9 s" in shown


async def test_nothing_waits_for_the_first_byte_beside_a_rate() -> None:
    async with live_screen(NARROW) as screen:
        traffic = screen.nictop.traffic
        run = Watched(PLAN)
        traffic._live = run.live
        traffic._take(Stage("running", WAITING_FOR_DATA))
        control = socket(2, 300, 400)
        for sample in run.sample("server", 0.0, (control,)):
            traffic._take(sample)
        assert traffic.sentence == WAITING_FOR_DATA
        for sample in run.sample("server", 0.5, (control, socket(1, 0, 9000))):
            traffic._take(sample)
        assert not traffic.sentence


def test_the_first_frame_names_the_hosts_and_no_host_of_a_recording() -> None:
    """It is drawn before the screens are imported, which takes seconds on a busy machine."""
    hosts = [Host(f"vm{number}\x1b[2J", f"vm{number}.example") for number in range(12)]
    assert _greeting(()).splitlines() == [" nictop: opening the recording", " loading the screens"]
    assert _greeting(hosts[:1]).splitlines()[:2] == [" nictop: connecting", "   vm0\\x1b[2J"]
    assert _greeting(hosts).splitlines()[-2:] == ["   2 more", " loading the screens"]


async def test_a_stored_result_of_a_test_that_measured_nothing_says_why() -> None:
    refused = Failure("refused", "port 5201 of b refuses connections: open it in its firewall")
    stored = StoredRun(
        "a", "a", result(failure=refused, flows=(), bottleneck="", proof=None), 0.0, "0"
    )
    async with live_screen(NARROW) as screen:
        (point,) = set_up_points([stored])
        row = ResultGroup("a", point, (stored,))
        screen.app.push_screen(StoredRunScreen(row))
        await wait_until(screen, lambda: isinstance(screen.app.screen, StoredRunScreen))
        await screen.settle()
        text = " ".join(" ".join(body(screen)).split())
        assert "Nothing was measured. Test failed: port 5201 of b refuses connections" in text


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        ("5", ("── alma-load-001 ens192", "Managed by    NetworkManager")),
        ("4", ("alma-load-001 ens224", "Driver")),
    ],
    ids=["hosts", "findings"],
)
@pytest.mark.parametrize("glyphs", [UNICODE, ASCII], ids=["unicode", "ascii"])
async def test_a_large_screen_gives_the_rows_of_a_short_list_to_what_is_chosen(
    key: str, expected: Sequence[str], glyphs: Glyphs
) -> None:
    with as_file(files("nictop.recording").joinpath(DEMO_FILE)) as path:
        async with screen_with_replay(
            path, LARGE, start=DEMO_START_SECONDS, nic=DEMO_NIC, glyphs=glyphs
        ) as screen:
            await screen.seek(screen.replay.runs[0].begin + 5)
            await screen.press(key)
            await screen.settle()
            left = [row[: LARGE[0] * 2 // 5] for row in body(screen)]
            assert empty_rows(left) < MAX_EMPTY_ROWS, "\n".join(screen.drawn())
            text = "\n".join(left)
            for part in expected:
                assert glyphs.encode(part) in text, text
            if key == "4":
                await screen.press("down")
                await screen.settle()
                chosen = screen.app.screen.query_one(FindingList).chosen
                assert isinstance(chosen, Finding) and chosen.subject != "ens224"
                subject = screen.app.screen.query_one("#finding-subject", LineWidget)
                assert subject.display and subject.border_title == f"{chosen.host} {chosen.subject}"


LONG_HOSTS = tuple(
    f"a-host-with-a-very-long-name-of-sixty-characters-and-more-{number}.example" for number in "12"
)


@pytest.mark.parametrize("size", [NARROW, (60, 20)], ids=["80x24", "60x20"])
async def test_long_names_are_cut_with_an_ellipsis_and_stay_apart(size: tuple[int, int]) -> None:
    """In lists, menus and titles; a title keeps what it is about."""
    items = [items_of(name) for name in recorded_hosts()]
    async with screen_with_hosts(*LONG_HOSTS, size=size) as (screen, hosts):
        for name, stages in zip(LONG_HOSTS, items, strict=True):
            hosts[name].send(*(one for stage in STAGES for one in stages[stage]))
        await wait_until(
            screen,
            lambda: screen.nictop.diagnosis.result is not None and not screen.nictop.hosts.pending,
        )
        await screen.press("4")
        cut = [
            row
            for row in body(screen)
            if row[:3].strip("▸ ") in ("▲", "✖", "·") and "more-" not in row
        ]
        shown = {row[3:].split()[0] for row in cut}
        assert {"1.example", "2.example"} <= shown, "\n".join(screen.drawn())
        await screen.press("5")
        rows = screen.drawn()[1:]
        assert all(any(f"e-{number}.example" in row for row in rows) for number in "12"), "\n".join(
            rows
        )
        await screen.press("e")
        rows = [row for row in screen.drawn() if "Reconnect" in row or "Remove" in row]
        assert len(rows) == 2 and all("…" in row or "example" in row for row in rows), "\n".join(
            screen.drawn()
        )
        await screen.press("escape", "1", "e")
        assert any("…: set up " in row or "example: set up " in row for row in screen.drawn()), (
            "\n".join(screen.drawn())
        )


async def test_enter_opens_nothing_while_no_interface_is_read() -> None:
    async with live_screen(WIDE) as screen:
        await screen.press("enter")
        assert not screen.app.screen.has_class(DETAIL_CLASS)
        await screen.receive(hello(), inventory(link(2, "ens192", bus="pci")))
        await screen.press("enter")
        assert screen.app.screen.has_class(DETAIL_CLASS)
