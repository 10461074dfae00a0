"""How a function becomes a rule, and how all rules are evaluated.

A rule is a pure generator of findings and skips. Its name is the problem that it finds, its
docstring is the explanation that the user reads (``nictop check --explain RULE``): first what is
wrong, then how it is detected, what is not reported, and the source.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from importlib import import_module
from operator import is_
from typing import TYPE_CHECKING, Any, TypedDict

from nictop.model.chain import Step
from nictop.model.doubts import doubts_of
from nictop.model.snapshot import has_platform
from nictop.model.text.words import is_esxi
from nictop.probe.light_dataclasses import dataclass, replace
from nictop.probe.light_tuples import NamedTuple
from nictop.probe.records import NOT_OFFERED_BY_ESXI
from nictop.probe.records.unreadable import NOT_READ_YET
from nictop.rules.cpu_limit import TooLong, limited
from nictop.rules.far_ends import far_ends, with_watched_ends
from nictop.rules.finding import (
    SEVERITIES,
    Cause,
    Finding,
    FindingIdentity,
    Fix,
    Severity,
    Skipped,
)
from nictop.rules.fixes.added_lines import without_added_lines
from nictop.rules.fixes.commands import Command
from nictop.rules.fixes.ipv6_addresses import with_ipv6_notes
from nictop.rules.fixes.odd_names import without_odd_names
from nictop.rules.fixes.previous_connections import with_previous_connection
from nictop.rules.fixes.profile_notes import with_profile_notes
from nictop.rules.host import MIN_SAMPLES, HostFacts, forget_indexes
from nictop.rules.order import RULE_MODULES, step_of
from nictop.rules.outdated import Basis, as_read, marked, with_marks, without_mark
from nictop.rules.sources import (
    SOURCES_WITHOUT_ADDRESSES,
    Missing,
    is_retried,
    missing_sources,
    reason_text,
)
from nictop.rules.without_readings import ReadingNeeded, without_rates, without_readings

if TYPE_CHECKING:
    from typing_extensions import Unpack  # in typing since Python 3.11

FAMILIES: Mapping[str, str] = {
    "profiles": "profiles and names",
    "routes": "addresses and routes",
    "pci": "PCI and SR-IOV",
    "vf": "VF attributes and path",
    "bridges": "bridges and VLANs",
    "virtio": "virtio",
    "vmxnet3": "vmxnet3",
    "hyperv": "Hyper-V",
    "cloud": "cloud NICs",
    "interrupts": "interrupts and softirqs",
    "cpus": "CPUs",
    "bonds": "bonds and teams",
    "link": "link and path",
}
"""Folder of the rules of a family, and of their cases in tests/data/rules → its name, in the order
of lists and pages."""

RULE_SECONDS = 0.05
"""CPU time for each host of a rule: seven times what all rules together need for a host with 200
links."""
MAX_RULE_SECONDS = 0.1
"""CPU time for all hosts of a rule together: the screen does not respond meanwhile."""
TOO_FEW_READINGS = f"rates (of {MIN_SAMPLES} readings): {NOT_READ_YET}"
"""Why a rule is skipped that rests on rates: what it reports lasts for as many."""
RULE_ATTEMPTS = 2
"""Evaluations before a rule is skipped: the first may include an import or a garbage collection."""

Outcomes = Iterator[Finding | Skipped]
HostRule = Callable[[HostFacts], Outcomes]
PairRule = Callable[[Sequence[HostFacts]], Outcomes]


@dataclass(frozen=True)
class Rule:
    """A rule and its properties."""

    name: str
    module: str
    """Where it is: FAMILY.MODULE below `nictop.rules`."""
    family: str
    """Name of the family whose folder that is."""
    severity: Severity
    """The worst of its findings."""
    step: Step
    """The layer of a NIC that it is about."""
    function: HostRule | PairRule
    outcomes: PairRule
    """The function, of one host or of those that it compares."""
    compares_hosts: bool
    """It compares several hosts."""
    yields_to: tuple[str, ...] = ()
    """Rules that name the cause better: when one of them has a finding with the same subject and
    host, that of this rule is left out, so that one cause is reported once."""
    needs: tuple[str, ...] = ()
    """Sources (`nictop.rules.sources`) without which a finding could be false: where one could not
    be read the rule is not evaluated, but skipped with the reason. Links are needed by all."""
    uses: tuple[str, ...] = ()
    """Sources without which a finding could be missed: the rule is evaluated, and reported as
    skipped, too."""
    messages_if: Callable[[HostFacts], bool] | None = None
    """Whether kernel messages of a host could matter to a rule that uses them; None: always."""
    esxi: bool = False
    """It checks ESXi hosts and no others. Other rules that check one host at a time are not
    evaluated for them."""
    sources: tuple[str, ...] = ()
    """All of `needs` and `uses`, and the links."""

    @cached_property
    def explanation(self) -> str:
        """The docstring of the function, unindented: few are shown of those that are evaluated."""
        return inspect.getdoc(self.function) or ""

    @property
    def summary(self) -> str:
        """The first paragraph of its explanation, in one line."""
        return " ".join(self.explanation.split("\n\n")[0].split())

    def evaluate(self, hosts: Sequence[HostFacts]) -> Iterator[Finding | Skipped | None]:
        """Every finding about all hosts; None after each attempt that took too long, where other
        work can be done."""
        groups = (hosts,) if self.compares_hosts else one_by_one(hosts)
        for group in groups:
            yield from _evaluated(self, group)


def one_by_one(hosts: Sequence[HostFacts]) -> tuple[Sequence[HostFacts], ...]:
    return tuple((host,) for host in hosts)


class RuleOptions(TypedDict, total=False):
    """Optional properties; see `Rule`."""

    yields_to: tuple[str, ...]
    needs: tuple[str, ...]
    uses: tuple[str, ...]
    messages_if: Callable[[HostFacts], bool] | None
    esxi: bool


def host_rule(severity: Severity, **options: Unpack[RuleOptions]) -> Callable[[HostRule], HostRule]:
    """Mark a function as a rule that checks one host at a time."""

    def mark(function: HostRule) -> HostRule:
        def outcomes(hosts: Sequence[HostFacts]) -> Outcomes:
            return function(hosts[0])

        _register(function, severity, outcomes, pairs=False, options=options)
        return function

    return mark


def pair_rule(severity: Severity, **options: Unpack[RuleOptions]) -> Callable[[PairRule], PairRule]:
    """Mark a function as a rule that compares hosts; it is evaluated once, with all of them whose
    `needs` could be read."""

    def mark(function: PairRule) -> PairRule:
        _register(function, severity, function, pairs=True, options=options)
        return function

    return mark


class Registry(Mapping[str, Rule]):
    """All rules by name, in the order of `RULE_MODULES`. Their hundred modules are imported when a
    rule is first asked for: a screen is drawn before that."""

    def __init__(self) -> None:
        self._rules: dict[str, Rule] = {}
        self._is_loaded = False

    def load(self) -> Iterator[None]:
        """Import the modules, in steps of which each yields once."""
        if self._is_loaded:
            return
        for module in RULE_MODULES:
            import_module(f"nictop.rules.{module}")
            yield
        self._put_in_order()
        self._is_loaded = True

    def add(self, rule: Rule) -> None:
        if rule.name in self._rules:
            raise ValueError(f"two rules are called {rule.name}")
        self._rules[rule.name] = rule

    def _put_in_order(self) -> None:
        """In whichever order the modules were imported."""
        places = {module: place for place, module in enumerate(RULE_MODULES)}
        ordered = sorted(self._rules.values(), key=lambda rule: places[rule.module])
        self._rules = {rule.name: rule for rule in ordered}

    def _loaded(self) -> dict[str, Rule]:
        if not self._is_loaded:
            for _ in self.load():
                pass
        return self._rules

    def __getitem__(self, name: str) -> Rule:
        return self._loaded()[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._loaded())

    def __len__(self) -> int:
        return len(self._loaded())


RULES = Registry()


def _register(
    function: HostRule | PairRule,
    severity: Severity,
    outcomes: PairRule,
    *,
    pairs: bool,
    options: RuleOptions,
) -> None:
    name, module = function.__name__, function.__module__.removeprefix("nictop.rules.")
    folder = module.partition(".")[0]
    if folder not in FAMILIES:
        raise ValueError(f"{name} is in the module of no family: {function.__module__}")
    rule = Rule(
        name=name,
        module=module,
        family=FAMILIES[folder],
        severity=severity,
        step=step_of(name, module),
        function=function,
        outcomes=outcomes,
        compares_hosts=pairs,
        sources=("links", *options.get("needs", ()), *options.get("uses", ())),
        **options,
    )
    RULES.add(rule)


class KeptOutcomes(NamedTuple):
    """What a rule says of hosts, until something else of them is new than readings; it is in
    `Snapshot.kept` of the first one."""

    others: tuple[dict[Any, Any], ...]
    """`Snapshot.kept` of each other host."""
    outcomes: tuple[Finding | Skipped, ...] | None = None
    """None: they rest on readings, or it was not tried without these."""
    is_tried: bool = False
    """Not at the first evaluation: most commands make only one diagnosis."""

    def is_about(self, others: Sequence[dict[Any, Any]]) -> bool:
        return len(others) == len(self.others) and all(map(is_, others, self.others))


def _evaluated(rule: Rule, hosts: Sequence[HostFacts]) -> Iterator[Finding | Skipped | None]:
    """What a rule says of hosts that it looks at together, and where it is skipped: when it fails,
    and when it takes too long. None after each attempt that took too long."""
    if not hosts or not _concerns(rule, hosts[0]):
        return
    for _ in range(RULE_ATTEMPTS):
        try:
            outcomes = _kept_or_new_outcomes(rule, hosts)
        except TooLong:
            yield None
        else:
            yield from outcomes
            return
    reason = f"check stopped: more than {RULE_SECONDS * 1e3:.0f} ms of CPU time"
    for host in hosts:
        yield Skipped(rule.name, host.name, "", reason)


def _concerns(rule: Rule, host: HostFacts) -> bool:
    """The rule compares hosts, or is about hosts of this kind, or may be."""
    if rule.compares_hosts:
        return True
    if rule.esxi and "platform" in host.inventory.unreadable:
        return True
    return is_esxi(host.inventory.platform) == rule.esxi


def _kept_or_new_outcomes(rule: Rule, hosts: Sequence[HostFacts]) -> tuple[Finding | Skipped, ...]:
    """What a rule says of hosts; what rests on no reading is kept from the second time on. A rule
    that has found something is not said to wait for rates. Raises TooLong."""
    known = _known_outcomes(rule, hosts)
    if known is not None:
        return known
    outcomes = _limited_outcomes(rule, hosts)
    few = [host for host in hosts if _number_of_rates(host) < MIN_SAMPLES]
    if not few or any(isinstance(outcome, Finding) for outcome in outcomes):
        return outcomes
    if not _rests_on_rates(rule, hosts):
        return outcomes
    waiting = [Skipped(rule.name, host.name, "", TOO_FEW_READINGS, "not_watched") for host in few]
    return (*outcomes, *waiting)


def _known_outcomes(rule: Rule, hosts: Sequence[HostFacts]) -> tuple[Finding | Skipped, ...] | None:
    """What is kept of a rule, or can be from now on; None: it rests on readings, or is evaluated
    for the first time with this state of the hosts. Raises TooLong."""
    first, *others = [host.snapshot.kept for host in hosts]
    kept: KeptOutcomes | None = first.get(rule.function)
    if kept is None or not kept.is_about(others):
        kept = first[rule.function] = KeptOutcomes(tuple(others))
    elif not kept.is_tried:
        outcomes = _outcomes_without_readings(rule, hosts)
        kept = first[rule.function] = KeptOutcomes(tuple(others), outcomes, is_tried=True)
    return kept.outcomes


def _outcomes_without_readings(
    rule: Rule, hosts: Sequence[HostFacts]
) -> tuple[Finding | Skipped, ...] | None:
    """None: what the rule says rests on readings. Raises TooLong."""
    try:
        return _limited_outcomes(rule, tuple(map(without_readings, hosts)))
    except ReadingNeeded:
        return None


def _number_of_rates(host: HostFacts) -> int:
    """Not by the attribute: that the rule reads it is noted (`changes.finding_watch`)."""
    return len(vars(host).get("window", ()))


def _rests_on_rates(rule: Rule, hosts: Sequence[HostFacts]) -> bool:
    """The rule asks for rates of these hosts. Raises TooLong."""
    try:
        _limited_outcomes(rule, tuple(map(without_rates, hosts)))
    except ReadingNeeded:
        return True
    return False


def _limited_outcomes(rule: Rule, hosts: Sequence[HostFacts]) -> tuple[Finding | Skipped, ...]:
    """What a rule says in the CPU time that it has. Raises TooLong."""
    allowed = min(RULE_SECONDS * len(hosts), MAX_RULE_SECONDS)
    return limited(allowed, lambda: tuple(_outcomes(rule, hosts)))


def _outcomes(rule: Rule, hosts: Sequence[HostFacts]) -> Outcomes:
    known: list[HostFacts] = []
    hidden: set[tuple[str, str]] = set()
    for host in hosts:
        gaps = missing_sources(rule.sources, host, rule.family)
        if not gaps:
            known.append(host)
            continue
        lost = _lost_subjects(rule, gaps)
        yield from _skipped(rule, host, gaps)
        hidden |= _hidden(host, lost)
        if "" not in lost:
            known.append(host)
    if not known:
        return
    try:
        for outcome in rule.outcomes(known):
            if isinstance(outcome, Skipped) or (outcome.host, outcome.subject) not in hidden:
                yield _of_rule(rule, outcome, known)
    except Exception as error:
        name = known[0].name if len(known) == 1 else ""
        yield Skipped(rule.name, name, "", f"check failed: {type(error).__name__}: {error}")


def _lost_subjects(rule: Rule, gaps: Iterable[tuple[str, Missing]]) -> set[str]:
    """Subjects about which a finding could be false; "": the whole host."""
    lost = set()
    for source, places in gaps:
        if source not in rule.uses:
            lost |= {subject for subject, _ in places}
    return lost


def _skipped(rule: Rule, host: HostFacts, gaps: Iterable[tuple[str, Missing]]) -> Iterator[Skipped]:
    """Where the rule is not evaluated, or could miss something."""
    for source, places in gaps:
        if source == "messages" and not _needs_messages(rule, host):
            continue
        for subject, why in places:
            if why.detail == NOT_OFFERED_BY_ESXI:
                continue
            cause: Cause = "rights" if why.reason == "needs_root" else "no_answer"
            is_retried_soon = not host.snapshot.is_replayed and is_retried(host.inventory, why)
            reason = reason_text(source, why)
            yield Skipped(rule.name, host.name, subject, reason, cause, is_retried_soon)


def _needs_messages(rule: Rule, host: HostFacts) -> bool:
    """Kernel messages of the host could matter to the rule."""
    return rule.messages_if is None or rule.messages_if(host)


def _hidden(host: HostFacts, subjects: Iterable[str]) -> set[tuple[str, str]]:
    """(Host, subject) of these, and of the links of PCI functions among them."""
    found = set()
    for subject in subjects:
        found.add((host.name, subject))
        for link in host.links_of_function.get(subject, ()):
            found.add((host.name, link.name))
    return found


def _of_rule(
    rule: Rule, outcome: Finding | Skipped, hosts: Sequence[HostFacts]
) -> Finding | Skipped:
    """With the name of the rule, and with what its commands need on that host."""
    if isinstance(outcome, Skipped):
        return replace(outcome, rule=rule.name)
    for host in hosts:
        if host.name == outcome.host:
            fixes = without_added_lines(with_profile_notes(host, outcome.fixes))
            fixes = with_previous_connection(host, host.link_at(outcome.ifindex), fixes)
            fixes = without_odd_names(host, with_ipv6_notes(host, fixes, hosts))
            return replace(outcome, rule=rule.name, fixes=fixes)
    return replace(outcome, rule=rule.name)


@dataclass(frozen=True)
class Diagnosis:
    """Findings of all rules about some hosts."""

    findings: tuple[Finding, ...]
    """Worst first, then by host, family and subject."""
    skipped: tuple[Skipped, ...]
    hosts: tuple[str, ...] = ()
    """Names of the hosts for which the rules were evaluated."""
    unchecked: tuple[Finding, ...] = ()
    """Of an earlier diagnosis, which this one could not check again (`rules.unchecked`)."""


def diagnose(
    hosts: Iterable[HostFacts], rules: Iterable[Rule] | None = None, *, in_order: bool = False
) -> Diagnosis:
    """Evaluate every rule (default: all) for the hosts whose inventory is known. `in_order`: hosts
    are compared in the given order instead of by name: of a fault that two hosts have in the same
    way, a rule reports one of them by it."""
    steps = diagnosis_steps(hosts, rules, in_order=in_order)
    while True:
        try:
            next(steps)
        except StopIteration as end:
            diagnosis: Diagnosis = end.value
            return diagnosis


def diagnosis_steps(
    hosts: Iterable[HostFacts], rules: Iterable[Rule] | None = None, *, in_order: bool = False
) -> Generator[None, None, Diagnosis]:
    """`diagnose` in steps: yields after each attempt of each rule for each host; the return value
    of the generator is the diagnosis."""
    known = tuple(host for host in hosts if has_platform(host.snapshot))
    ordered = known if in_order else hosts_by_name(known)
    chosen = tuple(RULES.values() if rules is None else rules)
    findings: list[Finding] = []
    skipped: list[Skipped] = []
    together, alone = (ordered,), one_by_one(known)
    for rule in chosen:
        for group in together if rule.compares_hosts else alone:
            for outcome in _evaluated(rule, group):
                if isinstance(outcome, Finding):
                    findings.append(outcome)
                elif isinstance(outcome, Skipped):
                    skipped.append(outcome)
                else:
                    yield
            yield
    remaining = with_watched_ends(_without_consequences(findings), far_ends(ordered))
    remaining = _with_duplicates(remaining)
    remaining = yield from _with_marks(remaining, ordered)
    places = {rule.name: place for place, rule in enumerate(chosen)}

    def rank(finding: Finding) -> tuple[int, str, int, str]:
        severity = SEVERITIES.index(finding.severity)
        return severity, finding.host, places[finding.rule], finding.subject

    remaining.sort(key=rank)
    names = tuple(host.name for host in known)
    forget_indexes()
    return Diagnosis(tuple(dict.fromkeys(remaining)), tuple(dict.fromkeys(skipped)), names)


DUPLICATES = "ip_address_is_on_two_hosts"


def _with_duplicates(findings: Sequence[Finding]) -> list[Finding]:
    """What sets a link up says which of its addresses another watched host has."""
    duplicates: dict[tuple[str, int | None], list[str]] = {}
    for one in findings:
        if one.rule == DUPLICATES:
            duplicates.setdefault((one.host, one.ifindex), []).append(f"{one.title}.")
    found = []
    for one in findings:
        titles = duplicates.get((one.host, one.ifindex), ())
        fixes = [_with_note_of_up(fix, one.subject, titles) for fix in one.fixes]
        found.append(replace(one, fixes=tuple(fixes)) if titles else one)
    return found


def _with_note_of_up(fix: Fix, name: str, titles: Sequence[str]) -> Fix:
    """If it sets the link of that name up."""
    if fix.where != "here" or Command(("ip", "link", "set", "dev", name, "up")) not in fix.commands:
        return fix
    return replace(fix, note=" ".join((*titles, fix.note)).rstrip())


def hosts_by_name(hosts: Iterable[HostFacts]) -> tuple[HostFacts, ...]:
    """The order in which rules compare hosts: what they find does not depend on that in which hosts
    were named."""
    return tuple(sorted(hosts, key=lambda host: host.name))


COMPARED_MTUS = (
    "mtu_differs_in_one_subnet",
    "veth_ends_have_different_mtus",
    "vf_mtu_exceeds_the_port",
)
"""Rules whose findings are two MTUs, which events tell."""


def _with_marks(
    findings: Sequence[Finding], hosts: Sequence[HostFacts]
) -> Generator[None, None, list[Finding]]:
    """With a mark at those that an event may have changed which no inventory has read, unless they
    are found only because of it and rest on nothing else that follows it."""
    snapshots = [host.snapshot for host in hosts]
    found: Sequence[Finding] = with_marks(findings, snapshots, basis_of)
    rules = {one.rule for one in found if one.outdated and _follows_events(one.rule)}
    before = [as_read(host) if host.snapshot.unread_event is not None else host for host in hosts]
    known: set[FindingIdentity] = set()
    for name in rules:
        known |= yield from _identities_of_all(RULES[name], before)
    followed = {host.name for host in hosts if _are_events_received(host)}
    sure = []
    for one in found:
        is_new = one.rule in rules and one.identity not in known and one.host in followed
        sure.append(without_mark(one) if is_new else one)
    return (yield from _with_marks_of_others(sure, hosts))


def _identities_of_all(
    rule: Rule, hosts: Sequence[HostFacts]
) -> Generator[None, None, set[FindingIdentity]]:
    """Of what the rule finds on these hosts, together or one by one."""
    if rule.compares_hosts:
        return (yield from _identities(rule, hosts))
    found: set[FindingIdentity] = set()
    for host in hosts:
        found |= yield from _identities(rule, [host])
    return found


def _with_marks_of_others(
    findings: Sequence[Finding], hosts: Sequence[HostFacts]
) -> Generator[None, None, list[Finding]]:
    """With a mark also at those about one host that are not found without what was read of others
    before an event that may be about everything there."""
    sure = [host for host in hosts if not _is_all_in_doubt(host)]
    if len(sure) == len(hosts):
        return list(findings)
    names = {host.name for host in sure}
    own = [one for one in findings if one.host in names]
    compared = {one.rule for one in own if RULES[one.rule].compares_hosts}
    rules = {name for name in compared if not _is_known_from_events(RULES[name])}
    known: set[FindingIdentity] = set()
    for name in rules:
        known |= yield from _identities(RULES[name], sure)
    found = []
    for one in findings:
        rests_on_others = one.host in names and one.rule in rules and one.identity not in known
        found.append(marked(one) if rests_on_others else one)
    return found


def _identities(
    rule: Rule, hosts: Sequence[HostFacts]
) -> Generator[None, None, set[FindingIdentity]]:
    """Of what the rule finds on these hosts."""
    found: set[FindingIdentity] = set()
    for outcome in rule.evaluate(hosts):
        if isinstance(outcome, Finding):
            found.add(outcome.identity)
        elif outcome is None:
            yield
    yield
    return found


def basis_of(name: str) -> Basis:
    """What a finding of this rule says may be another thing after an event of addresses, routes,
    managers or profiles (`probe.events.reach`), or only after one of a device. The former of a rule
    that is none of these."""
    if name not in RULES:
        return "addresses"
    areas = {source.partition(".")[0] for source in RULES[name].sources}
    if areas == {"links", "pci"}:
        return "functions"
    return "links" if areas <= SOURCES_WITHOUT_ADDRESSES else "addresses"


def _is_all_in_doubt(host: HostFacts) -> bool:
    doubts = doubts_of(host.snapshot)
    return doubts is not None and doubts.about_addresses


def _are_events_received(host: HostFacts) -> bool:
    doubts = doubts_of(host.snapshot)
    return doubts is None or not doubts.about_states


def _follows_events(name: str) -> bool:
    """What a finding of this rule says may be newer than the inventory."""
    return name in COMPARED_MTUS or _is_known_from_events(RULES[name])


def _is_known_from_events(rule: Rule) -> bool:
    """It is about the state of a link, which its events tell. Other rules would compare that with
    what was read before: a NIC whose carrier has come has no address in an inventory that was begun
    before."""
    return rule.step == "link" and "ethtool.settings" not in rule.sources


def _without_consequences(findings: Sequence[Finding]) -> list[Finding]:
    """Without those whose cause another rule has found for the same subject (`yields_to`)."""
    found = {(finding.rule, finding.host, finding.subject) for finding in findings}

    def has_cause(finding: Finding) -> bool:
        causes = RULES[finding.rule].yields_to
        return any((cause, finding.host, finding.subject) in found for cause in causes)

    return [finding for finding in findings if not has_cause(finding)]
