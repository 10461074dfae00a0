"""Guided set-up of one NIC: a form, and below it the commands that it makes.

╭ vm1: set up ens4 ──────────────────────────────────────────────╮
│ Action                 ◂ Set queues ▸                          │
│▸Queues                 4▏                 1 to 4, current 1    │
│                                                                │
│ ── Commands ─────────────────────────────────────────────────  │
│       ethtool -L ens4 combined 4                               │
│                                                                │
│ [ Show plan ] [ Copy ] [ Cancel ]                              │
╰ Tab Next · Enter Show plan · Esc Cancel ───────────────────────╯

Show plan opens the change dialog, as a fix does: the plan of the host, rolled back unless it is
confirmed, and a check of the result.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import ClassVar

from textual.binding import BindingType
from textual.widget import Widget

from nictop.changes.guided.set_up import NotKnown
from nictop.changes.job import ChangeJob
from nictop.errors import NictopError
from nictop.model.facts import clean
from nictop.rules import HostFacts
from nictop.tui.controllers.changes import TypedSetUp
from nictop.tui.keys import COPY_KEYS, SET_UP_KEYS
from nictop.tui.screens.dialogs.host_dialog import HostDialog
from nictop.tui.widgets.base.button_row import Button, ButtonRow
from nictop.tui.widgets.base.line_widget import SpanLine, section_line
from nictop.tui.widgets.changes.guided_fields import (
    Missing,
    NicRef,
    fields_of,
    nic_state,
    other_facts,
    set_up_of,
)
from nictop.tui.widgets.changes.guided_form import SetUpForm
from nictop.tui.widgets.changes.page import draw_fix

NO_NETWORKMANAGER = (
    "This host does not run NetworkManager. Temporary: the ip command; permanent: "
    "netplan, networkd or ifupdown, below."
)
TYPED_BEFORE = "As typed before: kept until it is applied or {} changes."
DROPPED = "What was typed before is not kept: {} has changed since."
GONE = "{} is gone: what is shown is what was read before."
READ_ONLY = (
    "Changes of this host are disabled: the commands and the plan are shown, nothing is applied."
)


class SetUpScreen(HostDialog):
    """`place`: the NIC as it is when the dialog is opened; the dialog follows the inventory of its
    host."""

    IS_OF_PRESENT = True

    BINDINGS: ClassVar[list[BindingType]] = [*COPY_KEYS, *SET_UP_KEYS]
    is_tall = fields_above = True
    field_enter = "Show plan"

    def __init__(self, place: NicRef) -> None:
        super().__init__()
        self._place = place
        self._job: ChangeJob | NictopError = Missing("")
        self._submitted = False
        """Show plan was pressed: a missing value is shown as a mistake."""
        self._kept_text = ""
        """What has become of the values that were typed before; "": there were none."""

    @property
    def dialog_title(self) -> str:
        return f"{self._place.host.name}: set up {self._place.link.name}"

    @property
    def value_hosts(self) -> Sequence[str]:
        return (self._place.host.name,)

    def ages(self) -> tuple[str, ...]:
        return (*super().ages(), *self._absence())

    def _absence(self) -> Iterable[str]:
        for session in self.value_sessions():
            if self._place.link.ifindex not in session.snapshot.links:
                yield GONE.format(clean(self._place.link.name))

    def compose_fields(self) -> Iterable[Widget]:
        form = SetUpForm(fields_of(self._place), id="set-up-form")
        self._fill(form)
        yield form

    @property
    def _nic(self) -> tuple[str, int]:
        return self._place.host.name, self._place.link.ifindex

    def _fill(self, form: SetUpForm) -> None:
        """With what was typed for this NIC before, unless the NIC has changed since."""
        typed = self.nictop.changes.typed.get(self._nic)
        if typed is None:
            return
        name = clean(self._place.link.name)
        if typed.state == nic_state(self._place):
            form.fill(typed.words)
            self._kept_text = TYPED_BEFORE.format(name)
            return
        del self.nictop.changes.typed[self._nic]
        if form.has_typed(typed.words):
            self._kept_text = DROPPED.format(name)

    def _note_typed(self) -> None:
        """For the next time that the form is opened."""
        form, typed = self.query_one(SetUpForm), self.nictop.changes.typed
        if form.is_initial:
            typed.pop(self._nic, None)
            return
        job = self._job if isinstance(self._job, ChangeJob) else None
        typed[self._nic] = TypedSetUp(dict(form.words), nic_state(self._place), job)

    def show_buttons(self, row: ButtonRow) -> None:
        has_commands = isinstance(self._job, ChangeJob)
        row.show(
            (
                Button("continue", "Show plan"),
                Button("copy", "Copy", has_commands),
                Button("cancel", "Cancel"),
            )
        )

    def on_form_changed(self) -> None:
        self._submitted = False
        self.draw()
        self._note_typed()

    def draw(self) -> None:
        """Show the commands that the form makes, or what is wrong with it."""
        form = self.query_one(SetUpForm)
        form.show({})
        form.take_rows(max(1, len(form.shown)))
        try:
            self._job = set_up_of(form.words, self._place)
        except NictopError as error:
            self._job = error
        super().draw()

    def text_lines(self, cells: int) -> Sequence[SpanLine]:
        lines: list[SpanLine] = []
        if self._kept_text:
            lines += self.wrapped(self._kept_text, cells, "dim", indent=" ")
        if not self.nictop.changes.allowed(self._place.host.name):
            lines += self.wrapped(READ_ONLY, cells, "warn", indent=" ")
        if isinstance(self._job, NictopError):
            return [*lines, *self._error_lines(self._job, cells)]
        return [*lines, *self._job_lines(self._job, cells)]

    def _error_lines(self, error: NictopError, cells: int) -> list[SpanLine]:
        """What is wrong with the form, or what it still lacks."""
        is_incomplete = isinstance(error, (Missing, NotKnown)) and not self._submitted
        style = "dim" if is_incomplete else "bad"
        lines: list[SpanLine] = []
        if error.message:
            lines += self.wrapped(error.message, cells, style, indent=" ")
        if error.hint:
            lines += self.wrapped(error.hint, cells, "dim", indent=" ")
        return lines

    def _job_lines(self, job: ChangeJob, cells: int) -> list[SpanLine]:
        """What the form makes: warnings, commands, and what makes it persistent."""
        lines: list[SpanLine] = []
        has_networkmanager = self._place.host.inventory.networkmanager is not None
        if job.fix.persistent is False and job.lasting and not has_networkmanager:
            lines += self.wrapped(NO_NETWORKMANAGER, cells, "dim", indent=" ")
        if job.warnings:
            lines.append(section_line("What must fit", cells))
        for text in job.warnings:
            lines += self.wrapped(text, cells, "warn", indent=" ")
        lines.append(section_line("Commands", cells))
        lines += draw_fix(job.fix, cells, glyphs=self.glyphs)
        if job.lasting:
            lines.append(section_line("Lost on reboot; to make it persistent", cells))
            for fix in job.lasting:
                lines += draw_fix(fix, cells, glyphs=self.glyphs)
        return lines

    def on_mount(self) -> None:
        self.subscribe(self.nictop.hosts.changed, self._follow)

    def _follow(self) -> None:
        """Draw again when the host has a new inventory."""
        if self._take_newest():
            self.draw()

    def _take_newest(self) -> bool:
        """Whether there is a new inventory, or part of one, or an event has changed the NIC; one
        that is gone stays as it was."""
        session, shown = self.nictop.hosts.by_name.get(self._place.host.name), self._place
        if session is None or session.snapshot.inventory is None:
            return False
        link = session.snapshot.links.get(shown.link.ifindex)
        if link is None:
            return False
        is_read = session.snapshot.inventory is not shown.host.snapshot.inventory
        if not is_read and link is shown.link:
            return False
        host = HostFacts(session.snapshot, session.window.parts)
        self._place = NicRef.of(host, link, other_facts(self.nictop.hosts.sessions, host.name))
        self.query_one(SetUpForm).set_fields(fields_of(self._place))
        return True

    # ----------------------------------------------------------------------------------------- keys

    def action_continue(self) -> None:
        self._take_newest()
        self._submitted = True
        self.draw()
        if isinstance(self._job, ChangeJob):
            self._note_typed()
            self.dismiss()
            self.opener.open_job(self._job)

    def action_copy(self) -> None:
        if isinstance(self._job, ChangeJob):
            self.nictop.copy_commands(self._place.host.name, self._job.fix.commands)
