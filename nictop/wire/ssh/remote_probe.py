"""One life of a probe on another machine: the channel that carries its sources there and its lines back.

What the first counters need is sent together with the command; the mark is awaited, noise in front of it skipped, and
the rest follows, as byte code where that Python reads ours. Then the same
`Inbox` as for a local probe, and pings: they keep the remote end alive (its `--heartbeat`), tell that it is, and
measure its clock. The channel is told to pause when nobody takes the lines, or not as fast as they come.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal

from nictop.errors import HostUnreachable, NictopError
from nictop.probe.records import Line, Request
from nictop.wire.budget import HostBudget
from nictop.wire.codec import ProtocolMismatch, encode_request
from nictop.wire.errors import PermanentError, TransientError, last_line, plain
from nictop.wire.inbox import Inbox
from nictop.wire.source import SourceState
from nictop.wire.ssh.authentication import ATTEMPTS, Credentials, Question
from nictop.wire.ssh.bootstrap_command import NOISE, RemoteCommand
from nictop.wire.ssh.bundle import Bundle
from nictop.wire.ssh.channel import STDERR, open_channel
from nictop.wire.ssh.ping_clock import PingClock
from nictop.wire.timeout import within

if TYPE_CHECKING:
    import asyncssh

PING = 2.5
"""Seconds between two pings."""
FIRST_PINGS, SOON = 4, 0.25
"""How many come sooner after one another, and seconds between them: so that the clocks are known soon."""
HEARTBEAT = 10.0
"""Seconds without a request after which the remote probe ends itself."""
DEAF = 4
"""Pings in a row that nothing was heard after: then the host counts as gone."""
FIRST_WORD = 15.0
"""Seconds until the mark must have come, login shells may be slow; and then until the hello."""
COMPLAINT = 2000
"""Bytes of stderr that are kept."""
PATIENCE = 0.5
"""Seconds that the end of its stdin may take to end the probe."""

Rights = Literal["", "quiet", "password"]
ProbeItem = Line | SourceState


class RemoteProbe:
    """Started by `start`; its items are taken with `next` until None, then `error` says why it ended."""

    def __init__(
        self, command: RemoteCommand, packed: Bundle, host: str, answers: Credentials, budget: HostBudget
    ) -> None:
        self.command, self._packed, self._host, self._answers = command, packed, host, answers
        self.error: HostUnreachable | None = None
        self.clock = PingClock()
        self.rights: Rights = ""
        self.silent = False
        """It had to be given up because nothing was heard."""
        self.pid = 0
        """On the other machine, as its hello says; 0: not heard of."""
        self.inbox = Inbox(budget, self._resume)
        self._channel: asyncssh.SSHClientChannel[bytes] | None = None
        self._noise: bytearray | None = bytearray()
        self._is_complete = False
        """All sources have been sent: requests may follow."""
        self._complaint = bytearray()
        self._gone = asyncio.Event()
        self._status: int | None = None
        self._signal = ""
        self._paused = self._ended = False
        self._unanswered = 0
        self._since = time.monotonic()
        self._passwords: set[str] = set()
        self._tasks: set[asyncio.Task[None]] = set()

    async def start(self, ssh: asyncssh.SSHClientConnection, rights: Rights, requests: Sequence[Request]) -> None:
        """Run the command and send the sources; `requests` follow them. Raises TransientError or PermanentError."""
        self.rights = rights
        self._after = b"".join(map(encode_request, requests))
        self._channel = await open_channel(ssh, self.command.line(rights), self, plain(self._host))
        if rights != "password":  # sudo would take the sources for a password
            self._write(self._packed.first)
        self._since = time.monotonic()
        self.spawn(self._watch())

    def send(self, request: Request) -> None:
        """To the probe, when it is there."""
        if self._is_complete:
            self._write(encode_request(request))
        elif self._noise is None:
            self._after += encode_request(request)

    async def next(self) -> ProbeItem | None:
        """The next item; None at the end."""
        try:
            while (item := await self.inbox.next()) is not None:
                known = self._known(item) if isinstance(item, Line) else item
                if known is not None:
                    return known
        except HostUnreachable as error:
            self._fail(error)
        except ProtocolMismatch as error:
            self._fail(PermanentError(error.message, error.hint))
        except NictopError as error:
            self._fail(TransientError(error.message))
        return None

    def _known(self, line: Line) -> Line | None:
        """A line with what only the watching side can know in it; None: it is for nobody else."""
        if line.pong is not None:
            estimate = self.clock.pong(line.pong, self.inbox.arrived)
            if estimate is None:
                return None
            if line.pong.sequence < FIRST_PINGS:
                self.spawn(self._ping_soon())
            return Line(clock=estimate)
        if line.clock is not None:
            return None
        if line.hello is not None:
            self.pid = line.hello.pid
            self._ping()
        return line

    def _resume(self) -> None:
        """There is room in the inbox."""
        if self._paused and self._channel is not None:
            self._paused = False
            self._channel.resume_reading()

    async def end(self, patience: float = PATIENCE) -> None:
        """End the probe by the end of its stdin, and wait for it to be gone, `patience` seconds at most."""
        self._ended = True
        self.inbox.close(forget=True)
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._channel is None:
            return
        with contextlib.suppress(OSError):
            self._channel.write_eof()
            if self._paused:
                self._channel.resume_reading()
        with contextlib.suppress(asyncio.TimeoutError):
            await within(patience, self._gone.wait())
        self._channel.abort()

    async def awaken(self, ssh: asyncssh.SSHClientConnection, patience: float = 1.0) -> None:
        """A probe that was stopped (SIGSTOP) does not see the end of its stdin: let it go on, so that it does."""
        import asyncssh

        if self.silent and self.pid > 1 and not self._gone.is_set():
            with contextlib.suppress(asyncio.TimeoutError, asyncssh.Error, OSError):
                await within(patience, ssh.run(f"kill -CONT {self.pid}", request_pty=False, stdin=None))

    # ------------------------------------------------------------------------------- what the channel says

    def hear(self, data: bytes, datatype: int | None) -> None:
        if self._ended:
            return
        self._unanswered = 0
        try:
            if datatype == STDERR:
                self._hear_complaint(data)
            elif self._noise is not None:
                self._hear_noise(data)
            else:
                self._hear_lines(data)
            self._pause()
        except HostUnreachable as error:
            self._fail(error)
        except ProtocolMismatch as error:
            self._fail(PermanentError(error.message, error.hint))
        except NictopError as error:
            self._fail(TransientError(error.message))

    def _hear_complaint(self, data: bytes) -> None:
        self._complaint = (self._complaint + data)[-COMPLAINT:]
        self.inbox.put(b"", beside=len(data))
        if self.rights == "password" and self._noise is not None:
            prompt = self.command.prompt.encode()
            if prompt in self._complaint:
                del self._complaint[: self._complaint.index(prompt) + len(prompt)]
                self.spawn(self._give_password())

    def _hear_noise(self, data: bytes) -> None:
        assert self._noise is not None
        self._noise += data
        found = self.command.answer(bytes(self._noise[: 2 * NOISE]))
        if found is not None:
            self._noise = None
            self._complaint.clear()
            self._since = time.monotonic()
            if self.rights == "password":
                self._write(self._packed.first)
            self.spawn(self._send_rest(found[0], found[1]))
            self._hear_lines(found[2])
        elif len(self._noise) > NOISE:
            raise PermanentError(
                f"{plain(self._host)} prints more than {NOISE} bytes before any command",
                "see what the login shell's start files say there",
            )

    def _hear_lines(self, data: bytes) -> None:
        if data:
            self.inbox.put(data)

    def _pause(self) -> None:
        if self.inbox.is_full and not self._paused and self._channel is not None:
            self._paused = True
            self._channel.pause_reading()

    def end_of_output(self) -> None:
        self.spawn(self._outlive_output())

    async def _outlive_output(self) -> None:
        """Nothing more will be heard: wait for the status, which comes soon after, but not for ever."""
        with contextlib.suppress(asyncio.TimeoutError):
            await within(PATIENCE, self._gone.wait())
        self._fail(self._epitaph(None))

    def finish(self, error: Exception | None) -> None:
        """The channel is closed."""
        self._gone.set()
        if not self._ended:
            self._fail(self._epitaph(error))

    def status(self, status: int | None, signal: str = "") -> None:
        self._status, self._signal = status, signal

    # ------------------------------------------------------------------------------- what we say

    async def _send_rest(self, version: str, magic: str) -> None:
        """What follows the first counters, then the requests that have waited for it."""
        rest = await asyncio.get_running_loop().run_in_executor(None, self._packed.rest_for, version, magic)
        self._write(rest + self._after)
        self._is_complete = True

    def _write(self, data: bytes) -> None:
        if self._channel is not None and not self._channel.is_closing():
            with contextlib.suppress(OSError):  # its end has been asked for already
                self._channel.write(data)

    def _ping(self) -> None:
        self._unanswered += 1
        self.send(Request(ping=self.clock.ping(time.monotonic())))

    async def _ping_soon(self) -> None:
        await asyncio.sleep(SOON)
        self._ping()

    async def _watch(self) -> None:
        """Pings, and the end of patience."""
        while not self._ended:
            await asyncio.sleep(PING)
            if self.inbox.hearing.heard or self.inbox.size:
                self.silent = self._unanswered >= DEAF and not self._paused
                if self.silent:
                    self._fail(
                        TransientError(f"{plain(self._host)} has fallen silent", "is it up, and the network between?")
                    )
                self._ping()
            elif self._answers.asking:
                self._since = time.monotonic()
            elif time.monotonic() - self._since > FIRST_WORD:
                stage = "its shell started no Python" if self._noise is not None else "the probe did not say anything"
                self._fail(
                    TransientError(f"{plain(self._host)}: {stage} within {FIRST_WORD:g} s", self._last_complaint())
                )

    async def _give_password(self) -> None:
        question = Question("sudo", self._host, f"Password for sudo on {plain(self._host)}")
        answer = None
        if len(self._passwords) < ATTEMPTS:
            answer = await self._answers.kept_or_asked(question, self._passwords)
        self._since = time.monotonic()
        if answer is None:
            self._fail(
                PermanentError(f"sudo on {plain(self._host)} got no password", "leave --sudo out, or see sudoers there")
            )
        else:
            self._write(answer.replace("\n", "").encode() + b"\n")

    # ------------------------------------------------------------------------------- the end

    @property
    def wants_password(self) -> bool:
        """sudo ended without having started anything, and there is somebody to ask for the password."""
        return self.rights == "quiet" and self._noise is not None and self._status == 1 and self._answers.possible

    def _fail(self, error: HostUnreachable) -> None:
        if self.error is None:
            self.error = error
        self._ended = True
        self.inbox.close()

    def _last_complaint(self) -> str:
        return last_line(self._complaint.decode("utf-8", "replace"))

    def _epitaph(self, error: Exception | None) -> HostUnreachable:
        host, said = plain(self._host), self._last_complaint()
        if self._signal:
            return TransientError(f"the probe on {host} was ended by {plain(self._signal)}", said)
        if error is not None and self._status is None:
            return TransientError(f"the connection to {host} is gone: {plain(str(error))}")
        if self._noise is not None and self._status is not None:
            said = said or last_line(self._noise.decode("utf-8", "replace")) or f"status {self._status}"
            if self.rights:
                return PermanentError(
                    f"sudo on {host} does not run the probe: {said}", "see sudoers there, or leave --sudo out"
                )
            return PermanentError(f"{host} starts no Python: {said}", "try: ssh to it, and python3 -V there")
        status = "without a status" if self._status is None else f"with status {self._status}"
        return TransientError(f"the probe on {host} ended {status}" + (f": {said}" if said else ""))

    def spawn(self, work: Any) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
