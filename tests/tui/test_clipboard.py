"""Where copied text goes: nothing is called copied that is only sent, or only in a file."""

from __future__ import annotations

import shutil
import subprocess
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from nictop.tui.clipboard import Clipboard, CopyRequest, Place, place_of

TWO_LINES = CopyRequest(("ip link set dev a up", "echo '$(id)' #[fg=red]"), ())


class Terminal:
    """Takes what is sent by OSC 52."""

    def __init__(self) -> None:
        self.sent: list[str] = []

    def clipboard(self, place: Place, path: Path | str = "") -> Clipboard:
        return Clipboard(place, self.sent.append, str(path))


@pytest.mark.parametrize(
    ("environment", "place"),
    [
        ({"TERM": "xterm-256color"}, "terminal"),
        ({"TERM": "xterm-256color", "TMUX": "/tmp/tmux-0/default,1,0"}, "tmux"),
        ({"TERM": "screen", "TMUX": "/tmp/tmux-0/default,1,0"}, "tmux"),
        ({"TERM": "screen.xterm-256color", "STY": "1.pts-0.host"}, "file"),
        ({"TERM": "xterm-256color", "STY": "1.pts-0.host"}, "file"),
        ({"TERM": "screen-256color"}, "file"),
        ({"TERM": "tmux-256color"}, "terminal"),
        ({"TERM": "linux"}, "file"),
        ({"TERM": "xterm-256color", "TERM_PROGRAM": "Apple_Terminal"}, "file"),
        ({}, "file"),
    ],
)
def test_the_place_is_known_from_the_environment(environment: dict[str, str], place: Place) -> None:
    assert place_of(environment) == place


def test_what_is_sent_to_a_terminal_is_in_a_file_too(tmp_path: Path) -> None:
    terminal, path = Terminal(), tmp_path / "state" / "nictop" / "copied.txt"
    placed = terminal.clipboard("terminal", path).put(TWO_LINES)
    assert placed.title == "Sent 2 lines to the terminal" and placed.is_in_reach
    assert placed.notes == ("for its clipboard (OSC 52), if it takes it", f"also in {path}")
    assert terminal.sent == [TWO_LINES.text] and path.read_text() == TWO_LINES.text + "\n"
    assert path.stat().st_mode & 0o777 == 0o600 and path.parent.stat().st_mode & 0o777 == 0o700
    again = CopyRequest(("one",), ())
    assert terminal.clipboard("terminal", path).put(again).title == "Sent one line to the terminal"
    assert path.read_text() == "one\n"


def test_without_a_clipboard_the_file_has_it(tmp_path: Path) -> None:
    terminal, path = Terminal(), tmp_path / "copied.txt"
    placed = terminal.clipboard("file", path).put(TWO_LINES)
    assert (placed.title, placed.is_in_reach, placed.notes[-1]) == (
        "Saved 2 lines",
        False,
        f"saved in {path}",
    )
    assert not terminal.sent and path.read_text() == TWO_LINES.text + "\n"


@pytest.mark.parametrize("path", ["", "/proc/nowhere/copied.txt"])
def test_a_file_that_cannot_be_written_is_not_named(path: str) -> None:
    placed = Terminal().clipboard("file", path).put(TWO_LINES)
    assert (placed.title, placed.is_in_reach, len(placed.notes)) == ("Not copied", False, 1)
    assert len(Terminal().clipboard("terminal", path).put(TWO_LINES).notes) == 1


class Tmux:
    """A server of this test."""

    def __init__(self) -> None:
        self._command = ["tmux", "-L", f"nictop-{uuid.uuid4().hex[:10]}", "-f", "/dev/null"]
        self.run("new-session", "-d", "sleep 600")

    def run(self, *arguments: str) -> str:
        return subprocess.run(
            [*self._command, *arguments], check=True, capture_output=True, text=True
        ).stdout


@pytest.fixture
def tmux(monkeypatch: pytest.MonkeyPatch) -> Iterator[Tmux]:
    """TMUX is that of a program in it."""
    if shutil.which("tmux") is None:
        pytest.skip("tmux is not installed")
    monkeypatch.delenv("TMUX", raising=False)
    server = Tmux()
    try:
        monkeypatch.setenv(
            "TMUX", server.run("display-message", "-p", "#{socket_path},#{pid},0").strip()
        )
        yield server
    finally:
        server.run("kill-server")


@pytest.mark.parametrize("setting", ["external", "off", "on"])
async def test_in_tmux_its_buffer_has_it_whatever_its_settings(
    setting: str, tmux: Tmux, tmp_path: Path
) -> None:
    tmux.run("set-option", "-s", "set-clipboard", setting)
    terminal, path = Terminal(), tmp_path / "copied.txt"
    placed = await terminal.clipboard("tmux", path).put_into_tmux(TWO_LINES)
    assert placed.title == "Copied 2 lines" and placed.notes == (
        "into tmux's buffer: prefix ] pastes it",
    )
    assert tmux.run("show-buffer") == TWO_LINES.text
    assert not terminal.sent and not path.exists()


async def test_a_tmux_that_has_ended_is_said(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("TMUX", f"{tmp_path}/nothing,1,0")
    placed = await Terminal().clipboard("tmux", tmp_path / "copied.txt").put_into_tmux(TWO_LINES)
    assert (
        placed.title == "Saved 2 lines"
        and placed.notes[0] == "tmux did not take it"
        and not placed.is_in_reach
    )


async def test_a_tmux_that_hangs_is_not_waited_for(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "tmux").write_text("#!/bin/sh\nexec sleep 600\n")
    (tmp_path / "tmux").chmod(0o700)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setattr("nictop.tui.clipboard.TMUX_TIMEOUT_SECONDS", 0.1)
    placed = await Terminal().clipboard("tmux").put_into_tmux(TWO_LINES)
    assert placed.title == "Not copied" and placed.notes == ("tmux did not take it",)
