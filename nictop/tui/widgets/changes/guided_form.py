"""The form of a guided set-up: the fields of the chosen action."""

from __future__ import annotations

from collections.abc import Sequence

from nictop.tui.widgets.base.form import Field, Form
from nictop.tui.widgets.changes.guided_fields import names_shown


class SetUpForm(Form):
    """The first field is the action; the others depend on it."""

    label_cells = 22

    @property
    def shown(self) -> Sequence[Field]:
        names = names_shown(self.words)
        return tuple(field for field in super().shown if field.name in names)
