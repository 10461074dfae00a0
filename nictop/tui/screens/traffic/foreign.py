"""A test against an end that nictop cannot log in to: its address, and what it does. The other end
is the shown host, the other options are those of the form.

╭ Test vm1 against a host without a login ───────────────────────╮
│  address 192.0.2.50         IP address of the other end        │
│  there   ◂ a server runs there ▸  iperf3 -s -p 5201            │
│  NIC     ◂ automatic ▸      automatic: by the address          │
│  port    5201               1 to 65535 (-p)                    │
│ Other options are those of the form.                           │
│ = nictop traffic vm1 192.0.2.50 --foreign                      │
│                                                                │
│ [ Start ] [ Cancel ]                                           │
╰ Tab Next · Enter Start · Esc Cancel ───────────────────────────╯
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import ClassVar

from textual.binding import BindingType
from textual.widget import Widget

from nictop.errors import NictopError
from nictop.model.text.terminal import clean
from nictop.traffic.plan.command_line import command_line
from nictop.traffic.plan.request import RunRequest
from nictop.traffic.plan.validation import validate_request
from nictop.tui.keys import FORM_DIALOG_KEYS
from nictop.tui.screens.dialogs.host_dialog import StartDialog
from nictop.tui.screens.traffic.run import RunScreen
from nictop.tui.widgets.base.button_row import Button, ButtonRow
from nictop.tui.widgets.base.form import Field, Form
from nictop.tui.widgets.base.line_widget import SpanLine
from nictop.tui.widgets.traffic.form_fields import label_of, request_of_form
from nictop.tui.widgets.traffic.one_host_fields import (
    CLIENT_THERE,
    foreign_fields,
    foreign_request,
)

OPTIONS = "Other options are those of the form. Of that host only {} is known."
CLIENT_OPTIONS = (
    "Other options are those of the form. The command to type there is shown after Start; nictop "
    "waits {} s for it."
)
REPORTED = "what iperf3 reports"
MISSING_ADDRESS = "ADDRESS"
"""In the command line, until it is typed."""
SERVER_COMMANDS = {"ntttcp": "as ntttcp -r, for each run"}


class ForeignForm(Form):
    """With what is to run on the other host beside its role."""

    label_cells = 7

    def __init__(self, fields: Sequence[Field], generator: str, *, id: str) -> None:
        super().__init__(fields, id=id)
        self._generator = generator
        self.is_submitted = False
        """Start was pressed: an address that is half typed is a mistake."""

    def _beside(self, field: Field) -> tuple[str, str]:
        if field.name == "address" and field is self.chosen and not self.is_submitted:
            return field.example, "dim"  # it is being typed
        if field.name == "role" and field.name not in self.problems:
            return self._role_text(), "dim"
        return super()._beside(field)

    def _role_text(self) -> str:
        if self.words["role"] == CLIENT_THERE:
            return "its command is shown"
        return SERVER_COMMANDS.get(self._generator, f"iperf3 -s -p {self.words['port'].strip()}")


class ForeignScreen(StartDialog):
    """`options`: texts of the form of the test; `arguments`: name of a host → what is typed for it
    on the command line."""

    BINDINGS: ClassVar[list[BindingType]] = FORM_DIALOG_KEYS
    fields_above = True
    field_enter = "Start"

    def __init__(self, host: str, options: Mapping[str, str], arguments: Mapping[str, str]) -> None:
        super().__init__()
        self._host, self._words, self._arguments = host, options, arguments
        self.start_host = host
        self._fields: Sequence[Field] = ()
        self._is_submitted = False
        """Start was pressed: a missing address is a mistake."""

    @property
    def dialog_title(self) -> str:
        return f"Test {clean(self._host)} against a host without a login"

    def compose_fields(self) -> Iterable[Widget]:
        links = self.nictop.hosts.by_name[self._host].snapshot.links.values()
        names = [link.name for link in links]
        self._fields = foreign_fields(names, self._words["port"])
        self.FIELD_ROWS = len(self._fields)
        form = ForeignForm(self._fields, self._words["generator"], id="foreign-form")
        form.fill(self.nictop.traffic.foreign_values)
        yield form

    def show_buttons(self, row: ButtonRow) -> None:
        row.show((Button("submit", "Start"), Button("cancel", "Cancel")))

    # -------------------------------------------------------------------------------- what is shown

    def _request(self) -> tuple[RunRequest, Mapping[str, str], Sequence[str]]:
        """It, name of a field → what is wrong with it, and what is wrong beyond the fields."""
        observers = tuple(name for name in self.nictop.hosts.by_name if name != self._host)
        options, wrong = request_of_form(self._words, self._host, "", observers)
        words = self.query_one(ForeignForm).words
        request, problems = foreign_request(self._host, self._fields, words, options)
        complaints = [
            f"{label_of(name, self._words)}: {problem}"
            for name, problem in wrong.items()
            if name != "port"
        ]
        if not problems and not complaints:
            try:
                validate_request(request)
            except NictopError as error:
                complaints.append(error.with_hint)
        if not words["address"].strip() and self._is_submitted:
            problems = {**problems, "address": "missing"}
        return request, problems, complaints

    def draw(self) -> None:
        form = self.query_one(ForeignForm)
        _, problems, _ = self._request()
        form.is_submitted = self._is_submitted
        form.show(problems)
        form.take_rows(len(form.shown))
        super().draw()

    def text_lines(self, cells: int) -> Sequence[SpanLine]:
        request, problems, complaints = self._request()
        is_client = request.foreign_client
        lines: list[SpanLine] = []
        for text in complaints:
            lines += self.wrapped(f"{text} (options of the form)", cells, "bad", indent=" ")
        known = "what its TCP acknowledges" if request.generator == "ntttcp" else REPORTED
        about = CLIENT_OPTIONS.format(request.wait) if is_client else OPTIONS.format(known)
        lines += self.wrapped(about, cells, "dim", indent=" ")
        command = clean(command_line(request, {**self._arguments, "": MISSING_ADDRESS}))
        has_address = bool(self.query_one(ForeignForm).words["address"].strip())
        style = "title" if has_address and not problems and not complaints else "dim"
        return [*lines, *self.wrapped(f"= {command}", cells, style, indent=" ")]

    # ----------------------------------------------------------------------------------------- keys

    def on_form_changed(self) -> None:
        self._is_submitted = False
        self.draw()

    def action_submit(self) -> None:
        """If something is wrong, show that and start nothing."""
        self._is_submitted = True
        request, problems, complaints = self._request()
        if problems or complaints:
            self.draw()
            return
        traffic = self.nictop.traffic
        traffic.foreign_values = dict(self.query_one(ForeignForm).words)
        self.dismiss()
        if traffic.start(request):
            self.app.push_screen(RunScreen())
        else:
            self.nictop.notify("A test is running.", "Test")
