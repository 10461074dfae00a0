"""Every kind of run with every ending says the same live, saved, replayed and reported."""

from __future__ import annotations

import asyncio
import html
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path

import pytest

from nictop.model.text.terminal import wrap
from nictop.probe.records import (
    Line,
    Request,
    StorageActivity,
    TrafficLine,
    TrafficRequest,
    WorkloadReport,
)
from nictop.recording.file.run_note import RunNote
from nictop.recording.reader import Recording
from nictop.recording.recent import RecentSegments, open_recent
from nictop.recording.writer import Recorder
from nictop.replay.results import RecordedResults, RecordedTest, recorded_results
from nictop.replay.run import NOT_RECORDED, STILL_RUNNING, RecordedRun
from nictop.replay.run_index import GENERATOR_ID, RunMarks, run_marks
from nictop.report.html.page import html_page
from nictop.report.markdown import markdown_page
from nictop.report.page import report_of
from nictop.report.redaction.redaction import redact
from nictop.report.runs.sentences import endpoints_text, plan_text, result_sentences
from nictop.traffic.experiment.events import ExperimentEnded, StepEnded, StepStarted
from nictop.traffic.experiment.steps import ExperimentStep
from nictop.traffic.failures import Failure
from nictop.traffic.generators import Side, generator_arguments
from nictop.traffic.live.run_view import RunView
from nictop.traffic.plan.plan import Endpoint, RunPlan
from nictop.traffic.plan.plan_problems import plan_problems
from nictop.traffic.results.path_proof import PathProof
from nictop.traffic.results.result import ForeignEnd, Result
from nictop.traffic.results.selection import StoredRun
from nictop.traffic.results.store import WithoutResult, encode_run, parse_run
from nictop.traffic.results.workload import (
    BytesByOwner,
    CommandFigure,
    GuestFigures,
    NicTraffic,
    TrafficPeer,
    WorkloadFigures,
)
from nictop.traffic.run.events import RunFinished, Stage
from nictop.traffic.run.one_host import MEASURING
from nictop.traffic.run_notes import RunNotes
from nictop.traffic.session import SessionEvent
from tests.support.recordings import TimedItem, host_items, write_recording
from tests.traffic.analysis.test_loaded import loaded
from tests.traffic.analysis.test_transactions import latencies
from tests.traffic.plans import PLAN, tools
from tests.traffic.runs import BLACK_HOLE, flow, path_test, result

BEGIN = 1010.0000004
"""It is rounded to microseconds in the file."""
STAGE_TIME, END_TIME = BEGIN + 1, BEGIN + 6
IDENTITY = "0123456789ab-1"
STAGE = "checking iperf3 on both hosts, and the path between them"
FAILURE = Failure(
    "refused", "connection refused by b at 192.0.2.2 port 5201", ("nft list ruleset",), "b"
)
OTHER_PATH = PathProof("failed", "a: ens4 carried only 12 kB; ens3 (other) carried 1.2 GB")
FIGURES = replace(loaded().transactions, idle=None, loaded_since=None)  # type: ignore[type-var]

PLANS: dict[str, RunPlan] = {
    "bulk": PLAN,
    "reverse, 4 streams": replace(PLAN, direction="reverse", streams=4),
    "both directions": replace(PLAN, direction="bidirectional", port=5301),
    "udp": replace(PLAN, protocol="udp", bitrate=1_000_000),
    "rr": replace(PLAN, test="rr", generator="builtin", streams=2),
    "crr": replace(PLAN, test="crr", generator="builtin", files=100),
    "loaded": replace(PLAN, test="loaded", time=10, direction="reverse", streams=4),
    "workload": replace(
        RunPlan(PLAN.client, PLAN.client), test="workload", workload="fio job.fio", time=60
    ),
    "manual": RunPlan(PLAN.client, PLAN.client, test="manual", time=60),
    "guest": RunPlan(PLAN.client, PLAN.client, test="manual", time=60, guest="win10"),
    "foreign client": replace(
        PLAN, client=Endpoint("192.0.2.50", None, "192.0.2.50"), foreign=True, foreign_client=True
    ),
}
STORAGE = StorageActivity(
    "nbd0", "block", 4.5, 1000, 10, 4_096_000, 40_960, 0.31, 0.02, 0.6, 0.0012, None
)
WORK = WorkloadFigures(
    seconds=4.5,
    reason="itself",
    user="alice",
    status=0,
    stdout=("running on a", "done"),
    stdout_bytes=18,
    figure=CommandFigure("read bandwidth", 8e8, "b/s", "fio JSON"),
    nics=(
        NicTraffic("ens4", 3, 1200, 450_000_000, 20, 300_000, 4.6),
        NicTraffic("ens3", 2, 60, None, 1, None, 4.6),
    ),
    chosen_ifindex=3,
    owners=BytesByOwner(
        400_000_000, 1_000_000, 2_000_000, (TrafficPeer("192.0.2.2 port 2049", 400_000_000, 0),),
        (TrafficPeer("sshd", 1_000_000, 0),), (TrafficPeer("192.0.2.9 port 22", 0, 2_000_000),), 7,
    ),
    user_seconds=1.5,
    system_seconds=2.0,
    processes=3,
)  # fmt: skip


def flows_of(plan: RunPlan) -> tuple[object, ...]:
    ends = {"client": ("a", "b"), "server": ("b", "a")}
    return tuple(
        replace(flow(0.5), sender=ends[side][0], receiver=ends[side][1]) for side in plan.sending
    )


def completed(plan: RunPlan) -> Result:
    """Of a run that ended normally, on the verified path."""
    made = loaded() if plan.test == "loaded" else result(plan=plan)
    figures = made.transactions if plan.test == "loaded" else FIGURES if plan.has_requests else None
    if plan.test == "crr" and figures is not None:
        figures = replace(figures, connect=latencies(90.0, 100))
    if plan.is_of_one_host:
        work = WORK
        work = replace(work, storage=(STORAGE,))
        if plan.test == "manual":
            work = WorkloadFigures(4.5, "hand", nics=WORK.nics, chosen_ifindex=3)
        if plan.guest:
            work = replace(work, guest=GuestFigures(plan.guest, 1.1, 0.8, 0.2, 0.1))
        flows = tuple(
            replace(flow(0.8), sender=ends[0], receiver=ends[1])
            for ends in (("a", "network"), ("network", "a"))
        )
        return Result(plan, made.wall, flows, made.hosts[:1], schema=3, workload=work)
    if plan.foreign:
        foreign = ForeignEnd(plan.client.address, None, "client", ("2 streams, not 1",))
        made = replace(made, hosts=made.hosts[1:], foreign=foreign)
    return replace(
        made,
        plan=plan,
        flows=flows_of(plan),  # type: ignore[arg-type]
        transactions=figures,
        schema=2 if plan.has_requests else 1,
    )


ENDINGS: dict[str, Callable[[Result], Result]] = {
    "completed": lambda one: replace(one, bottleneck="sender's CPU 2 on a"),
    "another path": lambda one: replace(one, proof=OTHER_PATH),
    "path unknown": lambda one: replace(one, proof=None),
    "failed with nothing": lambda one: Result(one.plan, one.wall, failure=FAILURE),
    "failed in between": lambda one: replace(
        one, failure=FAILURE, proof=PathProof("unknown", "the test failed while data was in flight")
    ),
    "stopped": lambda one: replace(one, stopped=1.2, notes=("stopped after 1.2 of 2 s",)),
    "path test": lambda one: replace(one, path_test=path_test(BLACK_HOLE)),
    "NIC gone": lambda one: replace(one, event="ens4 of a was removed at 1.2 s", failure=FAILURE),
}


@dataclass(frozen=True)
class Case:
    """A run and how it ended."""

    plan: RunPlan
    stored: StoredRun

    @property
    def sentences(self) -> list[str]:
        return [text for _, text in result_sentences(self.stored.result)]


def case_of(kind: str, ending: str) -> Case:
    plan = PLANS[kind]
    assert not plan_problems(plan)
    found = ENDINGS[ending](completed(plan))
    stored = StoredRun(
        IDENTITY,
        "0123456789ab",
        found,
        found.wall + 9,
        "0",
        label="night",
        variable="mtu",
        value="9000",
    )
    return Case(plan, stored)


CASES = {f"{kind}: {ending}": (kind, ending) for kind, ending in product(PLANS, ENDINGS)}


def events_of(case: Case, end: bool = True) -> Iterator[tuple[float, SessionEvent]]:
    """As the experiment of one step yields them, with their times."""
    yield BEGIN, StepStarted(1, 1, ExperimentStep(case.plan, ""), 10.0, IDENTITY)
    yield STAGE_TIME, Stage("checking", STAGE)
    yield END_TIME - 0.5, RunFinished(case.stored.result)
    if end:
        yield END_TIME, StepEnded(1, case.stored)
        yield END_TIME + 0.1, ExperimentEnded((case.stored,))


def recorded(
    path: Path,
    events: Sequence[tuple[float, SessionEvent]],
    reason: str = "",
    more: Sequence[TimedItem] = (),
) -> str:
    """A recording of two hosts and of what was noted at these events."""
    notes = RunNotes()
    items: list[TimedItem] = [*host_items("a", 20), *host_items("b", 20), *more]
    for time, event in events:
        items += [(host, note, time) for host, note in notes.notes_of(event)]
    items += [(host, note, END_TIME + 0.2) for host, note in notes.end(reason)]
    write_recording(path, sorted(items, key=lambda item: item[2]))
    return str(path)


def view_at(recording: Recording, time: float) -> tuple[RecordedRun, RunView | None]:
    (marks,) = run_marks(recording)
    run = RecordedRun(recording, marks)
    asyncio.run(run.advance(time))
    return run, run.view()


@pytest.mark.parametrize("name", CASES)
def test_it_says_the_same_everywhere(name: str, tmp_path: Path) -> None:
    case = case_of(*CASES[name])
    saved = parse_run(encode_run(case.stored))
    assert saved == case.stored
    with Recording.open(recorded(tmp_path / "r.nictop", list(events_of(case)))) as recording:
        noted_at = case.plan.watched_ends[0].host, case.plan.watched_ends[-1].host
        assert run_marks(recording) == (
            RunMarks(IDENTITY, BEGIN, END_TIME, *noted_at, is_noted=True),
        )
        _, before = view_at(recording, BEGIN - 1)
        assert before is None
        _, at_begin = view_at(recording, BEGIN)
        assert at_begin is not None and at_begin.plan == case.plan
        # while it runs: ends, direction, streams and what it does, and nothing of its result
        _, during = view_at(recording, END_TIME - 1)
        assert (
            during is not None
            and during.plan == case.plan
            and during.result is None
            and during.stage == STAGE
        )
        run, after = view_at(recording, recording.end)
        assert (
            after is not None
            and after.result == saved.result
            and run.stored == saved
            and not run.problem
        )
        found = asyncio.run(recorded_results(recording, recording.end))
    assert found == RecordedResults((RecordedTest(END_TIME, saved),))
    assert found.until(END_TIME - 0.1) == RecordedResults()
    for page in (html_page, markdown_page):
        assert page(report_of((), found.runs, wall=0.0)) == page(
            report_of((), (case.stored,), wall=0.0)
        )
    text = html.unescape(html_page(report_of((), found.runs, wall=0.0)))
    for sentence in (
        *case.sentences,
        endpoints_text(saved.result),
        plan_text(case.plan, saved.result.transactions),
    ):
        assert all(part in text for part in wrap(sentence, 60)) or sentence in text, sentence


@pytest.mark.parametrize("name", CASES)
def test_redaction_changes_names_only(name: str, tmp_path: Path) -> None:
    """Verdict, failure, direction, streams and figures stay."""
    case = case_of(*CASES[name])
    one = replace(case.stored.result.plan.client, host="web-one")
    two = replace(case.stored.result.plan.server, host="db-two")
    plan = replace(case.plan, client=one, server=two)
    named = replace(case.stored, result=replace(case.stored.result, plan=plan))
    _, (hidden,), _, _, _ = redact((), (named,))
    before, after = named.result, hidden.result
    assert {after.plan.client.host, after.plan.server.host}.isdisjoint({"web-one", "db-two"})
    assert (after.plan.direction, after.plan.streams, after.plan.test) == (
        plan.direction,
        plan.streams,
        plan.test,
    )
    assert (after.proof is None, after.failure is None, after.stopped) == (
        before.proof is None, before.failure is None, before.stopped,
    )  # fmt: skip
    assert (
        after.proof is None or before.proof is None or after.proof.verdict == before.proof.verdict
    )
    assert (
        after.failure is None or before.failure is None or after.failure.kind == before.failure.kind
    )
    assert (after.goodput, len(after.why_not_ranked)) == (
        before.goodput,
        len(before.why_not_ranked),
    )
    assert [kind for kind, _ in result_sentences(after) if kind != "output"] == [
        kind for kind, _ in result_sentences(before) if kind != "output"
    ]
    if after.workload is not None:
        assert (after.workload.stdout, after.workload.stderr) == ((), ())
        assert after.flows[0].receiver == "network"


@pytest.mark.parametrize(
    ("reason", "said"), [("stopped", "stopped"), ("", "ended without a result")]
)
def test_a_run_without_a_result_has_its_reason(reason: str, said: str, tmp_path: Path) -> None:
    case = case_of("bulk", "completed")
    path = recorded(tmp_path / "r.nictop", [*events_of(case, end=False)][:2], reason)
    with Recording.open(path) as recording:
        run, view = view_at(recording, recording.end)
        found = asyncio.run(recorded_results(recording, recording.end))
    assert run.problem == said and run.stored is None
    assert view is not None and view.result is not None and view.result.failure is not None
    assert view.result.failure.sentence == said
    assert (
        found.runs == ()
        and len(found.missing) == 1
        and found.missing[0].sentence.endswith(f": {said}")
    )


@pytest.mark.parametrize("kind", ["workload", "manual"])
def test_a_running_workload_is_replayed_with_the_rates_of_its_nic(
    kind: str, tmp_path: Path
) -> None:
    """From the begin that its host reported, or that the user chose."""
    case = case_of(kind, "completed")
    endpoint = replace(case.plan.client, ifindex=2)
    case = replace(case, plan=replace(case.plan, client=endpoint, server=endpoint))
    begin = 1012.85
    notes = RunNotes()
    items: list[TimedItem] = [*host_items("a", 20)]
    for time, event in [*events_of(case, end=False)][:1]:
        items += [(host, note, time) for host, note in notes.notes_of(event)]
    if kind == "manual":
        items += [(host, note, begin) for host, note in notes.notes_of(Stage("running", MEASURING))]
    else:
        report = WorkloadReport("began", 77, begin, "alice")
        line = TrafficLine(begin, f"{IDENTITY}-c", "work", work=report)
        items.append(("a", Line(traffic=line), begin))
    write_recording(tmp_path / "r.nictop", sorted(items, key=lambda item: item[2]))
    with Recording.open(str(tmp_path / "r.nictop")) as recording:
        _, before = view_at(recording, begin - 0.5)
        assert before is not None and before.flows[0].points == ()
        _, during = view_at(recording, begin + 3)
    assert during is not None and during.result is None
    assert during.seconds == pytest.approx(3.0, abs=0.01)
    sent, received = during.flows
    assert [point.time for point in sent.points if point.time > 0] == pytest.approx([1.0, 2.0, 3.0])
    assert received.points[-1].interval.bits_per_second == pytest.approx(
        7 * sent.points[-1].interval.bits_per_second
    )


def test_of_a_run_that_failed_before_it_was_saved_the_failure_is_the_reason(tmp_path: Path) -> None:
    case = case_of("bulk", "failed with nothing")
    path = recorded(tmp_path / "r.nictop", [*events_of(case, end=False)], "stopped")
    with Recording.open(path) as recording:
        found = asyncio.run(recorded_results(recording, recording.end))
    assert (
        found.missing[0].sentence.endswith(f": {FAILURE.sentence}") and found.missing[0].has_failed
    )


def items_without_result(case: Case) -> list[TimedItem]:
    """Both generators have ended, the result is not there yet."""
    started = [
        (END_TIME - 3 + number / 10, host, f"{IDENTITY}-{side}")
        for number, (host, side) in enumerate((("b", "s"), ("a", "c")))
    ]
    lines: list[TimedItem] = [
        (host, Line(traffic=TrafficLine(time, name, "started")), time)
        for time, host, name in started
    ]
    lines += [
        (host, Line(traffic=TrafficLine(time + 1, name, "exit", status=0)), time + 1)
        for time, host, name in started
    ]
    notes = RunNotes()
    items: list[TimedItem] = [*host_items("a", 20), *host_items("b", 20), *lines]
    for time, event in [*events_of(case, end=False)][:2]:
        items += [(host, note, time) for host, note in notes.notes_of(event)]
    return sorted(items, key=lambda item: item[2])


def test_a_recording_that_ends_before_the_result_does_not_make_one_up(tmp_path: Path) -> None:
    """Although both generators have ended, and the counters of the NICs have been read."""
    case = case_of("bulk", "completed")
    write_recording(tmp_path / "r.nictop", items_without_result(case))
    with Recording.open(str(tmp_path / "r.nictop")) as recording:
        run, view = view_at(recording, recording.end)
        found = asyncio.run(recorded_results(recording, recording.end))
    assert view is not None and view.plan == case.plan and view.result is None
    assert (
        run.problem == NOT_RECORDED
        and found.runs == ()
        and found.missing[0] == WithoutResult(found.missing[0].sentence)
    )
    assert NOT_RECORDED in found.missing[0].sentence


async def test_a_test_that_is_running_is_still_running_at_the_end_of_the_last_minutes() -> None:
    """They end with the moment at which they were opened; the hosts are watched on."""
    case, segments = case_of("bulk", "completed"), RecentSegments()
    recorder = Recorder(segments)
    for host, item, time in items_without_result(case):
        recorder.record(host, item, time)
    await recorder.flush()
    with closing(open_recent(segments)) as recording:
        (marks,) = run_marks(recording)
        run = RecordedRun(recording, marks)
        await run.advance(recording.end)
        found = await recorded_results(recording, recording.end)
    await recorder.close()
    segments.close()
    assert run.view() is not None and run.problem == ""
    assert [STILL_RUNNING in test.sentence for test in found.missing] == [True]


@pytest.mark.parametrize("first", [BEGIN - 4, 0.0])
def test_a_run_begins_with_its_first_stage(first: float, tmp_path: Path) -> None:
    """Its hosts are checked before its plan is known. Not before the recording begins."""
    case = case_of("bulk", "completed")
    notes = RunNotes(lambda: first)
    assert not [*notes.notes_of(Stage("preparing", "checking iperf3 on both hosts"))]
    items: list[TimedItem] = [*host_items("a", 20), *host_items("b", 20)]
    for time, event in events_of(case):
        items += [(host, note, time) for host, note in notes.notes_of(event)]
    write_recording(tmp_path / "r.nictop", sorted(items, key=lambda item: item[2]))
    with Recording.open(str(tmp_path / "r.nictop")) as recording:
        (marks,) = run_marks(recording)
        assert marks.begin == max(first, recording.begin) < BEGIN
        run, view = view_at(recording, marks.begin)
        assert view is None and run.problem == "", "it is being started"
        run, view = view_at(recording, recording.end)
        assert view is not None and run.stored == case.stored


def test_a_recording_that_begins_in_a_run_has_its_plan_and_its_result(tmp_path: Path) -> None:
    case = case_of("reverse, 4 streams", "another path")
    notes = RunNotes()
    for _, event in [*events_of(case)][:2]:
        list(notes.notes_of(event))
    items: list[TimedItem] = [*host_items("a", 20, 1012.25), *host_items("b", 20, 1012.25)]
    items += [(host, note, 1013.0) for host, note in notes.known()]
    items += [(host, note, END_TIME) for host, note in notes.notes_of(StepEnded(1, case.stored))]
    write_recording(tmp_path / "r.nictop", sorted(items, key=lambda item: item[2]))
    with Recording.open(str(tmp_path / "r.nictop")) as recording:
        _, during = view_at(recording, END_TIME - 1)
        run, _ = view_at(recording, recording.end)
    assert during is not None and (during.plan, during.stage) == (case.plan, STAGE)
    assert run.stored == case.stored
    assert list(notes.known()) == []


@pytest.mark.parametrize("kind", ["plan", "result"])
@pytest.mark.parametrize("text", ["", "{}", "[" * 2000, '{"identity": 1}', "\x00"])
def test_whatever_a_note_contains_is_not_a_result(kind: str, text: str, tmp_path: Path) -> None:
    case = case_of("bulk", "completed")
    notes = [
        note
        for _, event in events_of(case)
        for _, note in RunNotes().notes_of(event)
        if note.kind == "plan"
    ]
    items: list[TimedItem] = [*host_items("a", 20), *host_items("b", 20)]
    items += [("a", notes[0], BEGIN), ("b", RunNote(IDENTITY, "server"), BEGIN)]
    items.append(("a", RunNote(IDENTITY, kind, text), END_TIME))  # type: ignore[arg-type]
    write_recording(tmp_path / "r.nictop", sorted(items, key=lambda item: item[2]))
    with Recording.open(str(tmp_path / "r.nictop")) as recording:
        run, _ = view_at(recording, recording.end)
        found = asyncio.run(recorded_results(recording, recording.end))
    assert run.stored is None and run.problem and found.runs == () and len(found.missing) == 1


# ------------------------------------------------------------------------- recordings without notes


def without_notes(path: Path, *after: TimedItem, client: Sequence[TrafficLine] = ()) -> str:
    """A run of generators that nictop of an older version recorded."""
    items: list[TimedItem] = [*host_items("a", 20), *host_items("b", 20)]
    for number, (host, side, role) in enumerate((("b", "s", "server"), ("a", "c", "client"))):
        time = BEGIN + number / 10
        request = TrafficRequest(
            f"old-{side}", "start", role=role, generator="iperf3", port=5201, address="192.0.2.2",  # type: ignore[arg-type]
            arguments=("-B", "192.0.2.1", "-R", "-P", "4", "-t", "2") if side == "c" else (),
        )  # fmt: skip
        items += [(host, Request(traffic=request), time)]
        items += [(host, Line(traffic=TrafficLine(time, f"old-{side}", "started", pid=7)), time)]
    items += [("a", Line(traffic=replace(one, id="old-c")), one.time) for one in client]
    write_recording(path, sorted([*items, *after], key=lambda item: item[2]))
    return str(path)


def ended(host: str, side: str, time: float, **more: object) -> TimedItem:
    return host, Line(traffic=TrafficLine(time, f"old-{side}", "exit", **more)), time  # type: ignore[arg-type]


def old_result(path: str) -> Result:
    with Recording.open(path) as recording:
        _, view = view_at(recording, recording.end)
    assert view is not None and view.result is not None
    assert (view.plan.direction, view.plan.streams) == ("reverse", 4)
    assert view.result.proof is None or view.result.proof.verdict != "proven"
    return view.result


def test_a_generator_that_reported_nothing_has_failed(tmp_path: Path) -> None:
    one = old_result(
        without_notes(
            tmp_path / "r", ended("b", "s", BEGIN + 2), ended("a", "c", BEGIN + 2, status=1)
        )
    )
    assert one.failure is not None and "status 1" in one.failure.sentence


def test_a_generator_that_nictop_stopped_has_not_ended_by_itself(tmp_path: Path) -> None:
    """By the user, or by a time limit: an older nictop did not note which."""
    stops: list[TimedItem] = [
        (host, Request(traffic=TrafficRequest(f"old-{side}", "stop")), BEGIN + 2)
        for host, side in (("a", "c"), ("b", "s"))
    ]
    over = [ended(host, side, BEGIN + 2.1, signal=15) for host, side in (("a", "c"), ("b", "s"))]
    one = old_result(without_notes(tmp_path / "r", *stops, *over))
    assert one.failure is not None and one.failure.sentence == (
        "ended before its end, by the user or by a time limit of nictop: the recording does not "
        "contain why"
    )


def test_the_end_that_failed_is_the_cause_not_the_stop_of_the_other_one(tmp_path: Path) -> None:
    stop: TimedItem = ("b", Request(traffic=TrafficRequest("old-s", "stop")), BEGIN + 2)
    over = [ended("a", "c", BEGIN + 1.5, status=1), ended("b", "s", BEGIN + 2.1, signal=15)]
    one = old_result(without_notes(tmp_path / "r", stop, *over))
    assert (
        one.failure is not None
        and one.failure.sentence.startswith("a: ")
        and "status 1" in one.failure.sentence
    )


def test_the_options_of_a_bulk_flow_that_starts_later_are_known_from_the_beginning(
    tmp_path: Path,
) -> None:
    plan = replace(PLAN, test="loaded", time=10, direction="reverse", streams=4)
    load = plan.load
    assert load is not None
    sides: tuple[Side, Side] = ("server", "client")
    starts: list[tuple[str, RunPlan, Side, float]] = [
        *((f"old-{side[0]}", plan.requests, side, BEGIN) for side in sides),
        ("old-ls", load, "server", BEGIN - 0.1),
        ("old-lc", load, "client", BEGIN + 8),
    ]
    items: list[TimedItem] = [*host_items("a", 20), *host_items("b", 20)]
    for name, one, side, at in starts:
        time = at + 0.01 * (side == "client")
        request = TrafficRequest(
            name, "start", role=side, generator=one.generator, port=one.port, address="192.0.2.2",
            arguments=generator_arguments(one, side, tools()),
        )  # fmt: skip
        host = "a" if side == "client" else "b"
        items += [(host, Request(traffic=request), time)]
        items += [(host, Line(traffic=TrafficLine(time, name, "started", pid=7)), time)]
    write_recording(tmp_path / "r", sorted(items, key=lambda item: item[2]))
    with Recording.open(str(tmp_path / "r")) as recording:
        for seconds in (1.0, 9.0):
            _, view = view_at(recording, BEGIN + seconds)
            assert view is not None and (
                view.plan.test,
                view.plan.direction,
                view.plan.streams,
            ) == (
                "loaded",
                "reverse",
                4,
            )
            assert [(one.sender, one.receiver) for one in view.flows] == [("b", "a")]


def test_a_running_test_with_a_foreign_client_is_replayed(tmp_path: Path) -> None:
    """The server of it alone, which is started again for another port, and what the client does in
    fact."""
    case = case_of("foreign client", "completed")
    notes = RunNotes()
    items: list[TimedItem] = [*host_items("b", 20)]
    for time, event in [*events_of(case, end=False)][:2]:
        items += [(host, note, time) for host, note in notes.notes_of(event)]
    assert {host for host, _, _ in items} == {"b"}
    check = TrafficLine(BEGIN + 0.5, f"{IDENTITY}-s-check", "tools", tools=tools())
    items.append(("b", Line(traffic=check), BEGIN + 0.5))
    for number, (name, port) in enumerate(((f"{IDENTITY}-s", 5201), (f"{IDENTITY}-s2", 5202))):
        time = BEGIN + 0.6 + number / 10
        request = TrafficRequest(
            name, "start", role="server", generator="iperf3", port=port, address="192.0.2.2",
            arguments=generator_arguments(case.plan, "server", tools()), peer="192.0.2.50",
        )  # fmt: skip
        items += [("b", Request(traffic=request), time)]
        items += [("b", Line(traffic=TrafficLine(time, name, "started", pid=7)), time)]
    connected = "[  5] local 192.0.2.2 port 5202 connected to 192.0.2.50 port 40000"
    line = TrafficLine(BEGIN + 1, f"{IDENTITY}-s2", "output", text=connected, stream="stdout")
    items.append(("b", Line(traffic=line), BEGIN + 1))
    for second in (1, 2):
        text = f"[  5]   {second - 1}.00-{second}.00   sec  119 MBytes  1000000 Kbits/sec    0    1 MBytes"
        line = TrafficLine(
            BEGIN + 1 + second, f"{IDENTITY}-s2", "output", text=text, stream="stdout"
        )
        items.append(("b", Line(traffic=line), BEGIN + 1 + second))
    write_recording(tmp_path / "r", sorted(items, key=lambda item: item[2]))
    with Recording.open(str(tmp_path / "r")) as recording:
        _, before = view_at(recording, BEGIN + 0.9)
        assert before is not None and before.plan.port == 5202
        assert [(flow.sender, flow.receiver) for flow in before.flows] == [("192.0.2.50", "b")]
        _, during = view_at(recording, BEGIN + 3.1)
    assert during is not None and during.plan.direction == "reverse"
    (flow,) = during.flows
    assert (flow.sender, flow.receiver) == ("b", "192.0.2.50")
    assert [point.interval.bits_per_second for point in flow.points] == [1e9, 1e9]


@pytest.mark.parametrize(
    ("name", "parts"),
    [
        ("x-1-c", ("x-1", "-", "c")),
        ("x-1-s12", ("x-1", "-", "s12")),
        ("x-1-lc", ("x-1", "-", "lc")),
        ("x-1-bs", ("x-1", "-b", "s")),
        ("x-1-r-c", ("x-1", "-r-", "c")),
        ("x-1-r-bs2", ("x-1", "-r-b", "s2")),
        ("0123456789ab-c", ("0123456789ab", "-", "c")),
    ],
)
def test_generators_of_all_attempts_belong_to_one_run(
    name: str, parts: tuple[str, str, str]
) -> None:
    """As `nictop.traffic.run.run` and `nictop.traffic.experiment.experiment` name them."""
    found = GENERATOR_ID.fullmatch(name)
    assert found is not None and found.groups() == parts


def test_another_generator_that_takes_over_is_the_one_that_is_shown(tmp_path: Path) -> None:
    """iperf3 dies, and the built-in generator begins the run again; an older nictop recorded it
    without notes."""
    died = [ended("a", "c", BEGIN + 1, signal=11), ended("b", "s", BEGIN + 1.1, signal=15)]
    items = list(died)
    for host, side, role in (("b", "bs", "server"), ("a", "bc", "client")):
        request = TrafficRequest(
            f"old-{side}", "start", role=role, generator="builtin", port=5201, address="192.0.2.2",  # type: ignore[arg-type]
            arguments=("--bind", "192.0.2.1", "--reverse", "--streams", "4", "--time",
                "2") if side == "bc" else (),
        )  # fmt: skip
        items += [(host, Request(traffic=request), BEGIN + 2)]
        items += [
            (host, Line(traffic=TrafficLine(BEGIN + 2, f"old-{side}", "started", pid=8)), BEGIN + 2)
        ]
    with Recording.open(without_notes(tmp_path / "r", *items)) as recording:
        _, view = view_at(recording, BEGIN + 3)
    assert view is not None and view.result is None and view.plan.generator == "builtin"
    assert (view.plan.direction, view.plan.streams) == ("reverse", 4)
