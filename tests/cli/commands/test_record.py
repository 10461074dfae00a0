"""``nictop record`` with the real probe, and ``show`` and ``check`` of its recordings."""

from __future__ import annotations

import asyncio
import json
import os
import pty
import re
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from datetime import datetime
from pathlib import Path
from typing import Literal

import msgspec
import pytest

from nictop.cli.commands import record
from nictop.cli.hosts import NOT_RECORDED_MESSAGE
from nictop.cli.main import main
from nictop.errors import HostUnreachable
from nictop.probe.records import Line
from nictop.recording.file.frames import (
    HEADER_FRAME,
    HEADER_SIZE,
    RECORDING_PREFIX,
    RecordingError,
    pack_frame,
    parse_header,
)
from nictop.recording.file.header import RecordingHeader
from nictop.recording.reader import Recording
from nictop.recording.time_spec import resolve_time
from nictop.recording.writer import Recorder, recorded_source
from nictop.wire.source import SourceState
from tests.support.hostile import FILE_NAME as HOSTILE
from tests.support.lines import counters, hello, inventory, link
from tests.support.namespaces import ROOT
from tests.support.probe import TEST_TIMEOUT, is_alive, wait_until
from tests.support.recordings import TimedItem, host_items, lines_of, read_all, write_recording
from tests.support.sources import ScriptedSource

BEGIN = 1000.25


def nictop(*arguments: str, cwd: Path = ROOT) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "nictop", *arguments],
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=60,
        check=False,
        stdin=subprocess.DEVNULL,
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )


# ------------------------------------------------------------------------------------------- record


def test_this_host_is_recorded_and_shown(tmp_path: Path) -> None:
    done = nictop("record", "r", "--time", "2", "--interval", "0.2", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (0, "")
    name = os.uname().nodename
    assert done.stderr.startswith(f"{name}: live · ") and done.stderr.count("\n") == 1
    with Recording.open(str(tmp_path / "r")) as recording:
        assert recording.hosts == (name,) and recording.closed
        lines = lines_of(read_all(recording, name))
        times = [line.counters.time for line in lines if line.counters is not None]
        assert len(times) >= 5 and times == sorted(times)
        assert recording.boot_id == Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        assert recording.begin <= recording.end <= recording.begin + 10.0
    show_text_of = json.loads(nictop("show", "./r", "--format", "json", cwd=tmp_path).stdout)[
        "hosts"
    ]
    assert [host["hello"]["hostname"] for host in show_text_of] == [name]
    assert (
        "lo" in {one["name"] for one in show_text_of[0]["inventory"]["links"]}
        and show_text_of[0]["rates"]["links"]
    )
    checked = nictop("check", "./r", "--format", "json", cwd=tmp_path)
    assert checked.returncode in (0, 1)
    assert json.loads(checked.stdout)["rules"] > 50


def test_ctrl_c_ends_it_with_a_closed_file(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "nictop", "record", str(tmp_path / "r"), "--interval", "0.1"]
    with subprocess.Popen(
        command,
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        stdin=subprocess.DEVNULL,
        text=True,
    ) as process:
        try:
            wait_until(lambda: probes_of(process.pid))
            wait_until((tmp_path / "r").exists)
            probes = probes_of(process.pid)
            process.send_signal(signal.SIGINT)
            stdout, stderr = process.communicate(timeout=TEST_TIMEOUT)
        finally:
            process.kill()
    assert stdout == "" and stderr.count("\n") <= 3
    assert process.returncode in (
        0,
        3,
    )  # 3: the signal was received before the first line of the probe
    with Recording.open(str(tmp_path / "r")) as recording:
        assert recording.closed
    wait_until(lambda: not any(map(is_alive, probes)))


def probes_of(pid: int) -> list[int]:
    """Child processes of a process, which may have no thread yet."""
    try:
        return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []


def test_progress_is_one_line_of_a_terminal(tmp_path: Path) -> None:
    outside, inside = pty.openpty()
    command = [sys.executable, "-m", "nictop", "record", str(tmp_path / "r"), "--time", "2"]
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.DEVNULL, stderr=inside) as process:
        os.close(inside)
        output = b""
        try:
            while part := os.read(outside, 4096):
                output += part
        except OSError:  # the other side is closed
            pass
        finally:
            os.close(outside)
    assert process.returncode == 0
    assert output.count(b"\n") == 1 and output.count(b"\r") >= 3
    assert b"live" in output.rpartition(b"\r")[0]


def test_seconds_count_from_the_first_reading() -> None:
    host = record._HostProgress()
    slow = 10.0 + record.FIRST_READING_SECONDS
    assert host.ends_at(0.0, 10.0) == slow
    host.process(SourceState("live"), 1.0)
    host.process(hello(), 2.0)
    assert (host.ends_at(0.0, 10.0), bool(host.has_reading)) == (slow, False)
    host.process(counters(1.0, {}), 30.0)
    assert (host.ends_at(0.0, 10.0), bool(host.has_reading)) == (slow, True), (
        "it cannot be shown without an inventory"
    )
    host.process(inventory(), 35.0)
    host.process(counters(2.0, {}), 36.0)
    assert host.ends_at(0.0, 10.0) == 40.0
    host.process(SourceState("lost", "gone"), 37.0)
    assert host.ends_at(0.0, 10.0) == 40.0


@pytest.mark.parametrize("state", ["lost", "failed"])
def test_a_host_that_cannot_be_reached_is_not_waited_for(state: Literal["lost", "failed"]) -> None:
    host = record._HostProgress()
    host.process(SourceState(state, "connection refused"), 1.0)
    host.process(SourceState("connecting"), 2.0)
    assert host.ends_at(0.0, 10.0) == 10.0


class EndingSource(ScriptedSource):
    """Ends when it is closed."""

    async def items(self) -> AsyncIterator[Line | SourceState]:
        changed = self.changed = asyncio.Event()
        items = super().items()
        while True:
            item = asyncio.ensure_future(anext(items))
            item.add_done_callback(lambda _: changed.set())
            await changed.wait()
            changed.clear()
            if self.closed:
                item.cancel()
                return
            yield item.result()

    async def close(self) -> None:
        await super().close()
        self.changed.set()


def recorded(path: Path, source: ScriptedSource, seconds: float) -> int:
    """The exit code of a recording of one host."""

    async def run() -> int:
        recorder = Recorder(str(path))
        return await record._RecordingRun(recorder, [recorded_source(source, recorder)]).run(
            seconds
        )

    return asyncio.run(run())


def test_a_recording_does_not_end_before_the_first_reading(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Which comes after the seconds of --time here."""
    source, seconds, shown = EndingSource("slow"), 0.01, list[float]()
    source.send(SourceState("live"), hello())

    def show(_: object, text: str) -> None:
        shown.append(asyncio.get_running_loop().time())
        if shown[-1] > shown[0] + seconds:
            source.send(
                inventory(link(1, "lo"), time=1.0),
                *(counters(time, {1: (0, 0)}) for time in (1.0, 2.0)),
            )

    monkeypatch.setattr(record, "PROGRESS_SECONDS", 2 * seconds)
    monkeypatch.setattr("nictop.cli.progress_line.ProgressLine.show", show)
    assert recorded(tmp_path / "r", source, seconds) == 0
    assert main(["show", str(tmp_path / "r"), "--format", "json"]) == 0


def test_a_recording_without_a_reading_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And so are the commands that read it."""
    source = EndingSource("mute")
    source.send(SourceState("live"), hello())
    monkeypatch.setattr(record, "FIRST_READING_SECONDS", 0.01)
    with pytest.raises(HostUnreachable, match=r"^no reading was recorded$") as raised:
        recorded(tmp_path / "r", source, 0.01)
    assert (
        raised.value.exit_code == 3
        and raised.value.hint == "mute: it was live, and sent no reading"
    )
    for command in ("show", "check"):
        for form in ("text", "json"):
            assert main([command, str(tmp_path / "r"), "--format", form]) == 3
    assert main(["report", str(tmp_path / "r"), "--output", str(tmp_path / "page")]) == 3


def test_a_recording_without_any_host_is_an_error_with_exit_code_3(tmp_path: Path) -> None:
    write_recording(tmp_path / "r", [])
    for command in ("show", "check"):
        assert main([command, str(tmp_path / "r")]) == 3


def test_exit_code_3_without_a_reachable_host(tmp_path: Path) -> None:
    done = nictop("record", str(tmp_path / "r"), "dead=127.0.0.1:1", "--time", "5")
    assert done.returncode == 3
    assert "no host could be reached" in done.stderr and "connection refused" in done.stderr
    with Recording.open(str(tmp_path / "r")) as recording:
        assert recording.hosts == ("dead",) and lines_of(read_all(recording, "dead")) == []


def test_one_reachable_host_is_sufficient(tmp_path: Path) -> None:
    done = nictop("record", str(tmp_path / "r"), "local", "dead=127.0.0.1:1", "--time", "2")
    assert done.returncode == 0 and "1 of 2 hosts live" in done.stderr
    show_text_of = nictop("show", str(tmp_path / "r"))
    assert show_text_of.returncode == 3 and "dead · not read" in show_text_of.stdout
    assert "not recorded: dead: " in done.stderr and "connection refused" in done.stderr


def test_nothing_is_overwritten_without_force(tmp_path: Path) -> None:
    (tmp_path / "r").write_text("precious")
    done = nictop("record", str(tmp_path / "r"), "--time", "1")
    assert done.returncode == 2 and "already exists" in done.stderr and "--force" in done.stderr
    assert (tmp_path / "r").read_text() == "precious"
    assert nictop("record", str(tmp_path / "r"), "--time", "1", "--force").returncode == 0
    with Recording.open(str(tmp_path / "r")) as recording:
        assert recording.closed


def test_an_invalid_host_creates_no_file(tmp_path: Path) -> None:
    done = nictop("record", str(tmp_path / "r"), "a b")
    assert done.returncode == 2 and "is not a valid host" in done.stderr
    assert os.listdir(tmp_path) == []


def test_removal_of_the_file_ends_the_recording(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "nictop", "record", str(tmp_path / "r"), "--interval", "0.1"]
    with subprocess.Popen(
        command, cwd=ROOT, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True
    ) as process:
        try:
            wait_until(lambda: probes_of(process.pid))
            (tmp_path / "r").unlink()
            _, stderr = process.communicate(timeout=TEST_TIMEOUT)
        finally:
            process.kill()
    assert process.returncode == 2 and re.search(r"recording stopped: \S+ was removed", stderr)


# -------------------------------------------------------------------------------------- show, check


@pytest.fixture
def file(tmp_path: Path) -> Path:
    items = host_items("a", 700)
    renamed = inventory(link(1, "lo"), link(2, "later"), time=1400.0)
    items += [("a", renamed, 1400.5), ("b", hello(), 1200.0)]
    write_recording(tmp_path / "r", sorted(items, key=lambda one: one[2]))
    return tmp_path / "r"


def show_text_of(
    file: Path, *arguments: str, capsys: pytest.CaptureFixture[str]
) -> tuple[int, str]:
    code = main(["show", str(file), "--format", "json", *arguments])
    return code, capsys.readouterr().out


def test_show_at_the_end_and_at_earlier_times(
    file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for at, name, time in (
        ((), "later", 1700.0 - 0.15),
        (("--at", "+100"), "ens192", 1099.85),
        (
            ("--at", "end"),
            "later",
            1699.85,
        ),
    ):
        code, out = show_text_of(file, *at, capsys=capsys)
        a, b = json.loads(out)["hosts"]
        assert code == 3 and b == {"host": "b", "unreachable": NOT_RECORDED_MESSAGE}
        assert [one["name"] for one in a["inventory"]["links"]] == ["lo", name]
        assert a["counters"]["time"] == pytest.approx(time)
        second = round(time - BEGIN - 0.6)
        assert a["rates"]["links"]["2"]["tx_bits"] == pytest.approx(second * 1_000_000)


def test_a_time_before_the_first_data_names_the_one_that_can_be_typed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """``--time`` counts from the first reading, ``--at +N`` from the begin of connecting: after
    ``recorded 3 s`` there was "no data" at +2."""
    connecting = ("a", SourceState("connecting"), BEGIN)
    path = tmp_path / "r.nictop"
    write_recording(path, [connecting, *host_items("a", 3, BEGIN + 4.1)])
    for command in ("show", "diff"):
        main([command, str(path), "--at", "+2", *(("--at", "end") if command == "diff" else ())])
        said = " ".join("".join(capsys.readouterr()).split())
        assert "no data of this host yet at +2.0 s" in said, said
        assert "its data with +4.6 s; use --at +5" in said, said
    assert main(["show", str(path), "--at", "+5"]) == 0


def test_readings_before_the_first_inventory_are_not_denied(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A slow host has counters for half a minute before its interfaces are read."""
    state, live, greeting, (name, known, _), *readings = host_items("a", 30, BEGIN)
    items = [state, live, greeting, *readings, (name, known, BEGIN + 20.2)]
    path = tmp_path / "r.nictop"
    write_recording(path, sorted(items, key=lambda one: one[2]))
    assert main(["show", str(path), "--at", "+10"]) == 3
    said = " ".join("".join(capsys.readouterr()).split())
    assert "its interfaces were being read at +10.0 s, and were with +20.2 s" in said, said
    assert "use --at +21" in said and "no data" not in said, said


def test_the_time_to_type_is_in_the_recording(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "r.nictop"
    connecting = ("a", SourceState("connecting"), BEGIN)
    write_recording(path, [connecting, *host_items("a", 1, BEGIN + 4.1)])
    main(["show", str(path), "--at", "+2"])
    assert "use --at end" in "".join(capsys.readouterr())
    assert main(["show", str(path), "--at", "end"]) == 0


def test_values_of_a_lost_host_have_their_age(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The heading named the time that was asked for, the rates were of ten seconds before."""
    items = [
        *host_items("a", 20, BEGIN),
        ("a", SourceState("lost", "no data", 2.0), BEGIN + 22.0),
        ("a", SourceState("connecting"), BEGIN + 24.0),
        ("b", hello(), BEGIN),
        ("b", SourceState("live"), BEGIN + 40.0),
    ]
    write_recording(tmp_path / "r.nictop", sorted(items, key=lambda item: item[2]))
    for command in ("show", "check", "guests"):
        main([command, str(tmp_path / "r.nictop"), "--at", "+30"])
        text = " ".join(capsys.readouterr().out.split())
        assert "UTC · no data for 10 s" in text, command
        main([command, str(tmp_path / "r.nictop"), "--at", "+15"])
        assert "no data for" not in capsys.readouterr().out, command
    recorded = {}
    for time in ("+15", "+30"):
        main(["show", str(tmp_path / "r.nictop"), "--at", time, "--format", "json"])
        recorded[time] = json.loads(capsys.readouterr().out)["hosts"][0]
    assert recorded["+30"]["data_age"] == pytest.approx(10.4)
    has_rates = {time: host["rates"] is not None for time, host in recorded.items()}
    assert has_rates == {"+15": True, "+30": False}, "the live screen had none either"


def test_a_recording_says_what_the_live_screen_said_of_the_last_hour(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """``lost its carrier 4 times while it was watched`` rests on what was long before the position; NICs
    that somebody set down and up have not flapped."""
    items = host_items("a", 700, BEGIN)
    for number in range(9):
        ens192 = link(
            2,
            "ens192",
            device="0000:03:00.0",
            bus="pci",
            carrier_changes=2 + number,
            carrier=number % 2 == 0,
        )
        flags = 0x1002 if number % 2 else 0x11043
        ens224 = link(
            3, "ens224", device="0000:0b:00.0", bus="pci", carrier_changes=2 + number, flags=flags,
            carrier=number % 2 == 0,
        )  # fmt: skip
        for repeated in range(3):
            time = BEGIN + 20 + 10 * number + repeated
            items.append(("a", inventory(ens192, ens224, time=time), time + 0.5))
    write_recording(tmp_path / "r.nictop", sorted(items, key=lambda item: item[2]))
    main(["check", str(tmp_path / "r.nictop"), "--at", "end"])
    _, *lines = capsys.readouterr().out.splitlines()  # the first one names all events
    watched = [line for line in lines if "while it was watched" in line]
    assert "ens192: lost its carrier 4 times" in watched[0]
    assert not any("ens224" in line for line in watched)
    main(["check", str(tmp_path / "r.nictop"), "--at", "+30"])
    _, *lines = capsys.readouterr().out.splitlines()
    assert not any("while it was watched" in line for line in lines)


def test_check_at_a_time_of_a_recording(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code = main(["check", str(file), "--at", "+300", "--format", "json"])
    document = json.loads(capsys.readouterr().out)
    assert code == 3
    assert [host["host"] for host in document["hosts"]] == ["a"]
    assert document["unreachable"] == [{"host": "b", "unreachable": NOT_RECORDED_MESSAGE}]


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["--at", "+9999"], "+9999 is outside the recording"),
        (["--at", "yesterday"], "invalid time 'yesterday'"),
        (["--at", "25:00:00"], "invalid time '25:00:00'"),
        (["--at", "1999-01-01"], "1999-01-01 is outside the recording"),
        (["--at", "+1e9"], "invalid time '+1e9'"),
        (["other"], "a recording cannot be combined with hosts or another recording"),
    ],
)
def test_an_invalid_time_is_a_usage_error(
    file: Path, words: list[str], expected: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["show", str(file), *words]) == 2
    captured = capsys.readouterr()
    assert captured.out == "" and expected in captured.err


def test_a_time_without_a_recording_is_a_usage_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["show", "--at", "end"]) == 2
    assert "--at needs a recording" in capsys.readouterr().err
    assert main(["show", f"{tmp_path}/none"]) == 2
    assert f"cannot read {tmp_path}/none: No such file" in capsys.readouterr().err
    (tmp_path / "text").write_text("hello")
    assert main(["check", f"{tmp_path}/text"]) == 2
    assert "is not a nictop recording" in capsys.readouterr().err


def test_names_with_control_sequences(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    items: list[TimedItem] = [(HOSTILE, item, time) for _, item, time in host_items("a", 5)]
    items.append((HOSTILE, inventory(link(2, HOSTILE), time=1006.0), 1006.0))
    write_recording(tmp_path / HOSTILE, items)
    for command in (["show"], ["check"], ["check", "--format", "markdown"]):
        main([*command, f"{tmp_path}/{HOSTILE}"])
        main([*command, f"{tmp_path}/{HOSTILE}", "--at", HOSTILE])
        captured = capsys.readouterr()
        assert captured.out and captured.err
        for text in captured:
            assert "\x1b" not in text and "\u202e" not in text


def set_clocks(path: Path, monotonic: float, wall: float) -> None:
    """Set the clocks in the header of a recording."""
    data = path.read_bytes()
    first = parse_header(data[len(RECORDING_PREFIX) : len(RECORDING_PREFIX) + HEADER_SIZE])
    assert first is not None
    header = pack_frame(
        HEADER_FRAME, msgspec.json.encode(RecordingHeader("0", 1, monotonic, wall, ""))
    )
    path.write_bytes(RECORDING_PREFIX + header + data[len(RECORDING_PREFIX) + first.size :])


INVALID_CLOCKS = [
    *(
        (BEGIN, wall)
        for wall in (1e300, -1e300, 1e18, 1e15, 253402300799.0, -62135596800.0, -1e11, 5e-324)
    ),
    *((monotonic, 1.7e9) for monotonic in (1e300, -1e300, 1e18)),
]
"""CLOCK_MONOTONIC and seconds since the epoch: beyond the years 1 to 9999, at their edges, beyond
time_t."""


@pytest.mark.parametrize(("monotonic", "wall"), INVALID_CLOCKS)
@pytest.mark.parametrize(
    "at", ["end", "+1", "+99", "14:03:20", "2026-11-21T14:03:20", "0001-01-01", "9998-12-31"]
)
def test_a_recording_with_an_invalid_time_of_day(
    tmp_path: Path, monotonic: float, wall: float, at: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Times from the beginning or end do not need it; a time of day is an error."""
    write_recording(tmp_path / "r", host_items("a", 5))
    set_clocks(tmp_path / "r", monotonic, wall)
    code = main(["show", str(tmp_path / "r"), "--at", at])
    captured = capsys.readouterr()
    if at in ("end", "+1"):
        assert code == 0 and "ens192" in captured.out and captured.err == ""
    else:
        assert code == 2 and captured.out == "" and captured.err.startswith("nictop: ")
        reasons = (
            f"{at} is outside the recording",
            "this recording has no time of day",
            f"invalid time {at!r}",
        )
        assert any(reason in captured.err for reason in reasons), captured.err


@pytest.mark.parametrize(("monotonic", "wall"), INVALID_CLOCKS)
def test_a_report_of_a_recording_with_an_invalid_time_of_day(
    tmp_path: Path, monotonic: float, wall: float, capsys: pytest.CaptureFixture[str]
) -> None:
    write_recording(tmp_path / "r", host_items("a", 5))
    set_clocks(tmp_path / "r", monotonic, wall)
    assert main(["report", str(tmp_path / "r"), "--output", str(tmp_path / "page.html")]) == 0, (
        capsys.readouterr().err
    )
    assert main(["check", str(tmp_path / "r")]) in (0, 1)


def test_times_of_day(tmp_path: Path) -> None:
    """Before and after midnight."""
    begin = datetime(2026, 3, 14, 23, 59, 30)
    write_recording(
        tmp_path / "r", [("a", hello(), BEGIN), ("a", counters(BEGIN, {}), BEGIN + 7200.0)]
    )
    set_clocks(tmp_path / "r", BEGIN, begin.timestamp())
    with Recording.open(str(tmp_path / "r")) as recording:
        places = {
            "+0": 0.0,
            "+61.5": 61.5,
            "23:59:30": 0.0,
            "23:59:31": 1.0,
            "00:00:30": 60.0,
            "0:01": 90.0,
            "2026-03-15T01:59:30": 7200.0,
            "2026-03-15 01:59:00": 7170.0,
            "end": 7200.0,
        }
        assert {text: resolve_time(text, recording) - BEGIN for text in places} == pytest.approx(
            places, abs=2e-3
        )
        for text in ("23:59:20", "2026-03-14T23:59:00", "03:00"):
            with pytest.raises(RecordingError, match="is outside the recording"):
                resolve_time(text, recording)


def test_a_time_of_day_is_the_last_one(tmp_path: Path) -> None:
    """In a recording of two days and a half."""
    begin = datetime(2026, 3, 14, 12, 0, 0)
    write_recording(
        tmp_path / "r", [("a", hello(), BEGIN), ("a", counters(BEGIN, {}), BEGIN + 60 * 3600.0)]
    )
    set_clocks(tmp_path / "r", BEGIN, begin.timestamp())
    with Recording.open(str(tmp_path / "r")) as recording:
        hours = {"03:12": 39.2, "13:00": 49.0, "00:00": 60.0, "23:59": 59.0 + 59 / 60}
        found = {text: (resolve_time(text, recording) - BEGIN) / 3600 for text in hours}
    assert found == pytest.approx(hours, abs=1e-3)


def test_the_help_says_that_no_test_is_recorded(tmp_path: Path) -> None:
    """A test of ``nictop traffic`` is not in the file: only the live screen notes one."""
    shown = " ".join(nictop("record", "--help", cwd=tmp_path).stdout.split())
    assert "No traffic test is in it" in shown and "on the live screen" in shown


def test_a_host_that_is_not_reached_is_named_once(tmp_path: Path) -> None:
    """Reasons of what is reached through a host begin with its name."""
    name = "local/netns:nictop-absent"
    done = subprocess.run(
        [sys.executable, "-m", "nictop", "record", str(tmp_path / "r"), name, "--time", "1"],
        capture_output=True,
        text=True,
        timeout=TEST_TIMEOUT,
        check=False,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert done.returncode == 3
    assert f"{name}: " in done.stderr and f"{name}: {name}" not in done.stderr
