"""An iperf3 that is none: whatever a program of that name does, the run ends soon, says so, and leaves nothing."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from nictop.traffic.events import Limits
from tests.support.probe import wait_until
from tests.support.traffic import MARK, marked
from tests.traffic.pair import pair, why_not
from tests.traffic.real_runs import carried_out

REASON = why_not()
pytestmark = pytest.mark.skipif(REASON is not None, reason=REASON or "")

QUICK = Limits(check=30.0, listen=1.0, first_byte=1.0, stall=0.5, grace=1.0, stop=3.0)
PATIENT = replace(QUICK, listen=20.0, first_byte=20.0)
"""Where it is not by waiting that it is found out: on a busy machine that may take a while."""
VERSION = "case \"$*\" in *--version*) echo 'iperf 3.12 (cJSON 1.7.15)'; exit 0;; *--help*) exit 0;; esac\n"
LISTENS = """exec python3 -c '
import socket, sys, time
listener = socket.socket()
listener.bind(("", int(sys.argv[sys.argv.index("-p") + 1])))
listener.listen()
while True:
    {}
    time.sleep(0.01)
' "$@"
"""
GARBAGE = 'print("[  5]   0.00-inf  sec  nan GBytes  -1 Kbits/sec " + chr(27) * 99, flush=True)'

STRANGE = {
    "exits at once": ("exit 0\n", "server", "other"),
    "fails without a word": ("exit 3\n", "server", "other"),
    "fails with one": ("echo 'iperf3: error - the disk is green' >&2; exit 1\n", "server", "other"),
    "kills itself": ("kill -9 $$\n", "server", "other"),
    "hangs and never listens": ("exec sleep 600\n", "server", "start"),
    "is deaf to SIGTERM": ("trap '' TERM\nwhile :; do sleep 600; done\n", "server", "start"),
    "floods with bytes": ("exec tr -c '\\n' '\\377' < /dev/urandom\n", "server", "other"),
    "floods with lines": ("exec yes\n", "server", "other"),
    "listens and says nothing": (LISTENS.format("pass"), "server", "start"),
    "listens and prints garbage": (LISTENS.format(GARBAGE), "server", "start"),
    "exits at once as a client": ("exit 0\n", "client", "other"),
    "hangs as a client": ("exec sleep 600\n", "client", "start"),
    "prints words that are no result": ("echo hello; echo '{\"event\": 1}'; exit 0\n", "client", "other"),
}


@pytest.fixture
def mark(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> str:
    """In the environment of all processes that the test causes."""
    monkeypatch.setenv(MARK, str(id(request)))
    return str(id(request))


async def test_whatever_a_program_of_that_name_does(mark: str, tmp_path: Path) -> None:
    """All of them at the same time, each on two hosts of its own."""

    async def survived(name: str, script: str, side: str, kind: str) -> None:
        folder = tmp_path / name.replace(" ", "-")
        folder.mkdir()
        program = folder / "iperf3"
        program.write_text("#!/bin/sh\n" + VERSION + script)
        program.chmod(0o755)
        tools = (str(folder), "") if side == "client" else ("", str(folder))
        async with pair("100mbit", tools=tools) as both:
            result, _ = await carried_out(both, limits=QUICK if kind == "start" else PATIENT)
            assert result.failure is not None and result.failure.kind == kind, (name, result.failure)
            assert result.failure.sentence.isprintable(), name
            assert [host.snapshot.state for host in both.hosts.values()] == ["live", "live"], name

    await asyncio.gather(*(survived(name, *strange) for name, strange in STRANGE.items()))
    await asyncio.to_thread(wait_until, lambda: not marked(mark))
