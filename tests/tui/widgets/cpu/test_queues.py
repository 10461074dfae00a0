"""The view of queues: which queue, which interrupt and which CPU carry the load of the chosen
NIC."""

from __future__ import annotations

from dataclasses import replace

import pytest

from nictop.model.queues.map import QueueMap, queue_map
from nictop.model.snapshot import Snapshot
from nictop.model.text.glyphs import ASCII, UNICODE, Glyphs
from nictop.probe.records import Link, Queue
from nictop.rules import Fix
from nictop.rules.queue_advice import QueueAdvice
from nictop.tui.screens.live.screen import LiveScreen
from nictop.tui.widgets.cpu.nic_view import NicPage
from nictop.tui.widgets.cpu.queue_table import table_columns
from nictop.tui.widgets.cpu.queues import QueueView, draw_queues
from nictop.tui.widgets.devices.table import DeviceTable
from nictop.tui.widgets.devices.view import netdev_of
from tests.support.captured import captured_lines
from tests.support.findings import commands
from tests.support.screen import live_screen
from tests.tui.widgets.cpu.guest import big_host, link_of, loaded_guest, queue_trends, text

SIZES = [(80, 18), (120, 28), (200, 42), (60, 12), (40, 6)]


def drawn(
    width: int, height: int, name: str = "ens256", selected: int = 3, glyphs: Glyphs = UNICODE
) -> NicPage:
    guest, parts = loaded_guest()
    link = link_of(guest, name)
    return draw_queues(
        link,
        guest,
        width,
        height,
        queue_trends(link, guest, parts),
        selected=selected,
        glyphs=glyphs,
        queue_map=queue_map(link, guest),
    )


def row_of(lines: list[str], queue: str) -> list[str]:
    return next(line.split() for line in lines[2:] if line.split()[0] == queue)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("name", ["ens192", "ens224", "ens256", "lo"])
@pytest.mark.parametrize("glyphs", [UNICODE, ASCII], ids=["unicode", "ascii"])
def test_everything_fits(size: tuple[int, int], name: str, glyphs: Glyphs) -> None:
    shown = text(drawn(*size, name, glyphs=glyphs).lines)
    assert all(len(glyphs.encode(line)) <= size[0] for line in shown), [
        line for line in shown if len(line) > size[0]
    ]
    if glyphs.is_ascii:
        assert "\\u" not in "".join(map(glyphs.encode, shown)), "a character without an ASCII form"


@pytest.mark.parametrize("age", ["", "values of 7 s ago"])
def test_what_is_said_of_a_lost_host_is_of_its_last_values(age: str) -> None:
    guest, parts = loaded_guest()
    link = link_of(guest)
    trends = queue_trends(link, guest, parts)
    page = draw_queues(
        link,
        guest,
        120,
        28,
        trends,
        advice=QueueAdvice("not judged: no traffic"),
        queue_map=queue_map(link, guest),
        age=age,
    )
    shown = [line.strip() for line in text(page.lines)]
    by = f", by {age}" if age else ""
    assert any(line.startswith(f"balance{by}: ") for line in shown)
    assert f"what now{by}: not judged: no traffic" in shown


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("glyphs", [UNICODE, ASCII], ids=["unicode", "ascii"])
def test_what_to_do_is_below_the_queues(size: tuple[int, int], glyphs: Glyphs) -> None:
    """The sentence, the first command and the number of the others; before what the marks mean."""
    guest, parts = loaded_guest()
    link = link_of(guest)
    fix = Fix(
        "here", "Assign", commands("ip link set a up", "ip link set b up", "ip link set c up")
    )
    advice = QueueAdvice("all CPUs → queue 0: " + "assign CPUs to each queue " * 3, fix)
    page = draw_queues(
        link,
        guest,
        *size,
        queue_trends(link, guest, parts),
        advice=advice,
        glyphs=glyphs,
        queue_map=queue_map(link, guest),
    )
    shown = [glyphs.encode(line).rstrip() for line in text(page.lines)]
    assert all(len(line) <= size[0] for line in shown)
    assert not glyphs.is_ascii or "\\u" not in "".join(shown), "a character without an ASCII form"
    if size[1] >= 18:
        start = next(
            number for number, line in enumerate(shown) if line.startswith(" what now: all CPUs ")
        )
        assert start < next(number for number, line in enumerate(shown) if "on CPU: " in line)
        assert shown.index("    ip link set a up") + 1 == shown.index(
            "    and 2 more commands, copied with it"
        )


@pytest.mark.parametrize("size", SIZES)
def test_the_selected_queue_and_a_line_of_its_details_are_in_sight(size: tuple[int, int]) -> None:
    for selected in range(4):
        page = drawn(*size, selected=selected)
        assert page.cursor is not None and page.cursor < size[1]
        assert text(page.lines)[page.cursor].split()[0] == str(selected)
        assert page.targets[page.cursor] == [(0, str(selected))]
        detail = next(
            index
            for index, line in enumerate(text(page.lines))
            if line.startswith(f" IRQ {51 + 2 * selected} ")
        )
        assert detail < size[1]


def test_the_first_line_names_nic_driver_channels_and_rings() -> None:
    assert text(drawn(80, 18).lines)[0].strip() == (
        "ens256 ◂▸ virtio_net · 4 of 4 combined · ring rx 1024/1024 tx 1024/1024"
    )


def test_what_the_driver_does_not_tell_is_said_with_the_reason() -> None:
    guest, _ = loaded_guest()
    link = link_of(guest)
    bare = replace(link, ethtool=replace(link.ethtool, channels=None, rings=None))
    first = text(
        draw_queues(
            bare, guest, 120, 28, queue_trends(bare, guest), queue_map=queue_map(bare, guest)
        ).lines
    )[0]
    assert "channels unknown" in first and "ring unknown" in first


def test_80_columns_have_shares_trends_interrupts_cpu_and_drops() -> None:
    lines = text(drawn(80, 18).lines)
    assert lines[1].split() == [
        "Q", "RX", "pps", "share", "60", "s", "TX", "pps", "share", "60", "s", "IRQ/s", "on",
        "CPU", "drops/s",
    ]  # fmt: skip
    cells = row_of(lines, "3")
    assert cells[0] == "3" and cells.count("%") == 2 and cells[-3:] == ["42.0", "3,1", "0"]
    assert "37" in cells and "29" in cells, "22 of 60 and 24 of 84 packets per second"


def test_wide_tables_have_bits_and_steering() -> None:
    head = text(drawn(120, 28).lines)[1]
    assert "RX b/s" in head and "TX b/s" in head and "XPS CPU RPS" in head
    assert all(title in text(drawn(200, 42).lines)[1] for title in ("IRQ affinity", "VECTOR"))
    bars = [column.width for column in table_columns(queue_map(link_of(loaded_guest()[0]),
        loaded_guest()[0]), 120)
            if column.key.endswith("_share")]  # fmt: skip
    assert bars == [18, 18], "12 cells and the per cent behind them"


def test_the_sum_is_below_and_the_balance_is_a_sentence() -> None:
    lines = text(drawn(80, 18).lines)
    assert row_of(lines, "all")[:3] == ["all", "60.0", "84.0"]
    assert any(
        line.strip() == "balance: fair, hottest queue 3: 32 % of RX+TX packets (even would be 25 %)"
        for line in lines
    )


def test_the_balance_in_a_narrow_view_leaves_out_what_is_in_brackets() -> None:
    lines = [line.strip() for line in text(drawn(60, 18).lines)]
    assert "balance: fair, hottest queue 3: 32 % of RX+TX packets" in lines


def test_details_have_interrupts_rates_steering_and_the_reason_for_what_is_missing() -> None:
    lines = text(drawn(80, 18).lines)
    detail = [
        line.strip()
        for line in lines[lines.index(next(line for line in lines if "queue 3 (" in line)) + 1 :][
            :5
        ]
    ]
    assert detail == [
        "IRQ 57 rx virtio2-input.3 · affinity 1 → CPU 1 19.0/s",
        "IRQ 58 tx virtio2-output.3 · affinity 3 → CPU 3 23.0/s",
        "RX 11.6 kb/s 22.0 pps drops 0/s · TX 6.34 Mb/s 24.0 pps drops n/a",
        "XPS CPU 3 · RPS off · NAPI –, not reported by this kernel or driver",
        "n/a: virtio_net does not report TX drops per queue",
    ]


def test_a_cpu_that_differs_from_the_affinity_is_marked_and_explained_with_the_age() -> None:
    host = big_host(4, 8)
    assert host.rates is not None and host.counters is not None and host.inventory is not None
    counted = replace(host, rates=replace(host.rates, interrupts={1001: {7: 5000.0}}))
    link = link_of(counted)
    lines = text(
        draw_queues(
            link, counted, 120, 28, queue_trends(link, counted), queue_map=queue_map(link, counted)
        ).lines
    )
    assert "7▲" in row_of(lines, "1")
    age = host.counters.time - host.inventory.time
    assert f" ▲: CPU that took interrupts differs from the affinity read {age:.0f} s earlier" in [
        line.rstrip() for line in lines
    ]
    agreeing = text(drawn(80, 18).lines)
    assert not any("▲" in line for line in agreeing)
    assert any(
        "on CPU: where interrupts were counted; else the affinity, read 11 s earlier" in line
        for line in agreeing
    )


def test_on_a_small_terminal_what_to_do_comes_before_the_details() -> None:
    lines = text(drawn(60, 16).lines)
    places = [
        next(number for number, line in enumerate(lines) if words in line)
        for words in (" all ", "IRQ 51")
    ]
    assert places == sorted(places)


@pytest.mark.parametrize("size", SIZES)
def test_what_does_not_fit_is_below_and_not_left_out(size: tuple[int, int]) -> None:
    """A page that ended in the middle of a sentence had no mark that there was more."""
    tall = {line.strip() for line in text(drawn(size[0], 60).lines)}
    sentences = [line for line in tall if line.startswith(("XPS", "n/a: ", "on CPU: "))]
    assert len(sentences) == 3
    lines = [line.strip() for line in text(drawn(*size).lines)]
    assert all(sentence in lines for sentence in sentences)


@pytest.mark.parametrize("width", [44, 80, 120])
def test_cpu_and_rate_of_an_interrupt_are_never_cut(width: int) -> None:
    lines = text(drawn(width, 28).lines)
    assert any("IRQ 57 rx" in line and "→ CPU 1 19.0/s" in line for line in lines)


def test_interrupts_that_serve_no_queue_are_listed() -> None:
    assert text(drawn(80, 18).lines)[-1].strip() == "IRQ 50 virtio2-config: not a queue interrupt"


def test_without_packet_counters_the_interrupts_have_share_and_trend() -> None:
    guest, parts = loaded_guest()
    link = link_of(guest, "ens192")
    asked = replace(guest, rates=replace(parts[-1], queues={}, driver={link.ifindex: ()}))
    link = replace(link, ethtool=replace(link.ethtool, driver_counter_names=()))
    lines = text(
        draw_queues(
            link, asked, 80, 18, queue_trends(link, asked, parts), queue_map=queue_map(link, asked)
        ).lines
    )
    assert lines[1].split()[:8] == ["Q", "IRQ/s", "share", "60", "s", "on", "CPU", "drops/s"]
    assert any(
        "packets and bytes per queue: n/a, vmxnet3 does not report them" in line for line in lines
    )


def test_a_link_with_receive_queues_only_has_no_transmit_columns() -> None:
    host = big_host(4, 8)
    link = link_of(host)
    head = text(
        draw_queues(
            link, host, 80, 18, queue_trends(link, host), queue_map=queue_map(link, host)
        ).lines
    )[1]
    assert "RX pps" in head and "TX" not in head


def test_the_affinity_that_stands_for_the_cpu_has_its_age() -> None:
    """Without interrupts the CPU is that of the inventory: it may be another one by now."""
    guest, _ = loaded_guest()
    assert guest.rates is not None and guest.counters is not None and guest.inventory is not None
    age = round(guest.counters.time - guest.inventory.time)
    host = replace(guest, rates=replace(guest.rates, interrupts={}))
    link = link_of(host)
    lines = text(
        draw_queues(
            link, host, 80, 24, queue_trends(link, host), queue_map=queue_map(link, host)
        ).lines
    )
    words = f"on CPU: no interrupts were counted, so the affinity, read {age} s earlier"
    assert any(words in line for line in lines), lines


def test_a_link_without_queues_says_so() -> None:
    guest, _ = loaded_guest()
    bare = replace(link_of(guest, "lo"), queues=())
    lines = text(
        draw_queues(
            bare, guest, 80, 18, queue_trends(bare, guest), queue_map=queue_map(bare, guest)
        ).lines
    )
    first, title, *others = [line.strip() for line in lines[1:]]
    assert (first, title[:19]) == ("no queues reported for this interface", "── other interfaces")
    names = [link.name for link in guest.links.values() if link.name != "lo"]
    assert names and [line.split()[0] for line in others] == names, "what can be chosen instead"


def test_before_the_first_rates_values_are_unknown() -> None:
    guest, _ = loaded_guest()
    host = replace(guest, rates=None)
    lines = text(
        draw_queues(
            link_of(host),
            host,
            80,
            18,
            queue_trends(link_of(host), host),
            queue_map=queue_map(link_of(host), host),
        ).lines
    )
    assert row_of(lines, "0")[:3] == ["0", "–", "–"]
    assert any("IRQ 51 rx virtio2-input.0" in line for line in lines)
    assert any(line.strip() == "balance: no traffic" for line in lines)


def test_the_matrix_has_the_interrupts_where_they_were_counted() -> None:
    lines = text(drawn(80, 30).lines)
    at = next(index for index, line in enumerate(lines) if "queue × CPU" in line)
    assert lines[at + 1].split() == ["all", "CPU", "0", "CPU", "1", "CPU", "2", "CPU", "3"]
    assert lines[at + 5].split() == [
        "queue",
        "3",
        "IRQ",
        "57",
        "58",
        "42.0",
        "·",
        "▅",
        "19.0",
        "·",
        "▇",
        "23.0",
    ]
    assert lines[at + 6].split() == ["all", "130", "26.0", "26.0", "38.0", "40.0"]


def test_large_screens_have_no_empty_half() -> None:
    lines = text(drawn(200, 42).lines)
    assert len(lines) >= 40
    assert any("last 60 s" in line for line in lines)


# -------------------------------------------------------------------------------------- many queues


def test_idle_queues_are_folded_with_their_number() -> None:
    host = big_host(64, 128)
    link = link_of(host)
    trends = queue_trends(link, host)
    shown = text(draw_queues(link, host, 120, 28, trends, queue_map=queue_map(link, host)).lines)
    assert any("63 idle queues: 0-4,6-63 (o shows them)" in line for line in shown)
    assert [line.split()[0] for line in shown[:5] if line.split()[0].isdecimal()] == ["5"]


def test_a_queue_that_was_busy_in_the_last_minute_is_not_folded() -> None:
    host = big_host(64, 128)
    assert host.rates is not None
    link = link_of(host)
    before = replace(host.rates, interrupts=host.rates.interrupts | {1009: {9: 10.0}}, elapsed=1.0)
    trends = queue_trends(link, host, (before, replace(host.rates, elapsed=1.0)))
    assert any(
        "62 idle queues: 0-4,6-8,10-63" in line
        for line in text(
            draw_queues(link, host, 120, 28, trends, queue_map=queue_map(link, host)).lines
        )
    )


@pytest.mark.parametrize("selected", [0, 31, 32, 63])
def test_many_queues_stand_in_two_columns_with_the_selected_one_in_sight(selected: int) -> None:
    host = big_host(64, 128)
    link = link_of(host)
    page = draw_queues(
        link,
        host,
        120,
        28,
        queue_trends(link, host),
        selected=selected,
        unfold=True,
        queue_map=queue_map(link, host),
    )
    lines = text(page.lines)
    assert page.cursor is None
    marked = next(index for index, line in enumerate(lines) if "▸" in line and index)
    assert str(selected) in [key for _, key in page.targets[marked]] and marked < 28
    assert any(style == "cursor" for _, style in page.lines[marked])
    assert [key for _, key in page.targets[2]][1] == str(int(page.targets[2][0][1]) + 32)
    assert any("of 32" in line for line in lines)
    assert all(len(line) <= 120 for line in lines)


def test_narrow_screens_have_one_column() -> None:
    host = big_host(64, 128)
    link = link_of(host)
    page = draw_queues(
        link,
        host,
        80,
        18,
        queue_trends(link, host),
        selected=40,
        unfold=True,
        queue_map=queue_map(link, host),
    )
    assert page.cursor is not None and text(page.lines)[page.cursor].split()[:2] == ["40", "rx"]


# --------------------------------------------------------------------------------------- the widget


async def test_keys_and_clicks_select_a_queue_and_another_nic() -> None:
    async with live_screen() as screen:
        await screen.receive(*captured_lines("virtio-4-queues"))
        await screen.press("right", "right", "2")
        view = screen.app.screen.query_one(QueueView)
        assert view.index == 3, "the busiest one is selected first"
        await screen.press("up")
        assert any("queue 2 (" in line for line in screen.lines(QueueView))
        await screen.press("home")
        assert any("queue 0 (" in line for line in screen.lines(QueueView))
        top = view.region.y
        await screen.pilot.click(offset=(10, top + 3))
        assert any("queue 1 (" in line for line in screen.lines(QueueView))
        await screen.pilot.click(offset=(8, top))
        assert screen.lines(QueueView)[0].startswith(" ens224 ◂▸")
        await screen.pilot.click(offset=(9, top))
        assert screen.lines(QueueView)[0].startswith(" ens256 ◂▸")


async def test_the_selection_stays_when_another_queue_becomes_the_busiest() -> None:
    async with live_screen() as screen:
        lines = captured_lines("virtio-4-queues")
        await screen.receive(*lines)
        await screen.press("right", "right", "2")
        view = screen.app.screen.query_one(QueueView)
        snapshot = screen.nictop.hosts.session.snapshot
        assert snapshot.rates is not None and view.index == 3
        queues = {
            ifindex: tuple(replace(one, packets=9e6) if one.queue == 0 else one for one in found)
            for ifindex, found in snapshot.rates.queues.items()
        }
        screen.nictop.hosts.show(replace(snapshot, rates=replace(snapshot.rates, queues=queues)))
        await screen.settle()
        assert view.index == 3


async def test_pages_scroll_to_the_matrix_and_back() -> None:
    async with live_screen((80, 24)) as screen:
        await screen.receive(*captured_lines("virtio-4-queues"))
        await screen.press("right", "right", "2")
        assert not any("not a queue interrupt" in row for row in screen.drawn())
        await screen.press("pagedown")
        assert any("not a queue interrupt" in row for row in screen.drawn())
        await screen.press("up")
        assert any("ens256 ◂▸" in row for row in screen.drawn())


async def test_a_pci_function_shows_the_queues_of_its_netdev_and_a_group_says_what_to_do() -> None:
    async with live_screen() as screen:
        await screen.receive(*captured_lines("virtio-4-queues"))
        table = screen.app.screen.query_one(DeviceTable)
        await screen.press("home")
        row = table.chosen
        assert row is not None and row.link is None
        link = netdev_of(row, screen.nictop.hosts.session.snapshot)
        assert link is not None and screen.source.requests[-1].watch == (link.ifindex,)
        await screen.press("2")
        assert any(f"{link.name} ◂▸" in line for line in screen.drawn())
        await screen.press("1", "end", "2")
        assert any("Press ← → to choose an interface" in line for line in screen.drawn())
        await screen.press("right")
        assert not any("Press ← →" in line for line in screen.drawn())
        assert screen.app.screen.query_one(DeviceTable).chosen != row


def test_a_queue_of_one_direction_is_named_so() -> None:
    guest, _ = loaded_guest()
    link = replace(link_of(guest, "lo"), queues=(Queue("rx", 0), Queue("rx", 1), Queue("tx", 0)))
    lines = text(
        draw_queues(
            link, guest, 80, 18, queue_trends(link, guest), queue_map=queue_map(link, guest)
        ).lines
    )
    assert row_of(lines, "1")[:2] == ["1", "rx"]


@pytest.mark.parametrize("key", ["2", "3"])
async def test_the_queue_map_is_made_once_per_redraw(
    key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[Link] = []

    def counted(link: Link, snapshot: Snapshot) -> QueueMap:
        made.append(link)
        return queue_map(link, snapshot)

    async with live_screen() as screen:
        await screen.receive(*captured_lines("virtio-4-queues"))
        await screen.press("right", "right", key)
        for module in ("rules.host", "tui.widgets.cpu.queues", "tui.widgets.cpu.view"):
            monkeypatch.setattr(f"nictop.{module}.queue_map", counted, raising=False)
        shown = screen.app.screen
        assert isinstance(shown, LiveScreen)
        shown._draw()
        assert [link.name for link in made] == ["ens256"]
