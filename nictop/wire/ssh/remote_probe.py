"""One run of a probe on another machine: the channel that carries its sources there and its lines
back.

The sources for the first counters are sent together with the command. The output before the marker
is skipped. The other sources follow, as byte code where the remote Python can read it. Received
lines go into the same `Inbox` as for a local probe. Pings keep the remote end alive (its
`--heartbeat`), show that it is alive, and measure its clock. The channel is paused when the lines
are not taken as fast as they are received.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import time
from collections.abc import Sequence
from typing import Any, Literal

from nictop.errors import HostUnreachable, NictopError
from nictop.probe.reach.problem import LATER_STATUS, NEVER_STATUS, WITHOUT_LIBVIRT_STATUS
from nictop.probe.records import Line, Request, Trouble
from nictop.wire.budget import HostBudget
from nictop.wire.channel import STDERR_DATATYPE, Carrier, Channel
from nictop.wire.codec import ProtocolMismatch, encode_request
from nictop.wire.errors import (
    PermanentError,
    SilentHost,
    TransientError,
    connection_lost,
    internal_error_text,
    last_words,
    sanitize,
)
from nictop.wire.guests.levels import Level
from nictop.wire.guests.reasons import lacks_shell, own_sentence
from nictop.wire.inbox import Inbox
from nictop.wire.slowness import Slowness
from nictop.wire.source import SourceState
from nictop.wire.ssh.authentication import MAX_ANSWER_ATTEMPTS, Credentials, Question
from nictop.wire.ssh.bootstrap_command import (
    FIRST_LINE,
    MAX_MARK_BYTES,
    MAX_NOISE_BYTES,
    RemoteCommand,
)
from nictop.wire.ssh.bundle import Bundle
from nictop.wire.ssh.exit_reason import (
    INPUT_NOTICE,
    SHELL_HINT,
    Ending,
    Reached,
    exit_reason,
    late_reason,
    oom_reason,
    slow_notice,
)
from nictop.wire.ssh.ping_clock import PingClock
from nictop.wire.timeout import with_timeout

PING_SECONDS = 2.5
"""Seconds between two pings."""
FIRST_PING_COUNT, FIRST_PING_SECONDS = 4, 0.25
"""Number of pings at the start that are sent at a shorter interval, and that interval in seconds:
the clock offset is known sooner."""
HEARTBEAT_SECONDS = 10.0
"""Seconds without a request after which the remote probe ends itself."""
MAX_UNANSWERED_PINGS = 4
"""Pings in a row without any received data after which the host counts as gone."""
SENT_PART_BYTES = 8 * 1024
"""Of the sources, in a message of SSH: what is in it is passed on when all of it has come, and on a
slow network the host says every few seconds how much that is."""
STARTUP_TIMEOUT = 15.0
"""Seconds from the command to the marker (login shells may be slow), and from the marker to the
hello."""
KERNEL_LOG_TIMEOUT = 3.0
"""Seconds for a look into the kernel log of a host on which the probe was killed."""
MAX_REMOTE_STDERR_BYTES = 2000
"""Bytes of stderr that are stored."""
REMOTE_END_TIMEOUT = 0.5
"""Seconds that the probe may take to end after the end of its stdin."""
LATE_END_TIMEOUT = 2.0
"""Seconds that a command which did not answer may take to end after the end of its stdin: if
something has read what Python was to read, it ends then."""

Rights = Literal["", "quiet", "password"]
ProbeItem = Line | SourceState
AGENT_STATUSES = (NEVER_STATUS, LATER_STATUS, WITHOUT_LIBVIRT_STATUS)
"""Exit status of our program that reaches guest agents."""


class RemoteProbe:
    """`start` runs it; `next` returns its items, then None; then `error` is the reason why it
    ended. `time_factor`: how many times as long as usual it may take."""

    def __init__(
        self,
        command: RemoteCommand,
        bundle: Bundle,
        host: str,
        credentials: Credentials,
        budget: HostBudget,
        *,
        levels: tuple[Level, ...] = (),
        time_factor: float = 1.0,
    ) -> None:
        self.slowness = Slowness(time_factor)
        self._asked = time.monotonic()
        """When its command was started, or a password was given for it."""
        self.command, self._bundle, self._host, self._credentials = (
            command,
            bundle,
            host,
            credentials,
        )
        self._levels = levels
        self.lacks_python = False
        """Where it was to be started there is no shell, or no Python that is new enough."""
        self.error: HostUnreachable | None = None
        self.clock = PingClock()
        self.rights: Rights = ""
        self.is_esxi = False
        """It was not started, because the host is an ESXi host."""
        self.is_unresponsive = False
        """It was given up because no data was received."""
        self.pid = 0
        """Process ID on the other machine, from its hello; 0: not known yet."""
        self.inbox = Inbox(budget, self._resume)
        self._channel: Channel | None = None
        self._noise: bytearray | None = bytearray()
        """Output before the marker of Python; None: that was received."""
        self._shell_ran = False
        """The marker of the shell was received."""
        self._notices: list[str] = []
        """What is to be told after the hello."""
        self._started_at: float | None = None
        """CLOCK_MONOTONIC of the host in its hello; None: there was no hello yet."""
        self._is_late = False
        """It was given up, as it did not answer in time."""
        self._is_complete = False
        """All sources have been sent; requests may follow."""
        self._frame_bytes = 0
        """Of all frames; 0: not known yet."""
        self._received_bytes = 0
        """Of them, what has come, as far as the host has said."""
        self._stderr = bytearray()
        self._is_gone = asyncio.Event()
        self._status: int | None = None
        self._signal = ""
        self._paused = self._ended = False
        self._unanswered = 0
        self._stage_started = time.monotonic()
        self._passwords: set[str] = set()
        self._tasks: set[asyncio.Task[None]] = set()

    async def start(self, carrier: Carrier, rights: Rights, requests: Sequence[Request]) -> None:
        """Run the command and send the sources, then `requests`. Raises TransientError or
        PermanentError."""
        self.rights = rights
        self._queued_requests = b"".join(map(encode_request, requests))
        self._channel = await carrier.open(self.command.line(rights), self, sanitize(self._host))
        if rights != "password":  # sudo would read the sources as the password
            self._write(self._bundle.first)
        self._stage_started = self._asked = time.monotonic()
        self.spawn(self._send_pings())

    def send(self, request: Request) -> None:
        """Send a request now, or after the sources."""
        if self._is_complete:
            self._write(encode_request(request))
        elif self._noise is None:
            self._queued_requests += encode_request(request)

    def tell(self, notice: str) -> None:
        """Report this about the start of the probe, which has succeeded, after the hello; "":
        nothing."""
        if notice:
            self._notices.append(notice)

    async def next(self) -> ProbeItem | None:
        """The next item; None at the end."""
        if self._notices and self._started_at is not None:
            told = Trouble(self._started_at, self._notices.pop(0), is_notice=True)
            return Line(trouble=told)
        try:
            while (item := await self.inbox.next()) is not None:
                line = self._with_clock(item) if isinstance(item, Line) else item
                if line is not None:
                    return line
        except HostUnreachable as error:
            self._fail(error)
        except ProtocolMismatch as error:
            self._fail(PermanentError(error.message, error.hint))
        except NictopError as error:
            self._fail(TransientError(error.message))
        return None

    def _with_clock(self, line: Line) -> Line | None:
        """The line, with a pong replaced by the clock estimate; None: the line is not for the
        consumer."""
        if line.pong is not None:
            estimate = self.clock.pong(line.pong, self.inbox.received_at)
            if estimate is None:
                return None
            if line.pong.sequence < FIRST_PING_COUNT:
                self.spawn(self._ping_soon())
            return Line(clock=estimate)
        if line.clock is not None:
            return None
        if line.hello is not None:
            self.pid, self._started_at = line.hello.pid, line.hello.monotonic
            self.slowness.note(time.monotonic() - self._asked, self._usual(STARTUP_TIMEOUT))
            self._ping()
        return line

    def _resume(self) -> None:
        """Called when the inbox has room again."""
        if self._paused and self._channel is not None:
            self._paused = False
            self._channel.release()

    async def end(self, timeout: float = REMOTE_END_TIMEOUT) -> None:
        """Close the probe's stdin, which ends it, and wait `timeout` seconds at most until it has
        ended."""
        self._ended = True
        self.inbox.close(forget=True)
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._channel is None:
            return
        with contextlib.suppress(OSError):
            self._channel.write_eof()
        self._resume()
        with contextlib.suppress(asyncio.TimeoutError):
            await with_timeout(timeout, self._is_gone.wait())
        self._channel.abort()

    async def resume_stopped(self, carrier: Carrier, timeout: float = 1.0) -> None:
        """Send SIGCONT: a probe that was stopped (SIGSTOP) does not notice the end of its stdin
        otherwise."""
        if self.is_unresponsive and self.pid > 1 and not self._is_gone.is_set():
            await self._output_beside(carrier, f"kill -CONT {self.pid}", timeout)

    async def _output_beside(self, carrier: Carrier, script: str, timeout: float) -> str:
        """What a script prints that is run where the probe runs."""
        command = self.command.line_beside(script, self.rights)
        return await carrier.output(command, timeout) if command else ""

    # -------------------------------------------------------------------- received from the channel

    def receive(self, data: bytes, datatype: int | None) -> None:
        if self._ended:
            return
        if self._is_complete:
            silence = self._unanswered * PING_SECONDS
            self.slowness.note(silence, self._usual(MAX_UNANSWERED_PINGS * PING_SECONDS))
        self._unanswered = 0
        try:
            if datatype == STDERR_DATATYPE:
                self._receive_stderr(data)
            elif self._noise is not None:
                self._receive_noise(data)
            else:
                self._receive_lines(data)
            self._pause()
        except HostUnreachable as error:
            self._fail(error)

    def _receive_stderr(self, data: bytes) -> None:
        self._stderr = (self._stderr + data)[-MAX_REMOTE_STDERR_BYTES:]
        self.inbox.put(b"", other_bytes=len(data))
        self._note_received(self.command.take_received(self._stderr))
        if self.command.input_mark in self._stderr:
            self._stderr = self._stderr.replace(self.command.input_mark, b"")
            self.tell(INPUT_NOTICE)
        if self.rights == "password" and self._noise is not None:
            prompt = self.command.prompt.encode()
            if prompt in self._stderr:
                del self._stderr[: self._stderr.index(prompt) + len(prompt)]
                self.spawn(self._send_password())

    def _note_received(self, count: int | None) -> None:
        """The host says how much of the sources has come: on a slow network they take minutes."""
        if count is None or not self._received_bytes < count <= self._frame_bytes:
            return
        self._received_bytes = count
        self._stage_started = time.monotonic()
        if self.inbox.reader.line_count:
            target = ""
            if count < self._frame_bytes:
                target = f"{count // 1000} of {self._frame_bytes // 1000} kB"
            self.inbox.announce(SourceState("live", stage="probe", target=target))

    def _receive_noise(self, data: bytes) -> None:
        assert self._noise is not None
        noise, start = self._noise, max(0, len(self._noise) - MAX_MARK_BYTES)
        noise += data
        try:
            found = self.command.parse_answer(noise, start)
        except PermanentError:
            self.lacks_python = True
            raise
        if noise.find(self.command.shell_mark, start) >= 0:
            self._shell_ran = True
        self.is_esxi = found is None and self.command.is_from_esxi(noise, start)
        if self.is_esxi:
            self._fail(PermanentError(f"{sanitize(self._host)} is an ESXi host"))
        elif found is not None:
            self._noise = None
            self._stderr.clear()
            seconds = time.monotonic() - self._stage_started
            if not self._levels:
                self.tell(slow_notice("the login shell", seconds, STARTUP_TIMEOUT, SHELL_HINT))
            self._stage_started = time.monotonic()
            if self.rights == "password":
                self._write(self._bundle.first)
            self.spawn(self._send_rest(found[0], found[1]))
            self._receive_lines(found[2])
        elif len(noise) > MAX_NOISE_BYTES:
            raise PermanentError(
                f"{sanitize(self._host)} printed more than {MAX_NOISE_BYTES} bytes before running "
                f"the command",
                "check the start-up files of the login shell there",
            )

    def _receive_lines(self, data: bytes) -> None:
        if data:
            self.inbox.put(data)

    def _pause(self) -> None:
        if self.inbox.is_full and not self._paused and self._channel is not None:
            self._paused = True
            self._channel.hold()

    def end_of_output(self) -> None:
        self.spawn(self._wait_for_exit_status())

    async def _wait_for_exit_status(self) -> None:
        """After the end of stdout: wait for the exit status, `REMOTE_END_TIMEOUT` seconds at
        most."""
        with contextlib.suppress(asyncio.TimeoutError):
            await with_timeout(REMOTE_END_TIMEOUT, self._is_gone.wait())
        self._fail(self._exit_reason(None))

    def channel_closed(self, error: Exception | None) -> None:
        """The channel is closed."""
        self._is_gone.set()
        if not self._ended:
            self._fail(self._exit_reason(error))

    def set_exit_status(self, status: int | None, signal: str = "") -> None:
        self._status, self._signal = status, signal

    # -------------------------------------------------------------------------- sent to the channel

    async def _send_rest(self, version: str, magic: str) -> None:
        """Send the remaining sources, then the requests that were held back until then."""
        rest = await asyncio.get_running_loop().run_in_executor(
            None, self._bundle.rest_for, version, magic
        )
        self._frame_bytes = self._bundle.first_frame_bytes + len(rest)
        for begin in range(0, len(rest), SENT_PART_BYTES):
            self._write(rest[begin : begin + SENT_PART_BYTES])
        self._write(self._queued_requests)
        self._is_complete = True

    def _write(self, data: bytes) -> None:
        if self._channel is not None and not self._channel.is_closing():
            with contextlib.suppress(OSError):  # it is being closed already
                self._channel.write(data)

    def _ping(self) -> None:
        self._unanswered += 1
        self.send(Request(ping=self.clock.ping(time.monotonic())))

    async def _ping_soon(self) -> None:
        await asyncio.sleep(FIRST_PING_SECONDS)
        self._ping()

    async def _send_pings(self) -> None:
        """Send pings, and give the probe up when the time limits are over."""
        while not self._ended:
            await asyncio.sleep(PING_SECONDS)
            if self.inbox.reader.line_count or self.inbox.size:
                limit = math.ceil(self._patient(MAX_UNANSWERED_PINGS))
                self.is_unresponsive = self._unanswered >= limit and not self._paused
                if self.is_unresponsive:
                    silence = limit * PING_SECONDS
                    self._fail(
                        SilentHost(
                            f"no more data from {sanitize(self._host)} for {silence:g} s",
                            "it or this connection's probe is overloaded or stopped, or the "
                            "network is down",
                        )
                    )
                self._ping()
            elif self._credentials.open_questions:
                self._stage_started = time.monotonic()
            elif time.monotonic() - self._stage_started > self._startup_timeout:
                await self._give_up_start()

    async def _give_up_start(self) -> None:
        """The time to start is over. The end of its stdin ends a command that reads it: how it ends
        is the reason, if its input was read by another program."""
        self._is_late = True
        if self._channel is not None:
            with contextlib.suppress(OSError):
                self._channel.write_eof()
            with contextlib.suppress(asyncio.TimeoutError):
                await with_timeout(LATE_END_TIMEOUT, self._is_gone.wait())
        self._fail(self._exit_reason(None))

    async def _send_password(self) -> None:
        question = Question("sudo", self._host, f"sudo password for {sanitize(self._host)}")
        answer = None
        if len(self._passwords) < MAX_ANSWER_ATTEMPTS:
            answer = await self._credentials.stored_or_asked(question, self._passwords)
        self._stage_started = self._asked = time.monotonic()
        if answer is None:
            self._fail(
                PermanentError(
                    f"sudo on {sanitize(self._host)}: no password given",
                    "omit --sudo, or check sudoers there",
                )
            )
        else:
            self._write(answer.replace("\n", "").encode() + b"\n")

    # ------------------------------------------------------------------------------- the end

    @property
    def _reached(self) -> Reached:
        if self._noise is None:
            return "python"
        return "shell" if self._shell_ran else "nothing"

    @property
    def needs_password(self) -> bool:
        """sudo ended without starting the command, and a user can be asked for the password."""
        if self._levels and b"sudo:" not in self._stderr:
            return False  # it was the tool that enters the guest
        is_refused = (self.rights, self._reached, self._status) == ("quiet", "nothing", 1)
        return is_refused and self._credentials.can_ask

    @property
    def refusal_of_agent(self) -> str:
        """Why the guest agent on the way could not be used, as our program there says; "": it was
        another end."""
        if self._reached != "nothing" or self._status not in AGENT_STATUSES:
            return ""
        return self._sentence

    @property
    def _sentence(self) -> str:
        """What a program of nictop on the way has said; "": nothing."""
        text = self._stderr.decode("utf-8", "replace")
        return sanitize(own_sentence(text, self.command.marks))

    @property
    def is_agent_silent(self) -> bool:
        """It did not answer, or is not there now."""
        return self._status in (LATER_STATUS, WITHOUT_LIBVIRT_STATUS)

    @property
    def waits_for_libvirt(self) -> bool:
        """The agent is reached by libvirt only, which does not run."""
        return bool(self.refusal_of_agent) and self._status == WITHOUT_LIBVIRT_STATUS

    @property
    def lacks_sudo(self) -> bool:
        """The shell did not find sudo."""
        return bool(self.rights) and (self._reached, self._status) == ("nothing", 127)

    async def explain_kill(self, carrier: Carrier) -> None:
        """If it was killed, look for it in the kernel log of the host: the kernel names each
        process that it ends for want of memory."""
        if self._ending().killed_by != "KILL" or self.pid <= 1:
            return
        script = f"dmesg 2>/dev/null | grep 'Killed process {self.pid} ' | tail -n 1"
        printed = await self._output_beside(carrier, script, KERNEL_LOG_TIMEOUT)
        self.error = oom_reason(self._ending(), printed) or self.error

    def _fail(self, error: HostUnreachable) -> None:
        if self.error is None:
            self.error = error
        self._ended = True
        self.inbox.close()

    def _ending(self) -> Ending:
        printed = bytes(self._noise or b"").replace(self.command.shell_mark, b"")
        detail = self._sentence or last_words(bytes(self._stderr)) or last_words(printed)
        has_echo = FIRST_LINE.strip() in printed or FIRST_LINE.strip() in self._stderr
        return Ending(
            sanitize(self._host),
            self._reached,
            self._status,
            sanitize(self._signal),
            "" if has_echo else detail,
            has_echo,
            bool(self.rights),
            self._levels,
            self._sentence,
        )

    @property
    def was_given_up(self) -> bool:
        """It did not start in time, or nothing was received for too long."""
        return self._is_late or self.is_unresponsive

    def _usual(self, limit: float) -> float:
        """The limit for usual hosts: each level has a start of its own."""
        return limit * (1 + len(self._levels))

    def _patient(self, limit: float) -> float:
        """The same limit for this host."""
        return self._usual(limit) * self.slowness.factor

    @property
    def _startup_timeout(self) -> float:
        return self._patient(STARTUP_TIMEOUT)

    def _exit_reason(self, error: Exception | None) -> HostUnreachable:
        end = self._ending()
        if self._levels and end.reached == "nothing" and lacks_shell(end.detail):
            self.lacks_python = True
        if self._is_late and not end.has_lost_input:
            return late_reason(end, self._startup_timeout)
        if isinstance(error, HostUnreachable):
            return error
        if error is not None and self._status is None and not self._signal:
            return connection_lost(end.host, error)
        return exit_reason(end)

    def spawn(self, work: Any) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._task_ended)

    def _task_ended(self, task: asyncio.Task[None]) -> None:
        """Without the work that a task was to do, the probe does not start or end: its error is the
        reason."""
        self._tasks.discard(task)
        error = None if task.cancelled() else task.exception()
        if isinstance(error, HostUnreachable):
            self._fail(error)
        elif error is not None:
            self._fail(PermanentError(internal_error_text(error)))
