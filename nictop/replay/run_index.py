"""The traffic runs in a recording, found by the marks of their generators. Reads only the index of the recording."""

from __future__ import annotations

import re
from dataclasses import dataclass

from nictop.model.text.terminal import clean
from nictop.recording.reader import Recording

GENERATOR_ID = re.compile(r"(.+)-(l?c|l?s\d{0,3})", re.ASCII | re.DOTALL)
"""Ids of generators (see `nictop.traffic.run.run`): ``RUN-c`` client, ``RUN-s`` server, ``RUN-s2`` server at another
port; ``RUN-lc`` and ``RUN-ls`` of the bulk flow of a loaded run."""


@dataclass(frozen=True)
class RunMarks:
    """One run. Times are seconds as in `Recording`."""

    identity: str
    begin: float
    """Start of the first generator."""
    end: float | None
    """End of the last generator; None: not in the recording."""
    client: str = ""
    """Name of the host; "": the start of its generator is not in the recording."""
    server: str = ""

    @property
    def hosts_text(self) -> str:
        """Clean; who sends is in the options of the generators only."""
        return f"client {clean(self.client or '?')}, server {clean(self.server or '?')}"

    @property
    def is_complete(self) -> bool:
        """The starts of both generators are in the recording."""
        return bool(self.client and self.server)


def run_marks(recording: Recording) -> tuple[RunMarks, ...]:
    """All runs, by start time. Generators with other ids are ignored."""
    starts: dict[str, list[float]] = {}
    ends: dict[str, list[float]] = {}
    open_ends: dict[str, int] = {}
    hosts: dict[tuple[str, str], str] = {}
    for mark in recording.marks:
        found = GENERATOR_ID.fullmatch(mark.id)
        if found is None:
            continue
        identity, side = found[1], found[2].rstrip("0123456789")
        if mark.kind == "started":
            starts.setdefault(identity, []).append(mark.time)
            open_ends[identity] = open_ends.get(identity, 0) + 1
            hosts[identity, side] = mark.host
        elif mark.kind == "exit":
            ends.setdefault(identity, []).append(mark.time)
            open_ends[identity] = open_ends.get(identity, 0) - 1
    runs = [
        RunMarks(
            identity,
            min(times),
            max(ends[identity]) if identity in ends and open_ends[identity] <= 0 else None,
            hosts.get((identity, "c"), ""),
            hosts.get((identity, "s"), ""),
        )
        for identity, times in starts.items()
    ]
    return tuple(sorted(runs, key=lambda run: run.begin))


def run_at(runs: tuple[RunMarks, ...], time: float) -> int | None:
    """Index of the last run that has started at `time`, else of the first one; None: there is no run."""
    if not runs:
        return None
    return max((index for index, run in enumerate(runs) if run.begin <= time), default=0)
