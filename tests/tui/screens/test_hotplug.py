"""What happens to a NIC happens on the screen, by itself: the real probe in a namespace, the real
screen."""

from __future__ import annotations

import sys

from nictop.tui.app import NictopApp
from nictop.wire.local import LocalSource
from nictop.wire.probe_process import probe_command
from tests.support.namespaces import Namespace
from tests.support.screen import NARROW, Screen, running, wait_until
from tests.support.sources import ScriptedSource


async def test_a_nic_appears_loses_carrier_is_renamed_and_vanishes(namespace: Namespace) -> None:
    inside = ["ip", "netns", "exec", namespace.name]
    # an interval of a minute: nothing that is seen here can come from the counters
    source = LocalSource(command=[*inside, *probe_command(sys.executable, "--interval", "60")])
    app = NictopApp(lambda host, ask: source, interval=60.0)
    async with running(app, NARROW, notifications=False) as pilot:
        screen = Screen(app, ScriptedSource(), pilot)

        def row(name: str) -> str:
            return next((line for line in screen.lines() if f" {name} " in line), "")

        await wait_until(screen, lambda: bool(row("lo")))
        namespace.run(["ip", "link", "add", "left0", "type", "veth", "peer", "name", "right0"])
        namespace.run(["ip", "link", "set", "left0", "up"])
        await wait_until(screen, lambda: "▽" in row("left0") and bool(row("right0")))
        namespace.run(["ip", "link", "set", "right0", "up"])
        await wait_until(screen, lambda: "↑" in row("left0"))
        namespace.run(["ip", "link", "set", "right0", "down"])
        await wait_until(screen, lambda: "▽" in row("left0"))
        namespace.run(["ip", "link", "set", "right0", "name", "[b]new'"])
        await wait_until(screen, lambda: bool(row("[b]new'")) and not row("right0"))
        namespace.run(["ip", "link", "del", "left0"])
        await wait_until(screen, lambda: not row("left0") and not row("[b]new'"))
        await wait_until(
            screen, lambda: getattr(app.nictop.hosts.snapshot, "inventory_pending", None) is False
        )
        assert row("lo")
