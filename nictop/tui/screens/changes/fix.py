"""A fix that has blanks to fill in, that nictop cannot apply, or that has no plan: its commands, to
be copied.

╭ vm1: Rename the profile and set a static address ──────────────╮
│▸Address/prefix  192.0.2.10/24▏     e.g. 192.0.2.10/24          │
│                                                                │
│ Run on vm1:                                                    │
│       nmcli con mod … ipv4.addresses 192.0.2.10/24             │
│                                                                │
│ [ Show plan ] [ Copy ] [ Cancel ]                              │
╰ Tab Next · Enter Show plan · Esc Cancel ───────────────────────╯
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import ClassVar

from textual.binding import BindingType
from textual.widget import Widget

from nictop.changes.actions import BLANKS, Actions, ManualOnly, fill, with_values
from nictop.changes.job import ChangeJob
from nictop.errors import NictopError
from nictop.probe.light_dataclasses import replace
from nictop.rules import Fix
from nictop.rules.by_device import reported_now
from nictop.rules.wording import filled_note, placeholders, where_text
from nictop.tui.keys import COPY_KEYS, SET_UP_KEYS, shown_key
from nictop.tui.screens.dialogs.host_dialog import HostDialog
from nictop.tui.widgets.base.button_row import Button, ButtonRow
from nictop.tui.widgets.base.form import Field, Form
from nictop.tui.widgets.base.line_widget import SpanLine
from nictop.tui.widgets.changes.guided_fields import REQUIRED, other_facts
from nictop.tui.widgets.changes.page import DISABLED_REASON, disabled_text, draw_fix

MAX_ACRONYM_CHARS = 4
NOT_REPORTED = "The checks do not report this finding any more."
OTHER_COMMANDS = "The commands are not those of now any more: close this, and open it again."


def blank_label(name: str) -> str:
    """Label of a blank: ``Address/prefix`` for ``ADDRESS/PREFIX``, ``MAC`` for ``MAC``."""
    words = re.split(r"([^A-Z0-9])", name.replace("_", " "))
    label = "".join(word if len(word) <= MAX_ACRONYM_CHARS else word.lower() for word in words)
    return label[:1].upper() + label[1:]


class FixScreen(HostDialog):
    """A fix that cannot be applied yet, or not at all. `why_no_plan`: why the host cannot be asked
    for its plan; the fix may not be applied either."""

    IS_OF_PRESENT = True

    BINDINGS: ClassVar[list[BindingType]] = [*COPY_KEYS, *SET_UP_KEYS]
    fields_above = True

    def __init__(
        self, job: ChangeJob, actions: Actions | ManualOnly, why_no_plan: str = ""
    ) -> None:
        super().__init__()
        self._job, self._actions, self._why_no_plan = job, actions, why_no_plan
        self._problems: Mapping[str, str] = {}
        if isinstance(actions, Actions):
            self._blanks = actions.blanks
        else:
            self._blanks = tuple(text[1:-1] for text in placeholders(job.fix.commands))
        self.is_tall = bool(self._blanks)
        self.field_enter = "Show plan" if self._can_continue else ""

    @property
    def _can_continue(self) -> bool:
        """The host can be asked for the plan."""
        return isinstance(self._actions, Actions) and not self._why_no_plan

    @property
    def dialog_title(self) -> str:
        return self._job.heading

    @property
    def key_hints(self) -> str:
        if self._can_continue:
            return self.hints("Esc Cancel")
        if self._blanks:
            return self.hints("Esc Close")
        return self.hints("Esc Close", f"{shown_key(self.app, 'copy')} Copy")

    @property
    def value_hosts(self) -> Sequence[str]:
        names = (self._job.host, self._job.fix.peer)
        return tuple(name for name in dict.fromkeys(names) if name)

    def on_mount(self) -> None:
        self.subscribe(self.nictop.diagnosis.changed, self.draw)

    def ages(self) -> tuple[str, ...]:
        return (*super().ages(), *self._newer_checks())

    def _newer_checks(self) -> Iterable[str]:
        """What the checks say now of the finding that it fixes."""
        finding, result = self._job.finding, self.nictop.diagnosis.result
        if finding is None or result is None or finding.host not in result.hosts:
            return
        reported = reported_now(finding, result)
        if reported is None:
            yield NOT_REPORTED
        elif _commands_of(self._job.fix) not in map(_commands_of, reported.fixes):
            yield OTHER_COMMANDS

    def compose_fields(self) -> Iterable[Widget]:
        if self._blanks:
            yield Form([_field(name) for name in self._blanks], id="fix-form")

    def show_buttons(self, row: ButtonRow) -> None:
        copy = Button("copy", "Copy", bool(self._job.fix.commands))
        if isinstance(self._actions, ManualOnly):
            row.show((copy, Button("cancel", "Close")), stage="shown", chosen="copy")
            return
        if self._can_continue:
            row.show((Button("continue", "Show plan"), copy, Button("cancel", "Cancel")), stage=1)
            return
        apply = Button("apply", "Apply", enabled=False, why_not=DISABLED_REASON)
        row.show((apply, copy, Button("cancel", "Close")), chosen="copy", stage=1)

    def draw(self) -> None:
        if self._blanks:
            form = self.query_one(Form)
            form.show(self._problems)
            form.take_rows(len(self._blanks))
        super().draw()

    def text_lines(self, cells: int) -> Sequence[SpanLine]:
        lines: list[SpanLine] = []
        if self._why_not_applied:
            lines += self.wrapped(self._why_not_applied, cells, "warn", indent=" ")
        if self._why_no_plan:
            text = f"Current values and warnings are not known: {self._why_no_plan}."
            lines += self.wrapped(text, cells, indent=" ")
        for text in self._filled_job.warnings:
            lines += self.wrapped(text, cells, "warn", indent=" ")
        lines += self.wrapped(f"Run {self._place}:", cells, "dim", indent=" ")
        lines += draw_fix(self._filled, cells, glyphs=self.glyphs)
        return lines

    @property
    def _why_not_applied(self) -> str:
        """Why nictop does not apply it; "": it does, or the place where it is run says it."""
        job = self._job
        if isinstance(self._actions, ManualOnly):
            if job.fix.where != "here":
                return ""
            return f"nictop cannot apply this fix: {self._actions.why}."
        if self.nictop.changes.allowed(job.host):
            return ""
        session = self.nictop.hosts.by_name.get(job.host)
        return disabled_text(job.host, None if session is None else session.snapshot)

    @property
    def _place(self) -> str:
        return where_text(self._job.host, self._job.fix)

    @property
    def _values(self) -> Mapping[str, str]:
        """Name of a blank → its text, of those that are filled in."""
        if not self._blanks:
            return {}
        words = self.query_one(Form).words
        return {name: text.strip() for name, text in words.items() if text.strip()}

    @property
    def _filled_job(self) -> ChangeJob:
        return self._job.with_values(self._values, other_facts(self.nictop.hosts.sessions))

    @property
    def _filled(self) -> Fix:
        """With the values put in; without a note about what to fill in."""
        fix, values = self._job.fix, self._values
        return replace(
            fix,
            commands=with_values(fix.commands, values),
            undo=with_values(fix.undo, values),
            note=filled_note(fix),
        )

    # ----------------------------------------------------------------------------------------- keys

    def on_form_changed(self) -> None:
        self._problems = {}
        self.draw()

    def action_continue(self) -> None:
        """Request the plan, once all blanks are filled in."""
        if not isinstance(self._actions, Actions) or self._why_no_plan:
            return
        self._problems = dict(self._find_problems(self._actions))
        if self._problems:
            self.draw()
            return
        self.dismiss()
        self.opener.start_change(self._filled_job, fill(self._actions, self._values))

    def _find_problems(self, actions: Actions) -> Iterable[tuple[str, str]]:
        values = self._values
        for name in actions.blanks:
            try:
                fill(actions, {name: values.get(name, "")})
            except NictopError as error:
                yield name, error.message if name in values else "required"

    def action_copy(self) -> None:
        self.nictop.copy_command(self._job.host, self._filled)


def _commands_of(fix: Fix) -> tuple[str, ...]:
    return tuple(map(str, fix.commands))


def _field(name: str) -> Field:
    blank = BLANKS.get(name)
    example = "" if blank is None else f"e.g. {blank.example}"
    return Field(name, blank_label(name), example, empty=REQUIRED)
