"""The probe: runs on the watched host, requests in on stdin, records out on stdout, until stdin is
closed.

One thread and one poll(). `Hello` and the first `Counters` are sent before anything slow begins;
inventories follow from a child process, after events, on request, and at long intervals. Errors are
sent as `Trouble` lines, and the rest continues.

The arguments are those of `protocol.arguments`. What does more than read is in `actions`; a root
probe has it in another process, and gives up its own rights (`restriction`).
"""

from __future__ import annotations

import gc
import os
import select
import signal
import sys
import time

from nictop.probe.actions import ActionProcesses
from nictop.probe.counters.reader import CounterReader
from nictop.probe.counters.targets import parse_targets
from nictop.probe.helper import Helper, HelperEnded
from nictop.probe.inventory.scheduler import InventoryScheduler
from nictop.probe.kernel.backports import freeze
from nictop.probe.protocol.arguments import USAGE, ProbeOptions, parse_options
from nictop.probe.protocol.hello import encode_line, hello, send_hello
from nictop.probe.protocol.output import LineWriter
from nictop.probe.protocol.requests import MAX_REQUEST_BYTES, RequestLines, parse_request
from nictop.probe.protocol.schedule import Schedule
from nictop.probe.restriction import give_up_rights

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from nictop.probe.counters.on_demand.connections.reader import ConnectionReader
    from nictop.probe.counters.targets import Targets

EAGER_SECONDS = 0.2
"""Seconds between the first two readings with ``--eager``: 20 ticks of each CPU."""

FIRST_RATES_SECONDS = 1.0
"""Seconds between the first two readings of connections, however long the interval is."""


class StopProbe(Exception):
    """Ends the main loop."""


class Probe:
    """The state of one probe process. `counters`: a reader that has read once, when
    `protocol.hello` has sent the hello and the first counters. `helper`: does what this process has
    no right to (`restriction.give_up_rights`)."""

    def __init__(
        self,
        options: ProbeOptions,
        *,
        counters: CounterReader | None = None,
        helper: Helper | None = None,
        sys: str = "/sys",
        proc: str = "/proc",
    ) -> None:
        self._sys, self._proc = sys, proc
        self._options = options
        self._output = LineWriter(1)
        self._hello_sent = counters is not None
        self._links_watched = False
        self._counters = counters if counters is not None else CounterReader(sys=sys, proc=proc)
        self._poll = select.poll()
        self._inventories = InventoryScheduler(
            self._poll,
            send=self._send,
            send_trouble=self._send_trouble,
            handle_inventory=self._handle_inventory,
            write=self._write,
            prepare=self._counters.find_physical_functions,
            parts=options.parts,
            sys=sys,
            proc=proc,
        )
        self._connections: ConnectionReader | None = None
        self._actions: ActionProcesses | Helper = helper or ActionProcesses(
            self._send,
            self._poll,
            allow_changes=options.allow_changes,
            allow_workload=options.allow_workload,
            sys=sys,
            proc=proc,
        )
        if helper is not None:
            helper.attach(self._write, self._poll)
        self._requests = RequestLines()
        self._finished = False
        self._schedule = Schedule(options.interval, time.monotonic())
        self._heartbeat_deadline: float | None = None
        self._wakeup = os.pipe()

    def run(self) -> int:
        """Run until stdin or stdout is closed or SIGTERM is received; returns the exit status.
        Leaves no child process."""
        self._install_signal_handlers()
        try:
            if self._hello_sent:
                self._schedule.advance(time.monotonic())
            else:
                self._send("hello", hello(self._schedule.interval, self._proc))
                self._sample(time.monotonic())
            self._restart_heartbeat()
            if self._options.eager:
                self._schedule.bring_forward(EAGER_SECONDS, time.monotonic())
            self._start()
            while True:
                self._run_once()
        except HelperEnded:
            os.write(2, b"nictop.probe: its helper has ended\n")
            return 1
        except (StopProbe, BrokenPipeError):
            pass
        finally:
            self._inventories.kill()
            self._actions.close()
        return 0

    def _install_signal_handlers(self) -> None:
        """SIGINT is ignored, because a terminal sends it to the whole process group; the probe ends
        with its stdin."""
        for descriptor in self._wakeup:
            os.set_blocking(descriptor, False)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        for signal_number in (signal.SIGTERM, signal.SIGHUP):
            signal.signal(
                signal_number, lambda *_: None
            )  # set_wakeup_fd writes its number into the pipe
        signal.set_wakeup_fd(self._wakeup[1])

    def _start(self) -> None:
        self._poll.register(self._wakeup[0], select.POLLIN)
        if not self._options.once:
            self._poll.register(0, select.POLLIN)
            self._inventories.listen(time.monotonic())
        self._counters.find_physical_functions()
        self._inventories.request("start", time.monotonic(), at_once=True)
        gc.collect()
        freeze()  # the present objects stay: spare later collections, and copying after fork
        gc.enable()  # disabled by the command line of a local probe

    def _run_once(self) -> None:
        now = time.monotonic()
        timeout = max(0.0, self._next_deadline(now) - now)
        for descriptor, event in self._poll.poll(timeout * 1000):
            self._handle_event(descriptor, event)
        now = time.monotonic()
        if self._heartbeat_deadline is not None and now >= self._heartbeat_deadline:
            raise StopProbe
        if now >= self._schedule.next:
            self._sample(now)
        self._actions.advance(now)
        self._inventories.advance(now)
        if self._finished and not self._output.backlogged:
            raise StopProbe
        if not self._output.backlogged:
            self._inventories.start(now)

    def _handle_event(self, descriptor: int, event: int) -> None:
        if descriptor == 1:
            if event & (select.POLLERR | select.POLLHUP | select.POLLNVAL):
                raise StopProbe
            self._flush()
        elif descriptor == 0:
            self._read_input()
        elif descriptor == self._wakeup[0]:
            raise StopProbe
        elif self._actions.owns(descriptor):
            self._actions.handle_readable(descriptor, time.monotonic())
        else:
            self._inventories.read(descriptor)

    def _next_deadline(self, now: float) -> float:
        next_inventory = self._inventories.next_time(may_start=not self._output.backlogged)
        actions = self._actions.next_deadline(now)
        deadlines = [self._schedule.next, self._heartbeat_deadline, next_inventory, actions]
        return min(deadline for deadline in deadlines if deadline is not None)

    def _sample(self, now: float) -> None:
        self._schedule.advance(now)
        if not self._output.backlogged:  # else the line would be dropped
            sample = self._counters.read()
            self._send("counters", vars(sample), droppable=True)
            if self._connections is not None and now >= self._connections.due:
                self._read_connections(self._connections, sample.links, now)
            self._finished = self._options.once and self._inventories.complete

    def _read_connections(
        self, reader: ConnectionReader, links: dict[int, tuple[int, ...]], now: float
    ) -> None:
        is_first = not reader.due
        self._send("connections", reader.read(links), droppable=True)
        if is_first:
            self._schedule.bring_forward(FIRST_RATES_SECONDS, now)

    def _handle_inventory(
        self, targets: bytes, inventory: bytes | bytearray, known: int | None
    ) -> Targets | None:
        """Configure the counters from a new inventory, and send it unless it is complete and has
        the digest `known`."""
        found = None
        try:
            found = parse_targets(targets)
            self._counters.set_targets(found)
        except ValueError as error:
            self._send_trouble(f"no interrupts and threads: {error}")
        if found is None or found["incomplete"] or found["digest"] != known:
            self._write(inventory)
        return found

    def _read_input(self) -> None:
        try:
            data = os.read(0, MAX_REQUEST_BYTES)
        except OSError:
            raise StopProbe from None
        if not data:
            raise StopProbe
        self._restart_heartbeat()
        lines, too_long = self._requests.feed(data)
        for line in lines:
            self._handle_request(line)
        if too_long:
            self._send_trouble(f"a request of more than {MAX_REQUEST_BYTES} bytes was ignored")

    def _handle_request(self, line: bytes) -> None:
        if not line.strip():
            return
        request, problem = parse_request(line)
        if problem:
            self._send_trouble(f"request not understood: {problem}")
        fields: Mapping[str, Any] = request
        now = time.monotonic()
        for name, handle in self._handlers.items():
            if name in fields:
                handle(fields[name], now)

    @property
    def _handlers(self) -> Mapping[str, Callable[[Any, float], None]]:
        """Fields of a request, in the order in which they take effect."""
        return {
            "interval": self._schedule.set_interval,
            "watch": self._watch,
            "machine": lambda wanted, _: self._counters.watch_machine(wanted),
            "connections": self._request_connections,
            "ping": lambda number, now: self._send("pong", {"sequence": number, "monotonic": now}),
            "recheck": self._inventories.set_recheck,
            "events": lambda wanted, _: self._inventories.set_events_at_once(wanted),
            "inventory": self._request_inventory,
            "traffic": lambda wanted, now: self._actions.handle_request("traffic", wanted, now),
            "change": lambda wanted, now: self._actions.handle_request("change", wanted, now),
        }

    def _watch(self, links: list[int], now: float) -> None:
        self._counters.watch(links)
        if self._options.parts and not self._links_watched:
            self._links_watched = True  # the reader waits for their first counters
            self._schedule.bring_forward(EAGER_SECONDS if self._options.eager else 0.0, now)

    def _request_inventory(self, wanted: bool, now: float) -> None:
        if wanted:
            self._inventories.request("request", now, forced=True)

    def _request_connections(self, links: list[int], now: float) -> None:
        if self._connections is not None:
            if list(self._connections.links) == links:
                return
            self._connections.close()
            self._connections = None
        if links:
            from nictop.probe.counters.on_demand.connections.reader import ConnectionReader

            self._connections = ConnectionReader(links, self._proc, self._sys + "/fs/cgroup")
            self._schedule.bring_forward(EAGER_SECONDS, now)

    def _restart_heartbeat(self) -> None:
        """The whole heartbeat interval starts again for the next request."""
        if self._options.heartbeat is not None:
            self._heartbeat_deadline = time.monotonic() + self._options.heartbeat

    def _send(self, kind: str, fields: dict[str, object], *, droppable: bool = False) -> None:
        self._write(encode_line(kind, fields), droppable=droppable)

    def _send_trouble(self, message: str, about: str = "") -> None:
        self._send("trouble", {"time": time.monotonic(), "message": message, "about": about})

    def _write(self, line: bytes | bytearray, *, droppable: bool = False) -> None:
        self._output.write(line, dispensable=droppable)
        self._update_output_poll()

    def _flush(self) -> None:
        self._output.flush()
        self._update_output_poll()
        if not self._output.backlogged and self._output.dropped:
            self._output.dropped = False
            self._inventories.request("lost lines", time.monotonic(), at_once=True)

    def _update_output_poll(self) -> None:
        """Poll stdout for writing only while lines are waiting; its end is reported in any case."""
        self._poll.register(1, select.POLLOUT if self._output.backlogged else 0)
        self._actions.pause(self._output.backlogged)


def main(arguments: list[str], counters: CounterReader | None = None) -> int:
    """Run the probe; returns its exit status. `counters`: see `Probe`."""
    options = parse_options(arguments)
    if options is None:
        os.write(2, USAGE)
        return 2
    try:
        for descriptor in (0, 1):  # a file must not get the number of a closed one
            os.fstat(descriptor)
        if counters is None:
            counters = send_hello(1, options.interval)
        helper = give_up_rights(
            allow_changes=options.allow_changes, allow_workload=options.allow_workload
        )
        probe = Probe(options, counters=counters, helper=helper)
    except BrokenPipeError:
        return 0
    except OSError as error:  # started with stdin or stdout closed
        os.write(2, f"nictop.probe: {error}\n".encode())
        return 1
    return probe.run()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
