"""A command of the user on a host over SSH: the code for it is sent if it was asked for, and nothing
of the command is left when its connection ends, in whatever way."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import uuid
from collections.abc import Iterator
from contextlib import aclosing
from dataclasses import replace
from pathlib import Path

import pytest

from nictop.probe.records import Line, Request, TrafficRequest, WorkloadReport
from nictop.wire.source import SourceState
from nictop.wire.ssh.source import SshSource
from tests.cli.test_workload_endings import LASTING, lasting, lasting_command, with_mark
from tests.support.items import has_record, items_until
from tests.support.probe import wait_until
from tests.support.sshd import Sshd, skip_without_sshd

QUICK = (0.01, 0.05)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sshd]:
    skip_without_sshd()
    made = Sshd(tmp_path_factory.mktemp("sshd"))
    made.set_python(sys.executable)
    yield made
    made.stop()


def source(server: Sshd) -> SshSource:
    return SshSource(replace(server.target(), allow_workload=True), 0.1, retry=QUICK)


def report(item: Line | SourceState) -> WorkloadReport | None:
    return item.traffic.work if isinstance(item, Line) and item.traffic is not None else None


def work(command: str) -> Request:
    return Request(traffic=TrafficRequest("run-c", "work", workload=command, deadline=60.0))


async def test_command_over_ssh(server: Sshd) -> None:
    async with aclosing((made := source(server)).items()) as items:
        await items_until(items, has_record("counters"))
        await made.request(work("echo over ssh; test -t 0 || exit 4"))
        async for item in items:
            found = report(item)
            if found is not None and found.state == "ended":
                break
        assert found is not None and (found.stdout, found.status) == ("over ssh\n", 4)
        await made.close()


@pytest.mark.parametrize("victim", ["session", "probe", "source"])
async def test_nothing_is_left_when_the_connection_ends(server: Sshd, victim: str) -> None:
    mark = uuid.uuid4().hex
    children = "(setsid sleep 1000 &); (trap '' TERM; exec sleep 1001) & sleep 1002"
    async with aclosing((made := source(server)).items()) as items:
        await items_until(items, has_record("counters"))
        await made.request(work(f"export MARK_OF_TEST={mark}; {children}"))
        async for item in items:
            if report(item) is not None:
                break
        await asyncio.to_thread(wait_until, lambda: len(with_mark(mark)) >= 3)
        if victim == "session":
            os.kill(server.sessions()[0], signal.SIGKILL)
        elif victim == "probe":
            os.kill(server.probes()[0], signal.SIGKILL)
        else:
            await made.close()
        await asyncio.to_thread(wait_until, lambda: not with_mark(mark))
        await made.close()


@pytest.mark.parametrize("name", LASTING)
async def test_nothing_is_left_of_any_command_when_the_connection_is_cut(
    server: Sshd, name: str
) -> None:
    command, word, number = lasting_command(name)
    async with aclosing((made := source(server)).items()) as items:
        await items_until(items, has_record("counters"))
        await made.request(work(command))
        await asyncio.to_thread(wait_until, lambda: len(lasting(word)) >= number)
        os.kill(server.sessions()[0], signal.SIGKILL)
        await asyncio.to_thread(wait_until, lambda: not lasting(word))
        await made.close()


async def test_probe_without_the_right_runs_nothing(server: Sshd, tmp_path: Path) -> None:
    made = SshSource(server.target(), 0.1, retry=QUICK)
    async with aclosing(made.items()) as items:
        await items_until(items, has_record("counters"))
        await made.request(work(f"touch {tmp_path}/made"))
        async for item in items:
            if isinstance(item, Line) and item.traffic is not None:
                break
        assert isinstance(item, Line) and item.traffic is not None
        assert item.traffic.kind == "failed" and "--allow-workload" in item.traffic.text
        await made.close()
    assert not (tmp_path / "made").exists()
