"""The arguments of the probe: words → `ProbeOptions`. Pure.

``--interval S`` (0.1 to 60), ``--eager`` (a second reading soon after the first, so that a screen has rates at once),
``--parts`` (say what is known of the first inventory before it is complete), ``--once`` (hello, counters, inventory,
counters, end), ``--heartbeat S`` (end when no request has come for so long: a
network that has gone does not close stdin) and ``--allow-changes`` (do what `records.ChangeRequest` asks for; without
it the probe only reads).
"""

from __future__ import annotations

from nictop.probe.protocol.requests import held_interval

USAGE = b"usage: python -m nictop.probe [--interval S] [--eager] [--parts] [--once] [--heartbeat S] [--allow-changes]\n"


class ProbeOptions:
    """Seconds are held within the limits of `requests`. `heartbeat` None: the probe waits for ever."""

    def __init__(self) -> None:
        self.interval = 1.0
        self.heartbeat: float | None = None
        self.once = self.eager = self.parts = self.allow_changes = False


def parse_options(arguments: list[str]) -> ProbeOptions | None:
    """None for words that are not the probe's."""
    options = ProbeOptions()
    words = iter(arguments)
    for word in words:
        if word == "--once":
            options.once = True
        elif word == "--eager":
            options.eager = True
        elif word == "--parts":
            options.parts = True
        elif word == "--allow-changes":
            options.allow_changes = True
        elif word in ("--interval", "--heartbeat"):
            seconds = seconds_of(next(words, ""))
            if seconds is None:
                return None
            if word == "--interval":
                options.interval = seconds
            else:
                options.heartbeat = seconds
        else:
            return None
    return options


def seconds_of(word: str) -> float | None:
    """A positive number within the limits; None for anything else."""
    try:
        return held_interval(float(word))
    except ValueError:
        return None
