"""From a fix to a change: what must be filled in is asked for, and what nictop cannot or may not do is said.

╭ vm1: give it an address ───────────────────────────────────────╮
│       nmcli con mod … ipv4.addresses <ADDRESS/PREFIX>          │
│ <ADDRESS/PREFIX>: an address with its prefix length            │
│ 192.0.2.10/24█                                                 │
╰ enter go on · esc leave it as it is ───────────────────────────╯
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, cast

from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical
from textual.screen import ModalScreen
from textual.widgets import Input

from nictop.changes.actions import BLANKS, Actions, ByHand, actions_of, fill
from nictop.changes.job import ChangeJob
from nictop.errors import NictopError
from nictop.model.facts import wrap
from nictop.rules.wording import PLACES
from nictop.tui.keys import FIX_KEYS
from nictop.tui.screens.changes.screen import HostChangeScreen
from nictop.tui.widgets.base.dialog_frame import box_keys, box_title
from nictop.tui.widgets.base.line_view import LineView, SpanLine
from nictop.tui.widgets.base.text_input import TextInput
from nictop.tui.widgets.base.while_open import WhileOpen
from nictop.tui.widgets.changes.page import draw_fix

if TYPE_CHECKING:
    from nictop.rules import Finding, Fix
    from nictop.tui.app import NictopApp

AROUND = 6
"""Rows of the dialog that are not its page."""


def open_change(app: NictopApp) -> bool:
    """The change that goes on, or has ended unseen. False: there is none."""
    if app.changes.progress is None:
        return False
    if not isinstance(app.screen, HostChangeScreen):
        app.push_screen(HostChangeScreen())
    return True


def open_fix(app: NictopApp, finding: Finding, fix: Fix) -> None:
    """Of a finding."""
    open_errand(app, ChangeJob.of_finding(finding, fix))


def open_errand(app: NictopApp, errand: ChangeJob) -> None:
    """Ask for what is to be filled in, or the host at once for what would be changed."""
    actions = actions_of(errand.fix)
    if isinstance(actions, ByHand) or actions.blanks or not app.changes.allowed(errand.host):
        app.push_screen(FixScreen(errand, actions))
    else:
        begin(app, errand, actions)


def begin(app: NictopApp, errand: ChangeJob, actions: Actions) -> None:
    """Ask the host what would be changed, and show it."""
    why_not = app.changes.start(errand, actions.actions)
    if why_not:
        app.say(why_not, "Nothing was changed")
    else:
        app.push_screen(HostChangeScreen())


class FixScreen(WhileOpen, ModalScreen[None]):
    """A fix that cannot begin yet, or not at all."""

    BINDINGS: ClassVar[list[BindingType]] = FIX_KEYS

    def __init__(self, errand: ChangeJob, actions: Actions | ByHand) -> None:
        super().__init__()
        self._errand, self._actions = errand, actions
        self._complaint = ""

    @property
    def nictop(self) -> NictopApp:
        return cast("NictopApp", self.app)

    @property
    def _why_not(self) -> tuple[str, ...]:
        """Paragraphs; (): it only waits for something to be filled in."""
        if isinstance(self._actions, ByHand):
            return (f"nictop does not do this by itself: {self._actions.why}.",)
        if not self.nictop.changes.allowed(self._errand.host):
            return (
                f"nictop only reads {self._errand.host}: it was started without --allow-changes.",
                "To let it change hosts, with an undo that the host does by itself: nictop --allow-changes …, or "
                f"allow_changes = true below [hosts.{self._errand.host}] in ~/.config/nictop/config.toml.",
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
        title = f"{self._errand.host}: {self._errand.title}"
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
        if self._errand.fix.where != "here":
            lines.append(((f" {self.glyphs.text(PLACES[self._errand.fix.where])}:", "dim"),))
        lines += draw_fix(self._errand.fix, cells, glyphs=self.glyphs)
        if not self._why_not:
            lines += self._question(cells)
        view.take_rows(max(1, min(len(lines), self.size.height - AROUND)))
        view.show_lines(lines)

    @property
    def _blank(self) -> str:
        """What is asked for now."""
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
        """One answer after the other; the host is asked when all are there."""
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
        nictop, errand, actions = self.nictop, self._errand, self._actions
        self.dismiss()
        begin(nictop, errand, actions)

    def action_copy(self) -> None:
        if self._errand.finding is not None:
            self.nictop.copy_command(self._errand.finding, self._errand.fix)
        else:
            self.nictop.copy_lines(
                [str(step) for step in self._errand.fix.commands], [f"to be typed on {self._errand.host}"]
            )

    def action_back(self) -> None:
        self.dismiss()
