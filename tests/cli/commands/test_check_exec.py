"""``nictop check --exec``: commands for findings that appear and go."""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import shlex
import signal
import sys
from collections.abc import AsyncIterator, Callable
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

from nictop.cli import check_follow, output
from nictop.cli.check_follow import command_words, finding_change_text, variables_of
from nictop.cli.main import main
from nictop.errors import HostUnreachable, NictopError
from nictop.probe.records import Line
from nictop.rules import diagnose
from nictop.rules.changes import FindingChange
from nictop.wire.source import SourceState
from tests.support.findings import finding
from tests.support.hostile import KINDS
from tests.support.probe import TEST_TIMEOUT, is_alive
from tests.support.rule_cases import base, host_facts, probe_lines
from tests.support.sources import ScriptedSource

WRITE = """
import json, os, sys
names = [name for name in os.environ if name.startswith("NICTOP_")]
line = {"variables": {name: os.environ[name] for name in names}, "input": json.load(sys.stdin)}
with open(sys.argv[1], "a") as file:
    file.write(json.dumps(line) + "\\n")
"""


class EndingSource(ScriptedSource):
    """Ends when it is closed, as real ones do."""

    async def items(self) -> AsyncIterator[Line | SourceState]:
        while not self.closed:
            if self.is_drained:
                await asyncio.sleep(0.01)
            else:
                yield await self._queue.get()


@pytest.fixture
def source(monkeypatch: pytest.MonkeyPatch) -> EndingSource:
    source = EndingSource("vm1")
    monkeypatch.setattr(check_follow, "connect_host", lambda *_: source)
    monkeypatch.setattr(check_follow, "MIN_PAUSE_SECONDS", 0.01)
    monkeypatch.setattr(check_follow, "MAX_PAUSE_SECONDS", 0.02)
    return source


def host_of(**link: object) -> dict[str, Any]:
    """A host of the cases; `link`: other values of its NIC."""
    host: dict[str, Any] = {"name": "vm1", **deepcopy(base("kvm-guest"))}
    host["links"]["enp1s0"].update(link)
    return host


DOWN = {"operstate": "down", "carrier": False}


def options_of(command: str, fail_on: str = "info") -> argparse.Namespace:
    return argparse.Namespace(
        hosts=["vm1"],
        at=None,
        interval=1.0,
        sudo=False,
        accept_new_host_keys=False,
        fail_on=fail_on,
        exec=command,
    )


async def follow(
    source: EndingSource, options: argparse.Namespace, until: Callable[[], bool]
) -> int:
    """Run it on a host with findings until `until`, then end it as Ctrl-C does."""
    follower = check_follow._Follower(options, command_words(options.exec))
    running = asyncio.ensure_future(follower.run())
    source.send(SourceState("live"), *probe_lines(host_of(**DOWN)))
    await asyncio.wait_for(_until(until), TEST_TIMEOUT)
    os.kill(os.getpid(), signal.SIGINT)
    return await running


async def _until(condition: Callable[[], bool]) -> None:
    while not condition():  # noqa: ASYNC110 - of another process
        await asyncio.sleep(0.02)


def lines_in(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


@pytest.fixture
def script(tmp_path: Path) -> Path:
    path = tmp_path / "write.py"
    path.write_text(WRITE)
    return path


async def test_the_command_gets_each_finding(
    source: EndingSource, script: Path, tmp_path: Path
) -> None:
    written = tmp_path / "written"
    command = shlex.join([sys.executable, str(script), str(written)])
    findings = diagnose([host_facts(host_of(**DOWN))]).findings
    assert findings
    code = await follow(
        source, options_of(command), lambda: len(lines_in(written)) >= len(findings)
    )
    assert code == 0 and source.closed
    for line, told in zip(lines_in(written), findings, strict=True):
        assert line["input"]["event"] == line["variables"]["NICTOP_EVENT"] == "appeared"
        assert line["input"]["finding"]["rule"] == line["variables"]["NICTOP_RULE"] == told.rule
        assert line["variables"]["NICTOP_SUBJECT"] == told.subject
        assert line["variables"]["NICTOP_HOST"] == "vm1"


async def test_a_new_inventory_is_judged_at_once(
    source: EndingSource, script: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not after the pause between two diagnoses, nor after two of these: the second diagnosis
    follows soon if it decides something."""
    monkeypatch.setattr(check_follow, "MAX_PAUSE_SECONDS", 10 * TEST_TIMEOUT)
    written = tmp_path / "written"
    command = shlex.join([sys.executable, str(script), str(written)])
    assert await follow(source, options_of(command), lambda: bool(lines_in(written))) == 0


async def test_the_end_is_not_lost_when_a_new_inventory_is_received_with_it(
    source: EndingSource, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before Python 3.12 asyncio.wait_for loses such a cancellation: Ctrl-C would end nothing."""
    monkeypatch.setattr(check_follow, "MIN_PAUSE_SECONDS", 0.0)
    monkeypatch.setattr(check_follow, "MAX_PAUSE_SECONDS", TEST_TIMEOUT)
    follower = check_follow._Follower(options_of("true"), ["true"])
    waiting = asyncio.ensure_future(follower._wait_for_next())
    for _ in range(5):
        await asyncio.sleep(0)
    follower._is_renewed.set()
    await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting


async def test_and_is_told_when_they_go(source: EndingSource, script: Path, tmp_path: Path) -> None:
    written = tmp_path / "written"
    command = shlex.join([sys.executable, str(script), str(written)])
    gone = {one.rule for one in diagnose([host_facts(host_of(**DOWN))]).findings}
    gone -= {one.rule for one in diagnose([host_facts(host_of())]).findings}
    assert gone

    def is_told() -> bool:
        events = [line["variables"] for line in lines_in(written)]
        appeared = {one["NICTOP_RULE"] for one in events if one["NICTOP_EVENT"] == "appeared"}
        if gone <= appeared and source.is_drained:
            source.send(*probe_lines(host_of())[1:])
        return gone <= {one["NICTOP_RULE"] for one in events if one["NICTOP_EVENT"] == "gone"}

    assert await follow(source, options_of(command), is_told) == 0


async def test_the_end_waits_for_that_of_the_command(
    source: EndingSource, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, ended = tmp_path / "begun", False
    end = check_follow._end

    async def end_late(process: asyncio.subprocess.Process) -> None:
        nonlocal ended
        for _ in range(10):  # in later turns of the event loop
            await asyncio.sleep(0)
        await end(process)
        ended = True

    monkeypatch.setattr(check_follow, "_end", end_late)
    command = f"sh -c 'touch {begun}; exec sleep 600'"
    assert await follow(source, options_of(command), begun.exists) == 0
    assert ended


async def test_a_command_that_hangs_is_ended_with_its_children(
    source: EndingSource,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(check_follow, "COMMAND_SECONDS", 0.5)
    pids = tmp_path / "pids"
    command = f"sh -c 'sleep 600 & echo $$ $! >> {pids}; wait'"
    told: list[str] = []
    monkeypatch.setattr(output, "print_status", told.append)

    def is_ended() -> bool:
        return any("ended: it took more than 0.5 s" in text for text in told)

    assert await follow(source, options_of(command), is_ended) == 0
    found = [int(word) for word in pids.read_text().split()]
    await asyncio.wait_for(_until(lambda: not any(map(is_alive, found))), TEST_TIMEOUT)
    assert len(found) >= 2


async def test_what_a_command_leaves_in_the_background_is_ended(
    source: EndingSource, tmp_path: Path
) -> None:
    pids = tmp_path / "pids"
    command = f"sh -c 'sleep 600 & echo $! >> {pids}'"

    def found() -> list[int]:
        return [int(word) for word in pids.read_text().split()] if pids.exists() else []

    def is_ended() -> bool:
        return bool(found()) and not any(map(is_alive, found()))

    assert await follow(source, options_of(command), is_ended) == 0


async def test_a_command_that_is_not_there_is_told(
    source: EndingSource, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[str] = []
    monkeypatch.setattr(output, "print_status", told.append)

    def is_told() -> bool:
        return "/nowhere/command: No such file or directory" in told

    assert await follow(source, options_of("/nowhere/command"), is_told) == 0


async def test_hosts_that_fail_for_ever_end_it(source: EndingSource) -> None:
    follower = check_follow._Follower(options_of("true"), ["true"])
    running = asyncio.ensure_future(follower.run())
    source.send(SourceState("failed", "Host key verification failed"))
    await asyncio.wait_for(_until(lambda: source.is_drained), TEST_TIMEOUT)
    await source.close()  # as a source that has failed does by itself
    assert await asyncio.wait_for(running, TEST_TIMEOUT) == HostUnreachable.exit_code


@pytest.mark.parametrize("text", KINDS.values(), ids=KINDS)
def test_texts_of_a_host_are_only_text(text: str) -> None:
    change = FindingChange("appeared", finding(host=text, subject=text, title=text))
    for value in (*variables_of(change).values(), finding_change_text(change)):
        assert value.isprintable() and "\0" not in value
    assert all(len(value.encode()) <= 4096 for value in variables_of(change).values())


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["--exec", "sh -c 'echo"], "No closing quotation"),
        (["--exec", "  "], "needs a command"),
        (["--exec", "true", "x.nictop", "--at", "+1"], "watches live hosts, not a recording"),
        (["--exec", "true", "./x.nictop"], "No such file or directory"),
    ],
)
def test_what_cannot_be_watched(
    arguments: list[str],
    why: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["check", *arguments]) == NictopError("").exit_code
    assert why in capsys.readouterr().err
