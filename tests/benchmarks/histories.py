"""CPU time per reading of the history of a host."""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator

from nictop.model.history import History
from tests.benchmarks.results import Result
from tests.model.hosts import HELLO, snapshot_of
from tests.model.test_history import reading


def history_of_many_links(quick: bool) -> Iterator[Result]:
    history = History(600)
    links = range(1, 201)
    spent = []
    for second in range(1, 40 if quick else 400):
        snapshot = snapshot_of(HELLO, reading(second, *links), reading(second + 1, *links))
        begin = time.thread_time()
        history.record(snapshot)
        spent.append(time.thread_time() - begin)
    yield Result("history: a reading of 200 links", statistics.median(spent) * 1e3, 1.0, "ms CPU")
