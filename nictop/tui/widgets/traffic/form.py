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
        """Of those that apply to the chosen test: the common ones, those that were set or are
        wrong, and on demand the others."""
        return [
            field for field in FIELDS if belongs(field.name, self.words) and self._is_wanted(field)
        ]

    def _is_wanted(self, field: Field) -> bool:
        if self.everything or field.common or field.name in self.problems:
            return True
        return self.words[field.name] != presets()[field.name]

    def _label(self, field: Field) -> str:
        return label_of(field.name, self.words)

    def _beside(self, field: Field) -> tuple[str, str]:
        text, style = super()._beside(field)
        if field.name in self.problems:
            return text, style
        question = rate_question(self.words) if field.name == "bitrate" else ""
        own_text = self._text_of_test(field)
        if question and not own_text:
            return question, "warn"
        return own_text or text, style

    def _text_of_test(self, field: Field) -> str:
        """What is beside the field in the chosen test; "": the same as in others."""
        kind, name = TESTS[test_of(self.words)], field.name
        if name == "test":
            return kind.text
        if name in kind.texts:
            return kind.texts[name][1]
        if name == "direction":
            return self._direction_text()
        has_files = belongs("files", self.words) and bool(self.words["files"].strip())
        return "at most: it ends after the files" if name == "time" and has_files else ""

    def _direction_text(self) -> str:
        """``web1 sends, web2 receives``"""
        client, server = self.ends
        direction = DIRECTIONS.get(self.words["direction"], "forward")
        if direction == "bidirectional":
            return f"{client} and {server} send"
        if direction == "reverse":
            return f"{server} sends, {client} receives"
        return f"{client} sends, {server} receives"
