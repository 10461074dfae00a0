"""The characters that nictop draws with, as one object: `UNICODE`, or `ASCII` for consoles without
block characters.

It is chosen once at start (`nictop.tui.terminal`, `nictop.cli.output`) and passed to what draws.
Each field is one or more characters of one cell each; `ASCII` has the same fields in the same
order.
"""

from __future__ import annotations

from nictop.model.text.terminal import clean, escape
from nictop.probe.light_dataclasses import dataclass

_TYPOGRAPHY = str.maketrans(
    {
        "–": "-", "…": "~", "×": "x", "·": "-", "µ": "u", "°": "", "∞": "inf", "→": "->", "▲": "!",
        "▽": "v", "○": "o", "●": "*", "◌": "@", "✓": "+", "✖": "X", "├": "|", "└": "`", "│": "|",
        "─": "-", "≥": ">=", "≤": "<=", "↔": "<->", "↑": "^", "↓": "v", "←": "<-", "▶": ">",
        "±": "+-", "√": "sqrt ", "▂": ".", "▄": ":", "█": "#",
    }
)  # fmt: skip
"""ASCII replacements of characters in texts; of the same width where columns depend on it."""


@dataclass(frozen=True, eq=False)
class Glyphs:
    """A set of characters."""

    is_ascii: bool = False

    # -------------------------------------------------------------------------- findings and states
    critical: str = "✖"
    warning: str = "▲"
    note: str = "·"
    passed: str = "✓"
    skipped: str = "–"

    # ------------------------------------------------------------------------------ lists and forms
    cursor: str = "▸"
    """The chosen line; also the right side of a choice."""
    choice_left: str = "◂"
    caret: str = "▏"
    """Where the next character is typed."""
    ascending: str = "▴"
    descending: str = "▾"

    # --------------------------------------------------------------------------------------- charts
    levels: str = " ▁▂▃▄▅▆▇█"
    """Heights of a cell, from empty to full."""
    zero: str = "·"
    """A value of 0 on the base line."""
    ceiling: str = "┄"
    """A horizontal limit."""
    limit: str = "┊"
    """A vertical limit across a bar."""
    axis: str = "│"
    left_tick: str = "┤"
    right_tick: str = "├"
    flow: str = "█"
    """The flow of a run in one direction; of two directions see `upper_flow` and `lower_flow`."""
    upper_flow: str = "▀"
    lower_flow: str = "▄"

    # ----------------------------------------------------------------------------------------- bars
    spread: tuple[str, str, str] = ("█", "▒", "░")
    """Parts of a bar: up to the lowest run, the median, the highest."""
    run: str = "●"
    median: str = "◆"
    """Marks on an axis of values."""
    cost: str = "━"
    countdown: tuple[str, str] = ("█", "░")
    """Time that is left, and time that has passed."""
    heat: str = "·▁▃▅▇"
    """From 0 to the maximum."""
    bar: str = "▏▎▍▌▋▊▉█"
    """Parts of the last cell of a bar, up to the whole cell."""
    work: str = "█▓▒▚░▞"
    """Kinds of CPU time, in the order of `nictop.tui.widgets.cpu.strip.KINDS`; in ASCII a letter of
    the name."""
    idle: str = "·"

    # --------------------------------------------------------------------------------------- replay
    playing: str = "▶"
    paused: str = "▮"
    end: str = "■"
    newest: str = "●"
    timeline: tuple[str, str, str, str, str] = ("━", "─", "╋", "┼", "●")
    """Before the position and after it, a run before and after it, the position."""

    def encode(self, text: str) -> str:
        r"""Clean text in this character set; in ASCII, other characters become ``\u`` escapes."""
        if not self.is_ascii or text.isascii():
            return text
        text = text.translate(_TYPOGRAPHY)
        if text.isascii():
            return text
        return "".join(
            character if character.isascii() else escape(character) for character in text
        )

    def text(self, text: str) -> str:
        """Text of any origin, as it will be drawn: cleaned, and in this character set."""
        return self.encode(clean(text))


UNICODE = Glyphs()

ASCII = Glyphs(
    is_ascii=True,
    critical="X", warning="!", note="i", passed="+", skipped="-",
    cursor=">", choice_left="<", caret="_", ascending="^", descending="v",
    levels=" .:|#", zero="_", ceiling="-", limit="!", axis="|", left_tick="+", right_tick="+",
    flow="#", upper_flow="^", lower_flow="v",
    spread=("#", "=", "-"), run="o", median="#", cost="~", countdown=("#", "."), heat=".:+*#",
    bar="#", work="USQITG", idle=".",
    playing=">", paused="=", end="#", newest="*", timeline=("=", "-", "#", "+", "O"),
)  # fmt: skip
