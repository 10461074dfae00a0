"""Results of real tests that are kept with the tests, for pictures: nobody has written their
figures.

lab.tar.gz: between two guests, emulated without acceleration: the figures are those of the machine
below them. recipes.tar.gz: the recipes of docs/experiments.md between the same guests, of which
igb is the passed-through NIC, a block device of one is read by the other over NBD, and 1000 files
are copied by rsync to a daemon (without the path of the ssh_config in the set-up command).
self-test.tar.gz: ``nictop traffic --self-test`` between two network namespaces, with
``--test rr --time 20`` (self-test-rr); with ``--test loaded`` and a qdisc on the client, ``tbf rate
100mbit burst 32k limit 600k`` (self-test-loaded); with ``--mss 1300`` and MTU 1400 on the server
(self-test-mtu).
"""

from __future__ import annotations

import asyncio
import tarfile
from functools import cache
from pathlib import Path

from nictop.recording.reader import Recording
from nictop.replay.results import recorded_results
from nictop.traffic.results.selection import StoredRun
from nictop.traffic.results.store import parse_run
from tests.cli.commands.test_demo import DEMO

ARCHIVES = Path(__file__).parent.parent / "data" / "runs"


@cache
def kept_runs(archive: str) -> dict[str, list[StoredRun]]:
    """Label → the runs of its experiment, in order."""
    found: dict[str, list[StoredRun]] = {}
    with tarfile.open(ARCHIVES / f"{archive}.tar.gz") as members:
        for member in members.getmembers():
            data = members.extractfile(member)
            assert data is not None
            run = parse_run(data.read())
            found.setdefault(run.label, []).append(run)
    return {label: sorted(runs, key=lambda one: one.number) for label, runs in found.items()}


@cache
def demo_runs() -> tuple[StoredRun, ...]:
    """Those of the recording of the demo: between two guests."""
    with Recording.open(DEMO) as recording:
        return asyncio.run(recorded_results(recording, recording.end)).runs
