"""The probe: runs on the watched host, request lines in on stdin, record lines out on stdout, until stdin closes.

One thread and one poll(). `Hello` and the first `Counters` go out before anything slow is begun; then inventories come
from a child process, when events say so (`hotplug`), when asked for, and at long intervals. Whatever fails is said in a
`Trouble` line and the rest goes on.

Its arguments are in `options`. Only with ``--allow-changes`` is anything loaded that could change this host.
"""

from __future__ import annotations

import gc
import os
import select
import signal
import sys
import time

from nictop.probe import light_dataclasses
from nictop.probe.counters.reader import CounterReader
from nictop.probe.counters.targets import parse_targets
from nictop.probe.inventory.scheduler import InventoryScheduler
from nictop.probe.protocol.arguments import USAGE, ProbeOptions, parse_options
from nictop.probe.protocol.hello import encoded, hello
from nictop.probe.protocol.output import LineWriter
from nictop.probe.protocol.requests import LONGEST_REQUEST, RequestLines, parse_request
from nictop.probe.protocol.schedule import Schedule

TYPE_CHECKING = False
if TYPE_CHECKING:
    from nictop.probe.changes.executor import Executor
    from nictop.probe.counters.targets import Targets
    from nictop.probe.traffic.generators import Generators

ONLY_READS = "this probe only reads: it was started without --allow-changes"
EAGER = 0.2
"""Seconds between the first two readings when asked to be eager: 20 ticks of each CPU make a first picture."""


class EndOfWork(Exception):
    """The probe's work is over."""


class Probe:
    """The state of one run. `counters` has read once already: hello and the first line have been said with it
    (`first_words`)."""

    def __init__(
        self, options: ProbeOptions, *, counters: CounterReader | None = None, sys: str = "/sys", proc: str = "/proc"
    ) -> None:
        self._sys, self._proc = sys, proc
        self._options = options
        self._out = LineWriter(1)
        self._greeted = counters is not None
        self._watched = False
        self._counters = counters if counters is not None else CounterReader(sys=sys, proc=proc)
        self._poll = select.poll()
        self._inventories = InventoryScheduler(
            self._poll,
            say=self._say,
            trouble=self._trouble,
            learn=self._learn,
            ahead=self._counters.learn_physical_functions,
            parts=options.parts,
            sys=sys,
            proc=proc,
        )
        self._generators: Generators | None = None
        self._executor: Executor | None = None
        self._requests = RequestLines()
        self._finished = False
        self._schedule = Schedule(options.interval, time.monotonic())
        self._end_by: float | None = None
        self._wakeup = os.pipe()

    def run(self) -> None:
        """Work until stdin or stdout closes or SIGTERM comes. Always leaves without a child."""
        self._take_signals()
        try:
            if self._greeted:
                self._schedule.advance(time.monotonic())
            else:
                self._say("hello", hello(self._schedule.interval, self._proc))
                self._tick(time.monotonic())
            self._expect_life()
            if self._options.eager:
                self._schedule.hurry(EAGER, time.monotonic())
            self._listen()
            while True:
                self._step()
        except (EndOfWork, BrokenPipeError):
            pass
        finally:
            self._inventories.kill()
            if self._generators is not None:
                self._generators.end_all()
            if self._executor is not None:
                self._executor.close()

    def _take_signals(self) -> None:
        """SIGINT goes to the whole process group of a terminal: the end of stdin is what ends a probe."""
        for descriptor in self._wakeup:
            os.set_blocking(descriptor, False)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        for number in (signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, lambda *_: None)  # the byte in the pipe is what counts
        signal.set_wakeup_fd(self._wakeup[1])

    def _listen(self) -> None:
        light_dataclasses.install()
        self._poll.register(self._wakeup[0], select.POLLIN)
        if not self._options.once:
            self._poll.register(0, select.POLLIN)
            self._inventories.listen(time.monotonic())
        self._counters.learn_physical_functions()
        self._inventories.want("start", time.monotonic(), at_once=True)
        gc.collect()
        gc.freeze()  # what stands now stands for ever: later collections and forks need not touch it

    def _step(self) -> None:
        now = time.monotonic()
        timeout = max(0.0, self._next_moment(now) - now)
        for descriptor, event in self._poll.poll(timeout * 1000):
            if descriptor == 1:
                if event & (select.POLLERR | select.POLLHUP | select.POLLNVAL):
                    raise EndOfWork
                self._drain()
            elif descriptor == 0:
                self._take_input()
            elif descriptor == self._wakeup[0]:
                raise EndOfWork
            elif self._generators is not None and self._generators.owns(descriptor):
                self._generators.handle_readable(descriptor, time.monotonic())
            elif self._executor is not None and self._executor.owns(descriptor):
                self._executor.handle_readable(descriptor, time.monotonic())
            else:
                self._inventories.take(descriptor)
        now = time.monotonic()
        if self._end_by is not None and now >= self._end_by:
            raise EndOfWork
        if now >= self._schedule.next:
            self._tick(now)
        if self._generators is not None:
            self._generators.advance(now)
        if self._executor is not None:
            self._executor.advance(now)
        self._inventories.advance(now)
        if self._finished and not self._out.behind:
            raise EndOfWork
        if not self._out.behind:
            self._inventories.start(now)

    def _next_moment(self, now: float) -> float:
        moments = [self._schedule.next, self._end_by, self._inventories.next_moment(may_start=not self._out.behind)]
        if self._generators is not None:
            moments.append(self._generators.next_deadline(now))
        if self._executor is not None:
            moments.append(self._executor.next_deadline())
        return min(moment for moment in moments if moment is not None)

    def _tick(self, now: float) -> None:
        self._schedule.advance(now)
        if not self._out.behind:  # else the line would be dropped: spare the work
            self._say("counters", vars(self._counters.read()), dispensable=True)
            self._finished = self._options.once and self._inventories.complete

    def _learn(self, targets: bytes, inventory: bytes | bytearray, known: int | None) -> Targets | None:
        """A new inventory: what the counters read from now on, and what is passed on, unless it is complete and has the
        digest `known`."""
        found = None
        try:
            found = parse_targets(targets)
            self._counters.learn(found)
        except ValueError as error:
            self._trouble(f"no interrupts and threads: {error}")
        if found is None or found["incomplete"] or found["digest"] != known:
            self._offer(inventory)
        return found

    def _take_input(self) -> None:
        try:
            data = os.read(0, LONGEST_REQUEST)
        except OSError:
            raise EndOfWork from None
        if not data:
            raise EndOfWork
        self._expect_life()
        lines, too_long = self._requests.feed(data)
        for line in lines:
            self._obey(line)
        if too_long:
            self._trouble(f"a request of more than {LONGEST_REQUEST} bytes was ignored")

    def _obey(self, line: bytes) -> None:
        if not line.strip():
            return
        request, problem = parse_request(line)
        if problem:
            self._trouble(f"request not understood: {problem}")
        now = time.monotonic()
        if "interval" in request:
            self._schedule.change(request["interval"], now)
        if "watch" in request:
            self._counters.watch(request["watch"])
            if self._options.parts and not self._watched:
                self._watched = True  # who has just learned what to count waits for the first reading of it
                self._schedule.hurry(EAGER, now)
        if "machine" in request:
            self._counters.watch_machine(request["machine"])
        if "ping" in request:
            self._say("pong", {"sequence": request["ping"], "monotonic": now})
        if "recheck" in request:
            self._inventories.recheck(request["recheck"], now)
        if request.get("inventory"):
            self._inventories.want("request", now, asked=True)
        if "traffic" in request:
            self._make_traffic(request["traffic"], now)
        if "change" in request:
            self._make_change(request["change"], now)

    def _make_traffic(self, request: dict[str, object], now: float) -> None:
        if self._generators is None:
            from nictop.probe.traffic.generators import Generators

            self._generators = Generators(self._say_traffic, self._poll, self._proc)
        self._generators.handle_request(request, now)

    def _make_change(self, request: dict[str, object], now: float) -> None:
        if not self._options.allow_changes:
            name = request.get("id")
            refusal = {"id": name if isinstance(name, str) else "", "kind": "refused", "text": ONLY_READS}
            self._say_change({"time": now, **refusal})
            return
        if self._executor is None:
            from nictop.probe.changes.executor import Executor

            self._executor = Executor(self._say_change, self._poll, sys=self._sys, proc=self._proc)
        self._executor.handle_request(request, now)

    def _say_change(self, fields: dict[str, object]) -> None:
        self._say("change", fields)

    def _say_traffic(self, fields: dict[str, object], *, droppable: bool = False) -> None:
        self._say("traffic", fields, dispensable=droppable)

    def _expect_life(self) -> None:
        """From now on the next request has the whole heartbeat to come."""
        if self._options.heartbeat is not None:
            self._end_by = time.monotonic() + self._options.heartbeat

    def _say(self, kind: str, fields: dict[str, object], *, dispensable: bool = False) -> None:
        self._offer(encoded(kind, fields), dispensable=dispensable)

    def _trouble(self, message: str) -> None:
        self._say("trouble", {"time": time.monotonic(), "message": message})

    def _offer(self, line: bytes | bytearray, *, dispensable: bool = False) -> None:
        self._out.offer(line, dispensable=dispensable)
        self._watch_output()

    def _drain(self) -> None:
        self._out.drain()
        self._watch_output()
        if not self._out.behind and self._out.lost:
            self._out.lost = False
            self._inventories.want("lost lines", time.monotonic(), at_once=True)

    def _watch_output(self) -> None:
        """Wait for room in stdout while something waits for it; its end is reported without being asked for."""
        self._poll.register(1, select.POLLOUT if self._out.behind else 0)
        if self._generators is not None:
            self._generators.pause(self._out.behind)


def main(arguments: list[str], counters: CounterReader | None = None) -> int:
    """Run the probe; returns its exit status. `counters`: see `Probe`."""
    options = parse_options(arguments)
    if options is None:
        os.write(2, USAGE)
        return 2
    try:
        for descriptor in (0, 1):  # a closed one would be given to the next file that is opened
            os.fstat(descriptor)
        probe = Probe(options, counters=counters)
    except OSError as error:  # started with stdin or stdout closed
        os.write(2, f"nictop.probe: {error}\n".encode())
        return 1
    probe.run()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
