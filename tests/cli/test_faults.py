"""Internal errors, and arbitrary input of a terminal: no traceback, and never exit code 0 after an
error."""

from __future__ import annotations

import os
import sys
import termios
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from textual._xterm_parser import XTermParser
from textual.message import Message

from nictop.cli import main as cli
from nictop.cli.main import EXIT_FAULT, main
from nictop.tui.app import NictopApp
from nictop.tui.driver import TerminalDriver
from nictop.tui.terminal_input import TerminalInput
from tests.cli.commands.test_demo import DEMO, environment
from tests.cli.test_main import ROOT
from tests.support.terminal import TerminalProgram

NICTOP = [sys.executable, "-m", "nictop"]

CTRL_C = b"\x03"
FAULTS = {
    "a key": "NictopApp.action_help = fails",
    "a subscriber": "LiveDrawing._update_hosts = fails",
    "a timer": "StatusLine.refresh_cost = fails",
    "a message": "LiveDrawing.draw_resized = fails",
    "drawing": "DeviceTable.plain_row = fails",
    "a worker": "NictopApp._show_live = fails_later",
    "mounting": "LiveDrawing.on_mount = fails",
    "composing": "LiveDrawing.compose = fails",
    "the input thread": "TerminalDriver.run_input_thread = fails",
    "opening": "opening._run = fails",
}
PROGRAM = """
import sys
from nictop.tui import run as opening
from nictop.tui.app import NictopApp
from nictop.tui.driver import TerminalDriver
from nictop.cli.main import main
from nictop.tui.screens.live.drawing import LiveDrawing
from nictop.tui.widgets.devices.table import DeviceTable
from nictop.tui.widgets.status.status_line import StatusLine

def fails(*given, **named):
    secret = "a local variable"
    raise ValueError("this went wrong \\x1b[31m")

async def fails_later(app):
    fails()

{fault}
sys.exit(main(["demo"]))
"""


@pytest.mark.parametrize("fault", FAULTS)
def test_an_internal_error_prints_a_sentence_and_restores_the_terminal(
    fault: str, tmp_path: Path
) -> None:
    program = PROGRAM.format(fault=FAULTS[fault])
    variables = environment(PYTHONPATH=str(ROOT), XDG_STATE_HOME=str(tmp_path))
    with TerminalProgram([sys.executable, "-c", program], tmp_path, variables, (80, 24)) as screen:
        before, modes = termios.tcgetattr(screen.descriptor), list[object]()
        if fault == "a key":
            screen.wait_for_text("ens192")
            screen.type("?")
        assert screen.wait_for_end(modes) == EXIT_FAULT
        assert modes == before
    assert "nictop: internal error: ValueError: this went wrong" in " ".join(screen.text.split())
    assert "Traceback" not in screen.text and "a local variable" not in screen.text
    if fault != "opening":
        assert screen.output.rindex(b"\x1b[?1049l") > screen.output.rindex(b"\x1b[?1049h"), (
            "the alternate screen is left"
        )
        assert screen.output.rindex(b"\x1b[?25h") > screen.output.rindex(b"\x1b[?25l"), (
            "the cursor is shown"
        )
    (file,) = (tmp_path / "nictop").iterdir()
    assert str(file) in "".join(screen.text.split())
    assert "ValueError: this went wrong" in file.read_text() and "in fails" in file.read_text()
    assert "a local variable" not in file.read_text().replace('secret = "a local variable"', "")
    assert file.stat().st_mode & 0o777 == 0o600


def test_an_internal_error_of_a_command_has_its_own_exit_code(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Not 1, which means findings, and not 0."""

    def fails(_: object) -> int:
        raise ZeroDivisionError

    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "\x1b[31m"))
    monkeypatch.setattr(cli, "_run", fails)
    assert main(["check"]) == EXIT_FAULT
    streams = capsys.readouterr()
    assert streams.out == "" and streams.err.startswith(
        "nictop: internal error: ZeroDivisionError\n"
    )
    assert "Traceback" not in streams.err and "\x1b" not in streams.err


def test_the_traceback_is_printed_if_no_file_can_be_written(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "file"))
    monkeypatch.setattr(cli, "_run", lambda _: 1 // 0)
    assert main(["check"]) == EXIT_FAULT
    streams = capsys.readouterr().err
    assert (
        "please report it with these lines" in streams
        and "ZeroDivisionError" in streams.splitlines()[-1]
    )


@pytest.mark.parametrize(
    "sent",
    [
        b"\xff",
        b"\xfc",  # ü of Latin-1
        b"\xc3\x28\x80\x80",
        b"\xf0\x9f",
        b"\x1b[:5A",
        b"\x1b[97:65;2u",
        b"\x1b[11690490;38F",
        b"\x1b[191453634935R",
        b"\x1b[999999999999999999999999999999u",
        b"\x1b[?2026;2$y\x1b[<0;0M",
        bytes(range(128, 256)),
    ],
    ids=repr,
)
def test_no_terminal_input_ends_the_program(sent: bytes, tmp_path: Path) -> None:
    variables = environment(PYTHONPATH=str(ROOT), XDG_STATE_HOME=str(tmp_path))
    with TerminalProgram([*NICTOP, "demo"], tmp_path, variables, (80, 24)) as screen:
        screen.wait_for_text("ens192")
        screen.send(sent)
        screen.type("?")
        screen.wait_for_text("Help: Devices")
        screen.send(
            sent + CTRL_C
        )  # from every screen; the first q may still be received by the help that is being closed
        assert screen.wait_for_end() == 0
    assert "Traceback" not in screen.text and "fault" not in screen.text
    assert not (tmp_path / "nictop").exists()


def test_ctrl_z_suspends_and_fg_paints_everything_again(tmp_path: Path) -> None:
    """Also from a script, which is stopped too, and with a dialog open."""
    (tmp_path / "script").write_text(f"{' '.join(NICTOP)} demo\necho left $?\n")
    variables = environment(PYTHONPATH=str(ROOT), XDG_STATE_HOME=str(tmp_path), PS1="prompt> ")
    with TerminalProgram(
        ["bash", "--norc", "--noprofile", "-i"], tmp_path, variables, (80, 24)
    ) as screen:
        screen.type("sh ./script\n")
        screen.wait_for_text("ens192")
        screen.type("?")
        screen.wait_for_text("Help: Devices")
        before = len(screen.output)
        screen.type("\x1a")
        screen.wait_for_text("Stopped")
        assert screen.output.rindex(b"\x1b[?1049l") > before, "the alternate screen is left"
        painted = len(screen.text)
        screen.type("fg\n")
        screen.until_after(painted, "Help: Devices")
        screen.send(CTRL_C)
        screen.wait_for_text("left 0")
        screen.type("exit\n")
        assert screen.wait_for_end() == 0


def test_ctrl_z_without_a_shell_to_go_back_to_suspends_nothing(tmp_path: Path) -> None:
    variables = environment(PYTHONPATH=str(ROOT), XDG_STATE_HOME=str(tmp_path))
    with TerminalProgram([*NICTOP, "demo"], tmp_path, variables, (80, 24)) as screen:
        screen.wait_for_text("ens192")
        screen.type("\x1a")
        screen.wait_for_text("Not suspended")
        screen.send(CTRL_C)
        assert screen.wait_for_end() == 0


@pytest.mark.parametrize("arguments", [(), ("demo",), ("replay", DEMO)])
def test_on_a_dumb_terminal_the_error_names_an_alternative(
    arguments: tuple[str, ...], tmp_path: Path
) -> None:
    variables = environment(PYTHONPATH=str(ROOT), XDG_STATE_HOME=str(tmp_path), TERM="dumb")
    with TerminalProgram([*NICTOP, *arguments], tmp_path, variables, (80, 24)) as screen:
        assert screen.wait_for_end() == 2
    assert "TERM=dumb: this terminal cannot show the screens" in screen.text
    assert (
        "nictop show" in screen.text
        and "nictop check" in screen.text
        and b"\x1b" not in screen.output
    )


class Reading(TerminalDriver):
    """The reading part of the terminal driver."""

    def __init__(self, take: Callable[[Message], None]) -> None:
        self._debug, self._unanswered = False, 0
        self.process_message = take  # type: ignore[assignment, method-assign]


@given(
    st.lists(st.text("\x1b[]?;:0123456789<>mMuRtcABCDFHIOPSyz~$\x07\\ é") | st.text(), max_size=8)
)
def test_any_text_is_read_and_the_keys_after_it_too(texts: list[str]) -> None:
    messages: list[Message] = []
    driver = Reading(messages.append)
    parser, terminal = XTermParser(False), TerminalInput()
    for text in texts:
        for part in (*terminal.take(text), ""):
            parser = driver._take(parser, part)
    for part in (*terminal.pause(5.0), *terminal.take("q")):
        driver._take(XTermParser(False), part)
    assert getattr(messages[-1], "key", "") == "q"


def test_the_application_uses_this_reader() -> None:
    assert NictopApp(lambda host, ask: None, ()).get_driver_class() is TerminalDriver  # type: ignore[arg-type, return-value]
    assert os.environ.get("TEXTUAL_DRIVER") is None
