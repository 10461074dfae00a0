"""Every fact of two hosts, side by side: those that differ, in three parts: findings that only one
side has, that both have in another form or that are between both hosts, differences, and expected
ones: names, addresses and counters; of one host at two times counters and times. What is not known
of a side is no difference, and neither is a finding whose check did not run on the other side; both
are listed with the reason.

Pure. Facts are those of the panel of each device and of the host (`model.facts`), their routes, and
the kernel settings; texts are not sanitized.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Literal

from nictop.model.devices.links import global_addresses
from nictop.model.devices.tree import row_of_host, row_of_link
from nictop.model.facts.ethtool import OFFLOADS, OTHER_FEATURES
from nictop.model.facts.ethtool_settings import offload_states
from nictop.model.facts.facts import link_facts
from nictop.model.facts.hardware import vf_text
from nictop.model.facts.kernel_log import TITLE as KERNEL_LOG
from nictop.model.facts.lldp import TITLE as LLDP_TITLE
from nictop.model.facts.routing import ROUTING, routing_section
from nictop.model.facts.sections import Fact, Section, section
from nictop.model.parts import sysctl_values
from nictop.model.queues.cpu_lists import format_cpu_list
from nictop.model.queues.plan import queue_plan
from nictop.model.reboot import is_another_boot
from nictop.model.snapshot import Snapshot
from nictop.model.text.units import wall_time_text
from nictop.model.text.words import FAMILY_NAMES, LINK_UP, state_mark, state_text
from nictop.probe.light_dataclasses import dataclass
from nictop.probe.records import Hello, Link, VirtualFunction
from nictop.report.diff.age import notes_of
from nictop.report.diff.findings import OneSidedFinding, Side, compared_findings, named_link
from nictop.report.diff.matching import NicPair, match_nics, nics_of
from nictop.report.diff.on_demand import NOT_READ_THEN, without_unshared_failures
from nictop.report.diff.own_values import OwnValues, host_values
from nictop.report.diff.routes import routes_of_host, routes_of_nic
from nictop.report.diff.unknown import NOT_KNOWN, UnknownFacts

Kind = Literal["differs", "expected", "unknown"]
"""unknown: on one side it is not known."""
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
LIST_SEPARATOR = ", "
ABSENCE_LABELS = frozenset(("Not readable", "Not available", "n/a"))
"""Facts that say themselves what is not known."""
WITHOUT_VALUE = "none"
"""Text of facts that say that there is nothing of their kind."""
NOT_READABLE = ("Host", "Not readable")
REBOOTED = "Boot (rebooted in between)"
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
        found = 0
        for finding in self.findings:
            is_counted_there = finding.differs_there and finding.side == "right"
            found += not (finding.is_unchecked_there or is_counted_there)
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


def compare_sides(left: Side, right: Side, *, is_one_moment: bool = False) -> HostDifferences:
    """With a NIC on each side: those two, whatever their role, and nothing else. `is_one_moment`:
    both states are of the same time, so that what is between the two hosts can be said."""
    pairs = _pairs(left, right)
    only_nics = bool(left.nic or right.nic)
    expectations = BETWEEN_HOSTS
    if _is_one_thing(left, right):
        expectations = OF_ONE_HOST
    host: tuple[Difference, ...] = ()
    if expectations is OF_ONE_HOST:
        host = tuple(_reboot(left.snapshot, right.snapshot))
    if not only_nics:
        host += _host_differences(left.snapshot, right.snapshot, expectations)
    values = (host_values(left.snapshot), host_values(right.snapshot))
    nics = tuple(
        _nic_differences(pair, left.snapshot, right.snapshot, values, expectations)
        for pair in pairs
    )
    findings = compared_findings(
        left,
        right,
        pairs,
        is_one_moment=is_one_moment,
        one_host=expectations is OF_ONE_HOST,
    )
    is_one_host = left.snapshot.host == right.snapshot.host
    notes = [note for side in (left, right) for note in notes_of(side.name, side.snapshot)]
    return HostDifferences(
        left.name,
        right.name,
        findings,
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
    ours = named_link(left.snapshot, left.nic or right.nic)
    theirs = named_link(right.snapshot, right.nic or left.nic)
    return [NicPair(ours, theirs)]


def _host_differences(
    left: Snapshot, right: Snapshot, expectations: Expectations
) -> tuple[Difference, ...]:
    our_side, our_failures = without_unshared_failures(left, right)
    their_side, their_failures = without_unshared_failures(right, left)
    ours, theirs = (
        _facts(_sections_of_host(host), OwnValues(host_values(host)))
        for host in (our_side, their_side)
    )
    unknown = (UnknownFacts(left), UnknownFacts(right))
    found = _differences(ours, theirs, unknown, expectations)
    sysctls = _sysctl_differences(sysctl_values(left), sysctl_values(right), expectations)
    return (*found, *_unshared(our_failures, their_failures), *sysctls)


def _unshared(ours: str, theirs: str) -> Iterator[Difference]:
    """Failures to read what was not read of the other side."""
    if ours:
        yield Difference(*NOT_READABLE, ours, "", "unknown", right_unknown=NOT_READ_THEN)
    if theirs:
        yield Difference(*NOT_READABLE, "", theirs, "unknown", left_unknown=NOT_READ_THEN)


def _sections_of_host(snapshot: Snapshot) -> list[Section]:
    """Those of its panel, of which routes and rules are all compared, and routes over links that
    are not compared."""
    nics = {link.ifindex for link in nics_of(snapshot)}
    known = link_facts(row_of_host(snapshot), snapshot)
    return [
        *(part for part in known if part.title != ROUTING),
        *routing_section(snapshot, max_listed=None),
        *routes_of_host(snapshot, nics),
    ]


def _reboot(left: Snapshot, right: Snapshot) -> Iterator[Difference]:
    """Whether one host was started anew between two times."""
    ours, theirs = left.hello, right.hello
    if ours is None or theirs is None or not is_another_boot(ours, theirs):
        return
    started = [_start_text(hello) for hello in (ours, theirs)]
    yield Difference("Host", REBOOTED, started[0], started[1], "differs")


def _start_text(hello: Hello) -> str:
    """CLOCK_MONOTONIC counts from the boot on, but not while the machine is suspended
    (clock_gettime(2))."""
    return f"kernel started about {wall_time_text(hello.wall - hello.monotonic)}"


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
        *routes_of_nic(link, snapshot),
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
        if _have_no_value(our.text, their.text) and not (why_left or why_right):
            continue
        if our.text.startswith(NOT_KNOWN) and their.text.startswith(NOT_KNOWN):
            continue
        if why_left or why_right:
            kind = "expected" if is_expected else "unknown"
        if label in ABSENCE_LABELS:
            why_left = why_right = ""
        left, right = _known_text(left, why_left), _known_text(right, why_right)
        yield Difference(section, label, left, right, kind, why_left, why_right)


def _have_no_value(left: str, right: str) -> bool:
    """One side has no such fact, and the other one says that there is none: what it has instead is
    in other facts (no address, where the other side has IPv4 and IPv6 ones)."""
    return {left, right} == {"", WITHOUT_VALUE}


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
