"""One run whose client somebody starts on a host that nictop does not watch: nictop starts the
server, prints the command for it, and measures from the first byte to the end.

iperf3 serves one connection (``-1``), whoever makes it: one that was not the client's, as of a port
scan, is reported, and the server is started again. What the client's program prints is not seen.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

from nictop.model.text.terminal import clean
from nictop.model.text.words import count_noun
from nictop.probe.light_dataclasses import replace
from nictop.probe.records import TrafficLine
from nictop.traffic.failures import (
    ExaminedCauses,
    Failure,
    RunFailed,
    causes_text,
    kind_of,
    opened_by,
    opening_commands,
)
from nictop.traffic.generators import Side, typed_commands
from nictop.traffic.hosts.host import link_of
from nictop.traffic.plan.plan import RunPlan
from nictop.traffic.record.endpoint import RunEnd
from nictop.traffic.record.log import IntervalMeasured
from nictop.traffic.record.strangers import is_stranger
from nictop.traffic.results.result import is_same_time
from nictop.traffic.run.child_processes import replace_server
from nictop.traffic.run.events import COMMAND, FINAL_COUNTERS, Stage
from nictop.traffic.run.failing_ends import read_events
from nictop.traffic.run.link_loss import link_loss
from nictop.traffic.run.one_end import OneEndRun
from nictop.traffic.run.payload_watch import PayloadWatch
from nictop.traffic.run.planned_run import RunParameters

REFRESH_SECONDS = 15.0
"""Between two readings of what was counted before the client came."""
MAX_OTHERS = 20
"""Connections that were not the client's, after which nictop gives up."""
FIRST_AGAIN = 10
"""Added to the number of a server in its id: another port adds another digit."""
MAX_SAID_CHARS = 200
"""Of a message of iperf3."""
LEFT_KINDS = ("control_message", "interrupted")
"""How a server reports that its client has gone."""


class ForeignClientRun(OneEndRun):
    """A running plan with a foreign client."""

    own_side: Side = "server"

    def __init__(self, given: RunParameters) -> None:
        super().__init__(given)
        self._other_addresses: list[str] = []
        """Of connections that were not the client's; "": not known."""

    async def _transfer(self) -> None:
        await self._counters.begin()
        await self._start_server()
        self._counters.note()
        await self._wait_for_client()
        try:
            await self._watch()
        finally:
            self._counters.note_at(self._own)
        self._emit(Stage("ending", FINAL_COUNTERS))

    async def _start_server(self) -> None:
        """Also prints the command, if that is not known yet: the port may be another one."""
        group = self._log.first
        await self._children.start_server(group)
        if group.plan == self._log.typed:
            return
        self._log.typed = group.plan
        command, *others = typed_commands(group.plan)
        self._emit(Stage(COMMAND, f"type on {self._client_name}: {command}"))
        for other in others:
            self._emit(Stage(COMMAND, other))
        self._emit(Stage("client", f"waiting for it to connect, at most {self._plan.wait} s"))

    # ------------------------------------------------------------------------------ until it comes

    async def _wait_for_client(self) -> None:
        """Until the first interval of the client. Raises RunFailed if it does not come."""
        deadline = time.monotonic() + self._plan.wait
        refresh = time.monotonic() + REFRESH_SECONDS
        others: list[str] = []
        silent_since: float | None = None
        while not self._has_data:
            limit = min(deadline, refresh)
            if silent_since is not None:
                limit = min(limit, silent_since + self._limits.first_byte)
            line = await self._inbox.next(limit)
            now = time.monotonic()
            if line is not None:
                self._add(line)
            other = self._other_connection(silent_since, now)
            if other:
                others.append(other)
                self._other_addresses.append(self._own.peer)
                await self._serve_again(others)
                silent_since = None
                continue
            if silent_since is None and self._is_connected:
                silent_since = now
            if now >= deadline:
                raise RunFailed(self._nobody_came(others))
            if now >= refresh:
                refresh = now + REFRESH_SECONDS
                if not self._is_connected:
                    await self._counters.begin_again()

    def _add(self, line: TrafficLine) -> None:
        """The client's first line is said before what it measures."""
        own, was_known = self._own, bool(self._own.peer)
        events = self._log.add_line(line)
        if own.peer and not was_known and not own.stranger:
            self._emit(Stage("running", f"{clean(own.peer)} has connected"))
        for event in events:
            self._emit(event)

    @property
    def _has_data(self) -> bool:
        """ntttcp also reports intervals of a connection that sends nothing."""
        return any(interval.bits_per_second > 0 for _, interval in self._own.intervals)

    @property
    def _is_connected(self) -> bool:
        """Somebody has connected, by the sockets of the server or by what it prints."""
        if self._own.peer:
            return True
        samples = self._own.sockets[-1:]
        return any(socket.state == "established" for _, sockets in samples for socket in sockets)

    def _other_connection(self, silent_since: float | None, now: float) -> str:
        """What has occupied the server and is not a client that sends; "": nothing."""
        own = self._own
        if own.stranger:
            return f"{clean(own.stranger)} has connected, which is not {self._client_name}"
        if own.ended is None:
            if silent_since is None or now < silent_since + self._limits.first_byte:
                return ""
            whose = clean(own.peer) or "a connection"
            return f"{whose} has sent nothing within {self._limits.first_byte:g} s"
        if own.death or own.has_crashed:
            raise RunFailed(Failure("died", f"{clean(own.host)}: {clean(own.death)}"))
        _, text = own.first_problem or (0.0, own.failed)
        text = clean(text).rstrip(": ")[:MAX_SAID_CHARS]
        said = f" ({text})" if text else ""
        if own.peer:
            return f"the client of {clean(own.peer)} has ended within its first interval{said}"
        kind = self._plan.generator
        return f"a connection was no {kind} client: a port scan, iperf 2, another program{said}"

    @property
    def _client_name(self) -> str:
        return clean(self._plan.client.host)

    async def _serve_again(self, others: list[str]) -> None:
        """Another server on the same port, for the client that has not come. Raises RunFailed."""
        if len(others) >= MAX_OTHERS:
            raise RunFailed(self._nobody_came(others))
        await self._children.stop()
        group = self._log.first
        replace_server(group, f"{self._identity}-s{FIRST_AGAIN + len(others)}")
        await self._start_server()
        self._emit(Stage("client", f"{others[-1]}: the server listens again"))

    def _nobody_came(self, others: list[str]) -> Failure:
        """With what may have kept it away."""
        plan = self._log.plan
        where = f"{clean(plan.server.address)} port {plan.port}"
        sentence = f"no client of {self._client_name} has sent data to {where} within {plan.wait} s"
        if others:
            sentence = f"no client of {self._client_name} was measured at {where} within "
            sentence += f"{plan.wait} s; {count_noun(len(others), 'connection')}: "
            sentence += "; ".join(dict.fromkeys(others))
            sentence += "".join(self._translated_hint())
            return Failure("timeout", sentence)
        tools = self._own.tools
        firewalls = tools.firewalls if tools is not None else None
        sentence += "; possible: it was not started"
        causes = causes_text(plan, "timeout", firewalls, None, ExaminedCauses())
        sentence += causes.replace("; possible: ", ", ", 1)
        link = link_of(plan.server, self._log.hosts)
        commands = opening_commands(plan, link.name if link is not None else None, firewalls)
        return opened_by(plan, "timeout", sentence, commands)

    def _translated_hint(self) -> Iterator[str]:
        for address in self._other_addresses:
            if is_stranger(address, self._plan.client.address):
                yield f"; if {clean(address)} is the client (NAT), name it by that address"
                return

    # ------------------------------------------------------------------------------- while it sends

    async def _watch(self) -> None:
        """Until the server has ended. Raises RunFailed if the client hangs, or goes away."""
        own, started = self._own, time.monotonic()
        deadline = started + self._plan.seconds + self._limits.grace
        watch = PayloadWatch(self._plan, self._limits, started)
        for _, interval in own.intervals:
            watch.add(replace(interval, sends=False), started)
        while own.ended is None:
            line = await self._inbox.next(watch.limit(deadline, time.monotonic()))
            if line is None:
                await read_events(self._log, self._limits.inventory)
                raise RunFailed(self._hang(time.monotonic() - started))
            for event in self._log.add_line(line):
                self._emit(event)
                if isinstance(event, IntervalMeasured):
                    watch.add(replace(event.interval, sends=False), time.monotonic())
        if own.failed or own.problems or own.death or not own.totals:
            raise RunFailed(client_failure(self._plan, own))
        if own.intervals[-1][1].bits_per_second == 0:  # a receiver of ntttcp goes on without it
            raise RunFailed(self._gone())
        self._follow_duration()

    @property
    def _sending_seconds(self) -> float:
        """In which the client has sent something."""
        seconds = 0.0
        for _, interval in self._own.intervals:
            if interval.bits_per_second > 0:
                seconds += interval.seconds
        return seconds

    def _gone(self) -> Failure:
        after = f"after {self._sending_seconds:.1f} of {self._plan.time} s"
        return Failure("interrupted", f"the client on {self._client_name} has sent nothing {after}")

    def _follow_duration(self) -> None:
        """The client may have sent for another time than that of the typed command."""
        seconds = max(total.seconds for total in self._own.totals)
        if not is_same_time(seconds, self._log.plan.time):
            self._log.plan = replace(self._log.plan, time=max(1, round(seconds)))

    def _hang(self, seconds: float) -> Failure:
        planned = self._plan.seconds
        is_late = seconds >= planned + self._limits.grace
        if is_late and self._sending_seconds < planned:
            return self._gone()
        if is_late:
            longer = f"{self._client_name} went on after the {planned} s of the typed command"
            after = max(seconds, self._sending_seconds)
            return Failure("deadline", f"{longer}: nictop has ended it after {after:.0f} s")
        cause = link_loss(self._log) or f"the connection to {self._client_name} is lost"
        return Failure("stall", f"no more data after {seconds:.0f} s: {cause}")


def client_failure(plan: RunPlan, server: RunEnd) -> Failure:
    """Why a run has ended before its end, by the message of the server: the client's side is not
    seen."""
    seconds, text = server.first_problem or (0.0, server.failed or server.death)
    said, kind = clean(text)[:MAX_SAID_CHARS], kind_of(text, seconds)
    name = clean(plan.client.host)
    measured = sum(interval.seconds for _, interval in server.intervals)
    if kind in LEFT_KINDS:
        after = f"after {measured:.1f} of {plan.time} s"
        return Failure("interrupted", f"the client on {name} has gone {after}: {said}")
    return Failure(
        kind, f"{plan.generator} on {clean(server.host)}: {said or 'ended without a result'}"
    )
