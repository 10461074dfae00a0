"""Pictures of the traffic screens: literal hosts and results, drawn as nictop draws them; see test_screenshots."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace
from pathlib import Path
from statistics import NormalDist

import pytest

from nictop.probe.records import Address, Ethtool, Line, LinkSettings, TrafficLine, TrafficTools
from nictop.probe.traffic.builtin.latency_buckets import bucket_of
from nictop.traffic.analysis.cpu_load import Busy
from nictop.traffic.analysis.path_proof import PathProof
from nictop.traffic.generators.intervals import Interval
from nictop.traffic.generators.latency import LatencyHistogram, LatencySummary, merged
from nictop.traffic.results.result import IntervalPoint, Result
from nictop.traffic.results.selection import StoredRun, save_run
from nictop.traffic.results.transactions import TransactionFigures, TransactionPoint
from nictop.tui.screens.traffic.results import StoredRunScreen
from nictop.tui.widgets.status.status_line import StatusLine
from nictop.tui.widgets.traffic.results_list import SetUpList
from tests.support.lines import counters, hello, inventory, link
from tests.support.screen import NARROW, WIDE, Screen, ScriptedHosts, screen_with_hosts, wait_until
from tests.traffic.analysis.test_loaded import SOCKETS, loaded
from tests.traffic.plans import tools
from tests.traffic.runs import flow, load, result
from tests.tui.screens.test_screenshots import compare, without_ids

SIZES = {"120x36": WIDE, "80x24": NARROW}
SECONDS = 20


def host(boot: str, number: int, mtu: int) -> list[Line]:
    """A guest with a NIC in the network of the test."""
    line = hello()
    assert line.hello is not None
    settings = LinkSettings(speed=10_000, duplex="full", autonegotiation=False, port="fibre", transceiver=None)
    nic = link(
        2,
        "ens224",
        bus="pci",
        mtu=mtu,
        addresses=(Address("ipv4", f"192.0.2.{number}", 24, "global", ()),),
        ethtool=Ethtool(settings=settings),
    )
    return [replace(line, hello=replace(line.hello, boot_id=boot)), inventory(nic), counters(1.0, {2: (0, 0)})]


async def both(screen: Screen, hosts: ScriptedHosts) -> None:
    hosts["vm1"].send(*host("b1", 1, 1500))
    hosts["vm2"].send(*host("b2", 2, 9000))
    await wait_until(screen, lambda: all(one.snapshot.inventory for one in screen.nictop.hosts.sessions))
    await wait_until(screen, lambda: screen.nictop.diagnosis.result is not None and not screen.nictop.hosts.pending)


async def open_stored_run(screen: Screen, hosts: ScriptedHosts) -> None:
    """Results, the first run of the list."""
    await both(screen, hosts)
    await screen.press("7")
    await wait_until(screen, lambda: screen.app.screen.query_one(SetUpList).chosen is not None)
    await screen.press("enter")
    await wait_until(screen, lambda: isinstance(screen.app.screen, StoredRunScreen))
    await screen.settle()


async def answer(screen: Screen, hosts: ScriptedHosts, known: TrafficTools) -> None:
    """Each probe tells its generators when it is asked."""
    for name in ("vm1", "vm2"):
        await wait_until(screen, lambda name=name: any(one.traffic for one in hosts[name].requests))  # type: ignore[misc]
        asked = next(one.traffic for one in hosts[name].requests if one.traffic)
        hosts[name].send(Line(traffic=TrafficLine(1.0, asked.id, "tools", tools=known)))
    await wait_until(screen, lambda: "checking iperf3" not in "\n".join(screen.drawn()))


def moving(busy: float) -> tuple[Busy, ...]:
    """About so many cores, second by second."""
    shares = [busy * (1 + 0.1 * math.sin(second)) for second in range(1, SECONDS + 1)]
    return tuple(
        Busy(float(second), 0.1 * share, 0.4 * share, 0.0, 0.5 * share, 0.0, 0.0, 4, 2, min(1.0, share), share / 2)
        for second, share in enumerate(shares, 1)
    )


def measured(gigabits: float, busy: float) -> Result:
    """A run of twenty seconds whose goodput and CPU move a little."""
    points = []
    for number in range(2 * SECONDS):
        rate = gigabits * 1e9 * (1 - 0.04 * abs(math.sin(number * 0.7)) - (0.3 if number == 0 else 0.0))
        end = (number + 1) / 2
        points.append(IntervalPoint(end, Interval(end - 0.5, end, rate, sends=False)))
    made = result(gigabits)
    plan = replace(made.plan, time=SECONDS, client=replace(made.plan.client, host="vm1"))
    plan = replace(plan, server=replace(plan.server, host="vm2"))
    return replace(
        made,
        plan=plan,
        flows=(flow(gigabits, sender="vm1", receiver="vm2", points=tuple(points)),),
        hosts=(load("vm1", series=moving(busy / 2)), load("vm2", "server", series=moving(busy))),
        proof=PathProof("proven", "vm1: ens224 carried it; vm2: ens224 carried it"),
        facts={**made.facts, "client nic": "ens224", "server nic": "ens224"},
        bottleneck="the receiver's CPU 2 is full of softirq: one queue carries everything",
    )


@pytest.fixture(autouse=True)
def no_cost(monkeypatch: pytest.MonkeyPatch) -> None:
    """The status line has no CPU time of nictop in it, however long the test takes."""
    monkeypatch.setattr(StatusLine, "COST_EVERY", 3600.0)


@pytest.fixture
def stored_results(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Five runs of each of two set-ups."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    for group, value, gigabits in (("A", "1", 5.7), ("B", "4", 9.3)):
        for number in range(5):
            made = replace(measured(gigabits - 0.05 * number, 0.9), wall=1_790_000_000.0 + 60 * number)
            place = 2 * number + (group == "B") + 1
            identity = f"5d0c77aa{place:02d}"
            run = StoredRun(identity, "5d0c77aa", made, made.wall, "0", "compare", "lab", group, "queues", value, place)
            save_run(run, tmp_path / "nictop" / "runs")


def latencies(second: int) -> LatencyHistogram:
    """Of 6000 transactions around 52 µs, with more than a millisecond now and then."""
    counts: Counter[int] = Counter()
    for number in range(6000):
        latency = 52_000 * math.exp(0.12 * NormalDist().inv_cdf((number + 0.5) / 6000))
        counts[bucket_of(round(latency))] += 1
    counts.update(bucket_of(100_000 * late) for late in range(3, 12 + 9 * (second % 4)))
    return LatencyHistogram(dict(counts), 52_000 * counts.total())


def measured_latency() -> Result:
    """A test of requests and responses of twenty seconds."""
    made = measured(1.0, 0.9)
    plan = replace(made.plan, test="rr", generator="builtin")
    each = [latencies(second) for second in range(SECONDS)]
    points = tuple(TransactionPoint(end, 1.0, 0, one.summary()) for end, one in enumerate(each, 1))
    return replace(
        made,
        plan=plan,
        flows=(),
        ceiling=None,
        hosts=tuple(replace(one, per_gigabit=None, per_transaction=0.6 / 6000) for one in made.hosts),
        transactions=TransactionFigures(float(SECONDS), merged(each), points=points),
        bottleneck="not determined; possible: network between the hosts, interrupt coalescing",
    )


def measured_under_load() -> Result:
    """Ten seconds idle, two in which the bulk flow rises, ten under load: a full queue in front of 100 Mb/s."""
    made, begun = measured(0.0941, 0.9), 10.5
    points, arrived = [], []
    for number in range(1, 46):
        end = number / 2
        median = 310e-6 if end <= begun else 48e-3 * min(1.0, (end - begun) / 1.5)
        spread = 1 + 0.1 * math.sin(2.3 * number)
        summary = LatencySummary(100, median / 2, median, median, 1.1 * median * spread, 1.3 * median * spread, None)
        points.append(TransactionPoint(end, 0.5, 0, replace(summary, maximum=1.5 * median * spread)))
        if end > begun:
            arrived.append(IntervalPoint(end, Interval(end - 0.5, end, 94.1e6, sends=False)))
    return loaded(
        plan=replace(made.plan, test="loaded", time=10),
        flows=(flow(0.0941, sender="vm1", receiver="vm2", points=tuple(arrived)),),
        sockets=(replace(SOCKETS, host="vm1"),),
        hosts=made.hosts,
        proof=made.proof,
        facts=made.facts,
        bottleneck="qdisc tbf rate 100Mbit of ens224 on vm1: sends at most 100 Mb/s, headers included",
        points=tuple(points),
    )


@pytest.fixture
def stored_run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    """One run, with the result that the parameter makes."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    run = StoredRun("5d0c77aa01", "5d0c77aa", request.param(), 1_790_000_000.0, "0")
    save_run(run, tmp_path / "nictop" / "runs")


def picture(screen: Screen) -> str:
    screen.app.clear_notifications()
    return without_ids(screen.app.export_screenshot(title="nictop", simplify=True))


@pytest.mark.parametrize("name", SIZES)
async def test_the_form_looks_like_its_picture(name: str) -> None:
    async with screen_with_hosts("vm1", "vm2", size=SIZES[name]) as (screen, hosts):
        await both(screen, hosts)
        await screen.press("6")
        await answer(screen, hosts, tools())
        await screen.press("tab", "down", "down", "down", "down", "4")
        await screen.settle()
        compare(f"traffic-form-{name}", picture(screen))


@pytest.mark.parametrize("name", SIZES)
@pytest.mark.usefixtures("stored_results")
async def test_a_run_and_a_comparison_look_like_their_pictures(name: str) -> None:
    async with screen_with_hosts("vm1", "vm2", size=SIZES[name]) as (screen, hosts):
        await open_stored_run(screen, hosts)
        compare(f"traffic-run-{name}", picture(screen))
        await screen.press("escape", "m", "down", "m")
        await screen.settle()
        compare(f"traffic-comparison-{name}", picture(screen))


@pytest.mark.parametrize("name", SIZES)
@pytest.mark.parametrize("stored_run", [measured_under_load], indirect=True, ids=[""])
@pytest.mark.usefixtures("stored_run")
async def test_a_loaded_run_looks_like_its_picture(name: str) -> None:
    async with screen_with_hosts("vm1", "vm2", size=SIZES[name]) as (screen, hosts):
        await open_stored_run(screen, hosts)
        compare(f"traffic-loaded-{name}", picture(screen))


@pytest.mark.parametrize("name", SIZES)
@pytest.mark.parametrize("stored_run", [measured_latency], indirect=True, ids=[""])
@pytest.mark.usefixtures("stored_run")
async def test_a_latency_run_looks_like_its_pictures(name: str) -> None:
    """On a narrow screen the histogram takes the place of the chart."""
    async with screen_with_hosts("vm1", "vm2", size=SIZES[name]) as (screen, hosts):
        await open_stored_run(screen, hosts)
        compare(f"traffic-latency-{name}", picture(screen))
        if name == "80x24":
            await screen.press("o", "enter")
            await screen.settle()
            compare(f"traffic-histogram-{name}", picture(screen))
