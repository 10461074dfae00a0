"""``nictop replay``: its errors, and that it opens at the given time and speed."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from nictop.cli.main import main
from tests.cli.commands.test_demo import environment
from tests.cli.test_main import ROOT, run
from tests.support.recordings import host_items, write_recording
from tests.support.terminal import TerminalProgram


@pytest.fixture
def path(tmp_path: Path) -> Path:
    made = tmp_path / "a.nictop"
    write_recording(made, host_items("vm1", 60))
    return made


@pytest.mark.parametrize("speed", ["0", "-1", "101", "fast", "nan", "inf", ""])
def test_an_invalid_speed_is_refused(speed: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["replay", "a.nictop", "--speed", speed]) == 2
    assert "is not a speed (0.1 to 100)" in capsys.readouterr().err


def test_a_pipe_is_refused_with_a_hint(path: Path) -> None:
    done = run("replay", str(path))
    assert (done.returncode, done.stdout) == (2, "")
    assert "nictop show FILE --at TIME" in done.stderr


@pytest.mark.parametrize(
    ("name", "words", "sentence"),
    [
        ("absent", (), "No such file or directory"),
        ("empty", (), "is empty"),
        ("foreign", (), "is not a nictop recording"),
        ("folder", (), "is not a regular file"),
        ("a.nictop", ("--at", "+900"), "is outside the recording"),
        ("a.nictop", ("--at", "soon"), "invalid time 'soon'"),
    ],
)
def test_files_that_cannot_be_shown_are_refused(
    name: str, words: tuple[str, ...], sentence: str, path: Path
) -> None:
    (path.parent / "empty").touch()
    (path.parent / "foreign").write_bytes(os.urandom(5000))
    (path.parent / "folder").mkdir()
    command = [sys.executable, "-m", "nictop", "replay", name, *words]
    with TerminalProgram(
        command, path.parent, environment(PYTHONPATH=str(ROOT)), (80, 24)
    ) as screen:
        assert screen.wait_for_end() == 2
        assert sentence in screen.text
        assert "Traceback" not in screen.text


def test_one_host_of_a_recording_is_not_replayed(
    path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """As show, check, report and diff take it; here the path would be no directory."""
    assert main(["replay", f"{path}/vm1"]) == 2
    error = capsys.readouterr().err
    assert "replayed with all of its hosts, not vm1 alone" in error
    assert f"nictop replay {path}\n" in error


def test_the_screen_opens_at_the_given_time(path: Path) -> None:
    command = [sys.executable, "-m", "nictop", "replay", "a.nictop", "--at", "+30", "--speed", "5"]
    with TerminalProgram(
        command, path.parent, environment(PYTHONPATH=str(ROOT), TZ="UTC"), (80, 24)
    ) as screen:
        screen.wait_for_text("ens192")
        screen.wait_for_text("×5")
        screen.wait_for_text("at the end")
        screen.type("q")
        assert screen.wait_for_end() == 0
        assert "Traceback" not in screen.text
