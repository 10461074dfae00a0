"""The form of a guided job: the fields of the chosen one."""

from __future__ import annotations

from collections.abc import Sequence

from nictop.tui.widgets.base.form import Field, Form
from nictop.tui.widgets.changes.guided_fields import names_shown


class SetUpForm(Form):
    """Its first field is the job; the others follow it."""

    @property
    def shown(self) -> Sequence[Field]:
        names = names_shown(self.words)
        return tuple(field for field in super().shown if field.name in names)
