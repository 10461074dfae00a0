"""The application with one real host on which changes are allowed: a probe in a network namespace
with a veth pair of four queues (`tests.support.changes`), or in the namespace of a real
NetworkManager."""

from __future__ import annotations

import json
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from nictop.hosts.specification import Host
from nictop.model.text.glyphs import UNICODE, Glyphs
from nictop.rules import Fix
from nictop.tui.app import NictopApp
from nictop.tui.controllers.changes import KEEP_SECONDS
from nictop.tui.screens.changes.screen import HostChangeScreen
from nictop.wire.local import LocalSource
from nictop.wire.probe_process import probe_command
from nictop.wire.source import Source
from tests.support.changes import LINK, prepare_host, wait_for_no_process_left
from tests.support.dialogs import dialog_text
from tests.support.findings import commands, finding
from tests.support.namespaces import Namespace
from tests.support.screen import WIDE, Screen, running, wait_until
from tests.support.sources import ScriptedSource

MTU_FIX = Fix(
    "here",
    "set MTU 9000",
    commands(f"ip link set dev {LINK} mtu 9000"),
    persistent=False,
    undo=commands(f"ip link set dev {LINK} mtu 1500"),
)


class ScreenWithChanges(Screen):
    """The application, and the text of its change dialog."""

    waits_longest = True
    """Select the longest time to confirm a change (ten minutes), so that it is not undone on a slow
    machine."""

    def dialog_text(self) -> str:
        """Text of the topmost dialog on one line, with single blanks."""
        return dialog_text(self)

    async def wait_for_text(self, text: str) -> None:
        """Wait until the dialog contains `text`."""
        await wait_until(self, lambda: text in self.dialog_text())
        await self.settle()

    async def wait_for_stage(self, stage: str) -> None:
        """Wait until the change has reached this stage and the dialog is drawn."""
        await wait_until(self, lambda: self.nictop.changes.progress is not None)
        await wait_until(self, lambda: getattr(self.nictop.changes.progress, "stage", "") == stage)
        if stage == "prepared" and self.waits_longest:
            self.nictop.changes.wait(len(KEEP_SECONDS))
        await self.settle()

    async def prepare_fix(self, fix: Fix = MTU_FIX, subject: str = LINK) -> None:
        """Open the dialog for a fix, as the key f does, and wait until its plan is shown."""
        self.opener.open_fix(
            finding(host="vm1", subject=subject, title="is slow", fixes=(fix,)), fix
        )
        await self.wait_for_stage("prepared")
        assert isinstance(self.app.screen, HostChangeScreen)

    async def wait_until_closed(self) -> None:
        """Wait until the dialog is closed."""
        await wait_until(self, lambda: not isinstance(self.app.screen, HostChangeScreen))
        await self.settle()


def read_mtu(namespace: Namespace, name: str = LINK) -> int:
    output = json.loads(namespace.run(["ip", "-j", "link", "show", "dev", name]))
    return int(output[0]["mtu"])


@asynccontextmanager
async def screen_with_changes(
    prefix: Sequence[str],
    size: tuple[int, int] = WIDE,
    *,
    allow_changes: bool = True,
    glyphs: Glyphs = UNICODE,
) -> AsyncIterator[ScreenWithChanges]:
    """`prefix`: arguments before the command of the probe that start it on its host, such as ``ip
    netns exec NAME``."""
    options = ["--interval", "0.2", "--eager", *(["--allow-changes"] if allow_changes else [])]
    command = [*prefix, *probe_command(sys.executable, *options)]

    def connect(host: Host, ask: object) -> Source:
        return LocalSource(0.2, name=host.label, command=command)

    hosts = [Host("vm1", "vm1.example", allow_changes=allow_changes)]
    app = NictopApp(connect, hosts, interval=0.2, glyphs=glyphs)
    async with running(app, size) as pilot:
        screen = ScreenWithChanges(app, ScriptedSource(), pilot)
        watched, diagnosis = app.nictop.hosts, app.nictop.diagnosis
        await wait_until(
            screen, lambda: bool(watched.chosen) and watched.session.snapshot.rates is not None
        )
        await wait_until(screen, lambda: watched.session.snapshot.inventory is not None)
        await wait_until(screen, lambda: diagnosis.result is not None)
        await screen.settle()
        yield screen


@asynccontextmanager
async def screen_with_changes_in_namespace(
    size: tuple[int, int] = WIDE, *, allow_changes: bool = True, glyphs: Glyphs = UNICODE
) -> AsyncIterator[tuple[ScreenWithChanges, Namespace]]:
    """With the links of `tests.support.changes`; asserts that no process is left in the namespace
    afterwards."""
    namespace = Namespace()
    try:
        prepare_host(namespace)
        prefix = ["ip", "netns", "exec", namespace.name]
        async with screen_with_changes(
            prefix, size, allow_changes=allow_changes, glyphs=glyphs
        ) as screen:
            yield screen, namespace
        wait_for_no_process_left(namespace)
    finally:
        namespace.remove()
