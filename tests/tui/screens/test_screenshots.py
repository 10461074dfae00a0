"""Pictures of the live screen on a recorded guest, or on that of a rule case (FAMILY/RULE): what is
committed in screenshots/ is what nictop draws.

``make screenshots`` (NICTOP_DRAW_SCREENSHOTS=1) writes them anew.
"""

from __future__ import annotations

import asyncio
import difflib
import os
import time
from pathlib import Path

import pytest

from nictop.cli.commands.demo import DEMO_NIC, DEMO_NOTICE, DEMO_START_SECONDS
from nictop.model.text.glyphs import ASCII, UNICODE, Glyphs
from nictop.probe.records import Line
from nictop.tui.app import NictopApp
from nictop.tui.screens.dialogs.question import QuestionScreen
from nictop.tui.screens.replay.run import RecordedRunScreen
from nictop.tui.widgets.status.status_line import StatusLine
from nictop.wire.source import SourceState
from nictop.wire.ssh.authentication import Question
from nictop.wire.ssh.bootstrap_command import MIN_REMOTE_PYTHON
from tests.cli.commands.test_demo import DEMO
from tests.support.captured import captured_lines
from tests.support.findings import lines_of_case
from tests.support.picture import picture_of, text_of
from tests.support.replay_screen import ScreenWithReplay, screen_with_replay
from tests.support.screen import (
    WIDE,
    Screen,
    ScriptedHosts,
    frozen_clock,
    running,
    screen_with_hosts,
    wait_until,
)
from tests.support.sources import ScriptedSource

PICTURES = Path(__file__).parent.parent.parent.parent / "screenshots"

CHOOSE = ("down", "down")
"""From the management port to the physical function."""

VIRTIO = ("right", "right")
"""To the NIC whose four queues carry traffic."""

SHOTS = {
    "live-120x36": ((120, 36), "igb-vfs-vmxnet3-virtio", CHOOSE, UNICODE),
    "live-80x24": ((80, 24), "igb-vfs-vmxnet3-virtio", CHOOSE, UNICODE),
    "detail-80x24": ((80, 24), "igb-vfs-vmxnet3-virtio", (*CHOOSE, "enter"), UNICODE),
    "ascii-80x24": ((80, 24), "igb-vfs-vmxnet3-virtio", CHOOSE, ASCII),
    "queues-120x36": ((120, 36), "virtio-4-queues", (*VIRTIO, "2"), UNICODE),
    "queues-80x24": ((80, 24), "virtio-4-queues", (*VIRTIO, "2"), UNICODE),
    "cpus-120x36": ((120, 36), "virtio-4-queues", (*VIRTIO, "3", "o"), UNICODE),
    "cpus-80x24": ((80, 24), "virtio-4-queues", (*VIRTIO, "3"), UNICODE),
    "findings-120x36": ((120, 36), "profiles/profile_is_generated", ("4",), UNICODE),
    "findings-80x24": ((80, 24), "profiles/profile_is_generated", ("4",), UNICODE),
    "wired-connection-120x36": ((120, 36), "profiles/profile_is_generated", ("right",), UNICODE),
    "wired-connection-80x24": ((80, 24), "profiles/profile_is_generated", ("right",), UNICODE),
    "bond-120x36": ((120, 36), "bonds/lacp_port_is_not_in_use", ("down", "down", "down"), UNICODE),
    "bond-80x24": ((80, 24), "bonds/lacp_port_is_not_in_use", ("down", "down"), UNICODE),
    "bridge-120x36": ((120, 36), "bridges/vlan_is_not_on_the_uplink", (), UNICODE),
    "bridge-80x24": ((80, 24), "bridges/vlan_is_not_on_the_uplink", ("enter", "pagedown"), UNICODE),
    "switch-port-120x36": (
        (120, 36),
        "link/vlan_is_not_on_the_switch_port",
        ("tab", "pagedown", *["down"] * 6),
        UNICODE,
    ),
    "switch-port-80x24": (
        (80, 24),
        "link/vlan_is_not_on_the_switch_port",
        ("enter", *["pagedown"] * 2, *["down"] * 6),
        UNICODE,
    ),
    "help-80x24": ((80, 24), "igb-vfs-vmxnet3-virtio", (*CHOOSE, "question_mark"), UNICODE),
}

HOSTS = {"alma-load-001": "igb-vfs-vmxnet3-virtio", "alma-load-002": "virtio-4-queues", "pve": ""}
"""Name → what its probe says; nothing of the last one, which cannot be reached."""

OLDEST = ".".join(map(str, MIN_REMOTE_PYTHON))
REFUSED = f"Python 3.5.3 on the host is too old: nictop needs Python {OLDEST} or newer there"

SEVERAL = {
    "hosts-120x36": ((120, 36), ("5", "down"), None),
    "hosts-80x24": ((80, 24), ("5", "down", "down"), None),
    "overview-120x36": ((120, 36), ("5", "tab", "tab", "down"), None),
    "overview-80x24": ((80, 24), ("5", "slash", *"driver:virtio"), None),
    "question-80x24": (
        (80, 24),
        (),
        Question(
            "host_key",
            "pve",
            "Unknown host key of pve: ssh-ed25519 "
            "SHA256:uNiVztksCsDhcc0u9e8BrzuNiVztksCsDhcc0u9e8Br. Trust it?",
            secret=False,
            fingerprint="SHA256:uNiVztksCsDhcc0u9e8BrzuNiVztksCsDhcc0u9e8Br",
            file="/home/me/.ssh/known_hosts",
        ),
    ),
}


REPLAYS: dict[str, tuple[tuple[int, int], float, tuple[str, ...]]] = {
    "replay-120x36": ((120, 36), 72.0, ()),
    "replay-80x24": ((80, 24), 72.0, ("4",)),
    "replay-run-120x36": ((120, 36), 90.0, ("6",)),
    "replay-run-80x24": ((80, 24), 74.0, ("6",)),
    # docs/first-problem.md
    "problem-devices-120x36": ((120, 36), 28.0, ()),
    "problem-finding-120x36": ((120, 36), 28.0, ("4", "down")),
    "problem-fixed-120x36": ((120, 36), 38.0, ()),
    "problem-results-120x36": ((120, 36), 90.0, ("7",)),
}
"""Size, seconds after the begin of the demo, keys."""

RECORDINGS = Path(__file__).parents[2] / "data" / "recordings"
VETH, BRIDGE = RECORDINGS / "lab.nictop", RECORDINGS / "lab-bridge.nictop"
LAB_REPLAYS: dict[str, tuple[Path, float, tuple[str, ...]]] = {
    # docs/lab.md
    "namespaces-test-120x36": (VETH, 22.0, ("6",)),
    "namespaces-finding-120x36": (VETH, 33.0, ("4", "down", "down")),
    "namespaces-repaired-120x36": (VETH, 64.0, ("4",)),
    "namespaces-hosts-120x36": (BRIDGE, 10.0, ("5",)),
    "namespaces-bridge-120x36": (BRIDGE, 16.0, ("4", "down")),
}
"""A recording of ``nictop lab``, seconds after its begin, keys."""


def lines_of(name: str) -> list[Line]:
    """What the probe of the host in the picture says."""
    family, slash, rule = name.partition("/")
    return lines_of_case(family, rule) if slash else captured_lines(name)


async def draw(size: tuple[int, int], recording: str, keys: tuple[str, ...], glyphs: Glyphs) -> str:
    source = ScriptedSource("alma-load-001")
    app = NictopApp(lambda host, ask: source, glyphs=glyphs)
    with frozen_clock():
        async with running(app, size, notifications=False) as pilot:
            screen = Screen(app, source, pilot)
            await screen.receive(*lines_of(recording))
            await wait_until(screen, lambda: app.nictop.diagnosis.result is not None)
            if keys:
                await pilot.press(*keys)
            await pilot.pause()
            await pilot.pause()
            return picture_of(app)


async def draw_several(
    size: tuple[int, int], keys: tuple[str, ...], question: Question | None
) -> str:
    async with screen_with_hosts(*HOSTS, size=size) as (screen, hosts):
        for name, recording in HOSTS.items():
            hosts[name].send(
                *(lines_of(recording) if recording else [SourceState("failed", REFUSED)])
            )
        await wait_until(
            screen,
            lambda: screen.nictop.diagnosis.result is not None and not screen.nictop.hosts.pending,
        )
        await wait_until(
            screen, lambda: any(f"{UNICODE.critical} " in row for row in screen.drawn()[:2])
        )
        asking = asyncio.ensure_future(_asked(hosts, question)) if question is not None else None
        await wait_until(
            screen, lambda: isinstance(screen.app.screen, QuestionScreen) == (question is not None)
        )
        await screen.press(*keys)
        screen.app.clear_notifications()
        await screen.settle()
        picture = picture_of(screen.app)
        if asking is not None:
            await screen.press("escape")
            await asking
        return picture


async def _asked(hosts: ScriptedHosts, question: Question) -> str | None:
    return await hosts.asks[question.host](question)


@pytest.mark.parametrize("name", SHOTS)
async def test_the_screen_looks_like_its_picture(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # its own cost is the one thing on the screen that a recording does not determine
    monkeypatch.setattr(StatusLine, "COST_EVERY", 3600.0)
    compare(name, await draw(*SHOTS[name]))


@pytest.mark.parametrize("name", SEVERAL)
async def test_several_hosts_look_like_their_picture(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(StatusLine, "COST_EVERY", 3600.0)
    monkeypatch.setattr(
        "nictop.hosts.session.SILENT_AFTER_SECONDS", 3600.0
    )  # a recording says nothing after its last line
    compare(name, await draw_several(*SEVERAL[name]))


@pytest.mark.parametrize("name", REPLAYS)
async def test_a_recording_looks_like_its_picture(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    size, start, keys = REPLAYS[name]
    compare(name, await draw_replay(size, start, keys, "", monkeypatch))


@pytest.mark.parametrize("name", LAB_REPLAYS)
async def test_a_recorded_lab_looks_like_its_picture(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Watched, tested, its fault found and repaired."""
    path, start, keys = LAB_REPLAYS[name]
    compare(name, await draw_replay(WIDE, start, keys, "", monkeypatch, path=path, nic=""))


@pytest.mark.parametrize("size", [(120, 36), (80, 24)])
async def test_the_demo_looks_like_its_picture(
    size: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    compare(
        f"demo-{size[0]}x{size[1]}",
        await draw_replay(size, DEMO_START_SECONDS, (), DEMO_NOTICE, monkeypatch),
    )


async def draw_replay(
    size: tuple[int, int],
    start: float,
    keys: tuple[str, ...],
    notice: str,
    monkeypatch: pytest.MonkeyPatch,
    *,
    path: Path | str = DEMO,
    nic: str = DEMO_NIC,
) -> str:
    monkeypatch.setattr(StatusLine, "COST_EVERY", 3600.0)
    monkeypatch.setenv("TZ", "UTC")  # times of day are those of the one who looks
    time.tzset()
    try:
        async with screen_with_replay(path, size, start=start, nic=nic, notice=notice) as screen:
            await screen.press(*keys)
            if "6" in keys:
                await screen.until(lambda: "█" in "".join(screen.drawn()))
                await screen.until(lambda: _is_read(screen))
            await screen.until(lambda: screen.nictop.diagnosis.result is not None)
            return picture_of(screen.app)
    finally:
        monkeypatch.undo()
        time.tzset()


def _is_read(screen: ScreenWithReplay) -> bool:
    """The run has been read up to the moment that is shown."""
    page = screen.app.screen
    return (
        isinstance(page, RecordedRunScreen)
        and page._run is not None
        and page._run._now == screen.nictop.now()
    )


def compare(name: str, svg: str) -> None:
    """Fail when the committed picture is another one."""
    path = PICTURES / f"{name}.svg"
    if os.environ.get("NICTOP_DRAW_SCREENSHOTS"):
        path.write_text(svg)
    known = path.read_text()
    if svg != known:
        before, after = map(text_of, (known, svg))
        difference = "\n".join(
            difflib.unified_diff(before, after, "committed", "drawn", lineterm="", n=0)
        )
        pytest.fail(
            f"{name} is drawn differently (make screenshots, then look at "
            f"it):\n{difference or 'styles'}"
        )
