"""Guided set-up of one NIC: a form, and below it the commands that it makes.

╭ vm1: set up ens4 ──────────────────────────────────────────────╮
│ what to do     ◂ set its queues ▸                              │
│▸queues         4▏                 1 to 4, 1 now                │
│ ── What would be typed ──────────────────────────────────────  │
│       ethtool -L ens4 combined 4                               │
╰ enter go on · esc close ───────────────────────────────────────╯

From there it goes on as a fix does: the host says what would change, undoes it unless it is kept, and a check looks
whether it has come to what was wanted.
"""

from __future__ import annotations

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical
from textual.screen import ModalScreen

from nictop.changes.guided import GuidedChange
from nictop.changes.job import ChangeJob
from nictop.errors import NictopError
from nictop.model.facts import wrap
from nictop.rules import HostFacts
from nictop.tui.keys import SET_UP_KEYS
from nictop.tui.screens.base import NictopScreen
from nictop.tui.widgets.base.dialog_frame import box_keys, box_title
from nictop.tui.widgets.base.line_view import LineView, SpanLine, section_line
from nictop.tui.widgets.changes.guided_fields import Missing, NicRef, fields_of, set_up_of
from nictop.tui.widgets.changes.guided_form import SetUpForm
from nictop.tui.widgets.changes.page import draw_fix

SET_UP_CHROME_ROWS = 5
"""Rows of the dialog that are neither form nor page."""


class SetUpScreen(NictopScreen, ModalScreen[None]):
    """`place`: the NIC as it is when the dialog is opened."""

    BINDINGS: ClassVar[list[BindingType]] = SET_UP_KEYS

    def __init__(self, place: NicRef) -> None:
        super().__init__()
        self._place = place
        self._job: GuidedChange | NictopError = Missing("")
        self._asked = False
        """Enter was pressed: a missing value is shown as a mistake."""

    def compose(self) -> ComposeResult:
        with Vertical(id="set-up", classes="dialog"):
            yield SetUpForm(fields_of(self._place), id="set-up-form")
            yield LineView(id="set-up-page")

    def on_mount(self) -> None:
        box = self.query_one("#set-up", Vertical)
        title = f"{self._place.host.name}: set up {self._place.link.name}"
        box.border_title = box_title(title, self.app.size.width, self.glyphs)
        box.border_subtitle = box_keys("enter go on · esc close", self.app.size.width, self.glyphs)
        self.query_one("#set-up-page").can_focus = False
        self.query_one(SetUpForm).focus()
        self.call_after_refresh(self._check)

    def on_line_view_resized(self) -> None:
        self.call_after_refresh(self._check)

    def on_form_changed(self) -> None:
        self._asked = False
        self._check()

    def _check(self) -> None:
        """Show the commands that the form makes, or what is wrong with it."""
        form, page = self.query_one(SetUpForm), self.query_one("#set-up-page", LineView)
        form.show({})
        form.take_rows(max(1, len(form.shown)))
        try:
            self._job = set_up_of(form.words, self._place)
        except NictopError as error:
            self._job = error
        lines = self._lines(max(20, page.scrollable_content_region.width))
        page.take_rows(max(1, min(len(lines), self.size.height - SET_UP_CHROME_ROWS - len(form.shown))))
        page.show_lines(lines)

    def _lines(self, cells: int) -> list[SpanLine]:
        job = self._job
        if isinstance(job, NictopError):
            style = "dim" if isinstance(job, Missing) and not self._asked else "bad"
            said = [(job.message, style), (job.hint or "", "dim")]
            return [
                ((f" {part}", tone),) for text, tone in said if text for part in wrap(self.glyphs.text(text), cells - 2)
            ]
        lines: list[SpanLine] = [section_line("What would be typed", cells)]
        lines += draw_fix(job.fix, cells, glyphs=self.glyphs)
        if job.lasting:
            lines.append(section_line("Gone after the next reboot; to make it last afterwards", cells))
            for fix in job.lasting:
                lines += draw_fix(fix, cells, glyphs=self.glyphs)
        return lines

    # -------------------------------------------------------------------------------------------------- keys

    def action_begin(self) -> None:
        """Uses the newest snapshot of the host."""
        session = self.nictop.hosts.by_name.get(self._place.host.name)
        if session is not None and session.snapshot.inventory is not None:
            link = session.snapshot.links.get(self._place.link.ifindex)
            if link is not None:
                self._place = NicRef.of(HostFacts(session.snapshot, session.window.parts), link)
        self._asked = True
        self._check()
        job = self._job
        if isinstance(job, GuidedChange):
            self.dismiss()
            self.opener.open_job(ChangeJob.of_set_up(self._place.host.name, job))

    def action_close(self) -> None:
        self.dismiss()
