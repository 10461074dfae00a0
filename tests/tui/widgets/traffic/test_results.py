"""The list of results and the comparison of two of them: what a line says, marks, every run on one
axis."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from textual.app import App, ComposeResult

from nictop.model.facts import width as cells
from nictop.model.text.glyphs import ASCII, UNICODE, Glyphs
from nictop.report.runs.sentences import host_cost_text
from nictop.traffic.analysis.comparison import compare
from nictop.traffic.failures import Failure
from nictop.traffic.plan.validation import ExperimentKind
from nictop.traffic.results.measures import MEASURES
from nictop.traffic.results.path_proof import PathProof
from nictop.traffic.results.selection import StoredRun
from nictop.tui.widgets.traffic.comparison_view import (
    FIGURE_LABELS,
    LABEL_CELLS,
    axis_ticks,
    draw_comparison,
)
from nictop.tui.widgets.traffic.results_list import (
    COLUMNS,
    MIN_LABEL_CELLS,
    ResultGroup,
    SetUpList,
    fitting_columns,
    set_up_text,
    set_ups,
)
from tests.support.kept_runs import demo_runs, kept_runs
from tests.support.screen import running
from tests.traffic.runs import flow, load, result


def stored(
    experiment: str,
    gigabits: list[float],
    *,
    kind: ExperimentKind = "repeat",
    group: str = "",
    value: str = "",
    **plan: object,
) -> list[StoredRun]:
    runs = []
    for number, rate in enumerate(gigabits, 1):
        made = result(rate)
        made = replace(made, plan=replace(made.plan, **plan))  # type: ignore[arg-type]
        facts = {**made.facts, "client nic": "ens4", "server nic": "ens5"}
        made = replace(made, facts={**facts, "streams": value} if value else facts)
        variable = "streams" if value else ""
        runs.append(
            StoredRun(
                f"{experiment}{group}{number}",
                experiment,
                made,
                made.wall,
                "0",
                kind,
                "",
                group,
                variable,
                value,
                number,
            )
        )
    return runs


def pair(a: list[float], b: list[float]) -> tuple[ResultGroup, ResultGroup]:
    runs = [
        *stored("e1", a, kind="compare", group="A", value="1"),
        *stored("e1", b, kind="compare", group="B", value="4"),
    ]
    one, other = set_ups(runs)
    return one, other


def text(
    one: ResultGroup, other: ResultGroup, width: int = 80, glyphs: Glyphs = UNICODE
) -> list[str]:
    return [
        "".join(part for part, _ in line).rstrip()
        for line in draw_comparison(one, other, width, glyphs=glyphs)
    ]


def line_of(row: ResultGroup) -> dict[str, str]:
    return {column.title: column.cell(row)[0] for column in COLUMNS}


def test_a_line_says_direction_streams_mtu_nics_and_tool() -> None:
    (row,) = set_ups(stored("e1", [5.0, 5.2, 5.4], direction="reverse", streams=4, mss=1000))
    assert line_of(row) == {
        "WHEN": "09-21 14:13",
        "HOSTS": "b → a",
        "NIC": "ens4/ens5",
        "RUNS": "3",
        "RESULT": "5.20 Gb/s",
        "PATH": "verified",
        "CPU COST": "0.10 cores/Gb/s",
        "TEST": "TCP ×4 2 s MTU 1500 MSS 1000 iperf3",
    }
    (both,) = set_ups(stored("e2", [5.0], direction="bidirectional"))
    assert line_of(both)["HOSTS"] == "a ↔ b"


def test_failed_runs_are_counted() -> None:
    runs = stored("e1", [5.0, 5.2])
    failed = replace(runs[0], result=replace(runs[0].result, failure=Failure("refused", "no")))
    (row,) = set_ups([failed, runs[1]])
    assert (line_of(row)["RUNS"], line_of(row)["RESULT"]) == ("1/2", "5.20 Gb/s")
    (row,) = set_ups([failed])
    assert (line_of(row)["RUNS"], line_of(row)["RESULT"], line_of(row)["CPU COST"]) == (
        "0/1",
        "✖ failed",
        "–",
    )


@pytest.mark.parametrize("room", [56, 76, 116, 196])
def test_the_result_and_that_it_is_not_verified_are_whole_in_every_list(room: int) -> None:
    """Of a list of 60 columns only the first digit of each result was left."""
    rows = set_ups(
        [one for runs in kept_runs("self-test").values() for one in runs] + list(demo_runs())
    )
    columns = {column.key: column for column in fitting_columns(rows, room, UNICODE)}
    assert sum(column.width + 1 for column in columns.values()) <= room
    for key in ("goodput", "path"):
        assert columns[key].width >= max(cells(columns[key].cell(row)[0]) for row in rows)
    assert columns["test"].width >= MIN_LABEL_CELLS
    verified = {
        column.key: column for column in fitting_columns(set_ups(demo_runs()), room, UNICODE)
    }
    assert (
        verified["goodput"].width == len("81.6 Mb/s") and verified["test"].width >= MIN_LABEL_CELLS
    )


LONG = "a-virtual-machine-of-the-production-in-rack-17"


@pytest.mark.parametrize("room", [56, 76, 116, 196])
@pytest.mark.parametrize("glyphs", [UNICODE, ASCII], ids=["unicode", "ascii"])
def test_set_ups_of_one_comparison_and_hosts_with_long_names_look_different(
    room: int, glyphs: Glyphs
) -> None:
    """Both were cut at their end: the lines differed in the result alone, and the receiver was not
    named."""
    pairs = [(f"{LONG}-{first}", f"{LONG}-{second}") for first, second in ("12", "13", "21")]
    runs = []
    for number, (client, server) in enumerate(pairs):
        for value in "14":
            made = stored(f"e{number}", [5.0], kind="compare", group=value, value=value)
            for one in made:
                ends = (
                    replace(one.result.plan.client, host=client),
                    replace(one.result.plan.server, host=server),
                )
                plan = replace(one.result.plan, client=ends[0], server=ends[1])
                runs.append(
                    replace(one, label="a-long-label", result=replace(one.result, plan=plan))
                )
    rows = set_ups(runs)
    columns = {column.key: column for column in fitting_columns(rows, room, glyphs)}
    shown = [columns["hosts"].text(row) + columns["test"].text(row) for row in rows]
    assert len(set(shown)) == len(rows) == 6, shown
    for row, text in zip(rows, shown, strict=True):
        assert f"streams={row.first.value}" in text, text
        assert all(
            end.host[-2:] in text
            for end in (row.first.result.plan.client, row.first.result.plan.server)
        ), text


def test_a_test_of_one_host_has_no_second_one_in_a_narrow_list() -> None:
    (made,) = stored("e1", [5.0])
    end = replace(made.result.plan.client, host="local/netns:a")
    plan = replace(made.result.plan, client=end, server=end, test="workload", workload="./copy")
    rows = set_ups([replace(made, result=replace(made.result, plan=plan))])
    for room in (56, 76):
        columns = {column.key: column for column in fitting_columns(rows, room, UNICODE)}
        assert columns["hosts"].text(rows[0]).rstrip() == "local/netns:a"


ELSEWHERE = PathProof("failed", "a: ens4 carried only 12 kB")


def unverified(runs: list[StoredRun], number: int) -> list[StoredRun]:
    """The same runs, the first `number` of them by another path."""
    return [
        replace(one, result=replace(one.result, proof=ELSEWHERE)) if place < number else one
        for place, one in enumerate(runs)
    ]


@pytest.mark.parametrize(
    ("number", "cell"),
    [(0, "verified"), (1, "▲ 1 of 3 runs: not verified"), (3, "▲ not verified")],
)
def test_the_path_is_told_beside_the_result(number: int, cell: str) -> None:
    (row,) = set_ups(unverified(stored("e1", [5.0, 5.2, 5.4]), number))
    assert line_of(row)["PATH"] == cell
    keys = [column.key for column in COLUMNS]
    assert keys.index("path") == keys.index("goodput") + 1


@pytest.mark.parametrize("glyphs", [UNICODE, ASCII])
def test_a_comparison_says_which_side_is_not_verified(glyphs: Glyphs) -> None:
    a, b = set_ups(
        [
            *unverified(stored("e1", [5.0, 5.2, 5.4], kind="compare", group="A", value="1"), 3),
            *stored("e1", [8.0, 8.1, 8.2], kind="compare", group="B", value="4"),
        ]
    )
    lines, mark = text(a, b, 100, glyphs), glyphs.warning
    assert lines[0].startswith(f" A 5.20 Gb/s {mark} path not verified, B 8.10 Gb/s (medians)")
    dots = [line for line in lines if line.startswith((" goodput  A ", "          B "))][:2]
    assert f"{mark}5.20 Gb/s 3 runs" in dots[0] and f"{mark}" not in dots[1]


def test_every_run_is_a_dot_on_one_axis_and_the_median_is_marked() -> None:
    lines = text(*pair([5.0, 5.2, 5.6], [8.0, 8.2, 8.4]))
    assert lines[0].startswith(" Better: streams 4 = 1.56× of streams 1 (+56 %, 95 % CI 1.4")
    a, b = lines[1], lines[2]
    assert a.startswith(" goodput  A ") and a.endswith(" 5.20 Gb/s 3 runs")
    assert b.startswith("          B ") and b.endswith(" 8.20 Gb/s 3 runs")
    assert (a.count("●"), a.count("◆"), b.count("●"), b.count("◆")) == (2, 1, 2, 1)
    assert max(a.index("◆"), a.rindex("●")) < b.index("●")
    assert lines[3].split()[:2] == ["5", "6"] and "◆ median" in lines[3]
    assert lines[-1] == " differs    streams: 1 → 4"


def test_the_set_ups_of_one_experiment_are_named_by_what_was_varied() -> None:
    a, b = set_ups(kept_runs("lab")["queues"])
    lines = text(a, b)
    assert lines[0].startswith(" Worse: queues 4 = 0.80× of queues 1 (")


def test_a_run_of_another_test_is_not_called_a_run_that_did_not_complete() -> None:
    runs = kept_runs("self-test")
    (bulk,), (rr,) = set_ups(runs["self-test-mtu"]), set_ups(runs["self-test-rr"])
    lines = text(bulk, rr, 120)
    assert lines[0] == " A 6.13 Gb/s ▲ path not verified, B no goodput (rr: 18.7 k/s)"
    assert "          B no goodput (rr: 18.7 k/s)" in lines and not any(
        "no completed run" in line for line in lines
    )


def test_runs_in_one_cell_are_counted() -> None:
    lines = text(*pair([5.0, 5.0, 5.0], [8.0, 8.0, 8.01]))
    assert lines[1].count("3") == 2, "the digit of three runs, and the number of runs"
    assert "◆" not in lines[1]


def test_an_even_number_of_runs_has_its_median_between_two_of_them() -> None:
    lines = text(*pair([5.0, 6.0, 7.0, 8.0], [5.0, 6.0, 7.0, 8.0]))
    assert (lines[1].count("●"), lines[1].count("◆")) == (4, 1)


def test_without_a_verdict_there_are_reasons_and_the_runs() -> None:
    lines = text(*pair([5.0, 5.1], [8.0, 8.1]))
    said = " ".join(" ".join(lines[:4]).split())
    assert said.startswith(
        "A 5.05 Gb/s, B 8.05 Gb/s (medians): B/A 1.59 (+59 %, more than the spread of the runs) "
        "Not ranked: streams 1 has 2 runs, streams 4 has 2 runs, 3 needed:"
    )
    assert lines[4].startswith(" goodput  A ")


def test_results_without_a_name_are_called_a_and_b() -> None:
    (a,), (b,) = set_ups(stored("c1d5a1e81a07", [5.0])), set_ups(stored("e2", [8.0]))
    lines = text(a, b)
    assert lines[:2] == [
        " A 5.00 Gb/s, B 8.00 Gb/s: B/A 1.60 (+60 %)",
        " Not ranked: one run each: spread unknown; repeat with --repeat 5",
    ]
    assert "c1d5a1e81a07" not in "".join(lines)
    (a,), (b,) = set_ups(stored("e1", [5.0, 5.2, 5.6])), set_ups(stored("e2", [8.0, 8.2, 8.4]))
    assert text(a, b)[0].startswith(" Better: B = 1.56× of A (+56 %, 95 % CI 1.4")


def test_facts_that_must_agree_are_named_once() -> None:
    (a,) = set_ups(
        [
            replace(one, result=replace(one.result, facts={"mtu": "1500"}))
            for one in stored("e1", [5.0])
        ]
    )
    (b,) = set_ups(
        [
            replace(one, result=replace(one.result, facts={"mtu": "9000"}))
            for one in stored("e2", [8.0])
        ]
    )
    lines = text(a, b)
    assert lines[1:3] == [
        " Not ranked: one run each: spread unknown; repeat with --repeat 5",
        " different mtu",
    ]
    assert "\n".join(lines).count("1500") == 1


def test_test_column_leaves_out_words_from_the_right() -> None:
    (row,) = set_ups([replace(one, label="vswitch") for one in stored("e1", [5.0], streams=4)])
    whole = "vswitch TCP ×4 2 s MTU 1500 iperf3"
    assert set_up_text(row) == whole
    assert set_up_text(row, len(whole) - 1) == "vswitch TCP ×4 2 s MTU 1500"
    assert set_up_text(row, 20) == "vswitch TCP ×4 2 s"
    assert set_up_text(row, 3) == "vswitch"


def test_seconds_of_runs_that_lost_their_link_are_those_that_they_lasted() -> None:
    runs = stored("e1", [5.0, 5.0])
    lasted = replace(flow(5.0).received, seconds=24.6)  # type: ignore[type-var]
    lost = replace(
        runs[1].result,
        flows=(replace(flow(5.0), received=lasted),),
        event="b ens5 lost its carrier at second 1, back at second 19",
        incident="link_lost",
    )
    both = [runs[0], replace(runs[1], result=lost)]
    (row,), (alone,) = set_ups(both), set_ups(both[1:])
    assert set_up_text(alone) == "TCP ×1 24.6 s (planned: 2 s) MTU 1500 iperf3"
    assert set_up_text(alone, 16) == "TCP ×1 24.6 s"
    assert set_up_text(row).startswith("TCP ×1 2.00 s–24.6 s (planned: 2 s)")
    columns = {column.key: column for column in COLUMNS}
    assert columns["path"].cell(alone) == ("▲ lost its link", "warn")
    assert columns["path"].cell(row)[0] == "▲ 1 of 2 runs: lost its link"
    stopped = replace(runs[0], result=replace(runs[0].result, stopped=1.0))
    assert "(planned: 2 s)" in set_up_text(set_ups([stopped])[0])


def test_a_run_that_lost_its_link_is_not_ranked() -> None:
    a, b = stored("e1", [5.0] * 5), stored("e2", [8.0] * 5)
    event = "b ens5 lost its carrier at second 1, back at second 19"
    with_loss = replace(b[4].result, event=event, incident="link_lost")
    results = [one.result for one in a], [*(one.result for one in b[:4]), with_loss]
    found = compare(*results)
    assert found.verdict == "refused" and f"B 5: {event}" in found.refusals
    renamed = replace(with_loss, incident="renamed")
    assert not any("carrier" in why for why in compare(results[0], [renamed]).refusals)


def test_costs_are_bars_with_their_ratio() -> None:
    lines = [
        line
        for line in text(*pair([5.0, 5.2, 5.6], [8.0, 8.2, 8.4]))
        if "core/Gb" in line or "0.10" in line
    ]
    assert lines[0].startswith(" core/Gb  A ━") and lines[0].endswith(" 0.10 client")
    assert lines[1].startswith("          B ━") and "B/A 1 (" in lines[1].replace("1.00", "1")


@pytest.mark.parametrize(
    ("lowest", "highest", "width", "first", "last"),
    [
        (5.0, 8.4, 50, 5, 9),
        (9.40e9, 9.41e9, 40, 9.4e9, 9.42e9),
        (0.0, 3.0, 30, 0, 4),
        (7.0, 7.0, 40, 6, 8),
    ],
)
def test_the_axis_has_round_ends_around_all_runs(
    lowest: float, highest: float, width: int, first: float, last: float
) -> None:
    ticks = axis_ticks(lowest, highest, width)
    assert ticks[0] <= lowest and highest <= ticks[-1]
    assert first <= ticks[0] and ticks[-1] <= last


RATES = st.lists(st.floats(0, 1e6), min_size=1, max_size=6)


@given(RATES, RATES, st.integers(1, 200), st.sampled_from((UNICODE, ASCII)))
def test_any_runs_fit_any_width(a: list[float], b: list[float], width: int, glyphs: Glyphs) -> None:
    lines = text(*pair(a, b), width=width, glyphs=glyphs)
    assert all(cells(line) <= width for line in lines)
    assert not glyphs.is_ascii or all(line.isascii() for line in lines)


class Results(App[None]):
    """The list alone."""

    CSS_PATH = "../../../../nictop/tui/nictop.tcss"

    def compose(self) -> ComposeResult:
        yield SetUpList()


async def test_marks_are_a_then_b_and_a_marked_line_loses_its_mark() -> None:
    app = Results()
    async with running(app, (80, 12), notifications=False) as pilot:
        table = app.query_one(SetUpList)
        table.styles.height = 10
        table.show(
            set_ups([run for name in ("e1", "e2", "e3") for run in stored(name, [1.0, 1.1, 1.2])]),
            (),
        )
        await pilot.pause()
        keys = [row.key for row in table._rows]
        seen = []
        for index in (0, 1, 2, 2, 1, 0):
            table.choose_index(index)
            table.mark()
            seen.append({letter: keys.index(key) for letter, key in table.marks.items()})
        assert seen == [{"A": 0}, {"A": 0, "B": 1}, {"A": 2, "B": 1}, {"B": 1}, {}, {"A": 0}]
        table.choose_index(2)
        table.mark()
        table.swap()
        assert {letter: keys.index(key) for letter, key in table.marks.items()} == {"B": 0, "A": 2}
        compared = table.compared
        assert compared is not None and [row.key for row in compared] == [keys[2], keys[0]]


async def test_the_set_ups_of_the_chosen_comparison_are_compared_without_marks() -> None:
    app = Results()
    async with running(app, (80, 12), notifications=False):
        table = app.query_one(SetUpList)
        a, b = pair([1.0, 1.0, 1.0], [2.0, 2.0, 2.0])
        (other,) = set_ups(stored("e9", [1.0]))
        table.show((other, a, b), ())
        assert table.compared is None
        table.choose_index(2)
        assert table.compared == (a, b)


@pytest.mark.parametrize("host", ["a", "alma-load-001"])
async def test_the_interfaces_and_the_test_are_seen_at_80_columns(host: str) -> None:
    app = Results()
    async with running(app, (80, 12), notifications=False) as pilot:
        table = app.query_one(SetUpList)
        table.styles.height = 10
        plan = result(1.0).plan
        client, server = (replace(end, host=host) for end in (plan.client, plan.server))
        table.show(set_ups(stored("e1", [1.0], client=client, server=server)), ())
        await pilot.pause()
        (line,) = ["".join(part for part, _ in line) for line in table.lines]
        assert " ens4/ens5 " in line and " TCP ×1" in line and "1.00 Gb/s" in line
        assert cells(line) <= 80


@pytest.mark.parametrize(
    ("words", "found"),
    [
        ("", 2), ("reverse", 1), ("ens4", 2), ("iperf3", 2), ("vswitch", 1), ("VSWITCH "
                                                                              "reverse", 0),
                                                                              ("udp", 0),
        ("192.0.2.1", 2), ("mtu 1500", 2), ("×4", 1),
    ],
)  # fmt: skip
async def test_the_filter_finds_words_of_the_test(words: str, found: int) -> None:
    app = Results()
    async with running(app, (80, 12), notifications=False):
        table = app.query_one(SetUpList)
        labelled = [replace(one, label="vswitch") for one in stored("e1", [1.0], streams=4)]
        rows = set_ups([*labelled, *stored("e2", [1.0], direction="reverse")])
        table.show(rows, (), words.casefold().split())
        assert table.count == found


async def test_marked_results_are_compared_when_the_filter_hides_one() -> None:
    app = Results()
    async with running(app, (80, 12), notifications=False):
        table = app.query_one(SetUpList)
        rows = set_ups([*stored("e1", [1.0]), *stored("e2", [2.0], direction="reverse")])
        table.show(rows, ())
        for index in (0, 1):
            table.choose_index(index)
            table.mark()
        table.show(rows, (), ["reverse"])
        assert table.count == 1 and table.compared == (rows[0], rows[1])


async def test_in_ascii_the_columns_have_room_for_their_arrows() -> None:
    app = Results()
    async with running(app, (80, 12), notifications=False) as pilot:
        table = app.query_one(SetUpList)
        table.glyphs = ASCII
        table.styles.height = 10
        table.show(set_ups([*stored("e1", [1.0], direction="reverse"), *stored("e2", [1.0])]), ())
        await pilot.pause()
        lines = ["".join(part for part, _ in line) for line in table.lines]
        assert " b -> a " in lines[0] and " a -> b " in lines[1]


def test_cpu_cost_is_not_extrapolated_from_a_slow_run() -> None:
    """2.06 of 4 cores at 2.82 Mb/s: they did something else than this run."""
    cost = {column.key: column for column in COLUMNS}["cost"]
    slow = load("a", user=1.0, system=0.66, softirq=0.4, per_gigabit=731.0)
    runs = stored("slow", [0.00282])
    run = replace(runs[0], result=replace(runs[0].result, hosts=(slow,)))
    (row,) = set_ups([run])
    assert cost.text(row).strip() == "–"
    sentence = host_cost_text(slow)
    assert "2.06 of 4 cores" in sentence and "per Gb/s" not in sentence
    assert host_cost_text(load("a")).startswith("a: 0.60 of 4 cores busy on average, 0.10 core per")


@pytest.mark.parametrize("label", ["files", "cost", "sriov", "full"])
@pytest.mark.parametrize("width", [78, 118])
def test_comparisons_of_real_runs_are_drawn(label: str, width: int) -> None:
    """Also of commands, whose figures are others: the recipes of docs/experiments.md."""
    a, b = set_ups(kept_runs("recipes")[label])
    lines = draw_comparison(a, b, width)
    assert all(sum(cells(text) for text, _ in line) <= width for line in lines)


def test_every_figure_has_a_label_that_fits() -> None:
    assert FIGURE_LABELS.keys() == MEASURES.keys()
    assert all(0 < len(label) <= LABEL_CELLS - 3 for label in FIGURE_LABELS.values())
