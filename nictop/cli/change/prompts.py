"""Questions of a command, answered line by line on stdin while other tasks run."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from nictop.cli.output import print_status
from nictop.model.text.terminal import clean

YES_ANSWERS, NO_ANSWERS = ("y", "yes"), ("n", "no", "")
MAX_ANSWER_BYTES, MAX_SHOWN_CHARS = 4096, 20
NO_ANSWER = "no answer: nothing more can be read from standard input"


class Prompts:
    """Lines of stdin as they are typed. `lines` has None at its end, or from the start if stdin
    cannot be read."""

    def __init__(self) -> None:
        self.lines: asyncio.Queue[str | None] = asyncio.Queue()
        self.why_no = ""
        """Why the last question is taken as answered by no; "": somebody has answered so, or
        yes."""
        self._rest = b""

    def read(self) -> bool:
        """Read what was typed; False at the end of stdin."""
        try:
            data = os.read(sys.stdin.fileno(), MAX_ANSWER_BYTES)
        except OSError:
            data = b""
        *lines, self._rest = (self._rest + data)[-MAX_ANSWER_BYTES:].split(b"\n")
        for line in lines:
            self.lines.put_nowait(line.decode("utf-8", "replace").strip().lower())
        if not data:
            self.lines.put_nowait(None)
        return bool(data)

    def discard(self) -> None:
        """Drop what was typed before a question; the end of stdin stays in `lines`."""
        ended = False
        while not self.lines.empty():
            ended = self.lines.get_nowait() is None or ended
        if ended:
            self.lines.put_nowait(None)

    async def confirm(self, question: str, note: str = "") -> bool:
        """Ask a question; every answer but `YES_ANSWERS` is a no. `note`: what is written behind
        it."""
        self.discard()
        print_status(question_text(question, note))
        answer = await self.lines.get()
        self.why_no = ""
        if answer is None:
            self.lines.put_nowait(None)
            self.why_no = NO_ANSWER
        elif answer not in (*YES_ANSWERS, *NO_ANSWERS):
            self.why_no = f'"{clean(answer)[:MAX_SHOWN_CHARS]}" is neither y nor n'
        if self.why_no:
            print_status(f"{self.why_no}, taken as no")
        return answer in YES_ANSWERS


def question_text(question: str, note: str = "") -> str:
    """``Apply on vm1? [y or n, then Enter]``"""
    return f"{question} [y or n, then Enter] {note}".rstrip()


@asynccontextmanager
async def stdin_prompts() -> AsyncGenerator[Prompts, None]:
    """Read stdin inside the block, until it ends."""
    found = Prompts()
    loop = asyncio.get_running_loop()
    descriptor = -1

    def read() -> None:
        if not found.read():
            loop.remove_reader(descriptor)

    try:
        if sys.stdin is None:
            raise OSError
        descriptor = sys.stdin.fileno()
        loop.add_reader(descriptor, read)
    except (OSError, ValueError):  # closed, or a file that epoll does not support, as /dev/null
        descriptor = -1
        found.lines.put_nowait(None)
    try:
        yield found
    finally:
        if descriptor >= 0:
            loop.remove_reader(descriptor)
