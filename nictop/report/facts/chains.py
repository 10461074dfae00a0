"""The chains of the NICs of a host for JSON.

Reads nothing; texts are raw.
"""

from __future__ import annotations

from collections.abc import Iterator

from nictop.model.chain import ChainState, Step
from nictop.model.snapshot import Snapshot
from nictop.probe.light_dataclasses import dataclass
from nictop.report.facts.host_document import chains_of_rows, rows_of_nics
from nictop.rules.by_device import DeviceFindings
from nictop.rules.chain import has_chain


@dataclass(frozen=True)
class StepDocument:
    """One layer."""

    step: Step
    state: ChainState
    text: str
    """What was read of it, or what is wrong, or why it is not known."""
    rules: tuple[str, ...]
    """Those with findings about it, the worst first."""


@dataclass(frozen=True)
class ChainDocument:
    """The layers of one NIC, from its slot to its peers, or of a virtual link."""

    ifindex: int | None
    """null: a PCI function without a driver, or without a netdev."""
    pci_address: str | None
    steps: tuple[StepDocument, ...]


def chain_documents(snapshot: Snapshot, findings: DeviceFindings) -> tuple[ChainDocument, ...]:
    """Of all NICs, and of virtual links that have one, in the order of the tree."""
    return tuple(_chains(snapshot, findings))


def _chains(snapshot: Snapshot, findings: DeviceFindings) -> Iterator[ChainDocument]:
    rows = list(filter(has_chain, rows_of_nics(snapshot)))
    for row, chain in zip(rows, chains_of_rows(rows, snapshot, findings), strict=True):
        steps = tuple(
            StepDocument(
                step.step, step.state, step.text, tuple(finding.rule for finding in step.findings)
            )
            for step in chain
        )
        ifindex = None if row.link is None else row.link.ifindex
        yield ChainDocument(ifindex, None if row.pci is None else row.pci.address, steps)
