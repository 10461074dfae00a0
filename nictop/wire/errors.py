"""Errors of the connection to another machine, each with a message and a hint.

Texts from the other side (banners, error messages, names) are untrusted and are printed on a
terminal: only printable characters are kept, and the length is limited.
"""

from __future__ import annotations

import errno
import os
import socket
import unicodedata

from nictop.errors import HostUnreachable, NictopError

MAX_MESSAGE_CHARS = 300
"""Characters of a text from the other side within one message."""


class PermanentError(HostUnreachable):
    """A retry would fail in the same way: permissions, keys, settings, a Python that is too old."""


class TransientError(HostUnreachable):
    """A retry may succeed."""


class SilentHost(TransientError):
    """Its probe was given up because nothing was received for too long: it may be slow."""


def sanitize(text: str, limit: int = MAX_MESSAGE_CHARS) -> str:
    """`text` on one line, without control characters and invisible characters; truncated to `limit`
    characters."""
    shown = "".join(map(_printable, text[: 4 * limit]))
    shown = " ".join(shown.split())
    if len(shown) > limit:
        shown = shown[: limit - 1] + "…"
    return shown


def _printable(character: str) -> str:
    """A blank in place of what is neither a letter, number, mark, sign nor punctuation."""
    return character if unicodedata.category(character)[0] in "LNPSM" else " "


def internal_error_text(error: BaseException) -> str:
    """Of a fault of nictop itself, whose message may contain text of a host."""
    return f"internal error: {type(error).__name__}: {sanitize(str(error))}"


def connection_lost(host: str, error: Exception | None) -> TransientError:
    """The connection to `host` (sanitized) has ended; `error` is the cause, unless it only repeats
    that."""
    cause = "" if error is None else sanitize(str(error))
    if cause.lower() in ("", "connection lost"):
        return TransientError(f"connection to {host} lost")
    return TransientError(f"connection to {host} lost: {cause}")


def last_line(text: str) -> str:
    """The last line that is not empty: most programs write the reason of their failure there."""
    for line in reversed(text.splitlines()[-50:]):
        shown = sanitize(line)
        if shown:
            return shown
    return ""


def last_words(output: bytes) -> str:
    """The last line with a letter or digit: a mark below an error, and the rest of a prompt, say
    nothing."""
    lines = output.decode("utf-8", "replace").splitlines()
    return last_line("\n".join(line for line in lines[-50:] if any(map(str.isalnum, line))))


def unreachable_error(error: OSError, address: str) -> HostUnreachable:
    """The error for an OSError of connect(2) or the resolver. `address`: as the user wrote it."""
    if isinstance(error, socket.gaierror):
        return TransientError(
            f"{address}: cannot resolve the host name: {sanitize(error.strerror or str(error))}",
            "check its spelling",
        )
    if isinstance(error, TimeoutError) or error.errno == errno.ETIMEDOUT:
        return TransientError(
            f"{address}: connection timed out",
            "check that the host is up, its address, and firewalls",
        )
    if isinstance(error, ConnectionRefusedError):
        return TransientError(
            f"{address}: connection refused", "check that sshd listens on this port"
        )
    if isinstance(error, ConnectionResetError):
        return TransientError(
            f"{address} closed the connection", "sshd may be restarting or overloaded (MaxStartups)"
        )
    if error.errno in (errno.EHOSTUNREACH, errno.ENETUNREACH, errno.ENETDOWN):
        return TransientError(
            f"{address} is unreachable: {os.strerror(error.errno)}",
            "check the routes of this machine (ip route)",
        )
    return TransientError(
        f"cannot connect to {address}: {sanitize(error.strerror or str(error))}", "try ssh"
    )


def error_text(error: NictopError) -> str:
    """Message and hint on one line."""
    message, hint = sanitize(error.message, 2 * MAX_MESSAGE_CHARS), sanitize(error.hint)
    return f"{message}; {hint}" if hint else message
