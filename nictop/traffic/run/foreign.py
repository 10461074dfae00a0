"""One run against an iperf3 server that nictop did not start, on a host that it does not watch.

The client is started on its host as in every run. Of the other end only what iperf3 itself tells is
known: what arrived there, retransmits of what it sends, the CPU of its program.
"""

from __future__ import annotations

import time

from nictop.model.text.terminal import clean
from nictop.probe.light_dataclasses import replace
from nictop.traffic.failures import Failure, RunFailed, kind_of
from nictop.traffic.generators import Side
from nictop.traffic.plan.plan import RunPlan
from nictop.traffic.record.endpoint import RunEnd
from nictop.traffic.record.log import IntervalMeasured
from nictop.traffic.run.events import FINAL_COUNTERS, WAITING_FOR_DATA, Stage
from nictop.traffic.run.failing_ends import read_events
from nictop.traffic.run.link_loss import link_loss
from nictop.traffic.run.one_end import OneEndRun
from nictop.traffic.run.payload_watch import PayloadWatch

NOT_IPERF3 = ("unknown control message", "unable to receive cookie", "unrecognized")
"""Errors of a client to which something else answers."""
LIMITS = (
    (
        "larger than server limit",
        "limits the rate (--server-bitrate-limit): a lower rate is needed",
    ),
    (
        "maximum permitted limit",
        "limits the duration (--server-max-duration): fewer seconds are needed",
    ),
    ("test authorization failed", "wants a user name and password, which nictop does not send"),
    (
        "int_errno=",
        "has refused the test, for a reason that the client's version of iperf3 does not know",
    ),
)
"""Errors of a client whose server refuses the test → what that server does (esnet/iperf,
src/iperf_error.c: IETOTALRATE, IEMAXSERVERTESTDURATIONEXCEEDED, IEAUTHTEST; a number that a client
does not know is ``int_errno=37``)."""
CLOSED = "control socket has closed"
"""What a client says whose server demands a user name, if it was given none."""
OLD_FOR_BOTH = "an iperf3 server before 3.7 cannot do both directions at once"


class ForeignRun(OneEndRun):
    """A running plan with a foreign server."""

    own_side: Side = "client"

    async def _transfer(self) -> None:
        await self._counters.begin()
        self._counters.note()
        where = server_text(self._plan)
        self._emit(Stage("starting", f"connecting to the {self._plan.generator} server at {where}"))
        await self._children.start(self._log.first, "client")
        self._emit(Stage("running", WAITING_FOR_DATA))
        await self._watch()
        self._emit(Stage("ending", FINAL_COUNTERS))

    async def _watch(self) -> None:
        """Until the client has ended. Raises RunFailed if it hangs or fails."""
        client, started = self._own, time.monotonic()
        deadline = started + self._plan.seconds + self._limits.grace
        watch = PayloadWatch(self._plan, self._limits, started)
        while client.ended is None:
            line = await self._inbox.next(watch.limit(deadline, time.monotonic()))
            if line is None:
                await read_events(self._log, self._limits.inventory)
                raise RunFailed(self._hang(watch, time.monotonic() - started))
            for event in self._log.add_line(line):
                self._emit(event)
                if isinstance(event, IntervalMeasured):  # what arrives there is not seen
                    watch.add(replace(event.interval, sends=False), time.monotonic())
        if client.failed or client.problems or client.death or not client.totals:
            raise RunFailed(foreign_failure(self._plan, client))

    def _hang(self, watch: PayloadWatch, seconds: float) -> Failure:
        where = server_text(self._plan)
        if watch.payload_bytes:
            cause = link_loss(self._log) or f"the connection to {where} is lost"
            return Failure("stall", f"no more data after {seconds:.0f} s: {cause}")
        if self._own.first_problem is not None:
            return foreign_failure(self._plan, self._own)
        kind = f"{self._plan.generator} server"
        sentence = f"no data within {seconds:.0f} s: what answers at {where} is no {kind}"
        sentence += ", another client is being served, or packets are lost"
        if self._plan.direction == "bidirectional":
            sentence += f"; {OLD_FOR_BOTH}"
        return Failure("start", sentence)


def server_text(plan: RunPlan) -> str:
    """``192.0.2.50 port 5201``"""
    return f"{clean(plan.server.address)} port {plan.port}"


def foreign_failure(plan: RunPlan, client: RunEnd) -> Failure:
    """Why the client failed, by its own message: the server's side is not seen."""
    where = server_text(plan)
    seconds, text = client.first_problem or (0.0, client.failed or client.death)
    said = clean(text)[:200]
    kind = kind_of(text, seconds)
    if any(phrase in text.lower() for phrase in NOT_IPERF3):
        return Failure("other", f"what answers at {where} is not an iperf3 server: {said}")
    for phrase, limit in LIMITS:
        if phrase in text:
            return Failure("other", f"the iperf3 server at {where} {limit}: {said}")
    if CLOSED in text and not client.intervals:
        closed = "has closed the connection before the test began: it may want a user name and "
        closed += "password, which nictop does not send, or it was ended"
        return Failure(kind, f"the iperf3 server at {where} {closed}: {said}")
    sentence = {
        "refused": f"connection refused at {where}: no server listens there (another port? one "
        "with -1 serves one client), or a firewall rejects it",
        "busy": f"the {plan.generator} server at {where} serves another client: try again when "
        "that has ended",
        "timeout": f"no answer from {where}: another address or port, a firewall, or no route back",
        "no_neighbour": f"no ARP or neighbour reply for {clean(plan.server.address)} or a gateway "
        "to it",
        "no_route": f"{clean(plan.client.host)}, or a router, has no route to "
        f"{clean(plan.server.address)}",
        "prohibited": f"{where} rejected by a firewall or a router",
        "control_message": f"the {plan.generator} server at {where} has ended the test: {said}",
        "interrupted": f"the {plan.generator} server at {where} was ended: {said}",
    }.get(kind, f"{plan.generator} on {clean(client.host)}: {said or 'ended without a result'}")
    if plan.direction == "bidirectional" and kind in ("control_message", "other"):
        sentence += f"; {OLD_FOR_BOTH}"
    return Failure(kind, sentence)
