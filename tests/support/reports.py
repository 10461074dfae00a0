"""Data for reports: captured hosts, runs with intervals, and records in which every text is
hostile."""

from __future__ import annotations

import dataclasses
import math
import typing
from dataclasses import replace
from typing import Any, Literal, TypeVar

from nictop.hosts.observe import Unreachable
from nictop.model.snapshot import Snapshot, advance, with_state
from nictop.model.window import RatesWindow
from nictop.report.page import Report, report_of
from nictop.rules import Diagnosis, Evidence, Skipped
from nictop.rules.fixes.commands import stored_line
from nictop.traffic.generators.intervals import Interval
from nictop.traffic.generators.latency import LatencySummary
from nictop.traffic.path.store import StoredPath
from nictop.traffic.plan.validation import ExperimentKind
from nictop.traffic.results.result import IntervalPoint, Result
from nictop.traffic.results.selection import StoredRun
from nictop.traffic.results.transactions import TransactionPoint
from tests.support.captured import captured_lines
from tests.support.findings import RENAME, finding
from tests.support.hostile import HTML_PAGE as HOSTILE
from tests.traffic.analysis.test_transactions import floor, rr
from tests.traffic.runs import BLACK_HOLE, BUSY, flow, load, path_test, result

T = TypeVar("T")

CAPTURED_GUESTS = ("wired-connection-1", "igb-vfs-vmxnet3-virtio", "virtio-4-queues")
WALL = 1_790_000_000.0


def captured_guest(name: str, host: str) -> tuple[Snapshot, RatesWindow]:
    """Last snapshot and rates of a captured guest, under the name `host`."""
    snapshot, window = with_state(Snapshot.empty(host), "live", ""), RatesWindow()
    for line in captured_lines(name):
        snapshot = advance(snapshot, line)
        window.add(snapshot)
    return snapshot, window


def full_result(gigabits: float, seconds: int = 4) -> Result:
    """A run from a to b with intervals of half a second, two of them omitted, and a CPU time
    series."""
    points = tuple(
        IntervalPoint(
            number / 2 + 0.5,
            Interval(
                number / 2, number / 2 + 0.5, gigabits * 1e9 * (1 + math.sin(number) / 10), False
            ),
        )
        for number in range(-2, seconds * 2)
    )
    series = tuple(replace(BUSY, time=float(second), hottest_busy=0.5) for second in range(seconds))
    return result(
        gigabits,
        flows=(flow(gigabits, points=points),),
        hosts=(load("a", series=series), load("b", "server", series=series)),
        bottleneck="held back by the receiver: CPU 2 of b is 98 % busy",
    )


def latency_result() -> Result:
    """A test of requests and responses with a few intervals, and one slow transaction."""
    each = LatencySummary(9000, 7e-5, 8e-5, 8e-5, 9e-5, 1.6e-4, None, 2e-4)
    points = tuple(
        TransactionPoint(
            float(second), 1.0, 0, each if second != 3 else replace(each, maximum=8e-3)
        )
        for second in range(1, 11)
    )
    return rr(points=points, floors=(floor(20),), ended_early="connection tracking table 80 % full")


def stored_run(
    number: int, experiment: str, of: Result, kind: ExperimentKind = "run", **more: str
) -> StoredRun:
    return StoredRun(
        f"{experiment}-{number}",
        experiment,
        of,
        WALL,
        "0",
        kind,
        number=number,
        **more,  # type: ignore[arg-type]
    )


def experiments() -> list[StoredRun]:
    """One run, a sweep with four runs, a comparison of three and three."""
    runs = [stored_run(1, "one", full_result(5.0))]
    for number, (value, gigabits) in enumerate(
        (("512", 0.4), ("4K", 2.1), ("4K", 2.4), ("128K", 8.8)), 1
    ):
        runs.append(
            stored_run(
                number, "sweep", full_result(gigabits), "sweep", variable="length", value=value
            )
        )
    for number, (group, gigabits) in enumerate(
        zip("ABBAAB", (4.0, 6.0, 6.3, 4.2, 4.1, 6.2), strict=True), 1
    ):
        queues = "1" if group == "A" else "4"
        more = {"variable": "queues", "value": queues, "group": group}
        runs.append(stored_run(number, "pair", full_result(gigabits), "compare", **more))
    return runs


def rich_report() -> Report:
    """Two captured guests, an unreachable host, and every kind of experiment."""
    answers = [
        captured_guest(name, f"guest-{number}")
        for number, name in enumerate(CAPTURED_GUESTS[:2], 1)
    ]
    return report_of(
        [*answers, Unreachable("vm3", "203.0.113.7 port 22: connection timed out")],
        experiments(),
        [StoredPath("3fa2", path_test(BLACK_HOLE), WALL, "0", label="before the change")],
        wall=WALL,
    )


def hostile_report() -> Report:
    """A report in which every text of hosts and runs that is not from a fixed set of words is
    hostile."""
    snapshot, window = captured_guest(CAPTURED_GUESTS[0], "guest")
    runs = [
        hostile(one) for one in (*experiments()[:1], stored_run(1, "latency", latency_result()))
    ]
    fix = replace(
        RENAME,
        title=HOSTILE,
        commands=(stored_line(HOSTILE),) * 2,
        undo=(stored_line(HOSTILE),),
        note=HOSTILE,
    )
    found = finding(
        rule=HOSTILE, host=HOSTILE, subject=HOSTILE, title=HOSTILE, why=HOSTILE,
        evidence=(Evidence(*[HOSTILE] * 3),), fixes=(fix,),
    )  # fmt: skip
    paths = [hostile(StoredPath("3fa2", path_test(BLACK_HOLE), WALL, "0"))]
    made = report_of(
        [(hostile(snapshot), window), Unreachable(HOSTILE, HOSTILE)], runs, paths, wall=WALL
    )
    return replace(
        made,
        diagnosis=Diagnosis((found,), (Skipped(HOSTILE, HOSTILE, HOSTILE, HOSTILE),)),
        hidden=(HOSTILE,),
    )


def hostile(value: T, text: str = HOSTILE) -> T:
    """`value` with `text` in every field that can contain any text."""
    return _hostile(value, type(value), text)  # type: ignore[no-any-return]


def _hostile(value: Any, kind: Any, text: str) -> Any:
    if isinstance(value, str):
        return value if _is_word(kind) else text
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        hints = typing.get_type_hints(type(value), localns=_names(type(value)))
        names = [one.name for one in dataclasses.fields(value)]
        return replace(
            value, **{name: _hostile(getattr(value, name), hints[name], text) for name in names}
        )
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*(_hostile(one, type(one), text) for one in value))
    if isinstance(value, (tuple, list)):
        return type(value)(_hostile(one, kind, text) for one in value)
    if isinstance(value, dict):
        return {key: _hostile(one, kind, text) for key, one in value.items()}
    return value


def _is_word(kind: Any) -> bool:
    """Whether the annotation allows only a fixed set of words."""
    return typing.get_origin(kind) is Literal or any(map(_is_word, typing.get_args(kind)))


def _names(kind: type) -> dict[str, Any]:
    """Names in the annotations that the module imports only for the type checker."""
    return {"LinkConfiguration": object} if kind is Snapshot else {}
