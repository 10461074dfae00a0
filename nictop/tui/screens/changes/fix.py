"""Before a fix is applied: its blanks are filled in. What nictop cannot or may not apply is shown, with the reason.

╭ vm1: give it an address ───────────────────────────────────────╮
│       nmcli con mod … ipv4.addresses <ADDRESS/PREFIX>          │
│ <ADDRESS/PREFIX>: an address with its prefix length            │
│ 192.0.2.10/24█                                                 │
╰ enter go on · esc leave it as it is ───────────────────────────╯
"""

from __future__ import annotations

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical
from textual.screen import ModalScreen
from textual.widgets import Input

from nictop.changes.actions import BLANKS, Actions, ByHand, fill
from nictop.changes.job import ChangeJob
from nictop.errors import NictopError
from nictop.model.facts import wrap
from nictop.rules.wording import PLACE_TEXTS
from nictop.tui.keys import FIX_KEYS
from nictop.tui.screens.base import NictopScreen
from nictop.tui.widgets.base.dialog_frame import box_keys, box_title
from nictop.tui.widgets.base.line_view import LineView, SpanLine
from nictop.tui.widgets.base.text_input import TextInput
from nictop.tui.widgets.changes.page import draw_fix

FIX_CHROME_ROWS = 6
"""Rows of the dialog that are not its page."""


class FixScreen(NictopScreen, ModalScreen[None]):
    """A fix that cannot be applied yet, or not at all."""

    BINDINGS: ClassVar[list[BindingType]] = FIX_KEYS

    def __init__(self, job: ChangeJob, actions: Actions | ByHand) -> None:
        super().__init__()
        self._job, self._actions = job, actions
        self._complaint = ""

    @property
    def _why_not(self) -> tuple[str, ...]:
        """Paragraphs; (): it can be applied once its blanks are filled in."""
        if isinstance(self._actions, ByHand):
            return (f"nictop does not do this by itself: {self._actions.why}.",)
        if not self.nictop.changes.allowed(self._job.host):
            return (
                f"nictop only reads {self._job.host}: it was started without --allow-changes.",
                "To let it change hosts, with an undo that the host does by itself: nictop --allow-changes …, or "
                f"allow_changes = true below [hosts.{self._job.host}] in ~/.config/nictop/config.toml.",
            )
        return ()

    def compose(self) -> ComposeResult:
        with Vertical(id="fix", classes="dialog"):
            yield LineView(id="fix-page")
            blank = BLANKS.get(self._blank)
            shown = blank.example if blank is not None else ""
            yield TextInput(placeholder=shown, id="fix-entry")

    def on_mount(self) -> None:
        box, entry = self.query_one("#fix", Vertical), self.query_one(TextInput)
        title = f"{self._job.host}: {self._job.title}"
        box.border_title = box_title(title, self.app.size.width, self.glyphs)
        asks = not self._why_not
        keys = "enter go on · esc leave it as it is" if asks else "y copy the commands · esc close"
        box.border_subtitle = box_keys(keys, self.app.size.width, self.glyphs)
        entry.display = asks
        self.set_focus(entry if asks else self.query_one(LineView))
        self.call_after_refresh(self._draw)

    def on_line_view_resized(self) -> None:
        self.call_after_refresh(self._draw)

    def _draw(self) -> None:
        view = self.query_one(LineView)
        cells = max(20, view.scrollable_content_region.width)
        lines: list[SpanLine] = []
        for text in self._why_not:
            lines += [((f" {part}", "warn"),) for part in wrap(self.glyphs.text(text), cells - 2)]
        if self._job.fix.where != "here":
            lines.append(((f" {self.glyphs.text(PLACE_TEXTS[self._job.fix.where])}:", "dim"),))
        lines += draw_fix(self._job.fix, cells, glyphs=self.glyphs)
        if not self._why_not:
            lines += self._question(cells)
        view.take_rows(max(1, min(len(lines), self.size.height - FIX_CHROME_ROWS)))
        view.show_lines(lines)

    @property
    def _blank(self) -> str:
        """The blank to be filled in now; "": none."""
        return self._actions.blanks[0] if isinstance(self._actions, Actions) and self._actions.blanks else ""

    def _question(self, cells: int) -> list[SpanLine]:
        blank = BLANKS.get(self._blank)
        if blank is None:
            return []
        text = f"<{self._blank}>: {blank.what}, for example {blank.example}"
        lines: list[SpanLine] = [((f" {part}", "title"),) for part in wrap(self.glyphs.text(text), cells - 2)]
        complaint = wrap(self.glyphs.text(self._complaint), cells - 2) if self._complaint else ()
        return lines + [((f" {part}", "bad"),) for part in complaint]

    # -------------------------------------------------------------------------------------------------- keys

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """One blank after the other; the change is requested when all are filled in."""
        event.stop()
        if not isinstance(self._actions, Actions):
            return
        try:
            self._actions = fill(self._actions, {self._blank: event.value})
        except NictopError as error:
            self._complaint = f"{error.message}; {error.hint}" if error.hint else error.message
            self._draw()
            return
        self._complaint = ""
        self.query_one(TextInput).value = ""
        if self._actions.blanks:
            self._draw()
            return
        self.dismiss()
        self.opener.start_change(self._job, self._actions)

    def action_copy(self) -> None:
        if self._job.finding is not None:
            self.nictop.copy_command(self._job.finding, self._job.fix)
        else:
            lines = [str(step) for step in self._job.fix.commands]
            self.nictop.copy_lines(lines, [f"to be typed on {self._job.host}"])

    def action_back(self) -> None:
        self.dismiss()
