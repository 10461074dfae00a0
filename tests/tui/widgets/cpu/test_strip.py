"""The strip shows every CPU at any number of them, and never by colour alone."""

from __future__ import annotations

import pytest

from nictop.model.rates.links import CpuShares
from nictop.model.text.glyphs import ASCII, UNICODE, Glyphs
from nictop.tui.widgets.base.line_widget import SpanLine
from nictop.tui.widgets.cpu.strip import KINDS, draw_processors


def shares(**kinds: float) -> CpuShares:
    values = (
        dict.fromkeys(("user", "system", "irq", "softirq", "steal", "guest", "iowait"), 0.0) | kinds
    )
    return CpuShares(**values, idle=1.0 - sum(values.values()), split=True)


def text(line: SpanLine) -> str:
    return "".join(part for part, _ in line)


def test_the_legend_has_the_mean_of_each_kind() -> None:
    line = text(draw_processors({0: shares(user=0.5), 1: shares(user=0.1, softirq=0.6)}, 120))
    assert line.startswith(" 2 CPUs ")
    assert "user 30" in line
    assert "softirq 30" in line
    assert line.endswith("idle  40 %")


def test_a_bar_shows_each_kind_with_its_own_texture() -> None:
    bar = text(draw_processors({0: shares(user=0.5, softirq=0.25)}, 78)).partition("%")[0]
    assert (
        bar.count(UNICODE.work[KINDS.index("user")])
        == 2 * bar.count(UNICODE.work[KINDS.index("softirq")])
        > 0
    )
    assert bar.endswith(" 75")


@pytest.mark.parametrize("number", [1, 2, 3, 4, 7, 16, 64, 128, 1024])
@pytest.mark.parametrize("width", [1, 5, 20, 40, 60, 80, 120, 200])
@pytest.mark.parametrize("glyphs", [UNICODE, ASCII], ids=["unicode", "ascii"])
def test_every_cpu_fits_into_one_line(number: int, width: int, glyphs: Glyphs) -> None:
    line = text(
        draw_processors({cpu: shares(user=0.2) for cpu in range(number)}, width, glyphs=glyphs)
    )
    assert len(line) <= width
    if width >= 40:
        assert line.count("20%") == number or f"0-{number - 1} " in line
    if glyphs.is_ascii and width >= 40:
        assert line.isascii()


def test_four_cpus_have_bars_at_80_columns() -> None:
    line = text(draw_processors({cpu: shares(user=0.5) for cpu in range(4)}, 80))
    assert line.count("50%") == 4
    assert "user" in line


def test_the_hot_one_is_seen_among_many_that_idle() -> None:
    cpus = {cpu: shares() for cpu in range(512)} | {300: shares(softirq=1.0)}
    assert ("█", "softirq") in draw_processors(cpus, 80)


@pytest.mark.parametrize(("number", "width"), [(4, 60), (64, 80), (64, 120), (512, 200)])
def test_where_a_height_is_the_load_the_legend_has_numbers_and_no_textures(
    number: int, width: int
) -> None:
    """The block that meant "user" in the legend was the load of a full CPU beside it."""
    line = text(
        draw_processors({cpu: shares(user=0.25, softirq=0.5) for cpu in range(number)}, width)
    )
    assert f" 0-{number - 1} " in line and not set(UNICODE.work) & set(
        line.partition(f" 0-{number - 1} ")[2]
    )
    assert "user 25" in line and "softirq 50" in line and "steal  0" in line


def test_textures_differ() -> None:
    assert len(set(UNICODE.work)) == len(KINDS)


def test_before_the_first_rates_it_says_so() -> None:
    assert "no rates yet" in text(draw_processors({}, 80))


@pytest.mark.parametrize("width", [80, 120])
@pytest.mark.parametrize("number", [1, 128])
def test_the_legend_does_not_move(width: int, number: int) -> None:
    places = set()
    for share in (0.0, 0.05, 0.5, 0.94):
        line = text(draw_processors({cpu: shares(user=share) for cpu in range(number)}, width))
        assert len(line) <= width
        places.add(tuple(line.index(kind) for kind in ("user", "sys", "softirq", "steal")))
    assert len(places) == 1


@pytest.mark.parametrize("glyphs", [UNICODE, ASCII], ids=["unicode", "ascii"])
@pytest.mark.parametrize("width", [80, 120])
@pytest.mark.parametrize("number", [1, 8, 128])
def test_a_cpu_that_softirqs_saturate_is_named(number: int, width: int, glyphs: Glyphs) -> None:
    cpus = {cpu: shares(user=0.01) for cpu in range(number)}
    assert not any(style == "warn" for _, style in draw_processors(cpus, width))
    hot = number - 1
    cpus[hot] = shares(softirq=0.8, irq=0.07, user=0.1)
    line = draw_processors(cpus, width, glyphs=glyphs)
    assert len(text(line)) <= width
    assert line[-1] == (f" {glyphs.warning} CPU{hot}", "warn")


def test_ascii_letters_are_in_the_names_they_stand_for() -> None:
    line = text(draw_processors({0: shares()}, 120, glyphs=ASCII))
    for name in ("User", "Sys", "softirQ", "Irq", "sTeal", "Guest"):
        assert f" {name} " in line


@pytest.mark.parametrize("number", [1, 4, 8, 64])
@pytest.mark.parametrize("glyphs", [UNICODE, ASCII], ids=["unicode", "ascii"])
def test_a_legend_has_whole_entries_beside_a_full_cpu(number: int, glyphs: Glyphs) -> None:
    """``id…`` said nothing; the entries that the name of the CPU takes the place of are left
    out."""
    cpus = {cpu: shares(user=0.2) for cpu in range(number - 1)} | {
        number - 1: shares(softirq=0.95, user=0.01)
    }
    for width in range(60, 201):
        line = text(draw_processors(cpus, width, glyphs=glyphs))
        assert len(line) <= width
        assert line.endswith(f"{glyphs.warning} CPU{number - 1}"), (width, line)
        assert "…" not in line and "~" not in line, (width, line)
