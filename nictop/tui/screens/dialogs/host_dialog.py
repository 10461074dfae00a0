"""A dialog with values or commands of watched hosts, which says as soon as they may be older than
what happened there.

╭ vm1: set up ens4 ──────────────────────────────────────────────╮
│ The values were read before an event (link); they will be read │
│ again.                                                         │
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from nictop.model.snapshot import outdated_text
from nictop.model.text.terminal import clean
from nictop.tui.screens.base import NictopScreen
from nictop.tui.screens.dialogs.dialog import Dialog
from nictop.tui.widgets.base.line_widget import SpanLine

if TYPE_CHECKING:
    from nictop.hosts.session import HostSession
    from nictop.model.snapshot import Snapshot
    from nictop.probe.records import Outdated

READ_AGAIN = {
    "live": "they will be read again",
    "lost": "they are read again once it is connected",
    "connecting": "they are read again once it is connected",
}
"""State of the connection → when values that were read before are read again."""


class HostDialog(NictopScreen, Dialog[None]):
    """`value_hosts`: names of the hosts whose values it shows."""

    def __init__(self) -> None:
        super().__init__()
        self._age_shown: tuple[str, ...] = ()

    @property
    def value_hosts(self) -> Sequence[str]:
        raise NotImplementedError

    def on_mount(self) -> None:
        self.subscribe(self.nictop.hosts.changed, self._follow_age)

    def _follow_age(self) -> None:
        """An event makes the mark appear, a new inventory makes it go."""
        if self.ages() != self._age_shown:
            self.draw()

    def value_sessions(self) -> Iterable[HostSession]:
        for name in self.value_hosts:
            session = self.nictop.hosts.by_name.get(name)
            if session is not None:
                yield session

    def value_snapshot(self, session: HostSession) -> Snapshot:
        """The one that is shown."""
        return session.snapshot

    def ages(self) -> tuple[str, ...]:
        """Sentences; empty: nothing newer is known than what is shown."""
        texts = (_age_text(self.value_snapshot(one)) for one in self.value_sessions())
        return tuple(text for text in dict.fromkeys(texts) if text)

    def head_lines(self, cells: int) -> Sequence[SpanLine]:
        self._age_shown = self.ages()
        lines: list[SpanLine] = []
        for text in self._age_shown:
            lines += self.wrapped(text, cells, "warn", indent=" ")
        return lines


def _age_text(snapshot: Snapshot) -> str:
    """What is known of when they are read again; "": nothing newer is known than what is shown."""
    text = outdated_text(snapshot)
    if not text:
        return ""
    again = READ_AGAIN.get(snapshot.state)
    if again is None:
        again = f"it is not connected to any more ({clean(snapshot.message) or 'failed'})"
    return f"The values were {text}; {again}."


class StartDialog(NictopScreen, Dialog[None]):
    """A dialog that starts something on a host, and says while that is not connected."""

    start_host = ""
    """Its name."""
    _host_notice = ""

    def on_mount(self) -> None:
        self.subscribe(self.nictop.hosts.changed, self._follow_host)

    def _follow_host(self) -> None:
        if self._not_connected_text() != self._host_notice:
            self.draw()

    def _not_connected_text(self) -> str:
        """``vm1 is not connected: connection lost, retry in 4 s``; "": it is, or is silent only."""
        session = self.nictop.hosts.by_name.get(self.start_host)
        if session is None:
            return f"{clean(self.start_host)} is not watched any more"
        if session.snapshot.state == "live":
            return ""
        state = session.brief_text(self.nictop.drawn_at(), self.nictop.hosts.interval)
        return f"{clean(self.start_host)} is not connected: {state}"

    def head_lines(self, cells: int) -> Sequence[SpanLine]:
        self._host_notice = self._not_connected_text()
        if not self._host_notice:
            return ()
        return list(self.wrapped(self._host_notice, cells, "warn", indent=" "))


def events_of(sessions: Iterable[HostSession]) -> Mapping[str, Outdated | None]:
    """Host → its newest event."""
    return {session.name: session.snapshot.event for session in sessions}
