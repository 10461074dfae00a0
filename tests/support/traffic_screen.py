"""The application with two real hosts: a probe in each of two network namespaces that are joined by
a veth pair."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace

from nictop.hosts.specification import Host
from nictop.model.text.glyphs import UNICODE, Glyphs
from nictop.probe.records import Line, Request
from nictop.traffic.plan.request import RunRequest
from nictop.tui.app import NictopApp
from nictop.tui.screens.traffic.run_page import RunPage
from nictop.tui.widgets.base.line_widget import LineWidget
from nictop.tui.widgets.traffic.chart import RunChart
from nictop.tui.widgets.traffic.form import RunForm
from nictop.tui.widgets.traffic.pair_table import PairTable
from nictop.wire.local import LocalSource
from nictop.wire.probe_process import probe_command
from nictop.wire.source import Source, SourceState
from tests.support.namespaces import Namespace
from tests.support.screen import WIDE, Screen, running, wait_until
from tests.support.sources import ScriptedSource
from tests.traffic.pair import add_veth, generators_in, namespaces, shaper_arguments, source


class OwnBootId:
    """A source with a boot id of its own; otherwise nictop recognises two namespaces as one
    machine."""

    def __init__(self, inner: Source) -> None:
        self._inner, self.name = inner, inner.name

    @property
    def pids(self) -> tuple[int, ...]:
        return self._inner.pids

    async def items(self) -> AsyncIterator[Line | SourceState]:
        async for item in self._inner.items():
            if isinstance(item, Line) and item.hello is not None:
                yield replace(item, hello=replace(item.hello, boot_id=f"boot of {self.name}"))
            else:
                yield item

    async def request(self, request: Request) -> None:
        await self._inner.request(request)

    async def close(self) -> None:
        await self._inner.close()


class ScreenWithTraffic(Screen):
    """The application, and the namespaces of its hosts "a" and "b"."""

    spaces: dict[str, Namespace]

    def generators(self) -> list[int]:
        """Process ids of iperf3 servers and clients on both hosts."""
        return generators_in(*self.spaces.values())

    async def until(self, condition: Callable[[], bool]) -> None:
        await wait_until(self, condition)
        await self.settle()

    async def open_form(self) -> None:
        """Open the traffic screen, and wait for its pairs and for the facts about both ends."""
        await self.press("6")
        await self.until(lambda: self.app.screen.query_one(PairTable).count > 0)
        await self.until(
            lambda: "checking iperf3" not in self.pair_facts() and "a: " in self.pair_facts()
        )

    async def type(self, field: str, words: str) -> None:
        """Type into this field of the form, which has the focus afterwards."""
        form = self.app.screen.query_one(RunForm)
        if not form.has_focus:
            await self.press("tab")
        await self.press("home", *["down"] * [one.name for one in form.shown].index(field), *words)

    async def start(self, seconds: int = 1) -> None:
        """Open the form, and start a run of `seconds` seconds."""
        await self.open_form()
        await self.type("time", str(seconds))
        await self.press("enter")

    async def stop(self) -> None:
        """Stop the run that is shown, and say that this is wanted."""
        await self.press("enter", "left", "enter")

    async def wait_until_finished(self) -> None:
        await self.until(lambda: not self.nictop.traffic.running)

    async def wait_until_ended(self) -> None:
        """Wait until the application has ended the run."""
        while self.nictop.traffic.running:
            await self.pilot.pause(0.01)

    async def wait_for_arrivals(self) -> None:
        """Wait until received traffic is drawn."""
        await self.until(self._has_arrivals)

    def _has_arrivals(self) -> bool:
        view = self.chart().shown if isinstance(self.app.screen, RunPage) else None
        return view is not None and any(flow.points for flow in view.flows)

    def chart(self) -> RunChart:
        return self.app.screen.query_one(RunChart)

    def pair_facts(self) -> str:
        """Text of the form about the selected pair."""
        return self.text("#pair-facts")

    def run_text(self) -> str:
        """Text of the run screen."""
        return self.text("#run-sentences")

    def text(self, selector: str) -> str:
        view = self.app.screen.query_one(selector, LineWidget)
        return "\n".join("".join(text for text, _ in line) for line in view.lines)


HIDE_PROGRAM = 'mount --bind /dev/null "$0" && exec "$@"'
"""``ip netns exec`` runs every command in a new mount namespace, so that the program is hidden only
there."""


def without_iperf3(namespace: Namespace, name: str) -> LocalSource:
    """A probe on a host where iperf3 is not installed."""
    probe = probe_command(sys.executable, "--interval", "0.2")
    program = shutil.which("iperf3")
    assert program is not None
    command = [
        "ip",
        "netns",
        "exec",
        namespace.name,
        "sh",
        "-c",
        HIDE_PROGRAM,
        os.path.realpath(program),
        *probe,
    ]
    return LocalSource(0.2, name=name, command=command)


@asynccontextmanager
async def two_hosts(
    size: tuple[int, int] = WIDE,
    *,
    glyphs: Glyphs = UNICODE,
    request: RunRequest | None = None,
    bare: Sequence[str] = (),
    rate: str = "50mbit",
    options: Sequence[str] = (),
) -> AsyncIterator[ScreenWithTraffic]:
    """The live screen with "a" and "b" after their first inventories; `bare`: hosts without
    iperf3; `options`: of the probes."""
    async with AsyncExitStack() as stack:
        spaces = dict(zip(("a", "b"), stack.enter_context(namespaces()), strict=True))
        add_veth(spaces["a"], spaces["b"], shaper_arguments(rate))

        def connect(host: Host, ask: object) -> Source:
            space = spaces[host.label]
            if host.label in bare:
                return OwnBootId(without_iperf3(space, host.label))
            may_run = host.label in app.nictop.traffic.may_run
            rights = ["--allow-workload"] * may_run
            return OwnBootId(source(space, host.label, "", *options, *rights))

        hosts = [Host(name, f"{name}.example") for name in spaces]
        app = NictopApp(connect, hosts, glyphs=glyphs, request=request)
        pilot = await stack.enter_async_context(running(app, size))
        runs = ScreenWithTraffic(app, ScriptedSource(), pilot)
        runs.spaces = spaces
        await runs.until(
            lambda: (
                len(app.nictop.hosts.sessions) == 2
                and all(one.snapshot.counters for one in app.nictop.hosts.sessions)
            )
        )
        await runs.until(lambda: all(one.snapshot.inventory for one in app.nictop.hosts.sessions))
        yield runs
