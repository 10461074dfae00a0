"""A question that must be answered before a connection is made: an unknown host key, a passphrase, a password.

    ╭ pve: unknown host key ─────────────────────────────────────────╮
    │ pve.example (192.0.2.7) shows a key that nobody here knows.    │
    │ SHA256:3Vq…                                                    │
    │ yes: trust it, and write it into known_hosts. Else: refuse.    │
    │ > █                                                            │
    ╰ enter answer · escape cancel ──────────────────────────────────╯

The answer goes back to the connection and nowhere else. A host key is accepted by the word yes alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical
from textual.screen import ModalScreen
from textual.widgets import Input

from nictop.model.facts import wrap
from nictop.tui.keys import QUESTION_KEYS
from nictop.tui.widgets.base.line_view import LineView, SpanLine
from nictop.tui.widgets.base.text_input import TextInput
from nictop.tui.widgets.base.while_open import WhileOpen

if TYPE_CHECKING:
    from nictop.wire.ssh.authentication import Question

ACCEPTED = "yes"
TITLES = {
    "host_key": "unknown host key",
    "passphrase": "passphrase of a key",
    "password": "password",
    "prompt": "the host asks",
    "sudo": "password for sudo",
}
HINTS = {
    "host_key": f"Compare the fingerprint with the host's own. {ACCEPTED} trusts this key; anything else refuses it.",
    "passphrase": "Kept in memory only, until nictop ends.",
    "password": "Kept in memory only, until nictop ends.",
    "prompt": "Goes to the host that asks, and nowhere else.",
    "sudo": "Kept in memory only, until nictop ends. Without --allow-changes the probe changes nothing as root either.",
}
MAX_QUESTION_LINES = 10
"""Lines of a question that comes from the host."""


def draw_question(question: Question, cells: int) -> list[SpanLine]:
    """Its text, the fingerprint on a line of its own, and what will be done with the answer."""
    parts = question.text.split("\n")[:MAX_QUESTION_LINES]
    lines: list[SpanLine] = []
    lines += [((line, ""),) for part in parts for line in wrap(part, cells)][:MAX_QUESTION_LINES]
    if question.fingerprint and question.fingerprint not in question.text:
        lines += [((line, "title"),) for line in wrap(question.fingerprint, cells)]
    lines += [((line, "dim"),) for line in wrap(HINTS[question.kind], cells)]
    return lines


class QuestionScreen(WhileOpen, ModalScreen["str | None"]):
    """Its result is the answer; None: cancelled or refused."""

    BINDINGS: ClassVar[list[BindingType]] = QUESTION_KEYS

    def __init__(self, question: Question) -> None:
        super().__init__()
        self.question = question

    def compose(self) -> ComposeResult:
        secret = self.question.secret and self.question.kind != "host_key"
        with Vertical(id="question", classes="dialog"):
            yield LineView(id="question-lines")
            yield TextInput(password=secret, id="answer")

    def on_mount(self) -> None:
        box = self.query_one("#question", Vertical)
        title = f"{self.question.host}: {TITLES[self.question.kind]}"
        box.border_title = self.glyphs.text(title).replace("[", r"\[")
        box.border_subtitle = self.glyphs.text("enter answer · escape cancel")
        self.query_one(TextInput).focus()
        self.call_after_refresh(self._draw)

    def on_line_view_resized(self) -> None:
        self.call_after_refresh(self._draw)

    def _draw(self) -> None:
        view = self.query_one("#question-lines", LineView)
        lines = draw_question(self.question, view.size.width)
        view.take_rows(len(lines))
        view.show_lines(lines)

    def on_input_submitted(self, event: Input.Submitted) -> None:
        event.stop()
        if self.question.kind == "host_key":
            self.dismiss(ACCEPTED if event.value.strip().casefold() == ACCEPTED else None)
        else:
            self.dismiss(event.value)

    def action_cancel(self) -> None:
        self.dismiss(None)
