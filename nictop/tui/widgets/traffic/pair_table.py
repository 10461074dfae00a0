"""The paths that a test can use, one line each: two NICs that share a subnet. The direction is
chosen in the form.

PATH                       NETWORK        SPEED  DIFFERS
vm1:ens224 ↔ vm2:ens224    192.0.2.0/24   10G    mtu 9000 / 1500
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from textual.message import Message

from nictop.model.columns.column import REMAINING_WIDTH, Column, sized_columns
from nictop.model.devices.subnets import speed
from nictop.model.facts import clean, fit, width, wrap
from nictop.model.snapshot import Snapshot
from nictop.model.text.glyphs import Glyphs
from nictop.model.text.names import names_in_path
from nictop.probe.light_dataclasses import dataclass, replace
from nictop.probe.records import Link
from nictop.traffic.plan.plan import Endpoint, EndpointPair
from nictop.tui.widgets.base.choice_list import ChoiceList
from nictop.tui.widgets.base.line_widget import SpanLine
from nictop.tui.widgets.base.table_line import cell_spans, encoded_columns, headings

MAX_PATH_CELLS, MAX_CELLS = 52, 22
"""Widths of the columns but the last; on a wide screen the first one has half of it."""
MAX_ENDS_CELLS = 1000
"""Of a path that is not cut."""
UNKNOWN = "–"


@dataclass(frozen=True)
class PairRow:
    """A pair as text, as the hosts report it."""

    pair: EndpointPair
    client_nic: str
    server_nic: str
    speed: str
    differs: str

    @property
    def path(self) -> str:
        """``vm1:ens224 ↔ vm2:ens224``: the client first."""
        return self.path_in(MAX_ENDS_CELLS)

    def path_in(self, cells: int) -> str:
        """The path; names of hosts are cut where it has not enough `cells`."""
        nics = width(clean(self.client_nic)) + width(clean(self.server_nic))
        hosts = (self.pair.client.host, self.pair.server.host)
        client, server = names_in_path(hosts, nics + len(": <-> :"), cells)
        return f"{client}:{self.client_nic} ↔ {server}:{self.server_nic}"

    @property
    def key(self) -> str:
        client, server = self.pair.client, self.pair.server
        return f"{client.host} {client.address} {server.host} {server.address}"

    def accepts(self, words: Sequence[str]) -> bool:
        """Whether the row contains every word."""
        texts = (column.cell(self)[0] for column in COLUMNS)
        text = " ".join((*texts, self.pair.client.address, self.pair.server.address)).casefold()
        return all(word in text for word in words)


COLUMNS: tuple[Column[PairRow], ...] = (
    Column("path", "PATH", "", MAX_PATH_CELLS, 1, "left", lambda row: (row.path, "title"),
        source="two interfaces that share a subnet, the client first (RTM_GETADDR of both hosts)"),
    Column("network", "NETWORK", "", MAX_CELLS, 1, "left", lambda row: row.pair.network,
        source="their subnet (RTM_GETADDR)"),
    Column("speed", "SPEED", "", MAX_CELLS, 1, "left", lambda row: row.speed,
        source="link speed of both (ETHTOOL_MSG_LINKMODES_GET)"),
    Column("differs", "DIFFERS", "", REMAINING_WIDTH, 1, "left", lambda row: (row.differs, "warn"),
        source="MTU, speed or VLAN that differ (IFLA_MTU, link settings, VLAN id)"),
)  # fmt: skip


def pair_rows(
    pairs: Sequence[EndpointPair], snapshots: Mapping[str, Snapshot]
) -> tuple[PairRow, ...]:
    """One row for each path, in the order of `pairs`, which have it in both directions: the first
    one is taken."""
    found: dict[frozenset[Endpoint], EndpointPair] = {}
    for pair in pairs:
        found.setdefault(frozenset((pair.client, pair.server)), pair)
    return tuple(_row(pair, snapshots) for pair in found.values())


def _nic_name(link: Link | None) -> str:
    return UNKNOWN if link is None else link.name


def _row(pair: EndpointPair, snapshots: Mapping[str, Snapshot]) -> PairRow:
    client, server = pair.client.link_in(snapshots), pair.server.link_in(snapshots)
    speeds = dict.fromkeys(speed(link) or UNKNOWN for link in (client, server) if link is not None)
    differs = []
    for disagreement in pair.disagreements:
        values = " / ".join(value for value, _ in disagreement.sides)
        differs.append(f"{disagreement.what} {values}")
    return PairRow(
        pair,
        _nic_name(client),
        _nic_name(server),
        "/".join(speeds),
        ", ".join(differs),
    )


def fitting_columns(
    rows: Sequence[PairRow], room: int, glyphs: Glyphs
) -> Sequence[Column[PairRow]]:
    """The columns in `room` cells; in a path that does not fit the names of both hosts are cut, and
    nothing else."""
    first, *others = COLUMNS
    wide = replace(first, width=max(MAX_PATH_CELLS, room // 2))
    path, *others = sized_columns(encoded_columns((wide, *others), glyphs), rows, room)
    return (replace(path, value=lambda row: (row.path_in(path.width), "title")), *others)


class PairTable(ChoiceList):
    """Posts `Chosen` when the cursor is on another pair."""

    class Chosen(Message):
        """The cursor is on another pair."""

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._rows: tuple[PairRow, ...] = ()
        self._empty: Sequence[str] = ()
        self._unlisted = ""
        self._is_filtered = False

    @property
    def chosen(self) -> PairRow | None:
        index = self.index
        if index is None or index >= len(self._rows):
            return None
        return self._rows[index]

    @property
    def count(self) -> int:
        return len(self._rows)

    def show(
        self,
        rows: Sequence[PairRow],
        empty: Sequence[str],
        hidden: Sequence[PairRow] = (),
        unlisted: str = "",
    ) -> None:
        """Draw `rows`; the cursor stays on its pair. `empty`: lines to show when there are none;
        `hidden`: rows that the filter leaves out; `unlisted`: a line below the rows."""
        self._rows, self._empty, self._unlisted = tuple(rows), empty, unlisted
        self._is_filtered = self._key in [row.key for row in hidden]
        self.set_keys([row.key for row in self._rows])
        self.redraw()

    def index_instead(self, place: int) -> int | None:
        """None: the user has chosen a pair that is gone, and no test is to use another one; it is
        chosen again if it comes back."""
        return super().index_instead(place) if self._is_filtered else None

    def choice_changed(self, index: int) -> None:
        self.post_message(self.Chosen())

    def draw_for_size(self) -> None:
        super().draw_for_size()
        self.redraw()

    def redraw(self) -> None:
        rows = self._rows
        if not rows:
            self._draw_empty()
            return
        cells = self.scrollable_content_region.width
        columns = fitting_columns(rows, cells, self.glyphs)

        def line(index: int) -> SpanLine:
            if index < len(rows):
                return tuple(cell_spans(columns, rows[index], self.glyphs))
            return ((fit(f" {self.glyphs.encode(self._unlisted)}", cells), "dim"),)

        number = len(rows) + bool(self._unlisted)
        self.show_drawn(number, line, ((headings(columns), ""),), self.index)

    def _draw_empty(self) -> None:
        """The lines instead of rows, as many as are seen; the last one says if there is more."""
        cells = max(10, self.scrollable_content_region.width - 2)
        texts: list[str] = []
        for line in self._empty:
            texts += wrap(self.glyphs.encode(line), cells)
        room = max(1, self.size.height)
        if len(texts) > room:
            texts = [*texts[: room - 1], fit(f"{texts[room - 1]} …", cells)]
        self.show_lines([((f" {self.glyphs.encode(part)}", ""),) for part in texts])
