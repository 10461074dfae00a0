"""Base of the screens that show and use controllers."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar, Protocol, cast

from textual.screen import ModalScreen

from nictop.tui.widgets.base.whole_frames import WholeFrames

if TYPE_CHECKING:
    from nictop.changes.actions import Actions
    from nictop.changes.job import ChangeJob
    from nictop.rules import Finding, Fix
    from nictop.tui.controllers.marks import Marked
    from nictop.tui.controllers.nictop import Nictop
    from nictop.tui.controllers.signal import Signal
    from nictop.tui.widgets.status.own_cost import OwnCost


class Opener(Protocol):
    """The application, as screens need it beside what Textual offers: it opens screens that they do
    not import."""

    nictop: Nictop
    """The live hosts, or those of a recording."""
    own_cost: OwnCost
    pressed: Signal
    """A key or a mouse button is, which nothing has reacted to yet."""
    themes: tuple[str, ...]
    """Names of those that this terminal can show."""

    def use_theme(self, name: str) -> None:
        """Draw with it, and keep it in the configuration file."""

    def open_change(self) -> bool:
        """The dialog of the change that is running, or whose end the user has not seen. False:
        there is none."""

    def open_fix(self, finding: Finding, fix: Fix) -> None: ...

    def open_job(self, job: ChangeJob) -> None:
        """Ask for what has to be filled in, or request from the host at once what would be
        changed."""

    def start_change(self, job: ChangeJob, actions: Actions) -> None:
        """Request from the host what would be changed, and show it."""

    def open_set_up(self, host: str, ifindex: int | None) -> None:
        """The set-up of a NIC of a watched host; None: none is chosen. A change that is running is
        shown instead."""

    @property
    def shown(self) -> Nictop:
        """`nictop`, or while the user looks back the last minutes."""

    def open_diff(self, left: Marked, right: Marked) -> None:
        """What differs between both."""

    def hide_notices(self, title: str) -> None:
        """Those with this title: what they say is over."""

    def look_back(
        self, moment: float, steps: int = 0, *, events: int = 0, asks: bool = False
    ) -> object:
        """Show the hosts at a time of the last minutes (seconds, CLOCK_MONOTONIC), or so many
        readings or events from there, and continue to read them; `asks`: ask for the time then."""

    def leave_past(self) -> object:
        """Show the present again."""

    def held_keys(self) -> AbstractContextManager[None]:
        """Keys wait for the end of the block: they are for what follows it."""

    def activity(self) -> tuple[tuple[str, str], ...]:
        """The recording, the run and the change that go on, short, each with the action of a click
        on it."""

    async def action_view(self, tab: str) -> None:
        """Show a view as it was left."""

    async def open_finding(self, finding: Finding) -> None:
        """The view Findings, with this one chosen."""

    async def open_link(self, host: str, ifindex: int) -> None:
        """The view Devices of a host, with this netdev chosen."""


class NictopScreen(WholeFrames):
    """Must precede Textual's class in the list of bases."""

    IS_OF_PRESENT: ClassVar[bool] = False
    """Also while the user looks back: it is about what nictop does to hosts."""

    def __init__(self) -> None:
        super().__init__()
        self._unsubscribe: list[Callable[[], None]] = []

    @property
    def opener(self) -> Opener:
        return cast("Opener", self.app)

    @cached_property
    def nictop(self) -> Nictop:
        """What was shown when it was opened."""
        return self.opener.nictop if self.IS_OF_PRESENT else self.opener.shown

    def subscribe(
        self, signal: Signal, callback: Callable[[], object], *, now: bool = False
    ) -> None:
        """Call it whenever the signal is published, until the screen is closed, and, if wanted,
        `now`."""
        while_open = self._if_open(callback)

        def call() -> None:
            with self._context():
                # the result of a dialog that the callback opens comes back to this screen
                while_open()

        self._unsubscribe.append(signal.subscribe(call))
        if now:
            callback()

    @property
    def in_sight(self) -> bool:
        """It is shown, if only behind dialogs."""
        for screen in reversed(self.app.screen_stack):
            if screen is self or not isinstance(screen, ModalScreen):
                return screen is self
        return False

    def on_unmount(self) -> None:
        for unsubscribe in self._unsubscribe:
            unsubscribe()
