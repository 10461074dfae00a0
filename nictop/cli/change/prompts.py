"""Questions of a command, answered line by line on stdin while something else goes on."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from nictop.cli.output import narrate

YES = ("y", "yes")
LONGEST_ANSWER = 4096


class Prompts:
    """Lines of stdin, as they come. `lines` has None at its end, or from the start when nobody can answer."""

    def __init__(self) -> None:
        self.lines: asyncio.Queue[str | None] = asyncio.Queue()
        self._rest = b""

    def take(self) -> bool:
        """Read what is there; False at the end of stdin."""
        try:
            data = os.read(sys.stdin.fileno(), LONGEST_ANSWER)
        except OSError:
            data = b""
        *lines, self._rest = (self._rest + data)[-LONGEST_ANSWER:].split(b"\n")
        for line in lines:
            self.lines.put_nowait(line.decode("utf-8", "replace").strip().lower())
        if not data:
            self.lines.put_nowait(None)
        return bool(data)

    def forget(self) -> None:
        """What was typed before a question is no answer to it. The end of stdin stays its end."""
        ended = False
        while not self.lines.empty():
            ended = self.lines.get_nowait() is None or ended
        if ended:
            self.lines.put_nowait(None)

    async def yes(self, question: str) -> bool:
        """Ask; everything but a yes is a no."""
        self.forget()
        narrate(f"{question} [yes/no]")
        answer = await self.lines.get()
        if answer is None:
            self.lines.put_nowait(None)
            narrate("nobody answers: no")
        return answer in YES


@asynccontextmanager
async def answers() -> AsyncGenerator[Prompts, None]:
    """Hear stdin until it ends."""
    found = Prompts()
    loop = asyncio.get_running_loop()
    descriptor = -1

    def hear() -> None:
        if not found.take():
            loop.remove_reader(descriptor)

    try:
        if sys.stdin is None:
            raise OSError
        descriptor = sys.stdin.fileno()
        loop.add_reader(descriptor, hear)
    except (OSError, ValueError):  # closed, or a file that nothing waits for, as /dev/null
        descriptor = -1
        found.lines.put_nowait(None)
    try:
        yield found
    finally:
        if descriptor >= 0:
            loop.remove_reader(descriptor)
