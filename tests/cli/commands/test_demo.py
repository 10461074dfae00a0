"""``nictop demo``: content of the recording, its screens, and that it needs only Python."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import sysconfig
import venv
from collections.abc import Mapping, Sequence
from importlib.resources import files
from pathlib import Path

import pytest

from nictop.cli.commands.demo import DEMO_FILE, DEMO_NIC, DEMO_START_SECONDS
from nictop.cli.hosts import read_recorded_hosts
from nictop.hosts.observe import Unreachable
from nictop.model.snapshot import watchable_links
from nictop.probe.records import Line
from nictop.recording.reader import Recording
from nictop.replay.run_index import run_marks
from nictop.rules import HostFacts
from nictop.rules.registry import diagnose
from tests.cli.test_main import ROOT, TIMEOUT, run
from tests.support.terminal import TerminalProgram

MAX_DEMO_BYTES = 300_000
"""The recording is part of every installation."""
DEMO = str(files("nictop.recording").joinpath(DEMO_FILE))
WIDE, NARROW = (120, 36), (80, 24)


# ------------------------------------------------------------------------------------ what is in it


def test_the_recording_is_small_and_complete() -> None:
    assert os.path.getsize(DEMO) < MAX_DEMO_BYTES
    with Recording.open(DEMO) as recording:
        assert recording.closed and recording.damage_count == 0
        assert len(recording.hosts) == 2
        assert 60 <= recording.end - recording.begin <= 100


def test_the_recording_has_data_for_every_screen() -> None:
    for moment in (f"+{DEMO_START_SECONDS:g}", "end"):
        for answer in read_recorded_hosts(DEMO, moment):
            assert not isinstance(answer, Unreachable)
            snapshot, _ = answer
            drivers = {
                one.ethtool.driver.driver for one in snapshot.links.values() if one.ethtool.driver
            }
            assert {"vmxnet3", "igb", "igbvf", "virtio_net"} <= drivers
            inventory = snapshot.inventory
            assert inventory is not None
            assert "Wired connection 1" in repr(inventory)
            assert any(one.physical_function is not None for one in snapshot.pci)


def test_it_starts_in_the_first_of_two_traffic_tests() -> None:
    with Recording.open(DEMO) as recording:
        first, second = run_marks(recording)
        assert (
            first.is_complete
            and first.end is not None
            and second.is_complete
            and second.end is not None
        )
        assert first.begin + 2 < recording.begin + DEMO_START_SECONDS < first.end - 5
        assert second.end < recording.end


def test_the_queue_counters_and_interrupts_of_all_nics_were_recorded() -> None:
    with Recording.open(DEMO) as recording:
        for name in recording.hosts:
            reader = recording.reader(name, recording.begin)
            devices, vectors, readings = tuple[int, ...](), set[int](), 0
            while (recorded := reader.next()) is not None:
                line = recorded.item
                if not isinstance(line, Line):
                    continue
                if line.inventory is not None:
                    devices = watchable_links(line.inventory.links)
                    vectors = {one.number for one in line.inventory.interrupts or ()}
                if line.counters is not None and recorded.time >= recording.begin + 3:
                    assert set(devices) == set(line.counters.driver) == set(line.counters.queues)
                    assert set(line.counters.interrupts) == vectors
                    readings += 1
            assert len(devices) == 5 and readings > 60


def findings_at(seconds: float) -> set[tuple[str, str]]:
    """(host, rule)"""
    answers = read_recorded_hosts(DEMO, f"+{seconds:g}")
    hosts = [HostFacts(one[0], one[1].parts) for one in answers if not isinstance(one, Unreachable)]
    return {(one.host, one.rule) for one in diagnose(hosts).findings}


def test_findings_come_and_go() -> None:
    seen = [findings_at(seconds) for seconds in range(int(DEMO_START_SECONDS), 95, 4)]
    everything = set().union(*seen)
    assert {
        ("alma-load-001", "mtu_differs_in_one_subnet"),
        ("alma-load-001", "offloads_are_off"),
        ("alma-load-001", "one_processor_takes_all_interrupts"),
        ("alma-load-002", "port_of_virtual_functions_is_down"),
    } <= everything - seen[-1]
    assert len(everything - seen[0]) >= 2
    assert all("profile_is_generated" in {rule for _, rule in one} for one in seen)


def test_the_nic_chosen_at_first_carries_the_traffic() -> None:
    for answer in read_recorded_hosts(DEMO, f"+{DEMO_START_SECONDS:g}"):
        assert not isinstance(answer, Unreachable)
        snapshot, _ = answer
        assert snapshot.rates is not None
        bits = {
            name: (one.rx_bits or 0) + (one.tx_bits or 0)
            for name, one in snapshot.rates.links.items()
        }
        assert snapshot.links[max(bits, key=bits.__getitem__)].name == DEMO_NIC


def test_the_recording_contains_only_the_guests() -> None:
    """It contains nothing about the machine that recorded it, or about other networks than those of
    the guests."""
    lines = []
    with Recording.open(DEMO) as recording:
        for name in recording.hosts:
            reader = recording.reader(name, recording.begin)
            while (heard := reader.next()) is not None:
                lines.append(repr(heard.item))
    text = "\n".join(lines)
    found = set(re.findall(r"\b(?:\d{1,3}\.){3}\d{1,3}\b", text))
    own = ("10.0.2.", "10.78.0.", "127.0.0.", "0.0.0.0", "255.")
    assert [one for one in found if not one.startswith(own) and not _is_version(one, text)] == []
    assert not re.search(r"/work\b|/tmp/|/home/|BEGIN [A-Z ]*PRIVATE KEY|https?://", text)


def _is_version(word: str, text: str) -> bool:
    """``1.9.0.0-k-NAPI``"""
    return f"{word}-" in text


# ------------------------------------------------------------------------------------ where it runs


def environment(**more: str) -> dict[str, str]:
    keep = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    return {**keep, "TERM": "xterm-256color", "LANG": "C.UTF-8", "LC_ALL": "C.UTF-8", **more}


def run_demo(
    command: Sequence[str], cwd: Path, size: tuple[int, int], surroundings: Mapping[str, str]
) -> str:
    """Open the demo, its findings and its run, and quit; return everything that was drawn."""
    with TerminalProgram(command, cwd, surroundings, size) as screen:
        screen.wait_for_text("ens192")
        screen.wait_for_text("A recording of two QEMU guests")
        screen.type("4")
        screen.wait_for_text("│4 Findings ▲")
        screen.type("6")
        screen.wait_for_text("TCP ×1")
        screen.wait_for_text("Mb/s")
        screen.type("q")
        assert screen.wait_for_end() == 0
        return screen.text


@pytest.mark.parametrize("size", [WIDE, NARROW])
def test_the_demo_is_drawn(size: tuple[int, int], tmp_path: Path) -> None:
    surroundings = environment(PYTHONPATH=str(ROOT))
    drawn = run_demo([sys.executable, "-m", "nictop", "demo"], tmp_path, size, surroundings)
    assert "Traceback" not in drawn
    assert list(tmp_path.iterdir()) == []


def test_escape_and_a_key_in_one_read_are_two_keys(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "nictop", "demo"]
    with TerminalProgram(command, tmp_path, environment(PYTHONPATH=str(ROOT)), WIDE) as screen:
        screen.wait_for_text("A recording of two QEMU guests")
        screen.type("4")
        screen.wait_for_text("│4 Findings ▲")
        screen.type("\x1b6")
        screen.wait_for_text("TCP ×1")
        screen.type("q")
        assert screen.wait_for_end() == 0


def test_the_demo_runs_on_other_systems_than_linux(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tests.support.not_linux", "demo"]
    drawn = run_demo(command, tmp_path, WIDE, environment(PYTHONPATH=str(ROOT)))
    assert "Traceback" not in drawn and "not Linux" not in drawn


def test_live_hosts_need_linux() -> None:
    """In the same environment, live hosts are refused."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.support.not_linux", "show"],
        capture_output=True,
        text=True,
        timeout=TIMEOUT,
        check=False,
        cwd=ROOT,
        env=environment(),
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "nictop: needs Linux, this system is darwin\n"


def test_from_a_wheel_in_an_empty_environment(tmp_path: Path) -> None:
    """The libraries are those of this environment; nictop is installed from the wheel."""
    python = _environment_with_the_wheel(tmp_path)
    where = subprocess.run(
        [python, "-c", "import nictop; print(nictop.__file__)"],
        capture_output=True,
        text=True,
        timeout=TIMEOUT,
        check=True,
        cwd=tmp_path,
        env=environment(),
    )
    assert where.stdout.startswith(str(tmp_path))
    drawn = run_demo(
        [str(Path(python).parent / "nictop"), "demo"], tmp_path / "elsewhere", WIDE, environment()
    )
    assert "Traceback" not in drawn


def _environment_with_the_wheel(folder: Path) -> str:
    (folder / "elsewhere").mkdir()
    built = subprocess.run(
        [
            sys.executable,
            "-m",
            "pip",
            "wheel",
            "--no-deps",
            "--quiet",
            "--wheel-dir",
            str(folder),
            str(ROOT),
        ],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        env=environment(PIP_DISABLE_PIP_VERSION_CHECK="1"),
    )
    wheels = list(folder.glob("nictop-*.whl"))
    if not wheels:
        if "hatchling" in built.stderr and "No matching distribution" in built.stderr:
            pytest.skip("hatchling cannot be got here: no wheel can be built")
        raise AssertionError(built.stderr)
    venv.create(folder / "venv", with_pip=False)
    python = folder / "venv" / "bin" / "python"
    subprocess.run(
        [
            sys.executable,
            "-m",
            "pip",
            "--python",
            str(python),
            "install",
            "--no-deps",
            "--quiet",
            str(wheels[0]),
        ],
        timeout=TIMEOUT,
        check=True,
        env=environment(PIP_DISABLE_PIP_VERSION_CHECK="1"),
    )
    (packages,) = (folder / "venv").glob("lib/python3*/site-packages")
    (packages / "libraries.pth").write_text(sysconfig.get_paths()["purelib"] + "\n")
    return str(python)


def test_a_pipe_is_refused() -> None:
    done = run("demo")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("nictop: stdout is not a terminal")


def test_its_recording_is_read_by_the_other_commands() -> None:
    """The path is printed, also without a terminal."""
    found = run("demo", "--file")
    assert found.returncode == 0 and found.stdout == f"{DEMO}\n"
    shown = run("show", found.stdout.strip())
    assert shown.returncode == 0 and "alma-load-001" in shown.stdout
