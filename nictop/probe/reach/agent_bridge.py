"""Runs on a hypervisor: a command in a guest, by its QEMU guest agent, as if it were run here.

stdin, stdout, stderr and the exit status are those of the command. The agent starts
`guest_relay` there (guest-exec), opens its two pipes (guest-file-open), and is asked for its
output again and again (`poll_times`).

Sentences of this program begin with ``nictop-MARK: ``; its exit status says whether another
attempt may succeed.
"""

from __future__ import annotations

import os
import select
import signal
import time
import zlib

from nictop.probe.reach.agent_client import (
    Agent,
    AgentError,
    AgentGone,
    AnswerWait,
    content,
    printable,
)
from nictop.probe.reach.agent_facts import check_guest
from nictop.probe.reach.agent_guardian import Guardian
from nictop.probe.reach.agent_guests import check_run, open_agent, why_standing
from nictop.probe.reach.poll_times import PollTimes
from nictop.probe.reach.problem import IN_GUEST, LATER_STATUS, SENTENCE, GuestProblem, say
from nictop.probe.reach.relay_format import (
    CONTENT_BYTES,
    ENDED,
    ERRORS,
    HEADER,
    INPUT_DESCRIPTOR,
    OUTPUT,
    OUTPUT_DESCRIPTOR,
    RECORD_BYTES,
    START,
    START_SECONDS,
    TAKEN,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

WINDOW_BYTES = 32768
"""Bytes of input that may wait in the guest: half of a pipe."""
MIN_SENT_BYTES = WINDOW_BYTES // 2
"""With less room nothing is sent: each request takes as long as one with more bytes."""
OPEN_POLL_SECONDS = 0.004
"""Seconds to the next attempt to open the pipes; doubled each time."""
MAX_IDLE_SECONDS = 5.0
"""Seconds without output after which it is asked whether the command still runs."""
MAX_OPEN_POLL_SECONDS = 0.2
"""Longest time between two attempts to open the pipes."""
END_SECONDS = 2.0
"""Seconds for the command to end after its input."""
NOT_ENDED = "the command in the guest has not ended with its input"
READ_BYTES = 65536
STDIN = 0


class Bridge:
    """Of one command. `max_poll`: longest time in seconds between two requests for output."""

    def __init__(self, agent: Agent, guardian: Guardian, max_poll: float) -> None:
        self._agent, self._guardian = agent, guardian
        self._times = PollTimes(max_poll)
        self._pid = 0
        self._handles: list[int] = []
        """Those of the output and of the input, while they are open."""
        self._has_input = True
        self._sent = self._taken = 0
        self._decompressor = zlib.decompressobj()
        self._for_output = bytearray()
        self._status: int | None = None
        self._heard_at = 0.0

    def run(self, words: Sequence[str]) -> int:
        """The exit status of the command, as a shell has it. Raises GuestProblem, AgentGone or
        AgentError."""
        check_guest(self._agent)
        try:
            self._start(words)
            self._carry()
        finally:
            while self._handles:
                self._close(self._handles.pop())
        status = self._status or 0
        return 128 - status if status < 0 else status

    # ----------------------------------------------------------------------------------- the start

    def _start(self, words: Sequence[str]) -> None:
        try:
            answer = self._agent.call(
                "guest-exec", path=words[0], arg=list(words[1:]), capture_output=True
            )
        except AgentError as error:
            raise GuestProblem(f"the guest agent starts no program: {error}") from None
        self._pid = whole_number(answer, "pid")
        self._open_pipes()
        self._send(START)
        self._sent = 0
        self._heard_at = time.monotonic()

    def _open_pipes(self) -> None:
        """As soon as the other process has made them."""
        wait, delay = AnswerWait(START_SECONDS, STDIN), OPEN_POLL_SECONDS
        for descriptor, mode in ((OUTPUT_DESCRIPTOR, "r"), (INPUT_DESCRIPTOR, "w")):
            path = f"/proc/{self._pid}/fd/{descriptor}"
            while not self._open(path, mode):
                self._check_start()
                if wait.left <= 0:
                    raise GuestProblem(
                        f"the guest did not start Python within {START_SECONDS:g} s: it is "
                        "overloaded, or SELinux keeps its agent from opening pipes",
                        LATER_STATUS,
                    )
                wait.until_readable(limit=delay)
                delay = min(2 * delay, MAX_OPEN_POLL_SECONDS)

    def _open(self, path: str, mode: str) -> bool:
        try:
            handle = self._agent.call("guest-file-open", path=path, mode=mode)
        except AgentError:
            return False
        if not is_number(handle):
            raise AgentGone("the guest agent answers what its protocol does not have")
        self._handles.append(handle)
        self._guardian.add(handle)
        return True

    def _check_start(self) -> None:
        """Raises GuestProblem if the process has ended."""
        status = self._agent.call("guest-exec-status", pid=self._pid)
        if isinstance(status, dict) and status.get("exited"):
            text = content(status, "err-data").decode("utf-8", "replace")
            raise GuestProblem(last_said(text) or "the guest ends what its agent starts")

    # ------------------------------------------------------------------------------------ carrying

    def _carry(self) -> None:
        """Both directions, until the command has ended."""
        next_poll = self._times.missed(time.monotonic())
        deadline: float | None = None
        while self._status is None:
            room = WINDOW_BYTES - (self._sent - self._taken)
            readable = [0] if self._has_input and room >= MIN_SENT_BYTES else []
            writable = [1] if self._for_output else []
            wait = None if writable else max(0.0, next_poll - time.monotonic())
            ready_in, ready_out, _ = select.select(readable, writable, [], wait)
            if ready_in:
                next_poll = self._forward(room)
            if ready_out:
                del self._for_output[: os.write(1, self._for_output)]
            if not self._for_output and time.monotonic() >= next_poll:
                next_poll = self._poll()
            if not self._has_input:
                deadline = deadline or time.monotonic() + END_SECONDS
                if time.monotonic() > deadline:
                    raise GuestProblem(NOT_ENDED, LATER_STATUS)
        self._write_rest()

    def _forward(self, room: int) -> float:
        """Send input; returns when its answer is to be asked for."""
        data = os.read(0, room)
        if data:
            self._send(data)
        else:
            self._has_input = False
            self._close(self._handles.pop())
        return self._times.sent(time.monotonic(), len(data))

    def _send(self, data: bytes) -> None:
        self._agent.write(self._handles[-1], data)
        self._sent += len(data)

    def _poll(self) -> float:
        """Take the records that are there; returns when to ask again."""
        now = time.monotonic()
        record = self._agent.read(self._handles[0], RECORD_BYTES)
        if record is None:
            if now - self._heard_at > MAX_IDLE_SECONDS:
                self._check_run()
            self._agent.release()
            return self._times.missed(time.monotonic())
        self._heard_at = now
        if not record:
            self._check_run()
            raise AgentGone("the guest agent was started again")
        kind, size, told_ms = self._take(record)
        if size == CONTENT_BYTES:
            return now  # more may follow
        self._agent.release()
        has_output, took_all = kind != TAKEN, self._taken == self._sent
        return self._times.received(now, told_ms, has_output=has_output, took_all=took_all)

    def _take(self, record: bytes) -> tuple[bytes, int, int]:
        """(kind, bytes of content, clock of the guest)"""
        if len(record) != RECORD_BYTES:
            raise AgentGone("the output of the guest was cut")
        kind: bytes
        size: int
        kind, size, taken, told_ms = HEADER.unpack_from(record)
        body = record[HEADER.size : HEADER.size + min(size, CONTENT_BYTES)]
        self._count(taken)
        if kind == OUTPUT:
            self._decompress(body)
        elif kind == ERRORS:
            os.write(2, body)
        elif kind == ENDED:
            self._status = exit_number(body)
        return kind, size, told_ms

    def _count(self, taken: int) -> None:
        """Bytes of input that the guest says it has taken, modulo 2^32: not more than were sent."""
        more = (taken - self._taken) & 0xFFFFFFFF
        if more > self._sent - self._taken:
            raise AgentGone("the guest says that it has taken more than it was sent")
        self._taken += more

    def _decompress(self, body: bytes) -> None:
        """Written in parts: a guest could send what becomes a thousand times larger."""
        try:
            while body:
                self._for_output += self._decompressor.decompress(body, READ_BYTES)
                body = self._decompressor.unconsumed_tail
                while len(self._for_output) > READ_BYTES:
                    del self._for_output[: os.write(1, self._for_output)]
        except zlib.error:
            raise AgentGone("the output of the guest is not what was sent") from None

    def _check_run(self) -> None:
        """Raises GuestProblem if the command has ended without telling it."""
        self._heard_at = time.monotonic()
        status = self._agent.call("guest-exec-status", pid=self._pid)
        if isinstance(status, dict) and status.get("exited"):
            raise GuestProblem("the command in the guest was ended", LATER_STATUS)

    def _write_rest(self) -> None:
        while self._for_output:
            del self._for_output[: os.write(1, self._for_output)]

    # ------------------------------------------------------------------------------------- the end

    def _close(self, handle: int) -> None:
        try:
            self._agent.call("guest-file-close", handle=handle)
        except (AgentError, AgentGone):
            return  # the guardian tries it again
        self._guardian.remove(handle)


def last_said(text: str) -> str:
    """``the guest says: …``, of the last line of its stderr; "": there is none."""
    lines = [line for line in text.splitlines() if line.strip()]
    start = SENTENCE.format(IN_GUEST)
    if not lines:
        return ""
    line = lines[-1][len(start) :] if lines[-1].startswith(start) else lines[-1]
    return f"the guest says: {printable(line)}"


def whole_number(answer: object, name: str) -> int:
    """A number of an answer. Raises AgentGone."""
    number = answer.get(name) if isinstance(answer, dict) else None
    if not isinstance(number, int) or not is_number(number):
        raise AgentGone("the guest agent answers what its protocol does not have")
    return number


def is_number(value: object) -> bool:
    """A number as the agent gives process IDs and handles (int64 in qga/qapi-schema.json)."""
    return type(value) is int and 0 <= value < 1 << 63


def exit_number(body: bytes) -> int:
    """The exit status in a record."""
    try:
        return max(-128, min(255, int(body)))
    except ValueError:
        return 1


def end_by_signal(number: int, frame: object) -> None:
    """Signals end this program like an error: what is open in the guest is closed."""
    raise SystemExit(128 + number)


def main(arguments: Sequence[str]) -> int:
    """``GUEST SECONDS COMMAND …``: seconds between two requests for output, at most."""
    guest, max_poll, *words = arguments
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
        signal.signal(number, end_by_signal)
    guardian = Guardian(guest)
    agent = None
    try:
        check_run(guest)
        agent = open_agent(guest)
        agent.watch(STDIN)
        return Bridge(agent, guardian, float(max_poll)).run(words)
    except GuestProblem as problem:
        return fail(str(problem), problem.status)
    except AgentError as error:
        return fail(f"the guest agent reports: {error}", LATER_STATUS)
    except AgentGone as error:
        return fail(why_standing(guest) or str(error), LATER_STATUS)
    except BrokenPipeError:
        return 0
    finally:
        if agent is not None:
            agent.close()
        guardian.dismiss()


def fail(sentence: str, status: int) -> int:
    """Print why, and return `status`."""
    say(sentence)
    return status
