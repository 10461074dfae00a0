"""Formats of outputs of which the figure is found without a regular expression (see
`analysis.command_figure`)."""

from __future__ import annotations

FORMATS = ("fio JSON", "iperf3 JSON", "wrk", "ab", "sysbench", "rsync", "dd")
