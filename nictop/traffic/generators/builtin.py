"""The built-in generator of the probe: command line arguments of both ends, and its output →
intervals and totals.

Reads nothing. Each line is ``{"event": "start" | "interval" | "end" | "error", …}``. Bytes are
those acknowledged at a sender, and those received at a receiver (see
`nictop.probe.traffic.builtin`).
"""

from __future__ import annotations

import json
from typing import Any

from nictop.probe.records import RefusedSender
from nictop.traffic.generators.intervals import (
    MAX_CONGESTION_CHARACTERS,
    MAX_ERROR_CHARACTERS,
    MAX_PEER_CHARACTERS,
    ErrorMessage,
    GeneratorInfo,
    GeneratorOutput,
    Interval,
    Total,
    TransactionInterval,
    TransactionTotal,
    has_rate,
)
from nictop.traffic.generators.iperf3_json import MAX_JSON_LINE_CHARACTERS, integer, number
from nictop.traffic.generators.latency import parse_histogram
from nictop.traffic.plan.plan import RunPlan

MAX_STOPPED_CHARACTERS = 200
MAX_REFUSED_SENDERS = 32
BUILTIN_ACCEPT_SECONDS = 15
"""The server waits that long for its client, unless the client is started later."""


def builtin_server_arguments(
    plan: RunPlan, accept_seconds: int = BUILTIN_ACCEPT_SECONDS
) -> tuple[str, ...]:
    """Arguments of the server: the whole run, as it takes nothing from its client.
    `accept_seconds`: how long it waits for that."""
    return (*_run_arguments(plan), "--accept", str(accept_seconds), *_affinity(plan.server_cpu))


def builtin_client_arguments(plan: RunPlan) -> tuple[str, ...]:
    return (
        *_run_arguments(plan),
        "--bind",
        plan.client.address,
        *_option("--files", plan.files),
        *_affinity(plan.client_cpu),
    )


def _run_arguments(plan: RunPlan) -> tuple[str, ...]:
    """What both ends must know of the run."""
    arguments = ["--interval", f"{plan.interval:g}"]
    if plan.protocol == "udp":
        arguments.append("--udp")
    arguments += ["--time", str(plan.time), "--streams", str(plan.streams)]
    if plan.direction == "reverse":
        arguments.append("--reverse")
    arguments += _transaction_arguments(plan)
    for option, value in (
        ("--mss", plan.mss),
        ("--window", plan.window),
        ("--omit", plan.omit or None),
        ("--bitrate", plan.bitrate),
        ("--length", plan.length),
        ("--rate", plan.rate),
        ("--congestion", plan.congestion),
        ("--tos", plan.type_of_service),
    ):
        arguments += _option(option, value)
    return tuple(arguments)


def _option(name: str, value: int | str | None) -> tuple[str, ...]:
    """(): the value is left to the generator."""
    if value is None:
        return ()
    return (name, str(value))


def builtin_floor_arguments(plan: RunPlan, cpu: int | None) -> tuple[str, ...]:
    """Arguments of a measurement of the generator alone (action floor), on the CPU of that end."""
    udp = ("--udp",) if plan.protocol == "udp" else ()
    return (
        *_transaction_arguments(plan),
        "--streams",
        str(plan.streams),
        *_option("--rate", plan.rate),
        *udp,
        *_affinity(cpu),
    )


def _transaction_arguments(plan: RunPlan) -> tuple[str, ...]:
    if plan.test == "bulk":
        return ()
    request, response = plan.sizes
    return ("--test", plan.test, "--length", str(request), "--response", str(response))


def _affinity(cpu: int | None) -> tuple[str, ...]:
    return _option("--affinity", cpu)


class BuiltInOutput:
    """Parser of the lines of one end, in order."""

    def __init__(self, nominal: float) -> None:
        self._nominal = nominal
        self._sends = False
        self._response = 0
        """Bytes of a response."""

    def feed(self, line: str, time: float = 0.0) -> tuple[GeneratorOutput, ...]:
        """What a line reports; () if it is invalid."""
        if len(line) > MAX_JSON_LINE_CHARACTERS or not line.startswith("{"):
            return ()
        try:
            event = json.loads(line)
        except (ValueError, RecursionError):
            return ()
        if not isinstance(event, dict):
            return ()
        name = event.get("event")
        has_latency = "latency" in event
        if name == "start":
            return (self._start(event),)
        if name == "interval":
            return self._transactions(event) if has_latency else self._interval(event)
        if name == "refused":
            return _refused_senders(event)
        if name == "end":
            return self._transaction_total(event) if has_latency else self._total(event)
        text = event.get("text")
        if name == "error" and isinstance(text, str):
            return (ErrorMessage(text[:MAX_ERROR_CHARACTERS]),)
        return ()

    def _start(self, event: dict[str, Any]) -> GeneratorInfo:
        self._sends = event.get("sender") is True
        self._response = integer(event.get("response")) or 0
        congestion = event.get("congestion_control")
        if not isinstance(congestion, str):
            congestion = ""
        return GeneratorInfo(
            "built-in",
            integer(event.get("snd_mss")) or None,
            integer(event.get("length")),
            congestion[:MAX_CONGESTION_CHARACTERS] or None,
            _client_address(event),
        )

    def finish(self) -> tuple[GeneratorOutput, ...]:
        return ()

    def _interval(self, event: dict[str, object]) -> tuple[GeneratorOutput, ...]:
        start, end = number(event.get("start")), number(event.get("end"))
        size = number(event.get("bytes"))
        if start is None or end is None or size is None:
            return ()
        if not has_rate(end - start, self._nominal):
            return ()
        streams = event.get("streams")
        return (
            Interval(
                start=start,
                end=end,
                bits_per_second=size * 8 / (end - start),
                sends=self._sends,
                streams=len(streams) if isinstance(streams, list) else 1,
                omitted=event.get("omitted") is True,
                retransmits=integer(event.get("retransmits")),
                packets=self._datagrams(event),
                lost=integer(event.get("lost")),
                jitter=_milliseconds(event.get("jitter")),
            ),
        )

    def _transactions(self, event: dict[str, object]) -> tuple[GeneratorOutput, ...]:
        start, end = number(event.get("start")), number(event.get("end"))
        latency = parse_histogram(event["latency"])
        if start is None or end is None or latency is None:
            return ()
        if not end > start:
            return ()
        return (
            TransactionInterval(
                start=start,
                end=end,
                bits_per_second=latency.count * self._response * 8 / (end - start),
                sends=False,
                omitted=event.get("omitted") is True,
                lost=integer(event.get("lost")),
                latency=latency,
                connect=parse_histogram(event.get("connect")),
            ),
        )

    def _transaction_total(self, event: dict[str, object]) -> tuple[GeneratorOutput, ...]:
        seconds, latency = number(event.get("seconds")), parse_histogram(event["latency"])
        if not seconds or latency is None:
            return ()
        stopped = event.get("stopped")
        return (
            TransactionTotal(
                sends=False,
                by_sender=False,
                seconds=seconds,
                bits_per_second=latency.count * self._response * 8 / seconds,
                lost=integer(event.get("lost")),
                latency=latency,
                connect=parse_histogram(event.get("connect")),
                stopped=stopped[:MAX_STOPPED_CHARACTERS] if isinstance(stopped, str) else "",
            ),
        )

    def _datagrams(self, event: dict[str, object]) -> int | None:
        """Datagrams as iperf3 counts them: those of a receiver include the lost ones, which it
        detects by gaps in their numbers."""
        known, lost = integer(event.get("packets")), integer(event.get("lost"))
        if known is None or lost is None or self._sends:
            return known
        return known + lost

    def _total(self, event: dict[str, object]) -> tuple[GeneratorOutput, ...]:
        seconds, size = number(event.get("seconds")), number(event.get("bytes"))
        if not seconds or size is None:
            return ()
        return (
            Total(
                sends=self._sends,
                by_sender=self._sends,
                seconds=seconds,
                bits_per_second=size * 8 / seconds,
                bytes=size,
                retransmits=integer(event.get("retransmits")),
                packets=self._datagrams(event),
                lost=integer(event.get("lost")),
                jitter=_milliseconds(event.get("jitter")),
            ),
        )


def _milliseconds(seconds: object) -> float | None:
    """None: no valid number."""
    known = number(seconds)
    if known is None:
        return None
    return known * 1e3


def _client_address(event: dict[str, object]) -> str:
    """Of a server, from its first connection: ``[address, port, remote address, port]``."""
    connections = event.get("connections")
    if event.get("role") != "server" or not isinstance(connections, list) or not connections:
        return ""
    first = connections[0]
    if not isinstance(first, list) or len(first) < 3:
        return ""
    remote = first[2]
    if not isinstance(remote, str):
        return ""
    return remote[:MAX_PEER_CHARACTERS]


def _refused_senders(event: dict[str, object]) -> tuple[RefusedSender, ...]:
    """Those that are valid."""
    # here: the texts of runs, which import this module, need the standard library only
    import msgspec

    senders = event.get("senders")
    try:
        return msgspec.convert(senders, tuple[RefusedSender, ...])[:MAX_REFUSED_SENDERS]
    except (msgspec.ValidationError, RecursionError):
        return ()
