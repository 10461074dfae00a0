"""On a terminal, a command that waits says on stderr for what."""

from __future__ import annotations

import asyncio
import io
import os
import socket
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from time import monotonic

import pytest

from nictop.cli.progress_line import ProgressLine, waiting_line, waiting_text, whole_parts
from nictop.hosts.session import HostSession
from nictop.hosts.specification import LOCAL, Host
from nictop.probe.records import Line
from nictop.wire.source import SourceState
from tests.support.lines import counters, hello, inventory, link
from tests.support.terminal import TerminalProgram

ROOT = str(Path(__file__).parents[2])


def session(name: str = "vm1", address: str = "vm1.example") -> HostSession:
    return HostSession(Host(name, address))


def test_each_stage_of_a_slow_host_is_named_with_its_seconds() -> None:
    one = session()
    known = inventory(link(2, "ens192"))
    assert known.inventory is not None
    links_only = replace(
        known, inventory=replace(known.inventory, pending=("platform", "networkmanager"))
    )
    told = [waiting_text([one], 3.0, 100.0)]
    items: tuple[Line | SourceState, ...] = (
        SourceState("connecting"),
        SourceState("connecting", stage="resolve", target="vm1.example"),
        SourceState("connecting", stage="connect", target="192.0.2.1 port 22"),
        SourceState("connecting", stage="host_key", target="vm1"),
        SourceState("connecting", stage="login", target="root"),
        SourceState("connecting", stage="probe"),
        SourceState("live"),
        hello(),
        links_only,
        known,
        counters(1.0, {2: (0, 0)}),
    )
    for number, item in enumerate(items):
        one.process(item, 100.0 + 10 * number)
        told.append(waiting_text([one], 3.0, 104.0 + 10 * number))
    assert told == [
        "vm1: starting",
        "vm1: starting",
        "vm1: resolving, 4 s",
        "vm1: connecting, 4 s",
        "vm1: SSH handshake, 4 s",
        "vm1: logging in, 4 s",
        "vm1: starting probe, 4 s",
        "vm1: reading interfaces, 4 s",
        "vm1: reading interfaces, 14 s",
        "vm1: reading inventory, 4 s",
        "vm1: measuring, 0 of 3 s, then reading again (about 10 s)",
        "vm1: measuring, 0 of 3 s, then reading again (about 10 s)",
    ]


@pytest.mark.parametrize("is_terminal", [True, False])
async def test_a_long_wait_tells_its_limit(
    is_terminal: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where stderr is no terminal."""
    one = session()
    one.process(SourceState("connecting", stage="login", target="root"), monotonic())
    monkeypatch.setattr("nictop.cli.progress_line.LONG_WAIT_SECONDS", 0.0)
    told: list[str] = []
    is_told = asyncio.Event()

    def note(_: ProgressLine, text: str) -> None:
        told.append(text)
        is_told.set()

    monkeypatch.setattr(ProgressLine, "show" if is_terminal else "log", note)
    monkeypatch.setattr(sys, "stderr", Terminal() if is_terminal else io.StringIO())
    async with waiting_line([one], 3.0, lambda: 90.0):
        await is_told.wait()
    waiting = "0 s in all (limit 90 s) · vm1: logging in"
    assert told[0] == waiting if is_terminal else f"waiting: {waiting}"


def test_a_slow_host_is_said_to_be_read_again_before_it_is() -> None:
    one = session()
    known = inventory(link(2, "ens192"))
    assert known.inventory is not None
    partly = replace(known, inventory=replace(known.inventory, pending=("networkmanager",)))
    for now, item in (
        (0.0, SourceState("live")),
        (1.0, hello()),
        (2.0, partly),
        (43.0, known),
        (44.0, counters(1.0, {2: (0, 0)})),
        (45.0, counters(2.0, {2: (0, 0)})),
    ):
        one.process(item, now)
    told = waiting_text([one], 3.0, 45.0)
    assert told == "vm1: measuring, 1 of 3 s, then reading again (about 41 s)"
    for second in (3.0, 4.0, 5.0, 6.0):
        one.process(counters(second, {2: (0, 0)}), 43.0 + second)
    told = waiting_text([one], 3.0, 50.0)
    assert told == "vm1: measured; reading again what may have changed, 2 s (took 41 s before)"


def test_the_seconds_go_on_while_a_host_sends_nothing() -> None:
    one = session()
    items = (SourceState("live"), hello(), inventory(link(2, "ens192")))
    for item in (*items, counters(1.0, {2: (0, 0)}), counters(2.0, {2: (0, 0)})):
        one.process(item, 10.0)
    assert waiting_text([one], 3.0, 12.0) == "vm1: measuring, 1 of 3 s"
    assert waiting_text([one], 3.0, 17.0) == "vm1: measuring, 1 of 3 s; no data for 7 s"
    assert "may have changed, 7 s" in waiting_text([one], 1.0, 17.0)


def test_hosts_that_have_answered_are_not_named() -> None:
    hosts = [session(name) for name in ("a", "b", "c", "d", "e")]
    hosts[1].is_closed = True
    hosts[2].process(SourceState("lost", "gone", 2.0), 0.0)
    assert waiting_text(hosts, 0.0, 0.0) == "a: starting · c: lost · d: starting · 1 more"


def test_who_only_waits_for_a_host_to_be_read_does_not_name_it_afterwards() -> None:
    one, other = session(), session("vm2")
    for item in (
        SourceState("live"),
        hello(),
        inventory(link(2, "ens192")),
        counters(1.0, {2: (0, 0)}),
    ):
        one.process(item, 10.0)
    other.process(SourceState("connecting", stage="login", target="root"), 10.0)
    assert waiting_text([one, other], None, 14.0) == "vm2: logging in, 4 s"
    assert waiting_text([one], None, 14.0) == ""


def test_a_local_host_has_no_connection() -> None:
    one = session("here", LOCAL)
    one.process(SourceState("connecting"), 0.0)
    assert waiting_text([one], 0.0, 2.5) == "here: starting probe, 2 s"


@pytest.mark.parametrize(
    ("name", "later"), [("check", ": measuring, "), ("report", ": measuring, "), ("show", ": ")]
)
def test_on_a_terminal_a_command_is_not_silent(name: str, later: str, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "nictop", name]
    surroundings = {
        **os.environ,
        "TERM": "xterm",
        "LC_ALL": "C.UTF-8",
        "PYTHONPATH": str(Path(__file__).parents[2]),
    }
    with TerminalProgram(command, tmp_path, surroundings, (80, 24)) as screen:
        screen.wait_for_text("starting: ")
        screen.wait_for_text(later)
        screen.wait_for_end()
        assert "Traceback" not in screen.text


class Terminal(io.StringIO):
    """stderr on a terminal."""

    encoding = "utf-8"

    def isatty(self) -> bool:
        return True

    def fileno(self) -> int:
        return 2


@pytest.mark.parametrize(
    ("columns", "shown"),
    [
        (0, "vm1: reading interfaces · vm2: reading interfaces"),
        (120, "vm1: reading interfaces · vm2: reading interfaces"),
        (40, "vm1: reading interfaces · …"),
        (20, "vm1: reading inter…"),
    ],
)
def test_no_word_is_cut_where_there_is_room(
    columns: int, shown: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A terminal whose size was never set reports 0 columns: as if it had 20, words were cut."""
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setattr(os, "get_terminal_size", lambda *_: os.terminal_size((columns, 24)))
    ProgressLine().show("vm1: reading interfaces · vm2: reading interfaces")
    assert terminal.getvalue() == f"\r{shown}"


def test_the_hosts_that_fit_are_whole() -> None:
    line = "vm1: logging in, 4 s · vm2: reading inventory, 2 s · vm3: starting"
    for cells in range(20, 80):
        shown = whole_parts(line, cells)
        assert len(shown) <= cells and shown.startswith("vm1: logging in, 4")
        parts = [part for part in shown.split(" · ") if part != "…" and not part.endswith("…")]
        assert all(part in line.split(" · ") for part in parts)


SILENT_HOSTS = ("a", "b")
COMMANDS = {
    "path": ["path", *SILENT_HOSTS],
    "traffic": ["traffic", "--plain", *SILENT_HOSTS],
    "drops": ["drops", *SILENT_HOSTS],
    "record": ["record", "x.nictop", *SILENT_HOSTS],
}


@pytest.mark.parametrize("name", COMMANDS)
def test_each_command_that_connects_tells_the_step_that_takes_long(
    name: str, tmp_path: Path
) -> None:
    """Of a port that accepts and says nothing: the SSH handshake, with its seconds on a
    terminal."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        command = _silent_command(name, silent.getsockname()[1])
        surroundings = {
            **os.environ,
            "TERM": "xterm",
            "LC_ALL": "C.UTF-8",
            "HOME": str(tmp_path),
            "PYTHONPATH": ROOT,
        }
        with TerminalProgram(command, tmp_path, surroundings, (120, 24)) as screen:
            screen.wait_for_text("a: SSH handshake, 2 s")
            assert "waiting for a" not in screen.text


@pytest.mark.parametrize("name", ["path", "traffic", "drops"])
def test_each_step_is_a_line_where_stderr_is_no_terminal(name: str, tmp_path: Path) -> None:
    surroundings = {**os.environ, "HOME": str(tmp_path), "PYTHONPATH": ROOT}
    with socket.create_server(("127.0.0.1", 0)) as silent:
        command = _silent_command(name, silent.getsockname()[1])
        with subprocess.Popen(
            command, stderr=subprocess.PIPE, text=True, env=surroundings, cwd=tmp_path
        ) as process:
            assert process.stderr is not None
            told: list[str] = []
            while not told or told[-1] != "waiting for a: SSH handshake":
                told.append(next(process.stderr).rstrip())
            assert "waiting for a: connecting" in told
            process.terminate()


def _silent_command(name: str, port: int) -> list[str]:
    words = [
        f"{word}=root@127.0.0.1:{port}" if word in SILENT_HOSTS else word for word in COMMANDS[name]
    ]
    return [sys.executable, "-m", "nictop", *words]
