"""Start, supervise and stop traffic generators, and forward their output.

Takes `records.TrafficRequest`s and sends `records.TrafficLine`s. A generator is iperf3 or the
built-in one (`builtin`), each in a `TrafficChild` that ends at its deadline, when it is stopped, or
with the probe. Its output lines are forwarded at once; its TCP sockets (`sock_diag`) and the
busiest threads of the host (`busy_threads`) are read meanwhile. Imported with the first request
only.
"""

from __future__ import annotations

import json
import os
import select
import time
from collections import deque
from functools import partial

from nictop.probe.kernel.backports import is_ascii
from nictop.probe.kernel.exits import exit_text
from nictop.probe.light_dataclasses import field_mapping
from nictop.probe.protocol.hello import Encoded
from nictop.probe.traffic.busy_threads import BusyThreadReader
from nictop.probe.traffic.child import TrafficChild, terminate_all
from nictop.probe.traffic.deaths import is_error, read_kills, start_error_text, why_it_died
from nictop.probe.traffic.iperf3 import find_iperf3, iperf3_arguments
from nictop.probe.traffic.listening import read_listening
from nictop.probe.traffic.requests import TrafficCommand, request_id
from nictop.probe.traffic.sock_diag import SocketDiagnosis

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, Protocol

    class ReportLine(Protocol):
        """Takes the fields of one `records.TrafficLine`."""

        def __call__(self, fields: dict[str, Any], *, droppable: bool = False) -> None: ...


MAX_GENERATORS = 16
"""Generators at once."""
MAX_LOOKUPS = 3 * MAX_GENERATORS
"""Lookups at once: a run needs check, path_listen and path_test."""
LOOKUP_TIMEOUT = 20.0
"""Seconds for a child that answers a request in `LOOKUPS`, unless the request has a deadline."""
DROPS_END_SECONDS = 20.0
"""To start and end the drop monitor: the kernel waits until all CPUs have left the old state of its
trace points."""
LOOKUPS = {
    "check": ("tools", "check of the tools"),
    "path": ("path", "route lookup"),
    "path_listen": ("path_listener", "path test"),
    "path_test": ("path_test", "path test"),
    "floor": ("floor", "measurement over loopback"),
    "drops": ("drops", "drop monitor"),
    "lldp": ("lldp", "listening for LLDP"),
    "losses": ("losses", "reading of the counters of lost packets"),
    "work": ("work", "workload"),
}
"""Action → (kind and field of the answer, text for messages)."""
ANSWER_MARK = "answer"
"""Begins the lines of the child of a lookup that are answers."""
SEVERAL_ANSWERS = ("path_listen", "lldp", "work")
"""Actions with several answers; "exit" follows the last one."""
WORKLOAD_END_SECONDS = 10.0
"""Added to the deadline of the child that supervises a workload, which ends that itself; also how
long it may take to end all its processes."""
STOPPED_TEXT = "the process that supervises the command was stopped (SIGSTOP), and killed"
LLDP_END_SECONDS = 5.0
"""Added to the deadline of a child that listens for LLDP, which ends itself."""
END_SECONDS = {
    "drops": DROPS_END_SECONDS,
    "lldp": LLDP_END_SECONDS,
    "work": WORKLOAD_END_SECONDS,
}
"""Action → what its child may need beyond the deadline of the request."""
BURST_LINES, LINES_PER_SECOND = 20_000, 5_000
"""Output lines of one generator: as a burst, and sustained. 128 streams at 10 Hz in both directions
print 2 600 lines a second."""
BURST_BYTES, BYTES_PER_SECOND = 16 * 1024 * 1024, 4 * 1024 * 1024
"""The same for forwarded bytes. As JSON those streams use 1 MB a second. Both are far below what
the reader of a probe can process (`nictop.limits`)."""
ESCAPED_CHAR_BYTES = 6
r"""Bytes of a non-ASCII character in JSON (``\uXXXX``), except for the rare ones above U+FFFF."""
LAST_ERROR_LINES = 5
LISTEN_POLL_SECONDS = 0.01, 0.1
"""Seconds between checks for a listening socket: in the first two seconds (iperf3 takes 13 to 26
ms), and later."""


def _name_of(command: TrafficCommand) -> str:
    """What is done, or the generator that runs."""
    lookup = LOOKUPS.get(command.action)
    return command.generator if lookup is None else lookup[1]


class Generator:
    """One child process and its state."""

    def __init__(
        self, command: TrafficCommand, child: TrafficChild, argv: list[str], now: float
    ) -> None:
        self.command, self.child, self.argv, self.created = command, child, argv, now
        self.started = self.is_answered = False
        self.error = ""
        self.last_errors: deque[str] = deque(maxlen=LAST_ERROR_LINES)
        """Last lines of its standard error, and of its output that look like errors."""
        self.user = 0
        """Of the processes of a workload."""
        self.kills: int | None = None
        """Processes that the kernel had killed for lack of memory when it was started."""
        self.next_listen_check = now
        self.next_sockets: float | None = None
        self.next_threads: float | None = None
        self.threads: BusyThreadReader | None = None
        self._line_budget, self._byte_budget, self._budget_time = (
            float(BURST_LINES),
            float(BURST_BYTES),
            now,
        )

    def within_limits(self, lines: list[str], now: float) -> bool:
        """Whether the output is within the limits, including these lines."""
        elapsed, self._budget_time = now - self._budget_time, now
        size = sum(
            len(line) if is_ascii(line) else ESCAPED_CHAR_BYTES * len(line) for line in lines
        )
        self._line_budget = min(
            float(BURST_LINES), self._line_budget + elapsed * LINES_PER_SECOND
        ) - len(lines)
        self._byte_budget = (
            min(float(BURST_BYTES), self._byte_budget + elapsed * BYTES_PER_SECOND) - size
        )
        return self._line_budget > 0 and self._byte_budget > 0


class Generators:
    """All generators of one probe. Registers its descriptors with `poll`; `now` is
    CLOCK_MONOTONIC."""

    def __init__(
        self,
        report: ReportLine,
        poll: select.poll,
        proc: str = "/proc",
        *,
        allow_workload: bool = False,
    ) -> None:
        self._report, self._poll, self._proc = report, poll, proc
        self._allow_workload = allow_workload
        self._running: dict[str, Generator] = {}
        self._lookups: dict[str, Generator] = {}
        self._diagnosis = SocketDiagnosis(proc)
        self._descriptors: dict[int, Generator] = {}
        self._paused = False
        # a pipe must not get the number of a closed standard descriptor
        descriptor = os.open(os.devnull, os.O_RDWR)
        while descriptor <= 2:
            descriptor = os.open(os.devnull, os.O_RDWR)
        os.close(descriptor)

    def handle_request(self, request: dict[str, Any], now: float) -> None:
        """Execute a request; errors are sent as a "failed" line."""
        try:
            name = request_id(request)
        except ValueError as error:
            self._send("?", "failed", now, text=f"request not understood: {error}")
            return
        try:
            command = TrafficCommand(request)
            if command.action in LOOKUPS:
                self._start_lookup(command, now)
            elif command.action == "stop":
                self._stop(name, now)
            else:
                self._start(command, now)
        except (OSError, ValueError) as error:
            text = (
                f"cannot start: {error.strerror or error}"
                if isinstance(error, OSError)
                else str(error)
            )
            self._send(name, "failed", now, text=text)

    def owns(self, descriptor: int) -> bool:
        """Whether events of a descriptor must be passed to `handle_readable`."""
        return descriptor in self._descriptors

    def handle_readable(self, descriptor: int, now: float) -> None:
        """Read the output or the start result of the child that owns the descriptor."""
        generator = self._descriptors[descriptor]
        child = generator.child
        if descriptor == child.start_pipe:
            self._handle_start(generator, now)
            return
        stream = child.outputs[descriptor]
        lines = child.read(descriptor)
        if descriptor not in child.outputs:
            self._unregister(descriptor)
        if generator.command.action in LOOKUPS:
            self._handle_answer(generator, lines, now)
            return
        if not generator.within_limits(lines, now):
            limit = f"{LINES_PER_SECOND} lines or {BYTES_PER_SECOND >> 20} MiB"
            self._fail(generator, f"stopped: output exceeds {limit} per second", now)
            for output in list(child.outputs):
                self._unregister(output)
            child.close()
            return
        generator.last_errors.extend(line for line in lines if stream == "stderr" or is_error(line))
        for text in lines:
            self._send(generator.command.id, "output", now, text=text, stream=stream)

    def advance(self, now: float) -> None:
        """Do what is due: deadlines, checks for listening sockets, readings of sockets and threads,
        exits."""
        for generator in [*self._running.values(), *self._lookups.values()]:
            child = generator.child
            if now >= child.deadline and child.terminated_at is None:
                limit = child.deadline - generator.created
                what = _name_of(generator.command)
                self._fail(generator, f"{what} exceeded its time limit of {limit:g} s", now)
            if (
                generator.started
                and generator.command.action == "start"
                and child.terminated_at is None
            ):
                self._observe(generator, now)
            before = {child.start_pipe, *child.outputs}
            ended = child.advance(now)
            for descriptor in before - {child.start_pipe, *child.outputs}:
                self._unregister(descriptor)
            if ended:
                self._finish(generator, now)

    def next_deadline(self, now: float) -> float | None:
        """When `advance` has something to do; None: no generator runs."""
        deadlines = []
        for generator in [*self._running.values(), *self._lookups.values()]:
            deadlines.append(generator.child.next_deadline(now))
            if generator.started and generator.command.action == "start":
                if generator.command.role == "server" and not generator.is_answered:
                    deadlines.append(generator.next_listen_check)
                if generator.next_sockets is not None:
                    deadlines.append(generator.next_sockets)
                if generator.next_threads is not None:
                    deadlines.append(generator.next_threads)
        return min(deadlines, default=None)

    def pause(self, paused: bool) -> None:
        """While the probe's output is blocked, read nothing more: children then block on their
        pipes."""
        if paused != self._paused:
            self._paused = paused
            for descriptor in self._descriptors:
                self._poll.modify(descriptor, 0 if paused else select.POLLIN)

    def end_all(self) -> None:
        """Terminate every child and wait for it."""
        terminate_all(
            [generator.child for generator in [*self._running.values(), *self._lookups.values()]]
        )
        for generator in self._running.values():
            if generator.threads is not None:
                generator.threads.close()
        self._running.clear()
        self._lookups.clear()
        self._diagnosis.close()

    def _start_lookup(self, command: TrafficCommand, now: float) -> None:
        """In a child, because it imports modules that the probe does not need, and iperf3 may
        hang."""
        if command.id in self._lookups:
            raise ValueError("this lookup is already running")
        if len(self._lookups) >= MAX_LOOKUPS:
            raise ValueError(f"{MAX_LOOKUPS} lookups are already running")

        if command.action == "floor":
            check_floor_options(command.arguments)
        if command.action == "work" and not self._allow_workload:
            raise ValueError("this probe was started without --allow-workload")

        deadline = (command.deadline or LOOKUP_TIMEOUT) + END_SECONDS.get(command.action, 0.0)
        answer = partial(look_up, command, self._proc)
        lookup = self._lookups[command.id] = self._fork(command, answer, [], deadline, now)
        if command.action == "work":
            from nictop.probe.traffic.user import workload_user
            from nictop.probe.workload.processes import kill_descendants

            child = lookup.child
            child.terminate_timeout = WORKLOAD_END_SECONDS
            child.ends_itself_at = child.deadline - WORKLOAD_END_SECONDS
            child.before_kill = partial(kill_descendants, child.pid, self._proc)
            lookup.user = workload_user()[0]

    def _start(self, command: TrafficCommand, now: float) -> None:
        if command.id in self._running:
            raise ValueError("a generator of this name is already running")
        if len(self._running) >= MAX_GENERATORS:
            raise ValueError(f"{MAX_GENERATORS} generators are already running")
        program: list[str] | Callable[[], int]
        if command.generator == "iperf3":
            path = find_iperf3()
            if path is None:
                raise ValueError("iperf3 is not installed")
            argv = [
                path,
                *iperf3_arguments(command.role, command.port, command.address, command.arguments),
            ]
            program = argv
        elif command.generator == "ntttcp":
            argv = ntttcp_command(command)
            program = argv
        else:
            from nictop.probe.traffic.builtin.options import parse_options

            parse_options(command.arguments)
            argv = [
                "built-in",
                command.role,
                command.address,
                str(command.port),
                *command.arguments,
            ]

            def program() -> int:
                from nictop.probe.traffic.builtin.main import run
                from nictop.probe.traffic.greetings import ExpectedPeer

                peer = ExpectedPeer(bytes.fromhex(command.cookie), command.peer)
                return run(command.role, command.address, command.port, command.arguments, peer)

        kills = read_kills(self._proc)
        generator = self._running[command.id] = self._fork(
            command, program, argv, command.deadline, now
        )
        generator.kills = kills

    def _fork(
        self, command: TrafficCommand, program: Any, argv: list[str], deadline: float, now: float
    ) -> Generator:
        def prepare() -> None:
            from nictop.probe.traffic.user import leave_root

            if command.action == "work":
                import_supervisor()  # its user may not be able to read Python's or nictop's files
            leave_root(command, "" if callable(program) else program[0])

        child = TrafficChild.start(program, now + deadline, prepare)
        generator = Generator(command, child, argv, now)
        self._register(child.start_pipe, generator)
        return generator

    def _stop(self, name: str, now: float) -> None:
        generator = self._running.get(name) or self._lookups.get(name)
        if generator is None:
            raise ValueError("no generator of this name is running")
        generator.child.terminate(now)

    def _handle_start(self, generator: Generator, now: float) -> None:
        descriptor = generator.child.start_pipe
        started, text = generator.child.start_result()
        if started is None:
            return
        self._unregister(descriptor)
        generator.started = started
        for output in generator.child.outputs:
            self._register(output, generator)
        if not started:
            generator.error = f"cannot start: {start_error_text(text)}"
            return
        if generator.command.action == "start":
            argv = [replace_undecodable(word) for word in generator.argv]
            self._send(
                generator.command.id, "started", now, pid=generator.child.pid, arguments=argv
            )
            generator.next_sockets = (
                now + generator.command.interval if generator.command.sockets else None
            )
            if generator.command.threads:
                generator.threads = BusyThreadReader(generator.child.pid, self._proc)
                generator.threads.begin()
                generator.next_threads = now + generator.threads.interval

    def _handle_answer(self, generator: Generator, lines: list[str], now: float) -> None:
        kind, label = LOOKUPS[generator.command.action]
        for line in lines:
            answer = answer_of(line)
            if answer is None:
                generator.error = f"{label} failed: {line[:200]}"
                continue
            generator.is_answered = True
            fields: dict[str, Any] = {kind: answer}
            self._send(generator.command.id, kind, now, **fields)

    def _observe(self, generator: Generator, now: float) -> None:
        if generator.command.role == "server" and not generator.is_answered:
            self._check_listening(generator, now)
        if generator.next_sockets is not None and now >= generator.next_sockets:
            self._read_sockets(generator, generator.next_sockets, now)
        if generator.next_threads is not None and now >= generator.next_threads:
            self._read_threads(generator)

    def _check_listening(self, generator: Generator, now: float) -> None:
        if now < generator.next_listen_check:
            return
        command = generator.command
        generator.next_listen_check = now + LISTEN_POLL_SECONDS[now > generator.created + 2.0]
        udp = command.generator == "builtin" and "--udp" in command.arguments
        if read_listening(generator.child.pid, command.port, udp=udp, proc=self._proc):
            generator.is_answered = True
            self._send(command.id, "listening", now)

    def _read_sockets(self, generator: Generator, due: float, now: float) -> None:
        """`due`: when they were to be read. Those that cannot be read are not read again."""
        command = generator.command
        intervals = 1 + int((now - due) / command.interval)
        generator.next_sockets = due + command.interval * intervals
        sockets, unreadable = self._diagnosis.read(
            (generator.child.pid,), command.port, last_port(command)
        )
        if unreadable is not None:
            generator.next_sockets = None
        if sockets or unreadable is not None:
            self._send(
                command.id,
                "sockets",
                time.monotonic(),
                droppable=True,
                sockets=sockets,
                unreadable=unreadable,
            )

    def _read_threads(self, generator: Generator) -> None:
        if generator.threads is None:
            return
        seconds, threads, missing = generator.threads.read()
        now = time.monotonic()
        generator.next_threads = now + generator.threads.interval
        self._send(
            generator.command.id,
            "threads",
            now,
            droppable=True,
            seconds=seconds,
            threads=threads,
            unreadable=missing,
        )

    def _fail(self, generator: Generator, text: str, now: float) -> None:
        """Terminate it; the first reason is sent."""
        if generator.command.action == "start" and generator.started and not generator.error:
            self._send(generator.command.id, "failed", now, text=text)
        generator.error = generator.error or text
        generator.child.terminate(now)

    def _finish(self, generator: Generator, now: float) -> None:
        if generator.threads is not None:
            generator.threads.close()
        code = generator.child.reap()
        if generator.command.action == "work" and code != 0:
            self._end_workload(generator)
        if generator.command.action in LOOKUPS:
            self._finish_lookup(generator, code, now)
            return
        name = generator.command.id
        del self._running[name]
        if not generator.started:
            self._send(name, "failed", now, text=generator.error or "stopped before it started")
            return
        status, number = status_and_signal(code)
        is_stopped = bool(generator.error) or generator.child.terminated_at is not None
        text = ""
        if not is_stopped:
            text = why_it_died(number, generator.last_errors, generator.kills, self._proc)
        self._send(name, "exit", now, status=status, signal=number, text=text)

    def _finish_lookup(self, generator: Generator, code: int, now: float) -> None:
        """`code`: how its child has ended."""
        command = generator.command
        del self._lookups[command.id]
        if not generator.is_answered:
            text = generator.error or _unanswered_text(generator, LOOKUPS[command.action][1], code)
            self._send(command.id, "failed", now, text=text)
        elif command.action in SEVERAL_ANSWERS:
            status, number = status_and_signal(code)
            text = STOPPED_TEXT if generator.child.was_stopped else ""
            self._send(command.id, "exit", now, status=status, signal=number, text=text)

    def _end_workload(self, generator: Generator) -> None:
        """Its supervisor was killed: its processes must not be left."""
        from nictop.probe.workload.processes import kill_marked

        kill_marked(generator.command.id, generator.user, self._proc)

    def _register(self, descriptor: int, generator: Generator) -> None:
        self._descriptors[descriptor] = generator
        self._poll.register(descriptor, 0 if self._paused else select.POLLIN)

    def _unregister(self, descriptor: int) -> None:
        if self._descriptors.pop(descriptor, None) is not None:
            self._poll.unregister(descriptor)

    def _send(
        self, name: str, kind: str, now: float, *, droppable: bool = False, **fields: object
    ) -> None:
        self._report({"time": now, "id": name, "kind": kind, **fields}, droppable=droppable)


def ntttcp_command(command: TrafficCommand) -> list[str]:
    """Raises ValueError."""
    from nictop.probe.traffic.ntttcp import find_ntttcp, ntttcp_arguments

    path = find_ntttcp()
    if path is None:
        raise ValueError("ntttcp is not installed")
    arguments = ntttcp_arguments(command.role, command.port, command.address, command.arguments)
    return [path, *arguments]


def last_port(command: TrafficCommand) -> int:
    """Of the connections of a generator: ntttcp has a port for each stream."""
    if command.generator != "ntttcp":
        return command.port
    from nictop.probe.traffic.ntttcp import ntttcp_ports

    return min(command.port + ntttcp_ports(command.arguments) - 1, 65535)


def status_and_signal(code: int) -> tuple[int | None, int | None]:
    """Of a return code of `subprocess`: one of them is None."""
    if code < 0:
        return None, -code
    return code, None


def _unanswered_text(generator: Generator, label: str, code: int) -> str:
    """Why a lookup ended without an answer: nictop stopped it, or how its process ended."""
    if generator.child.was_stopped:
        return f"{label}: {STOPPED_TEXT}"
    if generator.child.terminated_at is not None:
        return f"{label} was stopped before it answered"
    return f"{label} {exit_text(code)}"


def import_supervisor() -> None:
    """Everything that the supervisor of a workload imports."""
    import ctypes  # noqa: F401
    import errno  # noqa: F401
    import signal  # noqa: F401

    import nictop.probe.kernel.pdeathsig
    import nictop.probe.workload.run  # noqa: F401


def check_floor_options(arguments: list[str]) -> None:
    """Raises ValueError for options that a measurement over loopback cannot have."""
    from nictop.probe.traffic.builtin.options import parse_options

    if not parse_options(arguments).test:
        raise ValueError("a measurement over loopback needs --test")


def look_up(command: TrafficCommand, proc: str) -> None:
    """In the child: write the answers."""
    if command.action == "check":
        from nictop.probe.traffic.tools import read_tools

        write_answer(read_tools(proc))
    elif command.action == "path":
        from nictop.probe.traffic.path import read_path

        write_answer(read_path(command.address, command.source, command.ifindex, proc))
    elif command.action == "path_listen":
        from nictop.probe.traffic.path_test.listener import listen

        listen(command, write_answer, proc)
    elif command.action == "floor":
        from nictop.probe.traffic.builtin.floor import measure_floor
        from nictop.probe.traffic.builtin.options import parse_options

        write_answer(
            {
                "arguments": command.arguments,
                **measure_floor(parse_options(command.arguments)),
            }
        )
    elif command.action == "drops":
        from nictop.probe.traffic.drops.monitor import read_drops

        write_answer(read_drops(command.deadline, proc))
    elif command.action == "losses":
        from nictop.probe.traffic.loss_counters import read_loss_counts

        write_answer(read_loss_counts(command.ifindex, proc))
    elif command.action == "work":
        from nictop.probe.workload.run import run_workload

        run_workload(command, write_answer, proc)
    elif command.action == "lldp":
        from nictop.probe.traffic.lldp import listen_for_lldp

        listen_for_lldp(command.links, command.deadline, write_answer)
    else:
        from nictop.probe.traffic.path_test.tester import test_path

        write_answer(test_path(command))


def write_answer(record: object) -> None:
    """Write a record as one line to stdout: a mark, its length, and its JSON."""
    text = json.dumps(record, default=field_mapping, separators=(",", ":"))
    line = f"{ANSWER_MARK} {len(text)} {text}\n".encode("ascii")
    while line:
        line = line[os.write(1, line) :]


def answer_of(line: str) -> Encoded | None:
    """What `write_answer` wrote, not parsed: the line of the probe has it as it is. None: something
    else was written, or it was cut off."""
    mark, _, rest = line.partition(" ")
    length, _, text = rest.partition(" ")
    is_complete = mark == ANSWER_MARK and length == str(len(text))
    return Encoded(text) if is_complete and text else None


def replace_undecodable(word: str) -> str:
    """A path with bytes that are not UTF-8, as text that can be encoded."""
    return os.fsencode(word).decode("utf-8", "replace")
