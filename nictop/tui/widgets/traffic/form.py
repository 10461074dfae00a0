"""The options of a run as a form."""

from __future__ import annotations

from collections.abc import Sequence

from nictop.tui.widgets.base.form import Field, Form
from nictop.tui.widgets.traffic.form_fields import (
    DIRECTIONS,
    FIELDS,
    TESTS,
    belongs,
    label_of,
    presets,
    rate_question,
    test_of,
)


class RunForm(Form):
    """The common options of the chosen test, and on demand all of them."""

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(FIELDS, id=id)
        self.everything = False
        """All fields are shown, not only the common ones."""
        self.ends = ("client", "server")
        """Names of the hosts of the chosen path."""

    @property
    def shown(self) -> Sequence[Field]:
        """Of those that apply to the chosen test: the common ones, those that were set or are wrong, and on demand the
        others."""
        preset = presets()
        return [
            field
            for field in FIELDS
            if belongs(field.name, self.words)
            and (
                self.everything
                or field.common
                or field.name in self.problems
                or self.words[field.name] != preset[field.name]
            )
        ]

    def _label(self, field: Field) -> str:
        return label_of(field.name, self.words)

    def _beside(self, field: Field) -> tuple[str, str]:
        text, style = super()._beside(field)
        if field.name in self.problems:
            return text, style
        kind = TESTS[test_of(self.words)]
        if field.name == "test":
            return kind.text, style
        if field.name in kind.texts:
            return kind.texts[field.name][1], style
        if field.name == "time" and belongs("files", self.words) and self.words["files"].strip():
            return "at most: it ends after the files", style
        if field.name == "direction":
            return self._direction_text(), style
        question = rate_question(self.words) if field.name == "bitrate" else ""
        return (question, "warn") if question else (text, style)

    def _direction_text(self) -> str:
        """``web1 sends, web2 receives``"""
        client, server = self.ends
        direction = DIRECTIONS.get(self.words["direction"], "forward")
        if direction == "bidirectional":
            return f"{client} and {server} send"
        sender, receiver = (client, server) if direction == "forward" else (server, client)
        return f"{sender} sends, {receiver} receives"
