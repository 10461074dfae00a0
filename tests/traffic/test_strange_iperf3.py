"""A program named iperf3 that is not iperf3: the run ends soon, reports a failure, and leaves no
process."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest
import pytest_asyncio

from nictop.traffic.run.events import RunTimeouts
from tests.support.probe import wait_until
from tests.support.traffic import MARK, marked_processes
from tests.traffic.pair import Pair, missing_requirement, pair
from tests.traffic.real_runs import complete_run

REASON = missing_requirement()
pytestmark = [
    pytest.mark.skipif(REASON is not None, reason=REASON or ""),
    pytest.mark.asyncio(loop_scope="module"),
]

LONG_TIMEOUTS = RunTimeouts(
    check=30.0, listen=30.0, first_byte=30.0, stall=0.5, grace=30.0, stop=3.0
)
"""For failures that are detected without a time limits sentence."""
ENDINGS = {
    "reported": (LONG_TIMEOUTS, ("other", "died"), ""),
    # a machine busy with other work may read it so slowly that it stays within the limit of the
    # probe
    "flood": (replace(LONG_TIMEOUTS, listen=10.0), ("other", "start"), ""),
    "listen": (replace(LONG_TIMEOUTS, listen=1.0), ("start",), "server not listening after 1 s"),
    "first byte": (
        replace(LONG_TIMEOUTS, first_byte=1.0),
        ("start",),
        "no data received between a and b",
    ),
}
"""What ends the run (the program, or one time limit) → time limits, kinds of the failure, part of
its sentence."""
VERSION = (
    "case \"$*\" in *--version*) echo 'iperf 3.12 (cJSON 1.7.15)'; exit 0;; *--help*) exit "
    "0;; esac\n"
)
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

SCRIPTS = {
    "exits at once": ("exit 0\n", "server", "reported"),
    "fails without a message": ("exit 3\n", "server", "reported"),
    "fails with a message": (
        "echo 'iperf3: error - the disk is green' >&2; exit 1\n",
        "server",
        "reported",
    ),
    "kills itself": ("kill -9 $$\n", "server", "reported"),
    "hangs and never listens": ("exec sleep 600\n", "server", "listen"),
    "ignores SIGTERM": ("trap '' TERM\nwhile :; do sleep 600; done\n", "server", "listen"),
    "floods with bytes": ("exec tr -c '\\n' '\\377' < /dev/urandom\n", "server", "flood"),
    "floods with lines": ("exec yes\n", "server", "flood"),
    "listens and prints nothing": (LISTENS.format("pass"), "server", "first byte"),
    "listens and prints garbage": (LISTENS.format(GARBAGE), "server", "first byte"),
    "exits at once as a client": ("exit 0\n", "client", "reported"),
    "hangs as a client": ("exec sleep 600\n", "client", "first byte"),
    "prints no result": ("echo hello; echo '{\"event\": 1}'; exit 0\n", "client", "reported"),
}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def hosts(
    tmp_path_factory: pytest.TempPathFactory,
) -> AsyncIterator[tuple[Pair, dict[str, Path], str]]:
    """Two hosts, the directory that is first in the PATH of each, and the mark of all processes
    that they start."""
    folders = {side: tmp_path_factory.mktemp(side) for side in ("client", "server")}
    mark = uuid.uuid4().hex
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv(MARK, mark)
        async with pair("100mbit", tools=(str(folders["client"]), str(folders["server"]))) as both:
            yield both, folders, mark


@pytest.mark.parametrize("name", SCRIPTS)
async def test_program_that_is_not_iperf3(
    hosts: tuple[Pair, dict[str, Path], str], name: str
) -> None:
    both, folders, mark = hosts
    script, side, ending = SCRIPTS[name]
    limits, kinds, text = ENDINGS[ending]
    program = folders[side] / "iperf3"
    before = marked_processes(mark)
    program.write_text("#!/bin/sh\n" + VERSION + script)
    program.chmod(0o755)
    try:
        result, _ = await complete_run(both, limits=limits)
    finally:
        program.unlink()
    assert result.failure is not None and result.failure.kind in kinds, result.failure
    assert text in result.failure.sentence and result.failure.sentence.isprintable(), result.failure
    assert [host.snapshot.state for host in both.hosts.values()] == ["live", "live"]
    await asyncio.to_thread(wait_until, lambda: set(marked_processes(mark)) <= set(before))
