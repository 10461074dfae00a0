"""The terminal as Textual's driver reads it, but nothing that comes from it ends the program.

Reads stdin. Textual decodes strictly and lets its reading thread die of any byte that is not UTF-8 and of escape
sequences that its parser does not know (``ESC [ 97 : 65 u`` of some terminals): here such bytes are left out.
"""

from __future__ import annotations

import os
import select
import signal
from codecs import getincrementaldecoder

from textual._xterm_parser import XTermParser
from textual.drivers.linux_driver import LinuxDriver

READ_BYTES = 4096
LOOK_EVERY = 0.1
"""Seconds between two looks whether reading is to end, and whether a lone escape was a key."""


class TerminalDriver(LinuxDriver):
    """What cannot be read is left out; a terminal that is gone is a hang-up."""

    def _run_input_thread(self) -> None:
        try:
            self.run_input_thread()
        except Exception as error:
            self._app.call_later(self._app._handle_exception, error)

    def run_input_thread(self) -> None:
        parser, decode = XTermParser(self._debug), getincrementaldecoder("utf-8")("ignore").decode
        while not self.exit_event.is_set():
            ready, _, _ = select.select([self.fileno], [], [], LOOK_EVERY)
            text = ""
            if ready:
                try:
                    data = os.read(self.fileno, READ_BYTES)
                except OSError:  # EIO: the other side is closed
                    data = b""
                if not data:
                    os.kill(os.getpid(), signal.SIGHUP)
                    return
                text = decode(data)
            parser = self._take(parser, text)

    def _take(self, parser: XTermParser, text: str) -> XTermParser:
        """Let the parser read `text` and look whether a lone escape is complete; the parser to go on with. Character by
        character: what follows a sequence that nobody knows is read."""
        for part in (*text, ""):
            try:
                messages = list(parser.feed(part) if part else parser.tick())
            except Exception:  # ValueError, OverflowError, ParseError
                parser = XTermParser(self._debug)
                continue
            for message in messages:
                self.process_message(message)
        return parser
