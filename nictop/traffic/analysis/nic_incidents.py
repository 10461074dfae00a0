"""What happened to the chosen NICs during a run, by the kernel logs of their hosts.

A reset or a lost link explains the rate of a run better than any counter.

Reads nothing; takes the snapshots of the hosts after the run.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from nictop.model.kernel_log import Logged
from nictop.model.snapshot import Snapshot
from nictop.model.text.terminal import clean

if TYPE_CHECKING:
    from nictop.probe.inventory.machine.message_table import Meaning

WORDS: dict[Meaning, str] = {
    "device_gone": "was detached by its driver",
    "transmit_stalled": "stopped sending (its transmit unit hung)",
    "reset": "was reset by its driver",
    "vf_reset": "was reset by its physical function",
    "link_lost": "lost its link",
}
"""Meaning of a message → what happened; the first one explains the others, which follow from it."""
MAX_TEXT_CHARS = 100


@dataclass(frozen=True)
class NicIncident:
    """One message about the chosen NIC of a host."""

    host: str
    link: str
    second: float
    """On the axis of the run."""
    meaning: Meaning
    text: str

    @property
    def sentence(self) -> str:
        """``b eth2 was reset by its driver at second 7 (kernel log: Detected Tx Unit Hang)``"""
        text = clean(self.text)
        shown = text if len(text) <= MAX_TEXT_CHARS else text[: MAX_TEXT_CHARS - 1] + "…"
        what = WORDS[self.meaning]
        return (
            f"{clean(self.host)} {clean(self.link)} {what} at second {max(0.0, self.second):.0f} (kernel log: {shown})"
        )


def nic_incidents(
    snapshots: Mapping[str, Snapshot], nics: Mapping[str, int], begins: Mapping[str, float], seconds: float
) -> tuple[NicIncident, ...]:
    """Incidents in the run, the most telling of the first second first. `nics`: host → ifindex of its chosen NIC;
    `begins`: host → start of the axis on its clock (CLOCK_MONOTONIC); `seconds`: length of the run."""
    found: list[NicIncident] = []
    for host, ifindex in nics.items():
        snapshot = snapshots.get(host)
        link = snapshot.links.get(ifindex) if snapshot is not None else None
        if snapshot is None or link is None or host not in begins:
            continue
        begin = begins[host]
        entries = _during(snapshot.kernel_log.of_link(link), begin, begin + seconds)
        found += [NicIncident(host, link.name, one.time - begin, one.known.meaning, one.text) for one in entries]
    order = list(WORDS)
    return tuple(sorted(found, key=lambda one: (round(one.second), order.index(one.meaning))))


def _during(entries: Iterable[Logged], begin: float, end: float) -> list[Logged]:
    return [entry for entry in entries if entry.known.meaning in WORDS and begin <= entry.time <= end]
