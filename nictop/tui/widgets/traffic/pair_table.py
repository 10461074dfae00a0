"""The pairs of ends that a run can go between, one line each: those that share a subnet, both ways round.

CLIENT        NIC     SERVER        NIC     NETWORK        SPEED  DIFFERS
vm1           ens224  vm2           ens224  192.0.2.0/24   10G    mtu 9000 / 1500
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from textual.message import Message

from nictop.model.devices.subnets import speed
from nictop.model.facts import clean, fit, width, wrap
from nictop.model.snapshot import Snapshot
from nictop.probe.records import Link
from nictop.traffic.plan.plan import Endpoint, EndpointPair
from nictop.tui.widgets.base.line_view import Span, SpanLine
from nictop.tui.widgets.base.list_view import ChoiceView

TITLES = ("CLIENT", "NIC", "SERVER", "NIC", "NETWORK", "SPEED", "DIFFERS")
LONGEST = 22
"""Cells of a column but the last."""
UNKNOWN = "–"


@dataclass(frozen=True)
class OfferRow:
    """An offer in words, as the machines give them."""

    offer: EndpointPair
    cells: tuple[str, ...]
    """As `TITLES`."""

    @property
    def key(self) -> str:
        offer = self.offer
        return f"{offer.client.host} {offer.client.address} {offer.server.host} {offer.server.address}"

    def accepts(self, words: Sequence[str]) -> bool:
        """Every word is somewhere in it."""
        text = " ".join((*self.cells, self.offer.client.address, self.offer.server.address)).casefold()
        return all(word in text for word in words)


def offer_rows(offers: Sequence[EndpointPair], snapshots: Mapping[str, Snapshot]) -> tuple[OfferRow, ...]:
    """In their order."""
    return tuple(OfferRow(offer, _cells(offer, snapshots)) for offer in offers)


def link_of(place: Endpoint, snapshots: Mapping[str, Snapshot]) -> Link | None:
    """The netdev of a place."""
    snapshot = snapshots.get(place.host)
    return snapshot.links.get(place.ifindex or 0) if snapshot is not None else None


def _cells(offer: EndpointPair, snapshots: Mapping[str, Snapshot]) -> tuple[str, ...]:
    client, server = (link_of(place, snapshots) for place in (offer.client, offer.server))
    speeds = dict.fromkeys(speed(link) or UNKNOWN for link in (client, server) if link is not None)
    return (
        offer.client.host,
        client.name if client is not None else UNKNOWN,
        offer.server.host,
        server.name if server is not None else UNKNOWN,
        offer.network,
        "/".join(speeds),
        ", ".join(f"{one.what} {' / '.join(value for value, _ in one.sides)}" for one in offer.disagreements),
    )


class OfferTable(ChoiceView):
    """Posts `Chosen` when the cursor stands on another pair."""

    class Chosen(Message):
        """Another pair."""

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._rows: tuple[OfferRow, ...] = ()
        self._empty: Sequence[str] = ()

    @property
    def chosen(self) -> OfferRow | None:
        index = self.index
        return None if index is None or index >= len(self._rows) else self._rows[index]

    @property
    def count(self) -> int:
        return len(self._rows)

    def show(self, rows: Sequence[OfferRow], empty: Sequence[str]) -> None:
        """Draw these; the cursor stays with its pair. `empty`: what is said when there are none, a line each."""
        self._rows, self._empty = tuple(rows), empty
        self.set_keys([row.key for row in self._rows])
        self.redraw()

    def choice_changed(self, index: int) -> None:
        self.post_message(self.Chosen())

    def redraw(self) -> None:
        if not self._rows:
            cells = max(10, self.scrollable_content_region.width - 2)
            said = [part for line in self._empty for part in wrap(self.glyphs.encode(line), cells)]
            self.show_lines([((f" {part}", ""),) for part in said], ((" ", ""),))
            return
        sizes = self._sizes()
        header = "".join(f" {fit(title, cells)}" for title, cells in zip(TITLES, sizes, strict=True))
        self.show_drawn(len(self._rows), lambda index: self._row_line(index, sizes), ((header, ""),), self.index)

    def _sizes(self) -> list[int]:
        """What the texts need, as far as there is room; the first columns are cut last."""
        wanted = [width(title) for title in TITLES]
        for row in self._rows:
            wanted = [max(size, width(clean(cell))) for size, cell in zip(wanted, row.cells, strict=True)]
        wanted = [*(min(size, LONGEST) for size in wanted[:-1]), wanted[-1]]
        room = self.scrollable_content_region.width - len(wanted)
        sizes = []
        for size in wanted:
            sizes.append(max(0, min(size, room)))
            room -= sizes[-1]
        return sizes

    def _row_line(self, index: int, sizes: Sequence[int]) -> SpanLine:
        spans: list[Span] = []
        for number, (cell, size) in enumerate(zip(self._rows[index].cells, sizes, strict=True)):
            text = self.glyphs.text(cell)
            style = "warn" if number == len(TITLES) - 1 else "title" if number in (0, 2) else ""
            spans.append((" " + fit(text, size), style))
        return tuple(spans)
