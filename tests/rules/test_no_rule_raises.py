"""Whatever a probe sends, every rule returns findings, nothing, or the reason why it could not be
evaluated.

Inputs are healthy hosts with random mutations, and completely random hosts.
"""

from __future__ import annotations

import dataclasses
import random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from nictop.model.snapshot import Snapshot, advance, with_state
from nictop.probe.records import Counters, Hello, Inventory, Line
from nictop.rules import RULES, Diagnosis, HostFacts, diagnose
from tests.support.arbitrary import arbitrary, mutated
from tests.support.rule_cases import HELLO, base, counters_of, inventory_of

BASES = ("kvm-guest", "vmware-guest", "hyperv-guest", "hypervisor")


def host_facts(name: str, inventory: Inventory, counters: list[Counters]) -> HostFacts:
    """The host after these lines; as for a live host, counters without increasing time give no
    rates."""
    snapshot = with_state(Snapshot.empty(name), "live", "")
    snapshot = advance(advance(snapshot, Line(hello=Hello(**HELLO))), Line(inventory=inventory))  # type: ignore[arg-type]
    window = []
    for record in counters:
        snapshot = advance(snapshot, Line(counters=record))
        if snapshot.rates is not None:
            window.append(snapshot.rates)
    return HostFacts(snapshot, tuple(window))


def mutated_host(name: str, number: random.Random, share: float) -> HostFacts:
    host = base(name)
    inventory, ifindexes = inventory_of(host)
    counters = [
        dataclasses.replace(mutated(record, Counters, number, share), time=record.time)
        for record in counters_of(host.get("counters", {}), ifindexes, inventory)[:5]
    ]
    return host_facts(name, mutated(inventory, Inventory, number, share), counters)


def arbitrary_host(name: str, number: random.Random) -> HostFacts:
    inventory = arbitrary(Inventory, number)
    counters = [
        dataclasses.replace(arbitrary(Counters, number), time=float(second)) for second in range(5)
    ]
    return host_facts(name, inventory, counters)


def failures(diagnosis: Diagnosis) -> list[tuple[str, str]]:
    return [
        (one.rule, one.reason) for one in diagnosis.skipped if one.reason.startswith("check failed")
    ]


def assert_sound(diagnosis: Diagnosis) -> None:
    assert failures(diagnosis) == []
    for finding in diagnosis.findings:
        assert finding.rule in RULES and finding.title and finding.why and finding.evidence
        for fix in finding.fixes:
            assert fix.title
            assert not any(
                "\n" in line or "\x1b" in line for line in map(str, (*fix.commands, *fix.undo))
            )


@pytest.mark.parametrize("share", [0.002, 0.02, 0.1])
@given(st.sampled_from(BASES), st.sampled_from(BASES), st.integers(0, 2**32))
@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
def test_healthy_hosts_with_mutations(share: float, first: str, second: str, seed: int) -> None:
    number = random.Random(seed)
    hosts = [mutated_host(first, number, share), mutated_host(second, number, share)]
    assert_sound(diagnose(hosts))


@given(st.integers(0, 2**32))
@settings(max_examples=100, deadline=None, suppress_health_check=list(HealthCheck))
def test_completely_random_hosts(seed: int) -> None:
    number = random.Random(seed)
    assert_sound(diagnose([arbitrary_host("one", number), arbitrary_host("two", number)]))


def test_random_hosts_have_findings() -> None:
    """Checks the generator: random hosts without any finding would prove nothing."""
    number = random.Random(7)
    spoke: set[str] = set()
    for _ in range(360):
        diagnosis = diagnose([mutated_host(name, number, 0.1) for name in BASES])
        spoke |= {finding.rule for finding in diagnosis.findings}
        if len(spoke) >= len(RULES) // 4:
            return
    pytest.fail(f"only these: {sorted(spoke)}")
