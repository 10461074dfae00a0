"""A rule that takes too long is interrupted and skipped with the reason; all others are asked."""

from __future__ import annotations

import re
import signal
import time
from collections.abc import Iterator, Sequence
from itertools import count

import pytest

from nictop.rules import RULES, Diagnosis, Finding, HostFacts, Skipped, diagnose, diagnosis_steps
from nictop.rules.cpu_limit import TooLong, limited
from nictop.rules.registry import MAX_RULE_SECONDS, host_rule, pair_rule
from tests.support.rule_cases import watched

REASON = "the rule took more than 50 ms of CPU time and was interrupted"


def forever(host: HostFacts) -> None:
    for _ in count():
        pass


def swallowing(host: HostFacts) -> None:
    """What handles its own exceptions is interrupted all the same."""
    for _ in count():
        try:
            RULES["no such rule"]
        except Exception:
            continue


def matching(host: HostFacts) -> None:
    """Exponential: 2^60 steps inside of one call."""
    re.fullmatch(r"(a|a)*b", "a" * 60)


@pytest.fixture
def hosts() -> list[HostFacts]:
    return [watched({"base": "kvm-guest", "name": "one"}), watched({"base": "vmware-guest", "name": "two"})]


@pytest.fixture(params=[forever, swallowing, matching])
def slow_rules(request: pytest.FixtureRequest) -> Iterator[None]:
    """One about each host, which is slow for the first, and one about all."""

    def slow_for_one(host: HostFacts) -> Iterator[Finding | Skipped]:
        """Slow."""
        if host.name == "one":
            request.param(host)
        yield Skipped("slow_for_one", host.name, "", "it was asked")

    def slow_for_all(hosts: Sequence[HostFacts]) -> Iterator[Finding | Skipped]:
        """Slow."""
        yield Skipped("slow_for_all", "one", "", "half of it")
        request.param(hosts[0])

    host_rule("processors", "info")(slow_for_one)
    pair_rule("processors", "info")(slow_for_all)
    yield
    del RULES["slow_for_one"], RULES["slow_for_all"]


def skips(diagnosis: Diagnosis) -> dict[tuple[str, str], str]:
    return {(one.rule, one.host): one.reason for one in diagnosis.skipped if one.rule.startswith("slow_")}


def test_a_rule_that_takes_too_long_is_skipped_with_the_reason(slow_rules: None, hosts: list[HostFacts]) -> None:
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


def test_one_that_is_slow_once_is_asked_again(hosts: list[HostFacts]) -> None:
    """As after the import of a module, or a collection of garbage."""
    asked = count()

    def slow_at_first(host: HostFacts) -> Iterator[Finding | Skipped]:
        """Slow."""
        if next(asked) == 0:
            forever(host)
        yield Skipped("slow_at_first", host.name, "", "it was asked")

    host_rule("processors", "info")(slow_at_first)
    try:
        assert set(skips(diagnose(hosts)).values()) == {"it was asked"}
    finally:
        del RULES["slow_at_first"]


def test_steps_pause_after_each_rule_and_host(hosts: list[HostFacts]) -> None:
    steps = sum(1 for _ in diagnosis_steps(hosts))
    assert steps == sum(1 if rule.pairs else len(hosts) for rule in RULES.values())


def test_what_ends_in_time_is_not_interrupted_later() -> None:
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


def test_many_hosts_together_do_not_keep_keys_waiting_longer(monkeypatch: pytest.MonkeyPatch) -> None:
    """64 hosts would have 3.2 s."""
    allowed: list[float] = []
    monkeypatch.setattr("nictop.rules.registry.limited", lambda seconds, _: allowed.append(seconds))
    diagnose(
        [watched({"base": "kvm-guest", "name": f"host{number}"}) for number in range(64)],
        [rule for rule in RULES.values() if rule.pairs],
    )
    assert allowed and set(allowed) == {MAX_RULE_SECONDS}
