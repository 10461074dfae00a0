"""Makes traffic for a measurement: starts, watches and stops generators, and says what they say.

Asked by `records.TrafficRequest`, answers with `records.TrafficLine`s. A generator is an iperf3 or the built-in one
(`built_in_traffic`), each a `TrafficChild` that lives no longer than its deadline, its asker and the probe. Its lines
are passed on as they come; its TCP sockets (`socket_diagnosis`) and the busiest threads of the host (`busy_threads`)
are read meanwhile. Loaded at the first request only.
"""

from __future__ import annotations

import json
import os
import select
import time

from nictop.probe.traffic.busy_threads import BusyThreadReader
from nictop.probe.traffic.child import TrafficChild, end_now
from nictop.probe.traffic.iperf3 import find_iperf3, iperf3_arguments
from nictop.probe.traffic.listening import read_listening
from nictop.probe.traffic.requests import TrafficCommand, request_id
from nictop.probe.traffic.sock_diag import SocketDiagnosis

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, Protocol

    class Say(Protocol):
        """Takes the fields of one `records.TrafficLine`."""

        def __call__(self, fields: dict[str, Any], *, dispensable: bool = False) -> None: ...


MOST = 16
"""Generators at once."""
LOOKUP_DEADLINE = 20.0
"""Seconds for a child that answers a request of `ANSWERS`."""
ANSWERS = {"check": ("tools", "the search for tools"), "path": ("path", "the lookup of the route")}
"""Action → (kind of the answer and its field, what was done)."""
LINES, LINES_PER_SECOND = 20_000, 5_000
"""How much one may print: at once, and for long. 128 streams at 10 Hz both ways print 2 600 lines a second."""
BYTES, BYTES_PER_SECOND = 16 * 1024 * 1024, 4 * 1024 * 1024
"""The same of what is passed on. As JSON those streams take 1 MB a second. Both stay far below what the reader of a
probe has time for (`wire.budget`), who would slow the whole probe."""
ESCAPED = 6
"""Bytes of a character in JSON that is not ASCII, at most but for the rare ones outside of the first plane."""
LOOKS = 0.01, 0.1
"""Seconds between two looks for a listening socket: in its first two seconds (iperf3 takes 13 to 26 ms), and later."""


class Generator:
    """One child and what is known of it."""

    def __init__(self, wish: TrafficCommand, child: TrafficChild, command: list[str], now: float) -> None:
        self.wish, self.child, self.command, self.since = wish, child, command, now
        self.started = self.answered = False
        self.failure = ""
        self.next_look = now
        self.next_sockets: float | None = None
        self.next_threads: float | None = None
        self.threads: BusyThreadReader | None = None
        self._lines, self._bytes, self._counted = float(LINES), float(BYTES), now

    def may_print(self, lines: list[str], now: float) -> bool:
        """Whether these lines are still no flood."""
        elapsed, self._counted = now - self._counted, now
        size = sum(len(line) if line.isascii() else ESCAPED * len(line) for line in lines)
        self._lines = min(float(LINES), self._lines + elapsed * LINES_PER_SECOND) - len(lines)
        self._bytes = min(float(BYTES), self._bytes + elapsed * BYTES_PER_SECOND) - size
        return self._lines > 0 and self._bytes > 0


class Generators:
    """All generators of one probe. Registers its descriptors with `poll`; `now` is CLOCK_MONOTONIC."""

    def __init__(self, say: Say, poll: select.poll, proc: str = "/proc") -> None:
        self._say, self._poll, self._proc = say, poll, proc
        self._running: dict[str, Generator] = {}
        self._lookups: dict[str, Generator] = {}
        self._diagnosis = SocketDiagnosis(proc)
        self._descriptors: dict[int, Generator] = {}
        self._paused = False
        while (descriptor := os.open(os.devnull, os.O_RDWR)) <= 2:  # a closed one would be given to the next pipe
            pass
        os.close(descriptor)

    def handle_request(self, request: dict[str, Any], now: float) -> None:
        """Do what a request asks for; what cannot be done is said in a "failed" line."""
        try:
            name = request_id(request)
        except ValueError as error:
            self._line("?", "failed", now, text=f"request not understood: {error}")
            return
        try:
            wish = TrafficCommand(request)
            if wish.action in ANSWERS:
                self._look_up(wish, now)
            elif wish.action == "stop":
                self._stop(name, now)
            else:
                self._start(wish, now)
        except (OSError, ValueError) as error:
            text = f"cannot be started: {error.strerror or error}" if isinstance(error, OSError) else str(error)
            self._line(name, "failed", now, text=text)

    def owns(self, descriptor: int) -> bool:
        """Whether an event of `poll` is to be given to `handle_readable`."""
        return descriptor in self._descriptors

    def handle_readable(self, descriptor: int, now: float) -> None:
        """Something can be read from a child."""
        generator = self._descriptors[descriptor]
        child = generator.child
        if descriptor == child.starting:
            self._take_start(generator, now)
            return
        stream = child.outputs[descriptor]
        lines = child.read(descriptor)
        if descriptor not in child.outputs:
            self._forget(descriptor)
        if generator.wish.action in ANSWERS:
            self._take_answer(generator, lines, now)
            return
        if not generator.may_print(lines, now):
            most = f"{LINES_PER_SECOND} lines or {BYTES_PER_SECOND >> 20} MiB"
            self._end(generator, f"it prints more than {most} a second and was stopped", now)
            for output in list(child.outputs):
                self._forget(output)
            child.close()
            return
        for text in lines:
            self._line(generator.wish.id, "output", now, text=text, stream=stream)

    def advance(self, now: float) -> None:
        """Do what is due: deadlines, listening sockets, figures of sockets, the end of those that have ended."""
        for generator in [*self._running.values(), *self._lookups.values()]:
            child = generator.child
            if now >= child.deadline and child.terminated is None:
                self._end(generator, f"its time of {child.deadline - generator.since:g} s was over", now)
            if generator.started and generator.wish.action == "start" and child.terminated is None:
                self._look(generator, now)
            before = {child.starting, *child.outputs}
            ended = child.advance(now)
            for descriptor in before - {child.starting, *child.outputs}:
                self._forget(descriptor)
            if ended:
                self._finish(generator, now)

    def next_deadline(self, now: float) -> float | None:
        """When `advance` has something to do; None: no generator runs."""
        moments = []
        for generator in [*self._running.values(), *self._lookups.values()]:
            moments.append(generator.child.next_moment(now))
            if generator.started and generator.wish.action == "start":
                if generator.wish.role == "server" and not generator.answered:
                    moments.append(generator.next_look)
                if generator.next_sockets is not None:
                    moments.append(generator.next_sockets)
                if generator.next_threads is not None:
                    moments.append(generator.next_threads)
        return min(moments, default=None)

    def pause(self, paused: bool) -> None:
        """While nobody takes the lines, nothing more is read: a child then waits at its pipe."""
        if paused != self._paused:
            self._paused = paused
            for descriptor in self._descriptors:
                self._poll.modify(descriptor, 0 if paused else select.POLLIN)

    def end_all(self) -> None:
        """End every child, and wait for it. Takes a moment."""
        end_now([generator.child for generator in [*self._running.values(), *self._lookups.values()]])
        for generator in self._running.values():
            if generator.threads is not None:
                generator.threads.close()
        self._running.clear()
        self._lookups.clear()
        self._diagnosis.close()

    def _look_up(self, wish: TrafficCommand, now: float) -> None:
        """In a child: what it loads is not needed otherwise, and iperf3 may hang."""
        if wish.id in self._lookups:
            raise ValueError("that is being looked up already")
        if len(self._lookups) >= MOST:
            raise ValueError(f"{MOST} lookups go on already")

        def look_up() -> None:
            if wish.action == "check":
                from nictop.probe.traffic.tools import read_tools

                say_answer(read_tools(self._proc))
            else:
                from nictop.probe.traffic.path import read_path

                say_answer(read_path(wish.address, wish.source, wish.ifindex, self._proc))

        self._lookups[wish.id] = self._made(wish, look_up, [], LOOKUP_DEADLINE, now)

    def _start(self, wish: TrafficCommand, now: float) -> None:
        if wish.id in self._running:
            raise ValueError("a generator of this name runs already")
        if len(self._running) >= MOST:
            raise ValueError(f"{MOST} generators run already")
        program: list[str] | Callable[[], int]
        if wish.generator == "iperf3":
            path = find_iperf3()
            if path is None:
                raise ValueError("iperf3 is not installed")
            command = [path, *iperf3_arguments(wish.role, wish.port, wish.address, wish.arguments)]
            program = command
        else:
            from nictop.probe.traffic.builtin.options import parse_options

            parse_options(wish.arguments)
            command = ["built-in", wish.role, wish.address, str(wish.port), *wish.arguments]

            def program() -> int:
                from nictop.probe.traffic.builtin.main import run

                return run(wish.role, wish.address, wish.port, wish.arguments)

        self._running[wish.id] = self._made(wish, program, command, wish.deadline, now)

    def _made(self, wish: TrafficCommand, program: Any, command: list[str], deadline: float, now: float) -> Generator:
        child = TrafficChild.start(program, now + deadline)
        generator = Generator(wish, child, command, now)
        self._watch(child.starting, generator)
        return generator

    def _stop(self, name: str, now: float) -> None:
        generator = self._running.get(name)
        if generator is None:
            raise ValueError("no generator of this name runs here")
        generator.child.terminate(now)

    def _take_start(self, generator: Generator, now: float) -> None:
        descriptor = generator.child.starting
        started, text = generator.child.has_started()
        if started is None:
            return
        self._forget(descriptor)
        generator.started = started
        for output in generator.child.outputs:
            self._watch(output, generator)
        if not started:
            generator.failure = f"cannot be started: {text}"
            return
        if generator.wish.action == "start":
            command = [printable(word) for word in generator.command]
            self._line(generator.wish.id, "started", now, pid=generator.child.pid, arguments=command)
            generator.next_sockets = now + generator.wish.interval if generator.wish.sockets else None
            if generator.wish.threads:
                generator.threads = BusyThreadReader(generator.child.pid, self._proc)
                generator.threads.begin()
                generator.next_threads = now + generator.threads.interval

    def _take_answer(self, generator: Generator, lines: list[str], now: float) -> None:
        kind, what = ANSWERS[generator.wish.action]
        for line in lines:
            try:
                answer = json.loads(line)
            except ValueError:
                generator.failure = f"{what} failed: {line[:200]}"
                continue
            generator.answered = True
            self._line(generator.wish.id, kind, now, **{kind: answer})

    def _look(self, generator: Generator, now: float) -> None:
        wish, child = generator.wish, generator.child
        if wish.role == "server" and not generator.answered and now >= generator.next_look:
            generator.next_look = now + LOOKS[now > generator.since + 2.0]
            udp = wish.generator == "builtin" and "--udp" in wish.arguments
            if read_listening(child.pid, wish.port, udp=udp, proc=self._proc):
                generator.answered = True
                self._line(wish.id, "listening", now)
        if generator.next_sockets is not None and now >= generator.next_sockets:
            generator.next_sockets += wish.interval * (1 + int((now - generator.next_sockets) / wish.interval))
            sockets, unreadable = self._diagnosis.read((child.pid,), wish.port)
            if unreadable is not None:
                generator.next_sockets = None
            if sockets or unreadable is not None:
                moment = time.monotonic()
                self._line(wish.id, "sockets", moment, dispensable=True, sockets=sockets, unreadable=unreadable)

        if generator.threads is not None and generator.next_threads is not None and now >= generator.next_threads:
            seconds, threads, why = generator.threads.read()
            moment = time.monotonic()
            generator.next_threads = moment + generator.threads.interval
            self._line(wish.id, "threads", moment, dispensable=True, seconds=seconds, threads=threads, unreadable=why)

    def _end(self, generator: Generator, text: str, now: float) -> None:
        if generator.wish.action == "start" and generator.started:
            self._line(generator.wish.id, "failed", now, text=text)
        generator.failure = generator.failure or text
        generator.child.terminate(now)

    def _finish(self, generator: Generator, now: float) -> None:
        if generator.threads is not None:
            generator.threads.close()
        status, number = generator.child.reap()
        name = generator.wish.id
        if generator.wish.action in ANSWERS:
            del self._lookups[name]
            if not generator.answered:
                what = ANSWERS[generator.wish.action][1]
                text = generator.failure or f"{what} ended with status {status}, signal {number}"
                self._line(name, "failed", now, text=text)
            return
        del self._running[name]
        if generator.started:
            self._line(name, "exit", now, status=status, signal=number)
        else:
            self._line(name, "failed", now, text=generator.failure or "it was ended before it had started")

    def _watch(self, descriptor: int, generator: Generator) -> None:
        self._descriptors[descriptor] = generator
        self._poll.register(descriptor, 0 if self._paused else select.POLLIN)

    def _forget(self, descriptor: int) -> None:
        if self._descriptors.pop(descriptor, None) is not None:
            self._poll.unregister(descriptor)

    def _line(self, name: str, kind: str, now: float, *, dispensable: bool = False, **fields: object) -> None:
        self._say({"time": now, "id": name, "kind": kind, **fields}, dispensable=dispensable)


def say_answer(record: object) -> None:
    """A record as one line of JSON on stdout."""
    line = json.dumps(record, default=vars, separators=(",", ":")).encode("ascii") + b"\n"
    while line:
        line = line[os.write(1, line) :]


def printable(word: str) -> str:
    """A path whose bytes are not UTF-8, as text that every encoder takes."""
    return os.fsencode(word).decode("utf-8", "replace")
