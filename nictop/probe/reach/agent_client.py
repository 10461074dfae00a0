"""Speaks with the QEMU guest agent of one guest: a request and its answer at a time.

The protocol is that of QMP: a JSON object per line (qga/qapi-schema.json in the sources of QEMU).
A guest is not trusted: what it answers is bounded, and what does not fit the protocol ends the
conversation.
"""

from __future__ import annotations

import base64
import json
import os
import select
import socket
import struct
import subprocess
import time

from nictop.probe.reach.problem import one_line

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any, Protocol

    class Transport(Protocol):
        """Carries lines to an agent."""

        def exchange(self, request: bytes) -> bytes: ...

        def watch(self, descriptor: int) -> None: ...

        def release(self) -> None: ...

        def close(self) -> None: ...


ANSWER_SECONDS = 10.0
"""Seconds until an answer; an agent that is alive answers within some milliseconds."""
GONE_SECONDS = 2.0
"""Seconds until an answer when who asked has gone: what is open in the guest is closed then."""
POLLRDHUP = getattr(select, "POLLRDHUP", 0x2000)  # Python 3.7
MAX_ANSWER_BYTES = 1024 * 1024
MAX_TEXT_CHARS = 300
MAX_DIGITS = 20
MAX_OLD_ANSWERS = 32
"""Of earlier clients, to their guest-sync-delimited."""
SYNC_MARK = b"\xff"
"""Precedes the answer to guest-sync-delimited, and resets the parser of the agent."""


class AgentError(Exception):
    """The agent has answered with an error."""


class AgentGone(Exception):
    """The agent does not answer, or nobody speaks its protocol."""


class Agent:
    """`call` runs a command of the agent."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    def call(self, command: str, **arguments: Any) -> Any:
        """The value that a command returns. Raises AgentError or AgentGone."""
        request = {"execute": command}  # type: dict[str, object]
        if arguments:
            request["arguments"] = {
                name.replace("_", "-"): value for name, value in arguments.items()
            }
        answer = decoded(self._transport.exchange(json.dumps(request).encode()))
        if "error" in answer:
            raise AgentError(error_text(answer["error"]))
        if "return" not in answer:
            raise AgentGone("what answers is not a guest agent")
        return answer["return"]

    def write(self, handle: int, data: bytes) -> None:
        """Write all of `data`, for which there must be room."""
        self.call("guest-file-write", handle=handle, buf_b64=base64.b64encode(data).decode())
        self.call("guest-file-flush", handle=handle)

    def read(self, handle: int, count: int) -> bytes | None:
        """`count` bytes; b"" at the end; None: nothing now."""
        try:
            answer = self.call("guest-file-read", handle=handle, count=count)
        except AgentError as error:
            if "not been found" in str(error):  # the agent was started again
                return b""
            return None
        return content(answer, "buf-b64")

    def watch(self, descriptor: int) -> None:
        """Wait no longer than `GONE_SECONDS` for answers as soon as nobody holds the other end of
        `descriptor`: who asked has gone."""
        self._transport.watch(descriptor)

    def release(self) -> None:
        """Let others speak with the agent until the next call."""
        self._transport.release()

    def close(self) -> None:
        self._transport.close()


class AnswerWait:
    """For answers, `seconds` at most. `watched`: see `Agent.watch`; None: nobody asks."""

    def __init__(self, seconds: float, watched: int | None) -> None:
        self._end, self._watched = time.monotonic() + seconds, watched

    @property
    def left(self) -> float:
        """Seconds; not more than 0: it is over."""
        return self._end - time.monotonic()

    def until_readable(self, descriptor: int | None = None, limit: float = float("inf")) -> bool:
        """Until `descriptor` can be read, or `limit` seconds; False: it cannot."""
        poll = select.poll()
        if descriptor is not None:
            poll.register(descriptor, select.POLLIN)
        if self._watched is not None:
            poll.register(self._watched, POLLRDHUP)
        limit += time.monotonic()
        while True:
            left = min(self.left, limit - time.monotonic())
            if left <= 0:
                return False
            ready = dict(poll.poll(left * 1000))
            if descriptor in ready:
                return True
            if self._watched in ready and self._watched is not None:
                poll.unregister(self._watched)
                self._watched = None
                self._end = min(self._end, time.monotonic() + GONE_SECONDS)


class SocketTransport:
    """The socket that QEMU has for the agent's virtio port. It serves one client at a time.

    `is_shared`: others use it as well, so that it is left whenever it is released. `owners`: user
    IDs, of which the process that listens on it must have one; None: its path was typed.
    """

    def __init__(self, path: str, is_shared: bool, owners: tuple[int, ...] | None = None) -> None:
        self._path, self._is_shared, self._owners = path, is_shared, owners
        self._socket = None  # type: socket.socket | None
        self._received = bytearray()
        self._watched = None  # type: int | None

    def watch(self, descriptor: int) -> None:
        self._watched = descriptor

    def exchange(self, request: bytes) -> bytes:
        try:
            if self._socket is None:
                self._connect()
            return self._exchange(request, b"\n")
        except AgentGone:
            self.close()  # an answer that comes later is not that of another request
            raise

    def release(self) -> None:
        if self._is_shared:
            self.close()

    def close(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def _connect(self) -> None:
        """Connect, and discard what an earlier client has not read."""
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._received.clear()
        try:
            self._socket.settimeout(ANSWER_SECONDS)
            self._socket.connect(self._path)
        except socket.timeout:
            raise AgentGone(NO_ANSWER) from None
        except OSError as error:
            raise AgentGone(connect_error(self._path, error)) from None
        self._check_owner()
        number = int.from_bytes(os.urandom(4), "big")
        sync = {"execute": "guest-sync-delimited", "arguments": {"id": number}}
        wait = AnswerWait(ANSWER_SECONDS, self._watched)
        answer = self._exchange(SYNC_MARK + json.dumps(sync).encode(), b"\n", after=SYNC_MARK)
        for _ in range(MAX_OLD_ANSWERS):
            if decoded(answer).get("return") == number:
                return
            answer = self._next_answer(wait)
        raise AgentGone(f"what answers on {printable(self._path)} is not a guest agent")

    def _check_owner(self) -> None:
        """Raises AgentGone if another user's process listens on the socket: by what the kernel
        tells of it (SO_PEERCRED, unix(7)), as the file may be replaced meanwhile."""
        assert self._socket is not None
        if self._owners is None:
            return
        told = self._socket.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, CREDENTIALS.size)
        _, user, _ = CREDENTIALS.unpack(told)
        if user not in self._owners:
            self.close()
            raise AgentGone(
                f"user {user} listens on {printable(self._path)}, not who runs the guest: it is "
                "not asked"
            )

    def _next_answer(self, wait: AnswerWait) -> bytes:
        """To the next guest-sync-delimited: the one before was that of a client that did not wait
        for it."""
        try:
            self._take(SYNC_MARK, wait)
            return self._take(b"\n", wait)
        except OSError as error:
            raise AgentGone(f"the socket of the guest agent failed: {error.strerror}") from None

    def _exchange(self, request: bytes, end: bytes, after: bytes = b"") -> bytes:
        """The answer until `end`; what precedes `after` is discarded."""
        assert self._socket is not None
        wait = AnswerWait(ANSWER_SECONDS, self._watched)
        try:
            self._socket.settimeout(ANSWER_SECONDS)
            self._socket.sendall(request + b"\n")
            if after:
                self._take(after, wait)
            return self._take(end, wait)
        except socket.timeout:
            raise AgentGone(NO_ANSWER) from None
        except OSError as error:
            raise AgentGone(f"the socket of the guest agent failed: {error.strerror}") from None

    def _take(self, end: bytes, wait: AnswerWait) -> bytes:
        assert self._socket is not None
        searched = 0
        while True:
            place = self._received.find(end, searched)
            if place >= 0:
                answer = bytes(self._received[:place])
                del self._received[: place + len(end)]
                return answer
            if len(self._received) > MAX_ANSWER_BYTES:
                raise AgentGone(f"the guest agent answers more than {MAX_ANSWER_BYTES} bytes")
            searched = len(self._received)
            if not wait.until_readable(self._socket.fileno()):
                raise AgentGone(NO_ANSWER)
            data = self._socket.recv(65536)
            if not data:
                raise AgentGone("the socket of the guest agent was closed: the guest was stopped")
            self._received += data


CREDENTIALS = struct.Struct("iII")
"""struct ucred: process, user and group ID."""
NO_ANSWER = (
    f"the guest agent does not answer within {ANSWER_SECONDS:g} s: the guest is paused or "
    "overloaded, its agent is not running, or another program holds its socket"
)


def connect_error(path: str, error: OSError) -> str:
    """A sentence with what to do."""
    path = printable(path)
    if isinstance(error, FileNotFoundError):
        return f"there is no socket {path}: the guest is not running, or has no agent channel"
    if isinstance(error, PermissionError):
        return f"no permission for {path}: use --sudo, or log in as root"
    if isinstance(error, ConnectionRefusedError):
        return f"nobody listens on {path}: the guest is not running"
    return f"cannot connect to {path}: {error.strerror}"


def decoded(answer: bytes) -> dict[str, Any]:
    """An answer. Raises AgentGone."""
    try:
        value = json.loads(answer.decode("utf-8", "replace"), parse_int=small_integer)
    except (ValueError, RecursionError):
        raise AgentGone("what answers is not a guest agent") from None
    if not isinstance(value, dict):
        raise AgentGone("what answers is not a guest agent")
    return value


def small_integer(digits: str) -> int:
    """The protocol has 64-bit ones; Python before 3.11 takes seconds for a million digits. Raises
    AgentGone."""
    if len(digits) > MAX_DIGITS:
        raise AgentGone("the guest agent answers what its protocol does not have")
    return int(digits)


def error_text(error: object) -> str:
    """The description of an error, on one line."""
    text = error.get("desc") if isinstance(error, dict) else ""
    return printable(text) or "an error without a description"


def printable(text: object) -> str:
    """`text` of others in a sentence: on one line, bounded. A semicolon would begin a hint of
    nictop (`wire.guests.reasons`)."""
    shown = text if isinstance(text, str) else ""
    return one_line(shown, MAX_TEXT_CHARS).replace(";", ",")


def content(answer: object, name: str) -> bytes:
    """Binary content of an answer, b"" if it has none. Raises AgentGone."""
    text = answer.get(name, "") if isinstance(answer, dict) else None
    if not isinstance(text, str):
        raise AgentGone("the guest agent answers what its protocol does not have")
    try:
        return base64.b64decode(text)
    except ValueError:
        raise AgentGone("the guest agent answers what is not base64") from None


class VirshTransport:
    """A guest of libvirt, which holds the socket of the agent: one virsh that is given a command
    per request (starting one for each would take 30 ms of CPU time)."""

    def __init__(self, domain: str) -> None:
        self._domain = domain
        self._virsh = None  # type: subprocess.Popen[bytes] | None
        self._received = bytearray()
        self._watched = None  # type: int | None

    def watch(self, descriptor: int) -> None:
        self._watched = descriptor

    def exchange(self, request: bytes) -> bytes:
        quoted = request.decode().replace("'", "\\u0027")
        command = f"qemu-agent-command --timeout {ANSWER_SECONDS:g} --domain '{self._domain}'"
        line = f"{command} '{quoted}'; echo {QUOTED_END_WORD}\n"
        virsh = self._started()
        assert virsh.stdin is not None
        try:
            virsh.stdin.write(line.encode())
            virsh.stdin.flush()
        except OSError:
            raise AgentGone("virsh has ended") from None
        return virsh_answer(self._printed(virsh))

    def release(self) -> None:
        """libvirt lets others speak between two requests."""

    def close(self) -> None:
        if self._virsh is not None:
            self._virsh.kill()
            self._virsh.communicate()
            self._virsh = None

    def _started(self) -> subprocess.Popen[bytes]:
        if self._virsh is None:
            try:
                self._virsh = subprocess.Popen(
                    ["virsh", "-q", "-c", "qemu:///system"],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.STDOUT,
                    env=dict(os.environ, LC_ALL="C"),
                )
            except OSError as error:
                raise AgentGone(f"cannot start virsh: {error.strerror}") from None
        return self._virsh

    def _printed(self, virsh: subprocess.Popen[bytes]) -> list[str]:
        """The lines that are printed until `END_WORD`."""
        assert virsh.stdout is not None
        wait = AnswerWait(ANSWER_SECONDS + VIRSH_SECONDS, self._watched)
        end = END_WORD.encode()
        searched = 0
        while True:
            place = self._received.find(end, searched)
            if place >= 0:
                printed = bytes(self._received[:place])
                del self._received[: place + len(end)]
                return printed.decode("utf-8", "replace").split("\n")
            if len(self._received) > MAX_ANSWER_BYTES:
                raise AgentGone(f"the guest agent answers more than {MAX_ANSWER_BYTES} bytes")
            searched = max(0, len(self._received) - len(end))
            is_ready = wait.until_readable(virsh.stdout.fileno())
            data = os.read(virsh.stdout.fileno(), 65536) if is_ready else b""
            if not data:
                detail = last_error(bytes(self._received).decode("utf-8", "replace").split("\n"))
                raise AgentGone(f"virsh does not answer: {detail or 'is libvirt running?'}")
            self._received += data


END_WORD, QUOTED_END_WORD = "nictop-end", 'nictop-"end"'
"""virsh prints the commands that it reads, too: the end of an answer is written in another way."""
VIRSH_SECONDS = 10.0
"""Seconds that virsh may take besides the agent."""
VIRSH_PROMPT = "virsh # "


def virsh_answer(lines: Sequence[str]) -> bytes:
    """The answer of the agent in what virsh has printed. An error of the agent is one of virsh,
    too. Raises AgentError or AgentGone."""
    for line in lines:
        text = line[len(VIRSH_PROMPT) :] if line.startswith(VIRSH_PROMPT) else line
        if text.startswith("{"):
            return text.encode()
    detail = last_error(lines)
    if "unable to execute QEMU agent command" in detail:
        raise AgentError(detail.partition("': ")[2] or detail)
    raise AgentGone(detail or "virsh printed no answer")


def last_error(lines: Sequence[str]) -> str:
    """``Guest agent is not responding: …`` of ``error: Guest agent is not responding: …``"""
    errors = [printable(line[7:]) for line in lines if line.startswith("error: ")]
    return errors[-1] if errors else ""
