"""Commands of the user and measurements by hand between two namespaces: bytes, CPU, whose the bytes
were, how the command ended, its own figure."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from nictop.errors import NictopError
from nictop.report.runs.sentences import result_sentences
from nictop.traffic.experiment.experiment import prepare_experiment, run_experiment
from nictop.traffic.live.run_view import LiveRun
from nictop.traffic.plan.plan import Endpoint, RunPlan
from nictop.traffic.plan.request import RunRequest
from nictop.traffic.results.caveats import OTHER_TRAFFIC, caveat_of
from nictop.traffic.results.result import Result
from nictop.traffic.results.selection import StoredRun
from nictop.traffic.results.store import encode_run, parse_run
from nictop.traffic.run.events import NicMeasured, RunFinished, Stage, StorageMeasured
from tests.support.namespaces import Namespace
from tests.support.probe import wait_until
from tests.traffic.emitted import Run
from tests.traffic.pair import Pair, missing_requirement, pair

REASON = missing_requirement()
pytestmark = [
    pytest.mark.skipif(REASON is not None, reason=REASON or ""),
    pytest.mark.asyncio(loop_scope="module"),
]
SERVER, PORT = "198.18.0.2", 5290
RECEIVE = "import socket,sys\n" + (
    "s=socket.create_server(('198.18.0.2',{port}))\n"
    "while True:\n"
    "    c,_=s.accept()\n"
    "    while c.recv(1<<20): pass\n"
)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def allowed() -> AsyncIterator[Pair]:
    """A pair whose client may run a command."""
    async with pair("400mbit", options=("--allow-workload",)) as both:
        yield both


@contextmanager
def listening(both: Pair, port: int, code: str = RECEIVE) -> Iterator[None]:
    """A server in the namespace of "b" that reads and drops everything."""
    with process_in(both.server, "python3", "-c", code.format(port=port)):
        wait_until(lambda: both.server.run(["ss", "-Hltn", f"sport = {port}"]), pause=0.05)
        yield


@contextmanager
def process_in(namespace: Namespace, *command: str) -> Iterator[None]:
    """Another program, with all its children."""
    argv = ["ip", "netns", "exec", namespace.name, *command]
    with subprocess.Popen(argv, stdout=subprocess.DEVNULL, start_new_session=True) as process:
        try:
            yield
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)


def plan(both: Pair, workload: str, **more: Any) -> RunPlan:
    endpoint = both.endpoint("a")
    test = "workload" if workload else "manual"
    found = RunPlan(endpoint, endpoint, test=test, workload=workload, time=30, interval=0.2)  # type: ignore[arg-type]
    return replace(found, **more)


async def result_of(both: Pair, workload: str, **more: Any) -> Result:
    events = [event async for event in Run(plan(both, workload, **more), both.hosts).events()]
    assert isinstance(events[-1], RunFinished)
    return events[-1].result


def texts(result: Result) -> str:
    return "\n".join(f"{kind}: {text}" for kind, text in result_sentences(result))


def sending(megabytes: int, port: int = PORT) -> str:
    """A command that sends so much over TCP."""
    code = f"import socket;s=socket.create_connection(('{SERVER}',{port}));" + (
        f"[s.sendall(bytes(1000000)) for _ in range({megabytes})]"
    )
    return f'python3 -c "{code}; s.close()"'


async def test_bytes_rate_cpu_and_connections_of_a_command(allowed: Pair) -> None:
    """40 MB at 400 Mb/s take more than 0.8 s."""
    with listening(allowed, PORT):
        command = f"{sending(120)}; dd if=/dev/zero of=/dev/null count=1000 bs=1M"
        result = await result_of(allowed, command)
    figures = result.workload
    assert result.failure is None and figures is not None and figures.chosen is not None
    sent_bytes = figures.chosen.sent_bytes
    # what is sent before the first reading, and after the last one, is not counted
    assert sent_bytes is not None and 0.95 * 120e6 < sent_bytes < 135e6
    assert figures.owners is not None
    # the last bytes of a connection that is closed between two readings are not seen
    assert 0.5 * 120e6 < figures.owners.own <= 120.01e6
    assert figures.owners.peers[0].text == f"{SERVER} port {PORT}"
    assert figures.owners.other == 0
    sent, received = result.flows
    assert (sent.sender, sent.receiver, received.receiver) == ("a", "network", "a")
    assert sent.goodput == pytest.approx(8 * sent_bytes / figures.seconds)
    assert sent.points and max(point.interval.bits_per_second for point in sent.points) > 50e6
    assert figures.figure is not None and figures.figure.source == "dd"
    assert result.hosts[0].busy is not None
    assert [load.role for load in result.hosts] == ["client", "observer"]
    assert "command:" in texts(result) and "of the bytes of nictopt:" in texts(result)
    assert result.why_not_ranked == ()


async def test_threads_of_a_command_are_told_from_others(allowed: Pair) -> None:
    """Whatever else runs on this machine."""
    code = "import time; list(iter(lambda: time.process_time() < 1.5, False))"
    result = await result_of(allowed, f'exec python3 -c "{code}"')
    assert result.failure is None
    threads = result.hosts[0].threads
    assert threads is not None
    assert any(thread.generator and thread.name == "python3" for thread in threads)


async def test_live_view_of_a_command_has_its_rate(allowed: Pair) -> None:
    """The same records as the result at the end."""
    run = plan(allowed, sending(120))
    live, rates = LiveRun(run, allowed.hosts), []
    with listening(allowed, PORT):
        async for event in Run(run, allowed.hosts).events():
            live.process(event)
            if isinstance(event, NicMeasured):
                rates.append(event)
                view = live.view()
                assert view is not None and [flow.sender for flow in view.flows] == ["a", "network"]
    view = live.view()
    assert view is not None and view.result is not None and view.flows[0].points
    assert any(rate.sent and rate.sent > 50e6 for rate in rates)
    assert all(rate.time > 0 for rate in rates)


async def test_bytes_of_another_process_are_told_apart(allowed: Pair) -> None:
    """A run with more than a twentieth of them is not ranked."""
    other = process_in(allowed.client, "sh", "-c", sending(4000, PORT + 1))
    with listening(allowed, PORT), listening(allowed, PORT + 1), other:
        listed = ["ss", "-Htn", f"dport = {PORT + 1}"]
        wait_until(lambda: "ESTAB" in allowed.client.run(listed), pause=0.05)
        result = await result_of(allowed, f"{sending(60)}; sleep 2")
    figures = result.workload
    assert figures is not None and figures.owners is not None and figures.owners.own > 10e6
    assert figures.owners.others[0].text.startswith("python3")
    share = figures.other_share
    assert share is not None and share > 0.05
    assert any("of the bytes were not this workload" in why for why in result.why_not_ranked)
    assert caveat_of(result) == OTHER_TRAFFIC


@pytest.mark.parametrize(
    ("command", "more", "kind", "sentence"),
    [
        ("echo wrong >&2; exit 3", {}, "died", "the command failed with exit status 3: wrong"),
        ("nosuchprogram", {}, "start", "could not be executed (exit status 127): "),
        ("kill -9 $$", {}, "died", "the command was ended by signal 9 (SIGKILL)"),
        ("sleep 1000", {"time": 1}, "deadline", "did not end within 1 s (--time), and was ended"),
        ("tty >/dev/null || { echo not a tty; exit 1; }", {}, "died", "may need a terminal"),
    ],
)
async def test_command_that_fails(
    allowed: Pair, command: str, more: dict[str, Any], kind: str, sentence: str
) -> None:
    result = await result_of(allowed, command, **more)
    assert result.failure is not None and result.failure.kind == kind
    assert sentence in result.failure.sentence
    assert result.workload is not None and not result.has_carried


async def test_exact_command_is_shown_before_it_starts(allowed: Pair) -> None:
    """Before the probe is asked to start it."""
    began = []
    async for event in Run(plan(allowed, "echo a  'b'"), allowed.hosts).events():
        if isinstance(event, Stage):
            began.append(event.sentence)
    assert began[:2] == ["starting on a: echo a  'b'", "running on a as root"]


async def test_command_that_leaves_processes(allowed: Pair) -> None:
    result = await result_of(allowed, "sleep 1000 & setsid sleep 1000 & echo begun")
    assert result.failure is None and result.workload is not None and result.workload.left == 2
    assert "left 2 processes running, which nictop ended" in texts(result)


async def test_command_that_is_stopped_has_what_was_measured(allowed: Pair) -> None:
    run = Run(plan(allowed, "echo before; sleep 1000"), allowed.hosts)
    result = None
    async for event in run.events():
        if isinstance(event, Stage) and event.name == "running":
            run.stop()
        if isinstance(event, RunFinished):
            result = event.result
    assert result is not None and result.stopped is not None and result.workload is not None
    assert result.workload.reason == "stopped" and result.workload.stdout == ("before",)
    assert any("stopped" in why for why in result.why_not_ranked)


async def test_command_that_stops_its_supervisor_is_no_result(allowed: Pair) -> None:
    stopping = "trap '' TERM; while kill -STOP $PPID; do :; done"
    result = await result_of(allowed, stopping, time=1)
    assert result.failure is not None
    if result.workload is None:  # it was stopped before it could say that the command runs
        assert result.failure.kind == "start" and "(SIGSTOP)" in result.failure.sentence
        return
    if result.workload.reason == "deadline":  # it got a CPU between two signals
        return
    assert "was stopped (SIGSTOP)" in result.failure.sentence
    assert result.workload.reason == "lost" and result.workload.seconds > 1
    assert "were ended" not in texts(result) and "less than a second" not in texts(result)


async def test_host_that_may_not_run_a_command(allowed: Pair) -> None:
    """The probe of "b" was started without the option."""
    endpoint = allowed.endpoint("b")
    run = replace(plan(allowed, "true"), client=endpoint, server=endpoint)
    events = [event async for event in Run(run, allowed.hosts).events()]
    assert isinstance(events[-1], RunFinished)
    failure = events[-1].result.failure
    assert failure is not None and "without --allow-workload" in failure.sentence


async def test_measurement_by_hand(allowed: Pair) -> None:
    """Begin and end by the user, of what another process sends."""
    run = Run(plan(allowed, ""), allowed.hosts)
    result = None
    with listening(allowed, PORT), process_in(allowed.client, "sh", "-c", sending(4000)):
        measured = 0
        async for event in run.events():
            measured += isinstance(event, NicMeasured)
            if measured == 3:
                run.stop()
            if isinstance(event, RunFinished):
                result = event.result
    assert result is not None and result.failure is None and result.stopped is None
    assert result.workload is not None and result.workload.reason == "hand"
    assert result.flows[0].goodput is not None and result.flows[0].goodput > 50e6
    said = texts(result)
    assert "measured: " in said and "ended by hand" in said and "command: " not in said


async def test_sweep_of_a_command(allowed: Pair, tmp_path: Path) -> None:
    """Each value is in its environment; the results are stored and read again."""
    request = RunRequest(
        "a",
        "a",
        client_nic="nictopt",
        test="workload",
        workload="echo value $NICTOP_VALUE MB/s",
        value_pattern=r"value (\d+)",
        time=30,
        rest=0.0,
        sweep=("size", ("4", "64")),
    )
    experiment = await prepare_experiment(request, allowed.hosts)
    assert [step.label for step in experiment.steps] == ["size 4", "size 64"]
    ended = await run_experiment(experiment, allowed.hosts)
    values = [run.result.workload.figure for run in ended.results if run.result.workload]
    assert [figure.value for figure in values if figure] == [32e6, 512e6]
    for run in ended.results:
        again = parse_run(encode_run(run))
        assert isinstance(again, StoredRun) and again.result.workload == run.result.workload


async def test_command_that_fails_is_not_repeated(allowed: Pair, tmp_path: Path) -> None:
    """As a generator that does not start is: it may have done something."""
    request = RunRequest(
        "a",
        "a",
        client_nic="nictopt",
        test="workload",
        workload=f"echo once >> {tmp_path}/runs; exit 127",
        time=30,
        rest=0.0,
        repeat=2,
    )
    experiment = await prepare_experiment(request, allowed.hosts)
    ended = await run_experiment(experiment, allowed.hosts)
    assert [run.result.failure is not None for run in ended.results] == [True, True]
    assert (tmp_path / "runs").read_text() == "once\n" * 2


async def test_nic_without_a_choice_is_that_of_the_only_link(allowed: Pair) -> None:
    request = RunRequest("a", "a", test="manual", time=1)
    experiment = await prepare_experiment(request, allowed.hosts)
    assert experiment.steps[0].plan.client == allowed.endpoint("a")
    assert isinstance(experiment.steps[0].plan.client, Endpoint)


async def test_iperf3_of_the_user_reports_its_rate(allowed: Pair) -> None:
    with process_in(allowed.server, "iperf3", "-s", "-p", "5391"):
        wait_until(lambda: allowed.server.run(["ss", "-Hltn", "sport = 5391"]), pause=0.05)
        result = await result_of(allowed, f"iperf3 -c {SERVER} -p 5391 -t 2 -J")
    figures = result.workload
    assert figures is not None and figures.figure is not None
    assert figures.figure.source == "iperf3 JSON"
    sent = result.flows[0].goodput
    assert sent is not None and 0.7 < figures.figure.value / sent < 1.1


def needs(program: str) -> pytest.MarkDecorator:
    reason = f"{program} is not installed"
    return pytest.mark.skipif(shutil.which(program) is None, reason=reason)


@needs("fio")
async def test_block_sizes_of_fio(allowed: Pair, tmp_path: Path) -> None:
    """The figure of each is fio's own, and the device is that of the file."""
    command = f"fio --name=t --filename={tmp_path}/f --size=8M --rw=randrw --bs=$NICTOP_VALUE "
    command += "--direct=1 --fsync=1 --time_based --runtime=2 --output-format=json"
    request = RunRequest(
        "a",
        "a",
        client_nic="nictopt",
        test="workload",
        workload=command,
        time=60,
        rest=0.0,
        sweep=("bs", ("4K", "64K")),
    )
    experiment = await prepare_experiment(request, allowed.hosts)
    ended = await run_experiment(experiment, allowed.hosts)
    for run in ended.results:
        figures = run.result.workload
        assert run.result.failure is None and figures is not None, run.result.failure
        assert figures.figure is not None and figures.figure.source == "fio JSON"
        again = parse_run(encode_run(run))
        assert isinstance(again, StoredRun) and again.result.workload == figures
    if not is_on_block_device(tmp_path):
        return
    for run in ended.results:
        assert run.result.workload is not None and run.result.workload.storage
        assert "storage: " in texts(run.result) and " each" in texts(run.result)


def is_on_block_device(path: Path) -> bool:
    major, minor = os.major(path.stat().st_dev), os.minor(path.stat().st_dev)
    return Path(f"/sys/dev/block/{major}:{minor}").exists()


async def test_latency_of_the_device_is_measured_meanwhile(allowed: Pair, tmp_path: Path) -> None:
    if not is_on_block_device(tmp_path):
        pytest.skip("the temporary directory is on no block device")
    writes = f"dd if=/dev/zero of={tmp_path}/f bs=64K count=16 oflag=dsync conv=notrunc 2>/dev/null"
    command = f"end=$(($(date +%s) + 3)); while [ $(date +%s) -lt $end ]; do {writes}; done"
    measured: list[StorageMeasured] = []
    result = None
    async for event in Run(plan(allowed, command), allowed.hosts).events():
        if isinstance(event, StorageMeasured):
            measured.append(event)
        if isinstance(event, RunFinished):
            result = event.result
    assert result is not None and result.failure is None and result.workload is not None
    assert measured and measured[0].activities[0].writes > 0
    busiest = result.workload.storage[0]
    assert busiest.writes >= 16 and busiest.write_seconds > 0
    assert busiest.slowest_write is not None


@needs("rsync")
@pytest.mark.parametrize("files", [200])
async def test_files_copied_by_rsync(allowed: Pair, tmp_path: Path, files: int) -> None:
    source, target = tmp_path / "source", tmp_path / "target"
    source.mkdir()
    for number in range(files):
        (source / str(number)).write_bytes(bytes([number % 256]) * 4096)
    config = tmp_path / "rsyncd.conf"
    config.write_text(f"use chroot = no\n[t]\npath = {target}\nread only = no\nuid = 0\ngid = 0\n")
    target.mkdir()
    server = ["rsync", "--daemon", "--no-detach", "--port", "5293", "--config", str(config)]
    with process_in(allowed.server, *server):
        listed = ["ss", "-Hltn", "sport = 5293"]
        wait_until(lambda: allowed.server.run(listed), pause=0.05)
        command = f"rsync -a --stats {source}/ rsync://{SERVER}:5293/t/"
        result = await result_of(allowed, command)
    assert result.failure is None and len(list(target.iterdir())) == files
    figures = result.workload
    assert figures is not None and figures.figure is not None and figures.figure.source == "rsync"


@pytest.mark.parametrize(
    ("command", "processes"),
    [
        ("yes flood | head -c 30000000", 2),
        ("for n in 1 2 3 4 5 6; do sleep 1.5 & done; wait", 6),
    ],
)
async def test_flood_of_output_and_children(allowed: Pair, command: str, processes: int) -> None:
    result = await result_of(allowed, command)
    figures = result.workload
    assert result.failure is None and figures is not None
    assert figures.left == 0
    if "flood" in command:
        assert figures.stdout_bytes == 30_000_000 and len(figures.stdout) <= 12
    else:
        assert figures.processes >= processes


async def test_guest_is_measured_from_its_host(
    allowed: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The namespace of "a" is a guest of "b", which stands for a machine: what it sends is what the
    link of "b" receives."""
    monkeypatch.setattr("nictop.model.guests.table.is_other_namespace", lambda snapshot: False)
    guest = allowed.client.name
    request = RunRequest("b", "b", test="manual", guest=guest, time=3, interval=0.2)
    experiment = await prepare_experiment(request, allowed.hosts)
    assert any(f"{guest} is seen from b only" in note for note in experiment.notes)
    (step,) = experiment.steps
    assert step.plan.client.ifindex == allowed.endpoint("b").ifindex and step.plan.guest == guest
    rates = []
    result = None
    with listening(allowed, PORT), process_in(allowed.client, "sh", "-c", sending(4000)):
        listed = ["ss", "-Htn", f"dport = {PORT}"]
        wait_until(lambda: "ESTAB" in allowed.client.run(listed), pause=0.05)
        live = LiveRun(step.plan, allowed.hosts)
        async for event in Run(step.plan, allowed.hosts).events():
            live.process(event)
            if isinstance(event, NicMeasured):
                rates.append(event)
            if isinstance(event, RunFinished):
                result = event.result
    assert result is not None and result.failure is None and result.workload is not None
    nic = result.workload.chosen
    assert nic is not None and nic.sent_bytes and nic.received_bytes is not None
    assert nic.sent_bytes > 50e6 / 8 and nic.sent_bytes > 10 * nic.received_bytes
    assert result.flows[0].goodput is not None and result.flows[0].goodput > 50e6
    assert any((rate.sent or 0) > 50e6 and (rate.received or 0) < 50e6 for rate in rates)
    said = texts(result)
    assert f"nictopt, as {guest} sees it: " in said
    assert f"guest: {guest}: its CPU time is not known; seen from b only" in said
    again = parse_run(encode_run(StoredRun("1", "1", result, 0.0, "0", "run")))
    assert isinstance(again, StoredRun) and again.result.workload == result.workload


async def test_guest_that_is_not_there(allowed: Pair) -> None:
    request = RunRequest("b", "b", test="manual", guest="win10", time=3)
    with pytest.raises(NictopError, match='b has no guest "win10"'):
        await prepare_experiment(request, allowed.hosts)
