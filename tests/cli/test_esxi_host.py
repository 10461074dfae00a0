"""``nictop show`` and ``nictop check`` of an ESXi host, over a real sshd."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from nictop.model.facts import width
from tests.support.esxi import EsxiHost, esxi_host
from tests.support.probe import TEST_TIMEOUT

ROOT = Path(__file__).parent.parent.parent


@pytest.fixture
def esxi(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[EsxiHost]:
    with esxi_host(tmp_path / "sshd", monkeypatch) as host:
        yield host


def nictop(esxi: EsxiHost, home: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = os.environ | esxi.sshd.client(home)
    return subprocess.run(
        [sys.executable, "-m", "nictop", *arguments, f"esx1={esxi.sshd.word}"],
        check=False,
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        cwd=ROOT,
        env=environment,
        timeout=TEST_TIMEOUT,
    )


def errors_of(done: subprocess.CompletedProcess[str]) -> list[str]:
    """Without what is waited for, on a loaded machine."""
    return [line for line in done.stderr.splitlines() if not line.startswith("waiting: ")]


def test_show(esxi: EsxiHost, tmp_path: Path) -> None:
    done = nictop(esxi, tmp_path / "home", "show", "--sudo")
    assert (done.returncode, errors_of(done)) == (0, [])
    lines = done.stdout.splitlines()
    assert lines[0].startswith(
        "esx1 · ESXi host (experimental) · 8 CPUs · VMkernel 7.0.3 · rates over"
    )
    text = " ".join(done.stdout.split())
    assert "experimental: not tested on a real ESXi host" in text
    assert "VF 1 3b:02.1 db1" in text and "Assigned to VM db1" in text
    assert "Attributes MAC unknown · VLAN unknown · spoof check unknown" in text
    assert "Counters not read: no VM has it" in text
    assert "Switch port not known: not offered by ESXi" in text
    assert (
        "web1 2 vCPUs · 110 % of a CPU · CPU ready 0.3 % · co-stop 0 % · web1.eth0 by vmnic0"
        in text
    )
    assert "CPU ready 12 % · co-stop 2.0 % · db1.eth0 by vmnic0 · VF 1 of vmnic4" in text
    assert max(map(width, lines)) <= 120


def test_show_as_json(esxi: EsxiHost, tmp_path: Path) -> None:
    done = nictop(esxi, tmp_path / "home", "show", "--format", "json")
    assert (done.returncode, errors_of(done)) == (0, [])
    (document,) = json.loads(done.stdout)["hosts"]
    assert document["counter_names"]["waits"] == ["ready", "costop"]
    assert sorted(document["counters"]["waits"]) == ["2100870", "2100871", "2105234", "2105235"]


def test_check(esxi: EsxiHost, tmp_path: Path) -> None:
    done = nictop(esxi, tmp_path / "home", "check", "--watch", "6")
    assert (done.returncode, errors_of(done)) == (1, [])
    assert "without the checks of Linux hosts" in done.stdout.splitlines()[0]
    assert "✖ critical db1: 12 % CPU ready, 2.0 % co-stop" in done.stdout
    assert "1 critical (" in done.stdout and "skipped" not in done.stdout
