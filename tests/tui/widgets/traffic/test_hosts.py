"""Each host of a run is told in as many cells as there are; what nobody counted is not shown as
nothing."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from textual.app import App, ComposeResult

from nictop.model.facts import width as cells
from nictop.model.text.glyphs import ASCII, UNICODE, Glyphs
from nictop.traffic.generators.intervals import Interval
from nictop.traffic.live.run_view import RunView, result_view
from nictop.traffic.results.host_load import Busy, CarryingQueue, HostLoad, Packets
from nictop.tui.widgets.base.line_widget import SpanLine
from nictop.tui.widgets.charts.plot import Box, Canvas
from nictop.tui.widgets.charts.stacked_chart import columns, draw_split, shares, stack_cells
from nictop.tui.widgets.traffic.chart_drawing import draw_run
from nictop.tui.widgets.traffic.host_text import (
    carrying_text,
    datagram_text,
    hottest_text,
    packet_text,
    sending_text,
)
from nictop.tui.widgets.traffic.hosts import RunHosts, draw_hosts
from nictop.tui.widgets.traffic.viewport import Viewport, VisibleRange
from tests.support.screen import running
from tests.traffic.pictures import altered, busy, flow, host, run_view, steady
from tests.traffic.runs import load, result

FULL = Busy(1.0, 0.5, 0.5, 0.0, 1.0, 0.0, 0.0, 2, 1, 1.0, 0.95)
"""Two cores, both of them busy all the time: a quarter each in user and system, half of it in
softirq."""


def text(lines: Iterable[SpanLine]) -> list[str]:
    return ["".join(part for part, _ in line) for line in lines]


def styles(lines: Iterable[SpanLine], words: str) -> set[str]:
    return {style for line in lines for part, style in line if words in part}


def test_one_line_for_each_host_on_a_narrow_screen() -> None:
    lines = text(draw_hosts(run_view(flow(steady(1e9))), Viewport(), 80, 2))
    assert len(lines) == 2
    assert lines[0].startswith(
        " TX a:ens4  CPU  25 % of 4  hottest CPU2 100 % ▲  softirq  11 % of 4"
    )
    assert lines[1].startswith(
        " RX b:ens4  CPU  50 % of 4  hottest CPU2 100 % ▲  softirq  22 % of 4"
    )


def test_more_rows_tell_more() -> None:
    shown = run_view(flow(steady(1e9)))
    two = text(draw_hosts(shown, Viewport(), 120, 4))
    assert len(two) == 4
    assert (
        "retransmits 60 rtt 310 µs cwnd 1.20 MiB" in two[1]
        and "queue 0: 97 % pkts, CPU 2" in two[1]
    )
    many = text(draw_hosts(shown, Viewport(), 120, 10))
    assert many[0].rstrip().endswith("hottest CPU2 100 % ▲ (softirq 40 %)"), (
        "that of the host is beside the chart"
    )
    assert len(many) == 10
    assert "█user 2 ▓system 11 ▒softirq 11 ▚irq 0 ░steal 2 ▞guest 0" in many[1]
    assert "RX 812 kpps TX 40.1 kpps drops 0" in many[4]
    assert "retransmits" not in "".join(many[5:]), "the receiver sends nothing again"


def test_retransmits_of_a_stopped_run_name_their_seconds() -> None:
    sending = Interval(0.0, 10.1, 1e9, True, retransmits=101, rtt=32_900)
    for names_seconds, shown in ((True, "retransmits 101 in 10.1 s rtt"), (False, "101 rtt")):
        assert shown in text([tuple(sending_text(sending, names_seconds=names_seconds))])[0]


@pytest.mark.parametrize("width", [80, 100, 120, 160, 200])
def test_with_three_hosts_nothing_is_drawn_twice(width: int) -> None:
    """Two lines each: what did not fit into the first is in the second, and only there."""
    hosts = (
        host("a", "client", steady(0.2)),
        host("b", "server", steady(0.4)),
        host("c", "observer", steady(0.1)),
    )
    lines = text(draw_hosts(run_view(flow(steady(1e9)), hosts=hosts), Viewport(), width, 6))
    assert len(lines) == 6
    assert "".join(lines[:2]).count("retransmits") == 1
    for words in ("CPU  20 %", "rtt", "cwnd"):
        assert "".join(lines[:2]).count(words) <= 1, words


def test_an_observer_tells_what_its_vhost_threads_cost() -> None:
    hosts = (host("a", "client", steady(0.2)), host("pve", "observer", steady(0.1), cores=64))
    lines = text(draw_hosts(run_view(flow(steady(1e9)), hosts=hosts), Viewport(), 120, 8))
    assert lines[4].startswith(" observer pve")
    assert "of 64" in lines[4] and "vhost 90 % of a core" in "".join(lines[5:])


def test_the_values_are_those_under_the_cursor() -> None:
    hosts = (host("a", "client", lambda time: time / 100), host("b", "server", steady(0.5)))
    shown = run_view(flow(steady(1e9)), hosts=hosts)
    assert "CPU   3 % of 4" in text(draw_hosts(shown, Viewport(cursor=2.5), 80, 2))[0]
    assert "CPU  10 % of 4" in text(draw_hosts(shown, Viewport(), 80, 2))[0]
    assert "CPU –" in text(draw_hosts(shown, Viewport(cursor=-3.0), 80, 2))[0]


def test_cpu_time_that_is_not_measured_yet_is_not_said_to_be_unsupported() -> None:
    """n/a is for what a driver does not support."""
    hosts = (HostLoad("a", "client", None), HostLoad("b", "server", None))
    for rows in (2, 4, 10):
        lines = text(draw_hosts(run_view(flow(steady(1e9)), hosts=hosts), Viewport(), 120, rows))
        assert "CPU –" in lines[0] and "n/a" not in "".join(lines), rows


@pytest.mark.parametrize("rows", [2, 4, 10])
def test_what_a_silent_host_has_sent_stays_with_its_age(rows: int) -> None:
    """In the middle of a test ``CPU – … not measured yet`` stood where ``CPU 86 %`` had been."""
    shown = run_view(flow(steady(1e9)))
    silent = replace(altered(shown, plan=replace(shown.plan, time=20)), seconds=15.4)
    lines = draw_hosts(silent, Viewport(), 120, rows)
    assert "CPU  25 % of 4  no data for 5 s" in text(lines)[0]
    assert styles(lines, " 25 %") == {"dim"} and styles(lines, "no data") == {"warn"}
    assert "not measured" not in "".join(text(lines))
    chart = text(draw_run(silent, Viewport(), 120, 20))
    assert "50 % 5 s ago" in chart[0]


def test_a_host_of_which_nothing_was_measured_yet_has_no_empty_line() -> None:
    hosts = (HostLoad("a", "client", None), HostLoad("b", "server", None))
    lines = text(draw_hosts(run_view(flow(steady(1e9)), hosts=hosts), Viewport(), 80, 4))
    assert "not measured yet" in lines[3] and all(line.strip() for line in lines)
    over = altered(result_view(result(5.0)), hosts=hosts)
    assert text(draw_hosts(over, Viewport(), 80, 4))[3].strip().endswith("not measured")


def test_a_line_with_room_has_the_words_of_its_queue_in_full() -> None:
    """The line of a sender beside it has none: both are chosen for themselves."""
    queue = CarryingQueue(9.5, 2, 0.54, 4, (2,))
    sender, receiver = run_view(flow(steady(1e9))).hosts
    hosts = (sender, replace(receiver, carrying=(queue,)))
    lines = text(draw_hosts(run_view(flow(steady(1e9)), hosts=hosts), Viewport(), 120, 8))
    assert any("queue 2 of 4: 54 % of packets, IRQs on CPU 2" in line for line in lines)


def test_of_a_finished_run_the_measured_seconds_are_shown() -> None:
    """The load of the result is 15 % of four cores, whatever the last second was."""
    over = result_view(
        result(5.0, hosts=(load("a", series=(busy(9.0, 0.9),)), load("b", "server")))
    )
    assert "CPU  15 % of 4" in text(draw_hosts(over, Viewport(), 80, 2))[0]
    assert "CPU  90 % of 4" in text(draw_hosts(over, Viewport(cursor=8.5), 80, 2))[0]


def test_no_core_is_the_hottest_while_all_are_full() -> None:
    """The bottleneck may be another one than the first of them."""
    assert hottest_text(FULL) == (("all ", "dim"), ("CPUs 100 % ▲", "bad"))
    assert hottest_text(replace(FULL, user=0.0, steal=0.5))[0] == ("all ", "dim")


def test_a_core_that_only_takes_packets_is_marked_and_steal_is_named() -> None:
    one = replace(FULL, user=0.0)
    assert hottest_text(one)[1] == ("CPU1 100 % ▲", "bad")
    assert hottest_text(replace(one, hottest_softirq=0.1))[1] == ("CPU1 100 % ▲", "warn")
    assert hottest_text(replace(one, hottest_softirq=0.1, hottest_busy=0.6))[1] == (
        "CPU1  60 %  ",
        "",
    )
    taken = replace(FULL, steal=0.3, time=9.5)
    lines = draw_hosts(
        run_view(flow(steady(1e9)), hosts=(HostLoad("a", "client", None, (taken,)),)),
        Viewport(),
        120,
        1,
    )
    assert styles(lines, "15 %") == {"warn"}


def test_what_is_not_known_is_left_out() -> None:
    assert (
        not packet_text(None)
        and not carrying_text(None)
        and not datagram_text(Interval(0, 1, 1e9, False))
    )
    assert (
        "".join(part for part, _ in packet_text(Packets(1, 1, None, 5000.0, None)))
        == "TX 5.00 kpps"
    )
    assert (
        "".join(part for part, _ in carrying_text(CarryingQueue(1, 0, 1.0, 1, (3, 1))))
        == "queue 0, IRQs on CPU 1,3"
    )
    assert carrying_text(CarryingQueue(1), is_last=True) == []
    last = carrying_text(CarryingQueue(1, 0, 0.5, 2, (3,)), brief=True, is_last=True)
    assert "".join(part for part, _ in last) == "last: queue 0: 50 % pkts, CPU 3"
    assert carrying_text(CarryingQueue(1)) == []


@pytest.mark.parametrize(
    ("received", "sent", "words"),
    [(2, 9, "drops 11"), (0, 0, "drops 0"), (0, None, "RX drops 0"), (None, 9, "TX drops 9")],
)
def test_drops_are_of_both_directions_or_say_of_which(
    received: int | None, sent: int | None, words: str
) -> None:
    """tx_dropped grows while a cable is cut."""
    packets = Packets(1, 1, dropped=received, send_dropped=sent)
    assert "".join(part for part, _ in packet_text(packets)) == words


def test_lost_packets_are_bad() -> None:
    assert ("11", "bad") in packet_text(Packets(1, 1, 1.0, 1.0, 11, 0))
    lost = datagram_text(Interval(0, 1, 1e9, False, packets=1000, lost=12, jitter=0.25))
    assert "".join(part for part, _ in lost) == "lost 12 of 1000 jitter 250 µs"
    assert ("12 of 1000", "bad") in lost


def test_the_cells_of_a_stack_are_the_kinds_that_fill_them() -> None:
    """user, system, softirq, irq, steal, guest: a quarter, a quarter, a half of all there is, on
    four rows."""
    full = shares(FULL)
    assert full == (0.25, 0.25, 0.5, 0.0, 0.0, 0.0)
    assert stack_cells(full, 4, 1.0, glyphs=UNICODE) == [
        ("█", "user"), ("▓", "system"), ("▒", "softirq"), ("▒", "softirq")
    ]  # fmt: skip
    assert [mark for mark, _ in stack_cells(full, 4, 2.0, glyphs=ASCII)] == ["U", "Q"]
    assert stack_cells((0.0,) * 6, 4, 1.0, glyphs=UNICODE) == [("·", "dim")]
    assert len(stack_cells((0.001, 0.0, 0.0, 0.0, 0.0, 0.0), 4, 1.0, glyphs=UNICODE)) == 1, (
        "work is never invisible"
    )
    assert stack_cells(None, 4, 1.0, glyphs=UNICODE) == []


def test_columns_are_means_of_windows_or_the_window_in_which_they_lie() -> None:
    series = [replace(FULL, time=float(end), user=end / 5) for end in (1, 2, 3, 4)]
    halves = [
        one[0] if one is not None else None for one in columns(series, VisibleRange(0.0, 6.0), 3)
    ]
    assert halves == [pytest.approx(0.15), pytest.approx(0.35), None]
    fine = [
        one[0] if one is not None else None for one in columns(series, VisibleRange(0.5, 1.0), 4)
    ]
    assert fine == [pytest.approx(0.1)] * 2 + [pytest.approx(0.2)] * 2
    gap = [series[0], replace(series[3], time=9.0)]
    assert columns(gap, VisibleRange(4.0, 1.0), 2) == [None, None]


def test_the_split_chart_has_a_scale_that_does_not_exaggerate() -> None:
    idle = replace(FULL, user=0.02, system=0.0, softirq=0.0)
    for series, words in (([FULL], " 100 %"), ([idle], "  10 %"), ([], "  10 %")):
        canvas = Canvas(20, 3)
        draw_split(canvas, Box(0, 0, 20, 3), series, VisibleRange(0.0, 1.0), glyphs=UNICODE)
        assert text([canvas.row(0)])[0].startswith(f"{words[1:]}┤")


def test_names_are_cleaned() -> None:
    shown = run_view(flow(steady(1e9)), hosts=(HostLoad("b\x1b[2J\n", "server", None, (FULL,)),))
    for rows in (1, 2, 5):
        assert not any(
            "\x1b" in line or "\n" in line
            for line in text(draw_hosts(shown, Viewport(), 120, rows))
        )


BUSY = st.builds(
    Busy,
    st.floats(-10, 1e4),
    *[st.floats(0, 1e3)] * 6,
    st.integers(0, 4096),
    st.integers(0, 4095),
    st.floats(0, 1),
    st.floats(0, 1),
)


@given(
    st.lists(st.tuples(st.text(max_size=12), st.lists(BUSY, max_size=6)), min_size=1, max_size=6),
    st.tuples(st.integers(1, 160), st.integers(0, 30)),
    st.none() | st.floats(-10, 20),
    st.sampled_from((UNICODE, ASCII)),
)
def test_any_hosts_fit_any_size(
    hosts: list[tuple[str, list[Busy]]], size: tuple[int, int], cursor: float | None, glyphs: Glyphs
) -> None:
    pictures = [
        HostLoad(name, "observer", None, tuple(sorted(series, key=lambda one: one.time)))
        for name, series in hosts
    ]
    shown: RunView = run_view(flow(steady(1e9)), hosts=tuple(pictures))
    width, rows = size
    lines = draw_hosts(shown, Viewport(cursor=cursor), width, rows, glyphs=glyphs)
    assert len(hosts) <= len(lines) <= max(rows, len(hosts))
    assert all(cells(line) <= width for line in text(lines))
    assert not glyphs.is_ascii or all(line.isascii() for line in text(lines))


class Hosts(App[None]):
    """The hosts alone."""

    CSS_PATH = "../../../../nictop/tui/nictop.tcss"

    def compose(self) -> ComposeResult:
        yield RunHosts()


async def test_hosts_get_more_lines_when_there_are_more_rows() -> None:
    app = Hosts()
    async with running(app, (120, 12), notifications=False) as pilot:
        view = app.query_one(RunHosts)
        view.styles.height = "1fr"
        await pilot.pause()
        view.show(run_view(flow(steady(1e9))), 2.5)
        assert len(view.lines) == 12
        await pilot.resize_terminal(80, 3)
        await pilot.pause()
        assert len(view.lines) == 2
        view.show(None)
        assert not view.lines
