"""The view of CPUs: what every CPU does, what it does for the chosen NIC, and which threads use
it."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from nictop.model.columns.cpus import SOFTIRQ_BOTTLENECK_SHARE
from nictop.model.queues.cpu_consumers import cpu_consumers
from nictop.model.queues.map import queue_map
from nictop.model.queues.trends import Trends
from nictop.model.rates.links import Rates
from nictop.model.rates.load import ThreadShare
from nictop.model.snapshot import Snapshot
from nictop.model.text.glyphs import ASCII, UNICODE, Glyphs
from nictop.probe.records import Thread
from nictop.tui.widgets.cpu.cpu_block import draw_cpu_map, draw_cpu_table
from nictop.tui.widgets.cpu.interrupts import draw_machine, draw_vectors, link_interrupts
from nictop.tui.widgets.cpu.nic_view import NicPage
from nictop.tui.widgets.cpu.strip import SATURATED
from nictop.tui.widgets.cpu.threads import draw_threads
from nictop.tui.widgets.cpu.view import CpuView, draw_cpus
from tests.support.captured import captured_lines
from tests.support.screen import live_screen
from tests.tui.widgets.cpu.guest import big_host, cpu_trends, link_of, loaded_guest, shares, text

SIZES = [(80, 18), (120, 28), (200, 42), (60, 12), (40, 6)]


def drawn(width: int, height: int, *, selected: int = 3, glyphs: Glyphs = UNICODE) -> NicPage:
    guest, parts = loaded_guest()
    return draw_cpus(
        link_of(guest),
        guest,
        width,
        height,
        cpu_trends(parts),
        selected=selected,
        glyphs=glyphs,
        queue_map=queue_map(link_of(guest), guest),
    )


def table(
    snapshot: Snapshot, width: int, parts: tuple[Rates, ...] = (), end: str = "now"
) -> list[str]:
    block = draw_cpu_table(
        snapshot.rates, None, cpu_trends(parts), width=width, height=20, selected=None, end=end
    )
    return text(block.lines)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("cpus", [4, 16, 128])
@pytest.mark.parametrize("glyphs", [UNICODE, ASCII], ids=["unicode", "ascii"])
def test_everything_fits(size: tuple[int, int], cpus: int, glyphs: Glyphs) -> None:
    nodes = {0: f"0-{cpus // 2 - 1}", 1: f"{cpus // 2}-{cpus - 1}"}
    host = loaded_guest()[0] if cpus == 4 else big_host(12, cpus, nodes)
    assert host.rates is not None
    page = draw_cpus(
        link_of(host),
        host,
        *size,
        cpu_trends((replace(host.rates, elapsed=60.0),)),
        selected=3,
        glyphs=glyphs,
        queue_map=queue_map(link_of(host), host),
    )
    shown = text(page.lines)
    assert [line for line in shown if len(glyphs.encode(line)) > size[0]] == []
    if glyphs.is_ascii:
        assert "\\u" not in "".join(map(glyphs.encode, shown)), "a character without an ASCII form"


@pytest.mark.parametrize("size", SIZES)
def test_the_selected_cpu_is_in_sight(size: tuple[int, int]) -> None:
    for selected in range(4):
        page = drawn(*size, selected=selected)
        assert page.cursor is not None and page.cursor < size[1]
        assert text(page.lines)[page.cursor].split()[0] == str(selected)
        assert page.targets[page.cursor] == [(0, str(selected))]


def test_the_first_line_has_the_nic_and_its_interrupts() -> None:
    assert (
        text(drawn(80, 18).lines)[0].strip()
        == "ens256 ◂▸ virtio_net · 9 interrupts · 130/s on 4 CPUs"
    )


def test_80_columns_have_times_interrupts_packets_and_the_last_minute() -> None:
    lines = text(drawn(80, 18).lines)
    assert lines[1].split() == [
        "CPU", "busy", "user", "sys", "irq", "soft", "steal", "IRQ/s", "net", "pkt/s", "sqz",
        "drop", "-60", "s", "now",
    ]  # fmt: skip
    assert lines[5].split()[:11] == ["3", "3%", "1", "1", "0", "1", "0", "40.0", "0", "0", "0"]
    assert "sqz   drop" in text(drawn(79, 18).lines)[1], "also beside a scroll bar"


def test_in_the_past_the_last_minute_has_its_end_where_there_is_room() -> None:
    guest, parts = loaded_guest()
    assert table(guest, 80, parts, "14:03:20")[0].endswith("drop  last 60 s")
    assert re.search(r"  -60 s .* 14:03:20$", table(guest, 120, parts, "14:03:20")[0])


def test_the_last_minute_shows_where_a_cpu_was_saturated() -> None:
    guest, parts = loaded_guest()
    hot = replace(
        parts[-1], elapsed=30.0, cpus=parts[-1].cpus | {2: shares(softirq=SATURATED + 0.1)}
    )
    calm = replace(parts[-1], elapsed=30.0, cpus=parts[-1].cpus | {2: shares(user=0.1)})
    block = draw_cpu_table(
        guest.rates, None, cpu_trends((hot, calm)), width=121, height=20, selected=None
    )
    strip = [span for span in block.lines[3][-2:] if span[0].strip()]
    assert [style for _, style in strip] == ["bad", "in"]
    assert strip[0][0] == UNICODE.levels[-1] * len(strip[0][0])
    assert len(strip[0][0]) == len(strip[1][0])


def test_the_interrupts_of_the_selected_cpu() -> None:
    guest, _ = loaded_guest()
    link = link_of(guest)
    loads = link_interrupts(queue_map(link, guest))
    shown = text(draw_vectors(link, loads, 3, 60))
    assert shown[0].startswith(" ── interrupts/s of ens256 on CPU 3 ")
    assert [line.split()[:5] for line in shown[1:]] == [
        ["54:", "tx", "1", "virtio2-output.1", "17.0"],
        ["58:", "tx", "3", "virtio2-output.3", "23.0"],
    ]
    assert shown[2].count("█") > shown[1].count("█") > 0


def test_an_interrupt_that_may_come_keeps_its_line() -> None:
    """Otherwise all below it would move whenever it does not count."""
    guest, _ = loaded_guest()
    assert guest.rates is not None
    link = link_of(guest)
    quiet = replace(guest, rates=replace(guest.rates, interrupts=guest.rates.interrupts | {58: {}}))
    shown = text(draw_vectors(link, link_interrupts(queue_map(link, quiet)), 3, 60))
    assert shown[2].split()[1:5] == ["tx", "3", "virtio2-output.3", "0"]


def test_links_without_interrupts_and_rows_without_a_link_say_so() -> None:
    guest, parts = loaded_guest()
    lo = link_of(guest, "lo")
    assert text(draw_vectors(lo, (), 0, 80))[1].strip() == "no dedicated interrupts"
    assert (
        "no dedicated interrupts"
        in text(
            draw_cpus(lo, guest, 80, 18, cpu_trends(parts), queue_map=queue_map(lo, guest)).lines
        )[0]
    )
    lines = text(draw_cpus(None, guest, 80, 18, cpu_trends(parts), queue_map=None).lines)
    assert any("Press ← → to choose an interface" in line for line in lines)
    assert lines[2].split()[7] == "–", "no NIC, so its interrupts are not known"


def test_the_matrix_has_every_interrupt_and_a_labelled_sum() -> None:
    guest, _ = loaded_guest()
    assert guest.rates is not None
    lines = text(drawn(80, 18).lines)
    at = next(index for index, line in enumerate(lines) if "interrupt × CPU" in line)
    assert lines[at + 1].split() == ["all", "CPU", "0", "CPU", "1", "CPU", "2", "CPU", "3"]
    row = next(line for line in lines[at:] if "virtio2-output.3" in line).split()
    assert row[4:] == ["23.0", "·", "·", "·", "▇", "23.0"]
    assert len([line for line in lines[at + 2 :] if "virtio2-" in line]) == 9
    assert lines[-1].split()[:2] == ["all", "130"]


def test_large_screens_have_no_empty_half() -> None:
    for width, height in ((120, 28), (200, 42)):
        lines = text(drawn(width, height).lines)
        assert height - 2 <= len(lines) <= height
        assert any("CPU busy: last 60 s (means)" in line for line in lines)


# ---------------------------------------------------------------------------------------- many CPUs


def big_map(
    glyphs: Glyphs = UNICODE, *, has_colors: bool = True, height: int = 30
) -> tuple[list[str], set[str]]:
    host = big_host(8, 128, {0: "0-63", 1: "64-127"})
    assert host.rates is not None
    part = replace(host.rates, elapsed=60.0, cpus=host.rates.cpus | {70: shares(softirq=1.0)})
    block = draw_cpu_map(
        host,
        None,
        cpu_trends((part,)),
        width=120,
        height=height,
        selected=70,
        has_colors=has_colors,
        glyphs=glyphs,
    )
    return text(block.lines), {style for line in block.lines for _, style in line}


def test_more_than_32_cpus_are_a_heat_map_with_two_cpus_in_a_line() -> None:
    host = big_host(8, 33)
    lines = text(
        draw_cpus(
            link_of(host),
            host,
            120,
            28,
            Trends[int](),
            selected=3,
            queue_map=queue_map(link_of(host), host),
        ).lines
    )
    assert any("last 60 s of 33 CPUs, 2 in each line" in line for line in lines)
    assert not any("last 60 s of" in line for line in text(drawn(120, 28).lines))
    lines, styles = big_map()
    assert any("▸  70-71 ▀▀" in line for line in lines)
    assert "heat4 heat2" in styles, "CPU 70 saturated above CPU 71 at 30 %"


def test_the_heat_map_names_the_numa_nodes() -> None:
    lines, _ = big_map()
    assert sum("node 0" in line for line in lines) == sum("node 1" in line for line in lines) == 1


@pytest.mark.parametrize(
    ("glyphs", "has_colors"), [(ASCII, True), (UNICODE, False)], ids=["ascii", "no colours"]
)
def test_without_colours_the_heat_map_has_the_busier_of_both(
    glyphs: Glyphs, has_colors: bool
) -> None:
    lines, styles = big_map(glyphs, has_colors=has_colors)
    assert not any("▀" in line for line in lines) and not any(" " in style for style in styles)
    assert any(f"70-71 {glyphs.levels[-1] * 5}" in line for line in lines)


def test_a_heat_map_with_little_room_combines_more_cpus() -> None:
    lines, _ = big_map(height=12)
    assert len(lines) <= 12
    assert "4 in each line" in lines[2] or "8 in each line" in lines[2]


@pytest.mark.parametrize("width", [80, 120])
@pytest.mark.parametrize("glyphs", [UNICODE, ASCII], ids=["unicode", "ascii"])
def test_the_hot_cpu_is_seen_among_128(width: int, glyphs: Glyphs) -> None:
    host = big_host(64, 128)
    page = draw_cpus(
        link_of(host),
        host,
        width,
        28,
        Trends[int](),
        selected=0,
        glyphs=glyphs,
        queue_map=queue_map(link_of(host), host),
    )
    assert page.heat is not None and (127,) in [column.cpus for column in page.heat.columns]
    hottest = [
        spans for spans in page.lines if "virtio2-input.5 " in "".join(part for part, _ in spans)
    ][-1]
    assert (f" {glyphs.heat[-1] * 3}", "title") in hottest
    assert hottest[-1][0].split() == ["CPU", "127", "5.00", "k"]


# ---------------------------------------------------------------------------- the table of all CPUs


def test_a_cpu_that_only_works_on_packets_is_marked() -> None:
    guest, _ = loaded_guest()
    assert guest.rates is not None
    hot = replace(guest.rates.cpus[1], softirq=SOFTIRQ_BOTTLENECK_SHARE + 0.05, idle=0.0)
    host = replace(guest, rates=replace(guest.rates, cpus=guest.rates.cpus | {1: hot}))
    marked = [line for line in table(host, 120) if "✖" in line]
    assert [line.split()[0] for line in marked] == ["1"]


def test_softnet_is_shown_under_the_right_heading() -> None:
    """time_squeeze and dropped are easily taken for each other."""
    guest, _ = loaded_guest()
    assert guest.rates is not None
    softnet = replace(
        guest.rates.softnet[2], dropped=11.0, time_squeeze=22.0, received_rps=33.0, flow_limit=44.0
    )
    host = replace(guest, rates=replace(guest.rates, softnet=guest.rates.softnet | {2: softnet}))
    lines = table(host, 200)
    row = next(line for line in lines[1:] if line.split()[0] == "2")

    def under(title: str) -> str:
        end = lines[0].index(title) + len(title)
        return row[:end].split()[-1]

    assert (under("drop"), under("sqz"), under("RPS"), under("limited")) == (
        "11.0",
        "22.0",
        "33.0",
        "44.0",
    )


@pytest.mark.parametrize("size", SIZES)
def test_without_rates_or_without_those_of_cpus_it_says_so(size: tuple[int, int]) -> None:
    """Between two readings no tick may have passed."""
    guest, parts = loaded_guest()
    assert guest.rates is not None
    for rates in (None, replace(guest.rates, cpus={})):
        host = replace(guest, rates=rates)
        lines = text(
            draw_cpus(
                link_of(host),
                host,
                *size,
                cpu_trends(parts),
                queue_map=queue_map(link_of(host), host),
            ).lines
        )
        assert any("no rates yet" in line for line in lines)


# -------------------------------------------------------------------------- threads, all interrupts


def test_threads_name_cpus_and_load() -> None:
    guest, _ = loaded_guest()
    shown = text(draw_threads(guest, 120, one_per_line=True))
    assert shown[0].startswith(" ── Top network threads ")
    assert any("ksoftirqd/3" in line and "on CPU 3" in line for line in shown)


def test_a_thread_with_more_time_than_its_cpu_is_explained() -> None:
    """The kernel counts the time of a thread exactly and that of a CPU at timer ticks."""
    guest, _ = loaded_guest()
    assert guest.rates is not None
    thread = next(one for one in cpu_consumers(guest) if one.name == "ksoftirqd/3")
    for excess, says in ((0.1, True), (0.0, False), (-0.1, False)):
        share = guest.rates.cpus[3].busy + excess
        threads = {thread.pid: ThreadShare(0.0, share, 3)}
        host = replace(guest, rates=replace(guest.rates, threads=threads))
        title = text(draw_threads(host, 42, one_per_line=True))[0]
        assert title.rstrip(" ─") == " ── Top network threads" + " (busy is sampled)" * says


@pytest.mark.parametrize("one_per_line", [True, False])
def test_threads_take_the_same_lines_whoever_is_busy(one_per_line: bool) -> None:
    guest, _ = loaded_guest()
    assert guest.rates is not None
    consumers = cpu_consumers(guest)
    heights = set()
    for busy in range(len(consumers) + 1):
        threads = {
            one.pid: ThreadShare(0.0, 0.5 if number < busy else 0.0, 0)
            for number, one in enumerate(consumers)
        }
        host = replace(guest, rates=replace(guest.rates, threads=threads))
        heights.add(len(draw_threads(host, 80, one_per_line=one_per_line)))
    assert len(heights) == 1


def test_a_virtual_machine_is_not_called_a_network_thread() -> None:
    guest, _ = loaded_guest()
    assert guest.inventory is not None and guest.rates is not None
    vm = Thread(81, 81, "CPU 0/TCG", "vcpu", "web1")
    rates = replace(guest.rates, threads={81: ThreadShare(0.5, 0.05, 1)})
    alone = replace(guest, inventory=replace(guest.inventory, threads=(vm,)), rates=rates)
    title, line = text(draw_threads(alone, 80, one_per_line=False))
    assert title.startswith(" ── Top virtual machines ──") and line.strip() == "VM web1 55 %"
    several = (*guest.inventory.threads, vm)
    both = replace(guest, inventory=replace(guest.inventory, threads=several), rates=rates)
    title = text(draw_threads(both, 80, one_per_line=True))[0]
    assert title.startswith(" ── Top network threads, virtual machines ──")


def test_idle_threads_are_counted() -> None:
    guest, _ = loaded_guest()
    assert guest.rates is not None
    idle = replace(guest, rates=replace(guest.rates, threads={}))
    assert text(draw_threads(idle, 80, one_per_line=False))[1].strip() == "4 threads, all idle"


def test_all_interrupts_of_the_host_are_listed_by_rate() -> None:
    guest, _ = loaded_guest()
    assert guest.rates is not None
    shown = text(draw_machine(guest.rates.machine, 120))[1:]
    assert shown[0].split()[0] == "LOC"
    assert any("virtio2-output.3" in line and "CPU 3 100 %" in line for line in shown)


# --------------------------------------------------------------------------------------- the widget


async def test_keys_and_clicks_select_a_cpu_and_another_nic() -> None:
    async with live_screen() as screen:
        await screen.receive(*captured_lines("virtio-4-queues"))
        await screen.press("right", "right", "3")
        view = screen.app.screen.query_one(CpuView)
        assert any("on CPU 3 " in line for line in screen.lines(CpuView)), (
            "it takes most interrupts"
        )
        await screen.press("up")
        assert any("on CPU 2 " in line for line in screen.lines(CpuView))
        top = view.region.y
        await screen.pilot.click(offset=(10, top + 2))
        assert any("on CPU 0 " in line for line in screen.lines(CpuView))
        await screen.pilot.click(offset=(8, top))
        assert any("interrupts/s of ens224 on CPU 0" in line for line in screen.lines(CpuView))


async def test_half_blocks_have_two_colours() -> None:
    async with live_screen() as screen:
        view = screen.app.screen.query_one(CpuView)
        style = view._style("heat4 heat0")
        assert (
            style.color == view._style("heat4").color
            and style.bgcolor == view._style("heat0").color
        )
        assert style.color != style.bgcolor
        colors = [view._style(f"heat{number}").color for number in range(5)]
        assert len(set(colors)) == 5
