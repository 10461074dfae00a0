"""A command of the user on the shown host, measured from its start to its end: a line to type with
its options, and the question whether it is run, with what will run.

╭ Measure a command on vm1 ──────────────────────────────────────╮
│ Runs as the user of the login, without a terminal. What is     │
│ varied is $NICTOP_VALUE in it. Nothing runs yet.               │
│ Command: fio job.fio --bs=$NICTOP_VALUE --output-format=json   │
│  NIC        ◂ automatic ▸  automatic: ens192                   │
│  vary       bs=4K,64K,1M   bs=4K,64K nic= setup= queues=       │
│                                                                │
│ [ Next ] [ Cancel ]                                            │
╰ Tab Next · Enter Next · Esc Cancel ────────────────────────────╯

The right to run a command is the probe's from its start on: a host that does not have it is
connected to once more, after the answer.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar

from textual.binding import BindingType
from textual.widget import Widget

from nictop.errors import NictopError
from nictop.model.text.terminal import clean
from nictop.model.text.words import count_noun
from nictop.traffic.plan.command_line import command_line
from nictop.traffic.plan.one_nic import automatic_nic_text, measured_nic
from nictop.traffic.plan.request import RunRequest
from nictop.traffic.plan.validation import unused_value_text, validate_request
from nictop.tui.keys import FORM_DIALOG_KEYS
from nictop.tui.screens.dialogs.dialog import CHROME_ROWS
from nictop.tui.screens.dialogs.host_dialog import StartDialog
from nictop.tui.screens.dialogs.leave import ConfirmDialog
from nictop.tui.screens.dialogs.line_entry import LineEntry
from nictop.tui.screens.traffic.run import RunScreen
from nictop.tui.widgets.base.form import Field, Form
from nictop.tui.widgets.base.text_input import TextInput
from nictop.tui.widgets.traffic.one_host_fields import command_fields, command_request

if TYPE_CHECKING:
    from nictop.tui.screens.base import NictopScreen

HOW = (
    "Runs as the user of the login, without a terminal. What is varied is $NICTOP_VALUE in it. "
    "Nothing runs yet."
)
RIGHT = "nictop connects to it once more, with the right to run this command."
RECONNECT_SECONDS = 60.0
"""For a host whose probe is started again."""
MIN_TEXT_ROWS = 1
COMMAND = "command"
"""Name of the line among the values that are kept."""


class CommandForm(Form):
    """Whose texts fit beside the values at 60 columns."""

    label_cells, value_cells = 10, 14


class CommandEntry(LineEntry, StartDialog):
    """The line, and the options below it. `kept`: what was typed for the last command."""

    BINDINGS: ClassVar[list[BindingType]] = FORM_DIALOG_KEYS

    def __init__(
        self,
        host: str,
        fields: Sequence[Field],
        kept: Mapping[str, str],
        take: Callable[[str], Awaitable[str]],
    ) -> None:
        title = f"Measure a command on {clean(host)}"
        super().__init__(title, HOW, kept.get(COMMAND, ""), take, button="Next", label="Command:")
        self.start_host = host
        self.form = CommandForm(fields, id="command-form")
        self.form.fill(kept)
        self.problems: Mapping[str, str] = {}
        """Name of a field → what is wrong with it."""

    def compose_options(self) -> Iterable[Widget]:
        yield self.form

    @property
    def words(self) -> Mapping[str, str]:
        """What was typed, also the line."""
        return {**self.form.words, COMMAND: self.query_one(TextInput).value}

    def draw(self) -> None:
        """On a low screen the options scroll."""
        room = self.size.height - CHROME_ROWS - LineEntry.FIELD_ROWS - MIN_TEXT_ROWS
        rows = max(1, min(len(self.form.shown), room))
        self.FIELD_ROWS = LineEntry.FIELD_ROWS + rows
        self.form.show(self.problems)
        self.form.take_rows(rows)
        super().draw()

    def on_form_changed(self) -> None:
        self.problems = {}
        self.draw()


class RunCommandScreen(ConfirmDialog):
    """Whether the command is run, exactly as it is shown."""

    DIALOG_TITLE, YES_LABEL, CHOSEN = "Run this command?", "Run", "cancel"

    def is_due(self) -> bool:
        return not self.nictop.traffic.running


def ask_command(screen: NictopScreen, host: str, arguments: Mapping[str, str]) -> None:
    """`arguments`: name of a host → what is typed for it on the command line."""
    nictop = screen.nictop
    requests: list[RunRequest] = []
    observers = tuple(name for name in nictop.hosts.by_name if name != host)
    snapshot = nictop.hosts.by_name[host].snapshot
    names = [link.name for link in snapshot.links.values()]
    fields = command_fields(names, automatic_nic_text(snapshot))

    async def take(text: str) -> str:
        entry.problems = {}
        request, problems = command_request(host, text, fields, entry.words, observers)
        if problems:
            entry.problems = problems
            wrong = [
                f"{field.label}: {problems[field.name]}"
                for field in fields
                if field.name in problems
            ]
            return f"To be corrected: {'; '.join(wrong)}"
        try:
            validate_request(request)
        except NictopError as error:
            return error.with_hint
        nictop.traffic.command_values = dict(entry.words)
        requests.append(request)
        return ""

    def closed(_: None) -> None:
        for request in requests:
            _ask_to_run(screen, request, arguments)

    entry = CommandEntry(host, fields, nictop.traffic.command_values, take)
    screen.app.push_screen(entry, closed)


def _ask_to_run(screen: NictopScreen, request: RunRequest, arguments: Mapping[str, str]) -> None:
    lines = [f"On {clean(request.client)}: /bin/sh -c {clean(request.workload)}"]
    lines += _variant_lines(request)
    lines += _nic_lines(request, screen)
    if request.client not in screen.nictop.traffic.may_run:
        lines.append(RIGHT)
    lines.append(f"= {clean(command_line(request, arguments))}")

    def answered(sure: bool | None) -> None:
        if sure:
            screen.app.run_worker(_run(screen, request), name="command", exit_on_error=False)

    screen.app.push_screen(RunCommandScreen("\n".join(lines)), answered)


def _nic_lines(request: RunRequest, screen: NictopScreen) -> Iterable[str]:
    """Which NIC is measured, if none was chosen; none may be."""
    session = screen.nictop.hosts.by_name.get(request.client)
    if session is None or request.client_nic or validate_request(request).variable == "nic":
        return
    snapshots = {request.client: session.snapshot}
    note = measured_nic(request.client, "", snapshots, "the field NIC").note
    if note:
        yield f"{note[0].upper()}{note[1:]}"


def _variant_lines(request: RunRequest) -> Iterable[str]:
    """How often it runs, with what, and what else runs."""
    validated = validate_request(request)
    number = len(validated.values) * request.repeat
    if validated.variable:
        values = ", ".join(map(clean, validated.values))
        yield f"{count_noun(number, 'run')}; $NICTOP_VALUE ({validated.variable}): {values}"
    elif number > 1:
        yield count_noun(number, "run")
    unused = unused_value_text(validated)
    if unused:
        yield unused
    if request.between:
        yield f"Here, before each variant: /bin/sh -c {clean(request.between)}"


async def _run(screen: NictopScreen, request: RunRequest) -> None:
    nictop = screen.nictop
    session = nictop.hosts.by_name.get(request.client)
    if session is None:
        nictop.notify("It is not watched any more.", "Measure a command")
        return
    if request.client not in nictop.traffic.may_run:
        nictop.traffic.may_run.add(request.client)
        before = session.snapshot.hello
        nictop.hosts.reconnect(request.client)

        def is_back() -> bool:
            return session.snapshot.state == "live" and session.snapshot.hello is not before

        if not await session.until(is_back, RECONNECT_SECONDS * session.slowness.factor):
            nictop.traffic.may_run.discard(request.client)
            why = clean(session.snapshot.message) or session.snapshot.state
            nictop.notify(f"Not run: {clean(request.client)}: {why}", "Measure a command")
            return
    if nictop.traffic.start(request):
        screen.app.push_screen(RunScreen())
