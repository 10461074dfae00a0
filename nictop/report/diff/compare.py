"""Every fact of two hosts, side by side: those that differ, in three parts: findings that only one
side has or that are between both hosts, differences, and expected ones: names, addresses and
counters; of one host at two times counters and times. What is not known of a side is no difference,
and neither is a finding whose check did not run on the other side; both are listed with the reason.

Pure. Facts are those of the panel of each device and of the host (`model.facts`), and the kernel
settings; texts are not sanitized.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Literal

from nictop.model.devices.links import global_addresses
from nictop.model.devices.tree import row_of_host, row_of_link
from nictop.model.facts.ethtool import OFFLOADS, OTHER_FEATURES
from nictop.model.facts.ethtool_settings import offload_states
from nictop.model.facts.facts import link_facts
from nictop.model.facts.hardware import vf_text
from nictop.model.facts.kernel_log import TITLE as KERNEL_LOG
from nictop.model.facts.lldp import TITLE as LLDP_TITLE
from nictop.model.facts.sections import Fact, Section, section
from nictop.model.parts import sysctl_values
from nictop.model.queues.cpu_lists import format_cpu_list
from nictop.model.queues.plan import queue_plan
from nictop.model.snapshot import Snapshot
from nictop.model.text.words import LINK_UP, state_mark, state_text
from nictop.probe.light_dataclasses import dataclass
from nictop.probe.records import Link, VirtualFunction
from nictop.report.diff.age import notes_of
from nictop.report.diff.matching import NicPair, match_nics, nics_of
from nictop.report.diff.own_values import OwnValues, host_values
from nictop.report.diff.unknown import UnknownFacts
from nictop.rules import RULES, SEVERITIES, Diagnosis, Finding, HostFacts, Severity, diagnose

Kind = Literal["differs", "expected", "unknown"]
"""unknown: on one side it is not known."""
SideName = Literal["left", "right"]
EXPECTED_SECTIONS = frozenset(
    (
        *("Summary", "Counters", "Driver counters", "Queue rates", KERNEL_LOG, "Other profiles"),
        "Guest",
    )
)
"""What is counted, logged, about other NICs, about guests, or said again elsewhere."""
EXPECTED_LABELS = frozenset(
    (
        *("MAC", "Permanent MAC", "Altnames", "Alias", "Address", "IPv4", "IPv6", "UUID", "File"),
        *("Bus info", "Device", "Changes", "Neighbours", "No answer from", "Probe", "Uptime"),
        *("Attributes", "Last activated", "IOMMU group", "LACP partner", "Aggregator", "Serial"),
    )
)
"""Facts that two healthy hosts do not have in common."""
REPEATED_SECTIONS = frozenset(("Summary", "Other profiles"))
"""What other facts, or those of another NIC, say as well."""
CHANGING_SECTIONS = EXPECTED_SECTIONS - REPEATED_SECTIONS - {"Guest"}
CHANGING_LABELS = frozenset(
    ("Changes", "Neighbours", "No answer from", "Probe", "Uptime", "Last activated")
)
"""Of one host at two times: counters, times, and how it was read."""
EXPECTED_FACTS = frozenset((("Host", "State"), ("Host", "Values"), (LLDP_TITLE, "Port")))
"""(Section, label): how a side is read says nothing about it, and a port of a switch has one
NIC."""
CHANGING_FACTS = frozenset((("Host", "State"), ("Host", "Values")))
BRIDGE_LABELS = frozenset(("Port", "Ports"))
"""Of a bridge: names of guests, and of links to them."""
BALANCED_LABELS = frozenset(("IRQ affinity",))
"""The same where irqbalance runs."""
FAMILY_NAMES = {"ipv4": "IPv4", "ipv6": "IPv6"}
LIST_SEPARATOR = ", "
ABSENCE_LABELS = frozenset(("Not readable", "Not available", "n/a"))
"""Facts that say themselves what is not known."""
NOT_EVALUATED = "its inventory is not read yet"
NO_FURTHER_ITEM = "none of these"
"""Of a side whose list has nothing that the other does not have."""


@dataclass(frozen=True)
class Difference:
    """A fact that is not the same on both sides."""

    section: str
    label: str
    left: str
    """Empty: that side has no such fact, or `left_unknown` says why it is not known."""
    right: str
    kind: Kind
    left_unknown: str = ""
    """Why it is not known on that side; empty: it is."""
    right_unknown: str = ""


@dataclass(frozen=True)
class NicDifferences:
    """A NIC on each side; an empty name: that side has none of this role."""

    left: str
    right: str
    same: tuple[str, ...]
    """By what they were matched: name, subnet, slot, driver."""
    differences: tuple[Difference, ...]


@dataclass(frozen=True)
class OneSidedFinding:
    """A finding that the other side does not have, or one between both hosts."""

    side: SideName
    rule: str
    severity: Severity
    subject: str
    title: str
    needs_both: bool = False
    """It is between the two hosts (the rule compares hosts), and about the one of this side."""
    is_unchecked_there: bool = False
    """The check could not be made on the other side: that may have it, too."""
    why_unchecked: str = ""
    """Why it was not made there; empty: it was."""
    outdated: bool = False
    """It may have changed: an event came after it was read. The title says so."""


@dataclass(frozen=True)
class HostDifferences:
    """What differs between two states."""

    left: str
    right: str
    """What was compared: names of hosts, with the NIC or the time of a recording."""
    findings: tuple[OneSidedFinding, ...]
    """The worst first."""
    host: tuple[Difference, ...]
    nics: tuple[NicDifferences, ...]

    is_one_moment: bool = True
    """Both states are of the same time; else nothing between the hosts was checked."""
    notes: tuple[str, ...] = ()
    """What was not read of a side, or some time before its links: sentences that begin with its
    name."""
    is_one_host: bool = False
    """Of one host at two times only counters and times are expected to differ."""

    @property
    def number(self) -> int:
        """How much is known to differ beyond what is expected: findings, facts, NICs without a
        partner."""
        alone = sum(not (nic.left and nic.right) for nic in self.nics)
        different = sum(fact.kind == "differs" for fact in self.facts())
        found = sum(not finding.is_unchecked_there for finding in self.findings)
        return found + alone + different

    @property
    def number_unknown(self) -> int:
        """How much may differ: what is not known on one side, or was not checked there."""
        unknown = sum(fact.kind == "unknown" for fact in self.facts())
        return unknown + sum(finding.is_unchecked_there for finding in self.findings)

    def facts(self) -> Iterator[Difference]:
        """Of the host and of its NICs."""
        yield from self.host
        for nic in self.nics:
            yield from nic.differences


@dataclass(frozen=True)
class Side:
    """One of the two states."""

    name: str
    snapshot: Snapshot
    diagnosis: Diagnosis
    nic: str = ""
    """Only this NIC; "": the whole host."""


def compare_sides(left: Side, right: Side, *, is_one_moment: bool = False) -> HostDifferences:
    """With a NIC on each side: those two, whatever their role, and nothing else. `is_one_moment`:
    both states are of the same time, so that what is between the two hosts can be said."""
    pairs = _pairs(left, right)
    only_nics = bool(left.nic or right.nic)
    expectations = BETWEEN_HOSTS
    if _is_one_thing(left, right):
        expectations = OF_ONE_HOST
    host: tuple[Difference, ...] = ()
    if not only_nics:
        host = _host_differences(left.snapshot, right.snapshot, expectations)
    values = (host_values(left.snapshot), host_values(right.snapshot))
    nics = tuple(
        _nic_differences(pair, left.snapshot, right.snapshot, values, expectations)
        for pair in pairs
    )
    between = _findings_between(left, right) if is_one_moment else []
    findings = _one_sided(left, right, pairs, between)
    for finding in between:
        findings.append(_finding(_side_of(finding, left), finding, needs_both=True))
    ordered = tuple(sorted(findings, key=_rank))
    is_one_host = left.snapshot.host == right.snapshot.host
    notes = [note for side in (left, right) for note in notes_of(side.name, side.snapshot)]
    return HostDifferences(
        left.name,
        right.name,
        ordered,
        host,
        nics,
        is_one_moment or is_one_host,
        tuple(dict.fromkeys(notes)),
        expectations is OF_ONE_HOST,
    )


@dataclass(frozen=True)
class Expectations:
    """Of which facts a difference is expected."""

    sections: frozenset[str]
    labels: frozenset[str]
    facts: frozenset[tuple[str, str]]
    of_bridges: frozenset[str]
    """More labels."""
    own_values: bool
    """Values of its own that a host has in its texts (`OwnValues`), and settings of single
    links."""
    left_out: frozenset[str] = frozenset()
    """Sections that are not compared."""


BETWEEN_HOSTS = Expectations(
    EXPECTED_SECTIONS, EXPECTED_LABELS, EXPECTED_FACTS, BRIDGE_LABELS, own_values=True
)
OF_ONE_HOST = Expectations(
    CHANGING_SECTIONS,
    CHANGING_LABELS,
    CHANGING_FACTS,
    frozenset(),
    own_values=False,
    left_out=REPEATED_SECTIONS,
)


def _is_one_thing(left: Side, right: Side) -> bool:
    """One host, or one NIC of it, at two times."""
    if left.snapshot.host != right.snapshot.host or left.nic != right.nic:
        return False
    machines = {_machine(side.snapshot) for side in (left, right)} - {None}
    return len(machines) < 2


def _machine(snapshot: Snapshot) -> str | None:
    """None: not known. Two recordings may have hosts of one name."""
    if snapshot.inventory is None:
        return None
    return snapshot.inventory.platform.machine_id_hash


def _pairs(left: Side, right: Side) -> list[NicPair]:
    if not (left.nic or right.nic):
        return match_nics(nics_of(left.snapshot), nics_of(right.snapshot))
    ours = _named(left.snapshot, left.nic or right.nic)
    theirs = _named(right.snapshot, right.nic or left.nic)
    return [NicPair(ours, theirs)]


def _named(snapshot: Snapshot, name: str) -> Link | None:
    for link in snapshot.links.values():
        if link.name == name:
            return link
    return None


def _host_differences(
    left: Snapshot, right: Snapshot, expectations: Expectations
) -> tuple[Difference, ...]:
    ours, theirs = (
        _facts(link_facts(row_of_host(host), host), OwnValues(host_values(host)))
        for host in (left, right)
    )
    unknown = (UnknownFacts(left), UnknownFacts(right))
    found = _differences(ours, theirs, unknown, expectations)
    sysctls = _sysctl_differences(sysctl_values(left), sysctl_values(right), expectations)
    return (*found, *sysctls)


def _sysctl_differences(
    left: Mapping[str, object], right: Mapping[str, object], expectations: Expectations
) -> Iterable[Difference]:
    """Between two hosts settings of single links are left out: they have the names of links."""
    of_links = ("ipv4.conf.", "ipv6.conf.") if expectations.own_values else ()
    for name in sorted(left.keys() & right.keys()):
        if left[name] != right[name] and not name.startswith(of_links):
            yield Difference("sysctl", name, str(left[name]), str(right[name]), "differs")


def _nic_differences(
    pair: NicPair,
    left: Snapshot,
    right: Snapshot,
    values: tuple[Mapping[str, str], Mapping[str, str]],
    expectations: Expectations,
) -> NicDifferences:
    """`values`: `host_values` of both."""
    if pair.left is None or pair.right is None:
        return NicDifferences(_name_of(pair.left), _name_of(pair.right), (), ())
    ours = _facts(_sections_of(pair.left, left), OwnValues(values[0], pair.left))
    theirs = _facts(_sections_of(pair.right, right), OwnValues(values[1], pair.right))
    expected = frozenset[str]()
    if _is_balanced(left) or _is_balanced(right):
        expected |= BALANCED_LABELS
    if pair.left.kind == "bridge":
        expected |= expectations.of_bridges
    unknown = (UnknownFacts(left, pair.left), UnknownFacts(right, pair.right))
    found = tuple(_differences(ours, theirs, unknown, expectations, expected))
    if not expectations.own_values and pair.left.name != pair.right.name:
        renamed = Difference("Link", "Name", pair.left.name, pair.right.name, "differs")
        found = (renamed, *found)
    return NicDifferences(pair.left.name, pair.right.name, pair.same, found)


def _sections_of(link: Link, snapshot: Snapshot) -> list[Section]:
    """Those of its panel, and what other panels show: the CPUs of its queues, and its VFs."""
    known = link_facts(row_of_link(link, snapshot), snapshot)
    return [
        *(_each_offload(link, part) if part.title == OFFLOADS else part for part in known),
        *section("Link", [Fact("State", _state_text(link))]),
        *section("Queue CPUs", list(_queue_facts(link, snapshot))),
        *section("VFs", [_vf_fact(vf) for vf in link.virtual_functions]),
        *section("Addresses", list(_address_facts(link, snapshot))),
    ]


def _each_offload(link: Link, known: Section) -> Section:
    """A fact for each offload, which the panel lists by their state: one that differs would be in
    two of its lists."""
    states = offload_states(link.ethtool.features or ())
    facts = [Fact(state.offload.name, state.text) for state in states]
    facts += (fact for fact in known.facts if fact.label == OTHER_FEATURES)
    return Section(known.title, tuple(facts))


def _state_text(link: Link) -> str:
    """``up``, or why it is not: the summary of its panel, where it is, is not compared."""
    return "up" if state_mark(link) == LINK_UP else state_text(link)[0]


def _address_facts(link: Link, snapshot: Snapshot) -> Iterator[Fact]:
    """Which kinds of address it has: none, where the other side has some, is no expected
    difference."""
    inventory = snapshot.inventory
    if inventory is None or "addresses" in inventory.unreadable:
        return
    kinds = {FAMILY_NAMES[address.family] for address in global_addresses(link)}
    yield Fact("Global addresses", LIST_SEPARATOR.join(sorted(kinds)) or "none")


def _vf_fact(function: VirtualFunction) -> Fact:
    """Without its MAC address, which two hosts never have in common."""
    _, _, settings = vf_text(function).partition(" · ")
    return Fact(f"VF {function.number}", settings)


def _queue_facts(link: Link, snapshot: Snapshot) -> Iterator[Fact]:
    """The CPUs that each queue may use."""
    plan = queue_plan(link, snapshot.inventory)
    affinity: list[str] = []
    xps: list[str] = []
    rps: list[str] = []
    for queue in plan.queues:
        allowed = [cpu for irq in queue.interrupts for cpu in irq.allowed or ()]
        if allowed:
            affinity.append(f"{queue.number}: {format_cpu_list(sorted(set(allowed)))}")
        if queue.xps is not None:
            xps.append(f"{queue.number}: {format_cpu_list(queue.xps) or 'off'}")
        if queue.rps is not None:
            rps.append(f"{queue.number}: {format_cpu_list(queue.rps) or 'off'}")
    for label, texts in (("IRQ affinity", affinity), ("XPS", xps), ("RPS", rps)):
        if texts:
            yield Fact(label, LIST_SEPARATOR.join(texts))


def _name_of(link: Link | None) -> str:
    return "" if link is None else link.name


@dataclass(frozen=True)
class _FactText:
    text: str
    compared: str
    """With a placeholder for the name of the NIC."""
    without_own: str
    """And for every value that two hosts never have in common."""

    def joined(self, other: _FactText) -> _FactText:
        return _FactText(
            LIST_SEPARATOR.join((self.text, other.text)),
            LIST_SEPARATOR.join((self.compared, other.compared)),
            LIST_SEPARATOR.join((self.without_own, other.without_own)),
        )


FactTexts = dict[tuple[str, str], _FactText]
NO_FACT = _FactText("", "", "")


def _facts(sections: Sequence[Section], own: OwnValues) -> FactTexts:
    """(Section, label) → text, several of one label joined."""
    found: FactTexts = {}
    for known in sections:
        for fact in known.facts:
            key = (known.title, fact.label)
            compared = own.without_name(fact.text)
            added = _FactText(fact.text, compared, own.without_values(compared))
            if key in found:
                added = found[key].joined(added)
            found[key] = added
    return found


def _is_balanced(snapshot: Snapshot) -> bool:
    """irqbalance runs: it moves interrupts all the time."""
    inventory = snapshot.inventory
    return inventory is not None and inventory.services.irqbalance is not None


def _differences(
    ours: FactTexts,
    theirs: FactTexts,
    unknown: tuple[UnknownFacts, UnknownFacts],
    expectations: Expectations,
    expected: frozenset[str] = frozenset(),
) -> Iterable[Difference]:
    """`unknown`: of both sides; `expected`: more labels than those of `expectations`."""
    for key in dict.fromkeys((*ours, *theirs)):
        our, their = ours.get(key, NO_FACT), theirs.get(key, NO_FACT)
        section, label = key
        if our.compared == their.compared or section in expectations.left_out:
            continue
        is_expected = (
            section in expectations.sections
            or label in expectations.labels | expected
            or key in expectations.facts
            or (expectations.own_values and our.without_own == their.without_own)
        )
        left, right = _without_common_items(our.text, their.text)
        kind: Kind = "expected" if is_expected else "differs"
        sides = zip(unknown, (our, their), strict=True)
        why_left, why_right = (facts.reason(section, label, fact.text) for facts, fact in sides)
        if why_left or why_right:
            kind = "expected" if is_expected else "unknown"
        if label in ABSENCE_LABELS:
            why_left = why_right = ""
        left, right = _known_text(left, why_left), _known_text(right, why_right)
        yield Difference(section, label, left, right, kind, why_left, why_right)


def _known_text(text: str, why_unknown: str) -> str:
    return "" if why_unknown else text


def _without_common_items(left: str, right: str) -> tuple[str, str]:
    """Of two lists only the items that the other does not have; other texts, and lists that differ
    in their order alone, whole."""
    ours, theirs = left.split(LIST_SEPARATOR), right.split(LIST_SEPARATOR)
    if min(len(ours), len(theirs)) < 2 or set(ours) == set(theirs):
        return left, right
    only_ours, only_theirs = (
        _joined_without(ours, set(theirs)),
        _joined_without(theirs, set(ours)),
    )
    return only_ours or NO_FURTHER_ITEM, only_theirs or NO_FURTHER_ITEM


def _joined_without(items: Sequence[str], left_out: set[str]) -> str:
    return LIST_SEPARATOR.join(item for item in items if item not in left_out)


def _findings_between(left: Side, right: Side) -> list[Finding]:
    """Of the rules that compare hosts, about these two, whatever other hosts are watched."""
    names = {left.snapshot.host, right.snapshot.host}
    checked = set(left.diagnosis.hosts)
    if len(names) < 2 or not names <= checked:
        return []
    found = [finding for side in (left, right) for finding in _findings(side)]
    found = [finding for finding in found if RULES[finding.rule].compares_hosts]
    if not found or names == checked:
        return found
    hosts = (HostFacts(left.snapshot), HostFacts(right.snapshot))
    rules = [RULES[name] for name in dict.fromkeys(finding.rule for finding in found)]
    about_both = {_key(finding) for finding in diagnose(hosts, rules).findings}
    return [finding for finding in found if _key(finding) in about_both]


def _key(finding: Finding) -> tuple[str, str, str]:
    return finding.rule, finding.host, finding.subject


def _one_sided(
    left: Side, right: Side, pairs: Sequence[NicPair], between: Sequence[Finding]
) -> list[OneSidedFinding]:
    """A finding about a NIC is on both sides if its partner has it. Without those in `between`."""
    left_out = {_key(finding) for finding in between}
    partners = {}
    for pair in pairs:
        if pair.left is not None and pair.right is not None:
            partners[pair.left.name] = pair.right.name
    ours = {}
    for finding in _findings(left, left_out):
        subject = partners.get(finding.subject, finding.subject)
        ours[finding.rule, subject] = finding
    theirs = {(finding.rule, finding.subject): finding for finding in _findings(right, left_out)}
    found = []
    for key in ours.keys() - theirs.keys():
        found.append(_finding("left", ours[key], why_unchecked=_why_unchecked([key], right)))
    for key in theirs.keys() - ours.keys():
        rule, subject = key
        names = [subject, *(ours for ours, theirs in partners.items() if theirs == subject)]
        why = _why_unchecked([(rule, name) for name in names], left)
        found.append(_finding("right", theirs[key], why_unchecked=why))
    return found


def _why_unchecked(keys: Sequence[tuple[str, str]], side: Side) -> str:
    """Why a rule was not evaluated there, or skipped for the whole host or a subject; "": it was
    evaluated. `keys`: (rule, subject)"""
    host, diagnosis = side.snapshot.host, side.diagnosis
    if diagnosis.hosts and host not in diagnosis.hosts:
        return NOT_EVALUATED
    for skipped in diagnosis.skipped:
        if skipped.host not in (host, ""):
            continue
        for rule, subject in keys:
            if skipped.rule == rule and skipped.subject in ("", *_names_of(subject, side)):
                return skipped.reason
    return ""


def _names_of(subject: str, side: Side) -> Iterator[str]:
    """A NIC, and the address of its PCI function: checks are skipped for either."""
    yield subject
    link = _named(side.snapshot, subject)
    if link is not None and link.pci_address is not None:
        yield link.pci_address


def _rank(finding: OneSidedFinding) -> tuple[int, str, str, str]:
    return SEVERITIES.index(finding.severity), finding.rule, finding.side, finding.subject


def _findings(
    side: Side, left_out: Collection[tuple[str, str, str]] = frozenset()
) -> list[Finding]:
    """Of its host, and of its NIC if it is one. `left_out`: keys of some."""
    found = []
    for finding in side.diagnosis.findings:
        is_of_nic = not side.nic or finding.subject == side.nic
        is_wanted = is_of_nic and _key(finding) not in left_out
        if is_wanted and finding.host == side.snapshot.host:
            found.append(finding)
    return found


def _side_of(finding: Finding, left: Side) -> SideName:
    return "left" if finding.host == left.snapshot.host else "right"


def _finding(
    side: SideName, finding: Finding, *, needs_both: bool = False, why_unchecked: str = ""
) -> OneSidedFinding:
    return OneSidedFinding(
        side,
        finding.rule,
        finding.severity,
        finding.subject,
        finding.title,
        needs_both,
        bool(why_unchecked),
        why_unchecked,
        finding.outdated,
    )
