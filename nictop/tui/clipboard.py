"""Where copied text goes, and what may be said about it: tmux's buffer, the terminal (OSC 52), or a
file.

Only tmux answers, so only there text is called copied. A terminal does not say whether it takes OSC
52; tmux ignores it with ``set-clipboard external`` (its default) and ``off``, and screen does not
pass it on. What is sent to a terminal is written to a file as well.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Literal

from nictop.errors import NictopError
from nictop.files import state_directory, write_new_file
from nictop.probe.light_dataclasses import dataclass
from nictop.tui.terminal import PLAIN_TERMINALS

if TYPE_CHECKING:
    from nictop.rules.finding import WhereToType
    from nictop.rules.fixes.commands import Step

TMUX_TIMEOUT_SECONDS = 2.0
SCREEN_TERMINALS = "screen"
"""Beginning of TERM in screen, which may run on another machine."""
TMUX_COMMANDS = (("load-buffer", "-w", "-"), ("load-buffer", "-"))
"""The first also passes the text on to the terminal of tmux, since tmux 3.2."""
FILE_NAME = "copied.txt"
WITHOUT_CLIPBOARD = "this terminal has no clipboard that nictop can write"

Place = Literal["tmux", "terminal", "file"]


@dataclass(frozen=True)
class CopyRequest:
    """Lines to be copied: commands, to be typed at `where`, or text."""

    lines: Sequence[Step | str]
    notes: Sequence[str]
    """Remarks on them."""
    summary: str = ""
    """Of the lines, for a notice."""
    where: WhereToType = "here"

    @property
    def text(self) -> str:
        return "\n".join(map(str, self.lines))


@dataclass(frozen=True)
class Placed:
    """Where some lines are now."""

    title: str
    """``Copied 2 lines``."""
    notes: tuple[str, ...]
    """Where, and what to do then."""
    is_in_reach: bool = True
    """False: nothing but the file has it, if that: the text is shown."""


def place_of(environment: Mapping[str, str]) -> Place:
    """Of a terminal with these variables."""
    if environment.get("TMUX"):
        return "tmux"
    term = environment.get("TERM", "dumb")
    if environment.get("STY") or term in PLAIN_TERMINALS or term.startswith(SCREEN_TERMINALS):
        return "file"
    if environment.get("TERM_PROGRAM") == "Apple_Terminal":
        return "file"
    return "terminal"


class Clipboard:
    """`send`: writes OSC 52 to the terminal. `path`: of the file, which is replaced each time; "":
    there is none."""

    def __init__(self, place: Place, send: Callable[[str], None], path: str = "") -> None:
        self.place, self._send, self._path = place, send, path

    @classmethod
    def of(cls, environment: Mapping[str, str], send: Callable[[str], None]) -> Clipboard:
        """That of the terminal which nictop was started in."""
        folder = state_directory(environment)
        path = os.path.join(folder, FILE_NAME) if folder else ""
        return cls(place_of(environment), send, path)

    async def put_into_tmux(self, request: CopyRequest) -> Placed:
        """Into its buffer; if tmux refuses it, into the file."""
        for arguments in TMUX_COMMANDS:
            if await _succeeds(("tmux", *arguments), request.text):
                notes = ("into tmux's buffer: prefix ] pastes it",)
                return Placed(f"Copied {line_count(request)}", notes)
        return self._saved(request, "tmux did not take it")

    def put(self, request: CopyRequest) -> Placed:
        """To the terminal and into the file, or only into the file."""
        if self.place != "terminal":
            return self._saved(request, WITHOUT_CLIPBOARD)
        self._send(request.text)
        path = self._write(request.text)
        notes = ["for its clipboard (OSC 52), if it takes it"]
        if path:
            notes.append(f"also in {path}")
        return Placed(f"Sent {line_count(request)} to the terminal", tuple(notes))

    def _saved(self, request: CopyRequest, why: str) -> Placed:
        path = self._write(request.text)
        if not path:
            return Placed("Not copied", (why,), is_in_reach=False)
        notes = (why, f"saved in {path}")
        return Placed(f"Saved {line_count(request)}", notes, is_in_reach=False)

    def _write(self, text: str) -> str:
        """The path of the file, or "" if it could not be written."""
        if not self._path:
            return ""
        try:
            os.makedirs(os.path.dirname(self._path), 0o700, exist_ok=True)
            write_new_file(self._path, f"{text}\n", replace=True)
        except (OSError, NictopError):
            return ""
        return self._path


def line_count(request: CopyRequest) -> str:
    lines = request.text.count("\n") + 1
    if lines == 1:
        return "one line"
    return f"{lines} lines"


async def _succeeds(command: tuple[str, ...], text: str) -> bool:
    """Whether a program that reads `text` ends with 0 in time; it is killed otherwise."""
    ignored = asyncio.subprocess.DEVNULL
    try:
        process = await asyncio.create_subprocess_exec(
            *command, stdin=asyncio.subprocess.PIPE, stdout=ignored, stderr=ignored
        )
    except OSError:
        return False
    try:
        await asyncio.wait_for(
            process.communicate(text.encode("utf-8", "replace")), TMUX_TIMEOUT_SECONDS
        )
    except (OSError, asyncio.TimeoutError):
        return False
    finally:
        if process.returncode is None:
            with suppress(ProcessLookupError):
                process.kill()
            await process.wait()
    return process.returncode == 0
