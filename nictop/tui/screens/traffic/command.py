"""A command of the user on the shown host, measured from its start to its end: a line to type, and
the question whether it is run, with what will run.

╭ Measure a command on vm1 ──────────────────────────────────────╮
│ Runs as the user of the login, without a terminal, and is      │
│ ended after 1 h.                                               │
│ Command: fio job.fio --output-format=json                      │
│                                                                │
│ [ Next ] [ Cancel ]                                            │
╰ Tab Next · Enter Next · Esc Cancel ────────────────────────────╯

The right to run a command is the probe's from its start on: a host that does not have it is
connected to once more, after the answer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from nictop.errors import NictopError
from nictop.model.text.terminal import clean
from nictop.traffic.plan.command_line import command_line
from nictop.traffic.plan.plan import DEFAULT_WORKLOAD_SECONDS
from nictop.traffic.plan.request import RunRequest
from nictop.traffic.plan.validation import validate_request
from nictop.tui.screens.dialogs.leave import ConfirmDialog
from nictop.tui.screens.dialogs.line_entry import LineEntry
from nictop.tui.screens.traffic.run import RunScreen

if TYPE_CHECKING:
    from collections.abc import Mapping

    from nictop.tui.screens.base import NictopScreen

HOW = "Runs as the user of the login, without a terminal; ended after 1 h. Nothing runs yet."
RIGHT = "nictop connects to it once more, with the right to run this command."
RECONNECT_SECONDS = 60.0
"""For a host whose probe is started again."""


class RunCommandScreen(ConfirmDialog):
    """Whether the command is run, exactly as it is shown."""

    DIALOG_TITLE, YES_LABEL, CHOSEN = "Run this command?", "Run", "cancel"

    def is_due(self) -> bool:
        return not self.nictop.traffic.running


def ask_command(screen: NictopScreen, host: str, nic: str, arguments: Mapping[str, str]) -> None:
    """`nic`: the NIC that is measured; "": that of the default route. `arguments`: name of a host →
    what is typed for it on the command line."""
    requests: list[RunRequest] = []

    async def take(text: str) -> str:
        request = RunRequest(
            host,
            host,
            client_nic=nic,
            test="workload",
            workload=text,
            time=DEFAULT_WORKLOAD_SECONDS,
            observers=tuple(name for name in screen.nictop.hosts.by_name if name != host),
        )
        try:
            validate_request(request)
        except NictopError as error:
            return error.with_hint
        requests.append(request)
        return ""

    def closed(_: None) -> None:
        for request in requests:
            _ask_to_run(screen, request, arguments)

    title = f"Measure a command on {clean(host)}"
    entry = LineEntry(title, HOW, "", take, button="Next", label="Command:")
    screen.app.push_screen(entry, closed)


def _ask_to_run(screen: NictopScreen, request: RunRequest, arguments: Mapping[str, str]) -> None:
    lines = [f"On {clean(request.client)}: /bin/sh -c {clean(request.workload)}"]
    if request.client not in screen.nictop.traffic.may_run:
        lines.append(RIGHT)
    lines.append(f"= {clean(command_line(request, arguments))}")

    def answered(sure: bool | None) -> None:
        if sure:
            screen.app.run_worker(_run(screen, request), name="command", exit_on_error=False)

    screen.app.push_screen(RunCommandScreen("\n".join(lines)), answered)


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
