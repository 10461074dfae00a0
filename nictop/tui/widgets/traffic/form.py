"""The options of a run as a form."""

from __future__ import annotations

from collections.abc import Sequence

from nictop.tui.widgets.base.form import Field, Form
from nictop.tui.widgets.traffic.form_fields import DIRECTIONS, FIELDS, presets, rate_question


class RunForm(Form):
    """The common options, and on demand all of them."""

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(FIELDS, id=id)
        self.everything = False
        """All fields are shown, not only the common ones."""
        self.ends = ("client", "server")
        """Names of the hosts of the chosen path."""

    @property
    def shown(self) -> Sequence[Field]:
        """Common ones, those that were set or are wrong, and on demand the others."""
        preset = presets()
        return [
            field
            for field in FIELDS
            if self.everything
            or field.common
            or field.name in self.problems
            or self.words[field.name] != preset[field.name]
        ]

    def _beside(self, field: Field) -> tuple[str, str]:
        text, style = super()._beside(field)
        if field.name in self.problems:
            return text, style
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
