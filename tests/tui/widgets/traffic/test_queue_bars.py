"""Per-queue bars of a run: every queue while it runs, the busiest one of a stored result, any
size."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from nictop.model.facts import width as cells
from nictop.model.text.glyphs import ASCII, UNICODE, Glyphs
from nictop.traffic.analysis.nic_load import QueueShare
from nictop.traffic.live.host_so_far import LiveHostFigures
from nictop.traffic.live.run_view import RunView
from nictop.traffic.results.host_load import HostLoad
from nictop.tui.widgets.traffic.queue_bars import draw_queue_bars
from tests.traffic.pictures import altered, flow, host, run_view, steady


def text(view: RunView, width: int = 36, rows: int = 20, glyphs: Glyphs = UNICODE) -> list[str]:
    return [
        "".join(part for part, _ in line)
        for line in draw_queue_bars(view, width, rows, glyphs=glyphs)
    ]


def with_queues(*shares: float) -> RunView:
    queues = tuple(QueueShare(number, share, (number % 4,)) for number, share in enumerate(shares))
    ends = host("a", "client", steady(0.1)), host("b", "server", steady(0.1))
    shown = run_view(flow(steady(1e9)), hosts=(replace(ends[0], carrying=()), ends[1]))
    return replace(shown, hosts_now={"b": LiveHostFigures(queues)})


def test_each_queue_has_a_bar_its_share_and_its_cpu() -> None:
    lines = text(with_queues(0.75, 0.25))
    assert [line.rstrip() for line in lines] == [
        " TX a:ens4",
        "   no packets counted per queue",
        " RX b:ens4 · 2 queues · last reading",
        "   0 " + "█" * 8 + "▎    75 % pkts CPU 0",
        "   1 " + "█" * 2 + "▊          25 % pkts CPU 1",
    ]


def test_the_title_says_what_the_shares_are_of_before_the_number_of_queues() -> None:
    """Beside the bars there are means of the run: 38 % and 62 % of its last second looked like
    those."""
    assert text(with_queues(0.75, 0.25), 30)[2].rstrip() == " RX b:ens4 · last reading"


def test_before_the_first_window_of_the_run_nothing_is_said_about_what_is_counted() -> None:
    ends = host("a", "client", steady(0.1)), host("b", "server", steady(0.1))
    early = dict.fromkeys("ab", LiveHostFigures(is_of_run=False))
    lines = text(replace(run_view(flow(steady(1e9)), hosts=ends), hosts_now=early))
    assert [line.rstrip() for line in lines] == [
        " TX a:ens4",
        "   not measured yet",
        " RX b:ens4",
        "   not measured yet",
    ]


def test_a_queue_that_carries_nearly_everything_is_marked() -> None:
    styles = [line[1][1] for line in draw_queue_bars(with_queues(0.9, 0.1), 36, 20)[3:]]
    assert styles == ["warn", "in"]
    only = [line[1][1] for line in draw_queue_bars(with_queues(1.0), 36, 20)[3:]]
    assert only == ["in"], "a single queue cannot be uneven"


def test_with_more_queues_than_rows_the_busiest_are_listed_and_the_others_summed_up() -> None:
    lines = text(with_queues(0.1, 0.3, 0.1, 0.4, 0.1), rows=7)
    assert [line.split()[0] for line in lines[3:-1]] == ["0", "1", "3"]
    assert lines[-1].rstrip() == " 2 others: 20 %"


def test_what_other_queues_carried_is_not_rounded_to_nothing() -> None:
    shares = (0.4, 0.3, 0.296, 0.002, 0.002)
    lines = text(with_queues(*shares), rows=7)
    assert lines[-1].rstrip() == " 2 others: <1 %"
    all_rows = text(with_queues(0.997, 0.003), rows=20)
    assert all_rows[-1].split()[-5:] == ["<1", "%", "pkts", "CPU", "1"]
    nothing = text(with_queues(0.7, 0.2, 0.1, 0.0, 0.0), rows=7)
    assert nothing[-1].rstrip() == " 2 others: 0 %"


def test_a_stored_result_has_the_busiest_queue_and_the_others() -> None:
    lines = text(run_view(flow(steady(1e9))))
    assert lines[0].rstrip() == " TX a:ens4 · 4 queues · last reading"
    assert lines[1].split()[-3:] == ["pkts", "CPU", "2"] and " 97 %" in lines[1]
    assert lines[2].rstrip() == " 3 others: 3 %"


def cut_at_second_4(*, is_over: bool) -> RunView:
    shown = run_view(flow(steady(1e9)))
    hosts = []
    for load in shown.hosts:
        packets = tuple(
            one if one.time <= 4 else replace(one, received=0.0, sent=0.0) for one in load.packets
        )
        carrying = tuple(
            one if one.time <= 4 else replace(one, queue=None, share=None) for one in load.carrying
        )
        hosts.append(replace(load, packets=packets, carrying=carrying))
    cut = altered(shown, hosts=tuple(hosts))
    return replace(cut, result=cut.so_far) if is_over else cut


def test_a_last_reading_without_packets_has_no_shares() -> None:
    """Those of the last reading with packets stood beside 0 pps until the end of the test."""
    lines = [line.rstrip() for line in text(cut_at_second_4(is_over=False), 40)]
    assert lines == [
        " TX a:ens4",
        "   no packets in the last reading",
        " RX b:ens4",
        "   no packets in the last reading",
    ]


def test_a_result_says_when_the_last_packets_were_counted() -> None:
    lines = [line.rstrip() for line in text(cut_at_second_4(is_over=True))]
    assert lines[0] == " TX a:ens4 · 4 queues · at 4.0 s"
    assert "last reading" not in "".join(lines)
    assert text(cut_at_second_4(is_over=True), 18)[0].startswith(" at 4.0 s: TX a")


def test_in_ascii_bars_are_whole_cells() -> None:
    lines = text(with_queues(0.75, 0.25), glyphs=ASCII)
    assert all(line.isascii() for line in lines)
    assert "#" * 8 in lines[3] and "#" * 2 in lines[4]


QUEUES = st.lists(
    st.builds(QueueShare, st.integers(0, 999), st.floats(0, 1), st.just((1, 200))), max_size=40
)


@given(
    st.lists(st.tuples(st.text(max_size=12), QUEUES), max_size=3),
    st.tuples(st.integers(1, 60), st.integers(0, 30)),
    st.sampled_from((UNICODE, ASCII)),
)
def test_any_queues_fit_any_size(
    hosts: list[tuple[str, list[QueueShare]]], size: tuple[int, int], glyphs: Glyphs
) -> None:
    loads = tuple(HostLoad(name, "server", None) for name, _ in hosts)
    now = {name: LiveHostFigures(tuple(queues)) for name, queues in hosts}
    shown = replace(run_view(flow(steady(1e9)), hosts=loads), hosts_now=now)
    lines = text(shown, *size, glyphs=glyphs)
    assert len(lines) <= size[1]
    assert all(cells(line) <= size[0] for line in lines)
    assert not glyphs.is_ascii or all(line.isascii() for line in lines)
