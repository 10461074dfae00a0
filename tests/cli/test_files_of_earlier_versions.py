"""Recordings, results and configuration of 0.1.0 are read by this version, as docs/releases/0.2.0.md
says."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

FILES = Path(__file__).parents[1] / "data/0.1.0"
RECORDING = Path(__file__).parents[1] / "data/recordings/format-1.nictop"
TIMEOUT = 60


def nictop(folder: Path, *words: str, code: int = 0) -> str:
    """stdout; the files are in a copy. `code`: the exit code that is expected."""
    copy = folder / "files"
    shutil.copytree(FILES, copy, dirs_exist_ok=True)
    places = {"XDG_CONFIG_HOME": str(copy / "config"), "XDG_STATE_HOME": str(copy / "state")}
    done = subprocess.run(
        [sys.executable, "-m", "nictop", *words],
        env={**os.environ, **places, "HOME": str(folder)}, cwd=folder,
        capture_output=True, text=True, timeout=TIMEOUT, check=False,
    )  # fmt: skip
    assert done.returncode == code, done
    return done.stdout


def test_a_result_of_0_1_0_is_listed_and_reported(tmp_path: Path) -> None:
    listed = nictop(tmp_path, "traffic", "--list")
    assert "client → server TCP old" in listed and "2.60 Gb/s" in listed
    report = nictop(tmp_path, "report", "old", "-o", "-", "--format", "markdown")
    assert "client → server: old, 2.60 Gb/s ▲ path not verified" in report


def test_a_result_of_0_1_0_stays_as_it_is(tmp_path: Path) -> None:
    (before,) = FILES.glob("state/nictop/runs/*.json")
    nictop(tmp_path, "report", "old", "-o", "-", "--format", "markdown")
    (after,) = (tmp_path / "files").glob("state/nictop/runs/*.json")
    assert json.loads(after.read_text()) == json.loads(before.read_text())


def test_hosts_and_groups_of_a_configuration_of_0_1_0(tmp_path: Path) -> None:
    assert {"pve", "lab"} <= set(nictop(tmp_path, "completion", "hosts").split())


@pytest.mark.parametrize(
    ("words", "code", "expected"),
    [
        (
            ("show",),
            0,
            "Not available not in this recording, made by an older nictop: devlink, filters, guests",
        ),
        (("check", "--skipped"), 1, "packet filters (nf_tables, iptables): not in this recording"),
        (("report", "-o", "-", "--format", "markdown"), 0, "not in this recording"),
        (("diff", f"{RECORDING}/virtio-4-queues"), 1, "2 differences; 21 not known"),
    ],
)
def test_a_recording_of_0_1_0_is_read_by_every_command(
    tmp_path: Path, words: tuple[str, ...], code: int, expected: str
) -> None:
    command, *options = words
    host = f"{RECORDING}/wired-connection-1"
    output = nictop(tmp_path, command, host, *options, code=code)
    assert expected in " ".join(output.split()), output


def test_the_file_of_a_plain_name_is_not_taken_for_a_host(tmp_path: Path) -> None:
    shutil.copy(RECORDING, tmp_path / "old")
    assert "wired-connection-1" in nictop(tmp_path, "show", "./old")
    assert nictop(tmp_path, "show", "old", code=2) == ""
