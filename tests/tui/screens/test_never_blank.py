"""No view is ever blank: at every moment it shows values, or what is waited for, or why there is nothing and what to
do."""

from __future__ import annotations

from importlib.resources import as_file, files

from nictop.cli.commands.demo import DEMO_FILE, DEMO_NIC, DEMO_START_SECONDS
from nictop.tui.screens.replay.run import RecordedRunScreen
from tests.support.replay_screen import ScreenWithReplay, screen_with_replay
from tests.support.screen import NARROW, Screen

VIEWS = ("614", "625", "637")
"""Views of each second in turn: the tests, which change most, in all of them."""
LOOPS = 2
FRAME_ROWS = 2
"""Above the body (tabs and hosts) and below it (worst finding and keys)."""
BORDERS = frozenset(" ─│╭╮╰╯┤├")
MIN_SENTENCE_ROWS = 2


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


async def test_every_view_of_the_demo_has_content_over_two_loops() -> None:
    with as_file(files("nictop.recording").joinpath(DEMO_FILE)) as path:
        async with screen_with_replay(path, NARROW, start=DEMO_START_SECONDS, loop=True, nic=DEMO_NIC) as screen:
            recording = screen.replay.playback.recording
            seconds = round(LOOPS * (recording.end - recording.begin - DEMO_START_SECONDS)) + LOOPS
            for second in range(seconds):
                for key in VIEWS[second % len(VIEWS)]:
                    await screen.press(key)
                    rows = body(screen)
                    assert is_filled(rows), "\n".join([f"view {key}, second {second}:", *screen.drawn()])
                await pass_second(screen)
            assert screen.replay.playback.now() < recording.end - DEMO_START_SECONDS


async def test_the_view_of_tests_has_content_while_the_demo_plays_around_it() -> None:
    """It was opened during the second test: in the next loop that one has not begun."""
    with as_file(files("nictop.recording").joinpath(DEMO_FILE)) as path:
        async with screen_with_replay(path, NARROW, start=DEMO_START_SECONDS, loop=True, nic=DEMO_NIC) as screen:
            first, second = screen.replay.runs
            await screen.seek(second.begin + 5)
            await screen.press("6")
            shown = set()
            for _ in range(70):
                await pass_second(screen)
                now = screen.replay.playback.now()
                assert says_something(body(screen)), "\n".join([f"at {now}:", *screen.drawn()])
                shown.add(screen.drawn()[2].split("·")[0].strip())
                view = screen.app.screen
                assert isinstance(view, RecordedRunScreen)
                assert view._index == (0 if now < second.begin else 1)
            assert shown == {"alma-load-001:ens256 → alma-load-002:ens256"} and first.end is not None


async def test_a_test_that_has_not_begun_says_when_it_does_and_how_the_one_before_ended() -> None:
    with as_file(files("nictop.recording").joinpath(DEMO_FILE)) as path:
        async with screen_with_replay(path, NARROW, start=DEMO_START_SECONDS, nic=DEMO_NIC) as screen:
            first, second = screen.replay.runs
            assert first.end is not None
            await screen.press("6")
            await screen.seek(second.begin - 10)
            await screen.press("right_square_bracket")
            await screen.settle()
            text = " ".join(" ".join(body(screen)).split())
            assert "Test 2 of 2 (client alma-load-001, server alma-load-002)" in text
            assert "It begins at 12:41:36, in 10 s. Enter: go there" in text
            assert "Result of test 1: 104 Mb/s received by alma-load-002" in text
            assert says_something(body(screen))


async def test_the_moment_that_a_search_jumps_to_is_not_blank() -> None:
    """The key n: the begin of a test, of which the client has not been started yet."""
    with as_file(files("nictop.recording").joinpath(DEMO_FILE)) as path:
        async with screen_with_replay(path, NARROW, start=DEMO_START_SECONDS, nic=DEMO_NIC) as screen:
            first, second = screen.replay.runs
            await screen.press("6")
            for begin in (first.begin, second.begin):
                for late in (0.0, 0.01, 0.05, 0.2):
                    await screen.seek(begin + late)
                    await screen.press("6")
                    await screen.settle()
                    assert says_something(body(screen)), "\n".join(screen.drawn())
                    assert "settings of the test unknown" not in " ".join(screen.drawn())
