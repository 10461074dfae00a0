"""Results and configuration that 0.1.0 wrote or read are read by this version.

Recordings: tests/recording/test_reader.py (format-1.nictop).
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

FILES = Path(__file__).parents[1] / "data/0.1.0"
TIMEOUT = 60


def nictop(folder: Path, *words: str) -> str:
    """stdout; the files are in a copy."""
    copy = folder / "files"
    shutil.copytree(FILES, copy, dirs_exist_ok=True)
    places = {"XDG_CONFIG_HOME": str(copy / "config"), "XDG_STATE_HOME": str(copy / "state")}
    done = subprocess.run(
        [sys.executable, "-m", "nictop", *words],
        env={**os.environ, **places, "HOME": str(folder)}, cwd=folder,
        capture_output=True, text=True, timeout=TIMEOUT, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done
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
