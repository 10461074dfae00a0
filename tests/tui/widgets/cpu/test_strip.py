"""The strip shows every CPU at any number of them, and never by colour alone."""

from __future__ import annotations

import pytest

from nictop.model.rates.links import CpuShares
from nictop.model.text.glyphs import ASCII, UNICODE, Glyphs
from nictop.tui.widgets.base.line_view import SpanLine
from nictop.tui.widgets.cpu.strip import KINDS, draw_processors


def shares(**kinds: float) -> CpuShares:
    values = dict.fromkeys(("user", "system", "irq", "softirq", "steal", "guest", "iowait"), 0.0) | kinds
    return CpuShares(**values, idle=1.0 - sum(values.values()))


def text(line: SpanLine) -> str:
    return "".join(part for part, _ in line)


def test_the_legend_has_the_mean_of_each_kind() -> None:
    legend = text(draw_processors({0: shares(user=0.5), 1: shares(user=0.1, softirq=0.9)}, 120, 1)[0])
    assert "2 CPUs" in legend
    assert "user  30" in legend
    assert "softirq  45" in legend
    assert "CPU1 softirq 90 %" in legend


def test_a_bar_shows_each_kind_with_its_own_texture() -> None:
    (line,) = draw_processors({0: shares(user=0.5, softirq=0.25)}, 80, 2)[1:]
    drawn = text(line)
    assert drawn.count(UNICODE.work[KINDS.index("user")]) == 2 * drawn.count(UNICODE.work[KINDS.index("softirq")]) > 0
    assert "75%" in drawn


@pytest.mark.parametrize("number", [1, 2, 3, 4, 7, 16, 64, 128, 1024])
@pytest.mark.parametrize(("width", "rows"), [(80, 2), (80, 3), (120, 4), (40, 2)])
@pytest.mark.parametrize("glyphs", [UNICODE, ASCII], ids=["unicode", "ascii"])
def test_every_processor_fits(number: int, width: int, rows: int, glyphs: Glyphs) -> None:
    cpus = {cpu: shares(user=0.2) for cpu in range(number)}
    lines = draw_processors(cpus, width, rows, glyphs=glyphs)
    assert 1 < len(lines) <= rows
    assert all(len(text(line)) <= width for line in lines[1:])
    shown = "".join(text(line) for line in lines[1:])
    assert shown.count("20%") == number or f"-{number - 1} " in shown
    if glyphs.is_ascii:
        assert all(text(line).isascii() for line in lines[1:])


def test_the_hot_one_is_seen_among_many_that_idle() -> None:
    cpus = {cpu: shares() for cpu in range(512)} | {300: shares(softirq=1.0)}
    marks = [span for line in draw_processors(cpus, 80, 2)[1:] for span in line[1:]]
    assert ("█", "softirq") in marks


def test_textures_differ() -> None:
    assert len(set(UNICODE.work)) == len(KINDS)


def test_before_the_first_rates_it_says_so() -> None:
    assert "no rates yet" in text(draw_processors({}, 80, 3)[0])


@pytest.mark.parametrize("width", [80, 120])
@pytest.mark.parametrize("number", [1, 128])
def test_the_legend_does_not_move(width: int, number: int) -> None:
    places = set()
    for share in (0.0, 0.05, 0.5, 0.94):
        legend = text(draw_processors({cpu: shares(user=share) for cpu in range(number)}, width, 1)[0])
        assert len(legend) <= width
        places.add(tuple(legend.index(kind) for kind in (*KINDS, "idle")))
    assert len(places) == 1


@pytest.mark.parametrize("glyphs", [UNICODE, ASCII], ids=["unicode", "ascii"])
@pytest.mark.parametrize("width", [80, 120])
@pytest.mark.parametrize("number", [1, 8, 128])
def test_a_cpu_that_softirqs_saturate_is_named(number: int, width: int, glyphs: Glyphs) -> None:
    cpus = {cpu: shares(user=0.01) for cpu in range(number)}
    assert not any(style == "bad" for line in draw_processors(cpus, width, 2) for _, style in line)
    hot = number - 1
    cpus[hot] = shares(softirq=0.8, irq=0.07, user=0.1)
    legend = draw_processors(cpus, width, 1, glyphs=glyphs)[0]
    assert len(text(legend)) <= width
    assert f"CPU{hot}" in text(legend)
    assert legend[-1][1] == "bad"


def test_ascii_letters_are_in_the_names_they_stand_for() -> None:
    legend = text(draw_processors({0: shares()}, 80, 1, glyphs=ASCII)[0])
    for name in ("User", "System", "softirQ", "Irq", "sTeal", "Guest"):
        assert f" {name} " in legend
