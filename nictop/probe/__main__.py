"""The probe: runs on the watched host, request lines in on stdin, record lines out on stdout, until stdin closes.

One thread and one poll(). `Hello` and the first `Counters` go out before anything slow is begun; then inventories come
from a child process, when events say so (`hotplug`), when asked for, and at long intervals. Whatever fails is said in a
`Trouble` line and the rest goes on.

Arguments: ``--interval S`` (0.1 to 60), ``--eager`` (a second reading soon after the first, so that a screen has rates
at once), ``--once`` (hello, counters, inventory, counters, end) and ``--heartbeat S`` (end when no request has come for
so long: a network that has gone does not close stdin).
"""

from __future__ import annotations

import gc
import os
import select
import signal
import sys
import time

from nictop.probe.counters import CounterReader
from nictop.probe.first_words import encoded, hello
from nictop.probe.inventories import Inventories
from nictop.probe.outlet import Outlet
from nictop.probe.requests import LONGEST_REQUEST, RequestLines, held_interval, parse_request
from nictop.probe.schedule import Schedule
from nictop.probe.targets import parse_targets

TYPE_CHECKING = False
if TYPE_CHECKING:
    from nictop.probe.generator import Generators

EAGER = 0.2
"""Seconds between the first two readings when asked to be eager: 20 ticks of each CPU make a first picture."""


class Ended(Exception):
    """The probe's work is over."""


class Probe:
    """The state of one run. `once`: end after the second counters that follow an inventory. `heartbeat`: see above.
    `counters` has read once already: hello and the first line have been said with it (`first_words`)."""

    def __init__(
        self,
        interval: float,
        *,
        once: bool,
        eager: bool = False,
        heartbeat: float | None = None,
        counters: CounterReader | None = None,
        sys: str = "/sys",
        proc: str = "/proc",
    ) -> None:
        self._proc = proc
        self._once = once
        self._eager = eager
        self._out = Outlet(1)
        self._greeted = counters is not None
        self._counters = counters if counters is not None else CounterReader(sys=sys, proc=proc)
        self._poll = select.poll()
        self._inventories = Inventories(
            self._poll,
            say=self._say,
            trouble=self._trouble,
            learn=self._learn,
            ahead=self._counters.learn_physical_functions,
            sys=sys,
            proc=proc,
        )
        self._generators: Generators | None = None
        self._requests = RequestLines()
        self._finished = False
        self._schedule = Schedule(interval, time.monotonic())
        self._heartbeat = heartbeat
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
            if self._eager:
                self._schedule.hurry(EAGER, time.monotonic())
            self._listen()
            while True:
                self._step()
        except (Ended, BrokenPipeError):
            pass
        finally:
            self._inventories.kill()
            if self._generators is not None:
                self._generators.end_all()

    def _take_signals(self) -> None:
        """SIGINT goes to the whole process group of a terminal: the end of stdin is what ends a probe."""
        for descriptor in self._wakeup:
            os.set_blocking(descriptor, False)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        for number in (signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, lambda *_: None)  # the byte in the pipe is what counts
        signal.set_wakeup_fd(self._wakeup[1])

    def _listen(self) -> None:
        self._poll.register(self._wakeup[0], select.POLLIN)
        if not self._once:
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
                    raise Ended
                self._drain()
            elif descriptor == 0:
                self._take_input()
            elif descriptor == self._wakeup[0]:
                raise Ended
            elif self._generators is not None and self._generators.owns(descriptor):
                self._generators.take(descriptor, time.monotonic())
            else:
                self._inventories.take(descriptor)
        now = time.monotonic()
        if self._end_by is not None and now >= self._end_by:
            raise Ended
        if now >= self._schedule.next:
            self._tick(now)
        if self._generators is not None:
            self._generators.advance(now)
        self._inventories.advance(now)
        if self._finished and not self._out.behind:
            raise Ended
        if not self._out.behind:
            self._inventories.start(now)

    def _next_moment(self, now: float) -> float:
        moments = [self._schedule.next, self._end_by, self._inventories.next_moment(may_start=not self._out.behind)]
        if self._generators is not None:
            moments.append(self._generators.next_moment(now))
        return min(moment for moment in moments if moment is not None)

    def _tick(self, now: float) -> None:
        self._schedule.advance(now)
        if not self._out.behind:  # else the line would be dropped: spare the work
            self._say("counters", vars(self._counters.read()), dispensable=True)
            self._finished = self._once and self._inventories.complete

    def _learn(self, targets: bytes, inventory: bytes | bytearray) -> None:
        """A new inventory: what the counters read from now on, and what is passed on."""
        try:
            self._counters.learn(parse_targets(targets))
        except ValueError as error:
            self._trouble(f"no interrupts and threads: {error}")
        self._offer(inventory)

    def _take_input(self) -> None:
        try:
            data = os.read(0, LONGEST_REQUEST)
        except OSError:
            raise Ended from None
        if not data:
            raise Ended
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
        if "machine" in request:
            self._counters.watch_machine(request["machine"])
        if "ping" in request:
            self._say("pong", {"sequence": request["ping"], "monotonic": now})
        if request.get("inventory"):
            self._inventories.want("request", now, at_once=True)
        if "traffic" in request:
            self._make_traffic(request["traffic"], now)

    def _make_traffic(self, request: dict[str, object], now: float) -> None:
        if self._generators is None:
            from nictop.probe.generator import Generators

            self._generators = Generators(self._say_traffic, self._poll, self._proc)
        self._generators.obey(request, now)

    def _say_traffic(self, fields: dict[str, object], *, dispensable: bool = False) -> None:
        self._say("traffic", fields, dispensable=dispensable)

    def _expect_life(self) -> None:
        """From now on the next request has the whole heartbeat to come."""
        if self._heartbeat is not None:
            self._end_by = time.monotonic() + self._heartbeat

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
    interval: float | None = 1.0
    heartbeat: float | None = None
    once = eager = False
    words = iter(arguments)
    for word in words:
        if word == "--once":
            once = True
        elif word == "--eager":
            eager = True
        elif word in ("--interval", "--heartbeat"):
            try:
                seconds = held_interval(float(next(words, "")))
            except ValueError:
                seconds = None
            if word == "--heartbeat" and seconds is not None:
                heartbeat = seconds
            else:
                interval = seconds
        else:
            interval = None
        if interval is None:
            os.write(2, b"usage: python -m nictop.probe [--interval S] [--eager] [--once] [--heartbeat S]\n")
            return 2
    try:
        for descriptor in (0, 1):  # a closed one would be given to the next file that is opened
            os.fstat(descriptor)
        probe = Probe(interval or 1.0, once=once, eager=eager, heartbeat=heartbeat, counters=counters)
    except OSError as error:  # started with stdin or stdout closed
        os.write(2, f"nictop.probe: {error}\n".encode())
        return 1
    probe.run()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
