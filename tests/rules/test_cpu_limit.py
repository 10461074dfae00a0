"""A rule that exceeds its CPU time is interrupted and skipped with the reason; all other rules are
evaluated."""

from __future__ import annotations

import re
import signal
import time
from collections.abc import Iterator, Sequence
from itertools import count

import pytest

from nictop.rules import RULES, Diagnosis, Finding, HostFacts, Skipped, diagnose, diagnosis_steps
from nictop.rules.cpu_limit import TooLong, limited
from nictop.rules.registry import MAX_RULE_SECONDS, RULE_ATTEMPTS, host_rule, pair_rule
from tests.support.rule_cases import host_facts

A_MODULE = "nictop.rules.cpus.processors"
"""A rule has the family of its module."""
REASON = "check stopped: more than 50 ms of CPU time"


def forever(host: HostFacts) -> None:
    for _ in count():
        pass


def swallowing(host: HostFacts) -> None:
    """A rule that catches exceptions is interrupted all the same."""
    for _ in count():
        try:
            RULES["no such rule"]
        except Exception:
            continue


def matching(host: HostFacts) -> None:
    """Exponential regular expression: 2^60 steps inside one call."""
    re.fullmatch(r"(a|a)*b", "a" * 60)


@pytest.fixture
def hosts() -> list[HostFacts]:
    return [
        host_facts({"base": "kvm-guest", "name": "one"}),
        host_facts({"base": "vmware-guest", "name": "two"}),
    ]


@pytest.fixture(params=[forever, swallowing, matching])
def slow_rules(request: pytest.FixtureRequest) -> Iterator[None]:
    """One rule for each host, slow for the first host, and one rule for all hosts."""

    def slow_for_one(host: HostFacts) -> Iterator[Finding | Skipped]:
        """Slow."""
        if host.name == "one":
            request.param(host)
        yield Skipped("slow_for_one", host.name, "", "it was asked")

    def slow_for_all(hosts: Sequence[HostFacts]) -> Iterator[Finding | Skipped]:
        """Slow."""
        yield Skipped("slow_for_all", "one", "", "half of it")
        request.param(hosts[0])

    slow_for_one.__module__ = slow_for_all.__module__ = A_MODULE
    host_rule("info")(slow_for_one)
    pair_rule("info")(slow_for_all)
    yield
    del RULES._rules["slow_for_one"], RULES._rules["slow_for_all"]


def skips(diagnosis: Diagnosis) -> dict[tuple[str, str], str]:
    return {
        (one.rule, one.host): one.reason
        for one in diagnosis.skipped
        if one.rule.startswith("slow_")
    }


def test_a_rule_that_takes_too_long_is_skipped_with_the_reason(
    slow_rules: None, hosts: list[HostFacts]
) -> None:
    without = [rule for rule in RULES.values() if not rule.name.startswith("slow_")]
    diagnosis = diagnose(hosts)
    assert skips(diagnosis) == {
        ("slow_for_one", "one"): REASON,
        ("slow_for_one", "two"): "it was asked",
        ("slow_for_all", "one"): REASON,
        ("slow_for_all", "two"): REASON,
    }
    assert diagnosis.findings == diagnose(hosts, without).findings
    assert signal.getitimer(signal.ITIMER_VIRTUAL) == (0.0, 0.0)


def test_a_rule_that_is_slow_once_is_evaluated_again(hosts: list[HostFacts]) -> None:
    """Such as after an import or a garbage collection."""
    asked = count()

    def slow_at_first(host: HostFacts) -> Iterator[Finding | Skipped]:
        """Slow."""
        if next(asked) == 0:
            forever(host)
        yield Skipped("slow_at_first", host.name, "", "it was asked")

    slow_at_first.__module__ = A_MODULE
    host_rule("info")(slow_at_first)
    try:
        assert set(skips(diagnose(hosts)).values()) == {"it was asked"}
    finally:
        del RULES._rules["slow_at_first"]


def test_evaluation_yields_after_each_rule_and_host(hosts: list[HostFacts]) -> None:
    steps = sum(1 for _ in diagnosis_steps(hosts))
    assert steps == sum(1 if rule.compares_hosts else len(hosts) for rule in RULES.values())


def test_evaluation_yields_after_each_attempt(slow_rules: None, hosts: list[HostFacts]) -> None:
    rules = [RULES["slow_for_one"], RULES["slow_for_all"]]
    slow = RULE_ATTEMPTS * len(rules)
    assert sum(1 for _ in diagnosis_steps(hosts, rules)) == slow + len(hosts) + 1


def test_a_rule_that_ends_in_time_is_not_interrupted_later() -> None:
    for _ in range(200):
        assert limited(0.001, lambda: 7) == 7
    begin = time.thread_time()
    while time.thread_time() - begin < 0.05:
        pass
    with pytest.raises(TooLong):
        limited(0.01, lambda: sum(1 for _ in count()))
    with pytest.raises(ZeroDivisionError):
        limited(1.0, lambda: 1 // 0)
    assert signal.getitimer(signal.ITIMER_VIRTUAL) == (0.0, 0.0)


def test_the_cpu_limit_does_not_grow_with_the_number_of_hosts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The limits of 64 hosts would add up to 3.2 s."""
    allowed: list[float] = []

    def noted(seconds: float, _: object) -> tuple[Finding, ...]:
        allowed.append(seconds)
        return ()

    monkeypatch.setattr("nictop.rules.registry.limited", noted)
    diagnose(
        [host_facts({"base": "kvm-guest", "name": f"host{number}"}) for number in range(64)],
        [rule for rule in RULES.values() if rule.compares_hosts],
    )
    assert allowed and set(allowed) == {MAX_RULE_SECONDS}
