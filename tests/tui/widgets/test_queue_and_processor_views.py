"""The two views of "which queue, which interrupt, which CPU", on what a real probe said of a guest under load."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from nictop.model.columns.cpus import SOFTIRQ_BOTTLENECK_SHARE
from nictop.model.snapshot import Snapshot, advance
from nictop.model.text.glyphs import ASCII, UNICODE, Glyphs
from nictop.probe.records import Interrupt, Inventory, Link, Queue
from nictop.tui.widgets.base.line_view import SpanLine
from nictop.tui.widgets.cpu.queues import draw_queues
from nictop.tui.widgets.cpu.view import draw_cpu_table, draw_heat, draw_machine, draw_spenders
from tests.support.captured import captured_lines


@pytest.fixture(scope="module")
def guest() -> Snapshot:
    """A guest whose virtio NIC sends over four queues."""
    snapshot = Snapshot.empty("alma-load-001")
    for line in captured_lines("virtio-4-queues"):
        snapshot = advance(snapshot, line)
    return snapshot


def link(snapshot: Snapshot, name: str) -> Link:
    return next(link for link in snapshot.links.values() if link.name == name)


def text(lines: list[SpanLine]) -> list[str]:
    return ["".join(part for part, _ in line) for line in lines]


def test_each_queue_names_its_interrupts_and_cpus(guest: Snapshot) -> None:
    shown = text(draw_queues(link(guest, "ens256"), guest, 120))
    rows = [line.split() for line in shown if line.split()[0] in ("0", "1", "2", "3")]
    irqs = [row[row.index("n/o") + 2 : row.index("n/o") + 4] for row in rows]
    assert irqs == [["51", "52"], ["53", "54"], ["55", "56"], ["57", "58"]]
    assert [next(cell for cell in row if "," in cell) for row in rows] == ["0,2", "1,3", "0,2", "1,3"]
    assert "channels combined 4 of 4" in shown[0]
    assert "rings rx 1024 of 1024" in shown[0]
    assert any("IRQ 50 virtio2-config" in line and "serves no queue" in line for line in shown)


def test_a_queue_is_on_the_cpu_on_which_the_view_of_cpus_has_its_interrupts(guest: Snapshot) -> None:
    """The affinity is that of the inventory, which was read before the load began."""
    host = big_host(guest, 4, 8)
    assert not any("▲" in line for line in text(draw_queues(link(host, "ens256"), host, 120)))
    assert host.rates is not None
    counted = replace(host, rates=replace(host.rates, interrupts={1001: {7: 5000.0}}))
    shown = text(draw_queues(link(counted, "ens256"), counted, 120))
    assert "▲7" in next(line for line in shown if line.split()[0] == "1").split()
    assert shown[-1].strip() == "▲: CPU that took interrupts differs from the affinity read before"


def test_a_link_without_interrupts_says_so(guest: Snapshot) -> None:
    lo = link(guest, "lo")
    assert "no interrupts of its own" in text(draw_heat(lo, guest, 80, None)[0])[1]


@pytest.mark.parametrize("width", [40, 60, 80, 120, 200])
@pytest.mark.parametrize("name", ["ens192", "ens224", "ens256", "lo"])
def test_everything_fits(guest: Snapshot, width: int, name: str) -> None:
    one = link(guest, name)
    assert guest.rates is not None
    lines = draw_queues(one, guest, width) + draw_cpu_table(guest, width)
    lines += draw_heat(one, guest, max(width, 60), None)[0] if width >= 60 else []
    assert all(len(line) <= width for line in text(lines))


def test_the_picture_has_the_interrupts_where_they_happened(guest: Snapshot) -> None:
    assert guest.rates is not None
    lines, heat = draw_heat(link(guest, "ens256"), guest, 120, None)
    assert heat is not None and [column.cpus for column in heat.columns] == [(0,), (1,), (2,), (3,)]
    row = next(line for line in text(lines) if "virtio2-output.3" in line).split()
    rate = guest.rates.interrupts[58]
    assert set(rate) == {3}
    assert float(row[-1]) == pytest.approx(rate[3], rel=0.01)
    assert row[-4:-1] == ["·", "·", "·"]


def big_host(guest: Snapshot, queues: int, cpus: int) -> Snapshot:
    """The guest with as many queues and CPUs as asked for; queue 5 goes to the last CPU, and only that one is busy."""
    assert guest.inventory is not None and guest.rates is not None
    interrupts = tuple(
        Interrupt(1000 + number, (f"virtio2-input.{number}",), "0000:03:00.0", effective_cpus=str(number % cpus))
        for number in range(queues)
    )
    nic = replace(link(guest, "ens256"), queues=tuple(Queue("rx", number) for number in range(queues)))
    links = tuple(nic if one.ifindex == nic.ifindex else one for one in guest.inventory.links)
    inventory: Inventory = replace(guest.inventory, interrupts=interrupts, links=links)
    shares = dict.fromkeys(range(cpus), guest.rates.cpus[0])
    irqs: dict[int, dict[int, float]] = {one.number: {} for one in interrupts} | {1005: {cpus - 1: 5000.0}}
    rates = replace(guest.rates, interrupts=irqs, cpus=shares, queues={}, driver={})
    return replace(guest, inventory=inventory, links={one.ifindex: one for one in links}, rates=rates)


@pytest.mark.parametrize("width", [80, 120])
@pytest.mark.parametrize("glyphs", [UNICODE, ASCII], ids=["unicode", "ascii"])
def test_the_hot_cpu_is_seen_among_128(guest: Snapshot, width: int, glyphs: Glyphs) -> None:
    host = big_host(guest, 64, 128)
    lines, heat = draw_heat(link(host, "ens256"), host, width, None, glyphs=glyphs)
    assert heat is not None
    assert (127,) in [column.cpus for column in heat.columns]
    hottest = [spans for spans in lines if "virtio2-input.5" in "".join(part for part, _ in spans)]
    assert hottest[0][-1] == (" ███" if not glyphs.is_ascii else " ###", "accent")
    assert all(len(line) <= width for line in text(lines))
    assert len(lines) == 3 + 64


def test_idle_queues_are_folded_when_there_are_many(guest: Snapshot) -> None:
    host = big_host(guest, 64, 128)
    shown = text(draw_queues(link(host, "ens256"), host, 120))
    assert any("idle: queues 0-4,6-63" in line for line in shown)
    assert [line.split()[0] for line in shown if line.split()[0].isdecimal()] == ["5"]
    unfolded = text(draw_queues(link(host, "ens256"), host, 120, unfold=True))
    assert len([line for line in unfolded if line.split()[0].isdecimal()]) == 64


def test_a_cpu_that_only_works_on_packets_is_marked(guest: Snapshot) -> None:
    assert guest.rates is not None
    hot = replace(guest.rates.cpus[1], softirq=SOFTIRQ_BOTTLENECK_SHARE + 0.05, idle=0.0)
    host = replace(guest, rates=replace(guest.rates, cpus=guest.rates.cpus | {1: hot}))
    marked = [line for line in draw_cpu_table(host, 120) if any(style == "bad" and "✖" in part for part, style in line)]
    assert [text([line])[0].split()[0] for line in marked] == ["1"]


def test_softnet_is_shown_under_the_right_heading(guest: Snapshot) -> None:
    """time_squeeze and dropped are easily taken for each other."""
    assert guest.rates is not None
    softnet = replace(guest.rates.softnet[2], dropped=11.0, time_squeeze=22.0, received_rps=33.0, flow_limit=44.0)
    host = replace(guest, rates=replace(guest.rates, softnet=guest.rates.softnet | {2: softnet}))
    lines = text(draw_cpu_table(host, 120))
    row = next(line for line in lines[2:] if line.split()[0] == "2")

    def under(title: str) -> str:
        end = lines[1].index(title) + len(title)
        return row[:end].split()[-1]

    assert (under("dropped"), under("squeezed"), under("RPS"), under("limited")) == ("11.0", "22.0", "33.0", "44.0")


def test_who_spends_it_names_threads_and_cpus(guest: Snapshot) -> None:
    shown = text(draw_spenders(guest, 120))
    assert any("ksoftirqd/3" in line and "on CPU 3" in line for line in shown)


def test_the_whole_machine_is_listed_by_rate(guest: Snapshot) -> None:
    assert guest.rates is not None
    shown = text(draw_machine(guest.rates.machine, 120))[1:]
    assert shown[0].split()[0] == "LOC"
    assert any("virtio2-output.3" in line and "CPU 3 100 %" in line for line in shown)


def test_before_the_first_rates_nothing_breaks(guest: Snapshot) -> None:
    host = replace(guest, rates=None)

    def everything() -> Iterator[SpanLine]:
        yield from draw_queues(link(host, "ens256"), host, 80)
        yield from draw_heat(link(host, "ens256"), host, 80, None)[0]
        yield from draw_cpu_table(host, 80)
        yield from draw_spenders(host, 80)

    assert any("51 52" in line for line in text(list(everything())))
