"""The chain of one NIC: what was read of each of its layers, and what the checks found there.

``slot ✓ 8 GT/s ×8 │ driver ✓ ixgbevf │ … │ profile ▲ Wired connection 1 │ address – │ gateway –``

Reads nothing; takes the newest snapshot and the findings about the NIC.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from nictop.model.chain import ChainState, Step, StepFacts, nic_steps
from nictop.model.devices.tree import Row
from nictop.model.facts import is_virtual
from nictop.model.snapshot import ARPHRD_VOID, Snapshot
from nictop.probe.light_dataclasses import dataclass
from nictop.probe.records import Link, PciFunction
from nictop.rules.finding import SEVERITIES, Finding
from nictop.rules.registry import RULES


@dataclass(frozen=True)
class ChainStep:
    """One layer."""

    step: Step
    state: ChainState
    """passed: it works as far as was read, and no check that ran has a finding. finding: the worst
    of `findings` says what is wrong. failed: it does not work, and no check calls that a fault (a
    link that is down and not configured). waits: it cannot work before the step that failed."""
    text: str
    """A few words, not sanitized; see `StepFacts.text`. The title of the finding where nothing was
    read of the step."""
    findings: tuple[Finding, ...] = ()
    """The worst first."""


def has_chain(row: Row) -> bool:
    """It is a netdev with a device, or a PCI function without one."""
    if row.link is None:
        return row.kind == "pci" and row.pci is not None
    return row.link.type != ARPHRD_VOID and not is_virtual(row.link)


def nic_chain(
    link: Link | None,
    pci: PciFunction | None,
    snapshot: Snapshot,
    findings: Iterable[Finding],
    *,
    is_checked: bool = True,
) -> tuple[ChainStep, ...]:
    """`findings`: those about the NIC and its function. `is_checked`: the checks have run on this
    inventory; before, nothing has passed."""
    by_step: dict[Step, list[Finding]] = {}
    for finding in findings:
        if finding.rule in RULES:
            by_step.setdefault(RULES[finding.rule].step, []).append(finding)
    chain: list[ChainStep] = []
    is_broken = False
    for facts in nic_steps(link, pci, snapshot):
        own = tuple(sorted(by_step.get(facts.step, ()), key=_rank))
        chain.append(_chain_step(facts, own, waits=is_broken, is_checked=is_checked))
        is_broken = is_broken or facts.state == "failed"
    return tuple(chain)


def first_problem(chain: Sequence[ChainStep]) -> int | None:
    """Index of the first step with a warning or a critical finding, else of the first one that
    failed; None: there is none."""
    for index, step in enumerate(chain):
        if step.findings and step.findings[0].severity != "info":
            return index
    for index, step in enumerate(chain):
        if step.state == "failed":
            return index
    return None


def _rank(finding: Finding) -> int:
    return SEVERITIES.index(finding.severity)


def _chain_step(
    facts: StepFacts, findings: tuple[Finding, ...], *, waits: bool, is_checked: bool
) -> ChainStep:
    is_fault = bool(findings) and findings[0].severity != "info"
    if is_fault or (findings and facts.state == "passed"):
        is_read = facts.state in ("passed", "failed")
        text = facts.text if is_read and facts.text else findings[0].title
        return ChainStep(facts.step, "finding", text, findings)
    if waits and facts.state != "passed" and facts.step != "load":
        return ChainStep(facts.step, "waits", "")
    if facts.state == "passed" and not is_checked:
        return ChainStep(facts.step, "unknown", facts.text)
    return ChainStep(facts.step, facts.state, facts.text, findings)
