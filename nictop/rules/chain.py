"""The chain of one NIC or virtual link: what was read of each of its layers, and what the checks
found there.

``slot ✓ 8 GT/s ×8 │ driver ✓ ixgbevf │ … │ profile ▲ Wired connection 1 │ address – │ gateway –``

Reads nothing; takes the newest snapshot and the findings about the NIC.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from operator import is_
from typing import get_args

from nictop.model.chain import STEPS, ChainState, Step, StepFacts, nic_steps, steps_of_nics
from nictop.model.devices.tree import Row
from nictop.model.doubts import doubts_of
from nictop.model.facts import is_virtual
from nictop.model.parts import rates_of_links
from nictop.model.per_inventory import PerInventory
from nictop.model.snapshot import ARPHRD_VOID, Snapshot, is_unread_link
from nictop.model.virtual_chain import chain_kind, step_instead, virtual_steps
from nictop.probe.light_tuples import NamedTuple
from nictop.probe.records import Inventory, Link, PciFunction
from nictop.rules.finding import SEVERITIES, Finding
from nictop.rules.registry import RULES


class ChainStep(NamedTuple):
    """One layer."""

    step: Step
    state: ChainState
    """passed: it works as far as was read, and no check that ran has a finding. finding: the worst
    of `findings` says what is wrong. failed: it does not work, and no check calls that a fault (a
    link that is down and not configured). waits: it cannot work before the step that failed."""
    text: str
    """A few words, not sanitized; see `StepFacts`. The title of the worst finding where that says
    what is wrong and the step itself has passed, or nothing was read of it: the name of a driver or
    an address beside ✖ would read as if it were the wrong one."""
    findings: tuple[Finding, ...] = ()
    """The worst first."""


KnownChains = dict[tuple[int, int], tuple[tuple[object, ...], tuple["ChainStep", ...]]]
"""Ids of a link and a function → all that a chain was made of, and the chain."""


def _no_chains(inventory: Inventory) -> KnownChains:
    return {}


_chains = PerInventory(_no_chains)
MAY_CHANGE_UNSEEN: frozenset[Step] = frozenset(get_args(Step)) - {"load"}
"""The steps but for the readings: where no events are received."""
MAY_CHANGE = MAY_CHANGE_UNSEEN - {"name", "link"}
"""The steps but for what the events of a netdev tell themselves, and its readings."""
MAY_CHANGE_WITH_LINK = MAY_CHANGE - {"slot", "driver"}
"""After an event of the netdev: its device and its driver stay with it."""
NO_STEPS: frozenset[Step] = frozenset()
MAX_CACHED_CHAINS = 512
"""Of each inventory, and of all hosts those without findings."""


def has_chain(row: Row) -> bool:
    """It is a netdev with a device, a PCI function without one, or a virtual link that stands for
    others."""
    if row.link is None:
        return row.kind == "pci" and row.pci is not None
    if is_virtual(row.link):
        return chain_kind(row.link) is not None
    return row.link.type != ARPHRD_VOID


def nic_chain(
    link: Link | None,
    pci: PciFunction | None,
    snapshot: Snapshot,
    findings: Iterable[Finding],
    *,
    is_checked: bool,
) -> tuple[ChainStep, ...]:
    """`findings`: those about the NIC and its function. `is_checked`: the checks have run on this
    inventory; before, nothing has passed, nor while it is read again after an event that may have
    changed the NIC. Made anew only when something of that is new: counters come every second."""
    findings = tuple(findings)
    inventory = snapshot.inventory
    if inventory is None:
        return _made_chain(link, pci, snapshot, findings, is_checked=is_checked)
    known_chains = _chains(inventory)
    has_rates = link is not None and link.ifindex in rates_of_links(snapshot)
    of_host = (snapshot.links, snapshot.listened, doubts_of(snapshot))
    made_of = (link, pci, *of_host, has_rates, is_checked, *findings)
    key = (id(link), id(pci))
    known = known_chains.get(key)
    if known is not None and len(known[0]) == len(made_of) and all(map(is_, known[0], made_of)):
        return known[1]
    chain = _made_chain(link, pci, snapshot, findings, is_checked=is_checked)
    if len(known_chains) >= MAX_CACHED_CHAINS:
        del known_chains[next(iter(known_chains))]
    known_chains[key] = (made_of, chain)
    return chain


class Nic(NamedTuple):
    """What a chain is made of."""

    link: Link | None
    pci: PciFunction | None
    findings: Sequence[Finding]
    """About both."""


def nic_chains(
    nics: Sequence[Nic], snapshot: Snapshot, *, is_checked: bool
) -> list[tuple[ChainStep, ...]]:
    """The same of many, in their order; all at once, as that is faster. Nothing is stored."""
    plain = []
    for nic in nics:
        if nic.link is not None and not is_virtual(nic.link) and not is_unread_link(nic.link):
            plain.append((nic.link, nic.pci))
    read_of_plain = steps_of_nics(plain, snapshot)
    chains = []
    for nic in nics:
        if nic.link is None or is_virtual(nic.link) or is_unread_link(nic.link):
            chain = _made_chain(nic.link, nic.pci, snapshot, nic.findings, is_checked=is_checked)
        else:
            doubted = _doubted_steps(nic.link, nic.pci, snapshot)
            read = next(read_of_plain)
            chain = _chain_of(STEPS, read, nic.findings, doubted, is_checked=is_checked)
        chains.append(chain)
    return chains


def _doubted_steps(
    link: Link | None, pci: PciFunction | None, snapshot: Snapshot
) -> frozenset[Step]:
    """Those that an event which no inventory has read may have changed."""
    doubts = doubts_of(snapshot)
    if doubts is None:
        return NO_STEPS
    if doubts.about_states:
        return MAY_CHANGE_UNSEEN
    if link is None and pci is not None:
        return MAY_CHANGE if doubts.concern_function(pci) else NO_STEPS
    if doubts.about_all:
        return MAY_CHANGE
    if link is not None:
        return MAY_CHANGE_WITH_LINK if doubts.concern_link(link) else NO_STEPS
    return NO_STEPS


def _made_chain(
    link: Link | None,
    pci: PciFunction | None,
    snapshot: Snapshot,
    findings: Sequence[Finding],
    *,
    is_checked: bool,
) -> tuple[ChainStep, ...]:
    read = _steps(link, pci, snapshot)
    doubted = _doubted_steps(link, pci, snapshot)
    return _chain_of(tuple(read), read.values(), findings, doubted, is_checked=is_checked)


def _chain_of(
    steps: tuple[Step, ...],
    read: Iterable[StepFacts],
    findings: Sequence[Finding],
    doubted: frozenset[Step],
    *,
    is_checked: bool,
) -> tuple[ChainStep, ...]:
    """`read`: of each of `steps`. `doubted`: see `_doubted_steps`."""
    if not findings:
        return _chain_without_findings(steps, tuple(read), doubted, is_checked)
    return _joined(steps, read, _by_step(findings, steps), doubted, is_checked)


@lru_cache(MAX_CACHED_CHAINS)
def _chain_without_findings(
    steps: tuple[Step, ...],
    read: tuple[StepFacts, ...],
    doubted: frozenset[Step],
    is_checked: bool,
) -> tuple[ChainStep, ...]:
    """Made once: the next inventory of a host says the same of nearly all its NICs."""
    return _joined(steps, read, {}, doubted, is_checked)


def _joined(
    steps: tuple[Step, ...],
    read: Iterable[StepFacts],
    findings: Mapping[Step, tuple[Finding, ...]],
    doubted: frozenset[Step],
    is_checked: bool,
) -> tuple[ChainStep, ...]:
    chain: list[ChainStep] = []
    is_broken = False
    for step, facts in zip(steps, read, strict=True):
        state: ChainState = "unknown" if step in doubted else facts[0]
        own = findings.get(step, ())
        if own and (own[0].severity != "info" or state == "passed"):
            chain.append(_step_with_finding(step, (state, facts[1]), own))
        elif is_broken and state != "passed" and step != "load":
            chain.append(ChainStep(step, "waits", ""))
        elif state == "passed" and not is_checked:
            chain.append(ChainStep(step, "unknown", facts[1]))
        else:
            chain.append(ChainStep(step, state, facts[1], own))
        is_broken = is_broken or state == "failed"
    return tuple(chain)


def _step_with_finding(
    step: Step, known: tuple[ChainState, str], own: tuple[Finding, ...]
) -> ChainStep:
    """What was read of it if that says what is wrong, or if the finding is a note; else what was
    found: nothing was read of it, an event came since, or it has passed."""
    state, text = known
    worst = own[0]
    is_note_about_it = state == "passed" and worst.severity == "info"
    is_told = (state == "failed" or is_note_about_it) and not worst.outdated
    return ChainStep(step, "finding", text if is_told and text else worst.title, own)


def _by_step(
    findings: Iterable[Finding], steps: tuple[Step, ...]
) -> Mapping[Step, tuple[Finding, ...]]:
    """The findings at each of the steps, the worst first."""
    by_step: dict[Step, list[Finding]] = {}
    for finding in sorted(findings, key=_rank):
        if finding.rule in RULES:
            step = step_instead(RULES[finding.rule].step, steps)
            by_step.setdefault(step, []).append(finding)
    return {step: tuple(found) for step, found in by_step.items()}


def _steps(
    link: Link | None, pci: PciFunction | None, snapshot: Snapshot
) -> Mapping[Step, StepFacts]:
    kind = chain_kind(link) if link is not None and is_virtual(link) else None
    if link is None or kind is None:
        return nic_steps(link, pci, snapshot)
    return virtual_steps(link, kind, snapshot)


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


def first_of_interest(chain: Sequence[ChainStep]) -> int:
    """Index of the first problem, else of the first step that is not known, else of the first
    one."""
    problem = first_problem(chain)
    if problem is not None:
        return problem
    for index, step in enumerate(chain):
        if step.state == "unknown":
            return index
    return 0


def _rank(finding: Finding) -> tuple[int, bool]:
    """Of equal ones, those that no event has made doubtful are first."""
    return SEVERITIES.index(finding.severity), finding.outdated
