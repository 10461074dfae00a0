"""The built-in generator of the probe: the options of both ends, and its lines → intervals and totals.

Reads nothing. Each line is ``{"event": "start" | "interval" | "end" | "error", …}``; bytes of a sender are those that
were acknowledged, of a receiver those that came (see `probe.built_in_traffic`).
"""

from __future__ import annotations

import json

from nictop.traffic.generators.intervals import STUB, Detail, GeneratorOutput, Interval, Problem, Total
from nictop.traffic.generators.iperf3_json import LONGEST_LINE, number, whole
from nictop.traffic.plan.plan import RunPlan

ACCEPT_PATIENCE = 15
"""Seconds that a server waits for its client."""


def server_words(plan: RunPlan) -> tuple[str, ...]:
    """Options of the server: those that its listening socket needs before the client has come."""
    return (*_both(plan), "--accept", str(ACCEPT_PATIENCE), *_pinned(plan.server_cpu))


def client_words(plan: RunPlan) -> tuple[str, ...]:
    words = [*_both(plan), "--time", str(plan.time), "--streams", str(plan.streams), "--bind", plan.client.address]
    words += ["--reverse"] if plan.direction == "reverse" else []
    for option, value in (
        ("--omit", plan.omit or None),
        ("--bitrate", plan.bitrate),
        ("--length", plan.length),
        ("--congestion", plan.congestion),
        ("--tos", None if plan.dscp is None else plan.dscp << 2),
    ):
        words += [] if value is None else [option, str(value)]
    return (*words, *_pinned(plan.client_cpu))


def _both(plan: RunPlan) -> list[str]:
    words = ["--interval", f"{plan.interval:g}"] + (["--udp"] if plan.protocol == "udp" else [])
    for option, value in (("--mss", plan.mss), ("--window", plan.window)):
        words += [] if value is None else [option, str(value)]
    return words


def _pinned(cpu: int | None) -> tuple[str, ...]:
    return () if cpu is None else ("--affinity", str(cpu))


class BuiltInOutput:
    """One end's lines in order."""

    def __init__(self, nominal: float) -> None:
        self._nominal = nominal
        self._sends = False

    def feed(self, line: str) -> tuple[GeneratorOutput, ...]:
        """What a line says; () for one that says nothing."""
        if len(line) > LONGEST_LINE or not line.startswith("{"):
            return ()
        try:
            event = json.loads(line)
        except (ValueError, RecursionError):
            return ()
        if not isinstance(event, dict):
            return ()
        name = event.get("event")
        if name == "start":
            self._sends = event.get("sender") is True
            congestion = event.get("congestion_control")
            return (
                Detail(
                    "built-in",
                    whole(event.get("snd_mss")) or None,
                    whole(event.get("length")),
                    congestion[:32] if isinstance(congestion, str) and congestion else None,
                ),
            )
        if name == "interval":
            return self._interval(event)
        if name == "end":
            return self._total(event)
        text = event.get("text")
        return (Problem(text[:500]),) if name == "error" and isinstance(text, str) else ()

    def finish(self) -> tuple[GeneratorOutput, ...]:
        return ()

    def _interval(self, event: dict[str, object]) -> tuple[GeneratorOutput, ...]:
        start, end, size = number(event.get("start")), number(event.get("end")), number(event.get("bytes"))
        if start is None or end is None or size is None or not end - start > STUB * self._nominal:
            return ()
        streams = event.get("streams")
        jitter = number(event.get("jitter"))
        return (
            Interval(
                start=start,
                end=end,
                bits_per_second=size * 8 / (end - start),
                sends=self._sends,
                streams=len(streams) if isinstance(streams, list) else 1,
                omitted=event.get("omitted") is True,
                retransmits=whole(event.get("retransmits")),
                packets=self._datagrams(event),
                lost=whole(event.get("lost")),
                jitter=None if jitter is None else jitter * 1e3,
            ),
        )

    def _datagrams(self, event: dict[str, object]) -> int | None:
        """As iperf3 tells them: a receiver's with those that it missed, told by the gaps in their numbers."""
        known, lost = whole(event.get("packets")), whole(event.get("lost"))
        return known if known is None or lost is None or self._sends else known + lost

    def _total(self, event: dict[str, object]) -> tuple[GeneratorOutput, ...]:
        seconds, size = number(event.get("seconds")), number(event.get("bytes"))
        if not seconds or size is None:
            return ()
        jitter = number(event.get("jitter"))
        return (
            Total(
                sends=self._sends,
                by_sender=self._sends,
                seconds=seconds,
                bits_per_second=size * 8 / seconds,
                bytes=size,
                retransmits=whole(event.get("retransmits")),
                packets=self._datagrams(event),
                lost=whole(event.get("lost")),
                jitter=None if jitter is None else jitter * 1e3,
            ),
        )
