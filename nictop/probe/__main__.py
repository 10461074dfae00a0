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

from nictop.probe.bus import bus_address
from nictop.probe.bus_signals import BusSignals
from nictop.probe.counters import CounterReader
from nictop.probe.first_words import encoded, hello
from nictop.probe.hotplug import Calm, Events
from nictop.probe.inventory_child import InventoryChild
from nictop.probe.outlet import Outlet
from nictop.probe.requests import LONGEST_REQUEST, RequestLines, held_interval, parse_request
from nictop.probe.targets import parse_targets

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

EAGER = 0.2
"""Seconds between the first two readings when asked to be eager: 20 ticks of each CPU make a first picture."""

RESCAN = 300.0
RESCAN_WITHOUT_EVENTS = 10.0
"""Seconds between inventories that nothing asked for."""


class Schedule:
    """Ticks at `start`, `start` + `interval`, …: no drift, and a late one is skipped, not caught up with."""

    def __init__(self, interval: float, start: float) -> None:
        self.interval = interval
        self.next = start

    def advance(self, now: float) -> None:
        """The tick of `now` is done; `next` lies after it."""
        missed = int((now - self.next) / self.interval)
        self.next += (max(missed, 0) + 1) * self.interval

    def change(self, interval: float, now: float) -> None:
        self.interval = interval
        self.hurry(interval, now)

    def hurry(self, wait: float, now: float) -> None:
        """The next tick comes after `wait` at the latest, and the others in step with it."""
        self.next = min(self.next, now + wait)


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
        self._child = InventoryChild(sys=sys, proc=proc)
        self._calm = Calm()
        self._events: Events | None = None
        self._signals: BusSignals | None = None
        self._poll = select.poll()
        self._requests = RequestLines()
        self._complete = self._finished = False
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
            self._child.kill()

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
            self._events = Events()
            for descriptor in self._events.sockets:
                self._poll.register(descriptor, select.POLLIN)
            for source, error in self._events.missing.items():
                self._trouble(f"no events from {source}: {error.strerror or error}")
            self._signals = BusSignals(bus_address())
            self._connect_signals(self._signals, time.monotonic())
        self._counters.learn_physical_functions()
        self._calm.want("start", time.monotonic(), at_once=True)
        gc.collect()
        gc.freeze()  # what stands now stands for ever: later collections and forks need not touch it

    def _step(self) -> None:
        now = time.monotonic()
        self._child.reap()
        timeout = max(0.0, self._next_moment() - now)
        for descriptor, event in self._poll.poll(timeout * 1000):
            if descriptor == 1:
                if event & (select.POLLERR | select.POLLHUP | select.POLLNVAL):
                    raise Ended
                self._drain()
            elif descriptor == 0:
                self._take_input()
            elif descriptor == self._wakeup[0]:
                raise Ended
            elif descriptor == self._child.descriptor:
                if self._child.read():
                    self._finish_inventory()
            elif self._signals is not None and descriptor == self._signals.descriptor:
                self._take_signals_of_the_bus(self._signals)
            elif self._events is not None:
                self._take_events(self._events, descriptor)
        now = time.monotonic()
        if self._end_by is not None and now >= self._end_by:
            raise Ended
        if now >= self._schedule.next:
            self._tick(now)
        if self._child.overdue(now):
            self._finish_inventory()
        if self._signals is not None and self._signals.retry_at is not None and now >= self._signals.retry_at:
            self._connect_signals(self._signals, now)
        if self._finished and not self._out.behind:
            raise Ended
        self._start_inventory(now)

    def _next_moment(self) -> float:
        moments = [self._schedule.next]
        if self._end_by is not None:
            moments.append(self._end_by)
        if self._signals is not None and self._signals.retry_at is not None:
            moments.append(self._signals.retry_at)
        if self._child.descriptor >= 0:
            moments.append(self._child.deadline())
        elif not self._out.behind and not self._child.running:
            due = self._calm.due()
            if due is not None:
                moments.append(due)
        return min(moments)

    def _tick(self, now: float) -> None:
        self._schedule.advance(now)
        if not self._out.behind:  # else the line would be dropped: spare the work
            self._say("counters", vars(self._counters.read()), dispensable=True)
            self._finished = self._once and self._complete

    def _start_inventory(self, now: float) -> None:
        if self._child.running or self._out.behind:
            return
        due = self._calm.due()
        if due is None or now < due:
            return
        self._calm.rescan = now + rescan_after(self._events.missing if self._events is not None else ())
        reason = self._calm.started()
        if reason != "start":
            self._counters.learn_physical_functions()
        try:
            self._child.start(reason, now)
        except OSError as error:
            self._calm.finished(now, 1.0)
            self._trouble(f"no inventory: {error.strerror}")
            self._calm.want(reason, now)
            return
        self._poll.register(self._child.descriptor, select.POLLIN)

    def _finish_inventory(self) -> None:
        self._poll.unregister(self._child.descriptor)
        line, problem = self._child.collect()
        now = time.monotonic()
        self._calm.finished(now, now - self._child.started)
        if problem:
            self._trouble(problem)
        else:
            self._learn(self._child.targets)
            self._offer(line)
        self._complete = True

    def _learn(self, line: bytes) -> None:
        try:
            self._counters.learn(parse_targets(line))
        except ValueError as error:
            self._trouble(f"no interrupts and threads: {error}")

    def _take_events(self, events: Events, descriptor: int) -> None:
        changes, stale = events.take(descriptor)
        for change in changes:
            self._say("link_change", change)
        if stale:
            self._calm.want("event", time.monotonic())

    def _connect_signals(self, signals: BusSignals, now: float) -> None:
        signals.connect(now)
        if signals.descriptor >= 0:
            self._poll.register(signals.descriptor, select.POLLIN)

    def _take_signals_of_the_bus(self, signals: BusSignals) -> None:
        descriptor, now = signals.descriptor, time.monotonic()
        if signals.take(now):
            self._calm.want("event", now)
        if signals.descriptor < 0:
            self._poll.unregister(descriptor)

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
            self._calm.want("request", now, at_once=True)

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
            self._calm.want("lost lines", time.monotonic(), at_once=True)

    def _watch_output(self) -> None:
        """Wait for room in stdout while something waits for it; its end is reported without being asked for."""
        self._poll.register(1, select.POLLOUT if self._out.behind else 0)


def rescan_after(missing: Iterable[str]) -> float:
    """Seconds to an inventory that nothing asks for; `missing`: sources of events that are not there."""
    return RESCAN if {"rtnetlink", "uevents"}.isdisjoint(missing) else RESCAN_WITHOUT_EVENTS


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
