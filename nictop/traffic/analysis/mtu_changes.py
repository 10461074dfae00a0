"""MTU of a chosen NIC that changed during a run: the result is of both, and so are its facts.

Reads nothing; takes what rtnetlink reported of links since the start of the run.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from nictop.model.text.terminal import clean
from nictop.probe.light_dataclasses import dataclass
from nictop.traffic.analysis.nic_incidents import ChosenNic


@dataclass(frozen=True)
class MtuChange:
    """`second`: on the axis of the run."""

    before: int
    after: int
    second: float


def mtu_changes(nic: ChosenNic, mtu: int, seconds: float) -> list[MtuChange]:
    """Those in a run of so many `seconds`; `mtu`: at its start."""
    found: list[MtuChange] = []
    for change in nic.changes:
        if change.ifindex != nic.ifindex or change.gone or change.mtu == mtu:
            continue
        if nic.begin <= change.time <= nic.begin + seconds:
            found.append(MtuChange(mtu, change.mtu, change.time - nic.begin))
        mtu = change.mtu
    return found


def mtu_note(host: str, link: str, changes: Sequence[MtuChange]) -> str:
    """``vm1 ens224: MTU 9000, 1500 from second 5: the result is of both``"""
    of_what = "both" if len(changes) == 1 else "all of them"
    return f"{clean(host)} {clean(link)}: MTU {mtu_text(changes)}: the result is of {of_what}"


def mtu_text(changes: Sequence[MtuChange]) -> str:
    """``9000, 1500 from second 5``"""
    parts = [str(changes[0].before)]
    parts += [f"{change.after} from second {change.second:.0f}" for change in changes]
    return ", ".join(parts)


def with_mtu_texts(facts: Mapping[str, str], texts: Mapping[str, str]) -> dict[str, str]:
    """`texts`: side → `mtu_text`. A comparison with a run of one MTU names it then."""
    found = dict(facts)
    for side, text in texts.items():
        found[f"{side} mtu"] = found["mtu"] = text
    return found
