"""The options of a run as a form."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from nictop.tui.widgets.base.form import Field, Form
from nictop.tui.widgets.base.line_view import SpanLine
from nictop.tui.widgets.traffic.form_fields import DIRECTIONS, FIELDS, presets


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

    def _line_of_field(self, field: Field) -> SpanLine:
        if field.name == "direction":
            field = replace(field, example=self._direction_text())
        return super()._line_of_field(field)

    def _direction_text(self) -> str:
        """``web1 sends, web2 receives``"""
        client, server = self.ends
        direction = DIRECTIONS.get(self.words["direction"], "forward")
        if direction == "bidirectional":
            return f"{client} and {server} send"
        sender, receiver = (client, server) if direction == "forward" else (server, client)
        return f"{sender} sends, {receiver} receives"
