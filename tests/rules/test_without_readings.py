"""What a rule says is kept while only readings are new, unless it rests on them: a diagnosis with
what was kept is the same as one from scratch."""

from __future__ import annotations

import gc
import json
from collections.abc import Iterator, Sequence
from itertools import count
from typing import Any

import pytest

from nictop.model.snapshot import READINGS, Snapshot, advance, with_state
from nictop.probe.light_dataclasses import replace
from nictop.probe.records import Clock, Line, Outdated, Trouble
from nictop.rules import RULES, Diagnosis, Finding, HostFacts, Skipped, diagnose
from nictop.rules.host import MIN_SAMPLES
from nictop.rules.registry import TOO_FEW_READINGS, host_rule, pair_rule
from nictop.rules.without_readings import ReadingNeeded, without_readings
from nictop.rules.wording import all_clear
from tests.rules.test_rule_cases import cases
from tests.support.lines import change, counters, gone, inventory, link
from tests.support.rule_cases import CASES_DIRECTORY, host_facts

A_MODULE = "nictop.rules.cpus.processors"
"""A rule has the family of its module."""
NO_READINGS: dict[str, Any] = dict.fromkeys(READINGS)


def from_scratch(hosts: list[HostFacts]) -> Diagnosis:
    return diagnose([HostFacts(replace(host.snapshot), host.window) for host in hosts])


def before_its_readings(host: HostFacts) -> HostFacts:
    """As it was when only its inventory was known."""
    return HostFacts(replace(host.snapshot, **NO_READINGS))


def with_its_readings(host: HostFacts, before: HostFacts) -> HostFacts:
    """The host, which has kept what was said before."""
    readings = {name: getattr(host.snapshot, name) for name in READINGS}
    snapshot = replace(before.snapshot, **readings)
    vars(snapshot)["kept"] = before.snapshot.kept
    return HostFacts(snapshot, host.window)


@pytest.mark.parametrize(("path", "kind", "case"), cases())
def test_what_was_said_before_any_reading_is_no_longer_said_after_it(
    path: Any, kind: str, case: dict[str, Any]
) -> None:
    hosts = [host_facts(host) for host in case["hosts"]]
    before = [before_its_readings(host) for host in hosts]
    for _ in range(3):
        assert diagnose(before) == from_scratch(before)
    after = list(map(with_its_readings, hosts, before))
    assert diagnose(after) == from_scratch(hosts)
    assert diagnose(before) == from_scratch(before)


@pytest.fixture
def host() -> HostFacts:
    return host_facts({"base": "kvm-guest", "name": "one"})


NEW_READING = counters(1e6, {})
SOMETHING_ELSE = {
    "inventory": inventory(link(2, "ens192", bus="pci")),
    "link": change(2, "ens192", carrier=False),
    "link that is gone": gone(2, "ens192"),
    "event": Line(outdated=Outdated(1e6, "NetworkManager")),
    "clock": Line(clock=Clock(1e6, 0.0, 0.0)),
    "trouble": Line(trouble=Trouble(1e6, "no events")),
}


def test_a_reading_leaves_what_was_kept(host: HostFacts) -> None:
    assert advance(host.snapshot, NEW_READING).kept is host.snapshot.kept


@pytest.mark.parametrize("line", SOMETHING_ELSE.values(), ids=SOMETHING_ELSE)
def test_everything_else_forgets_it(host: HostFacts, line: Line) -> None:
    assert advance(host.snapshot, line).kept is not host.snapshot.kept
    assert with_state(host.snapshot, "lost", "no data").kept is not host.snapshot.kept


class Asked:
    """Counts how often rules look at a host, that are known while the object is open."""

    def __init__(self) -> None:
        self.inventory = self.readings = self.pair = 0

    def __enter__(self) -> Asked:
        def looks_at_the_inventory(host: HostFacts) -> Iterator[Finding | Skipped]:
            """Wrong."""
            self.inventory += 1
            yield Skipped("", host.name, "", f"{len(host.links)} links")

        def looks_at_readings(host: HostFacts) -> Iterator[Finding | Skipped]:
            """Wrong."""
            try:
                elapsed = host.elapsed
            except Exception:
                elapsed = -1.0
            self.readings += 1
            yield Skipped("", host.name, "", f"{elapsed} s")

        def looks_at_two(hosts: Sequence[HostFacts]) -> Iterator[Finding | Skipped]:
            """Wrong."""
            self.pair += 1
            yield Skipped("", hosts[0].name, "", " ".join(str(len(one.links)) for one in hosts))

        for rule in (looks_at_the_inventory, looks_at_readings, looks_at_two):
            rule.__module__ = A_MODULE
        host_rule("info")(looks_at_the_inventory)
        host_rule("info")(looks_at_readings)
        pair_rule("info")(looks_at_two)
        return self

    def __exit__(self, *_: object) -> None:
        for name in ("looks_at_the_inventory", "looks_at_readings", "looks_at_two"):
            del RULES._rules[name]

    @property
    def counts(self) -> tuple[int, int, int]:
        """Of the rules about the inventory, readings and two hosts."""
        return self.inventory, self.readings, self.pair


def advanced(host: HostFacts, line: Line) -> HostFacts:
    return HostFacts(advance(host.snapshot, line), host.window)


def test_only_rules_that_need_a_reading_are_evaluated_after_one(host: HostFacts) -> None:
    with Asked() as asked:
        for counts in ((1, 1, 1), (2, 2, 2), (2, 3, 2), (2, 4, 2)):
            diagnose([host])
            assert asked.counts == counts
            host = advanced(host, NEW_READING)
        diagnose([advanced(host, SOMETHING_ELSE["event"])])
        assert asked.counts == (3, 5, 3)


def test_a_rule_about_two_hosts_is_evaluated_again_when_one_of_them_is_new(
    host: HostFacts,
) -> None:
    other = host_facts({"base": "vmware-guest", "name": "two"})
    with Asked() as asked:
        diagnose([host, other])
        diagnose([host, other])
        diagnose([advanced(host, NEW_READING), advanced(other, NEW_READING)])
        assert asked.pair == 2
        fewer = advanced(other, SOMETHING_ELSE["link that is gone"])
        said = {one.reason for one in diagnose([host, fewer]).skipped if "two" in one.rule}
        assert said == {f"{len(host.links)} {len(fewer.links)}"}
        diagnose([host])
        assert asked.pair == 4


def test_a_rule_that_took_too_long_is_evaluated_again(host: HostFacts) -> None:
    is_slow = True

    def slow_at_first(host: HostFacts) -> Iterator[Finding | Skipped]:
        """Slow."""
        for _ in count():
            if not is_slow:
                break
        yield Skipped("", host.name, "", "it was asked")

    slow_at_first.__module__ = A_MODULE
    host_rule("info")(slow_at_first)
    rules = [RULES["slow_at_first"]]
    is_slow = False
    diagnose([host], rules)
    is_slow = True
    try:
        assert "check stopped" in diagnose([host], rules).skipped[0].reason
        is_slow = False
        assert diagnose([host], rules).skipped[0].reason == "it was asked"
    finally:
        del RULES._rules["slow_at_first"]


def test_what_is_kept_holds_neither_itself_nor_an_inventory(host: HostFacts) -> None:
    """It is freed with its snapshot, without waiting for a garbage collection."""
    other = host_facts({"base": "vmware-guest", "name": "two"})
    diagnose([host, other])
    diagnose([host, other])
    kept = host.snapshot.kept
    waiting, seen = [*kept.values()], set()
    while waiting:
        one = waiting.pop()
        if id(one) not in seen and not callable(one):
            seen.add(id(one))
            waiting += gc.get_referents(one)
    assert id(kept) not in seen
    assert id(host.inventory) not in seen


def test_a_host_without_its_readings_has_none(host: HostFacts) -> None:
    bare = without_readings(host)
    assert isinstance(bare.snapshot, Snapshot)
    assert bare.inventory is host.inventory
    for name in READINGS:
        with pytest.raises(ReadingNeeded):
            getattr(bare.snapshot, name)
    with pytest.raises(ReadingNeeded):
        replace(bare.snapshot, state="lost")
    for name in ("window", "elapsed", "last_samples", "newest_rates", "saturated_cpus"):
        with pytest.raises(ReadingNeeded):
            getattr(bare, name)


@pytest.mark.parametrize("samples", [0, 1, 2, 4, 10])
def test_a_rule_that_rests_on_rates_waits_for_three_of_them(samples: int) -> None:
    """Two samples of counters make one reading of rates."""
    case = json.loads((CASES_DIRECTORY / "interrupts/backlog_drops_packets.json").read_text())
    host = case["fires"][0]["hosts"][0]
    counters = {**host["counters"], "samples": samples} if samples else {}
    facts = host_facts({**host, "counters": counters})
    diagnosis = diagnose([facts])
    skipped = {check.rule for check in diagnosis.skipped if check.reason == TOO_FEW_READINGS}
    is_waiting = len(facts.window) < MIN_SAMPLES
    assert ("backlog_drops_packets" in skipped) == is_waiting
    assert "arp_is_off" not in skipped
    assert bool(skipped) == is_waiting
    text, _ = all_clear(Diagnosis((), diagnosis.skipped, diagnosis.hosts))
    assert text.startswith("· No problems found so far") == is_waiting
    assert ("waiting" in text and "rates" in text) == is_waiting


def test_a_rule_that_has_found_something_is_not_said_to_wait() -> None:
    """Some of its findings may rest on rates, this one does not."""
    path = CASES_DIRECTORY / "link/veth_ends_have_different_mtus.json"
    waiting = 0
    for case in json.loads(path.read_text())["fires"]:
        diagnosis = diagnose([host_facts({**host, "counters": {}}) for host in case["hosts"]])
        found = {finding.rule for finding in diagnosis.findings}
        skipped = {one.rule for one in diagnosis.skipped if one.reason == TOO_FEW_READINGS}
        assert found.isdisjoint(skipped), case["case"]
        waiting += bool(skipped)
    assert waiting
