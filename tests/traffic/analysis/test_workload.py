"""Results of workloads: what a verdict is about, whose the bytes were, and how the end is told."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from nictop.model.snapshot import Snapshot
from nictop.probe.records import StorageActivity, WorkloadConnection, WorkloadReport
from nictop.report.runs.comparison import comparison_text
from nictop.report.runs.sentences import result_sentences
from nictop.traffic.analysis.comparison import compare
from nictop.traffic.analysis.workload import (
    _cpu_limits,
    _idle_text,
    _limits,
    _login_ifindex,
    _notes,
    _with_figure,
    addresses_over,
    bytes_by_owner,
)
from nictop.traffic.drops.counted_losses import CountedLoss
from nictop.traffic.plan.plan import Endpoint, Judge, RunPlan, TestKind
from nictop.traffic.results.caveats import caveat_of
from nictop.traffic.results.host_load import Busy, BusyCpu, HostLoad, ThreadLoad
from nictop.traffic.results.measures import MEASURES, deciding_text, measures_of
from nictop.traffic.results.result import Result
from nictop.traffic.results.workload import (
    BytesByOwner,
    CommandFigure,
    EndReason,
    NicTraffic,
    WorkloadFigures,
)
from tests.traffic.machines import machine, nic
from tests.traffic.runs import flow

END = Endpoint("a", 3, "192.0.2.1")
NIC = NicTraffic("ens3", 3, 1_000_000, 99_000_000, 900, 66_000, 4.0)
BUSY = Busy(4.0, 0.5, 0.5, 0.0, 0.2, 0.0, 0.0, 4, 1, 0.6, 0.2)


def result(
    seconds: float = 4.0,
    value: float | None = None,
    unit: str = "b/s",
    *,
    by: Judge | None = None,
    command: str = "fio job.fio",
    owners: BytesByOwner | None = None,
    busy: Busy = BUSY,
) -> Result:
    figure = None
    if value is not None:
        figure = CommandFigure("read bandwidth", value, unit, "fio JSON")
    figures = WorkloadFigures(
        seconds, status=0, figure=figure, nics=(NIC,), chosen_ifindex=3, owners=owners
    )
    plan = RunPlan(END, END, test="workload", workload=command, time=60, judged_by=by)
    flows = tuple(
        replace(flow(rate), sender=ends[0], receiver=ends[1])
        for rate, ends in ((0.2, ("a", "network")), (0.002, ("network", "a")))
    )
    hosts = (HostLoad("a", "client", busy),)
    facts = {"test": "workload", "command": command}
    return Result(plan, 0.0, flows, hosts, schema=3, workload=figures, facts=facts)


def verdict(a: Sequence[Result], b: Sequence[Result]) -> str:
    return compare(a, b).sentence


def runs(**more: object) -> list[Result]:
    return [result(**more) for _ in range(3)]  # type: ignore[arg-type]


def test_a_process_of_several_threads_is_named_once_among_the_limits() -> None:
    threads = tuple(
        ThreadLoad(name, pid, share, (1,), pid == 77)
        for name, pid, share in (("fio", 77, 0.6), ("sh", 80, 0.5), ("fio", 77, 0.4))
    )
    full = (BusyCpu(1, 1.0, 0.05, 0.5, 0.45, 0.0),)
    made = replace(result(), hosts=(HostLoad("a", "client", BUSY, full=full, threads=threads),))
    values = [limit.value for limit in _cpu_limits(made)]
    assert values == [
        "CPU 1 100 % busy, softirq 5.0 %; most CPU time: fio (pid 77, of the command) 100 % of a "
        "core in 2 threads, sh (pid 80) 50 % of a core"
    ]


def test_a_command_that_only_waits_has_no_limit() -> None:
    """``sleep 2`` on a busy machine: its CPUs did not hold it back."""
    waits = result(2.0, command="sleep 2")
    assert waits.workload is not None
    quiet = replace(NIC, received_bytes=400, sent_bytes=None)
    figures = replace(waits.workload, user_seconds=0.002, system_seconds=0.001, nics=(quiet,))
    unknown = replace(waits, workload=figures)
    assert _idle_text(unknown) == "", "what the NIC sent is not known"
    figures = replace(figures, nics=(replace(quiet, sent_bytes=0),))
    assert _idle_text(replace(waits, workload=figures)) == (
        "no work is seen that CPUs or NICs could limit: the command used 3.00 ms of CPU time in "
        "2.00 s, and all NICs carried 400 B"
    )
    for works in (replace(figures, user_seconds=0.2), replace(figures, nics=(NIC,))):
        assert _idle_text(replace(waits, workload=works)) == ""


def test_datagrams_that_a_full_socket_buffer_dropped_are_among_the_limits() -> None:
    """They came over the NIC and are in its figures; the program did not get them."""
    lost = CountedLoss("a", "protocol", "Udp RcvbufErrors", 27997)
    found = {limit.limit: limit.value for limit in _limits(replace(result(), losses=(lost,)), {})}
    assert found["lost on a"] == "27997 datagrams for a full socket buffer"


@pytest.mark.parametrize(
    ("test", "guest", "words"),
    [
        ("workload", "", "its peer and what its full socket buffers drop"),
        ("manual", "", "its peer and what its full socket buffers drop"),
        ("manual", "win10", "the guest and its peer, and what their full socket buffers drop"),
    ],
)
def test_what_is_not_seen_has_the_socket_buffers_of_others(
    test: TestKind, guest: str, words: str
) -> None:
    one = result()
    measured = replace(one, plan=replace(one.plan, test=test, guest=guest), losses=())
    unseen = next(limit for limit in _limits(measured, {}) if "not seen" in limit.limit)
    assert words in unseen.value and unseen.verdict == "possible"


# ---------------------------------------------------------------------------------------- a verdict


def test_figure_of_the_command_decides_with_its_unit() -> None:
    found = compare(runs(value=8e8), runs(value=1.6e9))
    assert found.verdict == "better"
    assert found.figures[0].name == "value"
    assert found.sentence.startswith("Better: B = 2.00× the read bandwidth of A")
    text = comparison_text(found, ("one", "two"), 120)
    assert "read bandwidth" in text and "800 Mb/s" in text and "1.60 Gb/s" in text


def test_without_a_figure_the_duration_decides_and_less_is_better() -> None:
    found = compare(runs(seconds=8.0), runs(seconds=4.0))
    assert (found.verdict, found.figures[0].name) == ("better", "duration")
    assert deciding_text(result(seconds=4.0)) == "4.00 s"


@pytest.mark.parametrize(
    ("by", "name"),
    [
        ("duration", "duration"),
        ("rate", "rate"),
        ("cpu", "cpu per gigabit"),
        ("value", "value"),
        ("smaller-value", "smaller value"),
    ],
)
def test_user_chooses_what_decides(by: Judge, name: str) -> None:
    measures = measures_of(result(value=1e9, by=by))
    assert measures[0].name == name
    assert len({measure.name for measure in measures}) == len(measures)


def test_less_cpu_for_each_gigabit_is_better() -> None:
    less = replace(BUSY, user=0.1)
    found = compare(runs(by="cpu"), runs(by="cpu", busy=less))
    assert (found.verdict, found.figures[0].name) == ("better", "cpu per gigabit")


@pytest.mark.parametrize(
    ("other", "reason"),
    [
        ({"value": 1e9, "unit": "iops"}, "different figures of the command: read bandwidth (b/s)"),
        ({"value": 1e9, "command": "fio other.fio"}, "command differs: fio job.fio and fio other"),
        ({}, "not ranked"),
    ],
)
def test_what_cannot_be_compared(other: dict[str, object], reason: str) -> None:
    found = compare(runs(value=8e8, by="value"), runs(by="value", **other))
    assert found.verdict == "refused"
    assert reason in found.sentence or "no figure of the command" in found.sentence


def over(*carried: tuple[str, int, int], own: int = 0, **more: object) -> list[Result]:
    """Runs whose first NIC is the chosen one: name, ifindex and bytes of each."""
    nics = tuple(NicTraffic(name, number, size, 0, 1, 0, 4.0) for name, number, size in carried)
    found = []
    for one in runs(owners=BytesByOwner(own, 0, 0, (), (), (), 0)):
        assert one.workload is not None
        figures = replace(one.workload, nics=nics, chosen_ifindex=carried[0][1])
        plan = replace(one.plan, **more)  # type: ignore[arg-type]
        facts = {**one.facts, "client nic": carried[0][0]}
        found.append(replace(one, workload=figures, plan=plan, facts=facts))
    return found


def test_nics_are_not_ranked_by_a_command_that_used_another_one() -> None:
    """Its figure would be that of one NIC, twice."""
    used = over(("ens4", 4, 10**9), variable_name="nic", variable_value="ens4")
    missed = over(("ens5", 5, 1000), ("ens4", 4, 10**9), variable_name="nic", variable_value="ens5")
    found = compare(used, missed, names=("ens4", "ens5"), compared=("nic", "value"))
    assert found.verdict == "refused" and found.caveats == ("", "path not verified")
    assert "path not verified: ens5 carried 1000 B, ens4 954 MiB" in found.sentence
    assert caveat_of(missed[0]) == "path not verified" and list(_notes(missed[0])) == []
    stored = compare(over(("ens4", 4, 10**9)), over(("ens5", 5, 1000), ("ens4", 4, 10**9)))
    assert stored.verdict == "refused" and "B 1: path not verified: ens5" in stored.sentence


def test_nics_are_ranked_if_their_bytes_are_those_of_the_command() -> None:
    """Whatever other NICs carry meanwhile, as those of guests do."""
    a = over(("ens4", 4, 10**9), ("tap0", 9, 10**11), own=9 * 10**8, variable_name="nic")
    b = over(("ens5", 5, 10**9), ("tap0", 9, 10**11), own=9 * 10**8, variable_name="nic")
    assert compare(a, b).verdict != "refused"


@pytest.mark.parametrize(
    ("nics", "reason", "text"),
    [
        ((NIC,), "itself", "no NIC was chosen (--client-nic): ens3 94.4 MiB sent in 66000 packets"),
        ((), "itself", "no NIC was chosen (--client-nic), and none carried a packet"),
        ((), "lost", "not known: no counters of its NICs before and after"),
    ],
)
def test_traffic_without_a_chosen_nic(
    nics: tuple[NicTraffic, ...], reason: EndReason, text: str
) -> None:
    made = result()
    assert made.workload is not None
    figures = replace(made.workload, nics=nics, chosen_ifindex=None, reason=reason)
    sentences = result_sentences(replace(made, workload=figures, flows=()))
    (found,) = [sentence.text for sentence in sentences if sentence.kind == "traffic"]
    assert found.startswith(text)


def test_other_set_ups_are_ranked_whatever_nic_the_command_used() -> None:
    a, b = (over(("ens5", 5, 1000), ("ens4", 4, 10**9), variable_name="setup") for _ in "ab")
    assert compare(a, b).verdict != "refused" and caveat_of(a[0]) == ""
    assert any("ens4 carried more" in note for note in _notes(a[0]))


def test_busier_nic_with_the_connection_of_nictop_is_said() -> None:
    """Of the login to a guest: the readings themselves may be all that it carried."""
    (run,) = over(("ens5", 5, 0), ("ens4", 4, 30_000), variable_name="setup")[:1]
    assert list(_notes(run, 4))[-1] == (
        "ens4 carried more (29.3 KiB, nictop's own connection is in it): "
        "--client-nic ens4 measures that"
    )
    assert "own connection" not in list(_notes(run, 5))[-1]


def test_nic_of_the_login_is_that_with_its_address() -> None:
    watched = machine("a", nic(4, "ens4", "192.0.2.1"), nic(5, "ens5", "198.51.100.1"))
    assert watched.inventory is not None
    assert _login_ifindex(watched) is None
    platform = replace(watched.inventory.platform, session_address="198.51.100.1")
    logged_in = replace(watched, inventory=replace(watched.inventory, platform=platform))
    assert _login_ifindex(logged_in) == 5


# ------------------------------------------------------------------------------------ whose bytes


def connection(owner: str, remote: str, size: int, **more: object) -> WorkloadConnection:
    made = WorkloadConnection(
        owner,  # type: ignore[arg-type]
        "192.0.2.1",
        size,
        0,
        local_port=40000,
        remote=remote,
        remote_port=445,
    )
    return replace(made, **more)  # type: ignore[arg-type]


def test_bytes_are_summed_by_owner_and_peer() -> None:
    found = bytes_by_owner(
        [
            connection("own", "192.0.2.5", 60, retransmits=3),
            connection("own", "192.0.2.5", 40, retransmits=1),
            connection("other", "192.0.2.6", 7, process="sshd", retransmits=9),
            connection("unknown", "192.0.2.7", 5, local_port=22, remote_port=50000),
            connection("unknown", "", 2, connections=4),
        ]
    )
    assert (found.own, found.other, found.unknown, found.retransmits) == (100, 7, 7, 4)
    assert [(peer.text, peer.sent, peer.connections) for peer in found.peers] == [
        ("192.0.2.5 port 445", 100, 2)
    ]
    assert [peer.text for peer in found.others] == ["sshd"]
    assert [peer.text for peer in found.unknowns] == ["192.0.2.7 at port 22", "other peers"]


@pytest.mark.parametrize(("other", "is_ranked"), [(5_000_000, True), (5_100_000, False)])
def test_other_traffic_above_a_bound_is_not_ranked(other: int, is_ranked: bool) -> None:
    found = result(owners=BytesByOwner(80_000_000, other, 0))
    assert (found.why_not_ranked == ()) == is_ranked
    if not is_ranked:
        assert found.why_not_ranked == ("5.1 % of the bytes were not this workload",)


def test_what_is_not_known_of_the_bytes_is_said() -> None:
    """As of a mount of the kernel: that is no reason against ranking."""
    found = result(owners=BytesByOwner(0, 0, 90_000_000))
    said = "\n".join(text for _, text in result_sentences(found))
    assert "no TCP connection of its processes was seen; 90 % of connections of which the " in said
    assert found.why_not_ranked == ()


@pytest.mark.parametrize(
    ("reason", "left", "sentence"),
    [
        ("stopped", 0, "its processes were ended"),
        ("stopped", -1, "some of its processes were not ended"),
        ("lost", 0, "its host did not report that its processes were ended"),
    ],
)
def test_a_stopped_command_was_ended_only_if_its_host_said_so(
    reason: EndReason, left: int, sentence: str
) -> None:
    stopped = result()
    assert stopped.workload is not None
    figures = replace(stopped.workload, reason=reason, left=left, status=None)
    notes = [*_notes(replace(stopped, stopped=4.0, workload=figures))]
    assert notes[0] == f"stopped after 4.00 s; {sentence}"


def test_addresses_of_a_nic_are_also_those_of_what_is_above_it() -> None:
    links = (
        nic(3, "ens3", "192.0.2.1", master=5),
        nic(4, "ens4", "198.51.100.1"),
        nic(5, "br0", "203.0.113.1"),
        nic(6, "br0.7", "203.0.113.129", lower=5),
    )
    host: Snapshot = machine("a", *links)
    assert addresses_over(3, host) == {"192.0.2.1", "203.0.113.1", "203.0.113.129"}
    assert addresses_over(4, host) == {"198.51.100.1"}


def found_figure(stdout: str, stderr: str = "", more_bytes: int = 0) -> WorkloadFigures:
    """By an expression; `more_bytes`: of its output, which came before and were not kept."""
    plan = RunPlan(END, END, test="workload", workload="x", value_pattern=r"(\d+) points")
    sizes = len(stdout) + more_bytes, len(stderr)
    report = WorkloadReport(
        "ended", 7, 1.0, stdout=stdout, stderr=stderr, stdout_bytes=sizes[0], stderr_bytes=sizes[1]
    )
    return _with_figure(WorkloadFigures(1.0), plan, report)


def test_flood_of_the_other_output_does_not_hide_the_figure() -> None:
    found = found_figure("42 points\n", "a warning\n" * 10_000)
    assert found.figure is not None and found.figure.value == 42.0


@pytest.mark.parametrize(
    ("found", "why"),
    [
        (found_figure("none"), "--value matches nothing in its output"),
        (
            found_figure("flood\n" * 10_000, more_bytes=1_000_000),
            "--value matches nothing in the last 64 KiB of its output",
        ),
        (
            found_figure("42 points\n" + "flood\n" * 15_000),
            "--value matches nothing in the last 64 KiB of its output",
        ),
    ],
)
def test_output_that_was_not_searched_is_not_said_to_have_nothing(
    found: WorkloadFigures, why: str
) -> None:
    assert found.figure is None and found.no_figure == why


def test_cpu_of_little_traffic_is_no_matter_of_samples() -> None:
    slow = [replace(result(seconds), flows=()) for seconds in (4.0, 4.1, 4.2)]
    compared = compare(slow, slow)
    unknown = "CPU per Gb/s unknown (not measured in every run: it was too short, carried less"
    assert f"{unknown} than 100 Mb/s, or most CPU time was not by the test)" in compared.sentence


def test_a_value_that_is_not_known_is_not_said_to_be_0() -> None:
    a, b = runs(by="cpu"), runs(by="cpu")
    a[1], b[2] = (replace(one, hosts=()) for one in (a[1], b[2]))
    found = compare(a, b, names=("one", "two"))
    assert found.verdict == "refused"
    assert "CPU per Gb/s of one 2 is not known" in found.sentence
    assert "CPU per Gb/s of two 3 is not known" in found.sentence
    assert compare(runs(seconds=0.0), runs(seconds=4.0)).refusals == ("a run of A has duration 0",)


def test_runs_are_divided_by_those_of_their_pair_only() -> None:
    """Of a figure that is not known of the second run of A and of the third of B."""
    a, b = runs(), runs()
    a[1], b[2] = (replace(one, hosts=()) for one in (a[1], b[2]))
    cost = {figure.name: figure for figure in compare(a, b).figures}["cpu per gigabit"]
    assert cost.ratio is None and cost.a is not None and len(cost.a.values) == 2


def test_requests_that_took_no_whole_millisecond_have_no_latency() -> None:
    busy = StorageActivity("vda", "block", 4.0, reads=1, read_bytes=4096, read_seconds=0.001)
    figures = result().workload
    assert figures is not None
    for seconds, expected in ((0.001, 0.001), (0.0, None)):
        storage = (replace(busy, read_seconds=seconds),)
        made = replace(result(), workload=replace(figures, storage=storage))
        assert MEASURES["storage"].value(made) == expected


def test_cpu_that_a_short_command_has_not_is_explained() -> None:
    short, long = result(1.2), result(1.2)
    short = replace(short, hosts=(HostLoad("a", "client", None),))
    text = "it was too short for the CPU of the hosts, which count it in ticks of 10 ms"
    assert list(_notes(short)) == [text] and list(_notes(long)) == []
