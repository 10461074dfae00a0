"""Which traffic runs are in a recording, by the marks of its generators. Reads nothing but the index."""

from __future__ import annotations

import re
from dataclasses import dataclass

from nictop.model.text.terminal import clean
from nictop.recording.reader import Recording

GENERATOR_ID = re.compile(r"(.+)-(c|s\d{0,3})", re.ASCII | re.DOTALL)
"""Ids as `nictop.traffic.run.run` makes them: of the client, of the server, of the server at another port."""


@dataclass(frozen=True)
class RunMarks:
    """One run. Times are seconds as in `Recording`."""

    identity: str
    begin: float
    """The first generator started."""
    end: float | None
    """The last one ended; None: not in the recording."""
    client: str = ""
    """Host; "": its start is not in the recording."""
    server: str = ""

    @property
    def hosts_words(self) -> str:
        """Clean; who sends is in the options of the generators only."""
        return f"client {clean(self.client or '?')}, server {clean(self.server or '?')}"

    @property
    def is_whole(self) -> bool:
        """Both ends were started while it was recorded."""
        return bool(self.client and self.server)


def run_marks(recording: Recording) -> tuple[RunMarks, ...]:
    """By their begin. Generators whose ids say nothing belong to no run."""
    begun: dict[str, list[float]] = {}
    ended: dict[str, list[float]] = {}
    open_ends: dict[str, int] = {}
    hosts: dict[tuple[str, str], str] = {}
    for mark in recording.marks:
        found = GENERATOR_ID.fullmatch(mark.id)
        if found is None:
            continue
        identity, side = found[1], found[2][0]
        if mark.kind == "started":
            begun.setdefault(identity, []).append(mark.time)
            open_ends[identity] = open_ends.get(identity, 0) + 1
            hosts[identity, side] = mark.host
        elif mark.kind == "exit":
            ended.setdefault(identity, []).append(mark.time)
            open_ends[identity] = open_ends.get(identity, 0) - 1
    runs = [
        RunMarks(
            identity,
            min(times),
            max(ended[identity]) if identity in ended and open_ends[identity] <= 0 else None,
            hosts.get((identity, "c"), ""),
            hosts.get((identity, "s"), ""),
        )
        for identity, times in begun.items()
    ]
    return tuple(sorted(runs, key=lambda run: run.begin))


def run_at(runs: tuple[RunMarks, ...], moment: float) -> int | None:
    """Index of the run that goes on at a moment, else of the last one before it, else of the first; None: no run."""
    if not runs:
        return None
    return max((index for index, run in enumerate(runs) if run.begin <= moment), default=0)
