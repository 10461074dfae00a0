"""A question that must be answered before a connection is made: an unknown host key, a passphrase,
a password.

    ╭ pve: unknown host key ─────────────────────────────────────────╮
    │ Unknown host key of pve: ssh-ed25519 SHA256:3Vq…. Trust it?    │
    │ Compare the fingerprint with the host's own.                   │
    │ Trust adds the key to /home/me/.ssh/known_hosts.               │
    │                                                                │
    │ [ Trust ] [ Reject ]                                           │
    ╰ Tab Next · Enter Reject · Esc Cancel ──────────────────────────╯

The answer goes back to the connection and nowhere else. A question that nothing waits for any more
stays open and says so, so that what is typed as its answer is not for the screen below.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from textual.containers import Horizontal
from textual.widget import Widget
from textual.widgets import Input, Label

from nictop.tui.screens.dialogs.dialog import OVER_TITLE, Dialog
from nictop.tui.widgets.base.button_row import Button, ButtonRow
from nictop.tui.widgets.base.line_widget import SpanLine
from nictop.tui.widgets.base.text_input import TextInput

if TYPE_CHECKING:
    from nictop.wire.ssh.authentication import Question

ACCEPTED = "yes"
"""Answer that accepts a host key."""
TITLES = {
    "host_key": "unknown host key",
    "passphrase": "passphrase of a key",
    "password": "password",
    "prompt": "authentication",
    "sudo": "password for sudo",
}
FIELD_LABELS = {
    "passphrase": "Passphrase:",
    "password": "Password:",
    "prompt": "Answer:",
    "sudo": "Password:",
}
"""Before the line that is typed: on a console nothing else shows where it is."""
HINTS = {
    "host_key": "Compare the fingerprint with the host's own.",
    "passphrase": "Kept in memory only, until nictop quits.",
    "password": "Kept in memory only, until nictop quits.",
    "prompt": "The answer is sent to this host only.",
    "sudo": "Kept in memory only, until nictop quits. Read-only as root too, unless "
    "--allow-changes is given.",
}
NOT_WAITING = (
    "does not wait for this answer any more: the connection that asked has ended. What was typed "
    "is not sent."
)
MAX_QUESTION_LINES = 10
"""Lines of a question that comes from the host."""


class QuestionScreen(Dialog["str | None"]):
    """Its result is the answer; None: cancelled or refused."""

    FIELD_ROWS = 2
    closes_by_click = False

    def __init__(self, question: Question) -> None:
        super().__init__()
        self.question = question
        self.has_ended = False
        """Nothing waits for the answer any more."""

    def end(self) -> None:
        """Nothing waits for the answer any more: it is forgotten, and the dialog says so."""
        self.has_ended = True
        if not self.is_open:
            return
        for entry in self.query(TextInput):
            entry.value = ""
        self.query("#answer-row").set(display=False)
        self.set_focus(self.query_one(ButtonRow))
        self.draw()

    @property
    def _is_host_key(self) -> bool:
        return self.question.kind == "host_key"

    @property
    def dialog_title(self) -> str:
        if self.has_ended:
            return OVER_TITLE
        return f"{self.question.host}: {TITLES[self.question.kind]}"

    def text_lines(self, cells: int) -> Sequence[SpanLine]:
        """Its text, the fingerprint on a line of its own, and what will be done with the answer."""
        question = self.question
        if self.has_ended:
            return list(self.wrapped(f"{question.host} {NOT_WAITING}", cells))
        lines: list[SpanLine] = []
        for part in question.text.split("\n")[:MAX_QUESTION_LINES]:
            lines += self.wrapped(part, cells)
        del lines[MAX_QUESTION_LINES:]
        if question.fingerprint and question.fingerprint not in question.text:
            lines += self.wrapped(question.fingerprint, cells, "title")
        lines += self.wrapped(HINTS[question.kind], cells, "dim")
        if self._is_host_key:
            kept = "is valid until nictop quits"
            if question.file:
                kept = f"adds the key to {question.file}"
            lines += self.wrapped(f"Trust {kept}.", cells, "dim")
        return lines

    @property
    def key_hints(self) -> str:
        return self.hints("Esc Close") if self.has_ended else super().key_hints

    def compose_fields(self) -> Iterable[Widget]:
        if not self._is_host_key and not self.has_ended:
            with Horizontal(id="answer-row"):
                yield Label(FIELD_LABELS[self.question.kind], markup=False)
                yield TextInput(password=self.question.secret, id="answer")

    def show_buttons(self, row: ButtonRow) -> None:
        """The dialog opens by itself, perhaps while Enter is pressed: that does not trust a host
        key."""
        if self.has_ended:
            row.show((Button("cancel", "OK"),), stage="over", chosen="cancel")
            return
        accept, refuse, chosen = "OK", "Cancel", ""
        if self._is_host_key:
            accept, refuse, chosen = "Trust", "Reject", "cancel"
        row.show((Button("accept", accept), Button("cancel", refuse)), stage="asked", chosen=chosen)

    def action_accept(self) -> None:
        if self._is_host_key:
            self.dismiss(ACCEPTED)
        else:
            self.dismiss(self.query_one(TextInput).value)

    def on_input_submitted(self, event: Input.Submitted) -> None:
        event.stop()
        if not self.has_ended:
            self.dismiss(event.value)
