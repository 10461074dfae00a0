"""Themes: those of Textual and nictop's own, with colours that can be read.

Text must have a contrast of 4.5:1 (WCAG 2.2, 1.4.3 level AA) on every background that a line can have; few of Textual's
themes do. A theme is offered with its own colours, where they are enough, and else with lighter or darker ones.

Severities have the same colours on all dark themes, and on all light ones: people with each kind of colour blindness
tell them apart (simulated in tests/tui/test_themes.py). On every theme severities also differ by mark and word.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import chain

from textual.color import BLACK, WHITE, Color
from textual.theme import BUILTIN_THEMES, Theme

from nictop.errors import NictopError

DEFAULT_THEME = "nictop"
ANSI_THEME = "ansi-dark"
"""Of terminals with 16 colours, where no other one is chosen."""
MIN_CONTRAST = 4.5
"""Of text, WCAG 2.2 1.4.3."""
MIN_BACKGROUND_CONTRAST = 10.0
"""Of black or white on a background: a lower one would leave no room for colours."""
BLEND_STEPS = 20
CURSOR_SHARE = 0.4
"""Of the primary colour in the background of the chosen line."""
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
"""The terminal says what its 16 colours are: those that can be read on black, and on white, in the palettes of the
Linux console (drivers/tty/vt/vt.c) and of xterm."""


def theme_names(*, ansi_only: bool) -> tuple[str, ...]:
    """The themes that can be chosen; `ansi_only`: on a terminal with 16 colours."""
    if ansi_only:
        return tuple(ANSI_TEXTS)
    return DEFAULT_THEME, *(name for name, theme in BUILTIN_THEMES.items() if not theme.ansi or name in ANSI_TEXTS)


def checked_theme(name: str, path: str) -> str:
    """The theme of the configuration file at `path`; "": none. Raises NictopError for an unknown one."""
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


def readable_theme(name: str) -> Theme:
    """A theme of `theme_names`, as it is shown."""
    theme = OWN_THEME if name == DEFAULT_THEME else BUILTIN_THEMES[name]
    if theme.ansi:
        return replace(theme, variables={**theme.variables, **ANSI_TEXTS[name]})
    severities = DARK_SEVERITIES if theme.dark else LIGHT_SEVERITIES
    colours = {**theme.to_color_system().generate(), **theme.variables, **severities}
    background = Color.parse(colours["background"])
    extreme = WHITE if background.brightness < 0.5 else BLACK

    colours["primary-muted"] = background.blend(Color.parse(colours["primary"]), CURSOR_SHARE, alpha=1).hex
    backgrounds = {
        key: _towards(Color.parse(colours[key]), background, (extreme,), MIN_BACKGROUND_CONTRAST) for key in BACKGROUNDS
    }
    shown = tuple(backgrounds.values())
    texts = {key: _towards(Color.parse(colours[key]), extreme, shown, MIN_CONTRAST) for key in (*severities, *ACCENTS)}
    foreground = _towards(Color.parse(colours["foreground"]), extreme, shown, MIN_CONTRAST)
    muted = _towards(background.blend(extreme, 0.6, alpha=1), extreme, shown, MIN_CONTRAST)
    variables = {key: colour.hex for key, colour in chain(backgrounds.items(), texts.items())}
    variables["text-muted"] = variables["text-disabled"] = muted.hex
    variables["footer-background"] = variables["panel"]
    for key in ("foreground", "footer-foreground", "footer-description-foreground"):
        variables[key] = foreground.hex
    return replace(theme, foreground=foreground.hex, variables={**theme.variables, **variables})


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


def _towards(colour: Color, target: Color, others: Sequence[Color], wanted: float) -> Color:
    """`colour`, or the first mixture with more and more of `target` whose contrast to all of `others` is enough."""
    for step in range(BLEND_STEPS):
        mixed = colour.blend(target, step / BLEND_STEPS, alpha=1)
        if all(contrast(mixed, other) >= wanted for other in others):
            return mixed
    return target
