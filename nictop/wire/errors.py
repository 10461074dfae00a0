"""What went wrong on the way to another machine, as a sentence and the next step.

Texts of the other side (banners, error messages, names) are hostile: they end up on a terminal, so that only printable
characters of them stay, and not many.
"""

from __future__ import annotations

import errno
import os
import socket
import unicodedata

from nictop.errors import HostUnreachable, NictopError

LONGEST = 300
"""Characters of somebody else's words in one sentence."""


class PermanentError(HostUnreachable):
    """Trying again would end the same way: rights, keys, settings, a Python that is too old."""


class TransientError(HostUnreachable):
    """Trying again may help."""


def plain(text: str, limit: int = LONGEST) -> str:
    """`text` on one line, without anything that a terminal obeys or that hides; cut after `limit` characters."""
    shown = "".join(
        character if character == " " or unicodedata.category(character)[0] in "LNPSM" else " "
        for character in text[: 4 * limit]
    )
    shown = " ".join(shown.split())
    return shown if len(shown) <= limit else shown[: limit - 1] + "…"


def last_line(text: str) -> str:
    """The last line with something on it: where programs say why they failed."""
    lines = [line for line in map(plain, text.splitlines()[-50:]) if line]
    return lines[-1] if lines else ""


def unreachable(error: OSError, address: str) -> HostUnreachable:
    """For what connect(2) and the resolver said. `address`: as the user knows it."""
    if isinstance(error, socket.gaierror):
        return TransientError(
            f"{address}: the name is not known here: {plain(error.strerror or str(error))}", "check its spelling"
        )
    if isinstance(error, TimeoutError) or error.errno == errno.ETIMEDOUT:
        return TransientError(
            f"{address} does not answer", "is it up, is its address right, does a firewall drop the packets?"
        )
    if isinstance(error, ConnectionRefusedError):
        return TransientError(f"{address} refuses the connection", "is sshd running there, on this port?")
    if isinstance(error, ConnectionResetError):
        return TransientError(
            f"{address} has broken off the connection", "its sshd may be restarting or busy (MaxStartups)"
        )
    if error.errno in (errno.EHOSTUNREACH, errno.ENETUNREACH, errno.ENETDOWN):
        return TransientError(
            f"there is no way to {address}: {os.strerror(error.errno)}", "check the routes of this machine"
        )
    return TransientError(f"{address} cannot be reached: {plain(error.strerror or str(error))}", "try ssh to it")


def sentence(error: NictopError) -> str:
    """Message and next step on one line."""
    message, hint = plain(error.message, 2 * LONGEST), plain(error.hint)
    return f"{message}; {hint}" if hint else message
