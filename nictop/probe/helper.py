"""The helper of a root probe: forked before the probe gives up its rights, it does what they are
needed for.

The probe reads and parses, and is restricted by the kernel (`restriction`). Tests, plans and
changes are requests that it passes on unread to the helper, over a pipe; their lines come back over
another. So it never needs the right to start a program, to become another user or to signal a
process, and a change needs no second connection. The helper also answers the few questions of
`kernel.other_processes`. Until something is asked it only waits; its modules are imported then, and
each test, plan or change is a process of its own. It ends with the pipe, in whatever way the probe
ends, and supervises a change that is being undone even if the probe was killed.
"""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import time

from nictop.probe.actions import ActionProcesses
from nictop.probe.kernel import other_processes
from nictop.probe.kernel.backports import freeze
from nictop.probe.kernel.capabilities import keep_capabilities, set_no_new_privileges
from nictop.probe.kernel.own_process import close_others, set_probe, set_process_name
from nictop.probe.protocol.hello import encode_line
from nictop.probe.protocol.output import LineWriter
from nictop.probe.protocol.requests import take_lines

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, NoReturn

KEPT = (
    *(
        "dac_override",
        "dac_read_search",
        "kill",
        "setgid",
        "setuid",
        "net_bind_service",
        "net_admin",
        "net_raw",
    ),
    *("sys_ptrace", "setpcap"),
)
"""Capabilities of a helper that makes no changes: those of all tests (`traffic.user`), to change
the user and to end its processes, to look into other processes, and for the socket of lldpd."""
NAME = "nictop-helper"
READ_BYTES = 64 * 1024
MAX_ERROR_CHARS = 500
RETRY_SECONDS = 0.02
"""Until a request is written again that the helper, which was busy, has not read."""


class HelperEnded(Exception):
    """The helper has ended before the probe."""


class Helper:
    """The probe's end: has the methods of `ActionProcesses`. `write`: writes lines to the output of
    the probe."""

    def __init__(self, pid: int, requests: int, reports: int, channel: socket.socket) -> None:
        self._pid, self._requests, self._reports = pid, LineWriter(requests), reports
        self._poll: select.poll | None = None
        self._write: Callable[[bytes], object] = len
        self._rest = bytearray()
        self._paused = False
        self.channel = channel

    def attach(self, write: Callable[[bytes], None], poll: select.poll) -> None:
        """Register with the loop of the probe."""
        self._write, self._poll = write, poll
        poll.register(self._reports, select.POLLIN)

    def handle_request(self, kind: str, request: dict[str, object], now: float) -> None:
        """Pass on a request. Raises HelperEnded."""
        try:
            self._requests.write(json.dumps({kind: request}).encode() + b"\n")
        except BrokenPipeError:
            raise HelperEnded from None

    def owns(self, descriptor: int) -> bool:
        return descriptor == self._reports

    def handle_readable(self, descriptor: int, now: float) -> None:
        """Pass on lines of the helper. Raises HelperEnded."""
        try:
            data = os.read(self._reports, READ_BYTES)
        except BlockingIOError:
            return
        if not data:
            raise HelperEnded
        for line in take_lines(self._rest, data):
            self._write(line + b"\n")

    def advance(self, now: float) -> None:
        if self._requests.backlogged:
            try:
                self._requests.flush()
            except BrokenPipeError:
                raise HelperEnded from None

    def next_deadline(self, now: float) -> float | None:
        return now + RETRY_SECONDS if self._requests.backlogged else None

    def pause(self, paused: bool) -> None:
        """While the probe's output is blocked, read nothing more: the helper then pauses its
        generators."""
        if paused != self._paused and self._poll is not None:
            self._paused = paused
            self._poll.modify(self._reports, 0 if paused else select.POLLIN)

    def close(self) -> None:
        """Let it end its children, and wait for that; not if it was stopped (SIGSTOP), as a
        workload of its user may do: the supervisor of that continues it."""
        os.close(self._requests.descriptor)
        os.close(self._reports)
        self.channel.close()
        os.waitid(os.P_PID, self._pid, os.WEXITED | os.WSTOPPED)


def start_helper(*, allow_changes: bool, allow_workload: bool = False) -> Helper:
    """Fork the helper. Raises OSError."""
    requests, reports, probe = os.pipe(), os.pipe(), os.getpid()
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    freeze()  # no collection before: it takes as long as reading all counters, and finds nothing
    pid = os.fork()
    if pid == 0:
        set_probe(probe)
        _run_helper(
            requests[0],
            reports[1],
            theirs,
            allow_changes=allow_changes,
            allow_workload=allow_workload,
        )
    os.close(requests[0])
    os.close(reports[1])
    theirs.close()
    os.set_blocking(reports[0], False)
    return Helper(pid, requests[1], reports[0], ours)


def _run_helper(
    requests: int,
    reports: int,
    channel: socket.socket,
    *,
    allow_changes: bool,
    allow_workload: bool = False,
) -> NoReturn:
    """Main function of the helper."""
    status = 1
    try:
        for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
            signal.signal(number, signal.SIG_IGN)  # it ends with the probe
        close_others(requests, reports, channel.fileno())
        set_process_name(NAME)
        if not allow_changes:
            _give_up_rights()
        HelperLoop(
            requests,
            reports,
            channel,
            allow_changes=allow_changes,
            allow_workload=allow_workload,
        ).run()
        status = 0
    except BaseException as error:
        text = f"the helper failed: {type(error).__name__}: {error}"[:MAX_ERROR_CHARS]
        os.write(reports, encode_line("trouble", {"time": time.monotonic(), "message": text}))
    finally:
        os._exit(status)


def _give_up_rights() -> None:
    """Without the right to change the host, a helper has no other rights than tests need."""
    try:
        keep_capabilities(KEPT)
        set_no_new_privileges()
    except OSError:
        return  # told by `restriction`, for which the same fails


class HelperLoop:
    """One poll() over the requests, the questions and the pipes of the children."""

    def __init__(
        self,
        requests: int,
        reports: int,
        channel: socket.socket,
        *,
        allow_changes: bool,
        allow_workload: bool = False,
    ) -> None:
        self._poll = select.poll()
        self._requests, self._rest, self._channel = requests, bytearray(), channel
        self._output = LineWriter(reports)
        self._actions = ActionProcesses(
            self._send, self._poll, allow_changes=allow_changes, allow_workload=allow_workload
        )
        self._poll.register(requests, select.POLLIN)
        self._poll.register(channel, select.POLLIN)

    def run(self) -> None:
        """Until the probe has ended. Leaves no child process."""
        try:
            while self._run_once():
                pass
        except (BrokenPipeError, EOFError):
            pass
        finally:
            self._actions.close()

    def _run_once(self) -> bool:
        now = time.monotonic()
        deadline = self._actions.next_deadline(now)
        for descriptor, event in self._poll.poll(
            None if deadline is None else max(0.0, deadline - now) * 1000
        ):
            if descriptor == self._output.descriptor:
                if event & (select.POLLERR | select.POLLHUP):
                    return False
                self._output.flush()
                self._update_output_poll()
            elif descriptor == self._requests:
                data = os.read(self._requests, READ_BYTES)
                if not data:
                    return False
                self._handle_requests(data)
            elif descriptor == self._channel.fileno():
                self._answer()
            else:
                self._actions.handle_readable(descriptor, time.monotonic())
        self._actions.advance(time.monotonic())
        return True

    def _handle_requests(self, data: bytes) -> None:
        for line in take_lines(self._rest, data):
            for kind, request in json.loads(line).items():
                self._actions.handle_request(kind, request, time.monotonic())

    def _answer(self) -> None:
        try:
            other_processes.answer_question(self._channel)
        except (ValueError, OSError):
            return  # the pipe of who asked is closed

    def _send(self, kind: str, fields: dict[str, Any], *, droppable: bool = False) -> None:
        self._output.write(encode_line(kind, fields), dispensable=droppable)
        self._update_output_poll()

    def _update_output_poll(self) -> None:
        self._poll.register(
            self._output.descriptor, select.POLLOUT if self._output.backlogged else 0
        )
        self._actions.pause(self._output.backlogged)
