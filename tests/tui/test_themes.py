"""Themes: text can be read on all of them, severities are told apart without colours and with each
kind of colour blindness, and a chosen theme is there the next time.

The simulation of colour blindness is that of G. M. Machado, M. M. Oliveira, L. A. F. Fernandes: A
Physiologically-based Model for Simulation of Color Vision Deficiency, IEEE Transactions on
Visualization and Computer Graphics 15 (2009), its matrices for severity 1.0, on linear RGB.
Distances are Euclidean in CIE L*a*b* (CIE76), where about 2 can just be seen.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations
from math import dist
from pathlib import Path
from typing import NamedTuple

import pytest
from rich.color import ColorSystem
from rich.color_triplet import ColorTriplet
from rich.style import Style
from textual.color import Color
from textual.strip import Strip
from textual.theme import BUILTIN_THEMES, Theme

from nictop.errors import NictopError
from nictop.hosts.specification import Host, configuration_path, read_configuration
from nictop.model.text.glyphs import ASCII, UNICODE, Glyphs
from nictop.rules import Diagnosis, Severity
from nictop.tui import run as tui_run
from nictop.tui.app import NictopApp
from nictop.tui.palette import NictopCommands
from nictop.tui.themes import (
    BACKGROUNDS,
    DEFAULT_THEME,
    MIN_CONTRAST,
    checked_theme,
    contrast,
    readable_theme,
    terminal_colours,
    theme_names,
)
from nictop.tui.widgets.devices.table import DeviceTable
from nictop.wire.ssh.authentication import Ask
from tests.cli.commands.test_demo import DEMO
from tests.support.findings import finding
from tests.support.lines import hello, inventory, link
from tests.support.replay_screen import screen_with_replay
from tests.support.screen import NARROW, WIDE, Screen, live_screen
from tests.support.sources import ScriptedSource

RGB_THEMES = [name for name in theme_names(ansi_only=False) if not readable_theme(name).ansi]
ANSI_THEMES = theme_names(ansi_only=True)
SEVERITY_TEXTS = ("text-error", "text-warning", "foreground")
"""Of critical, warning and info."""
TEXTS = (*SEVERITY_TEXTS, "text-success", "text-muted", "text-primary", "text-secondary")

NORMAL_VISION = ((1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0))
COLOUR_BLINDNESS = {
    "protan": (
        (0.152286, 1.052583, -0.204868),
        (0.114503, 0.786281, 0.099216),
        (-0.003882, -0.048116, 1.051998),
    ),
    "deutan": (
        (0.367322, 0.860646, -0.227968),
        (0.280085, 0.672501, 0.047413),
        (-0.011820, 0.042940, 0.968881),
    ),
    "tritan": (
        (1.255528, -0.076749, -0.178779),
        (-0.078411, 0.930809, 0.147602),
        (0.004733, 0.691367, 0.303900),
    ),
}
VISIONS = {"normal": NORMAL_VISION, **COLOUR_BLINDNESS}
MIN_DISTANCE = {2**24: 15.0, 256: 12.0}
"""Of severities, on a terminal with so many colours."""
MIN_DISTANCE_OF_DEFAULT = 20.0

HUES = ("black", "red", "green", "yellow", "blue", "magenta", "cyan", "white")
ANSI_NAMES = (*HUES, *(f"bright_{name}" for name in HUES))


def ansi_palette(normal: str, bright: str) -> dict[str, str]:
    return dict(zip(ANSI_NAMES, [*normal.split(), *bright.split()], strict=True))


LINUX_CONSOLE = ansi_palette(
    "#000000 #aa0000 #00aa00 #aa5500 #0000aa #aa00aa #00aaaa #aaaaaa",
    "#555555 #ff5555 #55ff55 #ffff55 #5555ff #ff55ff #55ffff #ffffff",
)
"""default_red, default_grn and default_blu in drivers/tty/vt/vt.c."""
XTERM = ansi_palette(
    "#000000 #cd0000 #00cd00 #cdcd00 #0000ee #cd00cd #00cdcd #e5e5e5",
    "#7f7f7f #ff0000 #00ff00 #ffff00 #5c5cff #ff00ff #00ffff #ffffff",
)
"""XTerm-col.ad of xterm."""
DECORATION = frozenset("─│╭╮╰╯├┤┼━╋┄┊·▁▂▃▄▅▆▇█▏▎▍▌▋▊▉▀▓▒░■")
"""Frames, axes and bars: their text stands beside them."""

Matrix = tuple[tuple[float, float, float], ...]


# ----------------------------------------------------------------------------------------- contrast


def variables(theme: Theme, colours: int = 2**24) -> dict[str, Color]:
    """The colours of texts and backgrounds on the screen, as a terminal with so many colours draws
    them."""
    found = {**theme.to_color_system().generate(), **theme.variables}
    system = ColorSystem.TRUECOLOR if colours > 256 else ColorSystem.EIGHT_BIT
    return {
        name: Color(*drawn_colour(Color.parse(found[name]), system))
        for name in (*TEXTS, *BACKGROUNDS)
    }


def drawn_colour(colour: Color, system: ColorSystem) -> ColorTriplet:
    return colour.rich_color.downgrade(system).get_truecolor()


def test_contrast_is_that_of_the_guideline() -> None:
    """Known values: #767676 is the lightest grey that passes on white, #777777 fails."""
    white = Color.parse("#ffffff")
    assert contrast(white, Color.parse("#000000")) == pytest.approx(21)
    assert (
        contrast(Color.parse("#767676"), white)
        >= MIN_CONTRAST
        > contrast(Color.parse("#777777"), white)
    )


def test_the_themes_of_textual_are_offered() -> None:
    assert set(theme_names(ansi_only=False)) == {DEFAULT_THEME, *BUILTIN_THEMES}


@pytest.mark.parametrize("number", [2**24, 256])
@pytest.mark.parametrize("name", RGB_THEMES)
def test_every_text_can_be_read_on_every_background(name: str, number: int) -> None:
    colours = variables(readable_theme(name, number), number)
    too_low = [
        (text, background)
        for text in TEXTS
        for background in BACKGROUNDS
        if contrast(colours[text], colours[background]) < MIN_CONTRAST
    ]
    assert too_low == []


def test_256_colours_need_themes_of_their_own() -> None:
    """The theme for true colours would be drawn with other ones."""
    colours = variables(readable_theme(DEFAULT_THEME), 256)
    assert contrast(colours["text-muted"], colours["primary-muted"]) < MIN_CONTRAST


def test_most_themes_of_textual_are_not_readable_as_they_are() -> None:
    """Otherwise the check above could not fail."""
    unreadable = [
        theme.name
        for theme in BUILTIN_THEMES.values()
        if not theme.ansi
        and any(
            contrast(Color.parse(theme.to_color_system().generate()[text]), background)
            < MIN_CONTRAST
            for text in ("text-error", "text-warning")
            for background in [variables(readable_theme(theme.name))["primary-muted"]]
        )
    ]
    assert len(unreadable) >= 5


@pytest.mark.parametrize(
    ("name", "background"), [("ansi-dark", "black"), ("ansi-light", "bright_white")]
)
@pytest.mark.parametrize("palette", [LINUX_CONSOLE, XTERM], ids=["console", "xterm"])
def test_sixteen_colours_can_be_read(name: str, background: str, palette: dict[str, str]) -> None:
    """The foreground is that of the terminal."""
    theme = readable_theme(name)
    chosen = {
        key: value
        for key, value in theme.variables.items()
        if key in TEXTS and value != "ansi_default"
    }
    assert {"text-error", "text-warning", "text-success", "text-primary"} <= set(chosen)
    back = Color.parse(palette[background])
    ratios = {
        key: contrast(Color.parse(palette[value.removeprefix("ansi_")]), back)
        for key, value in chosen.items()
    }
    assert {key for key, ratio in ratios.items() if ratio < MIN_CONTRAST} == set()


class DrawnText(NamedTuple):
    text: str
    style: Style


def drawn_texts(screen: Screen, widget: str = "Screen") -> Iterator[DrawnText]:
    """Segments of the screen, or of a widget in it, that have text."""
    region = (
        screen.app.screen.query_one(widget).region
        if widget != "Screen"
        else screen.app.screen.region
    )
    for row in screen.app.screen._compositor.render_strips()[region.y : region.bottom]:
        for segment in Strip(row).crop(region.x, region.right):
            text = "".join(one for one in segment.text if one not in DECORATION).strip()
            if text and segment.style is not None:
                yield DrawnText(text, segment.style)


def drawn_contrast(style: Style) -> float:
    assert style.color is not None and style.bgcolor is not None
    return contrast(Color.from_rich_color(style.color), Color.from_rich_color(style.bgcolor))


async def test_what_is_drawn_can_be_read_on_every_theme() -> None:
    async with screen_with_replay(DEMO, WIDE, start=37.0) as screen:
        for key, widget in (("4", "Screen"), ("question_mark", "#help")):
            await screen.press(key)
            for name in RGB_THEMES:
                screen.app.register_theme(readable_theme(name))
                screen.app.theme = name
                await screen.settle()
                texts = list(drawn_texts(screen, widget))
                assert len(texts) > 20, (name, key)
                assert [one for one in texts if drawn_contrast(one.style) < MIN_CONTRAST] == [], (
                    name,
                    key,
                )


# --------------------------------------------------------------------------------- colour blindness


def linear(colour: Color) -> list[float]:
    shares = (channel / 255 for channel in colour.rgb)
    return [one / 12.92 if one <= 0.04045 else ((one + 0.055) / 1.055) ** 2.4 for one in shares]


def seen(colour: Color, vision: Matrix) -> list[float]:
    """The colour that a person with this vision sees, as linear RGB."""
    light = linear(colour)
    return [min(1.0, max(0.0, sum(map(float.__mul__, row, light)))) for row in vision]


def lab(light: list[float]) -> tuple[float, float, float]:
    """CIE L*a*b* of linear sRGB (IEC 61966-2-1), white D65."""
    red, green, blue = light
    x, y, z = (
        (0.4124 * red + 0.3576 * green + 0.1805 * blue) / 0.9505,
        0.2126 * red + 0.7152 * green + 0.0722 * blue,
        (0.0193 * red + 0.1192 * green + 0.9505 * blue) / 1.0890,
    )
    fx, fy, fz = (
        one ** (1 / 3) if one > 216 / 24389 else (24389 / 27 * one + 16) / 116 for one in (x, y, z)
    )
    return 116 * fy - 16, 500 * (fx - fy), 200 * (fy - fz)


def distance(one: Color, other: Color, vision: Matrix) -> float:
    return dist(lab(seen(one, vision)), lab(seen(other, vision)))


@pytest.mark.parametrize("vision", VISIONS)
def test_the_default_is_safe_for_colour_blind_people(vision: str) -> None:
    """Severities, a good state and dim text."""
    colours = variables(readable_theme(DEFAULT_THEME))
    too_close = [
        (one, other)
        for one, other in combinations((*SEVERITY_TEXTS, "text-success", "text-muted"), 2)
        if distance(colours[one], colours[other], VISIONS[vision]) < MIN_DISTANCE_OF_DEFAULT
    ]
    assert too_close == []


@pytest.mark.parametrize("number", [2**24, 256])
@pytest.mark.parametrize("vision", VISIONS)
@pytest.mark.parametrize("name", RGB_THEMES)
def test_severities_are_apart_on_every_theme(name: str, vision: str, number: int) -> None:
    colours = variables(readable_theme(name, number), number)
    distances = [
        distance(colours[one], colours[other], VISIONS[vision])
        for one, other in combinations(SEVERITY_TEXTS, 2)
    ]
    assert min(distances) >= MIN_DISTANCE[number]


def test_colours_that_look_alike_are_noticed() -> None:
    """Error and dim text of textual-dark; red and green of the same lightness; and every vision
    keeps greys."""
    error, dim = Color.parse("#d17e92"), Color.parse("#a0a0a0")
    assert distance(error, dim, NORMAL_VISION) > 30
    assert distance(error, dim, COLOUR_BLINDNESS["deutan"]) < 10
    red, green = Color.parse("#c65b00"), Color.parse("#728d00")
    assert distance(red, green, NORMAL_VISION) > 40
    assert distance(red, green, COLOUR_BLINDNESS["deutan"]) < 20
    for matrix in VISIONS.values():
        assert seen(dim, matrix) == pytest.approx(linear(dim), abs=1e-3)


# ----------------------------------------------------------------------- severities without colours


async def rows_with(
    severity: Severity, view: str, size: tuple[int, int], glyphs: Glyphs
) -> list[list[DrawnText]]:
    """A view of a host with one finding: each row, with its styles."""
    async with live_screen(size, glyphs=glyphs) as screen:
        await screen.receive(
            hello(), inventory(link(2, "ens192", bus="pci"), link(3, "ens224", bus="pci"))
        )
        await screen.show_diagnosis(
            Diagnosis((finding(severity=severity, host=screen.nictop.hosts.chosen),), ())
        )
        await screen.press(view)
        await screen.settle()
        rows = screen.app.screen._compositor.render_strips()
        return [[DrawnText(one.text, one.style or Style()) for one in row] for row in rows]


@pytest.mark.parametrize("glyphs", [UNICODE, ASCII], ids=["unicode", "ascii"])
@pytest.mark.parametrize("size", [NARROW, WIDE], ids=["narrow", "wide"])
@pytest.mark.parametrize("view", ["1", "4", "5"])
async def test_severities_never_differ_by_colour_alone(
    view: str, size: tuple[int, int], glyphs: Glyphs
) -> None:
    severities: tuple[Severity, ...] = ("critical", "warning", "info")
    drawn = [await rows_with(severity, view, size, glyphs) for severity in severities]
    compared = 0
    for one, other in combinations(drawn, 2):
        for row, same_row in zip(one, other, strict=True):
            if row != same_row:
                compared += 1
                assert "".join(span.text for span in row) != "".join(span.text for span in same_row)
    assert compared >= 3


# --------------------------------------------------------------------------------- choosing a theme


@pytest.mark.parametrize(
    ("environment", "colours"),
    [
        ({"TERM": "linux"}, 16),
        ({"TERM": "screen"}, 16),
        ({"TERM": "xterm-16color"}, 16),
        ({}, 16),
        ({"TERM": "xterm-256color"}, 256),
        ({"TERM": "xterm", "COLORTERM": "truecolor"}, 2**24),
    ],
)
def test_colours_of_a_terminal(
    environment: dict[str, str], colours: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("TERM", "COLORTERM"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert terminal_colours() == colours


@pytest.mark.parametrize("colours", [16, 256, 2**24])
@pytest.mark.parametrize("chosen", ["", "nord", "ansi-light"])
@pytest.mark.parametrize("glyphs", [UNICODE, ASCII], ids=["unicode", "ascii"])
def test_a_terminal_gets_a_theme_that_it_can_show(
    chosen: str, colours: int, glyphs: Glyphs
) -> None:
    started = NictopApp(_no_source, theme=chosen, glyphs=glyphs, colours=colours)
    on_console = {"": "ansi-dark", "nord": "ansi-dark", "ansi-light": "ansi-light"}
    wanted = on_console[chosen] if colours == 16 or glyphs.is_ascii else chosen
    assert started.theme == (wanted or DEFAULT_THEME)
    assert started.theme in started.themes
    assert started.current_theme == readable_theme(started.theme, colours)
    assert started.native_ansi_color == started.theme.startswith("ansi-")
    assert started.has_class("-light-mode") == started.theme.endswith("-light")


def _no_source(host: Host, ask: Ask) -> ScriptedSource:
    return ScriptedSource()


@pytest.fixture
def configuration(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    return tmp_path / "nictop" / "config.toml"


async def choose(screen: Screen, name: str) -> None:
    entries = NictopCommands(screen.app.screen)._commands()
    next(one for one in entries if one.text == f"Theme: {name}").run()
    await screen.settle()


async def test_a_theme_is_chosen_in_the_palette_and_kept(configuration: Path) -> None:
    async with live_screen(NARROW) as screen:
        await screen.receive(hello(), inventory(link(2, "ens192", bus="pci")))
        await screen.press("colon", *"theme nord", "enter")
        await screen.settle()
        assert screen.app.theme == "nord"
        assert "Kept in" in "\n".join(screen.drawn())
        backgrounds = {
            one.style.bgcolor.name for one in drawn_texts(screen) if one.style.bgcolor is not None
        }
        assert "#2e3440" in backgrounds
    assert read_configuration(str(configuration)).theme == "nord"
    assert tui_run._keys_and_theme()[1] == "nord"
    assert NictopApp(_no_source, theme="nord").theme == "nord"


async def test_themes_are_chosen_one_after_the_other(configuration: Path) -> None:
    async with live_screen(NARROW) as screen:
        await screen.receive(hello(), inventory(link(2, "ens192", bus="pci")))
        for name in (
            "solarized-light",
            "ansi-dark",
            "dracula",
            "ansi-light",
            "textual-light",
            DEFAULT_THEME,
        ):
            await choose(screen, name)
            assert (screen.app.theme, read_configuration(str(configuration)).theme) == (name, name)
            if name in RGB_THEMES:
                wanted = variables(readable_theme(name))["background"].hex.lower()
                assert wanted in {
                    one.style.bgcolor.name for one in drawn_texts(screen) if one.style.bgcolor
                }


async def test_a_console_with_16_colours_is_offered_its_own_themes(configuration: Path) -> None:
    async with live_screen(NARROW, glyphs=ASCII) as screen:
        entries = NictopCommands(screen.app.screen)._commands()
        offered = [one.text for one in entries if one.text.startswith("Theme: ")]
        assert offered == [f"Theme: {name}" for name in ANSI_THEMES]


async def test_a_theme_that_cannot_be_kept_is_shown_nevertheless(configuration: Path) -> None:
    configuration.parent.write_text("a file where the directory would be")
    async with live_screen(NARROW) as screen:
        await screen.receive(hello(), inventory(link(2, "ens192", bus="pci")))
        await choose(screen, "dracula")
        shown = "\n".join(screen.drawn())
        assert screen.app.theme == "dracula"
        assert "not kept" in shown and "Kept in" not in shown


def test_a_theme_that_does_not_exist_is_an_error(configuration: Path) -> None:
    configuration.parent.mkdir()
    configuration.write_text('theme = "norf"\n')
    with pytest.raises(NictopError, match='unknown theme "norf"') as error:
        tui_run._keys_and_theme()
    assert "nord" in str(error.value.hint)
    assert checked_theme("", configuration_path({})) == ""


@pytest.mark.parametrize("theme", ["ansi-dark", "ansi-light"])
async def test_without_colours_a_theme_of_the_terminal_writes_none(
    theme: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All of them were black on black: on a console with NO_COLOR nothing could be read."""
    monkeypatch.setenv("NO_COLOR", "1")
    async with live_screen(NARROW) as screen:
        await screen.receive(hello(), inventory(link(2, "ens192", bus="pci")))
        screen.app.theme = theme
        await screen.settle()
        styles = [one.style for one in drawn_texts(screen) if one.text.strip()]
        assert styles and all(one.color is None and one.bgcolor is None for one in styles)
        assert any(one.reverse for one in styles), "the selection"


@pytest.mark.parametrize("theme", ["", "nord", "solarized-light"])
async def test_without_colours_nothing_is_coloured(
    theme: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    async with live_screen(NARROW) as screen:
        await screen.receive(hello(), inventory(link(2, "ens192", bus="pci")))
        await screen.show_diagnosis(Diagnosis((finding(severity="critical"),), ()))
        if theme:
            screen.app.register_theme(readable_theme(theme))
            screen.app.theme = theme
            await screen.settle()
        texts = list(drawn_texts(screen))
        assert any(UNICODE.critical in one.text for one in texts)
        colours = {
            one
            for text in texts
            for one in (text.style.color, text.style.bgcolor)
            if one is not None
        }
        coloured = [one for one in colours if one.triplet is not None and len(set(one.triplet)) > 1]
        assert coloured == []


@pytest.mark.parametrize("theme", ["nictop", "nord", "solarized-light", "ansi-dark", "ansi-light"])
async def test_without_colours_a_warning_stands_out_and_a_critical_one_no_less(
    theme: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A figure with a yellow hue alone was as any other one, and red was a darker grey."""
    monkeypatch.setenv("NO_COLOR", "1")
    async with live_screen(NARROW) as screen:
        screen.app.register_theme(readable_theme(theme))
        screen.app.theme = theme
        await screen.settle()
        view = screen.app.screen.query_one(DeviceTable)
        plain, warning, critical = map(view._style, ("", "warn", "bad"))
        assert warning.bold and not plain.bold
        assert critical == warning


async def test_a_terminal_with_few_colours_has_warnings_in_bold() -> None:
    async with live_screen(NARROW, glyphs=ASCII) as screen:
        view = screen.app.screen.query_one(DeviceTable)
        assert all(view._style(name).bold for name in ("warn", "bad"))
        assert not view._style("").bold
