"""Pictures of the traffic screens: real results (`tests.support.kept_runs`) beside captured guests;
see test_screenshots. Only the form, which has no result, is that of literal hosts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from nictop.probe.records import Address, Ethtool, Line, LinkSettings, TrafficLine, TrafficTools
from nictop.traffic.results.selection import StoredRun, save_run
from nictop.tui.screens.traffic.results import StoredRunScreen
from nictop.tui.widgets.status.status_line import StatusLine
from nictop.tui.widgets.traffic.results_list import SetUpList
from tests.support.captured import captured_lines
from tests.support.kept_runs import demo_runs, kept_runs
from tests.support.lines import counters, hello, inventory, link
from tests.support.picture import picture_of
from tests.support.screen import NARROW, WIDE, Screen, ScriptedHosts, screen_with_hosts, wait_until
from tests.traffic.plans import tools
from tests.tui.screens.test_screenshots import compare

SIZES = {"120x36": WIDE, "80x24": NARROW}
GUESTS = {"alma-load-001": "igb-vfs-vmxnet3-virtio", "alma-load-002": "virtio-4-queues"}
"""Name → what its probe said."""


def host(boot: str, number: int, mtu: int) -> list[Line]:
    """A guest with a NIC in the network of the test."""
    line = hello()
    assert line.hello is not None
    settings = LinkSettings(
        speed=10_000, duplex="full", autonegotiation=False, port="fibre", transceiver=None
    )
    nic = link(
        2,
        "ens224",
        bus="pci",
        mtu=mtu,
        addresses=(Address("ipv4", f"192.0.2.{number}", 24, "global", ()),),
        ethtool=Ethtool(settings=settings),
    )
    return [
        replace(line, hello=replace(line.hello, boot_id=boot)),
        inventory(nic),
        counters(1.0, {2: (0, 0)}),
    ]


async def both(screen: Screen, hosts: ScriptedHosts) -> None:
    hosts["vm1"].send(*host("b1", 1, 1500))
    hosts["vm2"].send(*host("b2", 2, 9000))
    await wait_until(
        screen, lambda: all(one.snapshot.inventory for one in screen.nictop.hosts.sessions)
    )
    await wait_until(
        screen,
        lambda: screen.nictop.diagnosis.result is not None and not screen.nictop.hosts.pending,
    )


async def open_results(screen: Screen, hosts: ScriptedHosts, guests: Mapping[str, str]) -> None:
    """Results, beside guests that were captured."""
    for name, recording in guests.items():
        hosts[name].send(*captured_lines(recording))
    await wait_until(
        screen,
        lambda: screen.nictop.diagnosis.result is not None and not screen.nictop.hosts.pending,
    )
    await screen.press("7")
    await wait_until(screen, lambda: screen.app.screen.query_one(SetUpList).chosen is not None)
    await screen.settle()


async def open_stored_run(screen: Screen, hosts: ScriptedHosts, guests: Mapping[str, str]) -> None:
    """The first run of the results."""
    await open_results(screen, hosts, guests)
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


@pytest.fixture(autouse=True)
def no_cost(monkeypatch: pytest.MonkeyPatch) -> None:
    """The status line has no CPU time of nictop in it, however long the test takes."""
    monkeypatch.setattr(StatusLine, "COST_EVERY", 3600.0)


@pytest.fixture
def stored_runs(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """The runs that the parameter gives are those of the user."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    for run in request.param():
        save_run(run, tmp_path / "nictop" / "runs")


def picture(screen: Screen) -> str:
    screen.app.clear_notifications()
    return picture_of(screen.app)


@pytest.mark.parametrize("name", SIZES)
async def test_the_form_looks_like_its_picture(name: str) -> None:
    async with screen_with_hosts("vm1", "vm2", size=SIZES[name]) as (screen, hosts):
        await both(screen, hosts)
        await screen.press("6")
        await answer(screen, hosts, tools())
        await screen.press("tab", "down", "down", "down", "down", "4")
        await screen.settle()
        compare(f"traffic-form-{name}", picture(screen))


def kept(archive: str, label: str) -> Callable[[], Sequence[StoredRun]]:
    return lambda: kept_runs(archive)[label]


@pytest.mark.parametrize("name", SIZES)
@pytest.mark.parametrize("stored_runs", [lambda: demo_runs()[:1]], indirect=True, ids=[""])
@pytest.mark.usefixtures("stored_runs")
async def test_a_run_looks_like_its_picture(name: str) -> None:
    """That of the demo, measured between two guests."""
    async with screen_with_hosts(*GUESTS, size=SIZES[name]) as (screen, hosts):
        await open_stored_run(screen, hosts, GUESTS)
        compare(f"traffic-run-{name}", picture(screen))


@pytest.mark.parametrize("name", SIZES)
@pytest.mark.parametrize("stored_runs", [kept("lab", "queues")], indirect=True, ids=[""])
@pytest.mark.usefixtures("stored_runs")
async def test_a_comparison_looks_like_its_picture(name: str) -> None:
    """The two set-ups of the chosen comparison are compared without a mark."""
    async with screen_with_hosts(*GUESTS, size=SIZES[name]) as (screen, hosts):
        await open_results(screen, hosts, GUESTS)
        compare(f"traffic-comparison-{name}", picture(screen))


@pytest.mark.parametrize("name", SIZES)
@pytest.mark.parametrize(
    "stored_runs", [kept("self-test", "self-test-loaded")], indirect=True, ids=[""]
)
@pytest.mark.usefixtures("stored_runs")
async def test_a_loaded_run_looks_like_its_picture(name: str) -> None:
    async with screen_with_hosts(*GUESTS, size=SIZES[name]) as (screen, hosts):
        await open_stored_run(screen, hosts, GUESTS)
        compare(f"traffic-loaded-{name}", picture(screen))


@pytest.mark.parametrize("name", SIZES)
@pytest.mark.parametrize(
    "stored_runs", [kept("self-test", "self-test-rr")], indirect=True, ids=[""]
)
@pytest.mark.usefixtures("stored_runs")
async def test_a_latency_run_looks_like_its_pictures(name: str) -> None:
    """On a narrow screen the histogram takes the place of the chart."""
    async with screen_with_hosts(*GUESTS, size=SIZES[name]) as (screen, hosts):
        await open_stored_run(screen, hosts, GUESTS)
        compare(f"traffic-latency-{name}", picture(screen))
        if name == "80x24":
            await screen.press("o", "enter")
            await screen.settle()
            compare(f"traffic-histogram-{name}", picture(screen))
