"""What the checks of `nictop check` know of a path whose packets are lost: it is named instead of
what is only possible. Pure.

Only checks of what can stop all packets between two NICs, of the watched hosts: the ends, and what
is between them if it is watched.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from nictop.probe.light_dataclasses import replace
from nictop.rules.finding import Evidence, Finding
from nictop.rules.host import HostFacts
from nictop.rules.registry import RULES, diagnose
from nictop.traffic.path.result import PathEnd, PathResult

UNEXPLAINED = ("path_lost", "path_no_answer", "path_no_neighbour", "path_gateway_silent")
ISOLATED = "isolated_ports_separate_watched_hosts"
"""It may be set on purpose, and is info then: no packet passes in either case."""
RULES_OF_BOTH_ENDS = (
    "another_mac_address_answers_for_a_watched_host",
    "guest_is_on_another_bridge",
    "ip_address_is_on_two_hosts",
    ISOLATED,
    "link_is_in_the_network_of_another",
    "part_of_a_subnet_is_routed_by_another_nic",
    "prefix_length_differs",
    "route_refuses_a_watched_host",
    "watched_host_is_routed_by_another_nic",
)
"""Their finding is about this path if it names both ends."""
RULES_OF_ONE_END = (
    "arp_is_off",
    "arp_requests_are_not_answered",
    "bridge_port_does_not_forward",
    "bridge_port_holds_back_frames",
    "bridge_port_to_a_watched_host_is_down",
    "guest_address_is_learned_on_another_port",
    "guest_tap_is_on_no_bridge",
    "hypervisor_has_disconnected_the_nic",
    "vlan_is_not_on_the_bridge_port",
)
MAX_NAMED = 3
POSSIBLE = "Possible: "


def with_known_causes(
    findings: tuple[Finding, ...], result: PathResult, facts: Mapping[str, HostFacts]
) -> tuple[Finding, ...]:
    """The findings of a path test, with the causes that are known for those that are unexplained.
    `facts`: of all watched hosts."""
    if not any(_is_unexplained(finding) for finding in findings):
        return findings
    first = result.directions[0]
    causes = _known_causes((first.sender, first.receiver), tuple(facts.values()))[:MAX_NAMED]
    if not causes:
        return findings
    return tuple(
        _explained(finding, causes) if _is_unexplained(finding) else finding for finding in findings
    )


def _is_unexplained(finding: Finding) -> bool:
    """Its cause is only guessed."""
    return finding.rule in UNEXPLAINED and POSSIBLE in finding.why


def _known_causes(ends: Sequence[PathEnd], hosts: Sequence[HostFacts]) -> list[Finding]:
    rules = [RULES[name] for name in (*RULES_OF_BOTH_ENDS, *RULES_OF_ONE_END)]
    found = []
    for finding in diagnose(hosts, rules).findings:
        named = [end for end in ends if _names(finding, end)]
        least = 2 if finding.rule in RULES_OF_BOTH_ENDS else 1
        is_fault = finding.severity != "info" or finding.rule == ISOLATED
        if is_fault and len(named) >= least:
            found.append(finding)
    return found


def _names(finding: Finding, end: PathEnd) -> bool:
    own = (end.host, end.ifindex)
    if own == (finding.host, finding.ifindex) or own in finding.also:
        return True
    texts = [finding.title, *(f"{one.what} {one.value}" for one in finding.evidence)]
    return any(_has_word(text, word) for text in texts for word in _words_of(end))


def _words_of(end: PathEnd) -> Iterator[str]:
    yield end.address.partition("%")[0]
    if end.mac:
        yield end.mac
    if end.nic:
        yield f"{end.host} {end.nic}"


def _has_word(text: str, word: str) -> bool:
    """``198.18.0.1`` is in ``198.18.0.1/24``, not in ``198.18.0.11``."""
    before, found, after = text.partition(word)
    while found:
        if not _continues(before[-1:]) and not _continues(after[:1]):
            return True
        before, found, after = after.partition(word)
    return False


def _continues(character: str) -> bool:
    """An address, a MAC address or a name continues with it."""
    return character.isalnum() or (character != "" and character in "._-")


def _explained(finding: Finding, causes: Iterable[Finding]) -> Finding:
    """The known causes stand in place of the possible ones."""
    texts = [f"{cause.host} {cause.subject}: {cause.title}".replace(" :", ":") for cause in causes]
    known, _, _ = finding.why.partition(POSSIBLE)
    evidence = [Evidence("nictop check", text, "its findings") for text in texts]
    why = (
        f"{known}nictop check has a finding on this path that can be the cause: {texts[0]}. It "
        "has the evidence and the fix."
    )
    return replace(finding, evidence=(*evidence, *finding.evidence), why=why, fixes=())
