"""Themes: those of Textual and nictop's own, with colours that can be read.

Text must have a contrast of 4.5:1 (WCAG 2.2, 1.4.3 level AA) on every background that a line can
have; few of Textual's themes do. A theme is offered with its own colours, where they are enough,
and else with lighter or darker ones. On a terminal with 256 colours, which most are over SSH, those
count that it will draw.

Severities have the same colours on all dark themes, and on all light ones: people with each kind of
colour blindness tell them apart (simulated in tests/tui/test_themes.py). On every theme severities
also differ by mark and word.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace  # of a Textual class
from itertools import chain

from rich.color import Color as RichColor
from rich.color import ColorSystem
from rich.console import Console
from textual.color import BLACK, WHITE, Color
from textual.constants import COLOR_SYSTEM
from textual.theme import BUILTIN_THEMES, Theme

from nictop.errors import NictopError

DEFAULT_THEME = "nictop"
ANSI_THEME = "ansi-dark"
"""Of terminals with 16 colours, where no other one is chosen."""
TRUE_COLOURS = 2**24
MIN_CONTRAST = 4.5
"""Of text, WCAG 2.2 1.4.3."""
MIN_BACKGROUND_CONTRAST = 10.0
"""Of black or white on a background: a lower one would leave no room for colours."""
BLEND_STEPS = 20
CURSOR_SHARE = 0.4
"""Of the primary colour in the background of the chosen line."""
MUTED_SHARE = 0.6
"""Of black or white in dim text."""
SAME_COLOURS = {
    "text-disabled": "text-muted",
    "footer-background": "panel",
    "footer-foreground": "foreground",
    "footer-description-foreground": "foreground",
}
BACKGROUNDS = ("background", "surface", "surface-lighten-1", "panel", "primary-muted")
"""Those of lines, bars and dialogs, and (the last) of the chosen line."""
ACCENTS = ("text-primary", "text-secondary")
"""Coloured texts that are no severity."""

OWN_THEME = replace(BUILTIN_THEMES["textual-dark"], name=DEFAULT_THEME)
DARK_SEVERITIES = {"text-error": "#ff7a5c", "text-warning": "#ffd33d", "text-success": "#66eaa3"}
LIGHT_SEVERITIES = {"text-error": "#992600", "text-warning": "#421600", "text-success": "#005299"}
ANSI_TEXTS = {
    "ansi-dark": {
        "text-error": "ansi_bright_red",
        "text-warning": "ansi_bright_yellow",
        "text-success": "ansi_bright_green",
        "text-primary": "ansi_bright_cyan",
        "text-secondary": "ansi_bright_magenta",
    },
    "ansi-light": {
        "text-error": "ansi_red",
        "text-warning": "ansi_magenta",
        "text-success": "ansi_blue",
        "text-primary": "ansi_blue",
        "text-secondary": "ansi_default",
    },
}
"""The terminal says what its 16 colours are: those that can be read on black, and on white, in the
palettes of the Linux console (drivers/tty/vt/vt.c) and of xterm."""


def terminal_colours() -> int:
    """How many colours Textual will draw with here, by the environment of this process."""
    console = Console(color_system=COLOR_SYSTEM, force_terminal=True, legacy_windows=False)  # type: ignore[arg-type]
    return {"truecolor": 2**24, "256": 256}.get(console.color_system or "", 16)


def theme_names(*, ansi_only: bool) -> tuple[str, ...]:
    """The themes that can be chosen; `ansi_only`: on a terminal with 16 colours."""
    if ansi_only:
        return tuple(ANSI_TEXTS)
    names = [DEFAULT_THEME]
    for name, theme in BUILTIN_THEMES.items():
        if not theme.ansi or name in ANSI_TEXTS:
            names.append(name)
    return tuple(names)


def checked_theme(name: str, path: str) -> str:
    """The theme of the configuration file at `path`; "": none. Raises NictopError for an unknown
    one."""
    known = theme_names(ansi_only=False)
    if name and name not in known:
        raise NictopError(f'{path}: unknown theme "{name}"', f"one of: {', '.join(known)}")
    return name


def first_theme(chosen: str, offered: Sequence[str]) -> str:
    """The theme at start: the one that is `chosen`, if the terminal can show it."""
    for name in (chosen, DEFAULT_THEME):
        if name in offered:
            return name
    return ANSI_THEME


def readable_theme(name: str, colours: int = TRUE_COLOURS) -> Theme:
    """A theme of `theme_names`, as it is shown on a terminal with so many colours."""
    theme = OWN_THEME if name == DEFAULT_THEME else BUILTIN_THEMES[name]
    if theme.ansi:
        return replace(theme, variables={**theme.variables, **ANSI_TEXTS[name]})
    severities = DARK_SEVERITIES if theme.dark else LIGHT_SEVERITIES
    given = {**theme.to_color_system().generate(), **theme.variables, **severities}
    drawn = _of_256 if colours <= 256 else _as_it_is
    extreme, opposite = (WHITE, BLACK) if theme.dark else (BLACK, WHITE)

    background = _towards(
        Color.parse(given["background"]), opposite, (extreme,), MIN_BACKGROUND_CONTRAST, drawn
    )
    given["primary-muted"] = background.blend(
        Color.parse(given["primary"]), CURSOR_SHARE, alpha=1
    ).hex
    backgrounds = {
        key: _towards(
            Color.parse(given[key]), background, (extreme,), MIN_BACKGROUND_CONTRAST, drawn
        )
        for key in BACKGROUNDS
    }
    drawn_backgrounds = tuple(map(drawn, backgrounds.values()))

    def text_like(colour: Color) -> Color:
        return _towards(colour, extreme, drawn_backgrounds, MIN_CONTRAST, drawn)

    texts = {
        key: text_like(Color.parse(given[key])) for key in (*severities, *ACCENTS, "foreground")
    }
    variables = {key: colour.hex for key, colour in chain(backgrounds.items(), texts.items())}
    variables["text-muted"] = text_like(background.blend(extreme, MUTED_SHARE, alpha=1)).hex
    for key, source in SAME_COLOURS.items():
        variables[key] = variables[source]
    return replace(
        theme,
        foreground=variables["foreground"],
        background=variables["background"],
        variables={**theme.variables, **variables},
    )


def contrast(one: Color, other: Color) -> float:
    """Contrast ratio, 1 to 21 (WCAG 2.2)."""
    darker, lighter = sorted((_luminance(one), _luminance(other)))
    return (lighter + 0.05) / (darker + 0.05)


def _luminance(colour: Color) -> float:
    """Relative luminance, 0 to 1 (WCAG 2.2)."""
    red, green, blue = map(_linear, colour.rgb)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def _linear(channel: int) -> float:
    """A channel of sRGB, 0 to 255, as light, 0 to 1."""
    share = channel / 255
    return share / 12.92 if share <= 0.04045 else ((share + 0.055) / 1.055) ** 2.4


def _towards(
    colour: Color,
    target: Color,
    others: Sequence[Color],
    wanted: float,
    drawn: Callable[[Color], Color],
) -> Color:
    """`colour`, or the first mixture with more and more of `target` that is `drawn` with enough
    contrast to all of `others`, which are as drawn."""
    for step in range(BLEND_STEPS):
        mixed = colour.blend(target, step / BLEND_STEPS, alpha=1)
        if all(contrast(drawn(mixed), other) >= wanted for other in others):
            return mixed
    return target


def _as_it_is(colour: Color) -> Color:
    return colour


def _of_256(colour: Color) -> Color:
    """What Rich draws instead on a terminal with 256 colours."""
    return Color(*RichColor.from_rgb(*colour.rgb).downgrade(ColorSystem.EIGHT_BIT).get_truecolor())
