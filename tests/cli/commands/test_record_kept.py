"""``nictop record --keep`` with the real probe, the commands that read its directory, and
``--unit``."""

from __future__ import annotations

import configparser
import json
import os
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from nictop.probe.records import Line
from nictop.recording.segments import open_recording
from tests.support.namespaces import ROOT
from tests.support.probe import TEST_TIMEOUT, wait_until
from tests.support.recordings import read_all

ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT)}


def nictop(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "nictop", *arguments],
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=TEST_TIMEOUT,
        check=False,
        stdin=subprocess.DEVNULL,
        cwd=folder,
        env=ENVIRONMENT,
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """With a directory ``kept`` that two recorders have written, one after the other."""
    folder = tmp_path_factory.mktemp("record")
    for _ in range(2):
        done = nictop(folder, "record", "--keep", "24h", "kept", "--time", "2")
        assert (done.returncode, done.stdout) == (0, ""), done.stderr
    return folder


def first_reading(folder: Path) -> float:
    """Seconds from the begin until an inventory and two readings of counters were recorded."""
    with open_recording(str(folder / "kept")) as recording:
        has_inventory, counters = False, 0
        for item in read_all(recording, recording.hosts[0]):
            if isinstance(item.received, Line):
                has_inventory = has_inventory or item.received.inventory is not None
                counters += has_inventory and item.received.counters is not None
            if counters == 2:
                return item.time - recording.begin + 0.001
    raise AssertionError("fewer than two readings")


def test_every_command_reads_the_directory(folder: Path) -> None:
    assert len(list((folder / "kept").iterdir())) == 2
    shown = json.loads(nictop(folder, "show", "./kept", "--format", "json").stdout)["hosts"][0]
    assert shown["inventory"]["links"] and shown["rates"]["elapsed"] > 0
    words = ("show", "kept/", "--format", "json", "--at", f"+{first_reading(folder):.3f}")
    earlier = json.loads(nictop(folder, *words).stdout)["hosts"][0]
    assert earlier["recorded_at"] < shown["recorded_at"] and earlier["host"] == shown["host"]
    assert "recorded " in nictop(folder, "check", "./kept").stdout
    times = ("--at", f"+{first_reading(folder):.3f}", "--at", "end")
    same = nictop(folder, "diff", "./kept", "./kept", *times)
    assert same.returncode in (0, 1) and "ifference" in same.stdout
    report = nictop(folder, "report", "./kept", "-o", "-", "--format", "markdown")
    assert report.returncode == 0 and shown["host"] in report.stdout


def test_it_is_followed_while_it_is_written(folder: Path) -> None:
    command = [sys.executable, "-m", "nictop", "record", "--keep", "24h", "live"]
    with subprocess.Popen(
        command, cwd=folder, env=ENVIRONMENT, stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL
    ) as process:
        try:
            wait_until(lambda: nictop(folder, "show", "./live").returncode == 0, pause=0.2)
            second = nictop(folder, "record", "--keep", "24h", "live", "--time", "1")
        finally:
            process.send_signal(signal.SIGINT)
            process.wait(TEST_TIMEOUT)
    assert second.returncode == 2 and "another nictop records to live" in second.stderr
    assert process.returncode == 0 and len(list((folder / "live").iterdir())) == 1


def test_a_directory_is_no_host(folder: Path) -> None:
    shown = nictop(folder, "show", "kept")
    assert shown.returncode == 2 and "for the directory with recordings: ./kept" in shown.stderr
    shown = nictop(folder, "show", "./")
    assert shown.returncode == 2 and "a directory without a recording" in shown.stderr


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["--keep", "5m", "x"], "from 10 minutes to 366 days"),
        (["--keep", "1M", "x"], "from 16 MB to 10 TB"),
        (["--keep", "24", "x"], "'24' is not 30m, 24h"),
        (["--keep", "99999999999h", "x"], "is not 30m, 24h"),
        (["--keep", "1h", "--keep", "2h", "x"], "once a time and once a size"),
        (["--keep", "1h", "--force", "x"], "--force overwrites a file"),
        (["--unit", "x"], "--unit needs --keep"),
        (["--keep", "1h", "text"], "is not a directory"),
        (["--keep", "1h", "none/deeper"], "No such file or directory"),
        (["--keep", "1h", "--unit", "a\nExecStart=b"], "control characters"),
    ],
)
def test_what_cannot_be_is_refused(tmp_path: Path, arguments: list[str], why: str) -> None:
    (tmp_path / "text").write_text("mine")
    refused = nictop(tmp_path, "record", *arguments)
    assert refused.returncode == 2 and why in refused.stderr
    assert [file.name for file in tmp_path.iterdir()] == ["text"]


def test_the_unit_runs_this_command(tmp_path: Path) -> None:
    directory = str(tmp_path / "100% of it")
    printed = nictop(tmp_path, "record", "--keep", "7d", "100% of it", "vm1", "--unit")
    assert printed.returncode == 0 and not list(tmp_path.iterdir())
    assert f"install -d -m 700 {shlex.quote(directory)}" in printed.stdout
    service = unit(printed.stdout)["Service"]
    words = shlex.split(service["ExecStart"].replace("%%", "%").replace("$$", "$"))
    assert words[1:] == ["-m", "nictop", "record", "--keep", "7d", directory, "vm1"]
    assert Path(words[0]).samefile(sys.executable)
    assert shlex.split(service["ReadWritePaths"]) == [directory.replace("%", "%%")]


def test_a_directory_that_systemd_makes(tmp_path: Path) -> None:
    service = unit(nictop(tmp_path, "record", "--keep", "7d", "/var/log/nictop", "--unit").stdout)
    assert service["Service"]["LogsDirectory"] == "nictop"
    assert "ReadWritePaths" not in service["Service"]
    assert service["Unit"]["Description"] == "nictop: recording of this host"


def unit(text: str) -> configparser.ConfigParser:
    parser = configparser.ConfigParser(interpolation=None)
    parser.optionxform = str  # type: ignore[assignment,method-assign]
    parser.read_string(text)
    return parser
