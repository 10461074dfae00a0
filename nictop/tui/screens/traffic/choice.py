"""What the form and the chosen pair make together: the wish, what is wrong with it, and what both ends have.

Reads nothing; the generators of a host are asked for through the `TrafficController`, once.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from time import monotonic
from typing import TYPE_CHECKING

from nictop.errors import NictopError
from nictop.model.facts import clean
from nictop.model.snapshot import Snapshot
from nictop.probe.records import TrafficTools
from nictop.traffic.experiment.steps import experiment_of
from nictop.traffic.plan.request import RunRequest
from nictop.traffic.plan.tools import iperf3_version, version_words
from nictop.tui.widgets.traffic.form_fields import NOBODY, field_of, wish_of
from nictop.tui.widgets.traffic.pair_table import OfferRow, link_of

if TYPE_CHECKING:
    from nictop.tui.controllers.traffic import TrafficController

FRESH = 30.0
"""Seconds for which the answer of a host counts: somebody may install iperf3 meanwhile."""

PARTS = re.compile(r": |\(")
"""Between the parts of a sentence, each of which may be about a field."""
NESTED = "("
"""A sentence with the reasons of several others in it is not to be torn apart."""


@dataclass(frozen=True)
class Choice:
    """What would be started."""

    wish: RunRequest | None = None
    problems: Mapping[str, str] = field(default_factory=dict)
    """Name of a field → what is wrong with it."""
    complaints: tuple[str, ...] = ()
    """What is wrong beyond the fields."""
    notes: tuple[str, ...] = ()
    """What is worth knowing before it starts."""

    @classmethod
    def of(
        cls,
        row: OfferRow | None,
        words: Mapping[str, str],
        names: Sequence[str],
        snapshots: Mapping[str, Snapshot],
        tools: Mapping[str, TrafficTools],
    ) -> Choice:
        """`names`: watched hosts; `tools`: of those that have told them."""
        client, server = (row.offer.client.host, row.offer.server.host) if row is not None else ("", "")
        others = tuple(name for name in names if name not in (client, server))
        wish, problems = wish_of(words, client, server, others)
        if row is None:
            return cls(wish, problems)
        wish = _placed(wish, row, snapshots)
        if problems or client not in tools or server not in tools:
            return cls(wish, problems)
        try:
            experiment = experiment_of(wish, (row.offer,), snapshots, tools)
        except NictopError as error:
            return cls(wish, *_sorted(error))
        return cls(wish, notes=experiment.notes)

    def for_self_test(self, words: Mapping[str, str]) -> Choice:
        """The same options, between two ends on this machine."""
        wish, problems = wish_of({**words, "observers": NOBODY}, "", "", ())
        return Choice(wish, problems)


def _placed(wish: RunRequest, row: OfferRow, snapshots: Mapping[str, Snapshot]) -> RunRequest:
    """Between exactly these ends, unless the NIC is what is varied."""
    varied = wish.compare or wish.sweep
    if varied is not None and varied[0] == "nic":
        return wish
    client, server = (link_of(place, snapshots) for place in (row.offer.client, row.offer.server))
    return replace(
        wish,
        client_nic=client.name if client is not None else "",
        server_nic=server.name if server is not None else "",
        client_address=row.offer.client.address,
        server_address=row.offer.server.address,
    )


def _sorted(error: NictopError) -> tuple[dict[str, str], tuple[str, ...]]:
    """The sentences of an error, beside their fields where they have one."""
    problems: dict[str, str] = {}
    rest: list[str] = []
    for sentence in error.message.split("; "):
        parts = [part.rstrip(")") for part in PARTS.split(sentence) if field_of(part)]
        for part in parts:
            problems.setdefault(field_of(part) or "", part)
        if not parts:
            rest.append(sentence)
    if NESTED in error.message:
        rest = [error.message]
    return problems, tuple([*rest, error.hint] if error.hint and rest else rest)


class RunTools:
    """Which generators the hosts have, as far as they have said so."""

    def __init__(self) -> None:
        self.known: dict[str, TrafficTools] = {}
        self._asked: dict[str, float] = {}
        self._why_not: dict[str, str] = {}

    def missing(self, names: Sequence[str]) -> tuple[str, ...]:
        """Those of which nothing, or nothing new, is known, and that are not being asked."""
        old = monotonic() - FRESH
        return tuple(name for name in dict.fromkeys(names) if self._asked.get(name, old) <= old)

    async def ask(self, traffic: TrafficController, name: str) -> None:
        """What it has, or why that is not known."""
        self._asked[name] = monotonic()
        try:
            self.known[name] = await traffic.tools(name)
            self._why_not.pop(name, None)
        except NictopError as error:
            self._why_not[name] = error.message

    def words(self, row: OfferRow) -> str:
        """What both ends have."""
        names = (row.offer.client.host, row.offer.server.host)
        return " · ".join(self._of(name) for name in dict.fromkeys(names))

    def _of(self, name: str) -> str:
        tools = self.known.get(name)
        if tools is None:
            return f"{clean(name)}: {clean(self._why_not.get(name, 'asked for its generators'))}"
        if tools.path is None:
            return f"{clean(name)}: no iperf3, only the built-in generator"
        return f"{clean(name)}: {version_words(iperf3_version(tools.version))}"
