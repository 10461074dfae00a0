"""The traffic runs in a recording, found by the notes about them and by the marks of their
generators. Reads only the index of the recording."""

from __future__ import annotations

import re

from nictop.model.text.terminal import clean
from nictop.probe.light_dataclasses import dataclass, field
from nictop.recording.file.index import Mark
from nictop.recording.file.run_note import MARKED_NOTES
from nictop.recording.reader import Recording

GENERATOR_ID = re.compile(r"(.+?)((?:-r)?-b?)(l?c|l?s\d{0,3})", re.ASCII | re.DOTALL)
"""Ids of generators (see `nictop.traffic.run.run`): ``RUN-c`` client, ``RUN-s`` server, ``RUN-s2``
server at another port; ``RUN-lc`` and ``RUN-ls`` of the bulk flow of a loaded run. ``RUN-bc``: the
built-in generator after iperf3 died; ``RUN-r-c``: the run was repeated after a failure."""
NOTE_SIDES = {"plan": "c", "server": "s"}
"""Kind of a note at the begin of a run → side of the host at which it is."""
END_NOTES = ("result", "ended")


@dataclass(frozen=True)
class RunMarks:
    """One run. Times are seconds as in `Recording`."""

    identity: str
    begin: float
    """Of its check, or else start of the first generator; not before the recording begins."""
    end: float | None
    """Time of its result, or else end of the last generator; None: not in the recording."""
    client: str = ""
    """Name of the host; "": the start of its generator is not in the recording."""
    server: str = ""
    is_noted: bool = False
    """Plan and result, or why there is none, are in the recording; else they are derived from its
    generators."""

    @property
    def hosts_text(self) -> str:
        """Clean; who sends is in the options of the generators only."""
        return f"client {clean(self.client or '?')}, server {clean(self.server or '?')}"

    @property
    def is_complete(self) -> bool:
        """Both hosts are known."""
        return bool(self.client and self.server)


@dataclass
class _FoundRun:
    """What the marks of one run say."""

    hosts: dict[str, str] = field(default_factory=dict)
    """"c" client, "s" server → name."""
    begins: list[float] = field(default_factory=list)
    ends: list[float] = field(default_factory=list)
    running: int = 0
    """Number of generators that have not ended."""
    is_noted: bool = False
    noted_end: float | None = None

    def add_note(self, mark: Mark) -> None:
        if mark.kind in END_NOTES:
            self.noted_end = mark.time
            return
        self.is_noted = True
        self.begins.append(mark.time)
        self.hosts[NOTE_SIDES[mark.kind]] = mark.host

    def add_generator(self, mark: Mark, side: str) -> None:
        if mark.kind == "started":
            self.begins.append(mark.time)
            self.running += 1
            self.hosts[side] = mark.host
        elif mark.kind == "exit":
            self.ends.append(mark.time)
            self.running -= 1

    def marks(self, identity: str, earliest: float) -> RunMarks:
        """It begins at `earliest` at the earliest."""
        return RunMarks(
            identity,
            max(earliest, min(self.begins)),
            self.end,
            self.hosts.get("c", ""),
            self.hosts.get("s", ""),
            self.is_noted,
        )

    @property
    def end(self) -> float | None:
        if self.is_noted:
            return self.noted_end
        if not self.ends or self.running > 0:
            return None
        return max(self.ends)


def run_marks(recording: Recording) -> tuple[RunMarks, ...]:
    """All runs, by start time. Generators with other ids are ignored."""
    found: dict[str, _FoundRun] = {}
    for mark in recording.marks:
        if mark.kind in MARKED_NOTES:
            found.setdefault(mark.id, _FoundRun()).add_note(mark)
            continue
        generator = GENERATOR_ID.fullmatch(mark.id)
        if generator is not None:
            found.setdefault(generator[1], _FoundRun()).add_generator(
                mark, generator[3].rstrip("0123456789")
            )
    runs = [run.marks(identity, recording.begin) for identity, run in found.items() if run.begins]
    return tuple(sorted(runs, key=lambda run: run.begin))


def run_at(runs: tuple[RunMarks, ...], time: float) -> int | None:
    """Index of the last run that has started at `time`, else of the first one; None: there is no
    run."""
    if not runs:
        return None
    index = 0
    for number, run in enumerate(runs):
        if run.begin <= time:
            index = number
    return index
