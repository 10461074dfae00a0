"""Several hosts in one line: which there are, how they are, and which of them the screen is about.

● vm1  [● vm2]  ✖ pve refused, retry in 4 s  +3
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import accumulate, chain

from nictop.hosts.session import ConnectionStatus, HostSession
from nictop.model.facts import fit, width
from nictop.model.text.glyphs import Glyphs
from nictop.model.text.names import distinct_names
from nictop.model.text.words import Tone
from nictop.probe.light_dataclasses import dataclass
from nictop.tui.widgets.base.line_widget import Span, cut_spans, span_cells

MARKS = {
    "connecting": "◌",
    "live": "●",
    "silent": "◌",
    "overloaded": "●",
    "lost": "◌",
    "failed": "✖",
}
"""Status of the connection → mark; of a host that could not be reached it is `FAILED`."""
FAILED = "✖"
STYLES: dict[str, Tone] = {
    "connecting": "dim",
    "live": "good",
    "silent": "warn",
    "overloaded": "warn",
    "lost": "warn",
    "failed": "bad",
}
BADGE_STYLES: dict[str, Tone] = {"●": "good", "◌": "warn", FAILED: "bad"}
"""Marks of `MARKS`, each once."""
MAX_HOST_NAME_CELLS = 24
"""Cells of a name in the line; the hosts screen has all of it."""
HIDDEN_COUNT_CELLS = 5
"""Cells for the number of hosts that have no room at one side."""


def mark_of(host: HostSession, status: ConnectionStatus) -> tuple[str, Tone]:
    """Mark and style of a host with this status. One that was not reached is not marked as
    connecting while it is tried again."""
    if host.has_failed:
        return FAILED, "bad"
    return MARKS[status], STYLES[status]


def host_mark(host: HostSession, status: ConnectionStatus, *, glyphs: Glyphs) -> Span:
    """`mark_of`, as it is drawn."""
    mark, style = mark_of(host, status)
    return glyphs.encode(mark), style


def host_badges(hosts: Sequence[HostSession], now: float, interval: float) -> list[Span]:
    """``●3``, ``◌1``, ``✖1``: the number of hosts with each mark."""
    numbers: Counter[str] = Counter()
    for host in hosts:
        mark, _ = mark_of(host, host.status(now, interval))
        numbers[mark] += 1
    return [
        (f"{mark}{numbers[mark]}", BADGE_STYLES[mark]) for mark in BADGE_STYLES if numbers[mark]
    ]


@dataclass(frozen=True)
class HostSpans:
    """Hosts in a line."""

    spans: Sequence[Span] = ()
    ends: Sequence[tuple[str, int]] = ()
    """Name of a host, and the column behind it; "": of the number of those that have no room."""

    def at(self, x: int) -> str | None:
        """The host in a column; None: there is none."""
        for name, end in self.ends:
            if x < end:
                return name or None
        return None


def draw_hosts(
    hosts: Sequence[HostSession],
    chosen: str,
    cells: int,
    now: float,
    interval: float,
    *,
    glyphs: Glyphs,
) -> HostSpans:
    """At most `cells` cells. The order stays; where not all of them have room, the states of the
    others are cut to ``…``, then there are some hosts beside the chosen one, and the numbers at
    both ends say how many are out of sight."""
    items = _items(hosts, chosen, now, interval, has_states=False, glyphs=glyphs)
    if sum(map(span_cells, items)) <= cells:
        with_states = _items(hosts, chosen, now, interval, has_states=True, glyphs=glyphs)
        if sum(map(span_cells, with_states)) <= cells:
            items = with_states
    names = [host.name for host in hosts]
    here = 0
    if chosen in names:
        here = names.index(chosen)
    first, last = _shown_range(list(map(span_cells, items)), here, cells)
    shown, shown_names = items[first:last], names[first:last]
    if first:
        shown.insert(0, [(f" +{first}", "dim")])
        shown_names.insert(0, "")
    if last < len(items):
        shown.append([(f" +{len(items) - last} ", "dim")])
        shown_names.append("")
    ends = accumulate(map(span_cells, shown))
    spans = cut_spans(chain.from_iterable(shown), cells)
    return HostSpans(spans, tuple(zip(shown_names, ends, strict=True)))


def _items(
    hosts: Sequence[HostSession],
    chosen: str,
    now: float,
    interval: float,
    *,
    has_states: bool,
    glyphs: Glyphs,
) -> list[list[Span]]:
    """One for each host, with its state; without `has_states` only the chosen one has its words."""
    names = distinct_names((host.name for host in hosts), MAX_HOST_NAME_CELLS)
    items = []
    for host in hosts:
        is_chosen = host.name == chosen
        words = _words(host, now, interval, glyphs)
        if words and not (has_states or is_chosen):
            # "…": its mark alone would say that it is read; that of one that has failed says all
            words = "" if host.has_failed else glyphs.text("…")
        status = host.status(now, interval)
        items.append(_item(host, names[host.name], status, words, is_chosen, glyphs=glyphs))
    return items


def _shown_range(sizes: Sequence[int], chosen: int, cells: int) -> tuple[int, int]:
    """Index of the first host in sight, and behind the last: all where they fit, else those
    around the chosen one, first those behind it."""
    if sum(sizes) <= cells:
        return 0, len(sizes)
    first, last = chosen, chosen + 1
    room = cells - 2 * HIDDEN_COUNT_CELLS - sizes[chosen]
    while last < len(sizes) and sizes[last] <= room:
        room -= sizes[last]
        last += 1
    while first > 0 and sizes[first - 1] <= room:
        first -= 1
        room -= sizes[first]
    return first, last


def _words(host: HostSession, now: float, interval: float, glyphs: Glyphs) -> str:
    """The state behind the name; none of a host that is live."""
    text = glyphs.text(host.brief_text(now, interval))
    if text == "live":
        return ""
    return f" {text}"


def _item(
    host: HostSession,
    name: str,
    status: ConnectionStatus,
    words: str,
    is_chosen: bool,
    *,
    glyphs: Glyphs,
) -> list[Span]:
    """Mark, name and state, the chosen one in brackets."""
    mark, mark_style = host_mark(host, status, glyphs=glyphs)
    name = glyphs.text(name)
    name = fit(name, min(width(name), MAX_HOST_NAME_CELLS))
    left, right, name_style = ("[", "]", "title") if is_chosen else (" ", " ", "")
    return [
        (f" {left}", "title"),
        (mark, mark_style),
        (f" {name}", name_style),
        (words, mark_style),
        (right, "title"),
    ]
