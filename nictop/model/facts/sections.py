"""Facts for display: titled sections of labelled lines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from nictop.model.text.words import Tone, absence_reason
from nictop.probe.light_dataclasses import dataclass
from nictop.probe.records import Unreadable


@dataclass(frozen=True)
class Fact:
    """One line: a label of at most 15 cells, and a text that is never empty. Neither is
    sanitized."""

    label: str
    text: str
    tone: Tone = "normal"


@dataclass(frozen=True)
class Section:
    """Facts that belong together, the most important first; never empty."""

    title: str
    facts: tuple[Fact, ...]


SUMMARY = "Summary"
"""Title of the first section of a netdev; a panel with the name of the netdev in its title need not
draw it."""

ABSENT_ORDER = ("not_offered", "missing", "needs_root", "vanished", "malformed", "failed")


def section(title: str, facts: Sequence[Fact]) -> tuple[Section, ...]:
    """One section, or none when there are no facts."""
    if not facts:
        return ()
    return (Section(title, tuple(facts)),)


def absences(
    names: Mapping[str, str], unreadable: Mapping[str, Unreadable], driver: str | None
) -> tuple[Fact, ...]:
    """Reasons for absent parts, one line per reason: ``not supported by veth: rings, coalescing``.
    `names`: field of the record → its name in the text."""
    grouped: dict[tuple[int, str], list[str]] = {}
    for field, name in names.items():
        why, rank = unreadable.get(field), len(ABSENT_ORDER)
        if why is not None:
            rank = ABSENT_ORDER.index(why.reason)
        grouped.setdefault((rank, absence_reason(why, driver)), []).append(name)
    facts = []
    for (_, reason), members in sorted(grouped.items()):
        facts.append(Fact("n/a", f"{reason}: {', '.join(members)}", "dim"))
    return tuple(facts)
