"""Samples become the text that Prometheus reads: OpenMetrics 1.0, or the older format for those that ask for it.

Reads nothing. Which one is wanted, and how it is called, is said by prometheus-client; its own writer is not used,
since it takes many times as long for thousands of series (see the benchmark): what stands before a number is made
once by those who make the samples, and kept.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable

from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4, choose_encoder, gzip_accepted
from prometheus_client.openmetrics.exposition import CONTENT_TYPE_LATEST

from nictop.metrics.catalogue import METRICS, Metric
from nictop.metrics.series import Sample

LARGEST = 1 << 64

GZIP = 31
"""Window bits of zlib: 15, and a gzip header."""


def wants_openmetrics(accept: str) -> bool:
    """What the ``Accept`` of a request asks for, decided as prometheus-client does."""
    try:
        _, content_type = choose_encoder(accept)
    except (TypeError, ValueError):  # a version that is no number
        return False
    return content_type.startswith("application/openmetrics-text")


def wants_gzip(accept_encoding: str) -> bool:
    """What the ``Accept-Encoding`` of a request asks for."""
    return bool(gzip_accepted(accept_encoding))


def compressed(body: bytes) -> bytes:
    """gzip at its quickest: lines that differ in a few characters become a twentieth all the same."""
    work = zlib.compressobj(1, wbits=GZIP)
    return work.compress(body) + work.flush()


def content_type(openmetrics: bool) -> str:
    return CONTENT_TYPE_LATEST if openmetrics else CONTENT_TYPE_PLAIN_0_0_4


def text(samples: Iterable[Sample], *, openmetrics: bool) -> bytes:
    """One answer: the samples by metric, in the order of the catalogue. Numbers that no kernel has are left out:
    counters below zero, what does not fit into 64 bits, and what is none."""
    lines: tuple[list[str], ...] = tuple([] for _ in METRICS)
    for place, beginning, value in samples:
        if 0 <= value < LARGEST or (value < 0 and value > -LARGEST and METRICS[place].kind != "counter"):
            lines[place].append(f"{beginning}{value}\n")
    parts: list[str] = []
    for metric, its in zip(METRICS, lines, strict=True):
        if its:
            parts.append(_head(metric, openmetrics=openmetrics))
            parts += its
    if openmetrics:
        parts.append("# EOF\n")
    return "".join(parts).encode()


def _head(metric: Metric, *, openmetrics: bool) -> str:
    help_text = metric.help.replace("\\", "\\\\").replace('"', '\\"' if openmetrics else '"')
    if not openmetrics:
        kind = "gauge" if metric.kind == "info" else metric.kind
        return f"# HELP {metric.sample} {help_text}\n# TYPE {metric.sample} {kind}\n"
    unit = f"# UNIT {metric.name} {metric.unit}\n" if metric.unit else ""
    return f"# HELP {metric.name} {help_text}\n# TYPE {metric.name} {metric.kind}\n{unit}"
