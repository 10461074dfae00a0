"""Each direction of a run has its own line rate, and every text names the right one."""

from __future__ import annotations

from dataclasses import replace

from nictop.model.devices.ceiling import Ceiling
from nictop.model.snapshot import Snapshot
from nictop.probe.records import Qdisc
from nictop.report.html.charts import run_chart
from nictop.report.runs.sentences import result_sentences
from nictop.traffic.analysis.bottleneck import bottleneck
from nictop.traffic.analysis.framing import run_ceilings, with_ceilings
from nictop.traffic.generators.intervals import Interval
from nictop.traffic.results.result import IntervalPoint, Result
from nictop.tui.widgets.traffic.chart_drawing import draw_run
from nictop.tui.widgets.traffic.viewport import Viewport
from tests.model.hosts import HELLO, inventory, make_link, snapshot_of
from tests.traffic.pictures import altered, run_view, steady
from tests.traffic.pictures import flow as drawn_flow
from tests.traffic.plans import PLAN
from tests.traffic.runs import flow, result

BOTH = replace(PLAN, direction="bidirectional")
FAST, SLOW = Ceiling(941e6, 8e4, "941 Mb/s: fast"), Ceiling(300e6, 3e4, "300 Mb/s: slow")


def shaped(name: str, ifindex: int, rate: int) -> Snapshot:
    link = make_link(ifindex, "lab0", kind="veth")
    link = replace(link, traffic_control=(Qdisc("tbf", "1:", rate=rate, limits_all=True),))
    return snapshot_of(replace(HELLO, hostname=name), inventory(links=(link,)), host=name)


def both_ways() -> Result:
    flows = (flow(0.93), flow(0.27, sender="b", receiver="a"))
    return result(plan=BOTH, flows=with_ceilings(flows, (FAST, SLOW)), ceiling=FAST)


def test_what_an_end_sends_is_limited_by_its_own_qdisc_only() -> None:
    hosts = {"a": shaped("a", 4, 500_000_000), "b": shaped("b", 5, 100_000_000)}
    there, back = run_ceilings(BOTH, hosts)
    assert "lab0 of a limited to 500 Mb/s by tbf" in there.sentence
    assert "lab0 of b limited to 100 Mb/s by tbf" in back.sentence
    assert run_ceilings(replace(BOTH, direction="reverse"), hosts) == (back,)


def test_directions_without_a_difference_share_the_ceiling() -> None:
    flows = (flow(1.0), flow(1.0, sender="b", receiver="a"))
    assert with_ceilings(flows, (FAST, FAST)) == flows


def test_each_direction_is_compared_with_its_own_line_rate() -> None:
    run = both_ways()
    assert [round(run.share_of_ceiling(one) or 0, 2) for one in run.flows] == [0.99, 0.9]
    assert run.total_ceiling == 1241e6 and round(run.of_ceiling or 0, 2) == 0.97
    assert bottleneck(run) == "line rate from a to b: 99 % of 941 Mb/s: fast"
    said = [text for kind, text in result_sentences(run) if kind in ("goodput", "ceiling")]
    assert "930 Mb/s received by b, 99 % of line rate" in said
    assert "270 Mb/s received by a, 90 % of line rate" in said
    assert "a → b: 941 Mb/s: fast" in said and "b → a: 300 Mb/s: slow" in said


def test_the_chart_has_each_line_in_the_plot_of_its_direction() -> None:
    flows = (drawn_flow(steady(0.5e9)), drawn_flow(steady(0.1e9), back=True))
    view = altered(run_view(*flows, hosts=()), flows=with_ceilings(flows, (FAST, SLOW)))
    view = altered(view, ceiling=FAST)
    rows = ["".join(text for text, _ in line) for line in draw_run(view, Viewport(), 80, 15)]
    assert "line rate a → b 941 Mb/s, b → a 300 Mb/s" in rows[1]
    lines = [number for number, row in enumerate(rows[2:]) if "┄" in row[6:]]
    assert lines[0] == 0 and len(lines) == 2, "at the top of the first, at the foot of the second"


def test_the_report_has_a_line_for_each_direction() -> None:
    run = both_ways()
    points = (IntervalPoint(1.0, Interval(0.0, 1.0, 1e8, False)),)
    run = replace(run, flows=tuple(replace(one, points=points) for one in run.flows))
    chart = run_chart(run)
    assert "dashed line: line rate b → a 300 Mb/s" in chart
    assert "line rate a → b 941 Mb/s: above the chart" in chart
