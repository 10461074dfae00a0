"""Several hosts in one line: which there are, how they are, and which of them the screen is about.

● vm1  [● vm2]  ✖ pve refused, retry in 4 s  +3
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

from nictop.hosts.session import ConnectionStatus, HostSession
from nictop.model.facts import fit, width
from nictop.model.text.glyphs import Glyphs
from nictop.model.text.names import distinct_names
from nictop.model.text.words import Tone
from nictop.tui.widgets.base.line_view import Span, cut_spans

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
    """Mark and style of a host with this status. One that was not reached is not marked as connecting while it is tried
    again."""
    if host.has_failed:
        return FAILED, "bad"
    return MARKS[status], STYLES[status]


def host_mark(host: HostSession, status: ConnectionStatus, *, glyphs: Glyphs) -> Span:
    """`mark_of`, as it is drawn."""
    mark, style = mark_of(host, status)
    return glyphs.encode(mark), style


def host_badges(hosts: Sequence[HostSession], now: float, interval: float) -> list[Span]:
    """``●3``, ``◌1``, ``✖1``: the number of hosts with each mark."""
    numbers = Counter(mark_of(one, one.status(now, interval))[0] for one in hosts)
    return [(f"{mark}{numbers[mark]}", style) for mark, style in BADGE_STYLES.items() if numbers[mark]]


@dataclass(frozen=True)
class HostSpans:
    """Hosts in a line."""

    spans: Sequence[Span] = ()
    ends: Sequence[tuple[str, int]] = ()
    """Name of a host, and the column behind it; "": of the number of those that have no room."""

    def at(self, x: int) -> str | None:
        """The host in a column."""
        return next((name or None for name, end in self.ends if x < end), None)


def draw_hosts(
    hosts: Sequence[HostSession], chosen: str, cells: int, now: float, interval: float, *, glyphs: Glyphs
) -> HostSpans:
    """At most `cells` cells. The order stays; where not all of them have room, the states of the others are cut to
    ``…``, then there are some hosts beside the chosen one, and the numbers at both ends say how many are out of
    sight."""
    names = distinct_names((host.name for host in hosts), MAX_HOST_NAME_CELLS)
    items: list[list[Span]] = []
    sizes: list[int] = []
    for has_states in (True, False):
        items = []
        for host in hosts:
            is_chosen = host.name == chosen
            words = _words(host, now, interval, glyphs)
            if words and not (has_states or is_chosen):
                words = glyphs.text("…")  # its mark alone would say that it is read
            items.append(_item(host, names[host.name], host.status(now, interval), words, is_chosen, glyphs=glyphs))
        sizes = [sum(width(text) for text, _ in item) for item in items]
        if sum(sizes) <= cells:
            break
    here = next((index for index, host in enumerate(hosts) if host.name == chosen), 0)
    first, last = here, here + 1
    room = cells - sum(sizes)
    if room >= 0:
        first, last = 0, len(items)
    else:
        room = cells - 2 * HIDDEN_COUNT_CELLS - sizes[here]
    while last < len(items) and sizes[last] <= room:
        room -= sizes[last]
        last += 1
    while first > 0 and sizes[first - 1] <= room:
        first -= 1
        room -= sizes[first]
    parts = [(host.name, item) for host, item in zip(hosts[first:last], items[first:last], strict=True)]
    if first:
        parts.insert(0, ("", [(f" +{first}", "dim")]))
    if last < len(items):
        parts.append(("", [(f" +{len(items) - last} ", "dim")]))
    ends = accumulate(sum(width(text) for text, _ in item) for _, item in parts)
    spans = cut_spans([span for _, item in parts for span in item], cells)
    return HostSpans(spans, tuple(zip((name for name, _ in parts), ends, strict=True)))


def _words(host: HostSession, now: float, interval: float, glyphs: Glyphs) -> str:
    """The state behind the name; none of a host that is live."""
    text = glyphs.text(host.brief_text(now, interval))
    return "" if text == "live" else f" {text}"


def _item(
    host: HostSession, name: str, status: ConnectionStatus, words: str, is_chosen: bool, *, glyphs: Glyphs
) -> list[Span]:
    mark, style = host_mark(host, status, glyphs=glyphs)
    name = glyphs.text(name)
    name = fit(name, min(width(name), MAX_HOST_NAME_CELLS))
    left, right = ("[", "]") if is_chosen else (" ", " ")
    return [(f" {left}", "title"), (mark, style), (f" {name}", "title" if is_chosen else ""), (words, style),
            (right, "title")]  # fmt: skip
