"""Samples as text for Prometheus: OpenMetrics 1.0, or the older text format if that is requested.

prometheus-client decides about the format and its content type. Its own writer is not used: for
thousands of series it takes many times as long (see the benchmark). Here the part of a line before
the value is cached with the series.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable

from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4, choose_encoder, gzip_accepted
from prometheus_client.openmetrics.exposition import CONTENT_TYPE_LATEST

from nictop.metrics.catalogue import METRICS, Metric
from nictop.metrics.series import Sample

MAX_VALUE = 1 << 64

GZIP_WBITS = 31
"""For zlib: a window of 15 bits, and a gzip header."""


def wants_openmetrics(accept: str) -> bool:
    """Whether ``Accept`` of a request prefers OpenMetrics, as prometheus-client decides."""
    try:
        _, content_type = choose_encoder(accept)
    except (TypeError, ValueError):  # a version that is not a number
        return False
    return content_type.startswith("application/openmetrics-text")


def wants_gzip(accept_encoding: str) -> bool:
    """Whether ``Accept-Encoding`` of a request allows gzip."""
    return bool(gzip_accepted(accept_encoding))


def gzip_body(body: bytes) -> bytes:
    """gzip at its fastest level: the lines are similar, so the result has a twentieth of the
    size."""
    work = zlib.compressobj(1, wbits=GZIP_WBITS)
    return work.compress(body) + work.flush()


def content_type(openmetrics: bool) -> str:
    return CONTENT_TYPE_LATEST if openmetrics else CONTENT_TYPE_PLAIN_0_0_4


def exposition_text(samples: Iterable[Sample], *, openmetrics: bool) -> bytes:
    """The samples grouped by metric, in the order of the catalogue. Invalid values are left out:
    counters below zero, more than 64 bits, NaN."""
    lines: tuple[list[str], ...] = tuple([] for _ in METRICS)
    add = [of_metric.append for of_metric in lines]
    for index, start, value in samples:
        if 0 <= value < MAX_VALUE or (-MAX_VALUE < value < 0 and METRICS[index].kind != "counter"):
            add[index](f"{start}{value}\n")
    parts: list[str] = []
    for metric, metric_lines in zip(METRICS, lines, strict=True):
        if metric_lines:
            parts.append(_head(metric, openmetrics=openmetrics))
            parts += metric_lines
    if openmetrics:
        parts.append("# EOF\n")
    return "".join(parts).encode()


def _head(metric: Metric, *, openmetrics: bool) -> str:
    help_text = metric.help.replace("\\", "\\\\")
    if not openmetrics:
        kind = "gauge" if metric.kind == "info" else metric.kind
        return f"# HELP {metric.sample} {help_text}\n# TYPE {metric.sample} {kind}\n"
    help_text = help_text.replace('"', '\\"')
    head = f"# HELP {metric.name} {help_text}\n# TYPE {metric.name} {metric.kind}\n"
    if metric.unit:
        head += f"# UNIT {metric.name} {metric.unit}\n"
    return head
