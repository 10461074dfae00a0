"""The options of a run as a form."""

from __future__ import annotations

from collections.abc import Sequence

from nictop.tui.widgets.base.form import Field, Form
from nictop.tui.widgets.traffic.form_fields import FIELDS, presets


class RunForm(Form):
    """The common options, and on demand all of them."""

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(FIELDS, id=id)
        self.everything = False
        """All fields are shown, not only the common ones."""

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
