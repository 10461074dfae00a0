"""The watched hosts, one line each, and everything about the chosen one: how the connection is, rights, clock."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from textual.message import Message

from nictop.hosts.session import HostSession
from nictop.hosts.specification import Host
from nictop.model.devices.rights import is_root, rights_words
from nictop.model.facts import fit, platform_words, wrap
from nictop.model.time_axis import LocalClock, clock_words
from nictop.tui.widgets.base.line_view import Span, SpanLine
from nictop.tui.widgets.base.list_view import ChoiceView
from nictop.tui.widgets.status.host_strip import STYLES, host_mark

COLUMNS = (("HOST", 18), ("STATE", 22), ("RIGHTS", 10), ("ADDRESS", 24), ("CLOCK", 44))
"""Titles and cells; those at the end go first where room is short."""
MORE_RIGHTS = "its probe runs as root with: nictop --sudo, or sudo = true for the host in config.toml"
LABEL = 9
"""Cells of a label in the facts of a host."""


def address_words(host: Host) -> str:
    """``root@pve.example:2222``; what is not said comes from ~/.ssh/config."""
    if host.is_local:
        return "this machine"
    address = f"[{host.address}]" if ":" in host.address and host.port is not None else host.address
    user = f"{host.user}@" if host.user else ""
    return f"{user}{address}" + (f":{host.port}" if host.port is not None else "")


@dataclass(frozen=True)
class DrawTime:
    """When it is drawn: this machine's clocks, and how often hosts speak."""

    here: LocalClock
    interval: float


class HostTable(ChoiceView):
    """Posts `Chosen` when the cursor stands on another host, `Opened` on a second click."""

    class Chosen(Message):
        """Another host."""

    class Opened(ChoiceView.Opened):
        """The chosen host is to be shown."""

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._hosts: Sequence[HostSession] = ()
        self._shown = ""
        self._moment: DrawTime | None = None

    @property
    def chosen(self) -> HostSession | None:
        index = self.index
        return None if index is None else self._hosts[index]

    def show(self, hosts: Sequence[HostSession], shown: str, moment: DrawTime) -> None:
        """Draw these; `shown` is the one whose devices the live screen has."""
        self._hosts, self._shown, self._moment = hosts, shown, moment
        self.set_keys([host.name for host in hosts])
        self.redraw()

    def first_choice(self) -> int:
        return next((index for index, host in enumerate(self._hosts) if host.name == self._shown), 0)

    def choice_changed(self, index: int) -> None:
        self.post_message(self.Chosen())

    def redraw(self) -> None:
        moment = self._moment
        if moment is not None:
            columns = _columns(self.scrollable_content_region.width)
            header = "   " + " ".join(fit(title, cells) for title, cells in columns)
            self.show_drawn(
                len(self._hosts), lambda index: self._line_for(index, columns, moment), ((header, ""),), self.index
            )

    def _line_for(self, index: int, columns: Sequence[tuple[str, int]], moment: DrawTime) -> SpanLine:
        host, now = self._hosts[index], moment.here.monotonic
        status = host.status(now, moment.interval)
        root = is_root(host.snapshot)
        words = {
            "HOST": (host.name, "title"),
            "STATE": (host.status_text(now, moment.interval), STYLES[status]),
            "RIGHTS": ("–" if root is None else "root" if root else _user(host), "" if root else "dim"),
            "ADDRESS": (address_words(host.host), "dim"),
            "CLOCK": (clock_words(host.snapshot, moment.here), "dim"),
        }
        mark, style = host_mark(status, glyphs=self.glyphs)
        spans: list[Span] = [(" ", ""), (mark, style)]
        for title, cells in columns:
            text, tone = words[title]
            spans.append((" " + fit(self.glyphs.encode(text), cells), tone))
        return tuple(spans)


def _user(host: HostSession) -> str:
    return f"user {host.snapshot.hello.euid}" if host.snapshot.hello is not None else "–"


def _columns(cells: int) -> list[tuple[str, int]]:
    kept: list[tuple[str, int]] = []
    room = cells - 2
    for title, wanted in COLUMNS:
        if kept and wanted + 1 > room:
            break
        kept.append((title, max(1, min(wanted, room - 1))))
        room -= wanted + 1
    return kept


def draw_host(host: HostSession, moment: DrawTime, cells: int) -> list[SpanLine]:
    """Everything about one host, each fact wrapped to `cells`."""
    now = moment.here.monotonic
    status, snapshot = host.status(now, moment.interval), host.snapshot
    age = host.age_text(now, moment.interval)
    state = host.status_text(now, moment.interval) + (f"; {age}" if age else "")
    lines = [*_fact("state", state, cells, STYLES[status])]
    why = host.notice(now, moment.interval) if status == "overloaded" else host.reason
    if why and status != "live":
        lines += _fact("why", why, cells, "warn")
    lines += _fact("address", address_words(host.host), cells)
    if snapshot.hello is not None:
        lines += _fact("rights", rights_words(snapshot), cells)
        if not is_root(snapshot):
            lines += _fact("", MORE_RIGHTS, cells, "dim")
        hello = snapshot.hello
        lines += _fact("system", f"{hello.hostname} · Linux {hello.kernel} · Python {hello.python}", cells)
    if snapshot.inventory is not None and "platform" not in snapshot.inventory.pending:
        lines += _fact("machine", platform_words(snapshot.inventory.platform), cells)
    lines += _fact("clock", clock_words(snapshot, moment.here), cells)
    lines += [line for one in snapshot.troubles[-3:] for line in _fact("trouble", one.message, cells, "warn")]
    return lines


def _fact(label: str, text: str, cells: int, style: str = "") -> Iterable[SpanLine]:
    for number, part in enumerate(wrap(text, cells - LABEL - 1)):
        yield ((f" {label if number == 0 else '':<{LABEL}}", "dim"), (part, style))
