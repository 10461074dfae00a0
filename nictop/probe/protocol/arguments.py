"""Command line of the probe: words → `ProbeOptions`. Pure.

``--interval S`` (0.1 to 60), ``--eager`` (second reading soon after the first, for early rates),
``--parts`` (send parts of the first inventory before it is complete), ``--once`` (hello, counters,
inventory, counters, end), ``--heartbeat S`` (end after so long without a request, because a broken
network does not close stdin), ``--allow-changes`` (execute `records.ChangeRequest`s; without it
the probe only reads) and ``--allow-workload`` (execute the command of a `records.TrafficRequest`).
"""

from __future__ import annotations

from nictop.probe.protocol.requests import clamped_interval

USAGE = (
    b"usage: python -m nictop.probe [--interval S] [--eager] [--parts] [--once] [--heartbeat "
    b"S] [--allow-changes] [--allow-workload]\n"
)
BOOLEAN_OPTIONS = {
    "--once": "once",
    "--eager": "eager",
    "--parts": "parts",
    "--allow-changes": "allow_changes",
    "--allow-workload": "allow_workload",
}


class ProbeOptions:
    """Seconds are within the limits in `requests`. `heartbeat` None: no limit."""

    def __init__(self) -> None:
        self.interval = 1.0
        self.heartbeat: float | None = None
        self.once = self.eager = self.parts = False
        self.allow_changes = self.allow_workload = False


def parse_options(arguments: list[str]) -> ProbeOptions | None:
    """None for unknown words."""
    options = ProbeOptions()
    words = iter(arguments)
    for word in words:
        if word in BOOLEAN_OPTIONS:
            setattr(options, BOOLEAN_OPTIONS[word], True)
        elif word in ("--interval", "--heartbeat"):
            seconds = interval_seconds(next(words, ""))
            if seconds is None:
                return None
            if word == "--interval":
                options.interval = seconds
            else:
                options.heartbeat = seconds
        else:
            return None
    return options


def interval_seconds(word: str) -> float | None:
    """A positive number within the limits in `requests`; None for anything else."""
    try:
        return clamped_interval(float(word))
    except ValueError:
        return None
